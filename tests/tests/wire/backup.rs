//! Backup and restore as a user meets them when something is wrong: arguments, folders, a copy that was killed.

use super::{
    command::{Serving, keyspan},
    harness::{connect, rows, s3::S3},
};
use anyhow::{Context, Result};
use rustix::process::Signal;
use std::path::{Path, PathBuf};

const PASSWORD: &str = "a password";

/// Runs the program to its end. Gives exit code, standard output and standard error.
async fn run(arguments: &[&str]) -> Result<(i32, String, String)> {
    let output = keyspan().args(arguments).output().await?;
    let code = output.status.code().context("an exit code")?;
    Ok((code, String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?))
}

/// Runs the program, which has to fail by itself: one line, exit code 1.
async fn fails(arguments: &[&str]) -> Result<String> {
    let (code, said, told) = run(arguments).await?;
    assert_eq!((code, said.as_str(), told.lines().count()), (1, "", 1), "{arguments:?}: {told}");
    Ok(told)
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path")
}

/// What a flush may take on a machine that has other things to do.
const FLUSH_TIME_MAX: std::time::Duration = std::time::Duration::from_secs(60);

/// A store with rows, that is not in use.
async fn store(folder: &Path) -> Result<PathBuf> {
    let store = folder.join("store");
    let serving = serve(&store).await?;
    let client = connect(&serving.config(PASSWORD)).await?;
    client.batch_execute("CREATE TABLE t (k bigint PRIMARY KEY, v text); CREATE DATABASE one").await?;
    client.batch_execute("INSERT INTO t SELECT 'one', k, md5(k::text) FROM generate_series(1, 4000) AS g(k)").await?;
    // More than a memtable: the flush is under way, and what the tests ask of segments begins when there is one.
    let flushed = async {
        while client.query("SELECT 1 FROM keyspan.segments WHERE rows > 0", &[]).await?.is_empty() {}
        anyhow::Ok(())
    };
    tokio::time::timeout(FLUSH_TIME_MAX, flushed).await??;
    serving.signal(Signal::TERM).await?;
    Ok(store)
}

async fn serve(store: &Path) -> Result<Serving> {
    let small = |command: &mut tokio::process::Command| _ = command.args(["--memtable-size", "64KiB"]);
    Serving::start_with(store, Some(PASSWORD), small).await
}

#[tokio::test]
async fn wrong_arguments_are_told_with_what_is_right() -> Result<()> {
    for (arguments, part) in [
        (&["backup"][..], "<BACKUP>"),
        (&["restore"], "<BACKUP>"),
        (&["backup", "a", "b"], "unexpected argument 'b'"),
        (&["check", "somewhere"], "unexpected argument 'somewhere'"),
        (&["check", "--segments", "here"], "invalid value 'here' for '--segments <URL>'"),
        (&["repair"], "unrecognized subcommand 'repair'"),
        (&["serve", "--memory", "much"], "invalid value 'much' for '--memory <SIZE>'"),
        (&["serve", "--memtable-size", "none"], "--memtable-size <SIZE>"),
        (&["serve", "--cold-codec", "gzip"], "[possible values: lz4, zstd]"),
        (&["serve", "--pin-max-age", "0s"], "--pin-max-age <TIME>"),
        (&["serve", "--temp-max", "all"], "--temp-max <SIZE>"),
    ] {
        let (code, said, told) = run(arguments).await?;
        assert!(code == 2 && said.is_empty() && told.contains(part), "{arguments:?}: {code} {told}");
        assert!(told.contains("--help"), "{arguments:?}: {told}");
    }
    let folder = tempfile::tempdir()?;
    let new = folder.path().join("new");
    for (arguments, part) in [
        (["--memory", "1MB"], "--memory 976.5KiB is less than 32MiB"),
        (["--log-file-size", "1"], "--log-file-size 1B is less than 64KiB"),
        (["--segments", "ftp://host/path"], "ftp://host/path"),
        (["--segments", "s3://"], "s3://"),
    ] {
        let told =
            fails(&[&["serve", "--listen", "127.0.0.1:0", "--store", text(&new)?], &arguments[..]].concat()).await?;
        assert!(told.starts_with("keyspan: ") && told.contains(part), "{arguments:?}: {told}");
    }
    Ok(())
}

