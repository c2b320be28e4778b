//! An analyzer rule that rewrites each expression of a plan.

use datafusion::{
    common::{
        DFSchema,
        tree_node::{Transformed, TreeNode, TreeNodeIterator},
    },
    config::ConfigOptions,
    error::Result,
    logical_expr::{Expr, GroupingSet, LogicalPlan, expr_rewriter::NamePreserver, utils::merge_schema},
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

/// What is made of an expression, under the name that it had. In grouping sets each has a name of its own.
pub(crate) fn under_its_name(
    expr: Expr,
    names: &NamePreserver,
    rewrite: impl Fn(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<Expr>> {
    let named = |expr: Expr| {
        let name = names.save(&expr);
        Ok(rewrite(expr)?.update_data(|expr| name.restore(expr)))
    };
    let all = |exprs: Vec<Expr>| exprs.into_iter().map_until_stop_and_collect(named);
    let set = match expr {
        Expr::GroupingSet(set) => set,
        expr => return named(expr),
    };
    Ok(match set {
        GroupingSet::Rollup(exprs) => all(exprs)?.update_data(GroupingSet::Rollup),
        GroupingSet::Cube(exprs) => all(exprs)?.update_data(GroupingSet::Cube),
        GroupingSet::GroupingSets(sets) => {
            sets.into_iter().map_until_stop_and_collect(all)?.update_data(GroupingSet::GroupingSets)
        }
    }
    .update_data(Expr::GroupingSet))
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
                let one = |expr| (self.rewrite)(expr, &schema, options);
                under_its_name(expr, &names, |expr| match self.order {
                    Order::LeavesFirst => expr.transform_up(one),
                    Order::RootFirst => expr.transform_down(one),
                })
            })?;
            if rewritten.transformed { rewritten.map_data(LogicalPlan::recompute_schema) } else { Ok(rewritten) }
        })?;
        Ok(rewritten.data)
    }
}
