//! INSERTs of values that go around the optimizer, with what tables of applications have: numbers of sequences, times,
//! defaults, RETURNING. `point::tests::random` holds both ways against each other; here is what that does not see.

use super::harness::{Harness, PASSWORD, error, rows};
use anyhow::Result;
use std::collections::BTreeSet;
use tokio_postgres::Client;

const MADE: &str = "
    CREATE TYPE mood AS ENUM ('sad', 'ok');
    CREATE TABLE orders (id bigserial PRIMARY KEY, at timestamptz NOT NULL DEFAULT now(), state text DEFAULT 'new',
        price numeric(8,2), weight float8, token uuid DEFAULT gen_random_uuid());
    CREATE TABLE people (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, m mood DEFAULT 'ok');
    CREATE TABLE events (v int NOT NULL, w text DEFAULT 'x')";

/// The SQLSTATE of a statement that fails.
async fn state(client: &Client, sql: &str) -> String {
    error(client, sql).await.chars().take(5).collect()
}

#[tokio::test]
async fn rows_have_their_defaults_and_come_back() -> Result<()> {
    let harness = Harness::start().await?;
    let client = harness.tenant("alto").await?;
    client.batch_execute(MADE).await?;
    let sql = "INSERT INTO orders (price, weight) VALUES (1.5, 2.25), (-3, 4) RETURNING id, state, price, weight AS w";
    assert_eq!(rows(&client, sql).await?, ["1|new|1.50|2.25", "2|new|-3.00|4"]);
    let sql = "INSERT INTO orders VALUES (DEFAULT, DEFAULT, 'old', 2.005) RETURNING orders.id, price, state, id";
    assert_eq!(rows(&client, sql).await?, ["3|2.01|old|3"]);
    assert_eq!(rows(&client, "SELECT lastval(), currval('orders_id_seq')").await?, ["3|3"]);
    // What an application prepares.
    let insert = client.prepare("INSERT INTO orders (state, price) VALUES ($1, 9.99) RETURNING *").await?;
    let types: Vec<_> = insert.columns().iter().map(|column| (column.name(), column.type_().name())).collect();
    let expected = [
        ("id", "int8"),
        ("at", "timestamptz"),
        ("state", "text"),
        ("price", "numeric"),
        ("weight", "float8"),
        ("token", "uuid"),
    ];
    assert_eq!(types, expected);
    let made = client.query_one(&insert, &[&"prepared"]).await?;
    assert_eq!((made.get::<_, i64>(0), made.get::<_, &str>(2)), (4, "prepared"));
    assert!(made.try_get::<_, Option<f64>>(4)?.is_none());
    // Times are the transaction's, tokens each row's own.
    client.batch_execute("BEGIN").await?;
    for _ in 0..3 {
        client.query(&insert, &[&"at once"]).await?;
    }
    client.batch_execute("COMMIT").await?;
    let times = "SELECT count(DISTINCT at), count(DISTINCT token) FROM orders WHERE state = 'at once'";
    assert_eq!(rows(&client, times).await?, ["1|3"]);
    let tokens = rows(&client, "INSERT INTO orders (state) VALUES ('a'), ('b') RETURNING token").await?;
    assert_eq!(tokens.into_iter().collect::<BTreeSet<_>>().len(), 2);
    // Rows without a key of their own, and labels.
    let sql = "INSERT INTO events (v) VALUES (1), (1) RETURNING *";
    assert_eq!(rows(&client, sql).await?, ["1|x", "1|x"]);
    assert_eq!(rows(&client, "SELECT count(*) FROM events").await?, ["2"]);
    let labels = client.prepare("INSERT INTO people (m) VALUES ('sad') RETURNING m, id").await?;
    assert_eq!(labels.columns()[0].type_().name(), "mood");
    assert_eq!(rows(&client, "INSERT INTO people (id) VALUES (DEFAULT) RETURNING id, m::text").await?, ["1|ok"]);
    assert_eq!(rows(&client, "INSERT INTO people (m) VALUES ('sad') RETURNING m, id").await?, ["sad|2"]);
    Ok(())
}

#[tokio::test]
async fn what_is_refused_is_refused() -> Result<()> {
    let harness = Harness::start().await?;
    let (client, operator) = (harness.tenant("alto").await?, harness.operator().await?);
    client.batch_execute(MADE).await?;
    client.batch_execute("INSERT INTO orders (id, state) VALUES (7, 'seven')").await?;
    for (sql, expected) in [
        ("INSERT INTO people (id) VALUES (1)", "428C9"),
        ("INSERT INTO people VALUES (1, 'ok')", "428C9"),
        ("INSERT INTO people (m) VALUES ('glad')", "22P02"),
        ("INSERT INTO events (w) VALUES ('y') RETURNING v", "23502"),
        ("INSERT INTO events (v) VALUES (1.5.5)", "42601"),
        ("INSERT INTO orders (price) VALUES (1234567.5)", "22003"),
        ("INSERT INTO orders (id) VALUES (7) RETURNING id", "23505"),
        ("INSERT INTO orders (id) VALUES (8), (7) RETURNING id", "23505"),
        ("INSERT INTO orders (id) VALUES (8) RETURNING nothing", "42703"),
    ] {
        assert_eq!(state(&client, sql).await, expected, "{sql}");
    }
    // Numbers that were taken are gone, as in PostgreSQL; the row that is there is not returned.
    let sql =
        "INSERT INTO orders (id, state) VALUES (7, 'x'), (8, 'y') ON CONFLICT (id) DO NOTHING RETURNING id, state";
    assert_eq!(rows(&client, sql).await?, ["8|y"]);
    assert_eq!(rows(&client, "SELECT id, state FROM orders ORDER BY id").await?, ["7|seven", "8|y"]);
    // What is rolled back was never there.
    client.batch_execute("BEGIN").await?;
    assert_eq!(rows(&client, "INSERT INTO events VALUES (5) RETURNING v, w").await?, ["5|x"]);
    assert_eq!(rows(&client, "SELECT v FROM events").await?, ["5"]);
    client.batch_execute("ROLLBACK").await?;
    assert_eq!(rows(&client, "SELECT v FROM events").await?, Vec::<String>::new());
    operator.batch_execute(&format!("CREATE ROLE other LOGIN PASSWORD '{PASSWORD}'")).await?;
    operator.batch_execute("GRANT CONNECT ON DATABASE alto TO other").await?;
    client.batch_execute("GRANT INSERT ON orders, events TO other").await?;
    let other = harness.connect("other", "alto").await?;
    assert_eq!(state(&other, "INSERT INTO orders (state) VALUES ('a')").await, "42501", "no right on the sequence");
    assert_eq!(state(&other, "INSERT INTO events VALUES (1) RETURNING v").await, "42501", "no right to read");
    other.batch_execute("INSERT INTO events VALUES (1); INSERT INTO orders (id) VALUES (99)").await?;
    client.batch_execute("GRANT USAGE ON SEQUENCE orders_id_seq TO other").await?;
    other.batch_execute("INSERT INTO orders (state) VALUES ('a')").await?;
    assert_eq!(rows(&client, "SELECT count(*) FROM orders").await?, ["4"]);
    Ok(())
}
