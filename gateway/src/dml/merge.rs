//! `MERGE`: a join of the source with the table that is written; of each of its rows the first clause that fits.
//!
//! ```text
//! SELECT the table's key, the number of the clause, what the clauses set, the table's columns
//!   FROM source LEFT JOIN table ON condition
//! ```
//!
//! What a clause sets is asked for only in rows that are the clause's own, so that nothing is computed of which
//! PostgreSQL computes nothing. What stands behind NOT MATCHED sees the source alone: names without a table are those
//! of its columns. A row of the table that two rows of the source would change is 21000.

use super::{
    assign::assign_row,
    conditions,
    defaults::{self, Defaults},
    insert::{self, LOOKUP_ROWS},
    moved,
    returning::Returned,
    rows, select,
    set::Assignment,
    target::{Target, TargetColumn, marker},
    update_delete::set_columns,
};
use crate::pg::syntax::build::select_from;
use crate::{
    pg::{
        error::{Result, SqlError, SqlState},
        ident::{fold, quoted},
        types::ParameterType,
    },
    query::Query,
    sql::{
        ast::merge::{Merge, MergeAction, MergeClause},
        write::assignments,
    },
    write_set::WriteSet,
};
use arrow::{
    array::{AsArray, BooleanArray, RecordBatch},
    compute::filter_record_batch,
    datatypes::Int64Type,
};
use datafusion::{
    scalar::ScalarValue,
    sql::sqlparser::ast::{
        self, BinaryOperator, CaseWhen, Expr, Ident, Join, JoinConstraint, JoinOperator, SetExpr, VisitMut, VisitorMut,
    },
};
use futures::TryStreamExt;
use keyspan_catalog::{SqlType, Value};
use keyspan_storage::{Mutation, RowKey};
use std::{collections::HashSet, ops::ControlFlow};

type Hints = Vec<Option<ParameterType>>;

/// What a clause does, and the places of its values among the columns of the SELECT.
enum Action {
    Nothing,
    Delete,
    /// Columns of the target, from a place of the SELECT on.
    Update(Vec<Assignment>, usize),
    Insert(Vec<usize>, usize),
}

/// The SELECT beneath a MERGE.
pub(super) struct MergeSelect {
    pub(super) select: ast::Statement,
    /// The types of the parameters, with those that are assigned as they are.
    pub(super) hints: Hints,
    pub(super) actions: Actions,
}

/// What the clauses do with the rows of the SELECT.
pub(super) struct Actions {
    /// By the number of the clause.
    by_clause: Vec<Action>,
    /// Where the columns of the target begin in the SELECT.
    all: usize,
}

