//! `INSERT`: rows of the source become values of columns, then new rows, or upserts.

use super::{
    assign::assign,
    conditions,
    defaults::{self, Defaults},
    returning::Returned,
    rows, select,
    target::{Numbers, Target, TargetColumn, marker},
    upsert,
};
use crate::{
    context::StatementContext,
    pg::{
        error::{Result, SqlError, SqlState},
        ident::{fold, quoted},
        types::ParameterType,
    },
    query::Query,
    sql::{
        names::table_name,
        write::{OnConflict, on_conflict, overrides_system, overrides_user},
    },
    view::View,
    write_set::WriteSet,
};
use arrow::array::RecordBatch;
use datafusion::{
    execution::SendableRecordBatchStream,
    scalar::ScalarValue,
    sql::sqlparser::ast::{self, Ident, SelectItem, SetExpr, TableObject},
};
use futures::TryStreamExt;
use keyspan_catalog::{Value, table::Identity};
use keyspan_storage::{Columns, KeyRange, Mutation, RowKey, RowSet, Scan};
use std::collections::HashSet;

/// Rows whose keys are looked up at a time.
pub(crate) const LOOKUP_ROWS: usize = 4_096;

/// A row on its way in.
pub(crate) struct NewRow {
    /// The values of the parts of its key.
    pub(crate) parts: Vec<Value>,
    pub(crate) key: RowKey,
    /// Its number among the rows of the statement.
    pub(crate) number: u64,
    /// A value for each column of the target; NULL for those that the statement does not name.
    pub(crate) values: Vec<Value>,
}

impl NewRow {
    /// The cells that it has, as [`CELLS_MAX`](crate::write_set::CELLS_MAX) counts them; of open families at least as
    /// many as there are.
    pub(crate) fn cells(&self, target: &Target) -> usize {
        target.cells_bound(&self.values).max(1)
    }

    /// Bytes of its values in memory, roughly.
    pub(crate) fn bytes(&self) -> usize {
        self.values.iter().map(value_bytes).sum()
    }
}

/// Bytes of a value in memory, roughly.
fn value_bytes(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::Text(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            Value::Array(items) => items.iter().map(value_bytes).sum(),
            _ => 0,
        }
}

/// The table of an INSERT and the places of the columns that it names.
pub(crate) fn resolve(view: &View, insert: &ast::Insert) -> Result<(Target, Vec<usize>)> {
    let TableObject::TableName(name) = &insert.table else {
        return Err(SqlError::unsupported("INSERT into something that is not a table"));
    };
    let mut target = Target::of(view, &table_name(name)?)?;
    // What is given to them is taken, or dropped.
    if overrides_system(insert) || overrides_user(insert) {
        target.columns.iter_mut().for_each(|column| column.identity = column.identity.map(|_| Identity::ByDefault));
    }
    let mut named = Vec::with_capacity(insert.columns.len());
    for column in &insert.columns {
        let name = match column.0.as_slice() {
            [part] => part.as_ident().map(fold),
            _ => None,
        };
        let name = name.ok_or_else(|| SqlError::unsupported("a qualified column in INSERT"))?;
        let position = target.position(&name)?;
        if named.contains(&position) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        named.push(position);
    }
    if insert.columns.is_empty() && insert.source.is_some() {
        named = (0..target.columns.len()).collect();
    }
    Ok((target, named))
}

/// The name by which the statement calls the table.
pub(crate) fn called(insert: &ast::Insert, target: &Target) -> Ident {
    match &insert.table_alias {
        Some(alias) => alias.alias.clone(),
        None => quoted(&target.table.name),
    }
}

