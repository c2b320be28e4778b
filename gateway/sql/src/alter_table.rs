//! `ALTER TABLE`.

use crate::{
    ast::{
        definition::{AlterAction, AlterTable, Definition},
        grant::Owned,
        schema::Moved,
    },
    definition::{
        is_cascade, parse_check, parse_column, parse_default, parse_key, parse_options, unsupported_constraint,
    },
    grant,
    schema::set_schema,
    sequence,
    tokens::TokenReader,
    type_name::parse_column_type,
};
use datafusion::sql::sqlparser::tokenizer::Token;
use keyspan_pg::error::{Result, SqlError};

pub(crate) fn parse_alter_table(tokens: &mut TokenReader<'_>) -> Result<Definition> {
    tokens.expect_words("table")?;
    let if_exists = tokens.words("if exists");
    tokens.words("only");
    let name = tokens.table_name()?;
    if let Some(owner) = grant::owner_to(tokens, || Owned::Table(name.clone(), if_exists))? {
        return Ok(owner);
    }
    if let Some(moved) = set_schema(tokens, Moved::Table, (&name, if_exists))? {
        return Ok(moved);
    }
    let actions = tokens.list(parse_action)?;
    Ok(Definition::AlterTable(AlterTable { name, if_exists, actions }))
}

fn parse_action(tokens: &mut TokenReader<'_>) -> Result<AlterAction> {
    if tokens.words("add family") {
        let if_not_exists = tokens.words("if not exists");
        let (name, open) = (tokens.name()?, tokens.words("open"));
        let options = if tokens.words("with") { parse_options(tokens)? } else { Vec::new() };
        return Ok(AlterAction::AddFamily { name, open, options, if_not_exists });
    }
    if tokens.words("drop family") {
        return Ok(AlterAction::DropFamily(tokens.name()?));
    }
    if tokens.words("add") {
        return parse_add(tokens);
    }
    if tokens.words("drop") {
        if tokens.words("constraint") {
            let if_exists = tokens.words("if exists");
            let name = tokens.name()?;
            let _ = tokens.words("restrict") || tokens.words("cascade");
            return Ok(AlterAction::DropConstraint { name, if_exists });
        }
        tokens.words("column");
        let if_exists = tokens.words("if exists");
        let name = tokens.name()?;
        let cascade = is_cascade(tokens);
        return Ok(AlterAction::DropColumn { name, if_exists, cascade });
    }
    if tokens.words("rename to") {
        return Ok(AlterAction::RenameTable(tokens.name()?));
    }
    if tokens.words("rename constraint") {
        return Err(SqlError::unsupported("RENAME CONSTRAINT"));
    }
    if tokens.words("rename") {
        tokens.words("column");
        let from = tokens.name()?;
        tokens.expect_words("to")?;
        return Ok(AlterAction::RenameColumn { from, to: tokens.name()? });
    }
    if tokens.head() == "set" && tokens.peek_nth(1) == Some(&Token::LParen) {
        tokens.advance();
        return Ok(AlterAction::SetOptions(parse_options(tokens)?));
    }
    if tokens.words("alter") {
        return parse_alter_column(tokens);
    }
    for what in ["set", "reset", "owner", "enable", "disable", "cluster", "inherit", "attach", "detach", "validate"] {
        if tokens.head() == what {
            return Err(SqlError::unsupported(format!("ALTER TABLE … {}", what.to_uppercase())));
        }
    }
    Err(tokens.syntax_error())
}

/// Parses the rest of `ALTER TABLE … ADD`: a column or a constraint.
fn parse_add(tokens: &mut TokenReader<'_>) -> Result<AlterAction> {
    let name = if tokens.words("constraint") { Some(tokens.name()?) } else { None };
    let is_check = tokens.head() == "check" && tokens.peek_nth(1) == Some(&Token::LParen);
    if tokens.words("primary key") {
        if tokens.words("using index") {
            return Err(SqlError::unsupported("ADD PRIMARY KEY USING INDEX"));
        }
        return Ok(AlterAction::AddPrimaryKey(parse_key(tokens)?));
    }
    if is_check {
        return Ok(AlterAction::AddCheck(parse_check(tokens, name)?));
    }
    if name.is_some() {
        return Err(unsupported_constraint(tokens).unwrap_or_else(|| tokens.syntax_error()));
    }
    parse_add_column(tokens)
}

fn parse_add_column(tokens: &mut TokenReader<'_>) -> Result<AlterAction> {
    if !tokens.words("column")
        && !matches!(tokens.peek_nth(1), Some(Token::Word(_)))
        && let Some(error) = unsupported_constraint(tokens)
    {
        return Err(error);
    }
    let if_not_exists = tokens.words("if not exists");
    let mut checks = Vec::new();
    let (column, key) = parse_column(tokens, &mut checks)?;
    Ok(AlterAction::AddColumn { column, checks, key, if_not_exists })
}

fn parse_alter_column(tokens: &mut TokenReader<'_>) -> Result<AlterAction> {
    tokens.words("column");
    let column = tokens.name()?;
    if tokens.words("set data type") || tokens.words("type") {
        let (kind, own_type) = parse_column_type(tokens)?;
        if tokens.words("collate") {
            // The order of bytes is all there is.
            let collation = tokens.name()?;
            if !["C", "POSIX", "default"].contains(&collation.as_str()) {
                return Err(SqlError::unsupported(format!("collation \"{collation}\"")));
            }
        }
        let using = match tokens.words("using") {
            true => Some(Box::new(tokens.parse_with(|parser| parser.parse_expr())?)),
            false => None,
        };
        return Ok(AlterAction::SetType { column, kind, own_type, using });
    }
    if tokens.words("set default") {
        return Ok(AlterAction::SetDefault { column, default: Some(Box::new(parse_default(tokens)?)) });
    }
    if tokens.words("drop default") {
        return Ok(AlterAction::SetDefault { column, default: None });
    }
    if tokens.words("drop not null") {
        return Ok(AlterAction::DropNotNull(column));
    }
    if tokens.words("set not null") {
        return Ok(AlterAction::SetNotNull(column));
    }
    if tokens.head() == "add" && tokens.head_nth(1) == "generated" {
        tokens.advance();
        let (identity, sequence) = sequence::identity(tokens)?.ok_or_else(|| tokens.syntax_error())?;
        return Ok(AlterAction::AddIdentity { column, identity, sequence });
    }
    if let Some((identity, options)) = sequence::identity_changes(tokens)? {
        return Ok(AlterAction::AlterIdentity { column, identity, options });
    }
    if tokens.head() == "set" || tokens.head() == "drop" || tokens.head() == "add" {
        let what = format!("ALTER COLUMN … {} {}", tokens.head(), tokens.head_nth(1)).to_uppercase();
        return Err(SqlError::unsupported(what));
    }
    Err(tokens.syntax_error())
}
