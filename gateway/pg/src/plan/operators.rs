//! Operators as PostgreSQL plans them: a quoted text takes the type beside it, whole numbers are integers where they
//! fit, dates and times subtract to days and intervals, intervals compare by their length.

use crate::{
    common_type::{beside, is_unknown},
    error::{SqlError, SqlState},
    functions::{self, planned},
    numeric,
    plan::numbers,
    syntax::calls::{
        ARRAY_OF, AT_LEAST_ANY, AT_MOST_ANY, COMPLEMENT, DISTINCT_FROM, EQUALS_ANY, EQUALS_ANY_OR_NULL,
        GREATER_THAN_ANY, LESS_THAN_ANY, NEGATIVE, NOT_DISTINCT_FROM, POSITIVE, SPAN_END, UNEQUAL_TO_ALL,
        UNEQUAL_TO_ANY,
    },
    types,
    windows::excluding,
};
use arrow::datatypes::{DataType, Field};
use datafusion::{
    common::{DFSchema, tree_node::TreeNode},
    error::Result,
    logical_expr::{
        Cast, Expr, ExprSchemable, Operator, binary_expr,
        expr::Placeholder,
        planner::{ExprPlanner, PlannerResult, RawBinaryExpr, RawFieldAccessExpr, RawWindowExpr},
    },
    prelude::lit,
    scalar::ScalarValue,
    sql::sqlparser::ast::BinaryOperator as Sql,
};
use std::sync::Arc;

mod arrays;
mod documents;
mod subscripts;
mod times;

use arrays::{
    array_literal, array_of, arrays, compared_with_any, concatenation, equal_to_any, equals_any, unequal_to_all,
};
use times::{clocks_and_spans, dates, is_span, spans};

/// The planner of binary operators.
#[derive(Debug)]
pub struct Operators;

/// What one step makes of an operator: an expression, or the operator with other sides, which the next step gets.
type Step = fn(RawBinaryExpr, &DFSchema) -> Result<PlannerResult<RawBinaryExpr>>;

/// The steps in which an operator is planned, until one of them gives an expression.
const STEPS: [(&str, Step); 12] = [
    // Those that the passes over the syntax tree made.
    ("comparisons of our own", custom),
    ("bit strings", bits),
    // Both look at quoted texts, so before these have types.
    ("arrays", arrays),
    ("json", documents::planned_operator),
    ("concatenation of arrays", concatenation),
    ("literals beside values", literals),
    ("power", power),
    ("beginnings of texts", starts_with),
    ("small integers", integers),
    // Quoted texts as times first, then times as intervals.
    ("times of day and intervals", clocks_and_spans),
    // By the types that the sides have by now, of numbers too.
    ("arithmetic by types", by_types),
    ("arrays and documents alone", containments),
];

impl ExprPlanner for Operators {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let mut expr = expr;
        for (_, step) in STEPS {
            match step(expr, schema)? {
                PlannerResult::Planned(planned) => return Ok(PlannerResult::Planned(planned)),
                PlannerResult::Original(next) => expr = next,
            }
        }
        Ok(PlannerResult::Original(expr))
    }

    fn plan_field_access(
        &self,
        access: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        subscripts::planned_access(access, schema)
    }

    /// `POSITION (a IN b)`, of bit strings too.
    fn plan_position(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(PlannerResult::Planned(functions::bits::strpos().call(args)))
    }

    /// `SUBSTRING (a FROM 2 FOR 3)`, of `bytea` and bit strings too.
    fn plan_substring(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(PlannerResult::Planned(functions::bits::substr().call(args)))
    }

    /// `OVERLAY (a PLACING b FROM 2)`, of `bytea` and bit strings too.
    fn plan_overlay(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(PlannerResult::Planned(functions::bits::overlay().call(args)))
    }

    /// Windows whose frames leave rows out.
    fn plan_window(&self, expr: RawWindowExpr) -> Result<PlannerResult<RawWindowExpr>> {
        excluding::planned(expr)
    }

    fn plan_array_literal(&self, items: Vec<Expr>, schema: &DFSchema) -> Result<PlannerResult<Vec<Expr>>> {
        array_literal(items, schema)
    }

    /// `extract(field FROM value)`, with as many digits after the point as the field has.
    fn plan_extract(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        let field = match args.first() {
            Some(Expr::Literal(ScalarValue::Utf8(Some(name)), _)) => name.to_lowercase(),
            _ => String::new(),
        };
        let function = match field.as_str() {
            "second" | "seconds" | "epoch" => planned::extract_seconds(),
            "millisecond" | "milliseconds" => planned::extract_milliseconds(),
            _ => planned::extract_whole(),
        };
        Ok(PlannerResult::Planned(function.call(args)))
    }
}

