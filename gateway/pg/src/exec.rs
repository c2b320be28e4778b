//! Physical operators that DataFusion lacks, and the boilerplate of execution plans ([`node`]).

pub mod apply;
pub mod apply_value;
pub mod cancellable_joins;
pub mod compact;
pub mod few_rows;
pub mod materialized;
pub mod node;
pub mod run_aggregate;
