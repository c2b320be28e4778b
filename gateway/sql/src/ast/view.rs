//! Views and materialized views: what makes, changes and fills them.

use super::definition::OptionClause;
use datafusion::sql::sqlparser::ast::Query;
use keyspan_pg::names::RelationName;

/// `CREATE VIEW`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateView {
    /// The view.
    pub name: RelationName,
    /// `OR REPLACE`
    pub or_replace: bool,
    /// Names for its first columns; the others have those of the query.
    pub columns: Vec<String>,
    /// Its query.
    pub query: Box<Query>,
}

/// `CREATE MATERIALIZED VIEW`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateMaterialized {
    /// Name, columns and query; it never replaces another.
    pub view: CreateView,
    /// `IF NOT EXISTS`
    pub if_not_exists: bool,
    /// The `WITH` options.
    pub options: Vec<OptionClause>,
    /// Whether it is filled: not under `WITH NO DATA`.
    pub with_data: bool,
}

/// `REFRESH MATERIALIZED VIEW`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefreshMaterialized {
    /// The view.
    pub name: RelationName,
    /// `CONCURRENTLY`
    pub concurrently: bool,
    /// Whether it is filled: under `WITH NO DATA` it is emptied, and can not be read.
    pub with_data: bool,
}

/// The two kinds of views.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewKind {
    /// Of a query that is run when it is read.
    Plain,
    /// That keeps rows.
    Materialized,
}

impl ViewKind {
    /// As PostgreSQL's messages name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "view",
            Self::Materialized => "materialized view",
        }
    }
}

/// `ALTER [MATERIALIZED] VIEW`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterView {
    /// The view.
    pub name: RelationName,
    /// Its kind; `None` for any: `ALTER TABLE`.
    pub kind: Option<ViewKind>,
    /// `IF EXISTS`
    pub if_exists: bool,
    /// The action.
    pub action: ViewAction,
}

/// The action of `ALTER VIEW`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ViewAction {
    /// `RENAME TO`
    Rename(String),
    /// `RENAME COLUMN from TO to`
    RenameColumn {
        /// The column.
        from: String,
        /// Its new name.
        to: String,
    },
}
