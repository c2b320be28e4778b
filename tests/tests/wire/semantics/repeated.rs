//! A text that is sent again and again gives what it would give if it were new.

use super::{Sessions, check};
use anyhow::Result;
use expect_test::expect;

/// In the simple protocol the third of three is the first that finds what was made of the text.
#[tokio::test]
async fn a_text_that_comes_again_sees_what_has_changed() -> Result<()> {
    check(expect![[r#"
        op> CREATE TABLE t (k int PRIMARY KEY, v text)
        (0)
        a> INSERT INTO t VALUES (1, 'one')
        (1)
        s> INSERT INTO t VALUES (1, 'eins')
        (1)
        a> SELECT * FROM t
        1 | one
        a> SELECT * FROM t
        1 | one
        a> SELECT * FROM t
        1 | one
        s> SELECT * FROM t
        1 | eins
        s> SELECT * FROM t
        1 | eins
        s> SELECT * FROM t
        1 | eins
        b> INSERT INTO t VALUES (2, 'two')
        (1)
        a> SELECT * FROM t
        1 | one
        2 | two
        op> ALTER TABLE t ADD COLUMN w int
        (0)
        a> SELECT * FROM t
        1 | one | NULL
        2 | two | NULL
        a> UPDATE t SET w = coalesce(w, 0) + 1
        (2)
        a> UPDATE t SET w = coalesce(w, 0) + 1
        (2)
        a> UPDATE t SET w = coalesce(w, 0) + 1
        (2)
        a> UPDATE t SET w = coalesce(w, 0) + 1
        (2)
        a> SELECT * FROM t
        1 | one | 4
        2 | two | 4
        a> BEGIN
        (0)
        a> DELETE FROM t WHERE k = 2
        (1)
        a> SELECT * FROM t
        1 | one | 4
        a> SELECT nothing FROM t
        42703: column "nothing" does not exist
        POSITION: 8
        a> SELECT * FROM t
        25P02: current transaction is aborted, commands ignored until end of transaction block
        a> ROLLBACK
        (0)
        a> SELECT * FROM t
        1 | one | 4
        2 | two | 4
        a> SET application_name = 'one'
        (0)
        a> SELECT current_setting('application_name')
        one
        a> SELECT current_setting('application_name')
        one
        a> SELECT current_setting('application_name')
        one
        a> SET application_name = 'two'
        (0)
        a> SELECT current_setting('application_name')
        two
        a> CREATE TABLE mine (k int PRIMARY KEY)
        (0)
        a> SELECT * FROM mine
        (no rows)
        a> SELECT * FROM mine
        (no rows)
        a> SELECT * FROM mine
        (no rows)
        a> BEGIN
        (0)
        a> ALTER TABLE mine ADD COLUMN more text
        (0)
        a> INSERT INTO mine VALUES (1, 'x')
        (1)
        a> SELECT * FROM mine
        1 | x
        a> SELECT * FROM mine
        1 | x
        a> SELECT * FROM mine
        1 | x
        a> ROLLBACK
        (0)
        a> SELECT * FROM mine
        (no rows)
        a> DROP TABLE mine
        (0)
        a> SELECT * FROM mine
        42P01: relation "mine" does not exist
        POSITION: 15
        a> CREATE TABLE mine (a text, b text)
        (0)
        a> INSERT INTO mine VALUES ('new', 'table')
        (1)
        a> SELECT * FROM mine
        new | table
    "#]])
    .await
}

/// A driver that prepares the text for each query.
#[tokio::test]
async fn a_text_that_is_prepared_again_sees_what_has_changed() -> Result<()> {
    let mut sessions = Sessions::start().await?;
    sessions.get("op").await?.batch_execute("CREATE TABLE t (k int PRIMARY KEY, v int)").await?;
    sessions.get("a").await?.batch_execute("INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)").await?;
    let (by_key, by_value) = ("SELECT * FROM t WHERE k = $1", "SELECT sum(v), count(*) FROM t WHERE v >= $1");
    for round in 0..4 {
        let client = sessions.get("a").await?;
        for (key, value) in [(1, 10), (3, 30)] {
            let row = client.query_one(by_key, &[&key]).await?;
            assert_eq!((row.len(), row.get::<_, i32>(1)), (2, value + round));
            let row = client.query_one(by_value, &[&(value + round)]).await?;
            let (sum, count) = if key == 1 { (60 + 3 * i64::from(round), 3) } else { (30 + i64::from(round), 1) };
            assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (sum, count));
        }
        sessions.get("b").await?.execute("UPDATE t SET v = v + 1", &[]).await?;
    }
    sessions.get("op").await?.batch_execute("ALTER TABLE t ADD COLUMN w text").await?;
    let client = sessions.get("a").await?;
    assert_eq!(client.query_one(by_key, &[&1]).await?.len(), 3);
    // The types of parameters are part of what is asked for.
    let typed = client.prepare_typed(by_key, &[tokio_postgres::types::Type::INT8]).await?;
    assert_eq!(client.query_one(&typed, &[&2_i64]).await?.get::<_, i32>(1), 24);
    assert_eq!(client.query_one(by_key, &[&2]).await?.get::<_, i32>(1), 24);
    sessions.get("op").await?.batch_execute("DROP TABLE t; CREATE TABLE t (k text PRIMARY KEY)").await?;
    let client = sessions.get("a").await?;
    assert!(client.query_opt(by_key, &[&"1"]).await?.is_none());
    let error = client.query_opt(by_value, &[&1]).await.unwrap_err();
    assert_eq!(error.code().map(|code| code.code().to_owned()), Some("42703".to_owned()));
    Ok(())
}
