//! Domains where a condition could be passed by: COPY of every kind, parameters, statements that were prepared before a
//! change, copies of tenants, restarts, changes beside each other. `slt/postgres/domains.slt` has what PostgreSQL
//! answers.

use super::{
    command::Serving,
    harness::{Harness, PASSWORD, connect, error, rows},
};
use anyhow::Result;
use futures::SinkExt;
use rustix::process::Signal;
use std::pin::pin;
use tokio_postgres::{Client, binary_copy::BinaryCopyInWriter, types::Type};

const MADE: &str = "
    CREATE DOMAIN posint AS int CHECK (VALUE > 0);
    CREATE DOMAIN code AS text NOT NULL DEFAULT 'none' CHECK (length(VALUE) < 5);
    CREATE TABLE orders (id posint PRIMARY KEY, n posint, c code);
    INSERT INTO orders VALUES (1, 10, 'ab'), (2, NULL, DEFAULT)";
const ALL: &str = "SELECT id, n, c FROM orders ORDER BY id";

/// The SQLSTATE of a statement that fails.
async fn state(client: &Client, sql: &str) -> String {
    error(client, sql).await.chars().take(5).collect()
}

/// COPY of lines; the SQLSTATE if it fails.
async fn copied(client: &Client, copy: &str, lines: String) -> Result<Result<u64, String>> {
    let mut sink = pin!(client.copy_in(copy).await?);
    sink.send(bytes::Bytes::from(lines)).await?;
    let done = sink.finish().await;
    Ok(done.map_err(|error| error.code().map(|code| code.code().to_owned()).unwrap_or_default()))
}

#[tokio::test]
async fn no_way_into_a_table_passes_a_condition_by() -> Result<()> {
    let harness = Harness::start().await?;
    let client = harness.tenant("alto").await?;
    client.batch_execute(MADE).await?;
    let many =
        |bad: &str| (10..3_000).map(|id| format!("{id}\t{id}\tx\n")).chain([format!("{bad}\n")]).collect::<String>();
    let copy = "COPY orders FROM STDIN";
    assert_eq!(copied(&client, copy, many("5000\t0\tx")).await?, Err("23514".to_owned()));
    assert_eq!(copied(&client, copy, many("-1\t1\tx")).await?, Err("23514".to_owned()));
    assert_eq!(copied(&client, copy, many("5000\t1\t\\N")).await?, Err("23502".to_owned()));
    assert_eq!(copied(&client, copy, many("5000\t1\tabcde")).await?, Err("23514".to_owned()));
    // A column that is left out has the domain's default.
    assert_eq!(copied(&client, "COPY orders (id) FROM STDIN", "7\n".to_owned()).await?, Ok(1));
    let sink = client.copy_in("COPY orders (id, n) FROM STDIN (FORMAT binary)").await?;
    let mut writer = pin!(BinaryCopyInWriter::new(sink, &[Type::INT4, Type::INT4]));
    writer.as_mut().write(&[&8_i32, &-8_i32]).await?;
    let refused = writer.finish().await.unwrap_err();
    assert_eq!(refused.code().unwrap().code(), "23514");
    for (sql, given) in [
        ("INSERT INTO orders VALUES ($1, 1, 'a')", 0_i32),
        ("INSERT INTO orders (id, n) VALUES (9, $1)", -1),
        ("UPDATE orders SET n = $1 WHERE id = 1", 0),
        ("UPDATE orders SET n = n + $1 WHERE id = 1", -10),
        ("INSERT INTO orders (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET n = $1", -3),
    ] {
        let refused = client.execute(sql, &[&given]).await.unwrap_err();
        assert_eq!(refused.code().unwrap().code(), "23514", "{sql}");
    }
    let cast = client.prepare("SELECT $1::posint AS v").await?;
    assert_eq!(cast.columns()[0].type_(), &Type::INT4);
    assert_eq!(client.query_one(&cast, &[&3_i32]).await?.get::<_, i32>(0), 3);
    let refused = client.query(&cast, &[&0_i32]).await.unwrap_err();
    assert_eq!(refused.code().unwrap().code(), "23514");
    client.batch_execute("CREATE TEMP TABLE t (a posint, b code)").await?;
    assert_eq!(state(&client, "INSERT INTO t VALUES (0)").await, "23514");
    client.batch_execute("INSERT INTO t VALUES (1); ALTER DOMAIN posint ADD CHECK (VALUE <> 77)").await?;
    assert_eq!(state(&client, "INSERT INTO t VALUES (77)").await, "23514");
    assert_eq!(rows(&client, "SELECT a, b FROM t").await?, ["1|none"]);
    assert_eq!(rows(&client, ALL).await?, ["1|10|ab", "2||none", "7||none"]);
    Ok(())
}

