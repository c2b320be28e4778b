//! The layout of segments with rows of private tables, which share one table of the store.
//!
//! A segment holds the rows of one large table, or of many small ones: a compaction cuts where a large one begins and
//! ends. Its columns are those of all these tables. A column that several of them have by one name is typed if they
//! agree on the type, as tables of one application do, or if nearly all rows are of one type; else it is bytes, which
//! readers decode. Keys have their parts as columns if most rows are of one table.
//!
//! A table is known by its keys: `alto#16390#…` are rows of the tenant `alto` in the space 16390. Rows of a space that
//! no table has, while it is written anew or deleted, are laid out as they come.

use super::columns_of;
use crate::{Table, key::KeyColumns, tenant::TENANT_DELIMITER};
use bytes::Bytes;
use keyspan_storage::{ColumnKind, FamilyName, KeyDecoder, Layout, LayoutColumn};
use std::{collections::BTreeMap, sync::Arc};

/// A column with several types has one in files if all but 1 of this many rows have it.
const OTHERS_ONE_IN: usize = 8;

/// The prefix of a row's key that all rows of its table have: `alto#16390#`.
pub fn private_section(key: &[u8]) -> Option<&[u8]> {
    let mut delimiters = key.iter().enumerate().filter(|(_, byte)| **byte == TENANT_DELIMITER);
    let (end, _) = delimiters.nth(1)?;
    key.get(..=end)
}

/// The tenant and the space of a [section](private_section).
fn owner(section: &[u8]) -> Option<(&str, u32)> {
    let (tenant, space) = std::str::from_utf8(section).ok()?.split_once(char::from(TENANT_DELIMITER))?;
    Some((tenant, space.strip_suffix(char::from(TENANT_DELIMITER))?.parse().ok()?))
}

/// The layout of a segment that has rows with these keys; `table_of` finds the table of a tenant that has a space.
/// `None` if no table is known.
pub fn private_layout<'t>(keys: &[&[u8]], table_of: impl Fn(&str, u32) -> Option<&'t Table>) -> Option<Layout> {
    let mut sections: BTreeMap<&[u8], usize> = BTreeMap::new();
    for key in keys {
        if let Some(section) = private_section(key) {
            *sections.entry(section).or_default() += 1;
        }
    }
    let found = sections.into_iter().filter_map(|(section, rows)| {
        let (tenant, space) = owner(section)?;
        Some((section, table_of(tenant, space)?, rows))
    });
    let mut tables: Vec<(&[u8], &Table, usize)> = found.collect();
    // A segment has a limited number of columns.
    tables.sort_by_key(|(_, _, rows)| std::cmp::Reverse(*rows));
    let (section, largest, rows) = tables.first()?;
    let section = Bytes::copy_from_slice(section);
    let key = if rows * 2 > keys.len() { KeyColumns::in_space(&largest.key, section.clone()) } else { None };
    let key = key.map(|key| Arc::new(key) as Arc<dyn KeyDecoder>);
    let section = if key.is_some() { section } else { Bytes::new() };
    Some(Layout { columns: columns(&tables), key, section })
}

/// The columns of all tables, those of the largest first.
fn columns(tables: &[(&[u8], &Table, usize)]) -> Vec<LayoutColumn> {
    let mut columns: Vec<LayoutColumn> = Vec::new();
    // By name: the index of the column, and the rows of tables that have it with each type.
    let mut types: BTreeMap<(FamilyName, Bytes), (usize, Vec<(LayoutColumn, usize)>)> = BTreeMap::new();
    for (_, table, rows) in tables {
        for column in columns_of(table) {
            let name = (column.family.clone(), column.qualifier.clone());
            let (_, types) = types.entry(name).or_insert_with(|| {
                columns.push(column.clone());
                (columns.len() - 1, Vec::new())
            });
            match types.iter_mut().find(|(other, _)| is_same_type(other, &column)) {
                Some((_, of_type)) => *of_type += rows,
                None => types.push((column, *rows)),
            }
        }
    }
    for (at, mut types) in types.into_values() {
        let all: usize = types.iter().map(|(_, rows)| rows).sum();
        types.sort_by_key(|(_, rows)| std::cmp::Reverse(*rows));
        let Some((column, rows)) = types.into_iter().next() else { continue };
        columns[at] = match (all - rows) * OTHERS_ONE_IN <= all {
            true => column,
            false => LayoutColumn { kind: ColumnKind::Binary, accepts: None, ..column },
        };
    }
    columns
}

fn is_same_type(a: &LayoutColumn, b: &LayoutColumn) -> bool {
    let check = |column: &LayoutColumn| column.accepts.map(|accepts| accepts.name);
    a.kind == b.kind && check(a) == check(b)
}

#[cfg(test)]
mod tests;
