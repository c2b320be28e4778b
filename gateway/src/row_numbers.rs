//! Keys of rows in private tables without a primary key.
//!
//! A key is 16 bytes: a time in microseconds that never comes twice from one process and only grows, then a number that the process
//! has drawn. So rows lie in the order in which they were inserted, none has the key of another, and nothing needs to be looked up.

use keyspan_catalog::Value;
use std::sync::atomic::{AtomicI64, Ordering};

/// The keys that a process gives.
#[derive(Debug)]
pub struct RowNumbers {
    /// Drawn at random: two processes, or two lives of one, have different ones.
    process: u64,
    /// The last time that was given.
    last_micros: AtomicI64,
}

impl Default for RowNumbers {
    fn default() -> Self {
        Self { process: rand::random(), last_micros: AtomicI64::new(0) }
    }
}

impl RowNumbers {
    /// A key that no row has or had.
    pub fn next(&self, now_micros: i64) -> Value {
        let given = |last: i64| Some(now_micros.max(last + 1));
        let last = self.last_micros.fetch_update(Ordering::Relaxed, Ordering::Relaxed, given);
        let micros = last.map_or(now_micros, |last| now_micros.max(last + 1));
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&micros.to_be_bytes());
        bytes[8..].copy_from_slice(&self.process.to_be_bytes());
        Value::Uuid(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_grow_whatever_the_clock_does() {
        let numbers = RowNumbers::default();
        let given = [5, 5, 9, 2, 9].map(|now| match numbers.next(now) {
            Value::Uuid(bytes) => i64::from_be_bytes(bytes[..8].try_into().unwrap()),
            other => panic!("{other:?}"),
        });
        assert_eq!(given, [5, 6, 9, 10, 11]);
        assert_ne!(numbers.process, RowNumbers::default().process);
    }
}
