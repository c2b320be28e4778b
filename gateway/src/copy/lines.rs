//! Lines of the text formats, out of bytes that come in pieces.
//!
//! Where a line ends depends on what stands before: in text a backslash takes the byte after it along, in CSV quotes do
//! so with all between them. The first end of a line decides how lines end (`\n`, `\r\n` or `\r`); another one later is
//! an error, as in PostgreSQL. A line `\.` ends the data; what comes behind it is passed over.

use crate::pg::error::{Result, SqlError, SqlState};
use bytes::{Buf, Bytes, BytesMut};

/// Bytes of a line, at most: a row at its limit in hexadecimal digits.
pub const LINE_BYTES_MAX: usize = 512 << 20;
/// Bytes that have to be there to tell `\.` and the end of its line.
const LOOK_AHEAD: usize = 4;

/// How lines end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Newline,
    Return,
    Both,
}

/// The lines of a COPY.
#[derive(Debug)]
pub struct Lines {
    buffer: BytesMut,
    /// How far the buffer was looked at.
    scanned: usize,
    /// Quote and escape, in CSV.
    csv: Option<(u8, u8)>,
    in_quotes: bool,
    escaped: bool,
    ending: Option<Ending>,
    number: u64,
    /// Whether the line in the buffer is counted.
    counted: bool,
    ended: bool,
}

impl Lines {
    /// Of text, or of CSV with its quote and escape.
    pub fn new(csv: Option<(u8, u8)>) -> Self {
        Self {
            buffer: BytesMut::new(),
            scanned: 0,
            csv,
            in_quotes: false,
            escaped: false,
            ending: None,
            number: 0,
            counted: false,
            ended: false,
        }
    }

