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
use std::{cmp::Ordering, collections::HashMap, ops::Range};

/// Splits rows.
pub(super) struct Columns {
    shape: Shape,
    /// The index of each family, by number.
    family_indexes: HashMap<u32, usize>,
    /// How the qualifier of each shredded column begins: all that most searches look at, in one place.
    starts: Vec<Start>,
    /// The shredded columns of each family, in the order of qualifiers.
    columns_of: Vec<Range<usize>>,
    batch: Batch,
    /// Buffers for the current row: shredded columns with their timestamps, and the overflow of families.
    newest: Vec<(usize, i64)>,
    rest: Vec<(usize, Bytes)>,
}

/// How a qualifier begins, in the order of qualifiers as far as it tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Start {
    /// The first bytes, then zeros.
    bytes: u64,
    /// The number of bytes, at most one more than are here.
    length: u8,
}

impl Start {
    fn of(qualifier: &[u8]) -> Self {
        let mut bytes = [0; 8];
        let length = qualifier.len().min(8);
        bytes[..length].copy_from_slice(&qualifier[..length]);
        Self { bytes: u64::from_be_bytes(bytes), length: qualifier.len().min(9) as u8 }
    }

    /// Whether the qualifier has more bytes.
    fn is_cut(self) -> bool {
        self.length > 8
    }
}

/// Counters that a row's cells are added to.
pub(super) struct Counters<'a> {
    pub(super) group: &'a mut GroupFooter,
    pub(super) families: &'a mut [FamilyFooter],
}

impl Columns {
    pub(super) fn new(shape: Shape) -> Self {
        debug_assert!(shape.columns.is_sorted_by_key(|column| (column.family, &column.qualifier)));
        let columns_of = |family| {
            let first = shape.columns.partition_point(|column| column.family < family);
            first..shape.columns.partition_point(|column| column.family <= family)
        };
        Self {
            starts: shape.columns.iter().map(|column| Start::of(&column.qualifier)).collect(),
            columns_of: (0..shape.families.len()).map(columns_of).collect(),
            family_indexes: shape.families.iter().enumerate().map(|(at, (number, _))| (*number, at)).collect(),
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

    /// The shredded column of this name. Those before `passed` are not among the rest of a row in order.
    fn find(&self, passed: &mut usize, family: usize, qualifier: &[u8]) -> Option<usize> {
        let of_family = self.columns_of[family].clone();
        let from = if of_family.contains(passed) { *passed } else { of_family.start };
        let start = Start::of(qualifier);
        let is_before = |at: usize| match self.starts[at].cmp(&start) {
            Ordering::Equal if start.is_cut() => self.shape.columns[at].qualifier[..] < *qualifier,
            order => order.is_lt(),
        };
        // Rows of a table are alike: often it is the next column. Else a halving search, over numbers.
        let (mut found, mut end) = (from, of_family.end);
        if found < end && is_before(found) {
            found += 1;
            while found < end {
                let middle = found + (end - found) / 2;
                if is_before(middle) { found = middle + 1 } else { end = middle }
            }
        }
        let is_it = found < of_family.end
            && self.starts[found] == start
            && (!start.is_cut() || self.shape.columns[found].qualifier == qualifier);
        is_it.then(|| {
            *passed = found + 1;
            found
        })
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn starts_have_the_order_of_qualifiers(
            a in prop::collection::vec(0_u8..3, 0..12),
            b in prop::collection::vec(0_u8..3, 0..12),
        ) {
            let (of_a, of_b) = (Start::of(&a), Start::of(&b));
            match of_a.cmp(&of_b) {
                Ordering::Equal => prop_assert!(a == b || of_a.is_cut() && a[..8] == b[..8]),
                order => prop_assert_eq!(order, a.cmp(&b)),
            }
        }
    }
}