/// The query that gives the rows, and the types of parameters that go into columns as they are.
pub(super) fn source(
    (target, named): (&Target, &[usize]),
    insert: &ast::Insert,
    hints: &[Option<ParameterType>],
) -> Result<(ast::Statement, Vec<Option<ParameterType>>)> {
    let columns: Vec<&TargetColumn> = named.iter().map(|at| &target.columns[*at]).collect();
    let mut hints = hints.to_vec();
    let Some(mut source) = insert.source.clone() else {
        // One row of defaults.
        return Ok((select::select(vec![select::value(ast::Value::Null)], Vec::new(), None)?, hints));
    };
    if let SetExpr::Values(values) = source.body.as_mut() {
        for row in &values.rows {
            row.content.iter().zip(&columns).for_each(|(cell, column)| select::hint(&mut hints, cell, column.kind));
        }
        if overrides_user(insert) {
            let given = values.rows.iter_mut().flat_map(|row| row.content.iter_mut().zip(&columns));
            given
                .filter(|(_, column)| column.identity.is_some())
                .for_each(|(cell, _)| *cell = select::value(ast::Value::Null));
        }
        defaults::written_out(&mut values.rows, &columns)?;
        select::type_values(&mut values.rows, &columns)?;
        // DataFusion takes the rows of a VALUES for constants; a row by itself can be a SELECT.
        if let [row] = values.rows.as_slice()
            && row.content.iter().any(select::has_subquery)
        {
            let mut select = select::select(row.content.clone(), Vec::new(), None)?;
            if let ast::Statement::Query(query) = &mut select {
                query.with = source.with;
            }
            return Ok((select, hints));
        }
    }
    // A parameter that is an item of the query has the type of its column, as one of VALUES.
    if let SetExpr::Select(select) = source.body.as_ref() {
        for (item, column) in select.projection.iter().zip(&columns) {
            match item {
                SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                    select::hint(&mut hints, expr, column.kind);
                }
                // Which columns follow it is not known here.
                _ => break,
            }
        }
    }
    Ok((ast::Statement::Query(source), hints))
}

/// The mutations of an INSERT and the number of rows that it inserted or updated.
pub(super) async fn run(
    query: &Query,
    (target, named, select): (&Target, &[usize], &ast::Statement),
    insert: &ast::Insert,
    parameters: &[ScalarValue],
    returned: &mut Returned<'_>,
) -> Result<(WriteSet, u64)> {
    let conflict = on_conflict(insert)?;
    upsert::check_target(target, &conflict)?;
    // A row that is new has its defaults, and one that is there keeps what it has.
    let more = overrides_user(insert)
        || target.columns.iter().enumerate().any(|(at, column)| column.default.is_some() && !named.contains(&at));
    let plain = !returned.is_wanted() && !more && !target.has_conditions();
    let blind = plain && upsert::is_blind(target, &called(insert, target), named, &conflict);
    if let OnConflict::Update { assignments, .. } = &conflict
        && !blind
    {
        super::update_delete::set_columns(target, upsert::changes(target, assignments).cloned().collect())?;
    }
    let mut source = NewRows::read(query, (target, named, select), insert, parameters).await?;
    let (mut written, mut count, mut seen) = (WriteSet::counted(query.view.memory.clone()), 0, HashSet::new());
    while let Some(new) = source.next(query, target).await? {
        check_rows(query, target, &new).await?;
        count += match &conflict {
            _ if blind => put_blindly(target, named, new, &mut seen, &mut written)?,
            OnConflict::Update { .. } => {
                let upsert = upsert::Upsert { query, target, called: &called(insert, target), parameters };
                upsert.run(&conflict, new, &mut seen, &mut written, returned).await?
            }
            OnConflict::Fail | OnConflict::Nothing { .. } => {
                let skip = conflict != OnConflict::Fail;
                put_new((query.keys(), target), new, skip, &mut seen, (&mut written, &mut *returned)).await?
            }
        };
    }
    Ok((written, count))
}

/// The rows of an INSERT, as its source gives them.
pub(crate) struct NewRows {
    batches: SendableRecordBatchStream,
    /// Rows of the source that are still to come of the last batch.
    rest: Option<RecordBatch>,
    given: Vec<usize>,
    /// The columns of the source that are taken, if some are not: `OVERRIDING USER VALUE`.
    kept: Option<Vec<usize>>,
    defaults: Defaults,
    number: u64,
}

