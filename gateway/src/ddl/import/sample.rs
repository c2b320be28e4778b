//! Rows of a table on a server, to guess its columns of: a bounded number, from several places of the table.

use crate::{pg::error::Result, session::Session};
use bytes::Bytes;
use futures::TryStreamExt;
use keyspan_catalog::{Error, Server, table::MARKER_FAMILY};
use keyspan_storage::{KeyRange, Row, Scan, TableName};
use std::collections::BTreeMap;

/// Rows that are read from the beginning of a table, and from each of the keys that divide it.
const ROWS_MAX: u64 = 100;
/// Keys that divide a table from which rows are read.
const PLACES_MAX: usize = 8;
/// Bytes of a sample: reading ends once it has more.
const BYTES_MAX: usize = 16 << 20;
/// Columns whose values are kept; of a table with more it is known that it has more.
pub(super) const COLUMNS_MAX: usize = 2_000;
/// Values of a column that are kept.
const VALUES_MAX: usize = 100;

/// What was read of a table.
#[derive(Debug, Default)]
pub(super) struct Sample {
    /// All families, in order.
    pub(super) families: Vec<String>,
    /// The keys of the rows.
    pub(super) keys: Vec<Bytes>,
    /// Values by family and qualifier, the newest of each row.
    pub(super) columns: BTreeMap<(String, Bytes), Vec<Bytes>>,
    pub(super) bytes: usize,
}

impl Sample {
    /// Adds a row, unless it was added before.
    pub(super) fn add(&mut self, row: &Row) {
        if self.keys.iter().any(|key| key[..] == row.key[..]) {
            return;
        }
        self.bytes += row.key.len();
        self.keys.push(Bytes::copy_from_slice(&row.key));
        for cell in row.cells.iter().filter(|cell| cell.family.as_str() != MARKER_FAMILY) {
            self.bytes += cell.qualifier.len() + cell.value.len();
            let column = (cell.family.as_str().to_owned(), cell.qualifier.clone());
            if self.columns.len() >= COLUMNS_MAX && !self.columns.contains_key(&column) {
                continue;
            }
            let values = self.columns.entry(column).or_default();
            if values.len() < VALUES_MAX {
                values.push(cell.value.clone());
            }
        }
    }
}

/// Reads a sample.
///
/// # Errors
/// Those of the server.
pub(super) async fn of(session: &Session, server: &Server, table: &TableName) -> Result<Sample> {
    let store = session.instance.catalog.remote_store(server)?;
    let schema = session.instance.catalog.remote_schema(server, table).await?;
    let families = schema.families.keys().map(|family| family.as_str().to_owned());
    let mut sample = Sample { families: families.filter(|name| name != MARKER_FAMILY).collect(), ..Sample::default() };
    let places = store.sample_row_keys(table).await.map_err(Error::from)?;
    let step = places.len().div_ceil(PLACES_MAX).max(1);
    let places = places.into_iter().step_by(step).map(|place| Bytes::copy_from_slice(&place.key));
    for from in std::iter::once(Bytes::new()).chain(places) {
        let range = KeyRange::new(from, None);
        let scan = Scan { versions_max: Some(1), rows_max: Some(ROWS_MAX), ..Scan::of(range) };
        let mut rows = store.scan(table, scan);
        while let Some(batch) = rows.try_next().await.map_err(Error::from)? {
            batch.iter().for_each(|row| sample.add(row));
            if sample.bytes > BYTES_MAX {
                return Ok(sample);
            }
        }
    }
    Ok(sample)
}
