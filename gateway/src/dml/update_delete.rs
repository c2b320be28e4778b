//! `UPDATE` and `DELETE`.

use super::{
    assign::assign_row,
    beside::Beside,
    conditions, defaults, moved, range,
    returning::Returned,
    rows, select,
    set::Assignment,
    target::{Place, Target, marker},
};
use crate::{
    pg::{
        error::{Result, SqlError, SqlState},
        ident::quoted,
        types::ParameterType,
    },
    query::Query,
    sql::write::{assignments, target as written_table},
    view::View,
    write_set::WriteSet,
};
use datafusion::{
    scalar::ScalarValue,
    sql::sqlparser::ast::{self, Expr, FromTable, Ident, TableWithJoins, UpdateTableFromKind},
};
use futures::TryStreamExt;
use keyspan_catalog::{Value, table::Identity};
use keyspan_storage::Mutation;

type Hints = Vec<Option<ParameterType>>;

/// The table that is written and the name by which the statement calls it.
pub(crate) fn resolve(view: &View, table: &TableWithJoins) -> Result<(Target, Ident)> {
    let (name, alias) = written_table(table)?;
    let target = Target::of(view, &name)?;
    Ok((target, alias.unwrap_or_else(|| quoted(&name))))
}

/// The positions of the columns that `SET` names, with their new values.
pub(super) fn set_columns(target: &Target, assignments: Vec<(String, Expr)>) -> Result<Vec<(usize, Expr)>> {
    let one = |(name, mut value): (String, Expr)| {
        let position = target.position(&name)?;
        let column = &target.columns[position];
        match &column.place {
            Place::Key(0) if target.operator => {
                let what = format!("changing column \"{name}\", a part of the primary key");
                return Err(SqlError::unsupported(what).with_hint("Delete the row and insert it anew."));
            }
            Place::Cell { .. } if column.is_aggregate() => {
                let what = format!("setting column \"{name}\" of an aggregate family");
                return Err(SqlError::unsupported(what)
                    .with_hint("INSERT … ON CONFLICT DO UPDATE SET column = EXCLUDED.column merges a value into it."));
            }
            Place::Key(_) | Place::Cell { .. } | Place::Open { .. } => {}
        }
        if defaults::is_default(&value) {
            value = column.default_expression()?;
        } else if column.identity == Some(Identity::Always) {
            let message = format!("column \"{name}\" can only be updated to DEFAULT");
            return Err(SqlError::new(SqlState::GENERATED_ALWAYS, message)
                .with_detail(format!("Column \"{name}\" is an identity column defined as GENERATED ALWAYS.")));
        }
        select::keep_digits(&mut value, column.kind);
        Ok((position, value))
    };
    assignments.into_iter().map(one).collect()
}

/// The tables of an UPDATE's FROM.
pub(super) fn tables_beside(update: &ast::Update) -> &[TableWithJoins] {
    match &update.from {
        Some(UpdateTableFromKind::AfterSet(tables)) => tables,
        _ => &[],
    }
}

/// The SELECT beneath an UPDATE: keys, then new values.
pub(super) struct UpdateSelect {
    pub(super) select: ast::Statement,
    /// The types of the parameters, with those that are assigned as they are.
    pub(super) hints: Hints,
    /// The columns that are set, in the order of the new values.
    pub(super) set: Vec<Assignment>,
}

/// Makes the SELECT beneath an UPDATE, with the columns of what RETURNING names beside the table at its end.
///
/// # Errors
/// 42703 for a column that does not exist; 0A000 for one that cannot be set; 428C9.
pub(super) fn update_select(
    (target, name): (&Target, &Ident),
    update: &ast::Update,
    beside: Option<&Beside>,
    hints: &[Option<ParameterType>],
) -> Result<UpdateSelect> {
    let set = set_columns(target, assignments(&update.assignments)?)?;
    let mut hints = hints.to_vec();
    let mut items = select::key_items(target, name);
    let set: Vec<Assignment> =
        set.into_iter().map(|(at, value)| Assignment::of(target, name, at, value)).collect::<Result<_>>()?;
    for one in &set {
        one.hint(&mut hints, target);
        items.extend(one.items.iter().cloned());
    }
    if update.returning.is_some() || target.has_conditions() {
        items.extend(select::all_items(target, name));
    }
    items.extend(beside.into_iter().flat_map(Beside::items));
    let mut from = vec![select::read(target, &update.table, name)];
    from.extend(tables_beside(update).iter().cloned());
    Ok(UpdateSelect { select: select::select(items, from, update.selection.clone())?, hints, set })
}

