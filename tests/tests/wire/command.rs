//! The program itself: what it prints, how it starts, fails and stops.

use super::harness::{Harness, connect, rows};
use anyhow::{Context, Result};
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Output, Stdio},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    process::{Child, Command},
    task::JoinHandle,
};
use tokio_postgres::Config;

/// The program, with its arguments to come.
pub fn keyspan() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keyspan-under-test"));
    command.env_remove("KEYSPAN_PASSWORD").env_remove("KEYSPAN_LOG").kill_on_drop(true);
    command
}

/// A program that serves.
pub struct Serving {
    /// The process.
    pub child: Child,
    /// Where it listens.
    pub address: SocketAddr,
    /// Takes what it says on standard error: a process whose pipe is full stands still.
    told: JoinHandle<std::io::Result<Vec<u8>>>,
}

impl Serving {
    /// Starts `keyspan serve` on a free port and waits until it listens.
    pub async fn start(store: &Path, password: Option<&str>) -> Result<Self> {
        Self::start_with(store, password, |_| {}).await
    }

    /// The same, with more arguments or another environment.
    pub async fn start_with(store: &Path, password: Option<&str>, change: impl FnOnce(&mut Command)) -> Result<Self> {
        let mut command = keyspan();
        command.args(["serve", "--listen", "127.0.0.1:0", "--store"]).arg(store);
        if let Some(password) = password {
            command.env("KEYSPAN_PASSWORD", password);
        }
        change(&mut command);
        Self::spawn(command).await
    }

    /// Runs a command that serves, and waits until it listens.
    pub async fn spawn(mut command: Command) -> Result<Self> {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut stderr = child.stderr.take().context("a pipe")?;
        let told = tokio::spawn(async move {
            let mut told = Vec::new();
            stderr.read_to_end(&mut told).await.map(|_| told)
        });
        let stdout = child.stdout.take().context("a pipe")?;
        let line = BufReader::new(stdout).lines().next_line().await?;
        let Some(line) = line else { anyhow::bail!("it ended: {}", String::from_utf8_lossy(&told.await??)) };
        let address = line.strip_prefix("listening on ").context("the address")?.parse()?;
        Ok(Self { child, address, told })
    }

    /// How to connect to it as the operator.
    pub fn config(&self, password: &str) -> Config {
        let mut config = Config::new();
        config.host(self.address.ip().to_string()).port(self.address.port());
        config.user("keyspan").password(password).dbname("keyspan");
        config
    }

    /// Sends a signal.
    pub fn send(&self, signal: rustix::process::Signal) -> Result<()> {
        let id = self.child.id().and_then(|id| rustix::process::Pid::from_raw(id as i32)).context("a process")?;
        Ok(rustix::process::kill_process(id, signal)?)
    }

    /// Sends a signal and waits for the end.
    pub async fn signal(mut self, signal: rustix::process::Signal) -> Result<Output> {
        self.send(signal)?;
        let status = self.child.wait().await?;
        Ok(Output { status, stdout: Vec::new(), stderr: self.told.await?? })
    }
}

#[tokio::test]
async fn a_password_is_made_shown_once_and_kept() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let store = folder.path().join("store");
    let serving = Serving::start(&store, None).await?;
    let file = store.join("operator-password");
    let password = std::fs::read_to_string(&file)?.trim().to_owned();
    assert_eq!(std::fs::metadata(&file)?.permissions().mode() & 0o777, 0o600);
    assert_eq!(rows(&connect(&serving.config(&password)).await?, "SELECT 1").await?, ["1"]);
    let first = serving.signal(rustix::process::Signal::TERM).await?;
    assert_eq!(first.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&first.stderr).contains(&password));

    let again = Serving::start(&store, None).await?;
    connect(&again.config(&password)).await?;
    let second = again.signal(rustix::process::Signal::INT).await?;
    assert_eq!(second.status.code(), Some(0));
    assert!(!String::from_utf8_lossy(&second.stderr).contains(&password));
    Ok(())
}

