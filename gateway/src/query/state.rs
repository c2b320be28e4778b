//! What all statements share of DataFusion: functions, planners, rules, configuration.
//! Memory and temporary files are not among it: they are a server's [`Resources`](crate::resources::Resources).

use super::cell_time::{self, CellTimes};
use crate::{
    pg::{
        aggregates,
        exec::{cancellable_joins, run_aggregate},
        functions,
        plan::{
            apply, checked, comparable, documents, json_paths, literals, numbers, operators::Operators, order_keys,
            regexps, type_planner::Types, whole_rows, with_ties,
        },
        types,
        workarounds::{
            aggregate_orders, aggregate_statistics::AggregateStatistics, barriers,
            canonical_comparisons::CanonicalComparisons, constant_filters, constant_keys, dependencies, dynamic_lists,
            filter_projection, missing_sorts, null_equal_joins, single_distinct::SingleDistinct,
        },
    },
    provider::{NarrowMaps, columnar::MetadataAggregates, loose_scan::LooseScans},
    resources::{BATCH_ROWS, STREAMS},
};
use datafusion::{
    catalog::MemoryCatalogProviderList,
    common::config::ConfigNonZeroUsize,
    execution::{FunctionRegistry, SessionState, SessionStateBuilder},
    optimizer::{
        Analyzer, AnalyzerRule, Optimizer, OptimizerRule, eliminate_cross_join::EliminateCrossJoin,
        push_down_filter::PushDownFilter,
    },
    physical_optimizer::{
        PhysicalOptimizerRule, ensure_requirements::EnsureRequirements, optimizer::PhysicalOptimizer,
        projection_pushdown::ProjectionPushdown, pushdown_sort::PushdownSort, sanity_checker::SanityCheckPlan,
    },
    prelude::SessionConfig,
};
use std::sync::{Arc, LazyLock};

/// Bytes that a sorted stream runs ahead of the merge that reads it. DataFusion's own bound is a gibibyte, and a query
/// whose rows a client takes slowly would fill the memory of all queries, and fail.
pub const AHEAD_BYTES: usize = 1 << 20;

/// Functions of DataFusion that are not registered. `date_format` shares a name with one that clients know and does
/// something else: it takes strftime's patterns, and gives others back as they are; no answer is better than a wrong
/// one. `input_file_name` and `file_row_index` would name the store's files, and tell how many rows of other tenants
/// lie before a row in one.
const NOT_POSTGRES: [&str; 3] = ["date_format", "input_file_name", "file_row_index"];

/// The state that every statement's session starts from.
pub fn state() -> &'static SessionState {
    static STATE: LazyLock<SessionState> = LazyLock::new(make);
    &STATE
}

