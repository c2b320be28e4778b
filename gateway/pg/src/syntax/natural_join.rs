//! Columns that joins merge, by the columns of the relations: `NATURAL` becomes `USING`, and `*` over such joins the
//! list of columns in PostgreSQL's order, merged columns first.
//!
//! The relations are planned for their columns ([`relation_columns`]). If one cannot be, the select stays as it is:
//! DataFusion then merges by its own rules, in another order.

use super::{
    build::call,
    relation_columns::{self, ColumnsOf, Rule},
};
use crate::{
    error::{Result, SqlError, SqlState},
    ident::{fold, quoted},
};
use datafusion::{
    sql::sqlparser::ast::{
        Expr, GroupByExpr, Ident, Join, JoinConstraint, JoinOperator, ObjectName, ObjectNamePart, Select, SelectItem,
        Statement, TableFactor, TableWithJoins, Value, ValueWithSpan,
    },
    sql::sqlparser::tokenizer::Span,
};
use std::collections::VecDeque;

/// Writes out what joins merge.
///
/// # Errors
/// 42702 for a column that one side of a join has twice.
pub async fn resolve(statement: &mut Statement, columns_of: &ColumnsOf<'_>) -> Result<()> {
    let rule = Rule { needs, rewrite: |select, names| Ok(write_out(select, names)?.is_some()) };
    relation_columns::rewrite(statement, columns_of, rule).await
}

/// The constraint by which a join merges columns; `None` for a join that merges none.
fn merging(join: &JoinOperator) -> Option<&JoinConstraint> {
    use JoinOperator::{FullOuter, Inner, Join, Left, LeftOuter, Right, RightOuter};
    let (Inner(by) | Join(by) | Left(by) | LeftOuter(by) | Right(by) | RightOuter(by) | FullOuter(by)) = join else {
        return None;
    };
    matches!(by, JoinConstraint::Using(_) | JoinConstraint::Natural).then_some(by)
}

/// All joins of a FROM, those in parentheses too.
fn joins(from: &TableWithJoins) -> Vec<&Join> {
    fn nested(factor: &TableFactor) -> Vec<&Join> {
        match factor {
            TableFactor::NestedJoin { table_with_joins, .. } => joins(table_with_joins),
            _ => Vec::new(),
        }
    }
    let mut all = nested(&from.relation);
    for join in &from.joins {
        all.extend(nested(&join.relation));
        all.push(join);
    }
    all
}

fn has_star(select: &Select) -> bool {
    let grouped = !matches!(&select.group_by, GroupByExpr::Expressions(groups, _) if groups.is_empty());
    let plain = |item: &SelectItem| match item {
        SelectItem::Wildcard(options) => options.opt_exclude.is_none() && options.opt_except.is_none(),
        _ => false,
    };
    !grouped && select.projection.iter().any(plain)
}

/// Whether there is anything to write out.
fn needs(select: &Select) -> bool {
    let mut by = select.from.iter().flat_map(joins).filter_map(|join| merging(&join.join_operator)).peekable();
    if by.peek().is_none() {
        return false;
    }
    has_star(select) || by.any(|by| matches!(by, JoinConstraint::Natural))
}

/// A column of a relation in FROM.
#[derive(Clone)]
struct Column {
    name: String,
    /// The expression for it.
    expr: Expr,
}

/// Writes a select out, with the names of the columns of its relations; `None` when one of these cannot be named.
fn write_out(select: &mut Select, mut names: VecDeque<Vec<String>>) -> Result<Option<()>> {
    let mut columns = Vec::new();
    for from in &mut select.from {
        let Some(found) = of_joins(from, &mut names)? else { return Ok(None) };
        columns.extend(found);
    }
    if !has_star(select) {
        return Ok(Some(()));
    }
    let item = |column: &Column| match &column.expr {
        expr @ Expr::CompoundIdentifier(_) => SelectItem::UnnamedExpr(expr.clone()),
        expr => SelectItem::ExprWithAlias { expr: expr.clone(), alias: quoted(&column.name) },
    };
    for item_of_list in std::mem::take(&mut select.projection) {
        match item_of_list {
            SelectItem::Wildcard(_) => select.projection.extend(columns.iter().map(item)),
            other => select.projection.push(other),
        }
    }
    Ok(Some(()))
}

