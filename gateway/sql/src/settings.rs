//! Settings and the bounds of transactions.

use super::{statement::Statement, tokens::TokenReader};
use crate::pg::{
    error::{Result, SqlError},
    ident::quote_ident,
};
use datafusion::sql::sqlparser::tokenizer::Token;

/// A statement about settings. Names are in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// `SET [SESSION | LOCAL] name = value`; a value of `None` is `DEFAULT`.
    Set {
        /// The setting.
        name: String,
        /// Its value as text; several are joined by a comma and a space.
        value: Option<String>,
        /// Whether it holds until the transaction's end only.
        local: bool,
    },
    /// `SET TRANSACTION …`, and with `session` `SET SESSION CHARACTERISTICS AS TRANSACTION …`.
    SetTransaction {
        /// How isolated.
        isolation: Option<Isolation>,
        /// Whether it may not write.
        read_only: Option<bool>,
        /// Whether later transactions are meant.
        session: bool,
    },
    /// `RESET name`; `None` for `ALL`.
    Reset(Option<String>),
    /// `SHOW name`; `None` for `ALL`.
    Show(Option<String>),
    /// `DISCARD`, with the word after it in upper case: `ALL`, `PLANS`, `SEQUENCES`, `TEMP`.
    Discard(&'static str),
}

/// How far a transaction is isolated from others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// A pin for each statement.
    #[default]
    ReadCommitted,
    /// One pin.
    RepeatableRead,
}

impl Isolation {
    /// As `SHOW transaction_isolation` says it.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadCommitted => "read committed",
            Self::RepeatableRead => "repeatable read",
        }
    }
}

/// The bounds of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transaction {
    /// `BEGIN`, `START TRANSACTION`
    Begin {
        /// How isolated; `None` for the session's default.
        isolation: Option<Isolation>,
        /// Whether it may not write; `None` for the session's default.
        read_only: Option<bool>,
        /// Whether it was `START TRANSACTION`: the command tag says so.
        start: bool,
    },
    /// `COMMIT`, `END`
    Commit,
    /// `ROLLBACK`, `ABORT`
    Rollback,
    /// `SAVEPOINT`
    Savepoint(String),
    /// `ROLLBACK TO`
    RollbackTo(String),
    /// `RELEASE`
    Release(String),
}

pub(crate) fn parse_setting(tokens: &mut TokenReader<'_>) -> Result<Statement> {
    let verb = tokens.head();
    tokens.advance();
    Ok(Statement::Setting(match verb.as_str() {
        "set" => parse_set(tokens)?,
        "reset" if tokens.words("all") => Setting::Reset(None),
        "reset" => Setting::Reset(Some(setting_name(tokens)?)),
        "show" if tokens.words("all") => Setting::Show(None),
        "show" => Setting::Show(Some(setting_name(tokens)?)),
        _ => {
            let found = [("all", "ALL"), ("plans", "PLANS"), ("sequences", "SEQUENCES"), ("temp", "TEMP")];
            let found = found.into_iter().chain([("temporary", "TEMP")]).find(|(word, _)| tokens.words(word));
            Setting::Discard(found.ok_or_else(|| tokens.syntax_error())?.1)
        }
    }))
}

fn parse_set(tokens: &mut TokenReader<'_>) -> Result<Setting> {
    if tokens.words("transaction") {
        let (isolation, read_only) = transaction_modes(tokens, true)?;
        return Ok(Setting::SetTransaction { isolation, read_only, session: false });
    }
    if tokens.words("session characteristics as transaction") {
        let (isolation, read_only) = transaction_modes(tokens, true)?;
        return Ok(Setting::SetTransaction { isolation, read_only, session: true });
    }
    if tokens.words("session authorization") || tokens.words("role") {
        return Err(SqlError::unsupported("changing the role of a session"));
    }
    if tokens.words("constraints") {
        return Err(SqlError::unsupported("SET CONSTRAINTS"));
    }
    let local = !tokens.words("session") && tokens.words("local");
    let name = if tokens.words("time zone") {
        "timezone".to_owned()
    } else if tokens.words("names") {
        "client_encoding".to_owned()
    } else {
        let name = setting_name(tokens)?;
        if !tokens.words("to") {
            tokens.expect_token(&Token::Eq)?;
        }
        name
    };
    if tokens.words("default") || (name == "timezone" && tokens.words("local")) {
        return Ok(Setting::Set { name, value: None, local });
    }
    let item = if name == "search_path" { path_item } else { setting_value };
    let value = tokens.list(item)?.join(", ");
    Ok(Setting::Set { name, value: Some(value), local })
}

