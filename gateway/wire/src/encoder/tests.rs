//! Bytes of values, written by hand from what PostgreSQL 15 sends.

use super::*;
use arrow::{
    array::{
        Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, Decimal256Array,
        DictionaryArray, DurationMicrosecondArray, FixedSizeBinaryArray, Float32Array, Float64Array, Int16Array,
        Int32Array, Int64Array, IntervalMonthDayNanoArray, LargeStringArray, ListArray, MapArray, NullArray,
        StringArray, StringViewArray, StructArray, Time64MicrosecondArray, TimestampMicrosecondArray,
        TimestampNanosecondArray, TimestampSecondArray, UInt32Array, UInt64Array,
    },
    buffer::OffsetBuffer,
    datatypes::{DataType, Int8Type, Int32Type, IntervalMonthDayNano, Schema, i256},
};

/// The values of a column in a format; `None` for NULL.
fn values(array: ArrayRef, kind: Option<&str>, format: Format) -> Result<Vec<Option<Vec<u8>>>> {
    let field = Field::new("a", array.data_type().clone(), true);
    let field = kind.map_or(field.clone(), |kind| types::named(field, kind));
    let schema = Arc::new(Schema::new(vec![field]));
    let encoder = RowEncoder::new(schema.clone(), &[format], Arc::default())?;
    let batch = RecordBatch::try_new(schema, vec![array]).unwrap();
    let rows = encoder.batch(&batch)?;
    let one = |row| {
        let mut out = BytesMut::new();
        rows.write(row, &mut out)?;
        assert_eq!((out[0], &out[5..7]), (b'D', &b"\0\x01"[..]));
        assert_eq!(u32::from_be_bytes(out[1..5].try_into().unwrap()) as usize, out.len() - 1);
        let length = i32::from_be_bytes(out[7..11].try_into().unwrap());
        Ok((length >= 0).then(|| {
            assert_eq!(length as usize, out.len() - 11);
            out[11..].to_vec()
        }))
    };
    (0..rows.count()).map(one).collect()
}

fn check(array: impl Array + 'static, kind: Option<&str>, text: &[Option<&str>], binary: &[Option<&[u8]>]) {
    let array: ArrayRef = Arc::new(array);
    let shown: Vec<_> = values(array.clone(), kind, Format::Text).unwrap();
    let shown: Vec<_> =
        shown.iter().map(|value| value.as_deref().map(|text| std::str::from_utf8(text).unwrap())).collect();
    assert_eq!(shown, text);
    let sent = values(array, kind, Format::Binary).unwrap();
    assert_eq!(sent.iter().map(Option::as_deref).collect::<Vec<_>>(), binary);
}

#[test]
fn booleans_and_integers() {
    check(
        BooleanArray::from(vec![Some(true), Some(false), None]),
        None,
        &[Some("t"), Some("f"), None],
        &[Some(b"\x01"), Some(b"\0"), None],
    );
    check(Int16Array::from(vec![-2]), None, &[Some("-2")], &[Some(b"\xff\xfe")]);
    check(Int32Array::from(vec![Some(258), None]), None, &[Some("258"), None], &[Some(b"\0\0\x01\x02"), None]);
    let least = i64::MIN.to_string();
    check(Int64Array::from(vec![i64::MIN]), None, &[Some(&least)], &[Some(b"\x80\0\0\0\0\0\0\0")]);
    check(UInt32Array::from(vec![16_384]), None, &[Some("16384")], &[Some(b"\0\0\x40\0")]);
    check(Int64Array::from(vec![16_384]), Some("oid"), &[Some("16384")], &[Some(b"\0\0\x40\0")]);
    check(UInt64Array::from(vec![258]), None, &[Some("258")], &[Some(b"\0\0\0\0\0\0\x01\x02")]);
}

#[test]
fn floats() {
    check(Float32Array::from(vec![1.5]), None, &[Some("1.5")], &[Some(b"\x3f\xc0\0\0")]);
    check(
        Float64Array::from(vec![f64::INFINITY, -0.5]),
        None,
        &[Some("Infinity"), Some("-0.5")],
        &[Some(b"\x7f\xf0\0\0\0\0\0\0"), Some(b"\xbf\xe0\0\0\0\0\0\0")],
    );
}

#[test]
fn decimals() {
    let decimals = Decimal128Array::from(vec![Some(-12_345), Some(0), None]).with_precision_and_scale(10, 2).unwrap();
    check(
        decimals,
        None,
        &[Some("-123.45"), Some("0.00"), None],
        &[Some(b"\0\x02\0\0\x40\0\0\x02\0\x7b\x11\x94"), Some(b"\0\0\0\0\0\0\0\x02"), None],
    );
    let wide = Decimal256Array::from(vec![i256::from_i128(7)]).with_precision_and_scale(50, 0).unwrap();
    check(wide, None, &[Some("7")], &[Some(b"\0\x01\0\0\0\0\0\0\0\x07")]);
}

