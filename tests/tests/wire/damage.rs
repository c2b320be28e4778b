//! Files that do not hold what was written to them: what the server says of them, what it refuses, and what it goes on
//! serving.
//!
//! Tenants `one` and `two` have rows in tables `t` and `u`. A file is damaged while no server runs. Then a statement
//! that needs the damaged part fails with XX001, and names file and byte; all others give what they gave before; and
//! `keyspan check` names the file.

use super::{
    command::keyspan,
    harness::{Harness, error, rows},
};
use anyhow::{Context, Result};
use keyspan_storage::ErrorKind;
use std::{
    fs,
    path::{Path, PathBuf},
};
use tokio_postgres::Client;

/// Rows of tenant `one` in `t`: pages enough that a damage is in one of many.
const ROWS: i64 = 9_000;
/// Bytes of a value that is kept in a file of its own.
const LARGE_BYTES: usize = 1_200_000;

/// A way to damage a file.
#[derive(Clone, Copy, Debug)]
enum Damage {
    /// A bit at this percentage of the file, or at its last byte.
    Flipped(usize),
    /// Cut after this percentage of the file.
    Truncated(usize),
    Missing,
}

impl Damage {
    fn apply(self, path: &Path) -> Result<()> {
        let mut bytes = fs::read(path).with_context(|| path.display().to_string())?;
        let at = |percent: usize| (bytes.len() * percent / 100).min(bytes.len() - 1);
        match self {
            Self::Flipped(percent) => {
                let at = at(percent);
                bytes[at] ^= 1;
            }
            Self::Truncated(percent) => {
                let at = at(percent);
                bytes.truncate(at);
            }
            Self::Missing => return Ok(fs::remove_file(path)?),
        }
        Ok(fs::write(path, bytes)?)
    }
}

/// What is written, to be damaged.
struct Place {
    harness: Harness,
    /// The segment of `one`'s rows in `t`, with a side file.
    segment: PathBuf,
}

async fn place() -> Result<Place> {
    let harness = start(None).await?;
    let operator = harness.operator().await?;
    operator.batch_execute("CREATE TABLE t (k bigint PRIMARY KEY, v text, n bigint)").await?;
    operator.batch_execute("CREATE TABLE u (k bigint PRIMARY KEY, v text)").await?;
    let (one, two) = (harness.tenant("one").await?, harness.tenant("two").await?);
    let insert = format!("INSERT INTO t SELECT k, repeat(md5(k::text), 4), k FROM generate_series(1, {ROWS}) AS g(k)");
    one.batch_execute(&insert).await?;
    one.batch_execute(&format!("INSERT INTO t VALUES (0, repeat('x', {LARGE_BYTES}), 0)")).await?;
    harness.engine().compact(None).await?;
    let sql = "SELECT segment FROM keyspan.segments WHERE table_name = 't'";
    let segment = rows(&operator, sql).await?.pop().context("a segment")?;
    // Those of others in other segments.
    two.batch_execute("INSERT INTO t SELECT k, 'of two', k FROM generate_series(1, 50) AS g(k)").await?;
    for client in [&one, &two] {
        client.batch_execute("INSERT INTO u SELECT k, 'in u' FROM generate_series(1, 50) AS g(k)").await?;
    }
    harness.engine().flush().await?;
    let segment = harness.store_folder().join(format!("seg/{segment}.parquet"));
    Ok(Place { harness, segment })
}

async fn start(before: Option<Harness>) -> Result<Harness> {
    match before {
        None => Harness::start_engine(|options| options.compacts = false).await,
        Some(before) => before.restart_engine(|options| options.compacts = false).await,
    }
}

/// What `keyspan check` finds on a store that is not in use.
async fn check(store: &Path) -> Result<(Option<i32>, String)> {
    let output = keyspan().arg("check").arg("--store").arg(store).output().await?;
    Ok((output.status.code(), String::from_utf8([output.stdout, output.stderr].concat())?))
}

