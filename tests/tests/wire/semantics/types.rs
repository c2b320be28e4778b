//! PostgreSQL's types and arithmetic, on stored values.

use super::check;
use anyhow::Result;
use expect_test::expect;

#[tokio::test]
async fn semantics_9_overflow_of_stored_values() -> Result<()> {
    check(expect![[r#"
        op> CREATE TABLE t (a int PRIMARY KEY, s smallint, i int, l bigint)
        (0)
        a> INSERT INTO t VALUES (1, 32767, 2147483647, 9223372036854775807), (2, -32768, -2147483648, -9223372036854775808)
        (2)
        a> SELECT l + 1 FROM t WHERE a = 1
        22003: bigint out of range
        a> SELECT i + 1 FROM t WHERE a = 1
        22003: integer out of range
        a> SELECT s + 1::smallint FROM t WHERE a = 1
        22003: smallint out of range
        a> SELECT -l FROM t WHERE a = 2
        22003: bigint out of range
        a> SELECT abs(i) FROM t WHERE a = 2
        22003: integer out of range
        a> SELECT i * 2 FROM t
        22003: integer out of range
        a> SELECT l::int FROM t WHERE a = 1
        22003: integer out of range
        a> SELECT i + 1::bigint FROM t WHERE a = 1
        2147483648
        a> SELECT sum(l), sum(i), sum(s) FROM t WHERE a = 1
        9223372036854775807 | 2147483647 | 32767
        a> SELECT sum(l) FROM (SELECT l FROM t WHERE a = 1 UNION ALL SELECT l FROM t WHERE a = 1) x
        18446744073709551614
        a> SELECT avg(i), avg(l) FROM t
        -0.50000000000000000000 | -0.50000000000000000000
        a> UPDATE t SET l = l - 1 WHERE a = 2
        22003: bigint out of range
        a> SELECT l FROM t ORDER BY a
        9223372036854775807
        -9223372036854775808
        a> SELECT a FROM t WHERE l = 9223372036854775808
        (no rows)
        a> SELECT a FROM t WHERE i > 3000000000
        (no rows)
        a> SELECT a FROM t WHERE a > 3000000000
        (no rows)
    "#]])
    .await
}

#[tokio::test]
async fn semantics_9_bytea_uuid_and_jsonb() -> Result<()> {
    check(expect![[r#"
        op> CREATE TABLE t (a uuid PRIMARY KEY, b bytea, j jsonb, k json) WITH (key_encoding = ordered)
        (0)
        a> INSERT INTO t VALUES ('A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', '\x00ff41', '{"b": 1, "a": [1, 2]}', '{"b": 1}')
        (1)
        a> INSERT INTO t VALUES ('b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'text', 'null', '[1,  2]')
        (1)
        a> SELECT * FROM t ORDER BY a
        a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11 | \x00ff41 | {"a": [1, 2], "b": 1} | {"b": 1}
        b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11 | \x74657874 | null | [1,  2]
        a> SELECT a FROM t WHERE b = '\x00FF41'
        a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11
        a> SELECT a FROM t WHERE a = 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'
        a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11
        a> SELECT length(b), encode(b, 'hex') FROM t ORDER BY a
        3 | 00ff41
        4 | 74657874
        a> INSERT INTO t (a, b) VALUES ('c0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '\x0')
        22P02: invalid input syntax for type bytea: "\x0"
        a> INSERT INTO t (a, b) VALUES ('c0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '\xzz')
        22P02: invalid input syntax for type bytea: "\xzz"
        a> SELECT b FROM t WHERE b < '\x01'
        \x00ff41
    "#]])
    .await
}

#[tokio::test]
async fn semantics_9_times() -> Result<()> {
    check(expect![[r#"
        op> CREATE TABLE t (a int PRIMARY KEY, at timestamptz, local timestamp, d date)
        (0)
        a> INSERT INTO t VALUES (1, '2026-07-01 12:00:00.123456+02', '2026-07-01 12:00', '2026-07-01')
        (1)
        a> INSERT INTO t VALUES (2, 'infinity', '-infinity', 'infinity')
        (1)
        a> INSERT INTO t VALUES (3, '0044-03-15 12:00Z BC', '1969-12-31 23:59:59.999999', '1582-10-15')
        (1)
        a> SELECT * FROM t ORDER BY a
        1 | 2026-07-01 10:00:00.123456+00 | 2026-07-01 12:00:00 | 2026-07-01
        2 | infinity | -infinity | infinity
        3 | 0044-03-15 12:00:00+00 BC | 1969-12-31 23:59:59.999999 | 1582-10-15
        a> SELECT a FROM t WHERE at = 'infinity'
        2
        a> SELECT a FROM t WHERE at < now() ORDER BY at
        3
        1
        a> SELECT at AT TIME ZONE 'America/New_York', local AT TIME ZONE 'America/New_York' FROM t WHERE a = 1
        2026-07-01 06:00:00.123456 | 2026-07-01 16:00:00+00
        a> SELECT at + interval '1 month', d + 1, local - d FROM t WHERE a = 1
        2026-08-01 10:00:00.123456+00 | 2026-07-02 | 12:00:00
        a> SELECT max(at), min(local) FROM t
        infinity | -infinity
        a> SELECT date_trunc('day', at), extract(year FROM at) FROM t WHERE a = 1
        2026-07-01 00:00:00+00 | 2026
        a> INSERT INTO t (a, at) VALUES (4, '2026-13-01')
        22008: date/time field value out of range: "2026-13-01"
        HINT: Perhaps you need a different "datestyle" setting.
        a> INSERT INTO t (a, at) VALUES (4, '999999-01-01')
        22008: timestamp out of range: "999999-01-01"
        a> SELECT at + interval '1 day' FROM t WHERE a = 2
        22008: timestamp out of range
    "#]])
    .await
}

#[tokio::test]
async fn semantics_9_times_in_keys() -> Result<()> {
    check(expect![[r#"
        op> CREATE TABLE t (at timestamptz, n int, PRIMARY KEY (at DESC, n))
        (0)
        a> INSERT INTO t VALUES ('2026-07-01 12:00:00.123456Z', 1), ('infinity', 2), ('-infinity', 3), ('1969-12-31 23:59:59.999999Z', 4)
        (4)
        a> SELECT * FROM t
        infinity | 2
        2026-07-01 12:00:00.123456+00 | 1
        1969-12-31 23:59:59.999999+00 | 4
        -infinity | 3
        a> SELECT n FROM t WHERE at = 'infinity'
        2
        a> SELECT n FROM t WHERE at > '1970-01-01' AND at < 'infinity'
        1
        a> SELECT n FROM t ORDER BY at
        3
        4
        1
        2
        a> SELECT n FROM t WHERE at AT TIME ZONE 'Europe/Berlin' = timestamp '2026-07-01 14:00:00.123456'
        1
    "#]])
    .await
}

#[tokio::test]
async fn semantics_9_floats_and_numerics() -> Result<()> {
    check(expect![[r#"
        op> CREATE TABLE t (a double precision, n numeric(20, 5), f real, PRIMARY KEY (a)) WITH (key_encoding = ordered)
        (0)
        a> INSERT INTO t VALUES ('NaN', 1.5, 0.1), ('-Infinity', -0.00001, 1e-45), (-0.0, 123456789012345.12345, '3.4028235e38'), (1e300, 0, 'inf')
        (4)
        a> SELECT * FROM t ORDER BY a
        -Infinity | -0.00001 | 1e-45
        0 | 123456789012345.12345 | 3.4028235e+38
        1e+300 | 0.00000 | Infinity
        NaN | 1.50000 | 0.1
        a> SELECT a FROM t WHERE a = 0
        0
        a> SELECT a FROM t WHERE a > 1
        1e+300
        NaN
        a> SELECT a FROM t WHERE a = 'NaN'
        NaN
        a> SELECT sum(n), avg(n), max(n) FROM t
        123456789012346.62344 | 30864197253086.65586 | 123456789012345.12345
        a> SELECT n + 0.1, n * 2, round(n, 2) FROM t WHERE n = 1.5
        1.60000 | 3.00000 | 1.50
        a> INSERT INTO t (a) VALUES (0.0)
        23505: duplicate key value violates unique constraint "t_pkey"
        DETAIL: Key (a)=(0) already exists.
    "#]])
    .await
}
