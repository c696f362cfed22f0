//! Any bytes, in one piece and in pieces whose sizes the first byte gives: no panic, and the same requests.
#![no_main]
use kintsugidb_wire::{Limits, Parser};
use libfuzzer_sys::fuzz_target;

fn requests(input: &[u8], piece: usize) -> (Vec<Vec<Vec<u8>>>, Option<String>) {
    let limits = Limits { max_args: 1024, max_bulk: 1 << 16, max_request: 1 << 20 };
    let (mut parser, mut buffer, mut found) = (Parser::new(), Vec::new(), Vec::new());
    for bytes in input.chunks(piece.max(1)) {
        buffer.extend_from_slice(bytes);
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
                Err(e) => return (found, Some(e.to_string())),
            }
        }
    }
    (found, None)
}

fuzz_target!(|data: &[u8]| {
    let Some((&piece, input)) = data.split_first() else { return };
    assert_eq!(requests(input, usize::MAX), requests(input, usize::from(piece)));
});
