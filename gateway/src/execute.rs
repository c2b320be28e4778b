//! The executive: the only room that knows how to run every kind of statement. PostgreSQL calls it tcop.
//!
//! [`Session::prepare`] analyses a statement, [`Session::execute`] runs it and gives an [`Outcome`]: rows as a stream,
//! or a command tag. `server` calls these for the simple and the extended protocol alike. Definitions go to `ddl`, COPY
//! to `copy`, writes to [`mod@write`], everything that reads to `query`.

pub(crate) mod auto_parameterize;
mod create_table_as;
mod cursor;
mod define;
mod describe;
mod erase;
mod lock_table;
mod locking;
mod maintenance;
mod materialized_view;
mod outcome;
mod prepared;
mod show;
pub(crate) mod text;
mod truncate;
mod write;
mod writing_with;

pub use outcome::Outcome;

use crate::{
    copy::{self, CopyIn},
    ddl,
    pg::{
        error::{Result, SqlError, SqlState},
        types::ParameterType,
    },
    point::{self, CompiledPlan},
    query::{Query, explain, parameter_values::ParameterValues, plan_cache::PreparedPlan},
    session::{Prepared, Session},
    sql::{
        ast::{
            Explain, Statement,
            session::{CursorStatement, Isolation, Listening, Setting, Transaction},
        },
        explain::analyzed_write,
    },
    view::View,
    wire::transaction_status::TransactionStatus,
};
use arrow::datatypes::SchemaRef;
use datafusion::{logical_expr::LogicalPlan, scalar::ScalarValue, sql::sqlparser::ast};
use futures::future::BoxFuture;
use std::sync::Arc;

type Hints<'a> = &'a [Option<ParameterType>];

/// When a statement that is analysed runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runs {
    /// At once, and once.
    Now,
    /// With values of its parameters, whenever and as often as the client says.
    Later,
}

/// The futures are boxed, so that this crate compiles them, as [`Server::start`](crate::server::Server::start) says.
impl Session {
    /// Analyses a statement. `hints` are the types that the client declared for `$1`, `$2`, …; `None` to infer.
    ///
    /// # Errors
    /// What is wrong with the statement.
    pub fn prepare<'a>(
        &'a mut self,
        statement: Statement,
        hints: &'a [Option<ParameterType>],
    ) -> BoxFuture<'a, Result<Prepared>> {
        Box::pin(async move {
            self.set_wanted();
            Box::pin(prepare(self, statement, hints, Runs::Later)).await.inspect_err(|_| self.failed())
        })
    }

    /// Analyses a statement without parameters that runs at once, and once: what its rows are read from is settled
    /// here.
    ///
    /// # Errors
    /// What is wrong with the statement.
    pub fn prepare_once(&mut self, statement: Statement) -> BoxFuture<'_, Result<Prepared>> {
        Box::pin(async move {
            self.set_wanted();
            Box::pin(prepare(self, statement, &[], Runs::Now)).await.inspect_err(|_| self.failed())
        })
    }

    /// Runs a statement.
    ///
    /// # Errors
    /// What went wrong before its first row; later errors come from the stream.
    pub fn execute<'a>(
        &'a mut self,
        prepared: &'a Prepared,
        parameters: Vec<ScalarValue>,
    ) -> BoxFuture<'a, Result<Outcome>> {
        Box::pin(async move {
            self.set_wanted();
            Box::pin(execute(self, prepared, parameters)).await.inspect_err(|_| self.failed())
        })
    }
}

