//! sqllogictest files over the wire.
//!
//! Each file of `tests/slt` runs against a server of its own with two tenants, `alto` and `altostrat`. Records go to a
//! client of `alto`; after `connection operator`, or `connection altostrat`, to one of these. Every query is run three
//! times: by the simple protocol with pushdown and without, and by the extended one, and all rows must agree. With
//! `UPDATE_EXPECT=1` in the environment the files are rewritten with what came out.

use super::harness::Harness;
use anyhow::{Context, Result};
use async_trait::async_trait;
use sqllogictest::{
    AsyncDB, Connection, DBOutput, DefaultColumnType, MakeConnection, Record, Runner, default_normalizer,
    default_validator, parse_file, strict_column_validator, update_record_with_output,
};
use std::{
    error::Error,
    fmt::{Display, Write},
    path::Path,
    sync::{Arc, Mutex},
};
use tokio_postgres::{
    Client, Row, SimpleQueryMessage,
    error::DbError,
    types::{FromSql, Type},
};

/// Rows as texts.
pub(super) type Rows = Vec<Vec<String>>;

/// A connection, and whether the rest of what it is told is to be checked against other ways to ask.
struct Wire {
    client: Client,
}

/// What went wrong, as psql tells it.
#[derive(Debug)]
pub(super) struct Told(pub(super) String);

