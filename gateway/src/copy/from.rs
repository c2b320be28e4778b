//! `COPY … FROM STDIN`: bytes as they come become records, records rows of a [`Load`].
//!
//! An error says in its context which line it was about, and which column, as PostgreSQL's does.

use super::{binary::Tuples, fields::Fields, lines::Lines};
use crate::{
    load::{Failed, Load},
    pg::{
        codec::format::utf8,
        error::{Result, SqlError, SqlState},
    },
    rights::Needs,
    session::Session,
    sql::ast::copy::{CopyFormat, CopyFrom, CopyOptions, Header},
};
use keyspan_catalog::{Privileges, Value};

/// Characters of a line or field that a context shows.
const SHOWN_CHARS_MAX: usize = 100;

/// Where records come from.
#[derive(Debug)]
enum Records {
    Lines(Lines),
    Tuples(Tuples),
}

/// A `COPY … FROM STDIN` under way.
#[derive(Debug)]
pub struct CopyIn {
    load: Load,
    options: CopyOptions,
    force_not_null: Vec<bool>,
    force_null: Vec<bool>,
    names: Vec<String>,
    records: Records,
    fields: Fields,
    /// Whether the first line is still to come.
    header: bool,
    count: u64,
    /// The right to put rows into the table: checked with each part.
    needs: Needs,
}

impl CopyIn {
    /// Begins.
    ///
    /// # Errors
    /// What is wrong with the table or the columns.
    pub async fn begin(session: &mut Session, copy: &CopyFrom) -> Result<Self> {
        let view = session.view().await?;
        let needs = Needs::default();
        needs.add(&view.snapshot, view.writable(&copy.table)?.id.0, Privileges::INSERT, None);
        session.authorize(&needs)?;
        let load = Load::new(session, view, &copy.table, &copy.columns).await?;
        let names: Vec<String> = load.columns().map(|(name, _)| name.to_owned()).collect();
        let known: Vec<&str> = names.iter().map(String::as_str).collect();
        let options = copy.options.clone();
        let force_not_null = options.force_not_null.among(&known, "FORCE_NOT_NULL")?;
        let force_null = options.force_null.among(&known, "FORCE_NULL")?;
        let records = match options.format {
            CopyFormat::Text => Records::Lines(Lines::new(None)),
            CopyFormat::Csv => Records::Lines(Lines::new(Some((options.quote, options.escape)))),
            CopyFormat::Binary => Records::Tuples(Tuples::default()),
        };
        let header = options.header != Header::No;
        let fields = Fields::default();
        Ok(Self { load, options, force_not_null, force_null, names, records, fields, header, count: 0, needs })
    }

    /// Whether the client is to send binary.
    pub fn is_binary(&self) -> bool {
        self.options.format == CopyFormat::Binary
    }

    /// The OID of its table.
    pub(crate) fn relation(&self) -> u32 {
        self.load.relation()
    }

    /// Rows that were read so far.
    pub(crate) fn rows(&self) -> u64 {
        self.count
    }

    /// How many columns the client is to send.
    pub fn columns(&self) -> usize {
        self.names.len()
    }

    /// Takes bytes, and writes when a part is full.
    ///
    /// # Errors
    /// What is wrong with the data or the rows.
    pub async fn take(&mut self, session: &mut Session, bytes: &[u8]) -> Result<()> {
        match self.take_rows(session, bytes, false).await {
            Err(error) => Err(self.failed(session, error).await),
            done => done,
        }
    }

