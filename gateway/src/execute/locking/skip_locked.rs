//! Rows that are locked one by one, unless others hold them, until LIMIT has what it wants.
//!
//! PostgreSQL locks below LIMIT: a skipped row does not count towards LIMIT. So the query runs without
//! its [bounds](window), and its stream is dropped when there are enough. A row that nobody holds any more may still
//! have been changed, after the query's pin, by who held it: what is taken is held against a pin of after it was taken,
//! so that no two workers get the same job.

use super::Locking;
use crate::{
    dml::select,
    pg::error::{Result, SqlError, SqlState},
    query::Query,
    session::changed,
    write_set::conflict,
};
use arrow::{
    array::{Array, AsArray, RecordBatch, UInt32Array},
    compute::take_record_batch,
    datatypes::{Int64Type, Schema},
};
use datafusion::{
    error::DataFusionError,
    execution::SendableRecordBatchStream,
    physical_plan::stream::RecordBatchStreamAdapter,
    scalar::ScalarValue,
    sql::sqlparser::ast::{self, LimitClause, NonBlock},
};
use futures::{TryStreamExt, stream};
use keyspan_catalog::{SqlType, TenantStore};
use keyspan_storage::{Pin, RowKey};
use std::{collections::BTreeSet, sync::Arc};

/// How many rows OFFSET and LIMIT pass over and give.
///
/// # Errors
/// 2201W and 2201X for less than none; what evaluating them finds.
pub(crate) async fn window(
    query: &Query,
    bounds: Option<LimitClause>,
    parameters: &[ScalarValue],
) -> Result<(usize, Option<usize>)> {
    let Some(LimitClause::LimitOffset { limit, offset, .. }) = bounds else { return Ok((0, None)) };
    let null = || select::cast(select::value(ast::Value::Null), SqlType::Int8);
    let offset = offset.map(|offset| offset.value);
    let items = [limit, offset].into_iter().map(|bound| match bound {
        Some(bound) => select::cast(bound, SqlType::Int8),
        None => null(),
    });
    let select = select::select(items.collect::<Result<_>>()?, Vec::new(), None)?;
    let batches: Vec<RecordBatch> =
        crate::dml::rows(query, &select, parameters).await?.try_collect().await.map_err(SqlError::from)?;
    let bound = |at: usize, (state, name): (SqlState, &str)| {
        let row = batches.iter().find(|batch| batch.num_rows() > 0);
        let column = row.and_then(|batch| batch.column(at).as_primitive_opt::<Int64Type>());
        match column.filter(|column| column.is_valid(0)).map(|column| usize::try_from(column.value(0))) {
            None => Ok(None),
            Some(Ok(bound)) => Ok(Some(bound)),
            Some(Err(_)) => Err(SqlError::new(state, format!("{name} must not be negative"))),
        }
    };
    let wanted = bound(0, (SqlState::INVALID_ROW_COUNT_IN_LIMIT, "LIMIT"))?;
    Ok((bound(1, (SqlState::INVALID_ROW_COUNT_IN_OFFSET, "OFFSET"))?.unwrap_or(0), wanted))
}

/// Rows that are taken unless others hold them.
pub(crate) struct Taking {
    pub(crate) rows: SendableRecordBatchStream,
    pub(crate) locking: Vec<Locking>,
    /// Where they are read.
    pub(crate) pin: Pin,
    pub(crate) store: TenantStore,
    /// Rows that are still to be taken and not given.
    pub(crate) skip: usize,
    /// Rows that are still to be given.
    pub(crate) wanted: Option<usize>,
    /// What was read and not looked at yet.
    pub(crate) batch: Option<RecordBatch>,
}

impl Taking {
    pub(crate) fn into_stream(self) -> SendableRecordBatchStream {
        let keys: usize = self.locking.iter().map(|table| table.target.key_columns().len()).sum();
        let shown = self.rows.schema().fields().len().saturating_sub(keys);
        let schema = Arc::new(Schema::new(self.rows.schema().fields()[..shown].to_vec()));
        let rows = stream::try_unfold(self, move |mut taking| async move {
            let batch = taking.next(shown).await.map_err(|error| DataFusionError::External(Box::new(error)))?;
            Ok(batch.map(|batch| (batch, taking)))
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, rows))
    }

    /// The next rows.
    async fn next(&mut self, shown: usize) -> Result<Option<RecordBatch>> {
        while self.wanted != Some(0) {
            let batch = match self.batch.take() {
                Some(batch) => batch,
                None => match self.rows.try_next().await.map_err(SqlError::from)? {
                    Some(batch) => batch,
                    None => return Ok(None),
                },
            };
            let enough = self.wanted.map_or(usize::MAX, |wanted| wanted.saturating_add(self.skip));
            let (mut taken, mut row) = (Vec::new(), 0);
            while row < batch.num_rows() && taken.len() < enough {
                if let Some(keys) = self.take(&batch, shown, row)? {
                    taken.push((row, keys));
                }
                row += 1;
            }
            if row < batch.num_rows() {
                self.batch = Some(batch.slice(row, batch.num_rows() - row));
            }
            self.give_back_changed(&mut taken).await?;
            let skipped = self.skip.min(taken.len());
            self.skip -= skipped;
            let given: UInt32Array = taken[skipped..].iter().map(|(row, _)| u32::try_from(*row).ok()).collect();
            self.wanted = self.wanted.map(|wanted| wanted.saturating_sub(given.len()));
            if !given.is_empty() {
                let columns: Vec<usize> = (0..shown).collect();
                return Ok(Some(take_record_batch(&batch.project(&columns)?, &given)?));
            }
        }
        Ok(None)
    }

    /// Takes a row of the batch; its key in each table, or `None` for one that is passed over.
    fn take(&self, batch: &RecordBatch, shown: usize, row: usize) -> Result<Option<Vec<RowKey>>> {
        let (mut keys, mut from) = (Vec::with_capacity(self.locking.len()), shown);
        for table in &self.locking {
            let key = table.key(batch, from, row)?;
            from += table.target.key_columns().len();
            if !table.lock.add(key.clone(), table.nonblock.is_some())? {
                if table.nonblock == Some(NonBlock::SkipLocked) {
                    return Ok(None);
                }
                let message = format!("could not obtain lock on row in relation \"{}\"", table.target.table.name);
                return Err(SqlError::new(SqlState::LOCK_NOT_AVAILABLE, message));
            }
            keys.push(key);
        }
        Ok(Some(keys))
    }

    /// Gives back the rows that are no more what was read: who held them has changed them, and was through before they
    /// were taken.
    async fn give_back_changed(&mut self, taken: &mut Vec<(usize, Vec<RowKey>)>) -> Result<()> {
        if taken.is_empty() {
            return Ok(());
        }
        let now = self.store.pin().await?;
        if now.commit_micros == self.pin.commit_micros {
            return Ok(());
        }
        for (at, table) in self.locking.iter().enumerate() {
            let Some(nonblock) = table.nonblock else { continue };
            loop {
                let keys: BTreeSet<RowKey> = taken.iter().map(|(_, keys)| keys[at].clone()).collect();
                let changed = changed(&self.store, &table.target.table, &keys, (&self.pin, &now)).await?;
                if changed.is_empty() {
                    break;
                }
                if nonblock == NonBlock::Nowait {
                    return Err(conflict());
                }
                changed.iter().for_each(|key| table.lock.take_back(key));
                taken.retain(|(_, keys)| !changed.contains(&keys[at]));
            }
        }
        Ok(())
    }
}
