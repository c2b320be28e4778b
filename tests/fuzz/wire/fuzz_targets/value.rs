//! A value of a parameter.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| keyspan_wire::fuzz::value(bytes));
