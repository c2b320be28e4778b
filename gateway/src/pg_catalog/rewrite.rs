//! Rewrites.
use datafusion::sql::sqlparser::ast::Statement;
/// Rewrites.
pub fn rewrite(statement: &mut Statement) {
    let _ = statement;
}
