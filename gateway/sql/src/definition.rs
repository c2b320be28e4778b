//! `CREATE TABLE`, `ALTER TABLE`, `DROP TABLE`, with families and dotted options.

use super::{
    clause::{
        AlterAction, AlterTable, CheckClause, ColumnClause, CreateTable, DefaultClause, DropTables, FamilyClause,
        KeyClause, OnCommit, OptionClause,
    },
    create_table_as, sequence,
    statement::{Definition, Statement},
    tokens::Cursor,
    type_name::parse_type,
};
use crate::pg::{
    error::{Result, SqlError, SqlState},
    names::{RelationName, Schema},
};
use datafusion::sql::sqlparser::{
    ast::Expr,
    dialect::{Dialect, Precedence},
    tokenizer::Token,
};
use keyspan_catalog::{SequenceOptions, SqlType, table::Identity};

/// What PostgreSQL can create, alter or drop and we cannot.
const OTHER_OBJECTS: &[&str] = &[
    "access",
    "aggregate",
    "cast",
    "collation",
    "conversion",
    "default",
    "domain",
    "event",
    "extension",
    "external",
    "foreign",
    "function",
    "global",
    "group",
    "index",
    "language",
    "local",
    "materialized",
    "operator",
    "owned",
    "policy",
    "procedure",
    "publication",
    "recursive",
    "rule",
    "schema",
    "sequence",
    "server",
    "statistics",
    "subscription",
    "system",
    "tablespace",
    "temp",
    "temporary",
    "text",
    "trigger",
    "type",
    "unique",
    "unlogged",
];

/// Whether what follows `CREATE`, `ALTER` or `DROP` is known and not supported.
pub(crate) fn is_other_object(word: &str) -> bool {
    OTHER_OBJECTS.contains(&word)
}

pub(crate) fn parse_create_table(cursor: &mut Cursor<'_>, temporary: bool) -> Result<Statement> {
    cursor.expect_words("table")?;
    let if_not_exists = cursor.words("if not exists");
    let mut name = cursor.table_name()?;
    if temporary {
        name = as_temporary(name)?;
    }
    let filled = create_table_as::names_follow(cursor);
    if filled || cursor.peek() != Some(&Token::LParen) {
        let columns = if filled { cursor.parenthesised(Cursor::name)? } else { Vec::new() };
        let options = if cursor.words("with") { parse_options(cursor)? } else { Vec::new() };
        refuse_clauses(cursor)?;
        let on_commit = on_commit(cursor)?;
        refuse_clauses(cursor)?;
        return create_table_as::parse_as(cursor, (name, if_not_exists), columns, (options, on_commit));
    }
    let mut table = CreateTable { name, if_not_exists, ..CreateTable::default() };
    cursor.expect_token(&Token::LParen)?;
    if !cursor.token(&Token::RParen) {
        let mut keys = Vec::new();
        cursor.list(|cursor| parse_element(cursor, &mut table, &mut keys))?;
        cursor.expect_token(&Token::RParen)?;
        if keys.len() > 1 {
            let message = format!("multiple primary keys for table \"{}\" are not allowed", table.name);
            return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
        }
        table.primary_key = keys.pop().unwrap_or_default();
    }
    if cursor.words("with") {
        table.options = parse_options(cursor)?;
    }
    refuse_clauses(cursor)?;
    table.on_commit = on_commit(cursor)?;
    refuse_clauses(cursor)?;
    Ok(Definition::CreateTable(table).into())
}

/// The name of a temporary table or view.
///
/// # Errors
/// 42P16 for one in another schema than that of temporary tables.
pub(crate) fn as_temporary(name: RelationName) -> Result<RelationName> {
    match name.schema {
        None | Some(Schema::Temporary) => Ok(RelationName::within(Schema::Temporary, name.name)),
        Some(_) => {
            let message = "cannot create temporary relation in non-temporary schema";
            Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message))
        }
    }
}

fn on_commit(cursor: &mut Cursor<'_>) -> Result<Option<OnCommit>> {
    let clauses = [
        ("on commit preserve rows", OnCommit::PreserveRows),
        ("on commit delete rows", OnCommit::DeleteRows),
        ("on commit drop", OnCommit::Drop),
    ];
    match clauses.into_iter().find(|(words, _)| cursor.words(words)) {
        None if cursor.head() == "on" => Err(cursor.syntax_error()),
        found => Ok(found.map(|(_, what)| what)),
    }
}

/// Refuses clauses behind a table's columns that are not supported.
fn refuse_clauses(cursor: &mut Cursor<'_>) -> Result<()> {
    for (words, what) in [
        ("inherits", "INHERITS"),
        ("partition by", "PARTITION BY"),
        ("using", "USING"),
        ("tablespace", "TABLESPACE"),
        ("without oids", "WITHOUT OIDS"),
    ] {
        if cursor.words(words) {
            return Err(SqlError::unsupported(what));
        }
    }
    Ok(())
}

