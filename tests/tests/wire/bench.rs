//! `keyspan bench`: it runs through, finds right answers, says all that it promises, and leaves nothing behind. No time
//! is held against anything here.

use super::command::keyspan;
use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{path::Path, process::Stdio};
use tokio::io::{AsyncBufReadExt, BufReader};

fn is_empty(folder: &Path) -> Result<bool> {
    Ok(std::fs::read_dir(folder)?.next().is_none())
}

#[tokio::test]
async fn a_small_run_measures_everything() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut command = keyspan();
    command.args(["bench", "scan", "--rows", "5000", "--rounds", "1", "--memory", "64MiB", "--json", "--path"]);
    let output = command.arg(folder.path()).output().await?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    assert!(told.contains("load") && told.contains("delete 50 prefixes"), "{told}");
    let report: Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!((&report["rows"], &report["rounds"]), (&5000.into(), &1.into()));
    let lines = report["lines"].as_array().context("lines")?;
    for (what, target) in [
        ("clean scan, 2 columns", Some(1.2)),
        ("clean scan, 2 columns, DataFusion's layout", None),
        ("1 % updated, as written", Some(1.5)),
        ("1 % updated, flushed", Some(1.5)),
        ("10 % updated, as written", Some(3.0)),
        ("10 % updated, flushed", Some(3.0)),
        ("compacted again", Some(1.2)),
        ("space, LZ4", Some(1.3)),
        ("space, zstd", Some(1.3)),
        ("start-up", Some(1.0)),
        ("write amplification of load and compaction", None),
        ("a row during compaction, p99", None),
        ("deleted prefixes to compacted", Some(1.5)),
        ("peak memory to --memory + 100MiB", Some(1.0)),
    ] {
        let line = lines.iter().find(|line| line["what"] == what).with_context(|| format!("{what} is missing"))?;
        assert!(line["result"]["value"].as_f64().context("a number")?.is_finite(), "{line}");
        assert_eq!(line["target"]["at_most"].as_f64(), target, "{line}");
        assert_eq!(line["met"].is_boolean(), target.is_some(), "{line}");
    }
    let writers = lines.iter().find(|line| line["what"] == "64 writers to one").context("the writers")?;
    assert_eq!(writers["target"]["at_least"].as_f64(), Some(10.0));
    assert!(is_empty(folder.path())?, "the temporary folder is left");
    Ok(())
}

#[tokio::test]
async fn wide_rows_are_measured_and_checked() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut command = keyspan();
    command.args(["bench", "wide", "--rows", "2000", "--rounds", "1", "--memory", "64MiB", "--without-postgres"]);
    let output = command.args(["--json", "--path"]).arg(folder.path()).output().await?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    let report: Value = serde_json::from_slice(&output.stdout)?;
    let lines = report["lines"].as_array().context("lines")?;
    for what in ["COPY", "one column", "columns with a prefix, as rows", "a whole row", "a change of one column"] {
        let line = lines.iter().find(|line| line["what"] == what).with_context(|| format!("{what} is missing"))?;
        assert!(line["result"]["value"].as_f64().context("a number")? > 0.0, "{line}");
    }
    assert!(is_empty(folder.path())?, "the temporary folder is left");
    Ok(())
}

/// Sorts, groups and joins of many times the memory: batches that keep whole pages alive would leave a sort without
/// memory for its first one.
#[tokio::test]
async fn a_server_with_little_memory_answers() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut command = keyspan();
    command.args(["bench", "memory", "--memory", "32MiB", "--times", "2", "--json", "--path"]).arg(folder.path());
    let output = command.output().await?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout)?;
    let steps: Vec<_> = report["steps"].as_array().context("steps")?.iter().map(|step| step["name"].clone()).collect();
    for step in ["scan", "sort by text", "GROUP BY, half as many groups", "join with itself", "COPY TO Parquet"] {
        assert!(steps.contains(&step.into()), "{step} is missing: {steps:?}");
    }
    assert!(is_empty(folder.path())?, "the temporary folder is left");
    Ok(())
}

#[tokio::test]
async fn short_statements_are_measured_and_checked() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut command = keyspan();
    command.args(["bench", "point", "--rows", "1000", "--seconds", "0.05", "--connections", "2", "--memory", "64MiB"]);
    let output = command.args(["--without-postgres", "--json", "--path"]).arg(folder.path()).output().await?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    let report: Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!((&report["rows"], &report["postgres"]), (&1000.into(), &Value::Null));
    let lines = report["lines"].as_array().context("lines")?;
    let works = [
        "point read",
        "last point",
        "ordered range of 20",
        "an hour's rows",
        "update by key",
        "upsert",
        "insert",
        "insert with defaults",
        "delete by key",
    ];
    for work in works {
        for connections in ["1 connection", "2 connections"] {
            for what in ["p50", "p99", "operations"] {
                let name = format!("{work}, {connections}: {what}");
                let line =
                    lines.iter().find(|line| line["what"] == *name).with_context(|| format!("{name} is missing"))?;
                assert!(line["result"]["value"].as_f64().context("a number")? > 0.0, "{line}");
            }
        }
    }
    for (what, target) in [("p50", 0.001), ("p99", 0.005)] {
        let name = format!("point read, 2 connections: {what} itself");
        let line = lines.iter().find(|line| line["what"] == *name).with_context(|| format!("{name} is missing"))?;
        assert_eq!(line["target"]["at_most"].as_f64(), Some(target), "{line}");
    }
    assert!(is_empty(folder.path())?, "the temporary folder is left");
    Ok(())
}