    /// Takes bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        if !self.ended {
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// The number of the line that was given last, from 1: of its last line where it has several.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The next line without its end; `None` while it is not whole. `last` tells that no more bytes come.
    ///
    /// # Errors
    /// 22P04 for ends of lines that differ and for a broken end mark; 54000 for a line over [`LINE_BYTES_MAX`].
    pub fn next(&mut self, last: bool) -> Result<Option<Bytes>> {
        if self.ended {
            return Ok(None);
        }
        if !self.counted && self.buffer.has_remaining() {
            self.number += 1;
            self.counted = true;
        }
        let mut at = self.scanned;
        loop {
            at += self.plain(at);
            let Some(byte) = self.buffer.get(at).copied() else { break };
            if matches!(byte, b'\r' | b'\\') && !last && self.buffer.len() - at < LOOK_AHEAD {
                break;
            }
            let bare = self.is_bare(byte);
            match byte {
                b'\r' if bare => {
                    let newline = self.buffer.get(at + 1) == Some(&b'\n');
                    let both = newline && self.ending.is_none_or(|ending| ending == Ending::Both);
                    let found = if both { Ending::Both } else { Ending::Return };
                    return self.end_line(at, found).map(Some);
                }
                b'\n' if bare => return self.end_line(at, Ending::Newline).map(Some),
                b'\\' if self.csv.is_none() || at == 0 => match self.end_mark(at)? {
                    true => {
                        self.ended = true;
                        let line = self.buffer.split_to(at).freeze();
                        self.buffer = BytesMut::new();
                        return Ok((!line.is_empty()).then_some(line));
                    }
                    // What stands behind a backslash means nothing by itself, but in CSV.
                    false if self.csv.is_none() => at += 1,
                    false => {}
                },
                _ => {}
            }
            at += 1;
        }
        // A backslash at the very end was passed together with what is not there yet only when nothing comes.
        self.scanned = at.min(self.buffer.len());
        if self.buffer.len() > LINE_BYTES_MAX {
            let message = format!("a line of COPY is longer than {} MiB", LINE_BYTES_MAX >> 20);
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        if !last || self.buffer.is_empty() {
            return Ok(None);
        }
        self.ended = true;
        Ok(Some(self.buffer.split().freeze()))
    }

    /// How many bytes from a place on mean nothing by themselves.
    fn plain(&mut self, at: usize) -> usize {
        let Some(rest) = self.buffer.get(at..) else { return 0 };
        let ends = |byte: &u8| matches!(byte, b'\n' | b'\r' | b'\\');
        let plain = match self.csv {
            None => rest.iter().position(ends),
            Some((quote, escape)) => rest.iter().position(|byte| ends(byte) || *byte == quote || *byte == escape),
        };
        let plain = plain.unwrap_or(rest.len());
        if plain > 0 {
            // What they stand behind is no escape any more.
            self.escaped = false;
        }
        plain
    }

    /// Whether a byte stands outside of quotes; keeps account of them.
    fn is_bare(&mut self, byte: u8) -> bool {
        let Some((quote, escape)) = self.csv else { return true };
        // A quote that is its own escape comes in pairs, which change nothing.
        if quote != escape && self.in_quotes && byte == escape {
            self.escaped = !self.escaped;
        }
        if byte == quote && !self.escaped {
            self.in_quotes = !self.in_quotes;
        }
        if byte != escape {
            self.escaped = false;
        }
        let ends = if self.ending == Some(Ending::Return) { b'\r' } else { b'\n' };
        if self.in_quotes && byte == ends {
            self.number += 1;
        }
        !self.in_quotes
    }

    /// Cuts a line off.
    fn end_line(&mut self, at: usize, found: Ending) -> Result<Bytes> {
        match self.ending {
            Some(known) if known != found => return Err(self.stray(found)),
            _ => self.ending = Some(found),
        }
        let line = self.buffer.split_to(at).freeze();
        self.buffer.advance(if found == Ending::Both { 2 } else { 1 });
        (self.scanned, self.counted) = (0, false);
        Ok(line)
    }

    /// 22P04 for a line ending that differs from the first line's.
    fn stray(&self, found: Ending) -> SqlError {
        let (what, letter) = if found == Ending::Newline { ("newline", "\\n") } else { ("carriage return", "\\r") };
        match self.csv {
            None => {
                bad(format!("literal {what} found in data")).with_hint(format!("Use \"{letter}\" to represent {what}."))
            }
            Some(_) => bad(format!("unquoted {what} found in data"))
                .with_hint(format!("Use quoted CSV field to represent {what}.")),
        }
    }

    /// Whether `\.` ends the data at a place.
    fn end_mark(&self, at: usize) -> Result<bool> {
        let rest = &self.buffer[at + 1..];
        if rest.first() != Some(&b'.') {
            return Ok(false);
        }
        let found = match &rest[1..] {
            [] => return Ok(true),
            [b'\r', b'\n', ..] => Ending::Both,
            [b'\r', ..] => Ending::Return,
            [b'\n', ..] => Ending::Newline,
            _ if self.csv.is_some() => return Ok(false),
            _ => return Err(bad("end-of-copy marker corrupt")),
        };
        match self.ending {
            Some(known) if known != found => Err(bad("end-of-copy marker does not match previous newline style")),
            _ => Ok(true),
        }
    }
}

fn bad(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The lines of data that come in pieces of a size, and the error that ends them.
    fn cut(data: &[u8], csv: bool, piece: usize) -> Vec<String> {
        let mut lines = Lines::new(csv.then_some((b'"', b'"')));
        let mut shown = Vec::new();
        let mut pieces = data.chunks(piece.max(1)).map(Some).chain([None]);
        loop {
            let piece = pieces.next().flatten();
            lines.push(piece.unwrap_or_default());
            loop {
                match lines.next(piece.is_none()) {
                    Ok(Some(line)) => shown.push(format!("{} {}", lines.number(), line.escape_ascii())),
                    Ok(None) if piece.is_none() => return shown,
                    Ok(None) => break,
                    Err(error) => {
                        shown.push(error.message);
                        return shown;
                    }
                }
            }
        }
    }

    fn check(data: &str, csv: bool, expected: &[&str]) {
        for piece in [1, 2, 3, 1_000] {
            assert_eq!(cut(data.as_bytes(), csv, piece), expected, "{data:?} in pieces of {piece}");
        }
    }

    #[test]
    fn lines_end_where_postgres_ends_them() {
        check("a\nb", false, &["1 a", "2 b"]);
        check("a\r\nb\r\n", false, &["1 a", "2 b"]);
        check("a\rb\r", false, &["1 a", "2 b"]);
        check("", false, &[]);
        check("\n\n", false, &["1 ", "2 "]);
        check("a\\\nb\nc\\\\\nd", false, &["1 a\\\\\\nb", "2 c\\\\\\\\", "3 d"]);
        check("a\nb\r\n", false, &["1 a", "literal carriage return found in data"]);
        check("a\r\nb\n", false, &["1 a", "literal newline found in data"]);
        check("a\rb\n", false, &["1 a", "literal newline found in data"]);
    }

    #[test]
    fn a_mark_ends_the_data() {
        check("a\n\\.\nb\n", false, &["1 a"]);
        check("a\\.", false, &["1 a"]);
        check("a\\.\n", false, &["1 a"]);
        check("\\.x\n", false, &["end-of-copy marker corrupt"]);
        check("a\r\n\\.\n", false, &["1 a", "end-of-copy marker does not match previous newline style"]);
        check("a\\\\.\n", false, &["1 a\\\\\\\\."]);
        check("a\n\\.\nb\n", true, &["1 a"]);
        check("a\\.\n\\.x\nb", true, &["1 a\\\\.", "2 \\\\.x", "3 b"]);
    }

    #[test]
    fn quotes_hold_lines_together_in_csv() {
        check("\"a\nb\"\nc", true, &["2 \\\"a\\nb\\\"", "3 c"]);
        check("\"a\"\"\nb\"\nc", true, &["2 \\\"a\\\"\\\"\\nb\\\"", "3 c"]);
        check("\"a\r\nb\"\r\nc\r\n", true, &["2 \\\"a\\r\\nb\\\"", "3 c"]);
        check("a\nb\r\n", true, &["1 a", "unquoted carriage return found in data"]);
        check("\"a\nb", true, &["2 \\\"a\\nb"]);
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(data in "[ab\"\\\\.\r\n]{0,24}", csv: bool, piece in 1..5usize) {
            prop_assert_eq!(cut(data.as_bytes(), csv, piece), cut(data.as_bytes(), csv, 1_000));
        }
    }
}
