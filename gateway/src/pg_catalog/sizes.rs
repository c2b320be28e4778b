//! How large relations and databases are, and how many rows are alive in them: `pg_relation_size`, `pg_table_size`,
//! `pg_total_relation_size`, `pg_indexes_size`, `pg_database_size`; `n_live_tup` and `n_dead_tup` of
//! `pg_stat_user_tables`, `reltuples` and `relpages` of `pg_class`.
//!
//! A tenant's rows share files with those of others. The store tells how many rows a tenant's range has, exactly, and
//! which part of each file that is ([`Store::span`](keyspan_storage::Store::span)): no row is read. What was told last
//! is kept beside the counts of the table ([`TableWork`](crate::shares::work::TableWork)): `pg_class`, which every tool
//! asks for, shows that, and measures nothing.

use super::{
    cluster::{self, OPERATOR_DATABASE},
    objects::{count, is_index, own_table, table_of_oid},
    rights,
};
use crate::{
    context::StatementContext,
    pg::{
        error::{SqlError, SqlState},
        functions::{RowFunction, int_of, text_of},
    },
    pg_catalog::functions::row_function,
};
use arrow::datatypes::DataType;
use datafusion::{
    error::{DataFusionError, Result},
    logical_expr::Volatility,
    scalar::ScalarValue,
};
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
    let found = rows.span_info(table).map_err(|error| external(SqlError::from(error)))?;
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

/// The functions of sizes.
pub(super) fn functions() -> [RowFunction; 5] {
    let sized =
        |name, arity, run| row_function(name, arity, DataType::Int64, run).with_volatility(Volatility::Volatile);
    [
        sized("pg_relation_size", 1..=2, |values, statement| {
            match values.get(1).and_then(text_of).as_deref() {
                None | Some("main") => relation(values, statement, |span| span.bytes),
                // Where PostgreSQL keeps free space and visibility, which are not kept here.
                Some("fsm" | "vm" | "init") => relation(values, statement, |_| 0),
                Some(_) => {
                    let error = SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "invalid fork name");
                    Err(external(error.with_hint("Valid fork names are \"main\", \"fsm\", \"vm\", and \"init\".")))
                }
            }
        }),
        sized("pg_table_size", 1..=1, |values, statement| relation(values, statement, |span| span.bytes)),
        // A primary key is the order of the rows, and no index besides.
        sized("pg_indexes_size", 1..=1, |values, statement| relation(values, statement, |_| 0)),
        sized("pg_total_relation_size", 1..=1, |values, statement| {
            relation(values, statement, |span| span.bytes.saturating_add(span.history_bytes))
        }),
        sized("pg_database_size", 1..=1, database),
    ]
}

/// A size of a relation: of a table's rows; 0 for what has none of its own, NULL for what there is not.
fn relation(values: &[ScalarValue], statement: &StatementContext, of: fn(&SpanInfo) -> u64) -> Result<ScalarValue> {
    let Some(oid) = rights::relation_of(statement, &values[0])? else { return Ok(ScalarValue::Int64(None)) };
    let bytes = match table_of_oid(statement, oid) {
        Some(table) if own_table(oid) => measure(statement, table)?.as_ref().map_or(0, of),
        Some(_) if is_index(oid) => 0,
        _ if super::objects::name_of_relation(statement, oid).is_some() => 0,
        _ => return Ok(ScalarValue::Int64(None)),
    };
    Ok(ScalarValue::Int64(Some(count(bytes))))
}

fn database(values: &[ScalarValue], statement: &StatementContext) -> Result<ScalarValue> {
    let all = cluster::databases(statement);
    let found = match (int_of(&values[0]), text_of(&values[0])) {
        (Some(oid), _) => all.into_iter().find(|(own, _)| i64::from(*own) == oid),
        (None, Some(name)) => Some(all.into_iter().find(|(_, own)| *own == name).ok_or_else(|| {
            let message = format!("database \"{name}\" does not exist");
            external(SqlError::new(SqlState::INVALID_CATALOG_NAME, message))
        })?),
        (None, None) => None,
    };
    let Some(((oid, _), instance)) = found.zip(statement.instance.as_ref()) else {
        return Ok(ScalarValue::Int64(None));
    };
    let catalog = &instance.catalog;
    let tenant = statement.snapshot.tenants.values().find(|tenant| tenant.oid == oid);
    let span = match tenant.filter(|_| oid != OPERATOR_DATABASE) {
        Some(tenant) => catalog.tenant_span(&tenant.id),
        None => catalog.operator_span(),
    };
    let span = span.map_err(|error| external(SqlError::from(error)))?;
    Ok(ScalarValue::Int64(Some(count(span.bytes.saturating_add(span.history_bytes)))))
}

fn external(error: SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
