//! `EXPLAIN (FORMAT JSON | YAML | XML)`: the names and keys by which tools read PostgreSQL's plans.

use super::harness::{Harness, error};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio_postgres::{Client, SimpleQueryMessage, types::Type};

async fn text(client: &Client, sql: &str) -> Result<String> {
    let messages = client.simple_query(sql).await?;
    let mut rows = messages.into_iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    let row = rows.next().context("a row")?;
    ensure!(rows.next().is_none(), "one document");
    Ok(row)
}

/// All nodes of a plan, from the top.
fn nodes(plan: &Value) -> Vec<&Value> {
    let below = plan["Plans"].as_array().into_iter().flatten().flat_map(nodes);
    std::iter::once(plan).chain(below).collect()
}

#[tokio::test]
async fn plans_are_documents() -> Result<()> {
    let harness = Harness::start().await?;
    let client = harness.tenant("alto").await?;
    client
        .batch_execute(
            "CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t SELECT g, 'v' || g FROM generate_series(1, 100) g",
        )
        .await?;
    let join = "SELECT a.v, count(*) FROM t a JOIN t b ON a.id = b.id WHERE a.id < 10 GROUP BY a.v ORDER BY 1 LIMIT 3";
    let plan: Value = serde_json::from_str(&text(&client, &format!("EXPLAIN (FORMAT JSON) {join}")).await?)?;
    let plan = &plan[0]["Plan"];
    let all = nodes(plan);
    for node in &all {
        for key in ["Startup Cost", "Total Cost", "Plan Rows", "Plan Width"] {
            ensure!(node[key].is_number(), "{key} of {node}");
        }
        ensure!(node["Node Type"].is_string() && node["Actual Rows"].is_null(), "{node}");
        let (startup, total) = (node["Startup Cost"].as_f64(), node["Total Cost"].as_f64());
        ensure!(startup <= total, "{node}");
        for child in node["Plans"].as_array().into_iter().flatten() {
            ensure!(child["Total Cost"].as_f64() <= total && child["Parent Relationship"].is_string(), "{child}");
        }
    }
    let of = |name: &str| all.iter().filter(|node| node["Node Type"] == name).count();
    ensure!(of("Hash Join") + of("Merge Join") + of("Nested Loop") == 1, "{plan}");
    let scans: Vec<_> = all.iter().filter(|node| node["Relation Name"] == "t").collect();
    ensure!(scans.len() == 2, "{plan}");
    ensure!(scans.iter().any(|scan| scan["Index Name"] == "t_pkey"), "{plan}");

    let analyzed = text(&client, "EXPLAIN (ANALYZE, FORMAT JSON) SELECT * FROM t WHERE id BETWEEN 5 AND 7").await?;
    let analyzed: Value = serde_json::from_str(&analyzed)?;
    ensure!(analyzed[0]["Plan"]["Actual Rows"] == 3, "{analyzed}");
    ensure!(analyzed[0]["Execution Time"].is_number(), "{analyzed}");

    // Drivers read it as json.
    let prepared = client.prepare("EXPLAIN (FORMAT JSON) SELECT * FROM t WHERE id = $1").await?;
    ensure!(*prepared.columns()[0].type_() == Type::JSON, "{:?}", prepared.columns());

    let yaml = text(&client, "EXPLAIN (FORMAT YAML) SELECT * FROM t WHERE id = 5").await?;
    ensure!(yaml.starts_with("- Plan: \n    Node Type: \"Index Scan\"\n"), "{yaml}");
    let xml = text(&client, "EXPLAIN (FORMAT XML) SELECT * FROM t WHERE v > '<&' ORDER BY v").await?;
    ensure!(
        xml.starts_with("<explain xmlns=\"http://www.postgresql.org/2009/explain\">\n  <Query>\n    <Plan>"),
        "{xml}"
    );
    ensure!(xml.contains("<Node-Type>Sort</Node-Type>") && xml.contains("&lt;&amp;"), "{xml}");
    ensure!(xml.ends_with("  </Query>\n</explain>"), "{xml}");
    let refused = error(&client, "EXPLAIN (FORMAT toml) SELECT 1").await;
    ensure!(refused == "22023 unrecognized value for EXPLAIN option \"format\": \"toml\"", "{refused}");
    Ok(())
}
