//! Rules over logical plans that give expressions PostgreSQL's meaning.
//!
//! [`untyped`] runs before DataFusion settles types: quoted texts in `IN` and `BETWEEN` take the type beside them, numbers that are
//! compared with a `numeric` keep their digits, texts that are compared with a `char(n)` lose the blanks at their end, as its values have. [`checked`] runs after: casts and arithmetic that Arrow does otherwise become functions ([`casts`], [`checked_arithmetic`]).

use super::{casts, checked_arithmetic, operators::type_of};
use crate::{
    functions::{self, lists::BESIDE},
    types,
    workarounds::canonical_comparisons::compares,
};
use arrow::datatypes::DataType;
use datafusion::{
    common::{
        DFSchema,
        tree_node::{Transformed, TreeNode},
    },
    config::ConfigOptions,
    error::Result,
    logical_expr::{
        BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, Operator, expr::ScalarFunction,
        expr_rewriter::NamePreserver, utils::merge_schema,
    },
    optimizer::AnalyzerRule,
    scalar::ScalarValue,
};
use std::sync::Arc;

type Rewrite = fn(Expr, &DFSchema) -> Result<Transformed<Expr>>;

/// A rule that rewrites each expression of a plan, from its leaves up.
#[derive(Debug)]
struct EachExpr {
    name: &'static str,
    rewrite: Rewrite,
}

/// The rule for quoted texts, before types are settled.
pub fn untyped() -> Arc<dyn AnalyzerRule + Send + Sync> {
    Arc::new(EachExpr { name: "untyped_literals", rewrite: type_literals })
}

/// The rule for casts and arithmetic, after types are settled.
pub fn checked() -> Arc<dyn AnalyzerRule + Send + Sync> {
    Arc::new(EachExpr { name: "checked_semantics", rewrite: check })
}

impl AnalyzerRule for EachExpr {
    fn name(&self) -> &str {
        self.name
    }

    fn analyze(&self, plan: LogicalPlan, _options: &ConfigOptions) -> Result<LogicalPlan> {
        let rewritten = plan.transform_up_with_subqueries(|plan| {
            let mut schema = merge_schema(&plan.inputs());
            if let LogicalPlan::TableScan(scan) = &plan {
                let source = DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?;
                schema.merge(&source);
            }
            let names = NamePreserver::new(&plan);
            let rewritten = plan.map_expressions(|expr| {
                let name = names.save(&expr);
                let rewritten = expr.transform_up(|expr| (self.rewrite)(expr, &schema))?;
                Ok(rewritten.update_data(|expr| name.restore(expr)))
            })?;
            if rewritten.transformed { rewritten.map_data(LogicalPlan::recompute_schema) } else { Ok(rewritten) }
        })?;
        Ok(rewritten.data)
    }
}

