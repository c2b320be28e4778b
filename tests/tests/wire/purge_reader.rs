//! An independent reader of a store's files: no code of the store reads them here. Parquet files are read with the
//! `parquet` crate, column by column, all others byte by byte. After a purge no file has a key or a value of the dropped
//! tenant; before it the same reader finds them, and those of a neighbour it finds before and after.

use super::{
    command::Serving,
    harness::{connect, rows},
};
use anyhow::{Context, Result};
use parquet::{
    file::reader::{FileReader, SerializedFileReader},
    record::Field,
};
use rustix::process::Signal;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};
use tokio_postgres::Client;

const PASSWORD: &str = "a password";
/// In keys and values of the tenant that is dropped. No two bytes repeat, so that no codec tears it.
const DROPPED: &str = "mQ7xZk2Wv9";
/// In those of the neighbour.
const KEPT: &str = "pL4sYg8Td3";

/// Every file below a folder.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => all.extend(files(&path)?),
            false => all.push(path),
        }
    }
    Ok(all)
}

/// What a file may have of a tenant: text that stands in keys and values.
pub struct Marks<'a> {
    /// In values and keys.
    pub mark: &'a str,
    /// The beginning of its keys: `tenant#`.
    pub span: &'a str,
}

impl Marks<'_> {
    fn are_in(&self, bytes: &[u8]) -> bool {
        let digits = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
        // Manifests write keys in digits.
        let texts = [self.mark.to_owned(), digits(self.mark)];
        texts.iter().any(|text| bytes.windows(text.len()).any(|part| part == text.as_bytes()))
    }

    /// Whether a key, whole, is one of the span.
    fn is_key(&self, bytes: &[u8]) -> bool {
        bytes.starts_with(self.span.as_bytes())
    }

    fn are_in_field(&self, field: &Field) -> bool {
        match field {
            Field::Str(text) => self.are_in(text.as_bytes()) || self.is_key(text.as_bytes()),
            Field::Bytes(bytes) => self.are_in(bytes.data()) || self.is_key(bytes.data()),
            Field::Group(row) => row.get_column_iter().any(|(_, field)| self.are_in_field(field)),
            Field::ListInternal(list) => list.elements().iter().any(|field| self.are_in_field(field)),
            Field::MapInternal(map) => {
                map.entries().iter().any(|(key, value)| self.are_in_field(key) || self.are_in_field(value))
            }
            _ => false,
        }
    }

    /// Whether a Parquet file has them: in its metadata, in any column of any row, dead rows too.
    fn are_in_parquet(&self, path: &Path) -> Result<(bool, u64)> {
        let reader = SerializedFileReader::new(std::fs::File::open(path)?)?;
        let metadata = reader.metadata().file_metadata();
        let pairs = metadata.key_value_metadata().into_iter().flatten();
        let mut found =
            pairs.map(|pair| format!("{}{:?}", pair.key, pair.value)).any(|text| self.are_in(text.as_bytes()));
        let mut read = 0;
        for row in reader.get_row_iter(None)? {
            read += 1;
            found |= row?.get_column_iter().any(|(_, field)| self.are_in_field(field));
        }
        anyhow::ensure!(read == metadata.num_rows(), "{}: {read} rows were read", path.display());
        Ok((found, read as u64))
    }
}

/// The files below folders that have the marks, and the rows of Parquet files that were read.
pub fn marked(folders: &[&Path], marks: &Marks<'_>) -> Result<(BTreeSet<PathBuf>, u64)> {
    let (mut found, mut read) = (BTreeSet::new(), 0);
    for path in folders.iter().map(|folder| files(folder)).collect::<Result<Vec<_>>>()?.concat() {
        let Ok(bytes) = std::fs::read(&path) else { continue };
        let is_parquet = bytes.starts_with(b"PAR1");
        let (decoded, rows) = if is_parquet { marks.are_in_parquet(&path)? } else { (false, 0) };
        // The plain bytes too: statistics, and what no column holds.
        let plain = marks.are_in(&bytes) || bytes.windows(marks.span.len()).any(|part| part == marks.span.as_bytes());
        if decoded || plain {
            found.insert(path);
        }
        read += rows;
    }
    Ok((found, read))
}

async fn serve(store: &Path) -> Result<Serving> {
    let small = |command: &mut tokio::process::Command| _ = command.args(["--memtable-size", "64KiB"]);
    Serving::start_with(store, Some(PASSWORD), small).await
}

