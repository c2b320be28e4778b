//! TODO header pg::workarounds

pub(crate) mod canonical_comparisons;
pub mod distinct_on;
pub(crate) mod filter_projection;
pub(crate) mod grouping_set_order;
