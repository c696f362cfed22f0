//! Benchmarks, each beside its baseline
