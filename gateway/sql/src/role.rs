//! Databases, roles, and who may connect where.

use super::{
    clause::RoleOptions,
    definition,
    statement::{Definition, Statement},
    tokens::Cursor,
};
use crate::pg::error::{Result, SqlError};
use datafusion::sql::sqlparser::tokenizer::Token;

pub(crate) fn parse_create_database(cursor: &mut Cursor<'_>) -> Result<Definition> {
    cursor.expect_words("database")?;
    let name = cursor.name()?;
    if !cursor.at_end() && cursor.peek_nth(0).is_some_and(|token| matches!(token, Token::Word(_))) {
        return Err(SqlError::unsupported(format!("CREATE DATABASE … {}", cursor.head().to_uppercase())));
    }
    Ok(Definition::CreateDatabase(name))
}

pub(crate) fn parse_alter_database(cursor: &mut Cursor<'_>) -> Result<Definition> {
    cursor.expect_words("database")?;
    let name = cursor.name()?;
    let verb = cursor.head();
    if !matches!(verb.as_str(), "set" | "reset") || cursor.peek_nth(1) != Some(&Token::LParen) {
        return Err(SqlError::unsupported(format!("ALTER DATABASE … {}", verb.to_uppercase()))
            .with_hint("A database has quotas: ALTER DATABASE … SET (scan_budget = '10GB'), RESET (scan_budget)."));
    }
    cursor.advance();
    let quotas = if verb == "set" {
        let set = definition::parse_options(cursor)?.into_iter();
        set.map(|option| match option.family {
            Some(_) => Err(SqlError::syntax("a quota's name has no point")),
            None => Ok((option.name, Some(option.value))),
        })
        .collect::<Result<_>>()?
    } else {
        cursor.parenthesised(|cursor| Ok((cursor.name()?, None)))?
    };
    Ok(Definition::AlterDatabase { name, quotas })
}

pub(crate) fn parse_drop_database(cursor: &mut Cursor<'_>) -> Result<Definition> {
    let (name, if_exists) = drop_database(cursor)?;
    Ok(Definition::DropDatabase { name, if_exists })
}

/// `EXPLAIN` was passed, `DROP` comes next.
pub(crate) fn parse_explain_drop(cursor: &mut Cursor<'_>) -> Result<Statement> {
    cursor.expect_words("drop")?;
    Ok(Statement::ExplainDropDatabase(drop_database(cursor)?.0))
}

fn drop_database(cursor: &mut Cursor<'_>) -> Result<(String, bool)> {
    cursor.expect_words("database")?;
    let if_exists = cursor.words("if exists");
    let name = cursor.name()?;
    cursor.words("with");
    if cursor.peek() == Some(&Token::LParen) {
        // Sessions of a dropped tenant end at their next statement, with the word and without it.
        cursor.parenthesised(|cursor| cursor.expect_words("force"))?;
    }
    Ok((name, if_exists))
}

pub(crate) fn parse_create_role(cursor: &mut Cursor<'_>) -> Result<Definition> {
    let user = cursor.head() == "user";
    cursor.advance();
    let name = cursor.name()?;
    let mut options = parse_role_options(cursor)?;
    if user {
        options.login.get_or_insert(true);
    }
    Ok(Definition::CreateRole(name, options))
}

pub(crate) fn parse_alter_role(cursor: &mut Cursor<'_>) -> Result<Definition> {
    cursor.advance();
    let name = cursor.name()?;
    for what in ["set", "reset", "rename", "in"] {
        if cursor.head() == what {
            return Err(SqlError::unsupported(format!("ALTER ROLE … {}", what.to_uppercase())));
        }
    }
    Ok(Definition::AlterRole(name, parse_role_options(cursor)?))
}

fn parse_role_options(cursor: &mut Cursor<'_>) -> Result<RoleOptions> {
    let mut options = RoleOptions::default();
    cursor.words("with");
    while !cursor.at_end() {
        let here = cursor.syntax_error();
        let word = cursor.head();
        cursor.words("encrypted");
        let twice = match cursor.head().as_str() {
            "login" | "nologin" => options.login.replace(word == "login").is_some(),
            "superuser" | "nosuperuser" => options.operator.replace(word == "superuser").is_some(),
            "password" => {
                cursor.advance();
                let password = if cursor.head() == "null" { None } else { Some(cursor.string()?) };
                if password.is_some() {
                    // The token was passed by `string` already.
                    if options.password.replace(password).is_some() {
                        return Err(SqlError::syntax("conflicting or redundant options"));
                    }
                    continue;
                }
                options.password.replace(None).is_some()
            }
            // What every role is here anyway.
            "inherit" | "nocreatedb" | "nocreaterole" | "noreplication" | "nobypassrls" => false,
            "createdb" | "createrole" | "noinherit" | "replication" | "bypassrls" | "connection" | "valid" | "in"
            | "role" | "admin" | "user" | "sysid" => {
                return Err(SqlError::unsupported(format!("role option {}", word.to_uppercase()))
                    .with_hint("Roles have LOGIN, PASSWORD and SUPERUSER (an operator), and GRANT CONNECT."));
            }
            _ => return Err(here),
        };
        if twice {
            return Err(SqlError::syntax("conflicting or redundant options"));
        }
        cursor.advance();
    }
    Ok(options)
}

pub(crate) fn parse_drop_roles(cursor: &mut Cursor<'_>) -> Result<Definition> {
    cursor.advance();
    let if_exists = cursor.words("if exists");
    Ok(Definition::DropRoles { names: cursor.list(Cursor::name)?, if_exists })
}

/// `GRANT CONNECT ON DATABASE … TO …`, `REVOKE CONNECT ON DATABASE … FROM …`.
pub(crate) fn parse_grant(cursor: &mut Cursor<'_>) -> Result<Statement> {
    let grant = cursor.head() == "grant";
    let verb = cursor.head().to_uppercase();
    cursor.advance();
    if !cursor.words("connect on database") {
        // What else can be granted is known, and not supported.
        return Err(match cursor.peek() {
            Some(Token::Word(_)) => SqlError::unsupported(format!("{verb} {}", cursor.head().to_uppercase()))
                .with_hint(format!("{verb} CONNECT ON DATABASE is what a role can have.")),
            _ => cursor.syntax_error(),
        });
    }
    let databases = cursor.list(Cursor::name)?;
    cursor.expect_words(if grant { "to" } else { "from" })?;
    let roles = cursor.list(|cursor| {
        cursor.words("group");
        cursor.name()
    })?;
    if cursor.words("with grant option") || cursor.words("granted by") {
        return Err(SqlError::unsupported("a grant option"));
    }
    let _ = !grant && (cursor.words("restrict") || cursor.words("cascade"));
    Ok(Statement::Definition(if grant {
        Definition::GrantConnect { databases, roles }
    } else {
        Definition::RevokeConnect { databases, roles }
    }))
}
