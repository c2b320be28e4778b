//! Which columns a segment has: those that the table's layout declares, then those of the segments that it is made of, then the frequent ones of a
//! sample. Pure.
//!
//! Tables of SQL may share a table of the store, one after the other in the order of keys, each with columns of its own. So a column is frequent if it is
//! so among neighbours, and what segments already have columns for need not be among the first rows that they are merged to.

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

/// Shredded columns of a segment.
pub(crate) const COLUMNS_MAX: usize = 200;
/// Rows of a sample; later ones are not looked at.
pub(crate) const SAMPLE_ROWS_MAX: usize = 4_096;
/// Columns of a row that a sample looks at: a few very wide rows do not stand for all.
const SAMPLE_ROW_COLUMNS_MAX: usize = 1_024;
/// Columns of all rows of a sample together: memory for counting them is bounded, however wide rows are.
const SAMPLE_COLUMNS_MAX: usize = 64 << 10;
/// Bytes of a qualifier with a column of its own: it stands twice in what the footer says of each row group.
const QUALIFIER_BYTES_MAX: usize = 256;
/// A column is frequent if it occurs in one of so many rows of a stretch of the sample.
const FREQUENT_ONE_IN: usize = 20;
/// Rows of such a stretch, if the sample has as many.
const STRETCH_ROWS: usize = 256;
/// A column has a dictionary if the sample holds each of its values so often on average.
const DICTIONARY_REPEATS_MIN: usize = 4;

/// The column of the row keys.
pub(super) const KEY: &str = "_key";
/// The column of the rows' timestamps.
pub(super) const TIMESTAMP: &str = "_ts";
/// The column of family_indexes in the side file.
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

/// A column that occurs in segments, by the number of its family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ColumnFrequency {
    pub(crate) family: u32,
    pub(crate) qualifier: Bytes,
    /// Rows that have it, about.
    pub(crate) rows: u64,
    /// Whether its values repeated.
    pub(crate) dictionary: bool,
}

/// Columns that a segment with this footer has, as far as rows have them, and frequent ones of its overflow; those of these names in the file have
/// dictionaries.
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
            // Which rows have which is not frequencies: as if each had one of them.
            let share = *rows as usize / qualifiers.len().max(1);
            if share * FREQUENT_ONE_IN >= group.rows as usize {
                let share = u32::try_from(share).unwrap_or(u32::MAX);
                qualifiers.iter().for_each(|qualifier| add(family.number, &qualifier.0, share, false));
            }
        }
    }
    frequencies.into_values().filter(|column| column.rows > 0).collect()
}

impl Shape {
    /// Chooses columns for a table with these families, by number. The rows are those of segments with the `frequencies` columns, if they come from any; the
    /// sample is of encoded rows.
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
                chosen.entry((family, column.qualifier.clone())).or_insert((column.kind, column.accepts));
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
                chosen.entry((family, Bytes::copy_from_slice(qualifier))).or_insert((ColumnKind::Binary, None));
            }
        }
        let repeated: HashMap<(usize, &[u8]), bool> = by_rows
            .iter()
            .rev()
            .map(|(column, family)| ((*family, &column.qualifier[..]), column.dictionary))
            .collect();
        let repeats = sample.repeats(chosen.keys().map(|(family, qualifier)| (*family, &qualifier[..])));
        let columns =
            chosen.into_iter().zip(repeats).map(|(((family, qualifier), (kind, accepts)), repeats)| ShapeColumn {
                family,
                kind,
                accepts,
                dictionary: kind != ColumnKind::Bool
                    && repeats.or_else(|| repeated.get(&(family, &qualifier[..])).copied()).unwrap_or(true),
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

/// Some rows, and how often columns occur in them.
#[derive(Debug)]
struct Sample<'a> {
    /// The place of each family, by number.
    family_indexes: HashMap<u32, usize>,
    rows: Vec<&'a [u8]>,
    columns: BTreeMap<(usize, &'a [u8]), Occurrence>,
}

/// How often a column occurs.
#[derive(Clone, Copy, Debug, Default)]
struct Occurrence {
    rows: usize,
    /// The stretch in which it was seen last, and in how many rows of it.
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

    /// Counts the columns, stretch by stretch; the last stretch takes what is left.
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
                column.is_frequent |= (before + 1) * FREQUENT_ONE_IN >= rows_of;
            }
        }
    }

    /// The frequent columns, the most frequent first.
    fn frequent(&self) -> impl Iterator<Item = (usize, &'a [u8])> {
        let mut frequent: Vec<_> = self.columns.iter().filter(|(_, column)| column.is_frequent).collect();
        frequent.sort_by_key(|(_, column)| std::cmp::Reverse(column.rows));
        frequent.into_iter().map(|(column, _)| *column)
    }

    /// Whether the values of ascending columns repeat; `None` for those that the sample does not have. What is counted is bounded by the columns, which are few.
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

/// The newest cells of a row that a sample looks at, with the place of their family.
fn newest<'a>(family_indexes: &HashMap<u32, usize>, row: &'a [u8]) -> impl Iterator<Item = (usize, CellRef<'a>)> {
    let newest = cells::decode(row).filter(|cell| cell.new_column).take(SAMPLE_ROW_COLUMNS_MAX);
    newest.filter_map(|cell| Some((*family_indexes.get(&cell.family)?, cell)))
}

/// The same in every process.
fn hash(value: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