impl NewRows {
    /// Plans and begins to read the source.
    ///
    /// # Errors
    /// Those of the plan; 42601 for another number of columns; 428C9; what evaluating a default finds.
    pub(super) async fn read(
        query: &Query,
        (target, named, select): (&Target, &[usize], &ast::Statement),
        insert: &ast::Insert,
        parameters: &[ScalarValue],
    ) -> Result<Self> {
        let batches = rows(query, select, parameters).await?;
        let width = batches.schema().fields().len();
        check_width(insert, named, width)?;
        let given = named.iter().take(width).copied();
        let dropped = |at: usize| overrides_user(insert) && target.columns[at].identity.is_some();
        let (kept, given): (Vec<usize>, Vec<usize>) = given.enumerate().filter(|(_, at)| !dropped(*at)).unzip();
        if !matches!(insert.source.as_ref().map(|source| source.body.as_ref()), Some(SetExpr::Values(_))) {
            given.iter().try_for_each(|at| target.columns[*at].check_given())?;
        }
        let defaults = Defaults::new(query, target, &given).await?;
        let kept = (kept.len() < width).then_some(kept);
        Ok(Self { batches, rest: None, given, kept, defaults, number: 0 })
    }

    /// The next rows, [`LOOKUP_ROWS`] at most; `None` after the last one.
    ///
    /// # Errors
    /// Those of the source; of assignment, 23502, 23503.
    pub(crate) async fn next(&mut self, query: &Query, target: &Target) -> Result<Option<Vec<NewRow>>> {
        let batch = match self.rest.take() {
            Some(batch) => batch,
            None => loop {
                match self.batches.try_next().await? {
                    None => return Ok(None),
                    Some(batch) if batch.num_rows() == 0 => {}
                    Some(batch) => break batch,
                }
            },
        };
        let chunk = batch.slice(0, LOOKUP_ROWS.min(batch.num_rows()));
        let left = batch.num_rows() - chunk.num_rows();
        self.rest = (left > 0).then(|| batch.slice(chunk.num_rows(), left));
        let chunk = match &self.kept {
            Some(kept) => chunk.project(kept)?,
            None => chunk,
        };
        let new = new_rows(query, target, (&self.given, &self.defaults), &chunk, self.number)?;
        self.number += new.len() as u64;
        Ok(Some(new))
    }
}

/// 23514 for the first row that contradicts a condition of the table.
pub(crate) async fn check_rows(query: &Query, target: &Target, rows: &[NewRow]) -> Result<()> {
    let values: Vec<&[Value]> = rows.iter().map(|row| row.values.as_slice()).collect();
    conditions::check(query, target, &values, false).await.map_err(|(_, error)| error)
}

fn check_width(insert: &ast::Insert, named: &[usize], width: usize) -> Result<()> {
    if insert.source.is_none() {
        return Ok(());
    }
    if width > named.len() {
        return Err(SqlError::syntax("INSERT has more expressions than target columns"));
    }
    if width < named.len() && !insert.columns.is_empty() {
        return Err(SqlError::syntax("INSERT has more target columns than expressions"));
    }
    Ok(())
}

/// The rows of a batch, checked one by one.
pub(super) fn new_rows(
    query: &Query,
    target: &Target,
    (given, defaults): (&[usize], &Defaults),
    batch: &RecordBatch,
    first: u64,
) -> Result<Vec<NewRow>> {
    let key_places = target.key_places()?;
    let numbers = numbers(query.statement_context());
    let one = |row: usize| {
        let mut values = vec![Value::Null; target.columns.len()];
        // A list of values may be shorter than the columns: the rest has its defaults.
        defaults.fill(&mut values)?;
        for (array, at) in batch.columns().iter().zip(given) {
            values[*at] = assign(array, row, &target.columns[*at], target.input.input())?;
        }
        let parts = target.new_parts(&key_places, &values, &numbers);
        new_row(&query.view, target, parts, values, first + row as u64)
    };
    (0..batch.num_rows()).map(one).collect()
}

/// Where keys come from that no column has.
pub(crate) fn numbers(statement: &StatementContext) -> Numbers {
    let given = statement.instance.as_ref().map(|instance| instance.row_numbers.clone()).unwrap_or_default();
    Numbers { given, now_micros: statement.now_micros }
}

