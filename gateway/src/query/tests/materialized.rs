//! Queries of WITH that are computed once, with memory for their rows and without.

use crate::query::testing::{scarce, session, shown};

/// Rows of a query; they take more than what is kept of [`MEMORY_BYTES`].
const ROWS: u32 = 200_000;
const MEMORY_BYTES: usize = 6 << 20;

fn contexts() -> [datafusion::prelude::SessionContext; 2] {
    [session(false), scarce(MEMORY_BYTES, 1_024, 64 << 10)]
}

#[tokio::test]
async fn a_volatile_query_has_the_same_rows_wherever_its_name_stands() {
    let rows = format!("SELECT generate_series AS i, random() AS r FROM generate_series(1, {ROWS})");
    for context in contexts() {
        for (sql, expected) in [
            (format!("WITH x AS ({rows}) SELECT count(*) FROM x a JOIN x b ON a.i = b.i AND a.r = b.r"), ROWS),
            (format!("WITH x AS ({rows}) SELECT count(*) FROM (SELECT * FROM x UNION SELECT * FROM x) u"), ROWS),
            // The first of them ends before all rows are read.
            (format!("WITH x AS ({rows}) SELECT count(*) FROM (SELECT * FROM x LIMIT 5) a JOIN x b ON a.r = b.r AND a.i = b.i"), 5),
            // What another computes of it.
            (
                format!(
                    "WITH x AS ({rows}), y AS MATERIALIZED (SELECT i + 1 AS i, r FROM x)
                    SELECT count(*) FROM x JOIN y ON x.i + 1 = y.i AND x.r = y.r WHERE (SELECT max(r) FROM y) = (SELECT max(r) FROM x)"
                ),
                ROWS,
            ),
            (
                format!(
                    "WITH x AS (SELECT i, r FROM ({rows}) s WHERE i < 9)
                    SELECT count(*) FROM x WHERE r = (SELECT max(z.r) FROM x z WHERE z.i = x.i)"
                ),
                8,
            ),
            (
                format!(
                    "WITH x AS (SELECT i, r FROM ({rows}) s WHERE i < 9)
                    SELECT count(*) FROM x, LATERAL (SELECT r FROM x z WHERE z.i <= x.i ORDER BY z.i DESC LIMIT 1) l WHERE l.r = x.r"
                ),
                8,
            ),
        ] {
            assert_eq!(shown(&context, &sql).await, format!("count:int8\n{expected}"), "{sql}");
        }
    }
}

#[tokio::test]
async fn what_fails_in_it_fails_for_all() {
    for context in contexts() {
        let sql = "WITH x AS (SELECT 1 / (3 - generate_series) AS i, random() FROM generate_series(1, 5))
            SELECT count(*) FROM x a, x b";
        assert_eq!(shown(&context, sql).await, "22012 division by zero");
    }
}
