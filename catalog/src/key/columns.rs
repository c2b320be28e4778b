//! Keys as typed columns, which segments store beside the bytes of keys.
//!
//! The columns are `tenant` (not of private tables), then `part1`, `part2`, … in the order of the key. They are not
//! named after SQL columns, so that these can be renamed without changing files. If one key of a file does not conform,
//! the file has no key columns: [`KeyDecoder::decode`] decodes all keys or none.

use super::{KeyEncoding, KeySchema, PartOrder, SortedKeys};
use crate::{SqlType, ValueRef, table::TENANT_COLUMN};
use arrow::{
    array::{
        Array, ArrayRef, BinaryArray, BinaryBuilder, BooleanBuilder, Date32Builder, Decimal128Builder,
        FixedSizeBinaryBuilder, Float32Builder, Float64Builder, Int16Builder, Int32Builder, Int64Builder,
        LargeBinaryBuilder, StringBuilder, Time64MicrosecondBuilder, TimestampMicrosecondBuilder, UInt32Array,
    },
    compute::take,
    datatypes::{DataType, Field, TimeUnit},
};
use bytes::Bytes;
use keyspan_storage::KeyDecoder;
use std::sync::Arc;

/// The zone of `timestamptz` in Arrow.
const UTC: &str = "+00:00";

/// Decodes the keys of a table as they are in the store: a tenant's id, then the parts; or, of a private table, the
/// parts alone.
#[derive(Clone, Debug)]
pub struct KeyColumns {
    schema: KeySchema,
    id: String,
    /// Of a private table: the prefix of its keys.
    space: Option<Bytes>,
}

impl KeyColumns {
    /// The decoder for a table's key schema; `None` if a part's type has no column type.
    pub fn new(schema: &KeySchema) -> Option<Self> {
        Some(Self { schema: schema.for_operator(), id: format!("1 {}", described(schema)?), space: None })
    }

    /// The decoder for a private table's key schema, whose keys have the prefix; `None` if a part's type has no column
    /// type.
    pub fn in_space(schema: &KeySchema, space: Bytes) -> Option<Self> {
        Some(Self { schema: schema.clone(), id: Self::id_in_space(schema)?, space: Some(space) })
    }

    /// The id of the decoder for a private table's key schema, whatever its prefix: a row group that has the columns
    /// has no other rows than its own.
    pub fn id_in_space(schema: &KeySchema) -> Option<String> {
        Some(format!("1 private {}", described(schema)?))
    }
}

/// The encoding and the parts of a key; `None` if a part's type has no column type.
fn described(schema: &KeySchema) -> Option<String> {
    let kinds: Option<Vec<String>> = schema.parts.iter().map(|part| name(part.kind)).collect();
    let directed = kinds?.into_iter().zip(&schema.parts);
    let mark = |order| match order {
        PartOrder::Ascending => "",
        PartOrder::Descending => "-",
        PartOrder::Reversed => "~",
    };
    let parts: Vec<String> = directed.map(|(kind, part)| kind + mark(part.order)).collect();
    let encoding = match schema.encoding {
        KeyEncoding::Delimited => "delimited",
        KeyEncoding::Ordered => "ordered",
        KeyEncoding::Plain => "plain",
    };
    let salt = if schema.salt > 0 { format!("salt{} ", schema.salt) } else { String::new() };
    Some(format!("{encoding} {salt}{}", parts.join(" ")))
}

impl KeyDecoder for KeyColumns {
    fn id(&self) -> String {
        self.id.clone()
    }

    fn fields(&self) -> Vec<Field> {
        let tenant = self.space.is_none().then(|| Field::new(TENANT_COLUMN, DataType::Utf8, false));
        let part = |(at, kind)| Field::new(format!("part{}", at + 1), data_type(kind), false);
        let kinds = self.schema.parts.iter().map(|part| part.kind).enumerate();
        tenant.into_iter().chain(kinds.map(part)).collect()
    }

    fn decode(&self, keys: &BinaryArray) -> Option<Vec<ArrayRef>> {
        let tenant = self.space.is_none().then_some(SqlType::Text);
        let kinds = tenant.into_iter().chain(self.schema.parts.iter().map(|part| part.kind));
        let mut columns: Vec<Column> = kinds.map(Column::new).collect();
        let last = columns.len().checked_sub(1)?;
        let mut fits = keys.null_count() == 0;
        let mut sorted = SortedKeys::new(&self.schema, self.space.as_deref().unwrap_or_default());
        // Leading parts that neighbouring keys share are stored once for each run of keys.
        let mut runs = 0;
        let mut run_of: Vec<u32> = Vec::with_capacity(keys.len());
        for key in keys.iter().flatten() {
            let same = sorted.next(key, |part, value| fits &= columns[part].push(&value).is_some()).ok()?;
            runs += u32::from(!same);
            run_of.push(runs - 1);
        }
        let run_of = UInt32Array::from(run_of);
        let column = |(part, column): (usize, Column)| match column.finish() {
            values if part == last || values.len() == keys.len() => Some(values),
            values => take(&values, &run_of, None).ok(),
        };
        fits.then(|| columns.into_iter().enumerate().map(column).collect())?
    }
}

