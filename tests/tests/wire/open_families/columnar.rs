//! Columns of an open family that many rows have lie in columns of their own in segments: scans of many rows read
//! these.

use super::{Harness, error, put, rows, start};
use anyhow::{Context, Result};
use tokio_postgres::Client;

/// Conditions that are false or NULL without a member, and the start of others, which are not.
const CONDITIONS: [(&str, bool); 18] = [
    ("props ? 'k1'", true),
    ("(props->>'rare')::numeric > 0", true),
    ("props->>'k1' IS NOT NULL AND props->>'even' = 'true'", true),
    ("props->'k1' = '\"v4\"'", true),
    ("NOT (props->>'k1' = 'v4')", true),
    ("props->>'k1' NOT IN ('v4', 'v7')", true),
    ("props->>'k1' NOT LIKE 'v4%'", true),
    ("length(props->>'k1') > 4 AND (props->>'n')::int + 1 < 5000", true),
    ("(props->>'k1' = 'v4') IS NOT NULL", true),
    ("NOT (props ? 'k1')", false),
    ("props->>'k1' IS NULL", false),
    ("props->>'k1' = 'v4' OR props->>'k2' = 'v5'", false),
    ("coalesce(props->>'k1', 'x') = 'x'", false),
    ("props->>'k1' IS DISTINCT FROM 'v1'", false),
    ("(props->>'k1' = 'v4') IS NOT TRUE", false),
    ("(props->>'k1' IS NULL) = true", false),
    ("NOT (props->>'k1' = 'v4' AND declared = 4)", false),
    ("CASE WHEN props ? 'k1' THEN false ELSE true END", false),
];

const QUERIES: [&str; 9] = [
    "SELECT count(*), count(props->>'n'), sum((props->>'n')::int) FROM t",
    "SELECT count(*) FROM t WHERE props ? 'k1'",
    "SELECT props->>'even', count(*), max((props->>'n')::int) FROM t GROUP BY 1 ORDER BY 1",
    "SELECT id, props->'k2', props->>'n' FROM t WHERE props->>'n' LIKE '77%' ORDER BY id",
    "SELECT count(*), count(props->>'none'), count(props->>'rare') FROM t",
    "SELECT count(name), count(declared), sum(declared), count(props->>'k0') FROM t",
    "SELECT count(*) FROM t WHERE declared > 5 AND props->>'even' = 'true' AND name IS NOT NULL",
    "SELECT props FROM t WHERE props->>'n' = '4711'",
    "SELECT min(id), max(props->>'k1') FROM t WHERE id > '05000'",
];

/// The answers by row groups, by rows, and without pushdown are the same; returns them.
async fn answers(client: &Client, tells: bool) -> Result<Vec<Vec<String>>> {
    let mut all = Vec::new();
    for sql in QUERIES {
        let fast = rows(client, sql).await?;
        // A map of all columns, and the order of keys, come from rows.
        if tells && !sql.contains("SELECT props FROM") && !sql.contains("ORDER BY id") {
            let plan = rows(client, &format!("EXPLAIN {sql}")).await?;
            assert!(plan.iter().any(|line| line.contains("Row groups:")), "{sql}: {plan:#?}");
        }
        for setting in ["keyspan.columnar", "keyspan.pushdown"] {
            client.batch_execute(&format!("SET {setting} = off")).await?;
            assert_eq!(rows(client, sql).await?, fast, "{sql} without {setting}");
            client.batch_execute(&format!("RESET {setting}")).await?;
        }
        all.push(fast);
    }
    Ok(all)
}

