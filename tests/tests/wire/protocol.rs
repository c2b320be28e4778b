//! Logging in, the simple and the extended protocol, cancelling, stopping.

use super::harness::{Harness, OPERATOR_PASSWORD, PASSWORD, Raw, connect, error, rows, told};
use anyhow::{Context, Result};
use bytes::Buf;
use futures::TryStreamExt;
use std::{pin::pin, time::Duration};
use tokio_postgres::{NoTls, types::Type};

/// A query of a billion rows, made as they are read.
const ENDLESS: &str = "SELECT a FROM generate_series(1, 1000000) a, generate_series(1, 1000) b";

/// SQLSTATE and message of a login that has to fail.
async fn refused(config: &tokio_postgres::Config) -> String {
    match config.connect(NoTls).await {
        Ok(_) => "logged in".to_owned(),
        Err(error) => told(&error),
    }
}

#[tokio::test]
async fn a_wrong_password_and_an_unknown_role_are_told_alike() -> Result<()> {
    let harness = Harness::start().await?;
    let wrong = |role: &str| format!("28P01 password authentication failed for user \"{role}\"");
    for role in ["keyspan", "nobody"] {
        for database in ["keyspan", "nowhere"] {
            assert_eq!(refused(&harness.config(role, "wrong", database)).await, wrong(role), "{role} {database}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_role_connects_only_where_it_may() -> Result<()> {
    let harness = Harness::start().await?;
    harness.tenant("alto").await?;
    harness.tenant("altostrat").await?;
    let operator = harness.operator().await?;
    operator.batch_execute(&format!("CREATE ROLE group_role PASSWORD '{PASSWORD}'")).await?;
    for (role, database, expected) in [
        ("alto", "altostrat", "3D000 database \"altostrat\" does not exist"),
        ("alto", "keyspan", "42501 permission denied for database \"keyspan\""),
        ("alto", "nowhere", "3D000 database \"nowhere\" does not exist"),
        ("alto", "postgres", "3D000 database \"postgres\" does not exist"),
        ("group_role", "alto", "28000 role \"group_role\" is not permitted to log in"),
    ] {
        assert_eq!(refused(&harness.config(role, PASSWORD, database)).await, expected);
    }
    let inside = connect(&harness.config("keyspan", OPERATOR_PASSWORD, "alto")).await?;
    assert_eq!(rows(&inside, "SELECT current_user, current_database()").await?, ["keyspan|alto"]);
    Ok(())
}

#[tokio::test]
async fn startup_settings_are_set_and_wrong_ones_refused() -> Result<()> {
    let harness = Harness::start().await?;
    let mut config = harness.config("keyspan", OPERATOR_PASSWORD, "keyspan");
    let client = connect(config.application_name("a test").options("-c statement_timeout=5min")).await?;
    assert_eq!(rows(&client, "SHOW application_name").await?, ["a test"]);
    assert_eq!(rows(&client, "SHOW statement_timeout").await?, ["5min"]);
    let told = refused(config.options("-c no_such_thing=1")).await;
    assert_eq!(told, "42704 unrecognized configuration parameter \"no_such_thing\"");
    Ok(())
}

#[tokio::test]
async fn connections_are_bounded() -> Result<()> {
    let harness = Harness::start_with(|options| options.connections_max = 1).await?;
    let client = harness.operator().await?;
    let told = refused(&harness.config("keyspan", OPERATOR_PASSWORD, "keyspan")).await;
    assert_eq!(told, "53300 sorry, too many clients already");
    // A cancel request needs no place.
    client.cancel_token().cancel_query(NoTls).await?;
    Ok(())
}

#[tokio::test]
async fn several_statements_run_up_to_the_first_error() -> Result<()> {
    let harness = Harness::start().await?;
    let client = harness.operator().await?;
    assert_eq!(rows(&client, "SELECT 1; ; SELECT 2;").await?, ["1", "2"]);
    assert!(error(&client, "SELECT 1; SELECT no_column; SELECT 2").await.starts_with("42703 "));
    assert!(error(&client, "SELECT 1; SELEC 2").await.starts_with("42601 "));
    assert_eq!(rows(&client, "SELECT 3").await?, ["3"]);
    let (mut raw, _) = Raw::log_in(harness.address(), "keyspan", OPERATOR_PASSWORD, "keyspan").await?;
    for (sql, replies) in [("", "IZ"), (";", "IZ"), ("SELECT 1; SELECT 2", "TDCTDCZ"), ("SELECT 1; SELEC", "[42601]Z")]
    {
        raw.message(b'Q', format!("{sql}\0").as_bytes()).await?;
        assert_eq!(raw.replies().await?, replies, "{sql}");
    }
    Ok(())
}

#[tokio::test]
async fn prepared_statements_take_parameters_in_binary() -> Result<()> {
    let harness = Harness::start().await?;
    let client = harness.operator().await?;
    let statement = client.prepare_typed("SELECT $1 + 1, $2", &[Type::INT8, Type::TEXT]).await?;
    for (number, text) in [(1i64, Some("é")), (41, None)] {
        let row = client.query_one(&statement, &[&number, &text]).await?;
        assert_eq!((row.get::<_, i64>(0), row.get::<_, Option<&str>>(1)), (number + 1, text));
    }
    let quotient = client.prepare_typed("SELECT 1 / $1", &[Type::INT8]).await?;
    let error = client.query(&quotient, &[&0i64]).await.unwrap_err();
    assert_eq!(told(&error), "22012 division by zero");
    assert_eq!(client.query_one("SELECT 1::bigint", &[]).await?.get::<_, i64>(0), 1);
    Ok(())
}

#[tokio::test]
async fn prepared_statements_can_be_forgotten_by_sql() -> Result<()> {
    let harness = Harness::start().await?;
    let (mut raw, _) = Raw::log_in(harness.address(), "keyspan", OPERATOR_PASSWORD, "keyspan").await?;
    for sql in ["DEALLOCATE \"_pg3_0\"", "DEALLOCATE ALL", "DISCARD ALL"] {
        raw.message(b'P', b"_pg3_0\0SELECT 1\0\0\0").await?;
        raw.message(b'S', b"").await?;
        assert_eq!(raw.replies().await?, "1Z");
        raw.message(b'Q', format!("{sql}\0").as_bytes()).await?;
        assert_eq!(raw.replies().await?, "CZ", "{sql}");
    }
    raw.message(b'Q', b"DEALLOCATE nothing\0").await?;
    assert_eq!(raw.replies().await?, "[26000]Z");
    Ok(())
}

#[tokio::test]
async fn a_portal_is_suspended_at_its_row_limit() -> Result<()> {
    let harness = Harness::start().await?;
    let mut client = harness.operator().await?;
    let transaction = client.transaction().await?;
    let portal = transaction.bind("SELECT generate_series FROM generate_series(1, 5)", &[]).await?;
    let mut counts = Vec::new();
    for _ in 0..3 {
        counts.push(transaction.query_portal(&portal, 2).await?.len());
    }
    assert_eq!(counts, [2, 2, 1]);
    Ok(())
}

#[tokio::test]
async fn a_cursor_is_described_as_a_portal_and_outlives_other_portals() -> Result<()> {
    let harness = Harness::start().await?;
    let (mut raw, _) = Raw::log_in(harness.address(), "keyspan", OPERATOR_PASSWORD, "keyspan").await?;
    raw.message(b'Q', b"BEGIN; DECLARE c CURSOR FOR SELECT 1 AS one, 'x' AS two\0").await?;
    assert_eq!(raw.replies().await?, "CCZ");
    raw.message(b'D', b"Pc\0").await?;
    raw.message(b'S', b"").await?;
    assert_eq!(raw.replies().await?, "TZ");
    raw.message(b'P', b"\0FETCH ALL FROM c\0\0\0").await?;
    raw.message(b'D', b"S\0").await?;
    raw.message(b'B', b"\0\0\0\0\0\0\0\0").await?;
    raw.message(b'E', b"\0\0\0\0\0").await?;
    raw.message(b'S', b"").await?;
    assert_eq!(raw.replies().await?, "1tT2DCZ");
    raw.message(b'Q', b"COMMIT\0").await?;
    assert_eq!(raw.replies().await?, "CZ");
    raw.message(b'D', b"Pc\0").await?;
    raw.message(b'S', b"").await?;
    assert_eq!(raw.replies().await?, "[34000]Z");
    Ok(())
}

/// A write with RETURNING under a limit of rows tells the number of all rows that it wrote.
#[tokio::test]
async fn a_portal_that_returns_is_suspended_and_counts_all() -> Result<()> {
    let harness = Harness::start().await?;
    let alto = harness.tenant("alto").await?;
    harness.operator().await?.batch_execute("CREATE TABLE t (k bigint PRIMARY KEY, s text)").await?;
    let statement = alto.prepare("INSERT INTO t VALUES ($1, $2), ($1 + 1, NULL) RETURNING s, k").await?;
    let types: Vec<_> = statement.columns().iter().map(|column| (column.name(), column.type_().clone())).collect();
    assert_eq!(types, [("s", Type::TEXT), ("k", Type::INT8)]);
    let returned = alto.query(&statement, &[&1i64, &"a"]).await?;
    assert_eq!(returned.iter().map(|row| row.get::<_, i64>(1)).collect::<Vec<_>>(), [1, 2]);
    let (mut raw, _) = Raw::log_in(harness.address(), "alto", PASSWORD, "alto").await?;
    raw.message(b'P', b"\0DELETE FROM t RETURNING k\0\0\0").await?;
    raw.message(b'B', b"\0\0\0\0\0\0\0\0").await?;
    raw.message(b'E', b"\0\0\0\0\x01").await?;
    raw.message(b'E', b"\0\0\0\0\x05").await?;
    raw.message(b'S', b"").await?;
    let mut tag = None;
    while let Some((kind, body)) = raw.next().await? {
        match kind {
            b'C' => tag = Some(body),
            b'Z' => break,
            _ => {}
        }
    }
    assert_eq!(tag.context("a tag")?, b"DELETE 2\0"[..]);
    assert_eq!(rows(&alto, "SELECT count(*) FROM t").await?, ["0"]);
    Ok(())
}

#[tokio::test]
async fn an_error_in_the_extended_protocol_skips_to_the_sync() -> Result<()> {
    let harness = Harness::start().await?;
    let (mut raw, _) = Raw::log_in(harness.address(), "keyspan", OPERATOR_PASSWORD, "keyspan").await?;
    let bind = |portal: &str, statement: &str| format!("{portal}\0{statement}\0\0\0\0\0\0\0");
    raw.message(b'P', b"one\0SELECT 1\0\0\0").await?;
    raw.message(b'B', bind("", "none").as_bytes()).await?;
    raw.message(b'E', b"\0\0\0\0\0").await?;
    raw.message(b'Q', b"SELECT 2\0").await?;
    raw.message(b'S', b"").await?;
    assert_eq!(raw.replies().await?, "1[26000]Z");
    raw.message(b'P', b"one\0SELECT 1\0\0\0").await?;
    raw.message(b'S', b"").await?;
    assert_eq!(raw.replies().await?, "[42P05]Z");
    raw.message(b'B', bind("", "one").as_bytes()).await?;
    raw.message(b'D', b"P\0").await?;
    raw.message(b'E', b"\0\0\0\0\0").await?;
    raw.message(b'C', b"Sone\0").await?;
    raw.message(b'S', b"").await?;
    assert_eq!(raw.replies().await?, "2TDC3Z");
    raw.message(b'D', b"Sone\0").await?;
    raw.message(b'S', b"").await?;
    assert_eq!(raw.replies().await?, "[26000]Z");
    Ok(())
}

#[tokio::test]
async fn broken_messages_are_told_and_end_at_most_their_connection() -> Result<()> {
    let harness = Harness::start().await?;
    let log_in = || Raw::log_in(harness.address(), "keyspan", OPERATOR_PASSWORD, "keyspan");
    let (mut raw, _) = log_in().await?;
    raw.message(b'B', b"cut sho").await?;
    raw.message(b'S', b"").await?;
    assert_eq!(raw.replies().await?, "[08P01]Z");
    raw.message(b'Q', b"SELECT '\xff'\0").await?;
    assert_eq!(raw.replies().await?, "[22021]Z");
    raw.send(b"Q\x7f\xff\xff\xff").await?;
    assert_eq!(raw.replies().await?, "[08P01].");
    let (mut raw, _) = log_in().await?;
    raw.send(b"\x01").await?;
    raw.send(b"\0\0\0\x04").await?;
    assert_eq!(raw.replies().await?, "[08P01].");
    let mut web = Raw::connect(harness.address()).await?;
    web.send(b"GET / HTTP/1.1\r\n\r\n").await?;
    assert_eq!(web.replies().await?, "[08P01].");
    assert_eq!(rows(&harness.operator().await?, "SELECT 1").await?, ["1"]);
    Ok(())
}

#[tokio::test]
async fn a_newer_protocol_is_negotiated() -> Result<()> {
    let harness = Harness::start().await?;
    let mut raw = Raw::connect(harness.address()).await?;
    raw.startup(3 << 16 | 9_999, b"user\0keyspan\0_pq_.future\0on\0\0").await?;
    let (kind, mut body) = raw.next().await?.context("a message")?;
    assert_eq!((kind, body.get_u32(), body.get_u32(), &body[..]), (b'v', 3 << 16 | 2, 1, &b"_pq_.future\0"[..]));
    assert_eq!(raw.next().await?.context("a message")?.0, b'R');
    Ok(())
}

#[tokio::test]
async fn a_cancel_request_stops_rows_under_way() -> Result<()> {
    let harness = Harness::start().await?;
    let client = harness.operator().await?;
    let mut stream = pin!(client.query_raw(ENDLESS, Vec::<i32>::new()).await?);
    assert!(stream.try_next().await?.is_some());
    client.cancel_token().cancel_query(NoTls).await?;
    let error = loop {
        match stream.try_next().await {
            Ok(row) => assert!(row.is_some(), "the query has ended"),
            Err(error) => break error,
        }
    };
    assert_eq!(told(&error), "57014 canceling statement due to user request");
    assert_eq!(rows(&client, "SELECT 1").await?, ["1"]);
    Ok(())
}

#[tokio::test]
async fn a_statement_timeout_stops_rows_under_way() -> Result<()> {
    let harness = Harness::start().await?;
    let client = harness.operator().await?;
    client.batch_execute("SET statement_timeout = '100ms'").await?;
    let ended = client.query_raw(ENDLESS, Vec::<i32>::new()).await;
    let error = match ended {
        Ok(stream) => stream.try_for_each(|_| async { Ok(()) }).await.unwrap_err(),
        Err(error) => error,
    };
    assert_eq!(told(&error), "57014 canceling statement due to statement timeout");
    client.batch_execute("RESET statement_timeout").await?;
    assert_eq!(rows(&client, "SELECT 1").await?, ["1"]);
    Ok(())
}

#[tokio::test]
async fn a_client_that_goes_away_gives_its_place_back() -> Result<()> {
    let harness = Harness::start_with(|options| options.connections_max = 1).await?;
    let (mut raw, _) = Raw::log_in(harness.address(), "keyspan", OPERATOR_PASSWORD, "keyspan").await?;
    raw.message(b'Q', format!("{ENDLESS}\0").as_bytes()).await?;
    assert_eq!(raw.next().await?.context("a description")?.0, b'T');
    drop(raw);
    // The query would run for minutes: only its end lets another one in.
    loop {
        match harness.operator().await {
            Ok(client) => break assert_eq!(rows(&client, "SELECT 1").await?, ["1"]),
            Err(_) => tokio::task::yield_now().await,
        }
    }
    Ok(())
}

#[tokio::test]
async fn stopping_ends_idle_connections_and_keeps_what_was_written() -> Result<()> {
    let mut harness = Harness::start().await?;
    harness.tenant("alto").await?;
    let (mut idle, _) = Raw::log_in(harness.address(), "keyspan", OPERATOR_PASSWORD, "keyspan").await?;
    harness.stop().await?;
    assert_eq!(idle.replies().await?, "[57P01].");
    Ok(())
}

#[tokio::test]
async fn stopping_waits_for_statements_up_to_its_bound() -> Result<()> {
    let mut harness = Harness::start_with(|options| options.drain = Duration::ZERO).await?;
    let client = harness.operator().await?;
    let mut stream = pin!(client.query_raw(ENDLESS, Vec::<i32>::new()).await?);
    assert!(stream.try_next().await?.is_some());
    let stopped = async { harness.stop().await };
    let ended = async {
        loop {
            match stream.try_next().await {
                Ok(row) => assert!(row.is_some(), "the query has ended"),
                Err(error) => break told(&error),
            }
        }
    };
    let (stopped, ended) = tokio::join!(stopped, ended);
    stopped?;
    assert_eq!(ended, "57P01 terminating connection due to administrator command");
    Ok(())
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_a_restart() -> Result<()> {
    let harness = Harness::start().await?;
    harness.tenant("alto").await?;
    let operator = harness.operator().await?;
    operator.batch_execute("CREATE TABLE t (k text PRIMARY KEY, v bigint)").await?;
    harness.connect("alto", "alto").await?.batch_execute("INSERT INTO t VALUES ('a', 1)").await?;
    let harness = harness.restart().await?;
    assert_eq!(rows(&harness.connect("alto", "alto").await?, "SELECT k, v FROM t").await?, ["a|1"]);
    assert_eq!(rows(&harness.operator().await?, "SELECT tenant, k, v FROM t").await?, ["alto|a|1"]);
    Ok(())
}
