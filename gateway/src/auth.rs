//! Authentication: from a startup message to an [`Identity`](crate::identity::Identity).
//!
//! Rules may say who may try from where ([`access`]). A client proves its password by SCRAM ([`scram`]); a role that does not exist goes through the same exchange and
//! fails at its end, so that nobody learns which roles there are; after several wrong passwords answers come late
//! ([`throttle`]). Only then [`login`] looks at the role's rights and at
//! the database, and makes the one [`TenantStore`](keyspan_catalog::TenantStore) of the connection. [`operator`] makes
//! the first role of a new store.

pub mod access;
pub mod login;
pub mod operator;
pub mod scram;
pub mod throttle;

pub use scram::secret_of;
