//! `PREPARE` and `EXECUTE`.

use super::Runs;
use crate::pg::datetime::Input;
use crate::{
    pg::{
        codec::{format::Format, parameter},
        error::{Result, SqlError, SqlState},
        ident::quoted,
        names::RelationName,
        numeric,
        syntax::build::select_from,
        types::{self, ParameterType},
    },
    session::{NamedStatement, Prepared, Session, Source, kept_bytes},
    sql::ast::session::{Execute, Prepare},
};
use arrow::datatypes::DataType;
use datafusion::{
    scalar::ScalarValue,
    sql::sqlparser::ast::{self, SelectItem, SetExpr},
};
use futures::TryStreamExt;
use std::sync::OnceLock;

/// `PREPARE`
pub(super) async fn prepare(session: &mut Session, prepare: &Prepare) -> Result<()> {
    session.statements.check_free(&prepare.name, &prepare.text)?;
    let hints: Vec<_> = prepare.types.iter().map(|kind| kind.map(ParameterType::of_kind)).collect();
    let prepared = Box::pin(super::prepare(session, (*prepare.statement).clone(), &hints, Runs::Later)).await?;
    let types = prepared.parameters.iter().map(ParameterType::pg_type).collect();
    let at_micros = session.instance.clock.now_micros();
    let source = Source { text: prepare.text.clone(), at_micros, by_statement: true };
    let bytes = kept_bytes(&prepare.name, &prepare.text);
    let statement = NamedStatement { prepared: Some(prepared), types, encoder: OnceLock::new(), source, bytes };
    session.statements.insert(prepare.name.clone(), statement)
}

/// The statement that `EXECUTE` runs.
///
/// # Errors
/// 26000.
pub(super) fn executed(session: &Session, execute: &Execute) -> Result<Prepared> {
    let named = session.statements.get(&execute.name)?;
    named.prepared.clone().ok_or_else(|| SqlError::unsupported("EXECUTE of an empty statement"))
}

/// The values that `EXECUTE` gives to parameters.
///
/// # Errors
/// 42601 for another number of them; 42804 for one that is no value of its parameter's type.
pub(super) async fn arguments(
    session: &mut Session,
    execute: &Execute,
    wanted: &[ParameterType],
) -> Result<Vec<ScalarValue>> {
    let (given, name) = (execute.arguments.len(), &execute.name);
    if given != wanted.len() {
        let message = format!("wrong number of parameters for prepared statement \"{name}\"");
        return Err(
            SqlError::syntax(message).with_detail(format!("Expected {} parameters but got {given}.", wanted.len()))
        );
    }
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let mut query = select_from(&RelationName::bare("t"), &[])?;
    if let SetExpr::Select(select) = query.body.as_mut() {
        let named = |(at, expr): (usize, &ast::Expr)| SelectItem::ExprWithAlias {
            expr: expr.clone(),
            alias: quoted(&format!("c{at}")),
        };
        select.from.clear();
        select.projection = execute.arguments.iter().enumerate().map(named).collect();
    }
    let view = session.view().await?;
    let input = view.input.clone();
    let query_of_values = session.query(view)?;
    let plan = query_of_values.plan(&ast::Statement::Query(query)).await?;
    let batches: Vec<_> = query_of_values.run(plan).await?.try_collect().await.map_err(SqlError::from)?;
    let row = batches.iter().find(|batch| batch.num_rows() > 0);
    let row = row.ok_or_else(|| SqlError::new(SqlState::INTERNAL_ERROR, "EXECUTE without a row of values"))?;
    let one = |(at, wanted): (usize, &ParameterType)| {
        value(&ScalarValue::try_from_array(row.column(at), 0)?, &wanted.data, at + 1, input.input())
    };
    wanted.iter().enumerate().map(one).collect()
}

fn value(given: &ScalarValue, wanted: &DataType, number: usize, input: Input<'_>) -> Result<ScalarValue> {
    if given.data_type() == *wanted {
        return Ok(given.clone());
    }
    let kind = types::parameter_pg_type(wanted);
    if given.is_null() {
        return parameter::decode(None, &kind, Format::Text, wanted, input);
    }
    // A literal in quotes takes the type of its parameter.
    if let Some(Some(text)) = given.try_as_str() {
        return parameter::decode(Some(text.as_bytes()), &kind, Format::Text, wanted, input);
    }
    if numeric::cast::converts(&given.data_type(), wanted) {
        return Ok(numeric::cast::convert_scalar(given, wanted)?);
    }
    given.cast_to(wanted).map_err(|_| {
        let (from, to) = (types::parameter_pg_type(&given.data_type()), kind.name());
        let message =
            format!("parameter ${number} of type {} cannot be coerced to the expected type {to}", from.name());
        SqlError::new(SqlState::DATATYPE_MISMATCH, message)
            .with_hint("You will need to rewrite or cast the expression.")
    })
}
