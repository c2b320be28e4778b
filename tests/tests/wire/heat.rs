//! `keyspan.heat`: what is read and written is counted by its keys, a tenant sees its own, and it is there after a
//! restart, until the tenant or its rows are gone for good.

use super::harness::{Harness, rows};
use anyhow::Result;
use tokio_postgres::Client;

const BY_TABLE: &str = "SELECT table_name, sum(reads), sum(writes) FROM keyspan.heat GROUP BY 1 ORDER BY 1";
const BY_TENANT: &str =
    "SELECT tenant, table_name, sum(reads), sum(writes) FROM keyspan.heat GROUP BY 1, 2 ORDER BY 1, 2";

/// Two tenants with a shared table and one of their own.
async fn tenants(harness: &Harness) -> Result<(Client, Client, Client)> {
    let (one, other) = (harness.tenant("alto").await?, harness.tenant("bari").await?);
    let operator = harness.operator().await?;
    operator.batch_execute("CREATE TABLE shared (k text PRIMARY KEY, v text)").await?;
    one.batch_execute("CREATE TABLE own (k text PRIMARY KEY, v text)").await?;
    Ok((operator, one, other))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_sees_the_heat_of_its_own_keys() -> Result<()> {
    let harness = Harness::start().await?;
    let (operator, one, other) = tenants(&harness).await?;
    one.batch_execute("INSERT INTO shared VALUES ('alto-a', 'x'), ('alto-b', 'y'), ('alto-c', 'z')").await?;
    one.batch_execute("BEGIN; INSERT INTO own VALUES ('mine', 'x'); UPDATE own SET v = 'y'; COMMIT").await?;
    other.batch_execute("INSERT INTO shared VALUES ('bari-secret', 'x')").await?;
    assert_eq!(rows(&one, "SELECT sum(writes) FROM keyspan.heat WHERE table_name = 'shared'").await?, ["3"]);
    assert_eq!(rows(&other, "SELECT table_name, writes, tenant FROM keyspan.heat").await?, ["shared|1|bari"]);
    let before: i64 = one.query_one("SELECT coalesce(sum(reads), 0)::int8 FROM keyspan.heat", &[]).await?.get(0);
    // By its key, by keys in both directions, by a scan of rows, and by one of columns.
    one.query("SELECT v FROM shared WHERE k = $1", &[&"alto-a"]).await?;
    rows(&one, "SELECT k FROM shared WHERE k >= 'alto-b' ORDER BY k DESC LIMIT 2").await?;
    for columnar in ["off", "on"] {
        one.batch_execute(&format!("SET keyspan.columnar = {columnar}")).await?;
        rows(&one, "SELECT v, count(*) FROM shared GROUP BY v").await?;
    }
    let after: i64 = one.query_one("SELECT sum(reads)::int8 FROM keyspan.heat", &[]).await?.get(0);
    assert_eq!(after - before, 1 + 2 + 3 + 3);
    // The other has read nothing of its own, and sees nothing of the first.
    assert_eq!(rows(&other, BY_TENANT).await?, ["bari|shared|0|1"]);
    let all =
        rows(&operator, "SELECT DISTINCT tenant, table_name, from_key, to_key FROM keyspan.heat ORDER BY 1, 2").await?;
    assert_eq!(all[1..], ["alto|shared|alto#|alto$", "bari|shared|bari#|bari$"]);
    assert!(all[0].starts_with("alto|own|alto#"), "{all:?}");
    // The tenant's keys come without its span, which the whole of it has not got an end in.
    let own =
        "SELECT DISTINCT from_key, from_bytes, to_key, to_bytes, from_time <= now() AND now() <= to_time + '2 min'
               FROM keyspan.heat WHERE table_name = 'shared'";
    assert_eq!(rows(&one, own).await?, ["|\\x|||t"]);
    assert!(
        rows(&one, "SELECT 1 FROM keyspan.heat WHERE table_name <> 'shared' AND table_name <> 'own'").await?.is_empty()
    );
    // What the operator reads is heat of the tenants' keys.
    rows(&operator, "SELECT v FROM shared WHERE tenant = 'bari' AND k = 'bari-secret'").await?;
    assert_eq!(rows(&other, BY_TABLE).await?, ["shared|1|1"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn heat_outlives_a_restart_but_neither_its_tenant_nor_erased_rows() -> Result<()> {
    let harness = Harness::start().await?;
    let (operator, one, other) = tenants(&harness).await?;
    one.batch_execute("INSERT INTO shared VALUES ('a', 'x'), ('b', 'y')").await?;
    one.batch_execute("INSERT INTO own VALUES ('mine', 'x')").await?;
    other.batch_execute("INSERT INTO shared VALUES ('c', 'x')").await?;
    let before = rows(&operator, BY_TENANT).await?;
    assert_eq!(before.len(), 3, "{before:?}");
    drop((operator, one, other));
    let harness = harness.restart().await?;
    let operator = harness.operator().await?;
    assert_eq!(rows(&operator, BY_TENANT).await?, before);
    // A period that goes on is one.
    let one = harness.connect("alto", "alto").await?;
    one.batch_execute("INSERT INTO shared VALUES ('d', 'x')").await?;
    assert_eq!(rows(&one, "SELECT sum(writes) FROM keyspan.heat WHERE table_name = 'shared'").await?, ["3"]);
    let twice = "SELECT from_time, table_oid, from_bytes FROM keyspan.heat GROUP BY 1, 2, 3 HAVING count(*) > 1";
    assert!(rows(&operator, twice).await?.is_empty());
    drop(one);
    let other = harness.connect("bari", "bari").await?;
    other.batch_execute("DELETE FROM shared WHERE k = 'c' ERASE").await?;
    assert!(rows(&other, "SELECT * FROM keyspan.heat").await?.is_empty());
    drop(other);
    operator.batch_execute("DROP DATABASE alto WITH (FORCE)").await?;
    assert!(rows(&operator, BY_TENANT).await?.is_empty());
    let left = harness.instance().catalog.heat().await?;
    assert!(left.iter().all(|row| row.tenant.as_ref().is_none_or(|tenant| tenant.as_str() != "alto")), "{left:?}");
    let harness = harness.restart().await?;
    assert!(rows(&harness.operator().await?, BY_TENANT).await?.is_empty());
    Ok(())
}
