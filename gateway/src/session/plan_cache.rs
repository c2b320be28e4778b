//! A session's plan cache: prepared statements by what the client sent, so that the same text is not parsed and planned
//! anew.
//!
//! ```text
//! by text   sql and declared types                  ──▶ Prepared
//! by tree   a query without the values of its WHERE ──▶ Prepared, which runs with the values of each text of its kind
//! ```
//!
//! Both maps hold a statement from its second occurrence on: what occurs once is only remembered by its hash
//! ([`Once`]). An entry is valid for one [`CacheKey`], catalog and settings. A [`Prepared`] in turn carries its own
//! plans: the compiled form of a short statement ([`point::CompiledPlan`](crate::point)), which depends on less (the
//! catalog's version and the search path) and is therefore checked without a copy of the settings, and the optimised
//! and the physical plan ([`PreparedPlan`](crate::query::plan_cache::PreparedPlan)), valid for the same [`CacheKey`].
//! `execute` asks the cache and fills it; `server` knows nothing of it. Sessions share no plans.

use super::{Prepared, Session};
use crate::{query::plan_cache::CacheKey, sql::ast::Statement, wire::transaction_status::TransactionStatus};
use datafusion::{scalar::ScalarValue, sql::sqlparser::ast};
use std::{
    collections::VecDeque,
    hash::{BuildHasher, Hash, RandomState},
    sync::Arc,
};

/// Entries by text, at most.
const TEXTS_MAX: usize = 16;
/// Entries by tree, at most.
pub(crate) const TREES_MAX: usize = 32;
/// Bytes of a text in the cache, at most.
const TEXT_BYTES_MAX: usize = 8 << 10;
/// Hashes of texts that occurred once, at most; as many of trees.
pub(crate) const ONCE_MAX: usize = 64;

/// The cache.
#[derive(Debug, Default)]
pub(crate) struct PlanCache {
    texts: Texts,
    pub(crate) trees: Trees,
}

/// What the client sends to have a statement prepared.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Text {
    pub(crate) sql: String,
    /// The declared types of parameters; `None` in the simple protocol, which has none.
    pub(crate) types: Option<Vec<u32>>,
}

/// What the cache has of a text.
#[derive(Debug)]
pub(crate) enum Lookup {
    /// The prepared statement.
    Hit(Prepared),
    /// Nothing, but the text occurred before: what is made of it now is to be [stored](Session::cache_text) under this
    /// key. If another session changes the catalog meanwhile, the entry is out of date at once.
    Again(Text, CacheKey),
    /// Nothing.
    Miss,
}

/// Prepared statements by text, the latest first.
#[derive(Debug, Default)]
struct Texts {
    entries: VecDeque<TextEntry>,
    once: Once,
}

#[derive(Debug)]
struct TextEntry {
    text: Text,
    key: CacheKey,
    prepared: Prepared,
}

/// Prepared queries by their tree without values, the latest first.
#[derive(Debug, Default)]
pub(crate) struct Trees {
    pub(crate) entries: VecDeque<TreeEntry>,
    pub(crate) once: Once,
}

/// A query without its values.
#[derive(Debug)]
pub(crate) struct TreeEntry {
    pub(crate) tree: ast::Statement,
    pub(crate) key: CacheKey,
    /// `None` when its plan cannot be kept.
    pub(crate) prepared: Option<Prepared>,
}

/// A query that runs as a prepared one of the cache, with values.
#[derive(Clone, Debug)]
pub(crate) struct Parameterized {
    pub(crate) key: Arc<CacheKey>,
    pub(crate) prepared: Arc<Prepared>,
    pub(crate) values: Vec<ScalarValue>,
}

/// Hashes of what occurred once, the latest last.
#[derive(Debug, Default)]
pub(crate) struct Once {
    hashes: VecDeque<u64>,
    state: RandomState,
}

