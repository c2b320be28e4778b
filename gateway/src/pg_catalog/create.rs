//! Statements that make relations again: the answers of `SHOW CREATE`; and what `DESCRIBE` and `SHOW TABLES` list.
//!
//! A table is written as it is defined, not as a session sees it: a shared table has no column `tenant` here, since
//! `CREATE TABLE` in the operator's database has none. Names have no schema, so that the statement makes the relation
//! wherever it runs.

use super::{cluster, objects, rights, tables, views};
use crate::{
    context::StatementContext,
    pg::{ident::quote_ident, types},
    system_relations,
};
use keyspan_catalog::{
    Column, ColumnPlace, PartOrder, Relation, Sequence, SequenceOptions, SqlType, Table,
    table::{Check, DefaultValue, Identity},
};

/// A row of `SHOW TABLES` or `DESCRIBE`; `None` for NULL.
pub type TextRow = Vec<Option<String>>;

/// `CREATE TABLE …`
pub fn table(table: &Table, statement: &StatementContext) -> String {
    table_named(table, &table.name, statement)
}

/// The same under another name.
pub fn table_named(table: &Table, name: &str, statement: &StatementContext) -> String {
    let is_open = |column: &&Column| matches!(column.place, ColumnPlace::Open { .. });
    let columns = table.columns.iter().filter(|column| !is_open(column));
    let columns = columns.map(|column| column_clause(table, column, statement));
    let (key, checks) = (key_clause(table), check_clauses(table, statement));
    let families = table.families.iter().filter(|_| !table.is_private()).map(|family| {
        let columns: Vec<String> = table.columns_of(family).map(|column| quote_ident(&column.name)).collect();
        let open = if table.open_column(family.name.as_str()).is_some() { " OPEN" } else { "" };
        format!("FAMILY {} ({}){open}", quote_ident(family.name.as_str()), columns.join(", "))
    });
    let lines: Vec<String> = columns.chain(key).chain(checks).chain(families).collect();
    let temporary = if statement.is_temporary(table.id.0) { "TEMPORARY " } else { "" };
    let body = if lines.is_empty() { String::new() } else { format!("\n    {}\n", lines.join(",\n    ")) };
    let options = options_clause(table);
    if let Some((server, found)) = found_on(table, statement) {
        let columns = table.columns.iter().filter(|column| !matches!(column.place, ColumnPlace::Open { .. }));
        let columns = columns.map(|column| foreign_column(table, column, statement));
        let open = table.families.iter().filter(|family| table.open_column(family.name.as_str()).is_some());
        let open = open.map(|family| format!("FAMILY {} OPEN", quote_ident(family.name.as_str())));
        let lines = columns.chain(key_clause(table)).chain(check_clauses(table, statement)).chain(open);
        let lines = lines.collect::<Vec<_>>().join(",\n    ");
        return format!("CREATE FOREIGN TABLE {} (\n    {lines}\n) {server} OPTIONS ({found})", quote_ident(name));
    }
    let server = statement.snapshot.server_of(table).filter(|_| statement.operator);
    let server = server.map(|server| format!(" SERVER {}", quote_ident(&server.name))).unwrap_or_default();
    format!("CREATE {temporary}TABLE {} ({body}){options}{server}", quote_ident(name))
}

/// `PRIMARY KEY (a, b DESC)`
fn key_clause(table: &Table) -> Option<String> {
    let parts = table.key.parts.iter().filter(|_| !table.has_hidden_key());
    let parts: Vec<String> = parts.map(|part| format!("{}{}", quote_ident(&part.name), part.order.clause())).collect();
    (!parts.is_empty()).then(|| format!("PRIMARY KEY ({})", parts.join(", ")))
}

fn check_clauses(table: &Table, statement: &StatementContext) -> impl Iterator<Item = String> {
    let one = |check: &Check| {
        let sql = statement.type_names().shown(check.sql.clone());
        format!("CONSTRAINT {} CHECK ({sql})", quote_ident(&check.name))
    };
    table.checks.iter().map(one)
}

