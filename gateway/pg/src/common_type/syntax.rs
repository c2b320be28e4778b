//! Types of cells of `VALUES`, as far as the text tells them: a cast says a type, a literal says none.

use crate::syntax::build::is_quoted;
use datafusion::sql::sqlparser::ast::{DataType, Expr, TimezoneInfo, UnaryOperator, Value};

/// What a cell says of its type.
#[derive(PartialEq)]
enum Said {
    /// A literal or a parameter: nothing.
    Nothing,
    /// It is cast to a type.
    Cast(DataType),
    /// It computes something.
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

/// Whether a cell is a number or a boolean.
fn is_typed_literal(cell: &Expr) -> bool {
    match cell {
        Expr::Nested(inner) => is_typed_literal(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => is_typed_literal(expr),
        Expr::Value(value) => matches!(value.value, Value::Number(..) | Value::Boolean(_)),
        _ => false,
    }
}

/// Whether a cell is a quoted text, in parentheses or not.
pub(crate) fn is_unknown(cell: &Expr) -> bool {
    match cell {
        Expr::Nested(inner) => is_unknown(inner),
        other => is_quoted(other),
    }
}

/// Whether a cell has a type of its own: it is cast or computed, or a number or a boolean.
pub(crate) fn has_type(cell: &Expr) -> bool {
    said(cell) != Said::Nothing || is_typed_literal(cell)
}

/// The type without its length, if Arrow has it under a name only: `varchar`, `uuid`, `json`, `jsonb`.
fn named(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Varchar(_) | DataType::CharacterVarying(_) => Some(DataType::Varchar(None)),
        DataType::Uuid => Some(DataType::Uuid),
        DataType::JSON => Some(DataType::JSON),
        DataType::JSONB => Some(DataType::JSONB),
        _ => None,
    }
}

/// How much the type of a cell holds of a time: 0 of a date, 2 of a `timestamptz`.
fn time_rank(cell: &Expr) -> Option<u8> {
    let data_type = match cell {
        Expr::Nested(inner) => return time_rank(inner),
        Expr::Cast { data_type, array: false, .. } => data_type,
        Expr::TypedString(typed) => &typed.data_type,
        _ => return None,
    };
    match data_type {
        DataType::Date => Some(0),
        DataType::Timestamp(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => Some(1),
        DataType::Timestamp(_, TimezoneInfo::Tz | TimezoneInfo::WithTimeZone) => Some(2),
        _ => None,
    }
}

/// The type of cells that are dates and timestamps: that which holds most.
fn of_times(cells: &[&Expr]) -> Option<DataType> {
    let typed = || cells.iter().filter(|cell| said(cell) != Said::Nothing);
    let ranks: Vec<u8> = typed().map(|cell| time_rank(cell)).collect::<Option<_>>()?;
    let (least, most) = (ranks.iter().min()?, ranks.iter().max()?);
    let zone = if *most == 2 { TimezoneInfo::WithTimeZone } else { TimezoneInfo::None };
    (least < most).then_some(DataType::Timestamp(None, zone))
}

/// The type to which the cells of a column are to be cast; `None` where they say the same, or do not tell.
pub(crate) fn of_cells<'a>(cells: impl Iterator<Item = &'a Expr>) -> Option<DataType> {
    let cells: Vec<&Expr> = cells.collect();
    if let Some(kind) = of_times(&cells) {
        return Some(kind);
    }
    let said: Vec<Said> = cells.into_iter().map(said).collect();
    let casts = || said.iter().filter_map(|said| if let Said::Cast(to) = said { Some(to) } else { None });
    if !casts().any(|to| named(to).is_some()) || said.iter().all(|other| *other == said[0]) {
        return None;
    }
    let first = casts().next().and_then(named);
    let same = casts().all(|to| named(to) == first) && !said.contains(&Said::Other);
    if same {
        return first;
    }
    let is_text = |to: &DataType| matches!(to, DataType::Text) || named(to) == Some(DataType::Varchar(None));
    casts().all(is_text).then_some(DataType::Text)
}
