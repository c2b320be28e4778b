//! Rows of `VALUES` whose columns have casts in some rows only: `VALUES ('a'::varchar), ('b')`.
//!
//! DataFusion puts rows together only if their types agree in name too, which `varchar`, `uuid`, `json` and `jsonb`
//! bear and literals do not. As in PostgreSQL a literal has the type of the casts in its column, without a length;
//! `varchar` and `text` in one column are `text`. A quoted text in a column of other values gets its type when types
//! are known ([`TEXT_BESIDE`]).

use super::{
    build::{call, parsed_expr, parsed_query},
    rewrite::{DECIMAL_DIGITS, KEYWORDS},
};
use crate::{
    common_type::syntax::{has_type, is_unknown, of_cells},
    error::{Result, SqlError},
    functions::lists::{NUMBER_BESIDE, TEXT_BESIDE},
    ident::fold,
};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, ExactNumberInfo, Expr, Query, SetExpr, UnaryOperator, Value, Values,
    visit_expressions,
};
use std::ops::ControlFlow;

/// Gives each column one type, where casts say which.
pub(crate) fn rewrite(values: &mut Values) {
    let columns = values.rows.iter().map(|row| row.content.len()).min().unwrap_or_default();
    for at in 0..columns {
        if has_several_scales(values.rows.iter().map(|row| &row.content[at])) {
            for cell in
                values.rows.iter_mut().map(|row| &mut row.content[at]).filter(|cell| number_scale(cell).is_some())
            {
                let expr = Box::new(std::mem::replace(cell, Expr::Identifier("".into())));
                let data_type = DataType::Numeric(ExactNumberInfo::None);
                *cell = Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None };
            }
        }
        let Some(wanted) = of_cells(values.rows.iter().map(|row| &row.content[at])) else {
            cast_quoted(values, at);
            float_numbers(values, at);
            continue;
        };
        for row in &mut values.rows {
            let expr = Box::new(std::mem::replace(&mut row.content[at], Expr::Identifier("".into())));
            let data_type = wanted.clone();
            row.content[at] = Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None };
        }
    }
}

fn is_null(cell: &Expr) -> bool {
    matches!(cell, Expr::Value(value) if value.value == Value::Null)
}

/// How many digits a number written out has after the point; −1 for a cast to numeric. `None` for other cells.
fn number_scale(cell: &Expr) -> Option<i64> {
    match cell {
        Expr::Nested(inner) => number_scale(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => number_scale(expr),
        Expr::BinaryOp { left, op, right } => {
            let scales = (number_scale(left)?, number_scale(right)?);
            match (op, scales) {
                (BinaryOperator::Plus | BinaryOperator::Minus, (a @ 0.., b @ 0..)) => Some(a.max(b)),
                (BinaryOperator::Multiply, (a @ 0.., b @ 0..)) => Some(a + b),
                (BinaryOperator::Plus | BinaryOperator::Minus | BinaryOperator::Multiply, _) => Some(-1),
                _ => None,
            }
        }
        Expr::Cast { data_type: DataType::Numeric(_) | DataType::Decimal(_), array: false, .. } => Some(-1),
        Expr::Cast { data_type, array: false, .. } if is_integer(data_type) => Some(0),
        Expr::Value(value) => match &value.value {
            // An exponent moves the point, and what has too many digits is cast.
            Value::Number(digits, _) if digits.contains(['e', 'E']) || digits.len() > DECIMAL_DIGITS => Some(-1),
            Value::Number(digits, _) => {
                let scale = digits.split_once('.').map_or(0, |(_, fraction)| fraction.len());
                i64::try_from(scale).ok()
            }
            _ => None,
        },
        _ => None,
    }
}

fn is_integer(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::SmallInt(_)
            | DataType::Int2(_)
            | DataType::Int(_)
            | DataType::Integer(_)
            | DataType::Int4(_)
            | DataType::BigInt(_)
            | DataType::Int8(_)
    )
}

/// Whether cells are numbers with different digits after the point, which each of them keeps.
fn has_several_scales<'a>(cells: impl Iterator<Item = &'a Expr>) -> bool {
    let is_open = |cell: &Expr| is_unknown(cell) || is_null(cell);
    let mut scales = Vec::new();
    for cell in cells.filter(|cell| !is_open(cell)) {
        match number_scale(cell) {
            Some(scale) => scales.push(scale),
            None => return false,
        }
    }
    scales.iter().any(|scale| *scale != scales[0])
}

