//! Queries in process: PostgreSQL's semantics where DataFusion differs.

mod apply;
mod cancellable_joins;
mod constant_rows;
mod grouping_sets;
mod materialized;
mod merge_joins;
mod run_aggregate;

use super::testing::{session, shown};
use expect_test::{Expect, expect};

/// Runs each query and compares all answers.
async fn check(queries: &[&str], expected: Expect) {
    let context = session(false);
    let mut answers = Vec::new();
    for sql in queries {
        answers.push(format!("> {sql}\n{}", shown(&context, sql).await));
    }
    expected.assert_eq(&answers.join("\n"));
}

#[tokio::test]
async fn semantics_9_integer_overflow() {
    check(
        &[
            "SELECT 2147483647 + 1",
            "SELECT 2147483648 + 1",
            "SELECT 9223372036854775807 + 1",
            "SELECT flight + 1 FROM flights ORDER BY 1",
            "SELECT n + 1 FROM flights WHERE n > 1",
            "SELECT n * 2 FROM flights",
            "SELECT -n FROM flights ORDER BY 1",
            "SELECT -(-9223372036854775808)",
            "SELECT 1::smallint + 32767::smallint",
            "SELECT flight FROM flights WHERE flight + 1 > 5",
            "SELECT 3000000000::int",
            "SELECT n::int FROM flights",
            "SELECT count(*) FROM flights WHERE n - 2 < 0",
        ],
        expect![[r#"
            > SELECT 2147483647 + 1
            22003 integer out of range
            > SELECT 2147483648 + 1
            ?column?:int8
            2147483649
            > SELECT 9223372036854775807 + 1
            22003 bigint out of range
            > SELECT flight + 1 FROM flights ORDER BY 1
            22003 integer out of range
            > SELECT n + 1 FROM flights WHERE n > 1
            22003 bigint out of range
            > SELECT n * 2 FROM flights
            22003 bigint out of range
            > SELECT -n FROM flights ORDER BY 1
            ?column?:int8
            -9223372036854775807
            -1
            > SELECT -(-9223372036854775808)
            22003 bigint out of range
            > SELECT 1::smallint + 32767::smallint
            22003 smallint out of range
            > SELECT flight FROM flights WHERE flight + 1 > 5
            22003 integer out of range
            > SELECT 3000000000::int
            22003 integer out of range
            > SELECT n::int FROM flights
            22003 integer out of range
            > SELECT count(*) FROM flights WHERE n - 2 < 0
            count:int8
            1"#]],
    )
    .await;
}

#[tokio::test]
async fn semantics_9_division() {
    check(
        &[
            "SELECT 7 / 2",
            "SELECT -7 / 2",
            "SELECT 7 % -2",
            "SELECT 1 / 0",
            "SELECT flight / (flight - flight) FROM flights",
            "SELECT 1.0 / 0",
            "SELECT delay / 0 FROM flights",
            "SELECT NULL / 0",
            "SELECT (-2147483648)::int % -1",
        ],
        expect![[r#"
            > SELECT 7 / 2
            ?column?:int4
            3
            > SELECT -7 / 2
            ?column?:int4
            -3
            > SELECT 7 % -2
            ?column?:int4
            1
            > SELECT 1 / 0
            22012 division by zero
            > SELECT flight / (flight - flight) FROM flights
            22012 division by zero
            > SELECT 1.0 / 0
            22012 division by zero
            > SELECT delay / 0 FROM flights
            22012 division by zero
            > SELECT NULL / 0
            ?column?:int8
            NULL
            > SELECT (-2147483648)::int % -1
            ?column?:int4
            0"#]],
    )
    .await;
}

#[tokio::test]
async fn semantics_9_aggregates() {
    check(
        &[
            "SELECT sum(n) FROM flights",
            "SELECT sum(flight) FROM flights",
            "SELECT avg(flight), avg(n), avg(delay), sum(price) FROM flights",
            "SELECT sum(DISTINCT n), count(DISTINCT origin) FROM flights",
            "SELECT origin, sum(n), sum(n) OVER () FROM flights GROUP BY origin, n ORDER BY origin",
            "SELECT sum(CASE WHEN delay > 0 THEN 1 ELSE 0 END) FROM flights",
            "SELECT sum(origin) FROM flights",
            "SELECT avg(x) FROM (VALUES (1), (2), (2)) v(x)",
        ],
        expect![[r#"
            > SELECT sum(n) FROM flights
            sum:numeric
            9223372036854775808
            > SELECT sum(flight) FROM flights
            sum:int8
            2147485192
            > SELECT avg(flight), avg(n), avg(delay), sum(price) FROM flights
            avg:numeric | avg:numeric | avg:float8 | sum:numeric
            1073742596.00000000 | 4611686018427387904 | -1.25 | 10.60
            > SELECT sum(DISTINCT n), count(DISTINCT origin) FROM flights
            sum:numeric | count:int8
            9223372036854775808 | 2
            > SELECT origin, sum(n), sum(n) OVER () FROM flights GROUP BY origin, n ORDER BY origin
            origin:text | sum:numeric | sum:numeric
            EWR | 9223372036854775807 | 9223372036854775808
            LGA | 1 | 9223372036854775808
            > SELECT sum(CASE WHEN delay > 0 THEN 1 ELSE 0 END) FROM flights
            sum:int8
            1
            > SELECT sum(origin) FROM flights
            42883 function sum(text) does not exist
            > SELECT avg(x) FROM (VALUES (1), (2), (2)) v(x)
            avg:numeric
            1.6666666666666667"#]],
    )
    .await;
}

#[tokio::test]
async fn semantics_9_bytea_uuid_json() {
    check(
        &[
            r"SELECT '\x4142'::bytea, 'a\\b'::bytea",
            r"SELECT '\x41'::bytea = 'A'::bytea",
            "SELECT 'x'::uuid",
            "SELECT u FROM flights WHERE u = 'A0EEBC99-9c0b-4ef8-bb6d-6bb9bd380a11'",
            "SELECT origin FROM flights WHERE u IN ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11')",
            "SELECT u::text FROM flights ORDER BY u DESC LIMIT 1",
            r#"SELECT '{"b":1,"a":2}'::jsonb, '{"b":1,"a":2}'::json"#,
            "SELECT '{'::jsonb",
            "SELECT j, u FROM flights LIMIT 1",
            "SELECT 'abc'::varchar(2), tail FROM flights LIMIT 1",
        ],
        expect![[r#"
            > SELECT '\x4142'::bytea, 'a\\b'::bytea
            bytea:bytea | bytea:bytea
            \x4142 | \x615c62
            > SELECT '\x41'::bytea = 'A'::bytea
            ?column?:bool
            true
            > SELECT 'x'::uuid
            22P02 invalid input syntax for type uuid: "x"
            > SELECT u FROM flights WHERE u = 'A0EEBC99-9c0b-4ef8-bb6d-6bb9bd380a11'
            u:uuid
            a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11
            > SELECT origin FROM flights WHERE u IN ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11')
            origin:text
            EWR
            > SELECT u::text FROM flights ORDER BY u DESC LIMIT 1
            u:text
            b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11
            > SELECT '{"b":1,"a":2}'::jsonb, '{"b":1,"a":2}'::json
            jsonb:jsonb | json:json
            {"a": 2, "b": 1} | {"b":1,"a":2}
            > SELECT '{'::jsonb
            22P02 invalid input syntax for type json
            > SELECT j, u FROM flights LIMIT 1
            j:jsonb | u:uuid
            {"a": 1} | a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11
            > SELECT 'abc'::varchar(2), tail FROM flights LIMIT 1
            varchar:varchar | tail:varchar
            ab | N14228"#]],
    )
    .await;
}

#[tokio::test]
async fn semantics_9_times() {
    check(
        &[
            "SELECT '2013-01-01 05:00+02'::timestamptz, timestamptz 'infinity', '-infinity'::timestamp",
            "SELECT now(), current_timestamp, current_date, localtimestamp",
            "SELECT timestamptz '2013-07-01 12:00Z' AT TIME ZONE 'America/New_York'",
            "SELECT timestamp '2013-07-01 12:00' AT TIME ZONE 'America/New_York'",
            "SELECT at AT TIME ZONE 'UTC' FROM flights ORDER BY 1 LIMIT 1",
            "SELECT origin FROM flights WHERE at >= '2013-01-01 05:20Z'",
            "SELECT origin FROM flights WHERE at BETWEEN '2013-01-01 05:00Z' AND '2013-01-01 05:20Z'",
            "SELECT count(*) FROM flights WHERE at >= now() - interval '2 days'",
            "SELECT timestamp '2013-01-03 10:00' - timestamp '2013-01-01 09:00'",
            "SELECT date '2013-03-01' - date '2013-02-01', date '2013-01-31' + 1, date '2013-01-31' + interval '1 month'",
            "SELECT interval '1 day' = interval '24 hours', interval '30 hours' > interval '1 day'",
            "SELECT date_trunc('hour', at) FROM flights ORDER BY 1",
            "SELECT extract(hour FROM at) FROM flights LIMIT 1",
            "SELECT '2013-02-30'::date",
            "SELECT 'x'::timestamptz",
            "SELECT at::date, at::text FROM flights LIMIT 1",
        ],
        expect![[r#"
            > SELECT '2013-01-01 05:00+02'::timestamptz, timestamptz 'infinity', '-infinity'::timestamp
            timestamptz:timestamptz | timestamptz:timestamptz | timestamp:timestamp
            2013-01-01 03:00:00+00 | infinity | -infinity
            > SELECT now(), current_timestamp, current_date, localtimestamp
            now:timestamptz | current_timestamp:timestamptz | current_date:date | localtimestamp:timestamp
            2013-01-02 03:04:05+00 | 2013-01-02 03:04:05+00 | 2013-01-02 | 2013-01-02 03:04:05
            > SELECT timestamptz '2013-07-01 12:00Z' AT TIME ZONE 'America/New_York'
            timezone:timestamp
            2013-07-01 08:00:00
            > SELECT timestamp '2013-07-01 12:00' AT TIME ZONE 'America/New_York'
            timezone:timestamptz
            2013-07-01 16:00:00+00
            > SELECT at AT TIME ZONE 'UTC' FROM flights ORDER BY 1 LIMIT 1
            timezone:timestamp
            2013-01-01 05:15:00
            > SELECT origin FROM flights WHERE at >= '2013-01-01 05:20Z'
            origin:text
            LGA
            > SELECT origin FROM flights WHERE at BETWEEN '2013-01-01 05:00Z' AND '2013-01-01 05:20Z'
            origin:text
            EWR
            > SELECT count(*) FROM flights WHERE at >= now() - interval '2 days'
            count:int8
            2
            > SELECT timestamp '2013-01-03 10:00' - timestamp '2013-01-01 09:00'
            ?column?:interval
            2 days 01:00:00
            > SELECT date '2013-03-01' - date '2013-02-01', date '2013-01-31' + 1, date '2013-01-31' + interval '1 month'
            ?column?:int4 | ?column?:date | ?column?:timestamp
            28 | 2013-02-01 | 2013-02-28 00:00:00
            > SELECT interval '1 day' = interval '24 hours', interval '30 hours' > interval '1 day'
            ?column?:bool | ?column?:bool
            true | true
            > SELECT date_trunc('hour', at) FROM flights ORDER BY 1
            date_trunc:timestamptz
            2013-01-01 05:00:00+00
            2013-01-01 05:00:00+00
            > SELECT extract(hour FROM at) FROM flights LIMIT 1
            extract:numeric
            5
            > SELECT '2013-02-30'::date
            22008 date/time field value out of range: "2013-02-30"
            > SELECT 'x'::timestamptz
            22007 invalid input syntax for type timestamp with time zone: "x"
            > SELECT at::date, at::text FROM flights LIMIT 1
            at:date | at:text
            2013-01-01 | 2013-01-01 05:15:00+00"#]],
    )
    .await;
}

#[tokio::test]
async fn semantics_9_casts_and_operators() {
    check(
        &[
            "SELECT 2^3",
            "SELECT 1.5::int, 2.5::int, -2.5::int, '2.5'::numeric(3,1)::int, 2.5::numeric(3,1)::int",
            "SELECT 'abc'::int",
            "SELECT '99999999999'::int",
            "SELECT 1e10::int",
            "SELECT 1.0::text, 0.1::text, true::text, 12::text",
            "SELECT 'a' || 1, 'a' || NULL",
            "SELECT flight FROM flights WHERE flight = '1545'",
            "SELECT 't'::bool, 'no'::boolean",
            "SELECT '{a,b}'::text[]",
            "SELECT 1 = 'a'",
            "SELECT price * 2, price + 1 FROM flights LIMIT 1",
            "SELECT 'a'::nix",
        ],
        expect![[r#"
            > SELECT 2^3
            ?column?:float8
            8
            > SELECT 1.5::int, 2.5::int, -2.5::int, '2.5'::numeric(3,1)::int, 2.5::numeric(3,1)::int
            int4:int4 | int4:int4 | ?column?:int4 | int4:int4 | int4:int4
            2 | 3 | -3 | 3 | 3
            > SELECT 'abc'::int
            22P02 invalid input syntax for type integer: "abc"
            > SELECT '99999999999'::int
            22003 value "99999999999" is out of range for type integer
            > SELECT 1e10::int
            22003 integer out of range
            > SELECT 1.0::text, 0.1::text, true::text, 12::text
            text:text | text:text | text:text | text:text
            1.0 | 0.1 | true | 12
            > SELECT 'a' || 1, 'a' || NULL
            ?column?:text | ?column?:text
            a1 | NULL
            > SELECT flight FROM flights WHERE flight = '1545'
            flight:int4
            1545
            > SELECT 't'::bool, 'no'::boolean
            bool:bool | bool:bool
            true | false
            > SELECT '{a,b}'::text[]
            text:_text
            {a,b}
            > SELECT 1 = 'a'
            22P02 invalid input syntax for type bigint: "a"
            > SELECT price * 2, price + 1 FROM flights LIMIT 1
            ?column?:numeric | ?column?:numeric
            21.00 | 11.50
            > SELECT 'a'::nix
            42704 type "nix" does not exist"#]],
    )
    .await;
}

#[tokio::test]
async fn names_and_types_of_columns() {
    check(
        &[
            "SELECT 1, 'a', NULL, true, 1.5, 3000000000",
            "SELECT count(*), count(n), origin, origin FROM flights GROUP BY origin ORDER BY 3 LIMIT 1",
            "SELECT count FROM (SELECT count(*) FROM flights) s",
            "SELECT origin AS a, dest AS a FROM flights LIMIT 1",
            "SELECT lower(origin) FROM flights ORDER BY lower(origin)",
            "SELECT DISTINCT lower(origin) FROM flights ORDER BY lower(origin)",
            "SELECT lower(origin), count(*) FROM flights GROUP BY lower(origin) ORDER BY count(*) DESC, lower(origin)",
            "SELECT max(delay) FROM flights HAVING max(delay) > 1",
            "SELECT f.origin, g.origin FROM flights f JOIN flights g ON f.flight = g.flight LIMIT 1",
            "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t WHERE n < 3) SELECT sum(n) FROM t",
            "SELECT *, origin FROM (SELECT origin FROM flights) s ORDER BY 1 LIMIT 1",
        ],
        expect![[r#"
            > SELECT 1, 'a', NULL, true, 1.5, 3000000000
            ?column?:int4 | ?column?:text | ?column?:text | ?column?:bool | ?column?:numeric | ?column?:int8
            1 | a | NULL | true | 1.5 | 3000000000
            > SELECT count(*), count(n), origin, origin FROM flights GROUP BY origin ORDER BY 3 LIMIT 1
            count:int8 | count:int8 | origin:text | origin:text
            1 | 1 | EWR | EWR
            > SELECT count FROM (SELECT count(*) FROM flights) s
            count:int8
            2
            > SELECT origin AS a, dest AS a FROM flights LIMIT 1
            a:text | a:text
            EWR | IAH
            > SELECT lower(origin) FROM flights ORDER BY lower(origin)
            lower:text
            ewr
            lga
            > SELECT DISTINCT lower(origin) FROM flights ORDER BY lower(origin)
            lower:text
            ewr
            lga
            > SELECT lower(origin), count(*) FROM flights GROUP BY lower(origin) ORDER BY count(*) DESC, lower(origin)
            lower:text | count:int8
            ewr | 1
            lga | 1
            > SELECT max(delay) FROM flights HAVING max(delay) > 1
            max:float8
            2
            > SELECT f.origin, g.origin FROM flights f JOIN flights g ON f.flight = g.flight LIMIT 1
            origin:text | origin:text
            EWR | EWR
            > WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t WHERE n < 3) SELECT sum(n) FROM t
            sum:int8
            6
            > SELECT *, origin FROM (SELECT origin FROM flights) s ORDER BY 1 LIMIT 1
            origin:text | origin:text
            EWR | EWR"#]],
    )
    .await;
}

#[tokio::test]
async fn errors_have_their_states() {
    check(
        &[
            "SELECT * FROM nix",
            "SELECT * FROM nix.flights",
            "SELECT nix FROM flights",
            "SELECT f.nix FROM flights f",
            "SELECT orign FROM flights",
            "SELECT origin FROM flights f, flights g",
            "SELECT nix(1)",
            "SELECT lower(1, 2)",
            "SELECT origin, count(*) FROM flights",
            "SELECT origin FROM flights WHERE count(*) > 1",
            "SELECT * FROM flights WHERE origin > true",
            "SELECT (SELECT origin FROM flights)",
            "SELECT * FROM flights, flights",
            "SELECT 1 UNION SELECT 1, 2",
            "SELECT * FROM nix('a')",
        ],
        expect![[r#"
            > SELECT * FROM nix
            42P01 relation "nix" does not exist
            > SELECT * FROM nix.flights
            42P01 relation "nix.flights" does not exist
            > SELECT nix FROM flights
            42703 column "nix" does not exist
            > SELECT f.nix FROM flights f
            42703 column f.nix does not exist
            > SELECT orign FROM flights
            42703 column "orign" does not exist
            > SELECT origin FROM flights f, flights g
            42702 column reference "origin" is ambiguous
            > SELECT nix(1)
            42883 function nix does not exist
            > SELECT lower(1, 2)
            42883 function lower(integer, integer) does not exist
            > SELECT origin, count(*) FROM flights
            42803 column in SELECT must be in GROUP BY or an aggregate function: While expanding wildcard, column "flights.origin" must appear in the GROUP BY clause or must be part of an aggregate function, currently only "count(Int64(1))" appears in the SELECT clause satisfies this requirement
            > SELECT origin FROM flights WHERE count(*) > 1
            42803 aggregate functions are not allowed in the WHERE clause. Consider using HAVING instead
            > SELECT * FROM flights WHERE origin > true
            42883 operator does not exist: text > boolean
            > SELECT (SELECT origin FROM flights)
            21000 more than one row returned by a subquery used as an expression
            > SELECT * FROM flights, flights
            42712 table name "flights" specified more than once
            > SELECT 1 UNION SELECT 1, 2
            42000 UNION queries have different number of columns
            > SELECT * FROM nix('a')
            42883 function nix does not exist"#]],
    )
    .await;
}

#[tokio::test]
async fn semantics_10_definitions_do_not_reach_datafusion() {
    let context = session(false);
    for sql in [
        "CREATE TABLE a AS SELECT 1",
        "CREATE VIEW a AS SELECT 1",
        "SET datafusion.execution.batch_size = 1",
        "CREATE DATABASE a",
    ] {
        assert!(shown(&context, sql).await.starts_with("0A000"), "{sql}");
    }
}

#[tokio::test]
async fn a_tenant_sees_no_schema_of_the_operator() {
    assert_eq!(
        shown(&session(false), "SELECT * FROM keyspan.tenants").await,
        "42P01 relation \"keyspan.tenants\" does not exist"
    );
}

#[tokio::test]
async fn predicates_reach_the_table_as_comparisons_with_literals() {
    let context = session(false);
    let queries = [
        "SELECT origin FROM flights WHERE at >= '2013-01-01 05:20Z' AND flight = 1545",
        "SELECT origin FROM flights WHERE origin = 'EWR' AND at BETWEEN '2013-01-01Z' AND now() - interval '1 hour'",
        "SELECT origin FROM flights WHERE u = 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11' AND price > 10",
        "SELECT origin FROM flights WHERE flight IN (1, 2) AND n <> 2 + 3 AND tail = 'N1'",
        "SELECT origin FROM flights WHERE at >= timestamptz '2013-01-01' AND at < date '2013-02-01'",
    ];
    let mut plans = Vec::new();
    for sql in queries {
        let plan = super::plan(&context, super::testing::parse(sql)).await.unwrap();
        let plan = context.state().optimize(&plan).unwrap();
        plans.push(plan.display_indent().to_string());
    }
    expect![[r#"
        Projection: flights.origin
          Filter: flights.at >= TimestampMicrosecond(1357017600000000, Some("+00:00")) AND flights.flight = Int32(1545)
            TableScan: flights projection=[origin, at, flight]
        Projection: flights.origin
          Filter: flights.origin = Utf8View("EWR") AND flights.at >= TimestampMicrosecond(1356998400000000, Some("+00:00")) AND flights.at <= TimestampMicrosecond(1357092245000000, Some("+00:00"))
            TableScan: flights projection=[origin, at]
        Projection: flights.origin
          Filter: flights.u = FixedSizeBinary(16, "160,238,188,153,156,11,78,248,187,109,107,185,189,56,10,17") AND flights.price > Decimal128(10.00,10,2)
            TableScan: flights projection=[origin, price, u]
        Projection: flights.origin
          Filter: (flights.flight = Int32(1) OR flights.flight = Int32(2)) AND flights.n != Int64(5) AND flights.tail = Utf8View("N1")
            TableScan: flights projection=[origin, flight, tail, n]
        Projection: flights.origin
          Filter: flights.at >= TimestampMicrosecond(1356998400000000, Some("+00:00")) AND flights.at < TimestampMicrosecond(1359676800000000, Some("+00:00"))
            TableScan: flights projection=[origin, at]"#]].assert_eq(&plans.join("\n"));
}

#[tokio::test]
async fn parameters_are_inferred() {
    let context = session(false);
    let queries = [
        "SELECT $1",
        "SELECT origin FROM flights WHERE at >= $1 AND flight = $2 AND origin = $3 AND u = $4 AND price < $5",
        "SELECT origin FROM flights WHERE n IN ($1, $2) LIMIT $3",
        "SELECT $1::int + 1, flight + $2 FROM flights",
        "SELECT origin FROM flights WHERE at BETWEEN $1 AND $2 AND tail LIKE $3",
        "SELECT $2::text",
    ];
    let mut found = Vec::new();
    for sql in queries {
        let types = match super::plan(&context, super::testing::parse(sql)).await {
            Ok(plan) => crate::pg::plan::parameters::parameters(&plan, &[])
                .map(|types| types.into_iter().map(|kind| kind.data).collect::<Vec<_>>())
                .map_or_else(|error| error.message, |types| format!("{types:?}")),
            Err(error) => error.message,
        };
        found.push(format!("{sql}: {types}"));
    }
    expect![[r#"
        SELECT $1: [Utf8View]
        SELECT origin FROM flights WHERE at >= $1 AND flight = $2 AND origin = $3 AND u = $4 AND price < $5: [Timestamp(Microsecond, Some("+00:00")), Int32, Utf8View, FixedSizeBinary(16), LargeBinary]
        SELECT origin FROM flights WHERE n IN ($1, $2) LIMIT $3: [Int64, Int64, Int64]
        SELECT $1::int + 1, flight + $2 FROM flights: [Int32, Int32]
        SELECT origin FROM flights WHERE at BETWEEN $1 AND $2 AND tail LIKE $3: [Timestamp(Microsecond, Some("+00:00")), Timestamp(Microsecond, Some("+00:00")), Utf8View]
        SELECT $2::text: could not determine data type of parameter $1"#]].assert_eq(&found.join("\n"));
}

#[tokio::test]
async fn functions_that_only_share_a_name_with_postgresqls_are_not_there() {
    check(
        &["SELECT date_format(now(), 'YYYY')"],
        expect![[r#"
            > SELECT date_format(now(), 'YYYY')
            42883 function date_format does not exist"#]],
    )
    .await;
}

#[tokio::test]
async fn no_function_tells_of_the_stores_files() {
    check(
        &["SELECT input_file_name() FROM flights", "SELECT file_row_index() FROM flights"],
        expect![[r#"
            > SELECT input_file_name() FROM flights
            42883 function input_file_name does not exist
            > SELECT file_row_index() FROM flights
            42883 function file_row_index does not exist"#]],
    )
    .await;
}
