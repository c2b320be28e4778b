//! The simple protocol: text with statements, each run to its end, up to the first that fails.

use crate::{
    server::{
        connection::{Connection, Failure},
        rows::RowsUnderWay,
    },
    session::Outcome,
    statement::Statement,
    wire::{encoder::RowEncoder, reply},
};

impl Connection {
    /// Runs the statements of a Query message. Errors are the caller's to tell.
    pub(crate) async fn query(&mut self, sql: String) -> Result<(), Failure> {
        self.statements.remove("");
        self.portals.remove("");
        let statements = Statement::parse(&sql)?;
        drop(sql);
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
        let prepared = guard.run(session.prepare(statement, &[])).await??;
        let outcome = guard.run(session.execute(&prepared, Vec::new())).await??;
        let tag = match outcome {
            Outcome::Rows { tag, rows } => {
                let encoder = RowEncoder::new(prepared.columns.clone().unwrap_or_else(|| rows.schema()), &[])?;
                encoder.describe(&mut output.buffer);
                RowsUnderWay::new(tag, rows, encoder).send(None, &mut guard, output).await?
            }
            Outcome::Done(tag) => Some(tag),
            Outcome::Empty => None,
        };
        drop(guard);
        self.tell_notices();
        if let Some(tag) = tag {
            self.completed(&prepared.statement, &tag)?;
            reply::complete(&tag, &mut self.output.buffer);
        }
        Ok(())
    }
}
