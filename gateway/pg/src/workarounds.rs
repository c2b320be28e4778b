//! Rules that mend faults of DataFusion 55.2. A rule goes when its fault is gone upstream: take it out, and its test
//! still passes. (Tests: `.slt` files in `tests/tests/slt`, others in the gateway's `query`.)
//!
//! | rule | symptom without it | upstream | test |
//! |---|---|---|---|
//! | [`aggregate_orders`] | `DISTINCT ON` and `first_value` that order by one value twice end by an assertion | | `postgres/casts_beside.slt` |
//! | [`aggregate_statistics`] | an aggregation with FILTER of one of all rows fails | | `aggregates.slt` |
//! | [`barriers`] | a filter above a join of two columns of one name asks the wrong one | [21246] | `postgres/names_twice.slt` |
//! | [`barriers`] | merge joins compare wrong columns | [24414] | `tests/merge_joins.rs` |
//! | [`canonical_comparisons`] | equal conditions in two forms drop rows or each other | | `postgres/alike.slt` |
//! | [`constant_filters`] | a condition without columns leaves the row of an aggregation without GROUP BY | | `postgres/never.slt` |
//! | [`constant_keys`] | a correlated subquery above a join of two tables of one name's columns is refused | | `postgres/constant_keys.slt` |
//! | [`dependencies`] | ORDER BY loses columns, DISTINCT and GROUP BY rows, above joins and `unnest` | | `postgres/keys_of_joins.slt`, `postgres/unnested.slt` |
//! | [`distinct_limits`] | `SELECT DISTINCT … LIMIT` over a window is an internal error | | `postgres/limits_above.slt` |
//! | [`distinct_on`] | subqueries among items of `DISTINCT ON` fail | | `postgres/questions.slt` |
//! | [`dynamic_lists`] | values of a list of IN that are computed of the row are taken for constants | | `postgres/computed_lists.slt` |
//! | [`fetched_sorts`] | windows, filters, joins below ORDER BY … LIMIT see its rows alone | | `postgres/limits_above.slt` |
//! | [`filter_projection`] | wrong columns above a filter, or an internal error | | `order_and_limit.slt` |
//! | [`grouping_set_order`] | groups whose keys are NULL come unsorted | [24421] | `tests/grouping_sets.rs` |
//! | [`grouping_set_values`] | `ROLLUP (a > 1)` and `ROLLUP (a + $1)` are refused | | `postgres/rolled_values.slt` |
//! | [`missing_sorts`] | UNIONs of constants and of a column twice, in order, are refused | | `postgres/united.slt` |
//! | [`null_equal_joins`] | NULLs match in keys of `=`, or do not in `IS NOT DISTINCT FROM` beside it | | `postgres/distinct_from.slt` |
//! | [`single_distinct`] | `sum(a), count(DISTINCT b)` of integers is an internal error | | `aggregates.slt` |
//!
//! Mended elsewhere, since the faulty part is ours anyway, or the gateway alone has what is needed:
//!
//! | where | symptom without it | upstream | test |
//! |---|---|---|---|
//! | `aggregates/min_max.rs` | `min`, `max` of floats forget NaN, infinities | [24432] | `postgres/extremes.slt` |
//! | `plan/apply/same_names.rs` | `EXISTS (… a JOIN b … WHERE b.id = outer.x)` asks `a.id` | | `postgres/same_names.slt` |
//! | `plan/cast_names.rs` | casts of one value to two types have one name, which is refused | | `postgres/casts_beside.slt` |
//! | `plan/casts.rs` | a cast that loses digits is taken away from before a comparison | | `postgres/computed_lists.slt` |
//! | `plan/checked.rs` | `sum(10 / a) FILTER (WHERE a <> 0)` is a division by zero | | `postgres/guards.slt` |
//! | `plan/apply/mistaken.rs` | `NOT EXISTS (SELECT count(*) …)` gives rows | | `postgres/missing_rows.slt` |
//! | `plan/apply/mistaken.rs` | a relation in EXISTS that names the row outside panics | | `postgres/constant_keys.slt` |
//! | `plan/apply.rs`, `knows_unknown` | `9 NOT IN (SELECT a …)` holds beside NULLs | | `postgres/constant_keys.slt` |
//! | `plan/missing_rows.rs` | `(SELECT id …) IS NULL` is false without a row | | `postgres/missing_rows.slt` |
//! | `plan/outer_names.rs`, `syntax/using_columns.rs` | an ambiguous name of a subquery is a column of the query around | | `postgres/outer_names.slt` |
//! | `query/state.rs`, aggregates' filters | `min(a), max(b)` forgets values of `b` | | `metadata_aggregates.rs` |
//! | `query/state.rs`, schema check | a cast or a test that is never NULL ends an aggregation above it | | `postgres/casts_beside.slt` |
//! | `query/state.rs`, spill files | a repartitioning by way of files waits for ever | [24883] | `state/tests.rs` |
//! | `query/state.rs`, file scans | file groups are cut by bytes once more, into empty streams | | |
//! | `windows/numbered.rs` | `row_number() / 2` has digits | | `postgres/rolled_values.slt` |
//!
//! [21246]: https://github.com/apache/datafusion/issues/21246
//! [24414]: https://github.com/apache/datafusion/issues/24414
//! [24421]: https://github.com/apache/datafusion/issues/24421
//! [24432]: https://github.com/apache/datafusion/issues/24432
//! [24883]: https://github.com/apache/datafusion/issues/24883

pub mod aggregate_orders;
pub mod aggregate_statistics;
pub mod barriers;
pub mod canonical_comparisons;
pub mod constant_filters;
pub mod constant_keys;
pub mod dependencies;
pub mod distinct_limits;
pub mod distinct_on;
pub mod dynamic_lists;
mod each_node;
pub mod fetched_sorts;
pub mod filter_projection;
pub mod grouping_set_order;
pub mod grouping_set_values;
pub mod missing_sorts;
pub mod null_equal_joins;
pub mod single_distinct;
