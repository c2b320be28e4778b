//! `keyspan bench wire`: how fast many rows pass the wire, in text and in binary, beside PostgreSQL; and the memory of
//! idle connections.
//!
//! The same client asks both servers, and drops the rows: the bench compares reading, encoding and sending them. The
//! rows fit into memory on both sides, and are read once before times count. Then idle connections are opened, and the
//! server's anonymous memory is read before and after.

use super::{
    measure::median,
    progress::Progress,
    report::{Line, Quantity, Target, table},
    server::{Server, connect},
    server_options::ServerBenchOptions,
};
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use futures::{SinkExt, TryStreamExt, pin_mut};
use indicatif::HumanCount;
use keyspan_gateway::resources::Size;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;
use std::{
    fmt::{self, Write as _},
    path::Path,
    pin::pin,
    time::{Duration, Instant},
};
use tokio_postgres::{Client, Config, SimpleQueryMessage};

/// After the help of `keyspan bench wire`.
pub(super) const WIRE_HELP: &str = "\
A table of ten columns (bigint, integer, double precision, numeric, text, varchar, boolean, timestamptz, date, uuid) is copied into a tenant's
database of a server of this program, and into PostgreSQL, where it is installed (as for keyspan bench queries). A client of this process
selects all of it, in text by the simple protocol and in binary by the extended one, and drops the rows as they come; both servers in turn,
--rounds times after one that does not count. Times are medians, until the last row is there.

Then --connections are opened to a server of its own; each runs a statement and waits. What the process has for itself (RssAnon) is
looked at before and after, and divided by their number.

A target stands beside each number that has one, with \"met\" or \"not met\". Neither changes the exit code, which is 1 when rows are missing or
something fails.

Examples:
  keyspan bench wire
  keyspan bench wire --rows 100000 --rounds 11 --connections 100
  keyspan bench wire --without-postgres --json > run.json";

/// The columns of the table, on both sides.
const COLUMNS: &str = "id bigint, small int, ratio double precision, price numeric(12,2), name text, code varchar(8), open boolean, \
                       at timestamptz, day date, token uuid";
/// Bytes of a message of the load, roughly.
const PIECE_BYTES: usize = 256 << 10;
/// Bytes that an idle connection may take.
const CONNECTION_BYTES: f64 = 65_536.0;
/// Files that each process has open besides connections.
const OTHER_FILES: u64 = 256;
/// How long the allocator takes to give back the memory of connecting.
const REST: Duration = Duration::from_secs(2);

/// What `keyspan bench wire` takes.
#[derive(Clone, Debug, Args)]
pub struct WireOptions {
    /// Rows of the table.
    #[arg(long, value_name = "ROWS", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub rows: u64,

    /// How often each server is asked in each format, after one time that does not count.
    #[arg(long, value_name = "NUMBER", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub rounds: u16,

    /// Connections that wait; 0 leaves them out.
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(0..=50_000))]
    pub connections: u64,

    /// The servers and the report.
    #[command(flatten)]
    pub server: ServerBenchOptions,
}

/// One run.
#[derive(Debug, Serialize)]
pub(super) struct WireReport {
    version: &'static str,
    rows: u64,
    rounds: u16,
    connections: u64,
    memory_bytes: u64,
    cores: usize,
    postgres: Option<String>,
    lines: Vec<Line>,
}

impl fmt::Display for WireReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rows, memory) = (HumanCount(self.rows), Size(self.memory_bytes));
        let Self { version, rounds, connections, cores, .. } = self;
        writeln!(
            f,
            "keyspan {version}: {rows} rows, {rounds} rounds, {connections} connections, memory {memory}, {cores} cores"
        )?;
        if let Some(postgres) = &self.postgres {
            writeln!(f, "compared to {postgres}")?;
        }
        writeln!(f)?;
        table(&self.lines, f)
    }
}

/// The format of rows.
#[derive(Clone, Copy)]
enum Form {
    Text,
    Binary,
}

