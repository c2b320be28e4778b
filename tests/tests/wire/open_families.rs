//! Open families: columns that nobody declared, as one jsonb column, and as columns of their own.

mod columnar;
mod properties;
mod pushed;

use super::harness::{Harness, error, rows};
use anyhow::{Context, Result};
use futures::{SinkExt, TryStreamExt};
use keyspan_storage::{Commit, FamilyName, KeyRange, Mutation, Row, RowKey, Scan, Store};
use serde_json::json;
use std::pin::pin;
use tokio_postgres::{Client, types::Json};

/// A table with an open family, a closed one, and a tenant's client.
async fn start(options: &str) -> Result<(Harness, Client, Client)> {
    let harness = Harness::start().await?;
    let operator = harness.operator().await?;
    let create = "CREATE TABLE t (id text PRIMARY KEY, name text, FAMILY m (name), FAMILY props OPEN)";
    operator.batch_execute(&format!("{create} {options}")).await?;
    let client = harness.tenant("one").await?;
    Ok((harness, operator, client))
}

/// A row as the store has it, or an empty one.
async fn stored(harness: &Harness, key: &str) -> Result<Vec<(String, Vec<u8>)>> {
    let table = harness.instance().catalog.snapshot().table("t").context("the table")?.physical.clone();
    let key = RowKey::new(format!("one#{key}"))?;
    let rows: Vec<Row> = harness
        .engine()
        .scan(&table, Scan { versions_max: Some(1), ..Scan::of(KeyRange::point(&key)) })
        .try_concat()
        .await?;
    let props = FamilyName::new("props")?;
    let cells = rows.into_iter().flat_map(|row| row.cells).filter(|cell| cell.family == props);
    Ok(cells.map(|cell| (cell.qualifier.escape_ascii().to_string(), cell.value.to_vec())).collect())
}

fn cells(expected: &[(&str, &str)]) -> Vec<(String, Vec<u8>)> {
    expected.iter().map(|(qualifier, value)| ((*qualifier).to_owned(), value.as_bytes().to_vec())).collect()
}

/// Writes a cell as another client of the store would.
async fn put(harness: &Harness, key: &str, qualifier: &[u8], value: &[u8]) -> Result<()> {
    let table = harness.instance().catalog.snapshot().table("t").context("the table")?.physical.clone();
    let family = FamilyName::new("props")?;
    let (qualifier, value) = (qualifier.to_vec().into(), value.to_vec().into());
    let set = Mutation::SetCell { family, qualifier, timestamp: None, value };
    harness.engine().commit(Commit::row(table, RowKey::new(format!("one#{key}"))?, vec![set])).await?;
    Ok(())
}

#[tokio::test]
async fn a_map_is_written_and_read_as_cells() -> Result<()> {
    let (harness, _operator, client) = start("").await?;
    let insert = r#"INSERT INTO t (id, props) VALUES ('a', '{"fan_rpm": 7, "b": "x", "c": [1, {"d": null}], "e": null}'), ('b', '{}'), ('c', NULL)"#;
    client.batch_execute(insert).await?;
    client.batch_execute("INSERT INTO t (id, name) VALUES ('d', 'no map')").await?;
    let all = rows(&client, "SELECT id, name, props FROM t ORDER BY id").await?;
    let a = r#"{"b": "x", "c": [1, {"d": null}], "e": null, "fan_rpm": 7}"#;
    assert_eq!(all, [format!("a||{a}"), "b||{}".into(), "c||{}".into(), "d|no map|{}".into()]);
    assert_eq!(rows(&client, "SELECT props FROM t WHERE id = 'a'").await?, [a], "by the whole key");
    assert_eq!(rows(&client, "SELECT * FROM t WHERE id = 'd'").await?, ["d|no map|{}"]);
    let expected = [("b", "\"x\""), ("c", "[1, {\"d\": null}]"), ("e", "null"), ("fan_rpm", "7")];
    assert_eq!(stored(&harness, "a").await?, cells(&expected));
    assert!(stored(&harness, "b").await?.is_empty());
    let types =
        "SELECT pg_typeof(props), props->'fan_rpm', props->>'b', props ? 'e', props ? 'f' FROM t WHERE id = 'a'";
    assert_eq!(rows(&client, types).await?, ["jsonb|7|x|t|f"]);
    let never = "SELECT count(*) FROM t WHERE props IS NULL OR (props ? 'x') IS NULL";
    assert_eq!(rows(&client, never).await?, ["0"]);
    Ok(())
}

