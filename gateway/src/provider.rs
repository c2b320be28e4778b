//! Tables for DataFusion, and what it may ask of them.
//!
//! The life of a scan: the optimizer shows its filters to [`table`], which promises by [`pushdown`] what becomes ranges of keys
//! (`interval`, `literal` and `predicate` beneath it) and what stays above; the planner then asks for the scan, and the same
//! function says what [`exec`] reads. Its rows become batches in [`decode`]. `cells` and `raw` show the same rows as they are
//! stored. Scans of many rows read row groups instead, where the store has them ([`columnar`]). [`explain`](mod@crate::query::explain) prints what became of it
//! all.
//!
//! Only a [`View`] reaches rows, so nothing here can leave the tenant's span.

mod cells;
pub mod columnar;
pub mod decode;
pub mod exec;
mod interval;
pub mod keys;
mod literal;
pub mod loose_scan;
mod predicate;
pub mod pushdown;
mod raw;
pub mod table;

use crate::{
    pg::{
        error::{SqlError, SqlState},
        names::{RelationName, Schema},
    },
    view::View,
};
use datafusion::{
    catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider},
    common::Result,
    error::DataFusionError,
    logical_expr::Expr,
    physical_plan::{ExecutionPlan, filter::FilterExec, joins::HashJoinExec},
};
use keyspan_catalog::Relation;
use std::sync::Arc;
use table::Form;

pub use exec::ScanExec;
pub use exec::rows;
pub use pushdown::{Pushdown, exact_rows};
pub(crate) use table::InKeyOrder;
pub use table::{KeyspanTable, exact_range, row_layout, schema_of};

/// Holds what a plan is sure to read against the budgets of its scans: row groups below nothing that ends early, or that leaves any of
/// them out (statistics held against filters, or against what the other side of a join holds).
///
/// # Errors
/// 53400.
pub fn within_budget(plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
    let may_leave_out = plan.is::<FilterExec>() || plan.is::<HashJoinExec>() || plan.is::<loose_scan::LooseScanExec>();
    if may_leave_out || plan.fetch().is_some() {
        return Ok(());
    }
    if let Some(scan) = plan.downcast_ref::<columnar::ColumnarExec>() {
        let (view, _) = scan.scan().door();
        let Some(budget) = &view.budget else { return Ok(()) };
        let checked = budget.check(scan.counts().bytes, scan.scan().hint().as_deref());
        return checked.map_err(|error| DataFusionError::External(Box::new(error)));
    }
    plan.children().into_iter().try_for_each(within_budget)
}

/// The table functions of a statement, by name: `cells` and `raw`.
pub fn functions(view: &View) -> Vec<(&'static str, Arc<dyn TableFunctionImpl>)> {
    let function = |form| -> Arc<dyn TableFunctionImpl> { Arc::new(OfTable { view: view.clone(), form }) };
    vec![("cells", function(Form::Cells)), ("raw", function(Form::Raw))]
}

/// A function that shows a table, named by its argument.
#[derive(Debug)]
struct OfTable {
    view: View,
    form: Form,
}

impl TableFunctionImpl for OfTable {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        let name = match args.exprs() {
            [Expr::Literal(value, _)] => literal::text(value),
            _ => None,
        };
        let wrong = |state, message: String| DataFusionError::External(Box::new(SqlError::new(state, message)));
        let Some(name) = name else {
            let message = "the function takes one argument: the name of a table, as text".to_owned();
            return Err(wrong(SqlState::UNDEFINED_FUNCTION, message));
        };
        let (schema, bare) = match name.split_once('.').map(|(schema, bare)| (Schema::of(schema), bare)) {
            Some((Some(schema), bare)) => (Some(schema), bare),
            _ => (None, name),
        };
        match self.view.find(&RelationName { schema, name: bare.to_owned() }) {
            Some((_, Relation::Table(table))) => {
                Ok(Arc::new(KeyspanTable::of(Arc::clone(table), self.view.clone(), self.form)))
            }
            _ => Err(DataFusionError::External(Box::new(SqlError::undefined_relation(name)))),
        }
    }
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
