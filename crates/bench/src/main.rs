//! The benchmarks by themselves, for when the `kintsugi` binary to measure is another one.
use clap::Parser;

fn main() -> std::process::ExitCode {
    match kintsugidb_bench::run(kintsugidb_bench::Bench::parse()) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("kintsugi bench: {e}");
            std::process::ExitCode::FAILURE
        }
    }
}
