//! The size of a tenant's rows in a table on a server. A few rows are counted; where there are more, the server's
//! samples of keys say about how many bytes there are, and rows from several places how many rows that is. So a drop of
//! a tenant of a terabyte does not read the terabyte first.

use super::TenantStore;
use crate::{
    Result, Table,
    tenant::{Counted, SpanSize},
};
use bytes::Bytes;
use futures::TryStreamExt;
use keyspan_storage::{KeyRange, Pin, RowSample, Scan};

/// Rows, and bytes of these, up to which they are counted.
const COUNTED: Most = Most { rows: 100_000, bytes: 64 << 20 };
/// Rows, and bytes of these, that are read from each place in the span.
const PLACE: Most = Most { rows: 500, bytes: 4 << 20 };
/// Places in the span from which rows are read, beside its beginning.
const PLACES_MAX: usize = 8;

/// Where counting ends.
#[derive(Clone, Copy)]
struct Most {
    rows: u64,
    bytes: u64,
}

impl TenantStore {
    /// The size of the span in a table on a server, and whether it is exact.
    ///
    /// # Errors
    /// The store's.
    pub async fn size_there(&self, table: &Table, pin: &Pin) -> Result<(SpanSize, Counted)> {
        let (begun, is_all) = self.count_from(table, pin, Bytes::new(), COUNTED).await?;
        if is_all {
            return Ok((begun, Counted::Exactly));
        }
        let samples = self.store.sample_row_keys(&table.physical).await?;
        let span = self.range_in_store(table, &KeyRange::all());
        let bytes = bytes_in(&span, &samples);
        // One sample may stand for more than was read.
        if bytes <= begun.bytes {
            return Ok((begun, Counted::AtLeast));
        }
        let own = samples.iter().filter(|sample| span.contains(&sample.key) && *sample.key != *span.start);
        let own: Vec<_> = own.map(|sample| Bytes::copy_from_slice(&sample.key[span.start.len()..])).collect();
        let mut parts = vec![begun];
        for place in own.iter().step_by(own.len().div_ceil(PLACES_MAX).max(1)) {
            let (part, _) = self.count_from(table, pin, place.clone(), PLACE).await?;
            parts.extend((!part.is_empty()).then_some(part));
        }
        let size = scaled(bytes, &parts);
        Ok((SpanSize { rows: size.rows.max(begun.rows), cells: size.cells.max(begun.cells), ..size }, Counted::About))
    }

    /// Counts rows from a key on, within the span, and says whether these were all.
    async fn count_from(&self, table: &Table, pin: &Pin, from: Bytes, most: Most) -> Result<(SpanSize, bool)> {
        let scan =
            Scan { pin: Some(pin.clone()), rows_max: Some(most.rows + 1), ..Scan::of(KeyRange::new(from, None)) };
        let mut size = SpanSize::default();
        let mut rows = self.scan(table, scan);
        while let Some(batch) = rows.try_next().await? {
            for row in &batch {
                if size.rows >= most.rows || size.bytes >= most.bytes {
                    return Ok((size, false));
                }
                size.add_row(row);
            }
        }
        Ok((size, true))
    }
}

/// About how many bytes are in a range. A key between two samples is taken to be in their middle; what follows the last
/// sample is not known.
fn bytes_in(range: &KeyRange, samples: &[RowSample]) -> u64 {
    let before = |key: &[u8]| {
        let at = samples.partition_point(|sample| *sample.key < *key);
        let below = at.checked_sub(1).map_or(0, |at| samples[at].offset_bytes);
        let above = samples.get(at).map_or(below, |sample| sample.offset_bytes);
        below.midpoint(above)
    };
    let end =
        range.end.as_ref().map_or_else(|| samples.last().map_or(0, |sample| sample.offset_bytes), |key| before(key));
    end.saturating_sub(before(&range.start))
}

/// The size of so many bytes, of which equal shares have rows as each of the parts has.
fn scaled(bytes: u64, parts: &[SpanSize]) -> SpanSize {
    let share = u128::from(bytes) / parts.len().max(1) as u128;
    let of = |number: fn(&SpanSize) -> u64| {
        let sum: u128 = parts.iter().map(|part| share * u128::from(number(part)) / u128::from(part.bytes.max(1))).sum();
        u64::try_from(sum).unwrap_or(u64::MAX)
    };
    SpanSize { rows: of(|part| part.rows), cells: of(|part| part.cells), bytes, ..SpanSize::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyspan_storage::RowKey;

    fn samples(keys: &[(&'static str, u64)]) -> Vec<RowSample> {
        keys.iter()
            .map(|(key, offset_bytes)| RowSample { key: RowKey::new(*key).unwrap(), offset_bytes: *offset_bytes })
            .collect()
    }

    #[test]
    fn bytes_are_those_between_samples() {
        let samples = samples(&[("a#5", 100), ("b#2", 300), ("b#7", 700), ("c#1", 1_000)]);
        let bytes = |from: &'static str, to: Option<&'static str>| {
            bytes_in(&KeyRange::new(from, to.map(Bytes::from)), &samples)
        };
        // From the middle of 100 and 300 to the middle of 700 and 1,000.
        assert_eq!(bytes("b#", Some("b$")), 850 - 200);
        assert_eq!(bytes("a#", Some("a$")), 200 - 50);
        assert_eq!(bytes("c#", Some("c$")), 1_000 - 850);
        assert_eq!(bytes("b#3", Some("b#4")), 0, "nothing is known between two");
        assert_eq!((bytes("", None), bytes("d#", Some("d$"))), (950, 0));
        assert_eq!(bytes_in(&KeyRange::all(), &[]), 0);
    }

    #[test]
    fn shares_have_rows_as_their_parts() {
        let part = |rows, cells, bytes| SpanSize { rows, cells, bytes, ..SpanSize::default() };
        // A half has rows of 10 bytes, a half such of 1,000.
        let size = scaled(20_000, &[part(10, 10, 100), part(1, 3, 1_000)]);
        assert_eq!(size, part(1_000 + 10, 1_000 + 30, 20_000));
        assert_eq!(scaled(u64::MAX, &[part(5, 5, 1)]).rows, u64::MAX);
        assert_eq!(scaled(5, &[]), part(0, 0, 5));
    }
}
