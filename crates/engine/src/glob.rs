//! Glob patterns as KEYS, SCAN MATCH and CONFIG GET take them.
//!
//! `*` any bytes, `?` one byte, `[abc]`, `[a-z]`, `[^a]` one byte of a class, `\x` the byte x. Every element but the
//! star takes exactly one byte, so going back to the last star alone is enough: time is at most pattern × text. To bound
//! that, too, a pattern in which more than [`MAX_STARS`] stars must take part fits nothing; the number is Redis's.

/// How many stars that are followed by something a match may go through.
const MAX_STARS: usize = 1000;

/// Whether the whole of `text` fits `pattern`.
pub fn glob_match(pattern: &[u8], text: &[u8]) -> bool {
    matches(pattern, text, false)
}

/// The same, upper and lower case taken as equal.
pub fn glob_match_ignore_case(pattern: &[u8], text: &[u8]) -> bool {
    matches(pattern, text, true)
}

fn matches(pattern: &[u8], text: &[u8], fold: bool) -> bool {
    let (mut p, mut t) = (0, 0);
    // After the last star: where the pattern goes on, and up to where the star has taken the text.
    let mut star: Option<(usize, usize)> = None;
    let mut stars = 0;
    loop {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            if p == pattern.len() {
                return true;
            }
            stars += usize::from(pattern[p] != b'*');
            if stars > MAX_STARS {
                return false;
            }
            star = Some((p, t));
            continue;
        }
        let Some(&byte) = text.get(t) else { return p == pattern.len() };
        if let Some(next) = element(pattern, p, byte, fold) {
            (p, t) = (next, t + 1);
        } else if let Some((after, taken)) = star {
            star = Some((after, taken + 1));
            (p, t) = (after, taken + 1);
        } else {
            return false;
        }
    }
}

/// Where the pattern goes on if its element at `p` takes `byte`.
fn element(pattern: &[u8], p: usize, byte: u8, fold: bool) -> Option<usize> {
    let same = |a: u8| if fold { a.eq_ignore_ascii_case(&byte) } else { a == byte };
    match *pattern.get(p)? {
        b'?' => Some(p + 1),
        b'[' => class(pattern, p + 1, byte, fold),
        b'\\' if p + 1 < pattern.len() => same(pattern[p + 1]).then_some(p + 2),
        b => same(b).then_some(p + 1),
    }
}

/// A class whose first byte is at `p`. One that never closes ends with the pattern.
fn class(pattern: &[u8], mut p: usize, byte: u8, fold: bool) -> Option<usize> {
    let low = |b: u8| if fold { b.to_ascii_lowercase() } else { b };
    let not = pattern.get(p) == Some(&b'^');
    p += usize::from(not);
    let mut found = false;
    loop {
        match &pattern[p.min(pattern.len())..] {
            [] => break,
            // Escaped bytes are compared exactly, as Redis does.
            [b'\\', b, ..] => {
                found |= *b == byte;
                p += 2;
            }
            [b']', ..] => {
                p += 1;
                break;
            }
            [a, b'-', b, ..] => {
                let (a, b) = (low(*a.min(b)), low(*a.max(b)));
                found |= (a..=b).contains(&low(byte));
                p += 3;
            }
            [b, ..] => {
                found |= low(*b) == low(byte);
                p += 1;
            }
        }
    }
    (found != not).then_some(p)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_element_takes_what_redis_says_it_takes() {
        for (pattern, text, fits) in [
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a*", "a", true),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b", "xxaxxbx", false),
            ("h?llo", "hallo", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hello", true),
            ("h[^e]llo", "hello", false),
            ("h[^e]llo", "hallo", true),
            ("h[a-b]llo", "hbllo", true),
            ("h[b-a]llo", "hallo", true),
            ("h[a-b]llo", "hcllo", false),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("[\\]]", "]", true),
            ("a\\", "a\\", true),
            ("[ab", "b", true),
            ("[", "[", false),
            ("[a-]", "-", false),
            ("HeLLo", "hello", false),
        ] {
            assert_eq!(glob_match(pattern.as_bytes(), text.as_bytes()), fits, "{pattern:?} {text:?}");
        }
        assert!(glob_match_ignore_case(b"HeL[K-M]o", b"hello"));
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        let pattern = b"a*".repeat(50);
        let text = [b'a'; 50_000];
        assert!(!glob_match(&[&pattern[..], b"b"].concat(), &text));
    }

    #[test]
    fn more_stars_than_redis_takes_fit_nothing() {
        let text = [b'a'; 50_000];
        assert!(glob_match(&b"*?".repeat(1000), &text));
        assert!(!glob_match(&b"*?".repeat(1001), &text));
        assert!(glob_match(&b"*".repeat(5000), &text), "stars side by side are one");
    }
}
