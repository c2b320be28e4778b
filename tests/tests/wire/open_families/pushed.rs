//! What a statement reads of an open family: the columns that it looks at, and no others.

use super::{Harness, rows, start, stored};
use anyhow::Result;
use std::fmt::Write;
use tokio_postgres::Client;

/// The lines of EXPLAIN that say what is read of open families.
async fn qualifiers(client: &Client, sql: &str) -> Result<String> {
    let lines = rows(client, &format!("EXPLAIN {sql}")).await?;
    let found = lines.iter().filter_map(|line| line.trim().strip_prefix("Qualifiers: ").map(str::to_owned));
    Ok(found.collect::<Vec<_>>().join(" | "))
}

async fn filled() -> Result<(Harness, Client, Client)> {
    let started = start("").await?;
    let maps = [
        r#"('a', '{"x": 1, "y": "Y", "friend:bo": "2020", "friend:cy": "2021", "z": [1]}')"#,
        r#"('b', '{"x": 20, "friend:al": "2019", "friend:bo": null}')"#,
        "('c', '{}')",
    ];
    started.2.batch_execute(&format!("INSERT INTO t (id, props) VALUES {}", maps.join(", "))).await?;
    Ok(started)
}

/// Checks what a query reads of open families, and its answer, with pushdown and without.
async fn check(client: &Client, sql: &str, read: &str, answer: &[&str]) -> Result<()> {
    assert_eq!(rows(client, sql).await?, answer, "{sql}");
    assert_eq!(qualifiers(client, sql).await?, read, "{sql}");
    client.batch_execute("SET keyspan.pushdown = off").await?;
    assert_eq!(rows(client, sql).await?, answer, "{sql}");
    client.batch_execute("RESET keyspan.pushdown").await?;
    Ok(())
}

#[tokio::test]
async fn a_key_that_is_asked_for_is_read_alone() -> Result<()> {
    let (_harness, _operator, client) = filled().await?;
    let cases: [(&str, &str, &[&str]); 19] = [
        ("SELECT props['x'] FROM t ORDER BY id", "props: x", &["1", "20", ""]),
        ("SELECT props->>'x' FROM t ORDER BY id", "props: x", &["1", "20", ""]),
        ("SELECT props->'x', id FROM t WHERE props->>'y' > 'A' ORDER BY id", "props: x, y", &["1|a"]),
        ("SELECT id FROM t WHERE props ? 'x' ORDER BY id", "props: x", &["a", "b"]),
        ("SELECT id FROM t WHERE NOT props ? 'x' ORDER BY id", "props: x", &["c"]),
        ("SELECT props->>'none' IS NULL FROM t ORDER BY id", "props: none", &["t", "t", "t"]),
        ("SELECT count(*) FROM t WHERE (props->>'x')::int > 10", "props: x", &["1"]),
        ("SELECT props->'z'->0 FROM t WHERE id = 'a'", "props: z", &["1"]),
        ("SELECT props #>> '{z,0}' FROM t WHERE id = 'a'", "props: z", &["1"]),
        ("SELECT id FROM t WHERE props @> '{\"x\": 20}'", "props: x", &["b"]),
        ("SELECT id FROM t WHERE props ?| ARRAY['y', 'q']", "props: q, y", &["a"]),
        ("SELECT props->>'x', count(*) FROM t GROUP BY 1 ORDER BY 1", "props: x", &["1|1", "20|1", "|1"]),
        ("SELECT s.p->>'x' FROM (SELECT id, props AS p FROM t) AS s WHERE s.p ? 'y'", "props: x, y", &["1"]),
        (
            "SELECT a.props->>'x' FROM t AS a JOIN t AS b ON a.props->>'y' = b.props->>'y'",
            "props: x, y | props: y",
            &["1"],
        ),
        ("SELECT count(*) FROM t", "", &["3"]),
        ("SELECT props->>'x', props FROM t WHERE id = 'c'", "props: all", &["|{}"]),
        ("SELECT DISTINCT props FROM t WHERE id = 'c'", "props: all", &["{}"]),
        ("SELECT id FROM t ORDER BY props->>'x' LIMIT 1", "props: x", &["a"]),
        ("SELECT props->>id FROM t WHERE id = 'c'", "props: all", &[""]),
    ];
    for (sql, read, answer) in cases {
        check(&client, sql, read, answer).await?;
    }
    let analyzed = rows(&client, "EXPLAIN ANALYZE SELECT props->>'x' FROM t WHERE id >= 'a'").await?;
    assert!(analyzed.iter().any(|line| line.contains("Cells: seen=") && line.contains("returned=2")), "{analyzed:#?}");
    // The key of a prepared statement is known when it runs.
    let prepared = client.prepare("SELECT props->>$1 FROM t ORDER BY id").await?;
    for _ in 0..3 {
        for (key, first) in [("x", Some("1")), ("y", Some("Y")), ("q", None)] {
            let found = client.query(&prepared, &[&key]).await?;
            assert_eq!(found[0].get::<_, Option<&str>>(0), first);
        }
    }
    Ok(())
}

