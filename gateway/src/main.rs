//! The program `keyspan`: [`keyspan_gateway::cli`] with a faster allocator.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    keyspan_gateway::cli::main()
}
