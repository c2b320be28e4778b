//! The program on files: check, backup and restore, and segments in a bucket of a real S3 server.

use super::{
    command::{Serving, keyspan},
    harness::{connect, rows, s3::S3},
};
use anyhow::{Context, Result};
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use tokio::process::Command;
use tokio_postgres::Client;

const PASSWORD: &str = "a password";
/// Statements that fill a store, each of [`STATEMENT_ROWS`] rows of about 150 bytes: several memtables full.
const STATEMENTS: i64 = 12;
const STATEMENT_ROWS: i64 = 150;

/// A store with tiny memtables, so that there are segments soon; and where its segments are.
struct Place<'a> {
    store: PathBuf,
    segments: Option<(&'a S3, &'a str)>,
}

impl Place<'_> {
    fn options(&self, command: &mut Command) {
        if let Some((s3, prefix)) = self.segments {
            command.arg("--segments").arg(s3.url(prefix)).envs(s3.environment());
        }
    }

    async fn serve(&self) -> Result<Serving> {
        Serving::start_with(&self.store, Some(PASSWORD), |command| {
            self.options(command.args(["--memtable-size", "64KiB"]));
        })
        .await
    }

    /// Runs a subcommand on it. Gives the exit code and all that was said.
    async fn run(&self, subcommand: &str, folder: Option<&Path>) -> Result<(Option<i32>, String)> {
        let mut command = keyspan();
        command.arg(subcommand).args(folder).arg("--store").arg(&self.store);
        self.options(&mut command);
        let output = command.output().await?;
        let told = [output.stdout, output.stderr].concat();
        Ok((output.status.code(), String::from_utf8(told)?))
    }

    async fn succeeds(&self, subcommand: &str, folder: Option<&Path>) -> Result<String> {
        let (code, told) = self.run(subcommand, folder).await?;
        assert_eq!(code, Some(0), "{subcommand}: {told}");
        Ok(told)
    }
}

/// Rows from a number of statements on.
async fn fill(client: &Client, from: i64) -> Result<()> {
    for statement in from..from + STATEMENTS {
        let value = |part| format!("({statement}, {part}, repeat('row {statement} ', 12))");
        let values: Vec<String> = (0..STATEMENT_ROWS).map(value).collect();
        client.batch_execute(&format!("INSERT INTO t VALUES {}", values.join(", "))).await?;
    }
    Ok(())
}

/// Copies a folder with all that is in it.
fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let (entry, to) = (entry?, to);
        match entry.file_type()?.is_dir() {
            true => copy_folder(&entry.path(), &to.join(entry.file_name()))?,
            false => drop(std::fs::copy(entry.path(), to.join(entry.file_name()))?),
        }
    }
    Ok(())
}

async fn define(serving: &Serving) -> Result<Client> {
    let client = connect(&serving.config(PASSWORD)).await?;
    client.batch_execute("CREATE TABLE t (a bigint, b bigint, v text, PRIMARY KEY (a, b))").await?;
    client.batch_execute("CREATE DATABASE one").await?;
    client.batch_execute(&format!("CREATE ROLE one LOGIN PASSWORD '{PASSWORD}'")).await?;
    client.batch_execute("ALTER DATABASE one OWNER TO one").await?;
    tenant(serving).await
}

async fn tenant(serving: &Serving) -> Result<Client> {
    let mut config = serving.config(PASSWORD);
    config.user("one").dbname("one");
    connect(&config).await
}

