//! The common type of several values, and which type a quoted text takes: PostgreSQL's `select_common_type` and its
//! literals of type `unknown`.
//!
//! A quoted text has no type until its neighbours give it one. DataFusion plans it as a literal of `Utf8`, all other
//! text being `Utf8View`, so that [`is_unknown`] can tell it from a value that is text. All who resolve types ask here:
//!
//! | where | asked by | rule |
//! |---|---|---|
//! | cells of `VALUES`, as written | [`values`](crate::syntax::values) | [`syntax`]: the casts of a column agree on a type |
//! | operators, while planned | [`operators`](crate::plan::operators) | [`beside`]: the type of the other side |
//! | columns of UNION, once planned | [`unions`](crate::plan::unions) | [`of_columns`]: the one type of the other queries |
//! | parameters, once planned | [`parameters`](crate::plan::parameters) | [`first_known`]: the type of the first argument that has one |
//! | comparisons, IN, BETWEEN, CASE, functions | [`literals`](crate::plan::literals) | [`of_exprs`]: the one type of the others |
//! | arguments of `coalesce` and its kin, when types are coerced | [`same_type`](crate::functions::same_type) | [`arguments`] |
//!
//! Where a type is a `numeric` with a precision, the literal keeps the digits that it has ([`literal_type`]). Numbers
//! of several types have one together by [`of_numbers`]: a float, to which numerics give way, or the form of a numeric
//! that has the digits of all ([`numeric`]).

use crate::{
    numeric,
    types::{self, is_text},
};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::{
    common::DFSchema,
    logical_expr::{Cast, Expr, ExprSchemable, expr::Placeholder},
    scalar::ScalarValue,
};
use std::sync::Arc;

pub(crate) mod arguments;
pub(crate) mod syntax;

/// Functions whose arguments are of one type.
pub(crate) const SAME_TYPE: [&str; 4] = ["coalesce", "greatest", "least", "nullif"];

/// Whether an expression is a quoted text without a type of its own.
pub(crate) fn is_unknown(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(ScalarValue::Utf8(Some(_)), _))
}

/// Whether values of a type compare with a quoted text only once that is cast: DataFusion would compare them as texts,
/// or not at all.
pub(crate) fn needs_cast(data: &DataType) -> bool {
    matches!(data, DataType::FixedSizeBinary(_) | DataType::Binary | DataType::Boolean | DataType::UInt32)
        || types::is_bits(data)
        || data.is_temporal()
        || numeric::is_number(data)
        || matches!(data, DataType::List(_))
}

/// The type of a quoted text beside a value of a type: a `numeric` with all the digits that the text has.
pub(crate) fn literal_type(literal: &Expr, data: &DataType) -> DataType {
    let (DataType::Decimal128(precision, scale), Expr::Literal(ScalarValue::Utf8(Some(text)), _)) = (data, literal)
    else {
        return data.clone();
    };
    let (whole, fraction) = text.trim().trim_start_matches(['-', '+']).split_once('.').unwrap_or((text.trim(), ""));
    let is_plain =
        whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit() || byte == b'-' || byte == b'+');
    let has = |count: usize| i8::try_from(count).unwrap_or(i8::MAX);
    let before = i8::try_from(*precision).unwrap_or(i8::MAX) - scale;
    if is_plain && has(fraction.len()) <= *scale && has(whole.len()) <= before {
        return data.clone();
    }
    let digits = |count: usize| i32::try_from(count).unwrap_or(i32::MAX / 2);
    match numeric::with_digits(digits(whole.len()).max(before.into()), digits(fraction.len()).max((*scale).into())) {
        wider @ DataType::Decimal128(..) if is_plain => wider,
        _ => numeric::EXACT,
    }
}

/// Casts an expression to a type if it is a quoted text.
pub(crate) fn cast_unknown(expr: &mut Expr, data: &DataType) {
    if is_unknown(expr) {
        let text = std::mem::take(expr);
        let data = literal_type(&text, data);
        *expr = Expr::Cast(Cast::new(Box::new(text), data));
    }
}

/// A quoted text cast to the type of a field, its name in PostgreSQL included.
pub(crate) fn cast_to_field(text: Expr, field: &Field) -> Expr {
    let data = literal_type(&text, field.data_type());
    cast_with_data(text, field, data)
}

/// An expression cast to the type of a field, with any number of digits if that is a `numeric`.
pub(crate) fn cast_without_digits(expr: Expr, field: &Field) -> Expr {
    let data = types::without_digits(field.data_type());
    cast_with_data(expr, field, data)
}

fn cast_with_data(expr: Expr, field: &Field, data: DataType) -> Expr {
    let field = field.clone().with_name("cast").with_data_type(data).with_nullable(true);
    Expr::Cast(Cast::new_from_field(Box::new(expr), Arc::new(field)))
}

/// One side of an operator, cast to the type of the other side if it is a quoted text and that has another type than
/// text.
pub(crate) fn beside(mut side: Expr, other: &Expr, schema: &DFSchema) -> Expr {
    if !is_unknown(&side) || is_unknown(other) {
        return side;
    }
    if let Ok(data) = other.get_type(schema)
        && !is_text(&data)
        && !data.is_null()
        && (!data.is_nested() || matches!(data, DataType::List(_)))
    {
        cast_unknown(&mut side, &data);
    }
    side
}

