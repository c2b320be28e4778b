//! The text of statements.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| keyspan_sql::fuzz::sql(bytes));
