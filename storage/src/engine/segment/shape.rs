//! Chooses the columns of a segment: those that the table's layout declares, then those of the segments that are merged
//! into it, then the frequent ones of a sample. Pure.
//!
//! SQL tables may share a table of the store, one after the other in the order of keys, each with its own columns. So
//! frequency is judged among neighbouring rows, and the columns of the merged segments count even if the sample lacks
//! them.

use super::{
    footer::{ColumnFooter, Escaped, FamilyFooter, Footer, KeyFooter, Qualifiers, escape},
    kind,
};
use crate::{
    Accepts, ColumnKind, FamilyName, KeyDecoder, Layout,
    engine::cells::{self, CellRef},
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use bytes::Bytes;
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

/// Maximum shredded columns of a segment.
pub(crate) const COLUMNS_MAX: usize = 200;
/// Maximum rows of a sample; later ones are ignored.
pub(crate) const SAMPLE_ROWS_MAX: usize = 4_096;
/// Maximum columns counted of one row: a few very wide rows must not dominate.
const SAMPLE_ROW_COLUMNS_MAX: usize = 1_024;
/// Maximum columns counted over all rows of a sample, which bounds the memory, however wide rows are.
const SAMPLE_COLUMNS_MAX: usize = 64 << 10;
/// Maximum bytes of a qualifier with a column of its own: the footer of each row group repeats it twice.
const QUALIFIER_BYTES_MAX: usize = 256;
/// A column is frequent if it occurs in at least 1 of `FREQUENT_ONE_IN` rows of any `STRETCH_ROWS` consecutive sample
/// rows, and in [`FREQUENT_ROWS_MIN`] of them. A column that few rows have costs little, since Parquet stores runs of
/// nulls as such; a column that has none of its own is read by decoding the overflow of every row.
const FREQUENT_ONE_IN: usize = 100;
/// See [`FREQUENT_ONE_IN`]: or in 1 of 20, where the sample has less than 60 rows.
const FREQUENT_ROWS_MIN: usize = 3;
/// See [`FREQUENT_ONE_IN`]; fewer if the sample is smaller.
const STRETCH_ROWS: usize = 256;
/// A column has a dictionary if each of its values occurs this often in the sample, on average.
const DICTIONARY_REPEATS_MIN: usize = 4;

/// The column of the row keys.
pub(super) const KEY: &str = "_key";
/// The column of the rows' timestamps.
pub(super) const TIMESTAMP: &str = "_ts";
/// The column of pointers to the side file.
pub(super) const SIDE: &str = "_side";

/// The columns of a segment to be written.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(super) families: Arc<[(u32, FamilyName)]>,
    pub(super) columns: Arc<[ShapeColumn]>,
    pub(super) key: Option<Arc<dyn KeyDecoder>>,
    /// Prefix of the keys that have row groups of their own.
    pub(super) section: Bytes,
}

/// A shredded column.
#[derive(Clone, Debug)]
pub(super) struct ShapeColumn {
    /// The index of its family among the families.
    pub(super) family: usize,
    pub(super) qualifier: Bytes,
    pub(super) kind: ColumnKind,
    accepts: Option<Accepts>,
    /// Whether the table's layout has it.
    pub(super) declared: bool,
    pub(super) dictionary: bool,
    pub(super) name: String,
}

impl ShapeColumn {
    /// Whether the column can store the value.
    pub(super) fn accepts(&self, value: &[u8]) -> bool {
        value.len() <= super::VALUE_BYTES_MAX
            && kind::fits(self.kind, value)
            && self.accepts.is_none_or(|accepts| (accepts.holds)(value))
    }
}

/// How often a column, identified by its family's number and qualifier, occurs in segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ColumnFrequency {
    pub(crate) family: u32,
    pub(crate) qualifier: Bytes,
    /// Approximate number of rows with the column.
    pub(crate) rows: u64,
    /// Whether its values repeated.
    pub(crate) dictionary: bool,
}

