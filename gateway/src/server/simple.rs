//! The simple protocol: text with statements, each run to its end, up to the first that fails.
//!
//! As in PostgreSQL, several statements of one text are one transaction when they write: what came before one that fails is
//! forgotten. Texts that hold definitions, or bounds of transactions of their own, are run statement by statement.

use crate::{
    server::{
        connection::{Connection, Failure},
        copy,
        rows::{Form, RowsUnderWay},
    },
    session::{Outcome, TransactionStatus},
    statement::{CursorStatement, Setting, Statement},
    wire::{encoder::RowEncoder, reply},
};

impl Connection {
    /// Runs the statements of a Query message. Errors are the caller's to tell.
    pub(crate) async fn query(&mut self, sql: String) -> Result<(), Failure> {
        self.session.statements.remove("");
        self.portals.remove("");
        let statements = Statement::parse_in(&sql, &self.session.identity.database)?;
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
        let count = statements.len();
        let mut ran = false;
        for statement in statements {
            let empty = matches!(statement, Statement::Empty);
            if empty && (ran || count > 1) {
                continue;
            }
            ran |= !empty;
            let done = self.run_one(statement).await;
            self.registration.end();
            done?;
        }
        if !ran {
            reply::empty(&mut self.output.buffer);
        }
        Ok(())
    }

    async fn run_one(&mut self, statement: Statement) -> Result<(), Failure> {
        if matches!(statement, Statement::Empty) {
            return Ok(());
        }
        let (mut guard, session, output) = self.begin();
        let prepared = guard.run(session.prepare_once(statement)).await??;
        let outcome = guard.run(session.execute(&prepared, Vec::new())).await??;
        let tag = match outcome {
            Outcome::Rows { tag, rows } => {
                let encoder = RowEncoder::new(prepared.columns.clone().unwrap_or_else(|| rows.schema()), &[])?;
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
    let count = statements.iter().filter(|of| **of != Statement::Empty).count();
    count > 1 && statements.iter().any(writes) && !statements.iter().any(by_itself)
}
