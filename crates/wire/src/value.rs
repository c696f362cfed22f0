//! Replies as a client sees them: parsing what [`crate::Reply`] writes.

/// One value of a reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `+`: a simple string.
    Simple(String),
    /// `-`: an error, code first.
    Error(String),
    /// `:`: an integer.
    Int(i64),
    /// `$`: a bulk string.
    Bulk(Vec<u8>),
    /// Any form of "nothing".
    Null,
    /// `*`: an array.
    Array(Vec<Value>),
    /// `%`: a map, in the order sent.
    Map(Vec<(Value, Value)>),
    /// `~`: a set, in the order sent.
    Set(Vec<Value>),
    /// `,`: a double.
    Double(f64),
    /// `#`: a boolean.
    Bool(bool),
    /// `=`: a text, without its three-letter format.
    Verbatim(Vec<u8>),
    /// `(`: an integer of any size, as text.
    Big(String),
    /// `>`: a message that no request asked for.
    Push(Vec<Value>),
}

/// Why bytes are no reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// A value begins with a byte that begins none.
    #[error("unknown type byte {0}")]
    Type(u8),
    /// A length or a number does not parse, or a length is absurd.
    #[error("malformed number")]
    Number,
    /// Arrays in arrays in arrays, too deep.
    #[error("nested too deep")]
    Depth,
}

const MAX_DEPTH: usize = 64;
const MAX_LEN: i64 = 1 << 32;

impl Value {
    /// The value at the beginning of `input` and the bytes that it takes; `None` if it is not all there yet.
    pub fn parse(input: &[u8]) -> Result<Option<(Self, usize)>, ValueError> {
        let mut at = 0;
        Ok(parse(input, &mut at, 0)?.map(|v| (v, at)))
    }

    /// The bytes of a string of any kind.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bulk(b) | Self::Verbatim(b) => Some(b),
            Self::Simple(s) | Self::Big(s) => Some(s.as_bytes()),
            _ => None,
        }
    }

    /// The integer, also one in a bulk string.
    pub fn int(&self) -> Option<i64> {
        match self {
            Self::Int(n) => Some(*n),
            _ => std::str::from_utf8(self.bytes()?).ok()?.parse().ok(),
        }
    }

    /// The elements of an array, a set or a push.
    pub fn elements(&self) -> Option<&[Value]> {
        match self {
            Self::Array(v) | Self::Set(v) | Self::Push(v) => Some(v),
            _ => None,
        }
    }

    /// The text of an error.
    pub fn error(&self) -> Option<&str> {
        match self {
            Self::Error(e) => Some(e),
            _ => None,
        }
    }
}

fn parse(input: &[u8], at: &mut usize, depth: usize) -> Result<Option<Value>, ValueError> {
    if depth > MAX_DEPTH {
        return Err(ValueError::Depth);
    }
    let rest = input.get(*at..).unwrap_or_default();
    let Some(end) = rest.windows(2).position(|w| w == b"\r\n") else { return Ok(None) };
    let kind = rest[0];
    let line = &rest[1.min(end)..end];
    *at += end + 2;
    let text = || String::from_utf8_lossy(line).into_owned();
    let number =
        || std::str::from_utf8(line).ok().and_then(|s| s.parse::<i64>().ok()).ok_or(ValueError::Number);
    let length =
        || number().and_then(|n| if (-1..MAX_LEN).contains(&n) { Ok(n) } else { Err(ValueError::Number) });
    Ok(Some(match kind {
        b'+' => Value::Simple(text()),
        b'-' => Value::Error(text()),
        b':' => Value::Int(number()?),
        b'(' => Value::Big(text()),
        b'_' => Value::Null,
        b'#' => Value::Bool(line == b"t"),
        b',' => Value::Double(text().parse().map_err(|_| ValueError::Number)?),
        b'$' | b'=' | b'!' => {
            let n = length()?;
            if n < 0 {
                return Ok(Some(Value::Null));
            }
            let n = n as usize;
            let Some(body) = input.get(*at..*at + n + 2) else { return Ok(None) };
            *at += n + 2;
            let body = &body[..n];
            match kind {
                b'$' => Value::Bulk(body.to_vec()),
                b'=' => Value::Verbatim(body.get(4..).unwrap_or_default().to_vec()),
                _ => Value::Error(String::from_utf8_lossy(body).into_owned()),
            }
        }
        b'*' | b'~' | b'>' => {
            let n = length()?;
            if n < 0 {
                return Ok(Some(Value::Null));
            }
            let Some(values) = many(input, at, n as usize, depth)? else { return Ok(None) };
            match kind {
                b'*' => Value::Array(values),
                b'~' => Value::Set(values),
                _ => Value::Push(values),
            }
        }
        b'%' => {
            let Some(values) = many(input, at, 2 * length()?.max(0) as usize, depth)? else {
                return Ok(None);
            };
            let mut values = values.into_iter();
            Value::Map(std::iter::from_fn(|| Some((values.next()?, values.next()?))).collect())
        }
        other => return Err(ValueError::Type(other)),
    }))
}

fn many(input: &[u8], at: &mut usize, n: usize, depth: usize) -> Result<Option<Vec<Value>>, ValueError> {
    let mut values = Vec::with_capacity(n.min(1024));
    for _ in 0..n {
        match parse(input, at, depth + 1)? {
            Some(v) => values.push(v),
            None => return Ok(None),
        }
    }
    Ok(Some(values))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Proto, Reply};

    #[test]
    fn what_a_reply_writes_reads_back() {
        let mut r = Reply::new(Proto::Resp3);
        r.array(4);
        r.map(1);
        r.bulk(b"k");
        r.double(1.5);
        r.null();
        r.boolean(true);
        r.verbatim("hello");
        let (v, n) = Value::parse(r.bytes()).unwrap().unwrap();
        assert_eq!(n, r.len());
        let map = Value::Map(vec![(Value::Bulk(b"k".to_vec()), Value::Double(1.5))]);
        assert_eq!(
            v,
            Value::Array(vec![map, Value::Null, Value::Bool(true), Value::Verbatim(b"hello".to_vec())])
        );
        for cut in 0..n {
            assert_eq!(Value::parse(&r.bytes()[..cut]), Ok(None), "cut at {cut}");
        }
    }

    #[test]
    fn nesting_without_end_is_an_error() {
        assert_eq!(Value::parse(&b"*1\r\n".repeat(100_000)), Err(ValueError::Depth));
    }
}
