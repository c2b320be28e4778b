//! Statements of which queries in WITH write: `WITH gone AS (DELETE … RETURNING *) INSERT INTO archive SELECT * FROM
//! gone`.
//!
//! Their [parts](WithPart) run one after the other. As in PostgreSQL all see the rows as they were before the
//! statement, and each other only through what they return; in PostgreSQL they run at the same time. What they write is
//! one commit: a statement of its own is a transaction for that. The answer of the last part is collected before the
//! commit, so that an error in it takes the writes along.

use super::{locking::subqueries, write};
use crate::{
    dml::{
        ATTEMPTS_MAX,
        bound_write::{BoundWrite, command_tag},
        returning::PreparedTable,
    },
    execute::Outcome,
    pg::{
        error::{Result, SqlError, SqlState},
        types::ParameterType,
    },
    query::{Query, parameter_values::ParameterValues},
    rights::Needs,
    session::Session,
    sql::{
        WITH_ROWS,
        ast::{Statement, WithPart},
    },
    view::View,
    write_set::WriteSet,
};
use arrow::{array::RecordBatch, datatypes::SchemaRef};
use datafusion::{
    datasource::MemTable, execution::SendableRecordBatchStream, physical_plan::stream::RecordBatchStreamAdapter,
};
use futures::{TryStreamExt, stream};
use keyspan_catalog::TableId;
use keyspan_storage::{Mutation, RowKey};
use std::{collections::BTreeMap, sync::Arc};

/// Bytes of rows that the parts of a statement may give: they are in memory while it runs.
const PARTS_BYTES_MAX: usize = 64 << 20;

/// The rows that parts gave, by the number of the part.
#[derive(Default)]
struct Given(Vec<Option<Arc<MemTable>>>);

impl Given {
    /// Lets a query find the rows.
    fn put(&self, query: &Query) {
        for (at, rows) in self.0.iter().enumerate() {
            if let Some(rows) = rows {
                query.context.register_udtf(&format!("{WITH_ROWS}_{at}"), Arc::new(PreparedTable(rows.clone())));
            }
        }
    }

    fn add(&mut self, rows: Option<(SchemaRef, Vec<RecordBatch>)>) -> Result<()> {
        let table = rows.map(|(schema, batches)| MemTable::try_new(schema, vec![batches]).map(Arc::new));
        self.0.push(table.transpose()?);
        Ok(())
    }
}

/// The types of the parameters, and the columns of the answer, if there is one.
///
/// # Errors
/// Those of the parts; 0A000 for subqueries that lock.
pub(super) async fn parameters(
    session: &mut Session,
    parts: &[WithPart],
    hints: &[Option<ParameterType>],
) -> Result<(Vec<ParameterType>, Option<SchemaRef>)> {
    let view = session.view().await?;
    let mut types = hints.to_vec();
    let (mut given, mut columns) = (Given::default(), None);
    for part in parts {
        if subqueries::are_in(&part.statement) {
            return Err(SqlError::unsupported("a subquery that locks beside a query of WITH that writes"));
        }
        let (found, returned) = Box::pin(analysed(session, view.clone(), &given, part, &types)).await?;
        for number in &part.parameters {
            if types.len() < *number {
                types.resize(*number, None);
            }
            let of_part = || found.get(number - 1).cloned();
            types[number - 1] = types[number - 1].take().or_else(of_part);
        }
        given.add(returned.clone().map(|schema| (schema, Vec::new())))?;
        columns = returned;
    }
    let types = types.into_iter().map(|known| known.unwrap_or(ParameterType::TEXT));
    Ok((types.collect(), columns))
}

async fn analysed(
    session: &mut Session,
    view: View,
    given: &Given,
    part: &WithPart,
    hints: &[Option<ParameterType>],
) -> Result<(Vec<ParameterType>, Option<SchemaRef>)> {
    if let Statement::Query(statement) = &part.statement {
        let query = session.query(view)?.with_types(hints);
        given.put(&query);
        let plan = query.plan(statement).await?;
        let types = query.parameters(statement, &plan, hints).await?;
        return Ok((types, Some(Query::columns(&plan).await)));
    }
    let query = session.query(view)?.with_types(hints);
    given.put(&query);
    BoundWrite::new(&query, &part.statement, hints).await?.parameters(&query).await
}

/// Runs the statement.
///
/// # Errors
/// Those of its parts; 0A000 for a row that two of them write; 54000 above [`PARTS_BYTES_MAX`]; 40001 when the rows
/// that it read kept changing.
pub(super) async fn execute(
    session: &mut Session,
    parts: &[WithPart],
    parameters: &ParameterValues,
) -> Result<Outcome> {
    if session.in_transaction() {
        return Box::pin(once(session, parts, parameters)).await;
    }
    let mut last = None;
    for _ in 0..ATTEMPTS_MAX {
        session.begin_statement();
        let done = Box::pin(once(session, parts, parameters)).await;
        let done = match done {
            Ok(outcome) => session.commit().await.map(|_| outcome),
            Err(error) => {
                session.rollback();
                Err(error)
            }
        };
        match done {
            Err(error) if error.state == SqlState::SERIALIZATION_FAILURE => last = Some(error),
            other => return other,
        }
        tokio::task::yield_now().await;
    }
    Err(last.unwrap_or_else(crate::dml::bound_write::not_a_write))
}

