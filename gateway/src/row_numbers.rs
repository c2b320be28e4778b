//! Keys of rows in private tables without a primary key.
//!
//! A key is 16 bytes: a time in microseconds, which rises from key to key within one process, then a random number of
//! the process. So rows are in the order in which they were inserted, no two have the same key, and no lookup is needed
//! to make one.

use keyspan_catalog::Value;
use std::sync::atomic::{AtomicI64, Ordering};

/// Makes the keys of one process.
#[derive(Debug)]
pub struct RowNumbers {
    /// Random, so that two processes, and two runs of one server, differ.
    process: u64,
    /// The time in the last key.
    last_micros: AtomicI64,
}

impl Default for RowNumbers {
    fn default() -> Self {
        Self { process: rand::random(), last_micros: AtomicI64::new(0) }
    }
}

impl RowNumbers {
    /// The next key, unique among all rows there were.
    pub fn next(&self, now_micros: i64) -> Value {
        let next = |last: i64| Some(now_micros.max(last + 1));
        let last = self.last_micros.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
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
    fn keys_rise_whatever_the_clock_does() {
        let numbers = RowNumbers::default();
        let times = [5, 5, 9, 2, 9].map(|now| match numbers.next(now) {
            Value::Uuid(bytes) => i64::from_be_bytes(bytes[..8].try_into().unwrap()),
            other => panic!("{other:?}"),
        });
        assert_eq!(times, [5, 6, 9, 10, 11]);
        assert_ne!(numbers.process, RowNumbers::default().process);
    }
}
