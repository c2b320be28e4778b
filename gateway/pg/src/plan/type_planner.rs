//! SQL type names in queries as Arrow types: microseconds, text as `Utf8View`, uuid and jsonb, PostgreSQL's own types.

use crate::{
    error::{SqlError, SqlState},
    numeric,
    types::{self, TIME, TIMESTAMP, UUID},
};
use arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit};
use datafusion::{
    common::DataFusionError,
    error::Result,
    logical_expr::planner::TypePlanner,
    sql::sqlparser::ast::{self, ArrayElemTypeDef, CharacterLength, ExactNumberInfo, TimezoneInfo},
};
use keyspan_catalog::{Domain, EnumType, SqlType, value::bits::BITS_MAX};
use std::sync::Arc;

/// The type planner.
#[derive(Debug)]
pub struct Types;

impl TypePlanner for Types {
    fn plan_type_field(&self, written: &ast::DataType) -> Result<Option<FieldRef>> {
        use ast::DataType as Sql;
        if let Some(item) = item_of_array(written) {
            return self.plan_type_field(&Sql::Array(ArrayElemTypeDef::SquareBracket(Box::new(item), None)));
        }
        if let Sql::Array(ArrayElemTypeDef::SquareBracket(item, _) | ArrayElemTypeDef::Parenthesis(item)) = written {
            if domain_of(item).is_some() {
                let error = SqlError::unsupported("an array of a domain").with_hint("Take an array of its base type.");
                return Err(DataFusionError::External(Box::new(error)));
            }
            let Some(item) = self.plan_type_field(item)? else { return Ok(None) };
            if let Some(of) = types::enums::of(&item) {
                let error = SqlError::unsupported(format!("type {}[]", of.name)).with_hint("Take text[].");
                return Err(DataFusionError::External(Box::new(error)));
            }
            let list = Field::new("cast", types::list_of(item.data_type().clone()), true);
            // What the items are called stands beside the array, not in its type.
            let name = item.metadata().get(types::TYPE_KEY);
            return Ok(Some(Arc::new(match name {
                Some(name) => types::named(list, &format!("{name}[]")),
                None => list,
            })));
        }
        let (data, name) = match written {
            Sql::Numeric(info) | Sql::Decimal(info) | Sql::Dec(info) => numeric(info)?,
            Sql::Timestamp(_, TimezoneInfo::Tz | TimezoneInfo::WithTimeZone) => (types::timestamptz(), None),
            Sql::Timestamp(..) => (TIMESTAMP, None),
            Sql::Time(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => (TIME, None),
            Sql::Text | Sql::String(_) => (DataType::Utf8View, None),
            Sql::Varchar(length) | Sql::CharacterVarying(length) | Sql::CharVarying(length) => {
                (DataType::Utf8View, Some(varchar(length.as_ref())))
            }
            Sql::Char(length) | Sql::Character(length) => (DataType::Utf8View, Some(character(length.as_ref()))),
            Sql::Bit(length) => (types::BITS, Some(bits("bit", Some(length.unwrap_or(1)))?)),
            Sql::BitVarying(length) | Sql::VarBit(length) => (types::BITS, Some(bits("bit varying", *length)?)),
            Sql::Uuid => (UUID, Some("uuid".into())),
            Sql::JSON => (DataType::Utf8View, Some("json".into())),
            Sql::JSONB => (DataType::Utf8View, Some("jsonb".into())),
            Sql::Float(ExactNumberInfo::None) => (DataType::Float64, None),
            Sql::Float(ExactNumberInfo::Precision(bits)) => {
                (if *bits <= 24 { DataType::Float32 } else { DataType::Float64 }, None)
            }
            Sql::Interval { .. } => (DataType::Interval(IntervalUnit::MonthDayNano), None),
            Sql::Custom(name, arguments) => match custom(name, arguments) {
                Some(found) => found,
                None => {
                    let state = crate::error::SqlState::UNDEFINED_OBJECT;
                    let error = crate::error::SqlError::new(state, format!("type \"{name}\" does not exist"));
                    return Err(DataFusionError::External(Box::new(error)));
                }
            },
            _ => return Ok(None),
        };
        // A field without name and metadata would keep the metadata of what is cast (DataFusion's "type-only" cast).
        let field = Field::new("cast", data, true);
        Ok(Some(Arc::new(match name {
            Some(name) => types::named(field, &name),
            None => field,
        })))
    }
}

/// How the name of a type begins that [`enumerated`] makes: nobody writes it.
const ENUMERATED: &str = "\u{1}enum";

/// An enumerated type in the place of its name, for this planner.
pub fn enumerated(of: &EnumType) -> ast::DataType {
    let field = types::enums::cast_field(of);
    let name = field.metadata().get(types::TYPE_KEY).cloned().unwrap_or_default();
    own((ENUMERATED, &of.name), name)
}

/// As [`ENUMERATED`], of a domain: this planner never sees it.
const DOMAIN: &str = "\u{1}domain";

/// A domain in the place of its name.
pub fn domain(of: &Domain) -> ast::DataType {
    own((DOMAIN, &of.name), of.id.to_string())
}

/// The OID of the domain in whose place this is.
pub fn domain_of(data_type: &ast::DataType) -> Option<u32> {
    let ast::DataType::Custom(name, arguments) = data_type else { return None };
    let is_domain = name.0.len() == 2 && name.0[0].as_ident().is_some_and(|part| part.value == DOMAIN);
    is_domain.then(|| arguments.first()?.parse().ok()).flatten()
}

/// PostgreSQL's name of a type of columns, as the parser has it.
///
/// # Errors
/// For one that it does not know: a fault of ours.
pub fn written(kind: SqlType) -> crate::error::Result<ast::DataType> {
    let name = types::type_name(kind);
    let parsed = crate::syntax::dialect::parse_text(&name, |parser| parser.parse_data_type());
    parsed.map_err(|error| SqlError::new(SqlState::INTERNAL_ERROR, format!("type {name}: {error}")))
}

/// The tenant's own types stand under what they are, and their names: columns have these.
fn own((what, name): (&str, &str), argument: String) -> ast::DataType {
    let part = |part: &str| ast::ObjectNamePart::Identifier(ast::Ident::with_quote('"', part));
    ast::DataType::Custom(ast::ObjectName(vec![part(what), part(name)]), vec![argument])
}

/// Whether a name of one part is one of PostgreSQL's types.
pub fn is_known(name: &str) -> bool {
    let part = ast::ObjectNamePart::Identifier(ast::Ident::new(name));
    let name = ast::ObjectName(vec![part]);
    custom(&name, &[]).is_some() || item_of_array(&ast::DataType::Custom(name, Vec::new())).is_some()
}

/// The type of the items of an array whose name is written as `pg_type` has it: `_int4` for `int4[]`.
fn item_of_array(written: &ast::DataType) -> Option<ast::DataType> {
    let ast::DataType::Custom(name, arguments) = written else { return None };
    let mut name = name.clone();
    let Some(ast::ObjectNamePart::Identifier(last)) = name.0.last_mut() else { return None };
    last.value = last.value.strip_prefix('_')?.to_owned();
    (arguments.is_empty() && custom(&name, &[]).is_some()).then_some(ast::DataType::Custom(name, Vec::new()))
}

fn varchar(length: Option<&CharacterLength>) -> String {
    match length {
        Some(CharacterLength::IntegerLength { length, .. }) => format!("character varying({length})"),
        _ => "character varying".into(),
    }
}

/// `char` is `char(1)`.
fn character(length: Option<&CharacterLength>) -> String {
    match length {
        Some(CharacterLength::IntegerLength { length, .. }) => format!("character({length})"),
        _ => "character(1)".into(),
    }
}

/// The name of a type of bit strings.
fn bits(name: &str, length: Option<u64>) -> Result<String> {
    let Some(length) = length else { return Ok(name.to_owned()) };
    let short = if name == "bit" { name } else { "varbit" };
    let refused = if length == 0 {
        format!("length for type {short} must be at least 1")
    } else if length > BITS_MAX.into() {
        format!("length for type {short} cannot exceed {BITS_MAX}")
    } else {
        return Ok(format!("{name}({length})"));
    };
    Err(DataFusionError::External(Box::new(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, refused))))
}

