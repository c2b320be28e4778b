//! `(a, b) IN (SELECT …)` and `NOT IN`, which DataFusion has for one column only, by EXISTS.
//!
//! ```text
//! WHERE (a, b) IN (q)      EXISTS (SELECT 1 FROM (q) AS r (x, y) WHERE x = a AND y = b)
//! WHERE (a, b) NOT IN (q)  NOT EXISTS (SELECT 1 FROM (q) AS r (x, y) WHERE (x = a AND y = b) IS NOT FALSE)
//! elsewhere                CASE WHEN EXISTS (… equal) THEN true WHEN EXISTS (… IS NULL) THEN NULL ELSE false END
//! ```
//!
//! A condition that is NULL drops the row as one that is false does, as long as only AND and OR stand around it: so the
//! first two forms are for conditions, of which the planner makes joins.

use super::{build::parsed_expr, records::fields, row_comparison::compared};
use crate::error::{Result, SqlError, SqlState};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, Ident, Query, Select, SetExpr, TableAliasColumnDef, TableFactor, UnaryOperator,
    helpers::attached_token::AttachedToken,
};

/// The relation of a subquery's rows; no user can write this name.
const RELATION: &str = "\u{1}rows";

/// Rewrites the conditions of a select.
///
/// # Errors
/// As [`rewritten`].
pub(crate) fn in_conditions(select: &mut Select) -> Result<()> {
    [&mut select.selection, &mut select.having].into_iter().flatten().try_for_each(condition)
}

fn condition(expr: &mut Expr) -> Result<()> {
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } => {
            condition(left)?;
            condition(right)
        }
        Expr::Nested(inner) => condition(inner),
        Expr::InSubquery { expr: row, subquery, negated } => {
            let Some(row) = fields(row) else { return Ok(()) };
            *expr = if *negated {
                let may_equal = |equal| Expr::IsNotFalse(Box::new(Expr::Nested(Box::new(equal))));
                exists(&row, subquery, true, may_equal)?
            } else {
                exists(&row, subquery, false, |equal| equal)?
            };
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Another form of a row in a subquery's rows, wherever it stands; `None` for other expressions.
///
/// # Errors
/// 42601 for rows of different lengths.
pub(crate) fn rewritten(expr: &Expr) -> Result<Option<Expr>> {
    let Expr::InSubquery { expr: row, subquery, negated } = expr else { return Ok(None) };
    let Some(row) = fields(row) else { return Ok(None) };
    let is_null = |equal| Expr::IsNull(Box::new(Expr::Nested(Box::new(equal))));
    let case = Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![
            CaseWhen { condition: exists(&row, subquery, false, |equal| equal)?, result: parsed_expr("true")? },
            CaseWhen { condition: exists(&row, subquery, false, is_null)?, result: parsed_expr("NULL::boolean")? },
        ],
        else_result: Some(Box::new(parsed_expr("false")?)),
    };
    Ok(Some(match negated {
        true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(Expr::Nested(Box::new(case))) },
        false => case,
    }))
}

/// Whether a subquery has a row for which something holds of its columns being equal to those of a row.
fn exists(row: &[Expr], subquery: &Query, negated: bool, holds: impl FnOnce(Expr) -> Expr) -> Result<Expr> {
    let columns: Vec<Ident> = (1..=row.len()).map(|n| Ident::with_quote('"', format!("\u{1}{n}"))).collect();
    let theirs: Vec<Expr> = columns.iter().map(|column| Expr::Identifier(column.clone())).collect();
    let equal = compared(&theirs, &BinaryOperator::Eq, row)?;
    let mut written = parsed_expr(&format!("EXISTS (SELECT 1 FROM (SELECT 1) AS \"{RELATION}\" WHERE true)"))?;
    if let Expr::Exists { subquery: outer, negated: not } = &mut written
        && let SetExpr::Select(select) = outer.body.as_mut()
        && let Some(TableFactor::Derived { subquery: inner, alias: Some(alias), .. }) =
            select.from.first_mut().map(|from| &mut from.relation)
    {
        *not = negated;
        **inner = subquery.clone();
        alias.columns = columns.into_iter().map(|name| TableAliasColumnDef { name, data_type: None }).collect();
        select.selection = Some(holds(equal));
        return Ok(written);
    }
    Err(SqlError::new(SqlState::INTERNAL_ERROR, "EXISTS is not what it was written as"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::parse;
    use datafusion::sql::sqlparser::ast::Statement;
    use expect_test::{Expect, expect};

    fn check(sql: &str, expected: Expect) {
        let Statement::Query(mut query) = parse(sql) else { panic!("no query: {sql}") };
        let SetExpr::Select(select) = query.body.as_mut() else { panic!("no select: {sql}") };
        in_conditions(select).unwrap();
        expected.assert_eq(&query.to_string().replace('\u{1}', "~"));
    }

    #[test]
    fn conditions_become_exists() {
        check(
            "SELECT 1 FROM t WHERE (a, b) IN (SELECT c, d FROM u) AND (c OR (a, 1) NOT IN (SELECT e, f FROM v))",
            expect![[
                r#"SELECT 1 FROM t WHERE EXISTS (SELECT 1 FROM (SELECT c, d FROM u) AS "~rows" ("~1", "~2") WHERE "~1" = a AND "~2" = b) AND (c OR NOT EXISTS (SELECT 1 FROM (SELECT e, f FROM v) AS "~rows" ("~1", "~2") WHERE ("~1" = a AND "~2" = 1) IS NOT FALSE))"#
            ]],
        );
        check("SELECT 1 FROM t WHERE a IN (SELECT 1)", expect!["SELECT 1 FROM t WHERE a IN (SELECT 1)"]);
    }
}
