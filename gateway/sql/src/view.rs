//! `CREATE`, `ALTER` and `DROP` of views and materialized views, `REFRESH MATERIALIZED VIEW`.

use crate::{
    ast::{
        Statement,
        definition::{Definition, DropTables},
        grant::Owned,
        schema::Moved,
        view::{AlterView, CreateMaterialized, CreateView, RefreshMaterialized, ViewAction, ViewKind},
    },
    definition::{is_cascade, is_other_object, parse_options},
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

/// `CREATE MATERIALIZED VIEW [IF NOT EXISTS] name [(columns)] [WITH (options)] AS query [WITH [NO] DATA]`
pub(crate) fn parse_create_materialized(tokens: &mut TokenReader<'_>) -> Result<Statement> {
    tokens.expect_words("materialized view")?;
    let if_not_exists = tokens.words("if not exists");
    let name = tokens.table_name()?;
    let columns =
        if tokens.peek() == Some(&Token::LParen) { tokens.parenthesised(TokenReader::name)? } else { Vec::new() };
    for (words, what) in [("using", "USING"), ("tablespace", "TABLESPACE")] {
        if tokens.words(words) {
            return Err(SqlError::unsupported(what));
        }
    }
    let options = if tokens.words("with") { parse_options(tokens)? } else { Vec::new() };
    if tokens.words("tablespace") {
        return Err(SqlError::unsupported("TABLESPACE"));
    }
    tokens.expect_words("as")?;
    let query = query::parse_query(tokens)?;
    let with_data = with_data(tokens);
    let view = CreateView { name, or_replace: false, columns, query };
    Ok(Statement::CreateMaterialized(CreateMaterialized { view, if_not_exists, options, with_data }))
}

/// `REFRESH MATERIALIZED VIEW [CONCURRENTLY] name [WITH [NO] DATA]`
pub(crate) fn parse_refresh(tokens: &mut TokenReader<'_>) -> Result<Statement> {
    tokens.expect_words("refresh materialized view")?;
    let concurrently = tokens.words("concurrently");
    let name = tokens.table_name()?;
    let with_data = with_data(tokens);
    Ok(Statement::RefreshMaterialized(RefreshMaterialized { name, concurrently, with_data }))
}

/// `WITH [NO] DATA`, if it is said: whether not `NO`.
pub(crate) fn with_data(tokens: &mut TokenReader<'_>) -> bool {
    let with_data = !tokens.words("with no data");
    if with_data {
        tokens.words("with data");
    }
    with_data
}

/// The kind of view that comes next: `VIEW`, `MATERIALIZED VIEW`.
fn expect_kind(tokens: &mut TokenReader<'_>) -> Result<ViewKind> {
    if tokens.words("materialized view") {
        return Ok(ViewKind::Materialized);
    }
    tokens.expect_words("view")?;
    Ok(ViewKind::Plain)
}

pub(crate) fn parse_alter_view(tokens: &mut TokenReader<'_>) -> Result<Definition> {
    let kind = expect_kind(tokens)?;
    let if_exists = tokens.words("if exists");
    let name = tokens.table_name()?;
    let owned = || match kind {
        ViewKind::Plain => Owned::View(name.clone(), if_exists),
        ViewKind::Materialized => Owned::Materialized(name.clone(), if_exists),
    };
    if let Some(owner) = grant::owner_to(tokens, owned)? {
        return Ok(owner);
    }
    let moved = match kind {
        ViewKind::Plain => Moved::View,
        ViewKind::Materialized => Moved::Materialized,
    };
    if let Some(moved) = set_schema(tokens, moved, (&name, if_exists))? {
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
        let known = ["alter", "owner", "set", "reset", "cluster", "no", "depends"].contains(&what.as_str());
        let error = SqlError::unsupported(format!("ALTER {} … {}", kind.name().to_uppercase(), what.to_uppercase()));
        return Err(if known { error } else { tokens.syntax_error() });
    };
    Ok(Definition::AlterView(AlterView { name, kind: Some(kind), if_exists, action }))
}

pub(crate) fn parse_drop_view(tokens: &mut TokenReader<'_>) -> Result<Definition> {
    let kind = expect_kind(tokens)?;
    let if_exists = tokens.words("if exists");
    let names = tokens.list(TokenReader::table_name)?;
    let cascade = is_cascade(tokens);
    Ok(Definition::DropViews(kind, DropTables { names, if_exists, cascade }))
}
