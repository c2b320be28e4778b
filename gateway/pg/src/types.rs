//! Types: the catalog's [`SqlType`] as Arrow fields, Arrow fields as PostgreSQL types, and single values between both.
//!
//! A column's [`SqlType`] becomes a field by [`field_of`]; the provider makes batches of such fields, DataFusion plans
//! with them, and the wire asks [`pg_type`] what to tell the client. Where Arrow has no type of its own (uuid, json,
//! jsonb, varchar, oid, name …) the field's metadata says under [`TYPE_KEY`] how PostgreSQL calls it. Text is
//! `Utf8View` everywhere, `timestamptz` is microseconds in [`UTC`].

use crate::numeric;
use arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit, TimeUnit};
use keyspan_catalog::{
    SqlType,
    value::{array::ItemType, exact::Digits},
};
use pgwire::api::Type;
use std::{collections::HashMap, sync::Arc};

pub mod enums;
mod parameter;
mod scalar;

pub use parameter::{ParameterType, parameter_pg_type, parameter_type};
pub use scalar::{scalar_of_value, value_of_scalar};

/// The metadata key of a field under which PostgreSQL's name of its type stands, where the Arrow type does not tell it.
pub const TYPE_KEY: &str = "keyspan.type";
/// The zone of every `timestamptz`, as Arrow wants it.
pub const UTC: &str = "+00:00";
/// The name of a `bit` of any length: without its quotes it means one bit.
const UNSIZED_BIT: &str = "\"bit\"";
/// Digits of a numeric that Arrow has in 128 bits, at most.
pub const NUMERIC_PRECISION: u8 = 38;

/// The Arrow type of `timestamptz`.
pub fn timestamptz() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into()))
}

/// The Arrow type of `timestamp`.
pub const TIMESTAMP: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);
/// The Arrow type of `time`.
pub const TIME: DataType = DataType::Time64(TimeUnit::Microsecond);
/// The Arrow type of `interval`.
pub const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
/// The Arrow type of bit strings, whose values are texts of `0` and `1`: no other values are of it.
pub const BITS: DataType = DataType::LargeUtf8;
/// The Arrow type of `uuid`.
pub const UUID: DataType = DataType::FixedSizeBinary(16);

/// The Arrow type of a SQL type.
pub fn data_type(kind: SqlType) -> DataType {
    match kind {
        SqlType::Bool => DataType::Boolean,
        SqlType::Int2 => DataType::Int16,
        SqlType::Int4 => DataType::Int32,
        SqlType::Int8 => DataType::Int64,
        SqlType::Float4 => DataType::Float32,
        SqlType::Float8 => DataType::Float64,
        SqlType::Numeric { precision, scale } => {
            DataType::Decimal128(precision, i8::try_from(scale).unwrap_or(i8::MAX))
        }
        SqlType::Exact(_) => numeric::EXACT,
        SqlType::Text | SqlType::Name | SqlType::Varchar(_) | SqlType::Char(_) | SqlType::Json | SqlType::Jsonb => {
            DataType::Utf8View
        }
        SqlType::Bit(_) | SqlType::Varbit(_) => BITS,
        SqlType::Bytea => DataType::Binary,
        SqlType::Date => DataType::Date32,
        SqlType::Time(_) => TIME,
        SqlType::Timestamp(_) => TIMESTAMP,
        SqlType::Timestamptz(_) => timestamptz(),
        SqlType::Interval(_) => INTERVAL,
        SqlType::Uuid => UUID,
        SqlType::Array(item) => list_of(data_type(item.kind())),
    }
}

/// A `numeric` that says nothing of its digits, where a type is a `numeric`.
pub fn without_digits(data: &DataType) -> DataType {
    if numeric::is_numeric(data) { numeric::EXACT } else { data.clone() }
}

/// The Arrow type of arrays. Their items bear no name of a type, since types of Arrow with names and without are not
/// the same to DataFusion's functions: the field of the column says it.
pub fn list_of(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(item, true)))
}

/// The Arrow field of a column.
pub fn field_of(name: &str, kind: SqlType, nullable: bool) -> Field {
    let field = Field::new(name, data_type(kind), nullable);
    match kind {
        SqlType::Uuid
        | SqlType::Json
        | SqlType::Jsonb
        | SqlType::Name
        | SqlType::Varchar(_)
        | SqlType::Char(_)
        | SqlType::Bit(_)
        | SqlType::Varbit(_)
        | SqlType::Exact(Some(_)) => named(field, &type_name(kind)),
        SqlType::Array(ItemType::Json | ItemType::Jsonb | ItemType::Varchar(_) | ItemType::Exact(Some(_))) => {
            named(field, &type_name(kind))
        }
        _ => field,
    }
}

