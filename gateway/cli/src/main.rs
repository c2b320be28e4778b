//! The program `keyspan`: [`keyspan_cli`] with a faster allocator.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    keyspan_cli::main()
}
