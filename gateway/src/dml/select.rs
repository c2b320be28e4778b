//! Trees of SELECTs that writes are planned as, and what PostgreSQL does to values on their way into columns while it
//! parses.

use super::target::{Target, TargetColumn};
use crate::pg::{
    error::Result,
    functions::subscript_assignment::{ELEMENT, SLICE},
    ident::quoted,
    names::{self, RelationName},
    numeric::negated,
    syntax::{build::select_from, dialect::parse_text},
    types::{self, ParameterType},
};
use datafusion::sql::sqlparser::{
    ast::{
        self, CastKind, Expr, Ident, ObjectName, ObjectNamePart, Query, Select, SelectItem, SetExpr, TableAlias,
        TableFactor, TableWithJoins, UnaryOperator, Value, ValueWithSpan, VisitMut, VisitorMut,
    },
    tokenizer::Span,
};
use keyspan_catalog::{
    SqlType,
    value::{array::ItemType, exact::Exact},
};
use std::ops::ControlFlow;

/// `SELECT items FROM tables WHERE condition`; each item gets a name of its own.
pub(crate) fn select(items: Vec<Expr>, from: Vec<TableWithJoins>, condition: Option<Expr>) -> Result<ast::Statement> {
    let mut query: Box<Query> = select_from(&RelationName::bare("t"), &[])?;
    if let SetExpr::Select(select) = query.body.as_mut() {
        let named = |(at, expr)| SelectItem::ExprWithAlias { expr, alias: quoted(&format!("c{at}")) };
        let select: &mut Select = select;
        select.projection = items.into_iter().enumerate().map(named).collect();
        select.from = from;
        select.selection = condition;
    }
    Ok(ast::Statement::Query(query))
}

/// `table.column`
pub(super) fn column(table: &Ident, name: &str) -> Expr {
    Expr::CompoundIdentifier(vec![table.clone(), quoted(name)])
}

/// The columns of the key behind the table's name.
pub(crate) fn key_items(target: &Target, table: &Ident) -> Vec<Expr> {
    target.key_columns().iter().map(|of| column(table, &of.name)).collect()
}

/// All columns behind the table's name.
pub(crate) fn all_items(target: &Target, table: &Ident) -> Vec<Expr> {
    target.columns.iter().map(|of| column(table, &of.name)).collect()
}

/// The table of a write as its SELECT reads it: with its hidden key, if it has one, under the name by which the
/// statement calls it.
pub(crate) fn read(target: &Target, table: &TableWithJoins, called: &Ident) -> TableWithJoins {
    let mut table = table.clone();
    if let TableFactor::Table { name, alias, .. } = &mut table.relation {
        let of = (!target.temporary).then_some(target.table.schema);
        let schema = names::target(of, target.hidden_key.is_some());
        let parts = [quoted(&schema), quoted(&target.table.name)].map(ObjectNamePart::Identifier);
        *name = ObjectName(parts.to_vec());
        alias.get_or_insert_with(|| TableAlias { explicit: true, name: called.clone(), columns: Vec::new(), at: None });
    }
    table
}

pub(crate) fn value(value: Value) -> Expr {
    Expr::Value(ValueWithSpan { value, span: Span::empty() })
}

/// A cast to the type of a column, without the length of a varchar or the digits of a second: they are
/// checked later, and a cast would cut.
pub(crate) fn cast(expr: Expr, kind: SqlType) -> Result<Expr> {
    let name = match kind {
        SqlType::Varchar(_) | SqlType::Char(_) | SqlType::Name => "text".to_owned(),
        SqlType::Bit(_) | SqlType::Varbit(_) => "varbit".to_owned(),
        SqlType::Array(ItemType::Varchar(_)) => "text[]".to_owned(),
        kind => types::type_name(kind.without_second_digits()),
    };
    let parsed = parse_text(&name, |parser| parser.parse_data_type());
    let data_type = parsed.map_err(|error| {
        crate::pg::error::SqlError::new(crate::pg::error::SqlState::INTERNAL_ERROR, format!("type {name}: {error}"))
    })?;
    Ok(Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None })
}

/// The number of a parameter that stands alone.
pub(super) fn parameter(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::Placeholder(name), .. }) => {
            name.strip_prefix('$').and_then(|number| number.parse().ok()).filter(|number| *number > 0)
        }
        Expr::Nested(inner) => parameter(inner),
        _ => None,
    }
}

/// A parameter that goes into a column has the column's type, unless the client said another.
pub(super) fn hint(hints: &mut Vec<Option<ParameterType>>, expr: &Expr, kind: SqlType) {
    if let Expr::Function(function) = expr
        && let ast::FunctionArguments::List(list) = &function.args
        && let SqlType::Array(item) = kind
    {
        hint_part(hints, &function.name.to_string(), &list.args, item);
    }
    let Some(number) = parameter(expr) else { return };
    if hints.len() < number {
        hints.resize(number, None);
    }
    hints[number - 1].get_or_insert_with(|| ParameterType::of_kind(kind));
}

/// Parameters in an assignment to a part of an array.
fn hint_part(hints: &mut Vec<Option<ParameterType>>, function: &str, arguments: &[ast::FunctionArg], item: ItemType) {
    let kind = match function {
        ELEMENT => item.kind(),
        SLICE => SqlType::Array(item),
        _ => return,
    };
    let mut exprs = arguments.iter().filter_map(|argument| match argument {
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    });
    if let Some(held) = exprs.next() {
        hint(hints, held, SqlType::Array(item));
    }
    if let Some(value) = exprs.next_back() {
        hint(hints, value, kind);
    }
    exprs.for_each(|place| hint(hints, place, SqlType::Int4));
}

