//! What comes of runs is what DataFusion's own aggregation says of the same rows.

use crate::{
    pg::{
        exec::run_aggregate::{RunAggregateExec, RunAggregates, RunLimits},
        fields::schema,
    },
    query::{
        contexts::context,
        plan,
        schemas::Rows,
        testing::{parse, shown, statement_context},
    },
};
use arrow::{
    array::{
        ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringViewArray, TimestampMicrosecondArray,
        new_null_array,
    },
    compute::concat_batches,
};
use datafusion::{
    datasource::MemTable,
    execution::{
        SessionStateBuilder, TaskContext,
        memory_pool::{GreedyMemoryPool, MemoryPool},
        runtime_env::RuntimeEnvBuilder,
    },
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{ExecutionPlan, collect, displayable},
    prelude::SessionContext,
};
use futures::StreamExt;
use proptest::{collection::vec, prelude::*};
use std::sync::Arc;

/// Rows of `flights`: origin and dest, the minute of `at`, `flight`, `delay`, `n`; in partitions, in batches.
type Flights = Vec<Vec<Vec<(Option<u8>, u8, i64, Option<i32>)>>>;

/// Whole numbers, whose sums are exact in any order, and what is no number.
fn delay(n: i32) -> f64 {
    match n {
        6 => f64::NAN,
        7 => f64::INFINITY,
        8 => f64::NEG_INFINITY,
        n => f64::from(n) - 2.0,
    }
}

fn tables(partitions: Flights) -> Rows {
    Rows(Arc::new(move |table, _| {
        let fields = table.columns.iter().map(|column| crate::pg::types::field_of(&column.name, column.kind, true));
        let schema = schema(fields.collect());
        let batch = |rows: &Vec<(Option<u8>, u8, i64, Option<i32>)>| {
            let columns = schema.fields().iter().map(|field| -> ArrayRef {
                match field.name().as_str() {
                    "origin" => {
                        let text = |row: &(Option<u8>, u8, i64, Option<i32>)| {
                            row.0.map(|at| format!("an airport with a long name: {at}"))
                        };
                        Arc::new(rows.iter().map(text).collect::<StringViewArray>())
                    }
                    "dest" => Arc::new(rows.iter().map(|row| Some(format!("{}", row.1))).collect::<StringViewArray>()),
                    "at" => Arc::new(
                        rows.iter()
                            .map(|row| Some(row.2 * 60_000_000))
                            .collect::<TimestampMicrosecondArray>()
                            .with_timezone(crate::pg::types::UTC),
                    ),
                    "flight" => Arc::new(rows.iter().map(|row| row.3).collect::<Int32Array>()),
                    "delay" => Arc::new(rows.iter().map(|row| row.3.map(delay)).collect::<Float64Array>()),
                    "n" => Arc::new(rows.iter().map(|row| row.3.map(i64::from)).collect::<Int64Array>()),
                    _ => new_null_array(field.data_type(), rows.len()),
                }
            });
            RecordBatch::try_new(schema.clone(), columns.collect()).unwrap()
        };
        let batches = partitions.iter().map(|batches| batches.iter().map(batch).collect()).collect();
        Ok(Arc::new(MemTable::try_new(Arc::clone(&schema), batches)?))
    }))
}

/// The same rows, with the rule and without.
fn both(partitions: &Flights) -> [SessionContext; 2] {
    let state = || context(Arc::new(statement_context(false)), tables(partitions.clone())).state();
    let ours = RunAggregates { limits: RunLimits { window_rows: 64, runs_max: 16 } };
    let ours: Arc<dyn PhysicalOptimizerRule + Send + Sync> = Arc::new(ours);
    let rules = state().physical_optimizers().to_vec();
    let with = rules.iter().map(|rule| if rule.name() == ours.name() { &ours } else { rule }).cloned().collect();
    let without = rules.iter().filter(|rule| rule.name() != ours.name()).cloned().collect();
    [with, without].map(|rules| {
        let builder = SessionStateBuilder::new_from_existing(state());
        SessionContext::new_with_state(builder.with_physical_optimizer_rules(rules).build())
    })
}

async fn physical(context: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
    let logical = plan(context, parse(sql)).await.unwrap();
    context.state().create_physical_plan(&logical).await.unwrap()
}

fn node_of(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    if plan.is::<RunAggregateExec>() {
        return Some(Arc::clone(plan));
    }
    plan.children().into_iter().find_map(node_of)
}

/// Rows and states that the node gave, and how many of its partitions went on with hashes.
async fn counted(context: &SessionContext, sql: &str) -> (usize, usize, usize) {
    let plan = physical(context, sql).await;
    let batches = collect(Arc::clone(&plan), context.task_ctx()).await.unwrap();
    let rows = concat_batches(&plan.schema(), &batches).unwrap().num_rows();
    let metrics = node_of(&plan).expect("a node").metrics().unwrap();
    let hashed = metrics.sum_by_name("hashed_partitions").map_or(0, |value| value.as_usize());
    (rows, metrics.output_rows().unwrap(), hashed)
}

fn sorted(answer: &str) -> Vec<&str> {
    let mut lines: Vec<_> = answer.lines().collect();
    lines[1..].sort_unstable();
    lines
}

