//! What has been done since the server's start, or since `pg_stat_reset`: the relations `pg_stat_database`,
//! `pg_stat_user_tables` and its kin, `pg_stat_statements`, `pg_stat_progress_copy`, and the functions that set back;
//! how large relations and databases are.
//!
//! A tenant's sessions see what was done in their own database, to shared tables too; the operator sees all databases.
//! Columns that mean something, and are not counted, are NULL; of what there is not (plans that are counted, JIT, the
//! blocks of local buffers) there are 0.

use super::{
    cluster::{self, OPERATOR_DATABASE},
    columns::{Cell, Row},
    objects::{
        count, index_oid, is_index, key_name, keyed_tables, name_of_relation, own_table, schema_name, table_of_oid,
    },
    rights, sizes, views,
};
use crate::{
    activity::Activity,
    context::StatementContext,
    pg::{
        error::{SqlError, SqlState},
        functions::{RowFunction, int_of, text, text_of},
    },
    pg_catalog::{columns::row, row_function::row_function},
    shares::{Share, work::TableWork},
    statistics::{slow::Slow, statements::Entry},
};
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::{
    error::{DataFusionError, Result},
    logical_expr::Volatility,
    scalar::ScalarValue,
};
use keyspan_catalog::Table;
use keyspan_storage::SpanInfo;
use std::sync::Arc;

/// Microseconds as the milliseconds that PostgreSQL shows.
fn millis(micros: u64) -> f64 {
    micros as f64 / 1e3
}

fn tenant_of(database: u32) -> Option<u32> {
    (database != OPERATOR_DATABASE).then_some(database)
}

/// The share of the statement's own database.
fn own_share(statement: &StatementContext) -> Option<Arc<Share>> {
    let (instance, rows) = statement.instance.as_ref().zip(statement.rows.as_ref())?;
    Some(instance.shares.of(rows.oid()))
}

/// The rows of `pg_stat_database`.
pub(super) fn databases(statement: &StatementContext) -> Vec<Row> {
    let Some(instance) = &statement.instance else { return Vec::new() };
    let activities = instance.activities.all();
    let now_micros = instance.clock.now_micros();
    let one = |(oid, name): (u32, String)| {
        let tenant = tenant_of(oid);
        let (share, own) = (instance.shares.of(tenant), activities.iter().filter(|of| of.tenant == tenant));
        let (work, tables) = (&share.work, share.work.all_tables());
        let (mut sessions, mut running) = (0, 0);
        for activity in own {
            sessions += 1;
            running += u64::try_from(now_micros - activity.started_micros).unwrap_or(0);
        }
        let read = tables.scanned_rows.get() + tables.key_rows.get();
        row! {
            "datid" => oid, "datname" => name, "numbackends" => sessions,
            "xact_commit" => count(work.commits.get()), "xact_rollback" => count(work.rollbacks.get()),
            "tup_returned" => count(read), "tup_fetched" => count(tables.key_rows.get()),
            "tup_inserted" => count(tables.inserted.get()), "tup_updated" => count(tables.updated.get()),
            "tup_deleted" => count(tables.deleted.get()), "conflicts" => 0_i64,
            "deadlocks" => count(work.deadlocks.get()),
            "session_time" => millis(work.session_micros.get() + running),
            "active_time" => millis(work.active_micros.get()), "sessions" => count(work.sessions.get()),
            "stats_reset" => work.reset_micros().map_or(Cell::Null, Cell::Micros),
        }
    };
    cluster::databases(statement).into_iter().map(one).collect()
}

/// The row of `pg_stat_archiver`: the log is archived nowhere.
pub(super) fn archiver(statement: &StatementContext) -> Vec<Row> {
    vec![row! { "archived_count" => 0_i64, "failed_count" => 0_i64, "stats_reset" => started(statement) }]
}

/// Since when is counted what nobody sets back.
fn started(statement: &StatementContext) -> Cell {
    statement.instance.as_ref().map_or(Cell::Null, |instance| Cell::Micros(instance.started_micros))
}

