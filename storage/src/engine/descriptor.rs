//! A table's name and families, and the numbers that identify them on disk.

use crate::{Error, Family, FamilyName, History, Result, TableName, TableSchema, model::ErasedColumns};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Maximum number of families that a table has had, including dropped ones.
const FAMILY_NUMBERS_MAX: usize = 1 << 20;

/// A table's name and families, with the numbers that identify them in the log and in rows.
///
/// Numbers are never reused, so that data written before a drop never belongs to a later table or family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    /// The table's number.
    pub(crate) number: u32,
    /// The families, as clients see them.
    pub(crate) schema: TableSchema,
    numbers: BTreeMap<FamilyName, u32>,
    /// By number; `None` where a family was dropped.
    names: Vec<Option<FamilyName>>,
}

/// A [`Descriptor`] as the log stores it, in JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LoggedDescriptor {
    table: u32,
    name: TableName,
    families: BTreeMap<FamilyName, LoggedFamily>,
    next_family: u32,
    /// How long the table keeps history, and since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    history: Option<History>,
    /// Whether it is the [history table](super::history) of the table of this name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    past: bool,
    /// Columns that are erased and not purged yet.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    erased: ErasedColumns,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct LoggedFamily {
    number: u32,
    family: Family,
}

impl Descriptor {
    /// A table without families.
    pub(crate) fn empty(number: u32) -> Self {
        Self { number, schema: TableSchema::default(), numbers: BTreeMap::new(), names: Vec::new() }
    }

    /// The same table with other families. Families in both keep their numbers.
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

    /// Checks that the log can store it.
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

    /// The family of a number; `None` if it was dropped.
    pub(crate) fn family(&self, number: u32) -> Option<&FamilyName> {
        self.names.get(number as usize)?.as_ref()
    }

    /// The families by number, from 0; `None` for dropped ones.
    pub(crate) fn names(&self) -> impl Iterator<Item = Option<&FamilyName>> {
        self.names.iter().map(Option::as_ref)
    }

    /// The descriptor as the log stores it.
    pub(crate) fn to_logged(&self, name: &TableName) -> LoggedDescriptor {
        let families = self
            .numbers
            .iter()
            .map(|(name, &number)| (name.clone(), LoggedFamily { number, family: self.schema.families[name].clone() }));
        let past_of = name.of_history();
        LoggedDescriptor {
            table: self.number,
            families: families.collect(),
            next_family: self.names.len() as u32,
            history: self.schema.history,
            past: past_of.is_some(),
            erased: self.schema.erased.clone(),
            name: past_of.unwrap_or_else(|| name.clone()),
        }
    }
}

impl LoggedDescriptor {
    /// The table's number.
    pub(crate) fn number(&self) -> u32 {
        self.table
    }

    /// The name and the descriptor; `None` if the numbers contradict each other.
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
        schema.history = self.history;
        schema.erased = self.erased;
        let name = if self.past { self.name.history_table() } else { self.name };
        Some((name, Descriptor { number: self.table, schema, numbers, names }))
    }
}
