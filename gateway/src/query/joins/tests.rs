//! Joins with less memory than their smaller side takes.

use super::super::testing::{parse, scarce, session, shown};
use crate::query::explain::{ExplainOptions, explain};
use arrow::array::{RecordBatch, StringViewArray};
use datafusion::prelude::SessionContext;
use futures::TryStreamExt;

/// Rows of each side of a join; a hash table of them takes more than [`MEMORY_BYTES`].
const ROWS: u32 = 200_000;
const MEMORY_BYTES: usize = 3 << 20;
/// As a server with little memory has them.
const BATCH_ROWS: usize = 1_024;
/// What a sort keeps aside.
const ASIDE_BYTES: usize = 64 << 10;

fn context(memory_bytes: Option<usize>) -> SessionContext {
    match memory_bytes {
        None => session(false),
        Some(memory_bytes) => scarce(memory_bytes, BATCH_ROWS, ASIDE_BYTES),
    }
}

fn sides(join: &str) -> String {
    format!(
        "(SELECT generate_series AS a FROM generate_series(1, {ROWS})) x {join} (SELECT generate_series * 2 AS b FROM generate_series(1, {ROWS})) y ON a = b"
    )
}

async fn explained(context: &SessionContext, sql: &str, analyze: bool) -> String {
    let plan = super::super::plan(context, parse(sql)).await.unwrap();
    let lines = explain(context, &plan, ExplainOptions { analyze, ..ExplainOptions::default() }).await.unwrap();
    let batches: Vec<RecordBatch> = lines.try_collect().await.unwrap();
    let lines = batches.iter().flat_map(|batch| {
        let column = batch.column(0).as_any().downcast_ref::<StringViewArray>().unwrap();
        column.iter().map(|line| line.unwrap().to_owned()).collect::<Vec<_>>()
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn a_join_without_memory_sorts_in_files() {
    let (much, little) = (context(None), context(Some(MEMORY_BYTES)));
    for join in ["JOIN", "FULL JOIN"] {
        let sql = format!("SELECT count(*), count(a), count(b), sum(a), sum(b) FROM {}", sides(join));
        let expected = shown(&much, &sql).await;
        assert!(expected.contains("100000"), "{expected}");
        assert_eq!(shown(&little, &sql).await, expected, "{sql}");
        let plan = explained(&little, &sql, true).await;
        assert!(plan.contains("SortMergeJoinExec") && !plan.contains("HashJoinExec"), "what ran: {plan}");
        let plan = explained(&much, &sql, true).await;
        assert!(plan.contains("HashJoinExec") && !plan.contains("SortMergeJoinExec"), "what ran: {plan}");
        // What would run is not known before.
        let plan = explained(&little, &sql, false).await;
        assert!(plan.contains("HashJoinExec") && plan.contains("Without memory for it: SortMergeJoinExec"), "{plan}");
    }
    // The rows themselves, not only how many.
    let sql = format!("SELECT a, b FROM {} ORDER BY a DESC LIMIT 5", sides("JOIN"));
    assert_eq!(shown(&little, &sql).await, shown(&much, &sql).await);
}

#[tokio::test]
async fn not_in_stays_a_hash_join() {
    let little = context(Some(MEMORY_BYTES));
    let sql = format!(
        "SELECT count(*) FROM (SELECT nullif(generate_series::bigint, 0) AS a FROM generate_series(1, {ROWS})) x WHERE a NOT IN \
         (SELECT nullif(generate_series::bigint, 0) FROM generate_series(1, {ROWS}))"
    );
    assert_eq!(shown(&little, &sql).await, "53200 out of memory for this query");
    assert!(!explained(&little, &sql, false).await.contains("SortMergeJoinExec"));
}
