//! Parts of a load that are written to a server while the next is read: the server is asked to do something while this
//! side reads texts, and the other way round.
//!
//! One part is under way at a time, and its rows are kept until it is there: a commit that the catalog has refused is
//! tried again, as other parts are. Keys of a part are looked up when the part before is written, or before where its
//! keys lie elsewhere.

use super::{Failed, Load};
use crate::{
    dml::insert::NewRow,
    pg::error::{Result, SqlError, SqlState},
    session::Session,
    shield::shielded,
};
use keyspan_storage::RowKey;
use tokio::task::JoinHandle;

/// A part that is being written.
pub(super) struct Behind {
    commit: JoinHandle<Result<()>>,
    rows: Vec<NewRow>,
    span: Option<(RowKey, RowKey)>,
}

/// The first and the last key.
fn span(rows: &[NewRow]) -> Option<(RowKey, RowKey)> {
    let keys = || rows.iter().map(|row| &row.key);
    keys().min().cloned().zip(keys().max().cloned())
}

impl Load {
    /// Begins to write a part, once the part before is there; waits for the last one.
    pub(super) async fn write_behind(
        &mut self,
        session: &mut Session,
        rows: Vec<NewRow>,
        last: bool,
    ) -> Result<(), Failed> {
        let span = span(&rows);
        let before = self.behind.as_ref().and_then(|behind| behind.span.as_ref());
        if before.zip(span.as_ref()).is_none_or(|(before, span)| span.0 <= before.1 && before.0 <= span.1) {
            self.settle(session).await?;
        }
        if !rows.is_empty() {
            let (pin, written) = self.written(session, &rows, None).await?;
            self.settle(session).await?;
            let commit = session.begin_write(&pin, written).await?;
            self.behind = Some(Behind { commit, rows, span });
        }
        if last { self.settle(session).await } else { Ok(()) }
    }

    /// Waits for the part that is being written, if there is one: a stop of the statement waits, too.
    ///
    /// # Errors
    /// As [`Load::write`].
    pub(crate) async fn settle(&mut self, session: &mut Session) -> Result<(), Failed> {
        let Some(Behind { commit, rows, .. }) = self.behind.take() else { return Ok(()) };
        let done = shielded(commit)
            .await
            .map_err(|stopped| SqlError::new(SqlState::INTERNAL_ERROR, format!("a part of a load: {stopped}")));
        match done.flatten() {
            Err(error) if error.state == SqlState::SERIALIZATION_FAILURE => self.write_part(session, &rows).await,
            done => {
                done?;
                self.stored += rows.len() as u64;
                self.count_rows(session, rows.len());
                Ok(())
            }
        }
    }
}
