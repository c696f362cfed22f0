//! Writing replies: each method appends one RESP value in the connection's protocol version.

/// The protocol version of a connection, chosen by `HELLO`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Proto {
    /// RESP2, in which every connection begins.
    #[default]
    Resp2,
    /// RESP3.
    Resp3,
}

/// A reply, or several one after the other, being written.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    buf: Vec<u8>,
    proto: Proto,
}

impl Reply {
    /// An empty reply for a connection that speaks `proto`.
    pub fn new(proto: Proto) -> Self {
        Self { buf: Vec::new(), proto }
    }

    /// A reply that appends to `buf`.
    pub fn with_buffer(buf: Vec<u8>, proto: Proto) -> Self {
        Self { buf, proto }
    }

    /// The protocol version in use.
    pub fn proto(&self) -> Proto {
        self.proto
    }

    /// Changes the protocol version for what is written from now on.
    pub fn set_proto(&mut self, proto: Proto) {
        self.proto = proto;
    }

    /// What was written.
    pub fn bytes(&self) -> &[u8] {
        &self.buf
    }

    /// What was written, to be sent or changed in place.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buf
    }

    /// What was written, by value.
    pub fn into_bytes(self) -> Vec<u8> {
        self.buf
    }

    /// Bytes written so far; with [`Reply::truncate`], a way to take back an unfinished reply.
    pub fn len(&self) -> usize {
        self.buf.len()
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.buf.is_empty()
    }

    /// Takes back what was written after `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.buf.truncate(len);
    }

    /// Appends values that are encoded already, in the same protocol version.
    pub fn raw(&mut self, encoded: &[u8]) {
        self.buf.extend_from_slice(encoded);
    }

    /// `+OK`.
    pub fn ok(&mut self) {
        self.buf.extend_from_slice(b"+OK\r\n");
    }

    /// A simple string; it holds no line break.
    pub fn simple(&mut self, s: &str) {
        self.buf.push(b'+');
        self.line(s.as_bytes());
    }

    /// An error, code first ("ERR …"). Line breaks in it become spaces.
    pub fn error(&mut self, message: &str) {
        self.buf.push(b'-');
        self.buf.extend(message.bytes().map(|b| if b == b'\r' || b == b'\n' { b' ' } else { b }));
        self.buf.extend_from_slice(b"\r\n");
    }

    /// An integer.
    pub fn int(&mut self, n: i64) {
        self.header(b':', n);
    }

    /// A bulk string.
    pub fn bulk(&mut self, s: &[u8]) {
        self.header(b'$', s.len() as i64);
        self.line(s);
    }

    /// "No value": a null bulk string, or RESP3's null.
    pub fn null(&mut self) {
        self.buf.extend_from_slice(match self.proto {
            Proto::Resp2 => b"$-1\r\n",
            Proto::Resp3 => b"_\r\n",
        });
    }

    /// "No array": a null array, or RESP3's null.
    pub fn null_array(&mut self) {
        self.buf.extend_from_slice(match self.proto {
            Proto::Resp2 => b"*-1\r\n",
            Proto::Resp3 => b"_\r\n",
        });
    }

    /// The header of an array of `n` values.
    pub fn array(&mut self, n: usize) {
        self.header(b'*', n as i64);
    }

    /// The header of a map of `n` pairs: twice as many array elements in RESP2.
    pub fn map(&mut self, n: usize) {
        match self.proto {
            Proto::Resp2 => self.header(b'*', 2 * n as i64),
            Proto::Resp3 => self.header(b'%', n as i64),
        }
    }

    /// The header of a set of `n` values: an array in RESP2.
    pub fn set(&mut self, n: usize) {
        match self.proto {
            Proto::Resp2 => self.header(b'*', n as i64),
            Proto::Resp3 => self.header(b'~', n as i64),
        }
    }

    /// A double: a bulk string in RESP2. Written as Redis writes scores.
    pub fn double(&mut self, x: f64) {
        match self.proto {
            Proto::Resp2 => self.bulk(format_double(x).as_bytes()),
            Proto::Resp3 => {
                self.buf.push(b',');
                self.line(format_double(x).as_bytes());
            }
        }
    }

    /// A boolean: 1 or 0 in RESP2.
    pub fn boolean(&mut self, b: bool) {
        match self.proto {
            Proto::Resp2 => self.int(b.into()),
            Proto::Resp3 => self.buf.extend_from_slice(if b { b"#t\r\n" } else { b"#f\r\n" }),
        }
    }

    /// A text for people ("txt"): a bulk string in RESP2.
    pub fn verbatim(&mut self, s: &str) {
        match self.proto {
            Proto::Resp2 => self.bulk(s.as_bytes()),
            Proto::Resp3 => {
                self.header(b'=', s.len() as i64 + 4);
                self.buf.extend_from_slice(b"txt:");
                self.line(s.as_bytes());
            }
        }
    }

    fn line(&mut self, s: &[u8]) {
        self.buf.extend_from_slice(s);
        self.buf.extend_from_slice(b"\r\n");
    }

    fn header(&mut self, kind: u8, n: i64) {
        self.buf.push(kind);
        let mut digits = [0u8; 20];
        self.buf.extend_from_slice(decimal(n, &mut digits));
        self.buf.extend_from_slice(b"\r\n");
    }
}

