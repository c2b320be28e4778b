//! Physical operators that DataFusion lacks, and the boilerplate of execution plans ([`node`]).

pub(crate) mod apply;
pub(crate) mod apply_value;
pub(crate) mod cancellable_joins;
pub(crate) mod materialized;
pub(crate) mod node;
pub(crate) mod run_aggregate;
