//! The server under test.
fn main() {}
