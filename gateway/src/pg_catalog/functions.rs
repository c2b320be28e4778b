//! Functions that know the session or the catalog: `version()`, `current_setting()`, `format_type()`,
//! `pg_get_indexdef()` and the like.

use super::{
    cluster, domains, objects, procs,
    row_function::{Values, row_function},
    views,
};
use crate::{
    context::StatementContext,
    pg::{
        error::{SqlError, SqlState},
        functions::{RowFunction, bool_of, int_of, replace, text, text_of},
        ident::quote_ident,
        names::Schema,
        version::{SERVER_VERSION, SERVER_VERSION_NUM, VERSION},
    },
    settings::Settings,
};
use arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion::{
    error::{DataFusionError, Result},
    execution::SessionState,
    logical_expr::{ScalarUDF, Volatility},
    scalar::ScalarValue,
};
use keyspan_catalog::Privileges;
use std::sync::Arc;

/// Registers the functions.
pub fn register(state: &mut SessionState) {
    let all = session()
        .into_iter()
        .chain(super::keywords::functions())
        .chain(catalog())
        .chain(super::oid_casts::functions())
        .chain(super::acl::functions())
        .chain(super::advisory_locks::functions())
        .chain(super::options::functions())
        .chain(super::comments::functions())
        .chain(super::information_functions::functions())
        .chain(super::notifications::functions())
        .chain(super::protobuf::functions())
        .chain(super::rights::functions())
        .chain(super::signals::functions())
        .chain(super::statistics::size_functions())
        .chain(super::statistics::functions())
        .chain(sequences())
        .chain(constants());
    replace(
        state,
        all.map(|function| Arc::new(ScalarUDF::from(function)))
            .chain([Arc::new(super::type_of::function())])
            .chain(super::advisory_locks::locking_functions()),
    );
}

pub(super) fn sql_error(state: SqlState, message: String) -> DataFusionError {
    DataFusionError::External(Box::new(SqlError::new(state, message)))
}

pub(super) fn undefined_relation(name: &str) -> DataFusionError {
    DataFusionError::External(Box::new(SqlError::undefined_relation(name)))
}

fn null_text() -> ScalarValue {
    ScalarValue::Utf8View(None)
}

pub(super) fn optional(value: Option<String>) -> ScalarValue {
    ScalarValue::Utf8View(value)
}

/// The schemas of the search path, in order.
fn schemas(statement: &StatementContext, implicit: bool) -> Vec<String> {
    let none = statement.snapshot.temporary.is_empty();
    let name = |schema: Schema| match schema {
        Schema::Temporary => statement.temporary_schema(),
        schema => schema.name().to_owned(),
    };
    let there = |schema: &Schema| *schema != Schema::Temporary || !none;
    if implicit {
        statement.path.lookup().filter(there).map(name).collect()
    } else {
        // The schema of temporary tables is listed only where the path names it.
        statement.path.named().iter().filter(|schema| there(schema)).cloned().map(name).collect()
    }
}

fn names(values: &[String]) -> ScalarValue {
    let items: Vec<_> = values.iter().map(|value| text(value.as_str())).collect();
    ScalarValue::List(ScalarValue::new_list_nullable(&items, &DataType::Utf8View))
}

pub(super) fn list_of(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(item, true)))
}

pub(super) fn list_of_names() -> DataType {
    list_of(DataType::Utf8View)
}

pub(super) fn null_list(item: &DataType) -> ScalarValue {
    ScalarValue::new_null_list(item.clone(), true, 1)
}

pub(super) fn oid(value: &ScalarValue) -> Option<u32> {
    int_of(value).and_then(|value| u32::try_from(value).ok())
}