/// `n` in decimal, written at the end of `digits`.
fn decimal(n: i64, digits: &mut [u8; 20]) -> &[u8] {
    let mut rest = n.unsigned_abs();
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if n < 0 {
        at -= 1;
        digits[at] = b'-';
    }
    &digits[at..]
}

/// A double as Redis 7.0 writes it, C's `%.17g`: 17 significant digits without trailing zeros, so that it reads back as
/// the same number; `inf`, `-inf`, `nan`.
pub fn format_double(x: f64) -> String {
    const DIGITS: i32 = 17;
    if x.is_nan() {
        return "nan".into();
    }
    if x.is_infinite() {
        return if x > 0.0 { "inf".into() } else { "-inf".into() };
    }
    if x == x.trunc() && x.abs() < 1e15 {
        // Whole numbers, the usual scores; minus zero keeps its sign.
        return if x == 0.0 && x.is_sign_negative() { "-0".into() } else { (x as i64).to_string() };
    }
    let scientific = format!("{x:.*e}", DIGITS as usize - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |s: &str| s.trim_end_matches('0').trim_end_matches('.').to_owned();
    if !(-4..DIGITS).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trim(mantissa), exponent.abs());
    }
    let fixed = format!("{x:.*}", (DIGITS - 1 - exponent) as usize);
    if fixed.contains('.') { trim(&fixed) } else { fixed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_write_their_own_null_and_map() {
        let mut two = Reply::new(Proto::Resp2);
        let mut three = Reply::new(Proto::Resp3);
        for r in [&mut two, &mut three] {
            r.null();
            r.map(1);
            r.int(i64::MIN);
            r.double(1.5);
        }
        assert_eq!(two.bytes(), b"$-1\r\n*2\r\n:-9223372036854775808\r\n$3\r\n1.5\r\n");
        assert_eq!(three.bytes(), b"_\r\n%1\r\n:-9223372036854775808\r\n,1.5\r\n");
    }

    #[test]
    fn doubles_read_as_redis_writes_them() {
        for (x, s) in [
            (3.0, "3"),
            (-0.5, "-0.5"),
            (-0.0, "-0"),
            (1.1, "1.1000000000000001"),
            (0.717020043971492, "0.71702004397149199"),
            (1e20, "1e+20"),
            (1e-7, "9.9999999999999995e-08"),
            (123456789012345680.0, "1.2345678901234568e+17"),
            (12345678901234568.0, "12345678901234568"),
            (0.0001, "0.0001"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(format_double(x), s);
        }
    }
}
