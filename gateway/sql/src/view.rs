//! `CREATE VIEW`, `ALTER VIEW`, `DROP VIEW`.

use crate::{
    ast::{
        definition::{AlterView, CreateView, Definition, DropTables, ViewAction},
        grant::Owned,
        schema::Moved,
    },
    definition::{is_cascade, is_other_object},
    grant,
    names::as_temporary,
    query,
    schema::set_schema,
    tokens::TokenReader,
};
use datafusion::sql::sqlparser::tokenizer::Token;
use keyspan_pg::error::{Result, SqlError};

pub(crate) fn parse_create_view(tokens: &mut TokenReader<'_>) -> Result<Definition> {
    let or_replace = tokens.words("or replace");
    let temporary = tokens.words("temp") || tokens.words("temporary");
    if or_replace && tokens.head() != "view" {
        let what = tokens.head();
        let known = (is_other_object(&what) && !temporary) || what == "recursive";
        let error = SqlError::unsupported(format!("CREATE OR REPLACE {}", what.to_uppercase()));
        return Err(if known { error } else { tokens.syntax_error() });
    }
    if tokens.words("recursive view") {
        return Err(SqlError::unsupported("CREATE RECURSIVE VIEW")
            .with_hint("CREATE VIEW … AS WITH RECURSIVE … says the same."));
    }
    tokens.expect_words("view")?;
    let mut name = tokens.table_name()?;
    if temporary {
        name = as_temporary(name)?;
    }
    let columns =
        if tokens.peek() == Some(&Token::LParen) { tokens.parenthesised(TokenReader::name)? } else { Vec::new() };
    if tokens.words("with") {
        tokens.parenthesised(parse_option)?;
    }
    tokens.expect_words("as")?;
    let query = query::parse_query(tokens)?;
    if tokens.head() == "with" && tokens.contains(&["check", "option"]) {
        return Err(SqlError::unsupported("WITH CHECK OPTION"));
    }
    Ok(Definition::CreateView(CreateView { name, or_replace, columns, query }))
}

/// Parses an option of a view. `security_barrier` has no effect: conditions call no functions of users. A view reads
/// with the rights of its owner.
///
/// # Errors
/// 0A000 for `security_invoker`, but for turning it off.
fn parse_option(tokens: &mut TokenReader<'_>) -> Result<()> {
    let name = tokens.name()?;
    if !["security_barrier", "security_invoker"].contains(&name.as_str()) {
        return Err(SqlError::unsupported(format!("option {name} of a view")));
    }
    let value = match tokens.token(&Token::Eq) {
        false => "true".to_owned(),
        true if matches!(tokens.peek(), Some(Token::SingleQuotedString(_))) => tokens.string()?,
        true => tokens.name()?,
    };
    let is_off = ["false", "off", "no", "0"].contains(&value.to_lowercase().as_str());
    if name == "security_invoker" && !is_off {
        return Err(SqlError::unsupported("option security_invoker of a view"));
    }
    Ok(())
}

pub(crate) fn parse_alter_view(tokens: &mut TokenReader<'_>) -> Result<Definition> {
    tokens.expect_words("view")?;
    let if_exists = tokens.words("if exists");
    let name = tokens.table_name()?;
    if let Some(owner) = grant::owner_to(tokens, || Owned::View(name.clone(), if_exists))? {
        return Ok(owner);
    }
    if let Some(moved) = set_schema(tokens, Moved::View, (&name, if_exists))? {
        return Ok(moved);
    }
    let action = if tokens.words("rename to") {
        ViewAction::Rename(tokens.name()?)
    } else if tokens.words("rename") {
        tokens.words("column");
        let from = tokens.name()?;
        tokens.expect_words("to")?;
        ViewAction::RenameColumn { from, to: tokens.name()? }
    } else {
        let what = tokens.head();
        let known = ["alter", "owner", "set", "reset"].contains(&what.as_str());
        let error = SqlError::unsupported(format!("ALTER VIEW … {}", what.to_uppercase()));
        return Err(if known { error } else { tokens.syntax_error() });
    };
    Ok(Definition::AlterView(AlterView { name, if_exists, action }))
}

pub(crate) fn parse_drop_view(tokens: &mut TokenReader<'_>) -> Result<Definition> {
    tokens.expect_words("view")?;
    let if_exists = tokens.words("if exists");
    let names = tokens.list(TokenReader::table_name)?;
    let cascade = is_cascade(tokens);
    Ok(Definition::DropViews(DropTables { names, if_exists, cascade }))
}
