//! The gateway: a Postgres server in front of one wide-column table.
//!
//! The modules stand in the order in which a statement meets them. A connection to the [`server`] passes [`auth`],
//! which fixes role, database and with them the [`TenantStore`](keyspan_catalog::TenantStore), the only door to rows. Its
//! [`session`] takes each [`statement`](sql::statement) apart: definitions go to [`ddl`], writes to [`dml`], everything that reads to [`query`],
//! where DataFusion plans it over the tables of [`provider`] and the relations of [`pg_catalog`]. Rows leave as Arrow batches and
//! become messages in [`wire`]; what goes wrong becomes a [`SqlError`].

pub mod activity;
pub mod auth;
pub mod context;
pub mod copy;
pub mod ddl;
pub mod demo;
pub mod dml;
pub(crate) mod execute;
pub mod instance;
pub(crate) mod load;
pub mod lock;
pub mod lookup;
pub mod notifications;
pub mod pg;
pub mod pg_catalog;
mod point;
pub mod provider;
pub mod purge;
pub mod purges;
pub mod query;
pub mod resources;
pub(crate) mod row_locks;
pub(crate) mod row_numbers;
pub mod sequences;
pub mod server;
pub mod session;
pub(crate) mod settings;
pub mod shield;
pub mod sql;
pub(crate) mod table_locks;
pub mod view;
pub mod view_binding;
pub mod wire;
pub mod write_set;

pub use crate::pg::error::{SqlError, SqlState};
pub use crate::{
    instance::Identity,
    session::{Outcome, Prepared, Session},
};
