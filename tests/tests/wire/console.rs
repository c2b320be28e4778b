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
        ("/console/page.js", "text/javascript", "/console/heat"),
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
    for path in ["GET /console/state", "GET /console/heat", "POST /console/cancel?pid=1"] {
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
    let state = json(address, "GET /console/state").await?;
    let tenants = state["tenants"].as_array().context("a list")?;
    let alto = tenants.iter().find(|one| one["tenant"] == "alto").context("alto")?;
    assert_eq!(alto["rows_written"], 1);
    let slow = state["slow"].as_array().context("a list")?;
    assert!(
        slow.iter().any(|one| one["text"].as_str().is_some_and(|text| text.contains("INSERT INTO t VALUES ($1)"))),
        "{slow:?}"
    );
    Ok(())
}
