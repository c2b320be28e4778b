//! Names of types of columns and parameters, with PostgreSQL's synonyms.

use crate::tokens::TokenReader;
use datafusion::sql::sqlparser::{
    ast::{ArrayElemTypeDef, CharacterLength, DataType, ExactNumberInfo, TimezoneInfo},
    tokenizer::Token,
};
use keyspan_catalog::{
    SqlType,
    value::{
        bits::BITS_MAX,
        exact::{Digits, PRECISION_MAX},
        seconds::{SECOND_DIGITS_MAX, SecondDigits},
    },
};
use keyspan_pg::{
    error::{Result, SqlError, SqlState},
    ident,
    names::RelationName,
    types::type_name,
};

/// The most characters of a `varchar(n)`: PostgreSQL's limit.
const VARCHAR_MAX: u64 = 10_485_760;

/// Parses the type of a column: the catalog's; or text, and the name of a type that is none of PostgreSQL's.
///
/// # Errors
/// 42601, and those of [`sql_type`] but for a type that does not exist.
pub(crate) fn parse_column_type(tokens: &mut TokenReader<'_>) -> Result<(SqlType, Option<RelationName>)> {
    if !matches!(tokens.peek(), Some(Token::Word(_))) {
        return Err(tokens.syntax_error());
    }
    let parsed = tokens.parse_with(|parser| parser.parse_data_type())?;
    let kind = match sql_type(&parsed) {
        Err(error) if error.state == SqlState::UNDEFINED_OBJECT => {
            let DataType::Custom(name, _) = &parsed else { return Err(error) };
            let parts: Option<Vec<String>> = name.0.iter().map(|part| part.as_ident().map(ident::fold)).collect();
            let name = tokens.relation(&parts.ok_or(error)?)?;
            return Ok((SqlType::Text, Some(name)));
        }
        kind => kind?,
    };
    // `integer ARRAY`, `integer ARRAY[3]`
    if !tokens.words("array") {
        return Ok((kind, None));
    }
    if tokens.token(&Token::LBracket) {
        tokens.advance();
        tokens.expect_token(&Token::RBracket)?;
    }
    Ok((array(kind)?, None))
}

/// The catalog's type for PostgreSQL's name.
///
/// # Errors
/// 0A000 for a type that is not supported, 42704 for one that does not exist, 22023 for a size that the type cannot
/// have.
pub fn sql_type(parsed: &DataType) -> Result<SqlType> {
    Ok(match parsed {
        DataType::Bool | DataType::Boolean => SqlType::Bool,
        DataType::Int2(None) | DataType::SmallInt(None) => SqlType::Int2,
        DataType::Int(None) | DataType::Int4(None) | DataType::Integer(None) => SqlType::Int4,
        DataType::Int8(None) | DataType::BigInt(None) => SqlType::Int8,
        DataType::Real | DataType::Float4 => SqlType::Float4,
        DataType::Float(ExactNumberInfo::Precision(1..=24)) => SqlType::Float4,
        DataType::Float(ExactNumberInfo::None | ExactNumberInfo::Precision(25..=53))
        | DataType::Float8
        | DataType::DoublePrecision => SqlType::Float8,
        DataType::Numeric(digits) | DataType::Decimal(digits) | DataType::Dec(digits) => numeric(digits)?,
        DataType::Text => SqlType::Text,
        DataType::Varchar(length) | DataType::CharacterVarying(length) | DataType::CharVarying(length) => {
            SqlType::Varchar(varchar_length(length.as_ref())?)
        }
        DataType::Char(length) | DataType::Character(length) => {
            SqlType::Char(varchar_length(length.as_ref())?.unwrap_or(1))
        }
        DataType::Bit(length) => SqlType::Bit(Some(bits(length.unwrap_or(1))?)),
        DataType::BitVarying(length) | DataType::VarBit(length) => SqlType::Varbit(length.map(bits).transpose()?),
        DataType::Bytea => SqlType::Bytea,
        DataType::Date => SqlType::Date,
        DataType::Time(digits, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            SqlType::Time(second_digits(*digits))
        }
        DataType::Interval { fields: None, precision } => SqlType::Interval(second_digits(*precision)),
        DataType::Array(ArrayElemTypeDef::SquareBracket(item, _) | ArrayElemTypeDef::Parenthesis(item)) => {
            array(sql_type(item)?)?
        }
        DataType::Timestamp(digits, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            SqlType::Timestamp(second_digits(*digits))
        }
        DataType::Timestamp(digits, TimezoneInfo::Tz | TimezoneInfo::WithTimeZone) => {
            SqlType::Timestamptz(second_digits(*digits))
        }
        DataType::Uuid => SqlType::Uuid,
        DataType::JSON => SqlType::Json,
        DataType::JSONB => SqlType::Jsonb,
        DataType::Custom(name, arguments) => match arguments.as_slice() {
            [] => custom_type(&name.to_string())?,
            [digits] => with_second_digits(custom_type(&name.to_string())?, digits)
                .ok_or_else(|| SqlError::unsupported(format!("type {}", parsed.to_string().to_lowercase())))?,
            _ => return Err(SqlError::unsupported(format!("type {}", parsed.to_string().to_lowercase()))),
        },
        other => return Err(SqlError::unsupported(format!("type {}", other.to_string().to_lowercase()))),
    })
}

