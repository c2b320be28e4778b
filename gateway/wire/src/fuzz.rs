//! Entry points for fuzzers, with any bytes that a client might send: for the targets of the folder `tests/fuzz/wire`,
//! and for the tests here with random bytes and with damaged messages.
//!
//! A function panics only for a bug of ours: a message that is taken in part, a refusal with another error than the
//! protocol's, or a parsed message that does not give the same bytes when it is written again. So nothing that was
//! parsed is larger than its message.

use crate::frontend::{
    Bind, Frame, Frontend, MESSAGE_BYTES_MAX, SMALL_MESSAGE_BYTES_MAX, Startup, Target, sasl_initial,
};
use arrow::datatypes::{DataType, IntervalUnit};
use bytes::{BufMut, Bytes, BytesMut};
use keyspan_pg::{
    codec::{format::Format, parameter},
    error::{SqlError, SqlState},
    types,
};
use pgwire::api::Type;

/// The first bytes of a connection, up to the packet that logs in.
pub fn startup(bytes: &[u8]) {
    let mut input = BytesMut::from(bytes);
    loop {
        let before = input.len();
        let whole = input.clone();
        match Startup::take(&mut input) {
            Ok(None) => {
                assert_eq!(input, whole, "an incomplete message stays in the input");
                return;
            }
            Err(error) => return check_error(&error),
            Ok(Some(packet)) => {
                let taken = &whole[..before - input.len()];
                assert!((8..=SMALL_MESSAGE_BYTES_MAX).contains(&taken.len()), "a packet of {} bytes", taken.len());
                assert_eq!(taken[..4], length(taken.len()), "a packet has its length");
                let mut written = BytesMut::new();
                match packet {
                    Startup::Tls | Startup::Gss => continue,
                    Startup::Cancel { process_id, secret } => {
                        written.put_i32(process_id);
                        written.put_slice(&secret);
                    }
                    Startup::Login { parameters, .. } => {
                        for (name, value) in &parameters {
                            put_text(&mut written, name);
                            put_text(&mut written, value);
                        }
                        written.put_u8(0);
                    }
                }
                assert_eq!(written, taken[8..], "a packet written again has the same bytes");
                return;
            }
        }
    }
}

/// The messages of a connection: the first byte says whether the client has logged in, the others are sent.
pub fn messages(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let bytes_max = if first % 2 == 0 { MESSAGE_BYTES_MAX } else { SMALL_MESSAGE_BYTES_MAX };
    let mut input = BytesMut::from(rest);
    loop {
        let before = input.len();
        let whole = input.clone();
        match Frame::take(&mut input, bytes_max) {
            Ok(None) => {
                assert_eq!(input, whole, "an incomplete message stays in the input");
                return;
            }
            Err(error) => return check_error(&error),
            Ok(Some(frame)) => {
                assert_eq!(before - input.len(), frame.body.len() + 5, "a message has its length");
                assert_eq!(frame.body, whole[5..frame.body.len() + 5], "a body has the bytes that were sent");
                message(frame);
            }
        }
    }
}

fn message(frame: Frame) {
    let body = frame.body.clone();
    if frame.kind == b'p'
        && let Err(error) = sasl_initial(body.clone())
    {
        check_error(&error);
    }
    match Frontend::parse(frame) {
        Err(error) => check_error(&error),
        Ok(message) => {
            if let Some(written) = body_of(&message) {
                assert_eq!(written, body, "a message written again has the same bytes");
            }
        }
    }
}