/// Makes the SELECT beneath a MERGE: the source is planned for its columns.
///
/// # Errors
/// Those of the source's plan; 42703, 42702 and 42P01 for names in the clauses; 42601; 428C9.
pub(super) async fn merge_select(
    query: &Query,
    (target, called): (&Target, &Ident),
    merge: &Merge,
    hints: &[Option<ParameterType>],
) -> Result<MergeSelect> {
    let source = Source::of(query, merge, called).await?;
    let mut hints = hints.to_vec();
    let first_key = target.key_columns().first().map(|key| select::column(called, &key.name));
    let first_key = first_key.ok_or_else(|| SqlError::new(SqlState::INTERNAL_ERROR, "a table without a key"))?;
    let fits = |clause: &MergeClause| -> Result<Expr> {
        let is = first_key.clone();
        let is = if clause.matched { Expr::IsNotNull(Box::new(is)) } else { Expr::IsNull(Box::new(is)) };
        let Some(mut condition) = clause.condition.clone() else { return Ok(is) };
        if !clause.matched {
            source.qualify(&mut condition)?;
        }
        let (left, right) = (Box::new(is), Box::new(Expr::Nested(Box::new(condition))));
        Ok(Expr::BinaryOp { left, op: BinaryOperator::And, right })
    };
    let fits = merge.clauses.iter().map(fits).collect::<Result<Vec<_>>>()?;
    let mut items = select::key_items(target, called);
    let number = |at: usize| select::value(ast::Value::Number(at.to_string(), false));
    let clause = case(fits.iter().enumerate().map(|(at, fits)| (fits.clone(), number(at))));
    items.push(select::cast(clause, SqlType::Int8)?);
    let mut actions = Vec::with_capacity(merge.clauses.len());
    for (at, clause) in merge.clauses.iter().enumerate() {
        let kinds = |places: &[usize]| places.iter().map(|place| target.columns[*place].kind).collect::<Vec<_>>();
        let (kinds, values) = match &clause.action {
            MergeAction::Nothing => {
                actions.push(Action::Nothing);
                continue;
            }
            MergeAction::Delete => {
                actions.push(Action::Delete);
                continue;
            }
            MergeAction::Update(set) => {
                let set = set_columns(target, assignments(set)?)?;
                let set = set.into_iter().map(|(at, value)| Assignment::of(target, called, at, value));
                let set: Vec<Assignment> = set.collect::<Result<_>>()?;
                set.iter().for_each(|one| one.hint(&mut hints, target));
                let values: Vec<Expr> = set.iter().flat_map(|one| one.items.iter().cloned()).collect();
                actions.push(Action::Update(set, items.len()));
                (Vec::new(), values)
            }
            MergeAction::Insert { columns, values } => {
                let (places, values) = inserted(target, columns, values.as_deref())?;
                let mut qualified = Vec::with_capacity(values.len());
                for mut value in values {
                    source.qualify(&mut value)?;
                    qualified.push(value);
                }
                let kinds = kinds(&places);
                actions.push(Action::Insert(places, items.len()));
                (kinds, qualified)
            }
        };
        values.iter().zip(kinds).for_each(|(value, kind)| select::hint(&mut hints, value, kind));
        for value in values {
            // The clauses before it come first: what fits them asks for nothing of this one.
            let before = fits[..at].iter().map(|fits| (fits.clone(), select::value(ast::Value::Null)));
            items.push(case(before.chain([(fits[at].clone(), value)])));
        }
    }
    let all = items.len();
    items.extend(select::all_items(target, called));
    let inner = merge.clauses.iter().all(|clause| clause.matched);
    let on = JoinConstraint::On(merge.on.clone());
    let join_operator = if inner { JoinOperator::Inner(on) } else { JoinOperator::LeftOuter(on) };
    let mut from = merge.source.clone();
    let relation = select::read(target, &merge.target, called).relation;
    from.joins.push(Join { relation, global: false, join_operator });
    let actions = Actions { by_clause: actions, all };
    Ok(MergeSelect { select: select::select(items, vec![from], None)?, hints, actions })
}

/// `CASE WHEN … THEN … END`
fn case(whens: impl Iterator<Item = (Expr, Expr)>) -> Expr {
    let conditions = whens.map(|(condition, result)| CaseWhen { condition, result }).collect();
    let token = ast::helpers::attached_token::AttachedToken::empty();
    Expr::Case { case_token: token.clone(), end_token: token, operand: None, conditions, else_result: None }
}

/// The columns that an INSERT names, and their values.
fn inserted(target: &Target, names: &[String], values: Option<&[Expr]>) -> Result<(Vec<usize>, Vec<Expr>)> {
    let Some(values) = values else { return Ok((Vec::new(), Vec::new())) };
    let mut places = Vec::with_capacity(names.len());
    for name in names {
        let place = target.position(name)?;
        if places.contains(&place) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        places.push(place);
    }
    if names.is_empty() {
        places = (0..target.columns.len()).collect();
    }
    if values.len() > places.len() {
        return Err(SqlError::syntax("INSERT has more expressions than target columns"));
    }
    if values.len() < places.len() && !names.is_empty() {
        return Err(SqlError::syntax("INSERT has more target columns than expressions"));
    }
    places.truncate(values.len());
    let value = |(value, place): (&Expr, &usize)| {
        let column: &TargetColumn = &target.columns[*place];
        if defaults::is_default(value) {
            return column.default_expression();
        }
        column.check_given()?;
        let mut value = value.clone();
        select::keep_digits(&mut value, column.kind);
        Ok(value)
    };
    let values = values.iter().zip(&places).map(value).collect::<Result<Vec<_>>>()?;
    Ok((places, values))
}

/// The columns of the source, for what sees them alone.
struct Source {
    /// Names, and what qualifies them.
    columns: Vec<(String, Option<String>)>,
    /// What the statement calls the target.
    target: String,
}

