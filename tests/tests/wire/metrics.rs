//! `/metrics`, `/healthz` and `/readyz`: who may ask, what is told, and that it is what happened.

use super::harness::{Harness, OPERATOR_PASSWORD, PASSWORD, error, rows};
use anyhow::{Context, Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use keyspan_gateway::{http::HttpOptions, server::ServerOptions};
use keyspan_storage::testing::sim::SimFs;
use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::Arc,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

const TOKEN: &str = "a token of some length";

fn with_http(options: &mut ServerOptions) {
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    options.http = Some(HttpOptions { listen, token: Some(TOKEN.to_owned()) });
}

/// Status and body of an answer.
async fn ask(address: SocketAddr, method: &str, path: &str, authorization: Option<&str>) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect(address).await?;
    let authorization = authorization.map(|value| format!("Authorization: {value}\r\n")).unwrap_or_default();
    let request = format!("{method} {path} HTTP/1.1\r\nHost: here\r\n{authorization}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("a head")?;
    let status = head.split(' ').nth(1).context("a status")?.parse()?;
    Ok((status, body.to_owned()))
}

fn basic(role: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{role}:{password}")))
}

/// The values of a page by name and labels. Each metric is described before its values, and only once.
fn values(page: &str) -> Result<BTreeMap<String, f64>> {
    let (mut values, mut described) = (BTreeMap::new(), BTreeSet::new());
    let mut current = "";
    for line in page.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            current = help.split(' ').next().unwrap_or_default();
            ensure!(described.insert(current), "{current} is described twice");
        } else if !line.starts_with("# TYPE ") {
            let (name, value) = line.rsplit_once(' ').context("a value")?;
            ensure!(name.starts_with(current), "{name} under {current}");
            ensure!(values.insert(name.to_owned(), value.parse()?).is_none(), "{name} twice");
        }
    }
    Ok(values)
}