/// The whole run, in `folder`.
///
/// # Errors
/// If rows are missing, or anything fails.
pub(super) async fn run(options: &WireOptions, folder: &Path) -> Result<WireReport> {
    let memory = options.server.memory()?;
    let mut progress = Progress::new();
    allow_files(options.connections + OTHER_FILES)?;

    progress.phase("load into Keyspan", Some(options.rows));
    let (server, tenant) = started(memory.all_bytes, &folder.join("store"), &[]).await?;
    let keyspan = connect(&tenant).await?;
    load(&keyspan, options.rows, &progress).await?;

    if !options.server.without_postgres {
        progress.phase("load into PostgreSQL", Some(options.rows));
    }
    let postgres = options.server.postgres(&memory, &folder.join("postgres"))?;
    let mut compared = None;
    let other = match &postgres {
        Some((server, config)) => {
            let client = connect(config).await?;
            load(&client, options.rows, &progress).await?;
            client.batch_execute("VACUUM ANALYZE wide").await?;
            compared = Some(server.description(&client).await?);
            Some(client)
        }
        None => None,
    };

    let mut lines = Vec::new();
    for (name, form) in [("all rows in text", Form::Text), ("all rows in binary", Form::Binary)] {
        progress.phase(name, None);
        lines.push(compare(name, form, options, &keyspan, other.as_ref()).await?);
    }
    drop((keyspan, server, postgres));
    if options.connections > 0 {
        progress.phase("connections", Some(options.connections));
        // Sixteen more for the run itself.
        let connections_max = (options.connections + 16).to_string();
        let more = ["--connections-max", &connections_max];
        // A new server: one that has just sent many rows gives back their memory meanwhile.
        let (server, tenant) = started(memory.all_bytes, &folder.join("idle"), &more).await?;
        load(&connect(&tenant).await?, 1, &progress).await?;
        let idle = idle(&server, &tenant, options.connections, &progress).await?;
        lines.push(Line::single("memory of a connection that waits", idle[0]).with(Target::AtMost(CONNECTION_BYTES)));
        lines.push(Line::single("memory of one that ran a statement before", idle[1]));
    }
    progress.finish();
    Ok(WireReport {
        version: env!("CARGO_PKG_VERSION"),
        rows: options.rows,
        rounds: options.rounds,
        connections: options.connections,
        memory_bytes: memory.all_bytes,
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        postgres: compared,
        lines,
    })
}

/// Selects all rows from both servers in turn.
async fn compare(
    name: &str,
    form: Form,
    options: &WireOptions,
    keyspan: &Client,
    postgres: Option<&Client>,
) -> Result<Line> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..=options.rounds {
        let seconds = select(keyspan, form, options.rows).await?;
        let other = match postgres {
            Some(client) => Some(select(client, form, options.rows).await?),
            None => None,
        };
        if round > 0 {
            ours.push(seconds);
            theirs.extend(other);
        }
    }
    let ours = Quantity::seconds(median(ours));
    if theirs.is_empty() {
        return Ok(Line::single(name, ours));
    }
    let theirs = Quantity::seconds(median(theirs));
    Ok(Line::ratio(format!("{name}: PostgreSQL"), ours, theirs).with(Target::AtMost(1.0)))
}

/// Starts a server with a tenant's database; returns how to connect to the database, too.
async fn started(memory_bytes: u64, store: &Path, more: &[&str]) -> Result<(Server, Config)> {
    let (server, operator) = Server::start_with(Size(memory_bytes), store, more)?;
    connect(&operator).await?.batch_execute("CREATE DATABASE bench").await?;
    let tenant = Config::dbname(&mut operator.clone(), "bench").clone();
    Ok((server, tenant))
}

/// Lets this process, and those that it starts, open this many files.
fn allow_files(files: u64) -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= files) {
        return Ok(());
    }
    if limit.maximum.is_some_and(|most| most < files) {
        bail!("{files} files have to be open at a time: raise the limit (ulimit -n), or take fewer --connections");
    }
    Ok(setrlimit(Resource::Nofile, Rlimit { current: Some(files), ..limit })?)
}

