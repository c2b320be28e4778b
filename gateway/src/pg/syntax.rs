//! Passes over a parsed query, before DataFusion plans it.
//!
//! [`rewrite`] calls most of them; what PostgreSQL has and DataFusion would drop is refused by [`unsupported`].

pub mod calls;
pub mod column_names;
pub(crate) mod missing_from;
pub(crate) mod natural_join;
pub mod rewrite;
pub(crate) mod row_comparison;
pub mod set_returning;
pub mod unsupported;
pub(crate) mod using_columns;
pub(crate) mod values;
pub mod whole_row;
