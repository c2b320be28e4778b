//! Errors of DataFusion, Arrow and Parquet as PostgreSQL words them.
//!
//! An error of our own inside one of theirs is passed on unchanged. Else the kind of the error decides. Where the kind
//! says too little (all errors of the planner are [`DataFusionError::Plan`]) its message is matched against the words
//! that DataFusion and Arrow have: this file is the only one that reads messages, since only theirs have no types. The
//! name that an error is about becomes its [`Subject`](super::subject::Subject) here.

use super::{SqlError, SqlState};
use crate::names::PATH;
use arrow::error::ArrowError;
use datafusion::{
    common::{Column, SchemaError},
    error::DataFusionError,
};
use keyspan_storage::fs::is_no_space;
use parquet::errors::ParquetError;
use std::error::Error;

const NO_FUNCTION_HINT: &str =
    "No function matches the given name and argument types. You might need to add explicit type casts.";
/// How DataFusion says, as an internal error, that a function does not take the types of its arguments.
const NO_SIGNATURE: &str = "' failed to match any signature";

impl From<DataFusionError> for SqlError {
    fn from(error: DataFusionError) -> Self {
        of(&error)
    }
}

impl From<ArrowError> for SqlError {
    fn from(error: ArrowError) -> Self {
        of_arrow(&error)
    }
}

fn of(error: &DataFusionError) -> SqlError {
    match error {
        DataFusionError::External(inner) => ours(inner.as_ref()),
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => of(inner),
        DataFusionError::Shared(inner) => of(inner),
        DataFusionError::Collection(all) => match all.first() {
            Some(first) => of(first),
            None => SqlError::new(SqlState::INTERNAL_ERROR, "an empty list of errors"),
        },
        DataFusionError::ArrowError(inner, _) => of_arrow(inner),
        DataFusionError::SQL(inner, _) => SqlError::syntax(tidy(&inner.to_string())),
        DataFusionError::SchemaError(inner, _) => of_schema(inner),
        DataFusionError::Plan(message) => of_plan(message),
        DataFusionError::NotImplemented(message) => of_not_implemented(message),
        DataFusionError::Execution(message) => of_execution(message),
        DataFusionError::ResourcesExhausted(message) => {
            SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory for this query").with_detail(tidy(message))
        }
        DataFusionError::IoError(inner) => of_io(inner),
        DataFusionError::ObjectStore(inner) => {
            SqlError::of_server_file(SqlState::IO_ERROR, "could not read a file", tidy(&inner.to_string()))
        }
        DataFusionError::ParquetError(inner) => of_parquet(inner),
        DataFusionError::Internal(message) if message.contains(NO_SIGNATURE) => of_plan(message),
        other => SqlError::new(SqlState::INTERNAL_ERROR, tidy(&other.strip_backtrace())),
    }
}

fn of_parquet(error: &ParquetError) -> SqlError {
    match error {
        ParquetError::External(inner) => ours(inner.as_ref()),
        other => SqlError::new(SqlState::DATA_CORRUPTED, tidy(&other.to_string())),
    }
}

/// An error from outside of DataFusion: the first among it and its causes that has a mapping.
fn ours(error: &(dyn Error + 'static)) -> SqlError {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref::<SqlError>() {
            return found.clone();
        }
        if let Some(found) = error.downcast_ref::<keyspan_catalog::Error>() {
            return found.into();
        }
        if let Some(found) = error.downcast_ref::<keyspan_storage::Error>() {
            return found.into();
        }
        if let Some(found) = error.downcast_ref::<DataFusionError>() {
            return of(found);
        }
        if let Some(found) = error.downcast_ref::<ArrowError>() {
            return of_arrow(found);
        }
        if let Some(found) = error.downcast_ref::<ParquetError>() {
            return of_parquet(found);
        }
        // DataFusion's own functions of regular expressions hand it on.
        if let Some(found) = error.downcast_ref::<regex::Error>() {
            let why = found.to_string();
            let message = format!("invalid regular expression: {}", why.lines().last().unwrap_or_default());
            return SqlError::new(SqlState::INVALID_REGULAR_EXPRESSION, message);
        }
        cause = error.source();
    }
    SqlError::new(SqlState::INTERNAL_ERROR, tidy(&error.to_string()))
}

