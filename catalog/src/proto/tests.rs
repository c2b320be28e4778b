use super::*;
use expect_test::{Expect, expect};
use proptest::prelude::*;
use prost_reflect::prost_types::{
    EnumDescriptorProto, EnumValueDescriptorProto, FieldDescriptorProto, FileDescriptorProto, MessageOptions,
    field_descriptor_proto::{Label, Type},
};

fn field(name: &str, number: i32, kind: Type) -> FieldDescriptorProto {
    let (name, label, kind) = (Some(name.to_owned()), Some(Label::Optional as i32), Some(kind as i32));
    FieldDescriptorProto { name, number: Some(number), label, r#type: kind, ..Default::default() }
}

fn of_type(name: &str, number: i32, kind: Type, of: &str) -> FieldDescriptorProto {
    FieldDescriptorProto { type_name: Some(of.to_owned()), ..field(name, number, kind) }
}

fn repeated(field: FieldDescriptorProto) -> FieldDescriptorProto {
    FieldDescriptorProto { label: Some(Label::Repeated as i32), ..field }
}

fn message(name: &str, fields: Vec<FieldDescriptorProto>) -> DescriptorProto {
    DescriptorProto { name: Some(name.to_owned()), field: fields, ..Default::default() }
}

fn values(names: &[&str]) -> EnumDescriptorProto {
    let value = |(number, name): (i32, &&str)| EnumValueDescriptorProto {
        name: Some((*name).to_owned()),
        number: Some(number),
        options: None,
    };
    let value = (0..).zip(names).map(value).collect();
    EnumDescriptorProto { name: Some("Kind".into()), value, ..Default::default() }
}

fn fields() -> Vec<FieldDescriptorProto> {
    vec![
        field("device", 1, Type::String),
        field("air_celsius", 2, Type::Double),
        field("at", 3, Type::Int64),
        of_type("kind", 4, Type::Enum, ".pkg.Kind"),
        repeated(field("samples", 5, Type::Sint32)),
        repeated(of_type("tags", 6, Type::Message, ".pkg.Reading.TagsEntry")),
        of_type("position", 7, Type::Message, ".pkg.Position"),
        field("raw", 8, Type::Bytes),
        field("alarm", 9, Type::Bool),
    ]
}

/// A file with a message of these fields, and one that it holds.
fn file(fields: Vec<FieldDescriptorProto>, position: Vec<FieldDescriptorProto>, kinds: &[&str]) -> FileDescriptorSet {
    let entry = DescriptorProto {
        options: Some(MessageOptions { map_entry: Some(true), ..Default::default() }),
        ..message("TagsEntry", vec![field("key", 1, Type::String), field("value", 2, Type::String)])
    };
    let reading = DescriptorProto { nested_type: vec![entry], ..message("Reading", fields) };
    let file = FileDescriptorProto {
        name: Some("telemetry.proto".into()),
        package: Some("pkg".into()),
        message_type: vec![reading, message("Position", position)],
        enum_type: vec![values(kinds)],
        syntax: Some("proto3".into()),
        ..Default::default()
    };
    FileDescriptorSet { file: vec![file] }
}

fn position() -> Vec<FieldDescriptorProto> {
    vec![field("lat", 1, Type::Double), field("lon", 2, Type::Double)]
}

fn descriptor_of(set: &FileDescriptorSet) -> Result<ProtoDescriptor> {
    ProtoDescriptor::define(16_400, "telemetry", set.encode_to_vec().into())
}

fn reading() -> ProtoMessage {
    let descriptor = descriptor_of(&file(fields(), position(), &["OTHER", "PHONE"])).unwrap();
    descriptor.message("pkg.Reading", true).unwrap()
}

/// A descriptor with fields that the first one does not know.
fn newer() -> ProtoMessage {
    let fields = [fields(), vec![field("owner", 20, Type::String)]].concat();
    let position = [position(), vec![field("alt", 3, Type::Double)]].concat();
    let descriptor = descriptor_of(&file(fields, position, &["OTHER", "PHONE", "TABLET"])).unwrap();
    descriptor.message("pkg.Reading", true).unwrap()
}

fn shown(message: &ProtoMessage, bytes: &[u8]) -> String {
    match message.decode(bytes) {
        Some(Value::Text(json)) => json,
        other => format!("{other:?}"),
    }
}

fn told<T: fmt::Debug>(result: Result<T>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("{:?}: {error} {}", error.kind(), error.detail.clone().unwrap_or_default()),
    }
}

