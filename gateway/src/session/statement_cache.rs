//! Statements that a session prepared lately, by their text: many drivers, and whoever uses the simple protocol, send the same text anew each
//! time, and would pay for parsing and planning each time.
//!
//! A text that comes once is only remembered by its hash; when it comes again, what was made of it is kept, for as long as catalog and settings
//! are what they were ([`Seen`]). Plans are of one session: nothing of them goes from one to another.

use super::{Prepared, Session};
use crate::{query::plan_cache::Seen, sql::ast::Statement, wire::transaction_status::TransactionStatus};
use std::{
    collections::VecDeque,
    hash::{BuildHasher, Hash, RandomState},
};

/// Statements that are kept, at most.
const KEPT_MAX: usize = 16;
/// Bytes of a text that is kept, at most.
const TEXT_BYTES_MAX: usize = 8 << 10;
/// Texts that came once, at most; as many kinds of texts.
pub(crate) const ONCE_MAX: usize = 64;

/// What the client sends to have a statement prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Text<'a> {
    pub(crate) sql: &'a str,
    /// The types that it declares for parameters; `None` in the simple protocol, which has none.
    pub(crate) types: Option<&'a [u32]>,
}

/// The statements.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    /// The latest first.
    kept: VecDeque<Entry>,
    once: Once,
}

/// What came once, by its hash.
#[derive(Debug, Default)]
pub(crate) struct Once {
    /// The latest last.
    came: VecDeque<u64>,
    hashes: RandomState,
}

impl Once {
    /// Whether something came before. From now on it did, or, when it is the second time, it did not.
    pub(crate) fn came(&mut self, what: impl Hash) -> bool {
        let hash = self.hashes.hash_one(what);
        if let Some(at) = self.came.iter().position(|once| *once == hash) {
            self.came.remove(at);
            return true;
        }
        if self.came.len() == ONCE_MAX {
            self.came.pop_front();
        }
        self.came.push_back(hash);
        false
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.came.len()
    }
}

#[derive(Debug)]
struct Entry {
    sql: String,
    types: Option<Vec<u32>>,
    seen: Seen,
    prepared: Prepared,
}

/// What is known of a text.
#[derive(Debug)]
pub(crate) enum Known {
    /// What was made of it.
    Prepared(Prepared),
    /// It came before: what is made of it from now on is to be [kept](Session::keep), with what is seen now; what another session changes
    /// meanwhile makes it out of date at once.
    Again(Seen),
    /// Nothing.
    New,
}

impl Recent {
    /// Where the text is among those that are kept.
    fn position(&self, text: Text<'_>) -> Option<usize> {
        self.kept.iter().position(|entry| entry.sql == text.sql && entry.types.as_deref() == text.types)
    }

    /// Takes the statement at a place if it was made of what is seen now; forgets it otherwise.
    fn take(&mut self, at: usize, seen: &Seen) -> Option<Prepared> {
        let entry = self.kept.remove(at).filter(|entry| entry.seen == *seen)?;
        let prepared = entry.prepared.clone();
        self.kept.push_front(entry);
        Some(prepared)
    }

    fn keep(&mut self, text: Text<'_>, seen: Seen, prepared: Prepared) {
        self.kept.truncate(KEPT_MAX - 1);
        let (sql, types) = (text.sql.to_owned(), text.types.map(<[u32]>::to_vec));
        self.kept.push_front(Entry { sql, types, seen, prepared });
    }

    /// Forgets all of them.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

impl Session {
    /// What is known of a text that the client sends.
    pub(crate) fn known(&mut self, text: Text<'_>) -> Known {
        self.set_wanted();
        // In a transaction that failed, all that comes of a statement is an error.
        if text.sql.len() > TEXT_BYTES_MAX || self.transaction_status() == TransactionStatus::Failed {
            return Known::New;
        }
        match self.recent.position(text) {
            Some(at) => {
                let seen = self.seen();
                self.recent.take(at, &seen).map_or(Known::Again(seen), Known::Prepared)
            }
            None if self.recent.once.came(text) => Known::Again(self.seen()),
            None => Known::New,
        }
    }

    /// Keeps what was made of a text that came again; nothing if it is no query or change of rows.
    pub(crate) fn keep(&mut self, text: Text<'_>, seen: Seen, prepared: &Prepared) {
        use Statement::{Delete, Insert, LockingQuery, Query, Update};
        if matches!(*prepared.statement, Query(_) | LockingQuery(_) | Insert(_) | Update(_) | Delete(_)) {
            self.recent.keep(text, seen, prepared.clone());
        }
    }

    /// What makes a plan what it is.
    pub(crate) fn seen(&self) -> Seen {
        Seen::new(self.catalog_snapshot(), self.settings())
    }
}