#[tokio::test]
async fn statements_that_were_prepared_meet_new_conditions() -> Result<()> {
    let harness = Harness::start().await?;
    let (client, other) = (harness.tenant("alto").await?, harness.connect("alto", "alto").await?);
    client.batch_execute(MADE).await?;
    let insert = client.prepare("INSERT INTO orders (id, n) VALUES ($1, $2)").await?;
    let update = client.prepare("UPDATE orders SET n = $2 WHERE id = $1").await?;
    let cast = client.prepare("SELECT $1::posint").await?;
    for statement in [&insert, &update] {
        client.execute(statement, &[&50_i32, &5_000_i32]).await?;
    }
    client.query(&cast, &[&5_000_i32]).await?;
    assert_eq!(state(&other, "ALTER DOMAIN posint ADD CONSTRAINT low CHECK (VALUE < 5000)").await, "23514");
    client.batch_execute("DELETE FROM orders WHERE id = 50").await?;
    other.batch_execute("ALTER DOMAIN posint ADD CONSTRAINT low CHECK (VALUE < 5000)").await?;
    for statement in [&insert, &update] {
        let given = if std::ptr::eq(statement, &insert) { 51_i32 } else { 1 };
        let refused = client.execute(statement, &[&given, &5_000_i32]).await.unwrap_err();
        assert_eq!(refused.code().unwrap().code(), "23514");
    }
    assert_eq!(client.query(&cast, &[&5_000_i32]).await.unwrap_err().code().unwrap().code(), "23514");
    other.batch_execute("ALTER DOMAIN posint DROP CONSTRAINT low").await?;
    client.execute(&insert, &[&51_i32, &5_000_i32]).await?;
    assert_eq!(client.query(&cast, &[&5_000_i32]).await?.len(), 1);
    // A transaction that wrote what the condition, which came meanwhile, does not allow.
    client.batch_execute("BEGIN; UPDATE orders SET n = 9000 WHERE id = 1").await?;
    other.batch_execute("DELETE FROM orders WHERE id = 51; ALTER DOMAIN posint ADD CHECK (VALUE < 5000)").await?;
    assert_eq!(state(&client, "COMMIT").await, "40001");
    // And one that adds the condition, while another writes.
    client.batch_execute("BEGIN; ALTER DOMAIN posint ADD CHECK (VALUE < 1000)").await?;
    other.batch_execute("UPDATE orders SET n = 2000 WHERE id = 1").await?;
    assert_eq!(state(&client, "COMMIT").await, "40001");
    assert_eq!(rows(&client, ALL).await?, ["1|2000|ab", "2||none"]);
    Ok(())
}