#[tokio::test]
async fn the_password_of_the_environment_replaces_another() -> Result<()> {
    let folder = tempfile::tempdir()?;
    for password in ["one", "another"] {
        let serving = Serving::start(folder.path(), Some(password)).await?;
        assert_eq!(rows(&connect(&serving.config(password)).await?, "SELECT 1").await?, ["1"]);
        assert_eq!(serving.signal(rustix::process::Signal::TERM).await?.status.code(), Some(0));
    }
    Ok(())
}

#[tokio::test]
async fn as_many_files_may_be_open_as_the_system_allows() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = env!("CARGO_BIN_EXE_keyspan-under-test");
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "ulimit -Sn 256; ulimit -Hn 1111; exec \"$0\" serve --listen 127.0.0.1:0 --store \"$1\"",
        program,
    ]);
    command.arg(folder.path()).env("KEYSPAN_PASSWORD", "operator").kill_on_drop(true);
    let serving = Serving::spawn(command).await?;
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", serving.child.id().context("a process")?))?;
    let files = limits.lines().find(|line| line.starts_with("Max open files")).context("the limit")?;
    assert_eq!(files.split_whitespace().collect::<Vec<_>>(), ["Max", "open", "files", "1111", "1111", "files"]);
    Ok(())
}

/// The one line on standard error with which a start has to fail.
async fn failed_start(arguments: &[&str]) -> Result<String> {
    let output = keyspan().arg("serve").args(arguments).output().await?;
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(1), b"".as_slice()));
    let told = String::from_utf8(output.stderr)?;
    assert_eq!(told.lines().count(), 1, "{told}");
    Ok(told)
}

#[tokio::test]
async fn a_start_that_fails_says_why_in_one_line() -> Result<()> {
    let harness = Harness::start().await?;
    let folder = tempfile::tempdir()?;
    let (store, taken) = (folder.path().join("store"), harness.address().to_string());
    let store = store.to_str().context("a path")?;
    let told = failed_start(&["--store", store, "--listen", &taken]).await?;
    assert!(told.starts_with(&format!("keyspan: cannot listen on {taken}: ")), "{told}");
    let told = failed_start(&["--store", store, "--listen", "nowhere"]).await?;
    assert!(told.starts_with("keyspan: --listen nowhere is no ADDR:PORT"), "{told}");
    let told =
        failed_start(&["--store", store, "--listen", "127.0.0.1:0", "--tls-cert", "a", "--tls-key", "b"]).await?;
    assert!(told.starts_with("keyspan: cannot use a for TLS: "), "{told}");
    let told = failed_start(&["--store", "bigtable://project/instance"]).await?;
    assert!(told.contains("not supported"), "{told}");
    Ok(())
}

#[tokio::test]
async fn a_store_in_use_is_refused() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let serving = Serving::start(folder.path(), Some("a password")).await?;
    let told = failed_start(&["--listen", "127.0.0.1:0", "--store", folder.path().to_str().context("a path")?]).await?;
    assert!(told.contains("in use by another process"), "{told}");
    assert_eq!(rows(&connect(&serving.config("a password")).await?, "SELECT 1").await?, ["1"]);
    Ok(())
}

#[tokio::test]
async fn a_hang_up_reads_the_configuration_anew() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (store, file) = (folder.path().join("store"), folder.path().join("keyspan.toml"));
    let rules = |name: &str, method: &str| -> Result<PathBuf> {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("host all all all {method}\n"))?;
        Ok(path)
    };
    let (open, closed) = (rules("open", "scram-sha-256")?, rules("closed", "reject")?);
    let configure =
        |access: &Path, memory: &str| std::fs::write(&file, format!("access = {access:?}\nmemory = \"{memory}\"\n"));
    configure(&open, "512MiB")?;
    let serving = Serving::start_with(&store, Some("operator"), |command| {
        command.arg("--config").arg(&file);
    });
    let serving = serving.await?;
    let config = serving.config("operator");
    let reload = async |lets_in: bool| -> Result<()> {
        serving.send(rustix::process::Signal::HUP)?;
        while connect(&config).await.is_ok() != lets_in {
            tokio::task::yield_now().await;
        }
        Ok(())
    };
    connect(&config).await?;
    configure(&closed, "640MiB")?;
    reload(false).await?;
    // A file that is wrong changes nothing: the rules are those of the file that it named before, read anew.
    std::fs::write(&file, "memroy = \"1GiB\"\n")?;
    rules("closed", "scram-sha-256")?;
    reload(true).await?;
    let log = String::from_utf8(serving.signal(rustix::process::Signal::TERM).await?.stderr)?;
    for told in [
        "the configuration was read anew",
        "this option needs a restart",
        "there is no option memroy; is memory meant?; what was read before still holds",
        "the access rules were read anew",
    ] {
        assert!(log.contains(told), "{told} is missing: {log}");
    }
    Ok(())
}