async fn make(serving: &Serving, operator: &Client, id: &str, mark: &str) -> Result<Client> {
    let role = format!("CREATE ROLE {id} LOGIN PASSWORD '{PASSWORD}'; ALTER DATABASE {id} OWNER TO {id}");
    operator.batch_execute(&format!("CREATE DATABASE {id}")).await?;
    operator.batch_execute(&role).await?;
    let client = connect(serving.config(PASSWORD).user(id).dbname(id)).await?;
    client.batch_execute(&format!("CREATE TABLE own_{mark} (k text PRIMARY KEY, v text DEFAULT '{mark}')")).await?;
    client.batch_execute(&format!("CREATE VIEW seen AS SELECT k, '{mark}' AS mark FROM t")).await?;
    for table in ["t", "h", &format!("own_{mark}")] {
        // Several memtables; texts that repeat are in dictionaries and compressed pages.
        for from in [0, 500] {
            let values = format!("'{mark}-' || i, i || ' {mark} ' || repeat(md5(i::text), 6)");
            let series = format!("generate_series({from}, {}) AS g(i)", from + 499);
            client.batch_execute(&format!("INSERT INTO {table} SELECT {values} FROM {series}")).await?;
        }
        client.batch_execute(&format!("UPDATE {table} SET v = '{mark} later' WHERE v LIKE '1%'")).await?;
        client.batch_execute(&format!("DELETE FROM {table} WHERE v LIKE '2%'")).await?;
    }
    Ok(client)
}

/// Parts of a store, by their folders.
fn parts(found: &BTreeSet<PathBuf>, store: &Path) -> BTreeSet<String> {
    let part = |path: &PathBuf| {
        let within = path.strip_prefix(store).unwrap_or(path);
        within.components().next().map(|first| first.as_os_str().to_string_lossy().into_owned())
    };
    found.iter().filter_map(part).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_independent_reader_finds_no_key_of_a_purged_tenant() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let store = folder.path().join("store");
    let serving = serve(&store).await?;
    let operator = connect(&serving.config(PASSWORD)).await?;
    operator.batch_execute("CREATE TABLE t (k text PRIMARY KEY, v text)").await?;
    operator.batch_execute("CREATE TABLE h (k text PRIMARY KEY, v text) WITH (history = '1 day')").await?;
    // Both are in the same files: their keys are next to each other.
    let kept = make(&serving, &operator, "alto", KEPT).await?;
    let dropped = make(&serving, &operator, "altostrat", DROPPED).await?;
    let (dropped_marks, kept_marks) =
        (Marks { mark: DROPPED, span: "altostrat#" }, Marks { mark: KEPT, span: "alto#" });
    // Stopped, so that the files stand still.
    drop((kept, dropped, operator));
    serving.signal(Signal::TERM).await?;
    for marks in [&dropped_marks, &kept_marks] {
        let (found, read) = marked(&[&store], marks)?;
        let parts = parts(&found, &store);
        assert!(read > 1000 && ["wal", "seg", "manifest"].iter().all(|part| parts.contains(*part)), "{read} {found:?}");
        assert!(found.iter().filter(|path| path.extension().is_some_and(|end| end == "parquet")).count() > 3);
    }

    let serving = serve(&store).await?;
    let operator = connect(&serving.config(PASSWORD)).await?;
    operator.batch_execute("DROP DATABASE altostrat").await?;
    while rows(&operator, "SELECT purge FROM keyspan.drops").await? != ["done"] {
        tokio::task::yield_now().await;
    }
    let certificate = std::fs::read_dir(store.join("certificates"))?.next().context("a certificate")??.path();
    // The file follows the catalog.
    while !std::fs::read_to_string(&certificate)?.contains("\"purge\": \"done\"") {
        tokio::task::yield_now().await;
    }
    let certified: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&certificate)?)?;
    let told = "SELECT oid, tenant, dropped_by, tables, rows, bytes FROM keyspan.drops";
    let fields = ["oid", "tenant", "dropped_by", "tables", "rows", "bytes"].map(|field| match &certified[field] {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    });
    assert_eq!(rows(&operator, told).await?, [fields.join("|")]);
    let times = format!(
        "SELECT dropped_at = '{}' AND purged_at = '{}' FROM keyspan.drops",
        certified["dropped_at"].as_str().context("a time")?,
        certified["purged_at"].as_str().context("a time")?
    );
    assert_eq!(rows(&operator, &times).await?, ["t"]);
    let (found, read) = marked(&[&store], &dropped_marks)?;
    assert!(found.is_empty() && read > 1000, "while it is served: {read} rows, {found:?}");
    serving.signal(Signal::TERM).await?;
    let (found, _) = marked(&[&store], &dropped_marks)?;
    assert!(found.is_empty(), "after the stop: {found:?}");
    let (found, _) = marked(&[&store], &kept_marks)?;
    assert!(parts(&found, &store).contains("seg"), "the reader finds what is there: {found:?}");
    let serving = serve(&store).await?;
    let alto = connect(serving.config(PASSWORD).user("alto").dbname("alto")).await?;
    let counts =
        format!("SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM h), (SELECT count(*) FROM own_{KEPT})");
    let left = rows(&alto, &counts).await?;
    assert_eq!(left, rows(&alto, &counts.replace("FROM t)", "FROM seen)")).await?);
    assert_ne!(left, ["0|0|0"]);
    Ok(())
}
