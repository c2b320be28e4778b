//! What the configuration keeps from happening.

use super::state;
use crate::{
    pg::aggregates::is_aggregate,
    query::testing::{scarce, session, shown},
};
use datafusion::logical_expr::Volatility;

/// Little enough that partitions of a GROUP BY go by way of files.
const MEMORY_BYTES: usize = 5 << 20;
/// Small, so that many go that way.
const BATCH_ROWS: usize = 64;
/// What a sort keeps aside.
const ASIDE_BYTES: usize = 64 << 10;
/// Two writers do not meet every time.
const RUNS: usize = 6;

/// It stood still for ever: see `max_spill_file_size_bytes` in [`super::make`].
#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn a_group_by_that_goes_by_way_of_files_ends() {
    let sql = "SELECT g, count(DISTINCT t) FROM (\
               SELECT v % 13 AS g, CASE WHEN v % 29 <> 0 THEN md5((v % 337)::text) END AS t FROM (\
               SELECT generate_series AS v FROM generate_series(1, 20000) UNION ALL \
               SELECT generate_series FROM generate_series(20001, 40000)) AS x) AS y GROUP BY g ORDER BY g";
    let expected = shown(&session(false), sql).await;
    let mut answers = 0;
    for _ in 0..RUNS {
        let answer = shown(&scarce(MEMORY_BYTES, BATCH_ROWS, ASIDE_BYTES), sql).await;
        // Which of the partitions has the memory when another wants some is not the same in every run.
        if answer != "53200 out of memory for this query" {
            assert_eq!(answer, expected);
            answers += 1;
        }
    }
    assert!(answers > 0, "none of {RUNS} runs had enough memory");
}

#[test]
fn lists_of_names_are_those_of_the_functions() {
    let state = state();
    let names = |functions: Vec<&String>| functions.into_iter().cloned().collect::<std::collections::BTreeSet<_>>();
    let volatile = state.scalar_functions().iter();
    let volatile = volatile.filter(|(_, function)| function.signature().volatility == Volatility::Volatile);
    let listed = crate::pg::functions::VOLATILE.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(names(volatile.map(|(name, _)| name).collect()), listed);
    for name in state.aggregate_functions().keys() {
        assert!(is_aggregate(name), "{name}");
    }
    assert!(!is_aggregate("lower"));
}