#[tokio::test]
async fn queries_are_measured_and_their_answers_compared() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut command = keyspan();
    command.args(["bench", "queries", "--hosts", "2", "--days", "1", "--rounds", "1", "--memory", "64MiB", "--json"]);
    // A Python without the package: there is none in the folder.
    command.args(["--without-postgres", "--python"]).arg(folder.path().join("python"));
    let output = command.arg("--path").arg(folder.path()).output().await?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    assert!(told.contains("left out: --python has no package duckdb"), "{told}");
    let report: Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!(report["rows"], 2 * 8_640);
    let lines = report["lines"].as_array().context("lines")?;
    let compared = lines.iter().filter(|line| line["what"].as_str().is_some_and(|what| what.ends_with(": Parquet")));
    assert_eq!(compared.count(), 18);
    for line in lines {
        assert!(line["result"]["value"].as_f64().context("a number")? > 0.0, "{line}");
    }
    assert!(is_empty(folder.path())?, "the temporary folder is left");
    Ok(())
}

#[tokio::test]
async fn statements_of_tpch_are_measured_and_their_answers_compared() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut command = keyspan();
    command
        .args(["bench", "tpch", "--scale", "0.01", "--only", "6,22", "--rounds", "1", "--memory", "64MiB", "--json"]);
    command.args(["--without-postgres", "--python"]).arg(folder.path().join("python"));
    let output = command.arg("--path").arg(folder.path()).output().await?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    let report: Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!(report["rows"], 86_805);
    let lines = report["lines"].as_array().context("lines")?;
    for (what, target) in [
        ("COPY, own", None),
        ("COPY, shared", None),
        ("Q6, own: Parquet", Some(1.3)),
        ("Q22, shared: Parquet", Some(1.3)),
        ("geometric mean, own: Parquet", Some(1.0)),
        ("geometric mean, shared: Parquet", Some(1.0)),
    ] {
        let line = lines.iter().find(|line| line["what"] == what).with_context(|| format!("{what} is missing"))?;
        assert!(line["result"]["value"].as_f64().context("a number")? > 0.0, "{line}");
        assert_eq!(line["target"]["at_most"].as_f64(), target, "{line}");
    }
    assert_eq!(lines.len(), 8);
    assert!(is_empty(folder.path())?, "the temporary folder is left");
    Ok(())
}

#[tokio::test]
async fn many_rows_and_connections_that_wait_are_measured() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut command = keyspan();
    command.args(["bench", "wire", "--rows", "3000", "--rounds", "1", "--connections", "3", "--memory", "64MiB"]);
    let output = command.args(["--without-postgres", "--json", "--path"]).arg(folder.path()).output().await?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    let report: Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!((&report["rows"], &report["connections"], &report["postgres"]), (&3000.into(), &3.into(), &Value::Null));
    let lines = report["lines"].as_array().context("lines")?;
    for (what, target) in [
        ("all rows in text", None),
        ("all rows in binary", None),
        ("memory of a connection that waits", Some(65_536.0)),
        ("memory of one that ran a statement before", None),
    ] {
        let line = lines.iter().find(|line| line["what"] == what).with_context(|| format!("{what} is missing"))?;
        assert!(line["result"]["value"].as_f64().context("a number")?.is_finite(), "{line}");
        assert_eq!(line["target"]["at_most"].as_f64(), target, "{line}");
    }
    assert!(is_empty(folder.path())?, "the temporary folder is left");
    Ok(())
}

#[tokio::test]
async fn a_run_that_is_stopped_leaves_nothing() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut command = keyspan();
    command.args(["bench", "scan", "--rows", "100000000", "--path"]).arg(folder.path());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut told = BufReader::new(child.stderr.take().context("a pipe")?).lines();
    let first = told.next_line().await?.context("it ended")?;
    assert!(first.ends_with("load"), "{first}");
    assert!(!is_empty(folder.path())?);
    let id = child.id().and_then(|id| Pid::from_raw(id.cast_signed())).context("it ended")?;
    kill_process(id, Signal::TERM)?;
    let last = told.next_line().await?.context("no word")?;
    assert_eq!(last, "keyspan: stopped by a signal");
    assert_eq!(child.wait().await?.code(), Some(1));
    assert!(is_empty(folder.path())?, "the temporary folder is left");
    Ok(())
}

#[tokio::test]
async fn help_says_what_is_measured() -> Result<()> {
    let output = keyspan().args(["bench", "scan", "--help"]).output().await?;
    let help = String::from_utf8(output.stdout)?;
    for word in
        ["--rows", "--rounds", "--path", "--memory", "--seed", "--json", "Examples:", "without the wire", "10000000"]
    {
        assert!(help.contains(word), "{word} is missing in {help}");
    }
    let output = keyspan().args(["bench", "scan", "--rows", "3"]).output().await?;
    assert_eq!(output.status.code(), Some(2));
    Ok(())
}

#[tokio::test]
async fn a_small_run_of_neighbours_measures_everything() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut command = keyspan();
    command.args(["bench", "fair", "--rows", "1000", "--seconds", "0.05", "--memory", "64MiB", "--json", "--path"]);
    let output = command.arg(folder.path()).output().await?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    assert!(told.contains("with the gate: load") && told.contains("without the gate: equal tenants"), "{told}");
    let report: Value = serde_json::from_slice(&output.stdout)?;
    let lines = report["lines"].as_array().context("lines")?;
    let target = |what: &str| {
        let line = lines.iter().find(|line| line["what"] == what).with_context(|| format!("{what} is missing"))?;
        anyhow::Ok(line["target"].clone())
    };
    assert_eq!(target("point read p99, beside noise over alone")?["at_most"].as_f64(), Some(4.0));
    assert_eq!(target("noisy tenant's scans and writes, mean ratio")?["at_least"].as_f64(), Some(0.9));
    assert!(is_empty(folder.path())?, "the temporary folder is left");
    Ok(())
}