/// The columns of a segment with this footer that its rows use, including frequent ones of its overflow. `dictionaries`
/// names the columns of the file that have one.
pub(super) fn frequencies(footer: &Footer, dictionaries: &HashSet<&str>) -> Vec<ColumnFrequency> {
    let mut frequencies: BTreeMap<(u32, &Bytes), ColumnFrequency> = BTreeMap::new();
    for group in &footer.groups {
        let mut add = |family, qualifier, rows: u32, dictionary| {
            let new = || ColumnFrequency { family, qualifier: Bytes::clone(qualifier), rows: 0, dictionary };
            frequencies.entry((family, qualifier)).or_insert_with(new).rows += u64::from(rows);
        };
        for (column, (values, residual)) in footer.columns.iter().zip(group.values.iter().zip(&group.residual)) {
            let dictionary = dictionaries.contains(column.name.as_str());
            add(column.family, &column.qualifier.0, values.saturating_add(*residual), dictionary);
        }
        for (family, rows) in footer.families.iter().zip(&group.overflow) {
            let Qualifiers::These(qualifiers) = &family.qualifiers else { continue };
            // It is unknown which rows have which qualifier: assume one qualifier for each row.
            let share = *rows as usize / qualifiers.len().max(1);
            if is_frequent(share, group.rows as usize) {
                let share = u32::try_from(share).unwrap_or(u32::MAX);
                qualifiers.iter().for_each(|qualifier| add(family.number, &qualifier.0, share, false));
            }
        }
    }
    frequencies.into_values().filter(|column| column.rows > 0).collect()
}