/// A numeric, and its name where Arrow's type does not tell its digits.
fn numeric(info: &ExactNumberInfo) -> Result<(DataType, Option<String>)> {
    /// PostgreSQL's bounds of a precision and of a scale.
    const MOST: i64 = 1_000;
    let (precision, scale) = match *info {
        ExactNumberInfo::None => return Ok((numeric::EXACT, None)),
        ExactNumberInfo::Precision(precision) => (i64::try_from(precision).unwrap_or(i64::MAX), 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (i64::try_from(precision).unwrap_or(i64::MAX), scale),
    };
    let refused = |message: String| {
        Err(DataFusionError::External(Box::new(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))))
    };
    if !(1..=MOST).contains(&precision) {
        return refused(format!("NUMERIC precision {precision} must be between 1 and {MOST}"));
    }
    if !(-MOST..=MOST).contains(&scale) {
        return refused(format!("NUMERIC scale {scale} must be between -{MOST} and {MOST}"));
    }
    // As columns of such types: beyond 38 digits in the exact form, which has NaN too.
    let small = (precision <= i64::from(types::NUMERIC_PRECISION)).then(|| u8::try_from(precision).ok()).flatten();
    let data = match small.zip(i8::try_from(scale).ok()) {
        Some((precision, scale)) if (0..=i64::from(precision)).contains(&i64::from(scale)) => {
            DataType::Decimal128(precision, scale)
        }
        _ => numeric::EXACT,
    };
    let name = numeric::is_exact(&data).then(|| format!("numeric({precision},{scale})"));
    Ok((data, name))
}

