//! `CREATE SERVER`, `DROP SERVER`, `CREATE FOREIGN TABLE`, `IMPORT FOREIGN SCHEMA`.

use crate::{
    ast::definition::{CreateServer, CreateTable, Definition, DropServers, ImportForeignSchema, ImportedTables},
    definition::{is_cascade, parse_elements},
    tokens::TokenReader,
};
use datafusion::sql::sqlparser::tokenizer::Token;
use keyspan_pg::error::{Result, SqlError};

/// Parses what follows `CREATE`.
pub(crate) fn parse_create_server(tokens: &mut TokenReader<'_>) -> Result<Definition> {
    tokens.expect_words("server")?;
    let if_not_exists = tokens.words("if not exists");
    let name = tokens.name()?;
    for what in ["type", "version"] {
        if tokens.words(what) {
            return Err(SqlError::unsupported(format!("{} of a server", what.to_uppercase())));
        }
    }
    tokens.expect_words("foreign data wrapper")?;
    let wrapper = tokens.name()?;
    let options = parse_foreign_options(tokens)?;
    Ok(Definition::CreateServer(CreateServer { name, if_not_exists, wrapper, options }))
}

/// Parses what follows `CREATE`: `FOREIGN TABLE`.
pub(crate) fn parse_create_foreign_table(tokens: &mut TokenReader<'_>) -> Result<Definition> {
    tokens.expect_words("foreign table")?;
    let if_not_exists = tokens.words("if not exists");
    let mut table = CreateTable { name: tokens.table_name()?, if_not_exists, ..CreateTable::default() };
    parse_elements(tokens, &mut table)?;
    if let Some(family) = table.families.iter().find(|family| !family.open) {
        let message = format!("FAMILY {} of a foreign table", family.name);
        return Err(SqlError::unsupported(message).with_hint("A column names its family in its OPTIONS."));
    }
    tokens.expect_words("server")?;
    table.server = Some(tokens.name()?);
    table.found = Some(parse_foreign_options(tokens)?);
    Ok(Definition::CreateTable(table))
}

/// Parses what follows `DROP`.
pub(crate) fn parse_drop_server(tokens: &mut TokenReader<'_>) -> Result<Definition> {
    tokens.expect_words("server")?;
    let if_exists = tokens.words("if exists");
    let names = tokens.list(TokenReader::name)?;
    if is_cascade(tokens) {
        return Err(SqlError::unsupported("DROP SERVER … CASCADE").with_hint("Drop its tables first."));
    }
    Ok(Definition::DropServers(DropServers { names, if_exists }))
}

/// Parses `IMPORT FOREIGN SCHEMA …`.
pub(crate) fn parse_import(tokens: &mut TokenReader<'_>) -> Result<Definition> {
    tokens.expect_words("import foreign schema")?;
    let schema = tokens.name()?;
    let tables = if tokens.words("limit to") {
        ImportedTables::LimitTo(tokens.parenthesised(TokenReader::name)?)
    } else if tokens.words("except") {
        ImportedTables::Except(tokens.parenthesised(TokenReader::name)?)
    } else {
        ImportedTables::All
    };
    tokens.expect_words("from server")?;
    let server = tokens.name()?;
    tokens.expect_words("into")?;
    let into = tokens.name()?;
    let options = parse_foreign_options(tokens)?;
    Ok(Definition::ImportForeignSchema(ImportForeignSchema { schema, tables, server, into, options }))
}

/// `OPTIONS (name 'value', …)`, if it comes next.
pub(crate) fn parse_foreign_options(tokens: &mut TokenReader<'_>) -> Result<Vec<(String, String)>> {
    if !tokens.words("options") {
        return Ok(Vec::new());
    }
    if tokens.peek() == Some(&Token::LParen) && tokens.peek_nth(1) == Some(&Token::RParen) {
        return Err(tokens.syntax_error());
    }
    tokens.parenthesised(|tokens| Ok((tokens.name()?, tokens.string()?)))
}