async fn prepare(session: &mut Session, statement: Statement, hints: Hints<'_>, runs: Runs) -> Result<Prepared> {
    session.check_rights()?;
    check_state(session, &statement)?;
    let none = (Vec::new(), None);
    let (mut kept, mut plans) = (CompiledPlan::default(), PreparedPlan::default());
    let (parameters, columns): (Vec<ParameterType>, Option<SchemaRef>) = match &statement {
        Statement::Query(_)
        | Statement::Insert(_)
        | Statement::Update(_)
        | Statement::Delete(_)
        | Statement::Merge(_) => {
            let view = session.view().await?;
            let compiled = if session.takes_fast_path() { point::compile(&statement, hints, &view) } else { None };
            if session.takes_fast_path() {
                kept = CompiledPlan::of(compiled.as_ref(), &view);
            }
            match (compiled, &statement) {
                (Some(compiled), _) => (compiled.parameters, compiled.columns),
                (None, Statement::Query(query)) => {
                    if hints.is_empty()
                        && let Some(lifted) = Box::pin(auto_parameterize::prepare(session, query, &view)).await
                    {
                        return Ok(lifted);
                    }
                    let (parameters, plan, query) = Box::pin(analyse(session, view, query, hints)).await?;
                    let columns = if runs == Runs::Now && parameters.is_empty() {
                        let (columns, settled) = Box::pin(query.settle(plan)).await?;
                        plans = PreparedPlan::ready(query, settled);
                        columns
                    } else {
                        plans = PreparedPlan::of(&query, &plan, &parameters);
                        Query::columns(&plan).await
                    };
                    (parameters, Some(columns))
                }
                (None, write) => Box::pin(write::parameters(session, view, write, hints)).await?,
            }
        }
        Statement::LockingQuery(query) => {
            let (parameters, plan) = analyse_now(session, &query.unlocked, hints).await?;
            (parameters, Some(Query::columns(&plan).await))
        }
        Statement::Explain(explained) => {
            let columns = explain::schema_of(explained.format);
            (explained_parameters(session, explained, hints).await?, Some(columns))
        }
        Statement::CreateTableAs(create) => (analyse_now(session, &create.query, hints).await?.0, None),
        Statement::CopyTo(copy) => (analyse_now(session, &copy.query, hints).await?.0, None),
        Statement::CopyOut(copy) => (analyse_now(session, &copy.query, hints).await?.0, None),
        Statement::Cursor(CursorStatement::Declare(declare)) => {
            (analyse_now(session, declare.query.unlocked(), hints).await?.0, None)
        }
        Statement::Cursor(CursorStatement::Fetch(fetch)) => (Vec::new(), Some(session.cursors.schema(&fetch.name)?)),
        Statement::Execute(execute) => (Vec::new(), prepared::executed(session, execute)?.columns),
        Statement::Setting(Setting::Show(name)) => (Vec::new(), Some(show::columns(name.as_deref())?)),
        Statement::WritingWith(parts) => Box::pin(writing_with::parameters(session, parts, hints)).await?,
        Statement::Erase(_) => {
            let view = session.view().await?;
            Box::pin(write::parameters(session, view, &statement, hints)).await?
        }
        Statement::ExplainDropDatabase(_) | Statement::ExplainAlterTable(_) => (Vec::new(), Some(explain::schema())),
        Statement::Describe(description) => (Vec::new(), Some(describe::columns(description))),
        Statement::Empty
        | Statement::CopyFrom(_)
        | Statement::Definition(_)
        | Statement::CreateMaterialized(_)
        | Statement::RefreshMaterialized(_)
        | Statement::Setting(_)
        | Statement::Transaction(_)
        | Statement::Prepare(_)
        | Statement::Deallocate(_)
        | Statement::Cursor(_)
        | Statement::Truncate { .. }
        | Statement::Lock(_)
        | Statement::Listen(_)
        | Statement::Notify { .. }
        | Statement::Maintenance(_) => none,
    };
    Ok(Prepared { kept: Arc::new(kept), plans: Arc::new(plans), ..Prepared::new(statement, parameters, columns) })
}

/// A future that is made and kept off the caller's stack: without optimisation each of the statements below would have
/// its own room there, and EXECUTE takes that room twice.
fn apart<F: Future>(make: impl FnOnce() -> F) -> std::pin::Pin<Box<F>> {
    Box::pin(make())
}

