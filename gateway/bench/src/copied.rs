//! `COPY … FROM STDIN` of text that is there before the clock starts.
//!
//! Making rows takes a core of the machine as long as reading them takes a server, and a server that reads with one
//! core has the other for it. So the text is written to a file first, and what is timed is the COPY of a file, as psql
//! does it.

use anyhow::{Context, Result, ensure};
use bytes::{Bytes, BytesMut};
use futures::SinkExt;
use std::{
    io::{Read, Seek, Write},
    pin::pin,
    time::Instant,
};
use tokio_postgres::Client;

/// Bytes of text that are sent at a time, and made at a time.
const PIECE_BYTES: usize = 256 << 10;

/// Writes pieces of text to a file, then copies it; returns the seconds of the COPY.
///
/// # Errors
/// Those of the file and of the server; if it has copied another number of rows.
pub(super) async fn copy(
    client: &Client,
    statement: &str,
    rows: u64,
    pieces: impl Iterator<Item = String>,
) -> Result<f64> {
    let mut file = tempfile::tempfile().context("a file for the rows that are copied")?;
    for piece in pieces {
        file.write_all(piece.as_bytes())?;
    }
    file.rewind()?;
    let begun = Instant::now();
    let mut sink = pin!(client.copy_in(statement).await?);
    loop {
        let mut piece = BytesMut::zeroed(PIECE_BYTES);
        let length = file.read(&mut piece)?;
        if length == 0 {
            break;
        }
        piece.truncate(length);
        sink.send(Bytes::from(piece)).await?;
    }
    let copied = sink.finish().await?;
    ensure!(copied == rows, "{copied} rows of {rows} were copied");
    Ok(begun.elapsed().as_secs_f64())
}

/// Joins lines to pieces of about [`PIECE_BYTES`].
pub(super) fn pieces(rows: u64, mut line: impl FnMut(u64, &mut String)) -> impl Iterator<Item = String> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let mut piece = String::new();
        while piece.len() < PIECE_BYTES && at < rows {
            line(at, &mut piece);
            at += 1;
        }
        (!piece.is_empty()).then_some(piece)
    })
}