/// `SERVER bt`, and the options of a table that was found there; `None` for another, and for a tenant.
fn found_on(table: &Table, statement: &StatementContext) -> Option<(String, String)> {
    let remote = table.remote.as_ref().filter(|_| statement.operator)?;
    let (found, server) = (remote.found?, statement.snapshot.server_of(table)?);
    let mut options = vec![("table".to_owned(), remote.name.to_string())];
    // Of families only the encodings of open ones: each column has its own.
    let is_shown = |name: &str| match name.rsplit_once('.') {
        Some((family, option)) => option == "encoding" && table.open_column(family).is_some(),
        None => true,
    };
    options.extend(table.options().into_iter().filter(|(name, _)| is_shown(name)));
    options.extend(found.writable.then(|| ("writable".to_owned(), "true".to_owned())));
    options.extend(found.on_drop_delete.then(|| ("on_drop".to_owned(), "delete".to_owned())));
    let option = |(name, value): (String, String)| {
        let name = if name.contains('.') { quote_ident(&name) } else { name };
        format!("{name} '{}'", value.replace('\'', "''"))
    };
    let options: Vec<String> = options.into_iter().map(option).collect();
    Some((format!("SERVER {}", quote_ident(&server.name)), options.join(", ")))
}

/// `cpu double precision OPTIONS (family 'm', qualifier 'cpu', encoding 'binary')`
fn foreign_column(table: &Table, column: &Column, statement: &StatementContext) -> String {
    let ColumnPlace::Cell { family, qualifier, encoding } = &column.place else {
        return column_clause(table, column, statement);
    };
    let default = objects::default_text(column, statement);
    let default = default.map(|default| format!(" DEFAULT {default}")).unwrap_or_default();
    let not_null = if column.not_null { " NOT NULL" } else { "" };
    let (name, qualifier) = (quote_ident(&column.name), qualifier.replace('\'', "''"));
    let (kind, encoding) = match encoding.message() {
        Some(message) => (format!("bytea PROTOBUF '{}'", message.sql_name().replace('\'', "''")), String::new()),
        None => (column.kind.to_string(), format!(", encoding '{}'", encoding.name())),
    };
    format!("{name} {kind} OPTIONS (family '{family}', qualifier '{qualifier}'{encoding}){default}{not_null}")
}

/// ` WITH (key_encoding = 'delimited', m.max_versions = '5')`
fn options_clause(table: &Table) -> String {
    let option = |(name, value): (String, String)| {
        let name = match name.rsplit_once('.') {
            Some((family, option)) => format!("{}.{option}", quote_ident(family)),
            None => name,
        };
        let plain = value.bytes().all(|byte| byte.is_ascii_digit());
        let value = if plain { value } else { format!("'{}'", value.replace('\'', "''")) };
        format!("{name} = {value}")
    };
    let options: Vec<String> = table.options().into_iter().map(option).collect();
    if options.is_empty() { String::new() } else { format!(" WITH ({})", options.join(", ")) }
}

/// `id bigint GENERATED BY DEFAULT AS IDENTITY`, `body text DEFAULT 'x'::text NOT NULL`
fn column_clause(table: &Table, column: &Column, statement: &StatementContext) -> String {
    let name = quote_ident(&column.name);
    let owned = own_sequence(table, column, statement);
    let in_key = matches!(column.place, ColumnPlace::Key(_));
    if let (Some(identity), Some(sequence)) = (column.identity, owned) {
        let own_name = sequence.name != Sequence::name_for_column(&table.name, &column.name);
        let own_name = own_name.then(|| format!("SEQUENCE NAME {}", quote_ident(&sequence.name)));
        let options = Some(sequence_options(sequence, false)).filter(|options| !options.is_empty());
        let options = own_name.into_iter().chain(options).collect::<Vec<_>>().join(" ");
        let options = if options.is_empty() { String::new() } else { format!(" ({options})") };
        return format!("{name} {} {}{options}", column.kind, identity_clause(identity));
    }
    if let Some(serial) = owned.filter(|_| column.not_null || in_key).and_then(|sequence| serial(column, sequence)) {
        return format!("{name} {serial}");
    }
    let kind = match column.message() {
        Some(message) => format!("bytea PROTOBUF '{}'", message.sql_name().replace('\'', "''")),
        None => kind_text(column, statement),
    };
    let default = objects::default_text(column, statement);
    let default = default.map(|default| format!(" DEFAULT {default}")).unwrap_or_default();
    let not_null = if column.not_null && !in_key { " NOT NULL" } else { "" };
    format!("{name} {kind}{default}{not_null}{}", cells_clause(table, column))
}

