//! The tables in memory, as one value.
//!
//! A [`State`] is persistent: a copy costs nothing and shares all that does not change afterwards. The log thread changes its
//! own copy and publishes it when the log holds what led to it; a [`Pin`](crate::Pin) is the published state of its moment.
//! Readers take no lock, and whether a row changed since a pin is whether it is still the same allocation.

use super::cells;
use crate::{Cell, Error, Family, FamilyName, Result, RowKey, RowSample, TableName, TableSchema, row};
use bytes::Bytes;
use imbl::OrdMap;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

/// Families that a table has had, dropped ones included, at most.
const FAMILY_NUMBERS_MAX: usize = 1 << 20;

/// The tables at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    /// By name.
    pub(crate) tables: OrdMap<TableName, Table>,
    /// Where each table is, by its number.
    names: OrdMap<u32, TableName>,
    /// The number of the next table to be made.
    next_table: u32,
    /// The greatest stamp given so far, in microseconds.
    pub(crate) stamp: i64,
}

/// One table at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// Its families.
    pub(crate) descriptor: Arc<Descriptor>,
    /// Its rows; none is empty.
    pub(crate) rows: OrdMap<RowKey, StoredRow>,
    /// Bytes of keys and encoded rows.
    pub(crate) bytes: u64,
}

/// The cells of a row, [encoded](cells).
#[derive(Clone, Debug)]
pub(crate) struct StoredRow(Bytes);

impl StoredRow {
    /// The encoded cells.
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// Whether both are one version of a row, not only equal. Sound as long as both live, since then neither's memory can have
    /// been given to the other.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        std::ptr::eq(self.0.as_ref(), other.0.as_ref())
    }
}

/// A table's name and families, with the numbers that stand for them in the log and in rows.
///
/// Numbers are never given twice, so that nothing written before a drop is taken for what was made after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    /// The table's number.
    pub(crate) number: u32,
    /// The families as everybody knows them.
    pub(crate) schema: TableSchema,
    numbers: BTreeMap<FamilyName, u32>,
    /// By number; empty where a family was dropped.
    names: Vec<Option<FamilyName>>,
}

/// A [`Descriptor`] as the log holds it, in JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LoggedDescriptor {
    table: u32,
    name: TableName,
    families: BTreeMap<FamilyName, LoggedFamily>,
    next_family: u32,
}

#[derive(Debug, Serialize, Deserialize)]
struct LoggedFamily {
    number: u32,
    family: Family,
}

impl Descriptor {
    /// The same table with other families. Those that stay keep their numbers.
    pub(crate) fn with_schema(&self, schema: TableSchema) -> Self {
        let mut names = self.names.clone();
        for slot in &mut names {
            slot.take_if(|name| !schema.families.contains_key(name));
        }
        let mut numbers = BTreeMap::new();
        for name in schema.families.keys() {
            let number = self.number_of(name).unwrap_or_else(|| {
                names.push(Some(name.clone()));
                (names.len() - 1) as u32
            });
            numbers.insert(name.clone(), number);
        }
        Self { number: self.number, schema, numbers, names }
    }

    /// Checks that the log can hold it.
    ///
    /// # Errors
    /// [`Error::TooMany`] families over the table's life.
    pub(crate) fn check_numbers(&self) -> Result<()> {
        let (count, limit) = (self.names.len(), FAMILY_NUMBERS_MAX);
        if count > limit {
            return Err(Error::TooMany { what: "families over the life of a table", count, limit });
        }
        Ok(())
    }

    /// The number of a family.
    pub(crate) fn number_of(&self, family: &FamilyName) -> Option<u32> {
        self.numbers.get(family).copied()
    }

    /// The family of a number; `None` when it was dropped.
    pub(crate) fn family(&self, number: u32) -> Option<&FamilyName> {
        self.names.get(number as usize)?.as_ref()
    }

    /// The families by number, from 0; `None` for those that were dropped.
    pub(crate) fn names(&self) -> impl Iterator<Item = Option<&FamilyName>> {
        self.names.iter().map(Option::as_ref)
    }

    /// As the log holds it.
    pub(crate) fn to_logged(&self, name: &TableName) -> LoggedDescriptor {
        let families = self
            .numbers
            .iter()
            .map(|(name, &number)| (name.clone(), LoggedFamily { number, family: self.schema.families[name].clone() }));
        LoggedDescriptor {
            table: self.number,
            name: name.clone(),
            families: families.collect(),
            next_family: self.names.len() as u32,
        }
    }
}

