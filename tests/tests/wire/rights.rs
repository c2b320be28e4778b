//! Rights that hold now: at each statement those of the newest catalog count, and a session without them ends.

use super::harness::{Harness, PASSWORD, Raw, error, rows};
use anyhow::Result;
use tokio_postgres::Client;

const ENDED: &str = "57P01 terminating connection due to administrator command";

/// An operator, and another role that is one, with its client.
async fn two_operators(harness: &Harness) -> Result<(Client, Client)> {
    let operator = harness.operator().await?;
    operator.batch_execute(&format!("CREATE ROLE max LOGIN SUPERUSER PASSWORD '{PASSWORD}'")).await?;
    Ok((operator, harness.connect("max", "keyspan").await?))
}

#[tokio::test]
async fn a_demoted_operator_makes_no_other() -> Result<()> {
    for taken in ["ALTER ROLE max NOSUPERUSER", "ALTER ROLE max NOLOGIN", "DROP ROLE max"] {
        let harness = Harness::start().await?;
        let (operator, max) = two_operators(&harness).await?;
        max.batch_execute("CREATE DATABASE before OWNER keyspan").await?;
        operator.batch_execute(taken).await?;
        assert_eq!(error(&max, "CREATE ROLE evil LOGIN SUPERUSER PASSWORD 'x'").await, ENDED, "{taken}");
        let again = error(&max, "SELECT 1").await;
        assert!(again.starts_with("not from the server: "), "{taken}: the connection lives: {again}");
        assert_eq!(rows(&operator, "SELECT rolname FROM pg_roles WHERE rolname = 'evil'").await?, [""; 0]);
    }
    Ok(())
}

#[tokio::test]
async fn a_revoked_connect_ends_reads_and_cursors() -> Result<()> {
    let harness = Harness::start().await?;
    let operator = harness.operator().await?;
    operator.batch_execute("CREATE TABLE t (k text PRIMARY KEY)").await?;
    let reads = harness.tenant("alto").await?;
    reads.batch_execute("INSERT INTO t VALUES ('a'), ('b'), ('c')").await?;
    let (fetches, portal) = (harness.connect("alto", "alto").await?, harness.connect("alto", "alto").await?);
    fetches.batch_execute("BEGIN; DECLARE c CURSOR FOR SELECT * FROM t").await?;
    assert_eq!(rows(&fetches, "FETCH 1 FROM c").await?, ["a"]);
    let mut portal = portal;
    let transaction = portal.transaction().await?;
    let bound = transaction.bind("SELECT * FROM t", &[]).await?;
    assert_eq!(transaction.query_portal(&bound, 1).await?.len(), 1);

    operator.batch_execute("ALTER DATABASE alto OWNER TO keyspan").await?;
    assert_eq!(error(&reads, "SELECT * FROM t").await, ENDED);
    assert_eq!(error(&fetches, "FETCH 1 FROM c").await, ENDED);
    let refused = transaction.query_portal(&bound, 1).await.unwrap_err();
    assert_eq!(refused.as_db_error().map(|error| error.code().code()), Some("57P01"), "{refused:?}");
    Ok(())
}

#[tokio::test]
async fn a_session_of_a_dropped_role_is_not_the_next_role_of_that_name() -> Result<()> {
    let harness = Harness::start().await?;
    let operator = harness.operator().await?;
    let old = harness.tenant("ana").await?;
    operator.batch_execute("ALTER DATABASE ana OWNER TO keyspan; DROP ROLE ana").await?;
    operator.batch_execute("CREATE DATABASE other; CREATE ROLE ana LOGIN PASSWORD 'of another'").await?;
    operator.batch_execute("GRANT CONNECT ON DATABASE other TO ana; GRANT CONNECT ON DATABASE ana TO ana").await?;
    assert_eq!(error(&old, "ALTER ROLE ana PASSWORD 'taken over'").await, ENDED);
    let config = harness.config("ana", "taken over", "other");
    assert!(super::harness::connect(&config).await.is_err(), "the old session has set the new role's password");
    super::harness::connect(&harness.config("ana", "of another", "other")).await?;
    Ok(())
}