/// The row of `pg_stat_bgwriter`: no checkpoint writes buffers, flushes are in the metrics.
pub(super) fn background_writer(statement: &StatementContext) -> Vec<Row> {
    vec![row! {
        "checkpoints_timed" => 0_i64, "checkpoints_req" => 0_i64, "checkpoint_write_time" => Cell::Float(0.0),
        "checkpoint_sync_time" => Cell::Float(0.0), "buffers_checkpoint" => 0_i64, "buffers_clean" => 0_i64,
        "maxwritten_clean" => 0_i64, "buffers_backend" => 0_i64, "buffers_backend_fsync" => 0_i64,
        "buffers_alloc" => 0_i64, "stats_reset" => started(statement),
    }]
}

/// The rows of `pg_stat_database_conflicts`: of standbys, which there are not.
pub(super) fn conflicts(statement: &StatementContext) -> Vec<Row> {
    let one = |(oid, name): (u32, String)| {
        row! {
            "datid" => oid, "datname" => name, "confl_tablespace" => 0_i64, "confl_lock" => 0_i64,
            "confl_snapshot" => 0_i64, "confl_bufferpin" => 0_i64, "confl_deadlock" => 0_i64,
        }
    };
    cluster::databases(statement).into_iter().map(one).collect()
}

/// What was done to a table by the sessions of the statement's database.
fn work_of(share: Option<&Arc<Share>>, table: &Table) -> Arc<TableWork> {
    share.and_then(|share| share.work.of_table(table.id.0)).unwrap_or_default()
}

/// The rows of `pg_stat_all_tables` and its kin.
pub(super) fn tables(statement: &StatementContext) -> Vec<Row> {
    let share = own_share(statement);
    let one = |(at, table): (usize, &Arc<Table>)| {
        let work = work_of(share.as_ref(), table);
        // A store that fails tells its size to nobody, and the other columns stay of use.
        let measured = if at < sizes::MEASURED_MAX { sizes::measure(statement, table).ok().flatten() } else { None };
        let live = measured.map(|span| span.rows).or_else(|| Some(sizes::known(statement, table.id)?.0));
        row! {
            "relid" => table.id.0, "schemaname" => schema_name(statement, table.id.0), "relname" => table.name.clone(),
            "n_live_tup" => live.map(count), "n_dead_tup" => measured.map(|span| count(span.dead_rows)),
            "seq_scan" => count(work.scans.get()), "seq_tup_read" => count(work.scanned_rows.get()),
            "idx_scan" => count(work.key_scans.get()), "idx_tup_fetch" => count(work.key_rows.get()),
            "n_tup_ins" => count(work.inserted.get()), "n_tup_upd" => count(work.updated.get()),
            "n_tup_del" => count(work.deleted.get()), "n_tup_hot_upd" => 0_i64, "vacuum_count" => 0_i64,
            "autovacuum_count" => 0_i64, "analyze_count" => 0_i64, "autoanalyze_count" => 0_i64,
        }
    };
    statement.tables().enumerate().map(one).collect()
}

/// The rows of `pg_stat_all_indexes` and its kin: of primary keys.
pub(super) fn indexes(statement: &StatementContext) -> Vec<Row> {
    let share = own_share(statement);
    let one = |table: &Arc<Table>| {
        let (mut row, work) = (index(statement, table), work_of(share.as_ref(), table));
        row.extend(row! {
            "idx_scan" => count(work.key_scans.get()), "idx_tup_read" => count(work.key_rows.get()),
            "idx_tup_fetch" => count(work.key_rows.get()),
        });
        row
    };
    keyed_tables(statement).map(one).collect()
}

fn index(statement: &StatementContext, table: &Arc<Table>) -> Row {
    row! {
        "relid" => table.id.0, "indexrelid" => index_oid(table), "schemaname" => schema_name(statement, table.id.0),
        "relname" => table.name.clone(), "indexrelname" => key_name(table),
    }
}

/// The rows of `pg_statio_all_tables` and its kin. Blocks are not counted by table.
pub(super) fn blocks(statement: &StatementContext) -> Vec<Row> {
    let one = |table: &Arc<Table>| {
        row! {
            "relid" => table.id.0, "schemaname" => schema_name(statement, table.id.0), "relname" => table.name.clone(),
        }
    };
    statement.tables().map(one).collect()
}

