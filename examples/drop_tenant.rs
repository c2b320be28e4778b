//! A tenant goes as a whole: first a dry run, then the drop, which leaves a certificate and no trace in others.
//!
//! Run it: `cargo run -p keyspan-examples --example drop_tenant`

use anyhow::{Result, ensure};
use keyspan_examples::{Gateway, run, show};

const COUNT: &str = "SELECT tenant, count(*) AS rows, sum(units) AS units FROM example_usage \
                     WHERE tenant LIKE 'example_%' GROUP BY tenant ORDER BY tenant";

#[tokio::main]
async fn main() -> Result<()> {
    let gateway = Gateway::start().await?;
    let operator = gateway.operator().await?;
    for tenant in ["example_acme", "example_globex"] {
        run(&operator, &format!("DROP DATABASE IF EXISTS {tenant} WITH (FORCE)")).await?;
    }
    run(&operator, "DROP TABLE IF EXISTS example_usage").await?;
    run(
        &operator,
        "CREATE TABLE example_usage (service text, day date, units bigint, PRIMARY KEY (service, day), FAMILY f (units))",
    )
    .await?;
    for tenant in ["example_acme", "example_globex"] {
        run(&operator, &format!("CREATE DATABASE {tenant}")).await?;
        // The operator writes for any tenant: it is a column of every table here, and the first part of the key.
        let insert = operator.prepare("INSERT INTO example_usage VALUES ($1, $2, '2026-11-01', $3)").await?;
        for number in 0..100_i64 {
            operator.execute(&insert, &[&tenant, &format!("service-{number:02}"), &(number * 10)]).await?;
        }
    }
    show(&operator, COUNT).await?;
    let before = units(&operator, "example_globex").await?;

    // What would go: nothing is changed.
    show(&operator, "EXPLAIN DROP DATABASE example_acme").await?;
    ensure!(units(&operator, "example_acme").await? == Some(49_500), "a dry run changed rows");

    run(&operator, "DROP DATABASE example_acme WITH (FORCE)").await?;
    show(&operator, "SELECT * FROM keyspan.drops WHERE tenant = 'example_acme'").await?;
    show(&operator, COUNT).await?;
    ensure!(units(&operator, "example_acme").await?.is_none(), "rows of the dropped tenant are there");
    ensure!(units(&operator, "example_globex").await? == before, "the other tenant's rows changed");

    // A new tenant of the same name is empty.
    run(&operator, "CREATE DATABASE example_acme").await?;
    ensure!(units(&operator, "example_acme").await?.is_none(), "a new tenant sees rows of a dropped one");

    for tenant in ["example_acme", "example_globex"] {
        run(&operator, &format!("DROP DATABASE {tenant} WITH (FORCE)")).await?;
    }
    run(&operator, "DROP TABLE example_usage").await?;
    drop(operator);
    gateway.stop().await
}

/// What a tenant used; `None` when it has no rows.
async fn units(operator: &tokio_postgres::Client, tenant: &str) -> Result<Option<i64>> {
    let sql = "SELECT sum(units)::bigint FROM example_usage WHERE tenant = $1";
    Ok(operator.query_one(sql, &[&tenant]).await?.get(0))
}