impl Source {
    async fn of(query: &Query, merge: &Merge, called: &Ident) -> Result<Self> {
        let mut select = select_from(&crate::pg::names::RelationName::bare("t"), &[])?;
        if let SetExpr::Select(select) = select.body.as_mut() {
            select.from = vec![merge.source.clone()];
        }
        let plan = query.plan(&ast::Statement::Query(select)).await?;
        let column = |(qualifier, field): (
            Option<&datafusion::common::TableReference>,
            &std::sync::Arc<arrow::datatypes::Field>,
        )| { (field.name().clone(), qualifier.map(|table| table.table().to_owned())) };
        Ok(Self { columns: plan.schema().iter().map(column).collect(), target: fold(called) })
    }

    /// Puts the names of tables before columns that have none, outside of subqueries.
    ///
    /// # Errors
    /// 42P01 for a column of the target, 42703 and 42702.
    fn qualify(&self, expr: &mut Expr) -> Result<()> {
        struct Qualify<'a>(&'a Source, usize);
        impl VisitorMut for Qualify<'_> {
            type Break = Box<SqlError>;
            fn pre_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<Box<SqlError>> {
                self.1 += 1;
                ControlFlow::Continue(())
            }
            fn post_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<Box<SqlError>> {
                self.1 -= 1;
                ControlFlow::Continue(())
            }
            fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Box<SqlError>> {
                if self.1 > 0 {
                    return ControlFlow::Continue(());
                }
                match self.0.qualified(expr) {
                    Ok(Some(qualified)) => *expr = qualified,
                    Ok(None) => {}
                    Err(error) => return ControlFlow::Break(Box::new(error)),
                }
                ControlFlow::Continue(())
            }
        }
        match VisitMut::visit(expr, &mut Qualify(self, 0)) {
            ControlFlow::Break(error) => Err(*error),
            ControlFlow::Continue(()) => Ok(()),
        }
    }

    fn qualified(&self, expr: &Expr) -> Result<Option<Expr>> {
        match expr {
            Expr::CompoundIdentifier(parts) if parts.len() > 1 => {
                let table = fold(&parts[parts.len() - 2]);
                if table == self.target && !self.columns.iter().any(|(_, of)| of.as_ref() == Some(&table)) {
                    let message = format!("invalid reference to FROM-clause entry for table \"{table}\"");
                    let detail = format!(
                        "There is an entry for table \"{table}\", but it cannot be referenced from this part of the query."
                    );
                    return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message).with_detail(detail));
                }
                Ok(None)
            }
            Expr::Identifier(name) => {
                let name = fold(name);
                let mut found = self.columns.iter().filter(|(column, _)| *column == name);
                match (found.next(), found.next()) {
                    (Some(_), Some(_)) => {
                        let message = format!("column reference \"{name}\" is ambiguous");
                        Err(SqlError::new(SqlState::AMBIGUOUS_COLUMN, message))
                    }
                    (Some((_, Some(table))), None) => Ok(Some(select::column(&quoted(table), &name))),
                    (Some((_, None)), None) => Ok(None),
                    (None, _) => {
                        let message = format!("column \"{name}\" does not exist");
                        Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message))
                    }
                }
            }
            _ => Ok(None),
        }
    }
}