fn is_comparison(op: &Sql) -> bool {
    matches!(op, Sql::Eq | Sql::NotEq | Sql::Lt | Sql::LtEq | Sql::Gt | Sql::GtEq)
}

fn is_list(expr: &Expr, schema: &DFSchema) -> bool {
    matches!(expr.get_type(schema), Ok(DataType::List(_)))
}

/// Operators that only the passes over the syntax tree write.
fn custom(expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
    let Sql::Custom(name) = &expr.op else { return Ok(PlannerResult::Original(expr)) };
    let compares: fn(Expr, Expr, &DFSchema) -> Result<Expr> = match name.as_str() {
        EQUALS_ANY => equals_any,
        EQUALS_ANY_OR_NULL => |left, right, schema| equal_to_any(equals_any(left, right, schema)?),
        UNEQUAL_TO_ANY => |left, right, schema| compared_with_any(Operator::NotEq, left, right, schema),
        GREATER_THAN_ANY => |left, right, schema| compared_with_any(Operator::Gt, left, right, schema),
        AT_LEAST_ANY => |left, right, schema| compared_with_any(Operator::GtEq, left, right, schema),
        LESS_THAN_ANY => |left, right, schema| compared_with_any(Operator::Lt, left, right, schema),
        AT_MOST_ANY => |left, right, schema| compared_with_any(Operator::LtEq, left, right, schema),
        UNEQUAL_TO_ALL => |left, right, schema| unequal_to_all(equals_any(left, right, schema)?),
        DISTINCT_FROM => |left, right, schema| Ok(distinct(left, Operator::IsDistinctFrom, right, schema)),
        ARRAY_OF => |_, items, schema| array_of(items, schema),
        NEGATIVE => |of, _, schema| signed(of, true, schema),
        POSITIVE => |of, _, schema| signed(of, false, schema),
        COMPLEMENT => |of, _, schema| complement(of, schema),
        SPAN_END => span_end,
        NOT_DISTINCT_FROM => |left, right, schema| Ok(distinct(left, Operator::IsNotDistinctFrom, right, schema)),
        _ => return Ok(PlannerResult::Original(expr)),
    };
    compares(expr.left, expr.right, schema).map(PlannerResult::Planned)
}

/// The end of a span of time, which may be given as its length.
fn span_end(from: Expr, to: Expr, schema: &DFSchema) -> Result<Expr> {
    if !matches!(to.get_type(schema)?, DataType::Interval(_)) {
        return Ok(to);
    }
    let sum = RawBinaryExpr { op: Sql::Plus, left: from, right: to };
    Ok(match Operators.plan_binary_op(sum, schema)? {
        PlannerResult::Planned(sum) => sum,
        PlannerResult::Original(sum) => sum.left + sum.right,
    })
}