/// Functions of the session.
fn session() -> Vec<RowFunction> {
    let name = |function, run| row_function(function, 0..=0, DataType::Utf8View, run).returning("name");
    vec![
        row_function("version", 0..=0, DataType::Utf8View, |_, _| Ok(text(VERSION))),
        name("current_database", |_, statement| Ok(text(&statement.database))).with_aliases(&["current_catalog"]),
        name("current_schema", |_, statement| Ok(optional(schemas(statement, false).into_iter().next()))),
        row_function("current_schemas", 1..=1, list_of_names(), |values, statement| {
            Ok(names(&schemas(statement, bool_of(&values[0]) == Some(true))))
        }),
        name("current_user", |_, statement| Ok(text(&statement.role))).with_aliases(&[
            "session_user",
            "user",
            "current_role",
        ]),
        row_function("pg_backend_pid", 0..=0, DataType::Int32, |_, statement| {
            Ok(ScalarValue::Int32(Some(statement.process_id)))
        }),
        row_function("current_setting", 1..=2, DataType::Utf8View, current_setting),
        row_function("set_config", 3..=3, DataType::Utf8View, |values, statement| {
            let Some(name) = text_of(&values[0]) else {
                return Err(sql_error(SqlState::NULL_VALUE_NOT_ALLOWED, "SET requires parameter name".to_owned()));
            };
            let local = bool_of(&values[2]) == Some(true);
            match statement.pending_settings.ask(&name, text_of(&values[1]).as_deref(), local) {
                Ok(value) => Ok(text(value)),
                Err(error) => Err(DataFusionError::External(Box::new(error))),
            }
        })
        .with_volatility(Volatility::Volatile),
        row_function("pg_my_temp_schema", 0..=0, DataType::UInt32, |_, statement| {
            let there = !statement.snapshot.temporary.is_empty();
            Ok(ScalarValue::UInt32(Some(if there { objects::TEMPORARY_SCHEMA } else { 0 })))
        })
        .returning("oid"),
        // Those of others are nowhere to be seen.
        row_function("pg_is_other_temp_schema", 1..=1, DataType::Boolean, |_, _| Ok(ScalarValue::Boolean(Some(false)))),
        row_function("pg_is_in_recovery", 0..=0, DataType::Boolean, |_, _| Ok(ScalarValue::Boolean(Some(false)))),
        row_function("pg_postmaster_start_time", 0..=0, timestamptz(), |_, statement| Ok(started(statement))),
        row_function("pg_conf_load_time", 0..=0, timestamptz(), |_, statement| Ok(started(statement))),
        row_function("pg_lsn", 1..=1, DataType::Utf8View, |values, _| {
            let Some(written) = text_of(&values[0]) else { return Ok(null_text()) };
            log_position(&written).map(|at| text(format!("{:X}/{:X}", at >> 32, at & u64::from(u32::MAX))))
        })
        .returning("pg_lsn"),
        // The log has no positions that others could ask for.
        row_function("pg_current_wal_lsn", 0..=0, DataType::Utf8View, |_, _| Ok(null_text())).returning("pg_lsn"),
        row_function("pg_wal_lsn_diff", 2..=2, DataType::Decimal128(20, 0), |values, _| {
            let position = |at: usize| text_of(&values[at]).map(|text| log_position(&text)).transpose();
            let difference = position(0)?.zip(position(1)?).map(|(end, start)| i128::from(end) - i128::from(start));
            Ok(ScalarValue::Decimal128(difference, 20, 0))
        }),
        row_function("pg_client_encoding", 0..=0, DataType::Utf8View, |_, _| Ok(text("UTF8"))),
    ]
}

fn timestamptz() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

/// When the server was started.
fn started(statement: &StatementContext) -> ScalarValue {
    let micros = statement.instance.as_ref().map(|instance| instance.started_micros);
    ScalarValue::TimestampMicrosecond(micros, Some("UTC".into()))
}

/// A position in a log, `16/B374D848`, in bytes.
fn log_position(text: &str) -> Result<u64> {
    let half = |digits: &str| u32::from_str_radix(digits, 16).ok().filter(|_| (1..=8).contains(&digits.len()));
    let halves = text.split_once('/').and_then(|(high, low)| half(high).zip(half(low)));
    halves.map(|(high, low)| u64::from(high) << 32 | u64::from(low)).ok_or_else(|| {
        let message = format!("invalid input syntax for type pg_lsn: \"{text}\"");
        sql_error(SqlState::INVALID_TEXT_REPRESENTATION, message)
    })
}

fn current_setting(values: Values<'_>, statement: &StatementContext) -> Result<ScalarValue> {
    let Some(name) = text_of(&values[0]) else { return Ok(null_text()) };
    let found = match name.to_lowercase().as_str() {
        "server_version" => Some(SERVER_VERSION.to_owned()),
        "server_version_num" => Some(SERVER_VERSION_NUM.to_owned()),
        "server_encoding" => Some("UTF8".to_owned()),
        lower => {
            let set = statement.pending_settings.get(lower).or_else(|| statement.settings.get(lower).cloned());
            set.or_else(|| Settings::at_start(lower))
        }
    };
    let missing_ok = values.get(1).and_then(bool_of) == Some(true);
    match found {
        None if !missing_ok => {
            Err(sql_error(SqlState::UNDEFINED_OBJECT, format!("unrecognized configuration parameter \"{name}\"")))
        }
        found => Ok(optional(found)),
    }
}

