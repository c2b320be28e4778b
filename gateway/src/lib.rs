//! The gateway: a Postgres server in front of one wide-column table.
//!
//! The modules stand in the order in which a statement meets them, and import downwards only; `rooms.rs` holds the list
//! and the test. A connection to the [`server`] passes [`auth`], which fixes role, database and with them the
//! [`TenantStore`](keyspan_catalog::TenantStore), the only way to rows. [`execute`] runs each statement of its
//! [`session`]: definitions go to [`ddl`], writes to [`dml`], everything that reads to [`query`], where DataFusion
//! plans it over the tables of [`provider`] and the relations of [`pg_catalog`]. Rows leave as Arrow batches and become
//! messages in [`wire`]; what goes wrong becomes a [`SqlError`].
//!
//! Three rooms below are crates of their own, which the gateway calls by their short names: [`wire`] (messages, the
//! encoder of rows), [`sql`] (text to statements) and [`pg`] (PostgreSQL's semantics on DataFusion).

use keyspan_pg as pg;
use keyspan_sql as sql;
use keyspan_wire as wire;

pub mod demo;
pub mod server;

pub mod execute;
pub mod http;

pub mod copy;
pub mod ddl;

pub(crate) mod load;

pub mod purge;
pub mod session;

mod point;

pub mod dml;

pub mod query;

pub mod pg_catalog;
pub mod provider;

pub mod context;
pub mod view;
pub mod view_binding;

pub mod auth;
pub(crate) mod console;
pub mod lookup;
pub mod metrics;

pub(crate) mod advice;
pub mod instance;
pub mod shield;
pub mod system_relations;
pub mod write_set;

pub mod activity;
pub(crate) mod advisory_locks;
pub mod audit;
pub mod certificates;
pub mod heat;
pub mod notifications;
pub mod purges;
pub mod resources;
pub mod rights;
pub(crate) mod row_locks;
pub(crate) mod row_numbers;
pub mod sequences;
pub(crate) mod settings;
pub mod statistics;
pub(crate) mod table_locks;
pub mod traces;

pub mod shares;

pub mod identity;
pub mod lock;

#[cfg(test)]
mod rooms;

pub use crate::pg::error::{SqlError, SqlState};
pub use crate::{
    execute::Outcome,
    identity::Identity,
    session::{Prepared, Session},
};
