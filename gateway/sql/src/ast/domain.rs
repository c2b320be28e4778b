//! `CREATE`, `ALTER` and `DROP DOMAIN`.

use super::definition::CheckClause;
use datafusion::sql::sqlparser::ast::Expr;
use keyspan_catalog::SqlType;
use keyspan_pg::names::RelationName;

/// A change of domains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DomainChange {
    /// `CREATE DOMAIN`
    Create(Box<CreateDomain>),
    /// `ALTER DOMAIN`
    Alter {
        /// The domain.
        name: RelationName,
        /// What becomes of it.
        action: Box<DomainAction>,
    },
    /// `DROP DOMAIN`
    Drop {
        /// The domains.
        names: Vec<RelationName>,
        /// `IF EXISTS`
        if_exists: bool,
        /// `CASCADE`
        cascade: bool,
    },
}

/// `CREATE DOMAIN`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateDomain {
    /// The name.
    pub name: RelationName,
    /// The base type, if it is one of PostgreSQL's.
    pub kind: SqlType,
    /// The name of the base type, if it is none of PostgreSQL's.
    pub over: Option<RelationName>,
    /// `NOT NULL`
    pub not_null: bool,
    /// `DEFAULT`
    pub default: Option<Expr>,
    /// `CHECK`, in their order.
    pub checks: Vec<CheckClause>,
}

/// What `ALTER DOMAIN` does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DomainAction {
    /// `SET DEFAULT`, `DROP DEFAULT`
    Default(Option<Expr>),
    /// `SET NOT NULL`, `DROP NOT NULL`
    NotNull(bool),
    /// `ADD CHECK`
    AddCheck {
        /// The condition.
        check: CheckClause,
        /// Whether stored values are checked: not so with `NOT VALID`.
        is_valid: bool,
    },
    /// `DROP CONSTRAINT`
    DropConstraint {
        /// The name.
        name: String,
        /// `IF EXISTS`
        if_exists: bool,
    },
    /// `RENAME CONSTRAINT`
    RenameConstraint {
        /// The name.
        from: String,
        /// The new one.
        to: String,
    },
    /// `VALIDATE CONSTRAINT`
    Validate(String),
    /// `RENAME TO`
    Rename(String),
    /// `SET SCHEMA`
    Move(String),
}