/// The name of a type in a decoder's id; types that decode the same bytes to the same values share a name.
fn name(kind: SqlType) -> Option<String> {
    Some(match kind {
        SqlType::Bool => "boolean".into(),
        SqlType::Int2 => "int2".into(),
        SqlType::Int4 => "int4".into(),
        SqlType::Int8 => "int8".into(),
        SqlType::Float4 => "float4".into(),
        SqlType::Float8 => "float8".into(),
        SqlType::Numeric { precision, scale } => format!("numeric({precision},{scale})"),
        SqlType::Exact(None) => "numeric".into(),
        SqlType::Exact(Some(digits)) => format!("numeric({},{})", digits.precision, digits.scale),
        SqlType::Text | SqlType::Name | SqlType::Varchar(_) | SqlType::Char(_) => "text".into(),
        SqlType::Bytea => "bytea".into(),
        SqlType::Date => "date".into(),
        SqlType::Timestamp(_) => "timestamp".into(),
        SqlType::Timestamptz(_) => "timestamptz".into(),
        SqlType::Time(_) => "time".into(),
        SqlType::Uuid => "uuid".into(),
        SqlType::Json | SqlType::Jsonb | SqlType::Interval(_) | SqlType::Array(_) => return None,
        // They are read as bits, not as texts: no column of their own.
        SqlType::Bit(_) | SqlType::Varbit(_) => return None,
    })
}

fn data_type(kind: SqlType) -> DataType {
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
        SqlType::Text
        | SqlType::Name
        | SqlType::Varchar(_)
        | SqlType::Char(_)
        | SqlType::Bit(_)
        | SqlType::Varbit(_)
        | SqlType::Json
        | SqlType::Jsonb => DataType::Utf8,
        SqlType::Exact(_) => DataType::LargeBinary,
        // No key has a part of type interval or array.
        SqlType::Bytea | SqlType::Interval(_) | SqlType::Array(_) => DataType::Binary,
        SqlType::Time(_) => DataType::Time64(TimeUnit::Microsecond),
        SqlType::Date => DataType::Date32,
        SqlType::Timestamp(_) => DataType::Timestamp(TimeUnit::Microsecond, None),
        SqlType::Timestamptz(_) => DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into())),
        SqlType::Uuid => DataType::FixedSizeBinary(16),
    }
}

/// The builder of a column.
enum Column {
    Bool(BooleanBuilder),
    Int2(Int16Builder),
    Int4(Int32Builder),
    Int8(Int64Builder),
    Float4(Float32Builder),
    Float8(Float64Builder),
    Numeric(Decimal128Builder, u8),
    Exact(LargeBinaryBuilder),
    Text(StringBuilder),
    Bytea(BinaryBuilder),
    Date(Date32Builder),
    Time(Time64MicrosecondBuilder),
    Timestamp(TimestampMicrosecondBuilder),
    Uuid(FixedSizeBinaryBuilder),
}

impl Column {
    fn new(kind: SqlType) -> Self {
        match kind {
            SqlType::Bool => Self::Bool(BooleanBuilder::new()),
            SqlType::Int2 => Self::Int2(Int16Builder::new()),
            SqlType::Int4 => Self::Int4(Int32Builder::new()),
            SqlType::Int8 => Self::Int8(Int64Builder::new()),
            SqlType::Float4 => Self::Float4(Float32Builder::new()),
            SqlType::Float8 => Self::Float8(Float64Builder::new()),
            SqlType::Numeric { scale, .. } => {
                Self::Numeric(Decimal128Builder::new().with_data_type(data_type(kind)), scale)
            }
            SqlType::Exact(_) => Self::Exact(LargeBinaryBuilder::new()),
            SqlType::Text
            | SqlType::Name
            | SqlType::Varchar(_)
            | SqlType::Char(_)
            | SqlType::Bit(_)
            | SqlType::Varbit(_)
            | SqlType::Json
            | SqlType::Jsonb => Self::Text(StringBuilder::new()),
            SqlType::Bytea | SqlType::Interval(_) | SqlType::Array(_) => Self::Bytea(BinaryBuilder::new()),
            SqlType::Date => Self::Date(Date32Builder::new()),
            SqlType::Time(_) => Self::Time(Time64MicrosecondBuilder::new()),
            SqlType::Timestamp(_) | SqlType::Timestamptz(_) => {
                Self::Timestamp(TimestampMicrosecondBuilder::new().with_data_type(data_type(kind)))
            }
            SqlType::Uuid => Self::Uuid(FixedSizeBinaryBuilder::new(16)),
        }
    }

