//! The binary format: a signature, tuples of fields with their lengths, a trailer.
//!
//! ```text
//! PGCOPY\n 0xff \r\n \0 │ flags 4 │ bytes of extension 4 │ extension
//! fields 2 │ length 4 │ bytes │ length 4 │ …                a length of −1 is NULL
//! −1 2
//! ```

use super::{fields::Fields, lines::LINE_BYTES_MAX};
use crate::pg::error::{Result, SqlError, SqlState};
use bytes::{Buf, BytesMut};

/// What the data begin with.
pub const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";
/// Flags that a reader has to know.
const CRITICAL_FLAGS: u32 = 0xffff_0000;
/// The flag of a column of OIDs, which no table has any more.
const OIDS_FLAG: u32 = 1 << 16;

/// The tuples of a COPY.
#[derive(Debug, Default)]
pub struct Tuples {
    buffer: BytesMut,
    /// Bytes that have to be there before it makes sense to look again.
    needed: usize,
    begun: bool,
    ended: bool,
    number: u64,
}

impl Tuples {
    /// Takes bytes.
    ///
    /// # Errors
    /// 22P04 for bytes behind the trailer.
    pub fn push(&mut self, bytes: &[u8]) -> Result<()> {
        self.buffer.extend_from_slice(bytes);
        if self.ended && self.buffer.has_remaining() {
            return Err(bad("received copy data after EOF marker"));
        }
        Ok(())
    }

    /// The number of the tuple that was given last, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Reads the next tuple; `false` while it is not whole. `last` tells that no more bytes come.
    ///
    /// # Errors
    /// 22P04 for what is no such data or ends within; 54000 for a tuple that is too long.
    pub fn next(&mut self, columns: usize, fields: &mut Fields, last: bool) -> Result<bool> {
        if self.ended || (self.buffer.len() < self.needed && !last) {
            return Ok(false);
        }
        if !self.begun && !self.header(last)? {
            return Ok(false);
        }
        let Some(mut count) = self.buffer.get(..2) else {
            // Data that end between two tuples have no trailer: PostgreSQL takes them.
            return if last && self.buffer.has_remaining() { Err(end()) } else { Ok(self.wait(2)) };
        };
        let count = count.get_i16();
        self.number += 1;
        if count == -1 {
            self.buffer.advance(2);
            self.ended = true;
            return if self.buffer.is_empty() { Ok(false) } else { Err(bad("received copy data after EOF marker")) };
        }
        if usize::try_from(count) != Ok(columns) {
            return Err(bad(format!("row field count is {count}, expected {columns}")));
        }
        fields.clear();
        let mut at = 2;
        for _ in 0..columns {
            let Some(mut length) = self.buffer.get(at..at + 4) else { return self.unfinished(at + 4, last) };
            let length = length.get_i32();
            at += 4;
            if length == -1 {
                fields.add(None);
                continue;
            }
            let length = usize::try_from(length).map_err(|_| bad("invalid field size"))?;
            let Some(value) = self.buffer.get(at..at + length) else { return self.unfinished(at + length, last) };
            fields.add(Some(value));
            at += length;
        }
        self.buffer.advance(at);
        self.needed = 0;
        Ok(true)
    }

    fn wait(&mut self, needed: usize) -> bool {
        self.needed = needed;
        false
    }

