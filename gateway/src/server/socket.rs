//! A client's connection as two buffers: bytes that came and are not read yet, bytes that are written and not sent yet.
//!
//! Both halves may be given up at any moment without losing bytes, so that a statement can be stopped while either waits.

use bytes::{Buf, BytesMut};
use std::{future, io};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};

/// Bytes that are read ahead while a statement runs, at most; beyond, a client that goes away is not noticed.
pub(crate) const READ_AHEAD_MAX: usize = 64 << 10;
/// Bytes of output after which they are sent.
pub(crate) const SEND_BYTES: usize = 64 << 10;

/// A stream of bytes both ways: TCP, or TLS over it.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// What a client sends.
pub(crate) struct Input {
    reader: ReadHalf<Box<dyn Stream>>,
    /// Bytes that came.
    pub(crate) buffer: BytesMut,
    ended: bool,
}

/// What a client is sent.
pub(crate) struct Output {
    writer: WriteHalf<Box<dyn Stream>>,
    /// Messages to be sent.
    pub(crate) buffer: BytesMut,
}

/// Splits a stream.
pub(crate) fn split(stream: Box<dyn Stream>) -> (Input, Output) {
    let (reader, writer) = tokio::io::split(stream);
    let buffer = BytesMut::new();
    (Input { reader, buffer: buffer.clone(), ended: false }, Output { writer, buffer })
}

impl Input {
    /// Reads more; `false` at the end.
    pub(crate) async fn fill(&mut self) -> io::Result<bool> {
        if self.ended {
            return Ok(false);
        }
        let count = self.reader.read_buf(&mut self.buffer).await?;
        self.ended = count == 0;
        Ok(count > 0)
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
            if self.writer.write_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        self.writer.flush().await
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
