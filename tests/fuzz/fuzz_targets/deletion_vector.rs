//! Dead positions of a segment, with and without a right checksum.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| keyspan_storage::testing::fuzz::deletion_vector(bytes));
