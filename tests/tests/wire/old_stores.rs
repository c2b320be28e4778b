//! Stores that older versions have written.
//!
//! Each folder of `tests/stores` holds one, as the version that names it left it when it was killed, and what it
//! answered (`make.py` there makes them; a version whose stores have something new adds one). Opened by this version,
//! a store gives the same answers: as it lies, once all of its files are rewritten, and after another start. Then it is
//! written to.

use super::harness::{Harness, error, rows};
use anyhow::{Context, Result};
use std::{
    fs,
    path::{Path, PathBuf},
};
use tokio_postgres::{Client, SimpleQueryMessage};

fn stores() -> Result<Vec<PathBuf>> {
    let all = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("stores"))?;
    let all = all.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    Ok(all.into_iter().filter(|path| path.is_dir()).collect())
}

/// Writes the files of a folder as they were before they were packed.
fn unpack(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        if path.is_dir() {
            unpack(&path, &to.join(path.file_name().context("a name")?))?;
        } else {
            let name = path.file_stem().context("a name")?;
            zstd::stream::copy_decode(fs::File::open(&path)?, fs::File::create(to.join(name))?)?;
        }
    }
    Ok(())
}

/// What the questions of `answers.txt` give now, in its form.
async fn answers(harness: &Harness, written: &str) -> Result<String> {
    let (mut client, mut text) = (None, String::new());
    let questions = written.lines().filter(|line| line.starts_with('\\') || line.starts_with("SELECT "));
    for question in questions {
        text += question;
        text += "\n";
        if let Some(names) = question.strip_prefix("\\connect ") {
            let (database, role) = names.split_once(' ').context("a database and a role")?;
            client = Some(match role {
                "keyspan" => harness.operator().await?,
                role => harness.connect(role, database).await?,
            });
            continue;
        }
        let client = client.as_ref().context("a connection")?;
        for message in client.simple_query(question).await.with_context(|| question.to_owned())? {
            if let SimpleQueryMessage::Row(row) = message {
                let row: Vec<&str> = (0..row.len()).map(|at| row.get(at).unwrap_or("NULL")).collect();
                text += &row.join("|");
                text += "\n";
            }
        }
        text += "\n";
    }
    Ok(text)
}

/// What a user does with what is there: numbers go on, rules hold, names are found.
async fn write(harness: &Harness) -> Result<()> {
    let alto = harness.connect("alto", "alto").await?;
    // A kill leaves out the numbers that a session had taken in advance.
    assert_eq!(rows(&alto, "INSERT INTO kinds (t) VALUES ('new') RETURNING id > 33").await?, ["t"]);
    assert_eq!(
        rows(&alto, "INSERT INTO books.entries (amount) VALUES (1) RETURNING id > 260, note").await?,
        ["t|none"]
    );
    assert!(error(&alto, "INSERT INTO books.entries (amount) VALUES (0)").await.starts_with("23514"));
    alto.batch_execute("UPDATE readings SET note = 'again' WHERE device = 'd1'; REFRESH MATERIALIZED VIEW daily")
        .await?;
    let counted = rows(&alto, "SELECT count(*) FROM readings WHERE note = 'again'").await?;
    assert_eq!(rows(&alto, "SELECT readings FROM daily WHERE device = 'd1'").await?, counted);
    let merge = "INSERT INTO totals VALUES ('2026-02-01', 1, 1, 1) ON CONFLICT (day)
        DO UPDATE SET hits = EXCLUDED.hits, least = EXCLUDED.least, most = EXCLUDED.most";
    alto.batch_execute(merge).await?;
    assert_eq!(rows(&alto, "SELECT hits, least, most FROM totals").await?, ["14|1|7"]);
    alto.batch_execute("UPDATE wide SET props['new'] = '1'; ALTER TABLE kinds ADD COLUMN more int DEFAULT 7").await?;
    assert_eq!(rows(&alto, "SELECT count(*) FROM wide WHERE props ? 'new'").await?, ["2"]);
    assert_eq!(rows(&alto, "SELECT sum(more) FROM kinds").await?, ["28"]);
    if rows(&alto, "SELECT to_regclass('alerts')").await? == ["alerts"] {
        write_types(&alto).await?;
    }
    drop(alto);
    let operator = harness.operator().await?;
    operator.batch_execute("ALTER TABLE altered ADD COLUMN e text; DROP DATABASE altostrat WITH (FORCE)").await?;
    assert_eq!(rows(&operator, "SELECT count(*) FROM readings WHERE tenant = 'altostrat'").await?, ["0"]);
    Ok(())
}

/// The same of what has types of the tenant's own.
async fn write_types(alto: &Client) -> Result<()> {
    for (sql, state) in [
        ("INSERT INTO alerts (share) VALUES (101)", "23514"),
        ("INSERT INTO alerts (share) VALUES (13)", "23514"),
        ("INSERT INTO alerts (left_over) VALUES (50.5)", "23514"),
        ("INSERT INTO alerts (least) VALUES ('info')", "23514"),
        ("INSERT INTO alerts (level, share) VALUES ('info', 5)", "23514"),
        ("INSERT INTO alerts (level) VALUES ('none')", "22P02"),
        ("DROP TYPE severity", "2BP01"),
        ("DROP DOMAIN half", "2BP01"),
    ] {
        assert!(error(alto, sql).await.starts_with(state), "{sql}");
    }
    let made = "INSERT INTO alerts (level) VALUES ('error') RETURNING id > 5, least::text, share, left_over";
    assert_eq!(rows(alto, made).await?, ["t|warning|50.00|1.00"]);
    alto.batch_execute("ALTER DOMAIN half DROP CONSTRAINT halves; ALTER TYPE severity RENAME TO level").await?;
    assert_eq!(rows(alto, "SELECT count(*) FROM alerts WHERE level >= 'error'::level").await?, ["3"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_an_older_version_gives_what_it_gave() -> Result<()> {
    let stores = stores()?;
    assert!(!stores.is_empty());
    for store in stores {
        let folder = tempfile::tempdir()?;
        unpack(&store.join("store"), &folder.path().join("store"))?;
        let written = fs::read_to_string(store.join("answers.txt"))?;
        let mut harness = Harness::over(folder).await?;
        same(&answers(&harness, &written).await?, &written, &store, "as it lies");
        harness.engine().compact(None).await?;
        same(&answers(&harness, &written).await?, &written, &store, "rewritten");
        harness = harness.restart().await?;
        same(&answers(&harness, &written).await?, &written, &store, "started again");
        write(&harness).await.with_context(|| store.display().to_string())?;
    }
    Ok(())
}

/// # Panics
/// If the answers differ, with the first line that does.
fn same(now: &str, written: &str, store: &Path, when: &str) {
    let differ = now.lines().zip(written.lines()).find(|(now, written)| now != written);
    assert!(differ.is_none() && now == written, "{} {when}: {differ:?}", store.display());
}