/// An error about a temporary file of the server, whose name may be in the text.
fn of_io(error: &std::io::Error) -> SqlError {
    if let Some(found) = sql_error_in(error) {
        return found;
    }
    let text = tidy(&error.to_string());
    match is_full(error) {
        true => SqlError::of_server_file(SqlState::DISK_FULL, "no space left to write a file", text),
        false => SqlError::of_server_file(SqlState::IO_ERROR, error.kind().to_string(), text),
    }
}

/// An error of our own, which a writer of files has given.
fn sql_error_in(error: &std::io::Error) -> Option<SqlError> {
    let inner = error.get_ref()?;
    inner.downcast_ref::<SqlError>().cloned().or_else(|| sql_error_in(inner.downcast_ref()?))
}

/// Whether a full disk is the cause. Writers of files wrap the error of the system, also in another [`std::io::Error`],
/// which does not give the error within it as its source.
fn is_full(error: &(dyn Error + 'static)) -> bool {
    match error.downcast_ref::<std::io::Error>() {
        Some(error) => is_no_space(error) || error.get_ref().is_some_and(|inner| is_full(inner)),
        None => error.source().is_some_and(is_full),
    }
}

fn of_arrow(error: &ArrowError) -> SqlError {
    match error {
        ArrowError::ExternalError(inner) => ours(inner.as_ref()),
        ArrowError::DivideByZero => SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero"),
        ArrowError::ArithmeticOverflow(message) => {
            SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range").with_detail(tidy(message))
        }
        ArrowError::CastError(message) if message.contains("an't cast value") || message.contains("overflow") => {
            SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, out_of_range(message))
        }
        ArrowError::CastError(message) => SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, tidy(message)),
        ArrowError::ParseError(message) => SqlError::new(SqlState::INVALID_DATETIME_FORMAT, tidy(message)),
        ArrowError::InvalidArgumentError(message) if message.contains("too large to store") => {
            SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow").with_detail(tidy(message))
        }
        ArrowError::ComputeError(message) if message.contains("verflow on ") => {
            SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, out_of_range(message))
        }
        ArrowError::InvalidArgumentError(message) | ArrowError::ComputeError(message)
            if message.contains("imestamp out of range") =>
        {
            SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, tidy(message))
        }
        ArrowError::InvalidArgumentError(message) | ArrowError::ComputeError(message) => {
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, tidy(message))
        }
        ArrowError::NotYetImplemented(message) => of_not_implemented(message),
        ArrowError::IoError(_, inner) => of_io(inner),
        ArrowError::MemoryError(message) => SqlError::new(SqlState::OUT_OF_MEMORY, tidy(message)),
        other => SqlError::new(SqlState::INTERNAL_ERROR, tidy(&other.to_string())),
    }
}

/// "Can't cast value 3000000000 to type Int32" as PostgreSQL says it.
fn out_of_range(message: &str) -> String {
    let named =
        [("Int16", "smallint"), ("Int32", "integer"), ("Int64", "bigint"), ("UInt32", "oid"), ("Decimal", "numeric")];
    let found = named.iter().find(|(arrow, _)| message.contains(arrow));
    format!("{} out of range", found.map_or("value", |(_, name)| name))
}

fn of_schema(error: &SchemaError) -> SqlError {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => {
            let table = field.relation.as_ref().map(|relation| relation.table());
            let error = SqlError::undefined_column(table, &field.name);
            match closest(&field.name, valid_fields) {
                Some(near) => error.with_hint(format!("Perhaps you meant to reference the column {near}.")),
                None => error,
            }
        }
        SchemaError::AmbiguousReference { field } => {
            SqlError::new(SqlState::AMBIGUOUS_COLUMN, format!("column reference \"{}\" is ambiguous", field.name))
        }
        SchemaError::DuplicateQualifiedField { qualifier, name } => SqlError::new(
            SqlState::DUPLICATE_ALIAS,
            format!("table name \"{}\" specified more than once", qualifier.table()),
        )
        .with_detail(format!("Both have a column \"{name}\".")),
        SchemaError::DuplicateUnqualifiedField { name } => {
            SqlError::new(SqlState::DUPLICATE_COLUMN, format!("column name \"{name}\" specified more than once"))
        }
    }
}

