//! Many small tables of one kind, which would be one with a part of the key more.
//!
//! A table costs memory and files of its own, and what is asked of all of them needs a UNION of all their names.

use super::{
    Advice, Kind, Remedy, listed,
    names::cut,
    remake::{Remake, free_column, named, parts, random_uuid},
};
use crate::pg::ident::quote_ident;
use keyspan_catalog::{PartOrder, SqlType, Table};
use std::{collections::BTreeMap, sync::Arc};

/// Fewer tables of a database are not many.
const TABLES_MIN: usize = 10;
/// Fewer tenants with the same table are not many.
const TENANTS_MIN: usize = 20;
/// Bytes of a table, in the mean, up to which they are small.
const SMALL_BYTES: u64 = 8 << 20;
/// Tables that a statement copies.
const COPIED_MAX: usize = 100;
/// Names that are listed.
const NAMES_SHOWN: usize = 3;

/// A private table, and its bytes if they were measured.
pub(crate) type Sized<'a> = (&'a Arc<Table>, Option<u64>);

/// What two tables have in common that could be one: columns and key.
type Form = Vec<(String, String, bool)>;

fn form(table: &Table) -> Form {
    let keys = parts(table);
    let of_key = keys.iter().map(|(name, order)| ((*name).to_owned(), order.clause().to_owned(), true));
    let columns = table.columns.iter().map(|column| (column.name.clone(), column.kind.to_string(), column.not_null));
    of_key.chain(columns).collect()
}

fn are_small(tables: &[Sized<'_>]) -> bool {
    let known: Vec<u64> = tables.iter().filter_map(|(_, bytes)| *bytes).collect();
    known.is_empty() || known.iter().sum::<u64>() / known.len() as u64 <= SMALL_BYTES
}

/// Tables of one database whose names differ by a number or a date.
pub(crate) fn of_database(tables: &[Sized<'_>]) -> Vec<Advice> {
    let mut alike: BTreeMap<(&str, u32, Form), Vec<Sized<'_>>> = BTreeMap::new();
    for one in tables {
        if let Some((stem, _)) = cut(&one.0.name) {
            alike.entry((stem, one.0.schema, form(one.0))).or_default().push(*one);
        }
    }
    let many = alike.into_iter().filter(|(_, tables)| tables.len() >= TABLES_MIN && are_small(tables));
    many.filter_map(|((stem, ..), tables)| one_of(stem, &tables)).collect()
}

fn one_of(stem: &str, tables: &[Sized<'_>]) -> Option<Advice> {
    let (first, _) = tables.first()?;
    let shown = listed(tables.iter().take(NAMES_SHOWN).map(|(table, _)| table.name.as_str()));
    let mut text = format!(
        "{} tables have the same columns, and names that differ by a value: {shown}, …. As one table whose key begins \
         with that value each of them is a range, and all can be asked at once.",
        tables.len()
    );
    if tables.len() > COPIED_MAX {
        text += &format!(" The statement copies the first {COPIED_MAX} of them.");
    }
    let part = free_column(first, "part");
    let mut remake = Remake::of(first, "all")?;
    remake.name = named(stem.trim_end_matches('_'), "all");
    remake = remake.with_first(&part, SqlType::Text, None);
    let row = free_column(first, "row_id");
    if first.has_hidden_key() {
        remake = remake.with_first(&row, SqlType::Uuid, random_uuid());
    }
    let own = if first.has_hidden_key() { vec![(row.as_str(), PartOrder::Ascending)] } else { parts(first) };
    let key: Vec<_> = std::iter::once((part.as_str(), PartOrder::Ascending)).chain(own).collect();
    remake = remake.keyed(&key)?;
    // One INSERT for all of them: the rows of each come with its value.
    remake.values.insert(0, (part.clone(), quote_ident(&part)));
    let names = remake.values.iter().skip(1).map(|(name, _)| quote_ident(name)).collect::<Vec<_>>().join(", ");
    let select = |(table, _): &Sized<'_>| {
        let value = cut(&table.name).map_or("", |(_, value)| value).replace('\'', "''");
        format!("SELECT '{value}' AS {}, {names} FROM {}", quote_ident(&part), quote_ident(&table.name))
    };
    let copied: Vec<String> = tables.iter().take(COPIED_MAX).map(select).collect();
    remake.from = format!("(\n    {}\n) AS of_all", copied.join("\n    UNION ALL "));
    let seen = tables.len() as u64;
    Some(Advice { kind: Kind::ManyTables, text, seen, bytes: None, remedy: Remedy::remake(Some(remake)) })
}

/// Tables of one name that many tenants have: the operator's one would be all of theirs. Its rows are theirs to move.
pub(crate) fn of_tenants(tables: &[Sized<'_>]) -> Vec<Advice> {
    let mut alike: BTreeMap<(&str, Form), Vec<Sized<'_>>> = BTreeMap::new();
    for one in tables.iter().filter(|(table, _)| !table.has_hidden_key()) {
        alike.entry((one.0.name.as_str(), form(one.0))).or_default().push(*one);
    }
    let many = alike.into_iter().filter(|(_, tables)| tables.len() >= TENANTS_MIN && are_small(tables));
    many.filter_map(|((name, _), tables)| shared(name, &tables)).collect()
}

fn shared(name: &str, tables: &[Sized<'_>]) -> Option<Advice> {
    let (first, _) = tables.first()?;
    let text = format!(
        "{} tenants have a table {name} of their own with the same columns. As one shared table it is defined, changed \
         and read in one place, and each tenant sees its rows as before; they are copied in each tenant's database by \
         INSERT … SELECT.",
        tables.len()
    );
    let mut remake = Remake::of(first, "of_all")?;
    let table = &mut remake.table;
    // A table of the operator's is in no space of a tenant.
    table.space = None;
    // Defaults by sequences are the tenant's.
    for column in &mut table.columns {
        (column.default, column.identity) = (None, None);
    }
    remake.values = Vec::new();
    let seen = tables.len() as u64;
    Some(Advice { kind: Kind::ManyTables, text, seen, bytes: None, remedy: Remedy::remake(Some(remake)) })
}
