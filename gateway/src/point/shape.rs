//! Statements that may go around the optimizer, by their syntax tree alone.
//!
//! A tree is held against a plain one of its kind, with the parts that are looked at here cut out: whatever else a
//! statement may have, now or in a later version of the parser, makes it another shape.

use crate::{
    dml::{defaults::is_default, upsert::EXCLUDED},
    pg::{ident::fold, names::RelationName, numeric::negated, syntax::dialect::parse_text},
    sql::{names::table_name, type_name::sql_type},
};
use datafusion::{
    logical_expr::Operator,
    scalar::ScalarValue,
    sql::sqlparser::ast::{
        self, BinaryOperator, CastKind, DataType, Delete, Expr, FromTable, FunctionArguments, Ident, Insert,
        LimitClause, ObjectName, OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr, Statement, TableFactor,
        TableWithJoins, UnaryOperator, Update, Value, ValueWithSpan,
    },
};
use keyspan_catalog::SqlType;
use std::sync::LazyLock;

/// Names without quotes that stand for functions, or for columns of PostgreSQL's catalog that are compared in ways of
/// their own.
const OTHER_NAMES: [&str; 7] =
    ["current_schema", "current_role", "current_database", "typinput", "typoutput", "typreceive", "typsend"];

static SELECT: LazyLock<Box<Query>> = LazyLock::new(|| match plain("SELECT * FROM t") {
    Statement::Query(query) => query,
    other => unreachable!("a query: {other}"),
});
static INSERT: LazyLock<Insert> = LazyLock::new(|| match plain("INSERT INTO t VALUES (1)") {
    Statement::Insert(insert) => insert,
    other => unreachable!("an insert: {other}"),
});
static UPDATE: LazyLock<Update> = LazyLock::new(|| match plain("UPDATE t SET a = 1") {
    Statement::Update(update) => update,
    other => unreachable!("an update: {other}"),
});
static DELETE: LazyLock<Delete> = LazyLock::new(|| match plain("DELETE FROM t") {
    Statement::Delete(delete) => delete,
    other => unreachable!("a delete: {other}"),
});

fn plain(sql: &str) -> Statement {
    let parsed = parse_text(sql, |parser| parser.parse_statement());
    parsed.expect("the texts in this file are statements")
}

/// A table, and by what the statement calls it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Named {
    pub(super) table: RelationName,
    called: String,
}

/// A value that is known when the statement runs.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Operand {
    /// `$n`, from 0.
    Parameter(usize),
    Literal(ScalarValue),
    /// A number with a point, as it is written: what it is depends on the column that it goes to.
    Digits(String),
    /// `DEFAULT`
    Default,
    /// A parameter or a text that is cast to a type: the same as without, for a column of that type.
    Cast(Box<Operand>, SqlType),
    /// `now()`
    Now,
    /// `gen_random_uuid()`
    Uuid,
}

/// What a column is set to.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum NewValue {
    Given(Operand),
    /// A column of the row that was to be inserted.
    Excluded(String),
    /// A column with something added, or taken off.
    Sum {
        of: String,
        addend: Addend,
        off: bool,
    },
}

/// What is added to a column.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Addend {
    Operand(Operand),
    /// A column of the row that was to be inserted.
    Excluded(String),
}

/// A column, how it is compared, and with what.
pub(super) type Comparison = (String, Operator, Operand);

/// `SELECT items FROM table WHERE comparisons ORDER BY order LIMIT limit`
#[derive(Debug)]
pub(super) struct SelectShape {
    pub(super) table: Named,
    /// Columns and their names in the result; `None` for all of them.
    pub(super) items: Option<Vec<(String, String)>>,
    pub(super) comparisons: Vec<Comparison>,
    /// Columns, and whether they descend.
    pub(super) order: Vec<(String, bool)>,
    pub(super) limit: Option<Operand>,
}

/// `UPDATE table SET values WHERE comparisons`, or a DELETE without values.
#[derive(Debug)]
pub(super) struct ChangeShape {
    pub(super) table: Named,
    /// Columns, and what they are set to.
    pub(super) set: Vec<(String, Expr)>,
    pub(super) comparisons: Vec<Comparison>,
}