/// The rows of `pg_statio_all_indexes` and its kin.
pub(super) fn index_blocks(statement: &StatementContext) -> Vec<Row> {
    keyed_tables(statement).map(|table| index(statement, table)).collect()
}

/// The rows of `pg_stat_statements`. A role reads its own statements; an operator all.
pub(super) fn statements(statement: &StatementContext) -> Vec<Row> {
    let Some((instance, rows)) = statement.instance.as_ref().zip(statement.rows.as_ref()) else { return Vec::new() };
    let sees_all = statement.snapshot.role(&statement.role).is_some_and(|role| role.operator);
    let one = |entry: &Arc<Entry>| {
        let costs = entry.costs();
        let mut row = row! {
            "userid" => statement.snapshot.role(&entry.role).map(|role| role.oid),
            "dbid" => entry.database.unwrap_or(OPERATOR_DATABASE), "toplevel" => true,
            "query" => "<insufficient privilege>", "calls" => count(costs.calls), "total_exec_time" => costs.total,
            "min_exec_time" => costs.min, "max_exec_time" => costs.max, "mean_exec_time" => costs.mean,
            "stddev_exec_time" => costs.deviation(), "rows" => count(costs.rows), "plans" => 0_i64,
            "total_plan_time" => 0.0, "min_plan_time" => 0.0, "max_plan_time" => 0.0, "mean_plan_time" => 0.0,
            "stddev_plan_time" => 0.0, "local_blks_hit" => 0_i64, "local_blks_read" => 0_i64,
            "local_blks_dirtied" => 0_i64, "local_blks_written" => 0_i64, "jit_functions" => 0_i64,
            "jit_generation_time" => 0.0, "jit_inlining_count" => 0_i64, "jit_inlining_time" => 0.0,
            "jit_optimization_count" => 0_i64, "jit_optimization_time" => 0.0, "jit_emission_count" => 0_i64,
            "jit_emission_time" => 0.0,
        };
        if sees_all || entry.role == statement.role {
            row.extend(row! { "queryid" => entry.id, "query" => entry.text.clone() });
        }
        row
    };
    let seen = |entry: &&Arc<Entry>| statement.operator || entry.database == rows.oid();
    instance.statistics.texts.all().iter().filter(seen).filter(|entry| entry.costs().calls > 0).map(one).collect()
}

/// The row of `pg_stat_statements_info`: of the whole server, for operators.
pub(super) fn statements_info(statement: &StatementContext) -> Vec<Row> {
    let Some(instance) = statement.instance.as_ref().filter(|_| statement.operator) else { return Vec::new() };
    vec![row! { "dealloc" => count(instance.statistics.texts.deallocated()) }]
}

/// The rows of `keyspan.slow_statements`, the latest first: for operators.
pub(super) fn slow(statement: &StatementContext) -> Vec<Row> {
    let Some(instance) = statement.instance.as_ref().filter(|_| statement.operator) else { return Vec::new() };
    let one = |slow: &Arc<Slow>| {
        row! {
            "ended_at" => Cell::Micros(slow.ended_micros), "database" => slow.database.clone(),
            "role" => slow.role.clone(), "pid" => slow.process_id, "duration_ms" => slow.took.as_secs_f64() * 1e3,
            "rows" => count(slow.rows), "error" => slow.error, "statement" => slow.text.clone(),
            "plan" => Some(slow.plan.clone()).filter(|plan| !plan.is_empty()),
        }
    };
    instance.statistics.slow.all().iter().map(one).collect()
}

/// The rows of `pg_stat_progress_copy`: those of one's own sessions, of all for an operator.
pub(super) fn copies(statement: &StatementContext) -> Vec<Row> {
    let Some((instance, rows)) = statement.instance.as_ref().zip(statement.rows.as_ref()) else { return Vec::new() };
    let sees_all = statement.snapshot.role(&statement.role).is_some_and(|role| role.operator);
    let seen = |activity: &Activity| {
        (statement.operator || activity.tenant == rows.oid()) && (sees_all || activity.role == statement.role)
    };
    let one = |activity: Activity| {
        let copy = activity.copy?;
        Some(row! {
            "pid" => activity.process_id, "datid" => activity.tenant.unwrap_or(OPERATOR_DATABASE),
            "datname" => activity.database, "relid" => copy.relation, "command" => copy.command, "type" => "PIPE",
            "bytes_processed" => count(copy.bytes()), "bytes_total" => 0_i64, "tuples_processed" => count(copy.rows()),
            "tuples_excluded" => 0_i64,
        })
    };
    instance.activities.all().into_iter().filter(seen).filter_map(one).collect()
}

