//! Fields of a record: of a line of text or CSV, or of a binary tuple.
//!
//! A line is taken apart byte by byte as PostgreSQL's `CopyReadAttributesText` and `CopyReadAttributesCSV` do. What
//! stands for NULL is looked for in the field as it was written, before backslashes are resolved and outside of quotes.

use crate::{
    pg::error::{Result, SqlError, SqlState},
    sql::ast::copy::CopyOptions,
};

/// The fields of one record. One is used again and again: nothing is allocated for a field.
#[derive(Debug, Default)]
pub struct Fields {
    bytes: Vec<u8>,
    /// Where each stands in the bytes; `None` for NULL.
    places: Vec<Option<(usize, usize)>>,
    /// Whether each stood in quotes.
    quoted: Vec<bool>,
}

impl Fields {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.places.len()
    }

    /// The bytes of a field; `None` for NULL.
    pub fn get(&self, at: usize) -> Option<&[u8]> {
        self.places[at].map(|(from, to)| &self.bytes[from..to])
    }

    /// Whether a field stood in quotes.
    pub fn is_quoted(&self, at: usize) -> bool {
        self.quoted[at]
    }

    /// Forgets all fields.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
        self.quoted.clear();
    }

    /// Adds a field as it is.
    pub fn add(&mut self, bytes: Option<&[u8]>) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(bytes.unwrap_or_default());
        self.end(from, bytes.is_none(), false);
    }

    /// Ends the field that began at a place of the bytes.
    fn end(&mut self, from: usize, null: bool, quoted: bool) {
        if null {
            self.bytes.truncate(from);
        }
        self.places.push((!null).then_some((from, self.bytes.len())));
        self.quoted.push(quoted);
    }

    /// Takes a line of text apart.
    pub fn read_text(&mut self, line: &[u8], options: &CopyOptions) {
        self.clear();
        let mut rest = line;
        loop {
            let (from, whole) = (self.bytes.len(), rest);
            let mut more = false;
            let mut raw = whole.len();
            loop {
                let special = |byte: &u8| *byte == options.delimiter || *byte == b'\\';
                let (plain, after) = rest.split_at(rest.iter().position(special).unwrap_or(rest.len()));
                self.bytes.extend_from_slice(plain);
                let Some((byte, after)) = after.split_first() else { break };
                rest = after;
                if *byte == options.delimiter {
                    (more, raw) = (true, whole.len() - rest.len() - 1);
                    break;
                }
                rest = self.unescape(rest);
            }
            let null = whole[..raw] == *options.null.as_bytes();
            self.end(from, null, false);
            if !more {
                return;
            }
        }
    }

    /// Adds the byte that stands behind a backslash for itself or another; gives what follows it.
    fn unescape<'a>(&mut self, rest: &'a [u8]) -> &'a [u8] {
        let Some((byte, mut rest)) = rest.split_first() else { return rest };
        let digits = |bytes: &[u8], radix: u32, most: usize| {
            bytes.iter().take(most).take_while(|byte| char::from(**byte).is_digit(radix)).count()
        };
        let number = |bytes: &[u8], radix: u32| {
            bytes.iter().fold(0_u32, |sum, byte| sum * radix + char::from(*byte).to_digit(radix).unwrap_or(0)) as u8
        };
        let resolved = match byte {
            b'0'..=b'7' => {
                let more = digits(rest, 8, 2);
                let (tail, after) = rest.split_at(more);
                rest = after;
                number(&[&[*byte], tail].concat(), 8)
            }
            b'x' if digits(rest, 16, 2) > 0 => {
                let (all, after) = rest.split_at(digits(rest, 16, 2));
                rest = after;
                number(all, 16)
            }
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 11,
            byte => *byte,
        };
        self.bytes.push(resolved);
        rest
    }

    /// Takes a line of CSV apart.
    ///
    /// # Errors
    /// 22P04 for quotes that do not end.
    pub fn read_csv(&mut self, line: &[u8], options: &CopyOptions) -> Result<()> {
        self.clear();
        let mut rest = line;
        loop {
            let (from, whole) = (self.bytes.len(), rest);
            let (mut quoted, mut more, mut raw) = (false, false, whole.len());
            loop {
                let special = |byte: &u8| *byte == options.delimiter || *byte == options.quote;
                let (plain, after) = rest.split_at(rest.iter().position(special).unwrap_or(rest.len()));
                self.bytes.extend_from_slice(plain);
                let Some((byte, after)) = after.split_first() else { break };
                rest = after;
                if *byte == options.delimiter {
                    (more, raw) = (true, whole.len() - rest.len() - 1);
                    break;
                }
                quoted = true;
                rest = self.read_quoted(rest, options)?;
            }
            let null = !quoted && whole[..raw] == *options.null.as_bytes();
            self.end(from, null, quoted);
            if !more {
                return Ok(());
            }
        }
    }

    /// Reads up to the quote that ends; gives what follows it.
    fn read_quoted<'a>(&mut self, mut rest: &'a [u8], options: &CopyOptions) -> Result<&'a [u8]> {
        loop {
            let special = |byte: &u8| *byte == options.escape || *byte == options.quote;
            let (plain, after) = rest.split_at(rest.iter().position(special).unwrap_or(rest.len()));
            self.bytes.extend_from_slice(plain);
            let Some((byte, after)) = after.split_first() else {
                return Err(SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, "unterminated CSV quoted field"));
            };
            rest = after;
            if *byte == options.escape
                && let Some((next, after)) = rest.split_first()
                && (*next == options.escape || *next == options.quote)
            {
                self.bytes.push(*next);
                rest = after;
            } else if *byte == options.quote {
                return Ok(rest);
            } else {
                self.bytes.push(*byte);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(fields: &Fields) -> String {
        let one = |at| fields.get(at).map_or("NULL".to_owned(), |bytes| format!("[{}]", bytes.escape_ascii()));
        (0..fields.count()).map(one).collect::<Vec<_>>().join(" ")
    }

    fn text(line: &str) -> String {
        let mut fields = Fields::default();
        fields.read_text(line.as_bytes(), &CopyOptions::default());
        shown(&fields)
    }

    fn csv(line: &str, change: impl FnOnce(&mut CopyOptions)) -> String {
        let mut options = CopyOptions { delimiter: b',', null: String::new(), ..CopyOptions::default() };
        change(&mut options);
        let mut fields = Fields::default();
        match fields.read_csv(line.as_bytes(), &options) {
            Ok(()) => shown(&fields),
            Err(error) => error.message,
        }
    }

    #[test]
    fn text_is_taken_apart_as_postgres_does() {
        assert_eq!(text("a\t\\N\t\tb"), "[a] NULL [] [b]");
        assert_eq!(text(""), "[]");
        assert_eq!(text("a\\tb\\\\\\n\\x\\x41\\101\\q\\\t"), "[a\\tb\\\\\\nxAAq\\t]");
        assert_eq!(text("\\N1\t\\\\N\t\\"), "[N1] [\\\\N] []");
        assert_eq!(text("\\0\\7778\\xfg"), "[\\x00\\xff8\\x0fg]");
    }

    #[test]
    fn csv_is_taken_apart_as_postgres_does() {
        assert_eq!(csv("a,,\"\",b", |_| {}), "[a] NULL [] [b]");
        assert_eq!(csv("", |_| {}), "NULL");
        assert_eq!(csv("\"a,\"\"b\"\"\"c,\\N", |_| {}), "[a,\\\"b\\\"c] [\\\\N]");
        assert_eq!(csv("\"a", |_| {}), "unterminated CSV quoted field");
        let other =
            |options: &mut CopyOptions| (options.quote, options.escape, options.null) = (b'\'', b'\\', "x".into());
        assert_eq!(csv("'a\\'\\\\b\\c',x,'x',\"", other), "[a\\'\\\\b\\\\c] NULL [x] [\\\"]");
    }
}
