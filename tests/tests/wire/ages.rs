//! A rule by age that changes: what it condemned is gone, at once and for good, whatever the engine has done with it by
//! then.
//!
//! The test turns the clock. The same steps go over stores that flush, compact or start again between them.

use super::harness::{Harness, rows};
use anyhow::Result;
use keyspan_storage::clock::ManualClock;
use std::sync::Arc;
use tokio_postgres::Client;

const HOUR: i64 = 3_600_000_000;
/// 2026-11-01 00:00:00 UTC, in microseconds.
const START: i64 = 1_793_491_200_000_000;

/// What happens to segments after each step.
#[derive(Clone, Copy, Debug)]
enum Upkeep {
    Nothing,
    Flush,
    Compact,
    Restart,
}

struct Side {
    upkeep: Upkeep,
    clock: Arc<ManualClock>,
    harness: Harness,
}

impl Side {
    async fn start(upkeep: Upkeep) -> Result<Self> {
        let clock = Arc::new(ManualClock::new(START));
        let on = clock.clone();
        let harness = Harness::start_engine(move |options| options.clock = Box::new(on)).await?;
        Ok(Self { upkeep, clock, harness })
    }

    async fn after(&mut self, hours: i64) -> Result<Client> {
        self.keep_up().await?;
        self.clock.set(START + hours * HOUR);
        self.harness.connect("one", "one").await
    }

    async fn keep_up(&mut self) -> Result<()> {
        match self.upkeep {
            Upkeep::Nothing => {}
            Upkeep::Flush => self.harness.engine().flush().await?,
            Upkeep::Compact => self.harness.engine().compact(None).await?,
            Upkeep::Restart => {
                let (clock, fresh) = (self.clock.clone(), Harness::in_memory().await?);
                let old = std::mem::replace(&mut self.harness, fresh);
                self.harness = old.restart_engine(move |options| options.clock = Box::new(clock)).await?;
            }
        }
        Ok(())
    }

    /// The rows, by row groups and by rows.
    async fn see(&self, client: &Client, expected: &[&str]) -> Result<()> {
        let sql = "SELECT k, n, note FROM t ORDER BY k";
        for columnar in ["on", "off"] {
            client.batch_execute(&format!("SET keyspan.columnar = {columnar}")).await?;
            assert_eq!(rows(client, sql).await?, expected, "{:?}, columnar {columnar}", self.upkeep);
            let count = rows(client, "SELECT count(*), count(n), count(note) FROM t").await?;
            let of = |at: usize| expected.iter().filter(|row| row.split('|').nth(at) != Some("")).count();
            assert_eq!(count, [format!("{}|{}|{}", expected.len(), of(1), of(2))], "{:?}", self.upkeep);
        }
        for row in expected {
            let k = row.split('|').next().unwrap_or_default();
            let found = rows(client, &format!("SELECT k, n, note FROM t WHERE k = '{k}'")).await?;
            assert_eq!(found, [*row], "{:?}", self.upkeep);
        }
        Ok(())
    }

    async fn alter(&self, option: &str) -> Result<()> {
        self.harness.operator().await?.batch_execute(&format!("ALTER TABLE t SET ({option})")).await?;
        Ok(())
    }

    async fn run(mut self) -> Result<()> {
        let made = "CREATE TABLE t (k text PRIMARY KEY, n int, note text, FAMILY m (n), FAMILY l (note))
            WITH (m.max_age = '100 hours', l.max_age = '100 hours')";
        self.harness.operator().await?.batch_execute(made).await?;
        let client = self.harness.tenant("one").await?;
        client.batch_execute("INSERT INTO t VALUES ('a', 1, 'one'), ('b', 2, 'two')").await?;
        let client = self.after(10).await?;
        client.batch_execute("UPDATE t SET n = 20 WHERE k = 'b'").await?;
        client.batch_execute("INSERT INTO t VALUES ('c', 3, 'three')").await?;
        let client = self.after(20).await?;
        self.see(&client, &["a|1|one", "b|20|two", "c|3|three"]).await?;

        // Tighter for one family: its values of before are gone, and the rows stay.
        self.alter("m.max_age = '15 hours'").await?;
        self.see(&client, &["a||one", "b|20|two", "c|3|three"]).await?;
        // Looser: what was condemned does not return.
        let client = self.after(21).await?;
        self.see(&client, &["a||one", "b|20|two", "c|3|three"]).await?;
        self.alter("m.max_age = '100 hours'").await?;
        self.see(&client, &["a||one", "b|20|two", "c|3|three"]).await?;
        let client = self.after(22).await?;
        self.see(&client, &["a||one", "b|20|two", "c|3|three"]).await?;

        // Tighter for both: rows that nothing is left of vanish.
        self.alter("m.max_age = '15 hours', l.max_age = '15 hours'").await?;
        self.see(&client, &["b|20|", "c|3|three"]).await?;
        client.batch_execute("INSERT INTO t VALUES ('a', NULL, 'again')").await?;
        let client = self.after(23).await?;
        self.alter("m.max_age = '1000 hours', l.max_age = '1000 hours'").await?;
        self.see(&client, &["a||again", "b|20|", "c|3|three"]).await?;
        // By their own age, later.
        let client = self.after(24).await?;
        self.see(&client, &["a||again", "b|20|", "c|3|three"]).await?;
        let client = self.after(1_011).await?;
        self.see(&client, &["a||again"]).await?;
        self.alter("m.max_age = 'none', l.max_age = 'none'").await?;
        let client = self.after(9_000).await?;
        self.see(&client, &["a||again"]).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn semantics_6_what_a_tighter_age_condemned_does_not_return() -> Result<()> {
    for upkeep in [Upkeep::Nothing, Upkeep::Flush, Upkeep::Compact, Upkeep::Restart] {
        Side::start(upkeep).await?.run().await?;
    }
    Ok(())
}