/// Unary minus or plus, which DataFusion's planner refuses for a numeric of the exact form.
fn signed(of: Expr, negative: bool, schema: &DFSchema) -> Result<Expr> {
    let of = if is_unknown(&of) { Expr::Cast(Cast::new(Box::new(of), DataType::Float64)) } else { of };
    let data = of.get_type(schema)?;
    Ok(match data {
        data if numeric::is_number(&data) && !negative => of,
        // That of the exact form becomes a function (`numbers`), once the type of a CASE beneath it is known.
        data if negative && (numeric::is_number(&data) || data.is_null() || is_span(&data)) => match of {
            // A whole number with signs is one that is written out.
            Expr::Literal(ScalarValue::Int64(Some(number)), metadata) if number != i64::MIN => {
                Expr::Literal(ScalarValue::Int64(Some(-number)), metadata)
            }
            of => Expr::Negative(Box::new(of)),
        },
        data => {
            let shown = types::sql_type(&Field::new("", data, true)).map(types::type_name).unwrap_or_default();
            let message = format!("operator does not exist: {} {shown}", if negative { "-" } else { "+" });
            let error = SqlError::new(SqlState::UNDEFINED_FUNCTION, message).with_hint(
                "No operator matches the given name and argument type. You might need to add an explicit type cast.",
            );
            return Err(functions::scalar_function::external(error));
        }
    })
}

/// `~ a`, of whole numbers and of bit strings.
fn complement(of: Expr, schema: &DFSchema) -> Result<Expr> {
    if types::is_bits(&of.get_type(schema)?) {
        return Ok(functions::bits::operator("bitnot").call(vec![of]));
    }
    let (of, ones) = narrowed(of, lit(-1_i64), schema);
    Ok(binary_expr(of, Operator::BitwiseXor, ones))
}

/// Operators of bit strings; a quoted text beside one is one.
fn bits(expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
    let is = |side: &Expr| side.get_type(schema).is_ok_and(|data| types::is_bits(&data));
    let (left, right) = (is(&expr.left), is(&expr.right));
    let both = |side: &Expr, is: bool| is || is_unknown(side) || matches!(side, Expr::Literal(ScalarValue::Null, _));
    let both = (left || right) && both(&expr.left, left) && both(&expr.right, right);
    let function = match expr.op {
        Sql::BitwiseAnd if both => "bitand",
        Sql::BitwiseOr if both => "bitor",
        Sql::PGBitwiseXor if both => "bitxor",
        Sql::StringConcat if both => "bitcat",
        Sql::PGBitwiseShiftLeft if left => "bitshiftleft",
        Sql::PGBitwiseShiftRight if left => "bitshiftright",
        _ => return Ok(PlannerResult::Original(expr)),
    };
    let call = functions::bits::operator(function).call(vec![expr.left, expr.right]);
    Ok(PlannerResult::Planned(call))
}

fn distinct(left: Expr, op: Operator, right: Expr, schema: &DFSchema) -> Expr {
    let left = beside(left, &right, schema);
    let right = beside(right, &left, schema);
    let types = left.get_type(schema).ok().zip(right.get_type(schema).ok());
    let computed = types.and_then(|(a, b)| numbers::operation(op, &left, &a, &right, &b));
    computed.unwrap_or_else(|| binary_expr(left, op, right))
}

/// Quoted texts that are compared, or computed with.
fn literals(expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
    let RawBinaryExpr { op, left, right } = expr;
    let (left, right) = if is_comparison(&op) {
        let left = beside(left, &right, schema);
        let right = beside(right, &left, schema);
        (left, right)
    } else {
        let left = operand(&op, left, &right, schema);
        let right = operand(&op, right, &left, schema);
        (left, right)
    };
    Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
}

fn is_arithmetic(op: &Sql) -> bool {
    matches!(op, Sql::Plus | Sql::Minus | Sql::Multiply | Sql::Divide | Sql::Modulo)
}

/// A quoted text that is computed with: PostgreSQL takes it for the type of the other side where the operator has two
/// of one type, and for a number beside an interval. Numerics of the exact form and sums of times follow in steps
/// below.
fn operand(op: &Sql, side: Expr, other: &Expr, schema: &DFSchema) -> Expr {
    if !is_unknown(&side) || is_unknown(other) || !(is_arithmetic(op) || is_bitwise(op)) {
        return side;
    }
    let Ok(data) = literal(other).as_ref().unwrap_or(other).get_type(schema) else { return side };
    let data = match data {
        data if data.is_integer() => data,
        data if data.is_floating() && is_arithmetic(op) => data,
        DataType::Interval(_) if matches!(op, Sql::Multiply | Sql::Divide) => DataType::Float64,
        data @ (DataType::Date32 | DataType::Timestamp(..)) if matches!(op, Sql::Minus) => data,
        _ => return side,
    };
    Expr::Cast(Cast::new(Box::new(side), data))
}

