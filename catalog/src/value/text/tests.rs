//! Texts parsed and printed; expectations are what PostgreSQL 15 prints.

use super::*;
use proptest::prelude::*;

#[track_caller]
fn check(kind: SqlType, cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        let value = Value::parse(text, kind).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(value.to_text(kind), *expected, "{text}");
        assert_eq!(Value::parse(expected, kind).unwrap().to_text(kind), *expected);
    }
}

#[track_caller]
fn refused(kind: SqlType, expected: ErrorKind, texts: &[&str]) {
    for text in texts {
        assert_eq!(Value::parse(text, kind).unwrap_err().kind(), expected, "{text}");
    }
}

#[test]
fn booleans_and_integers() {
    check(SqlType::Bool, &[(" TRUE ", "t"), ("y", "t"), ("on", "t"), ("1", "t"), ("f", "f"), ("of", "f"), ("no", "f")]);
    refused(SqlType::Bool, ErrorKind::BadValue, &["", "o", "2", "truex"]);
    check(SqlType::Int2, &[(" 42 ", "42"), ("+7", "7"), ("-32768", "-32768")]);
    refused(SqlType::Int2, ErrorKind::OutOfRange, &["32768", "99999999999999999999"]);
    refused(SqlType::Int8, ErrorKind::BadValue, &["", "-", "1.0", "1 2", "x"]);
}

#[test]
fn floats_print_their_shortest_form() {
    let doubles = [
        ("0.1", "0.1"),
        ("1e15", "1e+15"),
        ("123456789012345", "123456789012345"),
        ("0.0001", "0.0001"),
        ("0.00001", "1e-05"),
        ("-0", "-0"),
        ("1e300", "1e+300"),
        ("inf", "Infinity"),
        ("-Infinity", "-Infinity"),
        ("nan", "NaN"),
    ];
    check(SqlType::Float8, &doubles);
    check(
        SqlType::Float4,
        &[("0.1", "0.1"), ("1000000", "1e+06"), ("123456", "123456"), ("16777217", "1.6777216e+07")],
    );
    refused(SqlType::Float8, ErrorKind::OutOfRange, &["1e400", "1e-400"]);
    refused(SqlType::Float4, ErrorKind::OutOfRange, &["1e40", "1e-50"]);
    refused(SqlType::Float8, ErrorKind::BadValue, &["", "1,5", "e5"]);
}

#[test]
fn numerics_round_half_away_from_zero() {
    let kind = SqlType::Numeric { precision: 5, scale: 2 };
    let cases = [
        ("1.005", "1.01"),
        ("-1.005", "-1.01"),
        ("1.0049", "1.00"),
        ("999.994", "999.99"),
        ("1e2", "100.00"),
        ("1.5e-2", "0.02"),
        (".5", "0.50"),
        ("5.", "5.00"),
        ("-0.001", "0.00"),
        ("0.005", "0.01"),
        ("00012.3", "12.30"),
        ("1e-2147483648", "0.00"),
    ];
    check(kind, &cases);
    refused(kind, ErrorKind::OutOfRange, &["999.995", "1000", "1e40", "1e2147483647"]);
    refused(kind, ErrorKind::BadValue, &["", ".", "1.2.3", "1e", "0x1", "NaN"]);
    let wide = SqlType::Numeric { precision: 38, scale: 0 };
    let most = "9".repeat(38);
    check(wide, &[(&most, &most), (&format!("{most}.4"), &most)]);
    refused(wide, ErrorKind::OutOfRange, &[&format!("{most}.5"), &format!("{most}9")]);
}

