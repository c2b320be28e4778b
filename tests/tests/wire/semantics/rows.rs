//! Which rows there are.

use super::check;
use anyhow::Result;
use expect_test::expect;

#[tokio::test]
async fn semantics_1_a_row_of_nulls_exists() -> Result<()> {
    check(expect![[r#"
        op> CREATE TABLE t (a text PRIMARY KEY, b int, c text, FAMILY m (b), FAMILY n (c))
        (0)
        a> INSERT INTO t (a) VALUES ('nulls')
        (1)
        a> SELECT * FROM t
        nulls | NULL | NULL
        a> SELECT count(*) FROM t
        1
        a> SELECT count(b) FROM t
        0
        a> SELECT a FROM t WHERE b IS NULL
        nulls
        a> SELECT b FROM t
        NULL
        a> SELECT count(*) FROM cells('t')
        0
        a> SELECT m, n FROM raw('t')
        {} | {}
        a> INSERT INTO t (a) VALUES ('nulls')
        23505: duplicate key value violates unique constraint "t_pkey"
        DETAIL: Key (a)=(nulls) already exists.
        a> DELETE FROM t WHERE a = 'nulls'
        (1)
        a> SELECT count(*) FROM t
        0
    "#]])
    .await
}

#[tokio::test]
async fn semantics_1_null_is_an_absent_cell() -> Result<()> {
    check(expect![[r#"
        op> CREATE TABLE t (a text PRIMARY KEY, b int, c text, FAMILY f (b, c)) WITH (f.max_versions = 5)
        (0)
        a> INSERT INTO t VALUES ('x', 1, 'one'), ('y', NULL, '')
        (2)
        a> SELECT a, family, qualifier, value FROM cells('t') ORDER BY a, qualifier
        x | f | b | 1
        x | f | c | one
        y | f | c | 
        a> UPDATE t SET b = 2 WHERE a = 'x'
        (1)
        a> SELECT a, qualifier, value FROM cells('t') WHERE a = 'x' ORDER BY qualifier, timestamp DESC
        x | b | 2
        x | b | 1
        x | c | one
        a> UPDATE t SET b = NULL, c = NULL
        (2)
        a> SELECT * FROM t ORDER BY a
        x | NULL | NULL
        y | NULL | NULL
        a> SELECT count(*) FROM cells('t')
        0
        a> UPDATE t SET b = 3 WHERE b IS NULL AND a = 'x'
        (1)
        a> SELECT a, qualifier, value FROM cells('t')
        x | b | 3
        a> SELECT * FROM t WHERE b = NULL
        (no rows)
        a> SELECT * FROM t WHERE b <> 4
        x | 3 | NULL
    "#]])
    .await
}

#[tokio::test]
async fn semantics_1_an_upsert_writes_null_and_leaves_what_it_does_not_name() -> Result<()> {
    check(expect![[r#"
        op> CREATE TABLE t (a text PRIMARY KEY, b int, c text)
        (0)
        a> INSERT INTO t VALUES ('x', 1, 'one')
        (1)
        a> INSERT INTO t (a, b) VALUES ('x', NULL) ON CONFLICT (a) DO UPDATE SET b = EXCLUDED.b
        (1)
        a> SELECT * FROM t
        x | NULL | one
        a> INSERT INTO t (a, b) VALUES ('new', NULL) ON CONFLICT (a) DO UPDATE SET b = EXCLUDED.b
        (1)
        a> SELECT * FROM t ORDER BY a
        new | NULL | NULL
        x | NULL | one
    "#]])
    .await
}

#[tokio::test]
async fn semantics_1_tenants_are_apart() -> Result<()> {
    check(expect![[r#"
        op> CREATE TABLE t (a text PRIMARY KEY, b int)
        (0)
        a> INSERT INTO t VALUES ('x', 1)
        (1)
        s> INSERT INTO t VALUES ('x', 2), ('y', 3)
        (2)
        a> SELECT * FROM t
        x | 1
        s> SELECT * FROM t ORDER BY a
        x | 2
        y | 3
        op> SELECT * FROM t ORDER BY tenant, a
        alto | x | 1
        altostrat | x | 2
        altostrat | y | 3
        op> INSERT INTO t VALUES ('alto', 'z', 9)
        (1)
        op> INSERT INTO t VALUES ('nobody', 'z', 9)
        23503: insert on table "t" violates foreign key constraint "t_tenant_fkey"
        DETAIL: Key (tenant)=(nobody) is not present in table "tenants".
        HINT: CREATE DATABASE makes a tenant.
        op> SELECT a, b FROM t WHERE tenant = 'alto'
        x | 1
        z | 9
        op> UPDATE t SET tenant = 'altostrat' WHERE a = 'z'
        0A000: changing column "tenant", a part of the primary key is not supported
        HINT: Delete the row and insert it anew.
        a> UPDATE t SET b = b + 10
        (2)
        a> DELETE FROM t WHERE true
        (2)
        op> SELECT * FROM t ORDER BY tenant, a
        altostrat | x | 2
        altostrat | y | 3
        a> SELECT tenant FROM t
        42703: column "tenant" does not exist
        POSITION: 8
        a> CREATE TABLE mine (a int PRIMARY KEY)
        (0)
        op> SELECT * FROM mine
        42P01: relation "mine" does not exist
        POSITION: 15
        op> DROP DATABASE alto WITH (FORCE)
        (0)
        s> SELECT * FROM t ORDER BY a
        x | 2
        y | 3
        op> SELECT * FROM t ORDER BY tenant, a
        altostrat | x | 2
        altostrat | y | 3
    "#]])
    .await
}

#[tokio::test]
async fn semantics_2_a_later_write_is_newer() -> Result<()> {
    check(expect![[r#"
        op> CREATE TABLE t (a text PRIMARY KEY, b int, FAMILY f (b)) WITH (f.max_versions = 3)
        (0)
        a> INSERT INTO t VALUES ('x', 1)
        (1)
        a> UPDATE t SET b = b + 1
        (1)
        b> UPDATE t SET b = b + 1
        (1)
        a> INSERT INTO t VALUES ('x', 4) ON CONFLICT (a) DO UPDATE SET b = EXCLUDED.b
        (1)
        a> SELECT b FROM t
        4
        a> SELECT value FROM cells('t') WHERE qualifier = 'b' ORDER BY timestamp DESC
        4
        3
        2
        a> SELECT count(DISTINCT timestamp) FROM cells('t')
        3
        a> SELECT count(*) FROM cells('t') WHERE timestamp > now() + interval '1 minute'
        0
    "#]])
    .await
}
