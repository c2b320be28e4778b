//! `keyspan bench bigtable`: SQL over a table on a server of Bigtable, beside a bare client of the same server.
//!
//! The bare client is this program's own, without a gateway: it sends the same requests, and looks at the cells itself.
//! So the ratio is what SQL costs, whatever the server and the network are.

use super::{
    measure::median,
    progress::Progress,
    report::{Line, Quantity, Target, table},
    server::{Server, connect},
};
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use clap::Args;
use futures::{SinkExt, TryStreamExt, future::try_join_all, pin_mut};
use indicatif::HumanCount;
use keyspan_bigtable::{Client, Entry, ReadRows, Settings};
use keyspan_bigtable_api::data::{
    Mutation, RowFilter,
    mutation::{self, SetCell},
    row_filter::{self, Chain},
};
use keyspan_gateway::resources::{Memory, Size};
use keyspan_storage::{Clock, KeyRange, RowKey, RowSet, SystemClock};
use serde::Serialize;
use std::{
    fmt::{self, Write as _},
    path::{Path, PathBuf},
    pin::pin,
    time::Instant,
};
use tokio_postgres::Client as Sql;

/// After the help of `keyspan bench bigtable`.
pub(super) const BIGTABLE_HELP: &str = "\
Two tables are made on a server of Bigtable: the emulator's that BIGTABLE_EMULATOR_HOST names, else that of --project and --instance, with
application default credentials. A server of this program copies rows into the one; a client of this process, which knows no SQL, writes the
same cells into the other. Then both read all rows by as many streams, single rows, and change single rows, in turn. Both tables are dropped
at the end.

A target stands beside each ratio that has one, with \"met\" or \"not met\". Neither changes the exit code, which is 1 when an answer is
wrong or something fails.

Examples:
  BIGTABLE_EMULATOR_HOST=127.0.0.1:8086 keyspan bench bigtable
  keyspan bench bigtable --project p --instance i --rows 1000000 --json > run.json";

/// The tenant.
const TENANT: &str = "bench";
/// Rows of a bulk write of the bare client.
const WRITE_ROWS: u64 = 10_000;
/// Bytes of a message of the load, roughly.
const PIECE_BYTES: usize = 256 << 10;
/// Single rows that are read, and changed, in a round.
const POINTS: u64 = 200;
/// A scan's time over the bare client's: 0.9 of its speed.
const SCAN_TARGET: f64 = 1.0 / 0.9;
/// The speed of COPY over that of the bare client's writes.
const COPY_TARGET: f64 = 0.6;

/// What `keyspan bench bigtable` takes.
#[derive(Clone, Debug, Args)]
pub struct BigtableOptions {
    /// The project.
    #[arg(long, value_name = "NAME", default_value = "bench")]
    pub project: String,

    /// The instance.
    #[arg(long, value_name = "NAME", default_value = "bench")]
    pub instance: String,

    /// Rows of the table.
    #[arg(long, value_name = "ROWS", default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1_000..=100_000_000))]
    pub rows: u64,

    /// How often both sides read, after one time that does not count.
    #[arg(long, value_name = "NUMBER", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub rounds: u16,

    /// Memory that the server may take [default: a quarter of the machine's]
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<Size>,

    /// The folder in which the temporary folder is made [default: the system's for temporary files]
    #[arg(long, value_name = "DIR")]
    pub path: Option<PathBuf>,

    /// Print JSON instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// One run.
#[derive(Debug, Serialize)]
pub(super) struct BigtableReport {
    version: &'static str,
    server: String,
    rows: u64,
    rounds: u16,
    streams: usize,
    cores: usize,
    lines: Vec<Line>,
}

impl fmt::Display for BigtableReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { version, server, rounds, streams, cores, .. } = self;
        let rows = HumanCount(self.rows);
        writeln!(f, "keyspan {version} over {server}: {rows} rows, {rounds} rounds, {streams} streams, {cores} cores")?;
        writeln!(f, "compared to a bare client of the same server\n")?;
        table(&self.lines, f)
    }
}

/// Both sides.
struct Sides {
    sql: Sql,
    bare: Client,
    /// The name of SQL's table on the server.
    table: String,
    rows: u64,
}

