//! Which columns a segment has: those that the table's layout declares, then the frequent ones of a sample. Pure.

use super::{
    footer::{ColumnFooter, Escaped, FamilyFooter, KeyFooter, Qualifiers, escape},
    kind,
};
use crate::{Accepts, ColumnKind, FamilyName, KeyDecoder, Layout, engine::cells};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use bytes::Bytes;
use std::{
    collections::{BTreeMap, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

/// Shredded columns of a segment.
pub(crate) const COLUMNS_MAX: usize = 200;
/// Rows of a sample; later ones are not looked at.
pub(crate) const SAMPLE_ROWS_MAX: usize = 4_096;
/// Cells of a sample: memory for counting columns is bounded, however wide rows are.
const SAMPLE_CELLS_MAX: usize = 256 << 10;
/// A column is frequent if it occurs in one of so many rows of the sample.
const FREQUENT_ONE_IN: usize = 20;
/// A column has a dictionary if the sample holds each of its values so often on average.
const DICTIONARY_REPEATS_MIN: usize = 4;

/// The column of the row keys.
pub(super) const KEY: &str = "_key";
/// The column of the rows' timestamps.
pub(super) const TIMESTAMP: &str = "_ts";
/// The column of places in the side file.
pub(super) const SIDE: &str = "_side";

/// The columns of a segment to be written.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(super) families: Arc<[(u32, FamilyName)]>,
    pub(super) columns: Arc<[ShapeColumn]>,
    pub(super) key: Option<Arc<dyn KeyDecoder>>,
}

/// A shredded column.
#[derive(Clone, Debug)]
pub(super) struct ShapeColumn {
    /// The place of its family among the families.
    pub(super) family: usize,
    pub(super) qualifier: Bytes,
    pub(super) kind: ColumnKind,
    accepts: Option<Accepts>,
    pub(super) dictionary: bool,
    pub(super) name: String,
}

impl ShapeColumn {
    /// Whether the value may stand in the column.
    pub(super) fn accepts(&self, value: &[u8]) -> bool {
        value.len() <= super::VALUE_BYTES_MAX
            && kind::fits(self.kind, value)
            && self.accepts.is_none_or(|accepts| (accepts.holds)(value))
    }
}

impl Shape {
    /// Chooses columns for a table with these families, by number. The sample is of encoded rows.
    pub(crate) fn new<'a>(
        families: impl IntoIterator<Item = (u32, &'a FamilyName)>,
        layout: Option<&Layout>,
        sample: impl IntoIterator<Item = &'a [u8]>,
    ) -> Self {
        let mut families: Vec<(u32, FamilyName)> =
            families.into_iter().map(|(number, name)| (number, name.clone())).collect();
        families.sort_by(|a, b| a.1.cmp(&b.1));
        let sample = Sample::new(&families, sample);

        let mut chosen = BTreeMap::new();
        for column in layout.iter().flat_map(|layout| &layout.columns) {
            let family = families.binary_search_by(|(_, name)| name.cmp(&column.family));
            let Ok(family) = family else { continue };
            if chosen.len() < COLUMNS_MAX {
                chosen.entry((family, column.qualifier.clone())).or_insert((column.kind, column.accepts));
            }
        }
        for (family, qualifier) in sample.frequent() {
            let place = (family, Bytes::copy_from_slice(qualifier));
            if chosen.len() == COLUMNS_MAX {
                break;
            }
            chosen.entry(place).or_insert((ColumnKind::Binary, None));
        }
        let columns = chosen.into_iter().map(|((family, qualifier), (kind, accepts))| ShapeColumn {
            family,
            kind,
            accepts,
            dictionary: kind != ColumnKind::Bool && sample.repeats(family, &qualifier),
            name: format!("{}:{}:{}", families[family].0, families[family].1, escape(&qualifier)),
            qualifier,
        });
        let columns = columns.collect();
        Self { families: families.into(), columns, key: layout.and_then(|layout| layout.key.clone()) }
    }

    /// The columns of the file.
    pub(super) fn schema(&self) -> SchemaRef {
        let mut fields = vec![Field::new(KEY, DataType::Binary, false), Field::new(TIMESTAMP, DataType::Int64, false)];
        fields.extend(self.key_fields());
        for column in self.columns.iter() {
            fields.push(Field::new(&column.name, kind::data_type(column.kind), true));
            fields.push(Field::new(timestamps_of(&column.name), DataType::Int64, true));
        }
        fields.extend((0..self.families.len()).map(|at| Field::new(self.overflow_name(at), DataType::Binary, true)));
        fields.push(Field::new(SIDE, DataType::Binary, true));
        Arc::new(Schema::new(fields))
    }

    /// The columns that the key decoder makes.
    pub(super) fn key_fields(&self) -> Vec<Field> {
        let fields = self.key.as_ref().map(|key| key.fields()).unwrap_or_default();
        let named =
            fields.iter().map(|field| Field::new(format!("key:{}", field.name()), field.data_type().clone(), true));
        named.collect()
    }

    /// What the footer says of the key columns.
    pub(super) fn key_footer(&self) -> Option<KeyFooter> {
        let columns = self.key_fields().iter().map(|field| field.name().clone()).collect();
        self.key.as_ref().map(|key| KeyFooter { id: key.id(), columns })
    }

    /// What the footer says of the columns.
    pub(super) fn column_footers(&self) -> Vec<ColumnFooter> {
        let columns = self.columns.iter().map(|column| ColumnFooter {
            family: self.families[column.family].0,
            qualifier: Escaped(column.qualifier.clone()),
            kind: column.kind,
            accepts: column.accepts.map(|accepts| accepts.name.to_owned()),
            name: column.name.clone(),
        });
        columns.collect()
    }

    /// What the footer says of the families, except for what their overflow holds.
    pub(super) fn family_footers(&self) -> Vec<FamilyFooter> {
        let families = self.families.iter().enumerate().map(|(at, (number, name))| FamilyFooter {
            number: *number,
            name: name.to_string(),
            overflow: self.overflow_name(at),
            qualifiers: Qualifiers::default(),
        });
        families.collect()
    }

    fn overflow_name(&self, family: usize) -> String {
        let (number, name) = &self.families[family];
        format!("{number}:{name}:*")
    }
}

/// The name of the column of timestamps of a column.
pub(super) fn timestamps_of(column: &str) -> String {
    format!("{column}@ts")
}

/// How often columns and their values occur.
#[derive(Debug)]
struct Sample<'a> {
    rows: usize,
    columns: BTreeMap<(usize, &'a [u8]), Occurrences>,
}

#[derive(Debug, Default)]
struct Occurrences {
    rows: usize,
    /// Hashes of the newest values.
    values: HashSet<u64>,
}

impl<'a> Sample<'a> {
    fn new(families: &[(u32, FamilyName)], rows: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut sample = Self { rows: 0, columns: BTreeMap::new() };
        let mut left = SAMPLE_CELLS_MAX;
        for row in rows.into_iter().take(SAMPLE_ROWS_MAX) {
            if left == 0 {
                break;
            }
            sample.rows += 1;
            for cell in cells::decode(row).take(left).filter(|cell| cell.new_column) {
                left -= 1;
                let Some(family) = families.iter().position(|(number, _)| *number == cell.family) else { continue };
                let found = sample.columns.entry((family, cell.qualifier)).or_default();
                found.rows += 1;
                found.values.insert(hash(cell.value));
            }
        }
        sample
    }

    /// The frequent columns, the most frequent first.
    fn frequent(&self) -> impl Iterator<Item = (usize, &'a [u8])> {
        let frequent = self.columns.iter().filter(|(_, found)| found.rows * FREQUENT_ONE_IN >= self.rows);
        let mut frequent: Vec<_> = frequent.map(|(&column, found)| (column, found.rows)).collect();
        frequent.sort_by_key(|(_, rows)| std::cmp::Reverse(*rows));
        frequent.into_iter().map(|(column, _)| column)
    }

    /// Whether the column's values repeat, as far as is known.
    fn repeats(&self, family: usize, qualifier: &[u8]) -> bool {
        let found = self.columns.get(&(family, qualifier));
        found.is_none_or(|found| found.values.len() * DICTIONARY_REPEATS_MIN <= found.rows)
    }
}

/// The same in every process.
fn hash(value: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
