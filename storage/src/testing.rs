//! What tests of a store need: a file system that crashes.

pub mod sim;
