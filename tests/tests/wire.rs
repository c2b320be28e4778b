//! Tests over the wire: the real server on a real socket, with real clients, in one binary.
//!
//! A test starts a [`Harness`](harness::Harness), which has an operator, tenants and roles, and asks it for clients.

#![allow(unreachable_pub, reason = "the modules are a library to each other, in a binary")]

mod wire {
    pub mod access;
    pub mod activity;
    pub mod advice;
    pub mod advisory_locks;
    pub mod ages;
    pub mod audit;
    pub mod backup;
    pub mod bench;
    pub mod beside_postgres;
    pub mod catalog_keys;
    pub mod columns;
    pub mod command;
    pub mod console;
    pub mod copy;
    pub mod damage;
    pub mod date_forms;
    pub mod definitions;
    pub mod described;
    pub mod documents;
    pub mod domains;
    pub mod dump;
    pub mod enums;
    pub mod erasures;
    pub mod explain_formats;
    pub mod files;
    pub mod flood;
    pub mod full_disk;
    pub mod harness;
    pub mod heat;
    pub mod history;
    pub mod hostile;
    pub mod isolation;
    pub mod isolation_drop;
    pub mod isolation_random;
    pub mod limits;
    pub mod login;
    pub mod materialized_views;
    pub mod metrics;
    pub mod notifications;
    pub mod numerics;
    pub mod old_stores;
    pub mod open_families;
    pub mod operator;
    pub mod postgres;
    pub mod privileges;
    pub mod process;
    pub mod protobuf;
    pub mod protocol;
    pub mod purge;
    pub mod purge_reader;
    pub mod rights;
    pub mod schemas;
    pub mod semantics;
    #[cfg(feature = "emulator")]
    pub mod servers;
    pub mod session_defaults;
    pub mod shares;
    pub mod short_inserts;
    pub mod slt;
    pub mod statistics;
    pub mod streaming;
    pub mod tenant_backup;
    pub mod tenant_copy;
    pub mod time_zones;
    pub mod tls;
    pub mod tpch;
    pub mod traces;
    pub mod typed_columns;
    pub mod wide;
    pub mod zones_of_sessions;
}