/// The mutations of an UPDATE and the number of rows.
pub(super) async fn update<'a>(
    query: &Query,
    (target, set, select): (&Target, &[Assignment], &ast::Statement),
    parameters: &[ScalarValue],
    (returned, beside): (&mut Returned<'a>, Option<&'a Beside>),
) -> Result<(WriteSet, u64)> {
    let keys = target.key_columns();
    let mut batches = rows(query, select, parameters).await?;
    returned.want_beside(beside, batches.schema());
    let (mut written, mut count) = (WriteSet::counted(query.view.memory.clone()), 0);
    let checked = target.has_conditions();
    let width: usize = set.iter().map(Assignment::width).sum();
    let keyed = set.iter().any(|one| one.is_of_key(target));
    while let Some(batch) = batches.try_next().await? {
        let (mut changed, mut found): (Vec<Vec<Value>>, Vec<u32>) = (Vec::new(), Vec::new());
        for row in 0..batch.num_rows() {
            let mut parts = assign_row(&batch, 0, row, &keys, target.input.input())?;
            let key = target.row_key(&parts)?;
            // With FROM a row may be found several times: as in PostgreSQL, one of them counts.
            if written.has(&target.table, &key) {
                continue;
            }
            let mut mutations: Vec<Mutation> = vec![marker()];
            let whole = returned.is_wanted() || checked;
            let mut after = whole.then(|| target.row(&batch, keys.len() + width, row)).transpose()?;
            let mut from = keys.len();
            for one in set {
                if one.apply(target, (&batch, from, row), after.as_mut(), &mut mutations)? {
                    written.messages.push((key.clone(), one.position));
                }
                one.set_part(target, (&batch, from, row), &mut parts)?;
                from += one.width();
            }
            if let Some(after) = after {
                target.check_nulls(&after, |at| set.iter().any(|one| one.position == at))?;
                if checked {
                    changed.push(after.clone());
                }
                if returned.is_wanted() {
                    returned.add(count, after)?;
                    found.push(row as u32);
                }
            }
            written.add_read(&target.table, key.clone())?;
            moved::write(target, &mut written, key, keyed.then_some(parts), mutations)?;
            count += 1;
        }
        returned.add_beside(&batch, found)?;
        let changed: Vec<&[Value]> = changed.iter().map(Vec::as_slice).collect();
        conditions::check(query, target, &changed, false).await.map_err(|(_, error)| error)?;
    }
    Ok((written, count))
}

pub(crate) fn deleted_table(delete: &ast::Delete) -> &TableWithJoins {
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
    &from[0]
}

/// The SELECT beneath a DELETE: keys, and at the end the columns of what RETURNING names beside the table.
pub(super) fn delete_select(
    (target, name): (&Target, &Ident),
    delete: &ast::Delete,
    beside: Option<&Beside>,
) -> Result<ast::Statement> {
    let mut from = vec![select::read(target, deleted_table(delete), name)];
    from.extend(delete.using.iter().flatten().cloned());
    let mut items = select::key_items(target, name);
    if delete.returning.is_some() {
        items.extend(select::all_items(target, name));
    }
    items.extend(beside.into_iter().flat_map(Beside::items));
    select::select(items, from, delete.selection.clone())
}

/// The mutations of a DELETE and the number of rows; with `ranges` one range instead, where one says the same.
pub(super) async fn delete<'a>(
    query: &Query,
    (target, select): (&Target, &ast::Statement),
    parameters: &[ScalarValue],
    ranges: bool,
    (returned, beside): (&mut Returned<'a>, Option<&'a Beside>),
) -> Result<(WriteSet, u64)> {
    let plan = query.plan(select).await?;
    let plan = if parameters.is_empty() { plan } else { plan.with_param_values(parameters.to_vec())? };
    if ranges
        && !returned.is_wanted()
        && let Some((range, count)) = range::whole_prefix(query, &plan, target).await?
    {
        return Ok((WriteSet::of_range(target.table.clone(), range), count));
    }
    let keys = target.key_columns();
    let mut batches = query.run(plan).await?;
    returned.want_beside(beside, batches.schema());
    let (mut written, mut count) = (WriteSet::counted(query.view.memory.clone()), 0);
    while let Some(batch) = batches.try_next().await? {
        let mut found = Vec::new();
        for row in 0..batch.num_rows() {
            let key = target.row_key(&assign_row(&batch, 0, row, &keys, target.input.input())?)?;
            if written.has(&target.table, &key) {
                continue;
            }
            if returned.is_wanted() {
                returned.add(count, target.row(&batch, keys.len(), row)?)?;
                found.push(row as u32);
            }
            written.add_read(&target.table, key.clone())?;
            written.mutate(&target.table, key, vec![Mutation::DeleteFromRow])?;
            count += 1;
        }
        returned.add_beside(&batch, found)?;
    }
    Ok((written, count))
}