/// The column whose name is nearest, at most two letters away, as a hint writes it.
fn closest(name: &str, columns: &[Column]) -> Option<String> {
    let distance = |column: &Column| datafusion::common::utils::datafusion_strsim::levenshtein(name, &column.name);
    let near = columns.iter().min_by_key(|column| distance(column))?;
    let written = || match &near.relation {
        Some(relation) => format!("{}.{}", relation.table(), near.name),
        None => format!("\"{}\"", near.name),
    };
    (distance(near) <= 2 && distance(near) < name.len()).then(written)
}

/// An error of the planner, by its words.
fn of_plan(message: &str) -> SqlError {
    if let Some(function) = between(message, "Invalid function '", "'") {
        return SqlError::undefined_function(function, function);
    }
    if let Some(function) = between(message, "table function '", "' not found") {
        return SqlError::undefined_function(function, function);
    }
    if let Some((before, _)) = message.split_once(NO_SIGNATURE) {
        let function = before.rsplit('\'').next().unwrap_or_default();
        return SqlError::undefined_function(function, function).with_hint(NO_FUNCTION_HINT);
    }
    if let Some(table) = between(message, "table '", "' not found") {
        // DataFusion's name has the database and the schema, which is PATH if the statement has none.
        let parts: Vec<_> = table.splitn(3, '.').collect();
        return match parts.as_slice() {
            [_, PATH, name] => SqlError::undefined_relation(name),
            [_, schema, name] => SqlError::undefined_relation(&format!("{schema}.{name}")),
            _ => SqlError::undefined_relation(table),
        };
    }
    if let Some(call) = between(message, "No function matches the given name and argument types '", "'") {
        let name = call.split_once('(').map_or(call, |(name, _)| name);
        return SqlError::undefined_function(name, &signature(call)).with_hint(NO_FUNCTION_HINT);
    }
    if let Some(operation) =
        between(message, "comparison operation ", "\n").or_else(|| between(message, "arithmetic operation ", "\n"))
    {
        return SqlError::new(
            SqlState::UNDEFINED_FUNCTION,
            format!("operator does not exist: {}", with_type_names(operation)),
        )
        .with_hint(
            "No operator matches the given name and argument types. You might need to add explicit type casts.",
        );
    }
    if message.contains("annot infer common type for bitwise operation")
        || message.contains("annot coerce arithmetic expression")
        || message.contains("Failed to coerce arguments")
        || message.contains("Failed to coerce then")
    {
        return SqlError::new(SqlState::UNDEFINED_FUNCTION, tidy(message));
    }
    let places = [
        ("rder by column out of bounds, specified: ", ",", "ORDER BY"),
        ("Cannot find column with position ", " in SELECT clause", "GROUP BY"),
    ];
    if let Some((at, clause)) =
        places.iter().find_map(|(before, behind, clause)| Some((between(message, before, behind)?, clause)))
    {
        let message = format!("{clause} position {at} is not in select list");
        return SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message);
    }
    let grouping = ["GROUP BY clause", "in GROUP BY", "Aggregate functions are not allowed", "ggregate function calls"];
    if grouping.iter().any(|words| message.contains(words)) && !message.contains("position") {
        return SqlError::new(SqlState::GROUPING_ERROR, tidy(message));
    }
    if message.contains("WITHIN GROUP is only supported") {
        return SqlError::new(SqlState::WRONG_OBJECT_TYPE, "WITHIN GROUP is for ordered-set aggregates only");
    }
    if message.contains("Window function calls cannot be nested") {
        return SqlError::new(SqlState::WINDOWING_ERROR, tidy(message));
    }
    if let Some(has) = between(message, "ource table contains ", " columns")
        && let Some(names) = between(message, "columns but only ", " names")
        && has.parse::<usize>().ok() < names.parse().ok()
    {
        let message = format!("the table has {has} columns available but {names} columns specified");
        return SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message);
    }
    if message.contains("nconsistent data length across values list") {
        return SqlError::syntax("VALUES lists must all be the same length");
    }
    if message.contains("unique expression names") {
        return SqlError::new(SqlState::DUPLICATE_COLUMN, tidy(message));
    }
    if message.contains("Cannot cast") || message.contains("Unsupported CAST") {
        return SqlError::new(SqlState::CANNOT_COERCE, tidy(message));
    }
    if message.contains("can only return a single column") || message.contains("same number of columns") {
        return SqlError::syntax(tidy(message));
    }
    if message.contains("Error during planning: ") {
        return of_plan(&message.replacen("Error during planning: ", "", 1));
    }
    SqlError::new(SqlState::SYNTAX_OR_ACCESS, tidy(message))
}

