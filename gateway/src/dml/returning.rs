//! `RETURNING`: the rows that a statement has written, as it asks for them.
//!
//! Rows are collected as they will stand after the commit, and become a table that only this statement sees, under the
//! name by which it calls the one that it writes. The items are then a SELECT over it, which runs before the commit: an
//! item that fails takes the writes along, and the client gets rows only of what is stored.

use super::{
    beside::Beside,
    target::{Target, TargetColumn},
};
use crate::pg::syntax::dialect::parse_text;
use crate::{
    pg::{
        error::{Result, SqlError, SqlState},
        plan::parameters,
        types::{self, ParameterType},
    },
    query::Query,
    sql::ast::Statement,
};
use arrow::{
    array::{ArrayRef, RecordBatch, new_empty_array},
    datatypes::{Field, Schema, SchemaRef},
};
use datafusion::{
    catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider},
    datasource::MemTable,
    execution::SendableRecordBatchStream,
    logical_expr::LogicalPlan,
    physical_plan::stream::RecordBatchStreamAdapter,
    scalar::ScalarValue,
    sql::sqlparser::ast::{self, Ident, SelectItem, SetExpr},
};
use futures::{TryStreamExt, stream};
use keyspan_catalog::Value;
use std::sync::Arc;

/// Bytes of rows that a statement may return: they are in memory until its commit.
const RETURNED_BYTES_MAX: usize = 64 << 20;
/// The function that gives the written rows.
pub(super) const WRITTEN_ROWS: &str = "keyspan_written_rows";

/// The items of a statement's RETURNING.
pub(super) fn items(statement: &Statement) -> Option<&[SelectItem]> {
    match statement {
        Statement::Insert(insert) => insert.returning.as_deref(),
        Statement::Update(update) => update.returning.as_deref(),
        Statement::Delete(delete) => delete.returning.as_deref(),
        _ => None,
    }
}

/// Rows that are to be returned, with their numbers.
pub(crate) struct Returned<'a> {
    items: Option<&'a [SelectItem]>,
    rows: Vec<(u64, Vec<Value>)>,
    /// The relations beside the table, and their rows: one for each of the rows, which have ascending numbers then.
    beside: Option<(&'a Beside, SchemaRef, Vec<RecordBatch>)>,
    bytes: usize,
}

/// What a statement returns.
pub(super) struct Answer {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl<'a> Returned<'a> {
    /// None yet.
    pub(crate) fn new(items: Option<&'a [SelectItem]>) -> Self {
        Self { items, rows: Vec::new(), beside: None, bytes: 0 }
    }

    /// Whether anything is returned.
    pub(super) fn is_wanted(&self) -> bool {
        self.items.is_some()
    }