#[test]
fn dates_and_times() {
    let dates = [
        ("2013-01-01", "2013-01-01"),
        ("20130101", "2013-01-01"),
        ("2013-1-2 05:00", "2013-01-02"),
        ("0044-03-15 BC", "0044-03-15 BC"),
        ("4714-11-24 BC", "4714-11-24 BC"),
        ("5874897-12-31", "5874897-12-31"),
        ("Infinity", "infinity"),
        ("epoch", "1970-01-01"),
    ];
    check(SqlType::Date, &dates);
    refused(SqlType::Date, ErrorKind::OutOfRange, &["2013-02-29", "2013-13-01", "0000-01-01", "4714-11-23 BC"]);
    refused(SqlType::Date, ErrorKind::BadValue, &["", "today?", "2013/01/01", "2013-01", "13-1-1"]);
    let times = [
        ("2013-01-01 05:15", "2013-01-01 05:15:00+00"),
        ("2013-01-01T05:15:00.5Z", "2013-01-01 05:15:00.5+00"),
        ("2013-01-01 05:15:00.1234567+02", "2013-01-01 03:15:00.123457+00"),
        ("2013-01-01 00:00:00 -0530", "2013-01-01 05:30:00+00"),
        ("2013-01-01 24:00:00", "2013-01-02 00:00:00+00"),
        ("2013-01-01", "2013-01-01 00:00:00+00"),
        ("0001-01-01 00:00:00+00 BC", "0001-01-01 00:00:00+00 BC"),
        ("-infinity", "-infinity"),
    ];
    check(SqlType::Timestamptz(None), &times);
    check(SqlType::Timestamp(None), &[("2013-01-01 05:15:00.10+02", "2013-01-01 05:15:00.1")]);
    let beyond = ["2013-01-01 25:00", "2013-01-01 12:60", "300000-01-01", "4714-11-24 00:00:00+01 BC"];
    refused(SqlType::Timestamptz(None), ErrorKind::OutOfRange, &beyond);
    refused(
        SqlType::Timestamptz(None),
        ErrorKind::BadValue,
        &["2013-01-01 5", "2013-01-01 05:00 Mars", "2013-01-01 05:00+x"],
    );
}

#[test]
fn bytes_uuids_and_json() {
    check(SqlType::Bytea, &[("\\x00Ff", "\\x00ff"), ("a\\\\b\\001", "\\x615c6201"), ("", "\\x")]);
    refused(SqlType::Bytea, ErrorKind::BadValue, &["\\x0", "\\xzz", "a\\b", "\\400"]);
    let uuid = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
    let forms = [
        (uuid, uuid),
        ("A0EEBC999C0B4EF8BB6D6BB9BD380A11", uuid),
        ("{a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11}", uuid),
        ("a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11", uuid),
    ];
    check(SqlType::Uuid, &forms);
    refused(
        SqlType::Uuid,
        ErrorKind::BadValue,
        &["", "a0", "{a0eebc999c0b4ef8bb6d6bb9bd380a11", "-a0eebc999c0b4ef8bb6d6bb9bd380a11"],
    );
    check(SqlType::Json, &[(" {\"b\":1, \"a\":1e2}", " {\"b\":1, \"a\":1e2}")]);
    check(SqlType::Jsonb, &[("{\"bb\":1,\"a\":[1.50,null],\"bb\":\"x\"}", "{\"a\": [1.50, null], \"bb\": \"x\"}")]);
    refused(SqlType::Jsonb, ErrorKind::BadValue, &["", "{", "{a:1}", "1 2"]);
    refused(SqlType::Jsonb, ErrorKind::Untranslatable, &["\"\\u0000\""]);
    refused(SqlType::Json, ErrorKind::BadValue, &["", "[1,]", "nul"]);
}

#[test]
fn the_form_of_many_rows_is_read_as_any_other() {
    for text in
        ["2024-02-29 23:59:59+00", "0001-01-01T00:00:00Z", "9999-12-31 12:34:56.789012", "1970-01-01 00:00:00.5+00:00"]
    {
        assert!(parse_plain_datetime(text.as_bytes()).is_some(), "{text}");
    }
    for text in [
        "2024-02-29 24:00:00",
        "2024-02-29 23:59:60",
        "2023-02-29 00:00:00",
        "0000-01-01 00:00:00",
        "2024-02-29 00:00:00+02",
    ] {
        assert_eq!(parse_plain_datetime(text.as_bytes()), None, "{text}");
    }
}

proptest! {
    #[test]
    fn what_is_plain_is_what_the_general_way_reads(
        date in "[0-9]{3}[0-9/:][-/]([01][0-9]|1:)-[0-3][0-9:]",
        time in "[ Tt]([012][0-9]|2:):[0-6][0-9/]:[0-6][0-9](\\.[0-9]{0,7})?",
        zone in prop::sample::select(vec!["", "Z", "z", "+00", "-00", "+00:00", "+01", " BC", " UTC"]),
    ) {
        let text = format!("{date}{time}{zone}");
        if let Some(datetime) = parse_plain_datetime(text.as_bytes()) {
            prop_assert_eq!(Some(datetime), parse_datetime(&text).ok());
        }
    }
}
