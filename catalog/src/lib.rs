//! The catalog: tenants, tables, row-key schemas, column mappings and roles, kept in the store itself; and the only
//! access to rows, by tenant.
//!
//! What belongs here: definitions of objects and their rules, the encodings of values, keys and cells, and the
//! isolation of tenants. This crate knows neither SQL text nor sessions nor the wire.
//!
//! A statement takes one immutable [`Snapshot`] and uses it to its end. A change is an [`Edit`], a value; a pure
//! function applies it to a snapshot, and [`Catalog`] commits it, validating a version row. Rows of tables are reached
//! through a [`TenantStore`] only: it prepends the tenant's span to every key that it passes to the store, and strips
//! it from every key that the store returns.
//!
//! The modules below are declared in groups, in the order in which a statement meets them. It takes a snapshot from
//! [`catalog`] and finds tenants, roles and relations in it, or changes them with an edit. The values of a row are
//! fitted to their types ([`value`]) and encoded as a key ([`key`]) and as cells ([`mapping`]); [`tenant_store`]
//! commits and scans the rows.

// Used by all modules below.
pub mod error;
pub mod ids;

// The state of the catalog: loading and committing, the snapshot, and the edits that change it.
pub mod catalog;

pub mod snapshot;

pub mod edit;

// Objects of a snapshot: definitions and their rules. Pure.
pub mod comment;
pub mod domain;
pub mod enum_type;
pub mod erasure;
pub mod private;
pub mod proto;
pub mod rights;
pub mod role;
pub mod schema;
pub mod sequence;
pub mod server;
pub mod sql_view;
pub mod table;
pub mod tenant;
pub mod tenant_copy;

// The values of a row, and their encodings as a key and as cells. Pure.
pub mod value;

pub mod key;

pub mod mapping;

pub mod open_map;

// Rows in the store: the layouts of segments, and the access by tenant.
pub mod layouts;

pub mod tenant_store;

pub use catalog::Catalog;
pub use comment::Comments;
pub use domain::{ColumnDomain, Domain, DomainCheck};
pub use edit::Edit;
pub use enum_type::EnumType;
pub use erasure::{Erasure, ErasureKind, Erasures};
pub use error::{Error, ErrorKind, Result};
pub use ids::{FamilyId, RoleName, TableId, TenantId};
pub use key::{CheckedKeys, KeyEncoding, KeyPart, KeySchema, PartBounds, PartOrder, SortedKeys};
pub use mapping::Encoding;
pub use private::{Private, PrivateEdit};
pub use proto::{ProtoDescriptor, ProtoMessage};
pub use rights::{AclItem, ObjectKind, ObjectRights, Privileges};
pub use role::{Membership, MockNonce, Role, ScramSecret, SettingDefaults};
pub use schema::Schema;
pub use sequence::{Sequence, SequenceOptions, SequenceState};
pub use server::{Found, FoundDefinition, RemoteDefinition, RemoteTable, Server};
pub use snapshot::Snapshot;
pub use sql_view::{Relation, SqlView, ViewColumn};
pub use table::{Column, ColumnDefinition, ColumnPlace, FamilyDefinition, Table, TableDefinition, TableFamily};
pub use tenant::{
    Contents, Counted, DropCertificate, Exports, PurgeState, Quotas, SpanSize, TableContents, TableKind, Tenant,
    TenantState,
};
pub use tenant_copy::Numbers;
pub use tenant_store::TenantStore;
pub use value::{SqlType, Value, ValueRef};
