//! Writes with parameters, by the extended protocol.

use super::Sessions;
use anyhow::Result;
use expect_test::expect;

#[tokio::test]
async fn semantics_4_and_5_with_parameters() -> Result<()> {
    let mut sessions = Sessions::start().await?;
    let operator = sessions.get("op").await?;
    let table = "CREATE TABLE t (a text, b int, c bigint, d text, PRIMARY KEY (a, b))";
    operator.batch_execute(table).await?;
    let client = sessions.get("a").await?;
    let insert = client.prepare("INSERT INTO t VALUES ($1, $2, $3, $4)").await?;
    let types: Vec<_> = insert.params().iter().map(|kind| kind.name().to_owned()).collect();
    assert_eq!(types, ["text", "int4", "int8", "text"]);
    for b in 0..5 {
        assert_eq!(client.execute(&insert, &[&"x", &b, &i64::from(b), &None::<&str>]).await?, 1);
    }
    let error = client.execute(&insert, &[&"x", &1, &0_i64, &"again"]).await.unwrap_err();
    assert_eq!(error.code().map(|code| code.code().to_owned()), Some("23505".to_owned()));
    let upsert = client
        .prepare("INSERT INTO t VALUES ($1, $2, $3, $4) ON CONFLICT (a, b) DO UPDATE SET c = t.c + EXCLUDED.c, d = $5")
        .await?;
    assert_eq!(client.execute(&upsert, &[&"x", &1, &100_i64, &"", &"upserted"]).await?, 1);
    assert_eq!(client.execute(&upsert, &[&"y", &1, &100_i64, &"new", &"upserted"]).await?, 1);
    let update = client.prepare("UPDATE t SET c = $1, d = coalesce(d, $2) WHERE a = $3 AND b >= $4").await?;
    assert_eq!(client.execute(&update, &[&7_i64, &"none", &"x", &3]).await?, 2);
    assert_eq!(client.execute(&update, &[&7_i64, &"none", &None::<&str>, &0]).await?, 0);
    let delete = client.prepare("DELETE FROM t WHERE a = $1 AND b = $2").await?;
    assert_eq!(client.execute(&delete, &[&"x", &0]).await?, 1);
    assert_eq!(client.execute(&delete, &[&"x", &0]).await?, 0);
    assert_eq!(client.execute(&delete, &[&None::<&str>, &1]).await?, 0);
    let select = client.prepare("SELECT b, c, d FROM t WHERE a = $1 AND b < $2 ORDER BY b DESC").await?;
    let rows = client.query(&select, &[&"x", &3]).await?;
    let rows: Vec<(i32, i64, Option<String>)> = rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    assert_eq!(rows, [(2, 2, None), (1, 101, Some("upserted".to_owned()))]);
    sessions
        .check(expect![[r#"
            a> SELECT * FROM t ORDER BY a, b
            x | 1 | 101 | upserted
            x | 2 | 2 | NULL
            x | 3 | 7 | none
            x | 4 | 7 | none
            y | 1 | 100 | new
        "#]])
        .await
}

#[tokio::test]
async fn semantics_3_transactions_of_a_driver() -> Result<()> {
    let mut sessions = Sessions::start().await?;
    sessions.get("op").await?.batch_execute("CREATE TABLE t (a int PRIMARY KEY, b int)").await?;
    let mut client = sessions.harness.connect("alto", "alto").await?;
    let transaction = client.transaction().await?;
    transaction.execute("INSERT INTO t VALUES ($1, $2)", &[&1, &1]).await?;
    transaction.execute("UPDATE t SET b = b + $1", &[&1]).await?;
    assert_eq!(transaction.query_one("SELECT b FROM t WHERE a = $1", &[&1]).await?.get::<_, i32>(0), 2);
    transaction.rollback().await?;
    assert!(client.query("SELECT * FROM t", &[]).await?.is_empty());
    let transaction = client.transaction().await?;
    transaction.execute("INSERT INTO t VALUES ($1, $2)", &[&1, &1]).await?;
    transaction.commit().await?;
    let transaction = client.transaction().await?;
    transaction.execute("UPDATE t SET b = b + $1", &[&1]).await?;
    sessions.get("b").await?.batch_execute("UPDATE t SET b = 10").await?;
    let error = transaction.commit().await.unwrap_err();
    assert_eq!(error.code().map(|code| code.code().to_owned()), Some("40001".to_owned()));
    assert_eq!(client.query_one("SELECT b FROM t", &[]).await?.get::<_, i32>(0), 10);
    Ok(())
}
