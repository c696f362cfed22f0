//! The arithmetic of INCRBYFLOAT and HINCRBYFLOAT: the x87 "long double" in which Redis computes them, in software.
//!
//! ```text
//!   value = ± mantissa · 2^exponent        mantissa: 64 bits, the topmost set (or 0)
//! ```
//! Reading is exact to the last bit (round half to even), adding too, and so is writing with 17 decimals, from which
//! trailing zeros are taken. This way 3 + 0.1 is "3.1", as users expect, and the same text as Redis's on every
//! machine. Numbers below the smallest normal one (about 1e-4932) are kept normal; all of them are written as 0.
use super::parse::parse_float;
use std::fmt;

/// Texts from this length on are no number (Redis's MAX_LONG_DOUBLE_CHARS).
const MAX_TEXT: usize = 5 * 1024;
const MAX_EXPONENT: i32 = 16384 - 64;
const MIN_EXPONENT: i32 = -16445 - 64;

/// A number of 64 bits' precision, or an infinity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LongDouble {
    negative: bool,
    infinite: bool,
    mantissa: u64,
    exponent: i32,
}

impl LongDouble {
    /// Zero.
    pub(crate) const ZERO: Self = Self { negative: false, infinite: false, mantissa: 0, exponent: 0 };
    const INFINITY: Self = Self { negative: false, infinite: true, mantissa: 0, exponent: 0 };

    /// Reads what `strtold` reads; no NaN, spaces, overflow or underflow.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        if text.len() >= MAX_TEXT {
            return None;
        }
        let (negative, unsigned) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, text),
        };
        let magnitude = match unsigned {
            [b'0', b'x' | b'X', ..] => Self::from_f64(parse_float(unsigned).ok()?),
            _ if unsigned.eq_ignore_ascii_case(b"inf") || unsigned.eq_ignore_ascii_case(b"infinity") => {
                Self::INFINITY
            }
            _ => Self::decimal(unsigned)?,
        };
        Some(Self { negative, ..magnitude })
    }

    /// Whether it is an infinity.
    pub(crate) fn is_infinite(self) -> bool {
        self.infinite
    }

    /// The sum; `None` if it is infinite or no number.
    pub(crate) fn add(self, other: Self) -> Option<Self> {
        if self.infinite || other.infinite {
            return None;
        }
        if self.mantissa == 0 || other.mantissa == 0 {
            return Some(if self.mantissa == 0 { other } else { self });
        }
        let (a, b) = if (self.exponent, self.mantissa) >= (other.exponent, other.mantissa) {
            (self, other)
        } else {
            (other, self)
        };
        let distance = (a.exponent - b.exponent) as u32;
        let wide_a = u128::from(a.mantissa) << 63;
        let wide_b = u128::from(b.mantissa) << 63;
        let shifted = wide_b.checked_shr(distance).unwrap_or(0);
        let lost = distance >= 128 || shifted << distance != wide_b;
        let sum = if a.negative == b.negative {
            wide_a + shifted
        } else {
            wide_a - shifted - u128::from(lost && shifted < wide_a)
        };
        let limbs: Vec<u32> = (0..4).map(|i| (sum >> (32 * i)) as u32).collect();
        let r = Big(limbs).round(a.exponent - 63, lost)?;
        Some(Self { negative: a.negative && r.mantissa != 0, ..r })
    }

    fn from_f64(x: f64) -> Self {
        let bits = x.to_bits();
        let (field, fraction) = (((bits >> 52) & 0x7ff) as i32, bits & ((1 << 52) - 1));
        let (m, e) = if field == 0 { (fraction, -1074) } else { (fraction | 1 << 52, field - 1075) };
        if m == 0 {
            return Self::ZERO;
        }
        let zeros = m.leading_zeros();
        Self { mantissa: m << zeros, exponent: e - zeros as i32, ..Self::ZERO }
    }

    /// Digits, at most one point, perhaps an exponent.
    fn decimal(text: &[u8]) -> Option<Self> {
        let (number, power) = match text.iter().position(|b| b.eq_ignore_ascii_case(&b'e')) {
            Some(at) => (&text[..at], exponent(&text[at + 1..])?),
            None => (text, 0),
        };
        let mut digits = Vec::with_capacity(number.len());
        let mut point = None;
        for &b in number {
            match b {
                b'0'..=b'9' => digits.push(b - b'0'),
                b'.' if point.is_none() => point = Some(digits.len()),
                _ => return None,
            }
        }
        if digits.is_empty() {
            return None;
        }
        let fraction = (digits.len() - point.unwrap_or(digits.len())) as i64;
        let power = power - fraction;
        let significant = digits.iter().skip_while(|d| **d == 0).count() as i64;
        if significant == 0 {
            return Some(Self::ZERO);
        }
        if !(-5000..=5000).contains(&(power + significant)) {
            return None;
        }
        let mut n = Big(Vec::new());
        for chunk in digits.chunks(9) {
            let value = chunk.iter().fold(0, |v, d| v * 10 + u32::from(*d));
            n.multiply_add(10u32.pow(chunk.len() as u32), value);
        }
        if power >= 0 {
            n.scale(power as u32);
            n.round(0, false)
        } else {
            // Enough bits that the quotient has more than 65.
            let bits = (-power as u64 * 10 / 3 + 70) as usize;
            n.shift_left(bits);
            let lost = n.unscale(-power as u32);
            n.round(-(bits as i32), lost)
        }
    }
}