/// `name` or `group.name`; the names of several words that SQL has.
fn setting_name(tokens: &mut TokenReader<'_>) -> Result<String> {
    for (words, name) in [
        ("transaction isolation level", "transaction_isolation"),
        ("time zone", "timezone"),
        ("session authorization", "session_authorization"),
    ] {
        if tokens.words(words) {
            return Ok(name.to_owned());
        }
    }
    let mut name = tokens.name()?.to_lowercase();
    while tokens.token(&Token::Period) {
        name = format!("{name}.{}", tokens.name()?.to_lowercase());
    }
    Ok(name)
}

/// A schema in `search_path`, in quotes where it needs them.
fn path_item(tokens: &mut TokenReader<'_>) -> Result<String> {
    let name = match tokens.peek().cloned() {
        Some(Token::Word(word)) => {
            tokens.advance();
            if word.quote_style.is_some() { word.value } else { word.value.to_lowercase() }
        }
        _ => tokens.string()?,
    };
    Ok(quote_ident(&name))
}

fn setting_value(tokens: &mut TokenReader<'_>) -> Result<String> {
    let sign = if tokens.token(&Token::Minus) { "-" } else { "" };
    match tokens.peek().cloned() {
        Some(Token::Number(number, _)) => {
            tokens.advance();
            Ok(format!("{sign}{number}"))
        }
        // PostgreSQL keeps the case of words that are no names, as in `ISO, MDY`.
        Some(Token::Word(word)) if sign.is_empty() => {
            tokens.advance();
            Ok(word.value)
        }
        _ if sign.is_empty() => tokens.string(),
        _ => Err(tokens.syntax_error()),
    }
}

pub(crate) fn parse_transaction(tokens: &mut TokenReader<'_>) -> Result<Statement> {
    let verb = tokens.head();
    tokens.advance();
    if verb == "start" {
        tokens.expect_words("transaction")?;
    } else if !tokens.words("work") {
        tokens.words("transaction");
    }
    Ok(Statement::Transaction(match verb.as_str() {
        "begin" | "start" => {
            let (isolation, read_only) = transaction_modes(tokens, false)?;
            Transaction::Begin { isolation, read_only, start: verb == "start" }
        }
        "rollback" | "abort" if tokens.words("to") => {
            if tokens.peek_nth(1).is_some() {
                tokens.expect_words("savepoint")?;
            }
            Transaction::RollbackTo(tokens.name()?)
        }
        _ if tokens.head() == "prepared" => return Err(SqlError::unsupported("a prepared transaction")),
        _ if tokens.words("and chain") => return Err(SqlError::unsupported("AND CHAIN")),
        _ => {
            tokens.words("and no chain");
            if verb == "commit" || verb == "end" { Transaction::Commit } else { Transaction::Rollback }
        }
    }))
}

pub(crate) fn parse_savepoint(tokens: &mut TokenReader<'_>) -> Result<Statement> {
    let release = tokens.head() == "release";
    tokens.advance();
    // Behind RELEASE the word may be missing, and it may be a name.
    if release && tokens.peek_nth(1).is_some() {
        tokens.expect_words("savepoint")?;
    }
    let name = tokens.name()?;
    Ok(Statement::Transaction(if release { Transaction::Release(name) } else { Transaction::Savepoint(name) }))
}

/// `ISOLATION LEVEL …`, `READ ONLY`, with or without commas between them; at least one if `needed`.
fn transaction_modes(tokens: &mut TokenReader<'_>, needed: bool) -> Result<(Option<Isolation>, Option<bool>)> {
    let (mut isolation, mut read_only, mut any) = (None, None, false);
    loop {
        if tokens.words("isolation level") {
            isolation = Some(isolation_level(tokens)?);
        } else if tokens.words("read only") {
            read_only = Some(true);
        } else if tokens.words("read write") {
            read_only = Some(false);
        } else if tokens.head() == "deferrable" || tokens.head() == "snapshot" {
            let what = tokens.head().to_uppercase();
            return Err(SqlError::unsupported(format!("transaction mode {what}")));
        } else if !tokens.words("not deferrable") {
            break;
        }
        any = true;
        if tokens.token(&Token::Comma) && tokens.at_end() {
            return Err(tokens.syntax_error());
        }
    }
    if needed && !any { Err(tokens.syntax_error()) } else { Ok((isolation, read_only)) }
}

fn isolation_level(tokens: &mut TokenReader<'_>) -> Result<Isolation> {
    // As in PostgreSQL, what others have not committed is never read.
    if tokens.words("read committed") || tokens.words("read uncommitted") {
        Ok(Isolation::ReadCommitted)
    } else if tokens.words("repeatable read") {
        Ok(Isolation::RepeatableRead)
    } else if tokens.words("serializable") {
        Err(SqlError::unsupported("ISOLATION LEVEL SERIALIZABLE")
            .with_hint("REPEATABLE READ reads one state; what a transaction writes is checked against it at COMMIT."))
    } else {
        Err(tokens.syntax_error())
    }
}