#[tokio::test]
async fn parts_of_a_map_are_written_without_the_others() -> Result<()> {
    let (harness, _operator, client) = start("WITH (props.max_versions = 9)").await?;
    client.batch_execute(r#"INSERT INTO t (id, props) VALUES ('a', '{"a": 1, "b": 2}')"#).await?;
    // Cells that SQL cannot read stay, and are not in the way.
    put(&harness, "a", b"bad", b"no JSON").await?;
    let versions =
        "SELECT qualifier, count(*) FROM cells('t') WHERE family = 'props' GROUP BY qualifier ORDER BY qualifier";
    client.batch_execute("UPDATE t SET props['fan_rpm'] = '7' WHERE id = 'a'").await?;
    client.batch_execute(r#"UPDATE t SET props = props || '{"b": 3, "c": {"d": 1}}' WHERE id = 'a'"#).await?;
    client.batch_execute("UPDATE t AS u SET props = u.props - 'a', name = 'n' WHERE id = 'a'").await?;
    let expected = [("b", "3"), ("bad", "no JSON"), ("c", "{\"d\": 1}"), ("fan_rpm", "7")];
    assert_eq!(stored(&harness, "a").await?, cells(&expected));
    assert_eq!(rows(&client, versions).await?, ["b|2", "bad|1", "c|1", "fan_rpm|1"]);
    assert!(error(&client, "SELECT props FROM t").await.starts_with("22P02 invalid stored value in column \"props\""));
    assert_eq!(rows(&client, "SELECT props->>'b' FROM t").await?, ["3"], "other cells are not read");
    client.batch_execute("UPDATE t SET props = props - ARRAY['bad', 'b', 'none'] WHERE id = 'a'").await?;
    assert_eq!(rows(&client, "SELECT name, props FROM t").await?, [r#"n|{"c": {"d": 1}, "fan_rpm": 7}"#]);
    // Several parts at once, in their order; NULL is JSON's null, as PostgreSQL has it.
    client.batch_execute("UPDATE t SET props['x'] = '1', props['y'] = NULL, props['x'] = '2' WHERE id = 'a'").await?;
    client.batch_execute(r#"UPDATE t SET props = (props - 'c' || '{"z": 1}') - 'z'::text WHERE id = 'a'"#).await?;
    assert_eq!(rows(&client, "SELECT props FROM t").await?, [r#"{"x": 2, "y": null, "fan_rpm": 7}"#]);
    // A whole map deletes what it lacks, and keeps the versions of what it has.
    client.batch_execute(r#"UPDATE t SET props = '{"x": 3, "w": 4}' WHERE id = 'a'"#).await?;
    assert_eq!(stored(&harness, "a").await?, cells(&[("w", "4"), ("x", "3")]));
    assert_eq!(rows(&client, versions).await?, ["w|1", "x|2"]);
    client.batch_execute("UPDATE t SET props = jsonb_set(props, '{w}', '5') WHERE props->>'x' = '3'").await?;
    assert_eq!(rows(&client, "SELECT props FROM t").await?, [r#"{"w": 5, "x": 3}"#]);
    client.batch_execute("UPDATE t SET props = NULL").await?;
    assert_eq!(rows(&client, "SELECT name, props FROM t").await?, ["n|{}"]);
    Ok(())
}

#[tokio::test]
async fn parameters_returning_upserts_and_merge() -> Result<()> {
    let (harness, _operator, client) = start("").await?;
    let insert = "INSERT INTO t (id, props) VALUES ($1, $2) RETURNING props, id";
    let returned = client.query_one(insert, &[&"a", &Json(json!({"b": "x", "a": 1}))]).await?;
    assert_eq!(returned.get::<_, serde_json::Value>(0), json!({"a": 1, "b": "x"}));
    let set = client.prepare("UPDATE t SET props[$1] = $2 WHERE id = $3 RETURNING props->>'c', props").await?;
    let changed = client.query_one(&set, &[&"c", &Json(json!("z")), &"a"]).await?;
    assert_eq!(changed.get::<_, String>(0), "z");
    assert_eq!(changed.get::<_, serde_json::Value>(1), json!({"a": 1, "b": "x", "c": "z"}));
    client.execute("UPDATE t SET props = props - $1 WHERE id = $2", &[&"b", &"a"]).await?;
    client.execute("UPDATE t SET props = props || $1 WHERE id = 'a'", &[&Json(json!({"d": 4}))]).await?;
    assert_eq!(rows(&client, "SELECT props FROM t").await?, [r#"{"a": 1, "c": "z", "d": 4}"#]);

    let merge = "INSERT INTO t (id, props) VALUES ('a', '{\"d\": 5}'), ('n', '{\"q\": 1}') \
                 ON CONFLICT (id) DO UPDATE SET props = t.props || EXCLUDED.props";
    client.batch_execute(merge).await?;
    assert_eq!(
        rows(&client, "SELECT id, props FROM t ORDER BY id").await?,
        [r#"a|{"a": 1, "c": "z", "d": 5}"#, r#"n|{"q": 1}"#]
    );
    let whole =
        "INSERT INTO t (id, props) VALUES ('a', '{\"e\": 6}') ON CONFLICT (id) DO UPDATE SET props = EXCLUDED.props";
    client.batch_execute(whole).await?;
    assert_eq!(stored(&harness, "a").await?, cells(&[("e", "6")]));
    let part = "INSERT INTO t VALUES ('a') ON CONFLICT (id) DO UPDATE SET props['f'] = '7' WHERE t.props ? 'e' RETURNING props";
    assert_eq!(rows(&client, part).await?, [r#"{"e": 6, "f": 7}"#]);

    let merge = "MERGE INTO t USING (VALUES ('a', '{\"g\": 8}'::jsonb), ('m', '{\"h\": 9}')) AS s (k, v) ON t.id = s.k \
                 WHEN MATCHED THEN UPDATE SET props = t.props || s.v - 'e' \
                 WHEN NOT MATCHED THEN INSERT (id, props) VALUES (k, v)";
    client.batch_execute(merge).await?;
    assert_eq!(
        rows(&client, "SELECT id, props FROM t ORDER BY id").await?,
        [r#"a|{"e": 6, "f": 7, "g": 8}"#, r#"m|{"h": 9}"#, r#"n|{"q": 1}"#]
    );
    // Own writes are seen before the commit.
    client
        .batch_execute(
            "BEGIN; UPDATE t SET props['i'] = '1' WHERE id = 'a'; UPDATE t SET props['j'] = '2' WHERE id = 'a'",
        )
        .await?;
    assert_eq!(
        rows(&client, "SELECT props - 'g' FROM t WHERE id = 'a'").await?,
        [r#"{"e": 6, "f": 7, "i": 1, "j": 2}"#]
    );
    client.batch_execute("ROLLBACK; DELETE FROM t WHERE props ? 'h'").await?;
    assert_eq!(
        rows(&client, "SELECT id, props FROM t ORDER BY id").await?,
        [r#"a|{"e": 6, "f": 7, "g": 8}"#, r#"n|{"q": 1}"#]
    );
    Ok(())
}

#[tokio::test]
async fn encodings_and_qualifiers_that_are_no_text() -> Result<()> {
    let (harness, operator, client) = start("WITH (props.encoding = text)").await?;
    client
        .batch_execute(
            r#"INSERT INTO t (id, props) VALUES ('a', '{"n": 7, "t": true, "s": "x y", "o": {"b": 1, "a": []}}')"#,
        )
        .await?;
    put(&harness, "a", b"other", b"as it came").await?;
    put(&harness, "a", &[0xff, 0], b"bytes").await?;
    put(&harness, "a", b"\\xab", b"looks escaped").await?;
    let expected = r#"{"n": "7", "o": "{\"a\": [], \"b\": 1}", "s": "x y", "t": "true", "other": "as it came", "\\xff00": "bytes", "\\x5c786162": "looks escaped"}"#;
    assert_eq!(rows(&client, "SELECT props FROM t").await?, [expected]);
    assert_eq!(
        rows(&client, r"SELECT props->>'\xff00', props->>'\x5c786162', props->>'\xab' FROM t").await?,
        ["bytes|looks escaped|"]
    );
    client
        .batch_execute(r#"UPDATE t SET props['\xff00'] = '"new"'; UPDATE t SET props = props - '\x5c786162'"#)
        .await?;
    let kept = [
        ("n", "7"),
        ("o", "{\"a\": [], \"b\": 1}"),
        ("other", "as it came"),
        ("s", "x y"),
        ("t", "true"),
        ("\\xff\\x00", "new"),
    ];
    assert_eq!(stored(&harness, "a").await?, cells(&kept));
    let shown = "INSERT INTO t (id, props) VALUES ('b', '{\"n\": 1.50}') RETURNING props";
    assert_eq!(rows(&client, shown).await?, [r#"{"n": "1.50"}"#]);
    assert_eq!(
        error(&client, "UPDATE t SET props['x'] = 'null'").await,
        "22023 JSON null has no form in the encoding of \"x\""
    );

    operator.batch_execute("ALTER TABLE t ADD FAMILY bytes OPEN WITH (encoding = binary, max_versions = 2)").await?;
    client.batch_execute(r#"UPDATE t SET bytes = '{"k": "\\x00ff"}' WHERE id = 'b'"#).await?;
    assert_eq!(
        rows(&client, "SELECT bytes, decode(substr(bytes->>'k', 3), 'hex') FROM t WHERE id = 'b'").await?,
        [r#"{"k": "\\x00ff"}|\x00ff"#]
    );
    assert_eq!(
        error(&client, "UPDATE t SET bytes['k'] = '7'").await,
        "22023 a JSON number has no form in the encoding of \"k\""
    );
    operator.batch_execute("ALTER TABLE t SET (on_bad_value = null)").await?;
    put(&harness, "b", b"bad", &[0xff]).await?;
    assert_eq!(rows(&client, "SELECT props FROM t WHERE id = 'b'").await?, [r#"{"n": "1.50", "bad": null}"#]);
    Ok(())
}

#[tokio::test]
async fn a_declared_column_leaves_the_map() -> Result<()> {
    let (harness, operator, client) = start("").await?;
    client.batch_execute(r#"INSERT INTO t (id, props) VALUES ('a', '{"fan_rpm": 7, "fan-rpm": 8, "x": 1}')"#).await?;
    operator.batch_execute("ALTER TABLE t ADD COLUMN fan_rpm int FAMILY props").await?;
    assert_eq!(rows(&client, "SELECT fan_rpm, props FROM t").await?, [r#"7|{"x": 1, "fan-rpm": 8}"#]);
    operator
        .batch_execute("ALTER TABLE t ADD COLUMN dashed text FAMILY props QUALIFIER 'fan-rpm' ENCODING text")
        .await?;
    assert_eq!(rows(&client, "SELECT * FROM t").await?, [r#"a||{"x": 1}|7|8"#]);
    client.batch_execute("UPDATE t SET fan_rpm = 9, props = '{\"y\": 2}', dashed = 'z'").await?;
    assert_eq!(stored(&harness, "a").await?, cells(&[("fan-rpm", "z"), ("fan_rpm", "9"), ("y", "2")]));
    client
        .batch_execute(
            "INSERT INTO t (id, fan_rpm, props) VALUES ('a', 1, '{}') ON CONFLICT (id) DO UPDATE SET props = '{}'",
        )
        .await?;
    assert_eq!(rows(&client, "SELECT * FROM t").await?, ["a||{}|9|z"]);

    for (key, column) in [("fan_rpm", "fan_rpm"), ("fan-rpm", "dashed")] {
        let refused = [
            format!("INSERT INTO t (id, props) VALUES ('b', '{{\"{key}\": 1}}')"),
            format!("UPDATE t SET props['{key}'] = '1'"),
            format!("UPDATE t SET props = '{{\"{key}\": 1}}'"),
            format!(
                "INSERT INTO t (id, props) VALUES ('a', '{{\"{key}\": 1}}') ON CONFLICT (id) DO UPDATE SET props = t.props || EXCLUDED.props"
            ),
        ];
        for sql in refused {
            let message = format!("22023 key \"{key}\" of open family \"props\" is a declared column");
            assert_eq!(error(&client, &sql).await, message, "{sql}");
            let hint = client.batch_execute(&sql).await.unwrap_err();
            let hint = hint.as_db_error().and_then(|error| error.hint().map(str::to_owned));
            assert_eq!(hint, Some(format!("Give the value to column \"{column}\".")));
        }
    }
    assert_eq!(rows(&client, "SELECT count(*) FROM t").await?, ["1"], "nothing half-written");

    operator.batch_execute("ALTER TABLE t RENAME COLUMN fan_rpm TO rpm").await?;
    assert_eq!(rows(&client, "SELECT rpm, props ? 'fan_rpm' FROM t").await?, ["9|f"]);
    operator.batch_execute("ALTER TABLE t DROP COLUMN rpm").await?;
    assert_eq!(rows(&client, "SELECT * FROM t").await?, ["a||{}|z"], "a dropped column's cells do not come back");
    assert_eq!(
        error(&client, "UPDATE t SET props['fan_rpm'] = '1'").await,
        "22023 key \"fan_rpm\" of open family \"props\" was a declared column"
    );
    operator.batch_execute("ALTER TABLE t ADD COLUMN fan_rpm int FAMILY props").await?;
    assert_eq!(rows(&client, "SELECT * FROM t").await?, ["a||{}|z|"]);
    Ok(())
}

#[tokio::test]
async fn qualifiers_and_encodings_of_closed_families() -> Result<()> {
    let (harness, operator, client) = start("").await?;
    operator
        .batch_execute(
            "CREATE TABLE u (id int PRIMARY KEY, a int QUALIFIER 'x-a' ENCODING text, b int FAMILY n, \
             c date FAMILY n ENCODING json NOT NULL, FAMILY n ())",
        )
        .await
        .unwrap_err();
    operator
        .batch_execute(
            "CREATE TABLE u (id int PRIMARY KEY, a int FAMILY n QUALIFIER 'x-a' ENCODING text, b int FAMILY n, \
             c date NOT NULL FAMILY n ENCODING json, FAMILY o OPEN)",
        )
        .await?;
    client.batch_execute("INSERT INTO u VALUES (1, 20, 3, '2024-02-29', '{\"k\": 1}')").await?;
    let raw = "SELECT family, qualifier, bytes FROM cells('u') ORDER BY family, qualifier";
    let expected = ["n|b|\\x00000003", "n|c|\\x22323032342d30322d323922", "n|x-a|\\x3230", "o|k|\\x31"];
    assert_eq!(rows(&client, raw).await?, expected);
    assert_eq!(rows(&client, "SELECT * FROM u WHERE a = 20").await?, [r#"1|20|3|2024-02-29|{"k": 1}"#]);
    assert_eq!(
        error(&operator, "ALTER TABLE u ADD COLUMN d int FAMILY n QUALIFIER 'x-a'").await,
        "42701 qualifier \"x-a\" of family \"n\" is that of column \"a\""
    );
    operator.batch_execute("ALTER TABLE u DROP COLUMN a").await?;
    assert_eq!(
        error(&operator, "ALTER TABLE u ADD COLUMN d int FAMILY n QUALIFIER 'x-a'").await,
        "2BP01 qualifier \"x-a\" of family \"n\" is that of a dropped column"
    );
    assert_eq!(
        error(&operator, "ALTER TABLE u ADD COLUMN d int FAMILY n ENCODING hex").await,
        "22023 unrecognized encoding \"hex\" of column \"d\""
    );
    let long = "q".repeat((16 << 10) + 1);
    let refused = error(&operator, &format!("ALTER TABLE u ADD COLUMN d int FAMILY n QUALIFIER '{long}'")).await;
    assert_eq!(refused, "42P16 the qualifier of column \"d\" has 16385 bytes");
    drop(harness);
    Ok(())
}

#[tokio::test]
async fn definitions_of_open_families() -> Result<()> {
    let (_harness, operator, client) = start("").await?;
    assert_eq!(
        error(&operator, "CREATE TABLE v (id int PRIMARY KEY, a int, FAMILY a (a) OPEN)").await,
        "42701 column \"a\" of relation \"v\" already exists"
    );
    assert_eq!(
        error(&operator, "ALTER TABLE t ADD FAMILY name OPEN").await,
        "42701 column \"name\" of relation \"t\" already exists"
    );
    assert_eq!(
        error(&operator, "CREATE TABLE v (id int PRIMARY KEY, FAMILY s OPEN) WITH (s.aggregate = sum)").await,
        "42P16 aggregate family \"s\" cannot be open"
    );
    assert_eq!(error(&client, "CREATE TABLE v (id int PRIMARY KEY, FAMILY s OPEN)").await.get(..5), Some("0A000"));
    let refused = error(&client, "CREATE TABLE v (id int PRIMARY KEY, a int ENCODING text)").await;
    assert_eq!(refused.get(..5), Some("0A000"), "{refused}");
    assert_eq!(
        error(&operator, "ALTER TABLE t DROP COLUMN props").await,
        "2BP01 cannot drop column \"props\" because it shows the open family \"props\""
    );
    assert_eq!(error(&operator, "ALTER TABLE t ALTER COLUMN props TYPE text").await.get(..5), Some("0A000"));
    client.batch_execute(r#"INSERT INTO t (id, props) VALUES ('a', '{"x": 1}')"#).await?;
    operator.batch_execute("ALTER TABLE t RENAME COLUMN props TO p").await?;
    assert_eq!(rows(&client, "SELECT p FROM t").await?, [r#"{"x": 1}"#]);
    operator.batch_execute("ALTER TABLE t DROP FAMILY props").await?;
    assert_eq!(rows(&client, "SELECT * FROM t").await?, ["a|"]);
    operator.batch_execute("ALTER TABLE t ADD FAMILY props OPEN").await?;
    assert_eq!(rows(&client, "SELECT * FROM t").await?, ["a||{}"], "a family of that name is a new one");
    operator.batch_execute("ALTER TABLE t ADD COLUMN x int FAMILY props QUALIFIER 'x-1' ENCODING text").await?;
    let made = rows(&operator, "SHOW CREATE TABLE t").await?.concat();
    assert!(
        made.contains("FAMILY props (x) OPEN") && made.contains("x integer QUALIFIER 'x-1' ENCODING text"),
        "{made}"
    );
    operator.batch_execute("ALTER TABLE t RENAME TO before").await?;
    operator
        .batch_execute(made.split_once("CREATE").map_or("", |(_, made)| made).replacen("", "CREATE", 1).as_str())
        .await?;
    client.batch_execute(r#"INSERT INTO t (id, x, props) VALUES ('a', 5, '{"y": 1}')"#).await?;
    let family = "SELECT qualifier, bytes FROM cells('t') WHERE family = 'props' ORDER BY qualifier";
    assert_eq!(rows(&client, family).await?, ["x-1|\\x35", "y|\\x31"]);
    assert_eq!(rows(&operator, "SELECT count(*) FROM keyspan.columns WHERE column_name = 'props'").await?, ["2"]);
    let time = error(&client, "SELECT cell_time(props) FROM t").await;
    assert_eq!(time, "42809 column \"props\" shows an open family and has many cells");
    Ok(())
}

#[tokio::test]
async fn what_an_open_family_does_not_take() -> Result<()> {
    let (_harness, _operator, client) = start("").await?;
    client.batch_execute(r#"INSERT INTO t (id, props) VALUES ('a', '{"x": 1}')"#).await?;
    let check = async |sql: &str, expected: &str| {
        assert_eq!(error(&client, sql).await, expected, "{sql}");
        let told = client.batch_execute(sql).await.unwrap_err();
        let told = told.as_db_error().expect("an error of the server");
        assert!(told.hint().is_some() || told.detail().is_some(), "{sql}: {told:?}");
    };
    check("INSERT INTO t (id, props) VALUES ('b', '[1]')", "22023 a JSON array is not a map of columns").await;
    check("UPDATE t SET props = props || '7'", "22023 a JSON number is not a map of columns").await;
    check("UPDATE t SET props = props || NULL", "22004 the operand of || for open family \"props\" must not be null")
        .await;
    check(
        "UPDATE t SET props = props - NULL::text",
        "22004 the operand of - for open family \"props\" must not be null",
    )
    .await;
    check("UPDATE t SET props['x'] = 'no json'", "22P02 invalid input syntax for type json").await;
    check(r"UPDATE t SET props['\xFF'] = '1'", "22023 \"\\xFF\" is not a qualifier").await;
    check(r"UPDATE t SET props['\x61'] = '1'", "22023 \"\\x61\" is not a qualifier").await;
    let long = "q".repeat((16 << 10) + 1);
    check(&format!("UPDATE t SET props['{long}'] = '1'"), "54000 a qualifier of 16385 bytes").await;
    check(&format!("INSERT INTO t (id, props) VALUES ('b', '{{\"{long}\": 1}}')"), "54000 a qualifier of 16385 bytes")
        .await;
    assert_eq!(
        error(&client, "UPDATE t SET props = props - 1").await,
        "22023 cannot delete from object using integer index"
    );
    assert_eq!(
        error(&client, "UPDATE t SET props[NULL] = '1'").await,
        "22004 jsonb subscript in assignment must not be null"
    );
    assert_eq!(rows(&client, "SELECT id, props FROM t").await?, [r#"a|{"x": 1}"#], "nothing half-written");
    let long = "q".repeat(16 << 10);
    client.batch_execute(&format!("UPDATE t SET props['{long}'] = '1'")).await?;
    assert_eq!(rows(&client, &format!("SELECT props->>'{long}' FROM t")).await?, ["1"]);
    Ok(())
}

/// All of a COPY to the client.
async fn copied_out(client: &Client, sql: &str) -> Result<Vec<u8>> {
    let parts: Vec<bytes::Bytes> = client.copy_out(sql).await?.try_collect().await?;
    Ok(parts.concat())
}

async fn copied_in(client: &Client, sql: &str, text: &[u8]) -> Result<u64, tokio_postgres::Error> {
    let mut sink = pin!(client.copy_in(sql).await?);
    for chunk in text.chunks(100_000) {
        sink.send(bytes::Bytes::copy_from_slice(chunk)).await?;
    }
    sink.finish().await
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_in_both_directions() -> Result<()> {
    let (harness, operator, client) = start("WITH (props.max_versions = 1)").await?;
    operator.batch_execute("ALTER TABLE t ADD COLUMN n int FAMILY props").await?;
    client.batch_execute("CREATE TABLE plain (id text PRIMARY KEY, n int, props jsonb)").await?;
    // More than a commit, so that it goes past the log; cells of a declared column lie among those of the map.
    let map = "jsonb_build_object('a' || i % 7, i, 'q' || i % 50, 'v', 's', repeat('text', i % 3))";
    let made = format!("SELECT 'k' || i, nullif(i % 5, 0), {map} FROM generate_series(1, 30000) AS i");
    client.batch_execute(&format!("INSERT INTO plain {made} WHERE i % 2 = 0")).await?;
    client.batch_execute(&format!("INSERT INTO plain {made} WHERE i % 2 = 1")).await?;
    let text = copied_out(&client, "COPY plain TO STDOUT").await?;
    assert_eq!(copied_in(&client, "COPY t (id, n, props) FROM STDIN", &text).await?, 30_000);
    let same = "SELECT count(*), count(t.n) FROM t JOIN plain USING (id) \
                WHERE t.props = plain.props AND t.n IS NOT DISTINCT FROM plain.n";
    assert_eq!(rows(&client, same).await?, ["30000|24000"]);
    harness.engine().compact(None).await?;
    assert_eq!(rows(&client, same).await?, ["30000|24000"], "from other segments");
    let one = "SELECT count(*), sum((props->>'a3')::int) FROM";
    assert_eq!(
        rows(&client, &format!("{one} t WHERE props ? 'a3'")).await?,
        rows(&client, &format!("{one} plain WHERE props ? 'a3'")).await?
    );
    let again = copied_out(&client, "COPY t (id, n, props) TO STDOUT").await?;
    let sorted = |text: &[u8]| {
        let mut lines: Vec<String> = String::from_utf8_lossy(text).lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&again), sorted(&text));
    client.batch_execute("DELETE FROM t WHERE id <> 'k1'").await?;
    for bad in ["bad\t1\t[1]", "bad\t1\t{\"n\": 1}"] {
        // The first of them in the last part of a large one.
        for first in
            [&b"new\t1\t{\"a\": 1}\n"[..], &text[text.iter().position(|byte| *byte == b'\n').unwrap_or(0) + 1..]]
        {
            let text = [first, bad.as_bytes(), b"\n"].concat();
            let told = copied_in(&client, "COPY t (id, n, props) FROM STDIN", &text).await.unwrap_err();
            assert_eq!(told.as_db_error().map(|error| error.code().code()), Some("22023"), "{told:?}");
            assert_eq!(rows(&client, "SELECT count(*) FROM t").await?, ["1"], "nothing half-written");
        }
    }
    Ok(())
}