/// Functions of the catalog.
fn catalog() -> Vec<RowFunction> {
    let texts = |name, arity, run| row_function(name, arity, DataType::Utf8View, run);
    vec![
        texts("format_type", 2..=2, |values, statement| {
            let Some(number) = oid(&values[0]) else { return Ok(null_text()) };
            Ok(text(format_type(statement, number, int_of(&values[1]).unwrap_or(-1))))
        }),
        texts("pg_get_userbyid", 1..=1, |values, statement| {
            Ok(optional(oid(&values[0]).map(|number| cluster::role_name(statement, number))))
        })
        .returning("name"),
        texts("pg_get_indexdef", 1..=3, |values, statement| {
            let Some(number) = oid(&values[0]).filter(|number| objects::is_index(*number)) else {
                return Ok(null_text());
            };
            let Some(table) = objects::table_of_oid(statement, number) else { return Ok(null_text()) };
            let column = values.get(1).and_then(int_of).and_then(|column| usize::try_from(column).ok()).unwrap_or(0);
            if column == 0 {
                return Ok(text(objects::index_definition(table, statement)));
            }
            let key = objects::key(table, statement);
            Ok(optional(key.get(column - 1).map(|part| quote_ident(&part.name))))
        }),
        texts("pg_get_constraintdef", 1..=2, |values, statement| {
            let Some(number) = oid(&values[0]) else { return Ok(null_text()) };
            if let Some(check) = objects::check_of_oid(statement, number) {
                let pretty = values.get(1).and_then(bool_of) == Some(true);
                let sql = statement.type_names().shown(check.sql.clone());
                return Ok(text(if pretty { format!("CHECK ({sql})") } else { format!("CHECK (({sql}))") }));
            }
            if let Some((check, is_valid)) = domains::check_of_oid(statement, number) {
                let pretty = values.get(1).and_then(bool_of) == Some(true);
                let sql = statement.type_names().shown(check.to_owned());
                let sql = if pretty { sql } else { format!("({sql})") };
                return Ok(text(format!("CHECK ({sql}){}", if is_valid { "" } else { " NOT VALID" })));
            }
            let table = objects::table_of_oid(statement, number);
            Ok(optional(table.map(|table| format!("PRIMARY KEY {}", objects::key_list(table, statement, false)))))
        }),
        texts("pg_get_function_result", 1..=1, |values, statement| {
            Ok(optional(oid(&values[0]).and_then(|oid| procs::result(statement, oid))))
        }),
        texts("pg_get_function_arguments", 1..=1, |values, statement| {
            Ok(optional(oid(&values[0]).and_then(|oid| procs::arguments(statement, oid))))
        }),
        texts("pg_get_function_identity_arguments", 1..=1, |values, statement| {
            Ok(optional(oid(&values[0]).and_then(|oid| procs::identity(statement, oid))))
        }),
        // What is stored is the text.
        texts("pg_get_expr", 2..=3, |values, _| Ok(optional(text_of(&values[0])))),
        texts("pg_get_viewdef", 1..=2, |values, statement| {
            let named = text_of(&values[0]).filter(|_| int_of(&values[0]).is_none());
            let number = match &named {
                Some(name) => Some(objects::oid_of_relation(statement, name).ok_or_else(|| undefined_relation(name))?),
                None => oid(&values[0]),
            };
            let view = number.and_then(|number| views::all(statement).find(|view| view.id == number));
            Ok(optional(view.map(|view| views::definition(view, statement))))
        }),
        texts("pg_get_serial_sequence", 2..=2, |values, statement| {
            let (Some(name), Some(column)) = (text_of(&values[0]), text_of(&values[1])) else { return Ok(null_text()) };
            let number = objects::oid_of_relation(statement, &name);
            let table = number.and_then(|number| statement.table_of(keyspan_catalog::TableId(number)));
            let missing = || undefined_relation(&name);
            let table = table.ok_or_else(missing)?;
            let found = table.column(&column).ok_or_else(|| {
                DataFusionError::External(Box::new(SqlError::undefined_column_of(&table.name, &column)))
            })?;
            let own = objects::sequences(statement).find(|sequence| sequence.owner == Some((table.id, found.id)));
            let shown = |sequence: &Arc<keyspan_catalog::Sequence>| {
                format!(
                    "{}.{}",
                    quote_ident(&objects::schema_name(statement, sequence.id)),
                    quote_ident(&sequence.name)
                )
            };
            Ok(optional(own.map(shown)))
        }),
        row_function("pg_table_is_visible", 1..=1, DataType::Boolean, |values, statement| {
            let Some(number) = oid(&values[0]) else { return Ok(ScalarValue::Boolean(None)) };
            Ok(ScalarValue::Boolean(Some(objects::is_visible(statement, number))))
        }),
        texts("pg_size_pretty", 1..=1, |values, _| Ok(optional(int_of(&values[0]).map(size_pretty)))),
        texts("pg_encoding_to_char", 1..=1, |values, _| {
            Ok(text(if int_of(&values[0]) == Some(6) { "UTF8" } else { "" }))
        })
        .returning("name"),
        row_function("getdatabaseencoding", 0..=0, DataType::Utf8View, |_, _| Ok(text("UTF8"))).returning("name"),
        row_function("pg_char_to_encoding", 1..=1, DataType::Int32, |values, _| {
            let name = text_of(&values[0]).map(|name| name.to_lowercase().replace(['-', '_'], ""));
            let known = |name: String| if matches!(name.as_str(), "utf8" | "unicode") { 6 } else { -1 };
            Ok(ScalarValue::Int32(name.map(known)))
        }),
        texts("quote_ident", 1..=1, |values, _| Ok(optional(text_of(&values[0]).map(|name| quote_ident(&name))))),
        texts("bpchar", 1..=1, |values, _| Ok(optional(text_of(&values[0])))),
    ]
}

