//! Parameters: text as PostgreSQL reads it, bytes as drivers send them.

use super::*;

fn text(value: &str, kind: Type, target: DataType) -> String {
    shown(decode(Some(value.as_bytes()), &kind, Format::Text, &target, Input::initial()))
}

fn binary(value: &[u8], kind: Type, target: DataType) -> String {
    shown(decode(Some(value), &kind, Format::Binary, &target, Input::initial()))
}

fn shown(value: Result<ScalarValue>) -> String {
    match value {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("{} {}", error.state.0, error.message),
    }
}

#[test]
fn null_has_the_type_of_its_target() {
    assert_eq!(shown(decode(None, &Type::INT4, Format::Text, &DataType::Int64, Input::initial())), "Int64(NULL)");
}

#[test]
fn text_is_read_by_its_type() {
    assert_eq!(text(" 7 ", Type::INT4, DataType::Int32), "Int32(7)");
    assert_eq!(text("7", Type::INT4, DataType::Int64), "Int64(7)");
    assert_eq!(text("x", Type::INT8, DataType::Int64), "22P02 invalid input syntax for type bigint: \"x\"");
    assert_eq!(text("40000", Type::INT2, DataType::Int16), "22003 value \"40000\" is out of range for type smallint");
    assert_eq!(text("yes", Type::BOOL, DataType::Boolean), "Boolean(true)");
    assert_eq!(text("o", Type::BOOL, DataType::Boolean), "22P02 invalid input syntax for type boolean: \"o\"");
    assert_eq!(
        text("1e400", Type::FLOAT8, DataType::Float64),
        "22003 \"1e400\" is out of range for type double precision"
    );
    assert_eq!(text("-Infinity", Type::FLOAT8, DataType::Float64), "Float64(-inf)");
    assert_eq!(text("1.50", Type::NUMERIC, DataType::Decimal128(10, 2)), "Decimal128(1.50,10,2)");
    assert_eq!(text("\\x4142", Type::BYTEA, DataType::Binary), "Binary(\"65,66\")");
    assert_eq!(text("a\\\\\\001", Type::BYTEA, DataType::Binary), "Binary(\"97,92,1\")");
    assert_eq!(text("\\x4", Type::BYTEA, DataType::Binary), "22P02 invalid input syntax for type bytea: \"\\x4\"");
    assert_eq!(text("{", Type::JSONB, DataType::Utf8), "22P02 invalid input syntax for type json");
    assert_eq!(text("{\"b\":1E1,\"a\":-0}", Type::JSONB, DataType::Utf8), "Utf8(\"{\"a\": 0, \"b\": 10}\")");
    assert_eq!(text("a", Type::TEXT, DataType::Utf8View), "Utf8View(\"a\")");
}

#[test]
fn times_are_read_with_their_infinities() {
    let zoned = types::timestamptz();
    assert_eq!(
        text("2000-01-01 00:00:00+00", Type::TIMESTAMPTZ, zoned.clone()),
        "TimestampMicrosecond(946684800000000, Some(\"+00:00\"))"
    );
    // As they are read in a statement: without seconds, with a month's name, of twelve hours.
    assert_eq!(
        text("2000-01-01 00:30", Type::TIMESTAMP, types::TIMESTAMP),
        "TimestampMicrosecond(946686600000000, None)"
    );
    assert_eq!(
        text("1/1/2000 02:00 Europe/Paris", Type::TIMESTAMPTZ, zoned.clone()),
        text("2000-01-01 01:00Z", Type::TIMESTAMPTZ, zoned.clone())
    );
    assert_eq!(text("1/8/1999", Type::DATE, DataType::Date32), "Date32(\"1999-01-08\")");
    assert_eq!(text("9:05 PM", Type::TIME, types::TIME), "Time64Microsecond(\"75900000000\")");
    let infinite = format!("TimestampMicrosecond({}, Some(\"+00:00\"))", i64::MAX);
    assert_eq!(text("infinity", Type::TIMESTAMPTZ, zoned.clone()), infinite);
    assert_eq!(binary(&i64::MAX.to_be_bytes(), Type::TIMESTAMPTZ, zoned.clone()), infinite);
    assert_eq!(binary(&[0; 8], Type::TIMESTAMP, types::TIMESTAMP), "TimestampMicrosecond(946684800000000, None)");
    assert_eq!(binary(&[0; 4], Type::DATE, DataType::Date32), "Date32(\"2000-01-01\")");
    assert_eq!(
        text("yesterdayish", Type::TIMESTAMPTZ, zoned),
        "22007 invalid input syntax for type timestamp with time zone: \"yesterdayish\""
    );
}

