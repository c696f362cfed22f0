//! Reading numbers and options out of arguments, as strictly as Redis does, and the form of the tables of commands.
use crate::{Error, KeySpec, Result};

/// One key, at argument 1.
pub(crate) const ONE_KEY: KeySpec = KeySpec::Range { first: 1, last: 1, step: 1 };
/// Two keys, at arguments 1 and 2.
pub(crate) const TWO_KEYS: KeySpec = KeySpec::Range { first: 1, last: 2, step: 1 };
/// Every argument is a key.
pub(crate) const ALL_KEYS: KeySpec = KeySpec::Range { first: 1, last: -1, step: 1 };
/// No key.
pub(crate) const NO_KEYS: KeySpec = KeySpec::None;

/// The longest string that a value may grow to (Redis's proto-max-bulk-len, as it is by default).
pub(crate) const MAX_STRING: usize = 512 << 20;

/// Builds the entries of a group's table. An entry reads
/// `"name" arity (FLAG|FLAG…) keys Route Class "since" "complexity" "syntax of the arguments" "summary" => handler;`
macro_rules! commands {
    ($group:ident: $($name:literal $arity:literal ($($flag:ident)|*) $keys:ident $route:ident $class:ident
        $since:literal $complexity:literal $syntax:literal $summary:literal => $run:expr;)*) => {
        &[$($crate::Command {
            name: $name,
            arity: $arity,
            flags: $crate::Flags(0)$(.or($crate::Flags::$flag))*,
            keys: $keys,
            route: $crate::Route::$route,
            class: $crate::Class::$class,
            group: $crate::Group::$group,
            since: $since,
            complexity: $complexity,
            syntax: $syntax,
            summary: $summary,
            run: $run,
        }),*]
    };
}
pub(crate) use commands;

/// Whether an argument is this option, whatever its case.
pub(crate) fn is(arg: &[u8], option: &str) -> bool {
    arg.eq_ignore_ascii_case(option.as_bytes())
}

/// A 64-bit integer written in the one way in which Redis writes it: no plus sign, leading zero, space or minus zero.
pub(crate) fn parse_int(arg: &[u8]) -> Result<i64> {
    integer(arg).ok_or(Error::NotInteger)
}

/// The same, with an error text of one's own when there is none.
pub(crate) fn parse_int_or(arg: &[u8], error: &'static str) -> Result<i64> {
    integer(arg).ok_or(Error::other(error))
}

/// A number of at least `least`, which is 0 or 1; for all else, the error text.
pub(crate) fn positive(arg: &[u8], least: usize, error: &'static str) -> Result<usize> {
    integer(arg).and_then(|n| usize::try_from(n).ok()).filter(|n| *n >= least).ok_or(Error::other(error))
}

/// `[COUNT count]` at the end of LMPOP and ZMPOP. A wrong count is found before what should not follow it.
pub(crate) fn pop_count(options: &[&[u8]]) -> Result<usize> {
    let [name, count, rest @ ..] = options else {
        return if options.is_empty() { Ok(1) } else { Err(Error::Syntax) };
    };
    if !is(name, "count") {
        return Err(Error::Syntax);
    }
    let count = positive(count, 1, "ERR count should be greater than 0")?;
    if rest.is_empty() { Ok(count) } else { Err(Error::Syntax) }
}

/// The integer that these bytes are the canonical form of.
pub(crate) fn integer(arg: &[u8]) -> Option<i64> {
    let (negative, digits) = match arg {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, arg),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    let mut n = 0u64;
    for d in digits {
        if !d.is_ascii_digit() {
            return None;
        }
        n = n * 10 + u64::from(d - b'0');
    }
    if negative { 0i64.checked_sub_unsigned(n) } else { i64::try_from(n).ok() }
}

/// A finite or infinite double ("inf", "+inf", "-Infinity", decimal or hexadecimal), but no NaN and nothing that is out of range.
pub(crate) fn parse_float(arg: &[u8]) -> Result<f64> {
    float(arg).ok_or(Error::NotFloat)
}

/// The same, with an error text of one's own when there is none.
pub(crate) fn parse_float_or(arg: &[u8], error: &'static str) -> Result<f64> {
    float(arg).ok_or(Error::other(error))
}

