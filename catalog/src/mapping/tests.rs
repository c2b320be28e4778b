//! Round trips of cells, and the encodings of known values.

use super::*;
use crate::value::interval::MICROS_MAX;
use crate::{
    KeyEncoding,
    key::tests::{TYPES, any_value},
};
use proptest::prelude::*;

fn hex(bytes: &[u8]) -> String {
    Value::Bytes(Bytes::copy_from_slice(bytes)).to_text(SqlType::Bytea)[2..].to_owned()
}

fn any_interval() -> impl Strategy<Value = Interval> {
    let micros = prop_oneof![-MICROS_MAX..=MICROS_MAX, -100_000_000i64..=100_000_000];
    let months = prop_oneof![any::<i32>(), -30i32..30];
    let days = prop_oneof![any::<i32>(), -30i32..30];
    (months, days, micros).prop_map(|(months, days, micros)| Interval { months, days, micros })
}

/// A value of any type, also of those that no key can hold.
fn any_of(kind: SqlType) -> BoxedStrategy<Value> {
    match kind {
        SqlType::Interval(_) => any_interval().prop_map(Value::Interval).boxed(),
        SqlType::Array(item) => {
            let item = prop_oneof![4 => any_of(item.kind()), 1 => Just(Value::Null)];
            prop::collection::vec(item, 0..5).prop_map(Value::Array).boxed()
        }
        SqlType::Json | SqlType::Jsonb => {
            prop::sample::select(vec!["null", "{\"a\": [1.50, \"\\\"x\"]}", "\"null\"", "[]"])
                .prop_map(|json| Value::Text(json.to_owned()))
                .boxed()
        }
        kind => any_value(kind, KeyEncoding::Ordered),
    }
}

fn any_kind() -> impl Strategy<Value = SqlType> {
    let single = [SqlType::Interval(None), SqlType::Json, SqlType::Jsonb].into_iter().chain(TYPES);
    let arrays = single.clone().filter_map(SqlType::array);
    prop::sample::select(single.chain(arrays).collect::<Vec<_>>())
}

fn any_cell() -> impl Strategy<Value = (SqlType, Value, Encoding)> {
    let encoding = prop::sample::select(vec![Encoding::Binary, Encoding::Text, Encoding::Json]);
    (any_kind(), encoding).prop_flat_map(|(kind, encoding)| (Just(kind), any_of(kind), Just(encoding)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn cells_decode_to_what_was_encoded((kind, value, encoding) in any_cell()) {
        let bytes = encode(&value, kind, &encoding).unwrap();
        let decoded = decode(&bytes, kind, &encoding).unwrap();
        prop_assert!(decoded.compare(&value).is_some_and(|order| order.is_eq()), "{:?} {:?}", bytes, decoded);
        prop_assert_eq!(encode(&decoded, kind, &encoding).unwrap(), bytes);
    }

    #[test]
    fn any_bytes_decode_or_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..20), (kind, _, encoding) in any_cell()) {
        if let Err(error) = decode(&bytes.into(), kind, encoding) {
            prop_assert_eq!(error.kind(), ErrorKind::BadValue);
        }
    }
}

#[test]
fn binary_is_big_endian() {
    let check = |value: Value, kind: SqlType, expected: &str| {
        let bytes = encode(&value, kind, Encoding::Binary).unwrap();
        assert_eq!(hex(&bytes), expected, "{value:?}");
        assert_eq!(decode(&bytes, kind, Encoding::Binary).unwrap(), value);
    };
    check(Value::Bool(true), SqlType::Bool, "01");
    check(Value::Int(-2), SqlType::Int2, "fffe");
    check(Value::Int(1), SqlType::Int4, "00000001");
    check(Value::Int(1), SqlType::Int8, "0000000000000001");
    check(Value::Float(1.5), SqlType::Float4, "3fc00000");
    check(Value::Float(1.5), SqlType::Float8, "3ff8000000000000");
    check(Value::Text("é".into()), SqlType::Text, "c3a9");
    check(Value::Date(-1), SqlType::Date, "ffffffff");
    check(Value::Timestamp(1), SqlType::Timestamptz(None), "0000000000000001");
    check(Value::Time(1), SqlType::Time(None), "0000000000000001");
    let span = Value::Interval(Interval { months: 1, days: -2, micros: 3 });
    check(span, SqlType::Interval(None), "0000000000000003fffffffe00000001");
    let items = Value::Array(vec![Value::Int(1), Value::Null, Value::Int(-1)]);
    check(items, SqlType::Array(ItemType::Int2), "000000020001ffffffff00000002ffff");
    let texts = Value::Array(vec![Value::Text(String::new()), Value::Text("é".into())]);
    check(texts, SqlType::Array(ItemType::Text), "0000000000000002c3a9");
    check(Value::Array(Vec::new()), SqlType::Array(ItemType::Text), "");
    // HBase's Bytes.toBytes(new BigDecimal("1.28")) and of -1.28.
    let numeric = SqlType::Numeric { precision: 5, scale: 2 };
    check(Value::Numeric { unscaled: 128, scale: 2 }, numeric, "000000020080");
    check(Value::Numeric { unscaled: -128, scale: 2 }, numeric, "0000000280");
    check(Value::Numeric { unscaled: 0, scale: 2 }, numeric, "0000000200");
}