/// A column, a key, or a family.
fn parse_element(cursor: &mut Cursor<'_>, table: &mut CreateTable, keys: &mut Vec<Vec<KeyClause>>) -> Result<()> {
    let mut constraint = None;
    if cursor.words("constraint") {
        constraint = Some(cursor.name()?);
        if cursor.head() != "primary" && cursor.head() != "check" {
            return Err(unsupported_constraint(cursor).unwrap_or_else(|| cursor.syntax_error()));
        }
    }
    if cursor.words("primary key") {
        keys.push(cursor.parenthesised(parse_key_part)?);
        return refuse_key_options(cursor);
    }
    if cursor.head() == "check" && cursor.peek_nth(1) == Some(&Token::LParen) {
        table.checks.push(parse_check(cursor, constraint)?);
        return Ok(());
    }
    if is_family(cursor) {
        cursor.advance();
        table.families.push(parse_family(cursor)?);
        return Ok(());
    }
    let next_is_type = matches!(cursor.peek_nth(1), Some(Token::Word(_)));
    if let Some(error) = unsupported_constraint(cursor)
        && (!next_is_type || cursor.head_nth(1) == "key")
    {
        return Err(error);
    }
    let (column, key) = parse_column(cursor, &mut table.checks)?;
    if key {
        keys.push(vec![KeyClause { column: column.name.clone(), descending: false }]);
    }
    table.columns.push(column);
    Ok(())
}

/// `FAMILY name (` and then a name or the end: a column called `family` has a type there, whose arguments are numbers.
fn is_family(cursor: &Cursor<'_>) -> bool {
    cursor.head() == "family"
        && matches!(cursor.peek_nth(1), Some(Token::Word(_)))
        && cursor.peek_nth(2) == Some(&Token::LParen)
        && matches!(cursor.peek_nth(3), Some(Token::Word(_) | Token::RParen))
}

fn parse_family(cursor: &mut Cursor<'_>) -> Result<FamilyClause> {
    let name = cursor.name()?;
    if cursor.peek_nth(1) == Some(&Token::RParen) && cursor.token(&Token::LParen) {
        cursor.advance();
        return Ok(FamilyClause { name, columns: Vec::new() });
    }
    Ok(FamilyClause { name, columns: cursor.parenthesised(Cursor::name)? })
}

fn parse_key_part(cursor: &mut Cursor<'_>) -> Result<KeyClause> {
    let column = cursor.name()?;
    let descending = !cursor.words("asc") && cursor.words("desc");
    if cursor.words("nulls") {
        return Err(SqlError::unsupported("NULLS in a primary key"));
    }
    Ok(KeyClause { column, descending })
}

/// A column; whether it is the primary key by itself.
fn parse_column(cursor: &mut Cursor<'_>, checks: &mut Vec<CheckClause>) -> Result<(ColumnClause, bool)> {
    let name = cursor.name()?;
    let serial = match cursor.head().as_str() {
        "serial" | "serial4" => Some(SqlType::Int4),
        "bigserial" | "serial8" => Some(SqlType::Int8),
        "smallserial" | "serial2" => Some(SqlType::Int2),
        _ => None,
    };
    let kind = match serial {
        Some(kind) => {
            cursor.advance();
            kind
        }
        None => parse_type(cursor)?,
    };
    let mut default = serial.map(|_| DefaultClause::Serial);
    let (mut not_null, mut null, mut key) = (serial.is_some(), false, false);
    loop {
        let constraint = if cursor.words("constraint") { Some(cursor.name()?) } else { None };
        let clause = if cursor.words("default") {
            Some(DefaultClause::Expression(Box::new(parse_default(cursor)?)))
        } else if cursor.words("generated always as identity") {
            Some(DefaultClause::Identity(Identity::Always, identity_options(cursor)?))
        } else if cursor.words("generated by default as identity") {
            Some(DefaultClause::Identity(Identity::ByDefault, identity_options(cursor)?))
        } else {
            None
        };
        if let Some(clause) = clause {
            if default.is_some() {
                let message = format!("multiple default values specified for column \"{name}\"");
                return Err(SqlError::syntax(message));
            }
            not_null |= matches!(clause, DefaultClause::Identity(..));
            default = Some(clause);
            continue;
        }
        if cursor.head() == "check" {
            checks.push(parse_check(cursor, constraint)?);
            continue;
        }
        if cursor.words("not null") {
            not_null = true;
        } else if cursor.words("null") {
            null = true;
        } else if cursor.words("primary key") {
            key = true;
            refuse_key_options(cursor)?;
        } else if let Some(error) = unsupported_constraint(cursor) {
            return Err(error);
        } else {
            break;
        }
    }
    if null && (not_null || key) {
        let message = format!("conflicting NULL/NOT NULL declarations for column \"{name}\"");
        return Err(SqlError::syntax(message));
    }
    Ok((ColumnClause { name, kind, not_null, default }, key))
}