/// Rows of a `VALUES` with subqueries that are planned, at most.
const SUBQUERY_ROWS_MAX: usize = 100;

/// Makes a `VALUES` with subqueries, which DataFusion takes for constants, a UNION of its rows, and one that names
/// columns of the query around it, whose types are not known here: those of a UNION become one.
///
/// # Errors
/// 0A000 for more than [`SUBQUERY_ROWS_MAX`] rows with subqueries.
pub(crate) fn rows_apart(query: &mut Query) -> Result<()> {
    let SetExpr::Values(values) = query.body.as_ref() else { return Ok(()) };
    let cells = || values.rows.iter().flat_map(|row| &row.content);
    let has_subqueries = cells().any(has_subquery);
    let few = values.rows.len() <= SUBQUERY_ROWS_MAX;
    let has_columns = few && values.rows.len() > 1 && cells().any(names_column);
    if !has_subqueries && !has_columns {
        return Ok(());
    }
    if !few {
        let what = format!("a subquery in a VALUES of more than {SUBQUERY_ROWS_MAX} rows");
        return Err(SqlError::unsupported(what));
    }
    let row = |cells: &[Expr]| {
        let named = cells.iter().enumerate().map(|(at, cell)| format!("{cell} AS column{}", at + 1));
        format!("SELECT {}", named.collect::<Vec<_>>().join(", "))
    };
    let rows = values.rows.iter().map(|cells| row(&cells.content)).collect::<Vec<_>>();
    query.body = parsed_query(&rows.join(" UNION ALL "))?.body;
    Ok(())
}

