//! Databases, roles, and who may connect where.

use crate::{
    ast::{
        Statement,
        definition::{DatabaseSource, Definition, RoleOptions, SessionsOf},
        grant::Owned,
    },
    definition, grant, settings,
    tokens::TokenReader,
};
use datafusion::sql::sqlparser::tokenizer::Token;
use keyspan_pg::error::{Result, SqlError, SqlState};

/// Databases of PostgreSQL that new ones are copies of.
const EMPTY_TEMPLATES: [&str; 2] = ["template0", "template1"];

pub(crate) fn parse_create_database(tokens: &mut TokenReader<'_>) -> Result<Definition> {
    tokens.expect_words("database")?;
    let name = tokens.name()?;
    tokens.words("with");
    let (mut owner, mut source) = (None, None);
    loop {
        let is_again = if tokens.words("owner") {
            tokens.token(&Token::Eq);
            owner.replace(grant::role(tokens)?).is_some()
        } else if let Some(found) = parse_source(tokens)? {
            source.replace(found).is_some()
        } else {
            break;
        };
        if is_again {
            return Err(SqlError::syntax("conflicting or redundant options"));
        }
    }
    if !tokens.at_end() && tokens.peek_nth(0).is_some_and(|token| matches!(token, Token::Word(_))) {
        return Err(SqlError::unsupported(format!("CREATE DATABASE … {}", tokens.head().to_uppercase())));
    }
    Ok(Definition::CreateDatabase { name, owner, source: source.flatten() })
}

/// Parses `TEMPLATE …` and `FROM BACKUP …`, if they come next. Inside, `None` is an empty template.
fn parse_source(tokens: &mut TokenReader<'_>) -> Result<Option<Option<DatabaseSource>>> {
    if tokens.words("from backup") {
        let path = tokens.string()?;
        tokens.expect_words("tenant")?;
        return Ok(Some(Some(DatabaseSource::Backup { path, tenant: tokens.name()? })));
    }
    if !tokens.words("template") {
        return Ok(None);
    }
    tokens.token(&Token::Eq);
    let name = tokens.name()?;
    // These are empty in PostgreSQL, and programs name them.
    if EMPTY_TEMPLATES.contains(&name.as_str()) {
        return Ok(Some(None));
    }
    let as_of = if tokens.words("as of") { Some(tokens.string()?) } else { None };
    Ok(Some(Some(DatabaseSource::Template { name, as_of })))
}

pub(crate) fn parse_alter_database(tokens: &mut TokenReader<'_>) -> Result<Definition> {
    tokens.expect_words("database")?;
    let name = tokens.name()?;
    if let Some(owner) = grant::owner_to(tokens, || Owned::Database(name.clone()))? {
        return Ok(owner);
    }
    let verb = tokens.head();
    if matches!(verb.as_str(), "set" | "reset") && tokens.peek_nth(1) != Some(&Token::LParen) {
        return session_defaults(tokens, SessionsOf::Database(name));
    }
    tokens.words("with");
    if tokens.words("connection limit") {
        // PostgreSQL's word for a quota.
        let limit = connection_limit(tokens)?.map(|limit| limit.to_string());
        return Ok(Definition::AlterDatabase { name, quotas: vec![("connections".to_owned(), limit)] });
    }
    if !matches!(verb.as_str(), "set" | "reset") || tokens.peek_nth(1) != Some(&Token::LParen) {
        return Err(SqlError::unsupported(format!("ALTER DATABASE … {}", verb.to_uppercase()))
            .with_hint("A database has quotas: ALTER DATABASE … SET (scan_budget = '10GB'), RESET (scan_budget)."));
    }
    tokens.advance();
    let quotas = if verb == "set" {
        let set = definition::parse_options(tokens)?.into_iter();
        set.map(|option| match option.family {
            Some(_) => Err(SqlError::syntax("a quota's name has no point")),
            None => Ok((option.name, Some(option.value))),
        })
        .collect::<Result<_>>()?
    } else {
        tokens.parenthesised(|tokens| Ok((tokens.name()?, None)))?
    };
    Ok(Definition::AlterDatabase { name, quotas })
}

pub(crate) fn parse_drop_database(tokens: &mut TokenReader<'_>) -> Result<Definition> {
    let (name, if_exists, force) = drop_database(tokens)?;
    Ok(Definition::DropDatabase { name, if_exists, force })
}

/// Parses `EXPLAIN DROP DATABASE` from `DROP` on.
pub(crate) fn parse_explain_drop(tokens: &mut TokenReader<'_>) -> Result<Statement> {
    tokens.expect_words("drop")?;
    Ok(Statement::ExplainDropDatabase(drop_database(tokens)?.0))
}

