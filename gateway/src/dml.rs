//! Writes: INSERT, UPDATE, DELETE.

use crate::{
    error::{Result, SqlError},
    query::Query,
    session::Session,
    statement::Statement,
};
use arrow::datatypes::DataType;
use datafusion::{logical_expr::LogicalPlan, scalar::ScalarValue};

/// The types of a write's parameters.
///
/// # Errors
/// 0A000
pub async fn parameters(_: &mut Session, _: &Statement, _: &[Option<DataType>]) -> Result<Vec<DataType>> {
    Err(SqlError::unsupported("a write"))
}

/// Runs a write.
///
/// # Errors
/// 0A000
pub async fn execute(_: &mut Session, _: &Statement, _: Vec<ScalarValue>) -> Result<String> {
    Err(SqlError::unsupported("a write"))
}

/// Plans a write.
///
/// # Errors
/// 0A000
pub async fn plan(_: &mut Session, _: &Statement) -> Result<(Query, LogicalPlan)> {
    Err(SqlError::unsupported("a write"))
}
