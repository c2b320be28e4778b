//! Selects that are rewritten by the columns of their relations.
//!
//! Before planning, [`rewrite`] takes each select that a [`Rule`] wants, innermost first, and plans each relation in
//! its FROM by itself for the names of its columns, with the queries in WITH that it reads. A subquery that reads the
//! query around it is planned without its conditions, or has the names that are written in its select list. If a
//! relation has none either (a function without a name), the select stays as it is.

use super::{build::select_from, column_names::label_of};
use crate::{error::Result, ident::fold, names::RelationName};
use datafusion::sql::sqlparser::ast::{
    Cte, ObjectNamePart, Query, Select, SelectItem, SetExpr, Statement, TableFactor, TableWithJoins, Visit, VisitMut,
    Visitor, VisitorMut, With, helpers::attached_token::AttachedToken, visit_relations,
};
use futures::future::BoxFuture;
use std::{
    collections::{HashSet, VecDeque},
    ops::ControlFlow,
};

/// The most relations of a statement that are planned for their columns: beyond, selects stay as they are.
const RELATIONS_MAX: usize = 64;

/// Plans a query for the names of its columns; `None` if it cannot be planned. The caller has the planner.
pub type ColumnsOf<'a> = dyn Fn(Query) -> BoxFuture<'a, Option<Vec<String>>> + Send + Sync + 'a;

/// What is rewritten, and how.
#[derive(Clone, Copy)]
pub(super) struct Rule {
    /// Whether a select is to be rewritten.
    pub(super) needs: fn(&Select) -> bool,
    /// Rewrites a select, with the names of the columns of each of its relations in order; `false` if it has to stay.
    pub(super) rewrite: fn(&mut Select, VecDeque<Vec<String>>) -> Result<bool>,
}

/// Rewrites the selects of a statement.
///
/// # Errors
/// Those of the rule.
pub(super) async fn rewrite(statement: &mut Statement, columns_of: &ColumnsOf<'_>, rule: Rule) -> Result<()> {
    let (mut passed, mut planned) = (0, 0);
    loop {
        let mut search = Search { rule, passed, scopes: Vec::new() };
        let ControlFlow::Break(found) = Visit::visit(statement, &mut search) else { return Ok(()) };
        let (mut select, ctes) = *found;
        let relations: Vec<TableFactor> = select.from.iter().flat_map(relations).cloned().collect();
        planned += relations.len();
        let mut columns = VecDeque::new();
        for relation in &relations {
            match names(columns_of, relation, &ctes, rule).await {
                Some(names) if planned <= RELATIONS_MAX => columns.push_back(names),
                _ => break,
            }
        }
        let written = columns.len() == relations.len() && (rule.rewrite)(&mut select, columns)?;
        // The search would find it again.
        if !written {
            passed += 1;
            continue;
        }
        let _: ControlFlow<()> = VisitMut::visit(statement, &mut Replace { rule, passed, select: Some(select) });
    }
}

/// Searches the first select to be written out, after `passed` others that stay as they are.
struct Search {
    rule: Rule,
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
        if !(self.rule.needs)(select) {
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
    rule: Rule,
    passed: usize,
    select: Option<Select>,
}

impl VisitorMut for Replace {
    type Break = ();

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if !(self.rule.needs)(select) {
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
pub(super) fn relations(from: &TableWithJoins) -> Vec<&TableFactor> {
    let mut all = Vec::new();
    for factor in [&from.relation].into_iter().chain(from.joins.iter().map(|join| &join.relation)) {
        match factor {
            TableFactor::NestedJoin { table_with_joins, .. } => all.extend(relations(table_with_joins)),
            factor => all.push(factor),
        }
    }
    all
}

/// The names of the columns of a relation; `None` if they are not to be had.
async fn names(columns_of: &ColumnsOf<'_>, relation: &TableFactor, ctes: &[Cte], rule: Rule) -> Option<Vec<String>> {
    if let Some(names) = planned_names(columns_of, relation, ctes, rule).await {
        return Some(names);
    }
    if let Some(simpler) = without_conditions(relation)
        && let Some(names) = planned_names(columns_of, &simpler, ctes, rule).await
    {
        return Some(names);
    }
    written_names(relation)
}

/// A subquery without what may read the query around it and leaves its columns as they are.
fn without_conditions(relation: &TableFactor) -> Option<TableFactor> {
    let mut simpler = relation.clone();
    let TableFactor::Derived { lateral, subquery, .. } = &mut simpler else { return None };
    let SetExpr::Select(select) = subquery.body.as_mut() else { return None };
    select.selection = None;
    *lateral = false;
    (subquery.order_by, subquery.limit_clause, subquery.fetch) = (None, None, None);
    Some(simpler)
}

/// The names that stand in the select list of a subquery; `None` where one is not written, or is there twice.
fn written_names(relation: &TableFactor) -> Option<Vec<String>> {
    let TableFactor::Derived { subquery, alias, .. } = relation else { return None };
    let SetExpr::Select(select) = subquery.body.as_ref() else { return None };
    let name = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(fold(alias)),
        SelectItem::UnnamedExpr(expr) => Some(label_of(expr)),
        _ => None,
    };
    let mut names = select.projection.iter().map(name).collect::<Option<Vec<_>>>()?;
    let renamed = alias.iter().flat_map(|alias| &alias.columns);
    names.iter_mut().zip(renamed).for_each(|(name, column)| *name = fold(&column.name));
    let unique = names.iter().collect::<HashSet<_>>().len() == names.len();
    unique.then_some(names)
}

/// The names of the columns of a relation that can be planned by itself.
async fn planned_names(
    columns_of: &ColumnsOf<'_>,
    relation: &TableFactor,
    ctes: &[Cte],
    rule: Rule,
) -> Option<Vec<String>> {
    if matches!(relation, TableFactor::Derived { lateral: true, .. }) {
        return None;
    }
    let mut query = select_from(&RelationName::bare("t"), &[]).ok()?;
    let cte_tables = read(relation, ctes, rule)?;
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
fn read(what: &impl Visit, ctes: &[Cte], rule: Rule) -> Option<Vec<Cte>> {
    let (mut wanted, mut open) = (vec![false; ctes.len()], names_in(what));
    while let Some(name) = open.pop() {
        let Some(at) = ctes.iter().position(|cte| fold(&cte.alias.name) == name) else { continue };
        if std::mem::replace(&mut wanted[at], true) {
            continue;
        }
        if Visit::visit(&ctes[at].query, &mut Search { rule, passed: 0, scopes: Vec::new() }).is_break() {
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