/// The mutations of a MERGE and the number of rows.
pub(super) async fn run(
    query: &Query,
    (target, actions, select): (&Target, &Actions, &ast::Statement),
    parameters: &[ScalarValue],
) -> Result<(WriteSet, u64)> {
    let Actions { by_clause: actions, all } = actions;
    let keys = target.key_columns().len();
    let mut inserts = Vec::with_capacity(actions.len());
    for action in actions {
        inserts.push(match action {
            Action::Insert(places, _) => Some(Defaults::new(query, target, places).await?),
            _ => None,
        });
    }
    let mut batches = rows(query, select, parameters).await?;
    let mut merging =
        Merging { query, target, written: WriteSet::counted(query.view.memory.clone()), changed: HashSet::new() };
    let (mut count, mut number, mut new) = (0, 0, HashSet::new());
    while let Some(batch) = batches.try_next().await? {
        let clauses = batch.column(keys).as_primitive_opt::<Int64Type>();
        let clauses =
            clauses.ok_or_else(|| SqlError::new(SqlState::INTERNAL_ERROR, "clauses of MERGE have no numbers"))?;
        for (at, (action, defaults)) in (0_i64..).zip(actions.iter().zip(&inserts)) {
            let own: BooleanArray = clauses.iter().map(|clause| Some(clause == Some(at))).collect();
            if !own.has_true() || matches!(action, Action::Nothing) {
                continue;
            }
            let own = filter_record_batch(&batch, &own)?;
            let rows = own.num_rows() as u64;
            count += rows;
            let merged = merging.written.merged.get_or_insert_default();
            match action {
                Action::Insert(..) => merged.inserted += rows,
                Action::Update(..) => merged.updated += rows,
                Action::Delete => merged.deleted += rows,
                Action::Nothing => {}
            }
            match (action, defaults) {
                (Action::Update(set, from), _) => merging.update(&own, (set, *from), *all).await?,
                (Action::Delete, _) => merging.delete(&own)?,
                (Action::Insert(places, from), Some(defaults)) => {
                    let columns: Vec<usize> = (*from..from + places.len()).collect();
                    let values = own.project(&columns)?;
                    for first in (0..values.num_rows()).step_by(LOOKUP_ROWS) {
                        let chunk = values.slice(first, LOOKUP_ROWS.min(values.num_rows() - first));
                        let rows = insert::new_rows(query, target, (places, defaults), &chunk, number)?;
                        number += rows.len() as u64;
                        let checked: Vec<&[Value]> = rows.iter().map(|row| row.values.as_slice()).collect();
                        conditions::check(query, target, &checked, false).await.map_err(|(_, error)| error)?;
                        let written = (&mut merging.written, &mut Returned::new(None));
                        insert::put_new((query.keys(), target), rows, false, &mut new, written).await?;
                    }
                }
                (Action::Nothing | Action::Insert(..), _) => {}
            }
        }
    }
    Ok((merging.written, count))
}

/// The rows that are there and are changed.
struct Merging<'a> {
    query: &'a Query,
    target: &'a Target,
    written: WriteSet,
    changed: HashSet<RowKey>,
}

impl Merging<'_> {
    /// The key of a row, which nothing has changed yet, and its parts.
    fn key(&mut self, batch: &RecordBatch, row: usize) -> Result<(RowKey, Vec<Value>)> {
        let parts = assign_row(batch, 0, row, &self.target.key_columns(), self.target.input.input())?;
        let key = self.target.row_key(&parts)?;
        if !self.changed.insert(key.clone()) {
            let message = "MERGE command cannot affect row a second time";
            return Err(SqlError::new(SqlState::CARDINALITY_VIOLATION, message)
                .with_hint("Ensure that not more than one source row matches any one target row."));
        }
        self.written.add_read(&self.target.table, key.clone())?;
        Ok((key, parts))
    }

    async fn update(&mut self, batch: &RecordBatch, (set, from): (&[Assignment], usize), all: usize) -> Result<()> {
        let mut after = Vec::new();
        let keyed = set.iter().any(|one| one.is_of_key(self.target));
        for row in 0..batch.num_rows() {
            let (key, mut parts) = self.key(batch, row)?;
            let mut values = self.target.row(batch, all, row)?;
            let mut mutations = vec![marker()];
            let mut from = from;
            for one in set {
                if one.apply(self.target, (batch, from, row), Some(&mut values), &mut mutations)? {
                    self.written.messages.push((key.clone(), one.position));
                }
                one.set_part(self.target, (batch, from, row), &mut parts)?;
                from += one.width();
            }
            self.target.check_nulls(&values, |at| set.iter().any(|one| one.position == at))?;
            moved::write(self.target, &mut self.written, key, keyed.then_some(parts), mutations)?;
            after.push(values);
        }
        let after: Vec<&[Value]> = after.iter().map(Vec::as_slice).collect();
        conditions::check(self.query, self.target, &after, false).await.map_err(|(_, error)| error)
    }

    fn delete(&mut self, batch: &RecordBatch) -> Result<()> {
        for row in 0..batch.num_rows() {
            let (key, _) = self.key(batch, row)?;
            self.written.mutate(&self.target.table, key, vec![Mutation::DeleteFromRow])?;
        }
        Ok(())
    }
}
