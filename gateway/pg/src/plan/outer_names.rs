//! Names of subqueries that DataFusion takes for columns of the query around them, and PostgreSQL does not.
//!
//! A name without a relation that two relations of a subquery have is ambiguous. DataFusion 55.2 looks it up in the
//! query around the subquery then (`sql_identifier_to_expr`), and gives other rows without a word. A plan no longer
//! says whether a name was written with its relation, so the names of the statement are noted before: [`Names`].
//!
//! And an aggregate over columns of an outer query alone is one of that query in PostgreSQL, which is refused.

use super::apply::outer_columns;
use crate::{
    error::{SqlError, SqlState},
    ident::fold,
};
use datafusion::{
    common::{
        Column, DFSchema,
        tree_node::{TreeNode, TreeNodeRecursion},
    },
    error::{DataFusionError, Result},
    logical_expr::{
        Expr, LogicalPlan,
        expr::{Exists, InSubquery, SetComparison},
        utils::merge_schema,
    },
    sql::sqlparser::ast::{Expr as Written, Query, Statement, Visit, Visitor},
};
use std::{cell::OnceCell, collections::HashSet, ops::ControlFlow};

/// The names of columns in subqueries of a statement.
#[derive(Debug, Default)]
pub struct Names {
    depth: usize,
    /// Those that stand without a relation.
    alone: HashSet<String>,
    /// Those that stand with one, and the relation before them.
    qualified: HashSet<(String, String)>,
}

impl Names {
    /// Those of a statement.
    pub fn of(statement: &Statement) -> Self {
        let mut names = Self::default();
        let _: ControlFlow<()> = statement.visit(&mut names);
        names
    }

    /// Checks what DataFusion has made of the statement.
    ///
    /// # Errors
    /// 42702 for an ambiguous name, 0A000 for an aggregate of an outer query.
    pub fn check(&self, plan: &LogicalPlan) -> Result<()> {
        if self.alone.is_empty() && self.qualified.is_empty() { Ok(()) } else { self.walk(plan, &mut Vec::new()) }
    }

    fn walk(&self, plan: &LogicalPlan, outer: &mut Vec<DFSchema>) -> Result<()> {
        plan.apply(|node| {
            if let (LogicalPlan::Aggregate(aggregate), false) = (node, outer.is_empty()) {
                for expr in &aggregate.aggr_expr {
                    refuse_outer(expr, aggregate.input.schema())?;
                }
            }
            let here = OnceCell::new();
            let schema = || here.get_or_init(|| merge_schema(&node.inputs()));
            node.apply_expressions(|expr| {
                expr.apply(|expr| {
                    match expr {
                        Expr::OuterReferenceColumn(_, column) => self.check_column(column, schema(), outer)?,
                        Expr::ScalarSubquery(subquery)
                        | Expr::Exists(Exists { subquery, .. })
                        | Expr::InSubquery(InSubquery { subquery, .. })
                        | Expr::SetComparison(SetComparison { subquery, .. }) => {
                            outer.push(schema().clone());
                            self.walk(&subquery.subquery, outer)?;
                            outer.pop();
                        }
                        _ => {}
                    }
                    Ok(TreeNodeRecursion::Continue)
                })
            })?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(())
    }

    /// A column of an outer query: whether a query between has its name twice.
    fn check_column(&self, column: &Column, here: &DFSchema, outer: &[DFSchema]) -> Result<()> {
        let relation = column.relation.as_ref().map(|relation| relation.table().to_owned()).unwrap_or_default();
        if !self.alone.contains(&column.name) || self.qualified.contains(&(relation, column.name.clone())) {
            return Ok(());
        }
        for schema in [here].into_iter().chain(outer.iter().rev()) {
            if schema.has_column(column) {
                return Ok(());
            }
            if schema.qualified_fields_with_unqualified_name(&column.name).len() > 1 {
                let message = format!("column reference \"{}\" is ambiguous", column.name);
                let error = SqlError::new(SqlState::AMBIGUOUS_COLUMN, message);
                return Err(DataFusionError::External(Box::new(error)));
            }
        }
        Ok(())
    }
}

impl Visitor for Names {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Written) -> ControlFlow<()> {
        if self.depth > 1 {
            match expr {
                Written::Identifier(name) => {
                    self.alone.insert(fold(name));
                }
                Written::CompoundIdentifier(parts) => {
                    if let [.., relation, name] = parts.as_slice() {
                        self.qualified.insert((fold(relation), fold(name)));
                    }
                }
                _ => {}
            }
        }
        ControlFlow::Continue(())
    }
}

/// Refuses an aggregate that has columns of outer queries and none of its own.
fn refuse_outer(aggregate: &Expr, input: &DFSchema) -> Result<()> {
    let (mut outer, mut own) = (false, false);
    aggregate.apply(|expr| {
        match expr {
            Expr::Column(_) => own = true,
            Expr::OuterReferenceColumn(..) => outer = true,
            Expr::ScalarSubquery(subquery)
            | Expr::Exists(Exists { subquery, .. })
            | Expr::InSubquery(InSubquery { subquery, .. })
            | Expr::SetComparison(SetComparison { subquery, .. }) => {
                for (_, column) in outer_columns::free(&subquery.subquery) {
                    if input.has_column(&column) {
                        own = true;
                    } else {
                        outer = true;
                    }
                }
            }
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if outer && !own {
        let error = SqlError::unsupported("an aggregate of the outer query inside of a subquery")
            .with_hint("Compute it in the outer query.");
        return Err(DataFusionError::External(Box::new(error)));
    }
    Ok(())
}