async fn once(session: &mut Session, parts: &[WithPart], parameters: &ParameterValues) -> Result<Outcome> {
    // All parts see this; what they write goes into the transaction beside it.
    let view = session.view().await?.relied();
    let (mut given, mut written, mut bytes) = (Given::default(), BTreeMap::new(), 0);
    let Some((last, first)) = parts.split_last() else { return Ok(Outcome::Empty) };
    for part in first {
        let done = Box::pin(run(session, &view, &given, part, parameters)).await?;
        keep(session, &view, (part, done.writes, done.count), &mut written).await?;
        let rows = match done.rows {
            Some(rows) => Some(collected(rows, &mut bytes).await?),
            None => None,
        };
        given.add(rows)?;
    }
    let done = Box::pin(run(session, &view, &given, last, parameters)).await?;
    keep(session, &view, (last, done.writes, done.count), &mut written).await?;
    let tag = if matches!(last.statement, Statement::Query(_)) { "SELECT" } else { command_tag(&last.statement)? };
    Ok(match done.rows {
        Some(rows) => {
            let (schema, batches) = collected(rows, &mut bytes).await?;
            let rows = RecordBatchStreamAdapter::new(schema, stream::iter(batches.into_iter().map(Ok)));
            Outcome::Rows { tag, rows: Box::pin(rows), needs: done.needs }
        }
        None => Outcome::Done(format!("{tag} {}", done.count)),
    })
}

/// What a part did.
struct Done {
    writes: Option<WriteSet>,
    count: u64,
    rows: Option<SendableRecordBatchStream>,
    needs: Arc<Needs>,
}

async fn run(
    session: &mut Session,
    view: &View,
    given: &Given,
    part: &WithPart,
    parameters: &ParameterValues,
) -> Result<Done> {
    // A key that another part has deleted is free, and one that it has inserted is taken.
    let keys = View { buffered: session.view().await?.buffered, ..view.clone() };
    let query = session.query(view.clone())?.with_parameters(parameters).with_keys(keys);
    given.put(&query);
    let needs = query.statement_context().needs.clone();
    if let Statement::Query(statement) = &part.statement {
        let plan = query.plan(statement).await?;
        let rows = query.run(parameters.put(plan)?).await?;
        return Ok(Done { writes: None, count: 0, rows: Some(rows), needs });
    }
    let write = BoundWrite::new(&query, &part.statement, &[]).await?;
    let done = write.run(&query, parameters, false).await;
    let (writes, count, rows) = done.map_err(|error| write.without_row(&query, error))?;
    Ok(Done { writes: Some(writes), count, rows, needs })
}

/// Puts what a part writes into the transaction. `written` has the rows of the parts before, and whether they are gone.
async fn keep(
    session: &mut Session,
    view: &View,
    (part, writes, count): (&WithPart, Option<WriteSet>, u64),
    written: &mut BTreeMap<(TableId, RowKey), bool>,
) -> Result<()> {
    let Some(writes) = writes else { return Ok(()) };
    for (table, (_, rows)) in &writes.rows {
        for (key, mutations) in rows {
            let deletes = matches!(mutations.last(), Some(Mutation::DeleteFromRow));
            // Only a row that is gone is written again: by an INSERT, which has looked for it.
            if written.insert((*table, key.clone()), deletes) == Some(false) {
                return Err(SqlError::unsupported(
                    "a row that is written twice by one statement, inside of WITH and out,",
                )
                .with_detail("In PostgreSQL, which of the two is done is not defined."));
            }
        }
    }
    let (pin, table, merged) = (view.pin.clone(), writes.table(), writes.merged());
    session.write(&pin, writes).await?;
    write::count_rows(session, table, &part.statement, (count, merged));
    Ok(())
}

async fn collected(mut rows: SendableRecordBatchStream, bytes: &mut usize) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    let (schema, mut batches) = (rows.schema(), Vec::new());
    while let Some(batch) = rows.try_next().await.map_err(SqlError::from)? {
        *bytes += batch.get_array_memory_size();
        if *bytes > PARTS_BYTES_MAX {
            let message = format!(
                "a statement with queries of WITH that write gives more than {} MiB of rows",
                PARTS_BYTES_MAX >> 20
            );
            return Err(
                SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message).with_hint("Write fewer rows at a time.")
            );
        }
        batches.push(batch);
    }
    Ok((schema, batches))
}
