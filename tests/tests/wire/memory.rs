//! A server with little memory and more data: it stays within what it was given, and a fixed overhead. `examples/memory.rs` is the same with
//! ten times the memory and more.

use super::command::Serving;
use anyhow::{Context, Result};
use keyspan_examples::memory::MemoryRun;

const PASSWORD: &str = "a password";
/// The least that `--memory` takes.
const MEMORY_MIB: u64 = 32;
/// What the process takes beside, without its program: threads, plans, and what the allocator has not given back.
const OVERHEAD_MIB: u64 = 96;
const DATA_MIB: u64 = 40;
/// Large, so that there are few rows: this is run without optimisation.
const TEXT_BYTES: usize = 4 << 10;

#[tokio::test(flavor = "multi_thread")]
async fn a_server_stays_within_its_memory() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let serving = Serving::start_with(folder.path(), Some(PASSWORD), |command| {
        command.args(["--memory", &format!("{MEMORY_MIB}MiB")]);
    })
    .await?;
    let process_id = serving.child.id().context("a process")?;
    let run = MemoryRun {
        operator: serving.config(PASSWORD),
        process_id,
        data_bytes: DATA_MIB << 20,
        text_bytes: TEXT_BYTES,
    };
    let steps = run.run(|_| ()).await?;
    for step in steps {
        assert!(step.own_peak_bytes >> 20 <= MEMORY_MIB + OVERHEAD_MIB, "{step}");
    }
    Ok(())
}
