//! Scans that read all rows for a few: another order of the key, or another column in front of it, makes them ranges.

use super::{
    Advice, Kind, Remedy, listed,
    remake::{Remake, free_column, parts, random_uuid},
};
use crate::{
    resources::Size,
    shares::access::{Seen, WholeScans},
};
use keyspan_catalog::{KeySchema, PartOrder, SqlType, Table};

/// Fewer scans are no habit.
const SCANS_MIN: u64 = 10;
/// Fewer bytes in vain are nothing to speak of.
const IN_VAIN_MIN: u64 = 1 << 20;
/// Advice on one table, that with most bytes.
const ADVICE_MAX: usize = 3;
/// Columns that go to the front of a key.
const COLUMNS_MAX: usize = 3;

pub(super) fn of(table: &Table, seen: &Seen) -> Vec<Advice> {
    let mut habits: Vec<&WholeScans> = seen.whole_scans.iter().collect();
    habits.retain(|of| of.scans >= SCANS_MIN && of.in_vain >= IN_VAIN_MIN);
    // Columns that are gone since advise nothing.
    habits.retain(|of| of.columns.iter().all(|name| table.column(name).is_some()));
    habits.sort_by_key(|of| std::cmp::Reverse(of.in_vain));
    habits.into_iter().take(ADVICE_MAX).map(|of| advice(table, of)).collect()
}

fn advice(table: &Table, of: &WholeScans) -> Advice {
    let columns = in_front(table, of);
    let compared = listed(of.columns.iter().map(String::as_str));
    let (bytes, in_vain) = (Size(of.bytes), Size(of.in_vain));
    let mut text = format!(
        "{} scans with conditions on {compared} read all rows, {bytes}, of which {in_vain} were in vain.",
        of.scans
    );
    match parts(table).first() {
        Some((first, _)) if of.columns.contains(*first) => {
            text += &format!(" No condition on {first}, with which the key begins, is a range of it.");
        }
        Some((first, _)) => text += &format!(" The key begins with {first}, on which they have no condition."),
        None => text += " The table has no primary key, so that its rows have no order to find them by.",
    }
    let first = parts(table).first().map(|(name, _)| *name);
    if columns.is_empty() && first.is_some_and(|first| of.columns.contains(first)) {
        text += " Conditions that compare the column itself with values are ranges; those on what is computed of it are \
                 none.";
    } else if columns.is_empty() {
        text += " No column that they compare can be in a key.";
    } else {
        let front = listed(columns.iter().copied());
        text += &format!(" With a key that begins with {front} they read a range.");
        let nullable = columns.iter().copied().filter(|name| table.column(name).is_some_and(|column| !column.not_null));
        let nullable = listed(nullable);
        if !nullable.is_empty() {
            text += &format!(" Rows in which {nullable} is NULL have no place there.");
        }
    }
    if let Some((first, _)) = parts(table).first().filter(|_| !columns.is_empty()) {
        text += &format!(
            " Put the new table in the old one's place, or beside it if others ask by {first}, written in the same \
             transaction."
        );
    }
    let remedy = Remedy::remake(Some(columns).filter(|columns| !columns.is_empty()).and_then(|columns| {
        let remake = Remake::of(table, &format!("by_{}", columns[0]))?;
        let front = columns.iter().map(|column| (*column, PartOrder::Ascending));
        let behind = parts(table).into_iter().filter(|(name, _)| !columns.contains(name));
        if !table.has_hidden_key() {
            return remake.keyed(&front.chain(behind).collect::<Vec<_>>());
        }
        // Rows without a key may be the same but for this.
        let number = free_column(table, "row_id");
        let remake = remake.with_first(&number, SqlType::Uuid, random_uuid());
        remake.keyed(&front.chain([(number.as_str(), PartOrder::Ascending)]).collect::<Vec<_>>())
    }));
    Advice { kind: Kind::ScanWithoutRange, text, seen: of.scans, bytes: Some(of.in_vain), remedy }
}

/// The columns with which the key would begin: those that have to be one of some values, if there are any, and times;
/// else all, but for the one with which the key begins already. Parts of the key come first, in their order, and times
/// last, since ranges of them are asked for.
fn in_front<'a>(table: &'a Table, of: &'a WholeScans) -> Vec<&'a str> {
    let rank = |name: &str| {
        let part = table.key.parts.iter().position(|part| part.name == name);
        (table.column(name).is_some_and(|column| is_time(column.kind)), part.unwrap_or(usize::MAX))
    };
    let can = |name: &&str| {
        let kind = table.column(name).map(|column| column.kind);
        let is_asked = of.equal.is_empty() || of.equal.contains(*name) || kind.is_some_and(is_time);
        let is_first = parts(table).first().is_some_and(|(first, _)| first == name);
        kind.filter(|_| is_asked && !is_first).is_some_and(|kind| {
            let part = keyspan_catalog::KeyPart { name: (*name).to_owned(), kind, order: PartOrder::Ascending };
            KeySchema { parts: vec![part], ..table.key.clone() }.check().is_ok()
        })
    };
    let mut columns: Vec<&str> = of.columns.iter().map(String::as_str).filter(can).collect();
    columns.sort_by_key(|name| rank(name));
    columns.truncate(COLUMNS_MAX);
    columns
}

pub(super) fn is_time(kind: SqlType) -> bool {
    matches!(kind, SqlType::Timestamp(_) | SqlType::Timestamptz(_) | SqlType::Date)
}
