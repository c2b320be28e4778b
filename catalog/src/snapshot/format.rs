//! The format in which a catalog is stored: the least that has all that is in it.

use super::Snapshot;
use crate::{KeyPart, SqlType};

/// The format of a catalog without what came later.
pub(crate) const FIRST_FORMAT: u32 = 1;
/// The format of one with keys of reversed parts: a program before them would look for rows where none are.
pub(crate) const REVERSED_KEYS_FORMAT: u32 = 2;
/// The format of one with materialized views: a program before them would delete their rows as those of no table.
pub(crate) const MATERIALIZED_FORMAT: u32 = 3;

/// The format of one with enumerated types: a program before them would let a column of one have any text.
pub(crate) const ENUM_TYPES_FORMAT: u32 = 4;

/// The format of one with domains: a program before them would write what contradicts one.
pub(crate) const DOMAINS_FORMAT: u32 = 5;

/// The format of one with columns of bit strings: a program before them could not read their tables.
pub(crate) const BITS_FORMAT: u32 = 6;

impl Snapshot {
    /// Raises the format to the least that has all that is in the catalog.
    pub(super) fn raise_format(&mut self) {
        if self.format < BITS_FORMAT && self.has_bits() {
            self.format = BITS_FORMAT;
        } else if self.format < DOMAINS_FORMAT && self.private.values().any(|private| !private.domains.is_empty()) {
            self.format = DOMAINS_FORMAT;
        } else if self.format < ENUM_TYPES_FORMAT && self.private.values().any(|private| !private.enum_types.is_empty())
        {
            self.format = ENUM_TYPES_FORMAT;
        } else if self.format < MATERIALIZED_FORMAT && self.has_materialized_views() {
            self.format = MATERIALIZED_FORMAT;
        } else if self.format < REVERSED_KEYS_FORMAT && self.has_reversed_keys() {
            self.format = REVERSED_KEYS_FORMAT;
        }
    }

    fn has_bits(&self) -> bool {
        let is_bits = |kind: SqlType| matches!(kind, SqlType::Bit(_) | SqlType::Varbit(_));
        self.private.values().any(|private| {
            let kept = private.views.values().filter_map(|view| view.materialized.as_deref());
            let tables = private.tables.values().map(AsRef::as_ref).chain(kept);
            tables.flat_map(|table| &table.columns).any(|column| is_bits(column.kind))
                || private.domains.values().any(|domain| is_bits(domain.kind))
        })
    }

    fn has_reversed_keys(&self) -> bool {
        let own = self.private.values().flat_map(|private| private.tables.values());
        self.tables.values().chain(own).any(|table| table.key.parts.iter().any(KeyPart::is_reversed))
    }

    fn has_materialized_views(&self) -> bool {
        let mut own = self.private.values().flat_map(|private| private.views.values());
        own.any(|view| view.materialized.is_some())
    }
}
