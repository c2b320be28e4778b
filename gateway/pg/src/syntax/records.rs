//! Composite values as they are written: `ROW(a, b)`, `(a, b)` as a value, and whether one is NULL.
//!
//! `row IS NULL` asks whether all fields are, `row IS NOT NULL` whether none is; DataFusion would ask of the value.

use super::build::call;
use crate::functions::records::RECORD;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectNamePart, Value,
};

/// A composite value, whose fields PostgreSQL calls `f1` and `f2`.
pub(super) fn of(values: impl IntoIterator<Item = Expr>) -> Expr {
    let name = |at: usize| Expr::Value(Value::SingleQuotedString(format!("f{}", at + 1)).into());
    call(RECORD, values.into_iter().enumerate().flat_map(|(at, value)| [name(at), value]))
}

/// The values of `ROW(…)`.
pub(super) fn values_of_row(function: &Function) -> Option<Vec<Expr>> {
    let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return None };
    (name.quote_style.is_none() && name.value.eq_ignore_ascii_case("row")).then(|| arguments(function))?
}

/// The fields of what is written as a composite value.
pub(super) fn fields(expr: &Expr) -> Option<Vec<Expr>> {
    match expr {
        Expr::Tuple(values) if !values.is_empty() => Some(values.clone()),
        Expr::Nested(inner) => fields(inner),
        Expr::Function(function) => {
            let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return None };
            if name.value == RECORD {
                return Some(arguments(function)?.into_iter().skip(1).step_by(2).collect());
            }
            values_of_row(function).filter(|values| !values.is_empty())
        }
        _ => None,
    }
}

fn arguments(function: &Function) -> Option<Vec<Expr>> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let plain = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    list.args.iter().map(plain).collect()
}

/// `row IS [NOT] NULL` by the fields; `None` for other expressions.
pub(super) fn tested(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::IsNull(of) => null(of),
        Expr::IsNotNull(of) => not_null(of),
        _ => None,
    }
}

fn null(row: &Expr) -> Option<Expr> {
    if let Some((there, row)) = of_outer_join(row) {
        return Some(joined(Expr::IsNull(Box::new(there.clone())), BinaryOperator::Or, null(row)?));
    }
    all(row, |field| Expr::IsNull(Box::new(field)))
}

fn not_null(row: &Expr) -> Option<Expr> {
    if let Some((there, row)) = of_outer_join(row) {
        return Some(joined(Expr::IsNotNull(Box::new(there.clone())), BinaryOperator::And, not_null(row)?));
    }
    all(row, |field| Expr::IsNotNull(Box::new(field)))
}

fn all(row: &Expr, test: fn(Expr) -> Expr) -> Option<Expr> {
    let tests = fields(row)?.into_iter().map(test);
    tests.reduce(|all, field| joined(all, BinaryOperator::And, field))
}

fn joined(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::Nested(Box::new(Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }))
}

/// What [`whole_row`](super::whole_row) makes of a row that an outer join may miss: the column that is true where it is
/// there, and the row.
fn of_outer_join(row: &Expr) -> Option<(&Expr, &Expr)> {
    let Expr::Case { operand: None, conditions, else_result: None, .. } = row else { return None };
    let [CaseWhen { condition, result }] = conditions.as_slice() else { return None };
    let is_record = matches!(result, Expr::Function(function) if function.name.to_string() == RECORD);
    is_record.then_some((condition, result))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::build::parsed_expr;

    #[test]
    fn nulls_are_looked_for_in_fields() {
        let check = |sql: &str, expected: &str| {
            let found =
                tested(&parsed_expr(sql).unwrap()).map_or_else(|| "as it is".to_owned(), |expr| expr.to_string());
            assert_eq!(found, expected, "{sql}");
        };
        check("ROW(a, b) IS NULL", "(a IS NULL AND b IS NULL)");
        check("(a, b) IS NOT NULL", "(a IS NOT NULL AND b IS NOT NULL)");
        check("keyspan_record('k', t.k, 'v', t.v) IS NULL", "(t.k IS NULL AND t.v IS NULL)");
        check("CASE WHEN t.there THEN keyspan_record('k', t.k) END IS NULL", "(t.there IS NULL OR t.k IS NULL)");
        check("a IS NULL", "as it is");
    }
}
