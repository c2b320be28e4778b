//! `CREATE TABLE` and `DROP TABLE`, with families and dotted options; the parts that
//! [`alter_table`](crate::alter_table) has, too.

use crate::{
    ast::{
        Statement,
        definition::{
            CellsClause, CheckClause, ColumnClause, CreateTable, DefaultClause, Definition, DropTables, FamilyClause,
            KeyClause, OnCommit, OptionClause,
        },
    },
    create_table_as,
    names::as_temporary,
    sequence, server,
    tokens::TokenReader,
    type_name::parse_column_type,
};
use datafusion::sql::sqlparser::{
    ast::Expr,
    dialect::{Dialect, PostgreSqlDialect, Precedence},
    tokenizer::Token,
};
use keyspan_catalog::{Encoding, PartOrder, SqlType};
use keyspan_pg::error::{Result, SqlError, SqlState};

/// Words behind CREATE, ALTER or DROP that PostgreSQL knows and that are not supported.
const OTHER_OBJECTS: &[&str] = &[
    "access",
    "aggregate",
    "cast",
    "collation",
    "conversion",
    "default",
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
    "operator",
    "owned",
    "policy",
    "procedure",
    "publication",
    "recursive",
    "rule",
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
    "unique",
    "unlogged",
];

/// Whether the word behind `CREATE`, `ALTER` or `DROP` is PostgreSQL's and not supported.
pub(crate) fn is_other_object(word: &str) -> bool {
    OTHER_OBJECTS.contains(&word)
}

pub(crate) fn parse_create_table(tokens: &mut TokenReader<'_>, temporary: bool) -> Result<Statement> {
    tokens.expect_words("table")?;
    let if_not_exists = tokens.words("if not exists");
    let mut name = tokens.table_name()?;
    if temporary {
        name = as_temporary(name)?;
    }
    let has_names = create_table_as::names_follow(tokens);
    if has_names || tokens.peek() != Some(&Token::LParen) {
        let columns = if has_names { tokens.parenthesised(TokenReader::name)? } else { Vec::new() };
        let options = if tokens.words("with") { parse_options(tokens)? } else { Vec::new() };
        refuse_clauses(tokens)?;
        let on_commit = on_commit(tokens)?;
        refuse_clauses(tokens)?;
        return create_table_as::parse_as(tokens, (name, if_not_exists), columns, (options, on_commit));
    }
    let mut table = CreateTable { name, if_not_exists, ..CreateTable::default() };
    parse_elements(tokens, &mut table)?;
    if tokens.words("with") {
        table.options = parse_options(tokens)?;
    }
    refuse_clauses(tokens)?;
    table.on_commit = on_commit(tokens)?;
    refuse_clauses(tokens)?;
    if tokens.words("server") {
        table.server = Some(tokens.name()?);
    }
    Ok(Definition::CreateTable(table).into())
}

/// Parses `(columns and constraints)`.
pub(crate) fn parse_elements(tokens: &mut TokenReader<'_>, table: &mut CreateTable) -> Result<()> {
    tokens.expect_token(&Token::LParen)?;
    if tokens.token(&Token::RParen) {
        return Ok(());
    }
    let mut keys = Vec::new();
    tokens.list(|tokens| parse_element(tokens, table, &mut keys))?;
    tokens.expect_token(&Token::RParen)?;
    if keys.len() > 1 {
        let message = format!("multiple primary keys for table \"{}\" are not allowed", table.name);
        return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
    }
    table.primary_key = keys.pop().unwrap_or_default();
    Ok(())
}

fn on_commit(tokens: &mut TokenReader<'_>) -> Result<Option<OnCommit>> {
    let clauses = [
        ("on commit preserve rows", OnCommit::PreserveRows),
        ("on commit delete rows", OnCommit::DeleteRows),
        ("on commit drop", OnCommit::Drop),
    ];
    match clauses.into_iter().find(|(words, _)| tokens.words(words)) {
        None if tokens.head() == "on" => Err(tokens.syntax_error()),
        found => Ok(found.map(|(_, what)| what)),
    }
}

/// Refuses unsupported clauses behind a table's columns: 0A000.
fn refuse_clauses(tokens: &mut TokenReader<'_>) -> Result<()> {
    for (words, what) in [
        ("inherits", "INHERITS"),
        ("partition by", "PARTITION BY"),
        ("using", "USING"),
        ("tablespace", "TABLESPACE"),
        ("without oids", "WITHOUT OIDS"),
    ] {
        if tokens.words(words) {
            return Err(SqlError::unsupported(what));
        }
    }
    Ok(())
}

