//! Writers that keep a record of what a server acknowledged, whatever becomes of it.

use super::{
    super::{
        command::Serving,
        harness::{connect, rows},
    },
    tenant,
};
use anyhow::{Context, Result};
use rustix::process::Signal;
use std::collections::{BTreeMap, BTreeSet};
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_postgres::{Client, Config};

/// Rows of each statement of a writer.
const STATEMENT_ROWS: usize = 20;
/// How many statements before its own writer 2 changes one: its rows may be in a segment by then.
const BACK: i64 = 5;
/// Connections that write at a time.
const WRITERS: i64 = 4;

/// One transaction of a writer, in one of the ways that drivers have; each writes [`STATEMENT_ROWS`] rows or none. That
/// of writer 2 changes all rows of the statement [`BACK`] before it as well.
async fn write(client: &mut Client, writer: i64, statement: i64) -> Result<(), tokio_postgres::Error> {
    let values = |parts: std::ops::Range<usize>| {
        let text = "x".repeat(150);
        let rows: Vec<_> = parts.map(|part| format!("({writer}, {statement}, {part}, 'row {part} {text}')")).collect();
        format!("INSERT INTO t VALUES {}", rows.join(", "))
    };
    let (all, half) = (0..STATEMENT_ROWS, STATEMENT_ROWS / 2);
    match writer {
        0 => client.batch_execute(&values(all)).await,
        1 => client.execute(&values(all), &[]).await.map(drop),
        2 => {
            let transaction = client.transaction().await?;
            transaction.batch_execute(&values(0..half)).await?;
            let again = format!("UPDATE t SET v = 'again' WHERE writer = 2 AND statement = {}", statement - BACK);
            transaction.batch_execute(&again).await?;
            transaction.batch_execute(&values(half..STATEMENT_ROWS)).await?;
            transaction.commit().await
        }
        _ => {
            let transaction = client.transaction().await?;
            transaction.batch_execute(&values(all)).await?;
            let count = format!(
                "INSERT INTO counters VALUES ({writer}, 1) ON CONFLICT (writer) DO UPDATE SET n = counters.n + 1"
            );
            transaction.batch_execute(&count).await?;
            transaction.commit().await
        }
    }
}

/// What is known of the writers' statements.
#[derive(Default)]
pub(super) struct Record {
    /// Each writer's statements that were acknowledged.
    pub(super) acknowledged: BTreeSet<(i64, i64)>,
    /// For each writer the next statement; no statement from here on was ever sent.
    next: BTreeMap<i64, i64>,
}

/// A writer: it says what was acknowledged, and ends with its connection; then it gives the statement that had no
/// answer.
fn writer(config: Config, writer: i64, from: i64, acknowledged: mpsc::UnboundedSender<(i64, i64)>) -> JoinHandle<i64> {
    tokio::spawn(async move {
        let Ok(mut client) = connect(&config).await else { return from };
        for statement in from.. {
            if write(&mut client, writer, statement).await.is_err() {
                return statement;
            }
            acknowledged.send((writer, statement)).expect("the test listens");
        }
        unreachable!("there is no last number")
    })
}

impl Record {
    /// Writes from several connections until `count` statements were acknowledged, sends the signal in the middle of
    /// the next ones, and waits for the end. Gives the exit code.
    pub(super) async fn write_until(&mut self, serving: Serving, count: usize, signal: Signal) -> Result<Option<i32>> {
        let (acknowledged, mut listen) = mpsc::unbounded_channel();
        let writers: Vec<_> = (0..WRITERS)
            .map(|number| {
                let from = self.next.get(&number).copied().unwrap_or_default();
                (number, writer(tenant(&serving, "alto"), number, from, acknowledged.clone()))
            })
            .collect();
        drop(acknowledged);
        for _ in 0..count {
            self.acknowledged.insert(listen.recv().await.context("the writers have ended before the signal")?);
        }
        let ended = serving.signal(signal).await?;
        while let Some(one) = listen.recv().await {
            self.acknowledged.insert(one);
        }
        for (number, writer) in writers {
            self.next.insert(number, writer.await? + 1);
        }
        Ok(ended.status.code())
    }

    /// The statements that are there, after checking that each is there whole and was sent, and that none that was
    /// acknowledged is missing.
    pub(super) async fn check(&self, serving: &Serving) -> Result<BTreeSet<(i64, i64)>> {
        let client = connect(&tenant(serving, "alto")).await?;
        let sql = "SELECT writer, statement, count(*), count(v), min(part), max(part) FROM t GROUP BY 1, 2";
        let mut there = BTreeSet::new();
        for row in client.query(sql, &[]).await? {
            let one = (row.get::<_, i64>(0), row.get::<_, i64>(1));
            let counts: Vec<i64> = (2..6).map(|at| row.get(at)).collect();
            let rows = STATEMENT_ROWS as i64;
            assert_eq!(counts, [rows, rows, 0, rows - 1], "statement {one:?} is there in part");
            assert!(one.1 < self.next[&one.0], "statement {one:?} was never sent");
            there.insert(one);
        }
        let lost: Vec<_> = self.acknowledged.difference(&there).collect();
        assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
        // A transaction over two tables is in both or in none.
        let counted = there.iter().filter(|(writer, _)| *writer == 3).count();
        assert_eq!(rows(&client, "SELECT n FROM counters WHERE writer = 3").await?, [counted.to_string()]);
        // So is what changed older rows.
        let again = "SELECT statement, count(*) FROM t WHERE writer = 2 AND v = 'again' GROUP BY 1 ORDER BY 1";
        let changed = there.iter().filter(|(writer, statement)| *writer == 2 && there.contains(&(2, statement + BACK)));
        let changed: Vec<_> = changed.map(|(_, statement)| format!("{statement}|{STATEMENT_ROWS}")).collect();
        assert_eq!(rows(&client, again).await?, changed);
        assert_eq!(rows(&connect(&tenant(serving, "altostrat")).await?, "SELECT * FROM t").await?, [""; 0]);
        Ok(there)
    }
}
