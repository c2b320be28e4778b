//! `MERGE` as it was written.

use datafusion::sql::sqlparser::ast::{Assignment, Expr, TableWithJoins};

/// `MERGE`
#[derive(Clone, Debug, PartialEq)]
pub struct Merge {
    /// The table that is written, with its alias.
    pub target: TableWithJoins,
    /// What it is merged with.
    pub source: TableWithJoins,
    /// When rows of the two belong together.
    pub on: Expr,
    /// What becomes of them: the first clause that fits.
    pub clauses: Vec<MergeClause>,
}

/// `WHEN [NOT] MATCHED [AND condition] THEN action`
#[derive(Clone, Debug, PartialEq)]
pub struct MergeClause {
    /// Whether it is about rows of the target that have one of the source, or about those of the source that have none.
    pub matched: bool,
    /// What has to hold besides.
    pub condition: Option<Expr>,
    /// What is done.
    pub action: MergeAction,
}

/// What is done to a row.
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
        /// The columns; none for all.
        columns: Vec<String>,
        /// Their values; `None` for `DEFAULT VALUES`.
        values: Option<Vec<Expr>>,
    },
}
