//! Columns that joins merge, by the columns of the relations: `NATURAL` becomes `USING`, and `*` over such joins the
//! list of columns in PostgreSQL's order, merged columns first.
//!
//! Before planning, the pass takes each select with such a join, innermost first, and plans each relation in its FROM
//! by itself for the names of its columns, with the queries in WITH that it reads. If a relation cannot be planned (a
//! function without a name, a LATERAL subquery), the select stays as it is: DataFusion then merges by its own rules, in
//! another order.

use super::build::{call, select_from};
use crate::{
    error::{Result, SqlError, SqlState},
    ident::{fold, quoted},
    names::RelationName,
};
use datafusion::{
    sql::sqlparser::ast::{
        Cte, Expr, GroupByExpr, Ident, Join, JoinConstraint, JoinOperator, ObjectName, ObjectNamePart, Query, Select,
        SelectItem, SetExpr, Statement, TableFactor, TableWithJoins, Value, ValueWithSpan, Visit, VisitMut, Visitor,
        VisitorMut, With, helpers::attached_token::AttachedToken, visit_relations,
    },
    sql::sqlparser::tokenizer::Span,
};
use futures::future::BoxFuture;
use std::{collections::VecDeque, ops::ControlFlow};

/// The most relations of a statement that are planned for their columns: beyond, selects stay as they are.
const RELATIONS_MAX: usize = 64;

/// Plans a query for the names of its columns; `None` if it cannot be planned. The caller has the planner.
pub type ColumnsOf<'a> = dyn Fn(Query) -> BoxFuture<'a, Option<Vec<String>>> + Send + Sync + 'a;

/// Writes out what joins merge.
///
/// # Errors
/// 42702 for a column that one side of a join has twice.
pub async fn resolve(statement: &mut Statement, columns_of: &ColumnsOf<'_>) -> Result<()> {
    let (mut passed, mut planned) = (0, 0);
    loop {
        let mut search = Search { passed, scopes: Vec::new() };
        let ControlFlow::Break(found) = Visit::visit(statement, &mut search) else { return Ok(()) };
        let (mut select, ctes) = *found;
        let relations: Vec<TableFactor> = select.from.iter().flat_map(relations).cloned().collect();
        planned += relations.len();
        let mut columns = VecDeque::new();
        for relation in &relations {
            match names(columns_of, relation, &ctes).await {
                Some(names) if planned <= RELATIONS_MAX => columns.push_back(names),
                _ => break,
            }
        }
        let written = columns.len() == relations.len() && write_out(&mut select, columns)?.is_some();
        // The search would find it again.
        if !written {
            passed += 1;
            continue;
        }
        let _: ControlFlow<()> = VisitMut::visit(statement, &mut Replace { passed, select: Some(select) });
    }
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

/// Searches the first select to be written out, after `passed` others that stay as they are.
struct Search {
    passed: usize,
    /// The queries in WITH that can be read here.
    scopes: Vec<Vec<Cte>>,
}

impl Visitor for Search {
    type Break = Box<(Select, Vec<Cte>)>;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Self::Break> {
        self.scopes.push(query.with.as_ref().map(|with| with.cte_tables.clone()).unwrap_or_default());
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<Self::Break> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &Select) -> ControlFlow<Self::Break> {
        if !needs(select) {
            return ControlFlow::Continue(());
        }
        if self.passed > 0 {
            self.passed -= 1;
            return ControlFlow::Continue(());
        }
        // Inner names hide outer ones.
        let ctes = self.scopes.iter().rev().flatten().cloned().collect();
        ControlFlow::Break(Box::new((select.clone(), ctes)))
    }
}

/// Replaces the select that [`Search`] found.
struct Replace {
    passed: usize,
    select: Option<Select>,
}

impl VisitorMut for Replace {
    type Break = ();

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if !needs(select) {
            return ControlFlow::Continue(());
        }
        if self.passed > 0 {
            self.passed -= 1;
            return ControlFlow::Continue(());
        }
        if let Some(written) = self.select.take() {
            *select = written;
        }
        ControlFlow::Break(())
    }
}

/// The relations of a FROM, in order.
fn relations(from: &TableWithJoins) -> Vec<&TableFactor> {
    let mut all = Vec::new();
    for factor in [&from.relation].into_iter().chain(from.joins.iter().map(|join| &join.relation)) {
        match factor {
            TableFactor::NestedJoin { table_with_joins, .. } => all.extend(relations(table_with_joins)),
            factor => all.push(factor),
        }
    }
    all
}

/// The names of the columns of a relation; `None` if it cannot be planned by itself.
async fn names(columns_of: &ColumnsOf<'_>, relation: &TableFactor, ctes: &[Cte]) -> Option<Vec<String>> {
    if matches!(relation, TableFactor::Derived { lateral: true, .. }) {
        return None;
    }
    let mut query = select_from(&RelationName::bare("t"), &[]).ok()?;
    let cte_tables = read(relation, ctes)?;
    if !cte_tables.is_empty() {
        // Each may read those before it; whether one is recursive does not matter for those that are not.
        query.with = Some(With { with_token: AttachedToken::empty(), recursive: true, cte_tables });
    }
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.from = vec![TableWithJoins { relation: relation.clone(), joins: Vec::new() }];
    }
    columns_of(*query).await
}

/// The queries in WITH that something reads, in their order; `None` if one of them still has a select to be written
/// out, which is the one at hand or comes after it.
fn read(what: &impl Visit, ctes: &[Cte]) -> Option<Vec<Cte>> {
    let (mut wanted, mut open) = (vec![false; ctes.len()], names_in(what));
    while let Some(name) = open.pop() {
        let Some(at) = ctes.iter().position(|cte| fold(&cte.alias.name) == name) else { continue };
        if std::mem::replace(&mut wanted[at], true) {
            continue;
        }
        if Visit::visit(&ctes[at].query, &mut Search { passed: 0, scopes: Vec::new() }).is_break() {
            return None;
        }
        open.extend(names_in(&ctes[at].query));
    }
    Some(ctes.iter().zip(wanted).filter(|(_, wanted)| *wanted).map(|(cte, _)| cte.clone()).collect())
}

fn names_in(what: &impl Visit) -> Vec<String> {
    let mut names = Vec::new();
    let _: ControlFlow<()> = visit_relations(what, |name| {
        if let [ObjectNamePart::Identifier(name)] = name.0.as_slice() {
            names.push(fold(name));
        }
        ControlFlow::Continue(())
    });
    names
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
