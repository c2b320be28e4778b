//! Materialized views: who sees which rows while they are filled, who may fill them, and what is left of old rows.

use super::{
    command::Serving,
    harness::{Harness, OPERATOR_PASSWORD, PASSWORD, connect, error, rows},
};
use anyhow::Result;
use rustix::process::Signal;
use tokio_postgres::Client;

const MADE: &str = "
    CREATE TABLE orders (id int PRIMARY KEY, region text, cents bigint);
    INSERT INTO orders SELECT i, 'r' || i % 10, i FROM generate_series(1, 1000) AS g(i);
    CREATE MATERIALIZED VIEW sums AS SELECT region, sum(cents)::bigint AS cents FROM orders GROUP BY region";
const SUM: &str = "SELECT sum(cents) FROM sums";

/// What a drop of the database would delete.
async fn counted(operator: &Client) -> Result<Vec<String>> {
    let mut all = rows(operator, "EXPLAIN DROP DATABASE alto").await?;
    all.retain(|line| line.contains("rows"));
    Ok(all)
}

#[tokio::test]
async fn a_refresh_is_seen_when_it_commits() -> Result<()> {
    let harness = Harness::start().await?;
    let (writer, reader) = (harness.tenant("alto").await?, harness.connect("alto", "alto").await?);
    writer.batch_execute(MADE).await?;
    writer.batch_execute("BEGIN; UPDATE orders SET cents = 0; REFRESH MATERIALIZED VIEW sums").await?;
    assert_eq!(rows(&writer, SUM).await?, ["0"]);
    assert_eq!(rows(&reader, SUM).await?, ["500500"]);
    writer.batch_execute("ROLLBACK").await?;
    assert_eq!(rows(&writer, SUM).await?, ["500500"]);
    writer.batch_execute("BEGIN; DELETE FROM orders WHERE id = 1000; REFRESH MATERIALIZED VIEW sums").await?;
    // A cursor goes on with the rows that it began with.
    reader.batch_execute("BEGIN; DECLARE c CURSOR FOR SELECT cents FROM sums ORDER BY region; FETCH 5 FROM c").await?;
    writer.batch_execute("COMMIT").await?;
    assert_eq!(rows(&reader, "FETCH 10 FROM c").await?.len(), 5);
    reader.batch_execute("COMMIT").await?;
    assert_eq!(rows(&reader, SUM).await?, ["499500"]);
    // Statements that were prepared before.
    let prepared = reader.prepare(SUM).await?;
    writer.batch_execute("DELETE FROM orders WHERE id > 10; REFRESH MATERIALIZED VIEW CONCURRENTLY sums").await?;
    let sum = reader.query_one(&prepared, &[]).await?;
    assert_eq!(sum.columns()[0].name(), "sum");
    assert_eq!(rows(&reader, "SELECT count(*) FROM sums").await?, ["10"]);
    writer.batch_execute("REFRESH MATERIALIZED VIEW sums WITH NO DATA").await?;
    let refused = reader.query(&prepared, &[]).await.unwrap_err();
    assert_eq!(refused.code().unwrap().code(), "55000");
    Ok(())
}

#[tokio::test]
async fn of_two_refreshes_in_transactions_one_fails() -> Result<()> {
    let harness = Harness::start().await?;
    let (first, second) = (harness.tenant("alto").await?, harness.connect("alto", "alto").await?);
    first.batch_execute(MADE).await?;
    for client in [&first, &second] {
        client.batch_execute("BEGIN; REFRESH MATERIALIZED VIEW sums").await?;
    }
    second.batch_execute("COMMIT").await?;
    let told = error(&first, "COMMIT").await;
    assert!(told.starts_with("40001"), "{told}");
    assert_eq!(rows(&first, SUM).await?, ["500500"]);
    // Outside of transactions they follow one another.
    let refresh = "REFRESH MATERIALIZED VIEW sums";
    let (a, b) = tokio::join!(first.batch_execute(refresh), second.batch_execute(refresh));
    a.and(b)?;
    Ok(())
}