#[test]
fn text_in_all_its_layouts() {
    let texts = [Some("é"), None, Some("")];
    let expected: [Option<&[u8]>; 3] = [Some("é".as_bytes()), None, Some(b"")];
    check(StringArray::from(texts.to_vec()), None, &texts, &expected);
    check(StringViewArray::from(texts.to_vec()), None, &texts, &expected);
    let dictionary: DictionaryArray<Int8Type> = texts.into_iter().collect();
    check(dictionary, None, &texts, &expected);
    check(NullArray::new(1), None, &[None], &[None]);
    // Bit strings, whose type no text has.
    let bits = [Some("1010000001"), None, Some("")];
    let expected: [Option<&[u8]>; 3] = [Some(b"\0\0\0\x0a\xa0\x40"), None, Some(b"\0\0\0\0")];
    check(LargeStringArray::from(bits.to_vec()), None, &bits, &expected);
}

#[test]
fn json_has_a_version_in_binary_only_as_jsonb() {
    let json = || StringViewArray::from(vec!["{\"a\": 1}"]);
    check(json(), Some("json"), &[Some("{\"a\": 1}")], &[Some(b"{\"a\": 1}")]);
    check(json(), Some("jsonb"), &[Some("{\"a\": 1}")], &[Some(b"\x01{\"a\": 1}")]);
}

#[test]
fn bytes_and_uuids() {
    let bytes: Vec<&[u8]> = vec![b"\0\xff", b""];
    check(BinaryArray::from(bytes.clone()), None, &[Some("\\x00ff"), Some("\\x")], &[Some(b"\0\xff"), Some(b"")]);
    check(BinaryViewArray::from(bytes), None, &[Some("\\x00ff"), Some("\\x")], &[Some(b"\0\xff"), Some(b"")]);
    let id: [u8; 16] = *b"\x12\x3e\x45\x67\xe8\x9b\x12\xd3\xa4\x56\x42\x66\x14\x17\x40\x00";
    let ids = FixedSizeBinaryArray::try_from_iter([id].into_iter()).unwrap();
    check(ids, Some("uuid"), &[Some("123e4567-e89b-12d3-a456-426614174000")], &[Some(&id)]);
}

#[test]
fn dates_and_times() {
    check(
        Date32Array::from(vec![0, 10_957, i32::MAX]),
        None,
        &[Some("1970-01-01"), Some("2000-01-01"), Some("infinity")],
        &[Some(b"\xff\xff\xd5\x33"), Some(b"\0\0\0\0"), Some(b"\x7f\xff\xff\xff")],
    );
    check(
        Time64MicrosecondArray::from(vec![3_661_000_001]),
        None,
        &[Some("01:01:01.000001")],
        &[Some(b"\0\0\0\0\xda\x36\x6d\x41")],
    );
    let moments = || TimestampMicrosecondArray::from(vec![946_684_800_000_001, i64::MAX, i64::MIN]);
    let binary: [Option<&[u8]>; 3] =
        [Some(b"\0\0\0\0\0\0\0\x01"), Some(b"\x7f\xff\xff\xff\xff\xff\xff\xff"), Some(b"\x80\0\0\0\0\0\0\0")];
    let text = [Some("2000-01-01 00:00:00.000001"), Some("infinity"), Some("-infinity")];
    check(moments(), None, &text, &binary);
    let text = [Some("2000-01-01 00:00:00.000001+00"), Some("infinity"), Some("-infinity")];
    check(moments().with_timezone(types::UTC), None, &text, &binary);
}

#[test]
fn other_units_of_time_become_microseconds() {
    check(
        TimestampNanosecondArray::from(vec![-1]),
        None,
        &[Some("1969-12-31 23:59:59.999999")],
        &[Some(b"\xff\xfc\xa2\xfe\xc4\xc8\x1f\xff")],
    );
    check(TimestampSecondArray::from(vec![946_684_800]), None, &[Some("2000-01-01 00:00:00")], &[Some(&[0; 8])]);
    let error = values(Arc::new(TimestampSecondArray::from(vec![i64::MAX - 1])), None, Format::Text).unwrap_err();
    assert_eq!((error.state, error.message.as_str()), (SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range"));
}

#[test]
fn intervals() {
    let interval = IntervalMonthDayNano { months: 14, days: 3, nanoseconds: 4_000_000_000 };
    check(
        IntervalMonthDayNanoArray::from(vec![interval]),
        None,
        &[Some("1 year 2 mons 3 days 00:00:04")],
        &[Some(b"\0\0\0\0\0\x3d\x09\0\0\0\0\x03\0\0\0\x0e")],
    );
    check(
        DurationMicrosecondArray::from(vec![90_000_000_000]),
        None,
        &[Some("1 day 01:00:00")],
        &[Some(b"\0\0\0\0\xd6\x93\xa4\0\0\0\0\x01\0\0\0\0")],
    );
}

#[test]
fn arrays() {
    let numbers = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), Some(vec![]), None]);
    check(
        numbers,
        None,
        &[Some("{1,NULL}"), Some("{}"), None],
        &[
            Some(b"\0\0\0\x01\0\0\0\x01\0\0\0\x17\0\0\0\x02\0\0\0\x01\0\0\0\x04\0\0\0\x01\xff\xff\xff\xff"),
            Some(b"\0\0\0\0\0\0\0\0\0\0\0\x17"),
            None,
        ],
    );
    let texts = Arc::new(StringArray::from(vec!["a b", "", "nUll", "q\"\\", "x"]));
    let field = Arc::new(Field::new_list_field(DataType::Utf8, true));
    let texts = ListArray::new(field, OffsetBuffer::from_lengths([5]), texts, None);
    let shown = values(Arc::new(texts), None, Format::Text).unwrap();
    assert_eq!(shown[0].as_deref().unwrap(), br#"{"a b","","nUll","q\"\\",x}"#);
}

