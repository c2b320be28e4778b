//! The footer of a segment, damaged.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| keyspan_storage::testing::fuzz::damaged_footer(bytes));
