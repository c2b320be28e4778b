//! Passes over a parsed query, before DataFusion plans it.
//!
//! The gateway's table of passes (`query::passes`) says in which order they run. Most are rules of the two walks of
//! [`rewrite`]: a walk visits the tree once and applies a table of rules to each node. What PostgreSQL has and
//! DataFusion would drop is refused by
//! [`unsupported`].

mod aggregate_calls;
pub mod balance;
pub mod between;
pub mod build;
pub mod calls;
mod cast_calls;
pub mod column_names;
mod composite_sets;
mod counted_rows;
mod counted_sets;
pub mod dialect;
mod documents;
pub mod expansion;
mod group_places;
mod hypothetical;
pub mod missing_from;
mod named_windows;
pub mod natural_join;
pub mod order_by;
mod ordered_sets;
mod overlaps;
mod patterns;
mod records;
mod recursion;
mod referenced_names;
pub mod relation_columns;
pub mod rewrite;
pub mod row_comparison;
pub mod row_in_query;
pub mod rows_of_sets;
mod samples;
pub mod set_returning;
mod times;
pub mod unsupported;
pub mod using_columns;
pub mod values;
pub mod walk;
pub mod whole_row;
