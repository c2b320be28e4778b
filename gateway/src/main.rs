//! The program `keyspan`.
fn main() {}
