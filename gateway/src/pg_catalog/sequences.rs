//! A sequence read as a table, as `pg_dump` reads it: one row of its state.

use crate::context::StatementContext;
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
