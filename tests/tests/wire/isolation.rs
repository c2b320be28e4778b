//! Tenants side by side: nothing that a session of one can say shows or changes anything of another.
//!
//! Their ids are near each other, and some begin with others. Every value that a tenant writes holds its [`mark`], so
//! that one of another tenant's is found in whatever is shown.

use super::harness::{Harness, PASSWORD, connect, error, rows};
use anyhow::Result;
use keyspan_gateway::system_relations;
use tokio_postgres::{Client, SimpleQueryMessage};

/// Ids that sort next to each other, begin with each other, or differ in bytes around the delimiter.
const TENANTS: [&str; 6] = ["a", "a-b", "a_b", "ab", "alto", "altostrat"];
/// The parts of keys that every tenant has, some of them made to look like the end of another tenant's span.
const KEYS: [&str; 6] = ["", "#", "b", "strat", "strat#x", "~"];

/// What every value of a tenant holds, and no other tenant's.
fn mark(tenant: &str) -> String {
    format!("<{tenant}>")
}

async fn define(harness: &Harness) -> Result<Client> {
    let operator = harness.operator().await?;
    let table = "CREATE TABLE notes (k text, n bigint, v text, w text, PRIMARY KEY (k, n), FAMILY f (v), FAMILY g (w))";
    operator.batch_execute(table).await?;
    Ok(operator)
}

/// The tenants, each with the same keys and its own marks, and a client of each.
async fn tenants(harness: &Harness, ids: &[&str]) -> Result<Vec<(String, Client)>> {
    let mut clients = Vec::new();
    for id in ids {
        let client = harness.tenant(id).await?;
        for (n, key) in KEYS.iter().enumerate() {
            client
                .batch_execute(&format!("INSERT INTO notes VALUES ('{key}', {n}, '{0} v', '{0} w')", mark(id)))
                .await?;
        }
        clients.push(((*id).to_owned(), client));
    }
    Ok(clients)
}

/// All that a statement says: rows, tags, and every field of its error.
async fn said(client: &Client, sql: &str) -> String {
    match client.simple_query(sql).await {
        Ok(messages) => {
            let row = |message: &SimpleQueryMessage| match message {
                SimpleQueryMessage::Row(row) => {
                    (0..row.len()).map(|at| row.get(at).unwrap_or("NULL").to_owned()).collect::<Vec<_>>().join("|")
                }
                other => format!("{other:?}"),
            };
            messages.iter().map(row).collect::<Vec<_>>().join("\n")
        }
        Err(error) => format!("{:?}", error.as_db_error()),
    }
}

/// The cells of all tenants but one, as the operator sees them: keys, values and timestamps.
async fn cells_beside(operator: &Client, tenant: &str) -> Result<Vec<String>> {
    let cells = rows(operator, "SELECT _key, family, qualifier, timestamp, value FROM cells('notes')").await?;
    let prefix = format!("\\x{}", hexadecimal(&format!("{tenant}#")));
    let (own, others): (Vec<_>, Vec<_>) = cells.into_iter().partition(|cell| cell.starts_with(&prefix));
    assert!(!own.is_empty() && !others.is_empty(), "{} cells of {tenant}, {} of others", own.len(), others.len());
    Ok(others)
}

