//! Parameters in planned expressions.

use datafusion::{common::tree_node::TreeNode, logical_expr::Expr};

/// Whether an expression waits for the value of a parameter.
pub fn has_placeholder(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(matches!(expr, Expr::Placeholder(_)))).unwrap_or(true)
}
