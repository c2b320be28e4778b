//! Support for tests of this crate's backends and of others: the [`conformance`] suite, [`arbitrary`] operations, the
//! [`differential`] test, which compares a store with another, a file system that crashes ([`sim`]), and the entry
//! points of [fuzzers](fuzz).

#![expect(clippy::unwrap_used, reason = "these are tests, in a library only so that every backend can call them")]

pub mod arbitrary;
#[cfg(test)]
pub(crate) mod blobs;
pub mod coarse;
pub mod columnar;
pub mod conformance;
pub mod differential;
pub mod fuzz;
mod notation;
pub mod sim;

pub use notation::{Subject, TABLE};
