//! See the crate.

pub mod demo;
