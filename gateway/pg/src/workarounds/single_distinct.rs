//! Aggregates beside one DISTINCT, with the types that they had.
//!
//! DataFusion makes `sum(a), count(DISTINCT b)` two levels of GROUP BY, and of a sum the sum of sums. In PostgreSQL
//! that has another type: the sum of integers is a bigint, of bigints a numeric. So each column that comes out of the
//! rule with another type is cast to the one that it had; the sum of sums is the sum, and fits.

use crate::{numeric, plan::casts};
use datafusion::{
    common::{DFSchema, Result, tree_node::Transformed},
    logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, cast},
    optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule, single_distinct_to_groupby::SingleDistinctToGroupBy},
};
use std::sync::Arc;

/// Whether it is an aggregate of distinct numerics of the exact form, of which equal ones differ: it tells them itself.
fn tells_numerics(expr: &Expr, schema: &DFSchema) -> bool {
    let is_exact = |of: &Expr| of.get_type(schema).is_ok_and(|data| numeric::is_exact(&data));
    match expr {
        Expr::Alias(alias) => tells_numerics(&alias.expr, schema),
        Expr::AggregateFunction(call) => call.params.distinct && call.params.args.iter().any(is_exact),
        _ => false,
    }
}

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
        if let LogicalPlan::Aggregate(aggregate) = &plan
            && aggregate.aggr_expr.iter().any(|expr| tells_numerics(expr, aggregate.input.schema()))
        {
            return Ok(Transformed::no(plan));
        }
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
            let column = match casts::function(after.data_type(), before) {
                Some(function) => function.call(vec![column]),
                None => cast(column, before.data_type().clone()),
            };
            column.alias_qualified(relation.cloned(), before.name())
        });
        let columns: Vec<Expr> = columns.collect();
        Ok(Transformed::yes(LogicalPlanBuilder::from(rewritten.data).project(columns)?.build()?))
    }
}
