//! What all statements share of DataFusion: functions, planners, rules, configuration, and the memory that queries may take.

use super::{aggregates, functions, operators::Operators, semantics, type_planner::Types};
use crate::types;
use datafusion::{
    catalog::MemoryCatalogProviderList,
    execution::{
        FunctionRegistry, SessionState, SessionStateBuilder,
        disk_manager::{DiskManagerBuilder, DiskManagerMode},
        memory_pool::FairSpillPool,
        runtime_env::{RuntimeEnv, RuntimeEnvBuilder},
    },
    prelude::SessionConfig,
};
use std::sync::{Arc, LazyLock};

/// The memory that the running queries of a server may take for sorting, joining and grouping, in bytes.
pub const QUERY_MEMORY_BYTES: usize = 1 << 30;
/// What they may spill to temporary files beyond it, in bytes.
pub const SPILL_BYTES: u64 = 16 << 30;
/// Rows in a batch.
pub const BATCH_ROWS: usize = 8192;
/// Streams in which a query runs at most.
pub const PARTITIONS: usize = 2;

/// Functions of DataFusion that share a name with one of PostgreSQL's and do something else: no answer is better than a wrong one.
/// `to_char` takes strftime's patterns and gives PostgreSQL's back as they are.
const NOT_POSTGRES: [&str; 2] = ["to_char", "date_format"];

/// The state that every statement's session starts from.
pub fn state() -> &'static SessionState {
    static STATE: LazyLock<SessionState> = LazyLock::new(make);
    &STATE
}

fn make() -> SessionState {
    let mut config = SessionConfig::new()
        .with_target_partitions(PARTITIONS)
        .with_batch_size(BATCH_ROWS)
        .with_create_default_catalog_and_schema(false)
        .with_information_schema(false)
        .with_default_catalog_and_schema("", super::tables::PUBLIC);
    let options = config.options_mut();
    options.sql_parser.dialect = datafusion::config::Dialect::PostgreSQL;
    options.sql_parser.enable_ident_normalization = true;
    options.execution.time_zone = Some(types::UTC.to_owned());
    let mut analyzer = vec![semantics::untyped()];
    analyzer.extend(datafusion::optimizer::Analyzer::new().rules);
    analyzer.push(semantics::checked());
    let mut state = SessionStateBuilder::new_with_default_features()
        .with_config(config)
        .with_catalog_list(Arc::new(MemoryCatalogProviderList::new()))
        .with_runtime_env(runtime())
        .with_type_planner(Arc::new(Types))
        .with_analyzer_rules(analyzer)
        .build();
    for name in NOT_POSTGRES {
        state.deregister_udf(name).expect("the state's own functions can be taken away");
    }
    functions::register(&mut state);
    crate::pg_catalog::functions::register(&mut state);
    aggregates::register(&mut state);
    SessionStateBuilder::new_from_existing(state.clone())
        .with_expr_planners(std::iter::once(Arc::new(Operators) as _).chain(state.expr_planners().to_vec()).collect())
        .build()
}

fn runtime() -> Arc<RuntimeEnv> {
    let disk = DiskManagerBuilder::default()
        .with_mode(DiskManagerMode::OsTmpDirectory)
        .with_max_temp_directory_size(SPILL_BYTES);
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(FairSpillPool::new(QUERY_MEMORY_BYTES)))
        .with_disk_manager_builder(disk)
        .build();
    Arc::new(runtime.expect("a runtime without a cache or files of its own can be made"))
}
