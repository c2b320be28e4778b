//! The layout of segments with rows of private tables, which share one table of the store.
//!
//! A segment holds the rows of one large table, or of many small ones: a compaction cuts where a large one begins and
//! ends. Its columns are those of all these tables. A column that several of them have by one name is typed if they
//! agree on the type, as tables of one application do; else it is bytes, which readers decode: values of another type
//! would make the row groups that have them unfit for all tables. Keys have their parts as columns if most rows are of
//! one table.
//!
//! A table is known by its keys: `alto#16390#…` are rows of the tenant `alto` in the space 16390. Rows of a space that
//! no table has, while it is written anew or deleted, are laid out as they come.

use super::columns_of;
use crate::{Snapshot, Table, key::KeyColumns, private::space_span, tenant::TENANT_DELIMITER};
use bytes::Bytes;
use keyspan_storage::{ColumnKind, FamilyName, KeyDecoder, Layout, LayoutColumn};
use std::{collections::HashMap, sync::Arc};

/// A segment whose range of keys has more tables has no typed columns: it would take too long to compare them.
const TABLES_MAX: usize = 4_096;

/// The tables whose rows lie from `first` to before `end`, each with its section; `None` if there are too many.
pub(super) fn tables_between<'s>(
    snapshot: &'s Snapshot,
    first: &[u8],
    end: Option<&[u8]>,
) -> Option<Vec<(Bytes, &'s Table)>> {
    let first = private_section(first).unwrap_or(first);
    let mut found = Vec::new();
    for (tenant, private) in &snapshot.private {
        // All keys of a tenant lie before this one, and after its id.
        let last = [tenant.as_str().as_bytes(), &[TENANT_DELIMITER + 1]].concat();
        if last[..] <= *first || end.is_some_and(|end| *end <= *tenant.as_str().as_bytes()) {
            continue;
        }
        for table in private.with_rows() {
            let Some(section) = table.space.map(|space| space_span(tenant, space)) else { continue };
            if section[..] >= *first && end.is_none_or(|end| section[..] < *end) {
                if found.len() == TABLES_MAX {
                    return None;
                }
                found.push((section, table));
            }
        }
    }
    Some(found)
}

/// The prefix of a row's key that all rows of its table have: `alto#16390#`.
pub fn private_section(key: &[u8]) -> Option<&[u8]> {
    let mut delimiters = key.iter().enumerate().filter(|(_, byte)| **byte == TENANT_DELIMITER);
    let (end, _) = delimiters.nth(1)?;
    key.get(..=end)
}

/// The layout of a segment that has rows with these keys, and maybe of all these tables, given with their sections;
/// `None` if no table is known.
pub fn private_layout<'t>(keys: &[&[u8]], tables: impl IntoIterator<Item = (Bytes, &'t Table)>) -> Option<Layout> {
    let mut rows: HashMap<&[u8], usize> = HashMap::new();
    for section in keys.iter().filter_map(|key| private_section(key)) {
        *rows.entry(section).or_default() += 1;
    }
    let tables = tables.into_iter().map(|(section, table)| {
        let rows = rows.get(&section[..]).copied().unwrap_or_default();
        (section, table, rows)
    });
    let mut tables: Vec<(Bytes, &Table, usize)> = tables.collect();
    // A segment has a limited number of columns.
    tables.sort_by_key(|(_, _, rows)| std::cmp::Reverse(*rows));
    let (section, largest, rows) = tables.first()?;
    let key = if rows * 2 > keys.len() { KeyColumns::in_space(&largest.key, section.clone()) } else { None };
    let key = key.map(|key| Arc::new(key) as Arc<dyn KeyDecoder>);
    let section = if key.is_some() { section.clone() } else { Bytes::new() };
    Some(Layout { columns: columns(&tables), key, section })
}

/// The columns of the tables that have rows, those of the largest first.
fn columns(tables: &[(Bytes, &Table, usize)]) -> Vec<LayoutColumn> {
    let mut columns: Vec<LayoutColumn> = Vec::new();
    let mut by_name: HashMap<(FamilyName, Bytes), usize> = HashMap::new();
    for (_, table, rows) in tables {
        for column in columns_of(table) {
            let name = (column.family.clone(), column.qualifier.clone());
            match by_name.get(&name) {
                Some(at) if is_same_type(&columns[*at], &column) => {}
                Some(at) => (columns[*at].kind, columns[*at].accepts) = (ColumnKind::Binary, None),
                None if *rows > 0 => {
                    by_name.insert(name, columns.len());
                    columns.push(column);
                }
                None => {}
            }
        }
    }
    columns
}

fn is_same_type(a: &LayoutColumn, b: &LayoutColumn) -> bool {
    let check = |column: &LayoutColumn| column.accepts.map(|accepts| accepts.name);
    a.kind == b.kind && check(a) == check(b)
}

#[cfg(test)]
mod tests;