impl Named {
    fn of(from: &TableWithJoins) -> Option<Self> {
        let mut bare = from.clone();
        let TableFactor::Table { name, alias, .. } = &mut bare.relation else { return None };
        let (name, alias) = (std::mem::replace(name, ObjectName(Vec::new())), alias.take());
        let SetExpr::Select(select) = SELECT.body.as_ref() else { return None };
        let mut plain = select.from[0].clone();
        if let TableFactor::Table { name, .. } = &mut plain.relation {
            *name = ObjectName(Vec::new());
        }
        let table: RelationName = table_name(&name).ok().filter(|_| bare == plain)?;
        // Relations of PostgreSQL's own catalog have rules of their own.
        if table.starts_with("pg_") {
            return None;
        }
        let called = match alias {
            Some(alias) if alias.columns.is_empty() && alias.at.is_none() => fold(&alias.name),
            Some(_) => return None,
            None => table.name.clone(),
        };
        Some(Self { table, called })
    }

    /// The column that an expression is.
    fn column(&self, expr: &Expr) -> Option<String> {
        let ident = match expr {
            Expr::Identifier(ident) => ident,
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [table, ident] if fold(table) == self.called => ident,
                _ => return None,
            },
            _ => return None,
        };
        let name = fold(ident);
        (!OTHER_NAMES.contains(&name.as_str())).then_some(name)
    }

    /// Comparisons that all have to hold.
    fn comparisons(&self, condition: &Expr) -> Option<Vec<Comparison>> {
        let (mut open, mut found) = (vec![condition], Vec::new());
        while let Some(next) = open.pop() {
            match next {
                Expr::Nested(inner) => open.push(inner),
                Expr::BinaryOp { left, op: BinaryOperator::And, right } => open.extend([right.as_ref(), left]),
                Expr::BinaryOp { left, op, right } => {
                    let op = operator(op)?;
                    found.push(match self.column(left) {
                        Some(column) => (column, op, compared(right)?),
                        None => (self.column(right)?, op.swap()?, compared(left)?),
                    });
                }
                Expr::Between { expr, negated: false, low, high, .. } => {
                    let column = self.column(expr)?;
                    found.push((column.clone(), Operator::GtEq, compared(low)?));
                    found.push((column, Operator::LtEq, compared(high)?));
                }
                // A list of one is what it is equal to.
                Expr::InList { expr, list, negated: false } => {
                    let [one] = list.as_slice() else { return None };
                    found.push((self.column(expr)?, Operator::Eq, compared(one)?));
                }
                _ => return None,
            }
        }
        Some(found)
    }

    /// A table that is called so, in a statement that may speak of the row that was to be inserted, too. `None` for one
    /// that has its name.
    pub(super) fn called(table: &RelationName, called: &str) -> Option<Self> {
        (called != EXCLUDED).then(|| Self { table: table.clone(), called: called.to_owned() })
    }

    /// By what the statement calls the table.
    pub(super) fn name(&self) -> &str {
        &self.called
    }

    /// A value, or a sum of a column and a value; with `excluded` it may be of the row that was to be inserted.
    pub(super) fn new_value(&self, expr: &Expr, excluded: bool) -> Option<NewValue> {
        if let Some(given) = given(expr).filter(|given| *given != Operand::Default) {
            return Some(NewValue::Given(given));
        }
        let addend = |expr: &Expr| match excluded_column(expr).filter(|_| excluded) {
            Some(column) => Some(Addend::Excluded(column)),
            None => added(expr).map(Addend::Operand),
        };
        match expr {
            Expr::Nested(inner) => self.new_value(inner, excluded),
            Expr::BinaryOp { left, op: BinaryOperator::Plus, right } => {
                let (of, addend) = match self.column(left) {
                    Some(column) => (column, addend(right)?),
                    None => (self.column(right)?, addend(left)?),
                };
                Some(NewValue::Sum { of, addend, off: false })
            }
            Expr::BinaryOp { left, op: BinaryOperator::Minus, right } => {
                Some(NewValue::Sum { of: self.column(left)?, addend: addend(right)?, off: true })
            }
            expr if excluded => excluded_column(expr).map(NewValue::Excluded),
            _ => None,
        }
    }

    fn item(&self, item: &SelectItem) -> Option<(String, String)> {
        match item {
            SelectItem::UnnamedExpr(expr) => self.column(expr).map(|column| (column.clone(), column)),
            SelectItem::ExprWithAlias { expr, alias } => Some((self.column(expr)?, alias_name(alias)?)),
            _ => None,
        }
    }

    fn order(&self, order: &OrderBy, items: Option<&[(String, String)]>) -> Option<Vec<(String, bool)>> {
        let OrderBy { kind: OrderByKind::Expressions(by), interpolate: None } = order else { return None };
        let one = |by: &ast::OrderByExpr| {
            let column = self.column(&by.expr).filter(|_| by.with_fill.is_none())?;
            // A name in ORDER BY is a column of the result before it is one of the table.
            let other = items.unwrap_or_default().iter().any(|(of, name)| *name == column && *of != column);
            // The parts of a key are never NULL: where NULLs would stand does not matter.
            (!other).then_some((column, by.options.asc == Some(false)))
        };
        by.iter().map(one).collect()
    }
}

