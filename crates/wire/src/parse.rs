//! Parsing requests: RESP arrays of bulk strings, and inline commands, out of a buffer that fills as bytes arrive.
//!
//! ```text
//!   buffer   [ request ][ request ][ half a reque            ]
//!              ^ parse() is given the buffer from here on, and says how many bytes the request took
//! ```
//! The parser keeps where it stopped, so a request that arrives in a thousand pieces is looked at once, not a thousand
//! times. It remembers positions relative to the request's first byte: the caller may move the bytes of the
//! buffer between calls, as long as each call is given the request from its first byte on.
//! Arguments are slices of the buffer. Only an inline command with quotes is decoded into a buffer of the parser's own.
//!
//! Nothing is allocated because a length was *declared*: positions are recorded as arguments arrive.
//! The texts of errors, and what is an error at all, are Redis's.

/// What a request may be at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Arguments of one request.
    pub max_args: usize,
    /// Bytes of one argument.
    pub max_bulk: usize,
    /// Bytes of one request.
    pub max_request: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_args: 1024 * 1024, max_bulk: 512 << 20, max_request: 1 << 30 }
    }
}

/// Bytes of an inline command, or of the line with a length.
const MAX_LINE: usize = 64 * 1024;

/// Positions that are kept for the next request.
const KEEP: usize = 1024;

/// What a peer sent that is no request. The connection cannot go on. Displays as the error reply, code first.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The count of arguments is no number, or too large.
    #[error("ERR Protocol error: invalid multibulk length")]
    ArrayLength,
    /// The line with the count of arguments does not end.
    #[error("ERR Protocol error: too big mbulk count string")]
    ArrayLine,
    /// An argument does not begin with `$`.
    #[error("ERR Protocol error: expected '$', got '{}'", char::from(*.0))]
    NotBulk(u8),
    /// The length of an argument is no number, or too large.
    #[error("ERR Protocol error: invalid bulk length")]
    BulkLength,
    /// The line with the length of an argument does not end.
    #[error("ERR Protocol error: too big bulk count string")]
    BulkLine,
    /// An inline command's line does not end.
    #[error("ERR Protocol error: too big inline request")]
    Inline,
    /// An inline command with an open quote.
    #[error("ERR Protocol error: unbalanced quotes in request")]
    Quotes,
    /// The request as a whole is larger than it may be.
    #[error("ERR Protocol error: too big request")]
    Request,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Before a request.
    #[default]
    Start,
    /// This many arguments are still to come.
    Args(usize),
    /// The same, and the length of the next one is known.
    Bulk(usize, usize),
}

/// A parser of one connection's requests.
#[derive(Debug, Default)]
pub struct Parser {
    state: State,
    /// Where the next byte to look at is, counted from the request's first.
    at: usize,
    /// Arguments found so far: begin and end.
    spans: Vec<(u32, u32)>,
    /// Decoded inline arguments, if the request was one with quotes.
    decoded: Vec<u8>,
    is_decoded: bool,
}

impl Parser {
    /// A parser before its first request.
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks for a request at the beginning of `input`. `Some(n)`: it took `n` bytes, and its arguments are
    /// [`Parser::args`] of the same input; there may be none, which is to be passed over. `None`: it is not all there yet.
    pub fn parse(&mut self, input: &[u8], limits: &Limits) -> Result<Option<usize>, ProtocolError> {
        if self.state == State::Start {
            self.spans.clear();
            self.spans.shrink_to(KEEP);
            self.at = 0;
            self.is_decoded = false;
            match input.first() {
                None => return Ok(None),
                Some(b'*') => {
                    let Some((line, next)) = line(input, 1, ProtocolError::ArrayLine)? else {
                        return Ok(None);
                    };
                    let n = decimal(line)
                        .filter(|&n| n <= limits.max_args as i64)
                        .ok_or(ProtocolError::ArrayLength)?;
                    self.at = next;
                    if n <= 0 {
                        return Ok(Some(next));
                    }
                    self.state = State::Args(n as usize);
                }
                Some(_) => return self.inline(input),
            }
        }
        loop {
            match self.state {
                State::Start | State::Args(0) => {
                    self.state = State::Start;
                    return Ok(Some(self.at));
                }
                State::Args(left) => {
                    let Some(&kind) = input.get(self.at) else { return Ok(None) };
                    if kind != b'$' {
                        return Err(ProtocolError::NotBulk(kind));
                    }
                    let Some((line, next)) = line(input, self.at + 1, ProtocolError::BulkLine)? else {
                        return Ok(None);
                    };
                    let n = decimal(line)
                        .filter(|&n| (0..=limits.max_bulk as i64).contains(&n))
                        .ok_or(ProtocolError::BulkLength)? as usize;
                    if next + n > limits.max_request.min(u32::MAX as usize) {
                        return Err(ProtocolError::Request);
                    }
                    self.at = next;
                    self.state = State::Bulk(left, n);
                }
                State::Bulk(left, n) => {
                    let end = self.at + n;
                    if input.len() < end + 2 {
                        return Ok(None);
                    }
                    self.spans.push((self.at as u32, end as u32));
                    self.at = end + 2;
                    self.state = State::Args(left - 1);
                }
            }
        }
    }