/// `pg_stat_reset()`, `pg_stat_statements_reset()`, `pg_stat_clear_snapshot()`, `pg_stat_get_last_vacuum_time()` and
/// its kin.
pub(super) fn functions() -> [RowFunction; 7] {
    [
        row_function("pg_stat_reset", 0..=0, DataType::Utf8View, |_, statement| {
            check_may_reset(statement, "pg_stat_reset")?;
            if let Some((instance, share)) = statement.instance.as_ref().zip(own_share(statement)) {
                share.work.reset(instance.clock.now_micros());
            }
            Ok(text(""))
        })
        .with_volatility(Volatility::Volatile)
        .returning("void"),
        row_function("pg_stat_statements_reset", 0..=3, DataType::Utf8View, |values, statement| {
            check_may_reset(statement, "pg_stat_statements_reset")?;
            let Some((instance, rows)) = statement.instance.as_ref().zip(statement.rows.as_ref()) else {
                return Ok(text(""));
            };
            // 0, and what is not given, is every one.
            let wanted = |at: usize| values.get(at).and_then(int_of).filter(|number| *number != 0);
            let role = |entry: &Entry| statement.snapshot.role(&entry.role).map(|role| i64::from(role.oid));
            instance.statistics.texts.forget(|entry| {
                let database = i64::from(entry.database.unwrap_or(OPERATOR_DATABASE));
                (statement.operator || entry.database == rows.oid())
                    && wanted(0).is_none_or(|oid| role(entry) == Some(oid))
                    && wanted(1).is_none_or(|oid| database == oid)
                    && wanted(2).is_none_or(|id| entry.id == id)
            });
            Ok(text(""))
        })
        .with_volatility(Volatility::Volatile)
        .returning("void"),
        // There is no snapshot of statistics: each look is a new one.
        row_function("pg_stat_clear_snapshot", 0..=0, DataType::Utf8View, |_, _| Ok(text("")))
            .with_volatility(Volatility::Volatile)
            .returning("void"),
        // Nothing is vacuumed or analysed.
        never("pg_stat_get_last_vacuum_time"),
        never("pg_stat_get_last_autovacuum_time"),
        never("pg_stat_get_last_analyze_time"),
        never("pg_stat_get_last_autoanalyze_time"),
    ]
}

/// `pg_relation_size()` and its kin, `pg_database_size()`.
pub(super) fn size_functions() -> [RowFunction; 5] {
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
        Some(table) if own_table(oid) => sizes::measure(statement, table).map_err(external)?.as_ref().map_or(0, of),
        None if let Some(table) =
            views::of_oid(statement, oid).filter(|view| view.id == oid).and_then(|view| view.table()) =>
        {
            let table = table.space.is_some().then_some(table);
            let span = table.map(|table| sizes::measure(statement, &table)).transpose().map_err(external)?.flatten();
            span.as_ref().map_or(0, of)
        }
        Some(_) if is_index(oid) => 0,
        _ if name_of_relation(statement, oid).is_some() => 0,
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

/// The moment of what never happens to the relation.
fn never(name: &'static str) -> RowFunction {
    let moment = || DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    row_function(name, 1..=1, moment(), move |_, _| Ok(ScalarValue::TimestampMicrosecond(None, Some("UTC".into()))))
}

/// Statistics are set back by operators, and by the owner of the database.
fn check_may_reset(statement: &StatementContext, function: &str) -> Result<()> {
    let role = statement.snapshot.role(&statement.role);
    let owner = statement.snapshot.tenant(&statement.database).and_then(|tenant| tenant.owner);
    if role.is_some_and(|role| role.operator || Some(role.oid) == owner) {
        return Ok(());
    }
    let message = format!("permission denied for function {function}");
    Err(external(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)))
}

fn external(error: SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
