//! Splits rows into the columns of a segment's file: a batch of rows becomes Arrow arrays.

use super::{
    OVERFLOW_BYTES_MAX, ROW_VALUES_BYTES_MAX,
    footer::{FamilyFooter, GroupFooter},
    kind::{self, Values},
    shape::Shape,
    side::SideWriter,
};
use crate::{
    ColumnKind, Result,
    engine::cells::{self, Encoder},
};
use arrow::{
    array::{Array, ArrayBuilder, ArrayRef, BinaryBuilder, Int64Builder, new_null_array},
    datatypes::{DataType, Field},
};
use bytes::Bytes;
use std::{cmp::Ordering, collections::HashMap, sync::Arc};

/// Rows to be written, by column.
pub(super) struct Columns {
    shape: Shape,
    /// The index of each family, by number.
    family_indexes: HashMap<u32, usize>,
    key_fields: Vec<Field>,
    rows: usize,
    bytes: usize,
    keys: BinaryBuilder,
    timestamps: Int64Builder,
    shredded: Vec<Shredded>,
    overflow: Vec<BinaryBuilder>,
    side: BinaryBuilder,
    /// By shredded column: whether the row group has a NaN.
    nan: Vec<bool>,
    /// Buffers for the current row: shredded columns with their timestamps, and the overflow of families.
    newest: Vec<(usize, i64)>,
    rest: Vec<(usize, Bytes)>,
}

struct Shredded {
    values: Values,
    timestamps: Values,
}

/// Counters that a row's cells are added to.
pub(super) struct Counters<'a> {
    pub(super) group: &'a mut GroupFooter,
    pub(super) families: &'a mut [FamilyFooter],
}

impl Columns {
    pub(super) fn new(shape: Shape) -> Self {
        let shredded = |kind| Shredded { values: Values::new(kind), timestamps: Values::new(ColumnKind::Int64) };
        Self {
            family_indexes: shape.families.iter().enumerate().map(|(at, (number, _))| (*number, at)).collect(),
            key_fields: shape.key_fields(),
            rows: 0,
            bytes: 0,
            keys: BinaryBuilder::new(),
            timestamps: Int64Builder::new(),
            shredded: shape.columns.iter().map(|column| shredded(column.kind)).collect(),
            overflow: shape.families.iter().map(|_| BinaryBuilder::new()).collect(),
            side: BinaryBuilder::new(),
            nan: vec![false; shape.columns.len()],
            newest: Vec::new(),
            rest: Vec::new(),
            shape,
        }
    }

    /// Rows of the batch.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of the keys and encoded rows of the batch.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a row, if it has cells of the shape's families.
    pub(super) fn push(
        &mut self,
        key: &[u8],
        row: &[u8],
        counters: Counters<'_>,
        side: &mut SideWriter,
    ) -> Result<bool> {
        if !self.split(row, counters.group, counters.families) {
            return Ok(false);
        }
        self.keys.append_value(key);
        self.append_timestamps(counters.group);
        self.append_rest(counters.group, side)?;
        // The overflow buffers of a large row are freed at once.
        self.rest.clear();
        counters.group.rows += 1;
        self.rows += 1;
        self.bytes += key.len() + row.len();
        Ok(true)
    }

    /// Sets the row's shredded values, and collects other cells in `rest`. Returns whether there was any cell.
    fn split(&mut self, row: &[u8], group: &mut GroupFooter, families: &mut [FamilyFooter]) -> bool {
        self.newest.clear();
        self.rest.clear();
        let at = self.rows;
        // Shredded columns before `passed` do not occur in the remaining row.
        let mut passed = 0;
        // The current family: its number, index, and overflow.
        let (mut family, mut encoder) = (None, Encoder::default());
        // The current column, if it is shredded: its index, and whether an older version was seen.
        let mut column: Option<(usize, bool)> = None;
        let mut any = false;
        // Bytes of the row's shredded values, and a lower bound of the bytes of the row that were read.
        let (mut value_bytes, mut row_bytes) = (0, 0);
        for cell in cells::decode(row) {
            let family_index = match family {
                Some((number, family_index)) if number == cell.family => family_index,
                _ => {
                    self.close(&mut family, &mut encoder);
                    let family_index = self.family_indexes.get(&cell.family).copied();
                    family = Some((cell.family, family_index));
                    family_index
                }
            };
            let Some(family_index) = family_index else { continue };
            any = true;
            let least = |least: &mut Option<i64>| {
                *least = Some(least.map_or(cell.timestamp, |so_far| so_far.min(cell.timestamp)))
            };
            least(&mut group.least[family_index]);
            if cell.new_column {
                least(&mut group.newest_least[family_index]);
                column = self.find(&mut passed, family_index, cell.qualifier).map(|column| (column, false));
                let fits = value_bytes + cell.value.len() <= ROW_VALUES_BYTES_MAX;
                match column {
                    Some((column, _)) if fits && self.shape.columns[column].accepts(cell.value) => {
                        value_bytes += cell.value.len();
                        let fitted = self.shredded[column].values.set(at, cell.value);
                        assert!(fitted, "the shape accepts values that fit");
                        self.newest.push((column, cell.timestamp));
                        group.values[column] += 1;
                        continue;
                    }
                    Some((column, _)) => group.residual[column] += 1,
                    None => families[family_index].qualifiers.insert(cell.qualifier),
                }
            } else if let Some((column, seen @ false)) = &mut column {
                *seen = true;
                group.older[*column] += 1;
            }
            if encoder.is_empty() {
                // Allocated at full size: growing would hold a large row twice while it is copied.
                encoder = Encoder::with_capacity(row.len() - row_bytes);
            }
            row_bytes += cell.value.len();
            encoder.push(cell.family, cell.qualifier, cell.timestamp, cell.value);
        }
        self.close(&mut family, &mut encoder);
        any
    }