#[test]
fn binary_is_read_by_its_type() {
    assert_eq!(binary(b"\0\0\0\x07", Type::INT4, DataType::Int64), "Int64(7)");
    assert_eq!(
        binary(b"\0\x07", Type::INT4, DataType::Int32),
        "22P03 incorrect binary data format for a parameter of type integer"
    );
    let number = b"\0\x02\0\0\x40\0\0\x02\0\x7b\x11\x94";
    assert_eq!(binary(number, Type::NUMERIC, DataType::Decimal128(10, 2)), "Decimal128(-123.45,10,2)");
    assert_eq!(binary(b"\x01[1]", Type::JSONB, DataType::Utf8), "Utf8(\"[1]\")");
    assert_eq!(binary(b"a\xff", Type::TEXT, DataType::Utf8), "22021 invalid byte sequence for encoding \"UTF8\": 0xff");
    let id = uuid::Uuid::from_u128(7);
    let expected = format!("{:?}", ScalarValue::FixedSizeBinary(16, Some(id.as_bytes().to_vec())));
    assert_eq!(binary(id.as_bytes(), Type::UUID, types::UUID), expected);
    assert_eq!(text(&id.to_string(), Type::UUID, types::UUID), expected);
}

#[test]
fn a_nan_with_a_sign_is_that_without() {
    let double =
        decode(Some(&(-f64::NAN).to_be_bytes()), &Type::FLOAT8, Format::Binary, &DataType::Float64, Input::initial())
            .unwrap();
    assert!(matches!(double, ScalarValue::Float64(Some(number)) if number.to_bits() == f64::NAN.to_bits()));
    let real =
        decode(Some(&(-f32::NAN).to_be_bytes()), &Type::FLOAT4, Format::Binary, &DataType::Float32, Input::initial())
            .unwrap();
    assert!(matches!(real, ScalarValue::Float32(Some(number)) if number.to_bits() == f32::NAN.to_bits()));
}

#[test]
fn arrays_are_read_in_both_formats() {
    let target = DataType::List(Arc::new(Field::new_list_field(DataType::Int32, true)));
    let array = text("{1,NULL, 3}", Type::INT4_ARRAY, target.clone());
    assert_eq!(array, "List([1, , 3])");
    let bytes =
        b"\0\0\0\x01\0\0\0\x01\0\0\0\x17\0\0\0\x03\0\0\0\x01\0\0\0\x04\0\0\0\x01\xff\xff\xff\xff\0\0\0\x04\0\0\0\x03";
    assert_eq!(binary(bytes, Type::INT4_ARRAY, target.clone()), array);
    assert_eq!(text("{}", Type::INT4_ARRAY, target.clone()), "List([])");
    assert_eq!(text("{1,", Type::INT4_ARRAY, target.clone()), "22P02 malformed array literal: \"{1,\"");
    assert_eq!(text("{x}", Type::INT4_ARRAY, target), "22P02 invalid input syntax for type integer: \"x\"");
    let texts = DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true)));
    assert_eq!(text(r#"{"a,\"b",c d,"NULL"}"#, Type::TEXT_ARRAY, texts), "List([a,\"b, c d, NULL])");
}
