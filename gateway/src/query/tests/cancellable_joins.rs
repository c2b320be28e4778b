//! Joins end when nobody waits for their rows.

use crate::query::{
    plan, runtime,
    testing::{parse, scarce},
};
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;
use std::time::Duration;

/// Far more than a query needs to give way.
const PATIENCE: Duration = Duration::from_secs(120);

/// The scan that is read last.
fn last_scan(node: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    node.children().last().map_or_else(|| Arc::clone(node), |child| last_scan(child))
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let wait = async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("{what}"));
}

#[tokio::test]
async fn a_query_that_nobody_waits_for_ends() {
    for sql in [
        "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b WHERE a.a * b.b = -1",
        "SELECT sum(a.a + b.b) FROM generate_series(1, 100000) a, generate_series(1, 100000) b",
        "SELECT count(*) FROM generate_series(1, 100000) a JOIN generate_series(1, 100000) b ON a.a % 2 = b.b % 2 AND a.a * b.b = -1",
        "SELECT count(*) FROM generate_series(1, 100000) a JOIN generate_series(1, 100000) b ON a.a % 2 = b.b % 2",
    ] {
        let context = scarce(1 << 30, 8_192, 64 << 10);
        let logical = plan(&context, parse(sql)).await.unwrap();
        let physical = context.state().create_physical_plan(&logical).await.unwrap();
        let (scan, pool) = (last_scan(&physical), context.runtime_env().memory_pool.clone());
        let rows = runtime::run(physical, context.task_ctx()).unwrap();
        // The side that is held is in memory, and the other is being read.
        until("it begins", || scan.metrics().and_then(|metrics| metrics.output_rows()).unwrap_or(0) > 0).await;
        assert!(pool.reserved() > 0, "{sql}");
        drop(rows);
        until(sql, || pool.reserved() == 0).await;
    }
}
