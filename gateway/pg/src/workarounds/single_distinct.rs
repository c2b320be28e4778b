//! Aggregates beside one DISTINCT, with the types that they had.
//!
//! DataFusion makes `sum(a), count(DISTINCT b)` two levels of GROUP BY, and of a sum the sum of sums. In PostgreSQL
//! that has another type: the sum of integers is a bigint, of bigints a numeric. So each column that comes out of the
//! rule with another type is cast to the one that it had; the sum of sums is the sum, and fits.

use datafusion::{
    common::{Result, tree_node::Transformed},
    logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, cast},
    optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule, single_distinct_to_groupby::SingleDistinctToGroupBy},
};
use std::sync::Arc;

/// DataFusion's rule, and the casts.
#[derive(Debug, Default)]
pub struct SingleDistinct(SingleDistinctToGroupBy);

impl OptimizerRule for SingleDistinct {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let before = Arc::clone(plan.schema());
        let rewritten = self.0.rewrite(plan, config)?;
        let after = rewritten.data.schema();
        let pairs = || before.iter().zip(after.iter());
        if pairs().all(|((_, before), (_, after))| before.data_type() == after.data_type()) {
            return Ok(rewritten);
        }
        let columns = pairs().zip(after.columns()).map(|(((relation, before), (_, after)), column)| {
            let column = Expr::Column(column);
            if before.data_type() == after.data_type() {
                return column;
            }
            cast(column, before.data_type().clone()).alias_qualified(relation.cloned(), before.name())
        });
        let columns: Vec<Expr> = columns.collect();
        Ok(Transformed::yes(LogicalPlanBuilder::from(rewritten.data).project(columns)?.build()?))
    }
}
