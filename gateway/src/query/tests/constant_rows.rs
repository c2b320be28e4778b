//! Rows of VALUES that are constants, as columns: they are the rows that VALUES has with an expression for each.

use crate::query::{
    plan,
    testing::{parse, session, shown},
};

/// More values than an expression is held for each.
const ROWS: usize = 70;

/// `VALUES` of the two cells by turns, row by row, and what is beside them.
fn values(first: &str, second: &str, beside: &str) -> String {
    let row = |at: usize| format!("({}, {at}, {beside})", if at.is_multiple_of(2) { first } else { second });
    format!("(VALUES {}) v (cell, at, beside)", (0..ROWS).map(row).collect::<Vec<_>>().join(", "))
}

#[tokio::test]
async fn constants_are_held_as_columns_and_are_the_same_rows() {
    let context = session(false);
    let mut others = Vec::new();
    for (first, second, is_held) in [
        ("1", "-2", true),
        ("1", "NULL", true),
        ("NULL", "NULL", true),
        ("12345678901", "2", true),
        ("5::bigint", "-6", true),
        ("5::smallint", "6", true),
        ("'a'", "'b'''", true),
        ("'a'", "NULL", true),
        ("1.5", "22.5", true),
        ("1.10", "22.5", true),
        ("1.10", "7", true),
        ("7", "NULL::numeric", true),
        ("123456789012345678901234567890.5", "0.25", true),
        ("1.5::float8", "2.25::float8", true),
        ("1.5::float8", "2", true),
        ("1.5::float8", "2.25", false),
        ("'NaN'::float8", "'-Infinity'", true),
        ("true", "false", true),
        ("'2026-01-01'::date", "'2026-01-02'::date", true),
        ("'2026-01-01'::date", "'2026-01-02'", true),
        ("'2026-01-01 00:00:00+02'::timestamptz", "NULL", true),
        ("'2026-01-01 00:00:00+02'::timestamptz", "now()", false),
        ("'1 day'::interval", "'2 hours'", true),
        ("'a'::varchar", "'b'", true),
        ("'abc'::varchar(2)", "'b'", false),
        ("'a'::text", "'b'", true),
        ("'abc'::char(5)", "'b'", true),
        ("'abc'::char(5)", "NULL", true),
        ("'{\"a\": 1}'::jsonb", "'[]'", true),
        ("'{1,2}'::int[]", "'{}'", true),
        ("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12'", true),
        ("'\\x01'::bytea", "'\\x'", true),
        ("1.55::numeric(5, 1)", "2::numeric(5, 1)", false),
        ("2.55::int", "3.55::int", true),
        ("2.55::int", "3.5::int", false),
        ("'5'::int", "'6'::int", true),
        ("'5'::int", "6", false),
        ("1 + 1", "2", false),
        ("lower('A')", "lower('A')", true),
        ("lower('A')", "lower('B')", false),
        ("ARRAY[1, 2]", "ARRAY[3]", false),
        ("(SELECT 1)", "(SELECT 1)", false),
    ] {
        let text = |beside: &str| {
            format!("SELECT cell, pg_typeof(cell) t, at FROM {} ORDER BY at", values(first, second, beside))
        };
        let planned = plan(&context, parse(&text("1"))).await.unwrap().display_indent().to_string();
        if planned.contains(&format!("Constants: {ROWS} rows")) != is_held {
            others.push((first, second, planned));
        }
        // What is no constant keeps the others from being held.
        let by_rows = text("random() < 2");
        assert!(!plan(&context, parse(&by_rows)).await.unwrap().display_indent().to_string().contains("Constants: "));
        assert_eq!(shown(&context, &text("1")).await, shown(&context, &by_rows).await, "{first}, {second}");
    }
    assert!(others.is_empty(), "{others:#?}");
}

#[tokio::test]
async fn constants_are_joined_grouped_and_looked_for() {
    let context = session(false);
    let (one, other) = (values("1", "2", "now()"), values("2", "3", "random() < 2"));
    let by_rows = [values("1", "2", "random() < 2"), other.clone()];
    for sql in [
        "SELECT a.cell, count(*), max(b.at) FROM {0} JOIN {1} ON a.cell = b.cell GROUP BY a.cell ORDER BY 1",
        "SELECT a.at FROM {0} WHERE a.cell NOT IN (SELECT b.cell FROM {1}) ORDER BY a.at DESC LIMIT 3",
        "SELECT a.at, (SELECT max(b.at) FROM {1} WHERE b.cell > a.cell) FROM {0} ORDER BY 1 LIMIT 3",
        "SELECT a.at FROM {0} WHERE EXISTS (SELECT 1 FROM {1} WHERE b.cell = a.cell AND b.at > a.at + 60) ORDER BY 1",
        "SELECT count(*), sum(x) FROM {0}, LATERAL (SELECT b.at + a.at AS x FROM {1} ORDER BY b.at LIMIT 2) y",
        "SELECT DISTINCT ON (a.cell) a.cell, a.at FROM {0} ORDER BY a.cell, a.at DESC",
        "SELECT cell FROM {0} UNION SELECT cell FROM {1} ORDER BY 1",
        "SELECT cell FROM {0} EXCEPT SELECT cell FROM {1} ORDER BY 1",
        "WITH x AS (SELECT * FROM {0}) SELECT count(*) FROM x JOIN x y USING (at) WHERE x.cell = 1",
        "SELECT count(*) FROM {0} LEFT JOIN {1} ON a.at = b.at AND b.cell = 3 WHERE b.at IS NULL",
    ] {
        let sql = |values: [&str; 2]| {
            let [one, other] = values.map(|values| values.to_owned());
            sql.replace("{0}", &one.replace(") v (", ") a (")).replace("{1}", &other.replace(") v (", ") b ("))
        };
        let held = shown(&context, &sql([&one, &other])).await;
        assert_eq!(held, shown(&context, &sql([&by_rows[0], &by_rows[1]])).await);
        let both = values("2", "3", "1");
        assert_eq!(held, shown(&context, &sql([&one, &both])).await);
    }
}
