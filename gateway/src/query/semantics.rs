//! Rules over logical plans that give expressions PostgreSQL's meaning.
//!
//! [`untyped`] runs before DataFusion settles types: quoted texts in `IN` and `BETWEEN` take the type beside them, numbers that are
//! compared with a `numeric` keep their digits, texts that are compared with a `char(n)` lose the blanks at their end, as its values have. [`checked`] runs after: casts and arithmetic that Arrow does otherwise become functions ([`casts`], [`arithmetic`]).

use super::{arithmetic, casts, functions};
use crate::types;
use arrow::datatypes::DataType;
use datafusion::{
    common::{
        DFSchema,
        tree_node::{Transformed, TreeNode},
    },
    config::ConfigOptions,
    error::Result,
    logical_expr::{
        BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, expr::ScalarFunction, expr_rewriter::NamePreserver,
        utils::merge_schema,
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
            *side = Expr::Cast(Cast::new(Box::new(text), data.clone()));
        }
    };
    let exact = |side: &mut Expr, data: &DataType| {
        if let (DataType::Decimal128(..), Expr::Literal(literal @ ScalarValue::Float64(Some(_)), _)) = (data, side)
            && let Some(decimal) = decimal(literal)
        {
            *literal = decimal;
        }
    };
    match expr {
        Expr::BinaryExpr(mut binary) if binary.op.supports_propagation() => {
            if let (Ok(left), Ok(right)) = (binary.left.get_type(schema), binary.right.get_type(schema)) {
                exact(&mut binary.left, &right);
                exact(&mut binary.right, &left);
            }
            if is_char(&binary.left, schema) {
                without_blanks(&mut binary.right);
            } else if is_char(&binary.right, schema) {
                without_blanks(&mut binary.left);
            }
            Ok(Transformed::yes(Expr::BinaryExpr(binary)))
        }
        // DataFusion would take the length of the text that bytes print as.
        Expr::ScalarFunction(call) if call.func.name() == "character_length" => match call.args.as_slice() {
            [bytes] if bytes.get_type(schema).is_ok_and(|data| data.is_binary()) => {
                let function = functions::bytes_length();
                Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(function, call.args))))
            }
            _ => Ok(Transformed::no(Expr::ScalarFunction(call))),
        },
        Expr::InList(mut list) if is_char(&list.expr, schema) => {
            list.list.iter_mut().for_each(without_blanks);
            Ok(Transformed::yes(Expr::InList(list)))
        }
        Expr::Between(mut between) if is_char(&between.expr, schema) => {
            without_blanks(&mut between.low);
            without_blanks(&mut between.high);
            Ok(Transformed::yes(Expr::Between(between)))
        }
        Expr::InList(mut list) => match list.expr.get_type(schema) {
            Ok(data) if needs(&data) => {
                list.list.iter_mut().for_each(|item| typed(item, &data));
                list.list.iter_mut().for_each(|item| exact(item, &data));
                Ok(Transformed::yes(Expr::InList(list)))
            }
            _ => Ok(Transformed::no(Expr::InList(list))),
        },
        Expr::Between(mut between) => match between.expr.get_type(schema) {
            Ok(data) if needs(&data) => {
                typed(&mut between.low, &data);
                typed(&mut between.high, &data);
                exact(&mut between.low, &data);
                exact(&mut between.high, &data);
                Ok(Transformed::yes(Expr::Between(between)))
            }
            _ => Ok(Transformed::no(Expr::Between(between))),
        },
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
            // Beside an array, a quoted text is one.
            let results = case.when_then_expr.iter().map(|(_, then)| then).chain(&case.else_expr);
            let mut types = results.filter_map(|result| result.get_type(schema).ok());
            let Some(array) = types.find(|data| matches!(data, DataType::List(_))) else {
                return Ok(Transformed::no(Expr::Case(case)));
            };
            case.when_then_expr.iter_mut().for_each(|(_, then)| typed(then, &array));
            case.else_expr.iter_mut().for_each(|result| typed(result, &array));
            Ok(Transformed::yes(Expr::Case(case)))
        }
        other => Ok(Transformed::no(other)),
    }
}

fn is_char(expr: &Expr, schema: &DFSchema) -> bool {
    expr.to_field(schema).is_ok_and(|(_, field)| types::char_length(&field).is_some())
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
                    let divides = matches!(
                        op,
                        datafusion::logical_expr::Operator::Divide | datafusion::logical_expr::Operator::Modulo
                    );
                    arithmetic::checked(op).filter(|_| divides || !a.is_floating())
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
            Ok(data) if data.is_signed_integer() => {
                let function = arithmetic::negate();
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
