//! PostgreSQL's semantics on DataFusion. This room knows no session, no table of ours and no store.
//!
//! A query passes [`syntax`] (rewrites of the syntax tree), then [`plan`] (types, operators and rules over the logical
//! plan), and runs on DataFusion's operators and those of [`exec`]. [`functions`] and [`aggregates`] are PostgreSQL's
//! where DataFusion lacks or differs from them, [`codec`] writes and reads values, [`datetime`] dates,
//! times and zones by the session's settings, [`types`] maps Arrow's types to
//! PostgreSQL's, [`error`] has the SQLSTATEs. [`workarounds`] holds rules that mend faults of DataFusion.

pub mod aggregates;
pub mod cancel_flag;
pub(crate) mod common_type;
pub mod datetime;
pub mod error;
pub mod extension;
pub mod fields;
pub mod functions;
pub mod ident;
pub mod names;
pub mod numeric;
pub mod regexp;
pub mod statement_time;
pub mod types;
pub mod version;

pub mod codec;
pub mod exec;
pub mod plan;
pub mod syntax;
#[cfg(test)]
mod testing;
pub mod windows;
pub mod workarounds;
