//! `COPY` over a connection: rows that go out, and data that come in.
//!
//! Data are taken message by message: while one is worked on, no more is read than the socket's buffer, so that a
//! client that is faster than the store waits. A client that goes away in the middle ends the statement; what was not
//! written then never is.

use crate::{
    copy::{CopyIn, encode::CopyEncoder},
    pg::{
        codec::format::utf8,
        error::{Result, SqlError, SqlState},
    },
    server::{
        connection::Failure,
        interrupt::Guard,
        rows::{Form, RowsUnderWay},
        socket::Output,
    },
    session::Session,
    sql::ast::copy::CopyOptions,
    wire::reply,
};
use datafusion::execution::SendableRecordBatchStream;
use std::io;

/// Begins to send the rows of a `COPY … TO STDOUT`.
pub(crate) fn begin_out(
    rows: SendableRecordBatchStream,
    options: CopyOptions,
    session: &Session,
    output: &mut Output,
) -> Result<RowsUnderWay> {
    let encoder = CopyEncoder::new(rows.schema(), options, session.style().clone())?;
    encoder.begin(&mut output.buffer);
    let progress = session.copying(0, "COPY TO");
    Ok(RowsUnderWay::new("COPY", rows, Form::Copy(Box::new(encoder), progress)))
}

/// Takes the data of a `COPY … FROM STDIN`; the command tag.
pub(crate) async fn take(
    mut copy: CopyIn,
    guard: &mut Guard<'_>,
    session: &mut Session,
    output: &mut Output,
) -> Result<String, Failure> {
    reply::copy_in(copy.is_binary(), copy.columns(), &mut output.buffer);
    let taken = take_all(&mut copy, guard, session, output).await;
    if taken.is_err() {
        // However it ended, nothing of it is written any more when that is told.
        copy.settle(session).await;
    }
    taken
}

async fn take_all(
    copy: &mut CopyIn,
    guard: &mut Guard<'_>,
    session: &mut Session,
    output: &mut Output,
) -> Result<String, Failure> {
    guard.run(output.send()).await??;
    let (progress, mut bytes) = (session.copying(copy.relation(), "COPY FROM"), 0);
    loop {
        let frame = guard.frame().await?;
        bytes += frame.body.len() as u64;
        match frame.kind {
            b'd' => {
                guard.run(copy.take(session, &frame.body)).await??;
                progress.set(bytes, copy.rows());
            }
            b'c' => return Ok(guard.run(copy.finish(session)).await??),
            b'f' => {
                let reason = frame.body.strip_suffix(b"\0").unwrap_or(&frame.body);
                let error = copy.given_up(session, utf8(reason)?).await;
                return Err(error.into());
            }
            // A client of the extended protocol may have sent these ahead.
            b'H' | b'S' => {}
            b'X' => return Err(Failure::Lost(io::ErrorKind::ConnectionReset.into())),
            kind => {
                let message = format!("unexpected message type 0x{kind:02X} during COPY from stdin");
                return Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, message).into());
            }
        }
    }
}
