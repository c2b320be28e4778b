//! The types of parameters that a client leaves open: strict drivers (tokio-postgres, pgx, asyncpg) take values of no
//! other.

use super::harness::{self, Harness};
use anyhow::{Result, ensure};
use serde_json::json;
use tokio_postgres::{
    Client,
    types::{Json, Type},
};

const TABLE: &str = "CREATE TABLE t (id int PRIMARY KEY, b bigint, r real, d float8, n numeric(10,2), x text, day date,
    ts timestamp, tz timestamptz, iv interval, j jsonb, a int[])";

/// Statements, and the types that PostgreSQL 15 says their parameters have.
const STATEMENTS: [(&str, &str); 24] = [
    ("INSERT INTO t (id, x, j, ts, a) VALUES ($1, $2, $3, $4, $5)", "int4, text, jsonb, timestamp, _int4"),
    ("INSERT INTO t (id, ts, n) SELECT $1, $2, $3", "int4, timestamp, numeric"),
    ("INSERT INTO t (id, j) SELECT $1, $2 WHERE NOT EXISTS (SELECT 1 FROM t WHERE id = $1)", "int4, jsonb"),
    ("INSERT INTO t (id, j) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET j = t.j || EXCLUDED.j", "int4, jsonb"),
    (
        "UPDATE t SET j = j || $1, b = b + $2, ts = ts + $3, x = x || $4 WHERE id = $5",
        "jsonb, int8, interval, text, int4",
    ),
    (
        "UPDATE t SET j = jsonb_set(j, $1, $2), a = a || $3, n = CASE WHEN id = $4 THEN $5 ELSE n END",
        "_text, jsonb, _int4, int4, numeric",
    ),
    ("DELETE FROM t WHERE x = ANY($1) OR id = ANY($2) OR $3 = ANY(a)", "_text, _int4, int4"),
    (
        "SELECT * FROM t WHERE j @> $1 AND j ? $2 AND j #>> $3 = $4 AND j->>$5 = $6",
        "jsonb, text, _text, text, text, text",
    ),
    (
        "SELECT * FROM t WHERE ts > $1 AND tz < now() - $2::interval AND day = $3 AND n >= $4 AND r < $5",
        "timestamp, interval, date, numeric, float4",
    ),
    (
        "SELECT id + $1, b * $2, n / $3, iv * $4, d - $5, $6 || id, x || $7 FROM t",
        "int4, int8, numeric, float8, float8, text, text",
    ),
    (
        "SELECT CASE WHEN id = $1 THEN $2 ELSE j END, coalesce(j, $3), CASE x WHEN $4 THEN 1 ELSE $5 END FROM t",
        "int4, jsonb, jsonb, text, int4",
    ),
    (
        "SELECT round(n, $1), left(x, $2), substr(x, $3, $4), repeat(x, $5), split_part(x, $6, $7), lpad(x, $8) FROM t",
        "int4, int4, int4, int4, int4, text, int4, int4",
    ),
    (
        "SELECT sqrt($1), power($2, $3), power(n, $4), mod($5, 3), to_timestamp($6), encode($7, 'hex') FROM t",
        "float8, float8, float8, numeric, int4, float8, bytea",
    ),
    (
        "SELECT lag(id, $1, $2) OVER w, ntile($3) OVER w, nth_value(x, $4) OVER w FROM t WINDOW w AS (ORDER BY id)",
        "int4, int4, int4, int4",
    ),
    ("SELECT id FROM t UNION ALL SELECT $1 UNION ALL SELECT b FROM t LIMIT $2 OFFSET $3", "int4, int8, int8"),
    ("SELECT * FROM generate_series($1, 10) g", "int4"),
    (
        "SELECT * FROM jsonb_to_recordset($1) AS r(a int), jsonb_array_elements($2) AS e, json_each_text($3) AS f",
        "jsonb, jsonb, json",
    ),
    ("SELECT ARRAY[id, $1], ARRAY[n, $2], id = ANY(ARRAY[id, $3]), n ^ $4 FROM t", "int4, numeric, int4, numeric"),
    ("SELECT 'a', id FROM t UNION ALL SELECT $1, b FROM t UNION ALL SELECT 'c', $2 FROM t", "text, int8"),
    ("SELECT $1 + 1, 2 * $2, $3 = 5, $4 || 'x', -3 & $5", "int4, int4, int4, text, int4"),
    (
        "SELECT array_append(a, $1), array_position(a, $2), array_cat(a, $3), a[$4], array_to_string(a, $5) FROM t",
        "int4, int4, _int4, int4, text",
    ),
    (
        "WITH RECURSIVE q(n, s) AS (SELECT 1, $1 UNION ALL SELECT n + 1, s || 'b' FROM q WHERE n < $2) TABLE q",
        "text, int4",
    ),
    (
        "MERGE INTO t USING (SELECT 1 AS id) s ON s.id = t.id WHEN MATCHED THEN UPDATE SET x = $1, j = $2
            WHEN NOT MATCHED THEN INSERT (id, d) VALUES (s.id, $3)",
        "text, jsonb, float8",
    ),
    (
        "SELECT substring(x from $1), date_trunc($2, ts), extract(year from ts) = $3, x ~ $4, x LIKE $5 FROM t",
        "text, text, numeric, text, text",
    ),
];

