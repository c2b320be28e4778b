//! Versions, what condemns them, history and aggregates; tables and columns that come again.

use super::check;
use anyhow::Result;
use expect_test::expect;

#[tokio::test]
async fn semantics_6_a_condemned_cell_never_returns() -> Result<()> {
    check(expect![[r#"
        op> CREATE TABLE t (a text PRIMARY KEY, b int, FAMILY m (b)) WITH (m.max_versions = 4)
        (0)
        a> INSERT INTO t VALUES ('x', 1)
        (1)
        a> UPDATE t SET b = 2
        (1)
        a> UPDATE t SET b = 3
        (1)
        a> UPDATE t SET b = 4
        (1)
        a> UPDATE t SET b = 5
        (1)
        a> SELECT value FROM cells('t') ORDER BY timestamp DESC
        5
        4
        3
        2
        op> ALTER TABLE t SET (m.max_versions = 2)
        (0)
        a> SELECT value FROM cells('t') ORDER BY timestamp DESC
        5
        4
        op> ALTER TABLE t SET (m.max_versions = 10)
        (0)
        a> SELECT value FROM cells('t') ORDER BY timestamp DESC
        5
        4
        a> UPDATE t SET b = 6
        (1)
        a> SELECT value FROM cells('t') ORDER BY timestamp DESC
        6
        5
        4
        op> ALTER TABLE t SET (m.max_versions = 1)
        (0)
        op> ALTER TABLE t SET (m.max_versions = none)
        (0)
        a> SELECT value FROM cells('t') ORDER BY timestamp DESC
        6
        a> UPDATE t SET b = 7
        (1)
        a> SELECT value FROM cells('t') ORDER BY timestamp DESC
        7
        6
        a> UPDATE t SET b = NULL
        (1)
        a> SELECT count(*) FROM cells('t')
        0
        a> SELECT * FROM t
        x | NULL
    "#]])
    .await
}

#[tokio::test]
async fn semantics_6_each_family_keeps_its_own_versions() -> Result<()> {
    check(expect![[r#"
        op> CREATE TABLE t (a text PRIMARY KEY, b int, c int, FAMILY m (b), FAMILY n (c)) WITH (n.max_versions = 2)
        (0)
        a> INSERT INTO t VALUES ('x', 1, 1)
        (1)
        a> UPDATE t SET b = 2, c = 2
        (1)
        a> UPDATE t SET b = 3, c = 3
        (1)
        a> SELECT family, value FROM cells('t') ORDER BY family, timestamp DESC
        m | 3
        m | 2
        m | 1
        n | 3
        n | 2
    "#]])
    .await
}

#[tokio::test]
async fn semantics_7_a_table_without_history_has_no_past() -> Result<()> {
    check(expect![[r#"
        op> CREATE TABLE t (a text PRIMARY KEY, b int)
        (0)
        a> INSERT INTO t VALUES ('x', 1)
        (1)
        a> SELECT * FROM t FOR SYSTEM_TIME AS OF now() AS old WHERE a = 'x'
        0A000: relation "t" keeps no history
        HINT: cells('table') shows the versions that are still stored. An operator lets a table keep history with ALTER TABLE … SET (history = '7 days').
        a> DELETE FROM t WHERE a IN (SELECT a FROM t FOR SYSTEM_TIME AS OF '2026-01-01')
        0A000: relation "t" keeps no history
        HINT: cells('table') shows the versions that are still stored. An operator lets a table keep history with ALTER TABLE … SET (history = '7 days').
        a> SELECT * FROM t
        x | 1
    "#]])
    .await
}

#[tokio::test]
async fn semantics_8_aggregate_families() -> Result<()> {
    check(expect![[r#"
        op> CREATE TABLE t (a text PRIMARY KEY, s bigint, lo bigint, hi bigint, note text, FAMILY s (s), FAMILY lo (lo), FAMILY hi (hi), FAMILY n (note)) WITH (s.aggregate = sum, lo.aggregate = min, hi.aggregate = max)
        (0)
        a> INSERT INTO t VALUES ('x', 5, 5, 5, 'first')
        (1)
        a> SELECT * FROM t
        x | 5 | 5 | 5 | first
        a> INSERT INTO t (a, s, lo, hi) VALUES ('x', 3, 3, 3) ON CONFLICT (a) DO UPDATE SET s = EXCLUDED.s, lo = EXCLUDED.lo, hi = EXCLUDED.hi
        (1)
        a> INSERT INTO t (a, s, lo, hi) VALUES ('x', 9, 9, 9) ON CONFLICT (a) DO UPDATE SET s = EXCLUDED.s, lo = EXCLUDED.lo, hi = EXCLUDED.hi
        (1)
        a> SELECT * FROM t
        x | 17 | 3 | 9 | first
        a> UPDATE t SET s = 1
        0A000: setting column "s" of an aggregate family is not supported
        HINT: INSERT … ON CONFLICT DO UPDATE SET column = EXCLUDED.column merges a value into it.
        a> UPDATE t SET note = 'second' WHERE s > 16
        (1)
        a> SELECT * FROM t WHERE s = 17 AND hi = 9
        x | 17 | 3 | 9 | second
        a> INSERT INTO t (a, s) VALUES ('x', 1)
        23505: duplicate key value violates unique constraint "t_pkey"
        DETAIL: Key (a)=(x) already exists.
        a> DELETE FROM t WHERE a = 'x'
        (1)
        a> INSERT INTO t (a, s) VALUES ('x', 1)
        (1)
        a> SELECT * FROM t
        x | 1 | NULL | NULL | NULL
        op> CREATE TABLE u (a text PRIMARY KEY, b text, FAMILY m (b)) WITH (m.aggregate = sum)
        42P16: column "b" of aggregate family "m" must be a bigint
        DETAIL: Cells of an aggregate family hold 64-bit integers, big-endian.
    "#]])
    .await
}

#[tokio::test]
async fn semantics_8_an_aggregate_family_counts_distinct_values() -> Result<()> {
    check(expect![[r#"
        op> CREATE TABLE t (a text PRIMARY KEY, visitors bigint, FAMILY m (visitors)) WITH (m.aggregate = hll)
        (0)
        a> INSERT INTO t VALUES ('x', 1)
        (1)
        a> INSERT INTO t VALUES ('x', 2) ON CONFLICT (a) DO UPDATE SET visitors = EXCLUDED.visitors
        (1)
        a> INSERT INTO t VALUES ('x', 1) ON CONFLICT (a) DO UPDATE SET visitors = EXCLUDED.visitors
        (1)
        a> SELECT * FROM t
        x | 2
    "#]])
    .await
}

#[tokio::test]
async fn a_column_that_comes_again_shows_nothing_old() -> Result<()> {
    check(expect![[r#"
        op> CREATE TABLE t (a text PRIMARY KEY, b int, c int, FAMILY m (b, c))
        (0)
        a> INSERT INTO t VALUES ('x', 1, 2)
        (1)
        op> ALTER TABLE t DROP COLUMN b
        (0)
        a> SELECT * FROM t
        x | 2
        op> ALTER TABLE t ADD COLUMN b int FAMILY m
        (0)
        a> SELECT * FROM t
        x | 2 | NULL
        a> INSERT INTO t (a, b) VALUES ('y', 5)
        (1)
        a> SELECT a, b FROM t ORDER BY a
        x | NULL
        y | 5
        op> ALTER TABLE t RENAME COLUMN b TO d
        (0)
        a> SELECT a, d FROM t ORDER BY a
        x | NULL
        y | 5
        op> ALTER TABLE t DROP FAMILY m
        2BP01: cannot drop family "m" of relation "t"
        DETAIL: Column "c" is in it.
        op> ALTER TABLE t DROP COLUMN c
        (0)
        op> ALTER TABLE t DROP COLUMN d
        (0)
        op> ALTER TABLE t DROP FAMILY m
        2BP01: cannot drop family "m" of relation "t"
        DETAIL: A table has at least one family.
        a> SELECT * FROM t ORDER BY a
        x
        y
        op> ALTER TABLE t ADD FAMILY m
        42701: family "m" specified more than once
        op> ALTER TABLE t ADD COLUMN c int FAMILY m
        (0)
        a> SELECT a, c FROM t ORDER BY a
        x | NULL
        y | NULL
        a> SELECT count(*) FROM cells('t')
        0
    "#]])
    .await
}

#[tokio::test]
async fn a_table_or_tenant_that_comes_again_is_empty() -> Result<()> {
    check(expect![[r#"
        op> CREATE TABLE t (a text PRIMARY KEY, b int)
        (0)
        a> INSERT INTO t VALUES ('x', 1)
        (1)
        op> DROP TABLE t
        (0)
        a> SELECT * FROM t
        42P01: relation "t" does not exist
        POSITION: 15
        op> CREATE TABLE t (a text PRIMARY KEY, b int)
        (0)
        a> SELECT * FROM t
        (no rows)
        a> SELECT count(*) FROM cells('t')
        0
        a> INSERT INTO t VALUES ('x', 2)
        (1)
        s> INSERT INTO t VALUES ('x', 3)
        (1)
        op> DROP DATABASE alto WITH (FORCE)
        (0)
        op> CREATE DATABASE alto
        (0)
        op> ALTER DATABASE alto OWNER TO alto
        (0)
        again> SELECT * FROM t
        (no rows)
        again> INSERT INTO t VALUES ('x', 4)
        (1)
        op> SELECT * FROM t ORDER BY tenant
        alto | x | 4
        altostrat | x | 3
    "#]])
    .await
}

#[tokio::test]
async fn rules_are_unions_and_intersections() -> Result<()> {
    check(expect![[r#"
        op> CREATE TABLE t (a text PRIMARY KEY, b int, c int, FAMILY m (b), FAMILY n (c)) WITH (m.gc = 'versions > 3 OR (age > 7 days AND versions > 1)')
        (0)
        a> INSERT INTO t VALUES ('x', 1, 1)
        (1)
        a> UPDATE t SET b = 2
        (1)
        a> UPDATE t SET b = 3
        (1)
        a> UPDATE t SET b = 4
        (1)
        a> SELECT count(*) FROM cells('t') WHERE family = 'm'
        3
        op> EXPLAIN ALTER TABLE t SET (m.gc = 'versions > 1', n.gc = 'age > 1 day')
        Alter Table t (dry run: nothing is changed)
          family m: versions > 1 instead of versions > 3 OR (age > 7 days AND versions > 1): 2 cells, 28 bytes
          family n: age > 1 day instead of none: 0 cells, 0 bytes
        Rows of which nothing is left: 0
        (no rows)
        op> ALTER TABLE t SET (m.max_versions = 2)
        22023: max_versions and max_age cannot change the rule of family "m"
        DETAIL: Its rule is 'versions > 3 OR (age > 7 days AND versions > 1)'.
        HINT: Give it another: SET (m.gc = '…').
        op> ALTER TABLE t SET (m.gc = 'versions > 0')
        22023: invalid value for parameter "m.gc": "versions > 0"
        DETAIL: "versions > 0" would keep nothing.
        HINT: A rule is like 'versions > 3 OR (age > 7 days AND versions > 1)', or none.
        op> ALTER TABLE t SET (m.gc = '')
        22023: invalid value for parameter "m.gc": ""
        DETAIL: It ends too early.
        HINT: A rule is like 'versions > 3 OR (age > 7 days AND versions > 1)', or none.
        op> ALTER TABLE t SET (m.gc = 'versions > 3 OR size > 5')
        22023: invalid value for parameter "m.gc": "versions > 3 OR size > 5"
        DETAIL: "size", at character 17, is not expected there.
        HINT: A rule is like 'versions > 3 OR (age > 7 days AND versions > 1)', or none.
        op> ALTER TABLE t SET (m.gc = 'versions > 3 AND versions > 5')
        22023: invalid value for parameter "m.gc": "versions > 3 AND versions > 5"
        DETAIL: "versions > 3" AND "versions > 5": one of the two decides alone, whatever a cell is.
        HINT: A rule is like 'versions > 3 OR (age > 7 days AND versions > 1)', or none.
        op> ALTER TABLE t SET (m.gc = 'versions > 3', m.max_age = '1 day')
        22023: parameter "m.gc" is given with max_versions or max_age
        HINT: Say all of it in one rule.
        op> ALTER TABLE t SET (m.gc = 'versions > 1')
        (0)
        a> SELECT value FROM cells('t') WHERE family = 'm'
        4
        op> ALTER TABLE t SET (m.gc = none)
        (0)
        a> SELECT count(*) FROM cells('t') WHERE family = 'm'
        1
        a> EXPLAIN ALTER TABLE t SET (m.gc = none)
        0A000: EXPLAIN ALTER TABLE of a shared table is not supported
        HINT: Shared tables are changed in the operator's database.
        op> EXPLAIN ANALYZE ALTER TABLE t SET (m.gc = none)
        0A000: EXPLAIN ANALYZE of a statement that writes is not supported
        op> EXPLAIN ALTER TABLE nix SET (m.gc = none)
        42P01: relation "nix" does not exist
    "#]])
    .await
}

#[tokio::test]
async fn whole_prefixes_are_erased() -> Result<()> {
    check(expect![[r#"
        op> CREATE TABLE t (who text, number int, v text, PRIMARY KEY (who, number)) WITH (history = '1 day')
        (0)
        a> INSERT INTO t VALUES ('ana', 1, 'x'), ('ana', 2, 'y'), ('anabel', 1, 'z'), ('bo', 1, 'x')
        (4)
        s> INSERT INTO t VALUES ('ana', 1, 'other')
        (1)
        a> DELETE FROM t WHERE who = 'ana' AND v = 'x' ERASE
        0A000: DELETE … ERASE of rows that are not whole prefixes of the primary key is not supported
        DETAIL: History is kept by key: rows that another condition chooses may have had other values.
        HINT: Compare the first columns of the primary key with =, and nothing else; TRUNCATE erases all rows.
        a> DELETE FROM t WHERE v = 'x' ERASE
        0A000: DELETE … ERASE of rows that are not whole prefixes of the primary key is not supported
        DETAIL: History is kept by key: rows that another condition chooses may have had other values.
        HINT: Compare the first columns of the primary key with =, and nothing else; TRUNCATE erases all rows.
        a> DELETE FROM t WHERE who = 'ana' OR number = 1 ERASE
        0A000: DELETE … ERASE of rows that are not whole prefixes of the primary key is not supported
        DETAIL: History is kept by key: rows that another condition chooses may have had other values.
        HINT: Compare the first columns of the primary key with =, and nothing else; TRUNCATE erases all rows.
        a> DELETE FROM t WHERE who = 'ana' RETURNING v ERASE
        0A000: RETURNING of DELETE … ERASE is not supported
        a> BEGIN
        (0)
        a> DELETE FROM t WHERE who = 'ana' ERASE
        25001: DELETE ... ERASE cannot run inside a transaction block
        a> ROLLBACK
        (0)
        a> DELETE FROM t WHERE who = 'bo' AND number = 1 ERASE
        (1)
        a> DELETE FROM t WHERE who = 'nobody' ERASE
        (0)
        a> DELETE FROM t WHERE who = 'ana' ERASE
        (2)
        a> SELECT * FROM t
        anabel | 1 | z
        s> SELECT * FROM t
        ana | 1 | other
        s> SELECT kind, rows FROM keyspan.erasures
        (no rows)
        a> SELECT tenant, number, kind, table_name, what, requested_by, rows, cells, history_rows FROM keyspan.erasures ORDER BY number
        alto | 1 | prefix | t | 1 prefix of (who, number) | alto | 1 | 1 | 1
        alto | 2 | prefix | t | 1 prefix of (who, number) | alto | 0 | 0 | 0
        alto | 3 | prefix | t | 1 prefix of (who, number) | alto | 2 | 2 | 2
        op> DELETE FROM t WHERE who = 'ana' ERASE
        0A000: DELETE … ERASE of rows that are not whole prefixes of the primary key is not supported
        DETAIL: History is kept by key: rows that another condition chooses may have had other values.
        HINT: Compare the first columns of the primary key with =, and nothing else; TRUNCATE erases all rows.
        op> DELETE FROM t WHERE tenant = 'altostrat' AND who = 'ana' ERASE
        (1)
        op> SELECT tenant, number, kind, requested_by, rows FROM keyspan.erasures ORDER BY tenant, number
        alto | 1 | prefix | alto | 1
        alto | 2 | prefix | alto | 0
        alto | 3 | prefix | alto | 2
        altostrat | 1 | prefix | keyspan | 1
        op> CREATE TABLE erase (erase bool PRIMARY KEY)
        (0)
        a> DELETE FROM erase WHERE erase
        (0)
        a> DELETE FROM erase erase
        (0)
        op> CREATE ROLE nell LOGIN PASSWORD 'pass word'
        (0)
        a> ALTER SYSTEM CONFIRM CLOCK
        42501: permission denied for ALTER SYSTEM
        a> ALTER SYSTEM SET work_mem = 1
        0A000: ALTER SYSTEM is not supported
        HINT: The server's options are those of its command line; ALTER SYSTEM CONFIRM CLOCK is there.
        op> ALTER SYSTEM CONFIRM CLOCK
        (0)
        op> SELECT store_time <= wall_time, held FROM keyspan.clock
        t | f
        a> SELECT * FROM keyspan.clock
        42P01: relation "keyspan.clock" does not exist
        POSITION: 15
    "#]])
    .await
}

#[tokio::test]
async fn a_truncate_takes_the_past_along() -> Result<()> {
    check(expect![[r#"
        op> CREATE TABLE t (a text PRIMARY KEY, b int) WITH (history = '1 day')
        (0)
        a> CREATE TABLE own (a serial PRIMARY KEY, b int)
        (0)
        a> INSERT INTO t VALUES ('x', 1), ('y', 2)
        (2)
        s> INSERT INTO t VALUES ('x', 3)
        (1)
        a> UPDATE t SET b = 4
        (2)
        a> INSERT INTO own (b) VALUES (1), (2)
        (2)
        a> BEGIN
        (0)
        a> TRUNCATE t, own
        (0)
        a> SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM own)
        0 | 0
        a> ROLLBACK
        (0)
        a> SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM own), (SELECT count(*) FROM keyspan.erasures)
        2 | 2 | 0
        a> BEGIN
        (0)
        a> INSERT INTO t VALUES ('z', 5)
        (1)
        a> TRUNCATE t, own RESTART IDENTITY
        (0)
        a> INSERT INTO t VALUES ('x', 6)
        (1)
        a> INSERT INTO own (b) VALUES (3)
        (1)
        a> COMMIT
        (0)
        a> SELECT * FROM t
        x | 6
        a> SELECT * FROM own
        1 | 3
        a> SELECT * FROM t FOR SYSTEM_TIME AS OF now() - interval '1 microsecond'
        x | 6
        s> SELECT * FROM t
        x | 3
        a> TRUNCATE t
        (0)
        a> TRUNCATE own
        (0)
        a> CREATE TEMP TABLE passing (a int)
        (0)
        a> TRUNCATE passing
        (0)
        a> SELECT number, kind, table_name, what, rows, cells, history_rows FROM keyspan.erasures ORDER BY number
        1 | truncate | own | NULL | 2 | 2 | 0
        2 | truncate | t | NULL | 2 | 4 | 4
        3 | truncate | t | NULL | 1 | 1 | 1
        4 | truncate | own | NULL | 1 | 1 | 0
        s> SELECT count(*) FROM keyspan.erasures
        0
    "#]])
    .await
}
