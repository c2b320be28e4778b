//! Options of `COPY`.

use super::super::tokens::TokenReader;
use crate::pg::error::{Result, SqlError, SqlState};
use datafusion::sql::sqlparser::tokenizer::Token;

/// How rows are written as bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyOptions {
    /// The format.
    pub format: CopyFormat,
    /// Whether there is a first line with the names of the columns.
    pub header: Header,
    /// What stands between two fields.
    pub delimiter: u8,
    /// What stands for NULL.
    pub null: String,
    /// What stands around fields, in CSV.
    pub quote: u8,
    /// What stands before a quote in a field, in CSV.
    pub escape: u8,
    /// Fields that always stand in quotes, in CSV.
    pub force_quote: Forced,
    /// Fields that are never NULL, in CSV.
    pub force_not_null: Forced,
    /// Fields that are NULL in quotes too, in CSV.
    pub force_null: Forced,
}

/// A format of `COPY`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyFormat {
    /// Lines of fields, with backslashes.
    #[default]
    Text,
    /// Lines of fields, with quotes.
    Csv,
    /// Fields with their lengths.
    Binary,
}

/// The first line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Header {
    /// A row.
    #[default]
    No,
    /// Names, passed over on the way in.
    Yes,
    /// Names, which have to be those of the columns.
    Match,
}

/// Columns that an option names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Forced {
    /// None.
    #[default]
    None,
    /// `*`
    All,
    /// These.
    Of(Vec<String>),
}

impl Forced {
    /// Whether the option holds for each of the columns.
    ///
    /// # Errors
    /// 42P10 for a column that the statement does not copy.
    pub fn among(&self, names: &[&str], option: &str) -> Result<Vec<bool>> {
        let named = match self {
            Self::None => return Ok(vec![false; names.len()]),
            Self::All => return Ok(vec![true; names.len()]),
            Self::Of(named) => named,
        };
        if let Some(other) = named.iter().find(|name| !names.contains(&name.as_str())) {
            let message = format!("{option} column \"{other}\" not referenced by COPY");
            return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message));
        }
        Ok(names.iter().map(|name| named.iter().any(|of| of == name)).collect())
    }
}

/// What an option is set to.
#[derive(Debug)]
pub(crate) enum Setting {
    Nothing,
    Text(String),
    All,
    List(Vec<String>),
}

/// The options as they are written, names in lower case.
pub(crate) fn copy_options(tokens: &mut TokenReader<'_>) -> Result<Vec<(String, Setting)>> {
    tokens.words("with");
    if tokens.peek() == Some(&Token::LParen) {
        return tokens.parenthesised(|tokens| Ok((tokens.name()?, setting(tokens)?)));
    }
    let mut options = Vec::new();
    let text = |value: &str| Setting::Text(value.to_owned());
    loop {
        let head = tokens.head();
        options.push(match head.as_str() {
            "binary" | "csv" => {
                tokens.advance();
                ("format".to_owned(), text(&head))
            }
            "freeze" | "header" => {
                tokens.advance();
                (head, Setting::Nothing)
            }
            "delimiter" | "null" | "quote" | "escape" | "encoding" => {
                tokens.advance();
                tokens.words("as");
                (head, Setting::Text(tokens.string()?))
            }
            "force" => {
                tokens.advance();
                let forced = [("not null", "force_not_null"), ("quote", "force_quote"), ("null", "force_null")];
                let found = forced.into_iter().find(|(words, _)| tokens.words(words));
                let (_, name) = found.ok_or_else(|| tokens.syntax_error())?;
                let columns = if name == "force_quote" && tokens.token(&Token::Mul) {
                    Setting::All
                } else {
                    Setting::List(tokens.list(TokenReader::name)?)
                };
                (name.to_owned(), columns)
            }
            _ => return Ok(options),
        });
    }
}