fn is_bitwise(op: &Sql) -> bool {
    matches!(op, Sql::BitwiseAnd | Sql::BitwiseOr | Sql::PGBitwiseXor)
        || matches!(op, Sql::PGBitwiseShiftLeft | Sql::PGBitwiseShiftRight)
}

/// `a ^ b`, of floats, or with a numeric exactly.
fn power(expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
    if !matches!(expr.op, Sql::PGExp) {
        return Ok(PlannerResult::Original(expr));
    }
    if let (Ok(a), Ok(b)) = (expr.left.get_type(schema), expr.right.get_type(schema))
        && (numeric::is_numeric(&a) || numeric::is_numeric(&b))
        && !(a.is_floating() || b.is_floating())
    {
        let side = |side: Expr| {
            if is_unknown(&side) || is_open_parameter(&side) {
                Expr::Cast(Cast::new(Box::new(side), numeric::EXACT))
            } else {
                side
            }
        };
        let raised = functions::numeric::raised().call(vec![side(expr.left), side(expr.right)]);
        return Ok(PlannerResult::Planned(raised));
    }
    let float = |side| Expr::Cast(Cast::new(Box::new(side), DataType::Float64));
    Ok(PlannerResult::Planned(functions::float_errors::power().call(vec![float(expr.left), float(expr.right)])))
}

/// Whole numbers in arithmetic.
fn integers(expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
    let RawBinaryExpr { op, left, right } = expr;
    let compared = is_comparison(&op) && (is_open_parameter(&left) || is_open_parameter(&right));
    let (left, right) =
        if is_arithmetic(&op) || is_bitwise(&op) || compared { narrowed(left, right, schema) } else { (left, right) };
    Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
}

fn has_case(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(matches!(expr, Expr::Case(_)))).unwrap_or(false)
}

/// A parameter of an unknown type beside a numeric of the exact form is one, a double where it is multiplied with an
/// interval or divides one, an interval that is added to a time.
fn typed_beside(op: &Sql, side: Expr, other: &Expr, schema: &DFSchema) -> Expr {
    let Expr::Placeholder(Placeholder { id, field: None }) = side else { return side };
    match other.get_type(schema) {
        Ok(data) if numeric::is_exact(&data) => parameter_of(id, &numeric::EXACT),
        Ok(DataType::Interval(_)) if matches!(op, Sql::Multiply | Sql::Divide) => parameter_of(id, &DataType::Float64),
        Ok(DataType::Timestamp(..)) if matches!(op, Sql::Plus) => parameter_of(id, &types::INTERVAL),
        _ => Expr::Placeholder(Placeholder { id, field: None }),
    }
}

/// A parameter of a type.
fn parameter_of(id: String, data: &DataType) -> Expr {
    let field = Arc::new(Field::new(&id, data.clone(), true));
    Expr::Placeholder(Placeholder::new_with_field(id, Some(field)))
}

/// Whether it is a parameter of an unknown type.
fn is_open_parameter(expr: &Expr) -> bool {
    matches!(expr, Expr::Placeholder(Placeholder { field: None, .. }))
}