    /// Appends a value; `None` for one that is not of the column's type.
    fn push(&mut self, value: &ValueRef<'_>) -> Option<()> {
        match (self, value) {
            (Self::Bool(builder), ValueRef::Bool(value)) => builder.append_value(*value),
            (Self::Int2(builder), ValueRef::Int(value)) => builder.append_value(i16::try_from(*value).ok()?),
            (Self::Int4(builder), ValueRef::Int(value)) => builder.append_value(i32::try_from(*value).ok()?),
            (Self::Int8(builder), ValueRef::Int(value)) => builder.append_value(*value),
            // The key holds a real as a double that converts to a real without loss.
            (Self::Float4(builder), ValueRef::Float(value)) => builder.append_value(*value as f32),
            (Self::Float8(builder), ValueRef::Float(value)) => builder.append_value(*value),
            (Self::Numeric(builder, scale), ValueRef::Numeric { unscaled, scale: of }) if of == scale => {
                builder.append_value(*unscaled);
            }
            (Self::Exact(builder), ValueRef::Exact(exact)) => builder.append_value(exact.as_bytes()),
            (Self::Text(builder), ValueRef::Text(text)) => builder.append_value(text),
            (Self::Bytea(builder), ValueRef::Bytes(bytes)) => builder.append_value(bytes),
            (Self::Date(builder), ValueRef::Date(days)) => builder.append_value(*days),
            (Self::Time(builder), ValueRef::Time(micros)) => builder.append_value(*micros),
            (Self::Timestamp(builder), ValueRef::Timestamp(micros)) => builder.append_value(*micros),
            (Self::Uuid(builder), ValueRef::Uuid(bytes)) => builder.append_value(bytes).ok()?,
            _ => return None,
        }
        Some(())
    }

