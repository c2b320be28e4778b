//! `SET`, `RESET`, `SHOW`, `DISCARD`.

use crate::{
    ast::{Statement, definition::SettingChange, session::Setting},
    describe,
    tokens::TokenReader,
    transaction::transaction_modes,
};
use datafusion::sql::sqlparser::tokenizer::Token;
use keyspan_pg::{
    error::{Result, SqlError},
    ident::quote_ident,
};

pub(crate) fn parse_setting(tokens: &mut TokenReader<'_>) -> Result<Statement> {
    let verb = tokens.head();
    tokens.advance();
    if verb == "show"
        && let Some(description) = describe::parse_show(tokens)?
    {
        return Ok(Statement::Describe(description));
    }
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

/// Parses `SET name TO value` and `RESET` behind a role or a database.
pub(crate) fn parse_default(tokens: &mut TokenReader<'_>) -> Result<SettingChange> {
    let verb = tokens.head();
    tokens.advance();
    if verb == "reset" {
        let name = if tokens.words("all") { None } else { Some(setting_name(tokens)?) };
        return Ok(name.map_or(SettingChange::ResetAll, |name| SettingChange::Set(name, None)));
    }
    match parse_set(tokens)? {
        Setting::Set { name, value, local: false } => Ok(SettingChange::Set(name, value)),
        _ => Err(SqlError::syntax("a session cannot begin with that")),
    }
}

fn parse_set(tokens: &mut TokenReader<'_>) -> Result<Setting> {
    if tokens.words("transaction") {
        return Ok(Setting::SetTransaction { modes: transaction_modes(tokens, true)?, session: false });
    }
    if tokens.words("session characteristics as transaction") {
        return Ok(Setting::SetTransaction { modes: transaction_modes(tokens, true)?, session: true });
    }
    if tokens.words("constraints") {
        return Err(SqlError::unsupported("SET CONSTRAINTS"));
    }
    let authorization = tokens.words("session authorization");
    let local = !authorization && !tokens.words("session") && tokens.words("local");
    if authorization || tokens.words("session authorization") {
        let value = if tokens.words("default") { None } else { Some(role(tokens)?) };
        return Ok(Setting::Set { name: "session_authorization".to_owned(), value, local });
    }
    if tokens.words("role") {
        return Ok(Setting::Set { name: "role".to_owned(), value: Some(role(tokens)?), local });
    }
    let name = if tokens.words("time zone") {
        if tokens.words("interval") {
            // Without its key word, an offset in quotes is a POSIX form, which is west of Greenwich.
            let value = Some(format!("INTERVAL '{}'", tokens.string()?.replace('\'', "''")));
            let value = if tokens.words("hour to minute") {
                value.map(|value| format!("{value} HOUR TO MINUTE"))
            } else {
                value
            };
            return Ok(Setting::Set { name: "timezone".to_owned(), value, local });
        }
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

/// The name of a setting: `name`, `group.name`, or one of SQL's names of several words.
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

/// The name of a role, as a word or as text.
fn role(tokens: &mut TokenReader<'_>) -> Result<String> {
    if matches!(tokens.peek(), Some(Token::Word(_))) { tokens.name() } else { tokens.string() }
}

/// A schema of `search_path`, in quotes if it needs them.
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
        // PostgreSQL keeps the case of words, as in `ISO, MDY`.
        Some(Token::Word(word)) if sign.is_empty() => {
            tokens.advance();
            Ok(word.value)
        }
        _ if sign.is_empty() => tokens.string(),
        _ => Err(tokens.syntax_error()),
    }
}