#[tokio::test]
async fn help_says_how_to_connect_and_names_the_environment() -> Result<()> {
    let output = keyspan().arg("--help").output().await?;
    let help = String::from_utf8(output.stdout)?;
    for word in ["serve", "demo", "KEYSPAN_PASSWORD", "KEYSPAN_LOG", "psql", "Ctrl-C"] {
        assert!(help.contains(word), "{word} is missing");
    }
    Ok(())
}

/// The modes of a folder and all that is below, by path.
fn modes(folder: &Path) -> Result<BTreeMap<PathBuf, u32>> {
    let mut all = BTreeMap::from([(folder.to_owned(), std::fs::metadata(folder)?.permissions().mode() & 0o7777)]);
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => all.extend(modes(&path)?),
            false => drop(all.insert(path.clone(), std::fs::metadata(&path)?.permissions().mode() & 0o7777)),
        }
    }
    Ok(all)
}

/// A command of the program with the umask that most systems have.
fn with_common_umask(arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "umask 022; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_keyspan-under-test")]).args(arguments);
    command.env("KEYSPAN_PASSWORD", "operator").env_remove("KEYSPAN_LOG").kill_on_drop(true);
    command
}

#[tokio::test]
async fn a_store_is_for_its_user_alone() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (store, backup) = (folder.path().join("store"), folder.path().join("backup"));
    let [store_name, backup_name] = [&store, &backup].map(|path| path.to_str().expect("a path"));
    let serve = ["serve", "--listen", "127.0.0.1:0", "--memtable-size", "64KiB", "--store", store_name];
    let serving = Serving::spawn(with_common_umask(&serve)).await?;
    let operator = connect(&serving.config("operator")).await?;
    operator.batch_execute("CREATE TABLE t (k bigint PRIMARY KEY, v text); CREATE DATABASE alto").await?;
    operator
        .batch_execute("INSERT INTO t SELECT 'alto', g, repeat('x', 1000) FROM generate_series(1, 1000) AS g(g)")
        .await?;
    operator.batch_execute("COPY t TO 't.parquet' (FORMAT parquet)").await?;
    let copied = with_common_umask(&["backup", "--store", store_name, backup_name]).output().await?;
    assert_eq!(copied.status.code(), Some(0), "{}", String::from_utf8_lossy(&copied.stderr));
    while rows(&operator, "SELECT * FROM keyspan.segments").await?.is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(serving.signal(rustix::process::Signal::TERM).await?.status.code(), Some(0));
    assert!(store.join("exports/t.parquet").exists());
    for folder in [&store, &backup] {
        let modes = modes(folder)?;
        assert!(modes.keys().any(|path| path.starts_with(folder.join("seg")) && path.is_file()), "{modes:?}");
        for (path, mode) in modes {
            assert_eq!(mode, if path.is_dir() { 0o700 } else { 0o600 }, "{}: {mode:o}", path.display());
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_folder_that_was_open_to_others_is_closed_and_told() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let store = folder.path().join("store");
    std::fs::create_dir(&store)?;
    for (mode, told) in [(0o755, true), (0o770, true), (0o700, false)] {
        std::fs::set_permissions(&store, std::fs::Permissions::from_mode(mode))?;
        let serving = Serving::start(&store, Some("operator")).await?;
        assert_eq!(std::fs::metadata(&store)?.permissions().mode() & 0o7777, 0o700);
        let log = String::from_utf8(serving.signal(rustix::process::Signal::TERM).await?.stderr)?;
        assert_eq!(log.contains(&format!("its mode {mode:04o} is 0700 now")), told, "{log}");
    }
    Ok(())
}
