//! SQL/JSON paths: `jsonb @? path`, `jsonb @@ path`, `jsonb_path_query` and its kin, and the type `jsonpath`, which is
//! text whose field says so. Parsing and evaluation are the crate `sql-json-path`'s.
//!
//! Nothing can stop it while it works, and it parses brackets in a time that doubles with each level. So what a path may
//! be is bounded before it is parsed ([`check`]), and a large document takes few loops ([`LOOPS_VALUES_MAX`]).

use crate::{
    codec::parse,
    error::{SqlError, SqlState},
    functions::{
        bool_of,
        json::{a_jsonb, argument, change, typed_list},
        scalar_function::{self, Call, RowFunction, external, nullable, nullable_named, returns_boolean, strict},
    },
    types,
};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::{error::Result, logical_expr::ScalarUDF, scalar::ScalarValue};
use serde_json::Value;
use sql_json_path::{EvalError, JsonPath};
use std::{
    cell::RefCell,
    collections::VecDeque,
    sync::{Arc, LazyLock},
};

/// Bytes of a path.
const PATH_BYTES_MAX: usize = 4 << 10;
/// Levels of parentheses that group or filter, and of brackets.
const LEVELS_MAX: usize = 5;
/// Parentheses and brackets of a path.
const BRACKETS_MAX: usize = 64;
/// Signs that may be operators: trees are as deep as chains of these are long.
const SIGNS_MAX: usize = 300;
/// Values of a document to the power of the loops over all of them that a path has (`[*]`, `.*`, `.**`).
const LOOPS_VALUES_MAX: u64 = 1_000_000_000;

/// The name of the type, as a field's metadata has it.
const JSONPATH: &str = "jsonpath";

/// The function that a cast to the type is.
pub(crate) const JSONPATH_OF: &str = "keyspan_jsonpath";

fn too_complex(what: String) -> SqlError {
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, format!("jsonpath has {what}"))
}

/// Refuses a path that would take too long to be parsed, or too much of the stack.
fn check(path: &str) -> std::result::Result<(), SqlError> {
    if path.len() > PATH_BYTES_MAX {
        return Err(too_complex(format!("more than {PATH_BYTES_MAX} bytes")));
    }
    let (mut levels, mut stack, mut brackets, mut signs) = (0_usize, Vec::new(), 0, 0);
    let (mut before, mut quoted, mut escaped) = (' ', false, false);
    for c in path.chars() {
        if quoted {
            quoted = c != '"' || escaped;
            escaped = c == '\\' && !escaped;
            continue;
        }
        match c {
            '"' => quoted = true,
            '(' | '[' => {
                // Behind a name it is read in one way only.
                let groups = c == '[' || !(before.is_alphanumeric() || before == '!');
                brackets += 1;
                levels += usize::from(groups);
                stack.push(groups);
                if levels > LEVELS_MAX || brackets > BRACKETS_MAX {
                    return Err(too_complex(format!("more than {LEVELS_MAX} levels or {BRACKETS_MAX} brackets")));
                }
            }
            ')' | ']' => levels -= usize::from(stack.pop().unwrap_or(false)),
            '+' | '-' | '*' | '/' | '%' | '&' | '|' | '!' | '=' | '<' | '>' | '.' => {
                signs += 1;
                if signs > SIGNS_MAX {
                    return Err(too_complex(format!("more than {SIGNS_MAX} operators")));
                }
            }
            _ => {}
        }
        if !c.is_whitespace() {
            before = c;
        }
    }
    Ok(())
}

/// Refuses what the library does otherwise: `.**` before another step, where PostgreSQL takes items of arrays twice in
/// lax mode, as an item and within the array.
fn check_descent(path: &str) -> std::result::Result<(), SqlError> {
    let goes_on = |rest: &str| {
        let rest = rest.trim_start();
        let rest = rest.strip_prefix('{').and_then(|levels| levels.split_once('}')).map_or(rest, |(_, rest)| rest);
        rest.trim_start().starts_with(['.', '[', '?'])
    };
    if path.split("**").skip(1).any(goes_on) {
        return Err(SqlError::unsupported("a jsonpath with a step behind .**"));
    }
    Ok(())
}

/// A path as it was written.
fn parsed(path: &str) -> Result<JsonPath> {
    check(path).map_err(external)?;
    check_descent(path).map_err(external)?;
    JsonPath::new(path)
        .map_err(|_| external(SqlError::new(SqlState::SYNTAX_ERROR, format!("syntax error in jsonpath \"{path}\""))))
}

/// A path whose members are those of each item that is an object. The crate unwraps an array for `.a`, as lax paths
/// are to do, but gives nothing at all where one of its items is no object, or has no such member: so a filter, which
/// unwraps them as well, chooses items before. Where texts have escapes, which the crate does not print, a path stays.
fn unwrapping(path: JsonPath) -> JsonPath {
    const OBJECTS: &str = "?(@.type() == \"object\")";
    let text = path.to_string();
    if text.starts_with("strict ") || text.contains('\\') {
        return path;
    }
    let (mut out, mut quoted) = (String::with_capacity(text.len()), false);
    for (at, c) in text.char_indices() {
        if c == '.' && !quoted && text[at..].starts_with(".\"") {
            out.push_str(OBJECTS);
        }
        quoted ^= c == '"';
        out.push(c);
    }
    JsonPath::new(&out).unwrap_or(path)
}