/// Makes the table and copies all rows.
async fn load(client: &Client, rows: u64, progress: &Progress) -> Result<()> {
    client.batch_execute(&format!("CREATE TABLE wide ({COLUMNS}, PRIMARY KEY (id))")).await?;
    let mut sink = pin!(client.copy_in("COPY wide FROM STDIN").await?);
    let (mut at, mut piece) = (0, String::new());
    while at < rows {
        write_row(at, &mut piece)?;
        at += 1;
        if piece.len() >= PIECE_BYTES || at == rows {
            sink.send(bytes::Bytes::from(std::mem::take(&mut piece))).await?;
            progress.at(at);
        }
    }
    let copied = sink.finish().await?;
    ensure!(copied == rows, "{copied} rows of {rows} were copied");
    Ok(())
}

/// A row in the text format of COPY: a function of its number, with values that rarely repeat.
fn write_row(number: u64, into: &mut String) -> fmt::Result {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (number >> 3);
    let small = (mixed >> 40) as u32 % 1_000_000;
    let seconds = number % 86_400;
    write!(
        into,
        "{number}\t{small}\t{}.{:04}\t{}.{:02}\t",
        small % 100,
        mixed % 10_000,
        mixed % 1_000_000,
        mixed % 100
    )?;
    write!(into, "name of {small}\tc{}\t{}\t", mixed % 1_000_000, if mixed & 1 == 0 { 't' } else { 'f' })?;
    let (day, hours, minutes) = (1 + number % 28, seconds / 3_600, seconds / 60 % 60);
    write!(into, "2026-01-{day:02} {hours:02}:{minutes:02}:{:02}.{:06}+00\t", seconds % 60, mixed % 1_000_000)?;
    writeln!(into, "2025-12-{day:02}\t{mixed:016x}{number:016x}")
}

/// Reads all rows and drops them; returns the seconds.
async fn select(client: &Client, form: Form, rows: u64) -> Result<f64> {
    const ALL: &str = "SELECT * FROM wide";
    let begun = Instant::now();
    let mut count = 0;
    match form {
        Form::Text => {
            let messages = client.simple_query_raw(ALL).await?;
            pin_mut!(messages);
            while let Some(message) = messages.try_next().await? {
                count += u64::from(matches!(message, SimpleQueryMessage::Row(_)));
            }
        }
        Form::Binary => {
            let found = client.query_raw::<_, &str, _>(ALL, []).await?;
            pin_mut!(found);
            while found.try_next().await?.is_some() {
                count += 1;
            }
        }
    }
    ensure!(count == rows, "{count} rows of {rows} came");
    Ok(begun.elapsed().as_secs_f64())
}

/// Bytes of each connection that has only logged in, and of each that has run a statement.
async fn idle(server: &Server, config: &Config, connections: u64, progress: &Progress) -> Result<[Quantity; 2]> {
    const STATEMENT: &str = "SELECT * FROM wide WHERE id = 1";
    // The first connection of all allocates more than each further one.
    connect(config).await?.simple_query(STATEMENT).await?;
    tokio::time::sleep(REST).await;
    let before = server.memory("RssAnon:")?;
    let mut open = Vec::with_capacity(usize::try_from(connections).context("too many")?);
    for at in 0..connections {
        open.push(connect(config).await?);
        progress.at(at);
    }
    // The allocator may give back memory of the start meanwhile, more than a few connections take: then the report says
    // 0.
    let each = |now: u64| Quantity::bytes(now.saturating_sub(before) / connections);
    tokio::time::sleep(REST).await;
    let logged_in = each(server.memory("RssAnon:")?);
    for client in &open {
        client.simple_query(STATEMENT).await?;
    }
    tokio::time::sleep(REST).await;
    Ok([logged_in, each(server.memory("RssAnon:")?)])
}