/// The name of a column's type.
fn kind_text(column: &Column, statement: &StatementContext) -> String {
    match objects::own_type(column, statement) {
        Some(of) => statement.type_names().type_name(&of),
        None => column.kind.to_string(),
    }
}

/// ` QUALIFIER 'fan-rpm' ENCODING text`, where the column's name and its family do not say so.
fn cells_clause(table: &Table, column: &Column) -> String {
    let ColumnPlace::Cell { family, qualifier, encoding } = &column.place else { return String::new() };
    let Some(family) = table.family(family.as_str()).filter(|_| !table.is_private()) else { return String::new() };
    let mut clause = String::new();
    if *qualifier != column.name {
        clause += &format!(" QUALIFIER '{}'", qualifier.replace('\'', "''"));
    }
    if encoding.message().is_none() && table.encoding_of(family).is_some_and(|of_family| of_family != encoding) {
        clause += &format!(" ENCODING {}", encoding.name());
    }
    clause
}

/// `GENERATED ALWAYS AS IDENTITY`
pub fn identity_clause(identity: Identity) -> &'static str {
    match identity {
        Identity::Always => "GENERATED ALWAYS AS IDENTITY",
        Identity::ByDefault => "GENERATED BY DEFAULT AS IDENTITY",
    }
}

/// The sequence that a column owns and takes its default from.
fn own_sequence<'a>(table: &Table, column: &Column, statement: &'a StatementContext) -> Option<&'a Sequence> {
    let DefaultValue::Next(oid) = column.default.as_ref()?.value else { return None };
    let found = statement.snapshot.sequence_of(statement.tenant.as_ref(), oid)?;
    (found.owner == Some((table.id, column.id))).then_some(found.as_ref())
}

/// `serial` and its kin, if that makes the sequence as it is.
fn serial(column: &Column, sequence: &Sequence) -> Option<&'static str> {
    let word = match column.kind {
        SqlType::Int2 => "smallserial",
        SqlType::Int4 => "serial",
        SqlType::Int8 => "bigserial",
        _ => return None,
    };
    (sequence.kind == column.kind && sequence_options(sequence, false).is_empty()).then_some(word)
}

/// `CREATE SEQUENCE …`
pub fn sequence(sequence: &Sequence) -> String {
    format!("CREATE SEQUENCE {} AS {} {}", quote_ident(&sequence.name), sequence.kind, sequence_options(sequence, true))
}

/// The options of a sequence: all, or those that differ from what its type and direction give.
fn sequence_options(sequence: &Sequence, all: bool) -> String {
    let given = SequenceOptions {
        kind: Some(sequence.kind),
        increment: Some(sequence.increment),
        ..SequenceOptions::default()
    };
    let plain = Sequence::define(sequence.id, &sequence.name, &given).ok();
    let differs = |of: fn(&Sequence) -> i64| all || plain.as_ref().is_none_or(|plain| of(plain) != of(sequence));
    let mut options = Vec::new();
    if differs(|sequence| sequence.start) {
        options.push(format!("START WITH {}", sequence.start));
    }
    if all || sequence.increment != 1 {
        options.push(format!("INCREMENT BY {}", sequence.increment));
    }
    if differs(|sequence| sequence.min) {
        options.push(format!("MINVALUE {}", sequence.min));
    }
    if differs(|sequence| sequence.max) {
        options.push(format!("MAXVALUE {}", sequence.max));
    }
    if sequence.cycle {
        options.push("CYCLE".to_owned());
    }
    options.join(" ")
}

/// `CREATE VIEW … AS …`, `CREATE MATERIALIZED VIEW … AS …`
pub fn view(view: &keyspan_catalog::SqlView, statement: &StatementContext) -> String {
    let temporary = if statement.is_temporary(view.id) { "TEMPORARY " } else { "" };
    let (query, kind) = (views::definition(view, statement), view.kind().to_uppercase());
    format!("CREATE {temporary}{kind} {} AS\n{}", quote_ident(&view.name), query.trim_end_matches(';'))
}

