//! What the console shows of tenants: what they have used, what they may use, and those that are gone with their
//! certificates; what was erased of others.

use crate::{
    instance::Instance,
    shares::{
        Share,
        usage::{Amounts, MINUTE_MICROS},
    },
};
use keyspan_catalog::{DropCertificate, Erasure, Quotas, Tenant, TenantId, TenantState};
use serde_json::{Value, json};
use std::{cmp::Reverse, collections::HashMap, sync::Arc};

/// Tenants that are listed, the busiest first.
const TENANTS_MAX: usize = 50;
/// Drops, and erasures, that are listed, the latest first.
const DROPS_MAX: usize = 100;
/// What the operator's own share is called: no tenant has this name.
const OPERATOR: &str = "(operator)";

/// The tenants whose names contain a text, with what they used in the last hour; and all drops and erasures. Blocks for
/// a few reads of files, of which the size of a tenant comes.
pub(crate) fn tenants(instance: &Instance, find: &str) -> Value {
    let snapshot = instance.catalog.snapshot();
    let now_micros = instance.clock.now_micros();
    let shares: HashMap<Option<u32>, Arc<Share>> =
        instance.shares.all().into_iter().map(|share| (share.tenant(), share)).collect();
    let used = |tenant: Option<u32>| shares.get(&tenant).map(|share| of_hour(share, now_micros)).unwrap_or_default();
    let known = snapshot.tenants.values().filter(|tenant| tenant.id.as_str().contains(find));
    let mut all: Vec<(Amounts, Option<&Arc<Tenant>>)> =
        known.map(|tenant| (used(Some(tenant.oid)), Some(tenant))).collect();
    let count = all.len();
    if find.is_empty() {
        all.push((used(None), None));
    }
    let name = |tenant: Option<&Arc<Tenant>>| tenant.map_or_else(String::new, |tenant| tenant.id.to_string());
    all.sort_by_cached_key(|(used, tenant)| (Reverse(used.busy_nanos), Reverse(used.statements), name(*tenant)));
    all.truncate(TENANTS_MAX);
    let one = |(used, tenant): &(Amounts, Option<&Arc<Tenant>>)| {
        let share = shares.get(&tenant.map(|tenant| tenant.oid));
        let span = match tenant {
            Some(tenant) => instance.catalog.tenant_span(&tenant.id),
            None => instance.catalog.operator_span(),
        };
        // A store that cannot read its files says so elsewhere.
        let bytes = span.ok().map(|span| span.bytes.saturating_add(span.history_bytes));
        json!({
            "tenant": tenant.map_or(OPERATOR, |tenant| tenant.id.as_str()),
            "state": tenant.map_or("", |tenant| state(tenant.state)),
            "connections": share.map_or(0, |share| share.connections()),
            "statements": used.statements, "rows_read": used.rows_read, "bytes_read": used.bytes_read,
            "rows_written": used.rows_written, "bytes_written": used.bytes_written,
            "busy_millis": used.busy_nanos / 1_000_000, "refusals": used.refusals,
            "dryrun_refusals": used.dryrun_refusals, "stored_bytes": bytes,
            // As the quota counts them: rows as clients wrote them, not the bytes of files.
            "quota_bytes": share.and_then(|share| share.stored()).map(|stored| stored.bytes),
            "quotas": tenant.map(|tenant| quotas(&tenant.quotas)).unwrap_or_default(),
        })
    };
    json!({ "count": count, "tenants": all.iter().map(one).collect::<Vec<_>>() })
}

/// Dropped tenants with their certificates, and erasures, the latest first.
pub(crate) fn drops(instance: &Instance) -> Value {
    let snapshot = instance.catalog.snapshot();
    let mut drops: Vec<_> = snapshot.drops.iter().collect();
    drops.sort_by_key(|drop| Reverse(drop.dropped_micros));
    let private = snapshot
        .private
        .iter()
        .flat_map(|(tenant, own)| own.erasures.iter().map(move |(number, erasure)| (Some(tenant), *number, erasure)));
    let shared = snapshot.erasures.iter().map(|(number, erasure)| (None, *number, erasure));
    let mut erasures: Vec<_> = shared.chain(private).collect();
    erasures.sort_by_key(|(_, number, erasure)| (Reverse(erasure.requested_micros), Reverse(*number)));
    json!({
        "drops": drops.iter().take(DROPS_MAX).map(|drop| drop_of(drop)).collect::<Vec<_>>(),
        "drops_count": drops.len(),
        "erasures": erasures.iter().take(DROPS_MAX).map(|one| erasure_of(one)).collect::<Vec<_>>(),
        "erasures_count": erasures.len(),
        "purge_error": instance.purges.error(),
    })
}

/// What a share has used in the last hour.
fn of_hour(share: &Share, now_micros: i64) -> Amounts {
    let lines = share.minutes.lock().lines(share.counters.amounts(), now_micros);
    let of_hour = lines.iter().filter(|line| line.minute_micros > now_micros - 60 * MINUTE_MICROS);
    of_hour.fold(Amounts::default(), |sum, line| sum.and(line.amounts))
}

fn state(state: TenantState) -> &'static str {
    match state {
        TenantState::Active => "active",
        TenantState::Creating => "creating",
        TenantState::Dropping => "dropping",
    }
}

/// The quotas that are set, as `keyspan.tenants` names them: name, value, unit.
fn quotas(quotas: &Quotas) -> Vec<Value> {
    let set = [
        ("scan budget", quotas.scan_bytes_max, "bytes"),
        ("connections", quotas.connections_max.map(u64::from), ""),
        ("statements", quotas.statements_max.map(u64::from), ""),
        ("memory", quotas.memory_bytes_max, "bytes"),
        ("temporary", quotas.temporary_bytes_max, "bytes"),
        ("read rate", quotas.read_bytes_per_second, "bytes/s"),
        ("write rate", quotas.written_bytes_per_second, "bytes/s"),
        ("stored", quotas.stored_bytes_max, "bytes"),
        ("statement timeout", quotas.statement_timeout_millis, "ms"),
        ("weight", quotas.weight.map(u64::from), ""),
    ];
    let set = set.into_iter().filter_map(|(name, value, unit)| Some(json!([name, value?, unit])));
    set.chain(quotas.dryrun.then(|| json!(["dry run", Value::Null, ""]))).collect()
}

fn drop_of(drop: &DropCertificate) -> Value {
    json!({
        "oid": drop.oid, "tenant": drop.tenant.as_str(), "dropped_by": drop.dropped_by, "tables": drop.tables,
        "rows": drop.rows, "bytes": drop.bytes, "dropped_at": millis(Some(drop.dropped_micros)),
        "purged_at": millis(drop.purged_micros), "purge": drop.purge_state().name(),
        "certificate": drop.to_json(),
    })
}

fn erasure_of((tenant, number, erasure): &(Option<&TenantId>, u64, &Arc<Erasure>)) -> Value {
    json!({
        "tenant": tenant.map(|tenant| tenant.as_str()), "number": number, "kind": erasure.kind.name(),
        "table": erasure.table_name, "what": erasure.what, "requested_by": erasure.requested_by,
        "requested_at": millis(Some(erasure.requested_micros)), "rows": erasure.size.rows, "bytes": erasure.size.bytes,
        "deadline": millis(Some(erasure.deadline_micros)), "purge": erasure.state(),
        "purged_at": millis(erasure.purged_micros),
    })
}

fn millis(micros: Option<i64>) -> Option<i64> {
    micros.map(|micros| micros / 1_000)
}