fn setting(tokens: &mut TokenReader<'_>) -> Result<Setting> {
    Ok(match tokens.peek().cloned() {
        Some(Token::Comma | Token::RParen) | None => Setting::Nothing,
        Some(Token::Mul) => {
            tokens.advance();
            Setting::All
        }
        Some(Token::LParen) => Setting::List(tokens.parenthesised(TokenReader::name)?),
        Some(Token::Number(number, _)) => {
            tokens.advance();
            Setting::Text(number)
        }
        Some(Token::Word(_)) => Setting::Text(tokens.name()?),
        _ => Setting::Text(tokens.string()?),
    })
}

/// Options on their way: which of them were given.
#[derive(Default)]
struct Given {
    format: Option<CopyFormat>,
    header: Option<Header>,
    delimiter: Option<String>,
    null: Option<String>,
    quote: Option<String>,
    escape: Option<String>,
    force_quote: Option<Forced>,
    force_not_null: Option<Forced>,
    force_null: Option<Forced>,
    freeze: Option<bool>,
    encoding: Option<()>,
}

impl Default for CopyOptions {
    fn default() -> Self {
        Self {
            format: CopyFormat::Text,
            header: Header::No,
            delimiter: b'\t',
            null: "\\N".to_owned(),
            quote: b'"',
            escape: b'"',
            force_quote: Forced::None,
            force_not_null: Forced::None,
            force_null: Forced::None,
        }
    }
}

impl CopyOptions {
    pub(crate) fn of(written: Vec<(String, Setting)>, from: bool) -> Result<Self> {
        let mut given = Given::default();
        for (name, setting) in written {
            given.take(&name, setting)?;
        }
        given.finish(from)
    }
}

impl Given {
    fn take(&mut self, name: &str, setting: Setting) -> Result<()> {
        let needs = || SqlError::syntax(format!("{name} requires a parameter"));
        let text = |setting: Setting| match setting {
            Setting::Text(text) => Ok(text),
            _ => Err(needs()),
        };
        let columns = |setting: Setting| match setting {
            Setting::All => Ok(Forced::All),
            Setting::List(names) => Ok(Forced::Of(names)),
            _ => Err(invalid(format!("argument to option \"{name}\" must be a list of column names"))),
        };
        match name {
            "format" => put(&mut self.format, format_named(&text(setting)?)?),
            "header" => put(&mut self.header, header(setting, &needs)?),
            "freeze" => put(&mut self.freeze, header(setting, &needs)? != Header::No),
            "delimiter" => put(&mut self.delimiter, text(setting)?),
            "null" => put(&mut self.null, text(setting)?),
            "quote" => put(&mut self.quote, text(setting)?),
            "escape" => put(&mut self.escape, text(setting)?),
            "force_quote" => put(&mut self.force_quote, columns(setting)?),
            "force_not_null" => put(&mut self.force_not_null, columns(setting)?),
            "force_null" => put(&mut self.force_null, columns(setting)?),
            "encoding" => {
                let encoding = text(setting)?;
                let normal: String = encoding.to_lowercase().chars().filter(char::is_ascii_alphanumeric).collect();
                if !matches!(normal.as_str(), "utf8" | "unicode") {
                    return Err(SqlError::unsupported(format!("COPY with encoding {encoding}"))
                        .with_hint("Everything is in UTF8."));
                }
                put(&mut self.encoding, ())
            }
            _ => Err(SqlError::syntax(format!("option \"{name}\" not recognized"))),
        }
    }

