//! `ON CONFLICT`: which upserts are blind, and the read-modify-write of those that are not.

use super::{
    assign::assign_row,
    conditions,
    insert::{self, NewRow},
    moved,
    returning::{PreparedTable, Returned, field, rows_as_table},
    rows, select,
    set::Assignment,
    target::{Place, Target, TargetColumn, marker},
    update_delete::set_columns,
};
use crate::{
    pg::{
        error::{Result, SqlError, SqlState},
        ident::{fold, quoted},
        types::ParameterType,
    },
    provider::KeyspanTable,
    query::Query,
    sql::write::{self, Conflict, OnConflict},
    write_set::WriteSet,
};
use datafusion::{
    scalar::ScalarValue,
    sql::sqlparser::ast::{self, BinaryOperator, Expr, Ident, TableWithJoins},
};
use futures::TryStreamExt;
use keyspan_catalog::Value;
use keyspan_storage::{KeyRange, RowKey, RowSet};
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    ops::ControlFlow,
    sync::Arc,
};

/// The name of the row that was to be inserted.
pub(crate) const EXCLUDED: &str = "excluded";
/// The functions that give the rows that were to be inserted, and those of the table that have their keys: nothing
/// calls them but the planner.
const EXCLUDED_ROWS: &str = "keyspan_excluded_rows";
const TAKEN_ROWS: &str = "keyspan_taken_rows";

/// 21000
pub(crate) fn twice() -> SqlError {
    let message = "ON CONFLICT DO UPDATE command cannot affect row a second time";
    SqlError::new(SqlState::CARDINALITY_VIOLATION, message).with_hint(
        "Ensure that no rows proposed for insertion within the same command have duplicate constrained values.",
    )
}

/// The columns that a conflict names must be those of the primary key, a constraint the primary key.
///
/// # Errors
/// 42703, 42704, 42P10.
pub(crate) fn check_target(target: &Target, conflict: &OnConflict) -> Result<()> {
    let named = match conflict {
        OnConflict::Fail | OnConflict::Nothing { target: None } => return Ok(()),
        OnConflict::Nothing { target: Some(named) } | OnConflict::Update { target: named, .. } => named,
    };
    let named = match named {
        Conflict::Columns(named) => named,
        Conflict::Constraint(name) if *name == target.primary_key_name() && target.hidden_key.is_none() => {
            return Ok(());
        }
        Conflict::Constraint(name) => {
            let message = format!("constraint \"{name}\" for table \"{}\" does not exist", target.table.name);
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
        }
    };
    for name in named {
        target.position(name)?;
    }
    let named: BTreeSet<&str> = named.iter().map(String::as_str).collect();
    let key: BTreeSet<&str> = target.key_columns().iter().map(|column| column.name.as_str()).collect();
    if named == key {
        return Ok(());
    }
    let message = "there is no unique or exclusion constraint matching the ON CONFLICT specification";
    let error = SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message);
    if target.hidden_key.is_some() {
        return Err(error.with_hint("The table has no primary key."));
    }
    let key: Vec<&str> = target.key_columns().iter().map(|column| column.name.as_str()).collect();
    Err(error.with_hint(format!("The primary key is ({}).", key.join(", "))))
}

/// Whether the update sets exactly the inserted columns beside the key, each from `EXCLUDED`, without a condition: then
/// it does not matter what was there. Of an open family, `table.props || EXCLUDED.props` only writes cells; to set it
/// as a whole, those that are there have to be known.
pub(crate) fn is_blind(target: &Target, called: &Ident, named: &[usize], conflict: &OnConflict) -> bool {
    let OnConflict::Update { assignments, condition: None, .. } = conflict else { return false };
    // What a message holds that its descriptor does not know is kept.
    if named.iter().any(|at| target.columns[*at].message().is_some()) {
        return false;
    }
    let inserted: BTreeSet<&str> = named
        .iter()
        .map(|at| &target.columns[*at])
        .filter(|column| !matches!(column.place, Place::Key(_)))
        .map(|column| column.name.as_str())
        .collect();
    let set: BTreeSet<&str> = changes(target, assignments).map(|(name, _)| name.as_str()).collect();
    let is_open = |name: &str| target.columns.iter().any(|column| column.name == name && column.is_open());
    let is_given = |(name, value): &(String, Expr)| {
        if is_open(name) { is_merged(value, called, name) } else { is_excluded(value, name) }
    };
    inserted == set && changes(target, assignments).all(is_given)
}

/// Whether an update computes nothing but of the rows: it asks no query, takes no parameter, and leaves keys and
/// messages as they are.
pub(crate) fn is_of_rows(target: &Target, assignments: &[(String, Expr)], condition: Option<&Expr>) -> bool {
    let is_plain = |expr: &Expr| {
        let asks = |expr: &Expr| match expr {
            Expr::Value(value) if matches!(value.value, ast::Value::Placeholder(_)) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        };
        !select::has_subquery(expr) && ast::visit_expressions(expr, asks).is_continue()
    };
    let stays = |place: usize| {
        let column = &target.columns[place];
        !matches!(column.place, Place::Key(_)) && column.message().is_none()
    };
    let Ok(set) = set_columns(target, changes(target, assignments).cloned().collect()) else { return false };
    set.iter().all(|(place, value)| stays(*place) && is_plain(value)) && condition.is_none_or(is_plain)
}

