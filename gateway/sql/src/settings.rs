//! Settings and the bounds of transactions.

use super::{statement::Statement, tokens::Cursor};
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

pub(crate) fn parse_setting(cursor: &mut Cursor<'_>) -> Result<Statement> {
    let verb = cursor.head();
    cursor.advance();
    Ok(Statement::Setting(match verb.as_str() {
        "set" => parse_set(cursor)?,
        "reset" if cursor.words("all") => Setting::Reset(None),
        "reset" => Setting::Reset(Some(setting_name(cursor)?)),
        "show" if cursor.words("all") => Setting::Show(None),
        "show" => Setting::Show(Some(setting_name(cursor)?)),
        _ => {
            let found = [("all", "ALL"), ("plans", "PLANS"), ("sequences", "SEQUENCES"), ("temp", "TEMP")];
            let found = found.into_iter().chain([("temporary", "TEMP")]).find(|(word, _)| cursor.words(word));
            Setting::Discard(found.ok_or_else(|| cursor.syntax_error())?.1)
        }
    }))
}

fn parse_set(cursor: &mut Cursor<'_>) -> Result<Setting> {
    if cursor.words("transaction") {
        let (isolation, read_only) = transaction_modes(cursor, true)?;
        return Ok(Setting::SetTransaction { isolation, read_only, session: false });
    }
    if cursor.words("session characteristics as transaction") {
        let (isolation, read_only) = transaction_modes(cursor, true)?;
        return Ok(Setting::SetTransaction { isolation, read_only, session: true });
    }
    if cursor.words("session authorization") || cursor.words("role") {
        return Err(SqlError::unsupported("changing the role of a session"));
    }
    if cursor.words("constraints") {
        return Err(SqlError::unsupported("SET CONSTRAINTS"));
    }
    let local = !cursor.words("session") && cursor.words("local");
    let name = if cursor.words("time zone") {
        "timezone".to_owned()
    } else if cursor.words("names") {
        "client_encoding".to_owned()
    } else {
        let name = setting_name(cursor)?;
        if !cursor.words("to") {
            cursor.expect_token(&Token::Eq)?;
        }
        name
    };
    if cursor.words("default") || (name == "timezone" && cursor.words("local")) {
        return Ok(Setting::Set { name, value: None, local });
    }
    let item = if name == "search_path" { path_item } else { setting_value };
    let value = cursor.list(item)?.join(", ");
    Ok(Setting::Set { name, value: Some(value), local })
}

/// `name` or `group.name`; the names of several words that SQL has.
fn setting_name(cursor: &mut Cursor<'_>) -> Result<String> {
    for (words, name) in [
        ("transaction isolation level", "transaction_isolation"),
        ("time zone", "timezone"),
        ("session authorization", "session_authorization"),
    ] {
        if cursor.words(words) {
            return Ok(name.to_owned());
        }
    }
    let mut name = cursor.name()?.to_lowercase();
    while cursor.token(&Token::Period) {
        name = format!("{name}.{}", cursor.name()?.to_lowercase());
    }
    Ok(name)
}

/// A schema in `search_path`, in quotes where it needs them.
fn path_item(cursor: &mut Cursor<'_>) -> Result<String> {
    let name = match cursor.peek().cloned() {
        Some(Token::Word(word)) => {
            cursor.advance();
            if word.quote_style.is_some() { word.value } else { word.value.to_lowercase() }
        }
        _ => cursor.string()?,
    };
    Ok(quote_ident(&name))
}

fn setting_value(cursor: &mut Cursor<'_>) -> Result<String> {
    let sign = if cursor.token(&Token::Minus) { "-" } else { "" };
    match cursor.peek().cloned() {
        Some(Token::Number(number, _)) => {
            cursor.advance();
            Ok(format!("{sign}{number}"))
        }
        // PostgreSQL keeps the case of words that are no names, as in `ISO, MDY`.
        Some(Token::Word(word)) if sign.is_empty() => {
            cursor.advance();
            Ok(word.value)
        }
        _ if sign.is_empty() => cursor.string(),
        _ => Err(cursor.syntax_error()),
    }
}

pub(crate) fn parse_transaction(cursor: &mut Cursor<'_>) -> Result<Statement> {
    let verb = cursor.head();
    cursor.advance();
    if verb == "start" {
        cursor.expect_words("transaction")?;
    } else if !cursor.words("work") {
        cursor.words("transaction");
    }
    Ok(Statement::Transaction(match verb.as_str() {
        "begin" | "start" => {
            let (isolation, read_only) = transaction_modes(cursor, false)?;
            Transaction::Begin { isolation, read_only, start: verb == "start" }
        }
        "rollback" | "abort" if cursor.words("to") => {
            if cursor.peek_nth(1).is_some() {
                cursor.expect_words("savepoint")?;
            }
            Transaction::RollbackTo(cursor.name()?)
        }
        _ if cursor.head() == "prepared" => return Err(SqlError::unsupported("a prepared transaction")),
        _ if cursor.words("and chain") => return Err(SqlError::unsupported("AND CHAIN")),
        _ => {
            cursor.words("and no chain");
            if verb == "commit" || verb == "end" { Transaction::Commit } else { Transaction::Rollback }
        }
    }))
}

pub(crate) fn parse_savepoint(cursor: &mut Cursor<'_>) -> Result<Statement> {
    let release = cursor.head() == "release";
    cursor.advance();
    // Behind RELEASE the word may be missing, and it may be a name.
    if release && cursor.peek_nth(1).is_some() {
        cursor.expect_words("savepoint")?;
    }
    let name = cursor.name()?;
    Ok(Statement::Transaction(if release { Transaction::Release(name) } else { Transaction::Savepoint(name) }))
}

/// `ISOLATION LEVEL …`, `READ ONLY`, with or without commas between them; at least one if `needed`.
fn transaction_modes(cursor: &mut Cursor<'_>, needed: bool) -> Result<(Option<Isolation>, Option<bool>)> {
    let (mut isolation, mut read_only, mut any) = (None, None, false);
    loop {
        if cursor.words("isolation level") {
            isolation = Some(isolation_level(cursor)?);
        } else if cursor.words("read only") {
            read_only = Some(true);
        } else if cursor.words("read write") {
            read_only = Some(false);
        } else if cursor.head() == "deferrable" || cursor.head() == "snapshot" {
            let what = cursor.head().to_uppercase();
            return Err(SqlError::unsupported(format!("transaction mode {what}")));
        } else if !cursor.words("not deferrable") {
            break;
        }
        any = true;
        if cursor.token(&Token::Comma) && cursor.at_end() {
            return Err(cursor.syntax_error());
        }
    }
    if needed && !any { Err(cursor.syntax_error()) } else { Ok((isolation, read_only)) }
}

fn isolation_level(cursor: &mut Cursor<'_>) -> Result<Isolation> {
    // As in PostgreSQL, what others have not committed is never read.
    if cursor.words("read committed") || cursor.words("read uncommitted") {
        Ok(Isolation::ReadCommitted)
    } else if cursor.words("repeatable read") {
        Ok(Isolation::RepeatableRead)
    } else if cursor.words("serializable") {
        Err(SqlError::unsupported("ISOLATION LEVEL SERIALIZABLE")
            .with_hint("REPEATABLE READ reads one state; what a transaction writes is checked against it at COMMIT."))
    } else {
        Err(cursor.syntax_error())
    }
}
