//! Statements on the fast path and on the general way: the same answers, the same errors, the same rows afterwards.

mod maps;
mod random;

use crate::{
    execute::Outcome,
    pg::{
        codec::format::Format,
        datetime::Style,
        error::{Result, SqlError},
        types::ParameterType,
    },
    provider::RowValues,
    session::{
        Prepared, Session,
        testing::{World, run},
    },
    sql::ast::Statement,
    wire::{
        encoder::{RowEncoder, write_values},
        transaction_status::TransactionStatus,
    },
};
use bytes::BytesMut;
use datafusion::scalar::ScalarValue;
use expect_test::{Expect, expect};
use futures::TryStreamExt;

/// Prepares one statement.
async fn prepared(session: &mut Session, sql: &str, hints: &[Option<ParameterType>]) -> Result<Prepared> {
    let statement = Statement::parse(sql)?.swap_remove(0);
    session.prepare(statement, hints).await
}

/// Whether a prepared statement was compiled.
fn is_compiled(prepared: &Prepared) -> bool {
    prepared.kept.is_compiled()
}

/// The messages that a query's rows give, one by one and in batches, are the same; or both ways fail alike.
async fn assert_same_messages(session: &mut Session, prepared: &Prepared, parameters: &[ScalarValue]) {
    for format in [Format::Text, Format::Binary] {
        let mut both = Vec::new();
        for in_batches in [false, true] {
            let outcome = session.execute(prepared, parameters.to_vec()).await;
            let Ok(Outcome::Found { mut rows, .. }) = outcome else { return };
            let encoder = RowEncoder::new(rows.schema().clone(), &[format], Style::initial().clone().into()).unwrap();
            // Some types are written out of arrays only.
            let layout = rows.layout().expect("rows of a table");
            let Some(mut values) = RowValues::of(layout, encoder.formats(), encoder.style()) else { return };
            let mut out = BytesMut::new();
            let written: Result<()> = async {
                if in_batches {
                    let mut batches = rows.into_batches();
                    while let Some(batch) = batches.try_next().await.map_err(SqlError::from)? {
                        let rows = encoder.batch(&batch)?;
                        (0..rows.count()).try_for_each(|row| rows.write(row, &mut out))?;
                    }
                    return Ok(());
                }
                loop {
                    while let Some(row) = rows.next_received() {
                        if values.take(&row)? {
                            write_values(values.iter(), &mut out)?;
                            rows.count();
                        }
                    }
                    if !rows.receive().await? {
                        return Ok(());
                    }
                }
            }
            .await;
            both.push(written.map(|()| out).map_err(|error| format!("{error:?}")));
        }
        assert_eq!(both[0], both[1], "{format:?}");
    }
}

/// What a statement gave: rows as debug texts, or its tag, or its error.
async fn answer(session: &mut Session, prepared: &Prepared, parameters: Vec<ScalarValue>) -> String {
    if matches!(*prepared.statement, Statement::Query(_)) && session.transaction_status() != TransactionStatus::Failed {
        assert_same_messages(session, prepared, &parameters).await;
    }
    let done = async {
        match session.execute(prepared, parameters).await?.in_batches() {
            Outcome::Rows { rows, tag, .. } => {
                let schema = rows.schema();
                let batches: Vec<_> = rows.try_collect().await.map_err(crate::pg::error::SqlError::from)?;
                let names: Vec<_> = schema.fields().iter().map(|field| format!("{field:?}")).collect();
                let mut lines = vec![format!("{tag} {}", names.join(", "))];
                for batch in &batches {
                    for row in 0..batch.num_rows() {
                        let cells = batch.columns().iter().map(|column| ScalarValue::try_from_array(column, row));
                        lines.push(format!("{:?}", cells.collect::<Result<Vec<_>, _>>().unwrap()));
                    }
                }
                Ok(lines.join("\n"))
            }
            Outcome::Done(tag) => Ok(tag),
            _ => Ok("something else".to_owned()),
        }
    };
    let done: Result<String> = done.await;
    done.unwrap_or_else(|error| {
        session.failed();
        format!("{error:?}")
    })
}

