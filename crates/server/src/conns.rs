//! Where a thread keeps its connections.
use crate::{conn::Conn, mailbox::Token};

/// Connections by index, with the generation of each place.
#[derive(Default)]
pub(crate) struct Conns {
    pub places: Vec<(u32, Option<Box<Conn>>)>,
    pub free: Vec<u32>,
    pub live: usize,
}

impl Conns {
    pub fn place(&mut self) -> Token {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push((0, None));
            self.places.len() as u32 - 1
        });
        Token { index, generation: self.places[index as usize].0 }
    }

    pub fn take(&mut self, token: Token) -> Option<Box<Conn>> {
        let (generation, conn) = self.places.get_mut(token.index as usize)?;
        if *generation == token.generation { conn.take() } else { None }
    }

    pub fn put(&mut self, conn: Box<Conn>) {
        let index = conn.token.index as usize;
        self.places[index].1 = Some(conn);
    }

    pub fn remove(&mut self, token: Token) {
        let place = &mut self.places[token.index as usize];
        place.0 = (place.0 + 1) & 0x7fff_ffff;
        place.1 = None;
        self.free.push(token.index);
        self.live -= 1;
    }

    pub fn tokens(&self) -> Vec<Token> {
        let live = self.places.iter().filter_map(|(_, c)| Some(c.as_ref()?.token));
        live.collect()
    }
}