/// What is set, without parts of the key that are set to those of the inserted row: it conflicts with one that has the
/// same.
pub(crate) fn changes<'a>(
    target: &Target,
    assignments: &'a [(String, Expr)],
) -> impl Iterator<Item = &'a (String, Expr)> {
    let keys: BTreeSet<String> = target.key_columns().iter().map(|column| column.name.clone()).collect();
    assignments.iter().filter(move |(name, value)| !(keys.contains(name) && is_excluded(value, name)))
}

/// `props || EXCLUDED.props`
fn is_merged(value: &Expr, called: &Ident, name: &str) -> bool {
    let Expr::BinaryOp { left, op: BinaryOperator::StringConcat, right } = value else { return false };
    let is_own = match left.as_ref() {
        Expr::Identifier(column) => fold(column) == name,
        Expr::CompoundIdentifier(parts) => {
            matches!(parts.as_slice(), [table, column] if fold(table) == fold(called) && fold(column) == name)
        }
        _ => false,
    };
    is_own && is_excluded(right, name)
}

fn is_excluded(value: &Expr, name: &str) -> bool {
    let Expr::CompoundIdentifier(parts) = value else { return false };
    matches!(parts.as_slice(), [row, column] if fold(row) == EXCLUDED && fold(column) == name)
}

/// Parameters that are set as they are have the type of their column; others in the clause are text unless the client
/// said.
pub(super) fn hint_parameters(
    target: &Target,
    insert: &ast::Insert,
    hints: &mut Vec<Option<ParameterType>>,
) -> Result<()> {
    let OnConflict::Update { assignments, condition, .. } = write::on_conflict(insert)? else { return Ok(()) };
    for (name, value) in &assignments {
        let called = insert::called(insert, target);
        Assignment::of(target, &called, target.position(name)?, value.clone())?.hint(hints, target);
        hint_within(hints, value, target);
    }
    if let Some(condition) = &condition {
        hint_within(hints, condition, target);
    }
    Ok(())
}

/// A parameter beside a column has the column's type.
fn hint_within(hints: &mut Vec<Option<ParameterType>>, expr: &Expr, target: &Target) {
    let Expr::BinaryOp { left, right, .. } = expr else {
        if let Expr::Nested(inner) = expr {
            hint_within(hints, inner, target);
        }
        return;
    };
    let kind = |expr: &Expr| {
        let name = match expr {
            Expr::Identifier(name) => fold(name),
            Expr::CompoundIdentifier(parts) => fold(parts.last()?),
            _ => return None,
        };
        target.position(&name).ok().map(|at| target.columns[at].kind)
    };
    for (one, other) in [(left, right), (right, left)] {
        match kind(other) {
            Some(kind) => select::hint(hints, one, kind),
            None => hint_within(hints, one, target),
        }
    }
}

/// What an upsert that is not blind needs.
pub(crate) struct Upsert<'a> {
    pub(crate) query: &'a Query,
    pub(crate) target: &'a Target,
    /// By what the statement calls the table.
    pub(crate) called: &'a Ident,
    pub(crate) parameters: &'a [ScalarValue],
}