impl Shape {
    /// Chooses columns for a table with these families, by number. `frequencies` are those of the segments that are
    /// merged, if any; the sample is of encoded rows.
    pub(crate) fn new<'a, 's>(
        families: impl IntoIterator<Item = (u32, &'a FamilyName)>,
        layout: Option<&Layout>,
        frequencies: &[ColumnFrequency],
        sample: impl IntoIterator<Item = &'s [u8]>,
    ) -> Self {
        let mut families: Vec<(u32, FamilyName)> =
            families.into_iter().map(|(number, name)| (number, name.clone())).collect();
        families.sort_by(|a, b| a.1.cmp(&b.1));
        let sample = Sample::new(&families, sample);

        let mut chosen = BTreeMap::new();
        for column in layout.iter().flat_map(|layout| &layout.columns) {
            let family = families.binary_search_by(|(_, name)| name.cmp(&column.family));
            let Ok(family) = family else { continue };
            if chosen.len() < COLUMNS_MAX && column.qualifier.len() <= QUALIFIER_BYTES_MAX {
                chosen.entry((family, column.qualifier.clone())).or_insert((column.kind, column.accepts, true));
            }
        }
        let mut by_rows: Vec<_> = frequencies
            .iter()
            .filter_map(|column| Some((column, *sample.family_indexes.get(&column.family)?)))
            .collect();
        by_rows.sort_by_key(|(column, _)| std::cmp::Reverse(column.rows));
        let of_known = by_rows.iter().map(|(column, family)| (*family, &column.qualifier[..]));
        for (family, qualifier) in of_known.chain(sample.frequent()) {
            if chosen.len() == COLUMNS_MAX {
                break;
            }
            if qualifier.len() <= QUALIFIER_BYTES_MAX {
                chosen.entry((family, Bytes::copy_from_slice(qualifier))).or_insert((ColumnKind::Binary, None, false));
            }
        }
        let repeated: HashMap<(usize, &[u8]), bool> = by_rows
            .iter()
            .rev()
            .map(|(column, family)| ((*family, &column.qualifier[..]), column.dictionary))
            .collect();
        let repeats = sample.repeats(chosen.keys().map(|(family, qualifier)| (*family, &qualifier[..])));
        let columns =
            chosen.into_iter().zip(repeats).map(|(((family, qualifier), (kind, accepts, declared)), repeats)| {
                ShapeColumn {
                    family,
                    kind,
                    accepts,
                    declared,
                    dictionary: kind != ColumnKind::Bool
                        && repeats.or_else(|| repeated.get(&(family, &qualifier[..])).copied()).unwrap_or(true),
                    name: format!("{}:{}:{}", families[family].0, families[family].1, escape(&qualifier)),
                    qualifier,
                }
            });
        let columns = columns.collect();
        let key = layout.and_then(|layout| layout.key.clone());
        let section = layout.map(|layout| layout.section.clone()).unwrap_or_default();
        Self { families: families.into(), columns, key, section }
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

    /// The columns of the key decoder.
    pub(super) fn key_fields(&self) -> Vec<Field> {
        let fields = self.key.as_ref().map(|key| key.fields()).unwrap_or_default();
        let named =
            fields.iter().map(|field| Field::new(format!("key:{}", field.name()), field.data_type().clone(), true));
        named.collect()
    }

    /// The footer's part for the key columns.
    pub(super) fn key_footer(&self) -> Option<KeyFooter> {
        let columns = self.key_fields().iter().map(|field| field.name().clone()).collect();
        self.key.as_ref().map(|key| KeyFooter { id: key.id(), columns })
    }

    /// The footer's part for the columns.
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

    /// The footer's part for the families, without the content of their overflow.
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

/// The name of a column's column of timestamps.
pub(super) fn timestamps_of(column: &str) -> String {
    format!("{column}@ts")
}

/// Sample rows, and how often columns occur in them.
#[derive(Debug)]
struct Sample<'a> {
    /// The index of each family, by number.
    family_indexes: HashMap<u32, usize>,
    rows: Vec<&'a [u8]>,
    columns: BTreeMap<(usize, &'a [u8]), Occurrence>,
}

/// How often a column occurs.
#[derive(Clone, Copy, Debug, Default)]
struct Occurrence {
    rows: usize,
    /// The last stretch with the column, and the rows of that stretch that have it.
    stretch: (usize, usize),
    is_frequent: bool,
}

impl<'a> Sample<'a> {
    fn new(families: &[(u32, FamilyName)], rows: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let family_indexes =
            families.iter().enumerate().map(|(family_index, (number, _))| (*number, family_index)).collect();
        let mut sample = Self { family_indexes, rows: Vec::new(), columns: BTreeMap::new() };
        let mut left = SAMPLE_COLUMNS_MAX;
        for row in rows.into_iter().take(SAMPLE_ROWS_MAX) {
            sample.rows.push(row);
            left = left.saturating_sub(newest(&sample.family_indexes, row).count());
            if left == 0 {
                break;
            }
        }
        sample.count();
        sample
    }

    /// Counts the columns, stretch by stretch; the last stretch takes the remaining rows.
    fn count(&mut self) {
        let stretches = (self.rows.len() / STRETCH_ROWS).max(1);
        for (at, row) in self.rows.iter().enumerate() {
            let stretch = (at / STRETCH_ROWS).min(stretches - 1);
            let rows_of = if stretch + 1 < stretches { STRETCH_ROWS } else { self.rows.len() - stretch * STRETCH_ROWS };
            for (family_index, cell) in newest(&self.family_indexes, row) {
                let column = self.columns.entry((family_index, cell.qualifier)).or_default();
                column.rows += 1;
                let before = if column.stretch.0 == stretch { column.stretch.1 } else { 0 };
                column.stretch = (stretch, before + 1);
                column.is_frequent |= is_frequent(before + 1, rows_of);
            }
        }
    }

    /// The frequent columns, the most frequent first.
    fn frequent(&self) -> impl Iterator<Item = (usize, &'a [u8])> {
        let mut frequent: Vec<_> = self.columns.iter().filter(|(_, column)| column.is_frequent).collect();
        frequent.sort_by_key(|(_, column)| std::cmp::Reverse(column.rows));
        frequent.into_iter().map(|(column, _)| *column)
    }

    /// Whether the values of each column repeat, for ascending columns; `None` if the sample lacks the column. The
    /// chosen columns are few, which bounds the memory.
    fn repeats<'b>(&self, columns: impl Iterator<Item = (usize, &'b [u8])>) -> Vec<Option<bool>> {
        let columns: Vec<_> = columns.collect();
        // By column: rows, and hashes of the newest values.
        let mut found: Vec<(usize, HashSet<u64>)> = columns.iter().map(|_| Default::default()).collect();
        for row in &self.rows {
            for (family_index, cell) in newest(&self.family_indexes, row) {
                if let Ok(at) = columns.binary_search(&(family_index, cell.qualifier)) {
                    found[at].0 += 1;
                    found[at].1.insert(hash(cell.value));
                }
            }
        }
        let repeats =
            |(rows, values): (usize, HashSet<u64>)| (rows > 0).then(|| values.len() * DICTIONARY_REPEATS_MIN <= rows);
        found.into_iter().map(repeats).collect()
    }
}

/// Whether a column is frequent that so many of some neighbouring rows have.
fn is_frequent(having: usize, rows: usize) -> bool {
    having * FREQUENT_ONE_IN >= rows && having >= FREQUENT_ROWS_MIN.min(rows.div_ceil(20))
}

/// The newest cells of a sample row that are counted, with the index of their family.
fn newest<'a>(family_indexes: &HashMap<u32, usize>, row: &'a [u8]) -> impl Iterator<Item = (usize, CellRef<'a>)> {
    let newest = cells::decode(row).filter(|cell| cell.new_column).take(SAMPLE_ROW_COLUMNS_MAX);
    newest.filter_map(|cell| Some((*family_indexes.get(&cell.family)?, cell)))
}

/// A hash to count distinct values in memory. It is never stored: std does not promise that [`DefaultHasher`] gives the
/// same hash in another release.
fn hash(value: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
