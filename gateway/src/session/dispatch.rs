//! Each kind of statement to the module that knows it.

use super::{Outcome, Prepared, Session, TransactionStatus, show};
use crate::{
    copy::{self, CopyIn},
    ddl, dml,
    error::{Result, SqlError, SqlState},
    provider::explain,
    query::Query,
    server::shielded,
    statement::{Definition, Explain, Setting, Statement, Transaction},
};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::{logical_expr::LogicalPlan, scalar::ScalarValue, sql::sqlparser::ast};
use std::sync::Arc;

type Hints<'a> = &'a [Option<DataType>];

pub(super) async fn prepare(session: &mut Session, statement: Statement, hints: Hints<'_>) -> Result<Prepared> {
    check_state(session, &statement)?;
    let none = (Vec::new(), None);
    let (parameters, columns): (Vec<DataType>, Option<SchemaRef>) = match &statement {
        Statement::Query(query) => {
            let (planned, plan) = plan_query(session, query, &[]).await?;
            (planned.parameters(query, &plan, hints).await?, Some(Query::columns(&plan)))
        }
        Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) => {
            (dml::parameters(session, &statement, hints).await?, None)
        }
        Statement::Explain(explained) => {
            (explained_parameters(session, explained, hints).await?, Some(explain::schema()))
        }
        Statement::CopyTo(copy) => {
            let (planned, plan) = plan_query(session, &copy.query, &[]).await?;
            (planned.parameters(&copy.query, &plan, hints).await?, None)
        }
        Statement::CopyOut(copy) => {
            let (planned, plan) = plan_query(session, &copy.query, &[]).await?;
            (planned.parameters(&copy.query, &plan, hints).await?, None)
        }
        Statement::Setting(Setting::Show(name)) => (Vec::new(), Some(show::columns(name.as_deref())?)),
        Statement::ExplainDropDatabase(_) => (Vec::new(), Some(explain::schema())),
        Statement::Empty
        | Statement::CopyFrom(_)
        | Statement::Definition(_)
        | Statement::Setting(_)
        | Statement::Transaction(_)
        | Statement::Deallocate(_) => none,
    };
    Ok(Prepared { statement: Arc::new(statement), parameters, columns })
}

pub(super) async fn execute(
    session: &mut Session,
    prepared: &Prepared,
    parameters: Vec<ScalarValue>,
) -> Result<Outcome> {
    let statement = prepared.statement.as_ref();
    check_state(session, statement)?;
    if parameters.len() < prepared.parameters.len() {
        let message = format!(
            "bind message supplies {} parameters, but prepared statement requires {}",
            parameters.len(),
            prepared.parameters.len()
        );
        return Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, message));
    }
    match statement {
        Statement::Empty => Ok(Outcome::Empty),
        Statement::Query(query) => {
            let (query, plan) = plan_query(session, query, &parameters).await?;
            let rows = query.run(with_parameters(plan, parameters)?).await?;
            Ok(Outcome::Rows { tag: "SELECT", rows })
        }
        Statement::Explain(explained) => {
            let (query, plan) = plan_explained(session, explained, &parameters).await?;
            let plan = with_parameters(plan, parameters)?;
            let options = explain::ExplainOptions { analyze: explained.analyze, verbose: explained.verbose };
            let rows = explain::explain(&query.context, &plan, options).await?;
            Ok(Outcome::Rows { tag: "EXPLAIN", rows })
        }
        Statement::ExplainDropDatabase(name) => ddl::explain_drop_database(session, name).await,
        Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) => {
            check_writable(session, statement)?;
            dml::execute(session, statement, parameters).await.map(Outcome::Done)
        }
        Statement::CopyTo(copy) => copy::copy_to(session, copy, parameters).await.map(Outcome::Done),
        Statement::CopyOut(copy) => {
            let (query, plan) = plan_query(session, &copy.query, &parameters).await?;
            let rows = query.run(with_parameters(plan, parameters)?).await?;
            Ok(Outcome::CopyOut { rows, options: copy.options.clone() })
        }
        Statement::CopyFrom(from) => {
            check_writable(session, statement)?;
            Ok(Outcome::CopyIn(Box::new(CopyIn::begin(session, from).await?)))
        }
        Statement::Definition(definition) => define(session, definition).await,
        Statement::Setting(setting) => set(session, setting),
        Statement::Transaction(transaction) => bound(session, transaction).await,
        Statement::Deallocate(name) => {
            Ok(Outcome::Done(if name.is_none() { "DEALLOCATE ALL" } else { "DEALLOCATE" }.into()))
        }
    }
}

/// In a failed transaction only its end is accepted.
fn check_state(session: &Session, statement: &Statement) -> Result<()> {
    let ends = matches!(statement, Statement::Transaction(Transaction::Commit | Transaction::Rollback));
    if session.transaction_status() != TransactionStatus::Failed || ends || *statement == Statement::Empty {
        return Ok(());
    }
    let message = "current transaction is aborted, commands ignored until end of transaction block";
    Err(SqlError::new(SqlState::IN_FAILED_SQL_TRANSACTION, message))
}

