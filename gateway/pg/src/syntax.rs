//! Passes over a parsed query, before DataFusion plans it.
//!
//! The gateway's table of passes (`query::passes`) says in which order they run. Most are rules of the two walks of
//! [`rewrite`]: a walk visits the tree once and applies a table of rules to each node. What PostgreSQL has and
//! DataFusion would drop is refused by
//! [`unsupported`].

pub mod balance;
pub mod build;
pub mod calls;
pub mod column_names;
pub mod dialect;
pub mod expansion;
pub mod missing_from;
pub mod natural_join;
pub mod order_by;
pub mod rewrite;
pub mod row_comparison;
pub mod set_returning;
pub mod unsupported;
pub mod using_columns;
pub mod values;
pub mod walk;
pub mod whole_row;
