//! For tests: commands as lines of text, replies as text on one line.
use crate::{Shard, execute};
use kintsugidb_wire::{Proto, Reply};

/// A shard and a protocol version.
pub(crate) struct Probe {
    pub(crate) shard: Shard,
    pub(crate) proto: Proto,
}

impl Probe {
    /// An empty shard at time 1,000,000 ms, in RESP2.
    pub(crate) fn new() -> Self {
        let mut shard = Shard::new(1);
        shard.now_ms = 1_000_000;
        Self { shard, proto: Proto::Resp2 }
    }

    /// Runs a command of arguments separated by spaces; `""` is the empty argument, `_` in one stands for a space.
    /// The reply's line breaks become spaces, the last one is left out: `*2 $1 a $-1`.
    pub(crate) fn run(&mut self, line: &str) -> String {
        let args: Vec<Vec<u8>> = line
            .split_whitespace()
            .map(|a| if a == "\"\"" { Vec::new() } else { a.replace('_', " ").into_bytes() })
            .collect();
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        self.args(&args)
    }

    /// The same with arguments of any bytes.
    pub(crate) fn args(&mut self, args: &[&[u8]]) -> String {
        let mut out = Reply::new(self.proto);
        execute(&mut self.shard, args, &mut out);
        let text = String::from_utf8_lossy(out.bytes()).into_owned();
        text.strip_suffix("\r\n").expect("a reply ends with a line break").replace("\r\n", " ")
    }

    /// Runs lines `command => reply` and compares; after `=~>` the reply's words may come in any order.
    pub(crate) fn expect(&mut self, script: &str) {
        for line in script.lines().map(str::trim).filter(|l| !l.is_empty()) {
            if let Some((command, reply)) = line.split_once("=~>") {
                let sorted = |text: &str| {
                    let mut words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
                    words.sort_unstable();
                    words
                };
                assert_eq!(sorted(&self.run(command)), sorted(reply), "{command}");
                continue;
            }
            let (command, reply) = line.split_once("=>").expect("a line has an arrow");
            assert_eq!(self.run(command).trim(), reply.trim(), "{command}");
        }
    }
}
