//! The cells of a row, as the log and segments hold them.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| keyspan_storage::testing::fuzz::row(bytes));