/// Rows, statements, and a sum over what they hold.
async fn summary(client: &Client) -> Result<Vec<String>> {
    rows(client, "SELECT count(*), count(DISTINCT a), sum(a * 1000 + b), sum(length(v)) FROM t").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_a_store_in_use_is_a_store() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let place = Place { store: folder.path().join("store"), segments: None };
    let serving = place.serve().await?;
    let client = define(&serving).await?;
    fill(&client, 0).await?;
    let first = summary(&client).await?;
    // Others write while it is copied: all that was there before is in it, and of theirs whole statements.
    let backup = folder.path().join("backup");
    let (told, written) = tokio::join!(place.succeeds("backup", Some(&backup)), fill(&client, STATEMENTS));
    written?;
    assert!(told?.starts_with(&format!("backed up to {}: ", backup.display())));
    let last = summary(&client).await?;
    serving.signal(Signal::KILL).await?;

    let restored = Place { store: folder.path().join("restored"), segments: None };
    restored.succeeds("restore", Some(&backup)).await?;
    restored.succeeds("check", None).await?;
    let serving = restored.serve().await?;
    let client = tenant(&serving).await?;
    let whole = format!("SELECT count(*) FROM (SELECT a FROM t GROUP BY a HAVING count(*) <> {STATEMENT_ROWS}) x");
    assert_eq!(rows(&client, &whole).await?, ["0"]);
    let found: i64 = rows(&client, "SELECT count(*) FROM t").await?[0].parse()?;
    assert!((STATEMENTS * STATEMENT_ROWS..=2 * STATEMENTS * STATEMENT_ROWS).contains(&found), "{found}");
    client.batch_execute(&format!("DELETE FROM t WHERE a >= {STATEMENTS}")).await?;
    assert_eq!(summary(&client).await?, first);
    drop(serving);
    let again = place.serve().await?;
    assert_eq!(summary(&tenant(&again).await?).await?, last, "the source is as it was");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_is_named_by_file_and_byte_and_is_not_copied() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let place = Place { store: folder.path().join("store"), segments: None };
    let serving = place.serve().await?;
    fill(&define(&serving).await?, 0).await?;
    let (code, told) = place.run("check", None).await?;
    assert!(code == Some(1) && told.contains("in use by another process"), "{told}");
    assert_eq!(serving.signal(Signal::TERM).await?.status.code(), Some(0));
    assert!(place.succeeds("check", None).await?.contains("no damage"));

    // A segment in the middle, and a frame of the log: both are named.
    let mut segments: Vec<_> =
        std::fs::read_dir(place.store.join("seg"))?.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>()?;
    segments.sort();
    let segment = segments.first().context("there are segments")?;
    flip(segment, 1000)?;
    let (code, told) = place.run("check", None).await?;
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains(&format!("{} is damaged at byte ", segment.display())), "{told}");
    assert!(told.ends_with("has one damage\n"), "{told}");

    let backup = folder.path().join("backup");
    let (code, told) = place.run("backup", Some(&backup)).await?;
    assert!(code == Some(1) && told.contains("is damaged at byte "), "{told}");
    let half = Place { store: backup.clone(), segments: None };
    let (code, told) = half.run("restore", Some(&backup)).await?;
    assert!(code == Some(1) && told.contains("CURRENT is damaged"), "{told}");
    flip(segment, 1000)?;
    let (code, told) = place.run("backup", Some(&backup)).await?;
    assert!(code == Some(1) && told.contains("is not empty"), "{told}");
    place.succeeds("check", None).await?;
    Ok(())
}

fn flip(path: &Path, at: usize) -> Result<()> {
    let mut bytes = std::fs::read(path)?;
    bytes[at] ^= 1;
    Ok(std::fs::write(path, bytes)?)
}

