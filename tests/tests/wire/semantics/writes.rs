//! INSERT, upserts, UPDATE and DELETE.

use super::{Sessions, check};
use anyhow::Result;
use expect_test::expect;

#[tokio::test]
async fn semantics_4_an_existing_key_is_refused() -> Result<()> {
    check(expect![[r#"
        op> CREATE TABLE t (a text, at timestamptz, b int, PRIMARY KEY (a, at DESC))
        (0)
        a> INSERT INTO t VALUES ('x', '2026-01-01 00:00Z', 1)
        (1)
        a> INSERT INTO t VALUES ('w', '2026-01-01 00:00Z', 1), ('x', '2026-01-01 01:00+01', 2)
        23505: duplicate key value violates unique constraint "t_pkey"
        DETAIL: Key (a, at)=(x, 2026-01-01 00:00:00+00) already exists.
        a> INSERT INTO t VALUES ('v', '2026-01-01', 1), ('v', '2026-01-01', 2)
        23505: duplicate key value violates unique constraint "t_pkey"
        DETAIL: Key (a, at)=(v, 2026-01-01 00:00:00+00) already exists.
        a> SELECT * FROM t
        x | 2026-01-01 00:00:00+00 | 1
        a> INSERT INTO t SELECT 'y', at, b FROM t
        (1)
        a> INSERT INTO t SELECT * FROM t
        23505: duplicate key value violates unique constraint "t_pkey"
        DETAIL: Key (a, at)=(x, 2026-01-01 00:00:00+00) already exists.
        a> INSERT INTO t (a, b) VALUES ('x', 1)
        23502: null value in column "at" of relation "t" violates not-null constraint
        DETAIL: Failing row contains (x, null, 1).
        a> INSERT INTO t VALUES (NULL, '2026-01-01', 1)
        23502: null value in column "a" of relation "t" violates not-null constraint
        DETAIL: Failing row contains (null, 2026-01-01 00:00:00+00, 1).
        a> INSERT INTO t (a, at, b, a) VALUES ('x', '2026-01-01', 1, 'y')
        42701: column "a" specified more than once
        a> INSERT INTO t (a, at, nix) VALUES ('x', '2026-01-01', 1)
        42703: column "nix" of relation "t" does not exist
        POSITION: 23
        a> INSERT INTO t VALUES ('x', '2026-01-01', 1, 2)
        42601: INSERT has more expressions than target columns
        a> INSERT INTO nix VALUES (1)
        42P01: relation "nix" does not exist
        POSITION: 13
        a> SELECT * FROM t
        x | 2026-01-01 00:00:00+00 | 1
        y | 2026-01-01 00:00:00+00 | 1
    "#]])
    .await
}

#[tokio::test]
async fn semantics_4_do_nothing() -> Result<()> {
    check(expect![[r#"
        op> CREATE TABLE t (a text PRIMARY KEY, b int, c int)
        (0)
        a> INSERT INTO t VALUES ('x', 1, 1)
        (1)
        a> INSERT INTO t VALUES ('x', 2, 2), ('y', 2, 2), ('y', 3, 3) ON CONFLICT DO NOTHING
        (1)
        a> INSERT INTO t VALUES ('x', 2, 2), ('z', 2, 2) ON CONFLICT (a) DO NOTHING
        (1)
        a> SELECT * FROM t ORDER BY a
        x | 1 | 1
        y | 2 | 2
        z | 2 | 2
        a> INSERT INTO t VALUES ('x', 2, 2) ON CONFLICT (b) DO NOTHING
        42P10: there is no unique or exclusion constraint matching the ON CONFLICT specification
        HINT: The primary key is (a).
        a> INSERT INTO t VALUES ('x', 2, 2) ON CONFLICT (nix) DO NOTHING
        42703: column "nix" of relation "t" does not exist
    "#]])
    .await
}

#[tokio::test]
async fn semantics_4_blind_upserts() -> Result<()> {
    check(expect![[r#"
        op> CREATE TABLE t (a text PRIMARY KEY, b int, c int NOT NULL)
        (0)
        a> INSERT INTO t VALUES ('x', 1, 1) ON CONFLICT (a) DO UPDATE SET b = EXCLUDED.b, c = EXCLUDED.c
        (1)
        a> INSERT INTO t VALUES ('x', 2, 2), ('y', 3, 3) ON CONFLICT (a) DO UPDATE SET b = EXCLUDED.b, c = excluded.c
        (2)
        a> SELECT * FROM t ORDER BY a
        x | 2 | 2
        y | 3 | 3
        a> INSERT INTO t VALUES ('x', 5, 5), ('x', 6, 6) ON CONFLICT (a) DO UPDATE SET b = EXCLUDED.b, c = EXCLUDED.c
        21000: ON CONFLICT DO UPDATE command cannot affect row a second time
        HINT: Ensure that no rows proposed for insertion within the same command have duplicate constrained values.
        a> INSERT INTO t VALUES ('x', 5, NULL) ON CONFLICT (a) DO UPDATE SET b = EXCLUDED.b, c = EXCLUDED.c
        23502: null value in column "c" of relation "t" violates not-null constraint
        DETAIL: Failing row contains (x, 5, null).
        a> SELECT * FROM t ORDER BY a
        x | 2 | 2
        y | 3 | 3
    "#]])
    .await
}

#[tokio::test]
async fn semantics_4_checked_upserts() -> Result<()> {
    check(expect![[r#"
        op> CREATE TABLE t (a text PRIMARY KEY, b int, c int)
        (0)
        a> INSERT INTO t VALUES ('x', 1, 1), ('y', 2, 2)
        (2)
        a> INSERT INTO t VALUES ('x', 10, 10), ('z', 3, 3) ON CONFLICT (a) DO UPDATE SET b = t.b + EXCLUDED.b
        (2)
        a> SELECT * FROM t ORDER BY a
        x | 11 | 1
        y | 2 | 2
        z | 3 | 3
        a> INSERT INTO t VALUES ('x', 7, 7), ('y', 7, 7) ON CONFLICT (a) DO UPDATE SET c = EXCLUDED.c WHERE t.b < 5
        (1)
        a> SELECT * FROM t ORDER BY a
        x | 11 | 1
        y | 2 | 7
        z | 3 | 3
        a> INSERT INTO t AS old VALUES ('y', 1, 1) ON CONFLICT (a) DO UPDATE SET c = old.c * 2, b = NULL
        (1)
        a> INSERT INTO t VALUES ('n', 1, 1), ('n', 2, 2) ON CONFLICT (a) DO UPDATE SET b = t.b + 1
        21000: ON CONFLICT DO UPDATE command cannot affect row a second time
        HINT: Ensure that no rows proposed for insertion within the same command have duplicate constrained values.
        a> INSERT INTO t VALUES ('x', 1, 1), ('x', 2, 2) ON CONFLICT (a) DO UPDATE SET b = t.b + 1
        21000: ON CONFLICT DO UPDATE command cannot affect row a second time
        HINT: Ensure that no rows proposed for insertion within the same command have duplicate constrained values.
        a> INSERT INTO t VALUES ('x', 1, 1) ON CONFLICT (a) DO UPDATE SET a = 'z'
        23505: duplicate key value violates unique constraint "t_pkey"
        DETAIL: Key (a)=(z) already exists.
        a> INSERT INTO t VALUES ('x', 1, 1) ON CONFLICT (a) DO UPDATE SET b = (SELECT max(c) FROM t)
        (1)
        a> INSERT INTO t VALUES ('x', 1, 1) ON CONFLICT DO UPDATE SET b = 1
        42601: ON CONFLICT DO UPDATE requires inference specification or constraint name
        HINT: For example, ON CONFLICT (column_name).
        a> INSERT INTO t VALUES ('x', 1, 1) ON CONFLICT (a) DO UPDATE SET b = 1 RETURNING b
        1
        a> SELECT * FROM t ORDER BY a
        x | 1 | 1
        y | NULL | 14
        z | 3 | 3
    "#]])
    .await
}

#[tokio::test]
async fn semantics_4_the_key_changes() -> Result<()> {
    check(expect![[r#"
        op> CREATE TABLE t (a text, b int, c int, PRIMARY KEY (a, b))
        (0)
        a> INSERT INTO t VALUES ('x', 1, 1)
        (1)
        a> UPDATE t SET b = 2
        (1)
        a> UPDATE t SET a = a, c = 2
        (1)
        op> UPDATE t SET tenant = 'altostrat'
        0A000: changing column "tenant", a part of the primary key is not supported
        HINT: Delete the row and insert it anew.
        a> UPDATE t SET nix = 1
        42703: column "nix" of relation "t" does not exist
        POSITION: 14
        a> UPDATE t SET c = 1, c = 2
        42601: multiple assignments to same column "c"
        a> SELECT * FROM t
        x | 2 | 2
        a> INSERT INTO t VALUES ('x', 3, 3), ('y', 1, 1)
        (2)
        a> UPDATE t SET b = 5 - b WHERE a = 'x'
        (2)
        a> SELECT * FROM t ORDER BY a, b
        x | 2 | 3
        x | 3 | 2
        y | 1 | 1
        a> UPDATE t SET a = 'y', b = 1 WHERE b = 3
        23505: duplicate key value violates unique constraint "t_pkey"
        DETAIL: Key (a, b)=(y, 1) already exists.
        a> UPDATE t SET a = 'z', b = 7
        23505: duplicate key value violates unique constraint "t_pkey"
        DETAIL: Key (a, b)=(z, 7) already exists.
        op> UPDATE t SET a = 'w' WHERE tenant = 'alto' AND a = 'y'
        (1)
        a> SELECT * FROM t ORDER BY a, b
        w | 1 | 1
        x | 2 | 3
        x | 3 | 2
    "#]])
    .await
}

#[tokio::test]
async fn semantics_5_predicates_that_are_never_true_touch_nothing() -> Result<()> {
    check(expect![[r#"
        op> CREATE TABLE t (a int PRIMARY KEY, b int)
        (0)
        a> INSERT INTO t VALUES (1, 1), (2, 2), (3, NULL)
        (3)
        a> DELETE FROM t WHERE a = 1 AND a = 2
        (0)
        a> DELETE FROM t WHERE a = NULL
        (0)
        a> DELETE FROM t WHERE NULL
        (0)
        a> DELETE FROM t WHERE false
        (0)
        a> DELETE FROM t WHERE a > 5 AND a < 3
        (0)
        a> DELETE FROM t WHERE b <> b
        (0)
        a> DELETE FROM t WHERE EXISTS (SELECT 1 FROM t u WHERE u.a = 100)
        (0)
        a> DELETE FROM t WHERE a IN (SELECT b FROM t WHERE b > 100)
        (0)
        a> DELETE FROM t WHERE a NOT IN (SELECT b FROM t)
        (0)
        a> UPDATE t SET b = 9 WHERE a = 1 AND a = 2
        (0)
        a> UPDATE t SET b = 9 WHERE a = NULL
        (0)
        a> UPDATE t SET b = 9 WHERE b = NULL OR false
        (0)
        a> UPDATE t SET b = 9 WHERE NOT EXISTS (SELECT 1)
        (0)
        a> SELECT * FROM t ORDER BY a
        1 | 1
        2 | 2
        3 | NULL
    "#]])
    .await
}

#[tokio::test]
async fn semantics_5_predicates_touch_exactly_their_rows() -> Result<()> {
    check(expect![[r#"
        op> CREATE TABLE t (a int PRIMARY KEY, b int)
        (0)
        op> CREATE TABLE u (x int PRIMARY KEY, y text)
        (0)
        a> INSERT INTO t SELECT v, v * 10 FROM generate_series(1, 10) AS g(v)
        (10)
        a> INSERT INTO u VALUES (2, 'two'), (4, 'four'), (40, 'forty')
        (3)
        a> DELETE FROM t WHERE a IN (SELECT x FROM u)
        (2)
        a> SELECT a FROM t ORDER BY a
        1
        3
        5
        6
        7
        8
        9
        10
        a> UPDATE t SET b = 0 WHERE EXISTS (SELECT 1 FROM u WHERE u.x = t.a + 1)
        (2)
        a> SELECT * FROM t ORDER BY a
        1 | 0
        3 | 0
        5 | 50
        6 | 60
        7 | 70
        8 | 80
        9 | 90
        10 | 100
        a> UPDATE t SET b = u.x FROM u WHERE u.x = t.a * 4
        (2)
        a> UPDATE t x SET b = x.b + 1 WHERE x.a BETWEEN 6 AND 8
        (3)
        a> UPDATE t SET b = (SELECT max(x) FROM u) WHERE a = 9
        (1)
        a> SELECT * FROM t ORDER BY a
        1 | 4
        3 | 0
        5 | 50
        6 | 61
        7 | 71
        8 | 81
        9 | 40
        10 | 40
        a> DELETE FROM t USING u WHERE t.a = u.x / 4
        (2)
        a> DELETE FROM t WHERE b % 2 = 1 OR a > 9
        (3)
        a> SELECT * FROM t ORDER BY a
        3 | 0
        5 | 50
        9 | 40
        a> DELETE FROM t
        (3)
        a> SELECT count(*) FROM t
        0
        a> SELECT count(*) FROM u
        3
        a> INSERT INTO t VALUES (1, (SELECT max(x) FROM u))
        (1)
        a> INSERT INTO t VALUES (2, 2), (3, (SELECT max(x) FROM u))
        (2)
        a> SELECT * FROM t ORDER BY a
        1 | 40
        2 | 2
        3 | 40
    "#]])
    .await
}

#[tokio::test]
async fn semantics_5_a_delete_of_a_large_prefix() -> Result<()> {
    let mut sessions = Sessions::start().await?;
    sessions
        .check(expect![[r#"
            op> CREATE TABLE t (a text, b int, c int, PRIMARY KEY (a, b))
            (0)
            a> INSERT INTO t SELECT 'x', v, v FROM generate_series(1, 10001) AS g(v)
            (10001)
            a> INSERT INTO t SELECT 'y', v, v FROM generate_series(1, 10001) AS g(v)
            (10001)
            a> INSERT INTO t VALUES ('w', 1, 1), ('x ', 1, 1), ('xx', 1, 1)
            (3)
            s> INSERT INTO t VALUES ('x', 1, 1)
            (1)
            a> DELETE FROM t WHERE a = 'x'
            (10001)
            a> SELECT a, count(*) FROM t GROUP BY a ORDER BY a
            w | 1
            x  | 1
            xx | 1
            y | 10001
            a> INSERT INTO t VALUES ('x', 5, 55)
            (1)
            a> SELECT * FROM t WHERE a = 'x'
            x | 5 | 55
            s> SELECT * FROM t
            x | 1 | 1
            a> BEGIN
            (0)
            a> DELETE FROM t WHERE a = 'y' AND b <= 5000
            (5000)
            a> SELECT count(*) FROM t WHERE a = 'y'
            5001
            a> ROLLBACK
            (0)
            a> SELECT count(*) FROM t WHERE a = 'y'
            10001
            a> DELETE FROM t WHERE a = 'y' AND c > 1
            (10000)
            a> SELECT * FROM t ORDER BY a, b
            w | 1 | 1
            x | 5 | 55
            x  | 1 | 1
            xx | 1 | 1
            y | 1 | 1
        "#]])
        .await
}

#[tokio::test]
async fn values_that_do_not_fit_are_refused() -> Result<()> {
    check(expect![[r#"
        op> CREATE TABLE t (a int PRIMARY KEY, i int, s smallint, l bigint, v varchar(3), n numeric(5, 2), f real, b boolean, u uuid, j jsonb, d date)
        (0)
        a> INSERT INTO t (a, i) VALUES (1, 2147483648)
        22003: integer out of range
        a> INSERT INTO t (a, s) VALUES (1, -32769)
        22003: smallint out of range
        a> INSERT INTO t (a, l) VALUES (1, 9223372036854775808)
        22003: bigint out of range
        a> INSERT INTO t (a, v) VALUES (1, 'abcd')
        22001: value too long for type character varying(3)
        a> INSERT INTO t (a, v) VALUES (1, 'abc  ')
        (1)
        a> INSERT INTO t (a, n) VALUES (2, 999.995)
        22003: numeric field overflow
        DETAIL: A field with precision 5, scale 2 must round to an absolute value less than 10^3.
        a> INSERT INTO t (a, n) VALUES (2, 999.994)
        (1)
        a> INSERT INTO t (a, i) VALUES (3, 'x')
        22P02: invalid input syntax for type integer: "x"
        a> INSERT INTO t (a, b) VALUES (3, 'maybe')
        22P02: invalid input syntax for type boolean: "maybe"
        a> INSERT INTO t (a, b) VALUES (3, 1)
        42804: column "b" is of type boolean but expression is of type integer
        HINT: You will need to rewrite or cast the expression.
        a> INSERT INTO t (a, u) VALUES (3, 'a0eebc99')
        22P02: invalid input syntax for type uuid: "a0eebc99"
        a> INSERT INTO t (a, j) VALUES (3, '{')
        22P02: invalid input syntax for type json
        DETAIL: EOF while parsing an object at line 1 column 1.
        a> INSERT INTO t (a, d) VALUES (3, '2026-02-30')
        22008: date/time field value out of range: "2026-02-30"
        a> INSERT INTO t (a, d) VALUES (3, 'soon')
        22007: invalid input syntax for type date: "soon"
        a> INSERT INTO t (a, f) VALUES (3, 1e39)
        22003: "1000000000000000000000000000000000000000" is out of range for type real
        a> INSERT INTO t (a) VALUES (2147483648)
        22003: integer out of range
        a> INSERT INTO t (a) VALUES (NULL)
        23502: null value in column "a" of relation "t" violates not-null constraint
        DETAIL: Failing row contains (null, null, null, null, null, null, null, null, null, null, null).
        a> UPDATE t SET i = 2147483647 WHERE a = 2
        (1)
        a> UPDATE t SET i = i + 1
        22003: integer out of range
        a> UPDATE t SET s = i
        22003: smallint out of range
        a> SELECT a, i, s, v, n FROM t ORDER BY a
        1 | NULL | NULL | abc | NULL
        2 | 2147483647 | NULL | NULL | 999.99
    "#]])
    .await
}
