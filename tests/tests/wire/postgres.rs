//! The files of `tests/slt/postgres`, whose expected results PostgreSQL 15 gave.
//!
//! `tests/record` writes them: it starts a PostgreSQL of its own and runs this module with [`RECORDED_FROM`] set, so
//! that every record goes there, and with `UPDATE_EXPECT=1` what comes back is written. Without, each file runs against
//! a Keyspan of its own, by the simple protocol and by the extended one, and must give the same. `connection operator`
//! is who defines tables on Keyspan; on PostgreSQL it is the same connection as that of records without one.
//! `connection second` is another of the same role.
//!
//! A row is written with `|` between its values, NULL as NULL, an empty text as `(empty)` and a line's end as `\n`; the
//! letters after `query` are I for integers, R for other numbers, T for text, `?` for what else there is. An error is
//! its SQLSTATE. Where Keyspan differs by intent the record is `onlyif postgres`, the comment before it says why, and
//! what Keyspan does instead follows it as `onlyif keyspan` where there is something to hold on to.

use super::{
    harness::{self, Harness},
    slt::{Rows, Told, agree, changes_something, column_type, files, in_order, is_select},
};
use anyhow::{Context, Result, bail, ensure};
use async_trait::async_trait;
use sqllogictest::{
    AsyncDB, Connection, DBOutput, DefaultColumnType, Record, Runner, parse_file, strict_column_validator,
    update_record_with_output,
};
use std::{fmt::Write, path::Path, sync::Arc};
use tokio_postgres::{Client, SimpleQueryMessage};

/// The variable of the environment that says which PostgreSQL answers in Keyspan's place.
const RECORDED_FROM: &str = "KEYSPAN_TESTS_POSTGRES";

/// A client of either server.
struct Either {
    client: Client,
    keyspan: bool,
}

impl Either {
    /// What a statement gives by the simple protocol: values of rows, rows touched.
    async fn simple(&self, sql: &str) -> Result<(Rows, u64), Told> {
        let (mut rows, mut count) = (Rows::new(), 0);
        for message in self.client.simple_query(sql).await.map_err(state)? {
            match message {
                SimpleQueryMessage::Row(row) => {
                    let value = |at| match row.get(at) {
                        None => "NULL".to_owned(),
                        Some("") => "(empty)".to_owned(),
                        Some(value) => value.to_owned(),
                    };
                    rows.push((0..row.len()).map(value).collect());
                }
                SimpleQueryMessage::CommandComplete(affected) => count = affected,
                _ => {}
            }
        }
        Ok((rows, count))
    }
}

/// Rows as the lines of the files.
fn lines(rows: &Rows) -> Rows {
    let line = |row: &Vec<String>| row.iter().map(|value| value.replace('\n', "\\n")).collect::<Vec<_>>().join("|");
    rows.iter().map(|row| vec![line(row)]).collect()
}

/// Whether queries in WITH write, or what they stand before: such a statement runs once.
fn writes_within_with(sql: &str) -> bool {
    let writes = ["AS (INSERT", "AS (UPDATE", "AS (DELETE", ") INSERT INTO", ") MERGE INTO"];
    writes.iter().any(|write| sql.contains(write))
}

/// An error as its SQLSTATE.
fn state(error: tokio_postgres::Error) -> Told {
    Told(
        error.as_db_error().map_or_else(|| format!("not from the server: {error:?}"), |told| told.code().code().into()),
    )
}

#[async_trait]
impl AsyncDB for Either {
    type Error = Told;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Told> {
        let (rows, count) = self.simple(sql).await?;
        let shows = sql.split_whitespace().next().is_some_and(|head| head.eq_ignore_ascii_case("show"));
        if !is_select(sql) && !shows {
            return Ok(DBOutput::StatementComplete(count));
        }
        let prepared = self.client.prepare(sql).await.map_err(state)?;
        if self.keyspan && !writes_within_with(sql) {
            agree(sql, &rows, &self.client.query(&prepared, &[]).await.map_err(state)?)?;
            // The second time it is prepared to be kept, the third it is kept.
            for time in ["second", "third"].into_iter().filter(|_| !changes_something(sql)) {
                let (again, _) = self.simple(sql).await?;
                if in_order(&again, sql) != in_order(&rows, sql) {
                    return Err(Told(format!("{rows:?} at first, {again:?} the {time} time")));
                }
            }
        }
        let types = prepared.columns().iter().map(|column| column_type(column.type_())).collect();
        Ok(DBOutput::Rows { types, rows: lines(&rows) })
    }

    async fn shutdown(&mut self) {}
}

/// A line without what only a terminal shows.
#[expect(clippy::ptr_arg, reason = "sqllogictest calls it so")]
fn normalized(line: &String) -> String {
    line.trim_end().to_owned()
}

fn same(normalizer: fn(&String) -> String, actual: &[Vec<String>], expected: &[String]) -> bool {
    let actual: Vec<_> = actual.iter().map(|row| normalizer(&row.join("|"))).collect();
    actual == expected.iter().map(normalizer).collect::<Vec<_>>()
}

/// Whether a record is for the connection of this name.
fn is_for(wanted: &str, record: &Record<DefaultColumnType>) -> bool {
    let (Record::Statement { connection, .. } | Record::Query { connection, .. }) = record else { return false };
    matches!(connection, Connection::Named(name) if name == wanted)
}