impl PlanCache {
    /// Forgets all entries.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

impl Once {
    /// Records a hash; returns true, and removes it, if it was already recorded.
    pub(crate) fn occurred(&mut self, what: impl Hash) -> bool {
        let hash = self.state.hash_one(what);
        if let Some(at) = self.hashes.iter().position(|once| *once == hash) {
            self.hashes.remove(at);
            return true;
        }
        if self.hashes.len() == ONCE_MAX {
            self.hashes.pop_front();
        }
        self.hashes.push_back(hash);
        false
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.hashes.len()
    }
}

impl Texts {
    fn position(&self, sql: &str, types: Option<&[u32]>) -> Option<usize> {
        self.entries.iter().position(|entry| entry.text.sql == sql && entry.text.types.as_deref() == types)
    }

    /// Takes the entry at a position if it is valid, and moves it to the front; removes it otherwise.
    fn take(&mut self, at: usize, key: &CacheKey) -> Option<Prepared> {
        let entry = self.entries.remove(at).filter(|entry| entry.key == *key)?;
        let prepared = entry.prepared.clone();
        self.entries.push_front(entry);
        Some(prepared)
    }

    fn store(&mut self, entry: TextEntry) {
        self.entries.truncate(TEXTS_MAX - 1);
        self.entries.push_front(entry);
    }
}

impl Trees {
    /// The valid entry of a tree, moved to the front: its prepared statement, if its plan can be kept.
    pub(crate) fn take(&mut self, tree: &ast::Statement, key: &CacheKey) -> Option<Option<Prepared>> {
        let at = self.entries.iter().position(|entry| entry.tree == *tree)?;
        let entry = self.entries.remove(at).filter(|entry| entry.key == *key)?;
        let prepared = entry.prepared.clone();
        self.entries.push_front(entry);
        Some(prepared)
    }

    pub(crate) fn store(&mut self, entry: TreeEntry) {
        self.entries.truncate(TREES_MAX - 1);
        self.entries.push_front(entry);
    }
}

impl Parameterized {
    /// The statement that runs, and its values; `None` when the catalog or a setting has changed.
    pub(crate) fn valid(&self, session: &Session) -> Option<(&Prepared, Vec<ScalarValue>)> {
        (*self.key == session.cache_key()).then(|| (&*self.prepared, self.values.clone()))
    }
}

impl Session {
    /// Looks a text up; `types` as in [`Text`].
    pub(crate) fn lookup_text(&mut self, sql: &str, types: Option<&[u32]>) -> Lookup {
        self.set_wanted();
        // In a transaction that failed, any statement but its end is an error.
        if sql.len() > TEXT_BYTES_MAX || self.transaction_status() == TransactionStatus::Failed {
            return Lookup::Miss;
        }
        let text = || Text { sql: sql.to_owned(), types: types.map(<[u32]>::to_vec) };
        match self.plan_cache.texts.position(sql, types) {
            Some(at) => {
                let key = self.cache_key();
                match self.plan_cache.texts.take(at, &key) {
                    Some(prepared) => Lookup::Hit(prepared),
                    None => Lookup::Again(text(), key),
                }
            }
            None if self.plan_cache.texts.once.occurred((sql, types)) => Lookup::Again(text(), self.cache_key()),
            None => Lookup::Miss,
        }
    }

    /// Stores what was made of a text, if it is a query or a change of rows.
    pub(crate) fn cache_text(&mut self, text: Text, key: CacheKey, prepared: &Prepared) {
        use Statement::{Delete, Insert, LockingQuery, Query, Update};
        if matches!(*prepared.statement, Query(_) | LockingQuery(_) | Insert(_) | Update(_) | Delete(_)) {
            self.plan_cache.texts.store(TextEntry { text, key, prepared: prepared.clone() });
        }
    }

    /// What the session's plans depend on.
    pub(crate) fn cache_key(&self) -> CacheKey {
        CacheKey::new(self.catalog_snapshot(), self.settings())
    }
}