fn make() -> SessionState {
    let mut config = SessionConfig::new()
        .with_target_partitions(STREAMS)
        .with_batch_size(BATCH_ROWS)
        .with_create_default_catalog_and_schema(false)
        .with_information_schema(false)
        .with_default_catalog_and_schema("", crate::pg::names::PATH);
    let options = config.options_mut();
    options.sql_parser.dialect = datafusion::config::Dialect::PostgreSQL;
    options.sql_parser.enable_ident_normalization = true;
    options.sql_parser.parse_float_as_decimal = true;
    // `plan::subquery_order` does it, and knows what the order of a subquery's rows is asked for.
    options.sql_parser.enable_subquery_sort_elimination = false;
    options.execution.sort_pushdown_buffer_capacity = AHEAD_BYTES;
    // Of a cast to a named type, and of `IS NOT TRUE`, a logical plan knows that they are never NULL, and a physical one
    // does not: 55.2 would end each statement that aggregates such a column (`SELECT DISTINCT id::text`).
    options.execution.skip_physical_aggregate_schema_check = true;
    // What a scan says of its rows is an estimate, and enough to see that a few of them need not be dealt out to all
    // cores.
    options.execution.use_row_number_estimates_to_optimize_partitioning = true;
    // As bounds of `min(a), max(b)` 55.2 takes those that there are: where `a` has one, and `b`, NULL so far, has none,
    // no row with a value of `b` is read any more.
    options.optimizer.enable_aggregate_dynamic_filter_pushdown = false;
    // Scans of files are dealt out by their row groups and rows (`provider/columnar/file_groups.rs`). By bytes, as
    // DataFusion would cut them once more, a scan of one row group of a file of ten megabytes has two partitions, one
    // of which is empty.
    options.optimizer.repartition_file_scans = false;
    // A file for each batch that is repartitioned by way of a file: with several batches in a file two writers may have
    // two files open, of which the reader waits for the one, and finds in the other what it needs, never
    // (apache/datafusion#24883, of 55.2).
    options.execution.max_spill_file_size_bytes = ConfigNonZeroUsize::try_new(1).expect("one is not zero");
    options.execution.time_zone = Some(types::UTC.to_owned());
    let mut analyzer: Vec<Arc<dyn AnalyzerRule + Send + Sync>> = vec![
        Arc::new(CellTimes),
        Arc::new(crate::pg::workarounds::distinct_on::DistinctOn),
        Arc::new(crate::pg::plan::lateral::Lateral),
        Arc::new(with_ties::WithTies),
        Arc::new(whole_rows::WholeRows),
        Arc::new(crate::pg::plan::enums::Enums),
        comparable::comparable(),
        crate::pg::plan::common_times::common_times(),
        literals::untyped(),
        numbers::numbers(),
    ];
    analyzer.extend(Analyzer::new().rules);
    analyzer.push(crate::pg::plan::zoned::zoned());
    analyzer.push(checked::checked());
    analyzer.push(Arc::new(order_keys::OrderKeys));
    analyzer.push(Arc::new(CanonicalComparisons));
    analyzer.push(dynamic_lists::dynamic_lists());
    analyzer.push(crate::pg::plan::missing_rows::missing_rows());
    analyzer.push(Arc::new(apply::Correlated::default()));
    let mut logical: Vec<Arc<dyn OptimizerRule + Send + Sync>> = Vec::new();
    for rule in Optimizer::new().rules {
        logical.extend(dependencies::before(rule.as_ref()));
        if rule.name() == EliminateCrossJoin::new().name() {
            logical.push(null_equal_joins::as_filters());
        }
        if rule.name() == PushDownFilter::new().name() {
            logical.push(Arc::new(crate::pg::plan::whole_days::WholeDays));
            logical.push(dynamic_lists::simplified_lists());
            logical.push(Arc::new(CanonicalComparisons));
            logical.extend(constant_filters::guarded(rule));
            continue;
        }
        if rule.name() == SingleDistinct::default().name() {
            logical.push(Arc::new(SingleDistinct::default()));
            continue;
        }
        logical.push(rule);
    }
    logical.push(constant_keys::constant_keys());
    logical.push(aggregate_orders::aggregate_orders());
    logical.push(Arc::new(null_equal_joins::ByKeys::default()));
    logical.push(Arc::new(crate::pg::plan::having_first::HavingFirst));
    logical.push(Arc::new(NarrowMaps));
    let mut physical: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> =
        vec![Arc::new(LooseScans::default()), Arc::new(MetadataAggregates)];
    for rule in PhysicalOptimizer::new().rules {
        if rule.name() == EnsureRequirements::new().name() {
            physical.push(Arc::new(crate::pg::workarounds::fetched_sorts::FetchedSorts));
        }
        if rule.name() == ProjectionPushdown::new().name() {
            physical.push(Arc::new(filter_projection::FilterProjection));
        }
        if rule.name() == PushdownSort::new().name() {
            physical.push(Arc::new(crate::provider::FirstRows));
        }
        if rule.name() == AggregateStatistics.name() {
            physical.push(Arc::new(AggregateStatistics));
            continue;
        }
        if rule.name() == SanityCheckPlan::new().name() {
            physical.push(Arc::new(missing_sorts::MissingSorts));
        }
        physical.extend(barriers::barred(rule));
    }
    physical.push(Arc::new(crate::pg::workarounds::distinct_limits::DistinctLimits));
    physical.push(Arc::new(run_aggregate::RunAggregates::default()));
    physical.push(Arc::new(cancellable_joins::CancellableJoins));
    physical.push(Arc::new(crate::pg::exec::few_rows::FewRows));
    let mut state = SessionStateBuilder::new_with_default_features()
        .with_config(config)
        .with_catalog_list(Arc::new(MemoryCatalogProviderList::new()))
        .with_type_planner(Arc::new(Types))
        .with_analyzer_rules(analyzer)
        .with_optimizer_rules(logical)
        .with_physical_optimizer_rules(physical)
        .with_query_planner(Arc::new(crate::pg::exec::apply::Planner))
        .build();
    state.register_relation_planner(Arc::new(dependencies::Relations)).expect("a state takes any planner");
    for name in NOT_POSTGRES {
        state.deregister_udf(name).expect("the state's own functions can be taken away");
    }
    functions::register(&mut state);
    let of_rules = whole_rows::functions()
        .chain(with_ties::function())
        .chain(std::iter::once(crate::pg::plan::cast_names::function()))
        .chain(regexps::functions())
        .chain(json_paths::functions())
        .chain(documents::functions())
        .chain(crate::pg::plan::enums::functions());
    functions::replace(&mut state, of_rules);
    crate::pg_catalog::functions::register(&mut state);
    aggregates::register(&mut state);
    crate::pg::windows::register(&mut state);
    state.register_udf(Arc::new(cell_time::function())).expect("a state takes any function");
    SessionStateBuilder::new_from_existing(state.clone())
        .with_expr_planners(std::iter::once(Arc::new(Operators) as _).chain(state.expr_planners().to_vec()).collect())
        .build()
}

#[cfg(test)]
mod tests;
