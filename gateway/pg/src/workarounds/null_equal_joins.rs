//! `IS NOT DISTINCT FROM` beside `=` in joins.
//!
//! DataFusion makes of `a JOIN b ON a.x IS NOT DISTINCT FROM b.x` a join by keys where NULL equals NULL. That goes for
//! all keys of a join, and rules that run later, or in the next pass, add keys of `=` to it, whose NULLs then match too
//! (`ExtractEquijoinPredicate`), or take the mode of one join for all joins beside it (`EliminateCrossJoin`). So before
//! they run such a join becomes one with a filter again ([`as_filters`]), and at the end of each pass one by keys where
//! there are no others ([`ByKeys`]).

use super::each_node::each_node;
use datafusion::{
    common::{
        NullEquality, Result,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    logical_expr::{Expr, Join, LogicalPlan, Operator, binary_expr, utils::conjunction},
    optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule, extract_equijoin_predicate::ExtractEquijoinPredicate},
};
use std::sync::Arc;

/// The rule by which joins by keys where NULL equals NULL become joins with a filter.
pub fn as_filters() -> Arc<dyn OptimizerRule + Send + Sync> {
    each_node("null_equal_joins_as_filter", |node| {
        Ok(match node {
            LogicalPlan::Join(join) if join.null_equality == NullEquality::NullEqualsNull && !join.null_aware => {
                Transformed::yes(LogicalPlan::Join(as_filter(join)))
            }
            node => Transformed::no(node),
        })
    })
}

fn as_filter(mut join: Join) -> Join {
    let equal = |(left, right)| binary_expr(left, Operator::IsNotDistinctFrom, right);
    join.filter = conjunction(join.on.drain(..).map(equal).chain(join.filter));
    join.null_equality = NullEquality::NullEqualsNothing;
    join
}

/// Joins with no keys and a filter of `IS NOT DISTINCT FROM` become joins by keys.
#[derive(Debug, Default)]
pub struct ByKeys(ExtractEquijoinPredicate);

impl OptimizerRule for ByKeys {
    fn name(&self) -> &str {
        "null_equal_joins_by_keys"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let is_candidate = match &plan {
            LogicalPlan::Join(join) => join.on.is_empty() && join.filter.as_ref().is_some_and(has_not_distinct),
            _ => false,
        };
        if is_candidate { self.0.rewrite(plan, config) } else { Ok(Transformed::no(plan)) }
    }
}

fn has_not_distinct(filter: &Expr) -> bool {
    let mut found = false;
    let _ = filter.apply(|expr| {
        found |= matches!(expr, Expr::BinaryExpr(binary) if binary.op == Operator::IsNotDistinctFrom);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found
}
