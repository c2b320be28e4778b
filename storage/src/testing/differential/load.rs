//! Loads of a differential test: complete, or begun by one operation and finished by a later one.

use super::Answer;
use crate::{
    Commit, Error, KeyRange, Load, LoadColumn, NewRows, Result, RowKey, Scan, Store, StoreExt, Write,
    testing::{
        arbitrary::{LOAD_COLUMNS, NewRow},
        notation::{family, table},
    },
};
use bytes::Bytes;
use std::collections::BTreeSet;

/// Rows of a batch.
const LOAD_ROWS: usize = 5;

/// The load in progress, if there is one.
#[derive(Debug, Default)]
pub struct LoadInProgress {
    load: Option<Box<dyn Load>>,
    /// Its rows.
    rows: Vec<KeyRange>,
}

impl LoadInProgress {
    /// Begins another load, without its last step; `false` if the store only has commits.
    pub(super) async fn begin(&mut self, store: &dyn Store, rows: Vec<NewRow>, fresh: bool) -> Result<bool> {
        *self = Self::default();
        let (batches, _) = batches(store, rows, fresh).await?;
        let Some(mut load) = store.load(&table(), &columns()).await? else { return Ok(false) };
        // Only some of the requested rows may be absent.
        let mut rows = Vec::new();
        for batch in batches {
            rows.extend(batch.iter().map(|row| KeyRange::point(row.key())));
            load.add(batch).await?;
        }
        load.seal().await?;
        *self = Self { load: Some(load), rows };
        Ok(true)
    }

    /// Performs the last step.
    pub(super) async fn finish(&mut self) -> Result<()> {
        match self.load.take() {
            Some(mut load) => load.finish(None).await.map(drop),
            None => Ok(()),
        }
    }

    /// Takes the rows of the last load.
    pub(super) fn take_rows(&mut self) -> Vec<KeyRange> {
        std::mem::take(&mut self.rows)
    }

    /// Whether the load in progress has keys with the prefix, or on both sides of it.
    pub(super) fn reaches_into(&self, prefix: &'static str) -> bool {
        let first = self.rows.iter().map(|row| row.start.clone()).min();
        let end = self.rows.iter().filter_map(|row| row.end.clone()).max();
        let hull = KeyRange::new(first.unwrap_or_default(), end.or(Some(Bytes::new())));
        self.load.is_some() && !hull.intersect(&KeyRange::prefix(prefix)).is_empty()
    }
}

/// Loads rows; by a commit if the store has no loads.
pub(super) async fn load(store: &dyn Store, rows: Vec<NewRow>, fresh: bool) -> Result<Answer> {
    let (batches, mut seen) = batches(store, rows, fresh).await?;
    let columns = columns();
    if let Some(mut load) = store.load(&table(), &columns).await? {
        for batch in batches {
            load.add(batch).await?;
        }
        return load.finish(None).await.map(|_| Answer::Done);
    }
    let mut writes = Vec::new();
    for batch in batches {
        for (number, row) in batch.mutations(&columns)? {
            if !seen.insert(row.key.clone()) {
                return Err(Error::RowExists { key: row.key, number: Some(number) });
            }
            writes.push(Write::Row { table: table(), row });
        }
    }
    store.commit(Commit { writes, validation: None }).await.map(|_| Answer::Done)
}

fn columns() -> Vec<LoadColumn> {
    let column = |(name, qualifier): (&str, &'static str)| LoadColumn {
        family: family(name),
        qualifier: Some(Bytes::from_static(qualifier.as_bytes())),
    };
    LOAD_COLUMNS.into_iter().map(column).collect()
}

/// The rows in small batches, and the existing keys; with `fresh`, only the absent rows.
async fn batches(store: &dyn Store, mut rows: Vec<NewRow>, fresh: bool) -> Result<(Vec<NewRows>, BTreeSet<RowKey>)> {
    let there: BTreeSet<RowKey> =
        store.read_rows(&table(), Scan::all()).await?.into_iter().map(|row| row.key).collect();
    if fresh {
        let mut seen = there.clone();
        rows.retain(|(key, _)| seen.insert(key.clone()));
    }
    let mut batches = Vec::new();
    for part in rows.chunks(LOAD_ROWS) {
        let mut batch = NewRows::new(LOAD_COLUMNS.len());
        for (key, values) in part {
            let append = |bytes: &[u8], out: &mut Vec<u8>| out.extend_from_slice(bytes);
            batch.push::<Error>(
                1,
                |out| {
                    append(key, out);
                    Ok(())
                },
                |at, out| {
                    append(values[at].as_deref().unwrap_or_default(), out);
                    Ok(values[at].is_some())
                },
            )?;
        }
        batches.push(batch);
    }
    Ok((batches, there))
}
