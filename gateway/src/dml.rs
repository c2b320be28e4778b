//! Writes: planned as a SELECT of keys and new values under the predicate, then mutations by row.
//!
//! [`target`] resolves the table, and [`select`] makes a SELECT that asks for keys and values: both are a
//! [`bound_write`]. Rows stream out of its [`Query`]; each becomes mutations in a
//! [`WriteSet`](crate::write_set::WriteSet). A row whose reading mattered is in the read set, and the commit is refused
//! when it changed since the pin. [`execute::write`](crate::execute) then runs a statement that commits by itself
//! again, [`ATTEMPTS_MAX`] times at most; in a transaction it fails. DataFusion's own hooks for writes are never used:
//! they lose predicates.

pub(crate) mod assign;
mod beside;
pub(crate) mod bound_write;
pub(crate) mod conditions;
pub(crate) mod defaults;
pub(crate) mod insert;
mod merge;
mod messages;
mod moved;
pub(crate) mod needs;
mod open_family;
mod range;
pub(crate) mod returning;
pub(crate) mod select;
pub(crate) mod set;
pub(crate) mod target;
#[cfg(test)]
mod tests;
mod update_delete;
pub(crate) mod upsert;

pub(crate) use defaults::parsed;
pub use defaults::{checked_columns, next_sql, settled};

use crate::{pg::error::Result, query::Query};
use datafusion::{scalar::ScalarValue, sql::sqlparser::ast};

/// How often a statement of its own is run when others keep changing its rows. Each refusal means that another commit
/// went through, so that this bounds patience, not progress.
pub(crate) const ATTEMPTS_MAX: usize = 64;

/// Plans a SELECT of ours with its parameters and runs it.
pub(crate) async fn rows(
    query: &Query,
    select: &ast::Statement,
    parameters: &[ScalarValue],
) -> Result<datafusion::execution::SendableRecordBatchStream> {
    let plan = query.plan(select).await?;
    let plan = if parameters.is_empty() { plan } else { plan.with_param_values(parameters.to_vec())? };
    query.run(plan).await
}
