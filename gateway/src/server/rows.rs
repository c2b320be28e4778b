//! Rows on their way to the client.
//!
//! One batch at a time: it is encoded until the output is full, sent, and only when all of it is written the next is
//! asked for. A client that reads slowly slows the query down; nothing piles up. Rows that were found by their key are
//! written one by one, as they come from the store.

use crate::{
    activity::CopyProgress,
    copy::encode::CopyEncoder,
    pg::error::{Result, SqlError},
    provider::{RowValues, batches::FoundRows},
    server::{connection::Failure, interrupt::Guard, socket::Output},
    wire::encoder::{RowEncoder, Rows, write_values},
};
use bytes::BytesMut;
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use std::sync::Arc;

/// As what rows are sent.
pub(crate) enum Form {
    /// DataRow messages.
    Rows(RowEncoder),
    /// CopyData messages, between what begins and ends them.
    Copy(Box<CopyEncoder>, Arc<CopyProgress>),
}

impl Form {
    /// What makes the values of a batch.
    fn encoder(&self) -> &RowEncoder {
        match self {
            Self::Rows(encoder) => encoder,
            Self::Copy(copy, _) => &copy.rows,
        }
    }

    fn write(&mut self, rows: &Rows, row: usize, out: &mut BytesMut) -> Result<()> {
        match self {
            Self::Rows(_) => rows.write(row, out),
            Self::Copy(copy, _) => copy.write(rows, row, out),
        }
    }
}

/// The rows of a statement that runs.
pub(crate) struct RowsUnderWay {
    tag: &'static str,
    /// Rows that were sent.
    total: u64,
    source: Source,
}

/// Where rows come from.
enum Source {
    Batches(Batches),
    /// Rows of a table, one by one.
    Found(FoundRows, RowValues),
}

/// Rows in batches.
struct Batches {
    stream: SendableRecordBatchStream,
    form: Form,
    /// The batch that is being sent, and the next row of it.
    batch: Option<(Rows, usize)>,
}

impl RowsUnderWay {
    /// Rows of `stream` in a form.
    pub(crate) fn new(tag: &'static str, stream: SendableRecordBatchStream, form: Form) -> Self {
        Self { tag, total: 0, source: Source::Batches(Batches { stream, form, batch: None }) }
    }

    /// Rows that were found by their key, in the columns and formats of an encoder.
    pub(crate) fn found(rows: FoundRows, encoder: RowEncoder) -> Self {
        let is_told = Arc::ptr_eq(rows.schema(), encoder.schema()) || rows.schema() == encoder.schema();
        let layout = rows.layout().filter(|_| is_told);
        match layout.and_then(|layout| RowValues::of(layout, encoder.formats(), encoder.style())) {
            Some(values) => Self { tag: "SELECT", total: 0, source: Source::Found(rows, values) },
            None => Self::new("SELECT", rows.into_batches(), Form::Rows(encoder)),
        }
    }

    /// Sends rows, at most `rows_max`. Gives the command tag, or `None` when the bound was met.
    pub(crate) async fn send(
        &mut self,
        rows_max: Option<u64>,
        guard: &mut Guard<'_>,
        output: &mut Output,
    ) -> Result<Option<String>, Failure> {
        let rows_max = rows_max.unwrap_or(u64::MAX);
        let mut sent = 0;
        let is_suspended = match &mut self.source {
            Source::Batches(batches) => batches.send((&mut sent, rows_max), &mut self.total, guard, output).await?,
            Source::Found(rows, values) => {
                let suspended = send_found(rows, values, (&mut sent, rows_max), guard, output).await?;
                self.total += sent;
                suspended
            }
        };
        output.count_rows(sent);
        if is_suspended {
            return Ok(None);
        }
        // A write tells how many rows it wrote; a query, how many this Execute has given.
        let written = matches!(self.tag, "INSERT 0" | "UPDATE" | "DELETE");
        Ok(Some(tag(self.tag, if written { self.total } else { sent })))
    }
}

impl Batches {
    /// Sends rows until `sent` is `rows_max`: returns whether it is, so that others may follow.
    async fn send(
        &mut self,
        (sent, rows_max): (&mut u64, u64),
        total: &mut u64,
        guard: &mut Guard<'_>,
        output: &mut Output,
    ) -> Result<bool, Failure> {
        loop {
            if let Some((rows, next)) = &mut self.batch {
                while *next < rows.count() && *sent < rows_max {
                    self.form.write(rows, *next, &mut output.buffer)?;
                    *next += 1;
                    *sent += 1;
                    *total += 1;
                    if output.is_full() {
                        if let Form::Copy(_, progress) = &self.form {
                            progress.set(progress.bytes() + output.buffer.len() as u64, *total);
                        }
                        guard.run(output.send()).await??;
                    }
                }
                if *sent >= rows_max {
                    return Ok(true);
                }
            }
            self.batch = match guard.run(self.stream.next()).await? {
                Some(Ok(batch)) => Some((self.form.encoder().batch(&batch)?, 0)),
                Some(Err(error)) => return Err(SqlError::from(error).into()),
                None => {
                    if let Form::Copy(copy, _) = &self.form {
                        copy.end(&mut output.buffer);
                    }
                    return Ok(false);
                }
            };
        }
    }
}

/// The same of rows that were found.
async fn send_found(
    rows: &mut FoundRows,
    values: &mut RowValues,
    (sent, rows_max): (&mut u64, u64),
    guard: &mut Guard<'_>,
    output: &mut Output,
) -> Result<bool, Failure> {
    loop {
        while *sent < rows_max
            && let Some(row) = rows.next_received()
        {
            if !values.take(&row)? {
                continue;
            }
            write_values(values.iter(), &mut output.buffer)?;
            rows.count();
            *sent += 1;
            if output.is_full() {
                guard.run(output.send()).await??;
            }
        }
        if *sent >= rows_max {
            return Ok(true);
        }
        if rows.is_done() || !guard.run(rows.receive()).await?? {
            return Ok(false);
        }
    }
}

/// The command tag, with the number of rows where PostgreSQL has one.
fn tag(word: &str, rows: u64) -> String {
    match word {
        "SELECT" | "INSERT 0" | "UPDATE" | "DELETE" | "MERGE" | "FETCH" | "MOVE" | "COPY" => format!("{word} {rows}"),
        _ => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::tag;

    #[test]
    fn tags_count_where_postgres_does() {
        assert_eq!((tag("SELECT", 3), tag("INSERT 0", 1)), ("SELECT 3".to_owned(), "INSERT 0 1".to_owned()));
        assert_eq!((tag("SHOW", 1), tag("EXPLAIN", 9)), ("SHOW".to_owned(), "EXPLAIN".to_owned()));
    }
}
