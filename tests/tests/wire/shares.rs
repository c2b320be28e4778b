//! Shares: a tenant over each of its quotas gets its SQLSTATE, while its neighbour goes on.

use super::harness::{Harness, PASSWORD, connect, error, rows, told};
use anyhow::{Context, Result};
use tokio_postgres::Client;

/// An operator, a tenant that has quotas, and its neighbour.
async fn world() -> Result<(Harness, Client, Client, Client)> {
    let harness = Harness::start().await?;
    let operator = harness.operator().await?;
    operator.batch_execute("CREATE TABLE t (k bigint PRIMARY KEY, s text)").await?;
    let (alto, other) = (harness.tenant("alto").await?, harness.tenant("altostrat").await?);
    Ok((harness, operator, alto, other))
}

/// The detail of the error that a statement has to end with.
async fn detail(client: &Client, sql: &str) -> String {
    match client.simple_query(sql).await {
        Ok(_) => format!("no error from {sql}"),
        Err(error) => error.as_db_error().and_then(|error| error.detail()).unwrap_or_default().to_owned(),
    }
}

/// Rows of texts of a thousand letters.
fn insert(rows: std::ops::Range<u32>) -> String {
    format!("INSERT INTO t SELECT g, repeat('x', 1000) FROM generate_series({}, {}) g", rows.start, rows.end - 1)
}

#[tokio::test]
async fn a_quota_that_is_set_leaves_the_others() -> Result<()> {
    let (_harness, operator, alto, _other) = world().await?;
    operator.batch_execute("ALTER DATABASE alto SET (connections = 7, memory = '1MiB', weight = 300)").await?;
    operator.batch_execute("ALTER DATABASE alto SET (statement_timeout = '5s', dryrun = on)").await?;
    operator.batch_execute("ALTER DATABASE alto RESET (memory)").await?;
    let shown =
        "SELECT connections, memory, weight, statement_timeout, dryrun, read_rate FROM keyspan.tenants ORDER BY oid";
    assert_eq!(rows(&operator, shown).await?, ["7||300|5000|t|", "||||f|"]);
    assert_eq!(
        error(&operator, "ALTER DATABASE alto SET (weight = 0)").await,
        "22023 invalid value for \"weight\": a weight is 1 or more"
    );
    let denied = error(&alto, "ALTER DATABASE alto RESET (connections)").await;
    assert_eq!(denied, "42501 permission denied for ALTER DATABASE");
    Ok(())
}

#[tokio::test]
async fn connections_have_a_quota() -> Result<()> {
    let (harness, operator, alto, _other) = world().await?;
    operator.batch_execute("ALTER DATABASE alto SET (connections = 1)").await?;
    let refused = connect(&harness.config("alto", PASSWORD, "alto")).await.map(drop).unwrap_err();
    let refused = refused.downcast::<tokio_postgres::Error>()?;
    assert_eq!(told(&refused), "53300 too many connections for database \"alto\"");
    assert_eq!(rows(&alto, "SELECT 1").await?, ["1"]);
    harness.connect("altostrat", "altostrat").await?;
    // Operators are not counted; a dry run counts what it would refuse.
    operator.batch_execute("ALTER DATABASE alto SET (dryrun = on)").await?;
    let second = harness.connect("alto", "alto").await?;
    let refusals = "SELECT sum(refusals), sum(dryrun_refusals) FROM keyspan.usage WHERE tenant = 'alto'";
    assert_eq!(rows(&operator, refusals).await?, ["1|1"]);
    operator.batch_execute("ALTER DATABASE alto RESET (dryrun); ALTER DATABASE alto SET (connections = 3)").await?;
    harness.connect("alto", "alto").await?;
    assert_eq!(rows(&second, "SELECT 1").await?, ["1"]);
    Ok(())
}

#[tokio::test]
async fn a_statement_waits_for_its_place() -> Result<()> {
    let (harness, operator, alto, other) = world().await?;
    operator.batch_execute("ALTER DATABASE alto SET (statements = 1)").await?;
    let waits = harness.connect("alto", "alto").await?;
    let pid = rows(&alto, "SELECT pg_backend_pid()").await?.concat();
    let (sleeping, waited, ()) = tokio::try_join!(
        async { anyhow::Ok(error(&alto, "SELECT pg_sleep(600)").await) },
        async {
            let running = format!("SELECT 1 FROM pg_stat_activity WHERE pid = {pid} AND query ~ 'pg_sleep'");
            while rows(&operator, &running).await?.is_empty() {}
            // What sets or ends something does not wait; what computes does.
            waits.batch_execute("BEGIN; SET LOCAL extra_float_digits = 1; ROLLBACK").await?;
            rows(&waits, "SELECT 'after the first'").await
        },
        async {
            let waiting = "SELECT 1 FROM pg_stat_activity WHERE query ~ 'after the first' AND datname = 'alto'";
            while rows(&operator, waiting).await?.is_empty() {}
            assert_eq!(rows(&other, "SELECT 1").await?, ["1"]);
            assert_eq!(rows(&operator, &format!("SELECT pg_cancel_backend({pid})")).await?, ["t"]);
            Ok(())
        },
    )?;
    assert_eq!(
        (sleeping.as_str(), waited),
        ("57014 canceling statement due to user request", vec!["after the first".into()])
    );
    Ok(())
}