impl Place {
    /// Stops the server, damages a file and starts anew; with what the file held. The check has to name it.
    async fn damage(mut self, path: &Path, damage: Damage) -> Result<(Self, Vec<u8>)> {
        self.harness.stop().await?;
        let whole = fs::read(path)?;
        damage.apply(path)?;
        let (code, told) = check(&self.harness.store_folder()).await?;
        let named = format!("{} is damaged at byte ", path.display());
        assert!(code == Some(1) && told.contains(&named), "{damage:?}: {told}");
        Ok((self.serve().await?, whole))
    }

    /// Stops the server and brings the file back.
    async fn restore(&mut self, path: &Path, whole: &[u8]) -> Result<()> {
        self.harness.stop().await?;
        fs::write(path, whole)?;
        let (code, told) = check(&self.harness.store_folder()).await?;
        assert_eq!(code, Some(0), "restored: {told}");
        Ok(())
    }

    /// Starts a server, when there is none.
    async fn serve(self) -> Result<Self> {
        Ok(Self { harness: start(Some(self.harness)).await?, ..self })
    }

    async fn one(&self) -> Result<Client> {
        self.harness.connect("one", "one").await
    }

    /// Everything but `one`'s rows in `t`: there, and writable.
    async fn check_others(&self) -> Result<()> {
        let (one, two) = (self.one().await?, self.harness.connect("two", "two").await?);
        assert_eq!(rows(&two, "SELECT count(*), sum(n), min(v) FROM t").await?, ["50|1275|of two"]);
        for client in [&one, &two] {
            assert_eq!(rows(client, "SELECT count(*), max(v) FROM u").await?, ["50|in u"]);
            client.batch_execute("INSERT INTO u VALUES (1000, 'written now')").await?;
            client.batch_execute("UPDATE u SET v = 'changed' WHERE k = 7").await?;
            assert_eq!(
                rows(client, "SELECT v FROM u WHERE k IN (7, 1000) ORDER BY k").await?,
                ["changed", "written now"]
            );
            client.batch_execute("DELETE FROM u WHERE k = 1000; UPDATE u SET v = 'in u' WHERE k = 7").await?;
        }
        two.batch_execute("INSERT INTO t VALUES (51, 'of two', 0); DELETE FROM t WHERE k = 51").await?;
        Ok(())
    }