/// A type that the parser does not know as its own.
fn custom(name: &ast::ObjectName, arguments: &[String]) -> Option<(DataType, Option<String>)> {
    let parts: Vec<_> = name.0.iter().filter_map(|part| part.as_ident()).collect();
    let last = parts.last()?;
    if parts.len() == 2 && parts[0].value == ENUMERATED {
        return Some((DataType::Utf8View, arguments.first().cloned()));
    }
    if parts.len() == 2 && !parts[0].value.eq_ignore_ascii_case("pg_catalog") {
        return None;
    }
    let text = |name: &str| Some((DataType::Utf8View, Some(name.to_owned())));
    let plain = |data| Some((data, None));
    // In quotes stand the names of `pg_type`, which are in lower case.
    let name = if last.quote_style.is_some() { last.value.clone() } else { last.value.to_lowercase() };
    match name.as_str() {
        "bit" if last.quote_style.is_some() => {
            Some((types::BITS, types::bit_field("").metadata().get(types::TYPE_KEY).cloned()))
        }
        "varbit" => Some((types::BITS, Some("bit varying".to_owned()))),
        "char" if last.quote_style.is_some() => text("\"char\""),
        "bpchar" if !arguments.is_empty() => text(&format!("character({})", arguments.join(","))),
        "text" | "bpchar" | "cstring" | "citext" | "unknown" => plain(DataType::Utf8View),
        "varchar" => text(&arguments.first().map_or("character varying".into(), |n| format!("character varying({n})"))),
        "name" => text("name"),
        "uuid" => Some((UUID, Some("uuid".into()))),
        "json" => text("json"),
        "jsonb" => text("jsonb"),
        "oid" | "xid" | "cid" => plain(DataType::UInt32),
        "bool" => plain(DataType::Boolean),
        "int2" => plain(DataType::Int16),
        "int4" => plain(DataType::Int32),
        "int8" => plain(DataType::Int64),
        "float4" => plain(DataType::Float32),
        "float8" => plain(DataType::Float64),
        "numeric" => plain(numeric::EXACT),
        "date" => plain(DataType::Date32),
        "time" => plain(TIME),
        "timestamp" => plain(TIMESTAMP),
        "timestamptz" => plain(types::timestamptz()),
        "bytea" => plain(DataType::Binary),
        "interval" => plain(DataType::Interval(IntervalUnit::MonthDayNano)),
        _ => None,
    }
}
