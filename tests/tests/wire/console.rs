//! The console: the page is there for everybody, what it asks for is for operators, and its numbers are SQL's.

use super::harness::{Harness, OPERATOR_PASSWORD, PASSWORD, error, rows};
use anyhow::{Context, Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use keyspan_gateway::{http::HttpOptions, server::ServerOptions};
use serde_json::Value;
use std::net::SocketAddr;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

const TOKEN: &str = "a token of some length";
/// What the console's page sends besides.
const CONSOLE: &str = "X-Keyspan: console\r\n";

fn with_http(options: &mut ServerOptions) {
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    options.http = Some(HttpOptions { listen, token: Some(TOKEN.to_owned()) });
}

/// Head and body of an answer.
async fn ask(address: SocketAddr, request: &str, headers: &str) -> Result<(String, String)> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("{request} HTTP/1.1\r\nHost: here\r\n{headers}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("a head")?;
    Ok((head.to_ascii_lowercase(), body.to_owned()))
}

fn token() -> String {
    format!("{CONSOLE}Authorization: Bearer {TOKEN}\r\n")
}

async fn json(address: SocketAddr, request: &str) -> Result<Value> {
    let (head, body) = ask(address, request, &token()).await?;
    ensure!(head.starts_with("http/1.1 200"), "{head}\n{body}");
    Ok(serde_json::from_str(&body)?)
}

async fn status(address: SocketAddr, request: &str, headers: &str) -> Result<String> {
    let (head, _) = ask(address, request, headers).await?;
    Ok(head.split(' ').nth(1).context("a status")?.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_alone_are_told() -> Result<()> {
    let harness = Harness::start_with(with_http).await?;
    let address = harness.http().context("an address")?;
    harness.tenant("alto").await?;
    for (path, kind, word) in [
        ("/", "text/html", "<title>Keyspan"),
        ("/console/page.css", "text/css", "prefers-color-scheme"),
        ("/console/page.js", "text/javascript", "hashchange"),
        ("/console/ask.js", "text/javascript", "X-Keyspan"),
        ("/console/text.js", "text/javascript", "export"),
        ("/console/heat.js", "text/javascript", "/console/heat"),
        ("/console/running.js", "text/javascript", "/console/cancel"),
        ("/console/tenants.js", "text/javascript", "/console/drops"),
        ("/console/statements.js", "text/javascript", "/console/statements"),
        ("/console/store.js", "text/javascript", "/console/store"),
    ] {
        let (head, body) = ask(address, &format!("GET {path}"), "").await?;
        assert!(head.contains("200 ok") && head.contains(&format!("content-type: {kind}")), "{head}");
        assert!(head.contains("content-security-policy: default-src 'none'"), "{head}");
        assert!(body.contains(word), "{path}");
        // Nothing is asked of other hosts.
        assert!(!body.contains("http://") && !body.contains("https://"), "{path}");
    }
    let basic = |role: &str, password: &str| {
        format!("{CONSOLE}Authorization: Basic {}\r\n", STANDARD.encode(format!("{role}:{password}")))
    };
    for path in [
        "GET /console/state",
        "GET /console/heat",
        "GET /console/tenants",
        "GET /console/drops",
        "GET /console/statements",
        "GET /console/store",
        "POST /console/cancel?pid=1",
    ] {
        assert_eq!(status(address, path, &token()).await?, "200", "{path}");
        assert_eq!(status(address, path, &basic("keyspan", OPERATOR_PASSWORD)).await?, "200", "{path}");
        assert_eq!(status(address, path, &basic("alto", PASSWORD)).await?, "401", "{path}");
        let (head, _) = ask(address, path, CONSOLE).await?;
        assert!(head.starts_with("http/1.1 401") && !head.contains("www-authenticate"), "{head}");
        // A page of another origin, with a password that the browser knows.
        let other = token().replace(CONSOLE, "");
        assert_eq!(status(address, path, &other).await?, "403", "{path}");
    }
    for (request, expected) in [
        ("GET /console/cancel?pid=1", "405"),
        ("POST /console/state", "405"),
        ("POST /console/cancel?pid=x", "400"),
        ("GET /console/heat?span=year", "400"),
        ("GET /console/heat?table=-1", "400"),
        ("GET /console/tenants?find=%25", "400"),
        ("GET /console/other", "404"),
    ] {
        assert_eq!(status(address, request, &token()).await?, expected, "{request}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_map_says_what_sql_says() -> Result<()> {
    let harness = Harness::start_with(with_http).await?;
    let address = harness.http().context("an address")?;
    assert_eq!(json(address, "GET /console/heat").await?["columns"], Value::Array(Vec::new()));
    let (one, other) = (harness.tenant("alto").await?, harness.tenant("bari").await?);
    let operator = harness.operator().await?;
    operator.batch_execute("CREATE TABLE shared (k text PRIMARY KEY, v text)").await?;
    one.batch_execute("INSERT INTO shared SELECT 'k' || g, 'x' FROM generate_series(1, 40) g").await?;
    other.batch_execute("INSERT INTO shared VALUES ('a', 'x')").await?;
    one.batch_execute("CREATE TABLE own (k text PRIMARY KEY); INSERT INTO own VALUES ('x')").await?;
    for span in ["hour", "half_day", "days", "month"] {
        let heat = json(address, &format!("GET /console/heat?span={span}")).await?;
        let names: Vec<&str> =
            heat["tables"].as_array().context("tables")?.iter().filter_map(|table| table["name"].as_str()).collect();
        assert_eq!(names, ["shared", "alto: own"], "{span}");
        assert_eq!(heat["borders"], serde_json::json!(["alto#", "alto$", "bari#", "bari$"]), "{span}");
        assert_eq!(heat["tenants"], serde_json::json!([[0, 1, "alto"], [2, 3, "bari"]]), "{span}");
        let writes = |from: u64| -> u64 {
            let cells =
                heat["columns"].as_array().into_iter().flatten().filter_map(|column| column["cells"].as_array());
            let of = cells.flatten().filter(|cell| cell[0].as_u64() == Some(from));
            of.filter_map(|cell| cell[3].as_u64()).sum()
        };
        assert_eq!((writes(0), writes(2)), (40, 1), "{span}");
        let sql = "SELECT sum(writes) FROM keyspan.heat WHERE table_name = 'shared' GROUP BY tenant ORDER BY tenant";
        assert_eq!(rows(&operator, sql).await?, ["40", "1"]);
    }
    let own = rows(&one, "SELECT 'own'::regclass::oid").await?;
    let heat = json(address, &format!("GET /console/heat?table={}", own[0])).await?;
    assert_eq!(heat["table"].to_string(), own[0]);
    assert_eq!(heat["tenants"][0][2], "alto");
    // A tenant that is dropped is on no map.
    drop(other);
    operator.batch_execute("DROP DATABASE bari WITH (FORCE)").await?;
    let heat = json(address, "GET /console/heat").await?;
    assert!(!heat.to_string().contains("bari"), "{heat}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_statement_is_shown_and_cancelled() -> Result<()> {
    let harness = Harness::start_with(with_http).await?;
    let address = harness.http().context("an address")?;
    let one = harness.tenant("alto").await?;
    one.batch_execute("CREATE TABLE t (k bigint PRIMARY KEY); INSERT INTO t VALUES (1)").await?;
    let sleeper = harness.connect("alto", "alto").await?;
    let asleep = tokio::spawn(async move { error(&sleeper, "SELECT pg_sleep(600)").await });
    let pid = loop {
        let state = json(address, "GET /console/state").await?;
        let running = state["running"].as_array().context("a list")?;
        let found = running.iter().find(|one| one["query"].as_str().is_some_and(|query| query.contains("pg_sleep")));
        if let Some(found) = found {
            assert_eq!((&found["database"], &found["state"]), (&Value::from("alto"), &Value::from("active")));
            break found["pid"].to_string();
        }
        tokio::task::yield_now().await;
    };
    let done = json(address, &format!("POST /console/cancel?pid={pid}")).await?;
    assert_eq!(done["cancelled"], true);
    assert!(asleep.await?.starts_with("57014"));
    assert_eq!(json(address, "POST /console/cancel?pid=999999999").await?["cancelled"], false);
    let found = json(address, "GET /console/tenants").await?;
    let alto = named(&found, "alto")?;
    assert_eq!(alto["rows_written"], 1);
    let found = json(address, "GET /console/statements").await?;
    let top = found["top"].as_array().context("a list")?;
    assert!(
        top.iter().any(|one| one["text"].as_str().is_some_and(|text| text.contains("INSERT INTO t VALUES ($1)"))),
        "{top:?}"
    );
    Ok(())
}

fn named<'a>(found: &'a Value, tenant: &str) -> Result<&'a Value> {
    let all = found["tenants"].as_array().context("a list")?;
    all.iter().find(|one| one["tenant"] == tenant).with_context(|| format!("{tenant} in {found}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_have_quotas_and_certificates() -> Result<()> {
    let harness = Harness::start_with(with_http).await?;
    let address = harness.http().context("an address")?;
    let (one, _other) = (harness.tenant("alto").await?, harness.tenant("bari").await?);
    let operator = harness.operator().await?;
    one.batch_execute("CREATE TABLE t (k bigint PRIMARY KEY, v text, w text)").await?;
    one.batch_execute("INSERT INTO t SELECT g, 'a', 'b' FROM generate_series(1, 100) g").await?;
    operator.batch_execute("ALTER DATABASE alto SET (connections = 5)").await?;
    let found = json(address, "GET /console/tenants").await?;
    assert_eq!(found["count"], 2);
    let alto = named(&found, "alto")?;
    assert_eq!(alto["quotas"], serde_json::json!([["connections", 5, ""]]));
    assert_eq!((&alto["state"], &alto["connections"]), (&Value::from("active"), &Value::from(1)));
    assert_eq!(named(&found, "(operator)")?["state"], "");
    // The numbers are SQL's.
    let usage = "SELECT sum(statements), sum(rows_written), sum(bytes_written), pg_database_size('alto')
        FROM keyspan.usage WHERE tenant = 'alto'";
    let numbers = ["statements", "rows_written", "bytes_written", "stored_bytes"].map(|name| alto[name].to_string());
    assert_eq!(rows(&operator, usage).await?, [numbers.join("|")]);
    let found = json(address, "GET /console/tenants?find=bar").await?;
    assert_eq!((found["count"].as_u64(), found["tenants"].as_array().map(Vec::len)), (Some(1), Some(1)));

    assert_eq!(json(address, "GET /console/drops").await?["drops_count"], 0);
    one.batch_execute("ALTER TABLE t DROP COLUMN w").await?;
    operator.batch_execute("DROP DATABASE bari WITH (FORCE)").await?;
    let found = json(address, "GET /console/drops").await?;
    let drop = &found["drops"][0];
    assert_eq!((&drop["tenant"], &drop["dropped_by"]), (&Value::from("bari"), &Value::from("keyspan")));
    let certificate: Value = serde_json::from_str(drop["certificate"].as_str().context("a text")?)?;
    assert_eq!((&certificate["tenant"], &certificate["oid"]), (&drop["tenant"], &drop["oid"]));
    let erasures = "SELECT count(*) FROM keyspan.erasures";
    assert_eq!(rows(&operator, erasures).await?, [found["erasures_count"].to_string()]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_is_shown_as_sql_has_it() -> Result<()> {
    let harness = Harness::start_with(with_http).await?;
    let address = harness.http().context("an address")?;
    let one = harness.tenant("alto").await?;
    let operator = harness.operator().await?;
    operator.batch_execute("CREATE TABLE shared (k bigint PRIMARY KEY, v text)").await?;
    one.batch_execute("INSERT INTO shared SELECT g, 'a' FROM generate_series(1, 1000) g").await?;
    harness.engine().compact(None).await?;
    let found = json(address, "GET /console/store").await?;
    let shared = found["tables"].as_array().context("a list")?.iter().find(|table| table["table"] == "shared");
    let shared = shared.context("the table")?;
    let numbers = ["tablets", "segments", "deltas", "rows", "dead_rows", "bytes"].map(|name| shared[name].to_string());
    let sql = "SELECT count(*), sum(segments), sum(deltas), sum(rows), sum(dead_rows), sum(bytes) FROM keyspan.tablets
        WHERE table_name = 'shared'";
    assert_eq!(rows(&operator, sql).await?, [numbers.join("|")]);
    let sql = "SELECT count(*) FROM keyspan.segments";
    assert_eq!(rows(&operator, sql).await?, [found["segments_count"].to_string()]);
    let sql = "SELECT count(*) FROM keyspan.compactions";
    let compactions = found["compactions"].as_array().context("a list")?.len();
    assert_eq!(rows(&operator, sql).await?, [compactions.to_string()]);
    let areas = rows(&operator, "SELECT area FROM keyspan.memory").await?;
    let shown: Vec<_> =
        found["memory"].as_array().context("a list")?.iter().filter_map(|one| one["area"].as_str()).collect();
    assert_eq!(shown, areas);
    // Its segments are in a folder.
    assert_eq!(found["requests"], Value::Array(Vec::new()));
    assert_eq!(rows(&operator, "SELECT * FROM keyspan.object_store").await?, [""; 0]);
    Ok(())
}
