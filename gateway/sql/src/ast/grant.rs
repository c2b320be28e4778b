//! `GRANT`, `REVOKE`, `ALTER DEFAULT PRIVILEGES`, `OWNER TO`: who owns what, and who may do what.

use keyspan_catalog::{ObjectKind, Privileges};
use keyspan_pg::names::RelationName;

/// A role as a statement names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleSpec {
    /// By its name.
    Named(String),
    /// `PUBLIC`: everybody.
    Public,
    /// `CURRENT_USER`, `CURRENT_ROLE`, `SESSION_USER`: the session's own.
    Current,
}

/// A change of rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RightsChange {
    /// `GRANT` and `REVOKE` of privileges on objects.
    Privileges(Granted, GrantedOn),
    /// `ALTER DEFAULT PRIVILEGES`
    Defaults {
        /// `FOR ROLE`; empty for the session's own.
        roles: Vec<RoleSpec>,
        /// `IN SCHEMA`; empty for all schemas.
        schemas: Vec<String>,
        /// The kind of objects.
        kind: ObjectKind,
        /// What is granted or revoked.
        granted: Granted,
    },
    /// `GRANT role TO role`, `REVOKE role FROM role`
    Membership {
        /// Whether members come; else they go.
        grant: bool,
        /// The roles that have members.
        roles: Vec<RoleSpec>,
        /// The members.
        members: Vec<RoleSpec>,
        /// `WITH ADMIN OPTION`, `ADMIN OPTION FOR`
        admin: bool,
    },
    /// `ALTER … OWNER TO`
    Owner(Owned, RoleSpec),
    /// `REASSIGN OWNED BY roles TO role`
    Reassign(Vec<RoleSpec>, RoleSpec),
}

/// What is granted or revoked, and to whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// Whether it is granted; else it is revoked.
    pub grant: bool,
    /// The privileges; `None` for `ALL`.
    pub privileges: Option<Privileges>,
    /// The roles.
    pub roles: Vec<RoleSpec>,
    /// `WITH GRANT OPTION`, `GRANT OPTION FOR`
    pub option: bool,
    /// `CASCADE`: what was granted on goes too.
    pub cascade: bool,
}

/// The objects of a GRANT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrantedOn {
    /// Tables and views, and sequences named as tables.
    Relations(Vec<RelationName>),
    /// `SEQUENCE …`
    Sequences(Vec<RelationName>),
    /// `ALL TABLES IN SCHEMA …`, `ALL SEQUENCES IN SCHEMA …`: those of a kind.
    All(ObjectKind, Vec<String>),
    /// `SCHEMA …`
    Schemas(Vec<String>),
    /// Functions, of which there are none of users' own.
    Nothing,
}

/// What `OWNER TO` is said of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owned {
    /// `ALTER TABLE`
    Table(RelationName, bool),
    /// `ALTER VIEW`, with whether `IF EXISTS` was said.
    View(RelationName, bool),
    /// `ALTER MATERIALIZED VIEW`, with whether `IF EXISTS` was said.
    Materialized(RelationName, bool),
    /// `ALTER SEQUENCE`, with whether `IF EXISTS` was said.
    Sequence(RelationName, bool),
    /// `ALTER DATABASE`
    Database(String),
    /// `ALTER SCHEMA`
    Schema(String),
    /// `ALTER TYPE`
    Type(RelationName),
    /// `ALTER DOMAIN`
    Domain(RelationName),
}
