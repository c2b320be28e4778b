//! Bigtable behind Keyspan.
//!
//! The modules are declared from below to above: how bytes go to a server ([`settings`], [`transport`],
//! [`credentials`]), what is done when it fails ([`error`], [`retry`]), the operations of the API ([`client`], with
//! [`chunks`], [`read`], [`mod@write`] and [`admin`]), and the store over them ([`store`]).
//!
//! The client knows no tables of ours. It repeats what may be repeated without harm, and tells the caller of everything
//! else whether its effect is [unknown](Error::is_outcome_unknown).

pub mod credentials;
pub mod settings;
pub mod transport;

pub mod error;
pub mod retry;

pub mod chunks;
pub mod client;

pub mod admin;
mod rate;
pub mod read;
pub mod write;

pub mod store;

#[cfg(test)]
mod mock;

pub use client::Client;
pub use error::{Error, Result};
pub use read::{ApiCell, ApiRow, ReadRows};
pub use settings::Settings;
pub use store::BigtableStore;
pub use write::Entry;
