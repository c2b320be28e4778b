//! What a session keeps of the conditions on rows of tables that it writes: expressions over rows.
//!
//! To plan the conditions of a table takes longer than to write one row of it. What they became serves as long as the
//! catalog and the session's settings are what they were. Functions reach their statement by the configuration that
//! their calls hold: they get that of the statement which runs.

use super::StatementContext;
use crate::lock::Mutex;
use arrow::{
    array::{ArrayRef, RecordBatch},
    datatypes::{Schema, SchemaRef},
};
use datafusion::{
    common::tree_node::{Transformed, TransformedResult, TreeNode},
    config::ConfigOptions,
    error::Result,
    physical_expr::{PhysicalExpr, ScalarFunctionExpr},
};
use keyspan_catalog::{Snapshot, Table};
use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::Arc,
};

/// Tables whose conditions a session keeps, at most.
const TABLES_MAX: usize = 8;

/// The conditions that a session keeps, the latest first.
#[derive(Default)]
pub(crate) struct KeptConditions(Mutex<VecDeque<Entry>>);

struct Entry {
    snapshot: Arc<Snapshot>,
    settings: BTreeMap<String, String>,
    table: Arc<Table>,
    conditions: Arc<RowConditions>,
}

/// The conditions of a table, as what is computed of its rows.
pub(crate) struct RowConditions {
    /// The columns that are read.
    pub(crate) schema: SchemaRef,
    /// Their places among the columns of the table.
    pub(crate) places: Vec<usize>,
    /// What is computed of them, then of what that gives.
    pub(crate) steps: Vec<Step>,
}

/// Items, and what they give.
pub(crate) type Step = (Vec<Arc<dyn PhysicalExpr>>, SchemaRef);

impl fmt::Debug for KeptConditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeptConditions")
    }
}

impl RowConditions {
    /// The same without the statement for which it was planned, which would hold the session's conditions in turn:
    /// `bare` is a configuration of none.
    ///
    /// # Errors
    /// DataFusion's.
    pub(crate) fn of_no_statement(self, bare: &Arc<ConfigOptions>) -> Result<Self> {
        let bared = |(items, schema): Step| -> Result<Step> {
            Ok((items.iter().map(|item| within(item, bare)).collect::<Result<_>>()?, schema))
        };
        Ok(Self { steps: self.steps.into_iter().map(bared).collect::<Result<_>>()?, ..self })
    }

    /// The conditions, of rows of the columns that are read, in a statement's configuration.
    ///
    /// # Errors
    /// What evaluating one finds.
    pub(crate) fn of_rows(&self, mut rows: RecordBatch, options: &Arc<ConfigOptions>) -> Result<Vec<ArrayRef>> {
        for (items, schema) in &self.steps {
            let computed = items.iter().map(|item| within(item, options)?.evaluate(&rows)?.into_array(rows.num_rows()));
            let computed = computed.collect::<Result<Vec<_>>>()?;
            rows = RecordBatch::try_new(schema.clone(), computed)?;
        }
        Ok(rows.columns().to_vec())
    }
}

impl KeptConditions {
    /// How many tables have kept conditions.
    #[cfg(test)]
    pub(crate) fn tables(&self) -> usize {
        self.0.lock().len()
    }
}

/// An expression whose functions are called in a configuration.
fn within(expr: &Arc<dyn PhysicalExpr>, options: &Arc<ConfigOptions>) -> Result<Arc<dyn PhysicalExpr>> {
    let called = |node: Arc<dyn PhysicalExpr>| {
        let Some(call) = node.downcast_ref::<ScalarFunctionExpr>() else { return Ok(Transformed::no(node)) };
        let (fun, args, field) =
            (Arc::new(call.fun().clone()), call.args().to_vec(), call.return_field(&Schema::empty())?);
        let call = ScalarFunctionExpr::new(call.name(), fun, args, field, options.clone());
        Ok(Transformed::yes(Arc::new(call) as Arc<dyn PhysicalExpr>))
    };
    expr.clone().transform_up(called).data()
}

impl StatementContext {
    /// The conditions of a table as it is defined, if they are kept.
    pub(crate) fn kept_conditions(&self, table: &Arc<Table>) -> Option<Arc<RowConditions>> {
        let kept = self.conditions.0.lock();
        let is = |entry: &&Entry| {
            Arc::ptr_eq(&entry.table, table)
                && Arc::ptr_eq(&entry.snapshot, &self.snapshot)
                && entry.settings == self.settings
        };
        kept.iter().find(is).map(|entry| entry.conditions.clone())
    }

    /// Keeps the conditions of a table.
    pub(crate) fn keep_conditions(&self, table: &Arc<Table>, conditions: RowConditions) {
        let mut kept = self.conditions.0.lock();
        // What was kept for another version is of no use any more.
        kept.retain(|entry| entry.table.id != table.id);
        kept.truncate(TABLES_MAX - 1);
        kept.push_front(Entry {
            snapshot: self.snapshot.clone(),
            settings: self.settings.clone(),
            table: table.clone(),
            conditions: Arc::new(conditions),
        });
    }
}
