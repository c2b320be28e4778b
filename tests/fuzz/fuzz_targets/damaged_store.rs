//! A store with damage in any of its files: log, manifest, segments, dead positions.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| keyspan_storage::testing::fuzz::damaged_store(bytes));
