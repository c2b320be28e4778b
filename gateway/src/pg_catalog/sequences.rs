//! A sequence read as a table, as `pg_dump` reads it: one row of its state; and `pg_sequences`, which has all of them.

use super::{
    cluster,
    columns::{Cell, Row},
    objects::{schema_name, sequences},
    rights,
};
use crate::{context::StatementContext, pg_catalog::columns::row};
use arrow::{
    array::{ArrayRef, BooleanArray, Int64Array, RecordBatch},
    datatypes::{DataType, Field, Schema},
};
use datafusion::{
    catalog::TableProvider,
    datasource::MemTable,
    error::{DataFusionError, Result},
};
use keyspan_catalog::Sequence;
use std::sync::Arc;

/// Sequences whose state one look at `pg_sequences` asks for; of others the last value is NULL.
const ASKED_MAX: usize = 1_000;

/// The rows of `pg_sequences`.
pub(super) fn rows(statement: &StatementContext) -> Vec<Row> {
    let one = |(at, sequence): (usize, &Arc<Sequence>)| {
        let parts = statement.instance.as_ref().zip(statement.rows.as_ref()).filter(|_| at < ASKED_MAX);
        // A store that fails tells it to nobody, and the other columns stay of use.
        let state = parts.and_then(|(instance, rows)| instance.sequences.state_now(rows, sequence).ok());
        let last = state.filter(|state| state.called).map_or(Cell::Null, |state| Cell::Int(state.last));
        row! {
            "schemaname" => schema_name(statement, sequence.id), "sequencename" => sequence.name.clone(),
            "sequenceowner" => cluster::role_name(statement, rights::owner_of(statement, sequence.id)),
            "data_type" => sequence.kind.to_string(), "start_value" => sequence.start, "min_value" => sequence.min,
            "max_value" => sequence.max, "increment_by" => sequence.increment, "cycle" => sequence.cycle,
            "cache_size" => 1_i64, "last_value" => last,
        }
    };
    sequences(statement).enumerate().map(one).collect()
}

/// The relation; `None` in a session without a store. The state is that of now rather than of the statement's pin, as
/// in PostgreSQL: no transaction contains it.
///
/// # Errors
/// The store's.
pub async fn relation(sequence: &Sequence, statement: &StatementContext) -> Result<Option<Arc<dyn TableProvider>>> {
    let (Some(instance), Some(rows)) = (&statement.instance, &statement.rows) else { return Ok(None) };
    let state = instance.sequences.state(rows, sequence).await;
    let state = state.map_err(|error| DataFusionError::External(Box::new(error)))?;
    let field = |name, data| Field::new(name, data, false);
    let fields = vec![
        field("last_value", DataType::Int64),
        field("log_cnt", DataType::Int64),
        field("is_called", DataType::Boolean),
    ];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![state.last])),
        Arc::new(Int64Array::from(vec![0])),
        Arc::new(BooleanArray::from(vec![state.called])),
    ];
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?;
    Ok(Some(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?)))
}
