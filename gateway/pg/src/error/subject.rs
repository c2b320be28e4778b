//! The name that an error is about.

/// What an error is about: mostly a name that the statement wrote, from which the position of the error is found in the
/// text.
///
/// Names are as they are looked up: in lower case unless the statement quoted them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A column that is read.
    Column {
        /// The table's name or alias before it, if there is one.
        table: Option<String>,
        /// The column.
        name: String,
    },
    /// A column that `INSERT` or `UPDATE` writes.
    WrittenColumn(String),
    /// A relation, as the statement names it: alone, or behind its schema and a point.
    Relation(String),
    /// What a column has before its point, where FROM has no such table.
    Qualifier(String),
    /// A function, without its schema and arguments.
    Function(String),
    /// No name of a statement, but a file of the server: the message with its name, for the log and for operators.
    ServerFile(String),
}