async fn filled() -> Result<(Harness, Client, Client)> {
    let (harness, operator, client) = start("WITH (props.max_versions = 2)").await?;
    operator.batch_execute("ALTER TABLE t ADD COLUMN declared int FAMILY props").await?;
    let map = "jsonb_build_object('n', i, 'even', i % 2 = 0, 'k' || i % 3, 'v' || i)";
    for part in 0..2 {
        let insert = format!(
            "INSERT INTO t (id, name, declared, props) SELECT lpad(i::text, 5, '0'), nullif(i % 4, 0)::text, i % 9, {map} \
             FROM generate_series({}, {}) AS i",
            part * 5_000,
            part * 5_000 + 4_999
        );
        client.batch_execute(&insert).await?;
    }
    client.batch_execute("UPDATE t SET props['rare'] = '1' WHERE id IN ('00007', '00070', '07000')").await?;
    Ok((harness, operator, client))
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_from_row_groups_are_those_of_rows() -> Result<()> {
    let (harness, operator, client) = filled().await?;
    let before = answers(&client, false).await?;
    assert_eq!(before[0], ["10000|10000|49995000"]);
    assert_eq!(before[1], ["3333"]);
    assert_eq!(before[4], ["10000|0|3"]);
    assert_eq!(before[7], [r#"{"n": 4711, "k1": "v4711", "even": false}"#]);
    harness.engine().compact(None).await?;
    assert_eq!(answers(&client, true).await?, before, "from segments");
    // Rows that changed since, in memory, and a dropped column, whose cells the map does not show.
    client.batch_execute("UPDATE t SET props = props - 'n' || '{\"k1\": \"new\"}' WHERE id LIKE '0001%'").await?;
    client.batch_execute("DELETE FROM t WHERE id LIKE '0002%'").await?;
    let changed = answers(&client, false).await?;
    assert_eq!(changed[0], ["9990|9980|49994610"]);
    harness.engine().compact(None).await?;
    assert_eq!(answers(&client, true).await?, changed, "from segments");
    operator.batch_execute("ALTER TABLE t ADD COLUMN n int FAMILY props").await?;
    let gone = "SELECT count(n), count(props->>'n'), sum(n) FROM t WHERE props ? 'even'";
    assert_eq!(rows(&client, gone).await?, ["9980|0|49994610"]);
    operator.batch_execute("ALTER TABLE t DROP COLUMN n").await?;
    assert_eq!(rows(&client, "SELECT count(*), count(props->>'n') FROM t").await?, ["9990|0"]);
    Ok(())
}

/// Rows that lack what a condition needs are left out before maps are made, and only these.
#[tokio::test(flavor = "multi_thread")]
async fn rows_without_a_member_that_is_needed_are_left_out() -> Result<()> {
    let (harness, _, client) = filled().await?;
    harness.engine().compact(None).await?;
    for changed in [false, true] {
        if changed {
            client
                .batch_execute("UPDATE t SET props = props - 'k1' || '{\"k2\": \"v5\"}' WHERE id LIKE '0001%'")
                .await?;
        }
        for (condition, leaves_out) in CONDITIONS {
            let sql = format!("SELECT count(*), min(id), sum(declared) FROM t WHERE {condition}");
            let fast = rows(&client, &sql).await?;
            let plan = rows(&client, &format!("EXPLAIN {sql}")).await?;
            let (columnar, out) = ("Row groups:", "Left out:");
            assert!(plan.iter().any(|line| line.contains(columnar)), "{condition}: {plan:#?}");
            assert_eq!(plan.iter().any(|line| line.contains(out)), leaves_out, "{condition}: {plan:#?}");
            client.batch_execute("SET keyspan.columnar = off").await?;
            assert_eq!(rows(&client, &sql).await?, fast, "{condition}");
            client.batch_execute("RESET keyspan.columnar").await?;
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn values_that_do_not_decode_are_told_with_their_row() -> Result<()> {
    let (harness, operator, client) = filled().await?;
    put(&harness, "05000", b"even", b"no JSON").await?;
    for compacted in [false, true] {
        if compacted {
            harness.engine().compact(None).await?;
        }
        let even = "SELECT count(props->>'even') FROM t";
        let told = client.batch_execute(even).await.unwrap_err();
        let detail = told.as_db_error().and_then(|error| error.detail()).unwrap_or_default().to_owned();
        assert_eq!(detail, "Row \"05000\", cell props:even: stored value is no JSON.");
        assert_eq!(error(&client, even).await, "22P02 invalid stored value in column \"props\"");
        assert_eq!(rows(&client, "SELECT count(props->>'n') FROM t").await?, ["10000"]);
        operator.batch_execute("ALTER TABLE t SET (on_bad_value = null)").await?;
        assert_eq!(rows(&client, even).await?, ["9999"]);
        assert_eq!(rows(&client, "SELECT id FROM t WHERE props->'even' = 'null'").await?, ["05000"]);
        operator.batch_execute("ALTER TABLE t SET (on_bad_value = error)").await?;
    }
    Ok(())
}

/// Whole maps come by rows. Those of many rows by several streams, in no order; one that is in order comes alone.
#[tokio::test(flavor = "multi_thread")]
async fn whole_maps_of_many_rows_come_by_several_streams() -> Result<()> {
    let (harness, operator, client) = start("WITH (props.max_versions = 2)").await?;
    let other = harness.tenant("other").await?;
    let map = "jsonb_build_object('n', i, 'k' || i % 30, i % 7)";
    for (client, count) in [(&client, 40_000), (&other, 30_000)] {
        let insert = "INSERT INTO t (id, name, props) SELECT lpad(i::text, 5, '0'), 'n' || i % 5";
        client.batch_execute(&format!("{insert}, {map} FROM generate_series(1, {count}) AS i")).await?;
    }
    harness.engine().compact(None).await?;
    let queries = [
        "SELECT count(*), count(DISTINCT id), min(id), max(id) FROM t, jsonb_each(props)",
        "SELECT key, count(*), sum(value::text::int) FROM t, jsonb_each(props) WHERE key LIKE 'k1%' \
         GROUP BY key ORDER BY key",
        "SELECT name, count(*), max(length(props::text)) FROM t WHERE id BETWEEN '00100' AND '29000' \
         GROUP BY name ORDER BY name",
        "SELECT count(*), min(id), count(DISTINCT qualifier) FROM cells('t')",
        "SELECT count(*), max(cell_time(name)) > now() - interval '1 day' FROM t WHERE props::text LIKE '%6%'",
    ];
    for changed in [false, true] {
        if changed {
            client.batch_execute("UPDATE t SET props['new'] = '1' WHERE id LIKE '0001%' OR id LIKE '3999%'").await?;
            client.batch_execute("DELETE FROM t WHERE id LIKE '0002%' OR id LIKE '199%'").await?;
        }
        for sql in queries {
            let plan = rows(&client, &format!("EXPLAIN {sql}")).await?;
            assert!(plan.iter().any(|line| line.contains("Streams: 2, cut at pages of files")), "{sql}: {plan:#?}");
            let answer = rows(&client, sql).await?;
            client.batch_execute("SET keyspan.columnar = off").await?;
            let plan = rows(&client, &format!("EXPLAIN {sql}")).await?;
            assert!(!plan.iter().any(|line| line.contains("Streams")), "{sql}: {plan:#?}");
            assert_eq!(rows(&client, sql).await?, answer, "{sql}");
            client.batch_execute("RESET keyspan.columnar").await?;
        }
    }
    let first = "SELECT id, props FROM t ORDER BY id LIMIT 2";
    assert_eq!(rows(&client, first).await?.len(), 2);
    let all = "SELECT id, props FROM t ORDER BY id";
    let filtered = "SELECT id, props FROM t WHERE id > '00100' AND props ? 'k7' ORDER BY id LIMIT 10";
    for sql in [first, all, filtered] {
        let plan = rows(&client, &format!("EXPLAIN ANALYZE {sql}")).await?;
        let is_ordered = plan.iter().any(|line| line.contains("Order: key"));
        assert!(is_ordered && !plan.iter().any(|line| line.contains("SortExec")), "{sql}: {plan:#?}");
    }
    let plan = rows(&client, &format!("EXPLAIN ANALYZE {filtered}")).await?.join(" ");
    let seen = plan.split("Rows: seen=").nth(1).and_then(|rest| rest.split(' ').next()).context("a count")?;
    assert!(seen.parse::<u64>()? < 30_000, "it ends early: {plan}");
    let ids = rows(&client, "SELECT id, props->'n' FROM t ORDER BY id").await?;
    assert!(ids.is_sorted() && ids.len() == 39_890, "{}", ids.len());
    // Each row is counted once, and so is each byte.
    let read = "SELECT sum(rows_read), sum(bytes_read) FROM keyspan.usage";
    let mut counts = Vec::new();
    for columnar in ["on", "off"] {
        client.batch_execute(&format!("SET keyspan.columnar = {columnar}")).await?;
        let before = rows(&client, read).await?.concat();
        rows(&client, queries[0]).await?;
        let after = rows(&client, read).await?.concat();
        let numbers = |text: &str| text.split('|').map(str::parse).collect::<Result<Vec<u64>, _>>();
        counts.push(numbers(&after)?.iter().zip(numbers(&before)?).map(|(after, before)| after - before).collect());
    }
    let counts: Vec<Vec<u64>> = counts;
    assert_eq!(counts[0][0], 39_890);
    assert_eq!(counts[0], counts[1], "by several streams, and by one");
    drop(operator);
    Ok(())
}