    /// A tuple that is not whole yet.
    fn unfinished(&mut self, needed: usize, last: bool) -> Result<bool> {
        if needed > LINE_BYTES_MAX {
            let message = format!("a row of COPY is longer than {} MiB", LINE_BYTES_MAX >> 20);
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        if last {
            return Err(end());
        }
        self.number -= 1;
        Ok(self.wait(needed))
    }

    /// Reads what stands before the tuples; `false` while it is not whole.
    fn header(&mut self, last: bool) -> Result<bool> {
        const FIXED: usize = SIGNATURE.len() + 8;
        let seen = self.buffer.len().min(SIGNATURE.len());
        if self.buffer[..seen] != SIGNATURE[..seen] || (last && seen < SIGNATURE.len()) {
            return Err(bad("COPY file signature not recognized"));
        }
        let Some(mut fixed) = self.buffer.get(SIGNATURE.len()..FIXED) else {
            return if last { Err(bad("invalid COPY file header (missing flags)")) } else { Ok(self.wait(FIXED)) };
        };
        let (flags, extension) = (fixed.get_u32(), fixed.get_i32());
        if flags & OIDS_FLAG != 0 {
            return Err(bad("invalid COPY file header (WITH OIDS)"));
        }
        if flags & CRITICAL_FLAGS != 0 {
            return Err(bad("unrecognized critical flags in COPY file header"));
        }
        let extension = usize::try_from(extension).ok().filter(|length| *length <= LINE_BYTES_MAX);
        let extension = extension.ok_or_else(|| bad("invalid COPY file header (missing length)"))?;
        if self.buffer.len() < FIXED + extension {
            return if last {
                Err(bad("invalid COPY file header (wrong length)"))
            } else {
                Ok(self.wait(FIXED + extension))
            };
        }
        self.buffer.advance(FIXED + extension);
        (self.begun, self.needed) = (true, 0);
        Ok(true)
    }
}

fn bad(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message)
}

fn end() -> SqlError {
    bad("unexpected EOF in COPY data")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn data(tuples: &[u8]) -> Vec<u8> {
        [&SIGNATURE[..], &[0; 8], tuples].concat()
    }

    fn read(data: &[u8], columns: usize, piece: usize) -> Vec<String> {
        let (mut tuples, mut fields, mut shown) = (Tuples::default(), Fields::default(), Vec::new());
        let mut pieces = data.chunks(piece.max(1)).map(Some).chain([None]);
        loop {
            let piece = pieces.next().flatten();
            let mut next = tuples.push(piece.unwrap_or_default());
            loop {
                match next.and_then(|()| tuples.next(columns, &mut fields, piece.is_none())) {
                    Ok(true) => {
                        let field = |at| fields.get(at).map_or("NULL".into(), |bytes| bytes.escape_ascii().to_string());
                        let all: Vec<String> = (0..fields.count()).map(field).collect();
                        shown.push(format!("{} {}", tuples.number(), all.join(" ")));
                        next = Ok(());
                    }
                    Ok(false) if piece.is_none() => return shown,
                    Ok(false) => break,
                    Err(error) => {
                        shown.push(error.message);
                        return shown;
                    }
                }
            }
        }
    }

    fn check(data: &[u8], columns: usize, expected: &[&str]) {
        for piece in [1, 2, 3, 1_000] {
            assert_eq!(read(data, columns, piece), expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn tuples_are_read() {
        let two = b"\0\x02\0\0\0\x01a\xff\xff\xff\xff\0\x02\0\0\0\0\0\0\0\x02bc\xff\xff";
        check(&data(two), 2, &["1 a NULL", "2  bc"]);
        check(&data(&two[..two.len() - 2]), 2, &["1 a NULL", "2  bc"]);
        check(&data(two), 3, &["row field count is 2, expected 3"]);
        check(&data(&two[..two.len() - 3]), 2, &["1 a NULL", "unexpected EOF in COPY data"]);
        check(&data(b"\0\x01\xff\xff\xff\xfe"), 1, &["invalid field size"]);
        check(&data(b"\xff\xff!"), 1, &["received copy data after EOF marker"]);
    }

    #[test]
    fn what_is_no_such_data_is_refused() {
        check(b"PGCOPY\n\xff\r\n", 1, &["COPY file signature not recognized"]);
        check(b"a,b\n", 1, &["COPY file signature not recognized"]);
        check(&SIGNATURE[..], 1, &["invalid COPY file header (missing flags)"]);
        check(&[&SIGNATURE[..], b"\0\x01\0\0\0\0\0\0"].concat(), 1, &["invalid COPY file header (WITH OIDS)"]);
        check(&[&SIGNATURE[..], b"\0\0\0\0\0\0\0\x01"].concat(), 1, &["invalid COPY file header (wrong length)"]);
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter_and_nothing_panics(tuples: Vec<u8>, piece in 1..5usize, columns in 0..3usize) {
            let data = data(&tuples);
            prop_assert_eq!(read(&data, columns, piece), read(&data, columns, 10_000));
            read(&tuples, columns, piece);
        }
    }
}