fn is_text(expr: &Expr) -> bool {
    let text = |value: &Value| {
        matches!(value, Value::SingleQuotedString(_) | Value::EscapedStringLiteral(_) | Value::DollarQuotedString(_))
    };
    matches!(expr, Expr::Value(literal) if text(&literal.value))
}

fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(literal) if literal.value == Value::Null)
}

/// The digits of a literal number, with its sign.
fn digits(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. }) => match number.contains(['e', 'E']) {
            // As messages show it.
            true => Exact::parse(number)?.ok().map(|number| number.to_text()),
            false => Some(number.to_string()),
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => digits(expr).map(|number| negated(&number)),
        _ => None,
    }
}

/// A literal number for a column of numbers that are no integers goes there as text: as it is written, whatever the
/// type of the cells beside it.
pub(super) fn keep_digits(expr: &mut Expr, kind: SqlType) {
    if matches!(kind, SqlType::Numeric { .. } | SqlType::Exact(_) | SqlType::Float4 | SqlType::Float8)
        && let Some(digits) = digits(expr)
    {
        *expr = value(Value::SingleQuotedString(digits));
    }
}

/// Makes the rows of a VALUES fit their columns: PostgreSQL types each literal by its column, DataFusion all rows of a
/// column alike.
pub(super) fn type_values(rows: &mut [ast::Parens<Vec<Expr>>], columns: &[&TargetColumn]) -> Result<()> {
    for (at, column) in columns.iter().enumerate() {
        for row in rows.iter_mut() {
            if let Some(expr) = row.content.get_mut(at) {
                keep_digits(expr, column.kind);
            }
        }
        let cells = || rows.iter().filter_map(|row| row.content.get(at)).filter(|cell| !is_null(cell));
        let mixed = cells().any(is_text) && !cells().all(is_text);
        let is_text_column =
            matches!(column.kind, SqlType::Text | SqlType::Name | SqlType::Varchar(_) | SqlType::Char(_));
        // Bits that are written out bear a name, and quoted texts none.
        if matches!(column.kind, SqlType::Bit(_) | SqlType::Varbit(_)) && !cells().all(is_text) {
            for row in rows.iter_mut() {
                if let Some(expr) = row.content.get_mut(at).filter(|cell| digits(cell).is_none()) {
                    *expr = cast(expr.clone(), column.kind)?;
                }
            }
            continue;
        }
        // What is cast to a kind of text bears its name.
        let bears = is_text_column && cells().any(|cell| matches!(cell, Expr::Cast { .. }));
        // DataFusion puts together only what bears the same name of a type, and of types that Arrow has no name for,
        // NULL and parameters bear none.
        if matches!(column.kind, SqlType::Uuid | SqlType::Json | SqlType::Jsonb | SqlType::Array(_))
            && !cells().all(is_text)
        {
            // Numerics with digits of their own and such without are two types of Arrow.
            let is_numeric = matches!(column.kind, SqlType::Array(ItemType::Numeric { .. } | ItemType::Exact(_)));
            for row in rows.iter_mut() {
                let bears_none = |cell: &&mut Expr| is_null(cell) || parameter(cell).is_some() || is_numeric;
                if let Some(expr) = row.content.get_mut(at).filter(bears_none) {
                    *expr = cast(expr.clone(), column.kind)?;
                }
            }
        }
        if bears {
            for row in rows.iter_mut() {
                if let Some(expr) = row.content.get_mut(at).filter(|cell| digits(cell).is_none()) {
                    *expr = cast(expr.clone(), column.kind)?;
                }
            }
            continue;
        }
        for row in rows.iter_mut().filter(|_| mixed) {
            if let Some(expr) = row.content.get_mut(at).filter(|cell| is_text(cell)) {
                *expr = cast(expr.clone(), column.kind)?;
            }
        }
    }
    Ok(())
}

/// Whether an expression asks a query.
pub(crate) fn has_subquery(expr: &Expr) -> bool {
    let asks = |expr: &Expr| match expr {
        Expr::Subquery(_) | Expr::InSubquery { .. } | Expr::Exists { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    ast::visit_expressions(expr, asks).is_break()
}

/// `t.a[1]` as an item of what `t.a` names: the parser takes it for a field `a` of something called `t`.
fn name_of_table(expr: &mut Expr) {
    if let Expr::CompoundFieldAccess { root, access_chain } = expr
        && let Expr::Identifier(table) = root.as_ref()
        && let Some(ast::AccessExpr::Dot(Expr::Identifier(column))) = access_chain.first()
    {
        **root = Expr::CompoundIdentifier(vec![table.clone(), column.clone()]);
        access_chain.remove(0);
    }
}

/// Puts the table's name before columns that have none, outside of subqueries.
pub(super) fn qualify(expr: &mut Expr, target: &Target, table: &Ident) {
    struct Qualify<'a> {
        target: &'a Target,
        table: &'a Ident,
        depth: usize,
    }
    impl VisitorMut for Qualify<'_> {
        type Break = ();
        fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
            self.depth += 1;
            ControlFlow::Continue(())
        }
        fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
            self.depth -= 1;
            ControlFlow::Continue(())
        }
        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            name_of_table(expr);
            if self.depth == 0
                && let Expr::Identifier(name) = expr
                && let folded = crate::pg::ident::fold(name)
                && self.target.columns.iter().any(|column| column.name == folded)
            {
                *expr = column(self.table, &folded);
            }
            ControlFlow::Continue(())
        }
    }
    let _: ControlFlow<()> = VisitMut::visit(expr, &mut Qualify { target, table, depth: 0 });
}
