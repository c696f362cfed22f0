//! The `kintsugi` command.
fn main() {}