fn custom_type(name: &str) -> Result<SqlType> {
    let lower = name.to_lowercase();
    let bare = lower.strip_prefix("pg_catalog.").unwrap_or(&lower);
    // `pg_type` has `_int4` for `integer[]`.
    if let Some(item) = bare.strip_prefix('_').and_then(|item| custom_type(item).ok()) {
        return array(item);
    }
    match bare {
        "timestamptz" => Ok(SqlType::Timestamptz(None)),
        "int2" => Ok(SqlType::Int2),
        "int4" => Ok(SqlType::Int4),
        "int8" => Ok(SqlType::Int8),
        "float4" => Ok(SqlType::Float4),
        "float8" => Ok(SqlType::Float8),
        "bool" => Ok(SqlType::Bool),
        "json" => Ok(SqlType::Json),
        "jsonb" => Ok(SqlType::Jsonb),
        "uuid" => Ok(SqlType::Uuid),
        "time" => Ok(SqlType::Time(None)),
        "interval" => Ok(SqlType::Interval(None)),
        "date" => Ok(SqlType::Date),
        "text" => Ok(SqlType::Text),
        "bytea" => Ok(SqlType::Bytea),
        "timestamp" => Ok(SqlType::Timestamp(None)),
        "varchar" => Ok(SqlType::Varchar(None)),
        "numeric" => numeric(&ExactNumberInfo::None),
        "name" => Ok(SqlType::Name),
        "\"bit\"" => Ok(SqlType::Bit(None)),
        "varbit" => Ok(SqlType::Varbit(None)),
        "bpchar" | "money" | "inet" | "cidr" | "xml" | "oid" | "timetz" | "hstore" | "citext" => {
            Err(SqlError::unsupported(format!("type {name}")))
        }
        _ => Err(SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type \"{name}\" does not exist"))),
    }
}

/// The length of a bit string: one that is too long for 32 bits is refused when the type is checked.
fn bits(length: u64) -> Result<u32> {
    let message =
        || SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("length for type bit cannot exceed {BITS_MAX}"));
    u32::try_from(length).map_err(|_| message())
}

/// Digits of a second as a type's name has them. More than six are six, as in PostgreSQL, which warns.
fn second_digits(written: Option<u64>) -> SecondDigits {
    written.map(|digits| u8::try_from(digits).unwrap_or(SECOND_DIGITS_MAX).min(SECOND_DIGITS_MAX))
}

/// A type of times with digits of a second: `timestamptz(3)`.
fn with_second_digits(kind: SqlType, written: &str) -> Option<SqlType> {
    let digits = second_digits(Some(written.parse().ok()?));
    Some(match kind {
        SqlType::Time(None) => SqlType::Time(digits),
        SqlType::Timestamp(None) => SqlType::Timestamp(digits),
        SqlType::Timestamptz(None) => SqlType::Timestamptz(digits),
        SqlType::Interval(None) => SqlType::Interval(digits),
        _ => return None,
    })
}

/// The type of arrays of a type. As in PostgreSQL, a declared size has no effect.
fn array(item: SqlType) -> Result<SqlType> {
    let dimensions = || SqlError::unsupported("an array of more than one dimension in a table");
    match item {
        SqlType::Array(_) => Err(dimensions()),
        item => {
            let unsupported = || SqlError::unsupported(format!("type {}[]", type_name(item)));
            item.array().ok_or_else(unsupported)
        }
    }
}

fn numeric(digits: &ExactNumberInfo) -> Result<SqlType> {
    let (precision, scale) = match digits {
        ExactNumberInfo::None => return Ok(SqlType::Exact(None)),
        ExactNumberInfo::Precision(precision) => (*precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (*precision, *scale),
    };
    let bounds = 1..=u64::from(PRECISION_MAX);
    if !bounds.contains(&precision) {
        let message = format!("NUMERIC precision {precision} must be between 1 and {PRECISION_MAX}");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    if scale.unsigned_abs() > u64::from(PRECISION_MAX) {
        let message = format!("NUMERIC scale {scale} must be between -{PRECISION_MAX} and {PRECISION_MAX}");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    let small = u8::try_from(precision).ok().zip(u8::try_from(scale).ok());
    if let Some((precision, scale)) = small.filter(|(precision, scale)| *precision <= 38 && scale <= precision) {
        return Ok(SqlType::Numeric { precision, scale });
    }
    // Both were checked.
    let digits = u16::try_from(precision).ok().zip(i16::try_from(scale).ok());
    Ok(SqlType::Exact(digits.map(|(precision, scale)| Digits { precision, scale })))
}

fn varchar_length(length: Option<&CharacterLength>) -> Result<Option<u32>> {
    match length {
        None => Ok(None),
        Some(CharacterLength::IntegerLength { length: n @ 1..=VARCHAR_MAX, unit: None }) => Ok(u32::try_from(*n).ok()),
        Some(other) => {
            let message = format!("length for type varchar must be from 1 to {VARCHAR_MAX}, not {other}");
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
        }
    }
}
