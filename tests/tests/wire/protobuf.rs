//! Protobuf: descriptors of operators and tenants, columns that hold messages, and what is no message.

use super::{
    command::keyspan,
    harness::{Harness, OPERATOR_PASSWORD, PASSWORD, error, rows},
};
use anyhow::{Context, Result};
use bytes::Bytes;
use futures::{SinkExt, TryStreamExt};
use keyspan_storage::{Mutation, RowKey, StoreExt};
use prost_reflect::{
    prost::Message,
    prost_types::{
        DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet,
        field_descriptor_proto::{Label, Type},
    },
};
use std::pin::pin;
use tokio_postgres::Client;

fn field(name: &str, number: i32, kind: Type) -> FieldDescriptorProto {
    let (name, label, kind) = (Some(name.to_owned()), Some(Label::Optional as i32), Some(kind as i32));
    FieldDescriptorProto { name, number: Some(number), label, r#type: kind, ..Default::default() }
}

fn message(name: &str, field: Vec<FieldDescriptorProto>) -> DescriptorProto {
    DescriptorProto { name: Some(name.to_owned()), field, ..Default::default() }
}

/// `telemetry.proto` as protoc writes it, for tests of other parts.
pub fn descriptors() -> Vec<u8> {
    telemetry(false)
}

/// `telemetry.proto`, as protoc writes it: a reading of a device, where `more` is what a newer version adds.
fn telemetry(more: bool) -> Vec<u8> {
    let position =
        FieldDescriptorProto { type_name: Some(".pkg.Position".into()), ..field("position", 4, Type::Message) };
    let samples = FieldDescriptorProto { label: Some(Label::Repeated as i32), ..field("samples", 5, Type::Int32) };
    let mut reading = vec![
        field("device", 1, Type::String),
        field("air_celsius", 2, Type::Double),
        field("at", 3, Type::Int64),
        position,
        samples,
    ];
    let mut of_position = vec![field("lat", 1, Type::Double), field("lon", 2, Type::Double)];
    if more {
        reading.push(field("owner", 20, Type::String));
        of_position.push(field("alt", 3, Type::Double));
    }
    set(vec![message("Reading", reading), message("Position", of_position)])
}

fn set(messages: Vec<DescriptorProto>) -> Vec<u8> {
    let file = FileDescriptorProto {
        name: Some("telemetry.proto".into()),
        package: Some("pkg".into()),
        message_type: messages,
        syntax: Some("proto3".into()),
        ..Default::default()
    };
    FileDescriptorSet { file: vec![file] }.encode_to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn create(how: &str, name: &str, files: &[u8]) -> String {
    format!("{how} PROTO DESCRIPTOR {name} AS '\\x{}'", hex(files))
}

/// SQLSTATE, message, detail and hint, those that there are.
async fn told(client: &Client, sql: &str) -> String {
    let Err(error) = client.batch_execute(sql).await else { return "no error".to_owned() };
    let Some(told) = error.as_db_error() else { return format!("{error:?}") };
    let parts = [Some(told.code().code()), Some(told.message()), told.detail(), told.hint()];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" | ")
}

/// A reading that a device with the newer version has sent: of field 20 the descriptor knows nothing.
const SENT: &str = "0a0161 22120900000000000000401900000000000014 40 a20103616e61";

fn sent() -> String {
    SENT.replace(' ', "")
}

#[tokio::test]
async fn a_column_of_messages_is_a_jsonb() -> Result<()> {
    let harness = Harness::start().await?;
    let (alto, operator) = (harness.tenant("alto").await?, harness.operator().await?);
    operator.batch_execute(&create("CREATE", "telemetry", &telemetry(false))).await?;
    operator
        .batch_execute("CREATE TABLE t (k bigint PRIMARY KEY, payload bytea PROTOBUF 'pkg.Reading', n int)")
        .await?;
    alto.batch_execute(
        r#"INSERT INTO t VALUES (1, '{"device": "a", "air_celsius": 21.5, "at": 7, "position": {"lat": 1}}', 1);
           INSERT INTO t (k, n) VALUES (2, 2);
           INSERT INTO t SELECT 3, '{}', 3;"#,
    )
    .await?;
    let json = serde_json::json!({"device": "c", "samples": [1, 2]});
    alto.execute("INSERT INTO t (k, payload) VALUES ($1, $2)", &[&4i64, &json]).await?;
    // What is read is protobuf's own JSON, whatever was written.
    let all = "SELECT k, payload FROM t ORDER BY k";
    let expected = [
        r#"1|{"at": "7", "device": "a", "position": {"lat": 1.0}, "airCelsius": 21.5}"#,
        "2|",
        "3|{}",
        r#"4|{"device": "c", "samples": [1, 2]}"#,
    ];
    for flushed in [false, true] {
        assert_eq!(rows(&alto, all).await?, expected, "{flushed}");
        let fields = "SELECT payload->>'device', (payload->>'airCelsius')::float, payload->'position'->>'lat' FROM t
                      WHERE payload->>'device' < 'b'";
        assert_eq!(rows(&alto, fields).await?, ["a|21.5|1.0"]);
        assert_eq!(rows(&alto, "SELECT k FROM t WHERE payload @> '{\"samples\": [2]}'").await?, ["4"]);
        let explained = async |sql: &str| rows(&alto, &format!("EXPLAIN {sql}")).await;
        let says = |lines: &[String], what: &str| lines.iter().any(|line| line.trim() == what);
        assert!(says(&explained(fields).await?, "Fields: payload: airCelsius, device, position"));
        assert!(says(&explained(all).await?, "Fields: payload: all"));
        let both = "SELECT n, payload->>'at', payload FROM t WHERE k = 1";
        assert_eq!(rows(&alto, both).await?, [format!("1|7|{}", &expected[0][2..])]);
        assert_eq!(rows(&alto, "SELECT count(payload) FROM t WHERE payload ? 'device'").await?, ["2"]);
        assert_eq!(rows(&operator, "SELECT tenant, payload->>'device' FROM t WHERE k = 4").await?, ["alto|c"]);
        harness.engine().flush().await?;
    }
    let types = "SELECT data_type FROM information_schema.columns WHERE table_name = 't' AND column_name = 'payload'";
    assert_eq!(rows(&alto, types).await?, ["jsonb"]);
    let row = alto.query_one("SELECT payload FROM t WHERE k = 4", &[]).await?;
    assert_eq!(row.get::<_, serde_json::Value>(0), json);
    // The cells are messages.
    let functions = r#"SELECT jsonb_to_proto('{"device": "c", "samples": [1, 2]}', 'pkg.Reading')"#;
    assert_eq!(rows(&alto, functions).await?, [r"\x0a01632a020102"]);
    let functions = r"SELECT proto_to_jsonb('\x0a01632a020102', 'telemetry:pkg.Reading')->'samples'->1";
    assert_eq!(rows(&alto, functions).await?, ["2"]);
    assert_eq!(rows(&alto, "SELECT proto_to_jsonb(NULL, 'pkg.Reading')").await?, [""]);
    // RETURNING, UPDATE, upserts and COPY write as INSERT does, and give what is stored.
    let returned = r#"INSERT INTO t (k, payload) VALUES (5, '{"air_celsius": "3"}') RETURNING payload"#;
    assert_eq!(rows(&alto, returned).await?, [r#"{"airCelsius": 3.0}"#]);
    let returned = r#"UPDATE t SET payload = jsonb_set(payload, '{at}', '9') WHERE k = 5 RETURNING payload->>'at'"#;
    assert_eq!(rows(&alto, returned).await?, ["9"]);
    let upsert = r#"INSERT INTO t (k, payload) VALUES (5, '{"device": "e"}'), (6, '{"device": "f"}')
                    ON CONFLICT (k) DO UPDATE SET payload = EXCLUDED.payload"#;
    alto.batch_execute(upsert).await?;
    let sink = alto.copy_in::<_, Bytes>("COPY t (k, payload) FROM STDIN").await?;
    let mut sink = pin!(sink);
    sink.send(Bytes::from_static(b"7\t{\"device\": \"g\", \"air_celsius\": \"1\"}\n")).await?;
    assert_eq!(sink.finish().await?, 1);
    let out: Vec<Bytes> =
        alto.copy_out("COPY (SELECT k, payload FROM t WHERE k >= 5 ORDER BY k) TO STDOUT").await?.try_collect().await?;
    assert_eq!(
        String::from_utf8(out.concat())?,
        "5\t{\"device\": \"e\"}\n6\t{\"device\": \"f\"}\n7\t{\"device\": \"g\", \"airCelsius\": 1.0}\n"
    );
    // Definitions and rows are there after a restart.
    let harness = harness.restart().await?;
    let alto = harness.connect("alto", "alto").await?;
    assert_eq!(rows(&alto, all).await?[..4], expected);
    let known = "SELECT descriptor, message, shared FROM keyspan.proto_messages ORDER BY message";
    assert_eq!(rows(&alto, known).await?, ["telemetry|pkg.Position|t", "telemetry|pkg.Reading|t"]);
    Ok(())
}

#[tokio::test]
async fn what_a_descriptor_does_not_know_outlives_updates() -> Result<()> {
    let harness = Harness::start().await?;
    let alto = harness.tenant("alto").await?;
    alto.batch_execute(&create("CREATE", "telemetry", &telemetry(false))).await?;
    alto.batch_execute("CREATE TABLE t (k bigint PRIMARY KEY, payload bytea PROTOBUF 'pkg.Reading')").await?;
    let insert = format!(r"INSERT INTO t SELECT g, '\x{}'::bytea FROM generate_series(1, 7) g", sent());
    alto.batch_execute(&insert).await?;
    let known = r#"{"device": "a", "position": {"lat": 2.0}}"#;
    assert_eq!(rows(&alto, "SELECT DISTINCT payload FROM t").await?, [known]);
    alto.batch_execute(
        r#"UPDATE t SET payload = '{"device": "b"}' WHERE k = 1;
           UPDATE t SET payload = jsonb_set(payload, '{device}', '"c"') WHERE k IN (2, 3);
           INSERT INTO t VALUES (4, '{"device": "d"}') ON CONFLICT (k) DO UPDATE SET payload = EXCLUDED.payload;
           MERGE INTO t USING (VALUES (5)) AS s (k) ON t.k = s.k WHEN MATCHED THEN UPDATE SET payload = '{}';
           UPDATE t SET payload = '\x0a0178'::bytea WHERE k = 6;
           BEGIN;
           UPDATE t SET payload = '{"device": "f"}' WHERE k = 7;
           UPDATE t SET payload = payload || '{"at": 1}' WHERE k = 7;
           COMMIT;"#,
    )
    .await?;
    // Rows that are rewritten keep it, too.
    alto.batch_execute("ALTER TABLE t ADD COLUMN n int DEFAULT 3, ADD CHECK (payload->>'device' <> 'z')").await?;
    // The newer descriptor shows it.
    alto.batch_execute(&create("CREATE OR REPLACE", "telemetry", &telemetry(true))).await?;
    let expected = [
        r#"1|{"owner": "ana", "device": "b"}"#,
        r#"2|{"owner": "ana", "device": "c", "position": {"alt": 5.0, "lat": 2.0}}"#,
        r#"3|{"owner": "ana", "device": "c", "position": {"alt": 5.0, "lat": 2.0}}"#,
        r#"4|{"owner": "ana", "device": "d"}"#,
        r#"5|{"owner": "ana"}"#,
        r#"6|{"device": "x"}"#,
        r#"7|{"at": "1", "owner": "ana", "device": "f"}"#,
    ];
    assert_eq!(rows(&alto, "SELECT k, payload FROM t ORDER BY k").await?, expected);
    let alt = r#"UPDATE t SET payload = '{"position": {"alt": 3}}' WHERE k = 1 RETURNING payload"#;
    assert_eq!(rows(&alto, alt).await?, [r#"{"position": {"alt": 3.0}}"#], "a known field is not kept");
    Ok(())
}

#[tokio::test]
async fn a_tenant_has_descriptors_of_its_own() -> Result<()> {
    let harness = Harness::start().await?;
    let (alto, operator) = (harness.tenant("alto").await?, harness.operator().await?);
    let other = harness.tenant("altostrat").await?;
    alto.batch_execute(&create("CREATE", "mine", &telemetry(false))).await?;
    alto.batch_execute("CREATE TABLE p (k int PRIMARY KEY)").await?;
    alto.batch_execute("ALTER TABLE p ADD COLUMN payload bytea PROTOBUF 'mine:pkg.Reading' DEFAULT '{\"at\": 5}'")
        .await?;
    alto.batch_execute("INSERT INTO p (k) VALUES (1); ALTER TABLE p ADD CHECK (payload->>'at' <> '6')").await?;
    assert_eq!(rows(&alto, "SELECT * FROM p").await?, [r#"1|{"at": "5"}"#]);
    let refused = error(&alto, r#"INSERT INTO p VALUES (2, '{"at": 6}')"#).await;
    assert!(refused.starts_with("23514 "), "{refused}");
    // Nobody else has it.
    let no = "42704 protobuf message \"pkg.Reading\" does not exist";
    assert_eq!(error(&other, "CREATE TABLE p (k int PRIMARY KEY, v bytea PROTOBUF 'pkg.Reading')").await, no);
    assert_eq!(error(&operator, "CREATE TABLE s (k int PRIMARY KEY, v bytea PROTOBUF 'pkg.Reading')").await, no);
    assert!(rows(&other, "SELECT * FROM keyspan.proto_messages").await?.is_empty());
    // Beside one of the operator's the name says which.
    operator.batch_execute(&create("CREATE", "telemetry", &telemetry(true))).await?;
    assert_eq!(
        told(&alto, "CREATE TABLE q (k int PRIMARY KEY, v bytea PROTOBUF 'pkg.Reading')").await,
        "42P09 | protobuf message \"pkg.Reading\" is ambiguous | \
         Several descriptors have it: mine:pkg.Reading, telemetry:pkg.Reading. | Name one: 'descriptor:message'."
    );
    alto.batch_execute("CREATE TABLE q (k int PRIMARY KEY, v bytea PROTOBUF 'telemetry:pkg.Reading')").await?;
    alto.batch_execute(r#"INSERT INTO q VALUES (1, '{"owner": "ana"}')"#).await?;
    // A copy of the tenant has them, too.
    operator.batch_execute("CREATE DATABASE copy TEMPLATE alto OWNER alto").await?;
    let copy = harness.connect("alto", "copy").await?;
    assert_eq!(rows(&copy, "SELECT * FROM p").await?, [r#"1|{"at": "5"}"#]);
    let own = "SELECT DISTINCT descriptor FROM keyspan.proto_messages WHERE NOT shared";
    assert_eq!(rows(&copy, own).await?, ["mine"]);
    // In use.
    assert_eq!(
        told(&alto, "DROP PROTO DESCRIPTOR mine").await,
        "2BP01 | cannot drop protobuf descriptor mine because other objects depend on it | \
         Column payload of table p depends on it. | Drop the columns that use it first."
    );
    assert_eq!(
        told(&operator, "DROP PROTO DESCRIPTOR telemetry").await,
        "2BP01 | cannot drop protobuf descriptor telemetry because other objects depend on it | \
         Column v of table q depends on it. | Drop the columns that use it first."
    );
    alto.batch_execute("BEGIN; DROP TABLE p; DROP PROTO DESCRIPTOR mine; ROLLBACK").await?;
    assert_eq!(rows(&alto, "SELECT * FROM p").await?, [r#"1|{"at": "5"}"#]);
    alto.batch_execute("ALTER TABLE p DROP COLUMN payload; DROP PROTO DESCRIPTOR mine").await?;
    alto.batch_execute("DROP PROTO DESCRIPTOR IF EXISTS mine").await?;
    assert_eq!(
        told(&alto, "DROP PROTO DESCRIPTOR telemetry").await,
        "42704 | protobuf descriptor \"telemetry\" does not exist | An operator has one of this name."
    );
    // Who may make no tables makes no descriptors, and drops none of others.
    alto.batch_execute(&create("CREATE", "mine", &telemetry(false))).await?;
    operator
        .batch_execute(&format!(
            "CREATE ROLE guest LOGIN PASSWORD '{PASSWORD}'; GRANT CONNECT ON DATABASE alto TO guest"
        ))
        .await?;
    let guest = harness.connect("guest", "alto").await?;
    let refused = error(&guest, &create("CREATE", "other", &telemetry(false))).await;
    assert_eq!(refused, "42501 permission denied for schema public");
    for sql in [create("CREATE OR REPLACE", "mine", &telemetry(true)), "DROP PROTO DESCRIPTOR mine".to_owned()] {
        let refused = error(&guest, &sql).await;
        assert!(refused.starts_with("42501 must be owner of "), "{refused}");
    }
    Ok(())
}

#[tokio::test]
async fn what_is_no_descriptor_and_no_message_is_refused() -> Result<()> {
    let harness = Harness::start().await?;
    let (alto, operator) = (harness.tenant("alto").await?, harness.operator().await?);
    operator.batch_execute(&create("CREATE", "telemetry", &telemetry(false))).await?;
    operator.batch_execute("CREATE TABLE t (k bigint PRIMARY KEY, payload bytea PROTOBUF 'pkg.Reading')").await?;
    let protoc = "protoc --include_imports --descriptor_set_out=FILE writes a FileDescriptorSet.";
    let lacks = FileDescriptorProto {
        name: Some("a.proto".into()),
        dependency: vec!["google/protobuf/timestamp.proto".into()],
        message_type: vec![message("M", vec![])],
        ..Default::default()
    };
    let lacks = FileDescriptorSet { file: vec![lacks] }.encode_to_vec();
    let retyped = set(vec![message("Reading", vec![field("device", 1, Type::Bytes)])]);
    for (sql, expected) in [
        (
            create("CREATE", "x", b"\x0a\x07x"),
            format!(
                "42P17 | invalid protobuf descriptor | \
                 failed to decode Protobuf message: FileDescriptorSet.file: buffer underflow. | {protoc}"
            ),
        ),
        (
            create("CREATE", "x", &lacks),
            format!(
                "42P17 | invalid protobuf descriptor | \
                 imported file 'google/protobuf/timestamp.proto' has not been added. | {protoc}"
            ),
        ),
        (
            create("CREATE", "x", b""),
            format!("42P17 | invalid protobuf descriptor | It defines no message. | {protoc}"),
        ),
        (
            create("CREATE", "x", &vec![0; (1 << 20) + 1]),
            "54000 | a protobuf descriptor has more than 1048576 bytes | protoc writes no source information unless \
             --include_source_info asks for it; leave out what no column uses."
                .to_owned(),
        ),
        (
            create("CREATE", "telemetry", &telemetry(true)),
            "42710 | protobuf descriptor \"telemetry\" already exists | CREATE OR REPLACE takes its place.".to_owned(),
        ),
        (
            create("CREATE OR REPLACE", "telemetry", &retyped),
            "2BP01 | cannot replace descriptor \"telemetry\" because a column uses it | \
             Field pkg.Reading.device has another name, type or cardinality. Column payload of table t uses it. | \
             Fields and enum values may be added; create a descriptor of another name for other changes."
                .to_owned(),
        ),
        (
            "CREATE TABLE u (k int PRIMARY KEY, v bytea PROTOBUF 'Reading')".to_owned(),
            "42704 | protobuf message \"Reading\" does not exist | Name it with its package, as in 'pkg.Message'. \
             CREATE PROTO DESCRIPTOR makes messages known."
                .to_owned(),
        ),
        (
            "CREATE TABLE u (k int PRIMARY KEY, v bytea PROTOBUF 'nope:pkg.Reading')".to_owned(),
            "42704 | protobuf descriptor \"nope\" does not exist".to_owned(),
        ),
        (
            "CREATE TABLE u (k int PRIMARY KEY, v text PROTOBUF 'pkg.Reading')".to_owned(),
            "42P16 | column \"v\" of type text cannot be PROTOBUF | \
             Declare it bytea PROTOBUF 'message'; SQL sees a jsonb."
                .to_owned(),
        ),
        ("DROP PROTO DESCRIPTOR nope".to_owned(), "42704 | protobuf descriptor \"nope\" does not exist".to_owned()),
        (
            "CREATE PROTO DESCRIPTOR x AS '\\xabc'".to_owned(),
            "22P02 | invalid input syntax for type bytea: \"\\xabc\"".to_owned(),
        ),
    ] {
        let found = told(&operator, &sql).await;
        assert!(found == expected, "{}\n{found}\n{expected}", &sql[..sql.len().min(200)]);
    }
    let key = told(&operator, "CREATE TABLE u (v bytea PROTOBUF 'pkg.Reading' PRIMARY KEY)").await;
    assert!(key.starts_with("0A000 | column \"v\" cannot be part of the primary key"), "{key}");
    for (value, expected) in [
        (r#"'{"nope": 1}'"#, "22P02 | invalid JSON for protobuf message pkg.Reading | unrecognized field name 'nope'."),
        (r#"'{"at": 1.5}'"#, "22P02 | invalid JSON for protobuf message pkg.Reading | expected integer value."),
        ("'[]'", "22P02 | invalid JSON for protobuf message pkg.Reading | invalid type: sequence, expected a map."),
        (r"'\x0a05'::bytea", "22P02 | invalid bytes for protobuf message pkg.Reading"),
        ("1", "42804"),
    ] {
        for sql in [
            format!("INSERT INTO t VALUES (1, {value})"),
            format!("INSERT INTO t SELECT 1, {value}"),
            format!("INSERT INTO t VALUES (2, '{{}}'); UPDATE t SET payload = {value} WHERE k = 2"),
        ] {
            let found = told(&alto, &sql).await;
            assert!(found.starts_with(expected), "{sql}: {found}");
        }
        alto.batch_execute("DELETE FROM t").await?;
    }
    for (call, expected) in [
        (r"proto_to_jsonb('\x0a05', 'pkg.Reading')", "22P02 | invalid bytes for protobuf message pkg.Reading"),
        (r"proto_to_jsonb('\x', 'pkg.Nope')", "42704 | protobuf message \"pkg.Nope\" does not exist"),
        (r#"jsonb_to_proto('{"at": "x"}', 'pkg.Reading')"#, "22P02 | invalid JSON for protobuf message pkg.Reading"),
    ] {
        let found = told(&alto, &format!("SELECT {call}")).await;
        assert!(found.starts_with(expected), "{call}: {found}");
    }
    Ok(())
}

/// Bytes that others have written, and that are no such message, are what the table's policy says.
#[tokio::test]
async fn bytes_of_another_message_follow_the_policy_of_the_table() -> Result<()> {
    let harness = Harness::start().await?;
    let (alto, operator) = (harness.tenant("alto").await?, harness.operator().await?);
    operator.batch_execute(&create("CREATE", "telemetry", &telemetry(false))).await?;
    operator.batch_execute("CREATE TABLE t (k text PRIMARY KEY, payload bytea PROTOBUF 'pkg.Reading')").await?;
    alto.batch_execute(r#"INSERT INTO t VALUES ('a', '{"device": "a"}'), ('b', '{"device": "b"}')"#).await?;
    let store = harness.instance().catalog.store().clone();
    let table = harness.instance().catalog.snapshot().table("t").context("the table")?.physical.clone();
    let family = keyspan_storage::FamilyName::new("cf")?;
    let value = Bytes::from_static(b"\x0a\x05no");
    let bad = Mutation::SetCell { family, qualifier: Bytes::from_static(b"payload"), timestamp: None, value };
    store.mutate_row(&table, RowKey::new("alto#b")?, vec![bad]).await?;
    let read = "SELECT k, payload FROM t ORDER BY k";
    for flushed in [false, true] {
        let found = told(&alto, read).await;
        assert!(found.contains("stored value is no protobuf message pkg.Reading"), "{flushed}: {found}");
        assert!(found.contains("on_bad_value"), "{flushed}: {found}");
        harness.engine().flush().await?;
    }
    operator.batch_execute("ALTER TABLE t SET (on_bad_value = 'null')").await?;
    assert_eq!(rows(&alto, read).await?, [r#"a|{"device": "a"}"#, "b|"]);
    // It can be overwritten; nothing of it is kept.
    alto.batch_execute(r#"UPDATE t SET payload = '{"at": 2}' WHERE k = 'b'"#).await?;
    assert_eq!(rows(&alto, read).await?, [r#"a|{"device": "a"}"#, r#"b|{"at": "2"}"#]);
    Ok(())
}

#[tokio::test]
async fn the_program_imports_a_file() -> Result<()> {
    let harness = Harness::start().await?;
    let alto = harness.tenant("alto").await?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("telemetry.pb");
    std::fs::write(&file, telemetry(false))?;
    let import = async |password: &str, arguments: &[&str]| -> Result<String> {
        let mut command = keyspan();
        command.args(["proto", "import"]).arg(&file).args(["--server", &harness.address().to_string()]);
        let output = command.args(arguments).env("KEYSPAN_PASSWORD", password).output().await?;
        let told = [output.stdout, output.stderr].concat();
        let told = String::from_utf8(told)?.replace(&file.display().to_string(), "FILE");
        Ok(format!("{:?} {}", output.status.code(), told.trim_end()))
    };
    assert_eq!(
        import(OPERATOR_PASSWORD, &[]).await?,
        "Some(0) imported FILE as protobuf descriptor telemetry of database keyspan"
    );
    assert_eq!(
        import(OPERATOR_PASSWORD, &[]).await?,
        "Some(1) keyspan: cannot import FILE: protobuf descriptor \"telemetry\" already exists: CREATE OR REPLACE takes its place."
    );
    std::fs::write(&file, telemetry(true))?;
    assert_eq!(
        import(OPERATOR_PASSWORD, &["--replace"]).await?,
        "Some(0) imported FILE as protobuf descriptor telemetry of database keyspan"
    );
    assert_eq!(
        import(PASSWORD, &["--user", "alto", "--database", "alto", "--name", "mine"]).await?,
        "Some(0) imported FILE as protobuf descriptor mine of database alto"
    );
    let own = "SELECT descriptor, shared FROM keyspan.proto_messages WHERE message = 'pkg.Reading' ORDER BY descriptor";
    assert_eq!(rows(&alto, own).await?, ["mine|f", "telemetry|t"]);
    std::fs::write(&file, b"no descriptor")?;
    let refused = import(OPERATOR_PASSWORD, &["--name", "x"]).await?;
    assert!(refused.starts_with("Some(1) keyspan: cannot import FILE: invalid protobuf descriptor: "), "{refused}");
    Ok(())
}
