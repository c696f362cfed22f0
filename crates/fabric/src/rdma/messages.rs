//! Messages of any size over something that carries pieces.

use crate::ring::Piece;
use crate::{Error, limits};

/// Carries pieces of messages, whole and in order.
pub(super) trait Pieces {
    /// Bytes of the largest piece to the peer.
    fn piece_bytes(&self) -> usize;
    /// Sends one piece; [`Error::Full`] if there is no room now.
    fn push(&mut self, piece: &[u8], more: bool) -> Result<(), Error>;
    /// Appends the next piece, if one has come.
    fn pop(&mut self, into: &mut Vec<u8>) -> Result<Option<Piece>, Error>;
}

/// What is left to send of one message, and what has come of another.
#[derive(Default)]
pub(super) struct Messages {
    backlog: Vec<u8>,
    sent: usize,
    assembly: Vec<u8>,
}

impl Messages {
    /// Whether a message is partly sent.
    pub fn has_backlog(&self) -> bool {
        self.sent < self.backlog.len()
    }

    /// Sends on what is left of a large message, as far as there is room.
    pub fn push_backlog(&mut self, pieces: &mut impl Pieces) -> Result<(), Error> {
        while self.has_backlog() {
            let rest = &self.backlog[self.sent..];
            let length = pieces.piece_bytes().min(rest.len());
            match pieces.push(&rest[..length], rest.len() > length) {
                Ok(()) => self.sent += length,
                Err(Error::Full) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.backlog.clear();
        self.sent = 0;
        Ok(())
    }

    /// Sends a message; its bytes have been copied when this returns.
    pub fn send(&mut self, pieces: &mut impl Pieces, message: &[u8]) -> Result<(), Error> {
        if message.len() > limits::MESSAGE_BYTES {
            return Err(Error::TooLarge { bytes: message.len() as u64, limit: limits::MESSAGE_BYTES as u64 });
        }
        self.push_backlog(pieces)?;
        if self.has_backlog() {
            return Err(Error::Full);
        }
        let (first, rest) = message.split_at(pieces.piece_bytes().min(message.len()));
        pieces.push(first, !rest.is_empty())?;
        self.backlog.extend_from_slice(rest);
        self.push_backlog(pieces)
    }

    /// Appends the next whole message and answers its length.
    pub fn receive(&mut self, pieces: &mut impl Pieces, into: &mut Vec<u8>) -> Result<Option<usize>, Error> {
        if self.assembly.is_empty() {
            let start = into.len();
            match pieces.pop(into)? {
                None => return Ok(None),
                Some(Piece { bytes, more: false }) => return Ok(Some(bytes)),
                Some(_) => self.assembly.extend(into.drain(start..)),
            }
        }
        while let Some(piece) = pieces.pop(&mut self.assembly)? {
            if self.assembly.len() > limits::MESSAGE_BYTES {
                return Err(Error::Protocol("a message larger than any"));
            }
            if !piece.more {
                let bytes = self.assembly.len();
                into.append(&mut self.assembly);
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// Room for three pieces of four bytes.
    #[derive(Default)]
    struct Small(VecDeque<(Vec<u8>, bool)>);

    impl Pieces for Small {
        fn piece_bytes(&self) -> usize {
            4
        }
        fn push(&mut self, piece: &[u8], more: bool) -> Result<(), Error> {
            assert!(piece.len() <= 4);
            if self.0.len() == 3 {
                return Err(Error::Full);
            }
            self.0.push_back((piece.to_vec(), more));
            Ok(())
        }
        fn pop(&mut self, into: &mut Vec<u8>) -> Result<Option<Piece>, Error> {
            let Some((piece, more)) = self.0.pop_front() else { return Ok(None) };
            into.extend_from_slice(&piece);
            Ok(Some(Piece { bytes: piece.len(), more }))
        }
    }

    #[test]
    fn messages_larger_than_the_room_arrive_whole_and_others_wait_behind_them() {
        let (mut pieces, mut messages) = (Small::default(), Messages::default());
        let large: Vec<u8> = (0..23).collect();
        messages.send(&mut pieces, &large).unwrap();
        assert!(matches!(messages.send(&mut pieces, b"late"), Err(Error::Full)));
        let mut into = vec![9];
        assert_eq!(messages.receive(&mut pieces, &mut into).unwrap(), None);
        assert_eq!(into, [9], "no part of a message is shown");
        messages.push_backlog(&mut pieces).unwrap();
        assert_eq!(messages.receive(&mut pieces, &mut into).unwrap(), Some(23));
        assert_eq!(into[1..], large);
        into.clear();
        messages.send(&mut pieces, b"late").unwrap();
        assert_eq!(messages.receive(&mut pieces, &mut into).unwrap(), Some(4));
        assert_eq!(into, b"late");
        messages.send(&mut pieces, b"").unwrap();
        assert_eq!(messages.receive(&mut pieces, &mut into).unwrap(), Some(0));
    }
}
