//! One query on several sides in turn.
//!
//! A side is a store or plain files. First each answers once, and its answer is compared to the expected one; then come
//! the rounds that count. Ratios are of the times of one round, so that other load on the machine affects both sides;
//! the sides take turns in going first.

use super::{
    data::{Data, Reading, TABLE, Totals},
    measure::{Elapsed, median, timed},
    plain::Plain,
    store,
};
use anyhow::{Context, Result, ensure};
use arrow::{
    array::{AsArray, RecordBatch},
    datatypes::{Float64Type, Int64Type},
};
use keyspan_gateway::session::Session;

/// A query: its condition in SQL, and as a predicate of a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Query {
    pub(super) name: &'static str,
    condition: &'static str,
    holds: fn(&Reading) -> bool,
}

/// Two columns of all rows.
pub(super) const ALL: Query = Query { name: "2 columns", condition: "", holds: |_| true };
/// Two columns of one row in a hundred, scattered over the keys.
pub(super) const FEW: Query =
    Query { name: "2 columns, 1 % by a third", condition: " WHERE status = 7", holds: |row| row.status == 7 };
/// Two columns of every second row.
pub(super) const HALF: Query =
    Query { name: "2 columns, 50 % by a third", condition: " WHERE status < 50", holds: |row| row.status < 50 };

impl Query {
    fn sql(&self) -> String {
        format!("SELECT count(*), sum(signal), sum(temperature) FROM {TABLE}{}", self.condition)
    }
}

/// A side that answers queries.
pub(super) enum Side<'a> {
    Keyspan(&'a mut Session),
    Plain(&'a Plain),
}

impl Side<'_> {
    async fn answer(&mut self, sql: &str) -> Result<Vec<RecordBatch>> {
        match self {
            Self::Keyspan(session) => store::run(session, sql).await,
            Self::Plain(plain) => plain.run(sql).await,
        }
    }
}

/// The times of each side in each round.
#[derive(Debug)]
pub(super) struct Rounds(Vec<Vec<Elapsed>>);

impl Rounds {
    /// Asks each side `rounds` times. The `data` beside a side is its expected content.
    ///
    /// # Errors
    /// If an answer is wrong, or a query fails.
    pub(super) async fn ask(query: Query, sides: &mut [(Side<'_>, Data)], rounds: u16) -> Result<Self> {
        let sql = query.sql();
        for (at, (side, data)) in sides.iter_mut().enumerate() {
            let (found, expected) = (totals(&side.answer(&sql).await?)?, data.totals(query.holds));
            ensure!(found == expected, "side {at} answers {sql} by {found:?} instead of {expected:?}");
        }
        let mut elapsed = vec![Vec::new(); sides.len()];
        for round in 0..rounds {
            let mut order: Vec<usize> = (0..sides.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for at in order {
                let (_, time) = timed(sides[at].0.answer(&sql)).await?;
                elapsed[at].push(time);
            }
        }
        Ok(Self(elapsed))
    }

    /// The median time of a side, in seconds.
    pub(super) fn seconds(&self, side: usize) -> f64 {
        median(self.0[side].iter().map(|elapsed| elapsed.wall).collect())
    }

    /// The median ratio of the times of side 0 to those of another side.
    pub(super) fn ratio(&self, other: usize) -> f64 {
        self.ratios(other, |elapsed| elapsed.wall)
    }

    /// The median ratio of the CPU times of all threads.
    pub(super) fn cpu_ratio(&self, other: usize) -> f64 {
        self.ratios(other, |elapsed| elapsed.cpu)
    }

    fn ratios(&self, other: usize, of: impl Fn(&Elapsed) -> f64) -> f64 {
        median(self.0[0].iter().zip(&self.0[other]).map(|(a, b)| of(a) / of(b)).collect())
    }
}

/// The totals that a query returned.
fn totals(batches: &[RecordBatch]) -> Result<Totals> {
    let batch = batches.iter().find(|batch| batch.num_rows() == 1).context("the query gave no row")?;
    let int = |at: usize| batch.column(at).as_primitive_opt::<Int64Type>().map(|column| column.value(0));
    let float = |at: usize| batch.column(at).as_primitive_opt::<Float64Type>().map(|column| column.value(0));
    let found = int(0).zip(int(1)).zip(float(2)).context("the query gave other columns")?;
    let ((rows, signal), temperature) = found;
    Ok(Totals { rows: u64::try_from(rows)?, signal, temperature })
}