/// A tenant's session and a table of three key parts.
async fn session() -> (World, Session) {
    session_in(World::empty().await).await
}

async fn session_in(world: World) -> (World, Session) {
    let sql = "CREATE DATABASE alto; CREATE TABLE t (a text, b int, c timestamptz, n bigint NOT NULL, s varchar(3), j jsonb, q numeric(5,2),
        PRIMARY KEY (a, b, c DESC), FAMILY m (n, s), FAMILY k (j, q)); CREATE TABLE sums (k int PRIMARY KEY, c bigint, FAMILY f (c))
        WITH (f.aggregate = sum); CREATE TABLE w (id int PRIMARY KEY, n int, FAMILY m (n), FAMILY props OPEN)";
    assert!(!run(&mut world.operator(), sql).await.contains("0A000"));
    let session = world.tenant("alto");
    (world, session)
}

/// Which statements are compiled.
async fn check_compiled(statements: &[&str], expected: bool) {
    let (_world, mut session) = session().await;
    for sql in statements {
        let prepared = prepared(&mut session, sql, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert_eq!(is_compiled(&prepared), expected, "{sql}");
    }
}

#[tokio::test]
async fn short_statements_are_compiled() {
    check_compiled(
        &[
            "SELECT * FROM t WHERE a = $1 AND b = $2 AND c = $3",
            "SELECT x.n AS \"N\", b FROM public.t AS x WHERE $1 = x.c AND (x.b = 1 AND a = 'x')",
            "SELECT n FROM t WHERE a = $1 AND b = $2 ORDER BY c DESC LIMIT 1",
            "SELECT n FROM t WHERE a = $1 AND b = $2 ORDER BY c LIMIT $3",
            "SELECT n FROM t WHERE a = $1 AND b = $2",
            "SELECT * FROM t WHERE a = $1 AND b = $2 LIMIT 1",
            "SELECT n FROM t WHERE a = $1 AND b = $2 AND c >= $3 AND c < $4 ORDER BY c",
            "SELECT * FROM t WHERE a BETWEEN $1 AND $2",
            "SELECT n FROM t WHERE a = $1 AND b > $2 AND b <= 7 ORDER BY b DESC, c LIMIT 20",
            "SELECT n FROM t WHERE a BETWEEN 'a' AND $1 ORDER BY a LIMIT 20",
            "SELECT n FROM t WHERE a = 'x' AND b = 1 AND c = '2026-01-01 12:00:00.5+02'",
            "SELECT n FROM t WHERE a IN ('x') AND b = 1 AND c >= '2026-01-01T00:00:00Z' ORDER BY c DESC LIMIT 100",
            "INSERT INTO t VALUES ($1, $2, $3, $4, NULL, '{}', $5)",
            "INSERT INTO t (a, b, c, n) VALUES ($1, $2, $3, 1), ($4, $5, $6, -2) ON CONFLICT DO NOTHING",
            "INSERT INTO t (a, b, c, n) VALUES ($1, $2, $3, $4) ON CONFLICT (a, b, c) DO UPDATE SET n = EXCLUDED.n",
            "INSERT INTO t (a, b, c, q, n) VALUES ($1, $2, $3, 1.50, 1), ($4, $5, $6, -2, 1), ($7, $8, $9, NULL, 1)",
            "INSERT INTO t VALUES ($1, $2, $3, $4) RETURNING n",
            "INSERT INTO t VALUES ($1, $2, $3, $4, DEFAULT) ON CONFLICT DO NOTHING RETURNING *, t.n AS m, n",
            "INSERT INTO t (a, b, c, n, j) VALUES ($1, $2::int, now(), 1, $3::jsonb), ($4, $5::int, CURRENT_TIMESTAMP, 2, CAST($6 AS jsonb))",
            "INSERT INTO t (a, b, c, n, j) VALUES ('x', 1, transaction_timestamp(), 1, '{}'::jsonb)",
            "INSERT INTO t (a, b, c, n, q, s) VALUES ($1::varchar, 5::int, $2, 7::bigint, $3::numeric(5,2), $4::text), ($5, 1::int, $6, 1, $7::numeric(5,2), $8)",
            "UPDATE t SET j = CAST($4 AS jsonb), n = '7'::bigint WHERE a = $1::text AND b = $2 AND c = $3::timestamptz",
            "UPDATE t SET q = -0.5, n = $1 WHERE a = $2 AND b = $3 AND c = $4",
            "UPDATE t SET n = $1, s = 'abc' WHERE a = $2 AND b = $3 AND c = $4",
            "UPDATE t SET n = n + 1 WHERE a = $1 AND b = $2 AND c = $3",
            "UPDATE t SET q = q - $4 WHERE a = $1 AND b = $2 AND c = $3",
            "UPDATE t SET q = q + 1, n = n - 1 WHERE a = $1 AND b = $2 AND c = $3 RETURNING *, s AS x",
            "UPDATE t SET n = 1 WHERE a = $1 AND b = $2 AND c = $3 RETURNING n",
            "DELETE FROM t WHERE a = $1 AND b = $2 AND c = $3 RETURNING t.n, j",
            "INSERT INTO t (a, b, c, n) VALUES ($1, $2, $3, 1) ON CONFLICT (a, b, c) DO UPDATE SET n = t.n + EXCLUDED.n RETURNING n",
            "INSERT INTO t AS x (a, b, c, n, s) VALUES ($1, $2, $3, 1, 'y') ON CONFLICT (a, b, c) DO UPDATE SET n = x.n - $4",
            "INSERT INTO t (a, b, c, n) VALUES ($1, $2, $3, $4) ON CONFLICT (a, b, c) DO UPDATE SET n = EXCLUDED.n RETURNING n",
            "INSERT INTO t (a, b, c, n) VALUES ($1, $2, $3, $4) ON CONFLICT (a, b, c) DO UPDATE SET n = 7, s = 'x'",
            "INSERT INTO t (a, b, c, n) VALUES ($1, $2, $3, 4) ON CONFLICT (a, b, c) DO UPDATE SET n = t.n * 2",
            "INSERT INTO t (a, b, c, n) VALUES ($1, $2, $3, 4) ON CONFLICT (a, b, c) DO UPDATE SET n = 1 WHERE t.n < 7",
            "UPDATE t AS x SET n = ($1 + x.n), s = 'abc' WHERE a = $2 AND b = $3 AND c = $4",
            "DELETE FROM t AS x WHERE x.a = $1 AND b = $2 AND c = $3",
            "INSERT INTO sums VALUES ($1, $2) ON CONFLICT (k) DO UPDATE SET c = EXCLUDED.c",
            "UPDATE w SET props['a'] = '7', n = n + 1 WHERE id = $1 RETURNING n",
            "UPDATE w SET props[$2] = $3, props['b'] = '\"x\"'::jsonb WHERE id = $1",
            "UPDATE w SET props = (props || $2) - 'a' - $3 WHERE id = $1",
            "UPDATE w AS x SET props = x.props || '{\"a\": 7}' WHERE id = $1",
            "INSERT INTO w VALUES ($1, 1) ON CONFLICT (id) DO UPDATE SET props = w.props || '{\"again\": true}'",
        ],
        true,
    )
    .await;
}

#[tokio::test]
async fn others_are_left_to_the_optimizer() {
    check_compiled(
        &[
            "SELECT count(*) FROM t WHERE a = $1 AND b = $2 AND c = $3",
            "SELECT n + 1 FROM t WHERE a = $1 AND b = $2 AND c = $3",
            "SELECT DISTINCT n FROM t WHERE a = $1 AND b = $2 AND c = $3",
            "SELECT n, n FROM t WHERE a = $1 AND b = $2 AND c = $3",
            "SELECT n FROM t WHERE a = $1 AND b = $2 ORDER BY c LIMIT 1 OFFSET 1",
            "SELECT n FROM t WHERE a = $1 AND b = $2 ORDER BY n LIMIT 1",
            "SELECT n FROM t WHERE a = $1 ORDER BY c LIMIT 1",
            "SELECT n FROM t WHERE a = $1 ORDER BY b, c LIMIT 1",
            "SELECT n FROM t WHERE a = $1 ORDER BY b LIMIT 100000",
            "SELECT n AS b FROM t WHERE a = $1 ORDER BY b LIMIT 1",
            "SELECT n FROM t WHERE a = $1 AND c = $2 ORDER BY b LIMIT 1",
            "SELECT n FROM t WHERE a = $1 AND b = $2 AND c = $3 AND n > 0",
            "SELECT n FROM t WHERE a = $1 AND b = $2 AND c = '2026-01-01'",
            "SELECT n FROM t WHERE a = $1 AND b = $2 AND c = '2026-01-01 12:00:00'",
            "SELECT n FROM t WHERE a = $1 AND b = $2 AND c = 'infinity'",
            "SELECT n FROM t WHERE a IN ($1, $2) AND b = 1 ORDER BY c LIMIT 1",
            "SELECT n FROM t WHERE a NOT IN ($1) AND b = 1 ORDER BY c LIMIT 1",
            "SELECT n FROM t WHERE a = $1 AND b = $2 AND c = $3 AND a = $4",
            "SELECT n FROM t WHERE a = $1 AND b = 1.5 AND c = $2",
            "SELECT n FROM t WHERE a = $1 OR b = $2",
            "SELECT n FROM t, sums WHERE a = $1 AND b = $2 AND t.c = $3",
            "SELECT t.n FROM t WHERE a = lower($1) AND b = $2 AND c = $3",
            "INSERT INTO t VALUES ($1, $2, $3, $4) RETURNING n + 1",
            "INSERT INTO t VALUES ($1, $2, $3, 1.5)",
            "INSERT INTO t VALUES ($1, $2, $3, 4), ($4, $5, $6, DEFAULT)",
            "INSERT INTO t (a, b, c, n) VALUES (lower($1), $2, now(), 1)",
            "INSERT INTO t (a, b, c, n) VALUES ($1, $2, clock_timestamp(), 1)",
            "INSERT INTO t (a, b, c, n, s) VALUES ($1, $2, $3, 1, $4::varchar(3))",
            "INSERT INTO t (a, b, c, n) VALUES ($1, $2::bigint, $3, 1)",
            "SELECT n FROM t WHERE a = $1::varchar AND b = $2 AND c = $3",
            "SELECT n FROM t WHERE a = $1 AND b = 5000000000::int AND c = $2",
            "SELECT n FROM t WHERE a = $1 ORDER BY b LIMIT $2::bigint",
            "UPDATE t SET q = q + $4::numeric WHERE a = $1 AND b = $2 AND c = $3",
            "INSERT INTO t (a, b, c, n) VALUES ($1, $2, $3, $4), ('x', 1, NULL, 2)",
            "INSERT INTO t (a, b, c, q, n) VALUES ($1, $2, $3, 1e2, 1)",
            "INSERT INTO t (a, b, c, n) SELECT a, b, c, n FROM t",
            "UPDATE t SET n = n * 2 WHERE a = $1 AND b = $2 AND c = $3",
            "UPDATE t SET n = b + 1 WHERE a = $1 AND b = $2 AND c = $3",
            "UPDATE t SET n = n + n WHERE a = $1 AND b = $2 AND c = $3",
            "UPDATE t SET n = 1 - n WHERE a = $1 AND b = $2 AND c = $3",
            "UPDATE t SET n = 1 WHERE a = $1 AND b = $2",
            "UPDATE t SET n = 1 WHERE a = $1 AND b = $2 AND c = $3 RETURNING n + 1",
            "DELETE FROM t WHERE a = $1 AND b = $2 AND c = $3 RETURNING n IS NULL",
            "INSERT INTO t (a, b, c, n) VALUES ($1, $2, $3, 4) ON CONFLICT (a, b, c) DO UPDATE SET n = t.n * $4",
            "INSERT INTO t (a, b, c, n) VALUES ($1, $2, $3, 4) ON CONFLICT (a, b, c) DO UPDATE SET b = t.b + 1",
            "INSERT INTO t (a, b, c, n) VALUES ($1, $2, $3, 4) ON CONFLICT (a, b, c) DO UPDATE SET n = (SELECT count(*) FROM sums)",
            "INSERT INTO sums VALUES ($1, $2) ON CONFLICT (k) DO UPDATE SET c = sums.c + EXCLUDED.c",
            "UPDATE t SET n = sums.c FROM sums WHERE a = $1 AND b = $2 AND t.c = $3",
            "DELETE FROM t WHERE a = $1",
            "DELETE FROM t USING sums WHERE a = $1 AND b = $2 AND t.c = $3",
            "DELETE FROM t",
            "UPDATE w SET props = '{}' WHERE id = $1",
            "UPDATE w SET props['a'] = to_jsonb($2::int) WHERE id = $1",
            "UPDATE w SET props['a'] = props->'b' WHERE id = $1",
            "UPDATE w SET props = props - 'a' WHERE id = $1 RETURNING props",
            "UPDATE w SET props = props - ARRAY['a', 'b'] WHERE id = $1",
            "UPDATE w SET props = props - NULL WHERE id = $1",
        ],
        false,
    )
    .await;
}

async fn check(session: &mut Session, prepared: &Prepared, parameters: Vec<ScalarValue>, expected: Expect) {
    expected.assert_eq(&answer(session, prepared, parameters).await);
}

fn key(a: &str, b: i32) -> Vec<ScalarValue> {
    vec![ScalarValue::Utf8View(Some(a.into())), ScalarValue::Int32(Some(b))]
}

/// A range of keys without LIMIT goes around the optimizer where it has few rows, and gives the same where it has many.
#[tokio::test]
async fn a_range_is_read_by_rows_where_these_are_few() {
    let (_world, mut session) = session_in(World::in_files().await).await;
    let sql =
        "INSERT INTO t (a, b, c, n) SELECT 'x', i, '2026-01-01 00:00:00Z', i * 10 FROM generate_series(1, 3000) AS i";
    assert_eq!(run(&mut session, sql).await, "INSERT 0 3000");
    let read = prepared(&mut session, "SELECT b, n FROM t WHERE a = $1 AND b <= $2 ORDER BY b DESC, c", &[]);
    let read = read.await.unwrap();
    assert!(is_compiled(&read));
    for (most, is_short) in [(0, true), (1, true), (1_000, true), (2_500, false)] {
        let outcome = session.execute(&read, key("x", most)).await.unwrap();
        assert_eq!(matches!(outcome, Outcome::Found { .. }), is_short, "{most}");
        drop(outcome);
        let answer = answer(&mut session, &read, key("x", most)).await;
        let lines: Vec<&str> = answer.lines().skip(1).collect();
        let expected: Vec<String> = (1..=most).rev().map(|b| format!("[Int32({b}), Int64({})]", b * 10)).collect();
        assert_eq!(lines, expected, "{most}");
    }
}

#[tokio::test]
async fn a_changed_catalog_is_seen() {
    let (world, mut session) = session().await;
    let mut operator = world.operator();
    assert_eq!(
        run(&mut operator, "CREATE TABLE u (a text, b int, n bigint, PRIMARY KEY (a, b))").await,
        "CREATE TABLE"
    );
    run(&mut session, "INSERT INTO u VALUES ('x', 1, 7)").await;
    let one = prepared(&mut session, "SELECT n FROM u WHERE a = $1 AND b = $2", &[]).await.unwrap();
    let all = prepared(&mut session, "SELECT * FROM u WHERE a = $1 AND b = $2", &[]).await.unwrap();
    let count = |text: String| text.lines().count();
    assert_eq!(count(answer(&mut session, &one, key("x", 1)).await), 2);
    run(&mut operator, "ALTER TABLE u ADD COLUMN s text").await;
    // The one still has its columns, the other no longer those that were described.
    assert_eq!(count(answer(&mut session, &one, key("x", 1)).await), 2);
    assert!(is_compiled(&one));
    assert!(answer(&mut session, &all, key("x", 1)).await.contains("\"s\""));
    assert!(!is_compiled(&all));
    run(&mut operator, "ALTER TABLE u RENAME COLUMN n TO m").await;
    assert!(answer(&mut session, &one, key("x", 1)).await.contains("42703"));
    run(&mut operator, "DROP TABLE u; CREATE TABLE u (a text, b int, n bigint, PRIMARY KEY (a, b))").await;
    assert_eq!(count(answer(&mut session, &one, key("x", 1)).await), 1, "rows of another table");
    run(&mut operator, "DROP TABLE u").await;
    assert!(answer(&mut session, &one, key("x", 1)).await.contains("42P01"));
    run(&mut session, "CREATE TABLE u (a text, b int, n bigint, PRIMARY KEY (a, b)); INSERT INTO u VALUES ('x', 1, 9)")
        .await;
    assert!(answer(&mut session, &one, key("x", 1)).await.contains("Int64(9)"));
    assert!(is_compiled(&one));
    run(&mut session, "DROP TABLE u; CREATE TABLE u (a text, b int, n bigint)").await;
    assert_eq!(count(answer(&mut session, &one, key("x", 1)).await), 1, "a key that no column shows");
    assert!(!is_compiled(&one));
}

#[tokio::test]
async fn settings_send_statements_the_general_way() {
    let (_world, mut session) = session().await;
    let sql = "SELECT n FROM t WHERE a = 'x' AND b = 1 AND c = $1";
    for setting in ["keyspan.point", "keyspan.pushdown"] {
        run(&mut session, &format!("SET {setting} = off")).await;
        assert!(!is_compiled(&prepared(&mut session, sql, &[]).await.unwrap()), "{setting}");
        run(&mut session, &format!("RESET {setting}")).await;
    }
    assert!(is_compiled(&prepared(&mut session, sql, &[]).await.unwrap()));
}

#[tokio::test]
async fn a_dropped_tenant_reads_and_writes_nothing() {
    let (world, mut session) = session().await;
    let read = prepared(&mut session, "SELECT c FROM sums WHERE k = $1", &[]).await.unwrap();
    let write = prepared(&mut session, "INSERT INTO sums VALUES ($1, 1)", &[]).await.unwrap();
    world.drop_tenant("alto").await;
    run(&mut world.operator(), "CREATE DATABASE alto").await;
    for prepared in [&read, &write] {
        let told = answer(&mut session, prepared, vec![ScalarValue::Int32(Some(1))]).await;
        assert!(told.contains("57P01"), "{told}");
    }
}

#[tokio::test]
async fn errors_are_those_of_the_general_way() {
    let (_world, mut session) = session().await;
    let insert = prepared(&mut session, "INSERT INTO sums VALUES ($1, $2)", &[]).await.unwrap();
    let values = |k: Option<i32>| vec![ScalarValue::Int32(k), ScalarValue::Int64(Some(1))];
    check(&mut session, &insert, values(Some(1)), expect!["INSERT 0 1"]).await;
    assert!(answer(&mut session, &insert, values(Some(1))).await.contains("23505"));
    assert!(answer(&mut session, &insert, values(None)).await.contains("23502"));
    run(&mut session, "BEGIN READ ONLY").await;
    assert!(answer(&mut session, &insert, values(Some(2))).await.contains("25006"));
    assert!(answer(&mut session, &insert, values(Some(2))).await.contains("25P02"));
}