async fn execute(session: &mut Session, prepared: &Prepared, values: Vec<ScalarValue>) -> Result<Outcome> {
    let statement = prepared.statement.as_ref();
    session.check_rights()?;
    check_state(session, statement)?;
    if values.len() < prepared.parameters.len() {
        let message = format!(
            "bind message supplies {} parameters, but prepared statement requires {}",
            values.len(),
            prepared.parameters.len()
        );
        return Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, message));
    }
    let parameters = ParameterValues::new(values, &prepared.parameters);
    match statement {
        Statement::Empty => Ok(Outcome::Empty),
        Statement::LockingQuery(query) => {
            let (rows, needs) = apart(move || locking::rows(session, query, parameters)).await?;
            Ok(Outcome::Rows { tag: "SELECT", rows, needs })
        }
        Statement::Query(query) => apart(move || answer(session, prepared, query, parameters)).await,
        Statement::Explain(explained) => {
            let (query, plan) = match explained.statement.as_ref() {
                Statement::Execute(run) => {
                    let named = prepared::executed(session, run)?;
                    let values = prepared::arguments(session, run, &named.parameters).await?;
                    let values = ParameterValues::new(values, &named.parameters);
                    if explained.analyze
                        && !matches!(*named.statement, Statement::Query(_) | Statement::LockingQuery(_))
                    {
                        return Err(analyzed_write());
                    }
                    let (query, plan) = plan_explained(session, &named.statement, &values).await?;
                    (query, values.put(plan)?)
                }
                statement => {
                    let (query, plan) = plan_explained(session, statement, &parameters).await?;
                    (query, parameters.put(plan)?)
                }
            };
            let options = explain::ExplainOptions {
                analyze: explained.analyze,
                verbose: explained.verbose,
                format: explained.format,
            };
            let rows = explain::explain(&query.context, &plan, options).await?;
            Ok(Outcome::Rows { tag: "EXPLAIN", rows, needs: query.statement_context().needs.clone() })
        }
        Statement::ExplainDropDatabase(name) => {
            let rows = ddl::explain_drop_database(session, name).await?;
            Ok(Outcome::Rows { tag: "EXPLAIN", rows, needs: Arc::default() })
        }
        Statement::ExplainAlterTable(alter) => {
            let rows = Box::pin(ddl::explain_alter_table(session, alter)).await?;
            Ok(Outcome::Rows { tag: "EXPLAIN", rows, needs: Arc::default() })
        }
        Statement::Erase(_) => {
            check_writable(session, statement)?;
            let parameters = &parameters;
            apart(move || erase::erase(session, statement, parameters)).await.map(Outcome::Done)
        }
        Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) | Statement::Merge(_) => {
            check_writable(session, statement)?;
            apart(move || write::execute(session, prepared, parameters)).await
        }
        Statement::WritingWith(parts) => {
            parts.iter().try_for_each(|part| match &part.statement {
                Statement::Query(_) => Ok(()),
                write => check_writable(session, write),
            })?;
            let parameters = &parameters;
            apart(move || writing_with::execute(session, parts, parameters)).await
        }
        Statement::CopyTo(copy) => apart(move || copy::copy_to(session, copy, parameters)).await.map(Outcome::Done),
        Statement::CopyOut(copy) => {
            let (query, plan) = plan_query(session, &copy.query, &parameters).await?;
            let rows = query.run(parameters.put(plan)?).await?;
            Ok(Outcome::CopyOut { rows, options: copy.options.clone() })
        }
        Statement::CopyFrom(from) => {
            check_writable(session, statement)?;
            Ok(Outcome::CopyIn(Box::new(apart(move || CopyIn::begin(session, from)).await?)))
        }
        Statement::Definition(definition) => apart(move || define::define(session, definition)).await,
        Statement::CreateTableAs(create) => apart(move || define::table_as(session, create, parameters)).await,
        Statement::CreateMaterialized(create) => apart(move || define::materialized(session, create)).await,
        Statement::RefreshMaterialized(refresh) => apart(move || define::refreshed(session, refresh)).await,
        Statement::Setting(setting) => set(session, setting),
        Statement::Transaction(transaction) => bound(session, transaction).await,
        Statement::Prepare(prepare) => {
            apart(move || prepared::prepare(session, prepare)).await?;
            Ok(Outcome::Done("PREPARE".into()))
        }
        Statement::Execute(run) => {
            let named = prepared::executed(session, run)?;
            let values = prepared::arguments(session, run, &named.parameters).await?;
            let named = &named;
            apart(move || execute(session, named, values)).await
        }
        Statement::Deallocate(name) => {
            session.statements.deallocate(name.as_deref())?;
            Ok(Outcome::Done(if name.is_none() { "DEALLOCATE ALL" } else { "DEALLOCATE" }.into()))
        }
        Statement::Cursor(cursor) => apart(move || cursor::run(session, cursor, parameters)).await,
        Statement::Truncate { tables, restart } => {
            check_writable(session, statement)?;
            apart(move || truncate::truncate(session, tables, *restart)).await?;
            Ok(Outcome::Done("TRUNCATE TABLE".into()))
        }
        Statement::Lock(relations) => {
            apart(move || lock_table::lock(session, relations)).await?;
            Ok(Outcome::Done("LOCK TABLE".into()))
        }
        Statement::Listen(change) => {
            session.listen(change.clone()).await?;
            Ok(Outcome::Done(if matches!(change, Listening::To(_)) { "LISTEN" } else { "UNLISTEN" }.into()))
        }
        Statement::Notify { channel, payload } => {
            session.notify(channel, payload).await?;
            Ok(Outcome::Done("NOTIFY".into()))
        }
        Statement::Maintenance(upkeep) => maintenance::maintain(session, upkeep),
        Statement::Describe(description) => {
            let view = session.view().await?;
            describe::rows(&session.statement_context(&view), description)
        }
    }
}

