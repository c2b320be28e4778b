//! Columns of an open family that many rows have lie in columns of their own in segments: scans of many rows read
//! these.

use super::{Harness, error, put, rows, start};
use anyhow::Result;
use tokio_postgres::Client;

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