#[tokio::test]
async fn a_view_is_filled_with_the_rights_of_its_owner() -> Result<()> {
    let harness = Harness::start().await?;
    let (owner, operator) = (harness.tenant("alto").await?, harness.operator().await?);
    for name in ["reader", "maker"] {
        operator.batch_execute(&format!("CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}'")).await?;
        operator.batch_execute(&format!("GRANT CONNECT ON DATABASE alto TO {name}")).await?;
    }
    let (reader, maker) = (harness.connect("reader", "alto").await?, harness.connect("maker", "alto").await?);
    owner.batch_execute(MADE).await?;
    assert_eq!(error(&reader, SUM).await, "42501 permission denied for materialized view sums");
    owner.batch_execute("GRANT SELECT ON sums TO reader").await?;
    assert_eq!(rows(&reader, SUM).await?, ["500500"]);
    assert!(error(&reader, "SELECT * FROM orders").await.starts_with("42501"));
    for sql in
        ["REFRESH MATERIALIZED VIEW sums", "DROP MATERIALIZED VIEW sums", "ALTER MATERIALIZED VIEW sums RENAME TO x"]
    {
        assert_eq!(error(&reader, sql).await, "42501 must be owner of materialized view sums", "{sql}");
    }
    // What the owner may not read any more, a refresh does not, whoever asks for it.
    owner.batch_execute("GRANT CREATE ON SCHEMA public TO maker; GRANT SELECT ON orders TO maker").await?;
    maker.batch_execute("CREATE MATERIALIZED VIEW copied AS SELECT * FROM orders").await?;
    owner.batch_execute("REVOKE SELECT ON orders FROM maker").await?;
    for client in [&maker, &operator_in(&harness).await?] {
        let told = error(client, "REFRESH MATERIALIZED VIEW copied").await;
        assert_eq!(told, "42501 permission denied for table orders");
    }
    assert_eq!(rows(&maker, "SELECT count(*) FROM copied").await?, ["1000"]);
    operator_in(&harness).await?.batch_execute("ALTER MATERIALIZED VIEW sums OWNER TO maker").await?;
    assert!(error(&maker, "REFRESH MATERIALIZED VIEW sums").await.starts_with("42501 permission denied for table"));
    assert!(error(&maker, "CREATE MATERIALIZED VIEW again AS SELECT * FROM orders").await.starts_with("42501"));
    Ok(())
}

/// An operator in the database of the tenant.
async fn operator_in(harness: &Harness) -> Result<Client> {
    connect(&harness.config("keyspan", OPERATOR_PASSWORD, "alto")).await
}

#[tokio::test]
async fn rows_of_before_are_gone() -> Result<()> {
    let harness = Harness::start().await?;
    let (client, operator) = (harness.tenant("alto").await?, harness.operator().await?);
    client.batch_execute(MADE).await?;
    let before = counted(&operator).await?;
    assert!(before.iter().any(|line| line.contains("sums: a materialized view, 10 rows")), "{before:?}");
    for _ in 0..3 {
        client.batch_execute("REFRESH MATERIALIZED VIEW sums").await?;
    }
    client.batch_execute("BEGIN; REFRESH MATERIALIZED VIEW sums; REFRESH MATERIALIZED VIEW sums; COMMIT").await?;
    client.batch_execute("BEGIN; REFRESH MATERIALIZED VIEW sums; ROLLBACK").await?;
    assert!(
        error(&client, "CREATE MATERIALIZED VIEW no AS SELECT 1 / (id - 500) FROM orders").await.starts_with("22012")
    );
    assert_eq!(counted(&operator).await?, before);
    client.batch_execute("DROP MATERIALIZED VIEW sums").await?;
    assert_ne!(counted(&operator).await?, before);
    client.batch_execute("DELETE FROM orders").await?;
    client.batch_execute("CREATE MATERIALIZED VIEW sums AS SELECT count(*) FROM orders").await?;
    let told = rows(&client, "SELECT pg_relation_size('sums') > 0, pg_relation_size('orders')").await?;
    assert_eq!(told.len(), 1);
    Ok(())
}

#[tokio::test]
async fn what_a_view_keeps_is_there_after_a_crash() -> Result<()> {
    let store = tempfile::tempdir()?;
    let serving = Serving::start(store.path(), Some(PASSWORD)).await?;
    let mut config = serving.config(PASSWORD);
    connect(&config).await?.batch_execute("CREATE DATABASE alto").await?;
    let client = connect(config.dbname("alto")).await?;
    client.batch_execute(MADE).await?;
    client.batch_execute("UPDATE orders SET cents = 1; REFRESH MATERIALIZED VIEW sums").await?;
    client.batch_execute("CREATE MATERIALIZED VIEW later AS SELECT max(cents) FROM sums WITH NO DATA").await?;
    client.batch_execute("BEGIN; UPDATE orders SET cents = 7; REFRESH MATERIALIZED VIEW sums").await?;
    serving.signal(Signal::KILL).await?;
    let serving = Serving::start(store.path(), Some(PASSWORD)).await?;
    let client = connect(serving.config(PASSWORD).dbname("alto")).await?;
    assert_eq!(rows(&client, SUM).await?, ["1000"]);
    assert!(error(&client, "SELECT * FROM later").await.starts_with("55000"));
    client.batch_execute("REFRESH MATERIALIZED VIEW later").await?;
    assert_eq!(rows(&client, "SELECT * FROM later").await?, ["100"]);
    serving.signal(Signal::TERM).await?;
    Ok(())
}
