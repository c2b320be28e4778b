//! Comparisons with a `char(n)`, to which blanks at the end of a text mean nothing: its values are stored without them.

use crate::types;
use datafusion::{
    common::DFSchema,
    functions::string::rtrim,
    logical_expr::{Expr, ExprSchemable},
    scalar::ScalarValue,
};

fn is_char(expr: &Expr, schema: &DFSchema) -> bool {
    expr.to_field(schema).is_ok_and(|(_, field)| types::char_length(&field).is_some())
}

/// Where one side of a comparison is a `char(n)`, the others lose the blanks at their ends: literals, parameters, and
/// what is `varchar`.
pub(crate) fn trim_beside_char<'a>(sides: impl IntoIterator<Item = &'a mut Expr>, schema: &DFSchema) {
    let mut sides: Vec<&mut Expr> = sides.into_iter().collect();
    if !sides.iter().any(|side| is_char(side, schema)) {
        return;
    }
    for side in &mut sides {
        trim(side);
        if is_varchar(side, schema) {
            **side = rtrim().call(vec![std::mem::take(*side)]);
        }
    }
}

fn is_varchar(expr: &Expr, schema: &DFSchema) -> bool {
    matches!(expr, Expr::Column(_) | Expr::Cast(_))
        && expr.to_field(schema).is_ok_and(|(_, field)| {
            field.metadata().get(types::TYPE_KEY).is_some_and(|name| name.starts_with("character varying"))
        })
}

/// A literal or a parameter without blanks at its end. A text that is cast to text keeps them, but for a parameter,
/// whose cast only declares its type.
pub(crate) fn trim(side: &mut Expr) {
    match side {
        Expr::Literal(ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)), _) => {
            text.truncate(text.trim_end_matches(' ').len());
        }
        Expr::Placeholder(_) => *side = rtrim().call(vec![std::mem::take(side)]),
        Expr::Cast(cast) if matches!(*cast.expr, Expr::Placeholder(_) | Expr::Literal(ScalarValue::Utf8View(_), _)) => {
            trim(&mut cast.expr);
        }
        _ => {}
    }
}