/// The type of several expressions, if all that are neither quoted texts nor NULL are of one type, and literals
/// [need](needs_cast) a cast beside it.
pub(crate) fn of_exprs<'a>(all: impl IntoIterator<Item = &'a Expr>, schema: &DFSchema) -> Option<DataType> {
    let typed = all.into_iter().filter(|expr| !is_unknown(expr)).map(|expr| expr.get_type(schema));
    let mut typed = typed.filter(|data| !matches!(data, Ok(DataType::Null)));
    let first = typed.next()?.ok().filter(needs_cast)?;
    typed.all(|data| data.is_ok_and(|data| data == first)).then_some(first)
}

/// The type of a column of several queries, if all columns but NULLs are of one type that is no text.
pub(crate) fn of_columns<'a>(columns: impl IntoIterator<Item = &'a FieldRef>) -> Option<&'a FieldRef> {
    let mut typed = columns.into_iter().filter(|field| !field.data_type().is_null());
    let first = typed.next()?;
    let same = typed.all(|field| field.data_type() == first.data_type());
    (same && !is_text(first.data_type())).then_some(first)
}

/// The type of the first argument that has one: neither a parameter without a type, nor a quoted text, nor NULL.
pub(crate) fn first_known(arguments: &[Expr], schema: &DFSchema) -> Option<FieldRef> {
    let is_open = |expr: &Expr| matches!(expr, Expr::Placeholder(Placeholder { field: None, .. }));
    arguments.iter().filter(|expr| !is_open(expr)).find_map(|expr| {
        let (_, field) = expr.to_field(schema).ok()?;
        (!matches!(field.data_type(), DataType::Null | DataType::Utf8)).then_some(field)
    })
}

/// A numeric as a double, as which PostgreSQL takes it beside one: a literal as the double that it is the text of.
pub(crate) fn as_double(expr: Expr) -> Expr {
    if let Expr::Literal(literal, metadata) = &expr
        && let Ok(double) = numeric::cast::convert_scalar(literal, &DataType::Float64)
    {
        return Expr::Literal(double, metadata.clone());
    }
    Expr::Cast(Cast::new(Box::new(expr), DataType::Float64))
}

/// The type that values of several types of numbers have together: of a CASE, of a column of several queries. `None`
/// where there are other types, or one alone.
pub(crate) fn of_numbers<'a>(types: impl IntoIterator<Item = &'a DataType>) -> Option<DataType> {
    let mut common: Option<DataType> = None;
    let mut differ = false;
    for data in types.into_iter().filter(|data| !data.is_null()) {
        if !numeric::is_number(data) {
            return None;
        }
        common = Some(match common {
            None => data.clone(),
            Some(known) if known == *data => known,
            Some(known) => {
                differ = true;
                united(&known, data)
            }
        });
    }
    common.filter(|_| differ)
}

fn united(left: &DataType, right: &DataType) -> DataType {
    match (left, right) {
        (DataType::Float64, _) | (_, DataType::Float64) => DataType::Float64,
        (float, other) | (other, float) if float.is_floating() => {
            if other.is_floating() {
                float.clone()
            } else {
                DataType::Float64
            }
        }
        (left, right) if left.is_integer() && right.is_integer() => {
            if left.primitive_width() >= right.primitive_width() { left.clone() } else { right.clone() }
        }
        (left, right) => numeric::united(left, right),
    }
}

/// An expression as one of a type of numbers.
pub(crate) fn as_number(expr: Expr, from: &DataType, to: &DataType) -> Expr {
    match (from, to) {
        (from, to) if from == to => expr,
        (from, DataType::Float64) if numeric::is_numeric(from) => as_double(expr),
        _ => Expr::Cast(Cast::new(Box::new(expr), to.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::prelude::lit;
    use expect_test::{Expect, expect};

    #[test]
    fn quoted_texts_take_the_type_beside_them() {
        let check = |text: &str, data: DataType, expected: Expect| {
            let text = Expr::Literal(ScalarValue::Utf8(Some(text.to_owned())), None);
            let other = Expr::Cast(Cast::new(Box::new(lit(ScalarValue::Null)), data));
            expected.assert_eq(&beside(text, &other, &DFSchema::empty()).to_string());
        };
        check("1", DataType::Int32, expect![[r#"CAST(Utf8("1") AS Int32)"#]]);
        check("1.255", DataType::Decimal128(4, 2), expect![[r#"CAST(Utf8("1.255") AS Decimal128(5, 3))"#]]);
        check("1.2", DataType::Decimal128(4, 2), expect![[r#"CAST(Utf8("1.2") AS Decimal128(4, 2))"#]]);
        check("a", DataType::Utf8View, expect![[r#"Utf8("a")"#]]);
        check("{1}", types::list_of(DataType::Int32), expect![[r#"CAST(Utf8("{1}") AS List(Int32))"#]]);
    }

    #[test]
    fn several_expressions_have_a_type_if_they_agree() {
        let value = |data| Expr::Cast(Cast::new(Box::new(lit(ScalarValue::Null)), data));
        let text = Expr::Literal(ScalarValue::Utf8(Some("1".to_owned())), None);
        let check = |all: &[Expr], expected: Expect| {
            expected.assert_eq(&format!("{:?}", of_exprs(all, &DFSchema::empty())));
        };
        check(&[text.clone(), value(DataType::Date32)], expect!["Some(Date32)"]);
        check(&[lit(ScalarValue::Null), value(DataType::Date32), value(DataType::Date32)], expect!["Some(Date32)"]);
        check(&[value(DataType::Int32), value(DataType::Int64)], expect!["None"]);
        check(&[value(DataType::Utf8View), text.clone()], expect!["None"]);
        check(&[text], expect!["None"]);
    }
}