    /// Adds a row, with a value for each column of the table.
    ///
    /// # Errors
    /// 54000 above [`RETURNED_BYTES_MAX`].
    pub(crate) fn add(&mut self, number: u64, values: Vec<Value>) -> Result<()> {
        let size = |value: &Value| match value {
            Value::Text(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            _ => 0,
        };
        self.bytes += values.iter().map(|value| size_of::<Value>() + size(value)).sum::<usize>();
        self.rows.push((number, values));
        check_bytes(self.bytes)
    }

    /// Wants the rows of the relations beside the table, too; `schema` is that of the SELECT beneath the write.
    pub(super) fn want_beside(&mut self, beside: Option<&'a Beside>, schema: SchemaRef) {
        self.beside = beside.filter(|_| self.items.is_some()).map(|beside| (beside, schema, Vec::new()));
    }

    /// Adds what stands beside the rows that were added of a batch, if it is wanted.
    ///
    /// # Errors
    /// 54000 above [`RETURNED_BYTES_MAX`].
    pub(super) fn add_beside(&mut self, batch: &RecordBatch, rows: Vec<u32>) -> Result<()> {
        let Some((beside, _, batches)) = &mut self.beside else { return Ok(()) };
        let rows = beside.rows(batch, rows)?;
        self.bytes += rows.get_array_memory_size();
        batches.push(rows);
        check_bytes(self.bytes)
    }

    /// Of plain columns, if they are wanted: [`columns`](Self::columns) gives them.
    pub(crate) fn plain(wanted: bool) -> Self {
        Self::new(wanted.then_some(&[]))
    }

    /// The columns with these places, under the names of a schema, in the order of the rows' numbers.
    ///
    /// # Errors
    /// 54000 for too many bytes.
    pub(crate) fn columns(
        mut self,
        target: &Target,
        places: &[usize],
        schema: &SchemaRef,
    ) -> Result<SendableRecordBatchStream> {
        self.rows.sort_by_key(|(number, _)| *number);
        let rows: Vec<&[Value]> = self.rows.iter().map(|(_, values)| values.as_slice()).collect();
        let batch = batch(target, places, schema, &rows)?;
        check_bytes(batch.get_array_memory_size())?;
        Ok(Answer { schema: schema.clone(), batches: vec![batch] }.into_stream())
    }

    /// What the items say of the rows, in the order of their numbers; `None` without RETURNING.
    pub(super) async fn answer(
        mut self,
        query: &Query,
        target: &Target,
        name: &Ident,
        parameters: &[ScalarValue],
    ) -> Result<Option<Answer>> {
        let Some(items) = self.items else { return Ok(None) };
        self.rows.sort_by_key(|(number, _)| *number);
        let rows: Vec<&[Value]> = self.rows.iter().map(|(_, values)| values.as_slice()).collect();
        refuse_aggregates(target)?;
        let plan = match &self.beside {
            Some((beside, schema, batches)) => {
                let written = all_columns(target, field, &rows)?;
                beside.plan(query, (name, items), written, (schema, batches)).await?
            }
            None => written_rows(query, target, name, items, &rows).await?.1,
        };
        check_items(&plan)?;
        drop(rows);
        self.rows.clear();
        self.beside = None;
        let plan = if parameters.is_empty() { plan } else { plan.with_param_values(parameters.to_vec())? };
        let mut stream = query.run(plan).await?;
        let (schema, mut batches, mut bytes) = (stream.schema(), Vec::new(), 0);
        while let Some(batch) = stream.try_next().await.map_err(SqlError::from)? {
            bytes += batch.get_array_memory_size();
            check_bytes(bytes)?;
            batches.push(batch);
        }
        Ok(Some(Answer { schema, batches }))
    }
}

impl Answer {
    /// As a stream.
    pub(super) fn into_stream(self) -> SendableRecordBatchStream {
        Box::pin(RecordBatchStreamAdapter::new(self.schema, stream::iter(self.batches.into_iter().map(Ok))))
    }
}

/// The columns that RETURNING gives; adds the types that it has for parameters. `beside` has the plan of the SELECT
/// beneath the write.
pub(super) async fn columns(
    query: &Query,
    (target, name): (&Target, &Ident),
    items: &[SelectItem],
    beside: Option<(&Beside, &LogicalPlan)>,
    hints: &mut Vec<Option<ParameterType>>,
) -> Result<SchemaRef> {
    refuse_aggregates(target)?;
    let plan = match beside {
        Some((beside, select)) => {
            let schema = Query::columns(select).await;
            beside.plan(query, (name, items), all_columns(target, field, &[])?, (&schema, &[])).await?
        }
        None => written_rows(query, target, name, items, &[]).await?.1,
    };
    check_items(&plan)?;
    parameters::hint(&plan, hints)?;
    Ok(Query::columns(&plan).await)
}

/// `SELECT items FROM rows AS name`
pub(crate) async fn written_rows(
    query: &Query,
    target: &Target,
    name: &Ident,
    items: &[SelectItem],
    rows: &[&[Value]],
) -> Result<(ast::Statement, LogicalPlan)> {
    query.context.register_udtf(WRITTEN_ROWS, Arc::new(rows_as_table(target, field, rows)?));
    let sql = format!("SELECT * FROM {WRITTEN_ROWS}() AS {name}");
    let parsed = parse_text(&sql, |parser| parser.parse_query());
    let mut select = parsed.map_err(|error| internal(error.to_string()))?;
    if let SetExpr::Select(select) = select.body.as_mut() {
        select.projection = items.to_vec();
    }
    let select = ast::Statement::Query(select);
    let plan = query.plan(&select).await?;
    Ok((select, plan))
}

/// Refuses items that are not of one row.
fn check_items(plan: &LogicalPlan) -> Result<()> {
    let (state, what) = match plan {
        LogicalPlan::Aggregate(_) => (SqlState::GROUPING_ERROR, "aggregate"),
        LogicalPlan::Window(_) => (SqlState::WINDOWING_ERROR, "window"),
        plan => return plan.inputs().into_iter().try_for_each(check_items),
    };
    Err(SqlError::new(state, format!("{what} functions are not allowed in RETURNING")))
}

fn refuse_aggregates(target: &Target) -> Result<()> {
    if target.columns.iter().any(|column| column.is_aggregate()) {
        return Err(SqlError::unsupported("RETURNING of a table with an aggregate family"));
    }
    Ok(())
}

/// The field of a column's values.
pub(crate) fn field(column: &TargetColumn) -> Field {
    match &column.enumerated {
        Some(of) => types::enums::field(&column.name, of, !column.not_null),
        None => types::field_of(&column.name, column.kind, !column.not_null),
    }
}

/// The rows as a relation with the columns of the table, whose fields `of` gives.
///
/// # Errors
/// Arrow's, for values of another type, and NULL where a field has none.
pub(super) fn rows_as_table(
    target: &Target,
    of: impl Fn(&TargetColumn) -> Field,
    rows: &[&[Value]],
) -> Result<PreparedTable> {
    let batch = all_columns(target, of, rows)?;
    Ok(PreparedTable(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?)))
}

/// The rows, with all columns of the table.
fn all_columns(target: &Target, of: impl Fn(&TargetColumn) -> Field, rows: &[&[Value]]) -> Result<RecordBatch> {
    let schema = Arc::new(Schema::new(target.columns.iter().map(of).collect::<Vec<_>>()));
    let all: Vec<usize> = (0..target.columns.len()).collect();
    batch(target, &all, &schema, rows)
}

/// The values of columns, given by their places.
pub(super) fn batch(target: &Target, places: &[usize], schema: &SchemaRef, rows: &[&[Value]]) -> Result<RecordBatch> {
    let array = |at: &usize| -> Result<ArrayRef> {
        let (at, column) = (*at, &target.columns[*at]);
        if rows.is_empty() {
            return Ok(new_empty_array(&types::data_type(column.kind)));
        }
        let scalar = |row: &&[Value]| Ok(types::scalar_of_value(column.shown(&row[at])?.as_ref(), column.kind));
        Ok(ScalarValue::iter_to_array(rows.iter().map(scalar).collect::<Result<Vec<_>>>()?)?)
    };
    let arrays = places.iter().map(array).collect::<Result<Vec<_>>>()?;
    Ok(RecordBatch::try_new(schema.clone(), arrays)?)
}

/// A function that gives a table that was made before.
#[derive(Debug)]
pub(crate) struct PreparedTable(pub(crate) Arc<dyn TableProvider>);

impl TableFunctionImpl for PreparedTable {
    fn call_with_args(&self, _: TableFunctionArgs<'_, '_>) -> datafusion::error::Result<Arc<dyn TableProvider>> {
        Ok(self.0.clone())
    }
}

fn check_bytes(bytes: usize) -> Result<()> {
    if bytes <= RETURNED_BYTES_MAX {
        return Ok(());
    }
    let message = format!("a statement returns more than {} MiB of rows", RETURNED_BYTES_MAX >> 20);
    Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message).with_hint("Write fewer rows at a time."))
}

fn internal(message: String) -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, message)
}
