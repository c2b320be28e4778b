//! What sessions do, for `pg_stat_activity`.
//!
//! Each session has a line here from its login to its end; the connection says when a statement comes and when it is
//! answered. A text is kept up to [`QUERY_BYTES_MAX`], and there are as many lines as sessions.

use crate::identity::Identity;
use crate::lock::{Mutex, MutexGuard};
use keyspan_catalog::Snapshot;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

/// Bytes of a text that are kept: PostgreSQL's `track_activity_query_size`, without the byte at its end.
pub(crate) const QUERY_BYTES_MAX: usize = 1_023;

/// How long DROP DATABASE waits for the end of sessions, as PostgreSQL does: a client that has just gone away.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// The sessions of a server.
#[derive(Debug, Default)]
pub struct Activities {
    lines: Mutex<BTreeMap<u64, Arc<Mutex<Activity>>>>,
    last: Mutex<u64>,
    /// Notified when a session has ended.
    ended: Notify,
}

/// What a session does.
#[derive(Clone, Debug)]
pub(crate) struct Activity {
    /// The number of its connection.
    pub(crate) process_id: i32,
    /// Its role.
    pub(crate) role: String,
    /// The name of its database.
    pub(crate) database: String,
    /// The number of its tenant; `None` in the operator's database.
    pub(crate) tenant: Option<u32>,
    /// The setting.
    pub(crate) application_name: String,
    /// When it logged in, in microseconds.
    pub(crate) started_micros: i64,
    /// When its transaction began, if it is in one.
    pub(crate) transaction_micros: Option<i64>,
    /// When its last statement came.
    pub(crate) query_micros: Option<i64>,
    /// When it began to do what it does.
    pub(crate) changed_micros: i64,
    /// `active`, `idle`, …
    pub(crate) state: &'static str,
    /// The last statement.
    pub(crate) query: String,
    /// The text of the statement without a name.
    pub(crate) unnamed: String,
    /// The COPY that it runs, if it does.
    pub(crate) copy: Option<Arc<CopyProgress>>,
    /// How it is stopped.
    pub(crate) controls: Controls,
}

/// How far a COPY is.
#[derive(Debug)]
pub(crate) struct CopyProgress {
    /// The OID of its table; 0 for a query.
    pub(crate) relation: u32,
    /// `COPY FROM` or `COPY TO`.
    pub(crate) command: &'static str,
    bytes: AtomicU64,
    rows: AtomicU64,
}

impl CopyProgress {
    /// Of one that begins.
    pub(crate) fn new(relation: u32, command: &'static str) -> Self {
        Self { relation, command, bytes: AtomicU64::new(0), rows: AtomicU64::new(0) }
    }

    /// Says how many bytes were received or sent, and rows read or written.
    pub(crate) fn set(&self, bytes: u64, rows: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
        self.rows.store(rows, Ordering::Relaxed);
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }
}

/// How others may stop a session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Controls {
    /// The token of the statement that runs, if one does.
    pub(crate) running: Arc<Mutex<Option<CancellationToken>>>,
    /// Cancelled to end the session.
    pub(crate) ending: CancellationToken,
}

impl Controls {
    /// Stops the statement that runs, if one does.
    pub(crate) fn cancel(&self) {
        if let Some(token) = self.running.lock().as_ref() {
            token.cancel();
        }
    }
}

/// A session's line, for as long as it lives.
#[derive(Debug)]
pub(crate) struct Listed {
    number: u64,
    pub(crate) line: Arc<Mutex<Activity>>,
    all: Arc<Activities>,
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that panics runs under these locks.
    mutex.lock()
}

impl Activities {
    /// Adds a session.
    pub(crate) fn list(self: &Arc<Self>, activity: Activity) -> Listed {
        let mut last = locked(&self.last);
        *last += 1;
        let (number, line) = (*last, Arc::new(Mutex::new(activity)));
        locked(&self.lines).insert(number, line.clone());
        Listed { number, line, all: self.clone() }
    }

    /// The sessions of a tenant, given by its OID.
    pub(crate) fn of_tenant(&self, tenant: u32) -> Vec<Activity> {
        self.all().into_iter().filter(|activity| activity.tenant == Some(tenant)).collect()
    }

    /// The number of a role's sessions that began before this one. So of several that begin at the same time, one is
    /// the first.
    pub(crate) fn earlier_of_role(&self, listed: &Listed, role: &str) -> usize {
        let earlier: Vec<_> = locked(&self.lines).range(..listed.number).map(|(_, line)| line.clone()).collect();
        earlier.iter().filter(|line| locked(line).role == role).count()
    }

    /// The sessions of tenants that were dropped.
    pub(crate) fn of_dropped(&self, snapshot: &Snapshot) -> Vec<Activity> {
        let is_there = |oid: u32| snapshot.tenant_by_oid(oid).is_some();
        self.all().into_iter().filter(|activity| activity.tenant.is_some_and(|oid| !is_there(oid))).collect()
    }

    /// Waits until the sessions of a tenant, given by its OID, have ended, and ends them itself with `force`; `false`
    /// if some have not after [`END_TIMEOUT`].
    pub(crate) async fn ended(&self, tenant: u32, force: bool) -> bool {
        let deadline = Instant::now() + END_TIMEOUT;
        loop {
            // Before the look, so that no end is missed.
            let ended = self.ended.notified();
            let left = self.of_tenant(tenant);
            if left.is_empty() {
                return true;
            }
            if force {
                left.iter().for_each(|activity| activity.controls.ending.cancel());
            }
            if tokio::time::timeout_at(deadline, ended).await.is_err() {
                return false;
            }
        }
    }

    /// What all sessions do, the oldest first.
    pub(crate) fn all(&self) -> Vec<Activity> {
        let lines: Vec<_> = locked(&self.lines).values().cloned().collect();
        lines.iter().map(|line| locked(line).clone()).collect()
    }
}

impl Activity {
    /// Of a session that has just logged in.
    pub(crate) fn new(identity: &Identity, process_id: i32, now_micros: i64) -> Self {
        Self {
            process_id,
            role: identity.role.clone(),
            database: identity.database.clone(),
            tenant: identity.rows.oid(),
            application_name: String::new(),
            started_micros: now_micros,
            transaction_micros: None,
            query_micros: None,
            changed_micros: now_micros,
            state: "idle",
            query: String::new(),
            unnamed: String::new(),
            copy: None,
            controls: Controls::default(),
        }
    }

    pub(crate) fn begin(&mut self, now_micros: i64) {
        self.state = "active";
        self.query_micros = Some(now_micros);
        self.changed_micros = now_micros;
        self.transaction_micros.get_or_insert(now_micros);
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        locked(&self.all.lines).remove(&self.number);
        self.all.ended.notify_waiters();
    }
}

/// The beginning of a text, up to a whole character.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(QUERY_BYTES_MAX)]
}

pub(crate) fn put(into: &mut String, text: &str) {
    into.clear();
    into.push_str(cut(text));
}
