//! Rules that mend faults of DataFusion 55.2. Each goes when the fault is gone upstream.
//!
//! | rule | symptom without it |
//! |---|---|
//! | [`canonical_comparisons`] | conditions are compared by how they are written; rows or conditions are dropped |
//! | [`distinct_on`] | `DISTINCT ON` with expressions of ORDER BY is refused or unsorted |
//! | [`filter_projection`] | a projection that is embedded in a filter or a join loses columns |
//! | [`grouping_set_order`] | keys' order is taken for that of groups whose keys are NULL (apache/datafusion#24421) |

pub(crate) mod canonical_comparisons;
pub mod distinct_on;
pub(crate) mod filter_projection;
pub(crate) mod grouping_set_order;
