//! The options of `COPY`, in either syntax.

use crate::{
    ast::copy::{CopyFormat, CopyOptions, Forced, Header},
    tokens::TokenReader,
};
use datafusion::sql::sqlparser::tokenizer::Token;
use keyspan_pg::error::{Result, SqlError, SqlState};

/// The value of an option.
#[derive(Debug)]
pub(crate) enum OptionValue {
    /// The option alone.
    Nothing,
    Text(String),
    /// `*`
    All,
    /// Names in parentheses.
    List(Vec<String>),
}

/// Parses the options of either syntax; names are in lower case.
pub(crate) fn copy_options(tokens: &mut TokenReader<'_>) -> Result<Vec<(String, OptionValue)>> {
    tokens.words("with");
    if tokens.peek() == Some(&Token::LParen) {
        return tokens.parenthesised(|tokens| Ok((tokens.name()?, option_value(tokens)?)));
    }
    let mut options = Vec::new();
    let text = |value: &str| OptionValue::Text(value.to_owned());
    loop {
        let head = tokens.head();
        options.push(match head.as_str() {
            "binary" | "csv" => {
                tokens.advance();
                ("format".to_owned(), text(&head))
            }
            "freeze" | "header" => {
                tokens.advance();
                (head, OptionValue::Nothing)
            }
            "delimiter" | "null" | "quote" | "escape" | "encoding" => {
                tokens.advance();
                tokens.words("as");
                (head, OptionValue::Text(tokens.string()?))
            }
            "force" => {
                tokens.advance();
                let forced = [("not null", "force_not_null"), ("quote", "force_quote"), ("null", "force_null")];
                let found = forced.into_iter().find(|(words, _)| tokens.words(words));
                let (_, name) = found.ok_or_else(|| tokens.syntax_error())?;
                let columns = if name == "force_quote" && tokens.token(&Token::Mul) {
                    OptionValue::All
                } else {
                    OptionValue::List(tokens.list(TokenReader::name)?)
                };
                (name.to_owned(), columns)
            }
            _ => return Ok(options),
        });
    }
}

fn option_value(tokens: &mut TokenReader<'_>) -> Result<OptionValue> {
    Ok(match tokens.peek().cloned() {
        Some(Token::Comma | Token::RParen) | None => OptionValue::Nothing,
        Some(Token::Mul) => {
            tokens.advance();
            OptionValue::All
        }
        Some(Token::LParen) => OptionValue::List(tokens.parenthesised(TokenReader::name)?),
        Some(Token::Number(number, _)) => {
            tokens.advance();
            OptionValue::Text(number)
        }
        Some(Token::Word(_)) => OptionValue::Text(tokens.name()?),
        _ => OptionValue::Text(tokens.string()?),
    })
}

/// The options that the statement has, before defaults and checks.
#[derive(Default)]
struct OptionsBuilder {
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

/// Checks the options of `COPY FROM` (`from`) or `COPY TO` and fills in the defaults.
///
/// # Errors
/// PostgreSQL 15's: 42601 for an unknown or repeated option, 22023 for a value that an option cannot have, 0A000 for
/// options that do not go together.
pub(crate) fn checked_options(written: Vec<(String, OptionValue)>, from: bool) -> Result<CopyOptions> {
    let mut options = OptionsBuilder::default();
    for (name, value) in written {
        options.add(&name, value)?;
    }
    options.finish(from)
}

impl OptionsBuilder {
    /// Adds an option.
    fn add(&mut self, name: &str, value: OptionValue) -> Result<()> {
        let needs = || SqlError::syntax(format!("{name} requires a parameter"));
        let text = |value: OptionValue| match value {
            OptionValue::Text(text) => Ok(text),
            _ => Err(needs()),
        };
        let columns = |value: OptionValue| match value {
            OptionValue::All => Ok(Forced::All),
            OptionValue::List(names) => Ok(Forced::Of(names)),
            _ => Err(invalid(format!("argument to option \"{name}\" must be a list of column names"))),
        };
        match name {
            "format" => put(&mut self.format, format_named(&text(value)?)?),
            "header" => put(&mut self.header, header(value, &needs)?),
            "freeze" => put(&mut self.freeze, header(value, &needs)? != Header::No),
            "delimiter" => put(&mut self.delimiter, text(value)?),
            "null" => put(&mut self.null, text(value)?),
            "quote" => put(&mut self.quote, text(value)?),
            "escape" => put(&mut self.escape, text(value)?),
            "force_quote" => put(&mut self.force_quote, columns(value)?),
            "force_not_null" => put(&mut self.force_not_null, columns(value)?),
            "force_null" => put(&mut self.force_null, columns(value)?),
            "encoding" => {
                let encoding = text(value)?;
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

    /// Checks the options against each other and fills in the defaults.
    fn finish(self, from: bool) -> Result<CopyOptions> {
        let format = self.format.unwrap_or_default();
        let (csv, binary) = (format == CopyFormat::Csv, format == CopyFormat::Binary);
        let header = self.header.unwrap_or_default();
        for (present, what) in [(self.delimiter.is_some(), "DELIMITER"), (self.null.is_some(), "NULL")] {
            if binary && present {
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
        for (present, what, direction) in only_csv {
            match direction {
                _ if !present => {}
                _ if !csv => return Err(unavailable(format!("COPY {what} available only in CSV mode"))),
                Some(required) if required != from => {
                    let side = if required { "COPY FROM" } else { "COPY TO" };
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

fn put<T>(option: &mut Option<T>, value: T) -> Result<()> {
    match option.replace(value) {
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

fn header(value: OptionValue, needs: &dyn Fn() -> SqlError) -> Result<Header> {
    let text = match value {
        OptionValue::Nothing => return Ok(Header::Yes),
        OptionValue::Text(text) => text.to_lowercase(),
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
