//! Hypothetical-set aggregates: `rank(3) WITHIN GROUP (ORDER BY x)`, where a row of that value would stand among the
//! others. They are counts of the rows before it.

use super::build::parsed_expr;
use crate::error::{Result, SqlError, SqlState};
use datafusion::sql::sqlparser::ast::{Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, OrderByExpr};

/// The aggregate as counts; `None` for a window function.
///
/// # Errors
/// 42883 for another number of values than there are orders; 0A000 for one with OVER.
pub(super) fn rewritten(function: &Function) -> Result<Option<Expr>> {
    if function.within_group.is_empty() {
        return Ok(None);
    }
    let name = function.name.to_string().to_lowercase();
    let name = name.rsplit('.').next().unwrap_or_default();
    if function.over.is_some() {
        return Err(SqlError::unsupported(format!("OVER for hypothetical-set aggregate {name}")));
    }
    let FunctionArguments::List(list) = &function.args else { return Ok(None) };
    let value = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    let Some(values) = list.args.iter().map(value).collect::<Option<Vec<_>>>() else { return Ok(None) };
    let orders = &function.within_group;
    if values.len() != orders.len() {
        let message = format!("function {name} has {} direct arguments and {} orders", values.len(), orders.len());
        return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message).with_hint(format!(
            "To use the hypothetical-set aggregate {name}, the number of hypothetical direct arguments must match the \
             number of ordering columns."
        )));
    }
    let before = precedes(orders, &values);
    let equal = orders.iter().zip(&values).map(|(order, value)| same(order, value)).collect::<Vec<_>>().join(" AND ");
    let filter = function.filter.as_ref().map(|filter| format!(" AND ({filter})")).unwrap_or_default();
    let count = |condition: &str| format!("count(*) FILTER (WHERE ({condition}){filter})");
    let all = count("true");
    let counts = match name {
        "rank" => format!("({} + 1)", count(&before)),
        "dense_rank" => match orders.as_slice() {
            // A NULL is a value that count(DISTINCT …) leaves out.
            [order] => {
                let key = &order.expr;
                let nulls = count(&format!("({before}) AND ({key}) IS NULL"));
                format!(
                    "(count(DISTINCT ({key})) FILTER (WHERE ({before}){filter}) \
                      + CASE WHEN {nulls} > 0 THEN 2 ELSE 1 END)"
                )
            }
            several => {
                let keys = several.iter().map(|order| order.expr.to_string()).collect::<Vec<_>>().join(", ");
                format!("(count(DISTINCT ROW({keys})) FILTER (WHERE ({before}){filter}) + 1)")
            }
        },
        "percent_rank" => format!(
            "(CASE WHEN {all} = 0 THEN 0::double precision \
              ELSE {}::double precision / {all}::double precision END)",
            count(&before)
        ),
        _ => {
            let up_to = count(&format!("({before}) OR ({equal})"));
            format!("(({up_to} + 1)::double precision / ({all} + 1)::double precision)")
        }
    };
    parsed_expr(&counts).map(Some)
}

/// Whether a row comes before the values, in the order of several columns.
fn precedes(orders: &[OrderByExpr], values: &[Expr]) -> String {
    let alternatives = (0..orders.len()).map(|at| {
        let equal = orders[..at].iter().zip(values).map(|(order, value)| same(order, value));
        let all: Vec<String> = equal.chain([less(&orders[at], &values[at])]).collect();
        format!("({})", all.join(" AND "))
    });
    alternatives.collect::<Vec<_>>().join(" OR ")
}

fn same(order: &OrderByExpr, value: &Expr) -> String {
    format!("(({}) IS NOT DISTINCT FROM ({value}))", order.expr)
}

/// Whether a row comes before a value in the order of one column.
fn less(order: &OrderByExpr, value: &Expr) -> String {
    let descends = order.options.asc == Some(false);
    let (key, sign) = (&order.expr, if descends { ">" } else { "<" });
    let nulls = if order.options.nulls_first.unwrap_or(descends) {
        format!("(({key}) IS NULL AND ({value}) IS NOT NULL)")
    } else {
        format!("(({key}) IS NOT NULL AND ({value}) IS NULL)")
    };
    format!("(coalesce(({key}) {sign} ({value}), false) OR {nulls})")
}

#[cfg(test)]
mod tests {
    use crate::testing::parse;
    use datafusion::sql::sqlparser::ast::{Expr, SelectItem, SetExpr, Statement};
    use expect_test::{Expect, expect};

    fn check(sql: &str, expected: Expect) {
        let Statement::Query(query) = parse(&format!("SELECT {sql} FROM t")) else { panic!("no query: {sql}") };
        let SetExpr::Select(select) = *query.body else { panic!("no select: {sql}") };
        let SelectItem::UnnamedExpr(Expr::Function(function)) = &select.projection[0] else { panic!("no call: {sql}") };
        let rewritten = super::rewritten(function);
        let shown =
            rewritten.map_or_else(|error| error.message, |expr| format!("{:?}", expr.map(|expr| expr.to_string())));
        expected.assert_eq(&shown);
    }

    #[test]
    fn ranks_are_counts() {
        check(
            "rank(2) WITHIN GROUP (ORDER BY x)",
            expect![[
                r#"Some("(count(*) FILTER (WHERE (((coalesce((x) < (2), false) OR ((x) IS NOT NULL AND (2) IS NULL))))) + 1)")"#
            ]],
        );
        check("rank() OVER (ORDER BY x)", expect!["None"]);
        check("rank(1, 2) WITHIN GROUP (ORDER BY x)", expect!["function rank has 2 direct arguments and 1 orders"]);
    }
}
