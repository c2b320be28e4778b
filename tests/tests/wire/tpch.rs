//! The answers to the 22 statements of TPC-H at a tiny scale, of a tenant's own tables and of shared ones. PostgreSQL
//! gave what is expected: with `KEYSPAN_TESTS_POSTGRES` and `UPDATE_EXPECT=1`, as `tests/record` sets them, it is written.

use super::harness::{self, Harness};
use anyhow::{Context, Result, ensure};
use expect_test::expect_file;
use keyspan_bench::tpch::{SCALE_MIN as SCALE, TABLES, statements};
use std::fmt::Write as _;
use tokio_postgres::{Client, SimpleQueryMessage};

/// Makes the tables with one connection, and fills them with another.
async fn load(definer: &Client, client: &Client) -> Result<()> {
    for table in &TABLES {
        definer.batch_execute(&table.definition()).await?;
        table.copy(client, SCALE).await?;
    }
    Ok(())
}

/// All answers; numbers as the server writes them.
async fn answers(client: &Client) -> Result<String> {
    let mut answers = String::new();
    for statement in statements(SCALE)? {
        writeln!(answers, "{}", statement.name)?;
        for message in client.simple_query(&statement.sql).await.with_context(|| statement.name.clone())? {
            if let SimpleQueryMessage::Row(row) = message {
                let cells = (0..row.len()).map(|at| row.get(at).unwrap_or("NULL")).collect::<Vec<_>>();
                writeln!(answers, "{}", cells.join("|"))?;
            }
        }
    }
    Ok(answers)
}

/// The plans of all statements, which name no subquery that runs for each row.
async fn no_subquery_runs_for_each_row(client: &Client) -> Result<()> {
    for statement in statements(SCALE)? {
        for message in client.simple_query(&format!("EXPLAIN {}", statement.sql)).await? {
            if let SimpleQueryMessage::Row(row) = message {
                let line = row.get(0).unwrap_or_default();
                ensure!(!line.contains("Apply"), "{}: {line}", statement.name);
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn own_and_shared_tables_answer_tpch_as_postgresql_does() -> Result<()> {
    let expected = expect_file!["tpch.txt"];
    if let Ok(address) = std::env::var("KEYSPAN_TESTS_POSTGRES") {
        let connect = |database: &str| {
            let config = format!("{address} dbname={database}").parse();
            async move { harness::connect(&config?).await }
        };
        let maintenance = connect("postgres").await?;
        maintenance.batch_execute("DROP DATABASE IF EXISTS tpch").await?;
        maintenance.batch_execute("CREATE DATABASE tpch").await?;
        let client = connect("tpch").await?;
        load(&client, &client).await?;
        expected.assert_eq(&answers(&client).await?);
        return Ok(());
    }
    let harness = Harness::start().await?;
    harness.tenant("alto").await?;
    let client = harness.connect("alto", "alto").await?;
    load(&client, &client).await?;
    expected.assert_eq(&answers(&client).await?);
    no_subquery_runs_for_each_row(&client).await?;
    drop(client);

    let harness = Harness::start().await?;
    harness.tenant("alto").await?;
    let (operator, client) = (harness.operator().await?, harness.connect("alto", "alto").await?);
    load(&operator, &client).await?;
    expected.assert_eq(&answers(&client).await?);
    no_subquery_runs_for_each_row(&client).await
}
