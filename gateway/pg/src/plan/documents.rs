//! json and jsonb that come out of CASE, `coalesce` and its kin, and scalar subqueries: a part of the rule of
//! [`literals`](super::literals).
//!
//! Both types are text to Arrow, under a name that a field bears; DataFusion drops the name there. So such an expression
//! stands in a function that gives its value back under that name: the client is told the type, and what puts documents
//! together takes it for one. Quoted texts beside a document are read as one.

use crate::{
    common_type::{SAME_TYPE, cast_to_field, is_unknown},
    functions::{
        json::{self, a_json, a_jsonb, key},
        scalar_function::{self, RowFunction, variadic},
    },
    plan::casts,
    types,
};
use arrow::datatypes::{DataType, Field};
use datafusion::{
    common::DFSchema,
    logical_expr::{Expr, ExprSchemable, ScalarUDF, expr::ScalarFunction},
    scalar::ScalarValue,
};
use std::sync::{Arc, LazyLock};

const MARKS: [(&str, &str); 2] = [("json", "keyspan_json"), ("jsonb", "keyspan_jsonb")];

/// The functions.
pub fn functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    let mark = |(kind, name): (&str, &'static str)| -> RowFunction {
        let returns = if kind == "json" { a_json } else { a_jsonb };
        variadic(name, 1, returns, |call| Ok(call.values[0].clone())).with_columns(|values, _, _| match values {
            [datafusion::logical_expr::ColumnarValue::Array(array)] if *array.data_type() == DataType::Utf8View => {
                Ok(Some(Arc::clone(array)))
            }
            _ => Ok(None),
        })
    };
    scalar_function::functions(MARKS.map(mark))
}

/// Whether a value is json or jsonb, and which.
pub(super) fn kind(expr: &Expr, schema: &DFSchema) -> Option<&'static str> {
    let of_field = |field: &Field| match json::kind(field) {
        Some("json") => Some("json"),
        Some("jsonb") => Some("jsonb"),
        _ => None,
    };
    match expr {
        Expr::Alias(alias) => kind(&alias.expr, schema),
        Expr::Case(case) => {
            let results = case.when_then_expr.iter().map(|(_, then)| then).chain(&case.else_expr);
            of_several(results.map(AsRef::as_ref), schema)
        }
        Expr::ScalarFunction(call) if SAME_TYPE.contains(&call.func.name()) => of_several(&call.args, schema),
        Expr::ScalarSubquery(subquery) => of_field(subquery.subquery.schema().fields().first()?),
        Expr::ScalarFunction(call) if let Some(target) = casts::target(&call.func) => of_field(&target),
        // The type of any other call is that of its arguments, which takes the square of their depth.
        Expr::ScalarFunction(call) if !call.func.name().contains("json") => None,
        Expr::BinaryExpr(_) | Expr::Not(_) | Expr::Like(_) | Expr::InList(_) | Expr::Between(_) => None,
        other => of_field(&other.to_field(schema).ok()?.1),
    }
}

/// The kind of values of which those that have a type are all of it.
fn of_several<'a>(all: impl IntoIterator<Item = &'a Expr>, schema: &DFSchema) -> Option<&'static str> {
    let open = |expr: &&Expr| is_unknown(expr) || matches!(expr, Expr::Literal(literal, _) if literal.is_null());
    let mut kinds = all.into_iter().filter(|expr| !open(expr)).map(|expr| kind(expr, schema));
    let first = kinds.next()??;
    kinds.all(|kind| kind == Some(first)).then_some(first)
}

/// Reads a quoted text, or the value of a parameter, as a document.
pub(super) fn read(text: &mut Expr, kind: &str) {
    // A parameter's value is text, since Arrow's type of both is one.
    let is_value = matches!(text, Expr::Placeholder(_) | Expr::Literal(ScalarValue::Utf8View(Some(_)), _));
    if is_unknown(text) || is_value {
        let field = types::named(Field::new("cast", DataType::Utf8View, true), kind);
        *text = cast_to_field(std::mem::take(text), &field);
    }
}

/// The expression under the name of its kind, if it is one that would lose it.
pub(super) fn marked(mut expr: Expr, schema: &DFSchema) -> Expr {
    let Some(kind) = kind(&expr, schema) else { return expr };
    match &mut expr {
        Expr::Case(case) => {
            let results = case.when_then_expr.iter_mut().map(|(_, then)| then).chain(&mut case.else_expr);
            results.for_each(|result| read(result, kind));
        }
        Expr::ScalarFunction(call) => call.args.iter_mut().for_each(|argument| read(argument, kind)),
        _ => {}
    }
    mark(kind).call(vec![expr])
}

fn mark(kind: &str) -> Arc<ScalarUDF> {
    function(MARKS.iter().find(|(of, _)| *of == kind).map_or("", |(_, name)| name))
}

fn function(name: &str) -> Arc<ScalarUDF> {
    static ALL: LazyLock<Vec<Arc<ScalarUDF>>> = LazyLock::new(|| functions().collect());
    Arc::clone(ALL.iter().find(|function| function.name() == name).expect("a function of this file"))
}

/// Whether it is one of the functions: a plan may be seen twice.
pub(super) fn is_mark(call: &ScalarFunction) -> bool {
    MARKS.iter().any(|(_, name)| *name == call.func.name())
}

/// A mark around a mark.
pub(super) fn once(mut call: ScalarFunction) -> Expr {
    match call.args.as_slice() {
        [Expr::ScalarFunction(inner)] if is_mark(inner) => call.args.remove(0),
        _ => Expr::ScalarFunction(call),
    }
}

/// The sides of a comparison of documents: a text beside one is read as one.
pub(super) fn compared(left: &mut Expr, right: &mut Expr, schema: &DFSchema) {
    if kind(left, schema) == Some("jsonb") {
        read(right, "jsonb");
    } else if kind(right, schema) == Some("jsonb") {
        read(left, "jsonb");
    }
    // What is given loses the name of its type before the rule of orders sees it.
    if is_given(left) && is_given(right) && kind(left, schema).zip(kind(right, schema)) == Some(("jsonb", "jsonb")) {
        for side in [left, right] {
            *side = key::jsonb_key().call(vec![std::mem::take(side)]);
        }
    }
}

fn is_given(expr: &Expr) -> bool {
    match expr {
        Expr::Cast(cast) => is_given(&cast.expr),
        expr => matches!(expr, Expr::Literal(..)),
    }
}