/// The name of a result's column. What names columns apart inside ([`labels`](crate::pg::syntax::column_names)) is no
/// name.
fn alias_name(alias: &Ident) -> Option<String> {
    Some(fold(alias)).filter(|name| !name.contains(char::is_control))
}

fn operator(op: &BinaryOperator) -> Option<Operator> {
    Some(match op {
        BinaryOperator::Eq => Operator::Eq,
        BinaryOperator::Lt => Operator::Lt,
        BinaryOperator::LtEq => Operator::LtEq,
        BinaryOperator::Gt => Operator::Gt,
        BinaryOperator::GtEq => Operator::GtEq,
        _ => return None,
    })
}

/// The column of the row that was to be inserted that an expression is.
fn excluded_column(expr: &Expr) -> Option<String> {
    let Expr::CompoundIdentifier(parts) = expr else { return None };
    let [row, column] = parts.as_slice() else { return None };
    (fold(row) == EXCLUDED).then(|| fold(column))
}

/// What is added: a parameter, or a literal number.
fn added(expr: &Expr) -> Option<Operand> {
    value(expr).or_else(|| digits(expr).map(Operand::Digits))
}

/// A parameter, or a literal that is not NULL.
fn value(expr: &Expr) -> Option<Operand> {
    operand(expr).filter(|operand| *operand != Operand::Literal(ScalarValue::Null))
}

/// What a column is compared with: a value, or a parameter or a text that is cast. A cast of a number may be out of
/// range, and one to a numeric rounds.
fn compared(expr: &Expr) -> Option<Operand> {
    let keeps = |operand: &Operand| match operand {
        Operand::Cast(_, SqlType::Numeric { .. } | SqlType::Exact(_)) => false,
        Operand::Cast(inner, _) => {
            !matches!(inner.as_ref(), Operand::Literal(ScalarValue::Int64(_)) | Operand::Digits(_) | Operand::Cast(..))
        }
        _ => true,
    };
    value(expr).or_else(|| cast(expr).filter(keeps))
}

/// What a column is given: an operand, a number with a point, a cast, its default, the time or a random uuid.
pub(super) fn given(expr: &Expr) -> Option<Operand> {
    operand(expr)
        .or_else(|| digits(expr).map(Operand::Digits))
        .or_else(|| is_default(expr).then_some(Operand::Default))
        .or_else(|| cast(expr))
        .or_else(|| called(expr))
}

