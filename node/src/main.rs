//! The `ketch` command.
fn main() {}
