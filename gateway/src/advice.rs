//! Advice on schemas: what the field has learned of tables whose rows are sorted by key, held against how a table is
//! used. Pure.
//!
//! ```text
//! Seen      what was counted of a table (`shares/access.rs`)  ─┐
//! Table     its key, families and columns                      ├─► of_table, of_tables ─► Advice, with a Remedy
//! ```
//!
//! Each kind of advice is in the file of what it looks at. Advice says what was seen, in numbers, and has a remedy: a
//! table made anew with its rows ([`Remake`]), or a statement. The text of both is made by
//! [`pg_catalog::advice`](crate::pg_catalog::advice), which also collects what is looked at. What is only guessed from
//! names ([`names`], [`keys::personal`]) says so.
//!
//! The advice is that of Google's page on [schemas of Bigtable](https://cloud.google.com/bigtable/docs/schema-design)
//! and of the [HBase book](https://hbase.apache.org/book.html#schema); `docs/modelling.md` explains it.

mod cells;
mod families;
mod keys;
mod names;
mod remake;
mod scans;
pub(crate) mod tables;

pub(crate) use remake::Remake;

use crate::shares::access::Seen;
use keyspan_catalog::Table;

/// What advice is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Scans of all rows for a few, which another key would have made ranges.
    ScanWithoutRange,
    /// A key that begins with a time or a counter.
    AscendingKey,
    /// A row that grows towards the limit of rows.
    WideRow,
    /// A cell above what cells should have.
    LargeCell,
    /// Families that are always read together.
    FamiliesTogether,
    /// A family that is never read.
    FamilyUnread,
    /// Values in the names of columns.
    ValuesInNames,
    /// Many small tables of one kind.
    ManyTables,
    /// What looks like personal data in keys.
    PersonalKey,
}

impl Kind {
    /// Its name in SQL.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ScanWithoutRange => "scan_without_range",
            Self::AscendingKey => "ascending_key",
            Self::WideRow => "wide_row",
            Self::LargeCell => "large_cell",
            Self::FamiliesTogether => "families_together",
            Self::FamilyUnread => "family_unread",
            Self::ValuesInNames => "values_in_names",
            Self::ManyTables => "many_tables",
            Self::PersonalKey => "personal_key",
        }
    }
}

/// One advice.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Advice {
    pub(crate) kind: Kind,
    /// What was seen, and what would be better: whole sentences.
    pub(crate) text: String,
    /// How often it was seen: scans, rows, tables; what is counted depends on the kind.
    pub(crate) seen: u64,
    /// Bytes that were read in vain, if that is known.
    pub(crate) bytes: Option<u64>,
    pub(crate) remedy: Remedy,
}

/// What would do it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Remedy {
    /// The table, made anew.
    Remake(Box<Remake>),
    /// A statement.
    Statement(String),
    /// Nothing that SQL says.
    Words,
}

impl Remedy {
    fn remake(remake: Option<Remake>) -> Self {
        remake.map_or(Self::Words, |remake| Self::Remake(Box::new(remake)))
    }
}

/// The advice on one table.
pub(crate) fn of_table(table: &Table, seen: &Seen) -> Vec<Advice> {
    let mut found = scans::of(table, seen);
    found.extend(keys::ascending(table, seen));
    found.extend(cells::wide_row(table, seen));
    found.extend(cells::large_cell(table, seen));
    found.extend(families::of(table, seen));
    found.extend(names::of(table));
    found.extend(keys::personal(table));
    found
}

/// Names in quotes, as a list of words: `a`, `a and b`, `a, b and c`.
fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    match names.as_slice() {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [all @ .., last] => format!("{} and {last}", all.join(", ")),
    }
}

#[cfg(test)]
mod tests;