/// What follows the `e`: a sign and digits. Far beyond the range, it is cut off.
fn exponent(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let n = digits.iter().fold(0i64, |n, d| (n * 10 + i64::from(d - b'0')).min(1_000_000));
    Some(if negative { -n } else { n })
}

impl fmt::Display for LongDouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.negative { "-" } else { "" };
        if self.infinite {
            return write!(f, "{sign}inf");
        }
        if self.exponent >= 0 {
            let mut n = Big(vec![self.mantissa as u32, (self.mantissa >> 32) as u32]);
            n.shift_left(self.exponent as usize);
            return write!(f, "{sign}{}", n.into_decimal());
        }
        // mantissa · 10^17 has at most 121 bits.
        const ONE: u128 = 100_000_000_000_000_000;
        let scaled = u128::from(self.mantissa) * ONE;
        let shift = self.exponent.unsigned_abs();
        let mut n = scaled.checked_shr(shift).unwrap_or(0);
        if shift <= 127 {
            let (rest, half) = (scaled & ((1 << shift) - 1), 1u128 << (shift - 1));
            n += u128::from(rest > half || (rest == half && n & 1 == 1));
        }
        let (whole, fraction) = (n / ONE, n % ONE);
        let sign = if n == 0 { "" } else { sign };
        if fraction == 0 {
            write!(f, "{sign}{whole}")
        } else {
            write!(f, "{sign}{whole}.{}", format!("{fraction:017}").trim_end_matches('0'))
        }
    }
}

/// A whole number, least significant limb first.
struct Big(Vec<u32>);

impl Big {
    fn multiply_add(&mut self, factor: u32, carry: u32) {
        let mut carry = u64::from(carry);
        for limb in &mut self.0 {
            let x = u64::from(*limb) * u64::from(factor) + carry;
            *limb = x as u32;
            carry = x >> 32;
        }
        if carry != 0 {
            self.0.push(carry as u32);
        }
    }

    /// Divides; the remainder.
    fn divide(&mut self, by: u32) -> u32 {
        let mut rest = 0u64;
        for limb in self.0.iter_mut().rev() {
            let x = rest << 32 | u64::from(*limb);
            *limb = (x / u64::from(by)) as u32;
            rest = x % u64::from(by);
        }
        self.trim();
        rest as u32
    }

    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    /// Times 10^n.
    fn scale(&mut self, n: u32) {
        (0..n / 9).for_each(|_| self.multiply_add(1_000_000_000, 0));
        self.multiply_add(10u32.pow(n % 9), 0);
    }

    /// Divided by 10^n; whether something was left.
    fn unscale(&mut self, n: u32) -> bool {
        let mut lost = self.divide(10u32.pow(n % 9)) != 0;
        for _ in 0..n / 9 {
            lost |= self.divide(1_000_000_000) != 0;
        }
        lost
    }