/// Comparisons of intervals by their length, and arithmetic of intervals, numerics, dates and times.
fn by_types(expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
    let RawBinaryExpr { op, left, right } = expr;
    // A CASE of several numbers has the type of its first until the rule has seen it.
    let settled = |side: Expr| if has_case(&side) { numbers::settled(side, schema) } else { Ok(side) };
    let (left, right) = (settled(left)?, settled(right)?);
    let left = typed_beside(&op, left, &right, schema);
    let right = typed_beside(&op, right, &left, schema);
    let counts = is_arithmetic(&op);
    let read = |side: Expr, other: &Expr| match other.get_type(schema) {
        Ok(data) if counts && is_unknown(&side) && numeric::is_numeric(&data) => {
            Expr::Cast(Cast::new(Box::new(side), numeric::EXACT))
        }
        _ => side,
    };
    let left = read(left, &right);
    let right = read(right, &left);
    if let (Ok(a), Ok(b)) = (left.get_type(schema), right.get_type(schema)) {
        if is_comparison(&op) && is_span(&a) && is_span(&b) && (a != b || matches!(a, DataType::Interval(_))) {
            let length = |side| functions::interval_micros().call(vec![side]);
            let (left, right) = (length(left), length(right));
            return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }));
        }
        if let Some(operator) = numbers::operator(&op)
            && let Some(computed) = numbers::operation(operator, &left, &a, &right, &b)
        {
            return Ok(PlannerResult::Planned(computed));
        }
        // A `real` is a double beside any other number.
        let real = |data: &DataType| *data == DataType::Float32;
        if counts && (real(&a) && b.is_integer() || real(&b) && a.is_integer()) {
            let double = |side| Expr::Cast(Cast::new(Box::new(side), DataType::Float64));
            let (left, right) = (double(left), double(right));
            return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }));
        }
        if let Some(planned) = spans(&op, &left, &a, &right, &b).or_else(|| dates(&op, &left, &a, &right, &b)) {
            return Ok(PlannerResult::Planned(planned));
        }
    }
    Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
}

/// `text ^@ beginning` is `starts_with`, which a key finds as one range.
fn starts_with(expr: RawBinaryExpr, _: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
    if !matches!(expr.op, Sql::PGStartsWith) {
        return Ok(PlannerResult::Original(expr));
    }
    let text = |side: Expr| match side {
        Expr::Placeholder(Placeholder { id, field: None }) => parameter_of(id, &DataType::Utf8View),
        side => side,
    };
    let sides = vec![text(expr.left), text(expr.right)];
    Ok(PlannerResult::Planned(datafusion::functions::string::starts_with().call(sides)))
}

/// Refuses `&&`, `@>`, `<@`, `@?` and `@@` of other values than the arrays and documents that the steps before have
/// planned: DataFusion would plan, and not run them.
fn containments(expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
    let (left, right) = (&expr.left, &expr.right);
    let is_open = |side: &Expr| is_unknown(side) || matches!(side, Expr::Placeholder(_));
    let is_one = matches!(expr.op, Sql::PGOverlap | Sql::AtArrow | Sql::ArrowAt | Sql::AtQuestion | Sql::AtAt);
    if !is_one || is_open(left) || is_open(right) {
        return Ok(PlannerResult::Original(expr));
    }
    let ((_, a), (_, b)) = (left.to_field(schema)?, right.to_field(schema)?);
    if a.data_type().is_null() || b.data_type().is_null() {
        return Ok(PlannerResult::Original(expr));
    }
    Err(super::comparable::undefined((left, &a), &expr.op, (right, &b)))
}

/// Whole numbers as `integer` where they fit, beside another or beside an `integer` or `smallint`.
fn narrowed(left: Expr, right: Expr, schema: &DFSchema) -> (Expr, Expr) {
    let small = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Int16 | DataType::Int32));
    match (literal(&left), literal(&right)) {
        (Some(a), Some(b)) => (a, b),
        (Some(a), None) if small(&right) || is_open_parameter(&right) => (a, right),
        (None, Some(b)) if small(&left) || is_open_parameter(&left) => (left, b),
        _ => (left, right),
    }
}

fn literal(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::Literal(ScalarValue::Int64(Some(int)), metadata) => {
            let int = i32::try_from(*int).ok()?;
            Some(Expr::Literal(ScalarValue::Int32(Some(int)), metadata.clone()))
        }
        _ => None,
    }
}