#[tokio::test]
async fn a_drop_waits_for_sessions_or_ends_them() -> Result<()> {
    let harness = Harness::start().await?;
    let operator = harness.operator().await?;
    operator.batch_execute("CREATE TABLE t (k bigint PRIMARY KEY)").await?;
    let alto = harness.tenant("alto").await?;
    alto.batch_execute("INSERT INTO t SELECT g FROM generate_series(1, 20000) g").await?;
    alto.batch_execute("BEGIN; DECLARE c CURSOR FOR SELECT * FROM t ORDER BY k").await?;
    assert_eq!(rows(&alto, "FETCH 1 FROM c").await?, ["1"]);
    let in_use = "55006 database \"alto\" is being accessed by other users";
    assert_eq!(error(&operator, "DROP DATABASE alto").await, in_use);
    assert_eq!(rows(&alto, "FETCH 1 FROM c").await?, ["2"]);

    operator.batch_execute("DROP DATABASE alto WITH (FORCE)").await?;
    let ended = error(&alto, "FETCH 1 FROM c").await;
    assert!(ended == ENDED || ended.starts_with("not from the server: "), "{ended}");
    assert_eq!(rows(&operator, "SELECT count(*) FROM pg_stat_activity WHERE datname = 'alto'").await?, ["0"]);
    Ok(())
}

#[tokio::test]
async fn a_client_that_takes_nothing_does_not_hold_a_drop() -> Result<()> {
    let harness = Harness::start().await?;
    let operator = harness.operator().await?;
    drop(harness.tenant("alto").await?);
    let (mut stalled, _) = Raw::log_in(harness.address(), "alto", PASSWORD, "alto").await?;
    stalled.message(b'Q', b"SELECT repeat('x', 1000) FROM generate_series(1, 100000)\0").await?;
    let active = "SELECT 1 FROM pg_stat_activity WHERE datname = 'alto' AND state = 'active'";
    while rows(&operator, active).await?.is_empty() {}
    operator.batch_execute("DROP DATABASE alto WITH (FORCE)").await?;
    Ok(())
}

#[tokio::test]
async fn roles_signal_their_own_sessions_and_operators_all() -> Result<()> {
    let harness = Harness::start().await?;
    let operator = harness.operator().await?;
    let (alto, bystander) = (harness.tenant("alto").await?, harness.tenant("altostrat").await?);
    operator
        .batch_execute(&format!("CREATE ROLE ben LOGIN PASSWORD '{PASSWORD}'; GRANT CONNECT ON DATABASE alto TO ben"))
        .await?;
    let ben = harness.connect("ben", "alto").await?;
    let pid = async |client: &Client| Ok::<_, anyhow::Error>(rows(client, "SELECT pg_backend_pid()").await?.concat());
    let (of_alto, of_other) = (pid(&alto).await?, pid(&bystander).await?);

    let denied = "42501 must be a member of the role whose process is being terminated";
    assert_eq!(error(&ben, &format!("SELECT pg_terminate_backend({of_alto})")).await, denied);
    // Of another database there is no such session.
    assert_eq!(rows(&ben, &format!("SELECT pg_terminate_backend({of_other})")).await?, ["f"]);
    assert_eq!(rows(&ben, "SELECT pg_cancel_backend(2147483647)").await?, ["f"]);
    assert_eq!(pid(&alto).await?, of_alto);

    // A statement that is canceled; the session goes on.
    let (sleeping, canceling) = tokio::join!(error(&alto, "SELECT pg_sleep(600)"), async {
        let running =
            format!("SELECT 1 FROM pg_stat_activity WHERE pid = {of_alto} AND state = 'active' AND query ~ 'sleep'");
        while rows(&operator, &running).await?.is_empty() {}
        rows(&operator, &format!("SELECT pg_cancel_backend({of_alto})")).await
    });
    assert_eq!(canceling?, ["t"]);
    assert_eq!(sleeping, "57014 canceling statement due to user request");
    assert_eq!(pid(&alto).await?, of_alto);

    // An own session, and by an operator any.
    let own = harness.connect("ben", "alto").await?;
    let of_own = pid(&own).await?;
    assert_eq!(rows(&ben, &format!("SELECT pg_terminate_backend({of_own})")).await?, ["t"]);
    assert_eq!(rows(&operator, &format!("SELECT pg_terminate_backend({of_alto})")).await?, ["t"]);
    for client in [&own, &alto] {
        let ended = error(client, "SELECT 1").await;
        assert!(ended == ENDED || ended.starts_with("not from the server: "), "{ended}");
    }
    assert_eq!(pid(&bystander).await?, of_other);
    Ok(())
}