#[tokio::test(flavor = "multi_thread")]
async fn segments_are_kept_in_a_bucket() -> Result<()> {
    let s3 = S3::start().await?;
    let folder = tempfile::tempdir()?;
    let place = Place { store: folder.path().join("store"), segments: Some((&s3, "a/prefix")) };
    let serving = place.serve().await?;
    let client = define(&serving).await?;
    fill(&client, 0).await?;
    let first = summary(&client).await?;
    serving.signal(Signal::KILL).await?;
    let objects = s3.objects("a/prefix")?;
    assert!(objects.iter().any(|object| object.extension().is_some_and(|end| end == "parquet")), "{objects:?}");
    assert!(!place.store.join("seg").exists(), "and none in the store's folder");

    // What was flushed comes from the bucket, the rest from the log.
    let serving = place.serve().await?;
    let client = tenant(&serving).await?;
    assert_eq!(summary(&client).await?, first);
    assert_eq!(rows(&client, "SELECT count(*) FROM t WHERE a = 7 AND b < 10").await?, ["10"]);

    // From the bucket to a folder, and into another bucket's prefix.
    let backup = folder.path().join("backup");
    place.succeeds("backup", Some(&backup)).await?;
    serving.signal(Signal::TERM).await?;
    place.succeeds("check", None).await?;
    let moved = Place { store: folder.path().join("moved"), segments: Some((&s3, "elsewhere")) };
    moved.succeeds("restore", Some(&backup)).await?;
    let serving = moved.serve().await?;
    assert_eq!(summary(&tenant(&serving).await?).await?, first);
    serving.signal(Signal::TERM).await?;

    // Yesterday's folder beside today's bucket would remove what was flushed since; without the bucket it is not
    // damaged.
    let yesterday = Place { store: folder.path().join("yesterday"), segments: moved.segments };
    copy_folder(&moved.store, &yesterday.store)?;
    let serving = moved.serve().await?;
    let client = tenant(&serving).await?;
    fill(&client, STATEMENTS).await?;
    let second = summary(&client).await?;
    serving.signal(Signal::TERM).await?;
    let objects = s3.objects("elsewhere")?;
    let Err(told) = yesterday.serve().await else { panic!("an older folder beside newer segments") };
    assert!(told.to_string().contains("is an older copy of the store"), "{told}");
    assert_eq!(s3.objects("elsewhere")?, objects);
    let elsewhere = Place { store: moved.store.clone(), segments: None };
    let Err(told) = elsewhere.serve().await else { panic!("a store without its segments") };
    assert!(told.to_string().contains("are at s3://segments/elsewhere: say so with --segments"), "{told}");
    let (code, told) = elsewhere.run("check", None).await?;
    assert!(code == Some(1) && told.contains("are at s3://segments/elsewhere"), "{told}");
    let serving = moved.serve().await?;
    assert_eq!(summary(&tenant(&serving).await?).await?, second);
    serving.signal(Signal::TERM).await?;

    // Without its folder it is another store, which takes nothing of the first.
    let stranger = Place { store: folder.path().join("stranger"), segments: Some((&s3, "elsewhere")) };
    let objects = s3.objects("elsewhere")?;
    let Err(told) = stranger.serve().await else { panic!("two stores with the same segments") };
    assert!(told.to_string().contains("s3://segments/elsewhere holds the segments of another store"), "{told}");
    assert_eq!(s3.objects("elsewhere")?, objects);

    // An object that is gone is a damage, told by its name.
    let gone = s3.objects("elsewhere")?.into_iter().next().context("an object")?;
    std::fs::remove_file(&gone)?;
    let name = gone.file_name().context("a name")?.to_string_lossy().into_owned();
    let (code, told) = moved.run("check", None).await?;
    assert!(code == Some(1) && told.contains(&format!("s3://segments/elsewhere/{name} is damaged")), "{told}");
    Ok(())
}

#[tokio::test]
async fn help_of_the_subcommands_is_worth_reading() -> Result<()> {
    for (subcommand, words) in [
        ("check", ["file and byte", "exit code is"]),
        ("backup", ["may be served meanwhile", "Segments of an"]),
        ("restore", ["must be empty", "no server starts on it"]),
    ] {
        let output = keyspan().args([subcommand, "--help"]).output().await?;
        let help = String::from_utf8(output.stdout)?;
        for word in words.iter().chain(&["Examples:", "--segments", "KEYSPAN_SEGMENTS"]) {
            assert!(help.contains(word), "{subcommand}: {word} is missing in {help}");
        }
    }
    Ok(())
}