    /// How many more bytes the request needs at the least; a hint for the size of the buffer, 0 if nothing is known.
    pub fn wants(&self, have: usize) -> usize {
        match self.state {
            State::Bulk(_, n) => (self.at + n + 2).saturating_sub(have),
            _ => 0,
        }
    }

    /// Whether part of a request was seen.
    pub fn is_inside(&self) -> bool {
        self.state != State::Start
    }

    /// Number of arguments of the request just parsed.
    pub fn count(&self) -> usize {
        self.spans.len()
    }

    /// The arguments of the request just parsed, out of the same input.
    pub fn args<'a>(&'a self, input: &'a [u8]) -> impl ExactSizeIterator<Item = &'a [u8]> {
        let from = if self.is_decoded { &self.decoded[..] } else { input };
        self.spans.iter().map(move |&(start, end)| &from[start as usize..end as usize])
    }

    fn inline(&mut self, input: &[u8]) -> Result<Option<usize>, ProtocolError> {
        // Where the last call stopped looking is not kept: a line is short, or an error.
        let Some(end) = input.iter().take(MAX_LINE + 1).position(|&b| b == b'\n') else {
            return if input.len() > MAX_LINE { Err(ProtocolError::Inline) } else { Ok(None) };
        };
        let text = &input[..end];
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        if text.iter().any(|b| matches!(b, b'"' | b'\'')) {
            self.is_decoded = true;
            self.decoded.clear();
            split_quoted(text, &mut self.decoded, &mut self.spans).ok_or(ProtocolError::Quotes)?;
        } else {
            let mut start = 0;
            for (i, b) in text.iter().enumerate().chain([(text.len(), &b' ')]) {
                if is_space(*b) {
                    if i > start {
                        self.spans.push((start as u32, i as u32));
                    }
                    start = i + 1;
                }
            }
        }
        Ok(Some(end + 1))
    }
}

/// The line from `start` up to `\r\n`, and where the next begins.
fn line(
    input: &[u8],
    start: usize,
    too_long: ProtocolError,
) -> Result<Option<(&[u8], usize)>, ProtocolError> {
    let rest = input.get(start..).unwrap_or_default();
    match rest.iter().take(MAX_LINE).position(|&b| b == b'\r') {
        // As in Redis, what follows the carriage return is passed over unseen.
        Some(n) if rest.len() > n + 1 => Ok(Some((&rest[..n], start + n + 2))),
        Some(_) => Ok(None),
        None if rest.len() >= MAX_LINE => Err(too_long),
        None => Ok(None),
    }
}

/// A decimal number without sign (but for a minus), leading zeros or anything else around it.
fn decimal(s: &[u8]) -> Option<i64> {
    let (negative, digits) = match s {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, s),
    };
    let leading_zero = digits.len() > 1 && digits[0] == b'0';
    if digits.is_empty() || digits.len() > 18 || leading_zero || (negative && digits[0] == b'0') {
        return None;
    }
    let mut n = 0i64;
    for &b in digits {
        if !b.is_ascii_digit() {
            return None;
        }
        n = n * 10 + i64::from(b - b'0');
    }
    Some(if negative { -n } else { n })
}

fn is_space(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c | 0)
}

/// Splits a line at spaces, with "double" (escapes as in C, `\xff`) and 'single' quotes. `None`: a quote is open, or
/// something other than a space follows a closing one.
fn split_quoted(text: &[u8], out: &mut Vec<u8>, spans: &mut Vec<(u32, u32)>) -> Option<()> {
    let mut i = 0;
    loop {
        while text.get(i).is_some_and(|&b| is_space(b)) {
            i += 1;
        }
        if i == text.len() {
            return Some(());
        }
        let start = out.len() as u32;
        while let Some(&b) = text.get(i) {
            match b {
                _ if is_space(b) => break,
                b'"' | b'\'' => {
                    i = unquote(text, i + 1, b, out)?;
                    if text.get(i).is_some_and(|&b| !is_space(b)) {
                        return None;
                    }
                }
                _ => {
                    out.push(b);
                    i += 1;
                }
            }
        }
        spans.push((start, out.len() as u32));
    }
}

/// Decodes from after an opening quote to after the closing one; where that is.
fn unquote(text: &[u8], mut i: usize, quote: u8, out: &mut Vec<u8>) -> Option<usize> {
    loop {
        let b = *text.get(i)?;
        i += 1;
        match b {
            _ if b == quote => return Some(i),
            b'\\' if quote == b'\'' => {
                if text.get(i) == Some(&b'\'') {
                    out.push(b'\'');
                    i += 1;
                } else {
                    out.push(b);
                }
            }
            b'\\' => {
                let escaped = *text.get(i)?;
                i += 1;
                let hex = |at: usize| char::from(*text.get(at)?).to_digit(16);
                match (escaped, hex(i), hex(i + 1)) {
                    (b'x', Some(high), Some(low)) => {
                        out.push((high * 16 + low) as u8);
                        i += 2;
                    }
                    (b'n', ..) => out.push(b'\n'),
                    (b'r', ..) => out.push(b'\r'),
                    (b't', ..) => out.push(b'\t'),
                    (b'b', ..) => out.push(8),
                    (b'a', ..) => out.push(7),
                    (other, ..) => out.push(other),
                }
            }
            _ => out.push(b),
        }
    }
}

#[cfg(test)]
mod tests;
