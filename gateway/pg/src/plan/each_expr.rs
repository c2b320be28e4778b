//! An analyzer rule that rewrites each expression of a plan.

use datafusion::{
    common::{
        DFSchema,
        tree_node::{Transformed, TreeNode},
    },
    config::ConfigOptions,
    error::Result,
    logical_expr::{Expr, LogicalPlan, expr_rewriter::NamePreserver, utils::merge_schema},
    optimizer::AnalyzerRule,
};

/// Which of two nested expressions is rewritten first.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    /// The inner one.
    LeavesFirst,
    /// The outer one: the rule sees operators within it, not yet the functions that they become. To ask for the type of
    /// nested functions takes the square of their depth, since DataFusion writes out the name of each.
    RootFirst,
}

/// The rule: what it does to an expression, whose columns are those of a schema, in a statement's
/// configuration.
#[derive(Debug)]
pub(crate) struct EachExpr {
    /// The rule's name in EXPLAIN.
    pub(crate) name: &'static str,
    /// From the root down, or from the leaves up.
    pub(crate) order: Order,
    pub(crate) rewrite: fn(Expr, &DFSchema, &ConfigOptions) -> Result<Transformed<Expr>>,
}

impl AnalyzerRule for EachExpr {
    fn name(&self) -> &str {
        self.name
    }

    fn analyze(&self, plan: LogicalPlan, options: &ConfigOptions) -> Result<LogicalPlan> {
        let rewritten = plan.transform_up_with_subqueries(|plan| {
            let mut schema = merge_schema(&plan.inputs());
            if let LogicalPlan::TableScan(scan) = &plan {
                let source = DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?;
                schema.merge(&source);
            }
            let names = NamePreserver::new(&plan);
            let rewritten = plan.map_expressions(|expr| {
                let name = names.save(&expr);
                let one = |expr| (self.rewrite)(expr, &schema, options);
                let rewritten = match self.order {
                    Order::LeavesFirst => expr.transform_up(one)?,
                    Order::RootFirst => expr.transform_down(one)?,
                };
                Ok(rewritten.update_data(|expr| name.restore(expr)))
            })?;
            if rewritten.transformed { rewritten.map_data(LogicalPlan::recompute_schema) } else { Ok(rewritten) }
        })?;
        Ok(rewritten.data)
    }
}
