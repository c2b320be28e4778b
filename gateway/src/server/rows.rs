//! Rows on their way to the client.
//!
//! One batch at a time: it is encoded until the output is full, sent, and only when all of it is written the next is
//! asked for. A client that reads slowly slows the query down; nothing piles up.

use crate::{
    activity::CopyProgress,
    copy::encode::CopyEncoder,
    pg::error::{Result, SqlError},
    server::{connection::Failure, interrupt::Guard, socket::Output},
    wire::encoder::{RowEncoder, Rows},
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
    stream: SendableRecordBatchStream,
    form: Form,
    /// Rows that were sent.
    total: u64,
    /// The batch that is being sent, and the next row of it.
    batch: Option<(Rows, usize)>,
}

impl RowsUnderWay {
    /// Rows of `stream` in a form.
    pub(crate) fn new(tag: &'static str, stream: SendableRecordBatchStream, form: Form) -> Self {
        Self { tag, stream, form, total: 0, batch: None }
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
        loop {
            if let Some((rows, next)) = &mut self.batch {
                while *next < rows.count() && sent < rows_max {
                    self.form.write(rows, *next, &mut output.buffer)?;
                    (*next, sent) = (*next + 1, sent + 1);
                    self.total += 1;
                    if output.is_full() {
                        if let Form::Copy(_, progress) = &self.form {
                            progress.set(progress.bytes() + output.buffer.len() as u64, self.total);
                        }
                        guard.run(output.send()).await??;
                    }
                }
                if sent >= rows_max {
                    output.count_rows(sent);
                    return Ok(None);
                }
            }
            self.batch = match guard.run(self.stream.next()).await? {
                Some(Ok(batch)) => Some((self.form.encoder().batch(&batch)?, 0)),
                Some(Err(error)) => return Err(SqlError::from(error).into()),
                None => {
                    output.count_rows(sent);
                    if let Form::Copy(copy, _) = &self.form {
                        copy.end(&mut output.buffer);
                    }
                    // A write tells how many rows it wrote; a query, how many this Execute has given.
                    let written = matches!(self.tag, "INSERT 0" | "UPDATE" | "DELETE");
                    return Ok(Some(tag(self.tag, if written { self.total } else { sent })));
                }
            };
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