fn of_joins(from: &mut TableWithJoins, names: &mut VecDeque<Vec<String>>) -> Result<Option<Vec<Column>>> {
    let Some(mut left) = of_factor(&mut from.relation, names)? else { return Ok(None) };
    for join in &mut from.joins {
        let Some(right) = of_factor(&mut join.relation, names)? else { return Ok(None) };
        let Some(joined) = of_join(join, left, right)? else { return Ok(None) };
        left = joined;
    }
    Ok(Some(left))
}

fn of_factor(factor: &mut TableFactor, names: &mut VecDeque<Vec<String>>) -> Result<Option<Vec<Column>>> {
    match factor {
        TableFactor::NestedJoin { table_with_joins, alias: None } => of_joins(table_with_joins, names),
        factor => Ok(of_relation(factor, names)),
    }
}

fn of_relation(factor: &TableFactor, names: &mut VecDeque<Vec<String>>) -> Option<Vec<Column>> {
    let called = match factor {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. }
        | TableFactor::UNNEST { alias: Some(alias), .. } => alias.name.clone(),
        TableFactor::Table { name, args: None, .. } => name.0.last()?.as_ident()?.clone(),
        _ => return None,
    };
    let column = |name: String| Column { expr: Expr::CompoundIdentifier(vec![called.clone(), quoted(&name)]), name };
    Some(names.pop_front()?.into_iter().map(column).collect())
}

/// The columns of a join: those that it merges, the others of its left side, the others of its right side.
fn of_join(join: &mut Join, left: Vec<Column>, right: Vec<Column>) -> Result<Option<Vec<Column>>> {
    use JoinOperator::{FullOuter, Right, RightOuter};
    let Some(by) = merging(&join.join_operator) else { return Ok(Some([left, right].concat())) };
    let merged: Vec<String> = match by {
        JoinConstraint::Using(names) => {
            names.iter().filter_map(|name| name.0.last().and_then(|part| part.as_ident()).map(fold)).collect()
        }
        _ => {
            let common = |column: &&Column| right.iter().any(|other| other.name == column.name);
            left.iter().filter(common).map(|column| column.name.clone()).collect()
        }
    };
    let mut all = Vec::with_capacity(left.len() + right.len());
    for name in &merged {
        // Planning reports a column that a side lacks.
        let (Some(left), Some(right)) = (only(&left, name, "left")?, only(&right, name, "right")?) else {
            return Ok(None);
        };
        let expr = match &join.join_operator {
            Right(_) | RightOuter(_) => right,
            FullOuter(_) => call("coalesce", [left, right]),
            _ => left,
        };
        all.push(Column { name: name.clone(), expr });
    }
    all.extend([left, right].concat().into_iter().filter(|column| !merged.contains(&column.name)));
    if matches!(by, JoinConstraint::Natural) {
        constrain(&mut join.join_operator, &merged);
    }
    Ok(Some(all))
}

/// The column of a name on a side of a join.
///
/// # Errors
/// 42702 for two.
fn only(side: &[Column], name: &str, which: &str) -> Result<Option<Expr>> {
    let mut found = side.iter().filter(|column| column.name == name);
    match (found.next(), found.next()) {
        (Some(_), Some(_)) => {
            let message = format!("common column name \"{name}\" appears more than once in {which} table");
            Err(SqlError::new(SqlState::AMBIGUOUS_COLUMN, message))
        }
        (found, _) => Ok(found.map(|column| column.expr.clone())),
    }
}

/// NATURAL as USING, or as ON true if the sides have no column in common.
fn constrain(join: &mut JoinOperator, merged: &[String]) {
    use JoinOperator::{FullOuter, Inner, Join, Left, LeftOuter, Right, RightOuter};
    let name = |name: &String| ObjectName(vec![ObjectNamePart::Identifier(Ident::with_quote('"', name))]);
    let (Inner(by) | Join(by) | Left(by) | LeftOuter(by) | Right(by) | RightOuter(by) | FullOuter(by)) = join else {
        return;
    };
    *by = if merged.is_empty() {
        JoinConstraint::On(Expr::Value(ValueWithSpan { value: Value::Boolean(true), span: Span::empty() }))
    } else {
        JoinConstraint::Using(merged.iter().map(name).collect())
    };
}
