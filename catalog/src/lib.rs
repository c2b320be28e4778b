//! The catalog: tenants, tables, row-key schemas, column mappings and roles, kept in the store itself.
//!
//! A statement takes one immutable [`Snapshot`] and plans with it to its last row. A change is an [`Edit`], a value; a pure
//! function applies it to a snapshot, and [`Catalog`] commits it by check-and-mutate on a version row. Rows of tables are
//! reached through a [`TenantStore`] only: it adds the tenant's span to every key that goes down and strips it from every key
//! that comes up.

pub mod catalog;
pub mod comment;
pub mod edit;
pub mod error;
pub mod ids;
pub mod key;
pub mod layouts;
pub mod mapping;
pub mod private;
pub mod role;
pub mod sequence;
pub mod snapshot;
pub mod sql_view;
pub mod table;
pub mod tenant;
pub mod tenant_store;
pub mod value;

pub use catalog::Catalog;
pub use comment::Comments;
pub use edit::Edit;
pub use error::{Error, ErrorKind, Result};
pub use ids::{FamilyId, RoleName, TableId, TenantId};
pub use key::{CheckedKeys, KeyEncoding, KeyPart, KeySchema, PartBounds, SortedKeys};
pub use mapping::Encoding;
pub use private::{Private, PrivateEdit};
pub use role::{Role, ScramSecret};
pub use sequence::{Sequence, SequenceOptions, SequenceState};
pub use snapshot::Snapshot;
pub use sql_view::{Relation, SqlView, ViewColumn};
pub use table::{Column, ColumnDefinition, ColumnPlace, FamilyDefinition, Table, TableDefinition, TableFamily};
pub use tenant::{DropCertificate, PurgeState, Quotas, Tenant, TenantState};
pub use tenant_store::TenantStore;
pub use value::{SqlType, Value, ValueRef};
