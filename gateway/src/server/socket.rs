//! A client's connection as two buffers: bytes that came and are not read yet, bytes that are written and not sent yet.
//!
//! Both halves may be given up at any moment without losing bytes, so that a statement can be stopped while either
//! waits.

use crate::{
    pg::error::{SqlError, SqlState},
    resources::{MessagePermit, TenantMessages},
    statistics::Statistics,
    wire::frontend::Frame,
};
use bytes::{Buf, BytesMut};
use std::{future, io, sync::Arc, time::Duration};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::time::timeout;

/// Bytes that are read ahead while a statement runs, at most; beyond, a client that goes away is not noticed.
pub(crate) const READ_AHEAD_MAX: usize = 64 << 10;
/// Bytes that there is room for as more is read, at least: the messages of a short statement, so that they come by one
/// read.
const READ_BYTES_MIN: usize = 1 << 10;
/// Bytes that there is room for while all that came filled its room, at most.
const READ_BYTES_MAX: usize = 64 << 10;
/// Bytes of output after which they are sent.
pub(crate) const SEND_BYTES: usize = 64 << 10;

/// Messages up to this length are not counted: a connection's buffers are as large.
const SHORT_MESSAGE_BYTES: usize = 64 << 10;
/// How long the rest of a message may be away.
pub(crate) const STALL_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a message waits for room.
const ADMISSION_TIMEOUT: Duration = Duration::from_secs(30);

/// A stream of bytes both ways: TCP, or TLS over it.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// What a client sends.
pub(crate) struct Input {
    reader: ReadHalf<Box<dyn Stream>>,
    /// Bytes that came.
    pub(crate) buffer: BytesMut,
    /// Bytes that there is to be room for.
    room: usize,
    ended: bool,
    /// Room for long messages of all connections; `None` before a client has logged in, and in tests.
    messages: Option<TenantMessages>,
    /// What the message takes of it that the buffer begins with.
    admitted: Option<MessagePermit>,
    /// Where bytes are counted; `None` before a client has logged in.
    statistics: Option<Arc<Statistics>>,
}

/// What a client is sent.
pub(crate) struct Output {
    writer: WriteHalf<Box<dyn Stream>>,
    /// Messages to be sent.
    pub(crate) buffer: BytesMut,
    /// Where bytes and rows are counted; `None` before a client has logged in.
    statistics: Option<Arc<Statistics>>,
}

/// Splits a stream.
pub(crate) fn split(stream: Box<dyn Stream>) -> (Input, Output) {
    let (reader, writer) = tokio::io::split(stream);
    let buffer = BytesMut::new();
    (
        Input {
            reader,
            buffer: buffer.clone(),
            room: READ_BYTES_MIN,
            ended: false,
            messages: None,
            admitted: None,
            statistics: None,
        },
        Output { writer, buffer, statistics: None },
    )
}

impl Input {
    /// Reads more; `false` at the end.
    pub(crate) async fn fill(&mut self) -> io::Result<bool> {
        if self.ended {
            return Ok(false);
        }
        if self.buffer.capacity() - self.buffer.len() < self.room {
            self.buffer.reserve(self.room);
        }
        let room = self.buffer.capacity() - self.buffer.len();
        let count = self.reader.read_buf(&mut self.buffer).await?;
        self.room = if count < room { READ_BYTES_MIN } else { (2 * room).clamp(READ_BYTES_MIN, READ_BYTES_MAX) };
        self.ended = count == 0;
        if let Some(statistics) = &self.statistics {
            statistics.bytes_received.add(count as u64);
        }
        Ok(count > 0)
    }

    /// Counts bytes from now on.
    pub(crate) fn count_into(&mut self, statistics: Arc<Statistics>) {
        self.statistics = Some(statistics);
    }

    /// Bounds long messages by what there is room for in all connections.
    pub(crate) fn bound_messages(&mut self, messages: TenantMessages) {
        self.messages = Some(messages);
    }

    /// Waits for room for the message that the buffer begins with, if it is a long one. A short one needs none.
    ///
    /// # Errors
    /// 53200 if there is none for [`ADMISSION_TIMEOUT`].
    pub(crate) async fn admit(&mut self) -> Result<(), SqlError> {
        let (Some(messages), None) = (&self.messages, &self.admitted) else { return Ok(()) };
        let Some(bytes) = Frame::announced(&self.buffer).filter(|bytes| *bytes > SHORT_MESSAGE_BYTES) else {
            return Ok(());
        };
        match timeout(ADMISSION_TIMEOUT, messages.take(bytes)).await {
            Ok(Some(permit)) => {
                self.admitted = Some(permit);
                Ok(())
            }
            _ => Err(SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory for messages of clients")
                .with_detail(format!("A message of {} MiB found no room.", bytes >> 20))
                .with_hint("COPY sends many rows in short messages.")),
        }
    }

    /// The room that a message took, for as long as what it holds is used.
    pub(crate) fn take_admitted(&mut self) -> Option<MessagePermit> {
        self.admitted.take()
    }

    /// Waits until the client has gone away, reading ahead meanwhile.
    pub(crate) async fn gone(&mut self) {
        while self.buffer.len() < READ_AHEAD_MAX {
            if !matches!(self.fill().await, Ok(true)) {
                return;
            }
        }
        future::pending().await
    }
}

impl Output {
    /// Sends what is in the buffer. Given up half-way, the rest stays in the buffer.
    pub(crate) async fn send(&mut self) -> io::Result<()> {
        while self.buffer.has_remaining() {
            let count = self.writer.write_buf(&mut self.buffer).await?;
            if count == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            if let Some(statistics) = &self.statistics {
                statistics.bytes_sent.add(count as u64);
            }
        }
        self.writer.flush().await
    }

    /// Counts bytes and rows from now on.
    pub(crate) fn count_into(&mut self, statistics: Arc<Statistics>) {
        self.statistics = Some(statistics);
    }

    /// Counts rows that were written to the buffer.
    pub(crate) fn count_rows(&self, rows: u64) {
        if let Some(statistics) = &self.statistics {
            statistics.rows_sent.add(rows);
        }
    }

    /// Whether there is enough to be sent.
    pub(crate) fn is_full(&self) -> bool {
        self.buffer.len() >= SEND_BYTES
    }

    /// Sends what is left and closes.
    pub(crate) async fn close(&mut self) -> io::Result<()> {
        self.send().await?;
        self.writer.shutdown().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Input of what is written to the other end.
    fn pair() -> (tokio::io::DuplexStream, Input) {
        let (client, server) = tokio::io::duplex(1 << 20);
        (client, split(Box::new(server)).0)
    }

    #[tokio::test]
    async fn a_short_message_comes_by_one_read() {
        let (mut client, mut input) = pair();
        for length in (1..2_000).map(|number| number * 7 % 900 + 1) {
            client.write_all(&vec![1; length]).await.unwrap();
            assert!(input.fill().await.unwrap());
            assert_eq!(input.buffer.len(), length);
            drop(input.buffer.split_to(length).freeze());
        }
        assert!(input.buffer.capacity() <= 2 * READ_BYTES_MIN, "{}", input.buffer.capacity());
    }

    #[tokio::test]
    async fn much_comes_by_few_reads() {
        let (mut client, mut input) = pair();
        client.write_all(&vec![1; 1 << 20]).await.unwrap();
        let (mut reads, mut come) = (0, 0);
        while come < 1 << 20 {
            assert!(input.fill().await.unwrap());
            // As it is taken out in messages.
            come += input.buffer.split().len();
            reads += 1;
        }
        assert!(reads <= 32, "{reads}");
    }
}