/// The names of the types of a statement's parameters, or the error.
async fn types(client: &Client, sql: &str) -> String {
    match client.prepare(sql).await {
        Ok(prepared) => prepared.params().iter().map(Type::name).collect::<Vec<_>>().join(", "),
        Err(error) => error.as_db_error().map_or_else(|| error.to_string(), |told| told.message().to_owned()),
    }
}

async fn check(client: &Client) -> Result<()> {
    client.batch_execute(TABLE).await?;
    let mut differ = Vec::new();
    for (sql, expected) in STATEMENTS {
        let found = types(client, sql).await;
        differ.extend((found != expected).then(|| format!("{sql}\n  {found}\n  not {expected}")));
    }
    ensure!(differ.is_empty(), "{} of {} differ:\n{}", differ.len(), STATEMENTS.len(), differ.join("\n"));
    Ok(())
}

#[tokio::test]
async fn parameters_have_the_types_that_postgresql_gives_them() -> Result<()> {
    let harness = Harness::start().await?;
    check(&harness.tenant("alto").await?).await
}

/// What the list says is what PostgreSQL says, where one is.
#[tokio::test]
async fn the_list_is_postgresqls() -> Result<()> {
    let Ok(address) = std::env::var("KEYSPAN_TESTS_POSTGRES") else { return Ok(()) };
    let client = harness::connect(&format!("{address} dbname=postgres").parse()?).await?;
    client.batch_execute("CREATE SCHEMA parameter_types; SET search_path = parameter_types").await?;
    let checked = check(&client).await;
    client.batch_execute("DROP SCHEMA parameter_types CASCADE").await?;
    checked
}

#[tokio::test]
async fn documents_arrays_and_numbers_go_in_as_they_are() -> Result<()> {
    let harness = Harness::start().await?;
    let client = harness.tenant("alto").await?;
    client.batch_execute(TABLE).await?;
    let document = json!({"a": 1});
    client.execute("INSERT INTO t (id, j, a) VALUES ($1, $2, $3)", &[&1, &Json(&document), &vec![1, 2]]).await?;
    client.execute("INSERT INTO t (id, j) SELECT $1, $2", &[&2, &Json(&document)]).await?;
    let more = json!({"b": [2]});
    let changed = "UPDATE t SET j = j || $1, a = a || $2 WHERE id = $3";
    assert_eq!(client.execute(changed, &[&Json(&more), &vec![3], &1]).await?, 1);
    let row = client.query_one("SELECT j, a FROM t WHERE j @> $1 AND $2 = ANY(a)", &[&Json(&more), &3]).await?;
    assert_eq!(row.get::<_, Json<serde_json::Value>>(0).0, json!({"a": 1, "b": [2]}));
    assert_eq!(row.get::<_, Vec<i32>>(1), [1, 2, 3]);
    let set = "SELECT jsonb_set(j, $1, $2) FROM t WHERE id = $3";
    let row = client.query_one(set, &[&vec!["a"], &Json(json!(7)), &2]).await?;
    assert_eq!(row.get::<_, Json<serde_json::Value>>(0).0, json!({"a": 7}));
    let records = "SELECT sum(r.n) FROM jsonb_to_recordset($1) AS r(n int), generate_series($2, 2) g";
    let row = client.query_one(records, &[&Json(json!([{"n": 1}, {"n": 2}])), &1]).await?;
    assert_eq!(row.get::<_, i64>(0), 6);
    // A wide number beside a narrow one, as the simple protocol shows it.
    client.execute("UPDATE t SET b = $1", &[&10_000_000_000_i64]).await?;
    for sql in [
        "SELECT max(v) FROM (SELECT id AS v FROM t UNION ALL SELECT b FROM t) u",
        "SELECT CASE WHEN id = 1 THEN b ELSE id END FROM t WHERE id = 1",
        "SELECT CASE WHEN id = 2 THEN id ELSE b END FROM t WHERE id = 1",
        "SELECT max(CASE WHEN id = 2 THEN id ELSE b END) OVER () FROM t LIMIT 1",
        "SELECT max(v) FROM (SELECT 1 AS v UNION ALL
            SELECT s FROM (SELECT id AS s FROM t UNION ALL SELECT b FROM t) u) w",
    ] {
        assert_eq!(client.query_one(sql, &[]).await?.get::<_, i64>(0), 10_000_000_000, "{sql}");
    }
    let three = "SELECT 'a', id FROM t UNION ALL SELECT $1, b FROM t UNION ALL SELECT 'c', b FROM t
        ORDER BY 2 DESC LIMIT 1";
    assert_eq!(client.query_one(three, &[&"b"]).await?.get::<_, i64>(1), 10_000_000_000);
    Ok(())
}