#[test]
fn arrays_of_arrays_nest_their_braces() {
    let inner = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), Some(2)]), Some(vec![Some(3)])]);
    let field = Arc::new(Field::new_list_field(inner.data_type().clone(), true));
    let outer = ListArray::new(field, OffsetBuffer::from_lengths([2]), Arc::new(inner), None);
    assert_eq!(values(Arc::new(outer), None, Format::Text).unwrap()[0].as_deref().unwrap(), b"{{1,2},{3}}");
}

#[test]
fn maps_are_jsonb() {
    let keys: ArrayRef = Arc::new(StringArray::from(vec!["a\"", "b"]));
    let bytes: ArrayRef = Arc::new(BinaryArray::from_opt_vec(vec![Some(b"\x01"), None]));
    let entries = StructArray::from(vec![
        (Arc::new(Field::new("keys", DataType::Utf8, false)), keys),
        (Arc::new(Field::new("values", DataType::Binary, true)), bytes),
    ]);
    let field = Arc::new(Field::new("entries", entries.data_type().clone(), false));
    let map = MapArray::new(field, OffsetBuffer::from_lengths([2]), entries, None, false);
    let text = r#"{"a\"": "\\x01", "b": null}"#;
    let binary = [b"\x01", text.as_bytes()].concat();
    check(map, None, &[Some(text)], &[Some(&binary)]);
}

#[test]
fn structures_are_records() {
    let columns: Vec<(_, ArrayRef)> = vec![
        (Arc::new(Field::new("n", DataType::Float64, true)), Arc::new(Float64Array::from(vec![f64::NAN]))),
        (Arc::new(Field::new("b", DataType::Boolean, true)), Arc::new(BooleanArray::from(vec![true]))),
        (Arc::new(Field::new("t", DataType::Utf8, true)), Arc::new(StringArray::from(vec!["line\n\u{1}"]))),
    ];
    let shown = values(Arc::new(StructArray::from(columns)), None, Format::Text).unwrap();
    assert_eq!(shown[0].as_deref().unwrap(), b"(NaN,t,\"line\n\x01\")");
}

#[test]
fn a_description_tells_names_types_and_formats() {
    let fields =
        vec![types::named(Field::new("id", types::UUID, false), "uuid"), Field::new("n", DataType::Int32, true)];
    let encoder =
        RowEncoder::new(Arc::new(Schema::new(fields)), &[Format::Text, Format::Binary], Arc::default()).unwrap();
    let mut out = BytesMut::new();
    encoder.describe(&mut out);
    let expected = [
        b"T\0\0\0\x2f\0\x02".as_slice(),
        b"id\0\0\0\0\0\0\0\0\0\x0b\x86\0\x10\xff\xff\xff\xff\0\0",
        b"n\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\x01",
    ]
    .concat();
    assert_eq!(&out[..], expected);
}

#[test]
fn formats_that_do_not_fit_the_columns_are_refused() {
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int32, true)]));
    let error = RowEncoder::new(schema, &[Format::Text, Format::Text], Arc::default()).unwrap_err();
    assert_eq!(error.state, SqlState::PROTOCOL_VIOLATION);
}

#[test]
fn a_batch_of_another_type_is_cast_to_what_was_described() {
    let described = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
    let encoder = RowEncoder::new(described, &[Format::Binary], Arc::default()).unwrap();
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int32, true)]));
    let batch = RecordBatch::try_new(schema, vec![Arc::new(Int32Array::from(vec![5]))]).unwrap();
    let mut out = BytesMut::new();
    encoder.batch(&batch).unwrap().write(0, &mut out).unwrap();
    assert_eq!(&out[7..], b"\0\0\0\x08\0\0\0\0\0\0\0\x05");
}

#[test]
fn a_row_that_fails_leaves_nothing() {
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
    let schema = Arc::new(Schema::new(vec![types::named(schema.field(0).clone(), "oid")]));
    let encoder = RowEncoder::new(schema.clone(), &[Format::Binary], Arc::default()).unwrap();
    let batch = RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from(vec![-1]))]).unwrap();
    let mut out = BytesMut::from(&b"before"[..]);
    let error = encoder.batch(&batch).unwrap().write(0, &mut out).unwrap_err();
    assert_eq!((error.state, &out[..]), (SqlState::NUMERIC_VALUE_OUT_OF_RANGE, &b"before"[..]));
}
