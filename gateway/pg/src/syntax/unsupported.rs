//! Clauses that DataFusion's planner would ignore, or execute by itself: refused before it plans, with 0A000.
//!
//! Historic reads (`FOR SYSTEM_TIME AS OF`), samples, row locks, `INTO`, `FETCH … WITH TIES`, and anything in a query
//! that is no query.

use super::walk::finish;
use crate::error::{Result, SqlError};
use datafusion::sql::sqlparser::ast::{
    self, Join, JoinConstraint, JoinOperator, Query, Select, SetExpr, SetOperator, SetQuantifier, Statement,
    TableFactor, Visit, Visitor,
};
use std::ops::ControlFlow;

/// Refuses a statement with an unsupported clause.
///
/// # Errors
/// 0A000 with the clause.
pub fn refuse(statement: &Statement) -> Result<()> {
    match statement {
        Statement::Query(_) | Statement::Explain { .. } => {}
        other => return Err(SqlError::unsupported(head(&other.to_string()))),
    }
    finish(statement.visit(&mut Walker))
}

/// The first two words of a statement.
fn head(statement: &str) -> String {
    statement.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
}

struct Walker;

type Flow = ControlFlow<Box<SqlError>>;

fn no(what: &str) -> Flow {
    ControlFlow::Break(Box::new(SqlError::unsupported(what)))
}

impl Visitor for Walker {
    type Break = Box<SqlError>;

