//! The messages of a connection.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| keyspan_wire::fuzz::messages(bytes));