/// A field whose type PostgreSQL calls `name`.
pub fn named(field: Field, name: &str) -> Field {
    field.with_metadata(HashMap::from([(TYPE_KEY.to_owned(), name.to_owned())]))
}

/// The digits of a numeric of the exact form, which its field names if it has any.
pub fn exact_digits(field: &Field) -> Option<Digits> {
    let name = field.metadata().get(TYPE_KEY)?;
    let (precision, scale) = name.strip_prefix("numeric(")?.strip_suffix(')')?.split_once(',')?;
    Some(Digits { precision: precision.parse().ok()?, scale: scale.parse().ok()? })
}

/// Whether a type is `int2vector` or `oidvector`: lists whose items are counted from 0.
pub fn is_vector(field: &Field) -> bool {
    field.metadata().get(TYPE_KEY).is_some_and(|name| name == "int2vector" || name == "oidvector")
}

/// A nullable field without a name, for casts: it carries the name of the type where Arrow's type does not tell it.
pub fn cast_field(kind: SqlType) -> FieldRef {
    Arc::new(field_of("", kind, true))
}

/// The length of a `char(n)`; `None` for a field of another type.
pub fn char_length(field: &Field) -> Option<u32> {
    // A cast leaves the name of the type that its argument had.
    let name = field.metadata().get(TYPE_KEY).filter(|_| is_text(field.data_type()))?;
    name.strip_prefix("character(")?.strip_suffix(')')?.parse().ok()
}

/// The type of an array's items where the field of the array says it: `jsonb[]`.
fn item_name(field: &Field) -> Option<&str> {
    let name = field.metadata().get(TYPE_KEY)?;
    // A cast leaves the name of the type that its argument had.
    name.strip_suffix("[]").filter(|_| is_list(field.data_type()))
}

/// The field of an array of values of an argument under the name of their type, where Arrow's type does not tell it.
pub fn array_named_after(array: &Field, argument: &Field) -> Option<Field> {
    let name = argument.metadata().get(TYPE_KEY)?;
    let starts = |start: &str| name.starts_with(start);
    let known = matches!(name.as_str(), "name" | "uuid" | "json" | "jsonb" | UNSIZED_BIT)
        || starts("character varying")
        || starts("bit(");
    let is_own = is_text(argument.data_type())
        || is_bits(argument.data_type())
        || matches!(argument.data_type(), DataType::FixedSizeBinary(_));
    (known && is_own && is_list(array.data_type())).then(|| named(array.clone(), &format!("{name}[]")))
}

/// The field of the items of an array, under the name of their type, where the array's field says it.
pub fn item_field(list: &Field) -> Option<Field> {
    let (DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _)) = list.data_type() else {
        return None;
    };
    Some(match item_name(list) {
        Some(name) => named(item.as_ref().clone(), name),
        None => item.as_ref().clone(),
    })
}

/// Whether values of a type are text.
pub fn is_text(data: &DataType) -> bool {
    matches!(data, DataType::Utf8 | DataType::Utf8View)
}

/// Whether values of a type are bit strings.
pub fn is_bits(data: &DataType) -> bool {
    *data == BITS
}

/// Whether values of a type are `bytea`.
pub fn is_bytea(data: &DataType) -> bool {
    matches!(data, DataType::Binary | DataType::BinaryView)
}

fn is_list(data: &DataType) -> bool {
    matches!(data, DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..))
}