#[test]
fn json_is_json() {
    let check = |value: Value, kind: SqlType, expected: &str| {
        let bytes = encode(&value, kind, Encoding::Json).unwrap();
        assert_eq!(std::str::from_utf8(&bytes).unwrap(), expected);
        assert_eq!(decode(&bytes, kind, Encoding::Json).unwrap(), value);
    };
    check(Value::Int(-2), SqlType::Int2, "-2");
    check(Value::Float(1e20), SqlType::Float8, "1e+20");
    check(Value::Float(f64::INFINITY), SqlType::Float8, "\"Infinity\"");
    check(Value::Text("a\"b".into()), SqlType::Text, r#""a\"b""#);
    check(Value::Text("{\"a\": 1}".into()), SqlType::Jsonb, "{\"a\": 1}");
    let items = Value::Array(vec![Value::Int(1), Value::Null]);
    check(items, SqlType::Array(ItemType::Int2), "[1,null]");
    let items = Value::Array(vec![Value::Text("null".into()), Value::Null]);
    check(items, SqlType::Array(ItemType::Jsonb), "[\"null\",null]");
    check(Value::Time(1_500_000), SqlType::Time(None), "\"00:00:01.5\"");
    check(Value::Timestamp(0), SqlType::Timestamptz(None), "\"1970-01-01 00:00:00+00\"");
    check(Value::Numeric { unscaled: -5, scale: 2 }, SqlType::Numeric { precision: 3, scale: 2 }, "-0.05");
}

#[test]
fn values_that_do_not_fit_are_refused() {
    let check = |value: Value, kind: SqlType, expected: ErrorKind| {
        assert_eq!(encode(&value, kind, Encoding::Binary).unwrap_err().kind(), expected, "{value:?} {kind}");
    };
    check(Value::Int(32_768), SqlType::Int2, ErrorKind::OutOfRange);
    check(Value::Int(-2_147_483_649), SqlType::Int4, ErrorKind::OutOfRange);
    check(Value::Float(1e300), SqlType::Float4, ErrorKind::OutOfRange);
    check(Value::Text("éé ".into()), SqlType::Varchar(Some(1)), ErrorKind::TooLong);
    check(
        Value::Numeric { unscaled: 99_995, scale: 3 },
        SqlType::Numeric { precision: 4, scale: 2 },
        ErrorKind::OutOfRange,
    );
    check(Value::Time(86_400_000_001), SqlType::Time(None), ErrorKind::OutOfRange);
    let span = Interval { months: 0, days: 0, micros: MICROS_MAX + 1 };
    check(Value::Interval(span), SqlType::Interval(None), ErrorKind::OutOfRange);
    let items = |item: Value| Value::Array(vec![item]);
    check(items(Value::Int(40_000)), SqlType::Array(ItemType::Int2), ErrorKind::OutOfRange);
    check(items(Value::Text("ab".into())), SqlType::Array(ItemType::Varchar(Some(1))), ErrorKind::TooLong);
    check(Value::Array(vec![Value::Null; ARRAY_ITEMS_MAX + 1]), SqlType::Array(ItemType::Bool), ErrorKind::TooMuch);
    let many = Bytes::from(vec![0xff; (ARRAY_ITEMS_MAX + 1) * 4]);
    assert!(decode(&many, SqlType::Array(ItemType::Bool), Encoding::Binary).is_err());
    assert!(decode(&many.slice(4..), SqlType::Array(ItemType::Bool), Encoding::Binary).is_ok());
    check(Value::Text("{".into()), SqlType::Json, ErrorKind::BadValue);
    check(Value::Text("1".into()), SqlType::Int8, ErrorKind::BadValue);
    check(Value::Timestamp(i64::MIN + 1), SqlType::Timestamp(None), ErrorKind::OutOfRange);
    check(Value::Null, SqlType::Int8, ErrorKind::BadValue);
    // Length is in characters, and blanks beyond it are cut off.
    let kept = Value::Text("é  ".into()).fit(SqlType::Varchar(Some(1))).unwrap().into_owned();
    assert_eq!(kept, Value::Text("é".into()));
    let error = decode(&Bytes::from_static(b"\x01\x02\x03"), SqlType::Int8, Encoding::Binary).unwrap_err();
    assert_eq!(error.detail.unwrap(), "It has 3 bytes and begins with \"\\x01\\x02\\x03\".");
}
