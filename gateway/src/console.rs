//! The console: one page, and what it asks for, as JSON. Who may ask is decided above; all that is told here is what an
//! operator may read by SQL.
//!
//! The page is part of the program: nothing is built for it, and it asks no other host. Answers are bounded by the
//! constants below, whatever the server holds.

mod heat;

use crate::{
    audit::Event,
    instance::Instance,
    shares::{
        Share,
        usage::{Amounts, MINUTE_MICROS},
    },
};
pub(crate) use heat::{Span, heat};
use serde_json::{Value, json};
use std::sync::Arc;

/// Sessions whose statements are listed, the longest first.
const RUNNING_MAX: usize = 100;
/// Tenants that are listed, the busiest first.
const TENANTS_MAX: usize = 50;
/// Statements that are listed, those that took most time first.
const SLOW_MAX: usize = 30;

/// A file of the page.
#[derive(Debug)]
pub(crate) struct File {
    path: &'static str,
    pub(crate) content_type: &'static str,
    pub(crate) text: &'static str,
}

const FILES: [File; 3] = [
    File { path: "/", content_type: "text/html; charset=utf-8", text: include_str!("console/page.html") },
    File { path: "/console/page.css", content_type: "text/css; charset=utf-8", text: include_str!("console/page.css") },
    File {
        path: "/console/page.js",
        content_type: "text/javascript; charset=utf-8",
        text: include_str!("console/page.js"),
    },
];

/// What the page may load: its own files and answers, in no frame.
pub(crate) const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                                         base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The file at a path.
pub(crate) fn file(path: &str) -> Option<&'static File> {
    FILES.iter().find(|file| file.path == path)
}

/// What the server does now: tenants, statements that run, and those that took most time.
pub(crate) fn state(instance: &Instance, connections_max: usize) -> Value {
    let now_micros = instance.clock.now_micros();
    let sessions = instance.activities.all();
    json!({
        "time": now_micros / 1_000,
        "version": env!("CARGO_PKG_VERSION"),
        "connections": sessions.len(),
        "connections_max": connections_max,
        "running": running(instance, now_micros),
        "tenants": tenants(instance, now_micros),
        "slow": slow(instance),
    })
}

/// Stops the statement of a process; whether there is such a process.
pub(crate) fn cancel(instance: &Instance, peer: &str, process_id: i32) -> bool {
    let sessions = instance.activities.all();
    let Some(found) = sessions.into_iter().find(|session| session.process_id == process_id) else { return false };
    let event = Event::new("cancel").text("peer", peer).with("target_pid", process_id);
    instance.audit.record(instance.clock.now_micros(), event.text("target_role", &found.role));
    found.controls.cancel();
    true
}

fn running(instance: &Instance, now_micros: i64) -> Vec<Value> {
    let mut busy: Vec<_> = instance.activities.all().into_iter().filter(|session| session.state != "idle").collect();
    busy.sort_by_key(|session| session.query_micros);
    busy.truncate(RUNNING_MAX);
    let one = |session: crate::activity::Activity| {
        let millis = session.query_micros.map_or(0, |began| (now_micros - began).max(0) / 1_000);
        json!({
            "pid": session.process_id, "database": session.database, "role": session.role,
            "application": session.application_name, "state": session.state, "millis": millis,
            "query": session.query,
        })
    };
    busy.into_iter().map(one).collect()
}

fn tenants(instance: &Instance, now_micros: i64) -> Vec<Value> {
    let snapshot = instance.catalog.snapshot();
    let used = |share: Arc<Share>| {
        let lines = share.minutes.lock().lines(share.counters.amounts(), now_micros);
        let of_hour = lines.iter().filter(|line| line.minute_micros > now_micros - 60 * MINUTE_MICROS);
        (of_hour.fold(Amounts::default(), |sum, line| sum.and(line.amounts)), share)
    };
    let mut all: Vec<_> = instance.shares.all().into_iter().map(used).collect();
    all.retain(|(used, share)| *used != Amounts::default() || share.connections() > 0);
    all.sort_by_key(|(used, _)| std::cmp::Reverse(used.busy_nanos));
    all.truncate(TENANTS_MAX);
    let one = |(used, share): &(Amounts, Arc<Share>)| {
        let name =
            |oid: u32| snapshot.tenants.values().find(|tenant| tenant.oid == oid).map(|tenant| tenant.id.as_str());
        json!({
            "tenant": share.tenant().map_or(Some("(operator)"), name), "connections": share.connections(),
            "statements": used.statements, "rows_read": used.rows_read, "bytes_read": used.bytes_read,
            "rows_written": used.rows_written, "bytes_written": used.bytes_written,
            "busy_millis": used.busy_nanos / 1_000_000, "refusals": used.refusals,
        })
    };
    all.iter().map(one).collect()
}

fn slow(instance: &Instance) -> Vec<Value> {
    let snapshot = instance.catalog.snapshot();
    let mut all: Vec<_> = instance.statistics.texts.all().into_iter().map(|entry| (entry.costs(), entry)).collect();
    all.retain(|(costs, _)| costs.calls > 0);
    all.sort_by(|(one, _), (other, _)| other.total.total_cmp(&one.total));
    all.truncate(SLOW_MAX);
    let name = |oid: u32| snapshot.tenants.values().find(|tenant| tenant.oid == oid).map(|tenant| tenant.id.as_str());
    let one = |(costs, entry): &(crate::statistics::statements::Costs, Arc<crate::statistics::statements::Entry>)| {
        json!({
            "database": entry.database.map_or(Some("keyspan"), name), "role": entry.role, "text": entry.text,
            "calls": costs.calls, "total_millis": costs.total, "mean_millis": costs.mean, "max_millis": costs.max,
            "rows": costs.rows,
        })
    };
    all.iter().map(one).collect()
}