/// An expression that ends before NOT NULL and the like.
fn parse_default(cursor: &mut Cursor<'_>) -> Result<Expr> {
    cursor.parse_with(|parser| {
        let until = super::tokens::DIALECT.prec_value(Precedence::Like);
        parser.parse_subexpr(until)
    })
}

fn identity_options(cursor: &mut Cursor<'_>) -> Result<SequenceOptions> {
    if !cursor.token(&Token::LParen) {
        return Ok(SequenceOptions::default());
    }
    let options = sequence::parse_options(cursor)?;
    cursor.expect_token(&Token::RParen)?;
    Ok(options)
}

/// `CHECK (condition)`
fn parse_check(cursor: &mut Cursor<'_>, name: Option<String>) -> Result<CheckClause> {
    cursor.expect_words("check")?;
    cursor.expect_token(&Token::LParen)?;
    let condition = cursor.parse_with(|parser| parser.parse_expr())?;
    cursor.expect_token(&Token::RParen)?;
    if cursor.words("no inherit") || cursor.words("not valid") {
        return Err(SqlError::unsupported("NO INHERIT and NOT VALID of a CHECK"));
    }
    Ok(CheckClause { name, condition })
}

fn refuse_key_options(cursor: &mut Cursor<'_>) -> Result<()> {
    for word in ["deferrable", "initially", "include", "using", "not deferrable"] {
        if cursor.words(word) {
            return Err(SqlError::unsupported(format!("{} of a primary key", word.to_uppercase())));
        }
    }
    Ok(())
}

/// The constraint that comes next, if it is one that is not supported.
fn unsupported_constraint(cursor: &Cursor<'_>) -> Option<SqlError> {
    let what = match cursor.head().as_str() {
        "check" => "CHECK",
        "references" => "REFERENCES",
        "foreign" => "FOREIGN KEY",
        "unique" => "UNIQUE",
        "exclude" => "EXCLUDE",
        "generated" => "GENERATED",
        "identity" => "IDENTITY",
        "collate" => "COLLATE",
        "like" => "LIKE",
        "storage" => "STORAGE",
        "compression" => "COMPRESSION",
        "auto_increment" => "AUTO_INCREMENT",
        _ => return None,
    };
    let error = SqlError::unsupported(format!("{what} in a table's definition"));
    Some(match what {
        "UNIQUE" => {
            error.with_hint("Only the primary key is unique: take the columns into it, or look before you insert.")
        }
        _ => error,
    })
}

pub(crate) fn parse_options(cursor: &mut Cursor<'_>) -> Result<Vec<OptionClause>> {
    cursor.parenthesised(|cursor| {
        let first = cursor.name()?;
        let (family, name) = if cursor.token(&Token::Period) { (Some(first), cursor.name()?) } else { (None, first) };
        let value = if cursor.token(&Token::Eq) { parse_option_value(cursor)? } else { "true".to_owned() };
        Ok(OptionClause { family, name, value })
    })
}

fn parse_option_value(cursor: &mut Cursor<'_>) -> Result<String> {
    let sign = if cursor.token(&Token::Minus) { "-" } else { "" };
    match cursor.peek() {
        Some(Token::Number(number, _)) => {
            let value = format!("{sign}{number}");
            cursor.advance();
            Ok(value)
        }
        Some(Token::Word(_)) if sign.is_empty() => cursor.name(),
        _ if sign.is_empty() => cursor.string(),
        _ => Err(cursor.syntax_error()),
    }
}

pub(crate) fn parse_alter_table(cursor: &mut Cursor<'_>) -> Result<Definition> {
    cursor.expect_words("table")?;
    let if_exists = cursor.words("if exists");
    cursor.words("only");
    let name = cursor.table_name()?;
    let actions = cursor.list(parse_action)?;
    Ok(Definition::AlterTable(AlterTable { name, if_exists, actions }))
}

