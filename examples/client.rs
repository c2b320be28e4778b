//! An application that writes and queries as a tenant, with an ordinary PostgreSQL driver.
//!
//! Run it: `cargo run -p keyspan-examples --example client`

use anyhow::{Result, ensure};
use keyspan_examples::{Gateway, run, show};
use std::time::{Duration, UNIX_EPOCH};
use tokio_postgres::error::SqlState;

#[tokio::main]
async fn main() -> Result<()> {
    let gateway = Gateway::start().await?;

    // The operator defines the table once, for all tenants, and makes a tenant with a role for its application.
    let operator = gateway.operator().await?;
    run(&operator, "DROP DATABASE IF EXISTS example_shop WITH (FORCE)").await?;
    run(&operator, "DROP ROLE IF EXISTS example_clerk").await?;
    run(&operator, "DROP TABLE IF EXISTS example_orders").await?;
    run(
        &operator,
        "CREATE TABLE example_orders (
             customer text, placed timestamptz, number int, state text, total_cents bigint, note text,
             PRIMARY KEY (customer, placed, number),
             FAMILY facts (state, total_cents), FAMILY notes (note)
         ) WITH (facts.max_versions = 3, notes.max_age = '90 days')",
    )
    .await?;
    run(&operator, "CREATE DATABASE example_shop").await?;
    run(&operator, "CREATE ROLE example_clerk LOGIN PASSWORD 'correct horse'").await?;
    run(&operator, "ALTER DATABASE example_shop OWNER TO example_clerk").await?;

    // The application connects to the tenant's database; the tenant is nowhere in its statements.
    let mut clerk = gateway.connect("example_clerk", "correct horse", "example_shop").await?;

    // An upsert that sets the columns that it inserts, from EXCLUDED, need not read: the fast way to write.
    let put = clerk
        .prepare(
            "INSERT INTO example_orders (customer, placed, number, state, total_cents) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (customer, placed, number)
             DO UPDATE SET state = EXCLUDED.state, total_cents = EXCLUDED.total_cents",
        )
        .await?;
    let noon = UNIX_EPOCH + Duration::from_secs(1_793_534_400);
    let orders: [(&str, u64, i32, &str, i64); 4] = [
        ("ann", 0, 1, "new", 1_990),
        ("ann", 60, 2, "new", 500),
        ("bob", 90, 1, "new", 7_200),
        ("ann", 0, 1, "paid", 1_990),
    ];
    for (customer, minutes, number, state, total_cents) in orders {
        let placed = noon + Duration::from_secs(minutes * 60);
        let rows = clerk.execute(&put, &[&customer, &placed, &number, &state, &total_cents]).await?;
        println!("-- upserted {rows} row: {customer}'s order {number} is {state}");
    }

    // The first parts of the key make this one range of keys, in order.
    let of_customer = clerk
        .prepare(
            "SELECT number, state, total_cents FROM example_orders WHERE customer = $1 AND placed >= $2 ORDER BY placed",
        )
        .await?;
    for row in clerk.query(&of_customer, &[&"ann", &noon]).await? {
        let (number, state, total_cents): (i32, &str, i64) = (row.get(0), row.get(1), row.get(2));
        println!("-- ann's order {number}: {state}, {total_cents} cents");
    }

    // INSERT without ON CONFLICT refuses a key that is there.
    let again = "INSERT INTO example_orders (customer, placed, number) VALUES ($1, $2, $3)";
    let error = match clerk.execute(again, &[&"ann", &noon, &1_i32]).await {
        Ok(_) => anyhow::bail!("a second order with the same key was taken"),
        Err(error) => error,
    };
    ensure!(error.code() == Some(&SqlState::UNIQUE_VIOLATION), error);
    println!("-- a second order with the same key: {}", error.as_db_error().map_or("", |error| error.message()));

    // Rows that change together.
    let transaction = clerk.transaction().await?;
    transaction
        .execute("UPDATE example_orders SET state = 'sent' WHERE customer = 'ann' AND state = 'paid'", &[])
        .await?;
    transaction
        .execute("UPDATE example_orders SET note = 'by bike' WHERE customer = 'ann' AND number = 1", &[])
        .await?;
    transaction.commit().await?;
    show(&clerk, "SELECT customer, number, state, total_cents, note FROM example_orders").await?;

    drop(clerk);
    run(&operator, "DROP DATABASE example_shop WITH (FORCE)").await?;
    run(&operator, "DROP ROLE example_clerk").await?;
    run(&operator, "DROP TABLE example_orders").await?;
    drop(operator);
    gateway.stop().await
}
