//! The `kintsugi` command.
#![forbid(unsafe_code)]

mod cli;
mod demo;
mod io;
mod serve;
mod target;

use clap::FromArgMatches as _;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let matches = cli::command().get_matches();
    let done = match matches.subcommand() {
        Some(("serve", flags)) => serve::run(flags),
        Some(("demo", flags)) => return demo(flags),
        Some(("bench", flags)) => bench(flags),
        Some(("io", flags)) => io::run(io::Options::from_arg_matches(flags).unwrap_or_else(|e| e.exit())),
        Some(("target", flags)) => {
            target::run(target::Options::from_arg_matches(flags).unwrap_or_else(|e| e.exit()))
        }
        _ => serve::run(&matches),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("kintsugi: {why}");
            ExitCode::FAILURE
        }
    }
}

fn bench(flags: &clap::ArgMatches) -> Result<(), String> {
    let figure = kintsugidb_bench::Bench::from_arg_matches(flags).unwrap_or_else(|e| e.exit());
    kintsugidb_bench::run(figure).map_err(|why| why.to_string())
}

fn demo(flags: &clap::ArgMatches) -> ExitCode {
    let options = demo::Options::from_arg_matches(flags).unwrap_or_else(|e| e.exit());
    demo::run(&options).unwrap_or_else(|why| {
        eprintln!("kintsugi: {why}");
        ExitCode::FAILURE
    })
}