/// What DataFusion does not implement.
fn of_not_implemented(message: &str) -> SqlError {
    if let Some(name) = message.strip_prefix("Unsupported SQL type ") {
        return SqlError::new(
            SqlState::UNDEFINED_OBJECT,
            format!("type \"{}\" does not exist", tidy(name).to_lowercase()),
        );
    }
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, tidy(message))
}

fn of_execution(message: &str) -> SqlError {
    if message.contains("more than one row") {
        let message = "more than one row returned by a subquery used as an expression";
        return SqlError::new(SqlState::CARDINALITY_VIOLATION, message);
    }
    if message.contains("ivide by zero") {
        return SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero");
    }
    if message.contains("verflow") {
        return SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range").with_detail(tidy(message));
    }
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, tidy(message))
}

/// The text between two texts; all that follows the first if the second is missing.
fn between<'a>(message: &'a str, start: &str, end: &str) -> Option<&'a str> {
    let (_, rest) = message.split_once(start)?;
    Some(rest.split_once(end).map_or(rest, |(text, _)| text))
}

/// A text with PostgreSQL's names of types in the place of Arrow's.
fn with_type_names(text: &str) -> String {
    let type_name = |word: &str| {
        Some(match word {
            "Utf8" | "Utf8View" => "text",
            "LargeUtf8" => "bit varying",
            "UInt32" => "oid",
            "Int16" => "smallint",
            "Int32" => "integer",
            "Int64" => "bigint",
            "Float32" => "real",
            "Float64" => "double precision",
            "Boolean" => "boolean",
            "Binary" | "BinaryView" => "bytea",
            "FixedSizeBinary(16)" => "uuid",
            "Date32" => "date",
            "Null" => "unknown",
            "Interval(MonthDayNano)" => "interval",
            word if word.starts_with("Decimal") => "numeric",
            word if word.starts_with("Timestamp") && word.contains("Some") => "timestamp with time zone",
            word if word.starts_with("Timestamp") => "timestamp without time zone",
            _ => return None,
        })
    };
    text.trim()
        .split(' ')
        .map(|word| type_name(word.trim_end_matches(',')).unwrap_or(word))
        .collect::<Vec<_>>()
        .join(" ")
}

/// `f(Int64, Utf8)` as `f(bigint, text)`.
fn signature(call: &str) -> String {
    match call.split_once('(') {
        Some((name, arguments)) => {
            let arguments: Vec<_> = arguments.trim_end_matches(')').split(", ").map(with_type_names).collect();
            format!("{name}({})", arguments.join(", "))
        }
        None => call.to_owned(),
    }
}

