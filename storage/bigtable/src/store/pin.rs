//! What reads at a pin have seen of the rows that a commit may rely on.
//!
//! A row without an entry was absent if a read covered its key. If none did, no one can have relied on what it held: it
//! is read when the commit comes, and remembered, so that a second commit of the same pin finds the first.

use super::guard::Guard;
use bytes::Bytes;
use keyspan_storage::{Error, KeyRange, Pin, Result, RowKey, RowSet, TableName};
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

/// Rows that a pin remembers.
const ROWS_MAX: usize = 1_000_000;
/// Reads that a pin remembers.
const READS_MAX: usize = 100_000;

/// A row as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) guard: Guard,
    /// The newest timestamp of any cell, in microseconds.
    pub(super) newest_micros: i64,
}

/// What was seen at one pin.
#[derive(Debug, Default)]
pub(super) struct Relied(Mutex<Content>);

#[derive(Debug, Default)]
struct Content {
    rows: HashMap<(TableName, RowKey), Seen>,
    covered: Vec<(TableName, RowSet)>,
}

impl Relied {
    /// What a pin of this store remembers.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a pin of another store.
    pub(super) fn of(pin: &Pin) -> Result<&Self> {
        pin.state.downcast_ref().ok_or_else(|| Error::Invalid("the pin is one of another store".into()))
    }

    /// Remembers a row; the first time counts.
    ///
    /// # Errors
    /// [`Error::TooMany`] rows.
    pub(super) fn add(&self, table: &TableName, key: &RowKey, seen: Seen) -> Result<()> {
        let mut content = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = content.rows.len() + 1;
        if count > ROWS_MAX {
            return Err(Error::TooMany { what: "rows that a transaction relies on", count, limit: ROWS_MAX });
        }
        content.rows.entry((table.clone(), key.clone())).or_insert(seen);
        Ok(())
    }

    /// Remembers that these rows were read.
    ///
    /// # Errors
    /// [`Error::TooMany`] reads.
    pub(super) fn cover(&self, table: &TableName, rows: RowSet) -> Result<()> {
        let mut content = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = content.covered.len() + 1;
        if count > READS_MAX {
            return Err(Error::TooMany { what: "reads that a transaction relies on", count, limit: READS_MAX });
        }
        content.covered.push((table.clone(), rows));
        Ok(())
    }

    /// A row as it was read; `None` if no read covered it.
    pub(super) fn seen(&self, table: &TableName, key: &RowKey) -> Option<Seen> {
        let content = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(seen) = content.rows.get(&(table.clone(), key.clone())) {
            return Some(seen.clone());
        }
        let covers = |(of, rows): &(TableName, RowSet)| {
            let after = rows.ranges().partition_point(|range| range.start <= key[..]);
            of == table && after.checked_sub(1).is_some_and(|at| rows.ranges()[at].contains(key))
        };
        content.covered.iter().any(covers).then_some(Seen { guard: Guard::Absent, newest_micros: i64::MIN })
    }
}

/// The part of the rows that a read has passed when it stops at this key.
pub(super) fn passed(rows: &RowSet, last: &RowKey, reversed: bool) -> RowSet {
    let part = if reversed {
        KeyRange::new(last.bytes().clone(), None)
    } else {
        KeyRange::new(Bytes::new(), Some([&last[..], &[0]].concat().into()))
    };
    rows.intersect(&part.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> RowKey {
        RowKey::new(Bytes::copy_from_slice(text.as_bytes())).unwrap()
    }

    #[test]
    fn a_row_is_seen_absent_or_unread() {
        let (relied, table) = (Relied::default(), TableName::new("t").unwrap());
        let seen = Seen { guard: Guard::Token("1".into()), newest_micros: 5 };
        relied.add(&table, &key("b"), seen.clone()).unwrap();
        relied.add(&table, &key("b"), Seen { guard: Guard::Absent, newest_micros: 0 }).unwrap();
        let rows = RowSet::new([KeyRange::new("a", Some("c".into())), KeyRange::point(b"x")]);
        relied.cover(&table, passed(&rows, &key("bb"), false)).unwrap();
        let guard = |text: &str| relied.seen(&table, &key(text)).map(|seen| seen.guard);
        assert_eq!(relied.seen(&table, &key("b")), Some(seen), "the first read counts");
        assert_eq!(guard("a"), Some(Guard::Absent));
        assert_eq!(guard("bc"), None, "the read stopped before");
        assert_eq!(guard("x"), None);
        assert_eq!(relied.seen(&TableName::new("u").unwrap(), &key("a")), None);
        relied.cover(&table, passed(&rows, &key("bb"), true)).unwrap();
        assert_eq!((guard("bc"), guard("x"), guard("y")), (Some(Guard::Absent), Some(Guard::Absent), None));
    }
}
