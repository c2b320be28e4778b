//! `keyspan.advice`: what statements do to tables makes advice, whose statements run and keep every row; a tenant sees
//! its own; `keyspan advise` prints it.

use super::{
    command::keyspan,
    harness::{Harness, OPERATOR_PASSWORD, rows},
};
use anyhow::{Context, Result, ensure};
use tokio_postgres::Client;

/// An advice of a kind on a table: how often it was seen, the bytes, the statements.
async fn advice(client: &Client, kind: &str, table: &str) -> Result<Vec<(i64, Option<i64>, Option<String>)>> {
    let sql = "SELECT seen, bytes, statement FROM keyspan.advice WHERE kind = $1 AND coalesce(table_name, '') = $2";
    let found = client.query(sql, &[&kind, &table]).await?;
    Ok(found.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect())
}

/// The only advice of a kind on a table.
async fn only(client: &Client, kind: &str, table: &str) -> Result<(i64, Option<i64>, String)> {
    let found = advice(client, kind, table).await?;
    let all = rows(client, "SELECT kind, table_name, advice FROM keyspan.advice").await?;
    ensure!(found.len() == 1, "{} times {kind} on {table}, of {all:#?}", found.len());
    let (seen, bytes, statement) = found.into_iter().next().context("one")?;
    Ok((seen, bytes, statement.context("a statement")?))
}

/// Runs the statements of an advice, one by one as psql would, and gives the name of the table that they make.
async fn follow(client: &Client, statements: &str) -> Result<String> {
    for statement in statements.split_inclusive(";\n") {
        client.batch_execute(statement).await.with_context(|| statement.to_owned())?;
    }
    let name = statements
        .strip_prefix("CREATE TABLE ")
        .and_then(|rest| rest.split_once(" ("))
        .context(statements.to_owned())?;
    Ok(name.0.to_owned())
}

/// Runs the statements, and holds the rows of the new table against those of the old one.
async fn follow_with_rows(client: &Client, statements: &str, old: &str, columns: &str) -> Result<String> {
    let new = follow(client, statements).await?;
    let of = |table: &str| format!("SELECT {columns} FROM {table} ORDER BY {columns}");
    let (before, after) = (rows(client, &of(old)).await?, rows(client, &of(&new)).await?);
    ensure!(!before.is_empty() && before == after, "{} rows of {old}, {} of {new}", before.len(), after.len());
    Ok(new)
}