/// The columns of [`table_rows`].
pub const TABLE_COLUMNS: [&str; 4] = ["schema", "name", "type", "owner"];

/// The rows of `SHOW TABLES`: the tables and views of users, by name.
pub fn table_rows(statement: &StatementContext) -> Vec<TextRow> {
    let tables =
        statement.tables().map(|table| (table.id.0, &table.name, format!("{} table", tables::kind(table, statement))));
    let views = views::all(statement).map(|view| (view.id, &view.name, view.kind().to_owned()));
    let row = |(oid, name, kind): (u32, &String, String)| {
        let owner = cluster::role_name(statement, rights::owner_of(statement, oid));
        vec![Some(objects::schema_name(statement, oid)), Some(name.clone()), Some(kind), Some(owner)]
    };
    let mut rows: Vec<TextRow> = tables.chain(views).map(row).collect();
    rows.sort();
    rows
}

/// The columns of [`column_rows`].
pub const DESCRIBE_COLUMNS: [&str; 7] = ["column", "type", "null", "key", "default", "family", "encoding"];

/// The rows of `DESCRIBE` of a table or view, as the session sees it.
pub fn column_rows(relation: Relation<'_>, statement: &StatementContext) -> Vec<TextRow> {
    match relation {
        Relation::Table(table) => {
            let tenant = objects::attributes(table, statement)
                .into_iter()
                .filter(|column| statement.operator && column.number == 1);
            let tenant = tenant.map(|column| key_row(column.name, column.kind, 1, PartOrder::Ascending));
            tenant.chain(table.columns.iter().map(|column| described(table, column, statement))).collect()
        }
        Relation::View(view) => {
            let one = |column: &keyspan_catalog::ViewColumn| {
                let kind = super::functions::format_type(statement, column.type_oid, i64::from(column.modifier));
                row(&column.name, kind, true)
            };
            view.columns.iter().map(one).collect()
        }
    }
}

/// The rows of `DESCRIBE` of a relation of the system.
pub fn system_column_rows(relation: &system_relations::Relation, statement: &StatementContext) -> Vec<TextRow> {
    let one = |field: &std::sync::Arc<arrow::datatypes::Field>| {
        let kind = super::functions::format_type(statement, types::pg_type(field).oid(), -1);
        row(field.name(), kind, true)
    };
    relation.columns.fields().iter().map(one).collect()
}

fn row(name: &str, kind: String, nullable: bool) -> TextRow {
    let null = if nullable { "YES" } else { "NO" };
    vec![Some(name.to_owned()), Some(kind), Some(null.to_owned()), None, None, None, None]
}

/// `PRI 3 DESC` in the column `key`: a part of the primary key, its position, and its direction.
fn key_row(name: String, kind: SqlType, part: usize, order: PartOrder) -> TextRow {
    let mut described = row(&name, kind.to_string(), false);
    described[3] = Some(format!("PRI {part}{}", order.clause()));
    described
}

fn described(table: &Table, column: &Column, statement: &StatementContext) -> TextRow {
    let mut described = match &column.place {
        ColumnPlace::Key(part) => {
            let order = table.key.parts.get(*part).map(|part| part.order).unwrap_or_default();
            key_row(column.name.clone(), column.kind, part + 1 + usize::from(statement.operator), order)
        }
        ColumnPlace::Cell { .. } | ColumnPlace::Open { .. } => {
            row(&column.name, kind_text(column, statement), !column.not_null)
        }
    };
    if column.enumerated.is_some() || column.domain.is_some() {
        described[1] = Some(kind_text(column, statement));
    }
    described[4] = tables::default_or_identity(column, statement);
    if let ColumnPlace::Cell { family, encoding, .. } | ColumnPlace::Open { family, encoding } = &column.place
        && !table.is_private()
    {
        described[5] = Some(family.to_string());
        described[6] = Some(encoding.name().to_owned());
    }
    described
}
