use super::*;

type Requests = Vec<Vec<Vec<u8>>>;

/// Feeds `input` in pieces whose sizes `piece` gives; the requests found, and the error that ended it.
fn feed(input: &[u8], mut piece: impl FnMut() -> usize) -> (Requests, Option<ProtocolError>) {
    let mut parser = Parser::new();
    let limits = Limits { max_args: 1024, max_bulk: 1 << 16, max_request: 1 << 20 };
    let (mut buffer, mut sent, mut found) = (Vec::new(), 0, Vec::new());
    loop {
        loop {
            match parser.parse(&buffer, &limits) {
                Ok(None) => break,
                Ok(Some(n)) => {
                    let args: Vec<_> = parser.args(&buffer).map(<[u8]>::to_vec).collect();
                    if !args.is_empty() {
                        found.push(args);
                    }
                    buffer.drain(..n);
                }
                Err(e) => return (found, Some(e)),
            }
        }
        if sent == input.len() {
            return (found, None);
        }
        let n = piece().clamp(1, input.len() - sent);
        buffer.extend_from_slice(&input[sent..sent + n]);
        sent += n;
    }
}

fn whole(input: &[u8]) -> (Requests, Option<ProtocolError>) {
    feed(input, || usize::MAX)
}

fn text(input: &[u8]) -> String {
    whole(input).1.map(|e| e.to_string()).unwrap_or_default()
}

struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: u64) -> usize {
        (self.next() % n) as usize
    }
}

#[test]
fn requests_are_found_one_after_the_other() {
    let (found, error) = whole(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*0\r\n*-1\r\nPING  a\r\n\r\n*1\r\n$0\r\n\r\n");
    assert_eq!(error, None);
    assert_eq!(
        found,
        vec![vec![b"GET".to_vec(), b"k".to_vec()], vec![b"PING".to_vec(), b"a".to_vec()], vec![b"".to_vec()],]
    );
}

#[test]
fn quotes_of_inline_commands_are_decoded() {
    let (found, error) = whole(b"set \"a\\x41\\n\" 'it\\'s' plain\n");
    assert_eq!(error, None);
    let want: Vec<&[u8]> = vec![b"set", b"aA\n", b"it's", b"plain"];
    assert_eq!(found, vec![want]);
}

#[test]
fn errors_have_the_texts_of_redis() {
    assert_eq!(text(b"*x\r\n"), "ERR Protocol error: invalid multibulk length");
    assert_eq!(text(b"*3000000000\r\n"), "ERR Protocol error: invalid multibulk length");
    assert_eq!(text(b"*1\r\nfoo\r\n"), "ERR Protocol error: expected '$', got 'f'");
    assert_eq!(text(b"*1\r\n$-10\r\n"), "ERR Protocol error: invalid bulk length");
    assert_eq!(text(b"*1\r\n$2000000000\r\n"), "ERR Protocol error: invalid bulk length");
    assert_eq!(text(b"*1\r\n$blabla\r\n"), "ERR Protocol error: invalid bulk length");
    assert_eq!(text(b"set \"\"\"test\"\"\" x\r\n"), "ERR Protocol error: unbalanced quotes in request");
    assert_eq!(text(&[b'x'; 65 * 1024 + 1]), "ERR Protocol error: too big inline request");
    assert_eq!(
        text(&[&b"*"[..], &[b'1'; 65 * 1024]].concat()),
        "ERR Protocol error: too big mbulk count string"
    );
    let long = [&b"*1\r\n$"[..], &[b'1'; 65 * 1024]].concat();
    assert_eq!(text(&long), "ERR Protocol error: too big bulk count string");
}

#[test]
fn a_declared_length_allocates_nothing() {
    let mut parser = Parser::new();
    let input = b"*1048576\r\n$536870912\r\nabc";
    assert_eq!(parser.parse(input, &Limits::default()), Ok(None));
    assert_eq!(parser.spans.capacity(), 0);
    assert_eq!(parser.wants(input.len()), 536_870_912 + 2 - 3);
}

#[test]
fn a_request_in_any_pieces_is_the_same_request() {
    for seed in 1..=400u64 {
        let mut rng = Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let (mut input, mut want) = (Vec::new(), Vec::new());
        for _ in 0..rng.below(6) + 1 {
            let args: Vec<Vec<u8>> = (0..rng.below(5) + 1)
                .map(|_| (0..rng.below(40)).map(|_| rng.next() as u8).collect())
                .collect();
            input.extend_from_slice(format!("*{}\r\n", args.len()).as_bytes());
            for a in &args {
                input.extend_from_slice(format!("${}\r\n", a.len()).as_bytes());
                input.extend_from_slice(a);
                input.extend_from_slice(b"\r\n");
            }
            want.push(args);
        }
        let (found, error) = feed(&input, || rng.below(9) + 1);
        assert_eq!((found, error), (want, None), "seed {seed}");
    }
}

/// Bytes that look like requests but are broken somewhere: never a panic, and the same outcome in one piece as in many.
#[test]
fn broken_requests_end_the_same_way_in_any_pieces() {
    const PARTS: [&[u8]; 16] = [
        b"*",
        b"$",
        b"\r\n",
        b"\n",
        b"\r",
        b"1",
        b"3",
        b"-1",
        b"0",
        b"GET",
        b"\"",
        b"'",
        b" ",
        b"\\x4",
        b"\0",
        b"99999999999999999999",
    ];
    for seed in 1..=4000u64 {
        let mut rng = Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut input = Vec::new();
        for _ in 0..rng.below(30) {
            match rng.below(8) {
                0 => input.push(rng.next() as u8),
                1 => input.extend_from_slice(b"*1\r\n$3\r\nfoo\r\n"),
                _ => input.extend_from_slice(PARTS[rng.below(16)]),
            }
        }
        let at_once = whole(&input);
        let in_pieces = feed(&input, || rng.below(4) + 1);
        assert_eq!(at_once, in_pieces, "seed {seed}: {input:?}");
    }
}