#[tokio::test]
async fn copies_of_a_tenant_have_domains_of_their_own() -> Result<()> {
    let harness = Harness::start().await?;
    let (client, operator) = (harness.tenant("alto").await?, harness.operator().await?);
    client.batch_execute(MADE).await?;
    client
        .batch_execute(
            "CREATE TYPE mood AS ENUM ('sad', 'ok');
             CREATE SEQUENCE s;
             CREATE DOMAIN small AS posint CHECK (VALUE < 100);
             CREATE DOMAIN good AS mood CHECK (VALUE > 'sad'::mood);
             CREATE DOMAIN numbered AS int DEFAULT nextval('s');
             CREATE TABLE more (id numbered PRIMARY KEY, s small, g good);
             CREATE VIEW casts AS SELECT n::posint AS n FROM orders;
             ALTER TABLE orders ADD CHECK (n::small > 1 OR n IS NULL)",
        )
        .await?;
    drop(client);
    operator.batch_execute("CREATE DATABASE brio TEMPLATE alto").await?;
    operator.batch_execute("GRANT CONNECT ON DATABASE brio TO alto").await?;
    let copy = harness.connect("alto", "brio").await?;
    operator.batch_execute("DROP DATABASE alto").await?;
    copy.batch_execute("INSERT INTO more (s, g) VALUES (1, 'ok')").await?;
    assert_eq!(state(&copy, "INSERT INTO more (s) VALUES (0)").await, "23514");
    assert_eq!(state(&copy, "INSERT INTO more (s) VALUES (100)").await, "23514");
    assert_eq!(state(&copy, "INSERT INTO more (g) VALUES ('sad')").await, "23514");
    assert_eq!(state(&copy, "INSERT INTO orders (id, n) VALUES (5, 1)").await, "23514");
    copy.batch_execute("ALTER DOMAIN posint RENAME TO positive; ALTER TYPE mood RENAME TO feeling").await?;
    assert_eq!(rows(&copy, "SELECT n FROM casts ORDER BY n").await?, ["10", ""]);
    assert_eq!(rows(&copy, "SELECT id, s, g::text FROM more").await?, ["1|1|ok"]);
    assert_eq!(state(&copy, "DROP DOMAIN positive").await, "2BP01");
    copy.batch_execute("DROP TABLE more; DROP VIEW casts; DROP TABLE orders; DROP DOMAIN good, small, positive")
        .await?;
    copy.batch_execute("DROP TYPE feeling").await?;
    Ok(())
}

#[tokio::test]
async fn only_the_owner_changes_a_domain() -> Result<()> {
    let harness = Harness::start().await?;
    let (client, operator) = (harness.tenant("alto").await?, harness.operator().await?);
    client.batch_execute(MADE).await?;
    operator.batch_execute(&format!("CREATE ROLE other LOGIN PASSWORD '{PASSWORD}'")).await?;
    operator.batch_execute("GRANT CONNECT ON DATABASE alto TO other").await?;
    let other = harness.connect("other", "alto").await?;
    for sql in [
        "DROP DOMAIN posint",
        "DROP TYPE posint",
        "ALTER DOMAIN posint DROP CONSTRAINT posint_check",
        "ALTER DOMAIN posint RENAME TO y",
        "COMMENT ON DOMAIN posint IS 'x'",
    ] {
        let told = error(&other, sql).await;
        assert!(told.starts_with("42501") && told.contains("must be owner of type posint"), "{told}");
    }
    assert_eq!(state(&other, "CREATE DOMAIN mine AS int").await, "42501");
    assert_eq!(rows(&other, "SELECT 5::posint").await?, ["5"]);
    operator.batch_execute("GRANT other TO alto").await?;
    client.batch_execute("GRANT CREATE ON SCHEMA public TO other").await?;
    client.batch_execute("ALTER DOMAIN posint OWNER TO other").await?;
    other.batch_execute("ALTER DOMAIN posint DROP CONSTRAINT posint_check").await?;
    assert_eq!(state(&operator, "CREATE DOMAIN posint AS int").await, "0A000");
    Ok(())
}

#[tokio::test]
async fn domains_outlive_a_kill() -> Result<()> {
    let store = tempfile::tempdir()?;
    let serving = Serving::start(store.path(), Some(PASSWORD)).await?;
    let mut config = serving.config(PASSWORD);
    connect(&config).await?.batch_execute("CREATE DATABASE alto").await?;
    let client = connect(config.dbname("alto")).await?;
    client.batch_execute(MADE).await?;
    client.batch_execute("ALTER DOMAIN posint ADD CHECK (VALUE < 100); INSERT INTO orders VALUES (3)").await?;
    serving.signal(Signal::KILL).await?;
    let serving = Serving::start(store.path(), Some(PASSWORD)).await?;
    let client = connect(serving.config(PASSWORD).dbname("alto")).await?;
    assert_eq!(rows(&client, ALL).await?, ["1|10|ab", "2||none", "3||none"]);
    assert_eq!(state(&client, "INSERT INTO orders VALUES (100)").await, "23514");
    assert_eq!(state(&client, "SELECT 0::posint").await, "23514");
    serving.signal(Signal::TERM).await?;
    Ok(())
}

