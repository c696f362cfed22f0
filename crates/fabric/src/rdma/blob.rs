//! What the two sides tell each other of their queue pairs, within the handshake. Bytes in, values out.

use crate::ibv::{ENDPOINT_BYTES, Endpoint, Remote};
use crate::{Error, limits};

/// Where a ring is: the memory that the peer may write.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Inbox {
    pub at: Remote,
    pub ring_bytes: u64,
}

/// Queue pair, then the inbox: address (u64), key (u32), zero (u32), bytes of the ring (u64); little-endian.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct OneSidedBlob {
    pub endpoint: Endpoint,
    pub inbox: Inbox,
}

const BYTES: usize = ENDPOINT_BYTES + 24;
const _: () = assert!(BYTES <= limits::BLOB_BYTES && 3 * ENDPOINT_BYTES <= limits::BLOB_BYTES);

impl OneSidedBlob {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.endpoint.encode().to_vec();
        out.extend(self.inbox.at.address.to_le_bytes());
        out.extend(u64::from(self.inbox.at.key).to_le_bytes());
        out.extend(self.inbox.ring_bytes.to_le_bytes());
        out
    }

    /// # Errors
    /// [`Error::Protocol`] for what cannot be.
    pub fn decode(from: &[u8]) -> Result<OneSidedBlob, Error> {
        const WRONG: Error = Error::Protocol("an impossible queue pair or ring");
        if from.len() != BYTES {
            return Err(WRONG);
        }
        let (endpoint, words) = from.split_first_chunk().ok_or(WRONG)?;
        let mut words = words.chunks_exact(8).map(|c| c.try_into().map_or(0, u64::from_le_bytes));
        let mut word = || words.next().ok_or(WRONG);
        let (address, key, ring_bytes) = (word()?, word()?, word()?);
        if !ring_bytes.is_power_of_two() || !limits::RING_BYTES_RANGE.contains(&ring_bytes) {
            return Err(WRONG);
        }
        let key = u32::try_from(key).map_err(|_| WRONG)?;
        // So that adding an offset within the inbox to it cannot overflow.
        if address > u64::MAX / 2 {
            return Err(WRONG);
        }
        let endpoint = Endpoint::decode(endpoint).ok_or(WRONG)?;
        Ok(OneSidedBlob { endpoint, inbox: Inbox { at: Remote { address, key }, ring_bytes } })
    }
}

/// The queue pair of the messages, that of the listening side's agent, and, if the connecting side hands out regions, that of its own.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct TwoSidedBlob {
    pub messages: Endpoint,
    pub agent: Endpoint,
    pub peers_agent: Option<Endpoint>,
}

impl TwoSidedBlob {
    pub fn encode(&self) -> Vec<u8> {
        let pairs = [Some(self.messages), Some(self.agent), self.peers_agent];
        pairs.iter().flatten().flat_map(Endpoint::encode).collect()
    }

    /// # Errors
    /// [`Error::Protocol`] for what cannot be.
    pub fn decode(from: &[u8]) -> Result<TwoSidedBlob, Error> {
        const WRONG: Error = Error::Protocol("impossible queue pairs");
        let (messages, rest) = from.split_first_chunk().ok_or(WRONG)?;
        let (agent, rest) = rest.split_first_chunk().ok_or(WRONG)?;
        let peers_agent = match rest.split_first_chunk() {
            None if rest.is_empty() => None,
            Some((third, [])) => Some(Endpoint::decode(third).ok_or(WRONG)?),
            _ => return Err(WRONG),
        };
        match (Endpoint::decode(messages), Endpoint::decode(agent)) {
            (Some(messages), Some(agent)) => Ok(TwoSidedBlob { messages, agent, peers_agent }),
            _ => Err(WRONG),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOOD: OneSidedBlob = OneSidedBlob {
        endpoint: Endpoint {
            number: 17,
            sequence: 5,
            lid: 0,
            mtu: 5,
            reads_in: 16,
            reads_out: 1,
            gid: [3; 16],
        },
        inbox: Inbox { at: Remote { address: 0x7fff_0000_1000, key: 0x1234_5678 }, ring_bytes: 16 << 10 },
    };

    proptest! {
        #[test]
        fn what_is_told_is_understood_and_all_else_is_refused_or_the_same(at in 0..BYTES, byte: u8, cut in 0..=BYTES) {
            let mut bytes = GOOD.encode();
            prop_assert_eq!(OneSidedBlob::decode(&bytes).unwrap(), GOOD);
            bytes[at] = byte;
            if let Ok(other) = OneSidedBlob::decode(&bytes) {
                prop_assert_eq!(other.encode(), bytes.clone());
                prop_assert!(limits::RING_BYTES_RANGE.contains(&other.inbox.ring_bytes));
            }
            let agent = Endpoint { number: 18, ..GOOD.endpoint };
            for peers_agent in [None, Some(Endpoint { number: 19, ..GOOD.endpoint })] {
                let two = TwoSidedBlob { messages: GOOD.endpoint, agent, peers_agent };
                prop_assert_eq!(TwoSidedBlob::decode(&two.encode()).unwrap(), two);
            }
            prop_assert!(TwoSidedBlob::decode(&bytes).is_err());
            prop_assert!(cut == BYTES || OneSidedBlob::decode(&bytes[..cut]).is_err());
        }
    }
}
