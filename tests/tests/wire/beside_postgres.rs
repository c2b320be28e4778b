//! Random statements on both servers: what is compared is text.
//!
//! Where `KEYSPAN_TESTS_POSTGRES` names no server, as `tests/record` does, nothing is compared, and a word says so.
//! `KEYSPAN_<WHAT>` says how many statements, `KEYSPAN_<WHAT>_SEED` which.

use super::{harness, harness::Harness};
use anyhow::{Context, Result, ensure};
use tokio_postgres::{Client, SimpleQueryMessage};

/// Statements in a run of all tests.
const STATEMENTS: usize = 400;

/// Random choices, by SplitMix64.
pub(super) struct Words(u64);

impl Words {
    /// A number below a bound.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    /// One of several.
    pub(super) fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.below(of.len() as u64)).expect("an index")]
    }

    /// So many digits.
    pub(super) fn digits(&mut self, count: u64) -> String {
        (0..count).map(|_| char::from(b'0' + u8::try_from(self.below(10)).expect("a digit"))).collect()
    }
}

/// The first row of the last statement of a text, or the SQLSTATE.
async fn answer(client: &Client, sql: &str) -> Result<String> {
    let messages = match client.simple_query(sql).await {
        Ok(messages) => messages,
        Err(error) => return Ok(error.as_db_error().context("an answer")?.code().code().to_owned()),
    };
    let row = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let row = row.context("a row")?;
    Ok((0..row.len()).map(|at| row.get(at).unwrap_or("NULL")).collect::<Vec<_>>().join("|"))
}

/// Runs random statements on both servers.
#[expect(clippy::print_stdout, reason = "says that nothing was tested")]
pub(super) async fn compare(what: &str, statement: fn(&mut Words) -> String) -> Result<()> {
    let Ok(address) = std::env::var("KEYSPAN_TESTS_POSTGRES") else {
        println!("KEYSPAN_TESTS_POSTGRES names no PostgreSQL: nothing is compared");
        return Ok(());
    };
    let number = |name: String| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let count =
        number(format!("KEYSPAN_{what}")).map_or(STATEMENTS, |count| usize::try_from(count).unwrap_or(STATEMENTS));
    let mut words = Words(number(format!("KEYSPAN_{what}_SEED")).unwrap_or(1));
    let theirs = harness::connect(&format!("{address} dbname=postgres").parse()?).await?;
    let harness = Harness::start().await?;
    let ours = harness.tenant("alto").await?;
    let mut differ = Vec::new();
    for _ in 0..count {
        let sql = statement(&mut words);
        let (expected, found) = (answer(&theirs, &sql).await?, answer(&ours, &sql).await?);
        if expected != found {
            differ.push(format!("{sql}\n  PostgreSQL: {expected}\n  here:       {found}"));
        }
    }
    ensure!(differ.is_empty(), "{} of {count} differ:\n{}", differ.len(), differ.join("\n"));
    Ok(())
}
