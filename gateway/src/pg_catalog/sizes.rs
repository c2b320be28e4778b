//! How large a table of the statement's database is, and how many rows are alive in it: for the functions of sizes and
//! `n_live_tup` of [`statistics`](super::statistics), and for `reltuples` and `relpages` of `pg_class`.
//!
//! A tenant's rows share files with those of others. The store tells how many rows a tenant's range has, exactly, and
//! which part of each file that is ([`Store::span`](keyspan_storage::Store::span)): no row is read. What was told last
//! is kept beside the counts of the table ([`TableWork`](crate::shares::work::TableWork)): `pg_class`, which every tool
//! asks for, shows that, and measures nothing.

use crate::{context::StatementContext, pg::error::Result};
use keyspan_catalog::{Table, TableId};
use keyspan_storage::SpanInfo;

/// Bytes of PostgreSQL's block, in which `relpages` counts.
const BLOCK_BYTES: u64 = 8 << 10;

/// Tables that one look at `pg_stat_user_tables` measures; of others it shows what is known.
pub(super) const MEASURED_MAX: usize = 1_000;

/// The size of a table's rows of the statement's database; `None` if the store cannot tell.
///
/// # Errors
/// The store's.
pub(super) fn measure(statement: &StatementContext, table: &Table) -> Result<Option<SpanInfo>> {
    let Some((instance, rows)) = statement.instance.as_ref().zip(statement.rows.as_ref()) else { return Ok(None) };
    let found = rows.span_info(table)?;
    if let Some(span) = found {
        instance.shares.of(rows.oid()).work.table(table.id.0).measured(span.rows, span.bytes);
    }
    Ok(found)
}

/// What was measured last of a table: rows, and blocks of 8 KiB.
pub(super) fn known(statement: &StatementContext, table: TableId) -> Option<(u64, u64)> {
    let (instance, rows) = statement.instance.as_ref().zip(statement.rows.as_ref())?;
    let (rows, bytes) = instance.shares.of(rows.oid()).work.of_table(table.0)?.last_measured()?;
    Some((rows, bytes.div_ceil(BLOCK_BYTES)))
}