fn check_writable(session: &Session, statement: &Statement) -> Result<()> {
    if !session.is_read_only() {
        return Ok(());
    }
    let what = match statement {
        Statement::Insert(_) => "INSERT",
        Statement::Update(_) => "UPDATE",
        Statement::Delete(_) => "DELETE",
        Statement::CopyFrom(_) => "COPY FROM",
        _ => "this statement",
    };
    let message = format!("cannot execute {what} in a read-only transaction");
    Err(SqlError::new(SqlState::READ_ONLY_SQL_TRANSACTION, message))
}

async fn plan_query(
    session: &mut Session,
    statement: &ast::Statement,
    parameters: &[ScalarValue],
) -> Result<(Query, LogicalPlan)> {
    let view = session.view().await?;
    let query = Query::new(session, view)?.with_parameters(parameters);
    let plan = query.plan(statement).await?;
    Ok((query, plan))
}

async fn plan_explained(
    session: &mut Session,
    explained: &Explain,
    parameters: &[ScalarValue],
) -> Result<(Query, LogicalPlan)> {
    match explained.statement.as_ref() {
        Statement::Query(query) => plan_query(session, query, parameters).await,
        write => dml::plan(session, write, parameters).await,
    }
}

async fn explained_parameters(session: &mut Session, explained: &Explain, hints: Hints<'_>) -> Result<Vec<DataType>> {
    match explained.statement.as_ref() {
        Statement::Query(query) => {
            let (planned, plan) = plan_query(session, query, &[]).await?;
            planned.parameters(query, &plan, hints).await
        }
        write => dml::parameters(session, write, hints).await,
    }
}

/// The plan with values in the place of its parameters.
///
/// # Errors
/// What DataFusion finds.
pub(crate) fn with_parameters(plan: LogicalPlan, parameters: Vec<ScalarValue>) -> Result<LogicalPlan> {
    if parameters.is_empty() { Ok(plan) } else { Ok(plan.with_param_values(parameters)?) }
}

async fn define(session: &mut Session, definition: &Definition) -> Result<Outcome> {
    if session.in_transaction() {
        let message = format!("{} cannot run inside a transaction block", ddl::tag(definition));
        return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
    }
    if session.is_read_only() {
        let message = format!("cannot execute {} in a read-only transaction", ddl::tag(definition));
        return Err(SqlError::new(SqlState::READ_ONLY_SQL_TRANSACTION, message));
    }
    shielded(ddl::execute(session, definition)).await?;
    Ok(Outcome::Done(ddl::tag(definition).into()))
}

fn set(session: &mut Session, setting: &Setting) -> Result<Outcome> {
    match setting {
        Setting::Show(name) => return show::show(session, name.as_deref()),
        Setting::Set { name, value, local } => {
            if *local && !session.remember_local(name) {
                let state = SqlState::NO_ACTIVE_SQL_TRANSACTION;
                session.notice(SqlError::new(state, "SET LOCAL can only be used in transaction blocks"));
                return Ok(Outcome::Done("SET".into()));
            }
            session.settings.set(name, value.as_deref())?;
        }
        Setting::SetTransaction { isolation, read_only, session: false } => {
            session.set_transaction(*isolation, *read_only)?;
        }
        Setting::SetTransaction { isolation, read_only, session: true } => {
            if let Some(isolation) = isolation {
                session.settings.set("default_transaction_isolation", Some(isolation.name()))?;
            }
            if let Some(read_only) = read_only {
                let value = if *read_only { "on" } else { "off" };
                session.settings.set("default_transaction_read_only", Some(value))?;
            }
        }
        Setting::Reset(Some(name)) => {
            session.settings.set(name, None)?;
            return Ok(Outcome::Done("RESET".into()));
        }
        Setting::Reset(None) => {
            session.settings.reset_all();
            return Ok(Outcome::Done("RESET".into()));
        }
        Setting::Discard(what) => {
            if *what == "ALL" {
                if session.in_transaction() {
                    let message = "DISCARD ALL cannot run inside a transaction block";
                    return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
                }
                session.settings.reset_all();
            }
            return Ok(Outcome::Done(format!("DISCARD {what}")));
        }
    }
    Ok(Outcome::Done("SET".into()))
}

async fn bound(session: &mut Session, transaction: &Transaction) -> Result<Outcome> {
    let tag = match transaction {
        Transaction::Begin { isolation, read_only, start } => {
            session.begin(*isolation, *read_only);
            if *start { "START TRANSACTION" } else { "BEGIN" }
        }
        Transaction::Commit => session.commit().await?,
        Transaction::Rollback => {
            session.rollback();
            "ROLLBACK"
        }
    };
    Ok(Outcome::Done(tag.into()))
}
