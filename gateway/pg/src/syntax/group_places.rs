//! Numbers of items in `GROUPING SETS`, `ROLLUP` and `CUBE`, as the items: DataFusion reads them outside of these only.

use crate::error::Result;
use datafusion::sql::sqlparser::ast::{Expr, GroupByExpr, Select, SelectItem, Value};

/// Writes the items out.
///
/// # Errors
/// None: a number without an item stays, for the planner to refuse.
pub(super) fn rewrite(select: &mut Select) -> Result<()> {
    let Select { projection, group_by: GroupByExpr::Expressions(groups, _), .. } = select else { return Ok(()) };
    for group in groups {
        let (Expr::GroupingSets(sets) | Expr::Rollup(sets) | Expr::Cube(sets)) = group else { continue };
        for expr in sets.iter_mut().flatten() {
            let Expr::Value(value) = &*expr else { continue };
            let Value::Number(number, _) = &value.value else { continue };
            let at = number.parse().ok().and_then(|number: usize| number.checked_sub(1));
            if let Some(SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }) =
                at.and_then(|at| projection.get(at))
            {
                *expr = item.clone();
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::parse;
    use datafusion::sql::sqlparser::ast::{SetExpr, Statement};

    #[test]
    fn numbers_are_items() {
        let sql =
            "SELECT a, b + 1 AS c, sum(d) FROM t GROUP BY GROUPING SETS ((1, 2), (2), ()), ROLLUP (1, x), 2, CUBE (9)";
        let Statement::Query(query) = parse(sql) else { panic!("no query") };
        let SetExpr::Select(mut select) = *query.body else { panic!("no select") };
        super::rewrite(&mut select).unwrap();
        assert_eq!(
            select.group_by.to_string(),
            "GROUP BY GROUPING SETS ((a, b + 1), (b + 1), ()), ROLLUP (a, x), 2, CUBE (9)"
        );
    }
}