/// A table that comes while a domain changes is not held against the change: the change is refused.
#[tokio::test]
async fn no_table_slips_in_beside_a_new_condition() -> Result<()> {
    let harness = Harness::start().await?;
    let (client, other) = (harness.tenant("alto").await?, harness.connect("alto", "alto").await?);
    client.batch_execute(MADE).await?;
    client.batch_execute("BEGIN; ALTER DOMAIN posint ADD CHECK (VALUE < 1000)").await?;
    other.batch_execute("CREATE TABLE late (n posint); INSERT INTO late VALUES (5000)").await?;
    assert_eq!(state(&client, "COMMIT").await, "40001");
    // One of the transaction's own is.
    client.batch_execute("BEGIN; CREATE TABLE own (n posint); INSERT INTO own VALUES (5000)").await?;
    assert_eq!(state(&client, "ALTER DOMAIN posint ADD CHECK (VALUE < 5000)").await, "23514");
    client.batch_execute("ROLLBACK; ALTER DOMAIN posint ADD CHECK (VALUE < 5001)").await?;
    client
        .batch_execute("BEGIN; ALTER DOMAIN posint ADD CHECK (VALUE <> 7); CREATE TABLE own (n posint); COMMIT")
        .await?;
    assert_eq!(state(&other, "INSERT INTO own VALUES (7)").await, "23514");
    assert_eq!(rows(&other, "SELECT n FROM late").await?, ["5000"]);
    Ok(())
}

/// A condition of the time is of the moment when a statement runs, not of that when it was prepared.
#[tokio::test]
async fn conditions_of_the_time_are_of_each_statement() -> Result<()> {
    let harness = Harness::start().await?;
    let client = harness.tenant("alto").await?;
    client
        .batch_execute(
            "CREATE DOMAIN past AS timestamptz CHECK (VALUE <= now());
             CREATE TABLE seen (id int PRIMARY KEY, at past)",
        )
        .await?;
    let cast = client.prepare("SELECT $1::past").await?;
    let insert = client.prepare("INSERT INTO seen VALUES ($1, $2)").await?;
    for id in 0..3_i32 {
        // Later than all that was asked before.
        let now: std::time::SystemTime = client.query_one("SELECT clock_timestamp()", &[]).await?.get(0);
        assert_eq!(client.query(&cast, &[&now]).await?.len(), 1);
        client.execute(&insert, &[&id, &now]).await?;
        let later = now + std::time::Duration::from_secs(1_000);
        assert_eq!(client.query(&cast, &[&later]).await.unwrap_err().code().unwrap().code(), "23514");
        assert_eq!(client.execute(&insert, &[&id, &later]).await.unwrap_err().code().unwrap().code(), "23514");
    }
    Ok(())
}

/// What a transaction has written itself does not keep it from changing the types of its columns.
#[tokio::test]
async fn a_transaction_writes_a_table_and_changes_its_types() -> Result<()> {
    let harness = Harness::start().await?;
    let (client, other) = (harness.tenant("alto").await?, harness.connect("alto", "alto").await?);
    client.batch_execute(MADE).await?;
    client
        .batch_execute(
            "CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE TABLE people (id int PRIMARY KEY, m mood, n posint)",
        )
        .await?;
    client
        .batch_execute(
            "BEGIN; INSERT INTO people VALUES (1, 'ok', 5); ALTER TYPE mood ADD VALUE 'happy';
             ALTER DOMAIN posint ADD CHECK (VALUE < 50); INSERT INTO people VALUES (2, 'happy', 49); COMMIT",
        )
        .await?;
    assert_eq!(rows(&other, "SELECT id, m::text, n FROM people ORDER BY people.m").await?, ["1|ok|5", "2|happy|49"]);
    // Its own rows are looked at, too.
    client.batch_execute("BEGIN; INSERT INTO people VALUES (3, 'ok', 40)").await?;
    assert_eq!(state(&client, "ALTER DOMAIN posint ADD CHECK (VALUE < 40)").await, "23514");
    client.batch_execute("ROLLBACK").await?;
    // Another type of the table was changed meanwhile by another.
    client.batch_execute("BEGIN; INSERT INTO people VALUES (4, 'ok', 40); ALTER TYPE mood ADD VALUE 'best'").await?;
    other.batch_execute("DELETE FROM orders; ALTER DOMAIN posint ADD CHECK (VALUE <> 40)").await?;
    assert_eq!(state(&client, "COMMIT").await, "40001");
    assert_eq!(rows(&other, "SELECT count(*) FROM people").await?, ["2"]);
    Ok(())
}
