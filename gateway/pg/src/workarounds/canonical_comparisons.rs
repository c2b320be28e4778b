//! Comparisons in one canonical form: the value on the right, as a literal without metadata.
//!
//! DataFusion 55.2 compares the conditions of a filter by their form. `x = 'a' AND 'a' = x`, or one of them with a
//! literal whose metadata says that it was cast, are two values to it, which no row equals; `x <= 5 AND 5 > x` becomes
//! `x <= 5`; and `x = 'a' AND x <> 'a'` is `x = 'a'` when the literals' metadata differ. Its own rule that swaps sides
//! comes before casts are folded, and skips conditions of joins. So this rule runs twice: when types are settled, and
//! after DataFusion has replaced functions such as `now()` by values.

use datafusion::{
    common::{
        DFSchema,
        tree_node::{Transformed, TreeNode},
    },
    config::ConfigOptions,
    error::Result,
    logical_expr::{
        BinaryExpr, Expr, LogicalPlan, Operator, Volatility, expr_rewriter::NamePreserver, simplify::SimplifyContext,
    },
    optimizer::{
        AnalyzerRule, OptimizerConfig, OptimizerRule, optimizer::ApplyOrder, simplify_expressions::ExprSimplifier,
    },
    scalar::ScalarValue,
};
use std::{cell::LazyCell, sync::Arc};

/// The rule, for after types are settled, and for between the simplification of expressions and the pushing of filters.
#[derive(Debug)]
pub struct CanonicalComparisons;

impl AnalyzerRule for CanonicalComparisons {
    fn name(&self) -> &str {
        "alike_comparisons"
    }

    fn analyze(&self, plan: LogicalPlan, options: &ConfigOptions) -> Result<LogicalPlan> {
        // Copying all options takes longer than visiting most plans.
        let shared = LazyCell::new(|| Arc::new(options.clone()));
        Ok(plan.transform_up_with_subqueries(|node| rewritten(node, &|| Arc::clone(&shared)))?.data)
    }
}

impl OptimizerRule for CanonicalComparisons {
    fn name(&self) -> &str {
        "alike_comparisons"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        rewritten(plan, &|| config.options())
    }
}

/// Makes the options, for the few expressions that need them.
type Options<'a> = &'a dyn Fn() -> Arc<ConfigOptions>;

fn rewritten(plan: LogicalPlan, options: Options<'_>) -> Result<Transformed<LogicalPlan>> {
    // The scan promised to apply these filters in their present form.
    if matches!(plan, LogicalPlan::TableScan(_)) {
        return Ok(Transformed::no(plan));
    }
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let rewritten = expr.transform_up(|expr| Ok(canonical(expr, options)))?;
        Ok(rewritten.update_data(|expr| name.restore(expr)))
    })
}

/// The canonical form of a comparison.
fn canonical(expr: Expr, options: Options<'_>) -> Transformed<Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if compares(op) => {
            let (left, right) = (bare_literal(*left, options), bare_literal(*right, options));
            let turned = is_literal(&left.data) && !is_literal(&right.data);
            let changed = left.transformed || right.transformed || turned;
            let (left, right) = (Box::new(left.data), Box::new(right.data));
            let comparison = match op.swap().filter(|_| turned) {
                Some(swapped) => BinaryExpr { left: right, op: swapped, right: left },
                None => BinaryExpr { left, op, right },
            };
            Transformed::new_transformed(Expr::BinaryExpr(comparison), changed)
        }
        Expr::InList(mut list) => {
            let mut changed = false;
            list.list =
                list.list.into_iter().map(|item| unwrap_changed(bare_literal(item, options), &mut changed)).collect();
            Transformed::new_transformed(Expr::InList(list), changed)
        }
        Expr::Between(mut between) => {
            let mut changed = false;
            between.low = Box::new(unwrap_changed(bare_literal(*between.low, options), &mut changed));
            between.high = Box::new(unwrap_changed(bare_literal(*between.high, options), &mut changed));
            Transformed::new_transformed(Expr::Between(between), changed)
        }
        other => Transformed::no(other),
    }
}

fn unwrap_changed(expr: Transformed<Expr>, changed: &mut bool) -> Expr {
    *changed |= expr.transformed;
    expr.data
}

/// Whether an operator compares two values of one type.
pub(crate) fn compares(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

fn is_literal(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(..))
}

/// Folds a constant to a literal without metadata; leaves it if folding fails, so that execution reports the error.
fn bare_literal(expr: Expr, options: Options<'_>) -> Transformed<Expr> {
    let value = match &expr {
        Expr::Literal(value, metadata) if metadata.is_none() && *value == without_sign(value.clone()) => None,
        Expr::Literal(value, _) => Some(value.clone()),
        other if is_constant(other) => {
            let schema = Arc::new(DFSchema::empty());
            let context = SimplifyContext::builder().with_schema(schema).with_config_options(options());
            match ExprSimplifier::new(context.build()).simplify(other.clone()) {
                Ok(Expr::Literal(value, _)) => Some(value),
                _ => None,
            }
        }
        _ => None,
    };
    match value {
        Some(value) => Transformed::yes(Expr::Literal(without_sign(value), None)),
        None => Transformed::no(expr),
    }
}

/// Negative zero as zero, which equals it.
fn without_sign(value: ScalarValue) -> ScalarValue {
    match value {
        // -0.0 + 0.0 is 0.0.
        ScalarValue::Float64(Some(float)) => ScalarValue::Float64(Some(float + 0.0)),
        ScalarValue::Float32(Some(float)) => ScalarValue::Float32(Some(float + 0.0)),
        other => other,
    }
}

/// Whether an expression has the same value whenever it is computed.
fn is_constant(expr: &Expr) -> bool {
    let other = expr.exists(|expr| {
        Ok(match expr {
            Expr::Literal(..) | Expr::Cast(_) | Expr::TryCast(_) | Expr::Negative(_) => false,
            Expr::ScalarFunction(call) => call.func.signature().volatility != Volatility::Immutable,
            _ => true,
        })
    });
    !other.unwrap_or(true)
}
