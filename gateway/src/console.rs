//! The console: one page, and what it asks for, as JSON. Who may ask is decided above; all that is told here is what an
//! operator may read by SQL.
//!
//! The page is part of the program: nothing is built for it, and it asks no other host. `page.html` has the tabs,
//! `page.js` the log-in, the loops and what tabs share; each tab is a file of its own beside it, and asks for what the
//! module of its name answers here: [`heat`](mod@heat) and what runs, [`tenants`](mod@tenants),
//! [`statements`](mod@statements), [`store`](mod@store); of advice it is
//! [`pg_catalog::advice`](crate::pg_catalog::advice). Answers are bounded by the constants of these modules,
//! whatever the server holds.

mod heat;
mod statements;
mod store;
mod tenants;

use crate::{audit::Event, instance::Instance};
pub(crate) use heat::{Span, heat};
use serde_json::{Value, json};
pub(crate) use statements::statements;
pub(crate) use store::store;
pub(crate) use tenants::{drops, tenants};

/// A file of the page.
#[derive(Debug)]
pub(crate) struct File {
    path: &'static str,
    pub(crate) content_type: &'static str,
    pub(crate) text: &'static str,
}

/// A file of the folder `console`.
macro_rules! file {
    ($name:literal, $kind:literal) => {
        File {
            path: concat!("/console/", $name),
            content_type: concat!("text/", $kind, "; charset=utf-8"),
            text: include_str!(concat!("console/", $name)),
        }
    };
}

const FILES: &[File] = &[
    File { path: "/", content_type: "text/html; charset=utf-8", text: include_str!("console/page.html") },
    file!("page.css", "css"),
    file!("page.js", "javascript"),
    file!("ask.js", "javascript"),
    file!("text.js", "javascript"),
    file!("heat.js", "javascript"),
    file!("running.js", "javascript"),
    file!("tenants.js", "javascript"),
    file!("statements.js", "javascript"),
    file!("advice.js", "javascript"),
    file!("store.js", "javascript"),
];

/// What the page may load: its own files and answers, in no frame.
pub(crate) const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                                         base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The file at a path.
pub(crate) fn file(path: &str) -> Option<&'static File> {
    FILES.iter().find(|file| file.path == path)
}

/// What the server does now: connections, and the statements that run.
pub(crate) fn state(instance: &Instance, connections_max: usize) -> Value {
    let now_micros = instance.clock.now_micros();
    json!({
        "time": now_micros / 1_000,
        "started": instance.started_micros / 1_000,
        "version": env!("CARGO_PKG_VERSION"),
        "connections": instance.activities.all().len(),
        "connections_max": connections_max,
        "running": statements::running(instance, now_micros),
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