    fn pre_visit_query(&mut self, query: &Query) -> Flow {
        if let Some(lock) = query.locks.first() {
            return no(&format!("FOR {}", lock.lock_type));
        }
        if query.fetch.as_ref().is_some_and(|fetch| fetch.with_ties) {
            return no("WITH TIES");
        }
        if query.for_clause.is_some() || query.settings.is_some() || query.format_clause.is_some() {
            return no("this clause of a query");
        }
        if let Some(what) = counted(&query.body) {
            return no(what);
        }
        match query.body.as_ref() {
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
                no("a data-modifying statement in WITH")
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_select(&mut self, select: &Select) -> Flow {
        match () {
            () if select.into.is_some() => no("SELECT INTO"),
            () if select.top.is_some() => no("TOP"),
            () if select.prewhere.is_some() => no("PREWHERE"),
            () if !select.connect_by.is_empty() => no("CONNECT BY"),
            () if !select.lateral_views.is_empty() => no("LATERAL VIEW"),
            () if !select.sort_by.is_empty() => no("SORT BY"),
            () if !select.cluster_by.is_empty() || !select.distribute_by.is_empty() => no("DISTRIBUTE BY"),
            () => select.from.iter().try_for_each(|from| from.joins.iter().try_for_each(has_condition)),
        }
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> Flow {
        match factor {
            TableFactor::Table { version: Some(_), .. } => no("FOR SYSTEM_TIME AS OF"),
            TableFactor::Table { sample: Some(_), .. } | TableFactor::Derived { sample: Some(_), .. } => {
                no("TABLESAMPLE")
            }
            TableFactor::NestedJoin { table_with_joins, .. } => {
                table_with_joins.joins.iter().try_for_each(has_condition)
            }
            TableFactor::Table { partitions, .. } if !partitions.is_empty() => no("PARTITION"),
            TableFactor::Table { with_hints, index_hints, .. } if !with_hints.is_empty() || !index_hints.is_empty() => {
                no("a table hint")
            }
            TableFactor::Table { with_ordinality: true, .. }
            | TableFactor::Function { with_ordinality: true, .. }
            | TableFactor::UNNEST { with_ordinality: true, .. } => no("WITH ORDINALITY"),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &ast::Expr) -> Flow {
        match expr {
            ast::Expr::Collate { collation, .. } if !is_byte_order(collation) => {
                no(&format!("the collation {collation}"))
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// A join that needs a condition has one: DataFusion makes a CROSS JOIN of one that has none.
fn has_condition(join: &Join) -> Flow {
    let (JoinOperator::Join(constraint)
    | JoinOperator::Inner(constraint)
    | JoinOperator::Left(constraint)
    | JoinOperator::LeftOuter(constraint)
    | JoinOperator::Right(constraint)
    | JoinOperator::RightOuter(constraint)
    | JoinOperator::FullOuter(constraint)) = &join.join_operator
    else {
        return ControlFlow::Continue(());
    };
    match constraint {
        JoinConstraint::None => ControlFlow::Break(Box::new(SqlError::syntax("a JOIN has no ON or USING"))),
        _ => ControlFlow::Continue(()),
    }
}

/// A set operation that counts duplicates, which DataFusion does not.
fn counted(body: &SetExpr) -> Option<&'static str> {
    let SetExpr::SetOperation { op, set_quantifier, left, right } = body else { return None };
    match (op, set_quantifier) {
        (SetOperator::Except, SetQuantifier::All) => Some("EXCEPT ALL"),
        (SetOperator::Intersect, SetQuantifier::All) => Some("INTERSECT ALL"),
        _ => counted(left).or_else(|| counted(right)),
    }
}

/// Whether a collation orders by bytes, as everything does here.
fn is_byte_order(collation: &ast::ObjectName) -> bool {
    let name = collation.0.last().and_then(|part| part.as_ident()).map(|ident| ident.value.to_lowercase());
    matches!(name.as_deref(), Some("default" | "c" | "posix" | "ucs_basic" | "c.utf8" | "c.utf-8"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::parse;
    use expect_test::{Expect, expect};

    fn check(sql: &str, expected: Expect) {
        let outcome = match refuse(&parse(sql)) {
            Ok(()) => "planned".to_owned(),
            Err(error) => format!("{} {}", error.state.0, error.message),
        };
        expected.assert_eq(&outcome);
    }

    #[test]
    fn semantics_10_only_queries_are_planned() {
        check("SELECT 1", expect!["planned"]);
        check("CREATE TABLE a (b int)", expect!["0A000 CREATE TABLE is not supported"]);
        check("COPY t TO '/tmp/x'", expect!["0A000 COPY t is not supported"]);
        check(
            "WITH d AS (DELETE FROM t RETURNING a) SELECT * FROM d",
            expect!["0A000 a data-modifying statement in WITH is not supported"],
        );
    }

    #[test]
    fn what_the_planner_drops_is_refused() {
        check("SELECT * FROM t FOR UPDATE", expect!["0A000 FOR UPDATE is not supported"]);
        check("SELECT * FROM (SELECT * FROM t FOR SHARE) s", expect!["0A000 FOR SHARE is not supported"]);
        check("SELECT * FROM t TABLESAMPLE BERNOULLI (10)", expect!["0A000 TABLESAMPLE is not supported"]);
        check("SELECT * INTO u FROM t", expect!["0A000 SELECT INTO is not supported"]);
        check("SELECT a COLLATE \"de_DE\" FROM t", expect![[r#"0A000 the collation "de_DE" is not supported"#]]);
        check("SELECT a COLLATE \"C\" FROM t", expect!["planned"]);
        check("SELECT 1 UNION (SELECT 2 EXCEPT ALL SELECT 3)", expect!["0A000 EXCEPT ALL is not supported"]);
        check("SELECT 1 EXCEPT SELECT 3", expect!["planned"]);
        check("SELECT * FROM t JOIN u", expect!["42601 a JOIN has no ON or USING"]);
        check("SELECT * FROM t, (u LEFT JOIN t v)", expect!["42601 a JOIN has no ON or USING"]);
        check("SELECT * FROM t CROSS JOIN u NATURAL JOIN v JOIN w ON true", expect!["planned"]);
        check("SELECT * FROM t FETCH FIRST 2 ROWS WITH TIES", expect!["0A000 WITH TIES is not supported"]);
    }
}