/// `$1::type`, `'text'::type`, `5::type` or `1.5::type`.
fn cast(expr: &Expr) -> Option<Operand> {
    match expr {
        Expr::Nested(inner) => cast(inner),
        Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr, data_type, array: false, format: None } => {
            let kind = kind_of(data_type)?;
            let value = added(expr).or_else(|| cast(expr))?;
            let is_open = match &value {
                Operand::Parameter(_) | Operand::Literal(ScalarValue::Utf8(_)) => true,
                Operand::Literal(ScalarValue::Int64(_)) | Operand::Digits(_) => is_number(kind),
                _ => false,
            };
            is_open.then(|| Operand::Cast(Box::new(value), kind))
        }
        _ => None,
    }
}

fn is_number(kind: SqlType) -> bool {
    use SqlType::{Exact, Float8, Int2, Int4, Int8, Numeric};
    matches!(kind, Int2 | Int4 | Int8 | Numeric { .. } | Exact(_) | Float8)
}

/// The types that a cast names, of those that it cuts nothing to, or what a column of the type cuts as well.
fn kind_of(data_type: &DataType) -> Option<SqlType> {
    use SqlType::{Bool, Bytea, Date, Json, Jsonb, Text, Timestamp, Timestamptz, Uuid, Varchar};
    let cuts_nothing = |kind: &SqlType| {
        is_number(*kind)
            || matches!(kind, Bool | Bytea | Date | Json | Jsonb | Text | Uuid)
            || matches!(kind, Timestamp(None) | Timestamptz(None) | Varchar(None))
    };
    sql_type(data_type).ok().filter(cuts_nothing)
}

/// A function without arguments that stands for a value of the statement.
fn called(expr: &Expr) -> Option<Operand> {
    let Expr::Function(function) = expr else { return None };
    let [ast::ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return None };
    let bare = match &function.args {
        FunctionArguments::None => true,
        FunctionArguments::List(list) => list.args.is_empty() && list.clauses.is_empty(),
        FunctionArguments::Subquery(_) => false,
    };
    let is_plain = bare && function.over.is_none() && function.filter.is_none() && name.quote_style.is_none();
    match name.value.to_lowercase().as_str() {
        "now" | "current_timestamp" | "transaction_timestamp" if is_plain => Some(Operand::Now),
        "gen_random_uuid" if is_plain => Some(Operand::Uuid),
        _ => None,
    }
}

/// A number with a point, without an exponent.
fn digits(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Nested(inner) => digits(inner),
        Expr::Value(ValueWithSpan { value: Value::Number(digits, false), .. }) => {
            digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.').then(|| digits.clone())
        }
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match expr.as_ref() {
            Expr::Value(_) => digits(expr).map(|digits| negated(&digits)),
            _ => None,
        },
        _ => None,
    }
}

/// A parameter, or a literal: a whole number, a text in plain quotes, a truth value or NULL.
fn operand(expr: &Expr) -> Option<Operand> {
    let number = |digits: &str| digits.parse().ok().map(|number| ScalarValue::Int64(Some(number)));
    let literal = match expr {
        Expr::Nested(inner) => return operand(inner),
        Expr::Value(ValueWithSpan { value: Value::Placeholder(name), .. }) => {
            let number: usize = name.strip_prefix('$')?.parse().ok()?;
            return Some(Operand::Parameter(number.checked_sub(1)?));
        }
        Expr::Value(ValueWithSpan { value: Value::Number(digits, false), .. }) => number(digits)?,
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match expr.as_ref() {
            Expr::Value(ValueWithSpan { value: Value::Number(digits, false), .. }) => number(&format!("-{digits}"))?,
            _ => return None,
        },
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => {
            ScalarValue::Utf8(Some(text.clone()))
        }
        Expr::Value(ValueWithSpan { value: Value::Boolean(is), .. }) => ScalarValue::Boolean(Some(*is)),
        Expr::Value(ValueWithSpan { value: Value::Null, .. }) => ScalarValue::Null,
        _ => return None,
    };
    Some(Operand::Literal(literal))
}

