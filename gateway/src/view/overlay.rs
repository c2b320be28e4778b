//! A scan over the store and the transaction's own writes, as if these were committed.
//!
//! It merges two streams in key order. *Base* is the scan at the pin. *Own* has the rows with buffered mutations: each
//! is read whole at the pin, folded as a commit would fold it, and then passed through the scan's columns, versions and
//! filter. Where both have a key, own wins: it may have deleted the row.

use super::{Buffered, View};
use futures::{StreamExt, TryStreamExt, stream};
use keyspan_catalog::{Table, TableId};
use keyspan_storage::{
    KeyRange, Pin, Result, Row, RowKey, RowMutation, RowSet, RowStream, Scan, TableSchema,
    row::{self, RowReader},
    store::{BATCH_BYTES_TARGET, BATCH_ROWS_MAX},
};
use std::{
    collections::{HashMap, VecDeque},
    ops::Bound,
};

/// Own rows that are read and folded together.
const OWN_ROWS_MAX: usize = 256;

/// Scans a table that the view has buffered writes to. `scan` has the pin already.
pub(super) fn scan(view: &View, table: &Table, scan: Scan) -> RowStream {
    let schema = table.storage_schema();
    // Base still has rows that the transaction has deleted: the limit counts after the merge.
    let base = view.rows.scan(table, Scan { rows_max: None, ..scan.clone() });
    let reader = match RowReader::new(&schema, &Scan { metrics: None, ..scan.clone() }, view.pin.now_micros) {
        Ok(reader) => reader,
        Err(error) => return keyspan_storage::store::failed(error),
    };
    let own = Own {
        view: view.clone(),
        table: table.clone(),
        schema,
        reader,
        rows: scan.rows.clone(),
        reversed: scan.reversed,
        after: None,
        folded: VecDeque::new(),
        ended: false,
    };
    let left = scan.rows_max.unwrap_or(u64::MAX);
    let merge = Merge { base, ready: VecDeque::new(), base_ended: false, own, reversed: scan.reversed, left };
    stream::try_unfold(merge, |mut merge| async move {
        let batch = merge.batch().await?;
        Ok((!batch.is_empty()).then_some((batch, merge)))
    })
    .boxed()
}

/// The rows with buffered mutations, in the scan's order.
struct Own {
    view: View,
    table: Table,
    schema: TableSchema,
    reader: RowReader,
    rows: RowSet,
    reversed: bool,
    /// The key of the last row that was folded.
    after: Option<RowKey>,
    /// Rows that are folded and not yet merged, in order; `None` for a row that is deleted or filtered out.
    folded: VecDeque<(RowKey, Option<Row>)>,
    ended: bool,
}

impl Own {
    /// Folds the next rows, if none are ready and there are more.
    async fn fill(&mut self) -> Result<()> {
        if !self.folded.is_empty() || self.ended {
            return Ok(());
        }
        let chunk = next_chunk(&self.view.buffered, self.table.id, &self.rows, self.after.as_ref(), self.reversed);
        self.ended = chunk.len() < OWN_ROWS_MAX;
        let Some((last, _)) = chunk.last() else { return Ok(()) };
        self.after = Some(last.clone());
        let points = RowSet::new(chunk.iter().map(|(key, _)| KeyRange::point(key)));
        let whole = Scan { pin: Some(self.view.pin.clone()), ..Scan::of(points) };
        let base: Vec<Row> = self.view.rows.scan(&self.table, whole).try_concat().await?;
        let mut base: HashMap<RowKey, Row> = base.into_iter().map(|row| (row.key.clone(), row)).collect();
        for (key, mutation) in chunk {
            let row = folded(&self.schema, &self.view.pin, base.remove(&key), mutation)?;
            let row = row.and_then(|row| self.reader.read(row.key, row.cells));
            self.folded.push_back((key, row));
        }
        Ok(())
    }
}

/// The next buffered mutations within the scan's rows, in its direction; at most [`OWN_ROWS_MAX`].
fn next_chunk(
    buffered: &Buffered,
    table: TableId,
    rows: &RowSet,
    after: Option<&RowKey>,
    reversed: bool,
) -> Vec<(RowKey, RowMutation)> {
    let Some(own) = buffered.get(&table) else { return Vec::new() };
    let entry = |(key, mutation): (&RowKey, &RowMutation)| (key.clone(), mutation.clone());
    let bound = after.map_or(Bound::Unbounded, Bound::Excluded);
    let keys: Entries<'_> = if reversed {
        Box::new(own.range::<_, RowKey>((Bound::Unbounded, bound)).rev())
    } else {
        Box::new(own.range::<_, RowKey>((bound, Bound::Unbounded)))
    };
    keys.filter(|(key, _)| contains(rows, key)).take(OWN_ROWS_MAX).map(entry).collect()
}