/// Parses a column, a constraint or a family of `CREATE TABLE`. The parts of primary keys go to `keys`.
fn parse_element(tokens: &mut TokenReader<'_>, table: &mut CreateTable, keys: &mut Vec<Vec<KeyClause>>) -> Result<()> {
    let mut constraint = None;
    if tokens.words("constraint") {
        constraint = Some(tokens.name()?);
        if tokens.head() != "primary" && tokens.head() != "check" {
            return Err(unsupported_constraint(tokens).unwrap_or_else(|| tokens.syntax_error()));
        }
    }
    if tokens.words("primary key") {
        keys.push(parse_key(tokens)?);
        return Ok(());
    }
    if tokens.head() == "check" && tokens.peek_nth(1) == Some(&Token::LParen) {
        table.checks.push(parse_check(tokens, constraint)?);
        return Ok(());
    }
    if is_family(tokens) {
        tokens.advance();
        table.families.push(parse_family(tokens)?);
        return Ok(());
    }
    let next_is_type = matches!(tokens.peek_nth(1), Some(Token::Word(_)));
    if let Some(error) = unsupported_constraint(tokens)
        && (!next_is_type || tokens.head_nth(1) == "key")
    {
        return Err(error);
    }
    let (column, key) = parse_column(tokens, &mut table.checks)?;
    if key {
        keys.push(vec![KeyClause { column: column.name.clone(), order: PartOrder::Ascending }]);
    }
    table.columns.push(column);
    Ok(())
}

/// Whether `FAMILY name (` comes next, with a name or the end behind it, or `FAMILY name OPEN`: a column called
/// `family` has a type there, whose arguments are numbers.
fn is_family(tokens: &TokenReader<'_>) -> bool {
    let lists = tokens.peek_nth(2) == Some(&Token::LParen)
        && matches!(tokens.peek_nth(3), Some(Token::Word(_) | Token::RParen));
    tokens.head() == "family"
        && matches!(tokens.peek_nth(1), Some(Token::Word(_)))
        && (lists || tokens.head_nth(2) == "open")
}

fn parse_family(tokens: &mut TokenReader<'_>) -> Result<FamilyClause> {
    let name = tokens.name()?;
    let columns = if tokens.peek() != Some(&Token::LParen) {
        Vec::new()
    } else if tokens.peek_nth(1) == Some(&Token::RParen) {
        tokens.advance();
        tokens.advance();
        Vec::new()
    } else {
        tokens.parenthesised(TokenReader::name)?
    };
    Ok(FamilyClause { name, columns, open: tokens.words("open") })
}

/// Parses `FAMILY`, `QUALIFIER` or `ENCODING` of a column, if one of them comes next.
fn parse_cells(tokens: &mut TokenReader<'_>, column: &str, cells: &mut Option<CellsClause>) -> Result<bool> {
    let what = tokens.head();
    if !matches!(what.as_str(), "family" | "qualifier" | "encoding") {
        return Ok(false);
    }
    tokens.advance();
    let cells = cells.get_or_insert_default();
    let value = match what.as_str() {
        "family" => tokens.name()?,
        "encoding" if matches!(tokens.peek(), Some(Token::Word(_))) => tokens.name()?,
        _ => tokens.string()?,
    };
    set_cells(&what, value, column, cells).map(|()| true)
}

/// Sets `family`, `qualifier` or `encoding` of a column, once.
fn set_cells(what: &str, value: String, column: &str, cells: &mut CellsClause) -> Result<()> {
    let repeated = match what {
        "family" => cells.family.replace(value).is_some(),
        "qualifier" => cells.qualifier.replace(value).is_some(),
        "encoding" => {
            let encoding = match value.to_ascii_lowercase().as_str() {
                "binary" => Encoding::Binary,
                "text" => Encoding::Text,
                "json" => Encoding::Json,
                _ => {
                    let message = format!("unrecognized encoding \"{value}\" of column \"{column}\"");
                    return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
                        .with_hint("There are binary, text and json."));
                }
            };
            cells.encoding.replace(encoding).is_some()
        }
        _ => {
            let message = format!("invalid option \"{what}\" of column \"{column}\"");
            return Err(SqlError::new(SqlState::FDW_INVALID_OPTION_NAME, message)
                .with_hint("There are family, qualifier and encoding."));
        }
    };
    if repeated {
        let message = format!("{} of column \"{column}\" is given twice", what.to_uppercase());
        return Err(SqlError::syntax(message));
    }
    Ok(())
}

