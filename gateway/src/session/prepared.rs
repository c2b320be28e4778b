//! Prepared statements of a session: those of Parse and those of `PREPARE`, under one set of names.

use super::{Prepared, Session};
use crate::pg::syntax::build::select_from;
use crate::{
    execute::Runs,
    pg::{
        codec::{format::Format, parameter},
        error::{Result, SqlError, SqlState},
        ident::quoted,
        names::RelationName,
        types,
    },
    query::Query,
    sql::ast::session::{Execute, Prepare},
};
use arrow::datatypes::DataType;
use datafusion::{
    scalar::ScalarValue,
    sql::sqlparser::ast::{self, SelectItem, SetExpr},
};
use futures::TryStreamExt;
use pgwire::api::Type;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Prepared statements of a session, at most.
const STATEMENTS_MAX: usize = 4_096;

/// A prepared statement.
#[derive(Debug)]
pub(crate) struct NamedStatement {
    /// `None` for an empty statement.
    pub(crate) prepared: Option<Prepared>,
    /// The types of the parameters, as the client declared or was told them.
    pub(crate) types: Vec<Type>,
    /// Where it comes from.
    pub(crate) source: Source,
}

/// Where a prepared statement comes from.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// The text that prepared it.
    pub(crate) text: String,
    /// When, in microseconds since 1970.
    pub(crate) at_micros: i64,
    /// Whether `PREPARE` did, rather than a message of the protocol.
    pub(crate) by_statement: bool,
}

/// Statements by name, as the session's own statements see them too.
pub(crate) type Shown = Arc<Mutex<HashMap<String, Arc<NamedStatement>>>>;

/// The prepared statements of a session by name; the unnamed one has the empty name.
#[derive(Debug, Default)]
pub(crate) struct Statements {
    by_name: Shown,
}

impl Statements {
    /// What `pg_prepared_statements` shows.
    pub(crate) fn shown(&self) -> Shown {
        self.by_name.clone()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<NamedStatement>>> {
        self.by_name.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a statement may get a name.
    ///
    /// # Errors
    /// 42P05 for a name that is taken; 54000 beyond [`STATEMENTS_MAX`].
    pub(crate) fn check_free(&self, name: &str) -> Result<()> {
        let by_name = self.lock();
        let taken = by_name.contains_key(name);
        if !name.is_empty() && taken {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_PREPARED_STATEMENT, message));
        }
        if !taken && by_name.len() >= STATEMENTS_MAX {
            let message = format!("a connection has at most {STATEMENTS_MAX} prepared statements");
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
                .with_hint("Close statements that are not needed any more."));
        }
        Ok(())
    }

    /// Gives a statement a name.
    pub(crate) fn insert(&mut self, name: String, statement: NamedStatement) {
        self.lock().insert(name, Arc::new(statement));
    }

    /// # Errors
    /// 26000.
    pub(crate) fn get(&self, name: &str) -> Result<Arc<NamedStatement>> {
        self.lock().get(name).cloned().ok_or_else(|| {
            let message = match name {
                "" => "unnamed prepared statement does not exist".to_owned(),
                name => format!("prepared statement \"{name}\" does not exist"),
            };
            SqlError::new(SqlState::INVALID_SQL_STATEMENT_NAME, message)
        })
    }

    /// Forgets a statement; one that is not there too.
    pub(crate) fn remove(&mut self, name: &str) {
        self.lock().remove(name);
    }

    /// `DEALLOCATE`; `None` for all.
    pub(crate) fn deallocate(&mut self, name: Option<&str>) -> Result<()> {
        match name {
            None => self.lock().clear(),
            Some(name) => {
                self.get(name)?;
                self.remove(name);
            }
        }
        Ok(())
    }
}

/// `PREPARE`
pub(crate) async fn prepare(session: &mut Session, prepare: &Prepare) -> Result<()> {
    session.statements.check_free(&prepare.name)?;
    let hints: Vec<_> = prepare.types.iter().map(|kind| kind.map(types::data_type)).collect();
    let prepared =
        Box::pin(crate::execute::prepare(session, (*prepare.statement).clone(), &hints, Runs::Later)).await?;
    let types = prepared.parameters.iter().map(types::parameter_pg_type).collect();
    let at_micros = session.shared.clock.now_micros();
    let source = Source { text: prepare.text.clone(), at_micros, by_statement: true };
    session.statements.insert(prepare.name.clone(), NamedStatement { prepared: Some(prepared), types, source });
    Ok(())
}

/// The statement that `EXECUTE` runs.
///
/// # Errors
/// 26000.
pub(crate) fn executed(session: &Session, execute: &Execute) -> Result<Prepared> {
    let named = session.statements.get(&execute.name)?;
    named.prepared.clone().ok_or_else(|| SqlError::unsupported("EXECUTE of an empty statement"))
}

/// The values that `EXECUTE` gives to parameters.
///
/// # Errors
/// 42601 for another number of them; 42804 for one that is no value of its parameter's type.
pub(crate) async fn arguments(
    session: &mut Session,
    execute: &Execute,
    wanted: &[DataType],
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
    let query_of_values = Query::new(session, view)?;
    let plan = query_of_values.plan(&ast::Statement::Query(query)).await?;
    let batches: Vec<_> = query_of_values.run(plan).await?.try_collect().await.map_err(SqlError::from)?;
    let row = batches.iter().find(|batch| batch.num_rows() > 0);
    let row = row.ok_or_else(|| SqlError::new(SqlState::INTERNAL_ERROR, "EXECUTE without a row of values"))?;
    let one = |(at, wanted)| value(&ScalarValue::try_from_array(row.column(at), 0)?, wanted, at + 1);
    wanted.iter().enumerate().map(one).collect()
}

fn value(given: &ScalarValue, wanted: &DataType, number: usize) -> Result<ScalarValue> {
    if given.data_type() == *wanted {
        return Ok(given.clone());
    }
    let kind = types::parameter_pg_type(wanted);
    if given.is_null() {
        return parameter::decode(None, &kind, Format::Text, wanted);
    }
    // A literal in quotes takes the type of its parameter.
    if let Some(Some(text)) = given.try_as_str() {
        return parameter::decode(Some(text.as_bytes()), &kind, Format::Text, wanted);
    }
    given.cast_to(wanted).map_err(|_| {
        let (from, to) = (types::parameter_pg_type(&given.data_type()), kind.name());
        let message =
            format!("parameter ${number} of type {} cannot be coerced to the expected type {to}", from.name());
        SqlError::new(SqlState::DATATYPE_MISMATCH, message)
            .with_hint("You will need to rewrite or cast the expression.")
    })
}
