//! Text to statements: splits the text and chooses the parser of each statement by its first words.
//!
//! 1. The text is cut into tokens once, and at semicolons into statements ([`TokenReader::split`]).
//! 2. The first word decides which parser reads the rest. Definitions ([`definition`], [`role`]), settings and
//!    transactions ([`settings`], [`transaction`]) have parsers of our own, because their syntax is ours or PostgreSQL's
//!    alone. sqlparser reads queries ([`select_into`]) and writes ([`mod@write`]); its tree is then checked for what is not
//!    supported.
//! 3. Nothing is ignored: a statement that parses and is not supported is 0A000, and text that does not parse is 42601.
//!
//! DataFusion's own definitions are never reached: its planner gets queries only.

#[cfg(test)]
mod tests;

use crate::{
    alter_table,
    ast::{Statement, WithPart},
    comment, copy, cursor, definition, describe, domain, enum_type, explain, grant, listen, maintenance, merge,
    prepared, proto, role, schema, select_into, sequence, server, settings,
    tokens::TokenReader,
    transaction, view, write,
};
use datafusion::sql::sqlparser::ast;
use keyspan_pg::{
    error::{Result, SqlError},
    names::RelationName,
};

impl Statement {
    /// Splits text into statements and parses each. Text without a statement gives one [`Empty`](Self::Empty).
    ///
    /// # Errors
    /// 42601, with a position, for text that does not parse; 0A000 for a statement that is not supported; and the
    /// errors of names and types that statements have.
    pub fn parse(sql: &str) -> Result<Vec<Self>> {
        Self::parse_in(sql, "")
    }

    /// `INSERT INTO table query`
    ///
    /// # Errors
    /// Those of [`parse`](Self::parse), which the quoted name of a table does not cause.
    pub fn insert_of(table: &RelationName, query: &ast::Statement) -> Result<Self> {
        let text = format!("INSERT INTO {} SELECT 1", table.sql());
        let mut statement = Self::parse(&text)?.swap_remove(0);
        if let (Self::Insert(insert), ast::Statement::Query(query)) = (&mut statement, query) {
            insert.source = Some(query.clone());
        }
        Ok(statement)
    }

    /// As [`parse`](Self::parse), in a database: names of tables may begin with its name.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn parse_in(sql: &str, database: &str) -> Result<Vec<Self>> {
        TokenReader::split(sql, database)?.into_iter().map(|mut tokens| parse_one(&mut tokens)).collect()
    }
}

/// Parses the rest of the tokens as one statement.
fn parse_one(tokens: &mut TokenReader<'_>) -> Result<Statement> {
    let statement = match tokens.head().as_str() {
        "" if tokens.at_end() => Statement::Empty,
        "with" if tokens.writes_within_with() => parse_writing_with(tokens)?,
        "with" if tokens.behind_with() == "insert" => write::parse_insert(tokens)?,
        "with" if tokens.behind_with() == "update" => write::parse_update(tokens)?,
        "with" if tokens.behind_with() == "delete" => write::parse_delete(tokens)?,
        "with" if tokens.behind_with() == "merge" => merge::parse_merge(tokens)?,
        "" | "select" | "values" | "with" | "table" => select_into::parse_select(tokens)?,
        "insert" => write::parse_insert(tokens)?,
        "update" => write::parse_update(tokens)?,
        "delete" => write::parse_delete(tokens)?,
        "merge" => merge::parse_merge(tokens)?,
        "explain" => explain::parse_explain(tokens, parse_one)?,
        "copy" => copy::parse_copy(tokens)?,
        "create" | "alter" | "drop" => parse_definition(tokens)?,
        "import" => server::parse_import(tokens)?.into(),
        "grant" | "revoke" => grant::parse_grant(tokens)?,
        "reassign" => grant::parse_reassign(tokens)?,
        "set" | "reset" | "show" | "discard" => settings::parse_setting(tokens)?,
        "describe" | "desc" => describe::parse_describe(tokens)?,
        "begin" | "start" | "commit" | "end" | "rollback" | "abort" => transaction::parse_transaction(tokens)?,
        "savepoint" | "release" => transaction::parse_savepoint(tokens)?,
        "prepare" => prepared::parse_prepare(tokens, parse_one)?,
        "execute" => prepared::parse_execute(tokens)?,
        "deallocate" => prepared::parse_deallocate(tokens)?,
        "declare" => cursor::parse_declare(tokens)?,
        "fetch" | "move" => cursor::parse_fetch(tokens)?,
        "close" => cursor::parse_close(tokens)?,
        "truncate" => maintenance::parse_truncate(tokens)?,
        "refresh" => view::parse_refresh(tokens)?,
        "vacuum" | "analyze" | "analyse" => maintenance::parse_vacuum(tokens)?,
        "listen" | "unlisten" => listen::parse_listen(tokens)?,
        "notify" => listen::parse_notify(tokens)?,
        "comment" => comment::parse_comment(tokens)?.into(),
        "lock" => maintenance::parse_lock(tokens)?,
        _ => return Err(tokens.unknown_statement()),
    };
    tokens.expect_end()?;
    Ok(statement)
}

