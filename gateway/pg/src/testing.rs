//! What unit tests share.

use datafusion::sql::sqlparser::{ast::Statement, dialect::PostgreSqlDialect, parser::Parser};

/// Parses one statement.
pub(crate) fn parse(sql: &str) -> Statement {
    let parsed = Parser::parse_sql(&PostgreSqlDialect {}, sql);
    parsed.unwrap_or_else(|error| panic!("{sql}: {error}")).swap_remove(0)
}