const QUERIES: [&str; 9] = [
    "SELECT origin, dest, count(*), count(n), sum(n), min(n), max(n), avg(n) FROM flights GROUP BY origin, dest",
    "SELECT origin, sum(delay), avg(delay), min(delay), max(dest), sum(flight) FROM flights GROUP BY origin",
    "SELECT dest, count(delay), max(delay), sum(delay) FILTER (WHERE n < 6), min(delay) FILTER (WHERE n > 2), avg(n::real) FROM flights GROUP BY dest",
    "SELECT date_trunc('hour', at) AS hour, dest, count(*) FILTER (WHERE n > 3), avg(flight) FROM flights GROUP BY 1, 2",
    "SELECT date_trunc('hour', at) AS hour, max(origin), min(at), sum(n * 2) FROM flights GROUP BY hour",
    "SELECT DISTINCT origin, n FROM flights",
    "SELECT n % 2 AS odd, dest || 'x' AS d, count(*) FROM flights WHERE n IS NOT NULL AND n <> 5 GROUP BY 1, 2",
    "SELECT origin, count(DISTINCT n), count(*) FROM flights GROUP BY origin",
    "SELECT origin, dest, count(*) FROM flights WHERE n > 1000 GROUP BY origin, dest HAVING count(*) > 1",
];

/// So many rows of a group, one after the other.
fn run() -> impl Strategy<Value = Vec<(Option<u8>, u8, i64, Option<i32>)>> {
    let values = |longest: usize| vec(proptest::option::weighted(0.8, 0..9i32), 1..longest);
    let row = (proptest::option::weighted(0.8, 0..3u8), 0..3u8, 0..200i64, prop_oneof![values(3), values(30)]);
    row.prop_map(|(origin, dest, minute, values)| values.into_iter().map(|n| (origin, dest, minute, n)).collect())
}

fn flights() -> impl Strategy<Value = Flights> {
    let batch = vec(run(), 0..12).prop_map(|runs| runs.concat());
    vec(vec(batch, 0..6), 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn runs_give_what_hashes_give(partitions in flights()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let [with, without] = both(&partitions);
            for sql in QUERIES {
                let (found, expected) = (shown(&with, sql).await, shown(&without, sql).await);
                assert_eq!(sorted(&found), sorted(&expected), "{sql}");
            }
        });
    }
}

fn rows_of(groups: i64, rows: usize) -> Vec<(Option<u8>, u8, i64, Option<i32>)> {
    (0..groups).flat_map(|group| vec![(Some(group as u8), 1, group, Some(7)); rows]).collect()
}

const BY_ORIGIN: &str = "SELECT origin, count(*) FROM flights GROUP BY origin";

#[tokio::test]
async fn a_run_is_one_state_and_short_runs_are_hashed() {
    // Two partitions, of which the second goes on with a batch of the same group: another run.
    let long = vec![vec![rows_of(5, 40)], vec![rows_of(2, 50), vec![(Some(1), 1, 1, None); 8]]];
    let [with, without] = both(&long);
    assert_eq!(counted(&with, BY_ORIGIN).await, (5, 5 + 3, 0));
    assert!(node_of(&physical(&without, BY_ORIGIN).await).is_none());
    // In a window of short runs the rest is hashed: of 20 groups in turn, a state for each row of the first batch, and
    // for each group of the rest.
    let turns = |times| (0..times).flat_map(|_| rows_of(20, 1)).collect::<Vec<_>>();
    let short = vec![vec![turns(4), turns(4), turns(10)], vec![rows_of(20, 10)]];
    let [with, _] = both(&short);
    assert_eq!(counted(&with, BY_ORIGIN).await, (20, 80 + 20 + 20, 1));
    // Long ones first: the window that ends is looked at alone.
    let later = vec![vec![rows_of(8, 100), turns(4), turns(10)], vec![]];
    let [with, _] = both(&later);
    assert_eq!(counted(&with, BY_ORIGIN).await, (20, 8 + 80 + 20, 1));
}

#[tokio::test]
async fn aggregations_of_another_kind_stay_as_they_are() {
    let [with, _] = both(&vec![vec![rows_of(3, 3)], vec![rows_of(3, 3)]]);
    for sql in [
        "SELECT count(*) FROM flights",
        "SELECT origin, array_agg(n) FROM flights GROUP BY origin",
        "SELECT origin, string_agg(dest, ',') FROM flights GROUP BY origin",
        "SELECT origin, dest, count(*) FROM flights GROUP BY ROLLUP (origin, dest)",
    ] {
        let plan = physical(&with, sql).await;
        assert!(node_of(&plan).is_none(), "{sql}: {}", displayable(plan.as_ref()).indent(false));
    }
    let plan = physical(&with, BY_ORIGIN).await;
    let shown = displayable(plan.as_ref()).indent(false).to_string();
    assert!(shown.contains("AdjacentAggregateExec: mode=Partial, gby=[origin@0 as origin], aggr=[count"), "{shown}");
}

#[tokio::test]
async fn what_is_gathered_is_bounded() {
    let runs = rows_of(100, 10);
    let few = rows_of(10, 10);
    let [with, _] = both(&vec![vec![few.clone(), runs.clone(), runs, few], vec![]]);
    let plan = physical(&with, "SELECT origin, min(origin), count(*) FROM flights GROUP BY origin").await;
    let node = node_of(&plan).unwrap();
    // A pool of its own: other tests run beside this one.
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1 << 20));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::clone(&pool)).build_arc().unwrap();
    let context = Arc::new(TaskContext::default().with_runtime(runtime));
    let mut states = node.execute(0, context).unwrap();
    let mut sizes = Vec::new();
    while let Some(batch) = states.next().await {
        sizes.push(batch.unwrap().num_rows());
        assert_eq!(pool.reserved(), 0, "states that were given are not held");
    }
    // The first batch has few runs, which wait for others; the next two have more than are gathered.
    assert_eq!(sizes, [110, 100, 10]);
}
