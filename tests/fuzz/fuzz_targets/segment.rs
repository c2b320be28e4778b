//! The own parts of a segment's tail, behind a right checksum.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| keyspan_storage::testing::fuzz::segment(bytes));