impl Upsert<'_> {
    /// Inserts the rows that are not there and updates those that are; how many were written.
    pub(crate) async fn run(
        &self,
        conflict: &OnConflict,
        new: Vec<NewRow>,
        seen: &mut HashSet<RowKey>,
        written: &mut WriteSet,
        returned: &mut Returned<'_>,
    ) -> Result<u64> {
        let OnConflict::Update { assignments, condition, .. } = conflict else { return Ok(0) };
        let target = self.target;
        let there = insert::existing(self.query.keys(), target, &new).await?;
        let (mut count, mut conflicting) = (0, Vec::new());
        for row in new {
            if !seen.insert(row.key.clone()) {
                return Err(twice());
            }
            written.add_read(&target.table, row.key.clone())?;
            if there.contains(&row.key) {
                conflicting.push(row);
            } else {
                let mutations = insert::creation(target, &row)?;
                written.mutate(&target.table, row.key, mutations)?;
                if returned.is_wanted() {
                    returned.add(row.number, row.values)?;
                }
                count += 1;
            }
        }
        if !conflicting.is_empty() {
            count += self.update(assignments, condition.as_deref(), &conflicting, written, returned).await?;
        }
        Ok(count)
    }

    /// Updates rows that are there: the new values are a SELECT over them joined with the rows that were to be
    /// inserted.
    async fn update(
        &self,
        assignments: &[(String, Expr)],
        condition: Option<&Expr>,
        conflicting: &[NewRow],
        written: &mut WriteSet,
        returned: &mut Returned<'_>,
    ) -> Result<u64> {
        let target = self.target;
        let set = set_columns(target, changes(target, assignments).cloned().collect())?;
        let keys = target.key_columns();
        let name = self.called;
        let mut items = select::key_items(target, name);
        let mut assignments = Vec::with_capacity(set.len());
        for (place, mut value) in set {
            select::qualify(&mut value, target, name);
            let one = Assignment::of(target, name, place, value)?;
            items.extend(one.items.iter().cloned());
            assignments.push(one);
        }
        let width: usize = assignments.iter().map(Assignment::width).sum();
        let keyed = assignments.iter().any(|one| one.is_of_key(target));
        let whole = returned.is_wanted() || target.has_conditions();
        if whole {
            items.extend(select::all_items(target, name));
        }
        let mut condition = condition.cloned();
        if let Some(condition) = &mut condition {
            select::qualify(condition, target, name);
        }
        let condition = self.joined(name, condition)?;
        let from = vec![self.taken(name, conflicting)?, self.excluded(conflicting)?];
        let select = select::select(items, from, Some(condition))?;
        let by_key: HashMap<&RowKey, &NewRow> = conflicting.iter().map(|row| (&row.key, row)).collect();
        let mut batches = rows(self.query, &select, self.parameters).await?;
        let mut count = 0;
        while let Some(batch) = batches.try_next().await? {
            let mut changed: Vec<Vec<Value>> = Vec::new();
            for row in 0..batch.num_rows() {
                let mut parts = assign_row(&batch, 0, row, &keys, target.input.input())?;
                let key = target.row_key(&parts)?;
                let Some(new) = by_key.get(&key).filter(|_| !written.has(&target.table, &key)) else { continue };
                let mut after = whole.then(|| target.row(&batch, keys.len() + width, row)).transpose()?;
                let mut mutations = vec![marker()];
                let mut from = keys.len();
                for one in &assignments {
                    if one.apply(target, (&batch, from, row), after.as_mut(), &mut mutations)? {
                        written.messages.push((key.clone(), one.position));
                    }
                    one.set_part(target, (&batch, from, row), &mut parts)?;
                    from += one.width();
                }
                if let Some(after) = after {
                    target.check_nulls(&after, |at| assignments.iter().any(|one| one.position == at))?;
                    if target.has_conditions() {
                        changed.push(after.clone());
                    }
                    if returned.is_wanted() {
                        returned.add(new.number, after)?;
                    }
                }
                moved::write(target, written, key, keyed.then_some(parts), mutations)?;
                count += 1;
            }
            let changed: Vec<&[Value]> = changed.iter().map(Vec::as_slice).collect();
            conditions::check(self.query, target, &changed, false).await.map_err(|(_, error)| error)?;
        }
        Ok(count)
    }

    /// The rows of the table that have the keys, as the statement calls it.
    fn taken(&self, name: &Ident, conflicting: &[NewRow]) -> Result<TableWithJoins> {
        let rows = RowSet::new(conflicting.iter().map(|row| KeyRange::point(&row.key)));
        let table = KeyspanTable::new(Arc::clone(&self.target.table), self.query.view.clone()).only(rows);
        self.query.context.register_udtf(TAKEN_ROWS, Arc::new(PreparedTable(Arc::new(table))));
        parse_from(&format!("{TAKEN_ROWS}() AS {name}"))
    }

    /// The rows that were to be inserted, as `excluded`.
    fn excluded(&self, conflicting: &[NewRow]) -> Result<TableWithJoins> {
        let rows: Vec<&[Value]> = conflicting.iter().map(|row| row.values.as_slice()).collect();
        let nullable = |column: &TargetColumn| field(column).with_nullable(true);
        let table = rows_as_table(self.target, nullable, &rows)?;
        self.query.context.register_udtf(EXCLUDED_ROWS, Arc::new(table));
        parse_from(&format!("{EXCLUDED_ROWS}() AS {EXCLUDED}"))
    }

    /// The join on the key, and the statement's condition.
    fn joined(&self, name: &Ident, condition: Option<Expr>) -> Result<Expr> {
        let keys = self.target.key_columns();
        let excluded = quoted(EXCLUDED);
        let equal = |key: &&TargetColumn| {
            let (left, right) = (select::column(name, &key.name), select::column(&excluded, &key.name));
            binary(left, BinaryOperator::Eq, right)
        };
        let condition = condition.map(|condition| Expr::Nested(Box::new(condition)));
        let all = keys.iter().map(equal).chain(condition);
        let all = all.reduce(|a, b| binary(a, BinaryOperator::And, b));
        all.ok_or_else(|| SqlError::new(SqlState::INTERNAL_ERROR, "a table without a key"))
    }
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

fn parse_from(from: &str) -> Result<TableWithJoins> {
    use crate::pg::syntax::dialect::parse_text;
    let parsed = parse_text(from, |parser| parser.parse_table_and_joins());
    parsed.map_err(|error| SqlError::new(SqlState::INTERNAL_ERROR, error.to_string()))
}
