//! Input that is wrong: a clear error with its SQLSTATE, and nothing lost.

use super::{Sessions, answer, check, shown};
use crate::wire::harness::connect;
use anyhow::Result;
use bytes::Bytes;
use expect_test::expect;

#[tokio::test]
async fn who_may_not_enter_is_told_why() -> Result<()> {
    let sessions = Sessions::start().await?;
    let mut told = Vec::new();
    for (role, password, database) in [
        ("alto", "wrong", "alto"),
        ("nobody", "pass word", "alto"),
        ("alto", "pass word", "nowhere"),
        ("alto", "pass word", "altostrat"),
        ("alto", "pass word", "keyspan"),
        ("keyspan", "wrong", "keyspan"),
        ("alto", "", "alto"),
    ] {
        let answer = match connect(&sessions.harness.config(role, password, database)).await {
            Ok(_) => "connected".to_owned(),
            Err(error) => match error.downcast_ref::<tokio_postgres::Error>().and_then(|error| error.as_db_error()) {
                Some(error) => shown(error),
                None => format!("not from the server: {error:#}"),
            },
        };
        told.push(format!("{role} to {database}: {answer}"));
    }
    expect![[r#"
        alto to alto: 28P01: password authentication failed for user "alto"
        nobody to alto: 28P01: password authentication failed for user "nobody"
        alto to nowhere: 3D000: database "nowhere" does not exist
        HINT: An operator makes it with CREATE DATABASE … OWNER, and lets others in with GRANT CONNECT ON DATABASE.
        alto to altostrat: 3D000: database "altostrat" does not exist
        HINT: An operator makes it with CREATE DATABASE … OWNER, and lets others in with GRANT CONNECT ON DATABASE.
        alto to keyspan: 42501: permission denied for database "keyspan"
        DETAIL: The role does not have the CONNECT privilege.
        keyspan to keyspan: 28P01: password authentication failed for user "keyspan"
        alto to alto: 28P01: password authentication failed for user "alto"
    "#]]
    .assert_eq(&format!("{}\n", told.join("\n")));
    Ok(())
}

#[tokio::test]
async fn names_of_tenants_are_checked() -> Result<()> {
    check(expect![[r#"
        op> CREATE DATABASE "a#b"
        42602: invalid tenant id "a#b"
        HINT: A tenant id starts with a-z or 0-9, goes on with a-z, 0-9, _ and -, and has at most 63 characters.
        op> CREATE DATABASE "Upper"
        42602: invalid tenant id "Upper"
        HINT: A tenant id starts with a-z or 0-9, goes on with a-z, 0-9, _ and -, and has at most 63 characters.
        op> CREATE DATABASE ""
        42601: syntax error at or near """"
        POSITION: 17
        op> CREATE DATABASE keyspan
        42939: database name "keyspan" is reserved
        op> CREATE DATABASE postgres
        42939: database name "postgres" is reserved
        op> CREATE DATABASE template1
        42939: database name "template1" is reserved
        op> CREATE DATABASE alto
        42P04: database "alto" already exists
        op> CREATE DATABASE "-a"
        42602: invalid tenant id "-a"
        HINT: A tenant id starts with a-z or 0-9, goes on with a-z, 0-9, _ and -, and has at most 63 characters.
        op> DROP DATABASE "a#b"
        42602: invalid tenant id "a#b"
        HINT: A tenant id starts with a-z or 0-9, goes on with a-z, 0-9, _ and -, and has at most 63 characters.
        op> DROP DATABASE ""
        42601: syntax error at or near """"
        POSITION: 15
        op> DROP DATABASE nowhere
        3D000: database "nowhere" does not exist
        op> DROP DATABASE IF EXISTS nowhere
        (0)
        op> DROP DATABASE keyspan
        42939: database name "keyspan" is reserved
        op> GRANT CONNECT ON DATABASE nowhere TO alto
        3D000: database "nowhere" does not exist
        op> GRANT CONNECT ON DATABASE alto TO nobody
        42704: role "nobody" does not exist
        op> CREATE TABLE t (a text PRIMARY KEY)
        (0)
        op> INSERT INTO t VALUES ('a#b', 'x')
        23503: insert on table "t" violates foreign key constraint "t_tenant_fkey"
        DETAIL: Key (tenant)=(a#b) is not present in table "tenants".
        HINT: CREATE DATABASE makes a tenant.
        op> INSERT INTO t VALUES ('', 'x')
        23503: insert on table "t" violates foreign key constraint "t_tenant_fkey"
        DETAIL: Key (tenant)=() is not present in table "tenants".
        HINT: CREATE DATABASE makes a tenant.
        op> SELECT * FROM t
        (no rows)
        a> CREATE DATABASE x
        42501: permission denied for CREATE DATABASE
        DETAIL: Databases and roles are defined by an operator in database "keyspan".
        a> DROP DATABASE altostrat
        42501: permission denied for DROP DATABASE
        DETAIL: Databases and roles are defined by an operator in database "keyspan".
        a> DROP TABLE t
        42501: must be owner of table t
        DETAIL: It is a shared table: an operator defines it in database "keyspan".
        a> CREATE ROLE x
        42501: permission denied for CREATE ROLE
        DETAIL: Databases and roles are defined by an operator in database "keyspan".
        a> SELECT * FROM keyspan.tenants
        42P01: relation "keyspan.tenants" does not exist
        POSITION: 15
    "#]])
    .await
}

#[tokio::test]
async fn syntax_errors_say_where() -> Result<()> {
    check(expect![[r#"
        op> CREATE TABLE t (a int PRIMARY KEY, b text)
        (0)
        a> SELEKT 1
        42601: syntax error at or near "SELEKT"
        POSITION: 1
        a> SELECT * FRM t
        42601: syntax error at or near "t"
        POSITION: 14
        a> SELECT 'abc
        42601: unterminated string literal at or near "'abc"
        POSITION: 8
        a> SELECT * FROM t WHERE
        42601: syntax error at end of input
        POSITION: 22
        a> SELECT (1
        42601: syntax error at end of input
        POSITION: 10
        a> INSERT INTO t VALUES (1, 'x'); SELECT 1 +; INSERT INTO t VALUES (2, 'y')
        42601: syntax error at or near ";"
        POSITION: 42
        a> INSERT INTO t VALUES (1, 'x'), (2)
        42601: VALUES lists must all be the same length
        a> SELECT nix FROM t
        42703: column "nix" does not exist
        POSITION: 8
        a> SELECT * FROM nix
        42P01: relation "nix" does not exist
        POSITION: 15
        a> SELECT nix(1)
        42883: function nix does not exist
        POSITION: 8
        a> SELECT * FROM t WHERE a = 'x'
        (no rows)
        a> SELECT * FROM cells('nix')
        42P01: relation "nix" does not exist
        a> SELECT * FROM raw()
        42883: the function takes one argument: the name of a table, as text
        op> CREATE TABLE t (a int PRIMARY KEY)
        42P07: relation "t" already exists
        op> CREATE TABLE u (a int PRIMARY KEY, a text)
        42701: column "a" of relation "u" already exists
        op> CREATE TABLE u (a int PRIMARY KEY, b nix)
        42704: type "nix" does not exist
        op> ALTER TABLE t ADD COLUMN b int
        42701: column "b" of relation "t" already exists
        op> ALTER TABLE t DROP COLUMN a
        2BP01: cannot drop column "a" because it is part of the primary key
        op> ALTER TABLE nix DROP COLUMN a
        42P01: relation "nix" does not exist
        op> DROP TABLE nix
        42P01: relation "nix" does not exist
        a> SET keyspan.nix = 1
        42704: unrecognized configuration parameter "keyspan.nix"
        a> SHOW nix
        42704: unrecognized configuration parameter "nix"
        a> SELECT * FROM t
        (no rows)
    "#]])
    .await
}

#[tokio::test]
async fn what_is_over_its_limit_is_refused() -> Result<()> {
    let mut sessions = Sessions::start().await?;
    let operator = sessions.get("op").await?;
    operator.batch_execute("CREATE TABLE t (a text PRIMARY KEY, b text)").await?;
    let tenant = sessions.get("a").await?;
    let mut told = Vec::new();
    for (what, sql) in [
        ("the longest key", format!("INSERT INTO t VALUES ('{}', 'longest')", "k".repeat(4_080))),
        ("a longer key", format!("INSERT INTO t VALUES ('{}', 'x')", "k".repeat(4_097))),
        ("a key that escapes make too long", format!("INSERT INTO t VALUES ('{}', 'x')", " ".repeat(2_100))),
        ("an update of nothing", format!("UPDATE t SET b = 'x' WHERE a = '{}'", "k".repeat(5_000))),
        ("a large value", format!("INSERT INTO t VALUES ('large', repeat('x', {}))", 1 << 20)),
        ("a value over the limit", format!("INSERT INTO t VALUES ('larger', repeat('x', {}))", (100 << 20) + 1)),
        (
            "too many cells",
            "BEGIN; INSERT INTO t SELECT v::text, 'x' FROM generate_series(1, 100001) AS g(v)".to_owned(),
        ),
        ("its end", "ROLLBACK".to_owned()),
        ("what is there", "SELECT left(a, 5), length(a), length(b) FROM t ORDER BY a".to_owned()),
    ] {
        told.push(format!("{what}: {}", answer(tenant, &sql).await));
    }
    expect![[r#"
        the longest key: (1)
        a longer key: 54000: a row key of 4097 bytes is over the limit of 4096
        a key that escapes make too long: 54000: a row key of 4200 bytes is over the limit of 4096
        an update of nothing: (0)
        a large value: (1)
        a value over the limit: 54000: a cell of 104857601 bytes is over the limit of 104857600
        too many cells: 54000: a commit of more than 100000 cells
        DETAIL: Each value that is set outside of the key is a cell. A row without one counts as one, and so does a row that is deleted.
        HINT: Write fewer rows at a time. Outside of a transaction block COPY and INSERT … SELECT, without ON CONFLICT and RETURNING, take any number of new rows.
        its end: (0)
        what is there: kkkkk | 4080 | 7
        large | 5 | 1048576
    "#]]
    .assert_eq(&format!("{}\n", told.join("\n")));
    Ok(())
}

#[tokio::test]
async fn an_empty_drop_prefix_is_refused() -> Result<()> {
    let mut sessions = Sessions::start().await?;
    let operator = sessions.get("op").await?;
    operator.batch_execute("CREATE TABLE t (a text PRIMARY KEY, b text)").await?;
    sessions.get("a").await?.batch_execute("INSERT INTO t VALUES ('x', 'y')").await?;
    let store = sessions.harness.instance().catalog.store().clone();
    for (table, _) in store.tables().await? {
        let refused = store.drop_row_range(&table, Bytes::new()).await;
        assert!(refused.is_err(), "{table:?}");
    }
    sessions
        .check(expect![[r#"
            a> SELECT * FROM t
            x | y
        "#]])
        .await
}