    /// The options, held against each other.
    fn finish(self, from: bool) -> Result<CopyOptions> {
        let format = self.format.unwrap_or_default();
        let (csv, binary) = (format == CopyFormat::Csv, format == CopyFormat::Binary);
        let header = self.header.unwrap_or_default();
        for (given, what) in [(self.delimiter.is_some(), "DELIMITER"), (self.null.is_some(), "NULL")] {
            if binary && given {
                return Err(SqlError::syntax(format!("cannot specify {what} in BINARY mode")));
            }
        }
        let delimiter = one_byte(self.delimiter, "delimiter")?.unwrap_or(if csv { b',' } else { b'\t' });
        let null = self.null.unwrap_or_else(|| if csv { String::new() } else { "\\N".to_owned() });
        let ends_line = |byte: u8| byte == b'\n' || byte == b'\r';
        if ends_line(delimiter) {
            return Err(invalid("COPY delimiter cannot be newline or carriage return"));
        }
        if null.bytes().any(ends_line) {
            return Err(invalid("COPY null representation cannot use newline or carriage return"));
        }
        if !csv && b"\\.abcdefghijklmnopqrstuvwxyz0123456789".contains(&delimiter) {
            return Err(invalid(format!("COPY delimiter cannot be \"{}\"", char::from(delimiter))));
        }
        if binary && header != Header::No {
            return Err(unavailable("cannot specify HEADER in BINARY mode"));
        }
        if header == Header::Match && !from {
            return Err(unavailable("cannot use \"match\" with HEADER in COPY TO"));
        }
        let only_csv = [
            (self.quote.is_some(), "quote", None),
            (self.escape.is_some(), "escape", None),
            (self.force_quote.is_some(), "force quote", Some(false)),
            (self.force_not_null.is_some(), "force not null", Some(true)),
            (self.force_null.is_some(), "force null", Some(true)),
        ];
        for (given, what, direction) in only_csv {
            match direction {
                _ if !given => {}
                _ if !csv => return Err(unavailable(format!("COPY {what} available only in CSV mode"))),
                Some(wanted) if wanted != from => {
                    let side = if wanted { "COPY FROM" } else { "COPY TO" };
                    return Err(unavailable(format!("COPY {what} only available using {side}")));
                }
                _ => {}
            }
        }
        let quote = one_byte(self.quote, "quote")?.unwrap_or(b'"');
        let escape = one_byte(self.escape, "escape")?.unwrap_or(quote);
        if csv && delimiter == quote {
            return Err(invalid("COPY delimiter and quote must be different"));
        }
        if null.as_bytes().contains(&delimiter) {
            return Err(invalid("COPY delimiter must not appear in the NULL specification"));
        }
        if csv && null.as_bytes().contains(&quote) {
            return Err(invalid("CSV quote character must not appear in the NULL specification"));
        }
        Ok(CopyOptions {
            format,
            header,
            delimiter,
            null,
            quote,
            escape,
            force_quote: self.force_quote.unwrap_or_default(),
            force_not_null: self.force_not_null.unwrap_or_default(),
            force_null: self.force_null.unwrap_or_default(),
        })
    }
}

fn put<T>(place: &mut Option<T>, value: T) -> Result<()> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(SqlError::syntax("conflicting or redundant options")),
    }
}

fn format_named(name: &str) -> Result<CopyFormat> {
    match name {
        "text" => Ok(CopyFormat::Text),
        "csv" => Ok(CopyFormat::Csv),
        "binary" => Ok(CopyFormat::Binary),
        "parquet" => {
            Err(SqlError::unsupported("COPY as Parquet over the connection").with_hint("COPY … TO 'file' writes one."))
        }
        _ => Err(invalid(format!("COPY format \"{name}\" not recognized"))),
    }
}

fn header(setting: Setting, needs: &dyn Fn() -> SqlError) -> Result<Header> {
    let text = match setting {
        Setting::Nothing => return Ok(Header::Yes),
        Setting::Text(text) => text.to_lowercase(),
        _ => return Err(needs()),
    };
    match text.as_str() {
        "true" | "on" | "1" => Ok(Header::Yes),
        "false" | "off" | "0" => Ok(Header::No),
        "match" => Ok(Header::Match),
        _ => Err(SqlError::syntax("header requires a Boolean value or \"match\"")),
    }
}

fn one_byte(text: Option<String>, what: &str) -> Result<Option<u8>> {
    match text.as_ref().map(|text| text.as_bytes()) {
        None => Ok(None),
        Some([byte]) => Ok(Some(*byte)),
        Some(_) => Err(unavailable(format!("COPY {what} must be a single one-byte character"))),
    }
}

pub(crate) fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn unavailable(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
}
