//! The audit log of the real process: what it says, and what it never does.

use super::{
    command::{Serving, keyspan},
    harness::{connect, rows},
};
use anyhow::{Context, Result};
use rustix::process::Signal;
use serde_json::Value;
use std::path::Path;

/// A value and a key that no line may hold.
const SECRET: &str = "a very secret value";

fn lines(folder: &Path) -> Result<Vec<Value>> {
    let text = std::fs::read_to_string(folder.join("audit.jsonl"))?;
    assert!(!text.contains("secret"), "{text}");
    text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

/// The events that have these fields with these values.
fn found<'a>(lines: &'a [Value], fields: &[(&str, &str)]) -> Vec<&'a Value> {
    let has = |line: &Value, (name, value): &(&str, &str)| match &line[*name] {
        Value::String(text) => text == value,
        Value::Array(items) => items.iter().any(|item| item == value),
        _ => false,
    };
    lines.iter().filter(|line| fields.iter().all(|field| has(line, field))).collect()
}

#[tokio::test]
async fn what_roles_do_is_recorded_without_a_value() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let store = folder.path().join("store");
    let server = Serving::start(&store, Some("password")).await?;
    let config = server.config("password");
    let operator = connect(&config).await?;
    for statement in [
        "CREATE TABLE notes (k text PRIMARY KEY, v text DEFAULT 'a very secret value')",
        "CREATE DATABASE alto",
        "CREATE ROLE ana LOGIN PASSWORD 'secret of ana'",
        "GRANT CONNECT ON DATABASE alto TO ana",
        "ALTER DATABASE alto OWNER TO ana",
    ] {
        operator.batch_execute(statement).await?;
    }
    let mut of_ana = config.clone();
    of_ana.user("ana").password("secret of ana").dbname("alto");
    let ana = connect(&of_ana).await?;
    ana.batch_execute(&format!("CREATE TABLE own (k text PRIMARY KEY, v text CHECK (v <> '{SECRET}'))")).await?;
    ana.batch_execute(&format!("INSERT INTO own VALUES ('{SECRET} key', 'x'); CREATE VIEW w AS SELECT '{SECRET}' v"))
        .await?;
    ana.batch_execute("GRANT SELECT, INSERT ON own TO PUBLIC").await?;
    ana.batch_execute("COPY own TO 'out.parquet' (FORMAT parquet)").await?;
    ana.batch_execute("BEGIN; CREATE TABLE gone AS SELECT 1 AS x; ROLLBACK").await?;
    ana.batch_execute("CREATE ROLE eve").await.expect_err("not an operator");
    let mut wrong = of_ana.clone();
    wrong.password("a secret guess");
    connect(&wrong).await.err().context("a wrong password")?;
    let pid = rows(&ana, "SELECT pg_backend_pid()").await?.join("");
    operator.batch_execute(&format!("SELECT pg_terminate_backend({pid})")).await?;
    operator.batch_execute("REVOKE CONNECT ON DATABASE alto FROM ana").await?;
    operator.batch_execute("DROP DATABASE alto WITH (FORCE)").await?;
    drop(operator);
    server.signal(Signal::TERM).await?;

    let all = lines(&store.join("audit"))?;
    for (fields, count) in [
        (&[("event", "log_in"), ("role", "ana"), ("database", "alto")][..], 1),
        (&[("event", "log_in_refused"), ("role", "ana"), ("sqlstate", "28P01")], 1),
        (&[("event", "definition"), ("statement", "CREATE TABLE"), ("objects", "notes"), ("role", "keyspan")], 1),
        (&[("event", "definition"), ("statement", "CREATE ROLE"), ("objects", "ana"), ("options", "password")], 1),
        (&[("event", "definition"), ("statement", "CREATE ROLE"), ("objects", "eve"), ("sqlstate", "42501")], 1),
        (&[("event", "definition"), ("statement", "CREATE VIEW"), ("objects", "w"), ("database", "alto")], 1),
        (&[("event", "definition"), ("statement", "CREATE TABLE AS"), ("objects", "gone")], 1),
        (&[("event", "grant"), ("statement", "GRANT"), ("objects", "alto"), ("roles", "ana")], 1),
        (&[("event", "grant"), ("statement", "REVOKE"), ("objects", "alto"), ("roles", "ana")], 1),
        (&[("event", "grant"), ("statement", "ALTER DATABASE"), ("objects", "alto"), ("roles", "ana")], 1),
        (&[("event", "grant"), ("statement", "GRANT"), ("objects", "own"), ("roles", "public")], 1),
        (&[("event", "export"), ("file", "out.parquet"), ("role", "ana")], 1),
        (&[("event", "terminate"), ("role", "keyspan"), ("target_role", "ana")], 1),
        (&[("event", "session_ended"), ("role", "ana"), ("sqlstate", "57P01")], 1),
        (&[("event", "session_ended"), ("role", "keyspan")], 1),
        (&[("event", "drop"), ("statement", "DROP DATABASE"), ("objects", "alto")], 1),
    ] {
        assert_eq!(found(&all, fields).len(), count, "{fields:?} in {all:#?}");
    }
    let gone = found(&all, &[("objects", "gone")]);
    assert_eq!(gone[0]["in_transaction"], true);
    assert!(all.iter().all(|line| line["time"].as_str().is_some_and(|time| time.ends_with('Z') && time.contains('T'))));

    // The next start goes on behind it; another folder, or none.
    let elsewhere = folder.path().join("elsewhere");
    let server = Serving::start_with(&store, Some("password"), |command| {
        command.arg("--audit").arg(&elsewhere);
    })
    .await?;
    connect(&server.config("password")).await?;
    server.signal(Signal::TERM).await?;
    assert_eq!(lines(&store.join("audit"))?.len(), all.len());
    assert!(!lines(&elsewhere)?.is_empty());
    std::fs::write(folder.path().join("file"), "")?;
    let mut command = keyspan();
    command.args(["serve", "--listen", "127.0.0.1:0", "--store"]).arg(&store);
    let output = command.arg("--audit").arg(folder.path().join("file")).output().await?;
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot write the audit log"));
    Ok(())
}
