//! TODO header pg

pub mod aggregates;
pub mod error;
pub mod fields;
pub mod functions;
pub mod ident;
pub mod names;
pub mod types;

pub mod codec;
pub mod exec;
pub mod plan;
pub mod syntax;
pub mod workarounds;