impl Display for Told {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

impl Error for Told {}

impl From<tokio_postgres::Error> for Told {
    fn from(error: tokio_postgres::Error) -> Self {
        Self(error.as_db_error().map_or_else(|| format!("not from the server: {error:?}"), shown))
    }
}

/// SQLSTATE, message, detail, hint, position.
pub(super) fn shown(error: &DbError) -> String {
    let mut text = format!("{}: {}", error.code().code(), error.message());
    for (label, part) in [("DETAIL", error.detail()), ("HINT", error.hint())] {
        if let Some(part) = part {
            write!(text, "\n{label}: {part}").expect("a string takes all text");
        }
    }
    if let Some(tokio_postgres::error::ErrorPosition::Original(at)) = error.position() {
        write!(text, "\nPOSITION: {at}").expect("a string takes all text");
    }
    text
}

impl Wire {
    async fn simple(&self, sql: &str) -> Result<(Rows, u64), Told> {
        let (mut rows, mut count) = (Rows::new(), 0);
        for message in self.client.simple_query(sql).await? {
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

    /// A query without pushdown and by the extended protocol: both must agree with what it gave.
    async fn check(&self, sql: &str, rows: &Rows) -> Result<Vec<DefaultColumnType>, Told> {
        let prepared = self.client.prepare(sql).await?;
        let extended = self.client.query(&prepared, &[]).await?;
        agree(sql, rows, &extended)?;
        if is_select(sql) {
            self.simple("SET keyspan.pushdown = off").await?;
            let without = self.simple(sql).await;
            self.simple("SET keyspan.pushdown = on").await?;
            let (mut with, (mut without, _)) = (rows.clone(), without?);
            if !sql.to_lowercase().contains("order by") {
                with.sort();
                without.sort();
            }
            if with != without {
                return Err(Told(format!("with pushdown {with:?}, without {without:?}")));
            }
        }
        Ok(prepared.columns().iter().map(|column| column_type(column.type_())).collect())
    }
}

/// A value as the extended protocol sends it, in binary.
enum Sent {
    Null,
    /// As the simple protocol shows it.
    Shown(String),
    /// Of a type whose binary form is not read here.
    Other,
}

impl<'a> FromSql<'a> for Sent {
    fn from_sql(kind: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        let shown = match *kind {
            Type::BOOL => if bool::from_sql(kind, raw)? { "t" } else { "f" }.to_owned(),
            Type::INT2 => i16::from_sql(kind, raw)?.to_string(),
            Type::INT4 => i32::from_sql(kind, raw)?.to_string(),
            Type::INT8 => i64::from_sql(kind, raw)?.to_string(),
            Type::OID => u32::from_sql(kind, raw)?.to_string(),
            Type::TEXT | Type::VARCHAR | Type::NAME => String::from_utf8(raw.to_vec())?,
            _ => return Ok(Self::Other),
        };
        Ok(Self::Shown(shown))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self::Null)
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// Whether a query gives other values each time, or does more than to give rows.
pub(super) fn changes_something(sql: &str) -> bool {
    let words = ["nextval", "setval", "set_config", "random", "clock_timestamp", "now()", "xid", "pg_stat", "ANALYZE"];
    words.iter().any(|word| sql.contains(word))
}

/// Rows in the order in which the query asks for them; sorted, if it asks for none.
pub(super) fn in_order(rows: &Rows, sql: &str) -> Rows {
    let mut rows = rows.clone();
    if !sql.to_lowercase().contains("order by") {
        rows.sort();
    }
    rows
}

/// Checks that both protocols gave the same rows, as far as the binary form of values is read here: whether they are
/// NULL is seen of all.
pub(super) fn agree(sql: &str, simple: &Rows, extended: &[Row]) -> Result<(), Told> {
    if extended.len() != simple.len() {
        let message = format!("{} rows by the simple protocol, {} by the extended", simple.len(), extended.len());
        return Err(Told(message));
    }
    let Some(first) = extended.first().filter(|_| is_select(sql) && !changes_something(sql)) else { return Ok(()) };
    let kinds: Vec<&Type> = first.columns().iter().map(|column| column.type_()).collect();
    let sent = extended.iter().map(|row| {
        (0..row.len())
            .map(|at| match row.try_get(at)? {
                Sent::Null => Ok("NULL".to_owned()),
                Sent::Shown(text) if text.is_empty() => Ok("(empty)".to_owned()),
                Sent::Shown(text) => Ok(text),
                Sent::Other => Ok("a value".to_owned()),
            })
            .collect::<Result<Vec<String>, tokio_postgres::Error>>()
    });
    let sent = in_order(&sent.collect::<Result<Rows, _>>()?, sql);
    let shown = simple.iter().map(|row| {
        let cells = row.iter().zip(&kinds).map(|(cell, kind)| match **kind {
            Type::BOOL | Type::INT2 | Type::INT4 | Type::INT8 | Type::OID | Type::TEXT | Type::VARCHAR | Type::NAME => {
                cell.clone()
            }
            _ if cell == "NULL" => cell.clone(),
            _ => "a value".to_owned(),
        });
        cells.collect()
    });
    let shown = in_order(&shown.collect(), sql);
    if sent == shown {
        return Ok(());
    }
    Err(Told(format!("{shown:?} by the simple protocol, {sent:?} by the extended")))
}

/// Whether a statement gives rows of a query.
pub(super) fn is_select(sql: &str) -> bool {
    let head = sql.split_whitespace().next().unwrap_or_default().to_lowercase();
    matches!(head.as_str(), "select" | "with" | "values" | "table")
}

/// A type as sqllogictest knows it.
pub(super) fn column_type(kind: &Type) -> DefaultColumnType {
    match *kind {
        Type::INT2 | Type::INT4 | Type::INT8 => DefaultColumnType::Integer,
        Type::FLOAT4 | Type::FLOAT8 | Type::NUMERIC => DefaultColumnType::FloatingPoint,
        Type::TEXT | Type::VARCHAR => DefaultColumnType::Text,
        _ => DefaultColumnType::Any,
    }
}

#[async_trait]
impl AsyncDB for Wire {
    type Error = Told;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Told> {
        let head = sql.split_whitespace().next().unwrap_or_default().to_lowercase();
        let (rows, count) = self.simple(sql).await?;
        if !is_select(sql) && !matches!(head.as_str(), "show" | "explain") {
            return Ok(DBOutput::StatementComplete(count));
        }
        let types = self.check(sql, &rows).await?;
        Ok(DBOutput::Rows { types, rows })
    }

    async fn shutdown(&mut self) {}
}

/// The name of the connection that a record asks for; its default is a tenant's.
fn connection(record: &Record<DefaultColumnType>) -> String {
    match record {
        Record::Statement { connection: Connection::Named(name), .. }
        | Record::Query { connection: Connection::Named(name), .. } => name.clone(),
        _ => "alto".to_owned(),
    }
}

async fn run_file<M: MakeConnection<Conn = Wire>>(
    file: &Path,
    asked: &Mutex<String>,
    runner: &mut Runner<Wire, M>,
) -> Result<()> {
    runner.with_column_validator(strict_column_validator);
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    let mut text = String::new();
    for record in parse_file::<DefaultColumnType>(file)? {
        *asked.lock().expect("no one panics with it") = connection(&record);
        if update {
            let output = runner.apply_record(record.clone()).await;
            let new = update_record_with_output(
                &record,
                &output,
                " ",
                default_validator,
                default_normalizer,
                strict_column_validator,
            );
            if !matches!(record, Record::Injected(_)) {
                writeln!(text, "{}", new.unwrap_or(record))?;
            }
        } else {
            runner.run_async(record).await?;
        }
    }
    if update {
        std::fs::write(file, format!("{}\n", text.trim_end()))?;
    }
    Ok(())
}

async fn check(name: &str) -> Result<()> {
    let harness = Harness::start().await?;
    harness.tenant("alto").await?;
    harness.tenant("altostrat").await?;
    let (harness, asked) = (Arc::new(harness), Arc::new(Mutex::new(String::new())));
    let connect = || {
        let (harness, name) = (harness.clone(), asked.lock().expect("no one panics with it").clone());
        async move {
            let client = match name.as_str() {
                "operator" => harness.operator().await,
                tenant => harness.connect(tenant, tenant).await,
            };
            client.map(|client| Wire { client }).map_err(|error| Told(format!("{error:#}")))
        }
    };
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slt").join(format!("{name}.slt"));
    let mut runner = Runner::new(connect);
    run_file(&file, &asked, &mut runner).await.with_context(|| format!("{name}.slt"))
}

/// A test for each file of a folder, by the `check` in scope, and one that no file was forgotten.
macro_rules! files {
    ($folder:literal: $($name:ident)*) => {
        $(#[tokio::test]
        async fn $name() -> Result<()> {
            check(stringify!($name)).await
        })*

        #[test]
        fn every_file_has_a_test() -> Result<()> {
            let mut found = Vec::new();
            for file in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join($folder))? {
                let path = file?.path();
                if path.is_file() {
                    found.push(path.file_stem().context("a name")?.to_string_lossy().into_owned());
                }
            }
            found.sort();
            assert_eq!(found, [$(stringify!($name)),*]);
            Ok(())
        }
    };
}

pub(super) use files;

files! { "tests/slt":
    aggregates
    cell_time
    definitions
    joins
    key_ranges
    operations
    order_and_limit
    past
    private_tables
    reversed_keys
    salted_keys
    settings
    shared_tables
    stored_cells
    types
}