#[tokio::test]
async fn a_wrong_folder_is_told_and_left_as_it_is() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let store = store(folder.path()).await?;
    let (nothing, taken) = (folder.path().join("nothing"), folder.path().join("taken"));
    std::fs::create_dir(&taken)?;
    std::fs::write(taken.join("letter"), "dear")?;
    let (store, nothing, taken) = (text(&store)?, text(&nothing)?, text(&taken)?);
    for (arguments, part) in [
        (&["backup", nothing, "--store", taken][..], format!("there is no store in {taken}")),
        (&["backup", "/dev/null", "--store", taken], format!("there is no store in {taken}")),
        (&["backup", taken, "--store", store], format!("the folder {taken} is not empty")),
        (&["backup", store, "--store", store], format!("the folder {store} is not empty")),
        (&["restore", taken, "--store", nothing], format!("there is no store in {taken}")),
        (&["restore", store, "--store", store], format!("the folder {store} is not empty")),
        (&["restore", store, "--store", taken], format!("the folder {taken} is not empty")),
        (&["check", "--store", taken], format!("there is no store in {taken}")),
    ] {
        let told = fails(arguments).await?;
        assert!(told.contains(&part), "{arguments:?}: {told}");
    }
    for arguments in [&["check", "--store", nothing][..], &["backup", taken, "--store", nothing]] {
        let told = fails(arguments).await?;
        assert!(told.contains(nothing), "{arguments:?}: {told}");
    }
    assert_eq!(std::fs::read_dir(taken)?.count(), 1);
    assert!(!Path::new(nothing).exists(), "a folder was made for nothing");
    let (code, said, _) = run(&["check", "--store", store]).await?;
    assert!(code == 0 && said.contains("no damage"), "{said}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_that_was_killed_is_no_store_and_says_so() -> Result<()> {
    let (s3, folder) = (S3::start().await?, tempfile::tempdir()?);
    let (source, backup) = (store(folder.path()).await?, folder.path().join("backup"));
    let bucket = folder.path().join("in-bucket");
    let url = s3.url("rows");
    let to = ["restore", text(&source)?, "--store", text(&bucket)?, "--segments", &url];
    let restored = keyspan().args(to).envs(s3.environment()).output().await?;
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));

    // The bucket does not answer any more: the copy is in the middle, for as long as it takes to kill it.
    let held = s3.hold().await;
    let from = ["backup", text(&backup)?, "--store", text(&bucket)?, "--segments", &url];
    let mut copying = keyspan().args(from).envs(s3.environment()).spawn()?;
    // The folder of the log is made when the target is claimed.
    while !backup.join("wal").exists() {
        assert!(copying.try_wait()?.is_none(), "it has ended");
        tokio::task::yield_now().await;
    }
    copying.kill().await?;
    drop(held);

    let restored = folder.path().join("restored");
    let told = fails(&["restore", text(&backup)?, "--store", text(&restored)?]).await?;
    assert!(told.contains("CURRENT is damaged at byte "), "{told}");
    let told = fails(&["serve", "--listen", "127.0.0.1:0", "--store", text(&backup)?]).await?;
    assert!(told.contains("CURRENT is damaged at byte "), "{told}");
    let told = fails(&[&from[..2], &["--store", text(&source)?]].concat()).await?;
    assert!(told.contains("is not empty"), "{told}");

    // Once more, elsewhere: nothing of the source has suffered.
    let again = folder.path().join("again");
    let from = ["backup", text(&again)?, "--store", text(&bucket)?, "--segments", &url];
    let copied = keyspan().args(from).envs(s3.environment()).output().await?;
    assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
    let said = String::from_utf8(copied.stdout)?;
    assert!(
        said.starts_with(&format!("backed up to {}: ", again.display())) && said.contains(" segments of "),
        "{said}"
    );
    let serving = serve(&again).await?;
    let client = connect(&serving.config(PASSWORD)).await?;
    assert_eq!(rows(&client, "SELECT count(*), count(DISTINCT v) FROM t").await?, ["4000|4000"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_into_a_bucket_with_another_store_is_refused() -> Result<()> {
    let (s3, folder) = (S3::start().await?, tempfile::tempdir()?);
    let source = store(folder.path()).await?;
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    let url = s3.url("rows");
    for (target, part) in [(&first, None), (&second, Some("s3://segments/rows is not empty"))] {
        let arguments = ["restore", text(&source)?, "--store", text(target)?, "--segments", &url];
        let output = keyspan().args(arguments).envs(s3.environment()).output().await?;
        let told = String::from_utf8(output.stderr)?;
        match part {
            None => assert!(output.status.success(), "{told}"),
            Some(part) => assert!(output.status.code() == Some(1) && told.contains(part), "{told}"),
        }
    }
    // Of the first all is there.
    let output =
        keyspan().args(["check", "--store", text(&first)?, "--segments", &url]).envs(s3.environment()).output();
    assert!(output.await?.status.success());
    // A store whose segments are in a bucket, without it: neither an empty table nor a damage.
    let (code, _, told) = run(&["check", "--store", text(&first)?]).await?;
    assert!(code == 1 && told.contains("are at s3://segments/rows: say so with --segments"), "{told}");
    Ok(())
}
