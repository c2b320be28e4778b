//! Rules that mend faults of DataFusion 55.2. Each goes when the fault is gone upstream.
//!
//! | rule | symptom without it |
//! |---|---|
//! | [`canonical_comparisons`] | conditions are compared by how they are written; rows or conditions are dropped |
//! | [`distinct_on`] | subqueries among the items of `DISTINCT ON` are not planned |
//! | [`filter_projection`] | a projection within a filter is swapped by wrong positions: an internal error or other columns' values |
//! | [`grouping_set_order`] | keys' order is taken for that of groups whose keys are NULL (apache/datafusion#24421) |

pub mod canonical_comparisons;
pub mod distinct_on;
pub mod filter_projection;
pub mod grouping_set_order;