    /// A statement that needs the damaged file is refused, and a tenant is not told where.
    async fn check_refused(&self, sql: &str, path: &Path) -> Result<()> {
        let client = self.one().await?;
        for columnar in ["on", "off"] {
            client.batch_execute(&format!("SET keyspan.columnar = {columnar}")).await?;
            let told = error(&client, sql).await;
            assert!(told.starts_with("XX001 a file of the store is damaged"), "columnar {columnar}: {sql}: {told}");
            assert!(!told.contains(&path.display().to_string()), "columnar {columnar}: {sql}: {told}");
        }
        // The connection is none the worse.
        assert_eq!(rows(&client, "SELECT 1").await?, ["1"]);
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_segment_refuses_its_rows_and_nothing_else() -> Result<()> {
    let mut place = place().await?;
    let segment = place.segment.clone();
    // Most of the file are the values of `v`; the end is the tail, without which nothing of it can be read.
    for damage in [Damage::Flipped(40), Damage::Flipped(100), Damage::Truncated(50), Damage::Missing] {
        let (damaged, whole) = place.serve().await?.damage(&segment, damage).await?;
        place = damaged;
        place.check_refused("SELECT count(*), sum(length(v)) FROM t", &segment).await?;
        // A DELETE would need no values: it looks up where rows are.
        place.check_refused("UPDATE t SET n = 1", &segment).await?;
        place.check_others().await?;
        // A flush has nothing to do with it, and what a compaction cannot read it leaves alone.
        place.harness.engine().flush().await?;
        assert_eq!(place.harness.engine().compact(None).await.map_err(|error| error.kind()), Err(ErrorKind::Corrupt));
        place.check_others().await?;
        let one = place.one().await?;
        if matches!(damage, Damage::Flipped(40)) {
            // A page of many: the others are read.
            let (mut read, mut refused) = (0, 0);
            for k in (1..ROWS).step_by(500) {
                let sql = format!("SELECT n, v = repeat(md5(k::text), 4) FROM t WHERE k = {k}");
                match rows(&one, &sql).await {
                    Ok(found) => {
                        assert_eq!(found, [format!("{k}|t")]);
                        read += 1;
                    }
                    Err(_) => {
                        assert!(error(&one, &sql).await.starts_with("XX001 "));
                        refused += 1;
                    }
                }
            }
            assert!(read > 2 && refused > 0, "{read} rows could be read, {refused} were refused");
        } else {
            place.check_refused("UPDATE t SET n = 1 WHERE k = 8000", &segment).await?;
        }
        place.restore(&segment, &whole).await?;
    }
    let place = place.serve().await?;
    let all = format!("{}|{}", ROWS + 1, ROWS * (ROWS + 1) / 2);
    assert_eq!(rows(&place.one().await?, "SELECT count(*), sum(n) FROM t").await?, [all]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_side_file_refuses_its_value_and_nothing_else() -> Result<()> {
    let mut place = place().await?;
    let side = place.segment.with_extension("side");
    for damage in [Damage::Flipped(0), Damage::Flipped(50), Damage::Truncated(50), Damage::Missing] {
        let (damaged, whole) = place.serve().await?.damage(&side, damage).await?;
        place = damaged;
        place.check_refused("SELECT length(v) FROM t WHERE k = 0", &side).await?;
        place.check_others().await?;
        let one = place.one().await?;
        assert_eq!(rows(&one, "SELECT count(*), sum(length(v)) FROM t WHERE k BETWEEN 5 AND 14").await?, ["10|1280"]);
        one.batch_execute("UPDATE t SET n = -1 WHERE k = 5").await?;
        assert_eq!(rows(&one, "SELECT n FROM t WHERE k = 5").await?, ["-1"]);
        place.restore(&side, &whole).await?;
    }
    let place = place.serve().await?;
    assert_eq!(rows(&place.one().await?, "SELECT length(v) FROM t WHERE k = 0").await?, [LARGE_BYTES.to_string()]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_segment_that_the_log_has_changed_can_still_be_restored() -> Result<()> {
    let mut place = place().await?;
    let one = place.one().await?;
    one.batch_execute("UPDATE t SET n = -7 WHERE k = 7").await?;
    one.batch_execute("DELETE FROM t WHERE k = 8").await?;
    place.harness.connect("two", "two").await?.batch_execute("INSERT INTO t VALUES (99, 'in the log', 0)").await?;
    place.harness.stop().await?;
    let segment = place.segment.clone();
    let whole = fs::read(&segment)?;
    for damage in [Damage::Flipped(100), Damage::Truncated(50), Damage::Missing] {
        damage.apply(&segment)?;
        place = place.serve().await?;
        // Where the changed rows are in it is not known: none of it is shown, lest one be shown as it was.
        place.check_refused("SELECT count(*) FROM t", &segment).await?;
        place.check_refused("SELECT n FROM t WHERE k = 100", &segment).await?;
        let (one, two) = (place.one().await?, place.harness.connect("two", "two").await?);
        assert_eq!(rows(&one, "SELECT n FROM t WHERE k = 7").await?, ["-7"]);
        assert_eq!(rows(&two, "SELECT count(*), sum(n) FROM t").await?, ["51|1275"]);
        assert_eq!(rows(&two, "SELECT v FROM t WHERE k = 99").await?, ["in the log"]);
        for client in [&one, &two] {
            assert_eq!(rows(client, "SELECT count(*) FROM u").await?, ["50"]);
            let told = error(client, "INSERT INTO u VALUES (100, 'x')").await;
            assert!(told.starts_with("57P03 the store has stopped") && !told.contains(text(&segment)?), "{told}");
        }
        let operator = place.harness.operator().await?;
        let told = error(&operator, "INSERT INTO u (tenant, k, v) VALUES ('one', 100, 'x')").await;
        assert!(told.starts_with("57P03 the store has stopped: ") && told.contains(text(&segment)?), "{told}");
        assert!(told.contains("until the file is restored"), "{told}");
        place.harness.stop().await?;
        fs::write(&segment, &whole)?;
    }
    let place = place.serve().await?;
    let one = place.one().await?;
    assert_eq!(rows(&one, "SELECT count(*), min(n) FROM t").await?, [format!("{ROWS}|-7")]);
    assert_eq!(rows(&one, "SELECT k, n FROM t WHERE k BETWEEN 6 AND 9 ORDER BY k").await?, ["6|6", "7|-7", "9|9"]);
    place.harness.connect("two", "two").await?.batch_execute("DELETE FROM t WHERE k = 99").await?;
    place.check_others().await
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path")
}

/// The line with which a start that has to fail does.
async fn failed_start(store: &Path) -> Result<String> {
    let output = keyspan().args(["serve", "--listen", "127.0.0.1:0", "--store"]).arg(store).output().await?;
    let told = String::from_utf8(output.stderr)?;
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(1), b"".as_slice()), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");
    Ok(told)
}

/// Files of a folder of the store.
fn listed(store: &Path, folder: &str) -> Result<Vec<PathBuf>> {
    let mut files: Vec<_> = fs::read_dir(store.join(folder))?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.sort();
    Ok(files)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_manifest_refuses_the_start_and_says_where() -> Result<()> {
    let mut place = place().await?;
    // Some dead rows, so that there is a file of them.
    place.one().await?.batch_execute("UPDATE t SET n = 0 WHERE k < 100").await?;
    place.harness.engine().flush().await?;
    place.harness.stop().await?;
    let store = place.harness.store_folder();
    let manifest = listed(&store, "manifest")?.pop().context("a manifest")?;
    let dead = listed(&store, "dead")?.pop().context("dead positions")?;
    for path in [&manifest, &dead, &store.join("CURRENT")] {
        let whole = fs::read(path)?;
        for damage in
            [Damage::Flipped(0), Damage::Flipped(60), Damage::Flipped(100), Damage::Truncated(50), Damage::Missing]
        {
            // Without CURRENT a folder with nothing but a log might be a store that was made just now.
            damage.apply(path)?;
            let told = failed_start(&store).await?;
            let named = format!("{} is damaged at byte ", path.display());
            assert!(told.starts_with("keyspan: cannot open the store ") && told.contains(&named), "{damage:?}: {told}");
            let (code, told) = check(&store).await?;
            assert!(code == Some(1) && told.contains(&named), "{damage:?}: {told}");
            fs::write(path, &whole)?;
        }
    }
    assert_eq!(check(&store).await?.0, Some(0));
    let place = place.serve().await?;
    place.check_others().await?;
    let one = place.one().await?;
    assert_eq!(rows(&one, "SELECT count(*), sum(n) FROM t WHERE k BETWEEN 90 AND 109").await?, ["20|1045"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_log_refuses_the_start_and_is_found_by_the_check() -> Result<()> {
    let mut place = place().await?;
    let one = place.one().await?;
    for text in ["the first", "the needle", "the last"] {
        one.batch_execute(&format!(
            "INSERT INTO u VALUES (100 + length('{text}'), '{text}') ON CONFLICT (k) DO UPDATE SET v = EXCLUDED.v"
        ))
        .await?;
    }
    place.harness.stop().await?;
    let store = place.harness.store_folder();
    let mut found = None;
    for path in listed(&store, "wal")? {
        let bytes = fs::read(&path)?;
        found = bytes.windows(10).position(|part| part == b"the needle").map(|at| (path, bytes, at)).or(found);
    }
    let (path, whole, at) = found.context("the text is in the log")?;
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    };
    for damaged in [flipped(at), flipped(3), flipped(20), whole[..at].to_vec()] {
        fs::write(&path, &damaged)?;
        let (code, told) = check(&store).await?;
        let named = format!("{} is damaged at byte ", path.display());
        if damaged.len() < whole.len() {
            // A log that ends in the middle of a frame is what a crash leaves: that is no damage, and nobody can tell
            // it from one.
            assert_eq!(code, Some(0), "{told}");
            continue;
        }
        assert!(code == Some(1) && told.contains(&named), "{told}");
        assert!(failed_start(&store).await?.contains(&named));
    }
    fs::write(&path, &whole)?;
    let place = place.serve().await?;
    assert_eq!(
        rows(&place.one().await?, "SELECT v FROM u WHERE k > 100 ORDER BY k").await?,
        ["the last", "the first", "the needle"]
    );
    Ok(())
}
