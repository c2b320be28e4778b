//! The simple protocol: text with statements, each run to its end, up to the first that fails.
//!
//! As in PostgreSQL, several statements of one text are one transaction when they write: what came before one that
//! fails is forgotten; definitions of a tenant's own are writes. Texts that hold other definitions, or bounds of
//! transactions of their own, are run statement by statement.

use crate::{
    ddl,
    execute::{Outcome, text::FromText},
    server::{
        connection::{Connection, Failure},
        copy,
        counting::End,
        rows::{Form, RowsUnderWay},
    },
    session::{Prepared, Session},
    sql::{
        ast::{
            Statement,
            session::{CursorStatement, Modes, Setting},
        },
        error_position,
    },
    statistics::Kind,
    wire::{encoder::RowEncoder, reply, transaction_status::TransactionStatus},
};
use arrow::datatypes::SchemaRef;

impl Connection {
    /// Runs the statements of a Query message. Errors are the caller's to tell.
    pub(crate) async fn query(&mut self, sql: String) -> Result<(), Failure> {
        self.session.statements.remove("");
        self.portals.remove("");
        let parsed = self.parse_long(&sql).await?;
        let mut statements = self.session.statements(&sql, parsed)?;
        if statements.len() == 1
            && let Some(statement) = statements.pop_if(|statement| statement.is_cached())
        {
            return self.run_alone(statement, (&sql, 0)).await;
        }
        // A long text is dropped; its errors have no position then.
        let text = if sql.len() > error_position::TEXT_BYTES_MAX { String::new() } else { sql };
        if !is_one_transaction(&self.session, &statements)
            || self.session.transaction_status() != TransactionStatus::Idle
        {
            return self.run_all(statements, &text).await;
        }
        self.session.begin(Modes::default());
        let done = match self.run_all(statements, &text).await {
            Ok(()) => self.session.commit().await.map(|_| ()).map_err(Failure::from),
            Err(failure) => {
                self.session.rollback();
                Err(failure)
            }
        };
        self.together(done.is_ok());
        done
    }

    async fn run_all(&mut self, statements: Vec<FromText>, text: &str) -> Result<(), Failure> {
        if statements.is_empty() {
            reply::empty(&mut self.output.buffer);
        }
        for (nth, statement) in statements.into_iter().enumerate() {
            self.run_alone(statement, (text, nth)).await?;
        }
        Ok(())
    }

    /// Runs a statement; `place` is the text that it stands in, and the how many of it it is, from 0.
    async fn run_alone(&mut self, work: FromText, place: (&str, usize)) -> Result<(), Failure> {
        let begun = self.begun(Kind::of(work.statement()));
        let done = self.run_one(work).await;
        let end = match &done {
            Ok((prepared, tag)) => End::Done(prepared, tag),
            Err(failure) => End::Failed(None, failure.state()),
        };
        self.ended(&begun, &end, place);
        done.map(|_| ()).map_err(|failure| failure.with_position(place, &self.session.identity.database))
    }

    /// What ran, and its command tag.
    async fn run_one(&mut self, work: FromText) -> Result<(Prepared, String), Failure> {
        let (mut guard, session, output) = self.begin();
        let admitted = guard.admit(work.statement()).await?;
        let prepared = match work {
            FromText::Cached(prepared) => prepared,
            FromText::Parsed(parsed) => guard.run(session.prepare_parsed(*parsed, &[])).await??,
        };
        let outcome = guard.run(session.execute(&prepared, Vec::new())).await??;
        let tag = match outcome {
            Outcome::Rows { tag, rows, .. } => {
                let encoder = RowEncoder::new(columns(&prepared, &rows.schema()), &[], session.style().clone())?;
                encoder.describe(&mut output.buffer);
                RowsUnderWay::new(tag, rows, Form::Rows(encoder)).send(None, &mut guard, output).await?
            }
            Outcome::Found { rows, .. } => {
                let encoder = RowEncoder::new(columns(&prepared, rows.schema()), &[], session.style().clone())?;
                encoder.describe(&mut output.buffer);
                RowsUnderWay::found(rows, encoder).send(None, &mut guard, output).await?
            }
            Outcome::CopyOut { rows, options } => {
                copy::begin_out(rows, options, session, output)?.send(None, &mut guard, output).await?
            }
            Outcome::CopyIn(copy) => Some(copy::take(*copy, &mut guard, session, output).await?),
            Outcome::Done(tag) => Some(tag),
            Outcome::Empty => None,
        };
        drop((guard, admitted));
        self.session.settle().await?;
        self.tell_notices();
        if let Some(tag) = tag {
            self.completed(&prepared.statement);
            reply::complete(&tag, &mut self.output.buffer);
            return Ok((prepared, tag));
        }
        Ok((prepared, String::new()))
    }
}

/// The columns as they were prepared; as they are in the rows if the catalog has changed in between.
fn columns(prepared: &Prepared, now: &SchemaRef) -> SchemaRef {
    let types = |schema: &SchemaRef| schema.fields().iter().map(|field| field.data_type().clone()).collect::<Vec<_>>();
    prepared.columns.as_ref().filter(|columns| types(columns) == types(now)).unwrap_or(now).clone()
}

/// Whether the statements of a text write together.
fn is_one_transaction(session: &Session, statements: &[FromText]) -> bool {
    let statements: Vec<&Statement> = statements.iter().map(FromText::statement).collect();
    let writes = |of: &Statement| {
        matches!(of, Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) | Statement::CopyFrom(_))
            || matches!(of, Statement::Merge(_) | Statement::WritingWith(_))
            || matches!(of, Statement::Cursor(CursorStatement::Declare(_)) | Statement::Execute(_))
            || matches!(of, Statement::Definition(_) | Statement::CreateTableAs(_))
            || matches!(of, Statement::CreateMaterialized(_) | Statement::RefreshMaterialized(_))
    };
    let by_itself = |of: &Statement| match of {
        Statement::Definition(definition) => ddl::stands_alone(session, definition),
        Statement::CreateTableAs(_) => session.identity.operator,
        of => matches!(
            of,
            Statement::Transaction(_)
                | Statement::Deallocate(_)
                | Statement::Maintenance(_)
                | Statement::Setting(Setting::Discard(_))
        ),
    };
    statements.len() > 1 && statements.iter().copied().any(writes) && !statements.iter().copied().any(by_itself)
}