/// Whether a cell names a column.
fn names_column(cell: &Expr) -> bool {
    let found = visit_expressions(cell, |expr| match expr {
        Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        Expr::Identifier(name) if !KEYWORDS.contains(&fold(name).as_str()) && fold(name) != "default" => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// `value IN (VALUES (1), (2))` as a list, which key ranges are made of; `value IN (query)` for every other query. One
/// that is VALUES alone is a select there, since DataFusion makes joins of these only.
///
/// # Errors
/// Internal: what was written is no expression.
pub(super) fn within(value: &Expr, query: &Query, negated: bool) -> Result<Expr> {
    if let Some(list) = listed(query) {
        return Ok(Expr::InList { expr: Box::new(value.clone()), list, negated });
    }
    let negation = if negated { "NOT " } else { "" };
    match query.body.as_ref() {
        SetExpr::Values(_) => parsed_expr(&format!("({value} {negation}IN (SELECT * FROM ({query}) AS listed))")),
        _ => parsed_expr(&format!("({value} {negation}IN ({query}))")),
    }
}

/// The rows of a query that is VALUES alone, of as many cells each, none of which asks a query.
fn listed(query: &Query) -> Option<Vec<Expr>> {
    let SetExpr::Values(values) = query.body.as_ref() else { return None };
    let is_alone = query.with.is_none() && query.limit_clause.is_none() && query.fetch.is_none();
    let cells = values.rows.first()?.content.len();
    let fits = |cells_of: &[Expr]| cells_of.len() == cells && !cells_of.iter().any(has_subquery);
    if !is_alone || !values.rows.iter().all(|row| fits(&row.content)) {
        return None;
    }
    let one = |cells: &[Expr]| match cells {
        [only] => only.clone(),
        several => Expr::Tuple(several.to_vec()),
    };
    Some(values.rows.iter().map(|row| one(&row.content)).collect())
}

/// Whether an expression asks a query.
fn has_subquery(expr: &Expr) -> bool {
    let asks = |expr: &Expr| match expr {
        Expr::Subquery(_) | Expr::InSubquery { .. } | Expr::Exists { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    visit_expressions(expr, asks).is_break()
}

/// Gives the quoted texts of a column the type of the first cell that has one; and NULLs, where that has a length,
/// which DataFusion wants all of them to bear.
fn cast_quoted(values: &mut Values, at: usize) {
    let cells = || values.rows.iter().map(|row| &row.content[at]);
    let Some(known) = cells().find(|cell| has_type(cell)).cloned() else { return };
    let nulls_too = matches!(known, Expr::Cast { data_type: DataType::Char(_) | DataType::Character(_), .. });
    let is_open = |cell: &&mut Expr| is_unknown(cell) || nulls_too && is_null(cell);
    for cell in values.rows.iter_mut().map(|row| &mut row.content[at]).filter(is_open) {
        *cell = call(TEXT_BESIDE, [std::mem::replace(cell, Expr::Identifier("".into())), known.clone()]);
    }
}

/// Has the numbers of a column with digits after the point be floating point where another cell is, as that cell's type
/// says once it is known; DataFusion would make numerics of all.
fn float_numbers(values: &mut Values, at: usize) {
    let is_number = |cell: &Expr| number_scale(cell).is_some_and(|scale| scale != 0);
    let is_open = |cell: &Expr| number_scale(cell).is_some() || is_unknown(cell) || !has_type(cell);
    let cells = || values.rows.iter().map(|row| &row.content[at]);
    if !cells().any(is_number) {
        return;
    }
    let others: Vec<&Expr> = cells().filter(|cell| !is_open(cell)).collect();
    let Some(beside) = others.iter().find(|cell| is_float(cell)).or(others.first()) else { return };
    let beside = (*beside).clone();
    for cell in values.rows.iter_mut().map(|row| &mut row.content[at]).filter(|cell| is_number(cell)) {
        *cell = call(NUMBER_BESIDE, [std::mem::replace(cell, Expr::Identifier("".into())), beside.clone()]);
    }
}

/// Whether a cell is cast to a floating-point type.
fn is_float(cell: &Expr) -> bool {
    let Expr::Cast { data_type, array: false, .. } = cell else { return false };
    matches!(
        data_type,
        DataType::Double(_) | DataType::DoublePrecision | DataType::Float(_) | DataType::Float8 | DataType::Real
    )
}

#[cfg(test)]
mod tests {
    use crate::testing::parse;
    use datafusion::sql::sqlparser::ast::{SetExpr, Statement};
    use expect_test::{Expect, expect};

    fn check(sql: &str, expected: Expect) {
        let Statement::Query(mut query) = parse(sql) else { panic!("no query: {sql}") };
        let SetExpr::Values(values) = query.body.as_mut() else { panic!("no values: {sql}") };
        super::rewrite(values);
        expected.assert_eq(&query.to_string());
    }

    #[test]
    fn literals_have_the_type_of_the_casts_beside_them() {
        check(
            "VALUES ('a'::varchar(3), 1), ('b', 2)",
            expect!["VALUES (CAST('a'::VARCHAR(3) AS VARCHAR), 1), (CAST('b' AS VARCHAR), 2)"],
        );
        check("VALUES (NULL), ($1::uuid)", expect!["VALUES (CAST(NULL AS UUID)), (CAST($1::UUID AS UUID))"]);
        check(
            "VALUES ('a'::text), ('b'::varchar)",
            expect!["VALUES (CAST('a'::TEXT AS TEXT)), (CAST('b'::VARCHAR AS TEXT))"],
        );
        check(
            "VALUES ('a'::varchar), (upper('b'))",
            expect!["VALUES (CAST('a'::VARCHAR AS TEXT)), (CAST(upper('b') AS TEXT))"],
        );
    }

    #[test]
    fn what_is_alike_or_unknown_stays() {
        check("VALUES ('a'::VARCHAR), ('b'::VARCHAR)", expect!["VALUES ('a'::VARCHAR), ('b'::VARCHAR)"]);
        check("VALUES ('b'), ($1), (NULL)", expect!["VALUES ('b'), ($1), (NULL)"]);
        check("VALUES (1), (2::BIGINT)", expect!["VALUES (1), (2::BIGINT)"]);
        check("VALUES ('{}'::JSON), (f())", expect!["VALUES ('{}'::JSON), (f())"]);
    }

    #[test]
    fn quoted_texts_are_what_stands_beside_them() {
        check(
            "VALUES (0::float8), (0.1), (f())",
            expect!["VALUES (0::FLOAT8), (number_beside(0.1, 0::FLOAT8)), (f())"],
        );
        check("VALUES ('1', 'a'), (-2, NULL)", expect!["VALUES (text_beside('1', -2), 'a'), (-2, NULL)"]);
        check(
            "VALUES (NULL), ('10:00'), (f()), (time '11:00')",
            expect!["VALUES (NULL), (text_beside('10:00', f())), (f()), (TIME '11:00')"],
        );
    }
}