/// Quoted texts beside a value of a type that DataFusion does not compare with text.
fn type_literals(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let needs = |data: &DataType| {
        matches!(data, DataType::FixedSizeBinary(_) | DataType::Binary | DataType::Boolean | DataType::UInt32)
            || data.is_temporal()
            || data.is_numeric()
            || matches!(data, DataType::List(_))
    };
    let typed = |side: &mut Expr, data: &DataType| {
        if matches!(side, Expr::Literal(ScalarValue::Utf8(Some(_)), _)) {
            let text = std::mem::take(side);
            let data = type_of(&text, data);
            *side = Expr::Cast(Cast::new(Box::new(text), data));
        }
    };
    let exact = |side: &mut Expr, data: &DataType| {
        if let (DataType::Decimal128(..), Expr::Literal(literal @ ScalarValue::Float64(Some(_)), _)) = (data, side)
            && let Some(decimal) = decimal(literal)
        {
            *literal = decimal;
        }
    };
    let is_open = |side: &Expr| matches!(side, Expr::Literal(ScalarValue::Utf8(Some(_)), _));
    // What several expressions are, where they are of one type but for quoted texts.
    let common = |all: &[&Expr]| -> Option<DataType> {
        let known = all.iter().filter(|side| !is_open(side)).map(|side| side.get_type(schema));
        let mut known = known.filter(|data| !matches!(data, Ok(DataType::Null)));
        let first = known.next()?.ok().filter(needs)?;
        known.all(|data| data.is_ok_and(|data| data == first)).then_some(first)
    };
    match expr {
        Expr::BinaryExpr(mut binary) if compares(binary.op) => {
            if let (Ok(left), Ok(right)) = (binary.left.get_type(schema), binary.right.get_type(schema)) {
                exact(&mut binary.left, &right);
                exact(&mut binary.right, &left);
                if needs(&left) {
                    typed(&mut binary.right, &left);
                }
                if needs(&right) {
                    typed(&mut binary.left, &right);
                }
            }
            bare([binary.left.as_mut(), binary.right.as_mut()], schema);
            Ok(Transformed::yes(Expr::BinaryExpr(binary)))
        }
        // What stands for a quoted text in VALUES.
        Expr::ScalarFunction(call) if call.func.name() == BESIDE => {
            let [text, beside] = <[Expr; 2]>::try_from(call.args)
                .map_err(|_| datafusion::error::DataFusionError::Internal(format!("{BESIDE} has two arguments")))?;
            let (_, field) = beside.to_field(schema)?;
            if field.data_type().is_null() {
                return Ok(Transformed::yes(text));
            }
            let data = types::without_digits(field.data_type());
            let field = field.as_ref().clone().with_name("cast").with_data_type(data).with_nullable(true);
            Ok(Transformed::yes(Expr::Cast(Cast::new_from_field(Box::new(text), Arc::new(field)))))
        }
        Expr::InSubquery(mut within) => {
            if let Some(field) = within.subquery.subquery.schema().fields().first() {
                if needs(field.data_type()) {
                    typed(&mut within.expr, field.data_type());
                }
                if types::char_length(field).is_some() {
                    without_blanks(&mut within.expr);
                }
            }
            Ok(Transformed::yes(Expr::InSubquery(within)))
        }
        Expr::ScalarFunction(mut call) if matches!(call.func.name(), "coalesce" | "nullif" | "greatest" | "least") => {
            // What DataFusion casts no text to.
            if let Some(data) = common(&call.args.iter().collect::<Vec<_>>()) {
                call.args.iter_mut().for_each(|side| typed(side, &data));
            }
            // A blank at the end of a `char(n)` tells it from nothing.
            if call.func.name() != "coalesce" {
                bare(&mut call.args, schema);
            }
            Ok(Transformed::yes(Expr::ScalarFunction(call)))
        }
        // DataFusion would take the length of the text that bytes print as.
        Expr::ScalarFunction(call) if call.func.name() == "character_length" => match call.args.as_slice() {
            [bytes] if bytes.get_type(schema).is_ok_and(|data| data.is_binary()) => {
                let function = functions::bytes_length();
                Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(function, call.args))))
            }
            _ => Ok(Transformed::no(Expr::ScalarFunction(call))),
        },
        // PostgreSQL compares a quoted text with each by itself.
        Expr::InList(list) if is_open(&list.expr) && list.list.iter().any(|item| !is_open(item)) => {
            let one = |item: Expr| {
                let (mut left, mut right) = ((*list.expr).clone(), item);
                if let Some(data) = common(&[&right]) {
                    typed(&mut left, &data);
                }
                bare([&mut left, &mut right], schema);
                left.eq(right)
            };
            let any =
                list.list.into_iter().map(one).reduce(Expr::or).unwrap_or_else(|| datafusion::prelude::lit(false));
            Ok(Transformed::yes(if list.negated { Expr::Not(Box::new(any)) } else { any }))
        }
        Expr::Between(between) if is_open(&between.expr) => {
            let side = |op: Operator, side: Expr| {
                let (mut left, mut right) = ((*between.expr).clone(), side);
                if let Some(data) = common(&[&right]) {
                    typed(&mut left, &data);
                }
                bare([&mut left, &mut right], schema);
                datafusion::logical_expr::binary_expr(left, op, right)
            };
            let within = side(Operator::GtEq, *between.low).and(side(Operator::LtEq, *between.high));
            Ok(Transformed::yes(if between.negated { Expr::Not(Box::new(within)) } else { within }))
        }
        Expr::InList(mut list) => {
            bare(std::iter::once(list.expr.as_mut()).chain(&mut list.list), schema);
            if let Ok(data) = list.expr.get_type(schema)
                && needs(&data)
            {
                for item in &mut list.list {
                    typed(item, &data);
                    exact(item, &data);
                }
            }
            Ok(Transformed::yes(Expr::InList(list)))
        }
        Expr::Between(mut between) => {
            bare([between.expr.as_mut(), between.low.as_mut(), between.high.as_mut()], schema);
            if let Ok(data) = between.expr.get_type(schema)
                && needs(&data)
            {
                for side in [&mut between.low, &mut between.high] {
                    typed(side, &data);
                    exact(side, &data);
                }
            }
            Ok(Transformed::yes(Expr::Between(between)))
        }
        // Arrow's frames know neither: times of day are ordered by their microseconds, intervals by their length.
        Expr::WindowFunction(mut call) => {
            for order in &mut call.params.order_by {
                match order.expr.get_type(schema) {
                    Ok(DataType::Time64(_)) => {
                        let time = Box::new(std::mem::take(&mut order.expr));
                        order.expr = Expr::Cast(Cast::new(time, DataType::Int64));
                    }
                    Ok(DataType::Interval(_)) => {
                        order.expr = functions::interval_micros().call(vec![std::mem::take(&mut order.expr)]);
                    }
                    _ => {}
                }
            }
            Ok(Transformed::yes(Expr::WindowFunction(call)))
        }
        Expr::Case(mut case) => {
            // Both what is compared and what it gives.
            if let Some(of) = &mut case.expr {
                let whens = case.when_then_expr.iter_mut().map(|(when, _)| when.as_mut());
                bare(std::iter::once(of.as_mut()).chain(whens), schema);
                let whens = case.when_then_expr.iter().map(|(when, _)| when.as_ref());
                if let Some(data) = common(&std::iter::once(of.as_ref()).chain(whens).collect::<Vec<_>>()) {
                    typed(of, &data);
                    case.when_then_expr.iter_mut().for_each(|(when, _)| typed(when, &data));
                }
            }
            let results = case.when_then_expr.iter().map(|(_, then)| then).chain(&case.else_expr);
            if let Some(data) = common(&results.map(AsRef::as_ref).collect::<Vec<_>>()) {
                case.when_then_expr.iter_mut().for_each(|(_, then)| typed(then, &data));
                case.else_expr.iter_mut().for_each(|result| typed(result, &data));
            }
            Ok(Transformed::yes(Expr::Case(case)))
        }
        other => Ok(Transformed::no(other)),
    }
}