    /// Takes what is left and writes it; the command tag.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub async fn finish(&mut self, session: &mut Session) -> Result<String> {
        if let Err(error) = self.take_rows(session, &[], true).await {
            return Err(self.failed(session, error).await);
        }
        Ok(format!("COPY {}", self.count))
    }

    /// The error when the client gives up: 57014.
    pub async fn given_up(&mut self, session: &mut Session, reason: &str) -> SqlError {
        let error = SqlError::new(SqlState::QUERY_CANCELED, format!("COPY from stdin failed: {reason}"));
        let error = self.at_line(error, self.line() + 1);
        self.failed(session, error).await
    }

    /// Waits for what is being written, when the rest will not be.
    pub async fn settle(&mut self, session: &mut Session) {
        if let Err(Failed { error, .. }) = self.load.settle(session).await {
            tracing::debug!(%error, "a part of a COPY that was given up");
        }
    }

    /// An error, when what is being written is there.
    async fn failed(&mut self, session: &mut Session, error: SqlError) -> SqlError {
        self.settle(session).await;
        self.tell_stored(error)
    }

    async fn take_rows(&mut self, session: &mut Session, bytes: &[u8], last: bool) -> Result<()> {
        match &mut self.records {
            Records::Lines(lines) => lines.push(bytes),
            Records::Tuples(tuples) => tuples.push(bytes)?,
        }
        while self.next(last)? {
            if self.load.is_full() {
                self.write(session, false).await?;
            }
        }
        if last { self.write(session, true).await } else { Ok(()) }
    }

    async fn write(&mut self, session: &mut Session, last: bool) -> Result<()> {
        session.authorize(&self.needs)?;
        self.load.write(session, last).await.map_err(|Failed { error, row }| match row {
            Some(row) => self.at_line(error, row),
            None => error,
        })
    }

    /// Adds the next record to the load; `false` when there is none yet.
    fn next(&mut self, last: bool) -> Result<bool> {
        let line = match &mut self.records {
            Records::Lines(lines) => match lines.next(last) {
                Ok(Some(line)) => line,
                Ok(None) => return Ok(false),
                Err(error) => {
                    let number = lines.number();
                    return Err(self.at_line(error, number));
                }
            },
            Records::Tuples(tuples) => {
                return match tuples.next(self.names.len(), &mut self.fields, last) {
                    Ok(true) => self.add().map(|()| true),
                    Ok(false) => Ok(false),
                    Err(error) => {
                        let number = tuples.number();
                        Err(self.at_line(error, number))
                    }
                };
            }
        };
        let read = self.read_line(&line);
        if let Err(mut error) = read {
            if error.context.is_none() {
                let shown = String::from_utf8_lossy(&line);
                let context = format!("COPY {}, line {}: \"{}\"", self.load.table(), self.line(), cut(&shown));
                error.context = Some(context.into());
            }
            return Err(error);
        }
        Ok(true)
    }

    fn read_line(&mut self, line: &[u8]) -> Result<()> {
        let header = std::mem::take(&mut self.header);
        if header && self.options.header == Header::Yes {
            return Ok(());
        }
        if self.options.format == CopyFormat::Csv {
            self.fields.read_csv(line, &self.options)?;
        } else {
            self.fields.read_text(line, &self.options);
        }
        if header { self.check_header() } else { self.add() }
    }

    /// 22P04 for a first line whose names are not those of the columns.
    fn check_header(&self) -> Result<()> {
        let (found, wanted) = (self.fields.count(), self.names.len());
        if found != wanted {
            return Err(bad(format!("wrong number of fields in header line: got {found}, expected {wanted}")));
        }
        for (at, name) in self.names.iter().enumerate() {
            let number = at + 1;
            let Some(field) = self.fields.get(at) else {
                let null = &self.options.null;
                let message = "column name mismatch in header line field";
                return Err(bad(format!("{message} {number}: got null value (\"{null}\"), expected \"{name}\"")));
            };
            if field != name.as_bytes() {
                let field = String::from_utf8_lossy(field);
                let message = "column name mismatch in header line field";
                return Err(bad(format!("{message} {number}: got \"{field}\", expected \"{name}\"")));
            }
        }
        Ok(())
    }

    /// Adds the fields as a row.
    fn add(&mut self) -> Result<()> {
        if self.fields.count() > self.names.len() {
            return Err(bad("extra data after last expected column"));
        }
        let mut values = Vec::with_capacity(self.names.len());
        for at in 0..self.names.len() {
            if at >= self.fields.count() {
                return Err(bad(format!("missing data for column \"{}\"", self.names[at])));
            }
            values.push(self.value(at).map_err(|error| self.at_column(error, at))?);
        }
        let line = self.line();
        self.load.add(line, values)?;
        self.count += 1;
        Ok(())
    }

    /// A field after the options that say which are NULL.
    fn field(&self, at: usize) -> Option<&[u8]> {
        let null = self.options.null.as_bytes();
        match self.fields.get(at) {
            None if self.force_not_null[at] => Some(null),
            Some(field) if self.force_null[at] && field == null => None,
            field => field,
        }
    }

    fn value(&self, at: usize) -> Result<Value> {
        match self.field(at) {
            None => Ok(Value::Null),
            Some(bytes) if self.is_binary() => self.load.value_of_binary(at, bytes),
            Some(bytes) => self.load.value_of_text(at, utf8(bytes)?),
        }
    }

    fn line(&self) -> u64 {
        match &self.records {
            Records::Lines(lines) => lines.number(),
            Records::Tuples(tuples) => tuples.number(),
        }
    }

    fn at_line(&self, error: SqlError, line: u64) -> SqlError {
        let context = format!("COPY {}, line {line}", self.load.table());
        SqlError { context: error.context.or(Some(context.into())), ..error }
    }

    fn at_column(&self, error: SqlError, at: usize) -> SqlError {
        let shown = match self.field(at) {
            _ if self.is_binary() => String::new(),
            None => ": null input".to_owned(),
            Some(field) => format!(": \"{}\"", cut(&String::from_utf8_lossy(field))),
        };
        let context = format!("COPY {}, line {}, column {}{shown}", self.load.table(), self.line(), self.names[at]);
        SqlError { context: Some(context.into()), ..error }
    }

    /// An error after parts were stored says so.
    fn tell_stored(&self, error: SqlError) -> SqlError {
        let stored = self.load.stored();
        if stored == 0 {
            return error;
        }
        let told = format!("COPY stores large data in parts: the first {stored} rows are stored.");
        let detail = match &error.detail {
            Some(detail) => format!("{detail} {told}"),
            None => told,
        };
        let hint = "In a transaction block COPY stores all rows or none, up to the bounds of a transaction.";
        SqlError { hint: error.hint.clone().or(Some(hint.to_owned())), ..error.with_detail(detail) }
    }
}

/// As much of a text as a context shows.
fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

fn bad(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message)
}