fn parse_action(cursor: &mut Cursor<'_>) -> Result<AlterAction> {
    if cursor.words("add family") {
        let if_not_exists = cursor.words("if not exists");
        return Ok(AlterAction::AddFamily { name: cursor.name()?, if_not_exists });
    }
    if cursor.words("drop family") {
        return Ok(AlterAction::DropFamily(cursor.name()?));
    }
    if cursor.words("add") {
        return parse_add(cursor);
    }
    if cursor.words("drop") {
        if cursor.words("constraint") {
            let if_exists = cursor.words("if exists");
            let name = cursor.name()?;
            let _ = cursor.words("restrict") || cursor.words("cascade");
            return Ok(AlterAction::DropConstraint { name, if_exists });
        }
        cursor.words("column");
        let if_exists = cursor.words("if exists");
        let name = cursor.name()?;
        let cascade = is_cascade(cursor);
        return Ok(AlterAction::DropColumn { name, if_exists, cascade });
    }
    if cursor.words("rename to") {
        return Ok(AlterAction::RenameTable(cursor.name()?));
    }
    if cursor.words("rename constraint") {
        return Err(SqlError::unsupported("RENAME CONSTRAINT"));
    }
    if cursor.words("rename") {
        cursor.words("column");
        let from = cursor.name()?;
        cursor.expect_words("to")?;
        return Ok(AlterAction::RenameColumn { from, to: cursor.name()? });
    }
    if cursor.head() == "set" && cursor.peek_nth(1) == Some(&Token::LParen) {
        cursor.advance();
        return Ok(AlterAction::SetOptions(parse_options(cursor)?));
    }
    if cursor.words("alter") {
        return parse_alter_column(cursor);
    }
    for what in ["set", "reset", "owner", "enable", "disable", "cluster", "inherit", "attach", "detach", "validate"] {
        if cursor.head() == what {
            return Err(SqlError::unsupported(format!("ALTER TABLE … {}", what.to_uppercase())));
        }
    }
    Err(cursor.syntax_error())
}

/// A column or a constraint.
fn parse_add(cursor: &mut Cursor<'_>) -> Result<AlterAction> {
    let name = if cursor.words("constraint") { Some(cursor.name()?) } else { None };
    let of_check = cursor.head() == "check" && cursor.peek_nth(1) == Some(&Token::LParen);
    if cursor.words("primary key") {
        if cursor.words("using index") {
            return Err(SqlError::unsupported("ADD PRIMARY KEY USING INDEX"));
        }
        let parts = cursor.parenthesised(parse_key_part)?;
        refuse_key_options(cursor)?;
        return Ok(AlterAction::AddPrimaryKey(parts));
    }
    if of_check {
        return Ok(AlterAction::AddCheck(parse_check(cursor, name)?));
    }
    if name.is_some() {
        return Err(unsupported_constraint(cursor).unwrap_or_else(|| cursor.syntax_error()));
    }
    parse_add_column(cursor)
}

fn parse_add_column(cursor: &mut Cursor<'_>) -> Result<AlterAction> {
    if !cursor.words("column")
        && !matches!(cursor.peek_nth(1), Some(Token::Word(_)))
        && let Some(error) = unsupported_constraint(cursor)
    {
        return Err(error);
    }
    let if_not_exists = cursor.words("if not exists");
    let mut checks = Vec::new();
    let (column, key) = parse_column(cursor, &mut checks)?;
    let family = if cursor.words("family") { Some(cursor.name()?) } else { None };
    Ok(AlterAction::AddColumn { column, checks, key, family, if_not_exists })
}

fn parse_alter_column(cursor: &mut Cursor<'_>) -> Result<AlterAction> {
    cursor.words("column");
    let column = cursor.name()?;
    if cursor.words("set data type") || cursor.words("type") {
        let kind = parse_type(cursor)?;
        if cursor.words("using") {
            return Err(SqlError::unsupported("ALTER COLUMN … TYPE … USING"));
        }
        return Ok(AlterAction::SetType { column, kind });
    }
    if cursor.words("set default") {
        return Ok(AlterAction::SetDefault { column, default: Some(Box::new(parse_default(cursor)?)) });
    }
    if cursor.words("drop default") {
        return Ok(AlterAction::SetDefault { column, default: None });
    }
    if cursor.words("drop not null") {
        return Ok(AlterAction::DropNotNull(column));
    }
    if cursor.words("set not null") {
        return Ok(AlterAction::SetNotNull(column));
    }
    if cursor.head() == "set" || cursor.head() == "drop" || cursor.head() == "add" {
        let what = format!("ALTER COLUMN … {} {}", cursor.head(), cursor.head_nth(1)).to_uppercase();
        return Err(SqlError::unsupported(what));
    }
    Err(cursor.syntax_error())
}

pub(crate) fn parse_drop_table(cursor: &mut Cursor<'_>) -> Result<Definition> {
    cursor.expect_words("table")?;
    let if_exists = cursor.words("if exists");
    let names = cursor.list(Cursor::table_name)?;
    let cascade = is_cascade(cursor);
    Ok(Definition::DropTables(DropTables { names, if_exists, cascade }))
}

/// Passes `CASCADE` or `RESTRICT`; whether it was the first.
pub(crate) fn is_cascade(cursor: &mut Cursor<'_>) -> bool {
    !cursor.words("restrict") && cursor.words("cascade")
}