/// The SQL type of a field; `None` for a type that no column can have.
pub fn sql_type(field: &Field) -> Option<SqlType> {
    if let Some(item) = item_field(field) {
        // An array of NULLs alone is one of texts.
        return if item.data_type().is_null() { SqlType::Text.array() } else { sql_type(&item)?.array() };
    }
    if is_bits(field.data_type()) {
        return Some(bits_of(field));
    }
    if numeric::is_exact(field.data_type()) {
        return Some(SqlType::Exact(exact_digits(field)));
    }
    if let Some(name) = field.metadata().get(TYPE_KEY).filter(|name| !name.ends_with("[]")) {
        let length = name.strip_prefix("character varying(").and_then(|rest| rest.strip_suffix(')'));
        if let Some(length) = char_length(field) {
            return Some(SqlType::Char(length));
        }
        return match (name.as_str(), length) {
            (name, _) if enums::is_name(name) => Some(SqlType::Text),
            ("uuid", _) => Some(SqlType::Uuid),
            ("json", _) => Some(SqlType::Json),
            ("jsonb", _) => Some(SqlType::Jsonb),
            ("name", _) => Some(SqlType::Name),
            ("character varying", _) => Some(SqlType::Varchar(None)),
            (_, Some(length)) => length.parse().ok().map(|length| SqlType::Varchar(Some(length))),
            _ => None,
        };
    }
    Some(match field.data_type() {
        DataType::Boolean => SqlType::Bool,
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => SqlType::Int2,
        DataType::Int32 | DataType::UInt16 => SqlType::Int4,
        // DataFusion counts rows in windows with unsigned integers; PostgreSQL's are bigint.
        DataType::Int64 | DataType::UInt32 | DataType::UInt64 => SqlType::Int8,
        DataType::Float16 | DataType::Float32 => SqlType::Float4,
        DataType::Float64 => SqlType::Float8,
        DataType::Decimal128(precision, scale) => {
            SqlType::Numeric { precision: *precision, scale: u8::try_from(*scale).ok()? }
        }
        DataType::Decimal256(precision, scale) => {
            SqlType::Exact(Some(Digits { precision: (*precision).into(), scale: (*scale).into() }))
        }
        DataType::Utf8 | DataType::Utf8View => SqlType::Text,
        DataType::Binary | DataType::BinaryView => SqlType::Bytea,
        DataType::FixedSizeBinary(16) => SqlType::Uuid,
        DataType::Date32 => SqlType::Date,
        DataType::Time32(_) | DataType::Time64(_) => SqlType::Time(None),
        DataType::Timestamp(_, None) => SqlType::Timestamp(None),
        DataType::Timestamp(_, Some(_)) => SqlType::Timestamptz(None),
        DataType::Interval(_) | DataType::Duration(_) => SqlType::Interval(None),
        _ => return None,
    })
}

/// The type of a field of bit strings: one without a name is `bit varying`.
fn bits_of(field: &Field) -> SqlType {
    let name = field.metadata().get(TYPE_KEY).map_or("", String::as_str);
    let length = |start: &str| name.strip_prefix(start)?.strip_suffix(')')?.parse::<u32>().ok();
    match length("bit(") {
        Some(length) => SqlType::Bit(Some(length)),
        None if name == UNSIZED_BIT => SqlType::Bit(None),
        None => SqlType::Varbit(length("bit varying(")),
    }
}

/// The field of a `bit` of any length, as operators give it.
pub fn bit_field(name: &str) -> Field {
    field_of(name, SqlType::Bit(None), true)
}

/// A type's name as `format_type` prints it.
pub fn type_name(kind: SqlType) -> String {
    kind.to_string()
}

/// The PostgreSQL type of a column's type.
pub fn pg_type_of(kind: SqlType) -> Type {
    match kind {
        SqlType::Bool => Type::BOOL,
        SqlType::Int2 => Type::INT2,
        SqlType::Int4 => Type::INT4,
        SqlType::Int8 => Type::INT8,
        SqlType::Float4 => Type::FLOAT4,
        SqlType::Float8 => Type::FLOAT8,
        SqlType::Numeric { .. } | SqlType::Exact(_) => Type::NUMERIC,
        SqlType::Text => Type::TEXT,
        SqlType::Name => Type::NAME,
        SqlType::Varchar(_) => Type::VARCHAR,
        SqlType::Char(_) => Type::BPCHAR,
        SqlType::Bit(_) => Type::BIT,
        SqlType::Varbit(_) => Type::VARBIT,
        SqlType::Bytea => Type::BYTEA,
        SqlType::Date => Type::DATE,
        SqlType::Time(_) => Type::TIME,
        SqlType::Timestamp(_) => Type::TIMESTAMP,
        SqlType::Timestamptz(_) => Type::TIMESTAMPTZ,
        SqlType::Interval(_) => Type::INTERVAL,
        SqlType::Uuid => Type::UUID,
        SqlType::Json => Type::JSON,
        SqlType::Jsonb => Type::JSONB,
        SqlType::Array(item) => array_of(&pg_type_of(item.kind())),
    }
}

