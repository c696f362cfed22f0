//! The datagram protocol: one UDP datagram asks, one answers. The page is `spec/wire.md`.
//!
//! ```text
//!   byte  0        1        2        3        4   5    6   7     8
//!   ask   op       v | fl   key      subkey   value    id        key, subkey, value, each padded to 8
//!   tell  op+80h   status   0        0        value    id        value, padded to 8
//! ```
//! [`parse`] is total: whatever the bytes, it says *drop* (no answer is owed), *refuse* (with a status) or gives a
//! [`Request`] whose parts are there, have the lengths they may have, and whose score, if it has one, is one.
//! No state, no allocation.

/// Bytes of a key.
pub const KEY_MAX: usize = 64;
/// Bytes of a hash field or a set's member.
pub const SUBKEY_MAX: usize = 64;
/// Bytes of a sorted set's member.
pub const ZMEMBER_MAX: usize = 16;
/// Bytes of key, subkey and value, each padded.
pub const ITEM_MAX: usize = 464;
/// Bytes of a datagram.
pub const DATAGRAM_MAX: usize = 1472;
/// Records in one answer of ZRANGE.
pub const ZRANGE_MAX: u32 = 14;
/// Bytes of a record of ZRANGE and ZPOPMIN: score key, length, member.
pub const RECORD_SIZE: usize = 32;
const HEAD: usize = 8;
const VERSION: u8 = 1;
const _: () = assert!(ZRANGE_MAX as usize * RECORD_SIZE <= ITEM_MAX);
const _: () = assert!(HEAD + ITEM_MAX <= DATAGRAM_MAX);

