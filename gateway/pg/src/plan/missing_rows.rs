//! The value of a subquery that has no row is NULL, whatever its column says: an analyzer rule.
//!
//! DataFusion asks the column, in 55.2: of `(SELECT id FROM t WHERE …) IS NULL`, where `id` is a key, it makes false,
//! and of `coalesce((SELECT count(*) … HAVING …), 0)` what is not there. So where an expression depends on whether its
//! value is NULL, the subquery stands in a function that may give NULL.

use super::each_expr::{EachExpr, Order};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::{
    common::tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    error::Result,
    logical_expr::{
        BinaryExpr, ColumnarValue, Expr, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
        Signature, Subquery, Volatility,
    },
    optimizer::AnalyzerRule,
};
use std::sync::{Arc, LazyLock};

/// The rule.
pub fn missing_rows() -> Arc<dyn AnalyzerRule + Send + Sync> {
    Arc::new(EachExpr {
        name: "missing_rows",
        order: Order::LeavesFirst,
        rewrite: |expr, _, _| {
            let asks = match &expr {
                Expr::IsNull(_) | Expr::IsNotNull(_) | Expr::IsUnknown(_) | Expr::IsNotUnknown(_) => true,
                Expr::IsTrue(_) | Expr::IsNotTrue(_) | Expr::IsFalse(_) | Expr::IsNotFalse(_) => true,
                Expr::BinaryExpr(BinaryExpr { op, .. }) => {
                    matches!(op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom)
                }
                Expr::ScalarFunction(call) => call.func.name() == "coalesce",
                _ => false,
            };
            if asks { expr.transform_down(|expr| Ok(wrapped(expr))) } else { Ok(Transformed::no(expr)) }
        },
    })
}

/// A subquery whose column cannot be NULL, as a value that can.
fn wrapped(expr: Expr) -> Transformed<Expr> {
    let never_null = |Subquery { subquery, .. }: &Subquery| {
        subquery.schema().fields().first().is_some_and(|field| !field.is_nullable())
    };
    match expr {
        Expr::ScalarSubquery(subquery) if never_null(&subquery) => {
            let value = maybe_missing().call(vec![Expr::ScalarSubquery(subquery)]);
            Transformed::new(value, true, TreeNodeRecursion::Jump)
        }
        Expr::ScalarFunction(call) if call.func.name() == maybe_missing().name() => {
            Transformed::new(Expr::ScalarFunction(call), false, TreeNodeRecursion::Jump)
        }
        expr => Transformed::no(expr),
    }
}

fn maybe_missing() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| Arc::new(ScalarUDF::from(MaybeMissing(Signature::any(1, Volatility::Immutable)))));
    Arc::clone(&FUNCTION)
}

/// Its argument, which may be NULL.
#[derive(Debug, PartialEq, Eq, Hash)]
struct MaybeMissing(Signature);

impl ScalarUDFImpl for MaybeMissing {
    fn name(&self) -> &str {
        "maybe_missing"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments[0].clone())
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(arguments.arg_fields[0].as_ref().clone().with_nullable(true)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(arguments.args[0].clone())
    }
}
