//! What a fuzzer does with the text of statements; `tests/fuzz/wire` calls it, and so do tests with random fragments.

use crate::ast::Statement;

/// Splits and parses a text. It ends in time by its length, on the stack that threads of the server have, with
/// statements or an error.
pub fn sql(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let parsed = Statement::parse_in(text, "alto");
        drop(parsed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*, sample::select};

    /// Fragments that nest, chain or are read twice: what ended or froze the server is made of these.
    const FRAGMENTS: &[&str] = &[
        "SELECT ",
        "EXPLAIN ",
        "PREPARE a AS ",
        "(",
        ")",
        "[",
        "]",
        "ARRAY[",
        "ARRAY<",
        ">",
        "CASE ",
        "WHEN a THEN ",
        "ELSE ",
        " END",
        "CAST(",
        " AS int)",
        "::int",
        "INTERVAL ",
        "'1'",
        "NOT ",
        "- ",
        "1",
        "a",
        "a.",
        "abs(",
        ", ",
        " + ",
        " || ",
        " AND ",
        " OR ",
        " BETWEEN 1 AND 2",
        " IN (1, 2)",
        " IS NULL",
        " IS DISTINCT FROM ",
        " FROM ",
        "t",
        " JOIN t ON true ",
        " UNION ALL ",
        "WITH a AS (",
        " VALUES ",
        "(1, 'x')",
        "INSERT INTO t ",
        "UPDATE t SET a = ",
        "DELETE FROM t",
        " WHERE ",
        " ORDER BY ",
        " LIMIT ",
        ";",
        " FOR UPDATE",
        " FOR SYSTEM_TIME AS OF ",
        "x-not-",
        "if(current_time(",
        "EXISTS (",
        "$1",
        "\"é\"",
        "E'\\n'",
        "--",
        "/*",
        "*/",
        " OVER (",
        "ROW(",
        "CREATE VIEW v AS ",
        "DEFAULT ",
    ];

    fn text() -> impl Strategy<Value = String> {
        let run = (select(FRAGMENTS), prop_oneof![4 => Just(1_usize), 1 => 2..80_usize, 1 => 900..1_100_usize]);
        vec(run.prop_map(|(fragment, count)| fragment.repeat(count)), 1..24).prop_map(|runs| runs.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn fragments_end_with_statements_or_an_error(text in text()) {
            // With the stack that threads of the server have.
            let parse = move || sql(text.as_bytes());
            std::thread::Builder::new().stack_size(8 << 20).spawn(parse).unwrap().join().unwrap();
        }
    }
}
