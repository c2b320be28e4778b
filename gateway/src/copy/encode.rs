//! Rows as `COPY … TO STDOUT` sends them: a CopyData message for each, in text, CSV or binary.

use super::binary::SIGNATURE;
use crate::pg::datetime::Style;
use crate::{
    pg::{
        codec::format::Format,
        error::{Result, SqlError, SqlState},
    },
    sql::ast::copy::{CopyFormat, CopyOptions, Header},
    wire::{
        encoder::{RowEncoder, Rows, finish, start},
        reply,
    },
};
use arrow::datatypes::SchemaRef;
use bytes::{BufMut, BytesMut};
use std::sync::Arc;

/// How the rows of a `COPY … TO STDOUT` are written.
#[derive(Clone, Debug)]
pub struct CopyEncoder {
    /// What makes the values of a batch.
    pub rows: RowEncoder,
    options: CopyOptions,
    names: Vec<String>,
    force_quote: Vec<bool>,
    /// Whether the signature of binary data is still to be written: it stands in one message with the first row, as
    /// PostgreSQL sends it, and a client may rely on that (ADBC's driver does).
    unsigned: bool,
}

impl CopyEncoder {
    /// For rows of a schema.
    ///
    /// # Errors
    /// 42P10 for a forced column that is not there.
    pub fn new(schema: SchemaRef, options: CopyOptions, style: Arc<Style>) -> Result<Self> {
        let names: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
        let known: Vec<&str> = names.iter().map(String::as_str).collect();
        let force_quote = options.force_quote.among(&known, "FORCE_QUOTE")?;
        let binary = options.format == CopyFormat::Binary;
        let formats = if binary { vec![Format::Binary; names.len()] } else { Vec::new() };
        Ok(Self { rows: RowEncoder::new(schema, &formats, style)?, options, names, force_quote, unsigned: binary })
    }

    /// Writes what stands before the rows.
    pub fn begin(&self, out: &mut BytesMut) {
        let binary = self.options.format == CopyFormat::Binary;
        reply::copy_out(binary, self.names.len(), out);
        if !binary && self.options.header != Header::No {
            data(out, |out| {
                for (at, name) in self.names.iter().enumerate() {
                    self.separate(at, out);
                    let from = out.len();
                    out.put_slice(name.as_bytes());
                    self.adapt(from, false, out);
                }
                out.put_u8(b'\n');
            });
        }
    }

    /// Writes a row; nothing of it when it fails.
    ///
    /// # Errors
    /// As for a row of a query.
    pub fn write(&mut self, rows: &Rows, row: usize, out: &mut BytesMut) -> Result<()> {
        let begin = out.len();
        let at = start(b'd', out);
        self.sign(out);
        let written = if self.options.format == CopyFormat::Binary {
            out.put_i16(i16::try_from(self.names.len()).unwrap_or(i16::MAX));
            rows.columns().iter().try_for_each(|column| column.write_sized(row, out))
        } else {
            self.write_line(rows, row, out)
        };
        let fits = i32::try_from(out.len() - at).is_ok();
        if written.is_err() || !fits {
            out.truncate(begin);
            written?;
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "a row is too long to be sent"));
        }
        self.unsigned = false;
        finish(at, out);
        Ok(())
    }

    fn sign(&self, out: &mut BytesMut) {
        if self.unsigned {
            out.put_slice(SIGNATURE);
            out.put_u64(0);
        }
    }

    /// Writes what stands behind the rows.
    pub fn end(&self, out: &mut BytesMut) {
        if self.options.format == CopyFormat::Binary {
            data(out, |out| {
                self.sign(out);
                out.put_i16(-1);
            });
        }
        reply::copy_done(out);
    }

    fn write_line(&self, rows: &Rows, row: usize, out: &mut BytesMut) -> Result<()> {
        for (at, column) in rows.columns().iter().enumerate() {
            self.separate(at, out);
            if column.is_null(row) {
                out.put_slice(self.options.null.as_bytes());
                continue;
            }
            let from = out.len();
            column.write(row, out)?;
            self.adapt(from, self.force_quote[at], out);
        }
        out.put_u8(b'\n');
        Ok(())
    }

    fn separate(&self, at: usize, out: &mut BytesMut) {
        if at > 0 {
            out.put_u8(self.options.delimiter);
        }
    }

    /// Escapes or quotes the value that begins at a place.
    fn adapt(&self, from: usize, force_quote: bool, out: &mut BytesMut) {
        if self.options.format == CopyFormat::Csv {
            self.quote(from, force_quote, out);
        } else {
            self.escape(from, out);
        }
    }

    fn escape(&self, from: usize, out: &mut BytesMut) {
        let delimiter = self.options.delimiter;
        let special = |byte: u8| matches!(byte, 8..=13 | b'\\') || byte == delimiter;
        let Some(first) = out[from..].iter().position(|byte| special(*byte)) else { return };
        let rest = out.split_off(from + first);
        for byte in rest {
            let letter = match byte {
                8 => b'b',
                b'\t' => b't',
                b'\n' => b'n',
                11 => b'v',
                12 => b'f',
                b'\r' => b'r',
                byte if special(byte) => byte,
                byte => {
                    out.put_u8(byte);
                    continue;
                }
            };
            out.put_slice(&[b'\\', letter]);
        }
    }

    fn quote(&self, from: usize, force: bool, out: &mut BytesMut) {
        let CopyOptions { delimiter, quote, escape, null, .. } = &self.options;
        let value = &out[from..];
        let special = |byte: &u8| matches!(byte, b'\n' | b'\r') || byte == delimiter || byte == quote;
        // A line of nothing but `\.` would end the data.
        let mark = self.names.len() == 1 && value == b"\\.";
        if !force && !mark && value != null.as_bytes() && !value.iter().any(special) {
            return;
        }
        let value = out.split_off(from);
        out.put_u8(*quote);
        for byte in value {
            if byte == *quote || byte == *escape {
                out.put_u8(*escape);
            }
            out.put_u8(byte);
        }
        out.put_u8(*quote);
    }
}

/// A CopyData message.
fn data(out: &mut BytesMut, write: impl FnOnce(&mut BytesMut)) {
    let at = start(b'd', out);
    write(out);
    finish(at, out);
}
