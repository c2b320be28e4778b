//! The server under test: the main of `keyspan`, in this package, so that cargo tells its tests where it is. With its
//! allocator, too: tests ask what the server takes of memory.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    keyspan_cli::main()
}
