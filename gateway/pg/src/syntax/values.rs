//! Rows of `VALUES` whose columns have casts in some rows only: `VALUES ('a'::varchar), ('b')`.
//!
//! DataFusion puts rows together when the names of their types are the same too, which `varchar`, `uuid`, `json` and `jsonb` bear and literals do
//! not. As in PostgreSQL a literal has the type of the casts beside it, without a length, and what is `varchar` here and `text` there is `text`. What a
//! quoted text is beside anything else is known when types are ([`BESIDE`]).

use super::build::call;
use crate::functions::lists::BESIDE;
use datafusion::sql::sqlparser::ast::{CastKind, DataType, Expr, UnaryOperator, Value, Values};

/// Gives each column one type, where casts say which.
pub(crate) fn rewrite(values: &mut Values) {
    let columns = values.rows.iter().map(|row| row.content.len()).min().unwrap_or_default();
    for at in 0..columns {
        let Some(wanted) = common(values.rows.iter().map(|row| &row.content[at])) else {
            beside(values, at);
            continue;
        };
        for row in &mut values.rows {
            let expr = Box::new(std::mem::replace(&mut row.content[at], Expr::Identifier("".into())));
            let data_type = wanted.clone();
            row.content[at] = Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None };
        }
    }
}

/// Gives the quoted texts of a column the type of the first cell that has one.
fn beside(values: &mut Values, at: usize) {
    let cells = || values.rows.iter().map(|row| &row.content[at]);
    let Some(known) = cells().find(|cell| said(cell) != Said::Nothing || is_value(cell)).cloned() else { return };
    for cell in values.rows.iter_mut().map(|row| &mut row.content[at]).filter(|cell| is_text(cell)) {
        *cell = call(BESIDE, [std::mem::replace(cell, Expr::Identifier("".into())), known.clone()]);
    }
}

fn is_text(cell: &Expr) -> bool {
    match cell {
        Expr::Nested(inner) => is_text(inner),
        Expr::Value(value) => matches!(
            value.value,
            Value::SingleQuotedString(_) | Value::EscapedStringLiteral(_) | Value::DollarQuotedString(_)
        ),
        _ => false,
    }
}

/// Whether it is a number or a boolean.
fn is_value(cell: &Expr) -> bool {
    match cell {
        Expr::Nested(inner) => is_value(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => is_value(expr),
        Expr::Value(value) => matches!(value.value, Value::Number(..) | Value::Boolean(_)),
        _ => false,
    }
}

/// What a cell says of its type.
#[derive(PartialEq)]
enum Said {
    /// A literal or a parameter: nothing.
    Nothing,
    /// It is cast to a type.
    Cast(DataType),
    /// What it computes.
    Other,
}

fn said(cell: &Expr) -> Said {
    match cell {
        Expr::Nested(inner) => said(inner),
        Expr::Value(_) => Said::Nothing,
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => said(expr),
        Expr::Cast { data_type, array: false, .. } => Said::Cast(data_type.clone()),
        _ => Said::Other,
    }
}

/// The type without its length, if it is one that bears a name.
fn named(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Varchar(_) | DataType::CharacterVarying(_) => Some(DataType::Varchar(None)),
        DataType::Uuid => Some(DataType::Uuid),
        DataType::JSON => Some(DataType::JSON),
        DataType::JSONB => Some(DataType::JSONB),
        _ => None,
    }
}

/// The type that the cells of a column are to be cast to; `None` where they are alike, or nothing is known.
fn common<'a>(cells: impl Iterator<Item = &'a Expr>) -> Option<DataType> {
    let said: Vec<Said> = cells.map(said).collect();
    let casts = || said.iter().filter_map(|said| if let Said::Cast(to) = said { Some(to) } else { None });
    if !casts().any(|to| named(to).is_some()) || said.iter().all(|other| *other == said[0]) {
        return None;
    }
    let first = casts().next().and_then(named);
    let same = casts().all(|to| named(to) == first) && !said.contains(&Said::Other);
    if same {
        return first;
    }
    let text = |to: &DataType| matches!(to, DataType::Text) || named(to) == Some(DataType::Varchar(None));
    casts().all(text).then_some(DataType::Text)
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
        check("VALUES ('1', 'a'), (-2, NULL)", expect!["VALUES (text_beside('1', -2), 'a'), (-2, NULL)"]);
        check(
            "VALUES (NULL), ('10:00'), (f()), (time '11:00')",
            expect!["VALUES (NULL), (text_beside('10:00', f())), (f()), (TIME '11:00')"],
        );
    }
}