/// The parts of a primary key: `(a, b DESC, c REVERSED)`, or `(a, b, c) WITH (descending = '2', reversed = '3')` with
/// the positions of parts. The second is the form of dumps: a primary key of PostgreSQL has no directions, and
/// `pg_dump` writes one of the names of its columns and of its index's options.
pub(crate) fn parse_key(tokens: &mut TokenReader<'_>) -> Result<Vec<KeyClause>> {
    let mut parts = tokens.parenthesised(parse_key_part)?;
    if tokens.words("with") {
        for option in parse_options(tokens)? {
            let order = match option.name.as_str() {
                "descending" if option.family.is_none() => PartOrder::Descending,
                "reversed" if option.family.is_none() => PartOrder::Reversed,
                other => return Err(SqlError::unsupported(format!("parameter \"{other}\" of a primary key"))),
            };
            for position in option.value.split(',') {
                let at = position.trim().parse::<usize>().ok().and_then(|position| position.checked_sub(1));
                let part = at.and_then(|at| parts.get_mut(at)).ok_or_else(|| {
                    let message = format!("invalid value for parameter \"{}\": \"{}\"", option.name, option.value);
                    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
                        .with_hint("It takes positions of parts of the key, from 1, with commas between them.")
                })?;
                if part.order != PartOrder::Ascending && part.order != order {
                    return Err(both_orders(&part.column));
                }
                part.order = order;
            }
        }
    }
    refuse_key_options(tokens)?;
    Ok(parts)
}

fn parse_key_part(tokens: &mut TokenReader<'_>) -> Result<KeyClause> {
    let column = tokens.name()?;
    let reversed_first = tokens.words("reversed");
    let descending = !tokens.words("asc") && tokens.words("desc");
    let reversed = reversed_first || tokens.words("reversed");
    if descending && reversed {
        return Err(both_orders(&column));
    }
    let order = if reversed { PartOrder::Reversed } else { descending.into() };
    if tokens.words("nulls") {
        return Err(SqlError::unsupported("NULLS in a primary key"));
    }
    Ok(KeyClause { column, order })
}

fn both_orders(column: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_TABLE_DEFINITION, format!("key column \"{column}\" is both DESC and REVERSED"))
        .with_hint("Reversed values have no order that could descend.")
}

/// Parses a column; also returns whether it is the primary key. Its `CHECK` clauses go to `checks`.
pub(crate) fn parse_column(
    tokens: &mut TokenReader<'_>,
    checks: &mut Vec<CheckClause>,
) -> Result<(ColumnClause, bool)> {
    let name = tokens.name()?;
    let serial = match tokens.head().as_str() {
        "serial" | "serial4" => Some(SqlType::Int4),
        "bigserial" | "serial8" => Some(SqlType::Int8),
        "smallserial" | "serial2" => Some(SqlType::Int2),
        _ => None,
    };
    let (kind, own_type) = match serial {
        Some(kind) => {
            tokens.advance();
            (kind, None)
        }
        None => parse_column_type(tokens)?,
    };
    let (mut default, mut protobuf) = (serial.map(|_| DefaultClause::Serial), None);
    let mut cells: Option<CellsClause> = None;
    let (mut not_null, mut null, mut key) = (serial.is_some(), false, false);
    loop {
        let constraint = if tokens.words("constraint") { Some(tokens.name()?) } else { None };
        let clause = if tokens.words("default") {
            Some(DefaultClause::Expression(Box::new(parse_default(tokens)?)))
        } else {
            sequence::identity(tokens)?.map(|(identity, sequence)| DefaultClause::Identity(identity, sequence))
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
        if tokens.head() == "check" {
            checks.push(parse_check(tokens, constraint)?);
            continue;
        }
        if constraint.is_none() && parse_cells(tokens, &name, &mut cells)? {
            continue;
        }
        if constraint.is_none() && tokens.head() == "options" {
            for (option, value) in server::parse_foreign_options(tokens)? {
                set_cells(&option, value, &name, cells.get_or_insert_default())?;
            }
            continue;
        }
        if tokens.words("not null") {
            not_null = true;
        } else if tokens.words("null") {
            null = true;
        } else if tokens.words("primary key") {
            key = true;
            refuse_key_options(tokens)?;
        } else if tokens.words("protobuf") {
            protobuf = Some(tokens.string()?);
        } else if let Some(error) = unsupported_constraint(tokens) {
            return Err(error);
        } else {
            break;
        }
    }
    if null && (not_null || key) {
        let message = format!("conflicting NULL/NOT NULL declarations for column \"{name}\"");
        return Err(SqlError::syntax(message));
    }
    if protobuf.is_some() && kind != SqlType::Bytea {
        let message = format!("column \"{name}\" of type {kind} cannot be PROTOBUF");
        return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message)
            .with_hint("Declare it bytea PROTOBUF 'message'; SQL sees a jsonb."));
    }
    if protobuf.is_some() && cells.as_ref().is_some_and(|cells| cells.encoding.is_some()) {
        let message = format!("ENCODING of column \"{name}\", which is PROTOBUF");
        return Err(SqlError::syntax(message));
    }
    Ok((ColumnClause { name, kind, own_type, not_null, default, protobuf, cells }, key))
}

