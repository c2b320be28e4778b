//! Ends the minutes of `keyspan.usage` and of `keyspan.heat`, and the days of `keyspan.advice`, in the background.

use crate::{heat::history::Period, instance::Instance};
use keyspan_catalog::{Snapshot, TenantState};
use std::{collections::HashSet, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// How often it looks whether a minute is over: what is used meanwhile counts to the minute before.
const LOOK: Duration = Duration::from_secs(1);

/// Looks until `stop`, and forgets the shares and statistics of what was dropped.
pub(super) async fn run(instance: Arc<Instance>, stop: CancellationToken) {
    let mut version = None;
    let mut minute = Period::minute_of(instance.clock.now_micros());
    while stop.run_until_cancelled(tokio::time::sleep(LOOK)).await.is_some() {
        let now_micros = instance.clock.now_micros();
        for share in instance.shares.all() {
            share.minutes.lock().roll(share.counters.amounts(), now_micros);
        }
        instance.heat.adapt();
        let now = Period::minute_of(now_micros);
        if now != minute {
            instance.heat.end_minute(minute, now_micros);
            instance.heat.store(&instance.catalog).await;
            minute = now;
        }
        instance.days.keep(&instance.catalog, &instance.shares, now_micros, false).await;
        instance.hours.keep(&instance.catalog, &instance.shares, now_micros, false).await;
        let snapshot = instance.catalog.snapshot();
        instance.shares.retain(&snapshot);
        if version.replace(snapshot.version) != Some(snapshot.version) {
            forget_what_is_gone(&instance, &snapshot);
        }
    }
    // The next start goes on with the minute.
    instance.heat.end_minute(minute, instance.clock.now_micros());
    instance.heat.store(&instance.catalog).await;
    instance.days.keep(&instance.catalog, &instance.shares, instance.clock.now_micros(), true).await;
    instance.hours.keep(&instance.catalog, &instance.shares, instance.clock.now_micros(), true).await;
}

/// Forgets statistics of databases and tables that were dropped.
fn forget_what_is_gone(instance: &Instance, snapshot: &Snapshot) {
    let active = snapshot.tenants.values().filter(|tenant| tenant.state == TenantState::Active);
    let databases: HashSet<u32> = active.map(|tenant| tenant.oid).collect();
    instance.statistics.texts.forget(|entry| entry.database.is_some_and(|oid| !databases.contains(&oid)));
    instance.statistics.slow.retain(|oid| databases.contains(&oid));
    let private = snapshot.private.values().flat_map(|own| own.with_rows()).map(|table| table.id);
    let tables: HashSet<u32> = snapshot.tables.keys().copied().chain(private).map(|id| id.0).collect();
    // A transaction may have made a table that this catalog does not know yet, and written to it.
    let is_there = |id: u32| tables.contains(&id) || id >= snapshot.next_oid;
    for share in instance.shares.all() {
        share.work.retain(is_there);
    }
    instance.heat.retain(is_there, |oid| databases.contains(&oid));
}