/// The type modifier of a column's type: −1 where it has none.
pub fn type_modifier(kind: SqlType) -> i32 {
    /// What PostgreSQL adds to the modifiers of varchar and numeric (`VARHDRSZ`).
    const HEADER: i32 = 4;
    match kind {
        SqlType::Varchar(Some(length)) | SqlType::Char(length) => {
            i32::try_from(length).map_or(-1, |length| length.saturating_add(HEADER))
        }
        SqlType::Numeric { precision, scale } => ((i32::from(precision) << 16) | i32::from(scale)) + HEADER,
        // A negative scale has 11 bits.
        SqlType::Exact(Some(Digits { precision, scale })) => {
            ((i32::from(precision) << 16) | (i32::from(scale) & 0x7ff)) + HEADER
        }
        SqlType::Bit(Some(length)) | SqlType::Varbit(Some(length)) => i32::try_from(length).unwrap_or(-1),
        SqlType::Array(item) => type_modifier(item.kind()),
        SqlType::Time(Some(digits)) | SqlType::Timestamp(Some(digits)) | SqlType::Timestamptz(Some(digits)) => {
            digits.into()
        }
        // All fields of an interval, as PostgreSQL's `INTERVAL_TYPMOD` has them.
        SqlType::Interval(Some(digits)) => (0x7fff << 16) | i32::from(digits),
        _ => -1,
    }
}

/// The type of a field in the protocol. Maps and structures go as jsonb.
pub fn pg_type(field: &Field) -> Type {
    // A cast leaves the name of the type that its argument had: a number or a time is no text, whatever it was made of.
    let data = field.data_type();
    if let (Some(_), Some(item)) = (item_name(field), item_field(field)) {
        return array_of(&pg_type(&item));
    }
    if is_bits(data) {
        return pg_type_of(bits_of(field));
    }
    let other = numeric::is_number(data) || data.is_temporal() || *data == DataType::Boolean;
    let named = field.metadata().get(TYPE_KEY).map(String::as_str).filter(|name| !other || *name == "oid");
    match named {
        Some("uuid") => return Type::UUID,
        Some("json") => return Type::JSON,
        Some("jsonb") => return Type::JSONB,
        Some("jsonpath") => return Type::JSONPATH,
        Some("name") => return Type::NAME,
        Some("void") => return Type::VOID,
        Some("\"char\"") => return Type::CHAR,
        Some("oid") => return Type::OID,
        Some("oidvector") if matches!(data, DataType::List(_)) => return Type::OID_VECTOR,
        Some("int2vector") if matches!(data, DataType::List(_)) => return Type::INT2_VECTOR,
        Some(name) if enums::is_name(name) => return enums::of(field).map_or(Type::TEXT, |of| enums::pg_type(&of)),
        Some(name) if name.starts_with("character varying") => return Type::VARCHAR,
        Some(name) if name.starts_with("character(") => return Type::BPCHAR,
        _ => {}
    }
    pg_type_of_data(field.data_type())
}

fn pg_type_of_data(data: &DataType) -> Type {
    match data {
        DataType::Boolean => Type::BOOL,
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => Type::INT2,
        DataType::Int32 | DataType::UInt16 => Type::INT4,
        DataType::Int64 | DataType::UInt64 => Type::INT8,
        DataType::UInt32 => Type::OID,
        data if numeric::is_numeric(data) => Type::NUMERIC,
        DataType::Float16 | DataType::Float32 => Type::FLOAT4,
        DataType::Float64 => Type::FLOAT8,
        DataType::LargeUtf8 => Type::VARBIT,
        DataType::Binary | DataType::BinaryView => Type::BYTEA,
        DataType::FixedSizeBinary(16) => Type::UUID,
        DataType::FixedSizeBinary(_) => Type::BYTEA,
        DataType::Date32 | DataType::Date64 => Type::DATE,
        DataType::Time32(_) | DataType::Time64(_) => Type::TIME,
        DataType::Timestamp(_, None) => Type::TIMESTAMP,
        DataType::Timestamp(_, Some(_)) => Type::TIMESTAMPTZ,
        DataType::Interval(_) | DataType::Duration(_) => Type::INTERVAL,
        DataType::Dictionary(_, value) => pg_type_of_data(value),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => array_of(&pg_type(item)),
        DataType::ListView(item) | DataType::LargeListView(item) => array_of(&pg_type(item)),
        DataType::Map(..) => Type::JSONB,
        DataType::Struct(_) => Type::RECORD,
        _ => Type::TEXT,
    }
}