/// Runs a query.
async fn answer(
    session: &mut Session,
    prepared: &Prepared,
    query: &ast::Statement,
    parameters: ParameterValues,
) -> Result<Outcome> {
    if let Some((prepared, values)) = prepared.parameterized.as_ref().and_then(|one| one.valid(session)) {
        return Box::pin(execute(session, prepared, values)).await;
    }
    if let Some((query, plan)) = prepared.plans.take_ready() {
        let rows = Box::pin(query.run_settled(plan)).await?;
        let needs = query.statement_context().needs.clone();
        return Ok(Outcome::Rows { tag: "SELECT", rows, needs });
    }
    let view = session.view().await?;
    if session.takes_fast_path()
        && let Some((rows, needs)) = prepared.point_read(session, &parameters, &view)?
    {
        return Ok(Outcome::Found { rows, needs });
    }
    let of_values = session.query_of_cached(view)?.with_parameters(&parameters);
    let needs = of_values.statement_context().needs.clone();
    if let Some(physical) = Box::pin(prepared.plans.physical(&of_values, &parameters)).await? {
        return Ok(Outcome::Rows { tag: "SELECT", rows: of_values.run_short(physical)?, needs });
    }
    let (of_values, plan) = Box::pin(prepared.plans.optimized(of_values, query, &parameters)).await?;
    let physical = Box::pin(of_values.physical(&plan)).await?;
    prepared.plans.keep_physical(&of_values, &parameters, &physical)?;
    let rows = of_values.run_physical(&plan, physical)?;
    Ok(Outcome::Rows { tag: "SELECT", rows, needs })
}

/// In a failed transaction only its end is accepted.
fn check_state(session: &Session, statement: &Statement) -> Result<()> {
    let ends = matches!(
        statement,
        Statement::Transaction(Transaction::Commit { .. } | Transaction::Rollback { .. } | Transaction::RollbackTo(_))
    );
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
        Statement::Delete(_) | Statement::Erase(_) => "DELETE",
        Statement::Merge(_) => "MERGE",
        Statement::CopyFrom(_) => "COPY FROM",
        Statement::Truncate { .. } => "TRUNCATE TABLE",
        _ => "this statement",
    };
    let message = format!("cannot execute {what} in a read-only transaction");
    Err(SqlError::new(SqlState::READ_ONLY_SQL_TRANSACTION, message))
}

/// [`analyse`] of what is seen now.
async fn analyse_now(
    session: &mut Session,
    statement: &ast::Statement,
    hints: Hints<'_>,
) -> Result<(Vec<ParameterType>, LogicalPlan)> {
    let view = session.view().await?;
    let (types, plan, _) = analyse(session, view, statement, hints).await?;
    Ok((types, plan))
}

