//! Order, round trips and ranges of keys.

use super::*;
use crate::value::calendar::{FIRST_DAY, LAST_DAY, MICROS_PER_DAY};
use crate::value::{bits, exact::Exact};
use proptest::prelude::*;
use std::cmp::Ordering;

pub(crate) const TYPES: [SqlType; 18] = [
    SqlType::Bool,
    SqlType::Int2,
    SqlType::Int4,
    SqlType::Int8,
    SqlType::Text,
    SqlType::Varchar(None),
    SqlType::Bytea,
    SqlType::Date,
    SqlType::Timestamp(None),
    SqlType::Timestamptz(None),
    SqlType::Time(None),
    SqlType::Uuid,
    SqlType::Float4,
    SqlType::Float8,
    SqlType::Numeric { precision: 38, scale: 3 },
    SqlType::Exact(None),
    SqlType::Bit(Some(9)),
    SqlType::Varbit(None),
];

pub(super) fn schema(encoding: KeyEncoding, kinds: &[(SqlType, bool)]) -> KeySchema {
    let part = |(index, (kind, descending)): (usize, &(SqlType, bool))| KeyPart {
        name: format!("c{index}"),
        kind: *kind,
        order: (*descending).into(),
    };
    KeySchema { encoding, parts: kinds.iter().enumerate().map(part).collect(), salt: 0, with_tenant: false }
}

pub(crate) fn text(value: &str) -> Value {
    Value::Text(value.to_owned())
}

/// Texts with frequent collisions, and with characters that need escaping.
pub(crate) fn any_text() -> impl Strategy<Value = String> {
    let chars = vec!['\0', '\u{1}', ' ', '!', '"', '#', '$', '%', '`', 'a', 'b', '\u{7f}', 'é', '\u{ffff}', '😀'];
    prop_oneof![
        prop::collection::vec(prop::sample::select(chars), 0..4).prop_map(|chars| chars.into_iter().collect()),
        any::<String>()
    ]
}

pub(crate) fn any_value(kind: SqlType, encoding: KeyEncoding) -> BoxedStrategy<Value> {
    let whole = encoding == KeyEncoding::Ordered;
    // The whole domain, or the years 1 to 9999.
    let days = if whole { FIRST_DAY as i32..=LAST_DAY as i32 } else { -719_162..=2_932_896 };
    let micros = if whole {
        FIRST_DAY * MICROS_PER_DAY..=i64::MAX
    } else {
        -719_162 * MICROS_PER_DAY..=2_932_897 * MICROS_PER_DAY - 1
    };
    let int = |least: i64, greatest: i64| {
        prop_oneof![least..=greatest, -2i64..=2, Just(least), Just(greatest)].prop_map(Value::Int).boxed()
    };
    match kind {
        SqlType::Bool => any::<bool>().prop_map(Value::Bool).boxed(),
        SqlType::Int2 => int(i16::MIN.into(), i16::MAX.into()),
        SqlType::Int4 => int(i32::MIN.into(), i32::MAX.into()),
        SqlType::Int8 => int(i64::MIN, i64::MAX),
        SqlType::Text | SqlType::Name | SqlType::Varchar(_) => any_text().prop_map(Value::Text).boxed(),
        SqlType::Bytea => {
            let byte = prop_oneof![any::<u8>(), prop::sample::select(vec![0u8, 1, 0x23, 0x24, 0x25, 0x64, 0xff])];
            prop::collection::vec(byte, 0..5).prop_map(|bytes| Value::Bytes(bytes.into())).boxed()
        }
        SqlType::Date => prop_oneof![days, -2i32..=2, Just(i32::MIN), Just(i32::MAX)].prop_map(Value::Date).boxed(),
        SqlType::Timestamp(_) | SqlType::Timestamptz(_) => {
            prop_oneof![micros, -2i64..=2, Just(i64::MIN), Just(i64::MAX)].prop_map(Value::Timestamp).boxed()
        }
        SqlType::Uuid => {
            prop_oneof![any::<[u8; 16]>(), (0u8..3).prop_map(|byte| [byte; 16])].prop_map(Value::Uuid).boxed()
        }
        SqlType::Float4 => any_float().prop_map(|value| Value::Float(f64::from(value as f32))).boxed(),
        SqlType::Float8 => any_float().prop_map(Value::Float).boxed(),
        SqlType::Numeric { precision, scale } => {
            let limit = 10i128.pow(precision.into()) - 1;
            prop_oneof![-limit..=limit, -1001i128..=1001, Just(limit), Just(-limit)]
                .prop_map(move |unscaled| Value::Numeric { unscaled, scale })
                .boxed()
        }
        // With the least scale, as keys give it back.
        SqlType::Exact(_) => {
            let number = (any::<i128>(), 0u32..128, 0u8..50)
                .prop_map(|(unscaled, shift, scale)| Exact::of_i128(unscaled >> shift, scale));
            let special = vec![Exact::nan(), Exact::infinity(false), Exact::infinity(true), Exact::of_i128(0, 0)];
            prop_oneof![9 => number, 1 => prop::sample::select(special)]
                .prop_map(|exact| Value::Exact(Exact::of_key(exact.key()).unwrap()))
                .boxed()
        }
        SqlType::Time(_) => {
            prop_oneof![0..=MICROS_PER_DAY, 0i64..=2, MICROS_PER_DAY - 2..=MICROS_PER_DAY].prop_map(Value::Time).boxed()
        }
        SqlType::Bit(length) => {
            "[01]{0,12}".prop_map(move |bits| Value::Text(bits::cut(&bits, SqlType::Bit(length)).into_owned())).boxed()
        }
        SqlType::Varbit(_) => "[01]{0,12}".prop_map(Value::Text).boxed(),
        SqlType::Char(_) => unreachable!("not in shared tables"),
        SqlType::Json | SqlType::Jsonb | SqlType::Interval(_) | SqlType::Array(_) => unreachable!("not in keys"),
    }
}

