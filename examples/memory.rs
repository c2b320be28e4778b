//! Ten times its memory through a server: starts `keyspan serve --memory …` on a temporary store, loads, reads, sorts, groups, joins and
//! exports, and tells what the process took.
//!
//! ```console
//! cargo build --release
//! cargo run --release -p keyspan-examples --example memory -- target/release/keyspan 64MiB 10
//! ```

use anyhow::{Context, Result};
use keyspan_examples::memory::MemoryRun;
use keyspan_gateway::resources::Size;
use std::{
    env,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};
use tokio_postgres::Config;

const PASSWORD: &str = "only for this example";

/// A server that ends with the program.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = env::args().skip(1);
    let program = arguments.next().context("first say which program")?;
    let memory: Size = arguments.next().unwrap_or_else(|| "64MiB".into()).parse().map_err(anyhow::Error::msg)?;
    let times: u64 = arguments.next().unwrap_or_else(|| "10".into()).parse()?;

    let folder = tempfile::tempdir()?;
    let mut command = Command::new(program);
    command.args(["serve", "--listen", "127.0.0.1:0", "--memory", &memory.to_string(), "--store"]).arg(folder.path());
    let mut server = Server(command.env("KEYSPAN_PASSWORD", PASSWORD).stdout(Stdio::piped()).spawn()?);
    let stdout = server.0.stdout.take().context("its output")?;
    let line = BufReader::new(stdout).lines().next().context("the server ended")??;
    let address: std::net::SocketAddr = line.strip_prefix("listening on ").context("no address")?.parse()?;

    let mut operator = Config::new();
    operator.host(address.ip().to_string()).port(address.port());
    operator.user("keyspan").password(PASSWORD).dbname("keyspan");
    let run = MemoryRun { operator, process_id: server.0.id(), data_bytes: memory.0 * times, text_bytes: 1 << 10 };
    println!("{} of memory, {} of data", memory, Size(run.data_bytes));
    run.run(|step| println!("{step}")).await?;
    Ok(())
}