/// A path, compiled. Those that a thread has compiled last are kept.
fn compiled(path: &str) -> Result<Arc<JsonPath>> {
    /// Paths that a thread keeps.
    const KEPT: usize = 8;
    thread_local! {
        static NEWEST: RefCell<VecDeque<(String, Arc<JsonPath>)>> = const { RefCell::new(VecDeque::new()) };
    }
    NEWEST.with_borrow_mut(|newest| {
        if let Some((_, found)) = newest.iter().find(|(of, _)| of == path) {
            return Ok(Arc::clone(found));
        }
        let parsed = Arc::new(unwrapping(parsed(path)?));
        newest.truncate(KEPT - 1);
        newest.push_front((path.to_owned(), Arc::clone(&parsed)));
        Ok(parsed)
    })
}

/// A path in PostgreSQL's one form.
///
/// # Errors
/// 42601, 54000.
pub(super) fn normal(path: &str) -> Result<String> {
    Ok(parsed(path)?.to_string())
}

fn error(error: &EvalError) -> SqlError {
    let state = match error {
        EvalError::NoKey(_) | EvalError::MemberAccess => SqlState::SQL_JSON_MEMBER_NOT_FOUND,
        EvalError::ArrayAccess | EvalError::WildcardArrayAccess | EvalError::SizeNotArray => {
            SqlState::SQL_JSON_ARRAY_NOT_FOUND
        }
        EvalError::WildcardMemberAccess | EvalError::KeyValueNotObject => SqlState::SQL_JSON_OBJECT_NOT_FOUND,
        EvalError::ArrayIndexOutOfBounds | EvalError::ArrayIndexOutOfRange | EvalError::ArrayIndexNotNumeric => {
            SqlState::INVALID_SQL_JSON_SUBSCRIPT
        }
        EvalError::NoVariable(_) => SqlState::UNDEFINED_OBJECT,
        EvalError::VarsNotObject => SqlState::INVALID_PARAMETER_VALUE,
        EvalError::UnaryOperandNotNumeric(_) => SqlState::SQL_JSON_NUMBER_NOT_FOUND,
        EvalError::LeftOperandNotNumeric(_) | EvalError::RightOperandNotNumeric(_) | EvalError::ExpectSingleBoolean => {
            SqlState::SINGLETON_SQL_JSON_ITEM_REQUIRED
        }
        EvalError::DivisionByZero => SqlState::DIVISION_BY_ZERO,
        EvalError::DateTimeTimezoneRequired(..) => SqlState::FEATURE_NOT_SUPPORTED,
        EvalError::MethodNotNumeric(_)
        | EvalError::DoubleTypeError
        | EvalError::NumericConversionType(_)
        | EvalError::InvalidConversion(..)
        | EvalError::NonFiniteNumber(_) => SqlState::NON_NUMERIC_SQL_JSON_ITEM,
        _ => SqlState::INVALID_ARGUMENT_FOR_SQL_JSON_DATETIME,
    };
    SqlError::new(state, error.to_string())
}

/// How many values a document has.
fn values(document: &Value) -> u64 {
    match document {
        Value::Array(items) => 1 + items.iter().map(values).sum::<u64>(),
        Value::Object(members) => 1 + members.values().map(values).sum::<u64>(),
        _ => 1,
    }
}

/// What a call asks: all items or the first one, by names of functions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    All,
    First,
}

/// The items of a call's path, `None` for an error that is to be silent.
fn items(call: &Call, asked: Asked, silent: bool) -> Result<Option<Vec<Value>>> {
    let path = compiled(&argument(call, 1)?)?;
    let target = change::parsed(&argument(call, 0)?)?;
    let vars =
        if call.values.len() > 2 { change::parsed(&argument(call, 2)?)? } else { Value::Object(Default::default()) };
    let silent = silent || call.values.get(3).and_then(bool_of).unwrap_or(false);
    let loops = argument(call, 1)?.matches('*').count().saturating_sub(1);
    if loops > 0 && values(&target).saturating_pow(u32::try_from(loops).unwrap_or(u32::MAX) + 1) > LOOPS_VALUES_MAX {
        return Err(external(too_complex("too many loops for so large a document".to_owned())));
    }
    let found = match asked {
        Asked::All => {
            path.query_with_vars(&target, &vars).map(|all| all.into_iter().map(|item| item.into_owned()).collect())
        }
        Asked::First => path
            .query_first_with_vars(&target, &vars)
            .map(|first| first.map(|item| item.into_owned()).into_iter().collect()),
    };
    match found {
        Ok(found) => Ok(Some(found)),
        Err(failed) if silent && failed.can_silent() => Ok(None),
        Err(failed) => Err(external(error(&failed))),
    }
}

