//! The `bench-factor` command.
fn main() {}
