//! A client that changes its private tables, one step after the other, until the server is gone; and what has to hold
//! of what is left.

use super::super::harness::{connect, rows};
use anyhow::{Context, Result, ensure};
use tokio_postgres::{Client, Config};

/// Rows of the table.
const ROWS: i64 = 60;

/// The table as it is at first, and how many steps were made.
pub(super) async fn begin(client: &Client) -> Result<()> {
    let sql = format!(
        "BEGIN;
         CREATE TABLE steps (n bigint);
         INSERT INTO steps VALUES (0);
         CREATE TABLE m (id bigint, step bigint);
         INSERT INTO m SELECT g, 0 FROM generate_series(1, {ROWS}) AS g(g);
         COMMIT"
    );
    Ok(client.batch_execute(&sql).await?)
}

/// One step, which changes the table, its rows and the number of steps together. A first transaction is taken back, and
/// leaves nothing.
async fn step(client: &Client, n: i64) -> Result<(), tokio_postgres::Error> {
    let change = match n % 4 {
        1 => format!("ALTER TABLE m ADD COLUMN c{n} bigint NOT NULL DEFAULT {n}, ADD PRIMARY KEY (id)"),
        2 => format!("TRUNCATE m; INSERT INTO m (id, step) SELECT g, 0 FROM generate_series(1, {ROWS}) AS g(g)"),
        3 => format!("ALTER TABLE m ADD COLUMN c{n} bigint DEFAULT {n}; CREATE TABLE made_{n} (id serial, t text)"),
        _ => "ALTER TABLE m DROP CONSTRAINT m_pkey; DROP TABLE IF EXISTS old; ALTER TABLE m ALTER COLUMN step SET NOT NULL".to_owned(),
    };
    client
        .batch_execute(&format!("BEGIN; ALTER TABLE m ADD COLUMN never{n} int DEFAULT 1; TRUNCATE m; ROLLBACK"))
        .await?;
    client
        .batch_execute(&format!("BEGIN; {change}; UPDATE m SET step = {n}; UPDATE steps SET n = {n} WHERE n = {n} - 1"))
        .await?;
    client.batch_execute("INSERT INTO steps VALUES (-1); DELETE FROM steps WHERE n = -1; COMMIT").await
}

/// Makes steps from `from` on until the server is gone; says which were acknowledged and gives the one that had no
/// answer.
pub(super) async fn go_on(config: Config, from: i64, acknowledged: tokio::sync::mpsc::UnboundedSender<i64>) -> i64 {
    let Ok(client) = connect(&config).await else { return from };
    for n in from.. {
        if step(&client, n).await.is_err() {
            return n;
        }
        acknowledged.send(n).expect("the test listens");
    }
    unreachable!("there is no last number")
}

/// How many steps were made, after checking that each was made whole, and that nothing of another is there.
pub(super) async fn check(client: &Client) -> Result<i64> {
    let steps = rows(client, "SELECT n FROM steps").await?;
    let [steps] = steps.as_slice() else { anyhow::bail!("steps: {steps:?}") };
    let n: i64 = steps.parse().context("the number of steps")?;
    let columns = rows(
        client,
        "SELECT column_name FROM information_schema.columns WHERE table_name = 'm' ORDER BY ordinal_position",
    )
    .await?;
    let added: Vec<i64> = (1..=n).filter(|step| step % 2 == 1).collect();
    let expected: Vec<String> =
        ["id".to_owned(), "step".to_owned()].into_iter().chain(added.iter().map(|step| format!("c{step}"))).collect();
    ensure!(columns == expected, "step {n}: columns {columns:?}");
    let values: String = added.iter().map(|step| format!(", min(c{step}) = {step}, max(c{step}) = {step}")).collect();
    let found = rows(
        client,
        &format!("SELECT count(*), count(DISTINCT id), min(id), max(id), min(step), max(step){values} FROM m"),
    )
    .await?;
    let all = "|t".repeat(2 * added.len());
    ensure!(found == [format!("{ROWS}|{ROWS}|1|{ROWS}|{n}|{n}{all}")], "step {n}: {found:?}");
    let keyed = rows(client, "SELECT count(*) FROM pg_constraint WHERE conname = 'm_pkey'").await?;
    ensure!(keyed == [i64::from(n % 4 != 0).to_string()], "step {n}: {keyed:?} keys");
    let made = rows(client, "SELECT count(*) FROM pg_class WHERE relname LIKE 'made%' AND relkind = 'r'").await?;
    ensure!(made == [(1..=n).filter(|step| step % 4 == 3).count().to_string()], "step {n}: {made:?} tables made");
    // The key is one: it finds rows, and refuses what is there.
    ensure!(rows(client, "SELECT id FROM m WHERE id = 7").await? == ["7"]);
    let again = client.batch_execute("BEGIN; INSERT INTO m (id, step) VALUES (7, 7)").await;
    ensure!(again.is_err() == (n % 4 != 0), "step {n}: a row twice");
    client.batch_execute("ROLLBACK").await?;
    Ok(n)
}
