//! The simple protocol: text with statements, each run to its end, up to the first that fails.
//!
//! As in PostgreSQL, several statements of one text are one transaction when they write: what came before one that fails is
//! forgotten. Texts that hold definitions, or bounds of transactions of their own, are run statement by statement.

use crate::{
    query::kept::Seen,
    server::{
        connection::{Connection, Failure},
        copy,
        rows::{Form, RowsUnderWay},
    },
    session::{Known, Outcome, Prepared, Text, TransactionStatus},
    statement::{CursorStatement, Setting, Statement},
    wire::{encoder::RowEncoder, reply},
};
use arrow::datatypes::SchemaRef;

impl Connection {
    /// Runs the statements of a Query message. Errors are the caller's to tell.
    pub(crate) async fn query(&mut self, sql: String) -> Result<(), Failure> {
        self.session.statements.remove("");
        self.portals.remove("");
        let text = Text { sql: &sql, types: None };
        let known = self.session.known(text);
        let seen = match known {
            Known::Prepared(prepared) => return self.run_alone(Work::Known(prepared)).await,
            Known::Again(seen) => Some(seen),
            Known::New => None,
        };
        let mut statements = Statement::parse_in(&sql, &self.session.identity.database)?;
        statements.retain(|statement| *statement != Statement::Empty);
        if let Some(seen) = seen.filter(|_| statements.len() == 1)
            && let Some(statement) = statements.pop()
        {
            return self.run_alone(Work::Again(text, seen, statement)).await;
        }
        drop(sql);
        if !is_one_transaction(&statements) || self.session.transaction_status() != TransactionStatus::Idle {
            return self.run_all(statements).await;
        }
        self.session.begin(None, None);
        match self.run_all(statements).await {
            Ok(()) => {
                self.session.commit().await?;
                Ok(())
            }
            Err(failure) => {
                self.session.rollback();
                Err(failure)
            }
        }
    }

    async fn run_all(&mut self, statements: Vec<Statement>) -> Result<(), Failure> {
        if statements.is_empty() {
            reply::empty(&mut self.output.buffer);
        }
        for statement in statements {
            self.run_alone(Work::New(statement)).await?;
        }
        Ok(())
    }

    async fn run_alone(&mut self, work: Work<'_>) -> Result<(), Failure> {
        let done = self.run_one(work).await;
        self.registration.end();
        done
    }

    async fn run_one(&mut self, work: Work<'_>) -> Result<(), Failure> {
        let (mut guard, session, output) = self.begin();
        let prepared = match work {
            Work::New(statement) => guard.run(session.prepare_once(statement)).await??,
            Work::Again(text, seen, statement) => {
                let prepared = guard.run(session.prepare(statement, &[])).await??;
                session.keep(text, seen, &prepared);
                prepared
            }
            Work::Known(prepared) => prepared,
        };
        let outcome = guard.run(session.execute(&prepared, Vec::new())).await??;
        let tag = match outcome {
            Outcome::Rows { tag, rows } => {
                let encoder = RowEncoder::new(columns(&prepared, &rows.schema()), &[])?;
                encoder.describe(&mut output.buffer);
                RowsUnderWay::new(tag, rows, Form::Rows(encoder)).send(None, &mut guard, output).await?
            }
            Outcome::CopyOut { rows, options } => {
                copy::begin_out(rows, options, output)?.send(None, &mut guard, output).await?
            }
            Outcome::CopyIn(copy) => Some(copy::take(*copy, &mut guard, session, output).await?),
            Outcome::Done(tag) => Some(tag),
            Outcome::Empty => None,
        };
        drop(guard);
        self.tell_notices();
        if let Some(tag) = tag {
            self.completed(&prepared.statement);
            reply::complete(&tag, &mut self.output.buffer);
        }
        Ok(())
    }
}

/// The columns as they were prepared; as they are in the rows if the catalog has changed in between.
fn columns(prepared: &Prepared, now: &SchemaRef) -> SchemaRef {
    let types = |schema: &SchemaRef| schema.fields().iter().map(|field| field.data_type().clone()).collect::<Vec<_>>();
    prepared.columns.as_ref().filter(|columns| types(columns) == types(now)).unwrap_or(now).clone()
}

/// A statement of a text.
enum Work<'a> {
    /// That is seen for the first time.
    New(Statement),
    /// That is a whole text, which came before.
    Again(Text<'a>, Seen, Statement),
    /// That was prepared before.
    Known(Prepared),
}

/// Whether the statements of a text write together.
fn is_one_transaction(statements: &[Statement]) -> bool {
    let writes = |of: &Statement| {
        matches!(of, Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) | Statement::CopyFrom(_))
            || matches!(of, Statement::Cursor(CursorStatement::Declare(_)) | Statement::Execute(_))
    };
    let by_itself = |of: &Statement| {
        matches!(
            of,
            Statement::Definition(_)
                | Statement::CreateTableAs(_)
                | Statement::Transaction(_)
                | Statement::Deallocate(_)
                | Statement::Upkeep(_)
                | Statement::Setting(Setting::Discard(_))
        )
    };
    statements.len() > 1 && statements.iter().any(writes) && !statements.iter().any(by_itself)
}