/// The name, whether it may be missing, and whether its sessions are ended.
fn drop_database(tokens: &mut TokenReader<'_>) -> Result<(String, bool, bool)> {
    tokens.expect_words("database")?;
    let if_exists = tokens.words("if exists");
    let name = tokens.name()?;
    tokens.words("with");
    let force = tokens.peek() == Some(&Token::LParen);
    if force {
        tokens.parenthesised(|tokens| tokens.expect_words("force"))?;
    }
    Ok((name, if_exists, force))
}

pub(crate) fn parse_create_role(tokens: &mut TokenReader<'_>) -> Result<Definition> {
    let user = tokens.head() == "user";
    tokens.advance();
    let name = tokens.name()?;
    let mut options = parse_role_options(tokens)?;
    if user {
        options.login.get_or_insert(true);
    }
    Ok(Definition::CreateRole(name, options))
}

pub(crate) fn parse_alter_role(tokens: &mut TokenReader<'_>) -> Result<Definition> {
    tokens.advance();
    let name = tokens.name()?;
    if tokens.head() == "rename" {
        return Err(SqlError::unsupported("ALTER ROLE … RENAME"));
    }
    if tokens.words("in database") {
        let database = tokens.name()?;
        return session_defaults(tokens, SessionsOf::RoleIn { role: name, database });
    }
    if matches!(tokens.head().as_str(), "set" | "reset") {
        return session_defaults(tokens, SessionsOf::Role(name));
    }
    Ok(Definition::AlterRole(name, parse_role_options(tokens)?))
}

/// Parses `SET name TO value`, `RESET name` and `RESET ALL` behind a role or a database.
fn session_defaults(tokens: &mut TokenReader<'_>, of: SessionsOf) -> Result<Definition> {
    let change = settings::parse_default(tokens)?;
    Ok(Definition::SessionDefaults { of, change })
}

fn parse_role_options(tokens: &mut TokenReader<'_>) -> Result<RoleOptions> {
    let mut options = RoleOptions::default();
    tokens.words("with");
    while !tokens.at_end() {
        let here = tokens.syntax_error();
        let word = tokens.head();
        tokens.words("encrypted");
        let twice = match tokens.head().as_str() {
            "login" | "nologin" => options.login.replace(word == "login").is_some(),
            "superuser" | "nosuperuser" => options.operator.replace(word == "superuser").is_some(),
            "password" => {
                tokens.advance();
                let password = if tokens.head() == "null" { None } else { Some(tokens.string()?) };
                if password.is_some() {
                    // `string` has consumed the token already.
                    if options.password.replace(password).is_some() {
                        return Err(SqlError::syntax("conflicting or redundant options"));
                    }
                    continue;
                }
                options.password.replace(None).is_some()
            }
            "connection" => {
                tokens.advance();
                tokens.expect_words("limit")?;
                if options.connection_limit.replace(connection_limit(tokens)?).is_some() {
                    return Err(SqlError::syntax("conflicting or redundant options"));
                }
                continue;
            }
            "valid" => {
                tokens.advance();
                tokens.expect_words("until")?;
                if options.valid_until.replace(tokens.string()?).is_some() {
                    return Err(SqlError::syntax("conflicting or redundant options"));
                }
                continue;
            }
            // Every role has these already.
            "inherit" | "noinherit" => options.inherit.replace(word == "inherit").is_some(),
            "nocreatedb" | "nocreaterole" | "noreplication" | "nobypassrls" => false,
            "createdb" | "createrole" | "replication" | "bypassrls" | "in" | "role" | "admin" | "user" | "sysid" => {
                return Err(SqlError::unsupported(format!("role option {}", word.to_uppercase())).with_hint(
                    "Roles have LOGIN, PASSWORD, VALID UNTIL, CONNECTION LIMIT, INHERIT and SUPERUSER (an operator).",
                ));
            }
            _ => return Err(here),
        };
        if twice {
            return Err(SqlError::syntax("conflicting or redundant options"));
        }
        tokens.advance();
    }
    Ok(options)
}

/// The number behind `CONNECTION LIMIT`; `None` for -1.
fn connection_limit(tokens: &mut TokenReader<'_>) -> Result<Option<u32>> {
    let here = tokens.syntax_error();
    let below_zero = tokens.token(&Token::Minus);
    let number = match tokens.peek() {
        Some(Token::Number(number, _)) => number.parse::<u32>().map_err(|_| here)?,
        _ => return Err(here),
    };
    tokens.advance();
    match (below_zero, number) {
        (false, number) => Ok(Some(number)),
        (true, 1) => Ok(None),
        (true, number) => {
            let message = format!("invalid connection limit: -{number}");
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
        }
    }
}

pub(crate) fn parse_drop_roles(tokens: &mut TokenReader<'_>) -> Result<Definition> {
    tokens.advance();
    let if_exists = tokens.words("if exists");
    Ok(Definition::DropRoles { names: tokens.list(TokenReader::name)?, if_exists })
}
