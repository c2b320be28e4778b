//! A server of this program, on a store of its own, that ends with the run.

use anyhow::{Context, Result};
use keyspan_gateway::resources::Size;
use rand::distr::{Alphanumeric, SampleString};
use std::{
    env, fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
};
use tokio_postgres::{Client, Config, NoTls};

/// Letters of the operator's password, which only this process knows: the server listens on the loopback and ends with
/// the run.
const PASSWORD_LENGTH: usize = 24;

/// A server that ends with the run.
pub(super) struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Server {
    /// Starts this program as a server on a store in `folder`; returns how the operator connects, too.
    pub(super) fn start(memory: Size, folder: &Path) -> Result<(Self, Config)> {
        Self::start_with(memory, folder, &[])
    }

    /// [`Self::start`] with more command-line options.
    pub(super) fn start_with(memory: Size, folder: &Path, more: &[&str]) -> Result<(Self, Config)> {
        let password = Alphanumeric.sample_string(&mut rand::rng(), PASSWORD_LENGTH);
        let mut command = Command::new(env::current_exe().context("cannot find this program")?);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--memory", &memory.to_string(), "--store"])
            .arg(folder)
            .args(more);
        command.env("KEYSPAN_PASSWORD", &password).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut server = Self(command.spawn().context("cannot start the server")?);
        let stdout = server.0.stdout.take().context("its output")?;
        let line = BufReader::new(stdout).lines().next().context("the server ended")??;
        let address: SocketAddr = line.strip_prefix("listening on ").context("no address")?.parse()?;
        let mut operator = Config::new();
        operator.host(address.ip().to_string()).port(address.port());
        operator.user("keyspan").password(password).dbname("keyspan");
        Ok((server, operator))
    }

    /// Kills the server and starts it again on the same store; returns how the operator connects.
    pub(super) fn restart(&mut self, memory: Size, folder: &Path) -> Result<Config> {
        // Two servers cannot share a store.
        self.0.kill()?;
        self.0.wait()?;
        let (server, operator) = Self::start(memory, folder)?;
        *self = server;
        Ok(operator)
    }

    /// A line of the process's status, in bytes.
    pub(super) fn memory(&self, line: &str) -> Result<u64> {
        memory(self.process_id(), line)
    }

    /// The id of the server's process.
    pub(super) fn process_id(&self) -> u32 {
        self.0.id()
    }
}

/// A line of a process's status, in bytes: `RssAnon:` and the like.
pub(super) fn memory(process_id: u32, line: &str) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process_id}/status")).context("the server ended")?;
    let found = status.lines().find_map(|text| text.strip_prefix(line)).context("the kernel does not tell")?;
    let kib: u64 = found.split_whitespace().next().context("no number")?.parse()?;
    Ok(kib << 10)
}

/// A connection, served in the background.
pub(super) async fn connect(config: &Config) -> Result<Client> {
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}