/// Parses a statement of which queries in WITH write.
fn parse_writing_with(tokens: &mut TokenReader<'_>) -> Result<Statement> {
    let mut parts = Vec::new();
    for mut part in tokens.parts_of_with()? {
        let statement = parse_one(&mut part.tokens)?;
        match &statement {
            Statement::Query(_)
            | Statement::Insert(_)
            | Statement::Update(_)
            | Statement::Delete(_)
            | Statement::Merge(_) => {}
            Statement::LockingQuery(_) => {
                return Err(SqlError::unsupported("a query that locks beside one that writes inside of WITH"));
            }
            _ => return Err(SqlError::unsupported("this statement inside of WITH or behind it")),
        }
        parts.push(WithPart { statement, parameters: part.parameters });
    }
    Ok(Statement::WritingWith(parts))
}

/// Parses `CREATE`, `ALTER` and `DROP`: the word behind them chooses the parser.
fn parse_definition(tokens: &mut TokenReader<'_>) -> Result<Statement> {
    let verb = tokens.head();
    tokens.advance();
    let what = tokens.head();
    match (verb.as_str(), what.as_str()) {
        ("create", "table") => return definition::parse_create_table(tokens, false),
        ("create", "temp" | "temporary") if tokens.head_nth(1) == "table" => {
            tokens.advance();
            return definition::parse_create_table(tokens, true);
        }
        ("create", "temp" | "temporary") if matches!(tokens.head_nth(1).as_str(), "view" | "recursive") => {
            view::parse_create_view(tokens)
        }
        ("create", "temp" | "temporary") if tokens.head_nth(1) == "sequence" => {
            tokens.advance();
            sequence::parse_create_sequence(tokens, true)
        }
        ("create", "temp" | "temporary") => {
            let what = format!("CREATE TEMPORARY {}", tokens.head_nth(1).to_uppercase());
            Err(SqlError::unsupported(what).with_hint("Tables, views and sequences can be temporary."))
        }
        ("alter", "table") => alter_table::parse_alter_table(tokens),
        ("alter", "system") => return maintenance::parse_alter_system(tokens),
        ("drop", "table") => definition::parse_drop_table(tokens),
        ("create", "schema") => return schema::parse_create(tokens),
        ("alter", "schema") => schema::parse_alter(tokens),
        ("drop", "schema") => schema::parse_drop(tokens),
        ("create", "type") => enum_type::parse_create(tokens),
        ("alter", "type") => enum_type::parse_alter(tokens),
        ("drop", "type") => enum_type::parse_drop(tokens),
        ("create", "domain") => domain::parse_create(tokens),
        ("alter", "domain") => domain::parse_alter(tokens),
        ("drop", "domain") => domain::parse_drop(tokens),
        ("create", "sequence") => sequence::parse_create_sequence(tokens, false),
        ("drop", "sequence") => sequence::parse_drop_sequence(tokens),
        ("create", "proto") => proto::parse_create_proto(tokens),
        ("create", "or") if tokens.head_nth(2) == "proto" => proto::parse_create_proto(tokens),
        ("drop", "proto") => proto::parse_drop_proto(tokens),
        ("create", "foreign") if tokens.head_nth(1) == "table" => server::parse_create_foreign_table(tokens),
        ("drop", "foreign") if tokens.head_nth(1) == "table" => {
            tokens.advance();
            definition::parse_drop_table(tokens)
        }
        ("create", "server") => server::parse_create_server(tokens),
        ("drop", "server") => server::parse_drop_server(tokens),
        ("create", "view" | "or" | "recursive") => view::parse_create_view(tokens),
        ("create", "materialized") => return view::parse_create_materialized(tokens),
        ("alter", "view" | "materialized") => view::parse_alter_view(tokens),
        ("drop", "view" | "materialized") => view::parse_drop_view(tokens),
        ("create", "database") => role::parse_create_database(tokens),
        ("alter", "default") => grant::parse_default_privileges(tokens),
        ("alter", "sequence") => sequence::parse_alter_sequence(tokens),
        ("alter", "database") => role::parse_alter_database(tokens),
        ("drop", "database") => role::parse_drop_database(tokens),
        ("create", "role" | "user") => role::parse_create_role(tokens),
        ("alter", "role" | "user") => role::parse_alter_role(tokens),
        ("drop", "role" | "user") => role::parse_drop_roles(tokens),
        _ if definition::is_other_object(&what) => {
            Err(SqlError::unsupported(format!("{} {}", verb.to_uppercase(), what.to_uppercase())))
        }
        _ => Err(tokens.syntax_error()),
    }
    .map(Statement::from)
}
