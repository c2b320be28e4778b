//! `keyspan.tenants` and `keyspan.usage`: what tenants may take of the server, and what they have taken.

use super::{
    columns::{Cell, Row},
    objects::count,
};
use crate::{context::StatementContext, pg_catalog::columns::row, shares::usage::Line};
use keyspan_catalog::{Tenant, TenantState};
use std::sync::Arc;

/// The rows of `keyspan.tenants`: sizes in bytes, times in milliseconds.
pub fn tenants(statement: &StatementContext) -> Vec<Row> {
    let one = |tenant: &Arc<Tenant>| {
        let state = match tenant.state {
            TenantState::Active => "active",
            TenantState::Creating => "creating",
            TenantState::Dropping => "dropping",
        };
        let quotas = tenant.quotas;
        row! {
            "oid" => tenant.oid, "tenant" => tenant.id.as_str(), "state" => state,
            "created_at" => Cell::Micros(tenant.created_micros),
            "scan_budget" => quotas.scan_bytes_max.map(count),
            "connections" => quotas.connections_max.map(i64::from),
            "statements" => quotas.statements_max.map(i64::from),
            "memory" => quotas.memory_bytes_max.map(count), "temporary" => quotas.temporary_bytes_max.map(count),
            "read_rate" => quotas.read_bytes_per_second.map(count),
            "write_rate" => quotas.written_bytes_per_second.map(count),
            "stored" => quotas.stored_bytes_max.map(count),
            "statement_timeout" => quotas.statement_timeout_millis.map(count),
            "weight" => quotas.weight.map(|weight| i32::try_from(weight).unwrap_or(i32::MAX)),
            "dryrun" => quotas.dryrun,
        }
    };
    statement.snapshot.tenants.values().map(one).collect()
}

/// The rows of `keyspan.usage`: those of all tenants for the operator, of its own for a tenant. The operator's own
/// statements have no tenant.
pub fn usage(statement: &StatementContext) -> Vec<Row> {
    let Some(instance) = &statement.instance else { return Vec::new() };
    let own = statement.rows.as_ref().and_then(|rows| rows.oid());
    if !statement.operator && own.is_none() {
        return Vec::new();
    }
    let shown = |oid: Option<u32>| statement.operator || oid == own;
    let names = |oid: u32| statement.snapshot.tenants.values().find(|tenant| tenant.oid == oid);
    let mut rows = Vec::new();
    for share in instance.shares.all().into_iter().filter(|share| shown(share.tenant())) {
        let name = share.tenant().and_then(names).map(|tenant| tenant.id.as_str().to_owned());
        let lines = share.minutes.lock().lines(share.counters.amounts(), instance.clock.now_micros());
        rows.extend(lines.iter().map(|line| of_minute(share.tenant(), name.as_deref(), line)));
    }
    rows
}

fn of_minute(oid: Option<u32>, name: Option<&str>, line: &Line) -> Row {
    let amounts = line.amounts;
    row! {
        "oid" => oid, "tenant" => name.map(str::to_owned), "minute" => Cell::Micros(line.minute_micros),
        "statements" => count(amounts.statements), "rows_read" => count(amounts.rows_read),
        "bytes_read" => count(amounts.bytes_read), "rows_written" => count(amounts.rows_written),
        "bytes_written" => count(amounts.bytes_written), "stored_bytes" => line.stored_bytes.map(count),
        "busy_micros" => count(amounts.busy_nanos / 1_000), "refusals" => count(amounts.refusals),
        "dryrun_refusals" => count(amounts.dryrun_refusals),
    }
}
