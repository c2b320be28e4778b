//! `CREATE`, `ALTER` and `DROP SCHEMA`, and what moves a relation to another schema.

use super::grant::RoleSpec;
use keyspan_pg::names::RelationName;

/// A change of schemas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemaChange {
    /// `CREATE SCHEMA`
    Create {
        /// The name; `None` for that of the owner.
        name: Option<String>,
        /// `IF NOT EXISTS`
        if_not_exists: bool,
        /// `AUTHORIZATION`
        owner: Option<RoleSpec>,
    },
    /// `DROP SCHEMA`
    Drop {
        /// The schemas.
        names: Vec<String>,
        /// `IF EXISTS`
        if_exists: bool,
        /// `CASCADE`: what is in them goes too.
        cascade: bool,
    },
    /// `ALTER SCHEMA … RENAME TO …`
    Rename {
        /// The schema.
        name: String,
        /// Its new name.
        to: String,
    },
    /// `ALTER TABLE | VIEW | SEQUENCE … SET SCHEMA …`
    Move {
        /// What the statement says it moves.
        kind: Moved,
        /// The relation.
        name: RelationName,
        /// `IF EXISTS`
        if_exists: bool,
        /// The name of the schema.
        to: String,
    },
}

/// A kind of relation that moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// A table, or, as in PostgreSQL, a view or a sequence.
    Table,
    /// A view.
    View,
    /// A materialized view.
    Materialized,
    /// A sequence.
    Sequence,
}
