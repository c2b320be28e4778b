//! The server under test: the main of `keyspan`, in this package, so that cargo tells its tests where it is.

use std::process::ExitCode;

fn main() -> ExitCode {
    keyspan_gateway::cli::main()
}