/// The body of a message, written again; `None` for messages that parsing does not keep whole.
fn body_of(message: &Frontend) -> Option<BytesMut> {
    let mut body = BytesMut::new();
    let formats = |formats: &[Format], body: &mut BytesMut| {
        put_count(body, formats.len());
        formats.iter().for_each(|format| body.put_i16(i16::from(*format == Format::Binary)));
    };
    match message {
        Frontend::Query(sql) => put_text(&mut body, sql),
        Frontend::Parse { name, sql, types } => {
            put_text(&mut body, name);
            put_text(&mut body, sql);
            put_count(&mut body, types.len());
            types.iter().for_each(|oid| body.put_u32(*oid));
        }
        Frontend::Bind(bind) => {
            put_text(&mut body, &bind.portal);
            put_text(&mut body, &bind.statement);
            formats(&bind.formats, &mut body);
            put_count(&mut body, bind.values.len());
            for value in &bind.values {
                match value {
                    None => body.put_i32(-1),
                    Some(value) => {
                        body.put_slice(&length(value.len()));
                        body.put_slice(value);
                    }
                }
            }
            formats(&bind.results, &mut body);
        }
        Frontend::Describe(target) | Frontend::Close(target) => {
            let (kind, name) = match target {
                Target::Statement(name) => (b'S', name),
                Target::Portal(name) => (b'P', name),
            };
            body.put_u8(kind);
            put_text(&mut body, name);
        }
        Frontend::Sync | Frontend::Flush | Frontend::Terminate => {}
        Frontend::Password(data) => body.put_slice(data),
        // `rows_max` is `None` for 0 and for any negative number.
        Frontend::Execute { .. } | Frontend::Copy | Frontend::FunctionCall => return None,
    }
    Some(body)
}

/// A value of a parameter: the first byte is its type and format, the others its bytes.
pub fn value(bytes: &[u8]) {
    let kinds = [
        (Type::BOOL, DataType::Boolean),
        (Type::INT2, DataType::Int16),
        (Type::INT4, DataType::Int32),
        (Type::INT8, DataType::Int64),
        (Type::OID, DataType::UInt32),
        (Type::FLOAT4, DataType::Float32),
        (Type::FLOAT8, DataType::Float64),
        (Type::NUMERIC, DataType::Decimal128(38, 10)),
        (Type::TEXT, DataType::Utf8View),
        (Type::BYTEA, DataType::Binary),
        (Type::UUID, types::UUID),
        (Type::JSON, DataType::Utf8View),
        (Type::JSONB, DataType::Utf8View),
        (Type::DATE, DataType::Date32),
        (Type::TIME, types::TIME),
        (Type::TIMESTAMP, types::TIMESTAMP),
        (Type::TIMESTAMPTZ, types::timestamptz()),
        (Type::INTERVAL, DataType::Interval(IntervalUnit::MonthDayNano)),
        (Type::INT4_ARRAY, list_of(DataType::Int32)),
        (Type::TEXT_ARRAY, list_of(DataType::Utf8View)),
        (Type::TIMESTAMPTZ_ARRAY, list_of(types::timestamptz())),
    ];
    let Some((first, rest)) = bytes.split_first() else { return };
    let (kind, target) = &kinds[usize::from(first >> 1) % kinds.len()];
    let format = if first % 2 == 0 { Format::Text } else { Format::Binary };
    match parameter::decode(Some(rest), kind, format, target, keyspan_pg::datetime::Input::initial()) {
        Ok(value) => assert_eq!(value.data_type(), *target, "a value has its type"),
        Err(error) => assert!(
            ["22", "08", "0A"].contains(&&error.state.0[..2]),
            "{kind} as {format:?}: {} {}",
            error.state.0,
            error.message
        ),
    }
}

fn list_of(item: DataType) -> DataType {
    DataType::new_list(item, true)
}

/// Asserts that the error is among those for malformed messages.
fn check_error(error: &SqlError) {
    let allowed = [
        SqlState::PROTOCOL_VIOLATION,
        SqlState::CHARACTER_NOT_IN_REPERTOIRE,
        SqlState::INVALID_PARAMETER_VALUE,
        SqlState::FEATURE_NOT_SUPPORTED,
    ];
    assert!(allowed.contains(&error.state), "{} {}", error.state.0, error.message);
}

fn length(bytes: usize) -> [u8; 4] {
    u32::try_from(bytes).expect("messages are shorter than 4 GiB").to_be_bytes()
}

fn put_text(body: &mut BytesMut, text: &str) {
    body.put_slice(text.as_bytes());
    body.put_u8(0);
}

fn put_count(body: &mut BytesMut, count: usize) {
    body.put_u16(u16::try_from(count).expect("what was counted by two bytes"));
}

