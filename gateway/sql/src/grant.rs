//! `GRANT` and `REVOKE`, `ALTER DEFAULT PRIVILEGES`, `ALTER … OWNER TO`, `REASSIGN OWNED`.

use crate::{
    ast::{
        Statement,
        definition::Definition,
        grant::{Granted, GrantedOn, Owned, RightsChange, RoleSpec},
    },
    tokens::TokenReader,
};
use datafusion::sql::sqlparser::tokenizer::Token;
use keyspan_catalog::{ObjectKind, Privileges};
use keyspan_pg::{
    error::{Result, SqlError},
    names::Schema,
};

/// Kinds of objects that have privileges in PostgreSQL and do not exist here.
const OTHER_OBJECTS: [&str; 8] = ["domain", "foreign", "language", "large", "parameter", "tablespace", "type", "types"];

/// `GRANT …`, `REVOKE …`
pub(crate) fn parse_grant(tokens: &mut TokenReader<'_>) -> Result<Statement> {
    let grant = tokens.head() == "grant";
    tokens.advance();
    let (admin_for, option_for) = options_for(tokens, grant);
    let words = if admin_for { None } else { privileges(tokens)? };
    let Some(words) = words.filter(|_| tokens.head() == "on") else {
        return membership(tokens, grant, admin_for).map(Statement::Definition);
    };
    tokens.expect_words("on")?;
    if tokens.words("database") {
        return on_databases(tokens, grant, &words, option_for).map(Statement::Definition);
    }
    let on = objects(tokens)?;
    let granted = to_whom(tokens, grant, words.privileges()?, option_for)?;
    Ok(Statement::Definition(Definition::Rights(RightsChange::Privileges(granted, on))))
}

/// `ADMIN OPTION FOR`, `GRANT OPTION FOR`
fn options_for(tokens: &mut TokenReader<'_>, grant: bool) -> (bool, bool) {
    if grant { (false, false) } else { (tokens.words("admin option for"), tokens.words("grant option for")) }
}

/// Privileges as they are written, or names of roles.
struct Words {
    all: bool,
    names: Vec<String>,
}

impl Words {
    /// # Errors
    /// 42601 for a word that is no privilege.
    fn privileges(&self) -> Result<Option<Privileges>> {
        if self.all {
            return Ok(None);
        }
        let one = |all: Privileges, name: &String| match Privileges::named(&name.to_uppercase()) {
            Some(privilege) => Ok(all | privilege),
            None => Err(SqlError::syntax(format!("unrecognized privilege type \"{name}\""))),
        };
        self.names.iter().try_fold(Privileges::NONE, one).map(Some)
    }
}

/// The words between GRANT and ON. `None`, with the tokens where they were, for what is a list of roles.
fn privileges(tokens: &mut TokenReader<'_>) -> Result<Option<Words>> {
    if !tokens.contains(&["on"]) {
        return Ok(None);
    }
    let all = tokens.words("all");
    if all {
        tokens.words("privileges");
    }
    let columns = |tokens: &TokenReader<'_>| tokens.peek() == Some(&Token::LParen);
    let refused = || {
        SqlError::unsupported("GRANT and REVOKE of privileges on columns")
            .with_hint("A view shows some columns of a table.")
    };
    if all {
        return if columns(tokens) { Err(refused()) } else { Ok(Some(Words { all, names: Vec::new() })) };
    }
    let names = tokens.list(|tokens| {
        if tokens.words("alter system") {
            return Ok("alter system".to_owned());
        }
        let name = tokens.name()?;
        if columns(tokens) { Err(refused()) } else { Ok(name) }
    })?;
    Ok(Some(Words { all, names }))
}

fn objects(tokens: &mut TokenReader<'_>) -> Result<GrantedOn> {
    if tokens.words("all tables in schema") {
        return Ok(GrantedOn::All(ObjectKind::Relation, tokens.list(TokenReader::name)?));
    }
    if tokens.words("all sequences in schema") {
        return Ok(GrantedOn::All(ObjectKind::Sequence, tokens.list(TokenReader::name)?));
    }
    for what in ["functions", "procedures", "routines"] {
        if tokens.words(&format!("all {what} in schema")) {
            tokens.list(TokenReader::name)?;
            return Ok(GrantedOn::Nothing);
        }
    }
    if tokens.words("schema") {
        return Ok(GrantedOn::Schemas(tokens.list(TokenReader::name)?));
    }
    if tokens.words("sequence") {
        return Ok(GrantedOn::Sequences(tokens.list(TokenReader::table_name)?));
    }
    let word = tokens.head();
    let is_kind =
        OTHER_OBJECTS.contains(&word.as_str()) || ["function", "procedure", "routine"].contains(&word.as_str());
    if is_kind && matches!(tokens.peek_nth(1), Some(Token::Word(_))) {
        return Err(SqlError::unsupported(format!("privileges on a {}", word.to_uppercase())));
    }
    tokens.words("table");
    Ok(GrantedOn::Relations(tokens.list(TokenReader::table_name)?))
}

/// The rest of a GRANT or REVOKE of privileges.
fn to_whom(
    tokens: &mut TokenReader<'_>,
    grant: bool,
    privileges: Option<Privileges>,
    option_for: bool,
) -> Result<Granted> {
    tokens.expect_words(if grant { "to" } else { "from" })?;
    let roles = tokens.list(role)?;
    let option = option_for || (grant && tokens.words("with grant option"));
    granted_by(tokens)?;
    let cascade = !grant && cascades(tokens);
    Ok(Granted { grant, privileges, roles, option, cascade })
}