/// Text as bytea shows it.
fn hexadecimal(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// Asserts that a text holds the mark of no tenant but `own`.
fn check_marks(own: &str, sql: &str, text: &str) {
    for other in TENANTS.iter().filter(|other| **other != own) {
        let shows = text.contains(&mark(other)) || text.contains(&hexadecimal(&mark(other)));
        assert!(!shows, "{own} sees {other} by {sql}:\n{text}");
    }
}

#[tokio::test]
async fn every_way_to_read_shows_the_own_rows_alone() -> Result<()> {
    let harness = Harness::start().await?;
    define(&harness).await?;
    for (id, client) in tenants(&harness, &TENANTS).await? {
        for pushdown in ["on", "off"] {
            client.batch_execute(&format!("SET keyspan.pushdown = {pushdown}")).await?;
            for (sql, count) in [
                ("SELECT * FROM notes", 6),
                ("SELECT v FROM notes ORDER BY k DESC, n DESC", 6),
                ("SELECT v FROM notes ORDER BY k DESC, n DESC LIMIT 7", 6),
                ("SELECT v FROM notes WHERE k >= ''", 6),
                ("SELECT v FROM notes WHERE k > 'strat'", 2),
                ("SELECT v FROM notes WHERE k < 'strat' OR k > 'strat#w'", 5),
                ("SELECT v FROM notes WHERE k LIKE 'strat%'", 2),
                ("SELECT v FROM notes WHERE k IN ('b', '#', '', 'c')", 3),
                ("SELECT v FROM notes WHERE k = 'b' AND n = 2", 1),
                ("SELECT v FROM notes WHERE (k, n) > ('b', 2)", 3),
                ("SELECT v FROM notes WHERE n >= 0", 6),
                ("SELECT v FROM notes WHERE v LIKE '<%'", 6),
                ("SELECT v FROM notes WHERE k = 'strat' OR 1 = 1", 6),
                ("SELECT l.v, r.w FROM notes l JOIN notes r USING (k)", 6),
                ("SELECT v FROM notes UNION ALL SELECT w FROM public.notes", 12),
                ("SELECT value FROM cells('notes')", 12),
                ("SELECT value FROM cells('notes') WHERE family = 'f'", 6),
                ("SELECT * FROM raw('notes')", 6),
                ("SELECT * FROM raw('notes') WHERE _key >= '\\x00'", 6),
                ("TABLE notes", 6),
            ] {
                let got = rows(&client, sql).await;
                let got = got.map_err(|error| anyhow::anyhow!("{sql}: {error:?}"))?;
                assert_eq!(got.len(), count, "{id}, pushdown {pushdown}: {sql}: {got:?}");
                check_marks(&id, sql, &got.join("\n"));
            }
            assert_eq!(
                rows(&client, "SELECT count(*), min(v), max(w) FROM notes").await?,
                [format!("6|<{id}> v|<{id}> w")]
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn writes_change_the_own_rows_alone() -> Result<()> {
    let harness = Harness::start().await?;
    let operator = define(&harness).await?;
    for (id, client) in tenants(&harness, &TENANTS).await? {
        let before = cells_beside(&operator, &id).await?;
        for (sql, tag) in [
            ("INSERT INTO notes SELECT k, n + 100, v, w FROM notes", 6),
            ("INSERT INTO notes VALUES ('b', 2, 'x', 'y') ON CONFLICT DO NOTHING", 0),
            (
                "INSERT INTO notes VALUES ('b', 2, 'x', 'y') ON CONFLICT (k, n) DO UPDATE SET v = EXCLUDED.v, w = EXCLUDED.w",
                1,
            ),
            ("INSERT INTO notes VALUES ('b', 2, 'x', 'y') ON CONFLICT (k, n) DO UPDATE SET v = notes.v || 'z'", 1),
            ("UPDATE notes SET v = 'mine'", 12),
            ("UPDATE notes SET w = NULL WHERE k >= 'strat'", 6),
            ("UPDATE notes SET v = v || w WHERE k = 'strat#x' OR n = 1", 3),
            ("DELETE FROM notes WHERE k LIKE 'strat%'", 4),
            ("DELETE FROM notes WHERE n = 105", 1),
        ] {
            let done = client.execute(sql, &[]).await.map_err(|error| anyhow::anyhow!("{id}: {sql}: {error:?}"))?;
            assert_eq!(done, tag, "{id}: {sql}");
            assert_eq!(rows(&operator, &format!("SELECT count(*) FROM notes WHERE tenant <> '{id}'")).await?, ["30"]);
        }
        assert!(cells_beside(&operator, &id).await? == before, "{id} has changed cells of another tenant");
        // For the next ones, which are compared with this one as it is now.
        assert_eq!(client.execute("DELETE FROM notes", &[]).await?, 7);
        for (n, key) in KEYS.iter().enumerate() {
            client
                .batch_execute(&format!("INSERT INTO notes VALUES ('{key}', {n}, '{0} v', '{0} w')", mark(&id)))
                .await?;
        }
        assert!(cells_beside(&operator, &id).await? == before, "{id} has changed cells of another tenant");
    }
    Ok(())
}

#[tokio::test]
async fn a_whole_deletion_as_one_range_stays_in_the_span() -> Result<()> {
    let harness = Harness::start().await?;
    let operator = define(&harness).await?;
    let clients = tenants(&harness, &["alto", "altostrat"]).await?;
    let alto = &clients[0].1;
    // Above ten thousand rows a deletion by a prefix of the key is one range.
    alto.batch_execute("INSERT INTO notes SELECT 'many', generate_series, NULL, NULL FROM generate_series(1, 10001)")
        .await?;
    let before = cells_beside(&operator, "alto").await?;
    assert_eq!(alto.execute("DELETE FROM notes WHERE k = 'many'", &[]).await?, 10_001);
    assert_eq!(rows(alto, "SELECT count(*) FROM notes").await?, ["6"]);
    alto.batch_execute("INSERT INTO notes SELECT 'many', generate_series, NULL, NULL FROM generate_series(1, 10001)")
        .await?;
    assert_eq!(alto.execute("DELETE FROM notes", &[]).await?, 10_007);
    assert_eq!(rows(&operator, "SELECT DISTINCT tenant FROM notes").await?, ["altostrat"]);
    let after = rows(&operator, "SELECT _key, family, qualifier, timestamp, value FROM cells('notes')").await?;
    assert!(after == before, "the deletion has changed cells of another tenant");
    Ok(())
}

/// Tenant `quokka`, whose client is given, and what must not show: tenant `wombat`, its role `numbat`, its rows.
async fn quokka(harness: &Harness) -> Result<Client> {
    let operator = define(harness).await?;
    let (quokka, wombat) = (harness.tenant("quokka").await?, harness.tenant("wombat").await?);
    operator.batch_execute(&format!("CREATE ROLE numbat LOGIN PASSWORD '{PASSWORD}'")).await?;
    operator.batch_execute("GRANT CONNECT ON DATABASE wombat TO numbat").await?;
    operator.batch_execute("CREATE DATABASE bilby; DROP DATABASE bilby").await?;
    let numbat = harness.connect("numbat", "wombat").await?;
    numbat.batch_execute("SET application_name = 'wombat at work'").await?;
    wombat.batch_execute("INSERT INTO notes VALUES ('of wombat', 1, 'wombat', 'wombat')").await?;
    quokka.batch_execute("INSERT INTO notes VALUES ('mine', 1, 'my v', 'my w')").await?;
    // Their connections stay open, for what lists connections.
    tokio::spawn(async move {
        std::future::pending::<(Client, Client)>().await;
        drop((wombat, numbat))
    });
    Ok(quokka)
}

/// Asserts that a text names nothing of the other tenant.
fn check_names(sql: &str, text: &str) {
    for name in ["wombat", "numbat", "bilby"] {
        assert!(!text.contains(name), "{name} shows by {sql}:\n{text}");
    }
}

#[tokio::test]
async fn catalogs_and_settings_name_no_other_tenant() -> Result<()> {
    let harness = Harness::start().await?;
    let quokka = quokka(&harness).await?;
    let mut asked = 0;
    for schema in ["pg_catalog", "information_schema", "keyspan"] {
        for relation in system_relations::names(schema, false) {
            let sql = format!("SELECT * FROM {schema}.{relation}");
            let text = said(&quokka, &sql).await;
            assert!(!text.contains("DbError"), "{sql}: {text}");
            check_names(&sql, &text);
            asked += 1;
        }
    }
    assert!(asked > 50, "{asked} relations");
    for (sql, expected) in [
        ("SELECT datname FROM pg_database", "quokka"),
        ("SELECT DISTINCT table_catalog FROM information_schema.tables", "quokka"),
        ("SELECT current_database(), current_user, session_user", "quokka|quokka|quokka"),
        ("SELECT datname, usename FROM pg_stat_activity", "quokka|quokka"),
    ] {
        assert_eq!(rows(&quokka, sql).await?, [expected], "{sql}");
    }
    for sql in [
        "SHOW ALL",
        "SELECT pg_get_userbyid(oid) FROM generate_series(16384, 16484) numbers (oid)",
        "SELECT pg_database_size('wombat')",
        "SELECT has_database_privilege('numbat', 'wombat', 'CONNECT')",
        "SELECT oid::regrole::text FROM generate_series(16384, 16484) numbers (oid)",
    ] {
        let text = said(&quokka, sql).await;
        // An error may repeat what the statement says.
        let quoted =
            |text: &str, name: &str| text.replace(&format!("\\\"{name}\\\""), "").replace(&format!("\"{name}\""), "");
        let text = if sql.contains("wombat") { quoted(&quoted(&text, "wombat"), "numbat") } else { text };
        check_names(sql, &text);
    }
    Ok(())
}

#[tokio::test]
async fn only_an_operator_defines_and_sees_tenants() -> Result<()> {
    let harness = Harness::start().await?;
    let quokka = quokka(&harness).await?;
    for sql in [
        "ALTER TABLE notes ADD COLUMN x text FAMILY f",
        "ALTER TABLE notes SET (f.max_versions = 1)",
        "DROP TABLE notes",
        "CREATE DATABASE another",
        "DROP DATABASE wombat",
        "DROP DATABASE quokka",
        "DROP DATABASE IF EXISTS nowhere",
        "EXPLAIN DROP DATABASE wombat",
        "EXPLAIN DROP DATABASE nowhere",
        "CREATE ROLE another LOGIN PASSWORD 'x'",
        "ALTER ROLE numbat PASSWORD 'x'",
        "ALTER ROLE keyspan PASSWORD 'x'",
        "ALTER ROLE quokka SUPERUSER",
        "DROP ROLE numbat",
        "DROP ROLE nobody",
        "GRANT CONNECT ON DATABASE wombat TO quokka",
        "REVOKE CONNECT ON DATABASE wombat FROM numbat",
    ] {
        let told = error(&quokka, sql).await;
        let told = told.strip_prefix("42501 ").unwrap_or_default();
        assert!(told.starts_with("permission denied") || told == "must be owner of table notes", "{sql}: {told}");
    }
    // What does not exist for it is told like what does not exist.
    for (sql, state) in [
        ("SELECT * FROM keyspan.drops", "42P01"),
        ("SELECT * FROM keyspan.tenants", "42P01"),
        ("SELECT * FROM drops", "42P01"),
        ("SELECT tenant FROM notes", "42703"),
        ("INSERT INTO notes (tenant, k, n) VALUES ('wombat', 'x', 1)", "42703"),
        ("UPDATE notes SET tenant = 'wombat'", "42703"),
        ("DELETE FROM notes WHERE tenant = 'wombat'", "42703"),
    ] {
        let told = error(&quokka, sql).await;
        assert!(told.starts_with(state), "{sql}: {told}");
    }
    // A database of others is told like one that there is not.
    for sql in [
        "SELECT * FROM DATABASE.public.notes",
        "SELECT * FROM DATABASE.public.nothing",
        "SELECT * FROM DATABASE.notes",
        "INSERT INTO DATABASE.public.notes VALUES ('x', 1, 'x', 'x')",
        "UPDATE DATABASE.public.notes SET v = 'x'",
        "DELETE FROM DATABASE.public.notes",
        "SELECT * FROM cells('DATABASE.public.notes')",
    ] {
        let told = |database: &'static str| {
            let (sql, quokka) = (sql.replace("DATABASE", database), &quokka);
            async move { error(quokka, &sql).await.replace(database, "DATABASE") }
        };
        let nowhere = told("nowhere").await;
        assert!(!nowhere.starts_with("no error"), "{sql}: {nowhere}");
        assert_eq!(told("wombat").await, nowhere, "{sql}");
        assert_eq!(told("keyspan").await, nowhere, "{sql}");
    }
    assert_eq!(rows(&quokka, "SELECT v FROM quokka.public.notes").await?, ["my v"]);
    // The operator inside of a tenant's database is no operator either.
    let inside = connect(&harness.config("keyspan", super::harness::OPERATOR_PASSWORD, "wombat")).await?;
    assert_eq!(rows(&inside, "SELECT v FROM notes").await?, ["wombat"]);
    assert!(error(&inside, "DROP DATABASE quokka").await.starts_with("42501 "));
    assert!(error(&inside, "SELECT * FROM keyspan.tenants").await.starts_with("42P01 "));
    Ok(())
}

#[tokio::test]
async fn errors_name_keys_without_the_span() -> Result<()> {
    let harness = Harness::start().await?;
    let quokka = quokka(&harness).await?;
    let long = "k".repeat(5_000);
    for (sql, state) in [
        ("INSERT INTO notes VALUES ('mine', 1, 'x', 'y')".to_owned(), "23505"),
        ("INSERT INTO notes VALUES ('new', 1, 'x', 'y'), ('new', 1, 'x', 'y')".to_owned(), "23505"),
        (format!("INSERT INTO notes VALUES ('{long}', 1, 'x', 'y')"), "54000"),
        ("INSERT INTO notes VALUES (NULL, 1, 'x', 'y')".to_owned(), "23502"),
        ("UPDATE notes SET k = NULL".to_owned(), "23502"),
        (format!("UPDATE notes SET k = '{long}'"), "54000"),
        ("INSERT INTO notes VALUES ('second', 1, 'x', 'y')".to_owned(), "CommandComplete"),
        ("UPDATE notes SET k = 'x'".to_owned(), "23505"),
        ("SELECT 1 / (n - 1) FROM notes".to_owned(), "22012"),
        ("SELECT v::bigint FROM notes".to_owned(), "22P02"),
    ] {
        let text = said(&quokka, &sql).await;
        assert!(text.contains(state), "{sql}: {text}");
        check_names(&sql, &text);
        assert!(!text.contains("quokka#"), "{sql}: {text}");
    }
    // A key that another tenant has is no duplicate.
    quokka.batch_execute("INSERT INTO notes VALUES ('of wombat', 1, 'x', 'y')").await?;
    Ok(())
}

#[tokio::test]
async fn plans_name_keys_without_the_span_and_count_the_own_rows() -> Result<()> {
    let harness = Harness::start().await?;
    let quokka = quokka(&harness).await?;
    for statement in [
        "SELECT * FROM notes",
        "SELECT * FROM notes WHERE k = 'mine'",
        "SELECT * FROM notes WHERE k > 'm' ORDER BY k DESC, n DESC LIMIT 3",
        "SELECT * FROM notes WHERE k IN ('a', 'b') AND n < 3",
        "SELECT count(*) FROM notes",
        "SELECT max(l.v) FROM notes l JOIN notes r USING (k)",
        "SELECT * FROM cells('notes')",
        "SELECT * FROM raw('notes')",
    ] {
        for head in ["EXPLAIN", "EXPLAIN VERBOSE", "EXPLAIN ANALYZE"] {
            let sql = format!("{head} {statement}");
            let text = said(&quokka, &sql).await;
            assert!(text.contains("KeyspanScan"), "{sql}: {text}");
            assert!(!text.contains("quokka"), "{sql}: {text}");
            check_names(&sql, &text);
        }
    }
    let analyzed = said(&quokka, "EXPLAIN ANALYZE SELECT * FROM notes").await;
    assert!(analyzed.contains("Rows: seen=1 returned=1"), "{analyzed}");
    for write in ["UPDATE notes SET v = 'x'", "DELETE FROM notes WHERE k = 'mine'", "INSERT INTO notes VALUES ('x', 1)"]
    {
        let sql = format!("EXPLAIN {write}");
        let text = said(&quokka, &sql).await;
        assert!(!text.contains("quokka#"), "{sql}: {text}");
        check_names(&sql, &text);
    }
    Ok(())
}

#[tokio::test]
async fn files_of_a_tenant_stay_in_its_folder() -> Result<()> {
    let harness = Harness::start().await?;
    let quokka = quokka(&harness).await?;
    let folder = harness.copy_folder().to_owned();
    for path in
        ["../escaped.parquet", "/tmp/escaped.parquet", "a/../../escaped.parquet", "..", "", "../wombat/x.parquet"]
    {
        let sql = format!("COPY (SELECT * FROM notes) TO '{path}' (FORMAT parquet)");
        let text = said(&quokka, &sql).await;
        assert!(text.contains("42501"), "{sql}: {text}");
        check_names(&sql, &text.replace(path, ""));
    }
    quokka.batch_execute("COPY (SELECT * FROM notes) TO 'wombat/mine.parquet' (FORMAT parquet)").await?;
    let first = harness.copy_folder_of("quokka")?;
    assert!(first.join("wombat/mine.parquet").is_file());
    assert_eq!(std::fs::read_dir(&folder)?.count(), 1);
    assert!(!folder.with_file_name("escaped.parquet").exists());
    Ok(())
}
