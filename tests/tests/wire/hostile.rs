//! Statements that ended or froze the server, and their kin, from one tenant's session while another works: each has
//! its answer with a SQLSTATE, and the other goes on.
//!
//! The server is a process of its own: a stack that overflows, or an allocation that fails, ends it.

use super::{
    command::Serving,
    harness::{connect, error, rows},
};
use anyhow::Result;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio_postgres::Client;

const PASSWORD: &str = "a password";

/// The SQLSTATE of a statement, or its first row.
async fn answer(client: &Client, sql: &str) -> String {
    match rows(client, sql).await {
        Ok(rows) => rows.into_iter().next().unwrap_or_default(),
        Err(_) => error(client, sql).await.chars().take(5).collect(),
    }
}

fn repeated(before: &str, repeated: &str, inner: &str, after: &str, count: usize) -> String {
    format!("{before}{}{inner}{}", repeated.repeat(count), after.repeat(count))
}

fn joined(count: usize, between: &str, item: impl Fn(usize) -> String) -> String {
    (0..count).map(item).collect::<Vec<_>>().join(between)
}

/// What each statement answers.
fn statements() -> Vec<(String, &'static str)> {
    let deep = 20_000;
    vec![
        (repeated("", "EXPLAIN ", "SELECT 1", "", deep), "54001"),
        (repeated("", "EXPLAIN ", "SELECT 1", "", 3), "42601"),
        (repeated("", "PREPARE a AS ", "SELECT 1", "", deep), "54001"),
        (repeated("SELECT ", "INTERVAL ", "'1'", "", 2_000), "54001"),
        (repeated("SELECT CAST(NULL AS ", "ARRAY< ", "int", " >", 2_000) + ")", "54001"),
        (repeated("SELECT ", "(", "1", ")", deep), "54001"),
        (repeated("SELECT ", "(", "1", ")", 500), "54001"),
        (repeated("SELECT 1", "::int", "", "", deep), "54001"),
        (repeated("SELECT ", "1 + ", "1", "", deep), "54001"),
        (repeated("SELECT ", "NOT ", "true", "", deep), "54001"),
        (repeated("", "SELECT 1 UNION ALL ", "SELECT 1", "", deep), "54001"),
        // These took hours to parse.
        (repeated("SELECT ", "abs(", "-1", ")", 60), "1"),
        (repeated("SELECT ", "CASE WHEN true THEN ", "1", " END", 60), "1"),
        (repeated("SELECT ", "(", "1", ")", 60), "1"),
        // Queries of WITH that double.
        (
            format!(
                "WITH a0 AS (SELECT 1 AS x), {} SELECT count(*) FROM a39",
                joined(39, ", ", |n| format!("a{} AS (SELECT a.x FROM a{n} a, a{n} b)", n + 1))
            ),
            "54001",
        ),
        // Values that are far larger than what they are made of.
        ("SELECT format('%9000000000000000000s', 'x')".into(), "22003"),
        ("SELECT format('%2000000000s', 'x')".into(), "54000"),
        ("SELECT array_repeat(0::bigint, 2147483647)".into(), "54000"),
        ("SELECT array_resize(ARRAY[1], 2147483647)".into(), "54000"),
        ("SELECT length(repeat('a', 2000000000))".into(), "54000"),
        ("SELECT length(lpad('x', 2000000000 - g)) FROM generate_series(1, 100) g".into(), "54000"),
        ("SELECT length(g::bit(80000000)) FROM generate_series(1, 1000) g".into(), "54000"),
        ("SELECT length((g % 2)::text::bit(80000000)) FROM generate_series(1, 1000) g".into(), "54000"),
        ("SELECT length(replace(repeat('a', 1000000), 'a', repeat('b', 10000)))".into(), "54000"),
        ("SELECT length(regexp_replace(repeat('a', 1000000), '(.*)', repeat('\\1', 10000)))".into(), "54000"),
        ("SELECT levenshtein(repeat('a', 1000000), repeat('b', 1000000))".into(), "22023"),
        // What is kept.
        (format!("CREATE VIEW v AS SELECT '{}'", "x".repeat(2 << 20)), "54000"),
        (format!("CREATE TABLE d (a text DEFAULT '{}')", "x".repeat(2 << 20)), "54000"),
        (format!("SET lc_time = '{}'", "x".repeat(100_000)), "22023"),
        // What programs send, long: it works.
        (
            format!(
                "SELECT count(*) FROM generate_series(1, 10) g WHERE {}",
                joined(2_000, " OR ", |n| format!("g = {n}"))
            ),
            "10",
        ),
        (
            format!(
                "SELECT count(*) FROM generate_series(1, 10) g WHERE g IN ({})",
                joined(16_000, ",", |n| n.to_string())
            ),
            "10",
        ),
        ("WITH w AS (DELETE FROM own RETURNING *) SELECT 1".to_owned(), "1"),
        (
            format!(
                "INSERT INTO own VALUES {}; SELECT count(*) FROM own",
                joined(8_000, ",", |n| format!("({n}, 'a text')"))
            ),
            "8000",
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn each_hostile_statement_has_an_answer_and_another_tenant_works_on() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let serving = Serving::start(folder.path(), Some(PASSWORD)).await?;
    let operator = connect(&serving.config(PASSWORD)).await?;
    let mut clients = Vec::new();
    for tenant in ["alto", "altostrat"] {
        operator.batch_execute(&format!("CREATE ROLE {tenant} LOGIN PASSWORD '{PASSWORD}'")).await?;
        operator.batch_execute(&format!("CREATE DATABASE {tenant} OWNER {tenant}")).await?;
        let mut config = serving.config(PASSWORD);
        config.user(tenant).dbname(tenant);
        clients.push(connect(&config).await?);
    }
    let (hostile, neighbour) = (&clients[0], &clients[1]);
    hostile.batch_execute("CREATE TABLE own (a bigint PRIMARY KEY, b text)").await?;
    neighbour.batch_execute("CREATE TABLE own (a bigint PRIMARY KEY)").await?;

    let done = AtomicBool::new(false);
    let attack = async {
        let mut wrong = Vec::new();
        for (sql, expected) in statements() {
            let answer = answer(hostile, &sql).await;
            if answer != expected {
                wrong.push(format!("{}: {answer}, not {expected}", &sql[..sql.floor_char_boundary(60)]));
            }
        }
        done.store(true, Ordering::SeqCst);
        wrong
    };
    let work = async {
        let mut count = 0_u64;
        while !done.load(Ordering::SeqCst) {
            neighbour.batch_execute(&format!("INSERT INTO own VALUES ({count})")).await?;
            count += 1;
        }
        Ok::<_, tokio_postgres::Error>(count)
    };
    let (wrong, count) = tokio::join!(attack, work);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(rows(neighbour, "SELECT count(*) FROM own").await?, [count?.to_string()]);
    Ok(())
}