/// A fresh database on PostgreSQL.
async fn on_postgres(address: &str, name: &str) -> Result<Client> {
    let connect = |database: &str| {
        let config = format!("{address} dbname={database} options='-c timezone=UTC'").parse();
        async move { harness::connect(&config?).await }
    };
    let maintenance = connect("postgres").await?;
    maintenance.batch_execute(&format!("DROP DATABASE IF EXISTS slt_{name}")).await?;
    maintenance.batch_execute(&format!("CREATE DATABASE slt_{name}")).await?;
    connect(&format!("slt_{name}")).await
}

/// Another connection to it.
async fn again_on_postgres(address: &str, name: &str) -> Result<Client> {
    harness::connect(&format!("{address} dbname=slt_{name} options='-c timezone=UTC'").parse()?).await
}

async fn check(name: &str) -> Result<()> {
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    let address = std::env::var(RECORDED_FROM).ok();
    ensure!(!update || address.is_some(), "only PostgreSQL says what is expected here: tests/record");
    let harness = Arc::new(Harness::start().await?);
    harness.tenant("alto").await?;
    let clients = match &address {
        Some(address) => (on_postgres(address, name).await?, None),
        None => (harness.connect("alto", "alto").await?, Some(harness.operator().await?)),
    };
    let label = if address.is_some() { "postgres" } else { "keyspan" };
    let (client, operator) = clients;
    let mut mine = runner(client, label);
    let mut operators = operator.map(|client| runner(client, label));
    let second = match &address {
        Some(address) => again_on_postgres(address, name).await?,
        None => harness.connect("alto", "alto").await?,
    };
    let mut seconds = runner(second, label);

    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slt/postgres").join(format!("{name}.slt"));
    let (mut text, mut failures) = (String::new(), Vec::new());
    for record in parse_file::<DefaultColumnType>(&file)? {
        let runner = match operators.as_mut().filter(|_| is_for("operator", &record)) {
            Some(operators) => operators,
            None if is_for("second", &record) => &mut seconds,
            None => &mut mine,
        };
        let plain = without_connection(record.clone());
        if !update {
            if let Err(error) = runner.run_async(plain).await {
                failures.push(error.to_string());
            }
            continue;
        }
        let output = runner.apply_record(plain).await;
        let new = update_record_with_output(&record, &output, "|", same, normalized, strict_column_validator);
        if !matches!(record, Record::Injected(_)) {
            writeln!(text, "{}", new.unwrap_or(record))?;
        }
    }
    if update {
        std::fs::write(file, format!("{}\n", text.trim_end()))?;
    }
    if !failures.is_empty() {
        bail!("{name}.slt: {} records\n{}", failures.len(), failures.join("\n\n"));
    }
    Ok(())
}

type Clients = Runner<Either, Box<dyn FnMut() -> std::future::Ready<Result<Either, Told>> + Send>>;

/// A runner over one client.
fn runner(client: Client, label: &str) -> Clients {
    let mut client = Some(Either { client, keyspan: label == "keyspan" });
    let make: Box<dyn FnMut() -> std::future::Ready<Result<Either, Told>> + Send> =
        Box::new(move || std::future::ready(client.take().ok_or_else(|| Told("a second connection".to_owned()))));
    let mut runner = Runner::new(make);
    runner.add_label(label);
    runner.with_column_validator(strict_column_validator);
    runner.with_validator(same);
    runner.with_normalizer(normalized);
    runner
}

/// The record for the runner's only client.
fn without_connection(mut record: Record<DefaultColumnType>) -> Record<DefaultColumnType> {
    if let Record::Statement { connection, .. } | Record::Query { connection, .. } = &mut record {
        *connection = Connection::Default;
    }
    record
}

files! { "tests/slt/postgres":
    alike
    alter
    arithmetic
    array_columns
    arrays
    beside
    bits
    bytes
    casts
    casts_beside
    catalog
    changed_types
    changes
    char
    comments
    composites
    computed_lists
    constant_keys
    correlated
    date_forms
    defaults
    definitions_in_transactions
    distinct_from
    document_order
    documents
    domains
    enums
    escapes
    everyday
    exclusions
    extremes
    filled
    forms
    frameworks
    guards
    held
    identity
    interval_columns
    interval_sums
    introspection
    json
    json_changes
    json_paths
    key_changes
    keys_of_joins
    kinds_of_statements
    laterals
    limits_above
    many_upserts
    materialized
    materialized_views
    merge
    merged_columns
    missing_rows
    names
    names_twice
    nested_joins
    never
    number_templates
    numerics
    operators
    ordered_lists
    ordered_sets
    outer_names
    parameters
    populated
    private_tables
    qualifiers
    questions
    quoted_operands
    readings
    records_of_json
    regexps
    relational
    repeated_checks
    returned_beside
    rolled_values
    rows_at_once
    same_names
    schemas
    second_digits
    sequences
    sessions_in_zones
    spans
    statistics
    strings
    subquery_order
    subscripts
    sums
    temporary_tables
    temporary_views
    time_columns
    time_zones
    times
    types_of
    united
    unnested
    variadic
    views
    whole_numbers
    writes
    writing_with
}