/// A type's name with its modifier.
pub(super) fn format_type(statement: &StatementContext, number: u32, modifier: i64) -> String {
    if number == 0 {
        return "-".to_owned();
    }
    let Some(words) = objects::type_lines().find(|words| words[0].parse() == Ok(number)) else {
        if let Some(of) = statement.type_names().of_oid(number) {
            return statement.type_names().type_name(&of);
        }
        let table = objects::table_of_oid(statement, number);
        let name = table.map(|table| &table.name).or_else(|| views::of_oid(statement, number).map(|view| &view.name));
        return name.map_or_else(|| "???".to_owned(), |name| quote_ident(name));
    };
    let name = match words[1] {
        "bool" => "boolean",
        "int2" => "smallint",
        "int4" => "integer",
        "int8" => "bigint",
        "float4" => "real",
        "float8" => "double precision",
        "varchar" => "character varying",
        "bpchar" => "character",
        "varbit" => "bit varying",
        // Without its quotes the name means one bit.
        "bit" if modifier < 0 => "\"bit\"",
        "timestamp" => "timestamp without time zone",
        "timestamptz" => "timestamp with time zone",
        "time" => "time without time zone",
        "timetz" => "time with time zone",
        "char" => "\"char\"",
        name if name.starts_with('_') => {
            let item = words[7].parse().unwrap_or(0);
            return format!("{}[]", format_type(statement, item, modifier));
        }
        name => name,
    };
    // Digits of a second stand before the zone; those of an interval are below its fields.
    if let ("time" | "timetz" | "timestamp" | "timestamptz", digits @ 0..=6) = (words[1], modifier) {
        let (kind, zone) = name.split_once(' ').unwrap_or((name, ""));
        return format!("{kind}({digits}) {zone}");
    }
    if let ("interval", digits @ 0..=6) = (words[1], modifier & 0xFFFF) {
        return format!("{name}({digits})");
    }
    if let ("bit" | "varbit", 1..) = (words[1], modifier) {
        return format!("{}({modifier})", name.trim_matches('"'));
    }
    match (words[1], modifier - 4) {
        ("varchar" | "bpchar", length) if length > 0 => format!("{name}({length})"),
        ("numeric", packed) if packed > 0 => format!("{name}({},{})", packed >> 16, packed & 0xFFFF),
        _ => name.to_owned(),
    }
}

fn size_pretty(bytes: i64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if bytes.abs() < 10 * 1024 {
        return format!("{bytes} bytes");
    }
    let mut size = bytes;
    let mut shown = "bytes";
    for unit in UNITS {
        size = (size + 512) / 1024;
        shown = unit;
        if size.abs() < 10 * 1024 {
            break;
        }
    }
    format!("{size} {shown}")
}