fn any_float() -> impl Strategy<Value = f64> {
    let named = vec![0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1.0, -1.0, 1e-30, -1e-30];
    prop_oneof![
        prop::num::f32::NORMAL.prop_map(f64::from),
        prop::num::f64::NORMAL.prop_map(|value| value % 1e30),
        prop::sample::select(named)
    ]
    .prop_filter("underflow of real", |value| *value == 0.0 || value.is_nan() || (*value as f32) != 0.0)
}

/// A schema and tuples for it.
pub(crate) fn schema_and_tuples(count: usize) -> impl Strategy<Value = (KeySchema, Vec<Vec<Value>>)> {
    let ordered = prop::bool::ANY.prop_map(|yes| if yes { KeyEncoding::Ordered } else { KeyEncoding::Delimited });
    let parts = prop::collection::vec((prop::sample::select(TYPES.to_vec()), prop::bool::ANY), 1..4);
    let salt = prop_oneof![Just(0u16), 2..=4u16, Just(SALT_MAX)];
    (ordered, parts, salt, prop::bool::ANY).prop_flat_map(move |(encoding, mut parts, salt, with_tenant)| {
        if encoding == KeyEncoding::Delimited {
            for (kind, descending) in &mut parts {
                if matches!(kind, SqlType::Float4 | SqlType::Float8 | SqlType::Numeric { .. } | SqlType::Exact(_)) {
                    *kind = SqlType::Int4;
                }
                let is_bits = matches!(kind, SqlType::Bit(_) | SqlType::Varbit(_));
                *descending &= !is_bits && !matches!(kind, SqlType::Text | SqlType::Varchar(_) | SqlType::Bytea);
            }
        }
        let schema = KeySchema { salt, with_tenant, ..schema(encoding, &parts) };
        assert!(schema.check().is_ok());
        let tenant = prop::sample::select(vec!["alto", "altostrat", "alto-2", "alto_2", "0", "z9"]).prop_map(text);
        let mut tuple: Vec<BoxedStrategy<Value>> = parts.iter().map(|(kind, _)| any_value(*kind, encoding)).collect();
        if with_tenant {
            tuple.insert(0, tenant.boxed());
        }
        (Just(schema), prop::collection::vec(tuple, count))
    })
}

