//! Keys of joins that are one constant on both sides.
//!
//! Once it is known that two columns are never NULL, `a.x IS NULL = b.x IS NULL` is `false = false`. DataFusion plans
//! a column for each key that is computed; one of each side with one name has it rename both sides, `left` and `right`,
//! and then the columns of one side are ambiguous.

use super::each_node::each_node;
use datafusion::{
    common::tree_node::Transformed,
    logical_expr::{Expr, LogicalPlan},
    optimizer::OptimizerRule,
};
use std::sync::Arc;

/// The rule by which such keys go, but for one where there is no other.
pub fn constant_keys() -> Arc<dyn OptimizerRule + Send + Sync> {
    each_node("constant_join_keys", |node| {
        Ok(match node {
            LogicalPlan::Join(mut join) if join.on.len() > 1 && join.on.iter().any(is_constant) => {
                let first = join.on.first().cloned();
                join.on.retain(|pair| !is_constant(pair));
                if join.on.is_empty() {
                    join.on.extend(first);
                }
                Transformed::yes(LogicalPlan::Join(join))
            }
            node => Transformed::no(node),
        })
    })
}

fn is_constant((left, right): &(Expr, Expr)) -> bool {
    match (left, right) {
        (Expr::Literal(left, _), Expr::Literal(right, _)) => left == right && !left.is_null(),
        _ => false,
    }
}