/// Functions of sequences.
fn sequences() -> Vec<RowFunction> {
    let ints = |name, arity, run| row_function(name, arity, DataType::Int64, run).with_volatility(Volatility::Volatile);
    vec![
        ints("nextval", 1..=1, |values, statement| match text_of(&values[0]) {
            Some(name) => given_number(objects::sequence(statement, &name).and_then(|sequence| {
                statement.authorize_sequence(sequence, Privileges::USAGE | Privileges::UPDATE)?;
                statement.next_number(sequence)
            })),
            None => Ok(ScalarValue::Int64(None)),
        }),
        ints("currval", 1..=1, |values, statement| match text_of(&values[0]) {
            Some(name) => given_number(objects::sequence(statement, &name).and_then(|sequence| {
                statement.authorize_sequence(sequence, Privileges::USAGE | Privileges::SELECT)?;
                statement.last_values.current(sequence)
            })),
            None => Ok(ScalarValue::Int64(None)),
        }),
        ints("lastval", 0..=0, |_, statement| given_number(statement.last_values.newest())),
        ints("setval", 2..=3, |values, statement| {
            let (Some(name), Some(last)) = (text_of(&values[0]), int_of(&values[1])) else {
                return Ok(ScalarValue::Int64(None));
            };
            let called = values.get(2).is_none_or(|called| bool_of(called) != Some(false));
            given_number(objects::sequence(statement, &name).and_then(|sequence| {
                statement.authorize_sequence(sequence, Privileges::UPDATE)?;
                statement.set_number(sequence, last, called)
            }))
        }),
    ]
}

fn given_number(number: std::result::Result<i64, SqlError>) -> Result<ScalarValue> {
    number.map(|number| ScalarValue::Int64(Some(number))).map_err(|error| DataFusionError::External(Box::new(error)))
}

/// Functions whose answer never differs here: there is nothing of their kind, or nothing that is hidden.
fn constants() -> Vec<RowFunction> {
    let nothing = |name, arity| row_function(name, arity, DataType::Utf8View, |_, _| Ok(null_text()));
    let yes = |name, arity| row_function(name, arity, DataType::Boolean, |_, _| Ok(ScalarValue::Boolean(Some(true))));
    let no = |name, arity| row_function(name, arity, DataType::Boolean, |_, _| Ok(ScalarValue::Boolean(Some(false))));
    let unmeasured = |name, arity| row_function(name, arity, DataType::Int64, |_, _| Ok(ScalarValue::Int64(Some(0))));
    vec![
        nothing("pg_get_ruledef", 1..=2),
        nothing("pg_get_triggerdef", 1..=2),
        nothing("pg_get_functiondef", 1..=1),
        nothing("pg_get_function_sqlbody", 1..=1),
        nothing("pg_get_partkeydef", 1..=1),
        nothing("pg_get_partition_constraintdef", 1..=1),
        nothing("pg_get_statisticsobjdef_columns", 1..=1),
        nothing("pg_tablespace_location", 1..=1),
        nothing("inet_client_addr", 0..=0),
        nothing("inet_server_addr", 0..=0),
        nothing("inet_client_port", 0..=0),
        nothing("inet_server_port", 0..=0),
        no("pg_relation_is_publishable", 1..=1),
        no("pg_is_wal_replay_paused", 0..=0),
        no("pg_relation_is_updatable", 2..=2),
        yes("has_function_privilege", 2..=3),
        yes("has_type_privilege", 2..=3),
        yes("pg_type_is_visible", 1..=1),
        yes("pg_function_is_visible", 1..=1),
        yes("pg_operator_is_visible", 1..=1),
        yes("pg_collation_is_visible", 1..=1),
        yes("pg_opclass_is_visible", 1..=1),
        yes("pg_opfamily_is_visible", 1..=1),
        yes("pg_conversion_is_visible", 1..=1),
        yes("pg_statistics_obj_is_visible", 1..=1),
        yes("pg_ts_config_is_visible", 1..=1),
        yes("pg_ts_dict_is_visible", 1..=1),
        yes("pg_ts_parser_is_visible", 1..=1),
        yes("pg_ts_template_is_visible", 1..=1),
        unmeasured("pg_tablespace_size", 1..=1),
    ]
}