#[tokio::test]
async fn memory_and_temporary_space_have_quotas() -> Result<()> {
    let (_harness, operator, alto, other) = world().await?;
    let sorts = "SELECT max(r) FROM (SELECT row_number() OVER (ORDER BY s) r FROM \
                 (SELECT repeat(g::text, 60) s FROM generate_series(1, 200000) g) x) y";
    operator.batch_execute("ALTER DATABASE alto SET (memory = '64KiB')").await?;
    assert_eq!(error(&alto, sorts).await, "53200 out of memory for this query");
    let quota = "quota \"memory\" of the database is 65536 bytes";
    assert!(detail(&alto, sorts).await.contains(quota), "{}", detail(&alto, sorts).await);
    assert_eq!(rows(&other, sorts).await?, ["200000"]);
    operator.batch_execute("ALTER DATABASE alto SET (memory = '40MiB', temporary = '1MiB')").await?;
    // Which of the two is short first depends on when the sort asks for memory to merge in.
    let short = [
        "53100 Quota \"temporary\" of the database is 1048576 bytes.",
        "53200 quota \"memory\" of the database is 41943040 bytes; it is free when other queries of the database end",
    ];
    let mut seen = String::new();
    for _ in 0..50 {
        let refused = alto.simple_query(sorts).await.err().context("more space than it may have")?;
        let refused = refused.as_db_error().context("an error of the server")?;
        seen = format!("{} {}", refused.code().code(), refused.detail().unwrap_or_default());
        assert!(short.contains(&seen.as_str()), "{seen}");
        if seen == short[0] {
            break;
        }
    }
    assert_eq!(seen, short[0]);
    operator.batch_execute("ALTER DATABASE alto RESET (temporary, memory)").await?;
    assert_eq!(rows(&alto, sorts).await?, ["200000"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_transactions_hold_is_memory_of_the_database() -> Result<()> {
    let (harness, operator, alto, altostrat) = world().await?;
    operator.batch_execute("ALTER DATABASE alto SET (memory = '2MiB')").await?;
    for client in [&alto, &altostrat] {
        client.batch_execute("CREATE TABLE held (id int PRIMARY KEY, body text)").await?;
    }
    let many = |from: u32, count: u32| {
        let rows = (from..from + count).map(|id| format!("({id}, '{}')", "x".repeat(100_000)));
        format!("INSERT INTO held VALUES {}", rows.collect::<Vec<_>>().join(", "))
    };
    // One statement, then several of one transaction, then two sessions.
    assert_eq!(error(&alto, &many(0, 30)).await, "53200 out of memory for this query");
    alto.batch_execute(&format!("BEGIN; {}", many(0, 8))).await?;
    assert_eq!(error(&alto, &many(8, 12)).await, "53200 out of memory for this query");
    alto.batch_execute("ROLLBACK").await?;
    alto.batch_execute(&format!("BEGIN; {}; SAVEPOINT s; {}", many(0, 8), many(8, 8))).await?;
    let other = harness.connect("alto", "alto").await?;
    assert_eq!(error(&other, &many(20, 10)).await, "53200 out of memory for this query");
    altostrat.batch_execute(&format!("BEGIN; {}; COMMIT", many(0, 30))).await?;
    // What is rolled back, or committed, is given back.
    alto.batch_execute("ROLLBACK TO s").await?;
    other.batch_execute(&many(20, 6)).await?;
    alto.batch_execute("COMMIT").await?;
    other.batch_execute(&many(30, 14)).await?;
    assert_eq!(rows(&other, "SELECT count(*) FROM held").await?, ["28"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_sessions_keep_is_memory_of_the_database() -> Result<()> {
    let (_harness, operator, mut alto, other) = world().await?;
    operator.batch_execute("ALTER DATABASE alto SET (memory = '2MiB')").await?;
    let full = "53200 out of memory for this query";
    // Prepared statements, of half a megabyte each, as a session and its messages make them.
    let list = (0..1_500).map(|number| format!("{}", number * 1_000)).collect::<Vec<_>>().join(", ");
    let prepare = |number: usize| format!("PREPARE p{number} AS SELECT 1 WHERE 1 IN ({list})");
    let mut prepared = 0;
    let refused = loop {
        match error(&alto, &prepare(prepared)).await {
            refused if refused.starts_with("no error") => prepared += 1,
            refused => break refused,
        }
    };
    assert_eq!((refused.as_str(), (1..10).contains(&prepared)), (full, true), "{prepared}");
    let told = alto.prepare(&format!("SELECT 2 WHERE 2 IN ({list})")).await.err().context("an error")?;
    let told = told.as_db_error().context("an error of the server")?;
    assert_eq!((told.code().code(), told.hint().is_some_and(|hint| hint.contains("DEALLOCATE"))), ("53200", true));
    for number in 0..=prepared {
        other.batch_execute(&prepare(number)).await?;
    }
    assert_eq!(rows(&alto, "SELECT 3").await?, ["3"]);
    alto.batch_execute("DEALLOCATE p0").await?;
    alto.batch_execute(&prepare(0)).await?;
    alto.batch_execute("DEALLOCATE ALL").await?;

    // Rows that a cursor keeps for the way back.
    let cursor = "SCROLL CURSOR FOR SELECT repeat('x', 1000) FROM generate_series(1, 5000)";
    alto.batch_execute(&format!("BEGIN; DECLARE c {cursor}")).await?;
    assert_eq!(error(&alto, "MOVE FORWARD ALL FROM c").await, full);
    alto.batch_execute(&format!("ROLLBACK; BEGIN; DECLARE c NO {cursor}; MOVE FORWARD ALL FROM c; COMMIT")).await?;
    other.batch_execute(&format!("BEGIN; DECLARE c {cursor}; MOVE FORWARD ALL FROM c; COMMIT")).await?;

    // Values of portals that wait to be run.
    let length = alto.prepare("SELECT length($1::text)").await?;
    let value = "x".repeat(900_000);
    let transaction = alto.transaction().await?;
    let one = transaction.bind(&length, &[&value]).await?;
    let two = transaction.bind(&length, &[&value]).await?;
    let refused = transaction.bind(&length, &[&value]).await.err().context("an error")?;
    assert_eq!(refused.code().map(|code| code.code()), Some("53200"));
    drop((one, two, transaction));
    let transaction = alto.transaction().await?;
    let one = transaction.bind(&length, &[&value]).await?;
    assert_eq!(transaction.query_portal(&one, 0).await?[0].get::<_, i32>(0), 900_000);
    Ok(())
}

#[tokio::test]
async fn bytes_a_second_have_quotas() -> Result<()> {
    let (_harness, operator, alto, other) = world().await?;
    alto.batch_execute(&insert(0..500)).await?;
    other.batch_execute(&insert(0..500)).await?;
    operator.batch_execute("ALTER DATABASE alto SET (read_rate = '1KiB')").await?;
    let reads = "53400 the database reads more bytes a second than it may";
    assert_eq!(error(&alto, "SELECT max(s) FROM t").await, reads);
    // The debt is the tenant's: the next statement has it, too.
    assert_eq!(error(&alto, "SELECT s FROM t WHERE k = 1").await, reads);
    assert!(
        detail(&alto, "SELECT 1")
            .await
            .starts_with("Quota \"read_rate\" of the database is 1024 bytes. It is free in ")
    );
    assert_eq!(rows(&other, "SELECT count(s) FROM t").await?, ["500"]);
    operator.batch_execute("ALTER DATABASE alto RESET (read_rate)").await?;
    assert_eq!(rows(&alto, "SELECT count(s) FROM t").await?, ["500"]);

    operator.batch_execute("ALTER DATABASE alto SET (write_rate = '1KiB')").await?;
    alto.batch_execute(&insert(1000..1500)).await?;
    let writes = "53400 the database writes more bytes a second than it may";
    assert_eq!(error(&alto, &insert(2000..2001)).await, writes);
    other.batch_execute(&insert(1000..1500)).await?;
    // A dry run refuses nothing.
    operator.batch_execute("ALTER DATABASE alto SET (dryrun = true)").await?;
    alto.batch_execute(&insert(2000..2500)).await?;
    let told = "SELECT sum(dryrun_refusals) > 0 FROM keyspan.usage WHERE tenant = 'alto'";
    assert_eq!(rows(&operator, told).await?, ["t"]);
    Ok(())
}

/// Rows of tables that a query makes, or that a transaction has made, are written before anybody sees them.
#[tokio::test]
async fn rows_of_tables_that_are_made_count_and_have_quotas() -> Result<()> {
    let (_harness, operator, alto, other) = world().await?;
    let made = "AS SELECT g AS id, repeat('x', 1000) AS note FROM generate_series(1, 500) g";
    alto.batch_execute(&format!("CREATE TABLE made {made}")).await?;
    let written = "SELECT sum(rows_written), sum(bytes_written) > 500000 FROM keyspan.usage";
    assert_eq!(rows(&alto, written).await?, ["500|t"]);
    alto.batch_execute(
        "BEGIN; CREATE TABLE filled (id int PRIMARY KEY, note text);
         INSERT INTO filled SELECT id, note FROM made; COMMIT",
    )
    .await?;
    assert_eq!(rows(&alto, written).await?, ["1000|t"]);
    operator.batch_execute("ALTER DATABASE alto SET (stored = '100KiB')").await?;
    let full = "53100 the database stores as many bytes as it may";
    assert_eq!(error(&alto, &format!("CREATE TABLE more {made}")).await, full);
    operator.batch_execute("ALTER DATABASE alto RESET (stored); ALTER DATABASE alto SET (write_rate = '1KiB')").await?;
    alto.batch_execute(&format!("CREATE TABLE more {made}")).await?;
    let writes = "53400 the database writes more bytes a second than it may";
    assert_eq!(error(&alto, &format!("CREATE TABLE yet_more {made}")).await, writes);
    other.batch_execute(&format!("CREATE TABLE more {made}")).await?;
    Ok(())
}

#[tokio::test]
async fn stored_bytes_have_a_quota() -> Result<()> {
    let (_harness, operator, alto, other) = world().await?;
    operator.batch_execute("ALTER DATABASE alto SET (stored = '100KiB')").await?;
    alto.batch_execute(&insert(0..90)).await?;
    let full = "53100 the database stores as many bytes as it may";
    assert_eq!(error(&alto, &insert(100..190)).await, full);
    assert_eq!(
        error(&alto, "BEGIN; INSERT INTO t SELECT g, repeat('y', 1000) FROM generate_series(200, 290) g; COMMIT").await,
        full
    );
    alto.batch_execute("ROLLBACK").await?;
    assert_eq!(rows(&alto, "SELECT count(*) FROM t").await?, ["90"]);
    other.batch_execute(&insert(0..200)).await?;
    // Deletions are always taken, and make room: it is measured again after a while.
    alto.batch_execute("DELETE FROM t WHERE k < 80").await?;
    while alto.batch_execute(&insert(100..150)).await.is_err() {}
    assert_eq!(rows(&alto, "SELECT count(*) FROM t").await?, ["60"]);
    Ok(())
}

#[tokio::test]
async fn statements_of_a_database_have_a_timeout() -> Result<()> {
    let (_harness, operator, alto, other) = world().await?;
    operator.batch_execute("ALTER DATABASE alto SET (statement_timeout = '10ms')").await?;
    assert_eq!(error(&alto, "SELECT pg_sleep(600)").await, "57014 canceling statement due to statement timeout");
    // The session may ask for less, not for more.
    alto.batch_execute("SET statement_timeout = '1h'").await?;
    assert_eq!(error(&alto, "SELECT pg_sleep(600)").await, "57014 canceling statement due to statement timeout");
    assert_eq!(rows(&other, "SELECT pg_sleep(0.02)").await?, [""]);
    Ok(())
}

#[tokio::test]
async fn few_places_are_kept_for_other_databases() -> Result<()> {
    let harness =
        Harness::start_with(|options| (options.connections_max, options.connections_reserved) = (16, 1)).await?;
    let operator = harness.operator().await?;
    let (alto, other) = (harness.tenant("alto").await?, harness.tenant("altostrat").await?);
    let mut more = Vec::new();
    let refused = loop {
        match connect(&harness.config("alto", PASSWORD, "alto")).await {
            Ok(client) => more.push(client),
            Err(error) => break error.downcast::<tokio_postgres::Error>()?,
        }
    };
    assert_eq!(told(&refused), "53300 remaining connection slots are kept for other databases");
    assert!(more.len() >= 8, "{}", more.len());
    harness.connect("altostrat", "altostrat").await?;
    for client in [&operator, &alto, &other] {
        assert_eq!(rows(client, "SELECT 1").await?, ["1"]);
    }
    Ok(())
}

/// The number behind a word in the lines of EXPLAIN ANALYZE.
fn number(lines: &[String], word: &str) -> u64 {
    let found = lines.iter().find_map(|line| line.split_once(word));
    let digits: String =
        found.map(|(_, rest)| rest.chars().take_while(char::is_ascii_digit).collect()).unwrap_or_default();
    digits.parse().unwrap_or_default()
}

#[tokio::test]
async fn usage_adds_up_to_what_the_engine_counts() -> Result<()> {
    let (_harness, operator, alto, other) = world().await?;
    alto.batch_execute(&insert(0..500)).await?;
    other.batch_execute(&insert(0..100)).await?;
    alto.batch_execute("SET keyspan.columnar = off").await?;
    let used = "SELECT sum(rows_read), sum(bytes_read) FROM keyspan.usage";
    let amounts = async || {
        let found = rows(&alto, used).await?.concat();
        let numbers: Vec<u64> = found.split('|').map(|number| number.parse().unwrap_or_default()).collect();
        anyhow::Ok((numbers[0], numbers[1]))
    };
    let before = amounts().await?;
    let lines = rows(&alto, "EXPLAIN ANALYZE SELECT s FROM t WHERE k < 300").await?;
    let after = amounts().await?;
    let (returned, bytes) = (number(&lines, "returned="), number(&lines, "Bytes: seen="));
    assert!(returned == 300 && bytes > 300_000, "{lines:?}");
    assert_eq!((after.0 - before.0, after.1 - before.1), (returned, bytes));
    // Row groups: the rows that the scan gave.
    alto.batch_execute("RESET keyspan.columnar").await?;
    rows(&alto, "SELECT count(s) FROM t").await?;
    let columnar = amounts().await?;
    assert_eq!(columnar.0 - after.0, 500);
    let written = rows(&alto, "SELECT sum(rows_written), sum(bytes_written) > 500000 FROM keyspan.usage").await?;
    assert_eq!(written, ["500|t"]);

    // A tenant sees its own rows, the operator all.
    let names = "SELECT DISTINCT tenant FROM keyspan.usage ORDER BY tenant";
    assert_eq!(rows(&alto, names).await?, ["alto"]);
    assert_eq!(rows(&operator, names).await?, ["alto", "altostrat", ""]);
    assert_eq!(
        error(&alto, "SELECT * FROM keyspan.tenants").await,
        "42P01 relation \"keyspan.tenants\" does not exist"
    );
    let busy = "SELECT sum(statements) > 3, sum(busy_micros) > 0, sum(refusals) FROM keyspan.usage";
    assert_eq!(rows(&alto, busy).await?, ["t|t|0"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_outlives_a_restart_and_an_erasure_but_not_its_tenant() -> Result<()> {
    let (harness, operator, alto, other) = world().await?;
    alto.batch_execute(&insert(0..500)).await?;
    other.batch_execute(&insert(0..100)).await?;
    let written = "SELECT tenant, sum(rows_written) FROM keyspan.usage WHERE tenant <> '' GROUP BY 1 ORDER BY 1";
    assert_eq!(rows(&operator, written).await?, ["alto|500", "altostrat|100"]);
    drop((operator, alto, other));
    let harness = harness.restart().await?;
    let operator = harness.operator().await?;
    assert_eq!(rows(&operator, written).await?, ["alto|500", "altostrat|100"]);
    // A minute that goes on is one line.
    let alto = harness.connect("alto", "alto").await?;
    alto.batch_execute(&insert(500..510)).await?;
    assert_eq!(rows(&operator, written).await?, ["alto|510", "altostrat|100"]);
    let twice = "SELECT oid, minute FROM keyspan.usage GROUP BY 1, 2 HAVING count(*) > 1";
    assert!(rows(&operator, twice).await?.is_empty());
    // A purge takes what lies beside the heat of keys out of the store; it is stored again.
    alto.batch_execute("DELETE FROM t WHERE k = 7 ERASE").await?;
    while rows(&operator, "SELECT 1 FROM keyspan.erasures WHERE purged_at IS NULL").await? != [""; 0] {}
    drop((operator, alto));
    let harness = harness.restart().await?;
    let operator = harness.operator().await?;
    assert_eq!(rows(&operator, written).await?, ["alto|510", "altostrat|100"]);
    operator.batch_execute("DROP DATABASE alto WITH (FORCE)").await?;
    drop(operator);
    let harness = harness.restart().await?;
    assert_eq!(rows(&harness.operator().await?, written).await?, ["altostrat|100"]);
    let left = harness.instance().catalog.heat().await?;
    assert!(left.iter().all(|row| row.tenant.as_ref().is_none_or(|tenant| tenant.as_str() != "alto")), "{left:?}");
    Ok(())
}