impl LoggedDescriptor {
    /// The name and what stands for it in memory; `None` when the numbers contradict each other.
    pub(crate) fn into_descriptor(self) -> Option<(TableName, Descriptor)> {
        let mut names = vec![None; usize::try_from(self.next_family).ok().filter(|&next| next <= FAMILY_NUMBERS_MAX)?];
        let mut numbers = BTreeMap::new();
        let mut schema = TableSchema::default();
        for (name, LoggedFamily { number, family }) in self.families {
            let slot = names.get_mut(number as usize).filter(|slot| slot.is_none())?;
            *slot = Some(name.clone());
            numbers.insert(name.clone(), number);
            schema.families.insert(name, family);
        }
        Some((self.name, Descriptor { number: self.table, schema, numbers, names }))
    }
}

impl Table {
    /// An empty table.
    pub(crate) fn new(descriptor: Descriptor) -> Self {
        Self { descriptor: Arc::new(descriptor), rows: OrdMap::new(), bytes: 0 }
    }

    /// The cells of an encoded row. Cells of families that are no more are left out.
    pub(crate) fn cells(&self, row: &StoredRow) -> Vec<Cell> {
        let cells = cells::decode(row.bytes()).filter_map(|cell| {
            Some(Cell {
                family: self.descriptor.family(cell.family)?.clone(),
                qualifier: row.bytes().slice_ref(cell.qualifier),
                timestamp: cell.timestamp,
                value: row.bytes().slice_ref(cell.value),
            })
        });
        cells.collect()
    }

    /// Encodes cells; `None` for a row without any.
    pub(crate) fn encode(&self, cells: &[Cell]) -> Option<StoredRow> {
        let number_of = |family: &FamilyName| self.descriptor.number_of(family).expect("folding keeps to the schema");
        (!cells.is_empty()).then(|| StoredRow(cells::encode(cells, number_of)))
    }

    /// Puts a row, or none, in the place of what is there, and gives that.
    pub(crate) fn set(&mut self, key: &RowKey, row: Option<StoredRow>) -> Option<StoredRow> {
        let size = |row: &StoredRow| (key.len() + row.bytes().len()) as u64;
        let added = row.as_ref().map_or(0, size);
        let removed = match row {
            Some(row) => {
                // The caller's key is a slice of a request or of a log file, which it must not keep alive.
                let own = RowKey::new(Bytes::copy_from_slice(key)).expect("the key was one before");
                self.rows.insert(own, row)
            }
            None => self.rows.remove::<[u8]>(key),
        };
        self.bytes = self.bytes + added - removed.as_ref().map_or(0, size);
        removed
    }
}

impl Table {
    /// Keys of living rows that cut the table into about `parts` parts, and the last one.
    pub(crate) fn samples(&self, parts: u64, now_micros: i64) -> Vec<RowSample> {
        let lives = |row| !row::live(&self.descriptor.schema, self.cells(row), now_micros).is_empty();
        let part = self.bytes / parts + 1;
        let (mut offset_bytes, mut next, mut samples) = (0, part, Vec::new());
        for (key, row) in &self.rows {
            offset_bytes += (key.len() + row.bytes().len()) as u64;
            if offset_bytes >= next && lives(row) {
                next = offset_bytes + part;
                samples.push(RowSample { key: key.clone(), offset_bytes });
            }
        }
        let last = self.rows.iter().rev().find(|(_, row)| lives(row)).map(|(key, _)| key);
        if let Some(key) = last.filter(|&key| samples.last().is_none_or(|sample| sample.key != *key)) {
            samples.push(RowSample { key: key.clone(), offset_bytes });
        }
        samples
    }
}

impl State {
    /// The table.
    ///
    /// # Errors
    /// [`Error::NoTable`].
    pub(crate) fn table(&self, name: &TableName) -> Result<&Table> {
        self.tables.get(name).ok_or_else(|| Error::NoTable(name.to_string()))
    }

    /// The table of a number.
    pub(crate) fn table_by_number(&self, number: u32) -> Option<(&TableName, &Table)> {
        let name = self.names.get(&number)?;
        Some((name, self.tables.get(name)?))
    }

    /// The row, if it is there.
    pub(crate) fn row(&self, table: &TableName, key: &[u8]) -> Option<&StoredRow> {
        self.tables.get(table)?.rows.get(key)
    }

    /// Describes a new table.
    pub(crate) fn describe(&self, schema: TableSchema) -> Descriptor {
        let empty = Descriptor {
            number: self.next_table,
            schema: TableSchema::default(),
            numbers: BTreeMap::new(),
            names: Vec::new(),
        };
        empty.with_schema(schema)
    }

    /// Puts a table in the place of what bears its name.
    pub(crate) fn set_table(&mut self, name: TableName, table: Table) {
        self.next_table = self.next_table.max(table.descriptor.number + 1);
        self.names.insert(table.descriptor.number, name.clone());
        self.tables.insert(name, table);
    }

    /// Forgets a table.
    pub(crate) fn remove_table(&mut self, name: &TableName) {
        if let Some(table) = self.tables.remove(name) {
            self.names.remove(&table.descriptor.number);
        }
    }
}
