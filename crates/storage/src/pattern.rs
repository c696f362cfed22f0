//! Bytes that tell by themselves whether they are right: what test volumes are filled with.
//!
//! Every aligned 8-byte word of a volume is a mix of its own address and a seed, so that any block can be checked alone, a block from
//! a wrong place is not taken for the right one, and zeros are never right.

/// The word at an offset that is a multiple of 8.
fn word(seed: u64, offset: u64) -> u64 {
    let mut x = (offset ^ seed).wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31) | 1
}

/// Fills bytes as they are at this offset of a volume.
pub fn fill(seed: u64, offset: u64, bytes: &mut [u8]) {
    let mut at = 0;
    while at < bytes.len() {
        let place = offset + at as u64;
        let skip = (place & 7) as usize;
        let length = (8 - skip).min(bytes.len() - at);
        bytes[at..at + length].copy_from_slice(&word(seed, place & !7).to_le_bytes()[skip..skip + length]);
        at += length;
    }
}

/// The first byte that is not as it should be, as an offset of the volume.
pub fn check(seed: u64, offset: u64, bytes: &[u8]) -> Result<(), u64> {
    let mut at = 0;
    while at < bytes.len() {
        let place = offset + at as u64;
        let right = word(seed, place & !7).to_le_bytes();
        let skip = (place & 7) as usize;
        let length = (8 - skip).min(bytes.len() - at);
        if bytes[at..at + length] != right[skip..skip + length] {
            let wrong = (0..length).find(|i| bytes[at + i] != right[skip + i]).unwrap_or(0);
            return Err(place + wrong as u64);
        }
        at += length;
    }
    Ok(())
}

/// Makes a file of so many bytes.
///
/// # Errors
/// What the system says.
pub fn make_file(path: &std::path::Path, seed: u64, bytes: u64) -> std::io::Result<()> {
    use std::io::Write as _;
    let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
    let mut chunk = vec![0; 64 << 10];
    let mut at = 0;
    while at < bytes {
        let length = chunk.len().min((bytes - at) as usize);
        fill(seed, at, &mut chunk[..length]);
        file.write_all(&chunk[..length])?;
        at += length as u64;
    }
    file.into_inner()?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wrong_bit_and_one_wrong_place_are_found() {
        let mut bytes = vec![0; 100];
        fill(1, 37, &mut bytes);
        assert_eq!(check(1, 37, &bytes), Ok(()));
        assert!(check(1, 38, &bytes).is_err() && check(2, 37, &bytes).is_err());
        assert_eq!(check(1, 37 + 9, &bytes[9..50]), Ok(()));
        bytes[60] ^= 4;
        assert_eq!(check(1, 37, &bytes), Err(97));
        assert!(check(1, 0, &[0; 64]).is_err());
    }
}
