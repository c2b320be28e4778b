//! Tables for DataFusion.
//!
//! The life of a scan:
//!
//! 1. The optimizer passes its filters to [`table`], which plans them by [`pushdown`] (over `predicate`, `literal` and
//!    `interval`), and promises which of them become ranges of keys and which must stay above.
//! 2. The planner asks for the scan, and the same function says what [`exec`] reads.
//! 3. If the scan reads many rows and the store has row groups, [`columnar`] reads these instead.
//! 4. Rows of the store become batches in [`batches`] and [`decode`]. `cells` and `raw` read the same rows as they are
//!    stored. Of what a statement finds by its key they become values of the wire at once (`row_values`).
//!
//! A page of rows in key order is looked for among the first rows before row groups are read ([`first_rows`]). Below an
//! aggregation that needs the first or last row of each group only, [`loose_scan`] seeks these. `EXPLAIN`
//! prints all of this (room `query`, module `explain`).
//!
//! Only a [`View`] reaches rows, so nothing here can leave the tenant's span.

pub mod batches;
mod cells;
pub mod columnar;
pub mod decode;
pub mod exec;
mod first_rows;
mod interval;
pub mod keys;
mod literal;
pub mod loose_scan;
mod node;
mod open_family;
mod predicate;
pub mod pushdown;
mod raw;
mod row_layout;
mod row_values;
pub mod table;

use crate::{
    pg::{
        error::{SqlError, SqlState},
        names::{RelationName, Schema},
    },
    rights::Needs,
    view::View,
};
use datafusion::{
    catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider},
    common::Result,
    error::DataFusionError,
    logical_expr::Expr,
    physical_plan::{ExecutionPlan, filter::FilterExec, joins::HashJoinExec},
};
use keyspan_catalog::{Privileges, Relation};
use std::sync::Arc;
use table::Form;

pub use batches::rows;
pub use exec::ScanExec;
pub use first_rows::FirstRows;
pub(crate) use first_rows::FirstRowsExec;
pub(crate) use open_family::{NarrowMaps, narrowed_copy};
pub use pushdown::{Pushdown, exact_rows};
pub(crate) use row_layout::WantedMaps;
pub use row_layout::row_layout;
pub(crate) use row_values::RowValues;
pub(crate) use table::{KeyOrderedScans, timestamp_column};
pub use table::{KeyspanTable, exact_range, schema_of};

/// Checks the row groups that a plan is certain to read against the scan budget. A scan below a limit may end early;
/// below a filter or a join it may skip row groups by their statistics.
///
/// # Errors
/// 53400 if they exceed the budget.
pub fn within_budget(plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
    let may_skip = plan.is::<FilterExec>() || plan.is::<HashJoinExec>() || plan.is::<loose_scan::LooseScanExec>();
    if may_skip || plan.fetch().is_some() {
        return Ok(());
    }
    if let Some(scan) = plan.downcast_ref::<columnar::ColumnarExec>() {
        let (view, _) = scan.scan().view_and_table();
        let Some(budget) = &view.budget else { return Ok(()) };
        let checked = budget.check(scan.stats().bytes, scan.scan().hint().as_deref());
        return checked.map_err(|error| DataFusionError::External(Box::new(error)));
    }
    plan.children().into_iter().try_for_each(within_budget)
}

/// The table functions `cells` and `raw` over a view, by name.
pub(crate) fn functions(view: &View, needs: &Arc<Needs>) -> Vec<(&'static str, Arc<dyn TableFunctionImpl>)> {
    let function =
        |form| -> Arc<dyn TableFunctionImpl> { Arc::new(TableForm { view: view.clone(), needs: needs.clone(), form }) };
    vec![("cells", function(Form::Cells)), ("raw", function(Form::Raw))]
}

/// A table function whose argument is the name of a table.
#[derive(Debug)]
struct TableForm {
    view: View,
    needs: Arc<Needs>,
    form: Form,
}

impl TableFunctionImpl for TableForm {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        let name = match args.exprs() {
            [Expr::Literal(value, _)] => literal::text(value),
            _ => None,
        };
        let error = |state, message: String| DataFusionError::External(Box::new(SqlError::new(state, message)));
        let Some(name) = name else {
            let message = "the function takes one argument: the name of a table, as text".to_owned();
            return Err(error(SqlState::UNDEFINED_FUNCTION, message));
        };
        let (schema, bare) = match name.split_once('.').map(|(schema, bare)| (Schema::named(schema), bare)) {
            Some((schema, bare)) => (Some(schema), bare),
            _ => (None, name),
        };
        match self.view.find(&RelationName { schema, name: bare.to_owned() }) {
            Some((_, Relation::Table(table))) => {
                self.needs.add(&self.view.snapshot, table.id.0, Privileges::SELECT, None);
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
