//! `MERGE`.

use datafusion::sql::sqlparser::ast::{Assignment, Expr, TableWithJoins};

/// `MERGE`
#[derive(Clone, Debug, PartialEq)]
pub struct Merge {
    /// The table that is written, with its alias.
    pub target: TableWithJoins,
    /// The relation that it is merged with.
    pub source: TableWithJoins,
    /// The condition under which a row of the source matches one of the target.
    pub on: Expr,
    /// The clauses; for each row the first whose condition holds applies.
    pub clauses: Vec<MergeClause>,
}

/// `WHEN [NOT] MATCHED [AND condition] THEN action`
#[derive(Clone, Debug, PartialEq)]
pub struct MergeClause {
    /// Whether it applies to rows of the target with a match, or to rows of the source without one.
    pub matched: bool,
    /// The further condition.
    pub condition: Option<Expr>,
    /// The action.
    pub action: MergeAction,
}

/// The action of a [`MergeClause`].
#[derive(Clone, Debug, PartialEq)]
pub enum MergeAction {
    /// `DO NOTHING`
    Nothing,
    /// `DELETE`
    Delete,
    /// `UPDATE SET …`
    Update(Vec<Assignment>),
    /// `INSERT (columns) VALUES (…)`
    Insert {
        /// The columns; empty for all.
        columns: Vec<String>,
        /// The values; `None` for `DEFAULT VALUES`.
        values: Option<Vec<Expr>>,
    },
}
