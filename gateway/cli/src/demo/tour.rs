//! What the demo shows besides queries: a tenant is dropped and certified, and a server that is killed keeps what it
//! has acknowledged.
//!
//! The tenant is a copy of one of the demo's, so that the demo stays as it is. The server that is killed is a second
//! process of this program over a store of its own in the system's temporary folder.

use super::queries::{Answer, Login, connect};
use anyhow::{Context, Result, ensure};
use std::{
    fmt::Write as _,
    fs::DirBuilder,
    io,
    net::SocketAddr,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};
use tokio_postgres::Client;

/// The tenant that is dropped: of no airline.
const TENANT: &str = "goodbye";
/// How long the purge may take before the tour goes on without its end.
const PURGE_PATIENCE: Duration = Duration::from_secs(60);
/// Acknowledged rows after which the second server is killed, or the time after which it is: on a slow disk a row takes
/// some milliseconds.
const ROWS_BEFORE_KILL: i64 = 500;
const TIME_BEFORE_KILL: Duration = Duration::from_secs(3);
/// How long the second server may take to start.
const START_PATIENCE: Duration = Duration::from_secs(60);

/// Drops a tenant and shows what that leaves.
///
/// # Errors
/// If a statement fails.
pub(super) async fn drop_a_tenant(address: SocketAddr, operator: &Login<'_>, text: &mut String) -> Result<()> {
    let (client, connection) = connect(address, operator).await?;
    let run = async |sql: &str| client.batch_execute(sql).await.with_context(|| format!("this failed:\n{sql}"));
    // One that was interrupted may have left it.
    run(&format!("DROP DATABASE IF EXISTS {TENANT}")).await?;
    run(&format!("CREATE DATABASE {TENANT} TEMPLATE vx")).await?;
    writeln!(text, "A customer leaves. The operator asks first what that takes (the tenant is a copy of vx):\n")?;
    let bytes = format!("SELECT pg_size_pretty(pg_database_size('{TENANT}')) AS bytes_before");
    shown(&client, &bytes, text).await?;
    shown(&client, &format!("EXPLAIN DROP DATABASE {TENANT}"), text).await?;
    writeln!(text, "and drops the tenant. Its rows are invisible when this returns:\n")?;
    let dropping = Instant::now();
    let drop_it = format!("DROP DATABASE {TENANT}");
    run(&drop_it).await?;
    writeln!(text, "    {drop_it}\n    ({} ms)\n", dropping.elapsed().as_millis())?;
    writeln!(text, "Their bytes leave every file of the store behind that, and the certificate says when they had:\n")?;
    let state = format!("SELECT purge FROM keyspan.drops WHERE tenant = '{TENANT}' ORDER BY dropped_at DESC LIMIT 1");
    while Answer::of(client.simple_query(&state).await?).first() != Some("done") {
        if dropping.elapsed() > PURGE_PATIENCE {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let certificate = format!(
        "SELECT tables, rows, bytes, purge, purged_at - dropped_at AS after, verified_by\n  \
         FROM keyspan.drops WHERE tenant = '{TENANT}' ORDER BY dropped_at DESC LIMIT 1"
    );
    shown(&client, &certificate, text).await?;
    let left = format!(
        "SELECT coalesce(sum(rows), 0) AS rows_after\n  FROM (SELECT count(*) AS rows FROM flights WHERE tenant = \
         '{TENANT}'\n        UNION ALL SELECT count(*) FROM readings WHERE tenant = '{TENANT}') AS left_over"
    );
    shown(&client, &left, text).await?;
    drop(client);
    connection.await??;
    Ok(())
}

/// Kills a server with SIGKILL while it writes, and counts what it has acknowledged. Where no second process can run,
/// this part is left out, which the text says.
///
/// # Errors
/// If the second server does not have what it acknowledged, or does not start again.
pub(super) async fn kill_a_server(text: &mut String) -> Result<()> {
    let started = async {
        let folder = Folder::new()?;
        let store = folder.0.join("store");
        let server = SecondServer::start(&store).await?;
        Ok::<_, anyhow::Error>((folder, store, server))
    };
    let (_folder, store, mut server) = match started.await {
        Ok(started) => started,
        Err(error) => {
            writeln!(text, "(A second server, which would be killed, is left out: {error:#})\n")?;
            return Ok(());
        }
    };
    let acknowledged = server.write_until_killed().await?;
    let began = Instant::now();
    let mut again = SecondServer::start(&store).await?;
    let took = began.elapsed();
    let (client, connection) = connect(again.address, &again.login()).await?;
    let counted = Answer::of(client.simple_query("SELECT count(*) FROM writes WHERE tenant = 'one'").await?);
    let counted: i64 = counted.first().context("a count")?.parse()?;
    drop(client);
    connection.await??;
    again.kill().await?;
    ensure!(counted >= acknowledged, "{acknowledged} rows were acknowledged, and {counted} are there");
    let (pid, millis) = (server.pid, took.as_millis());
    writeln!(text, "And a power cut: a second server takes rows one by one and is killed in the midst of it.\n")?;
    writeln!(text, "    kill -9 {pid}")?;
    writeln!(text, "    {acknowledged} rows were acknowledged")?;
    writeln!(text, "    {counted} rows are there after the next start, which took {millis} ms\n")?;
    Ok(())
}

/// A statement and its answer.
async fn shown(client: &Client, sql: &str, text: &mut String) -> Result<()> {
    let answer = client.simple_query(sql).await.with_context(|| format!("this failed:\n{sql}"))?;
    for line in sql.lines() {
        writeln!(text, "    {line}")?;
    }
    text.push('\n');
    for line in Answer::of(answer).to_string().lines() {
        writeln!(text, "    {line}")?;
    }
    text.push('\n');
    Ok(())
}

/// A folder that goes with this.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("keyspan-demo-{}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left in the temporary folder harms nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// This program as a server of its own, which is killed when it is dropped.
struct SecondServer {
    child: Child,
    pid: u32,
    address: SocketAddr,
    password: String,
}

impl SecondServer {
    async fn start(store: &Path) -> Result<Self> {
        let program = std::env::current_exe().context("this program has no path")?;
        let mut command = Command::new(program);
        command.arg("serve").arg("--store").arg(store).args(["--listen", "127.0.0.1:0", "--memory", "256MiB"]);
        // What this process was configured with is not for the second one.
        for name in ["KEYSPAN_CONFIG", "KEYSPAN_PASSWORD", "KEYSPAN_SEGMENTS"] {
            command.env_remove(name);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut child = command.spawn().context("cannot start a second server")?;
        let pid = child.id().context("the second server has ended")?;
        let output = child.stdout.take().context("the second server has no output")?;
        let mut lines = BufReader::new(output).lines();
        let listening = async {
            while let Some(line) = lines.next_line().await? {
                if let Some(address) = line.strip_prefix("listening on ") {
                    return Ok(Some(address.to_owned()));
                }
            }
            io::Result::Ok(None)
        };
        let said = tokio::time::timeout(START_PATIENCE, listening).await.context("the second server does not start")?;
        let address = said?.context("the second server has ended")?.parse()?;
        let password = std::fs::read_to_string(store.join("operator-password"))?.trim().to_owned();
        Ok(Self { child, pid, address, password })
    }

    fn login(&self) -> Login<'_> {
        Login { role: "keyspan", password: &self.password, database: "keyspan" }
    }

    /// Writes row by row; kills the server after some; returns how many were acknowledged.
    async fn write_until_killed(&mut self) -> Result<i64> {
        let (client, connection) = connect(self.address, &self.login()).await?;
        client.batch_execute("CREATE DATABASE one; CREATE TABLE writes (n bigint PRIMARY KEY)").await?;
        let insert = client.prepare("INSERT INTO writes (tenant, n) VALUES ('one', $1)").await?;
        let (mut acknowledged, mut is_killed, began) = (0, false, Instant::now());
        loop {
            match client.execute(&insert, &[&acknowledged]).await {
                Ok(_) => acknowledged += 1,
                // The one that the kill has met.
                Err(_) if is_killed => break,
                Err(error) => return Err(error).context("the second server does not take a row"),
            }
            if !is_killed && (acknowledged >= ROWS_BEFORE_KILL || began.elapsed() > TIME_BEFORE_KILL) {
                self.send_kill()?;
                is_killed = true;
            }
        }
        drop(client);
        // It was lost, as it should.
        let _ = connection.await?;
        // Its folder is locked until it has ended.
        self.child.wait().await?;
        Ok(acknowledged)
    }

    /// SIGKILL without waiting, so that writes are under way when it comes.
    fn send_kill(&self) -> Result<()> {
        let pid = i32::try_from(self.pid).ok().and_then(rustix::process::Pid::from_raw).context("a process id")?;
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).context("cannot kill the second server")
    }

    async fn kill(&mut self) -> Result<ExitStatus> {
        self.child.start_kill()?;
        Ok(self.child.wait().await?)
    }
}