fn jsonb(value: &Value) -> Result<String> {
    parse::jsonb(&value.to_string()).map_err(external)
}

fn exists(call: &Call, silent: bool) -> Result<ScalarValue> {
    // In strict mode an error behind the first item counts, too.
    let strict = compiled(&argument(call, 1)?)?.to_string().starts_with("strict");
    let asked = if strict { Asked::All } else { Asked::First };
    Ok(ScalarValue::Boolean(items(call, asked, silent)?.map(|found| !found.is_empty())))
}

fn matches(call: &Call, silent: bool) -> Result<ScalarValue> {
    let silently = silent || call.values.get(3).and_then(bool_of).unwrap_or(false);
    match items(call, Asked::All, silent)?.as_deref() {
        Some([Value::Bool(is)]) => Ok(ScalarValue::Boolean(Some(*is))),
        Some([Value::Null]) | None => Ok(ScalarValue::Boolean(None)),
        Some(_) if silently => Ok(ScalarValue::Boolean(None)),
        Some(_) => Err(external(error(&EvalError::ExpectSingleBoolean))),
    }
}

fn jsonb_list(_: &[FieldRef]) -> Result<FieldRef> {
    let item = types::named(Field::new_list_field(DataType::Utf8View, true), "jsonb");
    nullable(DataType::List(Arc::new(item)))
}

fn functions_of_rows() -> Vec<RowFunction> {
    vec![
        strict("jsonb_path_exists", 2..=4, returns_boolean, |call| exists(call, false))
            .with_aliases(&["jsonb_path_exists_tz"]),
        strict("jsonb_path_match", 2..=4, returns_boolean, |call| matches(call, false))
            .with_aliases(&["jsonb_path_match_tz"]),
        strict("jsonb_path_exists_opr", 2..=2, returns_boolean, |call| exists(call, true)),
        strict("jsonb_path_match_opr", 2..=2, returns_boolean, |call| matches(call, true)),
        strict("jsonb_path_query_array", 2..=4, a_jsonb, |call| {
            let found = items(call, Asked::All, false)?.unwrap_or_default();
            Ok(ScalarValue::Utf8View(Some(jsonb(&Value::Array(found))?)))
        })
        .with_aliases(&["jsonb_path_query_array_tz"]),
        strict("jsonb_path_query_first", 2..=4, a_jsonb, |call| {
            let found = items(call, Asked::All, false)?.unwrap_or_default();
            Ok(ScalarValue::Utf8View(found.first().map(jsonb).transpose()?))
        })
        .with_aliases(&["jsonb_path_query_first_tz"]),
        // The rows of `jsonb_path_query`.
        strict("jsonb_path_items", 2..=4, jsonb_list, |call| {
            let found = items(call, Asked::All, false)?.unwrap_or_default();
            let found = found.iter().map(jsonb).collect::<Result<Vec<_>>>()?;
            Ok(typed_list(call, found.into_iter().map(Some)))
        }),
        // What a cast to `jsonpath` is.
        strict(
            JSONPATH_OF,
            1..=1,
            |_| nullable_named(DataType::Utf8View, JSONPATH),
            |call| Ok(ScalarValue::Utf8View(Some(normal(&argument(call, 0)?)?))),
        ),
    ]
}

/// The functions.
pub fn functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    scalar_function::functions(functions_of_rows())
}

/// The function of a name.
fn function(name: &str) -> Arc<ScalarUDF> {
    static ALL: LazyLock<Vec<Arc<ScalarUDF>>> = LazyLock::new(|| functions().collect());
    Arc::clone(ALL.iter().find(|function| function.name() == name).expect("a function of this file"))
}

/// `jsonb @? path`
pub(super) fn exists_operator() -> Arc<ScalarUDF> {
    function("jsonb_path_exists_opr")
}

/// `jsonb @@ path`
pub(super) fn match_operator() -> Arc<ScalarUDF> {
    function("jsonb_path_match_opr")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_too_long_is_not_parsed() {
        let refused = |path: &str| check(path).is_err();
        assert!(refused(&format!("{}1{}", "(".repeat(6), ")".repeat(6))));
        assert!(refused(&format!("${}0{}", "[$".repeat(6), "]".repeat(6))));
        assert!(refused(&"1+".repeat(400)));
        assert!(refused(&"- ".repeat(400)));
        assert!(refused(&format!("$.{}", "a".repeat(5_000))));
        assert!(!refused("$.a[*] ? (@.b > 1 && (@.c == 2 || @.d.size() < 3)).e"));
        assert!(!refused(r#"$ ? (exists(@.a ? (exists(@.b ? (@.c == "((((((((("))))))"#));
        assert!(refused(&format!("${}{}", " ? (@.a == 1 || $".repeat(6), ")".repeat(6))));
    }

    #[test]
    fn paths_have_one_form() {
        assert_eq!(normal(" $.a [ 0 to last ] ? ( @.b>1 )").unwrap(), r#"$."a"[0 to last]?(@."b" > 1)"#);
        assert!(normal("$.").is_err());
    }
}