fn is_char(expr: &Expr, schema: &DFSchema) -> bool {
    expr.to_field(schema).is_ok_and(|(_, field)| types::char_length(&field).is_some())
}

/// Where one side of a comparison is a `char(n)`, the others lose the blanks at their ends: literals, parameters, and what is `varchar`.
fn bare<'a>(sides: impl IntoIterator<Item = &'a mut Expr>, schema: &DFSchema) {
    let mut sides: Vec<&mut Expr> = sides.into_iter().collect();
    if !sides.iter().any(|side| is_char(side, schema)) {
        return;
    }
    for side in &mut sides {
        without_blanks(side);
        if is_varchar(side, schema) {
            **side = datafusion::functions::string::rtrim().call(vec![std::mem::take(*side)]);
        }
    }
}

fn is_varchar(expr: &Expr, schema: &DFSchema) -> bool {
    matches!(expr, Expr::Column(_) | Expr::Cast(_))
        && expr.to_field(schema).is_ok_and(|(_, field)| {
            field.metadata().get(types::TYPE_KEY).is_some_and(|name| name.starts_with("character varying"))
        })
}

/// A literal or a parameter without blanks at its end. What is cast to text keeps them, but for a parameter: its cast says only that it is
/// one.
fn without_blanks(side: &mut Expr) {
    match side {
        Expr::Literal(ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)), _) => {
            text.truncate(text.trim_end_matches(' ').len());
        }
        Expr::Placeholder(_) => {
            *side = datafusion::functions::string::rtrim().call(vec![std::mem::take(side)]);
        }
        Expr::Cast(cast) if matches!(*cast.expr, Expr::Placeholder(_) | Expr::Literal(ScalarValue::Utf8View(_), _)) => {
            without_blanks(&mut cast.expr);
        }
        _ => {}
    }
}

/// The number that was written, where it is compared with a `numeric`: as a float it would not equal what is stored.
fn decimal(literal: &ScalarValue) -> Option<ScalarValue> {
    let ScalarValue::Float64(Some(float)) = literal else { return None };
    let text = float.is_finite().then(|| float.to_string())?;
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let unscaled: i128 = format!("{whole}{fraction}").parse().ok()?;
    let (digits, scale) = (whole.len() + fraction.len(), fraction.len());
    let precision = u8::try_from(digits).ok().filter(|digits| *digits <= types::NUMERIC_PRECISION)?;
    Some(ScalarValue::Decimal128(Some(unscaled), precision, i8::try_from(scale).ok()?))
}

fn check(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let sides = (left.get_type(schema), right.get_type(schema));
            let counted = match sides {
                (Ok(a), Ok(b)) if a == b && (a.is_signed_integer() || a.is_floating()) => {
                    checked_arithmetic::checked(op)
                }
                _ => None,
            };
            Ok(match counted {
                Some(function) => {
                    Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![*left, *right])))
                }
                None => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
            })
        }
        Expr::Negative(inner) => match inner.get_type(schema) {
            Ok(data) if data.is_signed_integer() || data.is_floating() => {
                let function = checked_arithmetic::negate();
                Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![*inner]))))
            }
            _ => Ok(Transformed::no(Expr::Negative(inner))),
        },
        Expr::Cast(cast) => {
            let from = cast.expr.get_type(schema)?;
            Ok(match casts::function(&from, &cast.field) {
                Some(function) => {
                    Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![*cast.expr])))
                }
                None => Transformed::no(Expr::Cast(cast)),
            })
        }
        other => Ok(Transformed::no(other)),
    }
}
