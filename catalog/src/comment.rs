//! Comments on a relation and its columns, as `COMMENT ON` sets them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Length limit of a comment in bytes: the catalog keeps it in memory.
pub const COMMENT_BYTES_MAX: usize = 16 << 10;

/// The comments of a relation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comments {
    /// The comment on the relation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relation: Option<String>,
    /// The comments on columns, by column number.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub columns: BTreeMap<u16, String>,
}

impl Comments {
    /// Whether there are no comments.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The comments with `text` on a column, or on the relation if `column` is `None`; without `text` the comment is
    /// removed.
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

    /// The comment on a column, or on the relation if `column` is `None`.
    pub fn get(&self, column: Option<u16>) -> Option<&str> {
        match column {
            None => self.relation.as_deref(),
            Some(column) => self.columns.get(&column).map(String::as_str),
        }
    }
}