/// The array type of a type; `text[]` where it has none.
fn array_of(item: &Type) -> Type {
    match *item {
        Type::BOOL => Type::BOOL_ARRAY,
        Type::RECORD => Type::RECORD_ARRAY,
        Type::INT2 => Type::INT2_ARRAY,
        Type::INT4 => Type::INT4_ARRAY,
        Type::INT8 => Type::INT8_ARRAY,
        Type::OID => Type::OID_ARRAY,
        Type::NUMERIC => Type::NUMERIC_ARRAY,
        Type::FLOAT4 => Type::FLOAT4_ARRAY,
        Type::FLOAT8 => Type::FLOAT8_ARRAY,
        Type::VARCHAR => Type::VARCHAR_ARRAY,
        Type::BPCHAR => Type::BPCHAR_ARRAY,
        Type::BIT => Type::BIT_ARRAY,
        Type::VARBIT => Type::VARBIT_ARRAY,
        Type::NAME => Type::NAME_ARRAY,
        Type::CHAR => Type::CHAR_ARRAY,
        Type::BYTEA => Type::BYTEA_ARRAY,
        Type::DATE => Type::DATE_ARRAY,
        Type::TIME => Type::TIME_ARRAY,
        Type::TIMESTAMP => Type::TIMESTAMP_ARRAY,
        Type::TIMESTAMPTZ => Type::TIMESTAMPTZ_ARRAY,
        Type::INTERVAL => Type::INTERVAL_ARRAY,
        Type::UUID => Type::UUID_ARRAY,
        Type::JSON => Type::JSON_ARRAY,
        Type::JSONB => Type::JSONB_ARRAY,
        _ => Type::TEXT_ARRAY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    const ALL: [SqlType; 27] = [
        SqlType::Bool,
        SqlType::Int2,
        SqlType::Int4,
        SqlType::Int8,
        SqlType::Float4,
        SqlType::Float8,
        SqlType::Numeric { precision: 10, scale: 2 },
        SqlType::Text,
        SqlType::Varchar(None),
        SqlType::Varchar(Some(12)),
        SqlType::Char(5),
        SqlType::Bytea,
        SqlType::Date,
        SqlType::Timestamp(None),
        SqlType::Timestamptz(None),
        SqlType::Uuid,
        SqlType::Json,
        SqlType::Jsonb,
        SqlType::Time(None),
        SqlType::Interval(None),
        SqlType::Array(ItemType::Int4),
        SqlType::Array(ItemType::Numeric { precision: 10, scale: 2 }),
        SqlType::Array(ItemType::Varchar(Some(12))),
        SqlType::Array(ItemType::Text),
        SqlType::Array(ItemType::Uuid),
        SqlType::Array(ItemType::Jsonb),
        SqlType::Array(ItemType::Interval(None)),
    ];

    #[test]
    fn a_field_tells_the_type_that_it_was_made_of() {
        for kind in ALL {
            let field = field_of("a", kind, true);
            assert_eq!(sql_type(&field), Some(kind));
            assert_eq!(pg_type(&field), pg_type_of(kind), "{kind:?}");
        }
    }

    fn check(kinds: &[SqlType], expected: Expect) {
        let lines: Vec<_> = kinds
            .iter()
            .map(|kind| format!("{} {} {}", type_name(*kind), pg_type_of(*kind).oid(), type_modifier(*kind)))
            .collect();
        expected.assert_eq(&lines.join("\n"));
    }

    #[test]
    fn names_oids_and_modifiers_are_postgres() {
        check(
            &ALL,
            expect![[r#"
                boolean 16 -1
                smallint 21 -1
                integer 23 -1
                bigint 20 -1
                real 700 -1
                double precision 701 -1
                numeric(10,2) 1700 655366
                text 25 -1
                character varying 1043 -1
                character varying(12) 1043 16
                character(5) 1042 9
                bytea 17 -1
                date 1082 -1
                timestamp without time zone 1114 -1
                timestamp with time zone 1184 -1
                uuid 2950 -1
                json 114 -1
                jsonb 3802 -1
                time without time zone 1083 -1
                interval 1186 -1
                integer[] 1007 -1
                numeric(10,2)[] 1231 655366
                character varying(12)[] 1015 16
                text[] 1009 -1
                uuid[] 2951 -1
                jsonb[] 3807 -1
                interval[] 1187 -1"#]],
        );
    }

    #[test]
    fn parameters_come_back_as_declared() {
        for kind in ALL {
            let declared = pg_type_of(kind);
            let texts = [Type::VARCHAR, Type::BPCHAR, Type::JSON, Type::JSONB, Type::VARCHAR_ARRAY, Type::JSONB_ARRAY];
            if texts.contains(&declared) {
                continue;
            }
            assert_eq!(parameter_type(&declared).map(|data| parameter_pg_type(&data)), Some(declared));
        }
        assert_eq!(parameter_type(&Type::UNKNOWN), None);
    }
}