async fn page(address: SocketAddr) -> Result<BTreeMap<String, f64>> {
    let (status, body) = ask(address, "GET", "/metrics", Some(&format!("Bearer {TOKEN}"))).await?;
    ensure!(status == 200, "{status} {body}");
    values(&body)
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_and_the_token_may_ask() -> Result<()> {
    let harness = Harness::start_with(with_http).await?;
    let address = harness.http().context("an address")?;
    harness.tenant("alto").await?;
    let operator = harness.operator().await?;
    operator.batch_execute(&format!("CREATE ROLE second SUPERUSER LOGIN PASSWORD '{PASSWORD}'")).await?;
    operator.batch_execute(&format!("CREATE ROLE locked SUPERUSER NOLOGIN PASSWORD '{PASSWORD}'")).await?;
    let status = async |authorization: Option<&str>| {
        Ok::<_, anyhow::Error>(ask(address, "GET", "/metrics", authorization).await?.0)
    };
    assert_eq!(status(Some(&basic("keyspan", OPERATOR_PASSWORD))).await?, 200);
    assert_eq!(status(Some(&basic("second", PASSWORD))).await?, 200);
    assert_eq!(status(Some(&format!("bearer {TOKEN}"))).await?, 200);
    let refused = [
        None,
        Some(basic("keyspan", "wrong")),
        Some(basic("alto", PASSWORD)),
        Some(basic("locked", PASSWORD)),
        Some(basic("nobody", "")),
        Some(format!("Bearer {TOKEN} ")).map(|token| token.replace("some", "same")),
        Some("Bearer".to_owned()),
        Some("Basic not base64!".to_owned()),
        Some("Digest x".to_owned()),
    ];
    for authorization in &refused {
        assert_eq!(status(authorization.as_deref()).await?, 401, "{authorization:?}");
    }
    assert_eq!(page(address).await?["keyspan_http_refused_total"], refused.len() as f64);

    assert_eq!(ask(address, "GET", "/healthz", None).await?, (200, "ok\n".to_owned()));
    assert_eq!(ask(address, "GET", "/readyz", None).await?, (200, "ok\n".to_owned()));
    assert_eq!(ask(address, "HEAD", "/healthz", None).await?, (200, String::new()));
    assert_eq!(ask(address, "POST", "/metrics", None).await?.0, 405);
    assert_eq!(ask(address, "GET", "/other", None).await?.0, 404);
    // A head without an end.
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"GET /healthz HTTP/1.1\r\n").await?;
    let long = vec![b'x'; 64 << 10];
    // The server may have closed it before all is written.
    let _ = stream.write_all(&long).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"), "{}", String::from_utf8_lossy(&answer));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_told_is_what_happened() -> Result<()> {
    let harness = Harness::start_with(with_http).await?;
    let address = harness.http().context("an address")?;
    let client = harness.tenant("alto").await?;
    let before = page(address).await?;
    client.batch_execute("CREATE TABLE t (a bigint PRIMARY KEY, b text)").await?;
    for number in 0_i64..5 {
        client.execute("INSERT INTO t VALUES ($1, 'a text')", &[&number]).await?;
    }
    assert_eq!(rows(&client, "SELECT * FROM t").await?.len(), 5);
    assert!(error(&client, "SELECT * FROM nowhere").await.starts_with("42P01"));
    assert!(error(&client, "INSERT INTO t VALUES (1)").await.starts_with("23505"));
    client.batch_execute("UPDATE t SET b = 'x' WHERE a = 1; DELETE FROM t WHERE a = 2").await?;
    harness.engine().flush().await?;
    let after = page(address).await?;
    let grown = |name: &str| after.get(name).unwrap_or(&-1.0) - before.get(name).unwrap_or(&0.0);
    let counted = |kind: &str| grown(&format!("keyspan_statement_seconds_count{{kind=\"{kind}\"}}"));
    assert_eq!(["select", "insert", "update", "delete", "definition", "merge"].map(counted), [2., 6., 1., 1., 1., 0.]);
    let failed = |kind: &str| grown(&format!("keyspan_statements_failed_total{{kind=\"{kind}\"}}"));
    assert_eq!(["select", "insert", "update"].map(failed), [1., 1., 0.]);
    let errors = |class: &str| grown(&format!("keyspan_errors_total{{class=\"{class}\"}}"));
    assert_eq!(["23", "42"].map(errors), [1., 1.]);
    assert_eq!(grown("keyspan_sent_rows_total"), 5.);
    assert!(grown("keyspan_sent_bytes_total") > 100. && grown("keyspan_received_bytes_total") > 100.);
    assert!(grown("keyspan_commits_total") >= 7. && grown("keyspan_log_written_bytes_total") > 0.);
    assert_eq!(grown("keyspan_flushes_total"), 1.);
    assert!(after["keyspan_segments{kind=\"base\"}"] + after["keyspan_segments{kind=\"delta\"}"] >= 1.);
    assert_eq!(after["keyspan_tenants"], 1.);
    assert_eq!(after["keyspan_tenant_connections{tenant=\"alto\"}"], 1.);
    assert_eq!(after["keyspan_store_writable"], 1.);

    // Buckets only grow to the right, and the last has all.
    for kind in ["select", "insert", "utility"] {
        let of = |bound: &str| after[&format!("keyspan_statement_seconds_bucket{{kind=\"{kind}\",le=\"{bound}\"}}")];
        let bounds = ["0.00025", "0.001", "0.01", "0.1", "1", "10", "60", "+Inf"].map(of);
        assert!(bounds.is_sorted(), "{kind}: {bounds:?}");
        assert_eq!(bounds[7], after[&format!("keyspan_statement_seconds_count{{kind=\"{kind}\"}}")]);
    }

    // SQL tells the same of a tenant that does nothing meanwhile.
    let operator = harness.operator().await?;
    let used = rows(
        &operator,
        "SELECT sum(rows_written), sum(rows_read), sum(statements) FROM keyspan.usage WHERE tenant = 'alto'",
    );
    let used = used.await?.remove(0);
    let told = ["written_rows", "read_rows", "statements"]
        .map(|of| after[&format!("keyspan_tenant_{of}_total{{tenant=\"alto\"}}")]);
    assert_eq!(used, told.map(|value| value.to_string()).join("|"));
    assert!(after["keyspan_written_rows_total"] >= told[0]);

    // What a dropped tenant has used stays in the sums.
    drop(client);
    operator.batch_execute("DROP DATABASE alto WITH (FORCE)").await?;
    let dropped = loop {
        let page = page(address).await?;
        if !page.contains_key("keyspan_tenant_statements_total{tenant=\"alto\"}") {
            break page;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(dropped["keyspan_tenants"], 0.);
    assert!(dropped["keyspan_written_rows_total"] >= after["keyspan_written_rows_total"]);
    Ok(())
}

/// Every metric that the dashboard in `docs/` asks for is on the page.
#[tokio::test(flavor = "multi_thread")]
async fn the_dashboard_asks_for_what_there_is() -> Result<()> {
    let harness = Harness::start_with(with_http).await?;
    // Tenants are told of once they have done something.
    let client = harness.tenant("alto").await?;
    client.batch_execute("CREATE TABLE t (a bigint PRIMARY KEY); INSERT INTO t VALUES (1); SELECT * FROM t").await?;
    let page = page(harness.http().context("an address")?).await?;
    let there: BTreeSet<&str> = page.keys().map(|name| name.split('{').next().unwrap_or_default()).collect();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/grafana/keyspan.json");
    let dashboard: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path)?)?;
    let mut asked = BTreeSet::new();
    for target in
        dashboard["panels"].as_array().context("panels")?.iter().flat_map(|panel| panel["targets"].as_array()).flatten()
    {
        let words = target["expr"].as_str().context("an expression")?.split(|c: char| !c.is_alphanumeric() && c != '_');
        asked.extend(words.filter(|word| word.starts_with("keyspan_") || word.starts_with("process_")));
    }
    // Only what happened is told by class, and only tables that have segments.
    asked.retain(|name| !["keyspan_errors_total", "keyspan_table_bytes"].contains(name));
    assert!(asked.len() > 20, "{asked:?}");
    let missing: Vec<_> = asked.difference(&there).collect();
    assert!(missing.is_empty(), "{missing:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_scrapes_at_once_are_answered_or_refused() -> Result<()> {
    let harness = Harness::start_with(with_http).await?;
    let address = harness.http().context("an address")?;
    let client = harness.tenant("alto").await?;
    let scrapes: Vec<_> = (0..1_000)
        .map(|_| tokio::spawn(async move { ask(address, "GET", "/metrics", Some(&format!("Bearer {TOKEN}"))).await }))
        .collect();
    assert_eq!(rows(&client, "SELECT 1").await?, ["1"]);
    let mut answers = BTreeMap::new();
    for scrape in scrapes {
        let status = scrape.await?.map_or(0, |(status, _)| status);
        *answers.entry(status).or_insert(0) += 1;
    }
    // One that is refused may find its connection reset before it has read why.
    assert!(answers.keys().all(|status| [200, 503, 0].contains(status)), "{answers:?}");
    assert!(answers[&200] > 0, "{answers:?}");
    assert_eq!(ask(address, "GET", "/healthz", None).await?.0, 200);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_takes_no_writes_is_not_ready() -> Result<()> {
    let disk = SimFs::new();
    let on = Arc::new(disk.clone());
    let harness = Harness::start_on(|options| options.fs = on, with_http).await?;
    let address = harness.http().context("an address")?;
    let client = harness.tenant("alto").await?;
    client.batch_execute("CREATE TABLE t (a bigint PRIMARY KEY)").await?;
    disk.fail_syncs(true);
    assert!(!error(&client, "INSERT INTO t VALUES (1)").await.starts_with("no error"));
    let (status, text) = ask(address, "GET", "/readyz", None).await?;
    assert_eq!((status, text.as_str()), (503, "the store takes no writes: see the server's log\n"));
    assert_eq!(ask(address, "GET", "/healthz", None).await?.0, 200);
    assert_eq!(page(address).await?["keyspan_store_writable"], 0.);
    Ok(())
}