async fn repeat(client: &Client, times: usize, sql: &str) -> Result<()> {
    for _ in 0..times {
        client.query(sql, &[]).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn scans_in_vain_get_a_key_that_makes_them_ranges() -> Result<()> {
    let harness = Harness::start().await?;
    let (one, other) = (harness.tenant("alto").await?, harness.tenant("bari").await?);
    let operator = harness.operator().await?;
    operator
        .batch_execute(
            "CREATE TABLE measured (site text, device text, n bigint, note text, PRIMARY KEY (site, device, n))",
        )
        .await?;
    let fill =
        "INSERT INTO measured SELECT 's' || g % 3, 'd' || g % 50, g, repeat('x', 500) FROM generate_series(1, 3000) g";
    one.batch_execute(fill).await?;
    other.batch_execute(fill).await?;
    one.batch_execute(
        "CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer text, note text, CHECK (id > 0));
         INSERT INTO orders (customer, note) SELECT 'c' || g % 100, repeat('y', 500) FROM generate_series(1, 3000) g;
         CREATE TABLE events (kind text, note text);
         INSERT INTO events SELECT 'k' || g % 100, repeat('z', 500) FROM generate_series(1, 3000) g",
    )
    .await?;
    let scan = "SELECT count(note) FROM measured WHERE device = 'd7'";
    repeat(&one, 9, scan).await?;
    assert!(advice(&one, "scan_without_range", "measured").await?.is_empty());
    repeat(&one, 1, scan).await?;
    repeat(&other, 20, scan).await?;
    // Of rows, of row groups, and of both.
    repeat(&one, 10, "SELECT id FROM orders WHERE customer = 'c7' AND note > 'a'").await?;
    one.batch_execute("SET keyspan.columnar = off").await?;
    repeat(&one, 10, "SELECT count(*) FROM events WHERE kind = 'k7'").await?;
    // A range, and all rows that are wanted.
    repeat(&other, 20, "SELECT count(note) FROM measured WHERE site = 's1' AND n > 5").await?;
    repeat(&other, 20, "SELECT count(note) FROM measured WHERE n > 0").await?;

    let (seen, bytes, statement) = only(&one, "scan_without_range", "measured").await?;
    assert_eq!(seen, 10);
    assert!(bytes.is_some_and(|bytes| (10 * 1_000_000..10 * 3_000_000).contains(&bytes)), "{bytes:?}");
    assert_eq!(only(&other, "scan_without_range", "measured").await?.0, 20);
    // The operator sees the sum, and what the tenant has of its own.
    assert_eq!(only(&operator, "scan_without_range", "measured").await?.0, 30);
    let tenants = "SELECT DISTINCT coalesce(tenant, '-'), table_name FROM keyspan.advice ORDER BY 1, 2";
    assert_eq!(rows(&operator, tenants).await?, ["-|measured", "alto|events", "alto|orders"]);
    assert_eq!(rows(&other, tenants).await?, ["bari|measured"]);

    let new = follow_with_rows(&operator, &statement, "measured", "tenant, site, device, n, note").await?;
    let plan = rows(&one, &format!("EXPLAIN SELECT count(note) FROM {new} WHERE device = 'd7'")).await?.join("\n");
    assert!(plan.contains("Access: range scan") && plan.contains("Residual: none"), "{plan}");
    let (_, _, statement) = only(&one, "scan_without_range", "orders").await?;
    let new = follow_with_rows(&one, &statement, "orders", "id, customer, note").await?;
    // Its numbers go on.
    let next = format!("INSERT INTO {new} (customer) VALUES ('next') RETURNING id");
    assert_eq!(rows(&one, &next).await?, ["3001"]);
    let (_, _, statement) = only(&one, "scan_without_range", "events").await?;
    let new = follow_with_rows(&one, &statement, "events", "kind, note").await?;
    let plan = rows(&one, &format!("EXPLAIN SELECT note FROM {new} WHERE kind = 'k7'")).await?.join("\n");
    assert!(plan.contains("Access: range scan"), "{plan}");
    // Begun anew, nothing was seen.
    one.batch_execute("SELECT pg_stat_reset()").await?;
    assert!(rows(&one, "SELECT 1 FROM keyspan.advice").await?.is_empty());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_grow_are_spread() -> Result<()> {
    let harness = Harness::start().await?;
    let (one, operator) = (harness.tenant("alto").await?, harness.operator().await?);
    operator
        .batch_execute(
            "CREATE TABLE log (at timestamptz, id bigint, PRIMARY KEY (at, id));
             CREATE TABLE mixed (at timestamptz, id bigint, PRIMARY KEY (at, id))",
        )
        .await?;
    one.batch_execute("CREATE TABLE bills (id bigserial PRIMARY KEY, cents bigint)").await?;
    for part in 0..12 {
        let (from, to) = (part * 1_000, part * 1_000 + 999);
        one.batch_execute(&format!(
            "INSERT INTO log SELECT timestamptz '2026-01-01' + interval '1 second' * g, g FROM generate_series({from}, {to}) g;
             INSERT INTO mixed SELECT timestamptz '2026-01-01' + interval '1 second' * (g * 7919 % 12007), g
               FROM generate_series({from}, {to}) g;
             INSERT INTO bills (cents) SELECT g FROM generate_series({from}, {to}) g"
        ))
        .await?;
    }
    let (seen, bytes, statement) = only(&one, "ascending_key", "log").await?;
    // The first rows had nothing before them.
    assert_eq!((seen, bytes), (10_000, None));
    let new = follow_with_rows(&operator, &statement, "log", "tenant, at, id").await?;
    assert_eq!(rows(&operator, &format!("SELECT salt FROM keyspan.tables WHERE table_name = '{new}'")).await?, ["8"]);
    let (_, _, statement) = only(&one, "ascending_key", "bills").await?;
    assert!(statement.contains("PRIMARY KEY (id REVERSED)"), "{statement}");
    let new = follow_with_rows(&one, &statement, "bills", "id, cents").await?;
    let next = format!("INSERT INTO {new} (cents) VALUES (1) RETURNING id");
    assert_eq!(rows(&one, &next).await?, ["12001"]);
    assert!(advice(&one, "ascending_key", "mixed").await?.is_empty());
    Ok(())
}

/// Rows of a load, which go past the log: the largest cell is in its last part.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_cell_at_the_end_of_a_load_is_told() -> Result<()> {
    let harness = Harness::start().await?;
    let one = harness.tenant("alto").await?;
    one.batch_execute(
        "CREATE TABLE loaded (id bigint PRIMARY KEY, body text);
         INSERT INTO loaded
           SELECT g, CASE g WHEN 110000 THEN repeat('0123456789', 1100000) ELSE 'small' END
           FROM generate_series(1, 110000) g",
    )
    .await?;
    let (_, bytes, _) = only(&one, "large_cell", "loaded").await?;
    assert_eq!(bytes, Some(11_000_000));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn names_families_rows_and_cells_get_their_advice() -> Result<()> {
    let harness = Harness::start().await?;
    let (one, operator) = (harness.tenant("alto").await?, harness.operator().await?);
    operator
        .batch_execute(
            "CREATE TABLE people (email text, at date, v text, PRIMARY KEY (email, at));
             CREATE TABLE sales (id bigint PRIMARY KEY, shop text, m01 int, m02 int, m03 int, m04 int, m05 int);
             CREATE TABLE jobs (id bigint PRIMARY KEY, a text, b text, c text,
                FAMILY f (a), FAMILY g (b), FAMILY h (c));
             CREATE TABLE friends (id text PRIMARY KEY, name text, FAMILY p (name), FAMILY friend OPEN)",
        )
        .await?;
    one.batch_execute(
        "INSERT INTO people VALUES ('a@x', '2026-01-01', '1'), ('a@x', '2026-01-02', '2'), ('b@x', '2026-01-01', '3');
         INSERT INTO sales VALUES (1, 'ulm', 10, NULL, 30, 40, 50), (2, 'graz', NULL, NULL, NULL, NULL, NULL);
         INSERT INTO jobs SELECT g, 'a' || g, 'b' || g, 'c' || g FROM generate_series(1, 20) g;
         INSERT INTO friends SELECT 'jose', 'Jose', jsonb_object_agg('f' || g, g) FROM generate_series(1, 10500) g;
         CREATE TABLE own (id bigint PRIMARY KEY, body text, w1 text, w2 text, w3 text, w4 text, w5 text);
         INSERT INTO own VALUES (1, repeat('0123456789', 1100000), 'a', 'b', NULL, 'd', 'e'), (2, 'small', NULL, NULL, NULL, NULL, NULL)",
    )
    .await?;

    let (_, _, statement) = only(&one, "personal_key", "people").await?;
    let new = follow(&operator, &statement).await?;
    let joined = "SELECT count(*), count(DISTINCT email_id), count(DISTINCT (tenant, email)), count(DISTINCT v) FROM ";
    assert_eq!(rows(&operator, &format!("{joined}{new}")).await?, ["3|2|2|3"]);

    let (seen, _, statement) = only(&operator, "values_in_names", "sales").await?;
    assert_eq!(seen, 5);
    let new = follow(&operator, &statement).await?;
    let sales = rows(&one, &format!("SELECT id, shop, m FROM {new} ORDER BY id")).await?;
    assert_eq!(sales, [r#"1|ulm|{"01": 10, "03": 30, "04": 40, "05": 50}"#, "2|graz|{}"]);
    let (_, _, statement) = only(&one, "values_in_names", "own").await?;
    let new = follow(&one, &statement).await?;
    let own = rows(&one, &format!("SELECT id, length(body), w FROM {new} ORDER BY id")).await?;
    assert_eq!(own, [r#"1|11000000|{"1": "a", "2": "b", "4": "d", "5": "e"}"#, "2|5|{}"]);

    repeat(&one, 60, "SELECT a, b FROM jobs WHERE id = 3").await?;
    repeat(&one, 60, "SELECT a, b FROM jobs WHERE id > 3").await?;
    let (seen, _, statement) = only(&one, "families_together", "jobs").await?;
    assert_eq!(seen, 120);
    let new = follow_with_rows(&operator, &statement, "jobs", "tenant, id, a, b, c").await?;
    let families = format!("SELECT family, columns FROM keyspan.families WHERE table_name = '{new}' ORDER BY 1");
    assert_eq!(rows(&operator, &families).await?, ["f|{a,b}", "h|{c}"]);
    let (_, _, statement) = only(&one, "family_unread", "jobs").await?;
    let forgets = rows(&operator, &format!("EXPLAIN {statement}")).await?;
    assert!(!forgets.is_empty());
    operator.batch_execute(&statement).await?;
    let rule = "SELECT max_age FROM keyspan.families WHERE table_name = 'jobs' AND family = 'h'";
    assert_eq!(rows(&operator, rule).await?, ["30 days"]);

    assert!(advice(&one, "wide_row", "friends").await?.is_empty());
    repeat(&one, 1, "SELECT friend->>'f7' , friend FROM friends WHERE id = 'jose'").await?;
    let (seen, _, statement) = only(&one, "wide_row", "friends").await?;
    assert!(seen >= 10_500, "{seen}");
    let new = follow(&operator, &statement).await?;
    let ones = rows(&one, &format!("SELECT value FROM {new} WHERE id = 'jose' AND name = 'f777'")).await?;
    assert_eq!(
        (ones, rows(&one, &format!("SELECT count(*) FROM {new}")).await?),
        (vec!["777".to_owned()], vec!["10500".to_owned()])
    );

    let (_, bytes, statement) = only(&one, "large_cell", "own").await?;
    assert_eq!(bytes, Some(11_000_000));
    let new = follow(&one, &statement).await?;
    let whole = format!(
        "SELECT o.id, string_agg(p.body, '' ORDER BY p.part) = o.body, count(*) FROM own o JOIN {new} p ON p.id = o.id
         GROUP BY o.id, o.body ORDER BY 1"
    );
    assert_eq!(rows(&one, &whole).await?, ["1|t|11", "2|t|1"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn many_tables_become_one() -> Result<()> {
    let harness = Harness::start().await?;
    let (one, operator) = (harness.tenant("alto").await?, harness.operator().await?);
    for day in 1..=10 {
        one.batch_execute(&format!(
            "CREATE TABLE log_{day:02} (id bigint PRIMARY KEY, what text);
             INSERT INTO log_{day:02} SELECT g, 'day {day}' FROM generate_series(1, {day}) g;
             CREATE TABLE \"Raw-{day}\" (what text); INSERT INTO \"Raw-{day}\" VALUES ('r'), ('r')"
        ))
        .await?;
    }
    let found = advice(&one, "many_tables", "").await?;
    assert_eq!(found.iter().map(|(seen, ..)| *seen).collect::<Vec<_>>(), [10, 10]);
    for (_, _, statement) in &found {
        let new = follow(&one, statement.as_deref().context("a statement")?).await?;
        let sums = rows(&one, &format!("SELECT count(*), count(DISTINCT part), min(part) FROM {new}")).await?;
        assert!(sums == ["55|10|01"] || sums == ["20|10|1"], "{new}: {sums:?}");
    }
    for tenant in 0..20 {
        let name = format!("t{tenant}");
        let client = harness.tenant(&name).await?;
        client.batch_execute("CREATE TABLE carts (id bigserial PRIMARY KEY, n int)").await?;
    }
    let (seen, _, statement) = only(&operator, "many_tables", "").await.or(
        // Those of alto are advice of the operator's, too.
        advice(&operator, "many_tables", "").await.and_then(|found| {
            let of_all = found.into_iter().find(|(seen, ..)| *seen == 20).context("of all tenants")?;
            Ok((of_all.0, of_all.1, of_all.2.context("a statement")?))
        }),
    )?;
    assert_eq!(seen, 20);
    let new = follow(&operator, &statement).await?;
    let client = harness.connect("t7", "t7").await?;
    client.batch_execute(&format!("INSERT INTO {new} SELECT id, n FROM carts")).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_prints_advice_and_a_script() -> Result<()> {
    let harness = Harness::start().await?;
    let operator = harness.operator().await?;
    let run = |arguments: &'static [&'static str]| {
        let mut command = keyspan();
        command.arg("advise").args(arguments).args(["--server", &harness.address().to_string()]);
        command.env("KEYSPAN_PASSWORD", OPERATOR_PASSWORD);
        async move {
            let done = command.output().await?;
            ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            Ok::<_, anyhow::Error>(String::from_utf8(done.stdout)?)
        }
    };
    assert!(run(&[]).await?.starts_with("No advice"));
    operator.batch_execute("CREATE TABLE people (email text PRIMARY KEY, v text)").await?;
    let page = run(&[]).await?;
    assert!(page.starts_with("people (personal key)\n  By email the key has personal data"), "{page}");
    let script = run(&["--statements"]).await?;
    assert!(
        script.starts_with("-- people (personal_key)\n-- By email") && script.contains("\nCREATE TABLE people_by_id (")
    );
    operator.batch_execute(&script).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_advice_is_made_of_outlives_a_restart_but_neither_a_reset_nor_an_erasure() -> Result<()> {
    let mut harness = Harness::start().await?;
    let (one, other) = (harness.tenant("alto").await?, harness.tenant("bari").await?);
    let table = "CREATE TABLE t (id bigint PRIMARY KEY, customer text, note text)";
    let fill = "INSERT INTO t SELECT g, 'c' || g % 100, repeat('y', 500) FROM generate_series(1, 3000) g";
    let scan = "SELECT id FROM t WHERE customer = 'c7' AND note > 'a'";
    for client in [&one, &other] {
        client.batch_execute(&format!("{table}; {fill}")).await?;
        repeat(client, 12, scan).await?;
    }
    let before = only(&one, "scan_without_range", "t").await?;
    let again = async |harness: Harness| {
        let harness = harness.restart().await?;
        let (one, other) = (harness.connect("alto", "alto").await?, harness.connect("bari", "bari").await?);
        anyhow::Ok((harness, one, other))
    };
    drop((one, other));
    let (next, one, other) = again(harness).await?;
    harness = next;
    assert_eq!(only(&one, "scan_without_range", "t").await?, before);
    assert_eq!(advice(&harness.operator().await?, "scan_without_range", "t").await?.len(), 2);
    repeat(&one, 5, scan).await?;
    assert_eq!(only(&one, "scan_without_range", "t").await?.0, 17);
    drop((one, other));
    let (next, one, other) = again(harness).await?;
    harness = next;
    assert_eq!(only(&one, "scan_without_range", "t").await?.0, 17);
    one.batch_execute("SELECT pg_stat_reset()").await?;
    assert!(advice(&one, "scan_without_range", "t").await?.is_empty());
    drop((one, other));
    let (next, one, other) = again(harness).await?;
    harness = next;
    assert!(advice(&one, "scan_without_range", "t").await?.is_empty());
    assert_eq!(only(&other, "scan_without_range", "t").await?.0, 12);
    other.batch_execute("DELETE FROM t WHERE id = 7 ERASE").await?;
    assert!(advice(&other, "scan_without_range", "t").await?.is_empty());
    drop((one, other));
    let (_harness, _, other) = again(harness).await?;
    assert!(advice(&other, "scan_without_range", "t").await?.is_empty());
    Ok(())
}