/// Parses an expression that ends before `NOT NULL`.
pub(crate) fn parse_default(tokens: &mut TokenReader<'_>) -> Result<Expr> {
    tokens.parse_with(|parser| {
        let until = PostgreSqlDialect {}.prec_value(Precedence::Like);
        parser.parse_subexpr(until)
    })
}

/// `CHECK (condition)` of a table.
pub(crate) fn parse_check(tokens: &mut TokenReader<'_>, name: Option<String>) -> Result<CheckClause> {
    let check = parse_condition(tokens, name)?;
    if tokens.words("no inherit") || tokens.words("not valid") {
        return Err(SqlError::unsupported("NO INHERIT and NOT VALID of a CHECK"));
    }
    Ok(check)
}

/// `CHECK (condition)`
pub(crate) fn parse_condition(tokens: &mut TokenReader<'_>, name: Option<String>) -> Result<CheckClause> {
    tokens.expect_words("check")?;
    tokens.expect_token(&Token::LParen)?;
    let condition = tokens.parse_with(|parser| parser.parse_expr())?;
    tokens.expect_token(&Token::RParen)?;
    Ok(CheckClause { name, condition })
}

fn refuse_key_options(tokens: &mut TokenReader<'_>) -> Result<()> {
    for word in ["deferrable", "initially", "include", "using", "not deferrable"] {
        if tokens.words(word) {
            return Err(SqlError::unsupported(format!("{} of a primary key", word.to_uppercase())));
        }
    }
    Ok(())
}

/// 0A000 for the constraint that comes next, if it is an unsupported one.
pub(crate) fn unsupported_constraint(tokens: &TokenReader<'_>) -> Option<SqlError> {
    let what = match tokens.head().as_str() {
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

pub(crate) fn parse_options(tokens: &mut TokenReader<'_>) -> Result<Vec<OptionClause>> {
    tokens.parenthesised(|tokens| {
        let first = tokens.name()?;
        let (family, name) = if tokens.token(&Token::Period) { (Some(first), tokens.name()?) } else { (None, first) };
        let value = if tokens.token(&Token::Eq) { parse_option_value(tokens)? } else { "true".to_owned() };
        Ok(OptionClause { family, name, value })
    })
}

fn parse_option_value(tokens: &mut TokenReader<'_>) -> Result<String> {
    let sign = if tokens.token(&Token::Minus) { "-" } else { "" };
    match tokens.peek() {
        Some(Token::Number(number, _)) => {
            let value = format!("{sign}{number}");
            tokens.advance();
            Ok(value)
        }
        Some(Token::Word(_)) if sign.is_empty() => tokens.name(),
        _ if sign.is_empty() => tokens.string(),
        _ => Err(tokens.syntax_error()),
    }
}

pub(crate) fn parse_drop_table(tokens: &mut TokenReader<'_>) -> Result<Definition> {
    tokens.expect_words("table")?;
    let if_exists = tokens.words("if exists");
    let names = tokens.list(TokenReader::table_name)?;
    let cascade = is_cascade(tokens);
    Ok(Definition::DropTables(DropTables { names, if_exists, cascade }))
}

/// Consumes `CASCADE` or `RESTRICT`, if one comes next; whether it was `CASCADE`.
pub(crate) fn is_cascade(tokens: &mut TokenReader<'_>) -> bool {
    !tokens.words("restrict") && tokens.words("cascade")
}