/// The first line, without DataFusion's prefixes, beginning in lower case and without a full stop.
fn tidy(message: &str) -> String {
    let mut line = message.lines().next().unwrap_or_default().trim();
    let prefixes = [
        "Error during planning: ",
        "Execution error: ",
        "Arrow error: ",
        "External error: ",
        "sql parser error: ",
        "type_coercion\ncaused by\n",
    ];
    while let Some(rest) = prefixes.iter().find_map(|prefix| line.strip_prefix(prefix)) {
        line = rest;
    }
    let line = line.trim_end_matches('.');
    let mut chars = line.chars();
    match (chars.next(), chars.next()) {
        (Some(first), Some(second)) if !second.is_uppercase() => {
            first.to_lowercase().chain(line.chars().skip(1)).collect()
        }
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::subject::Subject;
    use expect_test::{Expect, expect};

    fn check(error: DataFusionError, expected: Expect) {
        let error = SqlError::from(error);
        expected.assert_eq(&format!("{} {}", error.state.0, error.message));
    }

    #[test]
    fn our_own_error_is_found_however_deep() {
        let own = SqlError::new(SqlState::QUERY_CANCELED, "canceling statement due to user request");
        let deep = DataFusionError::External(Box::new(own.clone())).context("inner").context("outer");
        let deep = DataFusionError::Shared(std::sync::Arc::new(deep));
        let deep = DataFusionError::ArrowError(Box::new(ArrowError::ExternalError(Box::new(deep))), None);
        assert_eq!(SqlError::from(deep), own);
        let catalog = keyspan_catalog::Error::new(keyspan_catalog::ErrorKind::NoTable, "gone");
        check(DataFusionError::External(Box::new(catalog)), expect!["42P01 gone"]);
    }

    #[test]
    fn kinds_have_their_states() {
        let arrow = |error| DataFusionError::ArrowError(Box::new(error), None);
        check(arrow(ArrowError::DivideByZero), expect!["22012 division by zero"]);
        check(
            arrow(ArrowError::CastError("Can't cast value 3000000000 to type Int32".into())),
            expect!["22003 integer out of range"],
        );
        check(
            arrow(ArrowError::CastError("Cannot cast string 'a' to value of Int32 type".into())),
            expect!["22P02 cannot cast string 'a' to value of Int32 type"],
        );
        check(DataFusionError::ResourcesExhausted("pool".into()), expect!["53200 out of memory for this query"]);
        let full = || std::io::Error::from(std::io::ErrorKind::StorageFull);
        let wrapped = std::io::Error::other(DataFusionError::IoError(std::io::Error::other(full())));
        for error in [full(), wrapped, std::io::ErrorKind::QuotaExceeded.into()] {
            check(DataFusionError::IoError(error), expect!["53100 no space left to write a file"]);
        }
        check(DataFusionError::IoError(std::io::ErrorKind::TimedOut.into()), expect!["58030 timed out"]);
        check(DataFusionError::NotImplemented("Lateral joins".into()), expect!["0A000 lateral joins"]);
        check(DataFusionError::Internal("a bug".into()), expect![[r#"XX000 internal error: a bug"#]]);
    }

    #[test]
    fn planner_messages_have_their_states() {
        let plan = |message: &str| DataFusionError::Plan(message.into());
        check(plan("table 'alto.public.t' not found"), expect![[r#"42P01 relation "public.t" does not exist"#]]);
        check(plan("table 'alto.x.t' not found"), expect![[r#"42P01 relation "x.t" does not exist"#]]);
        check(plan("Invalid function 'nix'.\nDid you mean 'nx'?"), expect!["42883 function nix does not exist"]);
        let signature = "Function 'md5' failed to match any signature, errors: Error during planning: …";
        check(DataFusionError::Internal(signature.into()), expect!["42883 function md5 does not exist"]);
        check(
            plan("Cannot infer common argument type for comparison operation Int64 = Boolean"),
            expect!["42883 operator does not exist: bigint = boolean"],
        );
        check(
            plan("WITHIN GROUP is only supported for ordered-set aggregate functions"),
            expect!["42809 WITHIN GROUP is for ordered-set aggregates only"],
        );
    }

    #[test]
    fn errors_about_a_name_have_it_as_their_subject() {
        let check = |error: DataFusionError, subject: Subject| {
            assert_eq!(SqlError::from(error).subject.as_deref(), Some(&subject));
        };
        let plan = |message: &str| DataFusionError::Plan(message.into());
        check(plan("table 'alto.$path.t' not found".replace("$path", PATH).as_str()), Subject::Relation("t".into()));
        check(plan("table 'alto.x.t' not found"), Subject::Relation("x.t".into()));
        check(plan("Invalid function 'nix'.\nDid you mean 'nx'?"), Subject::Function("nix".into()));
        check(
            plan("No function matches the given name and argument types 'abs(Utf8)'."),
            Subject::Function("abs".into()),
        );
        let column = |relation: Option<&str>| {
            let field = Box::new(Column::new(relation, "a"));
            let error = SchemaError::FieldNotFound { field, valid_fields: Vec::new() };
            DataFusionError::SchemaError(Box::new(error), Box::new(None))
        };
        check(column(None), Subject::Column { table: None, name: "a".into() });
        check(column(Some("s.t")), Subject::Column { table: Some("t".into()), name: "a".into() });
    }
}
