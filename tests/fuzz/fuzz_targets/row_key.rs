//! A row key and its ranges.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| keyspan_storage::testing::fuzz::row_key(bytes));
