//! `pg_stat_activity`: what sessions see of each other, and that those of other databases are not among it.

use super::harness::{Harness, PASSWORD, rows};
use anyhow::Result;

const SEEN: &str = "SELECT datname, usename, state, query FROM pg_stat_activity ORDER BY 1, 2, backend_start";

#[tokio::test(flavor = "multi_thread")]
async fn sessions_see_what_is_theirs() -> Result<()> {
    let harness = Harness::start().await?;
    let (one, other) = (harness.tenant("alto").await?, harness.tenant("altostrat").await?);
    let operator = harness.operator().await?;
    operator
        .batch_execute(&format!(
            "CREATE ROLE guest LOGIN PASSWORD '{PASSWORD}'; GRANT CONNECT ON DATABASE alto TO guest"
        ))
        .await?;
    operator.batch_execute("SELECT 'of the operator'").await?;
    let (guest, again) = (harness.connect("guest", "alto").await?, harness.connect("alto", "alto").await?);
    other.batch_execute("SELECT 'elsewhere'").await?;
    guest.batch_execute("BEGIN; SELECT 'of a guest'").await?;
    assert!(guest.batch_execute("SELECT 1 / 0").await.is_err());
    again.batch_execute("BEGIN").await?;
    again.query("SELECT $1::text", &[&"a parameter"]).await?;
    // Own sessions in full, others of the database by name alone.
    let now = format!("alto|alto|active|{SEEN}");
    let others = "alto|alto|idle in transaction|SELECT $1::text";
    assert_eq!(rows(&one, SEEN).await?, [now.as_str(), others, "alto|guest||<insufficient privilege>"]);
    let now = format!("alto|guest|active|{SEEN}");
    guest.batch_execute("ROLLBACK").await?;
    let hidden = "alto|alto||<insufficient privilege>";
    assert_eq!(rows(&guest, SEEN).await?, [hidden, hidden, now.as_str()]);
    let known = "SELECT count(*), count(backend_start), count(xact_start), count(query_start), count(state_change),
        count(wait_event), count(backend_type), count(pid), count(datid), count(usesysid) FROM pg_stat_activity";
    assert_eq!(rows(&guest, known).await?, ["3|1|1|1|1|0|1|3|3|3"]);
    assert_eq!(rows(&one, known).await?, ["3|2|2|2|2|1|2|3|3|3"]);
    // The operator sees all.
    let seen = rows(&operator, SEEN).await?;
    let expected = [
        "alto|alto|idle|".to_owned() + known,
        others.to_owned(),
        "alto|guest|idle|".to_owned() + known,
        "altostrat|altostrat|idle|SELECT 'elsewhere'".to_owned(),
        format!("keyspan|keyspan|active|{SEEN}"),
    ];
    assert_eq!(seen, expected);
    // One that has ended is seen no more; a session says so when it is done, which a new one waits for.
    drop(again);
    while rows(&operator, "SELECT 1 FROM pg_stat_activity WHERE usename = 'alto'").await?.len() > 1 {
        tokio::task::yield_now().await;
    }
    assert_eq!(rows(&one, SEEN).await?.len(), 2);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn psql_is_told_of_functions() -> Result<()> {
    let harness = Harness::start().await?;
    let client = harness.tenant("alto").await?;
    // As psql 15 asks for `\df name`.
    let ask = |pattern: &str| {
        format!(
            r#"SELECT n.nspname as "Schema", p.proname as "Name",
              pg_catalog.pg_get_function_result(p.oid) as "Result data type",
              pg_catalog.pg_get_function_arguments(p.oid) as "Argument data types",
             CASE p.prokind WHEN 'a' THEN 'agg' WHEN 'w' THEN 'window' WHEN 'p' THEN 'proc' ELSE 'func' END as "Type"
            FROM pg_catalog.pg_proc p LEFT JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
            WHERE {pattern} AND pg_catalog.pg_function_is_visible(p.oid) ORDER BY 1, 2, 4"#
        )
    };
    let named = |name: &str| ask(&format!("p.proname OPERATOR(pg_catalog.~) '^({name})$' COLLATE pg_catalog.default"));
    let told = |lines: &[&str]| lines.iter().map(|line| format!("pg_catalog|{line}")).collect::<Vec<_>>();
    assert_eq!(rows(&client, &named("now")).await?, told(&["now|timestamp with time zone||func"]));
    assert_eq!(
        rows(&client, &named("split_part|row_number|int4in")).await?,
        told(&["int4in|integer|cstring|func", "row_number|bigint||window", "split_part|text|text, text, integer|func"])
    );
    assert_eq!(
        rows(&client, &named("pg_sleep.*")).await?,
        told(&[
            "pg_sleep|void|double precision|func",
            "pg_sleep_for|void|interval|func",
            "pg_sleep_until|void|timestamp with time zone|func",
        ])
    );
    // What there is not here.
    assert!(rows(&client, &named("lo_creat|pg_reload_conf|xpath")).await?.is_empty());
    let own = ask("n.nspname <> 'pg_catalog' AND n.nspname <> 'information_schema'");
    assert!(rows(&client, &own).await?.is_empty());
    let all = rows(&client, "SELECT count(*) > 300, count(*) = count(DISTINCT oid) FROM pg_proc").await?;
    assert_eq!(all, ["t|t"]);
    let identity =
        "SELECT pg_get_function_identity_arguments(oid), pronargs FROM pg_proc WHERE proname = 'date_bin' ORDER BY oid";
    assert_eq!(
        rows(&client, identity).await?,
        [
            "interval, timestamp without time zone, timestamp without time zone|3",
            "interval, timestamp with time zone, timestamp with time zone|3"
        ]
    );
    client.batch_execute("SELECT pg_sleep_for('1 millisecond'), pg_sleep_until(now() - interval '1 day')").await?;
    Ok(())
}