    fn close(&mut self, family: &mut Option<(u32, Option<usize>)>, encoder: &mut Encoder) {
        if let Some((_, Some(family_index))) = family.take()
            && !encoder.is_empty()
        {
            self.rest.push((family_index, std::mem::take(encoder).finish()));
        }
    }

    /// The shredded column of this name, at `passed` or later.
    fn find(&self, passed: &mut usize, family: usize, qualifier: &[u8]) -> Option<usize> {
        let left = &self.shape.columns[*passed..];
        let order = |at: usize| (left[at].family, left[at].qualifier.as_ref()).cmp(&(family, qualifier));
        // Rows of a table are alike: mostly it is the next column.
        if left.is_empty() || order(0) == Ordering::Greater {
            return None;
        }
        if order(0) != Ordering::Equal {
            *passed += left.partition_point(|column| (column.family, column.qualifier.as_ref()) < (family, qualifier));
        }
        let found = self.shape.columns.get(*passed)?;
        (found.family == family && found.qualifier == qualifier).then(|| {
            *passed += 1;
            *passed - 1
        })
    }

    /// Sets `_ts` to the timestamp of most of the newest cells, and the timestamps of the others.
    fn append_timestamps(&mut self, group: &mut GroupFooter) {
        let first = self.newest.first().map_or(0, |(_, timestamp)| *timestamp);
        let common = match self.newest.iter().all(|(_, timestamp)| *timestamp == first) {
            true => first,
            false => most_common(self.newest.iter().map(|(_, timestamp)| *timestamp)),
        };
        self.timestamps.append_value(common);
        for &(column, timestamp) in &self.newest {
            if timestamp != common {
                self.shredded[column].timestamps.set(self.rows, &timestamp.to_be_bytes());
                group.timestamps[column] += 1;
            }
        }
    }

    fn append_rest(&mut self, group: &mut GroupFooter, side: &mut SideWriter) -> Result<()> {
        let at = self.rows;
        for (family, _) in &self.rest {
            group.overflow[*family] += 1;
        }
        if self.rest.iter().map(|(_, cells)| cells.len()).sum::<usize>() > OVERFLOW_BYTES_MAX {
            let cells = self.rest.iter().map(|(family, cells)| (self.shape.families[*family].0, cells));
            let pointer = side.append(cells)?;
            group.side += 1;
            self.side.append_nulls(at - self.side.len());
            self.side.append_value(pointer);
        } else {
            for (family, cells) in &self.rest {
                let overflow = &mut self.overflow[*family];
                overflow.append_nulls(at - overflow.len());
                overflow.append_value(cells);
            }
        }
        Ok(())
    }

    /// The shredded columns with NaNs in the row group; resets them for the next row group.
    pub(super) fn take_nan(&mut self) -> Vec<usize> {
        let found = self.nan.iter_mut().enumerate();
        found.filter_map(|(column, nan)| std::mem::take(nan).then_some(column)).collect()
    }

    /// The columns of the file; the batch is empty afterwards. Records in the row group whether keys failed to decode.
    pub(super) fn finish(&mut self, group: &mut GroupFooter) -> Vec<ArrayRef> {
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        let keys = BinaryBuilder::finish(&mut self.keys);
        let parts = self.shape.key.as_ref().filter(|_| group.key).and_then(|key| key.decode(&keys));
        // A decoder must return the fields that it declared; the file could not store anything else.
        let sound = |parts: &Vec<ArrayRef>| {
            parts.len() == self.key_fields.len()
                && parts.iter().zip(&self.key_fields).all(|(part, field)| {
                    part.len() == rows && part.data_type() == field.data_type() && part.null_count() == 0
                })
        };
        let parts = parts.filter(sound).unwrap_or_else(|| {
            group.key = false;
            self.key_fields.iter().map(|field| new_null_array(field.data_type(), rows)).collect()
        });
        let mut columns: Vec<ArrayRef> = vec![Arc::new(keys), Arc::new(Int64Builder::finish(&mut self.timestamps))];
        columns.extend(parts);
        // Nearly all cells have the row's timestamp: the columns of others share their nulls.
        let mut no_timestamps: Option<ArrayRef> = None;
        for (column, nan) in self.shredded.iter_mut().zip(&mut self.nan) {
            let values = column.values.finish(rows);
            *nan |= kind::has_nan(&values);
            columns.push(values);
            columns.push(match column.timestamps.is_empty() {
                true => no_timestamps.get_or_insert_with(|| new_null_array(&DataType::Int64, rows)).clone(),
                false => column.timestamps.finish(rows),
            });
        }
        for column in self.overflow.iter_mut().chain([&mut self.side]) {
            column.append_nulls(rows - column.len());
            columns.push(ArrayBuilder::finish(column));
        }
        columns
    }
}

/// The value that occurs most often; the greatest of several.
fn most_common(timestamps: impl Iterator<Item = i64>) -> i64 {
    let mut timestamps: Vec<i64> = timestamps.collect();
    timestamps.sort_unstable();
    let runs = timestamps.chunk_by(|a, b| a == b);
    runs.max_by_key(|run| run.len()).map_or(0, |run| run[0])
}