/// Valid messages, for fuzzers to damage.
pub fn sound() -> Bytes {
    let bind = Bind {
        portal: "p".into(),
        statement: "s".into(),
        formats: vec![Format::Text, Format::Binary],
        values: vec![Some(Bytes::from_static(b"7")), None],
        results: vec![Format::Binary],
    };
    let all = [
        (b'Q', Frontend::Query("SELECT 1".into())),
        (b'P', Frontend::Parse { name: "s".into(), sql: "SELECT $1, $2".into(), types: vec![23, 0] }),
        (b'B', Frontend::Bind(bind)),
        (b'D', Frontend::Describe(Target::Portal("p".into()))),
        (b'C', Frontend::Close(Target::Statement("s".into()))),
        (b'p', Frontend::Password(Bytes::from_static(b"SCRAM-SHA-256\0\0\0\0\x02n,"))),
        (b'S', Frontend::Sync),
        (b'H', Frontend::Flush),
        (b'X', Frontend::Terminate),
    ];
    let mut bytes = BytesMut::new();
    for (kind, message) in all {
        let body = body_of(&message).unwrap_or_default();
        bytes.put_u8(kind);
        bytes.put_slice(&length(body.len() + 4));
        bytes.put_slice(&body);
    }
    bytes.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{
        prelude::*,
        test_runner::{Config, TestRng, TestRunner},
    };

    /// Runs a case for many inputs, the same ones every time.
    fn run<S: Strategy>(inputs: S, case: impl Fn(S::Value)) {
        let config = Config { cases: 3000, failure_persistence: None, ..Config::default() };
        let seed = TestRng::deterministic_rng(config.rng_algorithm);
        let outcome = TestRunner::new_with_rng(config, seed).run(&inputs, |input| {
            case(input);
            Ok(())
        });
        assert!(outcome.is_ok(), "{outcome:?}");
    }

    /// Valid bytes with some changed and some missing at the end.
    fn damaged(valid: Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
        let length = valid.len();
        let edits = prop::collection::vec((0..length, any::<u8>()), 0..4);
        (edits, 0..=length, any::<u8>()).prop_map(move |(edits, end, limit)| {
            let mut bytes = valid.clone();
            edits.into_iter().for_each(|(at, byte)| bytes[at] = byte);
            bytes.truncate(end.max(length / 2));
            bytes.insert(0, limit);
            bytes
        })
    }

    fn login() -> Vec<u8> {
        b"\0\0\0\x08\x04\xd2\x16\x2f\0\0\0\x27\0\x03\0\x02user\0ana\0options\0-c work_mem=1\0\0".to_vec()
    }

    #[test]
    fn any_bytes_may_begin_a_connection() {
        startup(&login());
        run(prop::collection::vec(any::<u8>(), 0..40), |bytes| startup(&bytes));
        run(damaged(login()), |bytes| startup(&bytes[1..]));
    }

    #[test]
    fn any_bytes_are_messages_or_refused() {
        run(prop::collection::vec(any::<u8>(), 0..40), |bytes| messages(&bytes));
        run(damaged(sound().to_vec()), |bytes| messages(&bytes));
        let kinds = prop::sample::select(b"QPBDECSHXpFdcf".to_vec());
        run((kinds, prop::collection::vec(any::<u8>(), 0..40)), |(kind, body)| {
            message(Frame { kind, body: Bytes::from(body) });
        });
    }

    #[test]
    fn valid_messages_are_parsed() {
        let mut input = BytesMut::from(&sound()[..]);
        let mut count = 0;
        while let Some(frame) = Frame::take(&mut input, MESSAGE_BYTES_MAX).unwrap() {
            Frontend::parse(frame).unwrap();
            count += 1;
        }
        assert_eq!((count, input.len()), (9, 0));
    }

    #[test]
    fn any_bytes_are_values_or_refused() {
        run((any::<u8>(), prop::collection::vec(any::<u8>(), 0..40)), |(kind, mut bytes)| {
            bytes.insert(0, kind);
            value(&bytes);
        });
        // Text that is almost a value.
        run((any::<u8>(), "[-+0-9 :.,eEinft{}\"\\\\x]{0,24}"), |(kind, text)| {
            value(&[&[kind & !1], text.as_bytes()].concat());
        });
    }
}