/// The whole run, in `folder`.
///
/// # Errors
/// If an answer is wrong, or anything fails.
pub(super) async fn run(options: &BigtableOptions, folder: &Path) -> Result<BigtableReport> {
    let memory = Memory::of_machine(options.memory, None)?;
    let settings = Settings::from_env(&options.project, &options.instance);
    let uri = settings.data_uri.clone();
    let bare = Client::new(settings)?;
    let mut progress = Progress::new();
    progress.phase("tables", None);
    let (_server, operator) = Server::start(Size(memory.all_bytes), &folder.join("store"))?;
    let of_operator = connect(&operator).await?;
    let place = format!("project '{}', instance '{}'", options.project, options.instance);
    for sql in [
        format!("CREATE DATABASE {TENANT}"),
        format!("CREATE SERVER bt FOREIGN DATA WRAPPER bigtable OPTIONS ({place})"),
        "CREATE TABLE copied (k text PRIMARY KEY, n bigint, note text) SERVER bt".to_owned(),
        "CREATE TABLE written (k text PRIMARY KEY, n bigint, note text) SERVER bt".to_owned(),
    ] {
        of_operator.batch_execute(&sql).await?;
    }
    let name = async |table: &str| -> Result<String> {
        let sql = "SELECT substring(ftoptions[1] FROM 7) FROM pg_foreign_table WHERE ftrelid = $1::text::regclass";
        Ok(of_operator.query_one(sql, &[&table]).await?.get(0))
    };
    let (table, written) = (name("copied").await?, name("written").await?);
    let sql = connect(operator.clone().dbname(TENANT)).await?;
    let sides = Sides { sql, bare, table, rows: options.rows };
    let measured = measure(&sides, &written, options, &mut progress).await;
    // The tables are on a server that stays: they go, whatever has happened.
    let dropped = of_operator.batch_execute("DROP TABLE copied").await;
    of_operator.batch_execute("DROP TABLE written").await?;
    dropped?;
    let (streams, lines) = measured?;
    progress.finish();
    Ok(BigtableReport {
        version: env!("CARGO_PKG_VERSION"),
        server: uri,
        rows: options.rows,
        rounds: options.rounds,
        streams,
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        lines,
    })
}

async fn measure(
    sides: &Sides,
    written: &str,
    options: &BigtableOptions,
    progress: &mut Progress,
) -> Result<(usize, Vec<Line>)> {
    let mut lines = Vec::new();
    progress.phase("COPY", Some(options.rows));
    let copied = sides.copy(progress).await?;
    progress.phase("bulk writes of the bare client", Some(options.rows));
    let bulk = sides.write(written, progress).await?;
    let speed = |seconds: f64| Quantity::per_second(options.rows as f64 / seconds);
    lines.push(Line::ratio("COPY, rows", speed(copied), speed(bulk)).with(Target::AtLeast(COPY_TARGET)));

    progress.phase("all rows", None);
    let cuts = sides.cuts().await?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..=options.rounds {
        let (one, other) = (sides.scan_sql().await?, sides.scan_bare(&cuts).await?);
        if round > 0 {
            ours.push(one);
            theirs.push(other);
        }
    }
    let (ours, theirs) = (Quantity::seconds(median(ours)), Quantity::seconds(median(theirs)));
    lines.push(Line::ratio("all rows", ours, theirs).with(Target::AtMost(SCAN_TARGET)));

    for (what, changes) in [("a row by its key", false), ("a row changed by its key", true)] {
        progress.phase(what, None);
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for round in 0..=u64::from(options.rounds) {
            let one = sides.points_sql(round, changes).await?;
            let other = sides.points_bare(round, changes).await?;
            if round > 0 {
                ours.push(one);
                theirs.push(other);
            }
        }
        lines.push(Line::ratio(what, Quantity::seconds(median(ours)), Quantity::seconds(median(theirs))));
    }
    Ok((cuts.len(), lines))
}

fn key(number: u64) -> String {
    format!("k{number:09}")
}

