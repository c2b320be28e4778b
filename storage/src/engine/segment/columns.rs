//! Splits rows into the columns of a segment's file, batch by batch.

use super::{
    OVERFLOW_BYTES_MAX, ROW_VALUES_BYTES_MAX,
    batch::Batch,
    footer::{FamilyFooter, GroupFooter},
    shape::Shape,
    side::SideWriter,
};
use crate::{
    Result,
    engine::cells::{self, Encoder},
};
use bytes::Bytes;
use std::collections::HashMap;

/// Splits rows.
pub(super) struct Columns {
    shape: Shape,
    /// The index of each family, by number.
    family_indexes: HashMap<u32, usize>,
    /// The shredded columns of each family by qualifier. A binary search would compare a qualifier of 200 eight times.
    by_name: Vec<HashMap<Bytes, usize>>,
    batch: Batch,
    /// Buffers for the current row: shredded columns with their timestamps, and the overflow of families.
    newest: Vec<(usize, i64)>,
    rest: Vec<(usize, Bytes)>,
}

/// Counters that a row's cells are added to.
pub(super) struct Counters<'a> {
    pub(super) group: &'a mut GroupFooter,
    pub(super) families: &'a mut [FamilyFooter],
}

impl Columns {
    pub(super) fn new(shape: Shape) -> Self {
        let mut by_name = vec![HashMap::new(); shape.families.len()];
        for (at, column) in shape.columns.iter().enumerate() {
            by_name[column.family].insert(column.qualifier.clone(), at);
        }
        Self {
            family_indexes: shape.families.iter().enumerate().map(|(at, (number, _))| (*number, at)).collect(),
            by_name,
            batch: Batch::new(&shape),
            newest: Vec::new(),
            rest: Vec::new(),
            shape,
        }
    }

    /// Rows of the batch.
    pub(super) fn rows(&self) -> usize {
        self.batch.rows()
    }

    /// Bytes of the keys and encoded rows of the batch.
    pub(super) fn bytes(&self) -> usize {
        self.batch.bytes()
    }

    /// An empty batch.
    pub(super) fn empty(&self) -> Batch {
        Batch::new(&self.shape)
    }

    /// The batch, in exchange for an empty one.
    pub(super) fn exchange(&mut self, empty: Batch) -> Batch {
        std::mem::replace(&mut self.batch, empty)
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
        let timestamp = self.set_timestamps(counters.group);
        self.set_rest(counters.group, side)?;
        // The overflow buffers of a large row are freed at once.
        self.rest.clear();
        counters.group.rows += 1;
        self.batch.end_row(key, timestamp, key.len() + row.len());
        Ok(true)
    }

    /// Sets the row's shredded values, and collects other cells in `rest`. Returns whether there was any cell.
    fn split(&mut self, row: &[u8], group: &mut GroupFooter, families: &mut [FamilyFooter]) -> bool {
        self.newest.clear();
        self.rest.clear();
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
                        self.batch.set(column, cell.value);
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
        // Rows of a table are alike: often it is the next column.
        let next = self.shape.columns.get(*passed)?;
        let found = match next.family == family && next.qualifier == qualifier {
            true => *passed,
            false => *self.by_name[family].get(qualifier)?,
        };
        *passed = found + 1;
        Some(found)
    }

    /// The timestamp of most of the newest cells; those of the others are set.
    fn set_timestamps(&mut self, group: &mut GroupFooter) -> i64 {
        let first = self.newest.first().map_or(0, |(_, timestamp)| *timestamp);
        let common = match self.newest.iter().all(|(_, timestamp)| *timestamp == first) {
            true => first,
            false => most_common(self.newest.iter().map(|(_, timestamp)| *timestamp)),
        };
        for &(column, timestamp) in &self.newest {
            if timestamp != common {
                self.batch.set_timestamp(column, timestamp);
                group.timestamps[column] += 1;
            }
        }
        common
    }

    fn set_rest(&mut self, group: &mut GroupFooter, side: &mut SideWriter) -> Result<()> {
        for (family, _) in &self.rest {
            group.overflow[*family] += 1;
        }
        if self.rest.iter().map(|(_, cells)| cells.len()).sum::<usize>() > OVERFLOW_BYTES_MAX {
            let cells = self.rest.iter().map(|(family, cells)| (self.shape.families[*family].0, cells));
            let pointer = side.append(cells)?;
            group.side += 1;
            self.batch.set_side(&pointer);
        } else {
            self.rest.iter().for_each(|(family, cells)| self.batch.set_overflow(*family, cells));
        }
        Ok(())
    }
}

/// The value that occurs most often; the greatest of several.
fn most_common(timestamps: impl Iterator<Item = i64>) -> i64 {
    let mut timestamps: Vec<i64> = timestamps.collect();
    timestamps.sort_unstable();
    let runs = timestamps.chunk_by(|a, b| a == b);
    runs.max_by_key(|run| run.len()).map_or(0, |run| run[0])
}