#[tokio::test]
async fn qualifiers_as_rows() -> Result<()> {
    let (_harness, _operator, client) = filled().await?;
    let each = "FROM t, jsonb_each_text(t.props) AS e";
    let friends = "props: ['friend:', 'friend;')";
    let cases: [(String, &str, &[&str]); 11] = [
        (
            format!("SELECT id, e.key, e.value {each} WHERE e.key LIKE 'friend:%' ORDER BY 1, 2"),
            friends,
            &["a|friend:bo|2020", "a|friend:cy|2021", "b|friend:al|2019", "b|friend:bo|"],
        ),
        (format!("SELECT id {each} WHERE e.key = 'friend:bo' AND e.value IS NOT NULL"), "props: friend:bo", &["a"]),
        (format!("SELECT id, key {each} WHERE key IN ('x', 'y') ORDER BY 1, 2"), "props: x, y", &["a|x", "a|y", "b|x"]),
        (
            format!("SELECT id, key {each} WHERE key >= 'x' AND key < 'z' ORDER BY 1, 2"),
            "props: ['x', 'z')",
            &["a|x", "a|y", "b|x"],
        ),
        (
            format!("SELECT key, count(*) {each} WHERE starts_with(key, 'friend:') GROUP BY key ORDER BY key"),
            friends,
            &["friend:al|1", "friend:bo|2", "friend:cy|1"],
        ),
        (format!("SELECT id, count(*) {each} GROUP BY id ORDER BY id"), "props: all", &["a|5", "b|3"]),
        (format!("SELECT key {each} WHERE id = 'b' ORDER BY key"), "props: all", &["friend:al", "friend:bo", "x"]),
        (
            "SELECT jsonb_object_keys(props) FROM t WHERE id = 'b' ORDER BY 1".into(),
            "props: all",
            &["friend:al", "friend:bo", "x"],
        ),
        (
            "SELECT k FROM t, jsonb_object_keys(props) AS k WHERE k > 'x' ORDER BY 1".into(),
            "props: ('x', )",
            &["y", "z"],
        ),
        (
            "SELECT k FROM t, jsonb_object_keys(props) AS k WHERE k > 'A' AND k < 'g' ORDER BY 1".into(),
            "props: all",
            &["friend:al", "friend:bo", "friend:bo", "friend:cy"],
        ),
        (format!("SELECT e.key, t.props->>'x' {each} WHERE e.key = 'y'"), "props: x, y", &["y|1"]),
    ];
    for (sql, read, answer) in cases {
        check(&client, &sql, read, answer).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_of_100_000_columns() -> Result<()> {
    let (harness, operator, client) = start("WITH (props.max_versions = 1)").await?;
    client.batch_execute("INSERT INTO t (id) VALUES ('w'), ('x')").await?;
    for part in 0..4 {
        let mut map = String::from("{");
        for at in part * 25_000..(part + 1) * 25_000 {
            let comma = if map.len() > 1 { ", " } else { "" };
            write!(map, "{comma}\"q{at:06}\": {at}")?;
        }
        client.batch_execute(&format!("UPDATE t SET props = props || '{map}}}' WHERE id = 'w'")).await?;
    }
    for compacted in [false, true] {
        if compacted {
            harness.engine().compact(None).await?;
        }
        let one = "SELECT id, props->>'q050000', props ? 'q100000' FROM t ORDER BY id";
        assert_eq!(rows(&client, one).await?, ["w|50000|f", "x||f"]);
        let keys = "SELECT count(*), min(k), max(k) FROM t, jsonb_object_keys(props) AS k";
        assert_eq!(rows(&client, keys).await?, ["100000|q000000|q099999"]);
        let some = "SELECT count(*), sum(value::int) FROM t, jsonb_each_text(props) WHERE key LIKE 'q0000%'";
        assert_eq!(rows(&client, some).await?, ["100|4950"]);
        let whole: serde_json::Value = client.query_one("SELECT props FROM t WHERE id = 'w'", &[]).await?.get(0);
        assert_eq!(whole.as_object().map(serde_json::Map::len), Some(100_000));
    }
    client.batch_execute("UPDATE t SET props['q000007'] = '\"seven\"' WHERE id = 'w'").await?;
    assert_eq!(rows(&client, "SELECT props->>'q000007', props->>'q000008' FROM t WHERE id = 'w'").await?, ["seven|8"]);
    operator.batch_execute("ALTER TABLE t ADD COLUMN q000008 int FAMILY props").await?;
    assert_eq!(rows(&client, "SELECT q000008, props ? 'q000008' FROM t WHERE id = 'w'").await?, ["8|f"]);
    assert_eq!(stored(&harness, "w").await?.len(), 100_000);
    Ok(())
}
