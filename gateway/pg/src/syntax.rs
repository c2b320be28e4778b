//! Passes over a parsed query, before DataFusion plans it.
//!
//! [`rewrite`] calls most of them; what PostgreSQL has and DataFusion would drop is refused by [`unsupported`].

pub mod build;
pub mod calls;
pub mod column_names;
pub mod missing_from;
pub mod natural_join;
pub mod rewrite;
pub mod row_comparison;
pub mod set_returning;
pub mod unsupported;
pub mod using_columns;
pub mod values;
pub mod whole_row;