fn note(number: u64) -> String {
    format!("{:064x}", u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
}

/// A cell of a bulk write.
fn set(family: &str, qualifier: &str, micros: i64, value: Vec<u8>) -> Mutation {
    let (family_name, column_qualifier) = (family.to_owned(), Bytes::copy_from_slice(qualifier.as_bytes()));
    let cell = SetCell { family_name, column_qualifier, timestamp_micros: micros, value: value.into() };
    Mutation { mutation: Some(mutation::Mutation::SetCell(cell)) }
}

/// The newest cell of each column of a family.
fn newest() -> RowFilter {
    let one = |filter| RowFilter { filter: Some(filter) };
    let filters = vec![
        one(row_filter::Filter::FamilyNameRegexFilter("cf".to_owned())),
        one(row_filter::Filter::CellsPerColumnLimitFilter(1)),
    ];
    one(row_filter::Filter::Chain(Chain { filters }))
}

impl Sides {
    /// Copies all rows; returns the seconds.
    async fn copy(&self, progress: &Progress) -> Result<f64> {
        let begun = Instant::now();
        let mut sink = pin!(self.sql.copy_in("COPY copied FROM STDIN").await?);
        let mut piece = String::new();
        for number in 0..self.rows {
            writeln!(piece, "{}\t{number}\t{}", key(number), note(number))?;
            if piece.len() >= PIECE_BYTES || number + 1 == self.rows {
                sink.send(Bytes::from(std::mem::take(&mut piece))).await?;
                progress.at(number);
            }
        }
        let copied = sink.finish().await?;
        ensure!(copied == self.rows, "{copied} rows of {} were copied", self.rows);
        Ok(begun.elapsed().as_secs_f64())
    }

    /// Writes the same cells to another table; returns the seconds.
    async fn write(&self, table: &str, progress: &Progress) -> Result<f64> {
        let begun = Instant::now();
        let micros = SystemClock.now_micros() / 1_000 * 1_000;
        for from in (0..self.rows).step_by(usize::try_from(WRITE_ROWS)?) {
            let to = (from + WRITE_ROWS).min(self.rows);
            let entry = |number: u64| {
                let mutations = vec![
                    set("_", "", micros, number.to_be_bytes().repeat(2)),
                    set("cf", "n", micros, number.to_be_bytes().to_vec()),
                    set("cf", "note", micros, note(number).into_bytes()),
                ];
                Ok(Entry { key: RowKey::new(format!("{TENANT}#{}", key(number)))?, mutations, repeatable: true })
            };
            let entries = (from..to).map(entry).collect::<Result<Vec<_>>>()?;
            for written in self.bare.mutate_rows(table, entries).await? {
                written?;
            }
            progress.at(to);
        }
        Ok(begun.elapsed().as_secs_f64())
    }

    /// The ranges of SQL's streams, as far as the bare client can know them: as many, cut at samples.
    async fn cuts(&self) -> Result<Vec<KeyRange>> {
        let plan = self.sql.simple_query("EXPLAIN SELECT count(n), sum(n) FROM copied").await?;
        let streams = plan.iter().find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => {
                row.get(0)?.trim().strip_prefix("Streams: ")?.split_once(',')?.0.parse::<usize>().ok()
            }
            _ => None,
        });
        let samples = self.bare.sample_row_keys(&self.table).await?;
        let keys: Vec<Bytes> = samples.into_iter().map(|sample| sample.key).filter(|key| !key.is_empty()).collect();
        let every = (keys.len() + 1).div_ceil(streams.unwrap_or(1)).max(1);
        let mut ranges = Vec::new();
        let mut from = Bytes::new();
        for key in keys.into_iter().skip(every - 1).step_by(every) {
            ranges.push(KeyRange::new(std::mem::replace(&mut from, key.clone()), Some(key)));
        }
        ranges.push(KeyRange::new(from, None));
        Ok(ranges)
    }

    fn sum(&self) -> u64 {
        self.rows * (self.rows - 1) / 2
    }

    async fn scan_sql(&self) -> Result<f64> {
        let begun = Instant::now();
        let row = self.sql.query_one("SELECT count(n), sum(n)::bigint FROM copied", &[]).await?;
        let (count, sum): (i64, i64) = (row.get(0), row.get(1));
        let took = begun.elapsed().as_secs_f64();
        // Rows that a round has changed count one more each.
        ensure!(u64::try_from(count)? == self.rows && u64::try_from(sum)? >= self.sum(), "{count} rows, sum {sum}");
        Ok(took)
    }

    async fn scan_bare(&self, cuts: &[KeyRange]) -> Result<f64> {
        let begun = Instant::now();
        let one = async |range: &KeyRange| -> Result<(u64, u64)> {
            let (rows, filter) = (RowSet::from(range.clone()), Some(newest()));
            let read = ReadRows { rows, filter, rows_max: None, reversed: false };
            let batches = self.bare.read_rows(&self.table, read);
            pin_mut!(batches);
            let (mut count, mut sum) = (0, 0_u64);
            while let Some(batch) = batches.try_next().await? {
                for row in batch {
                    let cell = row.cells.iter().find(|cell| cell.qualifier == "n").context("no n")?;
                    (count, sum) = (count + 1, sum + u64::from_be_bytes(cell.value.as_ref().try_into()?));
                }
            }
            Ok((count, sum))
        };
        let parts = try_join_all(cuts.iter().map(one)).await?;
        let (count, sum) = parts.into_iter().fold((0, 0), |all, part| (all.0 + part.0, all.1 + part.1));
        ensure!(count == self.rows && sum >= self.sum(), "{count} rows, sum {sum}");
        Ok(begun.elapsed().as_secs_f64())
    }

    /// Keys of a round, far from each other.
    fn points(&self, round: u64) -> impl Iterator<Item = u64> + use<> {
        let rows = self.rows;
        (0..POINTS).map(move |at| (round * POINTS + at).wrapping_mul(7_919) % rows)
    }

    /// Reads rows, or changes them; returns the seconds of one.
    async fn points_sql(&self, round: u64, changes: bool) -> Result<f64> {
        let statement = match changes {
            true => self.sql.prepare("UPDATE copied SET n = n + 1 WHERE k = $1").await?,
            false => self.sql.prepare("SELECT n FROM copied WHERE k = $1").await?,
        };
        let begun = Instant::now();
        for number in self.points(round) {
            let done = match changes {
                true => self.sql.execute(&statement, &[&key(number)]).await?,
                false => self.sql.query(&statement, &[&key(number)]).await?.len() as u64,
            };
            ensure!(done == 1, "{done} rows of {}", key(number));
        }
        Ok(begun.elapsed().as_secs_f64() / POINTS as f64)
    }

    async fn points_bare(&self, round: u64, changes: bool) -> Result<f64> {
        let begun = Instant::now();
        for number in self.points(round) {
            let key = RowKey::new(format!("{TENANT}#{}", key(number)))?;
            let (rows, filter) = (RowSet::from(KeyRange::point(&key)), (!changes).then(newest));
            let read = ReadRows { rows, filter, rows_max: Some(1), reversed: false };
            let found: Vec<_> = self.bare.read_rows(&self.table, read).try_concat().await?;
            let row = found.first().context("a row")?;
            if !changes {
                continue;
            }
            // On the condition that the token is the one that was read, as SQL has it.
            let value = |qualifier: &str, family: &str| {
                row.cells.iter().find(|cell| cell.qualifier == qualifier && cell.family.as_str() == family)
            };
            let (token, n) = (value("", "_").context("a token")?, value("n", "cf").context("no n")?);
            let one = |filter| RowFilter { filter: Some(filter) };
            let literal = token.value.iter().map(|byte| format!("\\x{byte:02x}")).collect::<String>();
            let is_same = one(row_filter::Filter::Chain(Chain {
                filters: vec![
                    one(row_filter::Filter::FamilyNameRegexFilter("_".to_owned())),
                    one(row_filter::Filter::CellsPerColumnLimitFilter(1)),
                    one(row_filter::Filter::ValueRegexFilter(literal.into())),
                ],
            }));
            let (next, micros) = (u64::from_be_bytes(n.value.as_ref().try_into()?) + 1, n.timestamp_micros + 1_000);
            let mutations = vec![
                set("_", "", micros, next.to_be_bytes().repeat(2)),
                set("cf", "n", micros, next.to_be_bytes().to_vec()),
            ];
            let matched = self.bare.check_and_mutate(&self.table, &key, Some(is_same), mutations, Vec::new()).await?;
            ensure!(matched, "the row {number} was changed by another");
        }
        Ok(begun.elapsed().as_secs_f64() / POINTS as f64)
    }
}