    fn shift_left(&mut self, bits: usize) {
        self.multiply_add(1 << (bits % 32), 0);
        self.0.splice(0..0, std::iter::repeat_n(0, bits / 32));
    }

    fn bit(&self, i: usize) -> bool {
        self.0.get(i / 32).is_some_and(|limb| limb >> (i % 32) & 1 == 1)
    }

    /// This times 2^exponent, a little more if `lost`, to the nearest long double; `None` beyond its range.
    fn round(mut self, exponent: i32, lost: bool) -> Option<LongDouble> {
        self.trim();
        let Some(top) = self.0.last() else { return Some(LongDouble::ZERO) };
        let len = self.0.len() * 32 - top.leading_zeros() as usize;
        let mut mantissa = (0..64)
            .rev()
            .fold(0u64, |m, i| m << 1 | u64::from((len + i).checked_sub(64).is_some_and(|at| self.bit(at))));
        let mut exponent = exponent + len as i32 - 64;
        if len > 64 && self.bit(len - 65) {
            let more = lost || (0..len - 65).any(|i| self.bit(i));
            if more || mantissa & 1 == 1 {
                let (m, carry) = mantissa.overflowing_add(1);
                mantissa = if carry { 1 << 63 } else { m };
                exponent += i32::from(carry);
            }
        }
        (MIN_EXPONENT..=MAX_EXPONENT).contains(&exponent).then_some(LongDouble {
            mantissa,
            exponent,
            ..LongDouble::ZERO
        })
    }

    fn into_decimal(mut self) -> String {
        self.trim();
        let mut groups = Vec::new();
        while !self.0.is_empty() {
            groups.push(self.divide(1_000_000_000));
        }
        let mut text = groups.pop().unwrap_or(0).to_string();
        groups.iter().rev().for_each(|g| text.push_str(&format!("{g:09}")));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(a: &str, b: &str) -> Option<String> {
        Some(LongDouble::parse(a.as_bytes())?.add(LongDouble::parse(b.as_bytes())?)?.to_string())
    }

    #[test]
    fn sums_read_as_redis_writes_them() {
        for (a, b, c) in [
            ("3", "0.1", "3.1"),
            ("10.5", "0.1", "10.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("1.5", "-1.5", "0"),
            ("-1", "0.25", "-0.75"),
            ("17179869184", "1.5", "17179869185.5"),
            ("0", "-0.00000000000000000001", "0"),
            ("1", "1e-17", "1.00000000000000001"),
            ("0x10", "1", "17"),
            // 2^64 + 1 is a tie, and goes to the even neighbour.
            ("18446744073709551616", "1", "18446744073709551616"),
            ("18446744073709551618", "1", "18446744073709551620"),
            ("1e30", "1", "1000000000000000000024696061952"),
        ] {
            assert_eq!(sum(a, b).as_deref(), Some(c), "{a} + {b}");
        }
    }

    #[test]
    fn the_largest_number_is_written_in_full_and_twice_it_is_refused() {
        let max = "1.18973149535723176502e4932";
        let text = sum(max, "0").expect("it is in range");
        assert_eq!(text.len(), 4933);
        assert!(text.starts_with("11897314953572317650"));
        assert_eq!(sum(max, max), None);
        assert_eq!(sum("inf", "1"), None);
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for s in ["", "-", ".", "1e", "e5", "1 ", " 1", "nan", "1.2.3", "1e5000", "1e-5000", "--1", "0x"] {
            assert_eq!(LongDouble::parse(s.as_bytes()), None, "{s:?}");
        }
        assert!(LongDouble::parse(&[b'1'; MAX_TEXT]).is_none());
    }

    #[test]
    fn subtraction_far_below_the_last_bit_rounds_back() {
        assert_eq!(sum("9223372036854775808", "-1e-30").as_deref(), Some("9223372036854775808"));
        assert_eq!(sum("1", "-1e-40").as_deref(), Some("1"));
    }
}