fn float(arg: &[u8]) -> Option<f64> {
    let s = std::str::from_utf8(arg).ok()?;
    let unsigned = s.strip_prefix(['+', '-']).unwrap_or(s);
    if let Some(hex) = unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X")) {
        let x = hexadecimal(hex)?;
        return Some(if s.starts_with('-') { -x } else { x });
    }
    let x: f64 = s.parse().ok()?;
    let named = unsigned.starts_with(['i', 'I']);
    let zero =
        || unsigned.bytes().take_while(|b| !b.eq_ignore_ascii_case(&b'e')).all(|b| matches!(b, b'0' | b'.'));
    if x.is_nan() || (x.is_infinite() && !named) || (x == 0.0 && !zero()) { None } else { Some(x) }
}

/// `h.hhhp±d` without its prefix.
fn hexadecimal(s: &str) -> Option<f64> {
    let (mantissa, exponent) = match s.find(['p', 'P']) {
        Some(i) => (&s[..i], s[i + 1..].parse::<i32>().ok()?),
        None => (s, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.len() + fraction.len() == 0 {
        return None;
    }
    let mut x = 0.0;
    for d in whole.chars().chain(fraction.chars()) {
        x = x * 16.0 + f64::from(d.to_digit(16)?);
    }
    let exponent = exponent.checked_sub(i32::try_from(fraction.len()).ok()?.checked_mul(4)?)?;
    let scaled = x * 2f64.powi(exponent);
    (scaled.is_finite() && (x == 0.0 || scaled != 0.0)).then_some(scaled)
}

/// The indexes `start..end` that Redis's inclusive range `from ..= to`, negative from the end, means in `len` elements.
/// Empty ranges are `0..0`.
pub(crate) fn inclusive_range(from: i64, to: i64, len: usize) -> std::ops::Range<usize> {
    let n = i64::try_from(len).unwrap_or(i64::MAX);
    let from = if from < 0 { from.saturating_add(n).max(0) } else { from };
    let to = if to < 0 { to.saturating_add(n) } else { to.min(n - 1) };
    if from > to || from >= n { 0..0 } else { from as usize..to as usize + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_canonical_form_of_an_integer_is_one() {
        for n in [0, 1, -1, 10, i64::MAX, i64::MIN] {
            assert_eq!(integer(n.to_string().as_bytes()), Some(n));
        }
        for s in [
            "",
            "-",
            "+1",
            "01",
            "-0",
            " 1",
            "1 ",
            "1.0",
            "0x1",
            "9223372036854775808",
            "-9223372036854775809",
        ] {
            assert_eq!(integer(s.as_bytes()), None, "{s:?}");
        }
    }

    #[test]
    fn floats_are_what_strtod_takes_without_nan_and_overflow() {
        for (s, x) in [
            ("1", 1.0),
            ("+1.5", 1.5),
            (".5", 0.5),
            ("1.", 1.0),
            ("-inf", f64::NEG_INFINITY),
            ("+Infinity", f64::INFINITY),
            ("0x1p4", 16.0),
            ("-0x1.8", -1.5),
            ("0e10", 0.0),
        ] {
            assert_eq!(float(s.as_bytes()), Some(x), "{s:?}");
        }
        for s in ["", "nan", " 1", "1 ", "1e400", "1e-400", "0x", "e", "--1", "1_0"] {
            assert_eq!(float(s.as_bytes()), None, "{s:?}");
        }
    }

    #[test]
    fn ranges_are_clamped_to_what_is_there() {
        assert_eq!(inclusive_range(0, -1, 3), 0..3);
        assert_eq!(inclusive_range(-2, 100, 3), 1..3);
        assert_eq!(inclusive_range(-100, 0, 3), 0..1);
        assert_eq!(inclusive_range(2, 1, 3), 0..0);
        assert_eq!(inclusive_range(3, 5, 3), 0..0);
        assert_eq!(inclusive_range(0, -1, 0), 0..0);
        assert_eq!(inclusive_range(i64::MIN, i64::MAX, 3), 0..3);
    }
}
