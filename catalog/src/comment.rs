//! What `COMMENT ON` says of a relation and its columns.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Bytes of a comment, at most: it lies in the catalog, which is in memory.
pub const COMMENT_BYTES_MAX: usize = 16 << 10;

/// The comments of a relation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comments {
    /// That of the relation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relation: Option<String>,
    /// Those of columns, by their numbers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub columns: BTreeMap<u16, String>,
}

impl Comments {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The comments with another of the relation, or of a column; `None` takes it away.
    #[must_use]
    pub fn with(&self, column: Option<u16>, text: Option<String>) -> Self {
        let mut comments = self.clone();
        match (column, text) {
            (None, text) => comments.relation = text,
            (Some(column), Some(text)) => drop(comments.columns.insert(column, text)),
            (Some(column), None) => drop(comments.columns.remove(&column)),
        }
        comments
    }

    /// The comment of the relation, or of a column.
    pub fn get(&self, column: Option<u16>) -> Option<&str> {
        match column {
            None => self.relation.as_deref(),
            Some(column) => self.columns.get(&column).map(String::as_str),
        }
    }
}