macro_rules! codes {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $code:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum $name { $($(#[$doc])* $variant = $code,)* }

        impl $name {
            /// What stands for this number, if anything does.
            pub fn from_code(code: u8) -> Option<Self> {
                match code { $($code => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

codes! {
    /// Operations; the high half is the engine.
    Op {
        /// Nothing.
        Ping = 0x00,
        /// Reads a string.
        Get = 0x01,
        /// Writes a string.
        Set = 0x02,
        /// Removes a string.
        Del = 0x03,
        /// Adds an element at the left end.
        LPush = 0x11,
        /// Adds an element at the right end.
        RPush = 0x12,
        /// Removes the leftmost element.
        LPop = 0x13,
        /// Removes the rightmost element.
        RPop = 0x14,
        /// Reads a field.
        HGet = 0x21,
        /// Writes a field.
        HSet = 0x22,
        /// Removes a field.
        HDel = 0x23,
        /// Adds a member.
        SAdd = 0x31,
        /// Removes a member.
        SRem = 0x32,
        /// Asks for a member.
        SIsMember = 0x33,
        /// Removes some member.
        SPop = 0x34,
        /// Gives a member a score.
        ZAdd = 0x41,
        /// Reads a score.
        ZScore = 0x42,
        /// Removes a member.
        ZRem = 0x43,
        /// Removes the first member.
        ZPopMin = 0x44,
        /// Reads members by rank.
        ZRange = 0x45,
        /// Reads the counters.
        Stats = 0x70,
    }
}

codes! {
    /// Status of an answer.
    Status {
        /// Done; it was there, or is new.
        Ok = 0x00,
        /// There is nothing.
        Miss = 0x01,
        /// Done; it had been there before.
        Replaced = 0x02,
        /// No such operation.
        BadOp = 0x40,
        /// A part too many, missing or of the wrong length, or a flag.
        BadField = 0x41,
        /// A part or the item is above its limit.
        TooLong = 0x42,
        /// The bits of a score are no score.
        BadValue = 0x43,
        /// The key holds another type.
        WrongType = 0x44,
        /// No memory; nothing was changed.
        NoMemory = 0x45,
        /// The collection has as many members as it may; nothing was changed.
        Full = 0x46,
        /// Nothing was done; ask again.
        Busy = 0x47,
    }
}

/// What an operation's value must be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Absent,
    Any,
    Bytes(usize),
}

impl Op {
    /// Whether key and subkey must be there, and the value.
    fn shape(self) -> (bool, bool, Part) {
        match self {
            Op::Ping | Op::Stats => (false, false, Part::Absent),
            Op::Get | Op::Del | Op::LPop | Op::RPop | Op::SPop | Op::ZPopMin => (true, false, Part::Absent),
            Op::Set | Op::LPush | Op::RPush => (true, false, Part::Any),
            Op::HSet => (true, true, Part::Any),
            Op::ZAdd => (true, true, Part::Bytes(8)),
            Op::ZRange => (true, false, Part::Bytes(8)),
            Op::HGet | Op::HDel | Op::SAdd | Op::SRem | Op::SIsMember | Op::ZScore | Op::ZRem => {
                (true, true, Part::Absent)
            }
        }
    }

    fn is_of_sorted_sets(self) -> bool {
        self as u8 >> 4 == 4
    }
}

/// A request in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// What to do.
    pub op: Op,
    /// Comes back in the answer.
    pub id: u16,
    /// Empty where the operation has none.
    pub key: &'a [u8],
    /// The same.
    pub subkey: &'a [u8],
    /// The same, or an empty value.
    pub value: &'a [u8],
}

impl Request<'_> {
    /// The value as a score key: for [`Op::ZAdd`].
    pub fn score_key(&self) -> u64 {
        <[u8; 8]>::try_from(self.value).map_or(0, u64::from_le_bytes)
    }

    /// The value as first rank and count: for [`Op::ZRange`].
    pub fn span(&self) -> (u32, u32) {
        let both = self.score_key();
        (both as u32, (both >> 32) as u32)
    }
}

/// What a datagram is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// No answer is owed: it is no request, or an answer would be a guess.
    Drop,
    /// It is answered with this status; operation and id as they came.
    Refuse(u8, u16, Status),
    /// In order.
    Request(Request<'a>),
}

/// Bytes rounded up to whole beats.
fn padded(n: usize) -> usize {
    n.next_multiple_of(8)
}

/// Looks at a datagram.
pub fn parse(datagram: &[u8]) -> Parsed<'_> {
    if datagram.len() > DATAGRAM_MAX || !datagram.len().is_multiple_of(8) {
        return Parsed::Drop;
    }
    let Some((&[op, version, klen, slen, v0, v1, id0, id1], body)) = datagram.split_first_chunk::<HEAD>()
    else {
        return Parsed::Drop;
    };
    let (klen, slen) = (usize::from(klen), usize::from(slen));
    let (vlen, id) = (usize::from(u16::from_le_bytes([v0, v1])), u16::from_le_bytes([id0, id1]));
    let item = padded(klen) + padded(slen) + padded(vlen);
    if op & 0x80 != 0 || version >> 4 != VERSION || body.len() != item {
        return Parsed::Drop;
    }
    let refuse = |status| Parsed::Refuse(op, id, status);
    let Some(op) = Op::from_code(op) else { return refuse(Status::BadOp) };
    let (has_key, has_subkey, part) = op.shape();
    let value_fits = match part {
        Part::Absent => vlen == 0,
        Part::Any => true,
        Part::Bytes(n) => vlen == n,
    };
    if version & 15 != 0 || (klen > 0) != has_key || (slen > 0) != has_subkey || !value_fits {
        return refuse(Status::BadField);
    }
    let subkey_max = if op.is_of_sorted_sets() { ZMEMBER_MAX } else { SUBKEY_MAX };
    if klen > KEY_MAX || slen > subkey_max || item > ITEM_MAX {
        return refuse(Status::TooLong);
    }
    let (key, rest) = body.split_at(padded(klen));
    let (subkey, value) = rest.split_at(padded(slen));
    let request = Request { op, id, key: &key[..klen], subkey: &subkey[..slen], value: &value[..vlen] };
    if op == Op::ZAdd && score_of_key(request.score_key()).is_none() {
        return refuse(Status::BadValue);
    }
    Parsed::Request(request)
}

/// Appends an answer. `op` is the request's; the value has at most [`DATAGRAM_MAX`] - 8 bytes.
pub fn write_answer(op: u8, status: Status, id: u16, value: &[u8], out: &mut Vec<u8>) {
    debug_assert!(HEAD + padded(value.len()) <= DATAGRAM_MAX);
    let [v0, v1] = (value.len() as u16).to_le_bytes();
    let [id0, id1] = id.to_le_bytes();
    out.extend_from_slice(&[op | 0x80, status as u8, 0, 0, v0, v1, id0, id1]);
    write_padded(value, out);
}

/// Appends a request, as it is: nothing is checked.
pub fn write_request(r: &Request<'_>, out: &mut Vec<u8>) {
    let [v0, v1] = (r.value.len() as u16).to_le_bytes();
    let [id0, id1] = r.id.to_le_bytes();
    let (klen, slen) = (r.key.len() as u8, r.subkey.len() as u8);
    out.extend_from_slice(&[r.op as u8, VERSION << 4, klen, slen, v0, v1, id0, id1]);
    for part in [r.key, r.subkey, r.value] {
        write_padded(part, out);
    }
}

fn write_padded(part: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(part);
    out.resize(out.len() + padded(part.len()) - part.len(), 0);
}

/// Appends a record: what ZRANGE and ZPOPMIN give of a member. `None`, and nothing appended, if it is too long for one.
pub fn write_record(score_key: u64, member: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut field = [0; ZMEMBER_MAX];
    field.get_mut(..member.len())?.copy_from_slice(member);
    out.extend_from_slice(&score_key.to_le_bytes());
    out.extend_from_slice(&(member.len() as u64).to_le_bytes());
    out.extend_from_slice(&field);
    Some(())
}

/// The ordered integer of a double: comparing these is comparing those. `None` for what is no number.
pub fn key_of_score(score: f64) -> Option<u64> {
    // One zero: -0 + 0 is 0.
    let bits = (score + 0.0).to_bits();
    (!score.is_nan()).then_some(if bits >> 63 == 0 { bits ^ 1 << 63 } else { !bits })
}

/// The double of such an integer. `None` for integers that no score has.
pub fn score_of_key(key: u64) -> Option<f64> {
    let bits = if key >> 63 == 1 { key ^ 1 << 63 } else { !key };
    let score = f64::from_bits(bits);
    (key_of_score(score) == Some(key)).then_some(score)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What the reference says of every datagram of the golden vectors, as far as one can know without a store.
    #[test]
    fn the_golden_vectors_are_dropped_and_refused_as_the_reference_says() {
        let unhex = |s: &str| -> Vec<u8> {
            s.as_bytes()
                .chunks(2)
                .map(|h| u8::from_str_radix(std::str::from_utf8(h).unwrap(), 16).unwrap())
                .collect()
        };
        let between = |line: &str, a: &str, b: &str| Some(line.split_once(a)?.1.split_once(b)?.0.to_owned());
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../spec/vectors/v1");
        let (mut dropped, mut refused, mut good) = (0, 0, 0);
        for file in std::fs::read_dir(directory).unwrap() {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
            for line in text.lines() {
                let Some(send) = between(line, "\"send\": \"", "\"") else { continue };
                let (send, answers) = (unhex(&send), between(line, "\"answers\": [", "]").unwrap());
                let answer = between(&answers, "\"", "\"").map(|a| unhex(&a));
                match (parse(&send), answer) {
                    (Parsed::Drop, None) => dropped += 1,
                    (Parsed::Refuse(op, id, status), Some(answer)) => {
                        let mut out = Vec::new();
                        write_answer(op, status, id, &[], &mut out);
                        assert_eq!(out, answer, "{line}");
                        refused += 1;
                    }
                    // An error that needs a look at the store is none of the parser's.
                    (Parsed::Request(_), Some(answer)) if answer[1] < 0x40 || answer[1] > 0x43 => good += 1,
                    (parsed, answer) => panic!("{parsed:?}, but the reference: {answer:02x?}: {line}"),
                }
            }
        }
        assert!(dropped > 100 && refused > 100 && good > 1000, "{dropped} {refused} {good}");
    }

    #[test]
    fn scores_and_their_keys_are_ordered_alike() {
        let all =
            [f64::NEG_INFINITY, f64::MIN, -1.5, -1e-320, 0.0, 1e-320, 1.0, 1.5, f64::MAX, f64::INFINITY];
        let keys: Vec<_> = all.iter().map(|s| key_of_score(*s).unwrap()).collect();
        assert!(keys.is_sorted_by(|a, b| a < b), "{keys:x?}");
        assert_eq!((keys[0], keys[9]), (0x000F_FFFF_FFFF_FFFF, 0xFFF0_0000_0000_0000));
        assert_eq!(key_of_score(-0.0), key_of_score(0.0));
        assert_eq!(key_of_score(f64::NAN), None);
        for no_score in [0, 0x000F_FFFF_FFFF_FFFE, 0x7FFF_FFFF_FFFF_FFFF, 0xFFF0_0000_0000_0001, u64::MAX] {
            assert_eq!(score_of_key(no_score), None, "{no_score:x}");
        }
    }

    proptest! {
        #[test]
        fn garbage_is_looked_at_without_harm(mut bytes in prop::collection::vec(any::<u8>(), 0..600), tame: bool) {
            if let (true, [op, version, k, s, v0, v1, ..]) = (tame, &mut bytes[..]) {
                (*op, *version, *v1) = (*op & 0x7F, 0x10, 0);
                let len = HEAD + padded((*k).into()) + padded((*s).into()) + padded((*v0).into());
                bytes.resize(len, 0);
            }
            match parse(&bytes) {
                Parsed::Request(r) => {
                    prop_assert!(r.key.len() <= KEY_MAX && r.subkey.len() <= SUBKEY_MAX);
                    let mut again = Vec::new();
                    write_request(&r, &mut again);
                    prop_assert_eq!(parse(&again), Parsed::Request(r));
                }
                Parsed::Refuse(op, _, status) => prop_assert!(op < 0x80 && status as u8 >= 0x40),
                Parsed::Drop => prop_assert!(!tame || bytes.len() < HEAD || bytes.len() > DATAGRAM_MAX),
            }
        }

        #[test]
        fn a_score_comes_back_from_its_key(bits: u64) {
            let score = f64::from_bits(bits);
            match key_of_score(score) {
                Some(key) => prop_assert_eq!(score_of_key(key), Some(score)),
                None => prop_assert!(score.is_nan()),
            }
        }
    }
}