#[test]
fn a_message_is_its_json() {
    let reading = reading();
    let check = |json: &str, expected: Expect| {
        let written = reading.encode(json).map(|bytes| (bytes.len(), shown(&reading, &bytes)));
        expected.assert_eq(&match written {
            Ok((bytes, json)) => format!("{bytes} {json}"),
            Err(error) => told::<()>(Err(error)),
        });
    };
    check("{}", expect!["0 {}"]);
    check(
        r#"{"device": "a", "airCelsius": 21.5, "at": "9007199254740993", "kind": "PHONE", "samples": [1, -2],
            "tags": {"b": "x", "a": "y"}, "position": {"lat": -1}, "raw": "AAE=", "alarm": true}"#,
        expect![[
            r#"60 {"at": "9007199254740993", "raw": "AAE=", "kind": "PHONE", "tags": {"a": "y", "b": "x"}, "alarm": true, "device": "a", "samples": [1, -2], "position": {"lat": -1.0}, "airCelsius": 21.5}"#
        ]],
    );
    // Names of the file, numbers for texts of numbers and enums, and NULL for what is not there.
    check(
        r#"{"air_celsius": "2.5e1", "at": -7, "kind": 1, "device": null}"#,
        expect![[r#"22 {"at": "-7", "kind": "PHONE", "airCelsius": 25.0}"#]],
    );
    check(r#"{"kind": 77, "airCelsius": "NaN"}"#, expect![[r#"11 {"kind": 77, "airCelsius": "NaN"}"#]]);
    check(
        r#"{"nope": 1}"#,
        expect!["BadValue: invalid JSON for protobuf message pkg.Reading unrecognized field name 'nope'."],
    );
    check(r#"{"at": 1.5}"#, expect!["BadValue: invalid JSON for protobuf message pkg.Reading expected integer value."]);
    check(
        r#"{"samples": [3000000000]}"#,
        expect![
            "BadValue: invalid JSON for protobuf message pkg.Reading out of range integral type conversion attempted."
        ],
    );
    check(
        "[]",
        expect!["BadValue: invalid JSON for protobuf message pkg.Reading invalid type: sequence, expected a map."],
    );
    assert!(reading.decode(b"\x0a\x05ab").is_none(), "a text that is cut");
    assert!(reading.decode(b"\x0a\x01\xff").is_none(), "a text that is no UTF-8");
    assert_eq!(shown(&reading, b"\xa2\x01\x01x"), "{}", "what the descriptor does not know");
}

#[test]
fn some_fields_are_decoded_alone() {
    let reading = reading();
    let bytes = reading
        .encode(r#"{"device": "a", "airCelsius": 21.5, "samples": [1, 2], "position": {"lat": 1}, "tags": {"a": "y"}}"#)
        .unwrap();
    let only = |members: &[&str]| shown(&reading.only(members.iter().copied()).unwrap(), &bytes);
    assert_eq!(only(&["airCelsius"]), r#"{"airCelsius": 21.5}"#);
    assert_eq!(only(&["air_celsius"]), "{}", "it is no name in JSON");
    assert_eq!(only(&["samples", "position", "alarm"]), r#"{"samples": [1, 2], "position": {"lat": 1.0}}"#);
    assert_eq!(only(&[]), "{}");
    assert_eq!(only(&["device", "tags"]), r#"{"tags": {"a": "y"}, "device": "a"}"#);
    assert!(reading.only(["[pkg.extension]"]).is_none());
    // Of other fields nothing is read, but where they end.
    let [first, second] = [b"\x0a\x01\xff".as_slice(), b"\x48\x01"];
    assert!(reading.decode(&[first, second].concat()).is_none());
    assert_eq!(shown(&reading.only(["alarm"]).unwrap(), &[first, second].concat()), r#"{"alarm": true}"#);
    assert!(reading.only(["alarm"]).unwrap().decode(b"\x0a\x05ab").is_none(), "a text that is cut");
}

/// Of the members of a oneof the last one counts, whether it is asked for or not.
#[test]
fn members_of_a_oneof_are_decoded_together() {
    let member = |name, number| FieldDescriptorProto { oneof_index: Some(0), ..field(name, number, Type::Int64) };
    let choice = DescriptorProto {
        oneof_decl: vec![prost_reflect::prost_types::OneofDescriptorProto {
            name: Some("of".into()),
            ..Default::default()
        }],
        ..message("Choice", vec![member("a", 1), member("b", 2), field("c", 3, Type::Int64)])
    };
    let file = FileDescriptorProto {
        name: Some("choice.proto".into()),
        message_type: vec![choice],
        syntax: Some("proto3".into()),
        ..Default::default()
    };
    let choice = descriptor_of(&FileDescriptorSet { file: vec![file] }).unwrap().message("Choice", true).unwrap();
    let bytes = [choice.encode(r#"{"a": 1, "c": 3}"#).unwrap(), choice.encode(r#"{"b": 2}"#).unwrap()].concat();
    assert_eq!(shown(&choice, &bytes), r#"{"b": "2", "c": "3"}"#);
    assert_eq!(shown(&choice.only(["a"]).unwrap(), &bytes), r#"{"b": "2"}"#);
}

#[test]
fn what_a_descriptor_does_not_know_is_kept() {
    let (old, new) = (reading(), newer());
    let stored = r#"{"device": "a", "owner": "ana", "kind": "TABLET", "position": {"lat": 1, "alt": 7}}"#;
    let stored = new.encode(stored).unwrap();
    assert_eq!(shown(&old, &stored), r#"{"kind": 2, "device": "a", "position": {"lat": 1.0}}"#);
    let update = |json: &str| {
        let bytes = old.keep_unknown(old.encode(json).unwrap(), &stored).unwrap();
        shown(&new, &bytes)
    };
    assert_eq!(update(r#"{"position": {"lon": 2}}"#), r#"{"owner": "ana", "position": {"alt": 7.0, "lon": 2.0}}"#);
    assert_eq!(update(r#"{"device": "b"}"#), r#"{"owner": "ana", "device": "b"}"#);
    let none = old.encode(r#"{"alarm": true}"#).unwrap();
    assert_eq!(old.keep_unknown(none.clone(), b"\xff").unwrap(), none, "nothing of bytes that are no message");
    assert_eq!(old.keep_unknown(none.clone(), &none).unwrap(), none);
}

#[test]
fn what_is_no_descriptor_is_refused() {
    let check = |set: FileDescriptorSet, expected: Expect| expected.assert_eq(&told(descriptor_of(&set)));
    let one = |file: FileDescriptorProto| FileDescriptorSet { file: vec![file] };
    let bad = |bytes: &[u8]| told(ProtoDescriptor::define(1, "t", bytes.to_vec().into()));
    expect!["InvalidDescriptor: invalid protobuf descriptor failed to decode Protobuf message: FileDescriptorSet.file: buffer underflow."]
        .assert_eq(&bad(b"\x0a\x07x"));
    expect!["InvalidDescriptor: invalid protobuf descriptor It defines no message."].assert_eq(&bad(b""));
    expect!["TooMuch: a protobuf descriptor has more than 1048576 bytes "].assert_eq(&bad(&vec![
        0;
        DESCRIPTOR_BYTES_MAX
            + 1
    ]));
    let named = |name: &str| FileDescriptorProto { name: Some(name.into()), ..Default::default() };
    check(
        one(FileDescriptorProto { dependency: vec!["other.proto".into()], ..named("a.proto") }),
        expect!["InvalidDescriptor: invalid protobuf descriptor imported file 'other.proto' has not been added."],
    );
    check(
        one(FileDescriptorProto {
            message_type: vec![message("M", vec![of_type("x", 1, Type::Message, ".no.Such")])],
            ..named("a.proto")
        }),
        expect!["InvalidDescriptor: invalid protobuf descriptor name '.no.Such' is not defined."],
    );
    let mut deep = message("M", vec![]);
    for _ in 0..DESCRIPTOR_DEPTH_MAX {
        deep = DescriptorProto { nested_type: vec![deep], ..message("M", vec![]) };
    }
    check(
        one(FileDescriptorProto { message_type: vec![deep], ..named("a.proto") }),
        expect!["TooMuch: a protobuf descriptor has messages that are nested more than 32 deep "],
    );
    let many = (0..=DESCRIPTOR_TYPES_MAX).map(|at| message(&format!("M{at}"), vec![])).collect();
    check(
        one(FileDescriptorProto { message_type: many, ..named("a.proto") }),
        expect!["TooMuch: a protobuf descriptor has more than 10000 messages and enums "],
    );
    let name = ProtoDescriptor::define(1, "a:b", Bytes::new()).unwrap_err();
    assert_eq!(name.kind(), ErrorKind::Invalid);
}

#[test]
fn a_message_is_replaced_by_one_that_reads_the_same() {
    let old = reading();
    let check = |set: &FileDescriptorSet, expected: Expect| {
        expected.assert_eq(&told(old.replaced(&descriptor_of(set).unwrap())));
    };
    let kinds = &["OTHER", "PHONE"];
    let more = [fields(), vec![field("owner", 20, Type::String)]].concat();
    check(&file(more, position(), &["OTHER", "PHONE", "TABLET"]), expect!["ProtoMessage(telemetry:pkg.Reading)"]);
    let less: Vec<_> = fields().into_iter().filter(|field| field.name() != "at").collect();
    let in_use = "InUse: cannot replace descriptor \"telemetry\" because a column uses it";
    let changed = |change: fn(&mut FieldDescriptorProto)| {
        let mut fields = fields();
        change(&mut fields[2]);
        fields
    };
    for (set, why) in [
        (file(less, position(), kinds), "Field pkg.Reading.at is missing."),
        (file(fields(), position()[..1].to_vec(), kinds), "Field pkg.Position.lon is missing."),
        (file(fields(), position(), &["OTHER"]), "Value PHONE of enum pkg.Kind is missing."),
        (
            file(changed(|at| at.r#type = Some(Type::Sint64 as i32)), position(), kinds),
            "Field pkg.Reading.at has another name, type or cardinality.",
        ),
        (
            file(changed(|at| at.name = Some("time".into())), position(), kinds),
            "Field pkg.Reading.at has another name, type or cardinality.",
        ),
        (
            file(changed(|at| at.label = Some(Label::Repeated as i32)), position(), kinds),
            "Field pkg.Reading.at has another name, type or cardinality.",
        ),
    ] {
        assert_eq!(told(old.replaced(&descriptor_of(&set).unwrap())), format!("{in_use} {why}"));
    }
    let other = FileDescriptorProto {
        name: Some("a.proto".into()),
        message_type: vec![message("Other", vec![])],
        ..Default::default()
    };
    let other = descriptor_of(&FileDescriptorSet { file: vec![other] }).unwrap();
    assert_eq!(told(old.replaced(&other)), format!("{in_use} Message pkg.Reading is in use."));
}

#[test]
fn what_the_catalog_keeps_reads_as_it_was() {
    let reading = reading();
    let stored = serde_json::to_string(&reading).unwrap();
    assert!(
        stored.starts_with(r#"{"descriptor":"telemetry","shared":true,"message":"pkg.Reading","files":""#),
        "{stored}"
    );
    let read: ProtoMessage = serde_json::from_str(&stored).unwrap();
    assert_eq!(read, reading);
    assert_eq!(shown(&read, b"\x0a\x01a"), r#"{"device": "a"}"#);
    let descriptor = descriptor_of(&file(fields(), position(), &["OTHER"])).unwrap();
    let read: ProtoDescriptor = serde_json::from_str(&serde_json::to_string(&descriptor).unwrap()).unwrap();
    assert_eq!(read, descriptor);
    assert_eq!(read.messages(), ["pkg.Reading", "pkg.Position"]);
    assert!(read.message("pkg.Reading.TagsEntry", false).is_none(), "a map's entry is no message");
}

#[test]
fn a_message_has_bounds() {
    let reading = reading();
    let long = format!(r#"{{"device": "{}"}}"#, "x".repeat(MESSAGE_BYTES_MAX));
    expect!["TooMuch: a protobuf message of 4194309 bytes is over the limit of 4194304 "]
        .assert_eq(&told(reading.encode(&long)));
    let bytes = [&b"\x0a\x80\x80\x80\x02"[..], &vec![b'x'; MESSAGE_BYTES_MAX]].concat();
    assert!(reading.decode(&bytes).is_none());
    // A message that holds itself, deeper than it could be read back.
    let own = FileDescriptorProto {
        name: Some("a.proto".into()),
        message_type: vec![message("M", vec![of_type("m", 1, Type::Message, ".M")])],
        syntax: Some("proto3".into()),
        ..Default::default()
    };
    let own = descriptor_of(&FileDescriptorSet { file: vec![own] }).unwrap().message("M", false).unwrap();
    let nested = |depth: usize| format!("{}{{}}{}", r#"{"m": "#.repeat(depth), "}".repeat(depth));
    assert!(own.encode(&nested(90)).is_ok());
    expect!["BadValue: invalid JSON for protobuf message M it is nested too deep."]
        .assert_eq(&told(own.encode(&nested(110))));
    assert!(own.encode(&nested(10_000)).is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_a_message_or_none(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        let reading = reading();
        if let Some(Value::Text(json)) = reading.decode(&bytes) {
            let written = reading.encode(&json).unwrap();
            prop_assert_eq!(shown(&reading, &written), json);
        }
    }
}
