//! Hash slots: which of 16384 a key belongs to, as in Redis Cluster. Keys with the same `{tag}` share a slot.
//!
//! CRC-16/XMODEM (polynomial 0x1021, nothing reflected, starts at 0), eight bytes at a time: `TABLES[k][b]` is the CRC of byte
//! `b` followed by `k` zero bytes, and the CRC of a string is the exclusive or of those of its bytes.

/// Number of slots.
pub const SLOTS: u16 = 16384;

const TABLES: [[u16; 256]; 8] = {
    let mut t = [[0u16; 256]; 8];
    let mut i = 0;
    while i < 256 {
        let mut crc = (i as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { (crc << 1) ^ 0x1021 } else { crc << 1 };
            bit += 1;
        }
        t[0][i] = crc;
        i += 1;
    }
    let mut k = 1;
    while k < 8 {
        let mut i = 0;
        while i < 256 {
            let before = t[k - 1][i];
            t[k][i] = (before << 8) ^ t[0][(before >> 8) as usize];
            i += 1;
        }
        k += 1;
    }
    t
};

fn crc16(bytes: &[u8]) -> u16 {
    let mut crc = 0u16;
    let (eights, rest) = bytes.as_chunks::<8>();
    for c in eights {
        let [high, low] = crc.to_be_bytes();
        crc = TABLES[7][usize::from(c[0] ^ high)]
            ^ TABLES[6][usize::from(c[1] ^ low)]
            ^ TABLES[5][usize::from(c[2])]
            ^ TABLES[4][usize::from(c[3])]
            ^ TABLES[3][usize::from(c[4])]
            ^ TABLES[2][usize::from(c[5])]
            ^ TABLES[1][usize::from(c[6])]
            ^ TABLES[0][usize::from(c[7])];
    }
    for &b in rest {
        crc = (crc << 8) ^ TABLES[0][usize::from((crc >> 8) as u8 ^ b)];
    }
    crc
}

/// The slot of a key. If it has a `{tag}` that is not empty, the first one alone counts.
pub fn slot(key: &[u8]) -> u16 {
    let hashed = match key.iter().position(|&b| b == b'{') {
        None => key,
        Some(open) => match key[open + 1..].iter().position(|&b| b == b'}') {
            Some(n) if n > 0 => &key[open + 1..open + 1 + n],
            _ => key,
        },
    };
    crc16(hashed) % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis_cluster() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(slot(b"foo"), 12182);
        assert_eq!(slot(b"bar"), 5061);
        assert_eq!(slot(b"{user1000}.following"), slot(b"user1000"));
        assert_eq!(slot(b"foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS);
        assert_eq!(slot(b"foo{{bar}}zap"), slot(b"{bar"));
        assert_eq!(slot(b""), 0);
    }

    #[test]
    fn eight_bytes_at_a_time_give_what_one_at_a_time_gives() {
        let text: Vec<u8> = (0..100u8).map(|i| i.wrapping_mul(37)).collect();
        for n in 0..100 {
            let slow = text[..n]
                .iter()
                .fold(0u16, |crc, b| (crc << 8) ^ TABLES[0][usize::from((crc >> 8) as u8 ^ b)]);
            assert_eq!(crc16(&text[..n]), slow, "{n} bytes");
        }
    }
}