    fn finish(self) -> ArrayRef {
        match self {
            Self::Bool(mut builder) => Arc::new(builder.finish()),
            Self::Int2(mut builder) => Arc::new(builder.finish()),
            Self::Int4(mut builder) => Arc::new(builder.finish()),
            Self::Int8(mut builder) => Arc::new(builder.finish()),
            Self::Float4(mut builder) => Arc::new(builder.finish()),
            Self::Float8(mut builder) => Arc::new(builder.finish()),
            Self::Numeric(mut builder, _) => Arc::new(builder.finish()),
            Self::Exact(mut builder) => Arc::new(builder.finish()),
            Self::Text(mut builder) => Arc::new(builder.finish()),
            Self::Bytea(mut builder) => Arc::new(builder.finish()),
            Self::Date(mut builder) => Arc::new(builder.finish()),
            Self::Time(mut builder) => Arc::new(builder.finish()),
            Self::Timestamp(mut builder) => Arc::new(builder.finish()),
            Self::Uuid(mut builder) => Arc::new(builder.finish()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::tests::{schema_and_tuples, text};
    use crate::{KeyPart, Value};
    use arrow::{array::RecordBatch, util::display::array_value_to_string};
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    fn keys(keys: &[&[u8]]) -> BinaryArray {
        BinaryArray::from_iter_values(keys)
    }

    fn check(encoding: KeyEncoding, parts: &[(SqlType, bool)], stored: &[&[u8]], expected: Expect) {
        let part = |(at, (kind, descending)): (usize, &(SqlType, bool))| KeyPart {
            name: format!("c{at}"),
            kind: *kind,
            order: (*descending).into(),
        };
        let schema =
            KeySchema { encoding, parts: parts.iter().enumerate().map(part).collect(), salt: 0, with_tenant: false };
        let decoder = KeyColumns::new(&schema).unwrap();
        let Some(columns) = decoder.decode(&keys(stored)) else { return expected.assert_eq("none") };
        let schema = Arc::new(arrow::datatypes::Schema::new(decoder.fields()));
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
        let mut lines = vec![decoder.id()];
        lines.extend(schema.fields().iter().zip(batch.columns()).map(|(field, column)| {
            let values: Vec<String> =
                (0..column.len()).map(|row| array_value_to_string(column, row).unwrap()).collect();
            format!("{}: {}", field.name(), values.join(", "))
        }));
        expected.assert_eq(&lines.join("\n"));
    }

    #[test]
    fn keys_become_columns_or_nothing() {
        let readings = [(SqlType::Text, false), (SqlType::Timestamptz(None), true), (SqlType::Int4, false)];
        let first: &[u8] = b"alto#New$`York#7986-98-98T94:84:99.999998Z#0000000042";
        let second: &[u8] = b"b-2##7986-98-98T94:84:99.999999Z#-9999999998";
        check(
            KeyEncoding::Delimited,
            &readings,
            &[first, second],
            expect![[r#"
                1 delimited text timestamptz- int4
                tenant: alto, b-2
                part1: New York, 
                part2: 2013-01-01T05:15:00.000001Z, 2013-01-01T05:15:00Z
                part3: 42, -1"#]],
        );
        check(KeyEncoding::Delimited, &readings, &[first, b"alto#x"], expect!["none"]);
        check(KeyEncoding::Delimited, &readings, &[b"Alto#a#7986-98-98T94:84:99.999998Z#0000000042"], expect!["none"]);
        check(
            KeyEncoding::Ordered,
            &[(SqlType::Bool, true), (SqlType::Varchar(Some(3)), false)],
            &[b"a#\xffx\0\x01", b"a#\xfe\0\x01"],
            expect![[r#"
                1 ordered boolean- text
                tenant: a, a
                part1: false, true
                part2: x, "#]],
        );
        check(
            KeyEncoding::Ordered,
            &[(SqlType::Bool, true)],
            &[],
            expect![[r#"
            1 ordered boolean-
            tenant: 
            part1: "#]],
        );
    }

    proptest! {
        #[test]
        fn columns_hold_what_the_keys_decode_to((schema, tuples) in schema_and_tuples(4)) {
            let mut schema = schema;
            let stored: Vec<Vec<u8>> = tuples.iter().map(|tuple| {
                let key = schema.encode(tuple).unwrap();
                if schema.with_tenant { key.to_vec() } else { [b"alto#", &key[..]].concat() }
            }).collect();
            let with_tenant = std::mem::replace(&mut schema.with_tenant, false);
            // Bit strings have no columns of their own.
            let bits = |part: &KeyPart| matches!(part.kind, SqlType::Bit(_) | SqlType::Varbit(_));
            prop_assume!(!schema.parts.iter().any(bits));
            let decoder = KeyColumns::new(&schema).unwrap();
            let slices: Vec<&[u8]> = stored.iter().map(Vec::as_slice).collect();
            let columns = decoder.decode(&keys(&slices)).unwrap();
            for (row, key) in stored.iter().enumerate() {
                let parts = schema.for_operator().decode(key).unwrap();
                prop_assert!(with_tenant || parts[0] == text("alto"));
                for (part, column) in parts.iter().zip(&columns) {
                    prop_assert_eq!(&shown(column, row), &plain(part));
                }
            }
        }
    }

    /// A value of a column as text, comparable with [`plain`].
    fn shown(column: &ArrayRef, row: usize) -> String {
        use crate::value::exact::Exact;
        use arrow::array::AsArray;
        use arrow::datatypes::*;
        match column.data_type() {
            DataType::Boolean => column.as_boolean().value(row).to_string(),
            DataType::Int16 => column.as_primitive::<Int16Type>().value(row).to_string(),
            DataType::Int32 => column.as_primitive::<Int32Type>().value(row).to_string(),
            DataType::Int64 => column.as_primitive::<Int64Type>().value(row).to_string(),
            DataType::Float32 => f64::from(column.as_primitive::<Float32Type>().value(row)).to_string(),
            DataType::Float64 => column.as_primitive::<Float64Type>().value(row).to_string(),
            DataType::Decimal128(..) => column.as_primitive::<Decimal128Type>().value(row).to_string(),
            DataType::Utf8 => column.as_string::<i32>().value(row).to_owned(),
            DataType::LargeBinary => Exact::trusted(column.as_binary::<i64>().value(row)).to_text(),
            DataType::Binary => format!("{:?}", column.as_binary::<i32>().value(row)),
            DataType::Date32 => column.as_primitive::<Date32Type>().value(row).to_string(),
            DataType::Time64(_) => column.as_primitive::<Time64MicrosecondType>().value(row).to_string(),
            DataType::Timestamp(..) => column.as_primitive::<TimestampMicrosecondType>().value(row).to_string(),
            _ => format!("{:?}", column.as_fixed_size_binary().value(row)),
        }
    }

    fn plain(value: &Value) -> String {
        match value {
            Value::Null => unreachable!("no part of a key is NULL"),
            Value::Bool(value) => value.to_string(),
            Value::Int(n) => n.to_string(),
            Value::Float(value) => value.to_string(),
            Value::Numeric { unscaled, .. } => unscaled.to_string(),
            Value::Exact(exact) => exact.to_text(),
            Value::Text(text) => text.clone(),
            Value::Bytes(bytes) => format!("{:?}", &bytes[..]),
            Value::Interval(_) | Value::Array(_) => unreachable!("no part of a key is of such a type"),
            Value::Date(days) => days.to_string(),
            Value::Time(micros) | Value::Timestamp(micros) => micros.to_string(),
            Value::Uuid(bytes) => format!("{:?}", &bytes[..]),
        }
    }
}