/// The types of a query's parameters, its plan with them, and where it was planned.
async fn analyse(
    session: &Session,
    view: View,
    statement: &ast::Statement,
    hints: Hints<'_>,
) -> Result<(Vec<ParameterType>, LogicalPlan, Query)> {
    let query = session.query(view)?.with_types(hints);
    let plan = query.plan(statement).await?;
    let types = query.parameters(statement, &plan, hints).await?;
    if !plan.schema().fields().iter().any(|field| field.data_type().is_null()) || types.is_empty() {
        return Ok((types, plan, query));
    }
    // A column may be one only once its parameter has a type.
    let known: Vec<Option<ParameterType>> = types.iter().cloned().map(Some).collect();
    let query = query.with_types(&known);
    let plan = query.plan(statement).await?;
    Ok((types, plan, query))
}

async fn plan_query(
    session: &mut Session,
    statement: &ast::Statement,
    parameters: &ParameterValues,
) -> Result<(Query, LogicalPlan)> {
    let view = session.view().await?;
    let query = session.query(view)?.with_parameters(parameters);
    let plan = query.plan(statement).await?;
    Ok((query, plan))
}

async fn plan_explained(
    session: &mut Session,
    explained: &Statement,
    parameters: &ParameterValues,
) -> Result<(Query, LogicalPlan)> {
    match explained {
        Statement::Query(query) => plan_query(session, query, parameters).await,
        Statement::LockingQuery(query) => {
            let (planned, plan) = plan_query(session, &query.unlocked, parameters).await?;
            locking::note_locks(&planned, query)?;
            Ok((planned, plan))
        }
        write => write::plan(session, write, parameters).await,
    }
}

async fn explained_parameters(
    session: &mut Session,
    explained: &Explain,
    hints: Hints<'_>,
) -> Result<Vec<ParameterType>> {
    match explained.statement.as_ref() {
        Statement::Query(query) => Ok(analyse_now(session, query, hints).await?.0),
        Statement::LockingQuery(query) => Ok(analyse_now(session, &query.unlocked, hints).await?.0),
        Statement::Execute(execute) => prepared::executed(session, execute).map(|_| Vec::new()),
        write => {
            let view = session.view().await?;
            write::parameters(session, view, write, hints).await.map(|(parameters, _)| parameters)
        }
    }
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
        Setting::SetTransaction { modes, session: false } => session.set_transaction(*modes)?,
        Setting::SetTransaction { modes, session: true } => {
            let word = |is: bool| if is { "on" } else { "off" };
            let values = [
                ("default_transaction_isolation", modes.isolation.map(Isolation::name)),
                ("default_transaction_read_only", modes.read_only.map(word)),
                ("default_transaction_deferrable", modes.deferrable.map(word)),
            ];
            for (name, value) in values.into_iter().filter(|(_, value)| value.is_some()) {
                session.settings.set(name, value)?;
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
                session.statements.deallocate(None)?;
                session.cursors.close(None)?;
                session.unlisten();
                session.advisory_locks.0.unlock_all();
            }
            if matches!(*what, "ALL" | "PLANS") {
                session.plan_cache.clear();
            }
            if matches!(*what, "ALL" | "TEMP") {
                session.discard_temporary();
            }
            if matches!(*what, "ALL" | "SEQUENCES") {
                session.last_values.forget();
            }
            return Ok(Outcome::Done(format!("DISCARD {what}")));
        }
    }
    Ok(Outcome::Done("SET".into()))
}

async fn bound(session: &mut Session, transaction: &Transaction) -> Result<Outcome> {
    let tag = match transaction {
        Transaction::Begin { modes, start } => {
            session.begin(*modes);
            if *start { "START TRANSACTION" } else { "BEGIN" }
        }
        Transaction::Commit { chain } => {
            let next = session.next_of_chain(*chain, "COMMIT AND CHAIN")?;
            let tag = session.commit().await?;
            session.begin_chained(next);
            tag
        }
        Transaction::Rollback { chain } => {
            let next = session.next_of_chain(*chain, "ROLLBACK AND CHAIN")?;
            session.rollback();
            session.begin_chained(next);
            "ROLLBACK"
        }
        Transaction::Savepoint(name) => {
            session.savepoint(name)?;
            "SAVEPOINT"
        }
        Transaction::RollbackTo(name) => {
            session.rollback_to(name)?;
            "ROLLBACK"
        }
        Transaction::Release(name) => {
            session.release(name)?;
            "RELEASE"
        }
    };
    Ok(Outcome::Done(tag.into()))
}
