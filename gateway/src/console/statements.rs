//! What the console shows of statements: those that run, those that took most time in all, and the latest slow ones
//! with their plans.

use crate::{
    activity::Activity,
    instance::Instance,
    statistics::{
        slow::Slow,
        statements::{Costs, Entry},
    },
};
use keyspan_catalog::{Snapshot, ids::OPERATOR_DATABASE};
use serde_json::{Value, json};
use std::sync::Arc;

/// Sessions whose statements are listed, the longest first.
const RUNNING_MAX: usize = 100;
/// Statements that are listed, those that took most time first.
const TOP_MAX: usize = 30;

/// The statements that run.
pub(super) fn running(instance: &Instance, now_micros: i64) -> Vec<Value> {
    let mut busy: Vec<_> = instance.activities.all().into_iter().filter(|session| session.state != "idle").collect();
    busy.sort_by_key(|session| session.query_micros);
    busy.truncate(RUNNING_MAX);
    let one = |session: Activity| {
        let millis = session.query_micros.map_or(0, |began| (now_micros - began).max(0) / 1_000);
        json!({
            "pid": session.process_id, "database": session.database, "role": session.role,
            "application": session.application_name, "state": session.state, "millis": millis,
            "query": session.query,
        })
    };
    busy.into_iter().map(one).collect()
}

/// The statements that took most time in all, and the latest that took long.
pub(crate) fn statements(instance: &Instance) -> Value {
    let slow = instance.statistics.slow.all();
    let log_min = instance.log_min_duration().unwrap_or(crate::statistics::slow::SLOW_LEAST);
    json!({
        "top": top(instance), "slow": slow.iter().map(|slow| slow_of(slow)).collect::<Vec<_>>(),
        "slow_min_millis": log_min.as_millis(),
    })
}

fn top(instance: &Instance) -> Vec<Value> {
    let snapshot = instance.catalog.snapshot();
    let mut all: Vec<_> = instance.statistics.texts.all().into_iter().map(|entry| (entry.costs(), entry)).collect();
    all.retain(|(costs, _)| costs.calls > 0);
    all.sort_by(|(one, _), (other, _)| other.total.total_cmp(&one.total));
    all.truncate(TOP_MAX);
    let one = |(costs, entry): &(Costs, Arc<Entry>)| {
        json!({
            "database": entry.database.map_or(Some(OPERATOR_DATABASE), |oid| name_of(&snapshot, oid)),
            "role": entry.role, "text": entry.text, "calls": costs.calls, "total_millis": costs.total,
            "mean_millis": costs.mean, "max_millis": costs.max, "rows": costs.rows,
        })
    };
    all.iter().map(one).collect()
}

fn name_of(snapshot: &Snapshot, oid: u32) -> Option<&str> {
    snapshot.tenants.values().find(|tenant| tenant.oid == oid).map(|tenant| tenant.id.as_str())
}

fn slow_of(slow: &Slow) -> Value {
    json!({
        "ended_at": slow.ended_micros / 1_000, "database": slow.database, "role": slow.role, "pid": slow.process_id,
        "millis": slow.took.as_secs_f64() * 1e3, "rows": slow.rows, "error": slow.error, "text": slow.text,
        "plan": slow.plan,
    })
}