/// The bytes of a key's bucket; empty if keys are not salted.
fn bucket_in<'a>(schema: &KeySchema, key: &'a [u8]) -> &'a [u8] {
    let start = if schema.with_tenant { key.iter().position(|byte| *byte == b'#').unwrap() + 1 } else { 0 };
    &key[start..start + if schema.salt > 0 { BUCKET_BYTES } else { 0 }]
}

fn compare(schema: &KeySchema, a: &[Value], b: &[Value]) -> Ordering {
    let each = a.iter().zip(b).enumerate().map(|(column, (a, b))| {
        let order = a.compare(b).unwrap();
        if schema.descends(column) { order.reverse() } else { order }
    });
    each.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

fn same(a: &Value, b: &Value) -> bool {
    a.compare(b) == Some(Ordering::Equal)
}

fn satisfies(tuple: &[Value], equal: &[Value], next: Option<&PartBounds>) -> bool {
    if !equal.iter().zip(tuple).all(|(want, value)| same(want, value)) {
        return false;
    }
    let (Some(next), Some(value)) = (next, tuple.get(equal.len())) else { return true };
    match next {
        PartBounds::TextPrefix(prefix) => matches!(value, Value::Text(text) if text.starts_with(prefix.as_str())),
        PartBounds::Between(lower, upper) => {
            let above = match lower {
                Bound::Unbounded => true,
                Bound::Included(bound) => value.compare(bound).is_some_and(Ordering::is_ge),
                Bound::Excluded(bound) => value.compare(bound).is_some_and(Ordering::is_gt),
            };
            above
                && match upper {
                    Bound::Unbounded => true,
                    Bound::Included(bound) => value.compare(bound).is_some_and(Ordering::is_le),
                    Bound::Excluded(bound) => value.compare(bound).is_some_and(Ordering::is_lt),
                }
        }
    }
}

fn bound(kind: u8, value: &Value) -> Bound<Value> {
    match kind {
        0 => Bound::Unbounded,
        1 => Bound::Included(value.clone()),
        _ => Bound::Excluded(value.clone()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_order_of_keys_is_the_order_of_tuples((schema, tuples) in schema_and_tuples(2)) {
        let (a, b) = (schema.encode(&tuples[0]).unwrap(), schema.encode(&tuples[1]).unwrap());
        let tenants = usize::from(schema.with_tenant);
        // Salted keys are ordered by tenant, then bucket, then tuple.
        let order = compare(&schema, &tuples[0][..tenants], &tuples[1][..tenants])
            .then_with(|| bucket_in(&schema, &a).cmp(bucket_in(&schema, &b)))
            .then_with(|| compare(&schema, &tuples[0], &tuples[1]));
        prop_assert_eq!(a.cmp(&b), order, "{:?} {:?}", a, b);
    }

    #[test]
    fn a_key_lies_in_its_bucket_and_in_no_other((schema, tuples) in schema_and_tuples(1)) {
        let key = schema.encode(&tuples[0]).unwrap();
        let tenant = schema.with_tenant.then(|| tuples[0][0].clone());
        let tenant = tenant.as_ref().map(|tenant| if let Value::Text(id) = tenant { id.as_str() } else { unreachable!() });
        let holding = (0..schema.salt).filter(|bucket| schema.bucket_range(tenant, *bucket).contains(&key));
        prop_assert_eq!(holding.count(), usize::from(schema.salt > 0));
    }

    #[test]
    fn keys_decode_to_what_was_encoded((schema, tuples) in schema_and_tuples(1)) {
        let key = schema.encode(&tuples[0]).unwrap();
        let decoded = schema.decode(&key).unwrap();
        prop_assert!(compare(&schema, &tuples[0], &decoded).is_eq(), "{:?} {:?}", key, decoded);
        let mut refs = Vec::new();
        schema.decode_refs(&key, &mut refs).unwrap();
        let values: Vec<Value> = refs.into_iter().map(ValueRef::into_value).collect();
        prop_assert!(compare(&schema, &values, &decoded).is_eq());
    }

    #[test]
    fn bytes_that_decode_are_the_key_of_what_they_decode_to(
        (schema, tuples) in schema_and_tuples(1), at in any::<prop::sample::Index>(), byte in any::<u8>(), kind in 0..3,
    ) {
        let mut key = schema.encode(&tuples[0]).unwrap().to_vec();
        let at = at.index(key.len());
        match kind {
            0 => key[at] = byte,
            1 => key.insert(at, byte),
            _ => drop(key.remove(at)),
        }
        if let Ok(values) = schema.decode(&key) {
            prop_assert_eq!(schema.encode(&values).unwrap().to_vec(), key);
        }
    }

    #[test]
    fn ranges_hold_what_satisfies_the_predicate_and_nothing_else_when_exact(
        (schema, tuples) in schema_and_tuples(12), count in 0usize..4, kinds in (0u8..3, 0u8..3), prefix in prop::option::of(0usize..3),
    ) {
        // The first two tuples give the predicate; half of the others share its leading parts.
        let (model, other) = (&tuples[0], &tuples[1]);
        let columns = schema.column_count();
        let equal = &model[..count.min(columns)];
        let next = model.get(equal.len()).map(|low| match (prefix, low) {
            (Some(length), Value::Text(text)) => PartBounds::TextPrefix(text.chars().take(length).collect()),
            _ => PartBounds::Between(bound(kinds.0, low), bound(kinds.1, &other[equal.len()])),
        });
        let ranges = schema.ranges(equal, next.as_ref());
        let exact = schema.range_is_exact(equal, next.as_ref());
        prop_assert!(exact, "every predicate here is of the part's own type");
        if equal.len() == columns {
            prop_assert!(ranges.len() == 1 && ranges[0].as_point().is_some());
        } else {
            prop_assert!(ranges.len() <= usize::from(schema.salt.max(1)));
        }
        for (index, tuple) in tuples.iter().enumerate() {
            let mut tuple = tuple.clone();
            if index % 2 == 0 {
                tuple[..equal.len()].clone_from_slice(equal);
            }
            let key = schema.encode(&tuple).unwrap();
            let inside = ranges.iter().filter(|range| range.contains(&key)).count();
            prop_assert_eq!(inside, usize::from(satisfies(&tuple, equal, next.as_ref())), "{:?} in {:?}", key, ranges);
        }
    }
}

/// Checks that the keys of the tuples, given in order, ascend.
fn check_order(encoding: KeyEncoding, kind: SqlType, values: &[Value], expected: &[&str]) {
    for descending in [false, true] {
        let schema = schema(encoding, &[(kind, descending), (SqlType::Int2, false)]);
        if schema.check().is_err() {
            continue;
        }
        let mut keys: Vec<RowKey> =
            values.iter().map(|value| schema.encode(&[value.clone(), Value::Int(7)]).unwrap()).collect();
        if descending {
            keys.reverse();
        }
        assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
        if !descending && encoding == KeyEncoding::Delimited {
            let shown: Vec<String> = keys.iter().map(|key| key.escape_ascii().to_string()).collect();
            assert_eq!(shown, expected);
        }
    }
}

#[test]
fn negative_numbers_come_first() {
    let ints = [i16::MIN.into(), -300, -2, -1, 0, 1, 42, i16::MAX.into()].map(Value::Int);
    let keys = [
        "-67231#00007",
        "-99699#00007",
        "-99997#00007",
        "-99998#00007",
        "00000#00007",
        "00001#00007",
        "00042#00007",
        "32767#00007",
    ];
    check_order(KeyEncoding::Delimited, SqlType::Int2, &ints, &keys);
    check_order(KeyEncoding::Ordered, SqlType::Int2, &ints, &[]);
    let limits = [i64::MIN, -1, 0, i64::MAX].map(Value::Int);
    let keys = [
        "-0776627963145224191#00007",
        "-9999999999999999998#00007",
        "0000000000000000000#00007",
        "9223372036854775807#00007",
    ];
    check_order(KeyEncoding::Delimited, SqlType::Int8, &limits, &keys);
    check_order(KeyEncoding::Ordered, SqlType::Int8, &limits, &[]);
}

#[test]
fn texts_order_whatever_bytes_they_hold() {
    let texts = ["", "\0", " ", "!", "#", "#a", "$", "$`", "%", "New", "New York", "New York City", "Newark", "é"];
    let keys = [
        "#00007",
        "$@#00007",
        "$`#00007",
        "$a#00007",
        "$c#00007",
        "$ca#00007",
        "$d#00007",
        "$d`#00007",
        "%#00007",
        "New#00007",
        "New$`York#00007",
        "New$`York$`City#00007",
        "Newark#00007",
        "\\xc3\\xa9#00007",
    ];
    let values = texts.map(text);
    check_order(KeyEncoding::Delimited, SqlType::Text, &values, &keys);
    check_order(KeyEncoding::Ordered, SqlType::Text, &values, &[]);
}

#[test]
fn times_order_and_descend() {
    let times = [i64::MIN, -1, 0, 1_357_017_300_000_001, 253_402_300_799_999_999, i64::MAX].map(Value::Timestamp);
    let keys = [
        "-infinity#00007",
        "1969-12-31T23:59:59.999999Z#00007",
        "1970-01-01T00:00:00.000000Z#00007",
        "2013-01-01T05:15:00.000001Z#00007",
        "9999-12-31T23:59:59.999999Z#00007",
        "infinity#00007",
    ];
    check_order(KeyEncoding::Delimited, SqlType::Timestamptz(None), &times, &keys);
    check_order(KeyEncoding::Ordered, SqlType::Timestamptz(None), &times, &[]);
    let descending = schema(KeyEncoding::Delimited, &[(SqlType::Timestamp(None), true)]);
    let key = descending.encode(&[Value::Timestamp(1_357_017_300_000_001)]).unwrap();
    assert_eq!(&key[..], b"7986-98-98T94:84:99.999998");
}

#[test]
fn floats_and_numerics_order() {
    let floats = [f64::NEG_INFINITY, -1e300, -1.5, -1e-300, -0.0, 1e-300, 1.5, 1e300, f64::INFINITY, f64::NAN];
    check_order(KeyEncoding::Ordered, SqlType::Float8, &floats.map(Value::Float), &[]);
    let numerics = [-1_000_000, -999, -101, -100, -1, 0, 1, 5, 10, 100, 101, 1_000_000];
    let numerics = numerics.map(|unscaled| Value::Numeric { unscaled, scale: 2 });
    check_order(KeyEncoding::Ordered, SqlType::Numeric { precision: 10, scale: 2 }, &numerics, &[]);
}

#[test]
fn zero_has_one_key_and_numerics_are_rounded() {
    let float = schema(KeyEncoding::Ordered, &[(SqlType::Float8, false)]);
    assert_eq!(float.encode(&[Value::Float(-0.0)]).unwrap(), float.encode(&[Value::Float(0.0)]).unwrap());
    let numeric = schema(KeyEncoding::Ordered, &[(SqlType::Numeric { precision: 5, scale: 1 }, false)]);
    let key = numeric.encode(&[Value::Numeric { unscaled: 1_250, scale: 3 }]).unwrap();
    assert_eq!(numeric.decode(&key).unwrap(), [Value::Numeric { unscaled: 13, scale: 1 }]);
}

#[test]
fn the_empty_text_alone_is_a_key() {
    let schema = schema(KeyEncoding::Delimited, &[(SqlType::Text, false)]);
    let key = schema.encode(&[text("")]).unwrap();
    assert_eq!(&key[..], b"#");
    assert_eq!(schema.decode(&key).unwrap(), [text("")]);
    assert!(key < schema.encode(&[text("\0")]).unwrap());
    let above = schema.ranges(&[], Some(&PartBounds::Between(Bound::Excluded(text("")), Bound::Unbounded)));
    assert!(!above[0].contains(&key) && above[0].contains(b"$@"));
    assert_eq!(&schema.for_operator().encode(&[text("alto"), text("")]).unwrap()[..], b"alto##");
}

fn show(schema: &KeySchema, equal: &[Value], next: Option<PartBounds>) -> String {
    let exact = if schema.range_is_exact(equal, next.as_ref()) { "exact" } else { "covers" };
    let ranges: Vec<String> = schema.ranges(equal, next.as_ref()).iter().map(|range| format!("{range:?}")).collect();
    if ranges.is_empty() { "none".to_owned() } else { format!("{} {exact}", ranges.join(" ")) }
}

#[test]
fn salted_keys_are_spread_over_buckets_that_others_can_compute() {
    let plain = schema(KeyEncoding::Delimited, &[(SqlType::Text, false), (SqlType::Int4, false)]);
    let salted = KeySchema { salt: 4, ..plain.clone() };
    let row = [text("a"), Value::Int(7)];
    // CRC-32C of "a#0000000007" is 0xb550e623, according to another implementation.
    assert_eq!(&salted.encode(&row).unwrap()[..], b"03#a#0000000007");
    assert_eq!(salted.decode(b"03#a#0000000007").unwrap(), row);
    for key in ["00#a#0000000007", "a#0000000007", "03", "03#", "3#a#0000000007", "03a#0000000007"] {
        assert_eq!(salted.decode(key.as_bytes()).unwrap_err().kind(), ErrorKind::BadValue, "{key}");
    }
    assert_eq!(
        &salted.for_operator().encode(&[text("alto"), text("a"), Value::Int(7)]).unwrap()[..],
        b"alto#03#a#0000000007"
    );
    let two = KeySchema { salt: 2, ..plain };
    let above = PartBounds::Between(Bound::Excluded(text("b")), Bound::Unbounded);
    assert_eq!(show(&two, &[text("a")], None), "[00#a#, 00#a$) [01#a#, 01#a$) exact");
    assert_eq!(show(&two, &[], Some(above.clone())), "[00#b$, 00$) [01#b$, 01$) exact");
    let of_all = two.for_operator();
    assert_eq!(show(&of_all, &[text("alto")], None), "[alto#, alto$) exact");
    assert_eq!(show(&of_all, &[], Some(above)), "[b$, ∞) exact");
    assert_eq!(
        show(&of_all, &[text("alto"), text("a")], None),
        "[alto#00#a#, alto#00#a$) [alto#01#a#, alto#01#a$) exact"
    );

    // Consecutive numbers spread evenly.
    let counted = KeySchema { salt: 16, ..schema(KeyEncoding::Delimited, &[(SqlType::Int8, false)]) };
    let mut rows = [0; 16];
    for number in 0..16_000 {
        let key = counted.encode(&[Value::Int(number)]).unwrap();
        rows[usize::from_str_radix(std::str::from_utf8(&key[..2]).unwrap(), 16).unwrap()] += 1;
    }
    assert!(rows.iter().all(|rows| (800..1_200).contains(rows)), "{rows:?}");
}

#[test]
fn ranges_of_values_that_a_part_cannot_hold() {
    use Bound::{Excluded, Included, Unbounded};
    let schema = schema(KeyEncoding::Delimited, &[(SqlType::Int2, false), (SqlType::Timestamp(None), true)]);
    let between = |lower, upper| Some(PartBounds::Between(lower, upper));
    let check =
        |equal: &[Value], next: Option<PartBounds>, expected: &str| assert_eq!(show(&schema, equal, next), expected);
    check(&[Value::Int(40_000)], None, "none");
    check(&[Value::Null], None, "none");
    check(&[], between(Included(Value::Int(40_000)), Unbounded), "none");
    check(&[], between(Unbounded, Included(Value::Int(40_000))), "[, ∞) exact");
    check(&[], between(Excluded(Value::Int(-40_000)), Excluded(Value::Int(2))), "[, 00002#) exact");
    check(&[], between(Excluded(Value::Int(2)), Excluded(Value::Int(2))), "none");
    check(&[], between(Included(Value::Null), Unbounded), "none");
    check(&[], between(Included(Value::Float(1.5)), Unbounded), "[, ∞) covers");
    check(&[], Some(PartBounds::TextPrefix("1".into())), "[, ∞) covers");
    // The year 20000 lies between the year 9999 and infinity.
    let late = Value::Timestamp(568_971_820_800_000_000);
    check(&[Value::Int(1)], between(Included(late.clone()), Unbounded), "[00001#, 00001#/) exact");
    check(&[Value::Int(1)], between(Unbounded, Included(late.clone())), "[00001#/, 00001$) exact");
    check(&[Value::Int(1), late], None, "none");
}

#[test]
fn tenants_are_ranges_of_keys() {
    let schema = schema(KeyEncoding::Ordered, &[(SqlType::Text, false)]).for_operator();
    assert_eq!(show(&schema, &[text("alto")], None), "[alto#, alto$) exact");
    assert_eq!(show(&schema, &[text("Alto")], None), "none");
    assert_eq!(show(&schema, &[text("keyspan")], None), "none");
    assert_eq!(show(&schema, &[], Some(PartBounds::TextPrefix("al".into()))), "[al, am) exact");
    let above = PartBounds::Between(Bound::Excluded(text("alto")), Bound::Unbounded);
    assert_eq!(show(&schema, &[], Some(above)), "[alto$, ∞) exact");
    assert_eq!(schema.columns().iter().map(|part| part.name.as_str()).collect::<Vec<_>>(), ["tenant", "c0"]);
}

#[test]
fn schemas_are_checked() {
    let check = |encoding, kinds: &[(SqlType, bool)], kind| {
        assert_eq!(schema(encoding, kinds).check().unwrap_err().kind(), kind, "{kinds:?}");
    };
    check(KeyEncoding::Delimited, &[], ErrorKind::Invalid);
    check(KeyEncoding::Delimited, &[(SqlType::Text, true)], ErrorKind::Unsupported);
    check(KeyEncoding::Delimited, &[(SqlType::Float8, false)], ErrorKind::Unsupported);
    check(KeyEncoding::Ordered, &[(SqlType::Jsonb, false)], ErrorKind::Unsupported);
    for salt in [1, SALT_MAX + 1] {
        let salted = KeySchema { salt, ..schema(KeyEncoding::Ordered, &[(SqlType::Text, false)]) };
        assert_eq!(salted.check().unwrap_err().kind(), ErrorKind::Invalid);
    }
    let mut twice = schema(KeyEncoding::Ordered, &[(SqlType::Text, true), (SqlType::Text, true)]);
    twice.parts[1].name = "c0".into();
    assert_eq!(twice.check().unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn keys_that_cannot_be_are_refused() {
    let schema = schema(KeyEncoding::Delimited, &[(SqlType::Int2, false), (SqlType::Date, false)]);
    let check = |values: &[Value], kind| assert_eq!(schema.encode(values).unwrap_err().kind(), kind, "{values:?}");
    check(&[Value::Int(1), Value::Null], ErrorKind::NullValue);
    check(&[Value::Int(40_000), Value::Date(0)], ErrorKind::OutOfRange);
    check(&[Value::Int(1), Value::Date(2_932_897)], ErrorKind::OutOfRange);
    check(&[Value::Int(1), text("x")], ErrorKind::BadValue);
    check(&[Value::Int(1)], ErrorKind::BadValue);
    let tenant = schema.for_operator();
    let values = [text("no tenant"), Value::Int(1), Value::Date(0)];
    assert_eq!(tenant.encode(&values).unwrap_err().kind(), ErrorKind::BadValue);
    let long = KeySchema { parts: vec![KeyPart { kind: SqlType::Text, ..schema.parts[0].clone() }], ..schema };
    let error = long.encode(&[text(&"x".repeat(ROW_KEY_BYTES_MAX + 1))]).unwrap_err();
    assert_eq!(error.store().map(keyspan_storage::Error::kind), Some(keyspan_storage::ErrorKind::TooLarge));
}

#[test]
fn keys_that_do_not_conform_are_told() {
    let schema = schema(KeyEncoding::Delimited, &[(SqlType::Int2, false), (SqlType::Date, false)]);
    for key in
        ["", "00001", "1#2013-01-01", "00001#2013-02-29", "00001#2013-01-01#", "40000#2013-01-01", "-99999#2013-01-01"]
    {
        assert_eq!(schema.decode(key.as_bytes()).unwrap_err().kind(), ErrorKind::BadValue, "{key}");
    }
    assert!(schema.decode(b"00001#2013-01-01").is_ok());
}