/// `GRANTED BY`: as in PostgreSQL, it may only say what is so anyway.
fn granted_by(tokens: &mut TokenReader<'_>) -> Result<()> {
    if tokens.words("granted by") && role(tokens)? != RoleSpec::Current {
        return Err(
            SqlError::unsupported("GRANTED BY another role").with_hint("GRANTED BY CURRENT_USER is what holds.")
        );
    }
    Ok(())
}

fn cascades(tokens: &mut TokenReader<'_>) -> bool {
    let cascade = tokens.words("cascade");
    let _ = cascade || tokens.words("restrict");
    cascade
}

/// A role, with or without `GROUP`.
pub(crate) fn role(tokens: &mut TokenReader<'_>) -> Result<RoleSpec> {
    tokens.words("group");
    let quoted = matches!(tokens.peek(), Some(Token::Word(word)) if word.quote_style.is_some());
    let name = tokens.name()?;
    Ok(match name.as_str() {
        "public" => RoleSpec::Public,
        "current_user" | "current_role" | "session_user" if !quoted => RoleSpec::Current,
        _ => RoleSpec::Named(name),
    })
}

fn membership(tokens: &mut TokenReader<'_>, grant: bool, admin_for: bool) -> Result<Definition> {
    let roles = tokens.list(|tokens| {
        if tokens.peek_nth(1) == Some(&Token::LParen) {
            return Err(tokens.syntax_error());
        }
        role(tokens)
    })?;
    tokens.expect_words(if grant { "to" } else { "from" })?;
    let members = tokens.list(role)?;
    let admin = admin_for || (grant && (tokens.words("with admin option") || tokens.words("with admin true")));
    granted_by(tokens)?;
    if !grant {
        cascades(tokens);
    }
    Ok(Definition::Rights(RightsChange::Membership { grant, roles, members, admin }))
}

/// `GRANT CONNECT ON DATABASE …`: the only privilege of a database that is asked for, since who may connect may have
/// temporary tables.
fn on_databases(tokens: &mut TokenReader<'_>, grant: bool, words: &Words, option_for: bool) -> Result<Definition> {
    let privileges = words.privileges()?;
    let databases = tokens.list(TokenReader::name)?;
    let granted = to_whom(tokens, grant, privileges, option_for)?;
    if granted.option {
        return Err(SqlError::unsupported("a grant option of CONNECT"));
    }
    if privileges.is_some_and(|some| !some.has(Privileges::CONNECT)) {
        return Err(SqlError::unsupported("GRANT and REVOKE of a database's privileges but CONNECT"));
    }
    let mut roles = Vec::with_capacity(granted.roles.len());
    for role in granted.roles {
        match role {
            RoleSpec::Named(name) => roles.push(name),
            // It has none: a role is let in by its name.
            RoleSpec::Public if !grant => {}
            RoleSpec::Public => return Err(SqlError::unsupported("GRANT CONNECT TO PUBLIC")),
            RoleSpec::Current => return Err(SqlError::unsupported("GRANT CONNECT TO CURRENT_USER")),
        }
    }
    Ok(if grant {
        Definition::GrantConnect { databases, roles }
    } else {
        Definition::RevokeConnect { databases, roles }
    })
}

/// `ALTER DEFAULT PRIVILEGES …`, from `DEFAULT` on.
pub(crate) fn parse_default_privileges(tokens: &mut TokenReader<'_>) -> Result<Definition> {
    tokens.expect_words("default privileges")?;
    let mut roles = Vec::new();
    let mut in_schemas = Vec::new();
    loop {
        if tokens.words("for role") || tokens.words("for user") {
            roles = tokens.list(role)?;
        } else if tokens.words("in schema") {
            in_schemas = tokens.list(TokenReader::name)?;
            in_schemas.iter().try_for_each(|schema| check_schema(schema))?;
        } else {
            break;
        }
    }
    let grant = tokens.head() == "grant";
    if !grant && tokens.head() != "revoke" {
        return Err(tokens.syntax_error());
    }
    tokens.advance();
    let (_, option_for) = options_for(tokens, grant);
    let words = privileges(tokens)?.ok_or_else(|| tokens.syntax_error())?;
    tokens.expect_words("on")?;
    let kind = match tokens.head().as_str() {
        "tables" => ObjectKind::Relation,
        "sequences" => ObjectKind::Sequence,
        what @ ("functions" | "routines" | "types" | "schemas") => {
            return Err(SqlError::unsupported(format!("default privileges of {}", what.to_uppercase())));
        }
        _ => return Err(tokens.syntax_error()),
    };
    tokens.advance();
    let granted = to_whom(tokens, grant, words.privileges()?, option_for)?;
    Ok(Definition::Rights(RightsChange::Defaults { roles, schemas: in_schemas, kind, granted }))
}

/// # Errors
/// 0A000 for a schema of the system.
pub fn check_schema(schema: &str) -> Result<()> {
    match Schema::named(schema) {
        Schema::Public | Schema::Own(_) => Ok(()),
        _ => Err(SqlError::unsupported(format!("GRANT and REVOKE in schema {schema}"))),
    }
}

/// `OWNER TO role`, if that comes.
pub(crate) fn owner_to(tokens: &mut TokenReader<'_>, of: impl FnOnce() -> Owned) -> Result<Option<Definition>> {
    if !tokens.words("owner to") {
        return Ok(None);
    }
    let role = role(tokens)?;
    Ok(Some(Definition::Rights(RightsChange::Owner(of(), role))))
}

/// `REASSIGN OWNED BY roles TO role`
pub(crate) fn parse_reassign(tokens: &mut TokenReader<'_>) -> Result<Statement> {
    tokens.expect_words("reassign owned by")?;
    let roles = tokens.list(role)?;
    tokens.expect_words("to")?;
    Ok(Statement::Definition(Definition::Rights(RightsChange::Reassign(roles, role(tokens)?))))
}
