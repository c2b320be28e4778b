//! Rules that mend faults of DataFusion 55.2. A rule goes when its fault is gone upstream: take it out, and its test
//! still passes. (Tests: `.slt` files in `tests/tests/slt`, others in the gateway's `query`.)
//!
//! | rule | symptom without it | upstream | test |
//! |---|---|---|---|
//! | [`canonical_comparisons`] | equal conditions in two forms drop rows or each other | | `postgres/alike.slt` |
//! | [`distinct_on`] | subqueries among items of `DISTINCT ON` fail | | `postgres/questions.slt` |
//! | [`fetched_sorts`] | windows, filters, joins below ORDER BY … LIMIT see its rows alone | | `postgres/limits_above.slt` |
//! | [`filter_projection`] | wrong columns above a filter, or an internal error | | `order_and_limit.slt` |
//! | [`grouping_set_order`] | groups whose keys are NULL come unsorted | [24421] | `tests/grouping_sets.rs` |
//! | [`null_equal_joins`] | NULLs match in keys of `=`, or do not in `IS NOT DISTINCT FROM` beside it | | `postgres/distinct_from.slt` |
//! | [`single_distinct`] | `sum(a), count(DISTINCT b)` of integers is an internal error | | `aggregates.slt` |
//!
//! Mended elsewhere, since the faulty part is ours anyway, or the gateway alone has what is needed:
//!
//! | where | symptom without it | upstream | test |
//! |---|---|---|---|
//! | `aggregates/min_max.rs` | `min`, `max` of floats forget NaN, infinities | [24432] | `postgres/extremes.slt` |
//! | `plan/outer_names.rs`, `syntax/using_columns.rs` | an ambiguous name of a subquery is a column of the query around | | `postgres/outer_names.slt` |
//! | `query/unnest_keys.rs` | `unnest` keeps its input's key: ORDER BY loses columns | | `postgres/unnested.slt` |
//! | `query/state.rs`, spill files | a repartitioning by way of files waits for ever | [24883] | `state/tests.rs` |
//! | `query/state.rs`, file scans | file groups are cut by bytes once more, into empty streams | | |
//!
//! [24421]: https://github.com/apache/datafusion/issues/24421
//! [24432]: https://github.com/apache/datafusion/issues/24432
//! [24883]: https://github.com/apache/datafusion/issues/24883

pub mod canonical_comparisons;
pub mod distinct_on;
pub mod fetched_sorts;
pub mod filter_projection;
pub mod grouping_set_order;
pub mod null_equal_joins;
pub mod single_distinct;
