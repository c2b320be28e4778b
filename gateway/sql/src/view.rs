//! `CREATE VIEW`, `ALTER VIEW`, `DROP VIEW`.

use super::{
    clause::{AlterView, CreateView, DropTables, ViewAction},
    definition::{as_temporary, is_cascade, is_other_object},
    query,
    statement::{Definition, Statement},
    tokens::Cursor,
};
use crate::pg::error::{Result, SqlError};
use datafusion::sql::sqlparser::{ast, tokenizer::Token};

pub(crate) fn parse_create_view(cursor: &mut Cursor<'_>) -> Result<Definition> {
    let or_replace = cursor.words("or replace");
    let temporary = cursor.words("temp") || cursor.words("temporary");
    if or_replace && cursor.head() != "view" {
        let what = cursor.head();
        let known = (is_other_object(&what) && !temporary) || what == "recursive";
        let error = SqlError::unsupported(format!("CREATE OR REPLACE {}", what.to_uppercase()));
        return Err(if known { error } else { cursor.syntax_error() });
    }
    if cursor.words("recursive view") {
        return Err(SqlError::unsupported("CREATE RECURSIVE VIEW")
            .with_hint("CREATE VIEW … AS WITH RECURSIVE … says the same."));
    }
    cursor.expect_words("view")?;
    let mut name = cursor.table_name()?;
    if temporary {
        name = as_temporary(name)?;
    }
    let columns = if cursor.peek() == Some(&Token::LParen) { cursor.parenthesised(Cursor::name)? } else { Vec::new() };
    if cursor.words("with") {
        cursor.parenthesised(parse_option)?;
    }
    cursor.expect_words("as")?;
    let Statement::Query(parsed) = query::parse_query(cursor)? else { return Err(cursor.syntax_error()) };
    let ast::Statement::Query(query) = *parsed else { return Err(cursor.syntax_error()) };
    if cursor.head() == "with" && cursor.contains(&["check", "option"]) {
        return Err(SqlError::unsupported("WITH CHECK OPTION"));
    }
    Ok(Definition::CreateView(CreateView { name, or_replace, columns, query }))
}

/// An option of a view. Those that say by whose rights it reads, and in which order conditions are looked at, change nothing: all roles of
/// a tenant read the same, and no condition is a function of theirs.
fn parse_option(cursor: &mut Cursor<'_>) -> Result<()> {
    let name = cursor.name()?;
    if !["security_barrier", "security_invoker"].contains(&name.as_str()) {
        return Err(SqlError::unsupported(format!("option {name} of a view")));
    }
    if cursor.token(&Token::Eq) {
        cursor.name()?;
    }
    Ok(())
}

pub(crate) fn parse_alter_view(cursor: &mut Cursor<'_>) -> Result<Definition> {
    cursor.expect_words("view")?;
    let if_exists = cursor.words("if exists");
    let name = cursor.table_name()?;
    let action = if cursor.words("rename to") {
        ViewAction::Rename(cursor.name()?)
    } else if cursor.words("rename") {
        cursor.words("column");
        let from = cursor.name()?;
        cursor.expect_words("to")?;
        ViewAction::RenameColumn { from, to: cursor.name()? }
    } else {
        let what = cursor.head();
        let known = ["alter", "owner", "set", "reset"].contains(&what.as_str());
        let error = SqlError::unsupported(format!("ALTER VIEW … {}", what.to_uppercase()));
        return Err(if known { error } else { cursor.syntax_error() });
    };
    Ok(Definition::AlterView(AlterView { name, if_exists, action }))
}

pub(crate) fn parse_drop_view(cursor: &mut Cursor<'_>) -> Result<Definition> {
    cursor.expect_words("view")?;
    let if_exists = cursor.words("if exists");
    let names = cursor.list(Cursor::table_name)?;
    let cascade = is_cascade(cursor);
    Ok(Definition::DropViews(DropTables { names, if_exists, cascade }))
}
