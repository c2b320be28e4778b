//! The bytes of a connection from its beginning.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| keyspan_wire::fuzz::startup(bytes));