/// A SELECT of plain columns of one table.
pub(super) fn select(query: &Query) -> Option<SelectShape> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let SetExpr::Select(plain) = SELECT.body.as_ref() else { return None };
    let (projection, from) = (plain.projection.clone(), plain.from.clone());
    let bare = Select { projection, from, selection: None, ..select.as_ref().clone() };
    let bare = SetExpr::Select(Box::new(bare));
    let bare = Query { body: Box::new(bare), order_by: None, limit_clause: None, ..query.clone() };
    let [from] = select.from.as_slice() else { return None };
    if bare != **SELECT {
        return None;
    }
    let table = Named::of(from)?;
    let items: Option<Vec<_>> = match select.projection == plain.projection {
        true => None,
        false => Some(select.projection.iter().map(|item| table.item(item)).collect::<Option<_>>()?),
    };
    let comparisons = table.comparisons(select.selection.as_ref()?)?;
    let order = match &query.order_by {
        Some(order) => table.order(order, items.as_deref())?,
        None => Vec::new(),
    };
    let limit = match &query.limit_clause {
        None => None,
        Some(LimitClause::LimitOffset { limit: Some(limit), offset: None, limit_by }) if limit_by.is_empty() => {
            Some(value(limit)?)
        }
        Some(_) => return None,
    };
    Some(SelectShape { table, items, comparisons, order, limit })
}

/// The rows of an INSERT of values. What its columns, ON CONFLICT and RETURNING say is not looked at here.
pub(super) fn insert(insert: &Insert) -> Option<Vec<Vec<Operand>>> {
    let SetExpr::Values(values) = insert.source.as_ref()?.body.as_ref() else { return None };
    let mut bare = insert.clone();
    (bare.table, bare.columns, bare.on, bare.returning) = (INSERT.table.clone(), Vec::new(), None, None);
    if bare.table_alias.as_ref().is_some_and(|alias| alias.explicit) {
        bare.table_alias = None;
    }
    if let Some(SetExpr::Values(of)) = bare.source.as_mut().map(|source| source.body.as_mut())
        && let Some(SetExpr::Values(plain)) = INSERT.source.as_ref().map(|source| source.body.as_ref())
    {
        of.rows = plain.rows.clone();
    }
    if bare != *INSERT {
        return None;
    }
    values.rows.iter().map(|row| row.content.iter().map(given).collect()).collect()
}

/// The columns of a RETURNING, with their names in the result: `None` for what is no plain column. `all` are those of
/// the table, which is called so.
pub(super) fn returned(items: &[SelectItem], called: &str, all: &[&str]) -> Option<Vec<(String, String)>> {
    let table = Named { table: RelationName::bare(called), called: called.to_owned() };
    let mut found = Vec::with_capacity(items.len());
    for item in items {
        match item {
            SelectItem::Wildcard(options) if *options == ast::WildcardAdditionalOptions::default() => {
                found.extend(all.iter().map(|name| ((*name).to_owned(), (*name).to_owned())));
            }
            item => found.push(table.item(item)?),
        }
    }
    Some(found)
}

/// An UPDATE of one table. What its RETURNING says is not looked at here. That SET names columns plainly, each once, is
/// for [`assignments`](crate::sql::write::assignments) to say.
pub(super) fn update(update: &Update) -> Option<ChangeShape> {
    let bare = Update {
        table: UPDATE.table.clone(),
        assignments: UPDATE.assignments.clone(),
        selection: None,
        returning: None,
        ..update.clone()
    };
    if bare != *UPDATE {
        return None;
    }
    let table = Named::of(&update.table)?;
    let set = crate::sql::write::assignments(&update.assignments).ok()?;
    let comparisons = table.comparisons(update.selection.as_ref()?)?;
    Some(ChangeShape { table, set, comparisons })
}

/// A DELETE from one table. What its RETURNING says is not looked at here.
pub(super) fn delete(delete: &Delete) -> Option<ChangeShape> {
    let bare = Delete { from: DELETE.from.clone(), selection: None, returning: None, ..delete.clone() };
    let FromTable::WithFromKeyword(from) = &delete.from else { return None };
    let [from] = from.as_slice() else { return None };
    if bare != *DELETE {
        return None;
    }
    let table = Named::of(from)?;
    let comparisons = table.comparisons(delete.selection.as_ref()?)?;
    Some(ChangeShape { table, set: Vec::new(), comparisons })
}