type Entries<'a> = Box<dyn Iterator<Item = (&'a RowKey, &'a RowMutation)> + 'a>;

fn contains(rows: &RowSet, key: &RowKey) -> bool {
    let ranges = rows.ranges();
    let next = ranges.partition_point(|range| range.start <= *key.bytes());
    next > 0 && ranges[next - 1].contains(key)
}

/// The whole row after the mutations, as a commit would leave it; `None` if no cell is left.
fn folded(schema: &TableSchema, pin: &Pin, base: Option<Row>, mutation: RowMutation) -> Result<Option<Row>> {
    let RowMutation { key, mut mutations } = mutation;
    let cells = base.map(|row| row.cells).unwrap_or_default();
    let stamp = row::stamp_for(pin.commit_micros.saturating_add(1), true, &cells);
    row::resolve(&mut mutations, stamp);
    let cells = row::fold(schema, cells, &mutations, pin.now_micros)?;
    Ok((!cells.is_empty()).then_some(Row { key, cells }))
}

/// The merge of base and own rows.
struct Merge {
    base: RowStream,
    /// Rows of base that are not yet merged.
    ready: VecDeque<Row>,
    base_ended: bool,
    own: Own,
    reversed: bool,
    /// Rows up to the scan's limit.
    left: u64,
}

impl Merge {
    /// The next rows; empty at the end.
    async fn batch(&mut self) -> Result<Vec<Row>> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while self.left > 0 && batch.len() < BATCH_ROWS_MAX && bytes < BATCH_BYTES_TARGET {
            let Some(next) = self.next().await? else { break };
            if let Some(row) = next {
                bytes += row.size();
                self.left -= 1;
                batch.push(row);
            }
        }
        Ok(batch)
    }

    /// The next row by key: `None` at the end, `Some(None)` for a row that own writes delete.
    async fn next(&mut self) -> Result<Option<Option<Row>>> {
        while self.ready.is_empty() && !self.base_ended {
            match self.base.try_next().await? {
                Some(rows) => self.ready = rows.into(),
                None => self.base_ended = true,
            }
        }
        self.own.fill().await?;
        let base_first = match (self.ready.front(), self.own.folded.front()) {
            (Some(row), Some((key, _))) => {
                let order = row.key.cmp(key);
                if order.is_eq() {
                    self.ready.pop_front();
                }
                if self.reversed { order.is_gt() } else { order.is_lt() }
            }
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => return Ok(None),
        };
        Ok(if base_first { self.ready.pop_front().map(Some) } else { self.own.folded.pop_front().map(|(_, row)| row) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_follow_the_scans_rows_and_order() {
        let key = |text: &str| RowKey::new(text.as_bytes().to_vec()).unwrap();
        let own: imbl::OrdMap<RowKey, RowMutation> = ["a", "b", "c", "d", "e"]
            .into_iter()
            .map(|text| (key(text), RowMutation { key: key(text), mutations: Vec::new() }))
            .collect();
        let buffered = Buffered::from([(TableId(1), own)]);
        let check = |ranges: Vec<KeyRange>, after: Option<&str>, reversed: bool, expected: &str| {
            let after = after.map(key);
            let chunk = next_chunk(&buffered, TableId(1), &RowSet::new(ranges), after.as_ref(), reversed);
            let keys: String = chunk.iter().map(|(key, _)| key.escape_ascii().to_string()).collect();
            assert_eq!(keys, expected);
        };
        check(vec![KeyRange::all()], None, false, "abcde");
        check(vec![KeyRange::all()], Some("b"), false, "cde");
        check(vec![KeyRange::all()], Some("d"), true, "cba");
        check(vec![KeyRange::point(b"b"), KeyRange::prefix(&b"d"[..])], None, true, "db");
        check(vec![], None, false, "");
        assert!(next_chunk(&buffered, TableId(2), &RowSet::all(), None, false).is_empty());
    }
}