/// A row of the parts of its key and values for all columns, checked.
///
/// # Errors
/// 23502, 23503, and what keys cannot hold.
pub(crate) fn new_row(
    view: &View,
    target: &Target,
    parts: Vec<Value>,
    mut values: Vec<Value>,
    number: u64,
) -> Result<NewRow> {
    target.settle_maps(&mut values)?;
    target.check_nulls(&values, |_| true)?;
    target.check_tenant(view, &parts)?;
    let key = target.row_key(&parts)?;
    Ok(NewRow { parts, key, number, values })
}

/// The mutations that make a row that is not there.
pub(crate) fn creation(target: &Target, row: &NewRow) -> Result<Vec<Mutation>> {
    let mut mutations = vec![marker()];
    for (column, value) in target.columns.iter().zip(&row.values) {
        column.insert(value, &mut mutations)?;
    }
    Ok(mutations)
}

/// Which of the rows are there.
pub(crate) async fn existing(view: &View, target: &Target, rows: &[NewRow]) -> Result<HashSet<RowKey>> {
    if target.hidden_key.is_some() {
        return Ok(HashSet::new());
    }
    existing_keys(view, target, rows.iter().map(|row| &row.key)).await
}

/// Whether no row is between the first and the last key of the rows: one look in place of one for each.
pub(crate) async fn is_gap(view: &View, target: &Target, rows: &[NewRow]) -> Result<bool> {
    let keys = rows.iter().map(|row| &row.key);
    let (Some(first), Some(last)) = (keys.clone().min(), keys.max()) else { return Ok(true) };
    let between = KeyRange::new(KeyRange::point(first).start, KeyRange::point(last).end);
    let columns = Columns::Of(Vec::new());
    let scan = Scan { columns, keep_empty: true, rows_max: Some(1), ..Scan::of(RowSet::from(between)) };
    Ok(view.scan(&target.table, scan).try_next().await?.is_none_or(|rows| rows.is_empty()))
}

/// Which of the keys have rows.
pub(super) async fn existing_keys(
    view: &View,
    target: &Target,
    keys: impl Iterator<Item = &RowKey>,
) -> Result<HashSet<RowKey>> {
    let points = RowSet::new(keys.map(|key| KeyRange::point(key)));
    let scan = Scan { columns: Columns::Of(Vec::new()), keep_empty: true, ..Scan::of(points) };
    let found: Vec<keyspan_storage::Row> = view.scan(&target.table, scan).try_concat().await?;
    Ok(found.into_iter().map(|row| row.key).collect())
}

/// Rows that must not be there, or are passed over when they are.
pub(crate) async fn put_new(
    (view, target): (&View, &Target),
    rows: Vec<NewRow>,
    skip: bool,
    seen: &mut HashSet<RowKey>,
    (written, returned): (&mut WriteSet, &mut Returned<'_>),
) -> Result<u64> {
    let there = existing(view, target, &rows).await?;
    let mut count = 0;
    for row in rows {
        let taken = there.contains(&row.key) || !seen.insert(row.key.clone());
        if taken && !skip {
            return Err(target.duplicate(&row.parts));
        }
        written.add_read(&target.table, row.key.clone())?;
        if !taken {
            let mutations = creation(target, &row)?;
            written.mutate(&target.table, row.key, mutations)?;
            written.inserted += 1;
            if returned.is_wanted() {
                returned.add(row.number, row.values)?;
            }
            count += 1;
        }
    }
    Ok(count)
}

/// Rows that are written whether they are there or not.
pub(crate) fn put_blindly(
    target: &Target,
    named: &[usize],
    rows: Vec<NewRow>,
    seen: &mut HashSet<RowKey>,
    written: &mut WriteSet,
) -> Result<u64> {
    let count = rows.len() as u64;
    for row in rows {
        if !seen.insert(row.key.clone()) {
            return Err(upsert::twice());
        }
        let mut mutations = vec![marker()];
        for at in named {
            target.columns[*at].set(&row.values[*at], &mut mutations)?;
        }
        written.mutate(&target.table, row.key, mutations)?;
    }
    Ok(count)
}
