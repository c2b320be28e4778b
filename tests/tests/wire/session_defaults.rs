//! What roles and databases say of the sessions that begin: their settings, how many there are, until when.

use super::harness::{Harness, connect, error, rows, told};
use anyhow::Result;
use tokio_postgres::Client;

async fn show(client: &Client, setting: &str) -> Result<String> {
    Ok(rows(client, &format!("SHOW {setting}")).await?.join(","))
}

#[tokio::test]
async fn sessions_begin_with_what_database_and_role_say() -> Result<()> {
    let harness = Harness::start().await?;
    let before = harness.tenant("alto").await?;
    harness.tenant("borealis").await?;
    let operator = harness.operator().await?;
    for statement in [
        "ALTER DATABASE alto SET statement_timeout TO '1min'",
        "ALTER DATABASE alto SET lc_time = 'of the database'",
        "ALTER DATABASE alto SET application_name = 'of the database'",
        "ALTER ROLE alto SET lc_time TO 'of the role'",
        "ALTER ROLE alto SET lc_numeric TO 'of the role'",
        "ALTER USER alto IN DATABASE alto SET lc_numeric TO 'of both'",
        "ALTER ROLE alto SET search_path TO pg_catalog, public",
    ] {
        operator.batch_execute(statement).await?;
    }
    assert_eq!(show(&before, "statement_timeout").await?, "0", "a session that there was is as it was");
    let mut config = harness.config("alto", super::harness::PASSWORD, "alto");
    let session = connect(&config).await?;
    for (setting, value) in [
        ("statement_timeout", "1min"),
        ("lc_time", "of the role"),
        ("lc_numeric", "of both"),
        ("application_name", "of the database"),
        ("search_path", "pg_catalog, public"),
    ] {
        assert_eq!(show(&session, setting).await?, value, "{setting}");
    }
    // RESET goes back to it; what the client says when it connects goes before.
    session.batch_execute("SET statement_timeout = 0; RESET statement_timeout").await?;
    assert_eq!(show(&session, "statement_timeout").await?, "1min");
    config.application_name("of the client");
    assert_eq!(show(&connect(&config).await?, "application_name").await?, "of the client");
    // Other roles and databases are as they were.
    let other = harness.connect("borealis", "borealis").await?;
    assert_eq!(show(&other, "statement_timeout").await?, "0");

    let listed = "SELECT d.datname, r.rolname, setconfig FROM pg_db_role_setting s \
                  LEFT JOIN pg_database d ON d.oid = setdatabase LEFT JOIN pg_roles r ON r.oid = setrole ORDER BY 1, 2";
    assert_eq!(
        rows(&operator, listed).await?,
        [
            "alto|alto|{\"lc_numeric=of both\"}",
            "alto||{\"application_name=of the database\",\"lc_time=of the database\",statement_timeout=1min}",
            "|alto|{\"lc_numeric=of the role\",\"lc_time=of the role\",\"search_path=pg_catalog, public\"}",
        ]
    );
    for statement in [
        "ALTER DATABASE alto RESET ALL",
        "ALTER ROLE alto RESET lc_time",
        "ALTER ROLE alto SET lc_numeric TO DEFAULT",
        "ALTER ROLE alto IN DATABASE alto RESET ALL",
    ] {
        operator.batch_execute(statement).await?;
    }
    assert_eq!(rows(&operator, listed).await?, ["|alto|{\"search_path=pg_catalog, public\"}"]);
    // A role says it of itself, and of nobody else.
    let itself = harness.connect("alto", "alto").await?;
    itself.batch_execute("ALTER ROLE alto SET lc_time TO 'mine'").await?;
    assert_eq!(show(&harness.connect("alto", "alto").await?, "lc_time").await?, "mine");
    for (statement, state) in [
        ("ALTER ROLE borealis SET lc_time TO 'x'", "42501"),
        ("ALTER DATABASE alto SET lc_time TO 'x'", "42501"),
        ("ALTER ROLE alto CONNECTION LIMIT 5", "42501"),
    ] {
        assert!(error(&itself, statement).await.starts_with(state), "{statement}");
    }
    for (statement, state) in [
        ("ALTER ROLE alto SET nonsense TO 1", "42704"),
        ("ALTER ROLE alto SET statement_timeout TO 'soon'", "22023"),
        ("ALTER ROLE alto SET server_version TO '1'", "55P02"),
        ("ALTER ROLE nobody SET lc_time TO 'x'", "42704"),
        ("ALTER ROLE alto IN DATABASE nowhere SET lc_time TO 'x'", "3D000"),
        ("ALTER DATABASE nowhere SET lc_time TO 'x'", "3D000"),
        ("ALTER ROLE alto SET LOCAL lc_time TO 'x'", "42601"),
        ("ALTER ROLE alto CONNECTION LIMIT -2", "22023"),
        ("ALTER ROLE alto VALID UNTIL 'soon'", "22007"),
    ] {
        let said = error(&operator, statement).await;
        assert!(said.starts_with(state), "{statement}: {said}");
    }
    // Those of a database go with it, and do not come back with its name.
    operator.batch_execute("ALTER ROLE borealis IN DATABASE alto SET lc_time TO 'x'").await?;
    operator.batch_execute("DROP DATABASE alto WITH (FORCE)").await?;
    operator.batch_execute("CREATE DATABASE alto").await?;
    assert_eq!(rows(&operator, listed).await?, ["|alto|{lc_time=mine,\"search_path=pg_catalog, public\"}"]);
    Ok(())
}

#[tokio::test]
async fn a_role_has_so_many_sessions_and_no_more() -> Result<()> {
    let harness = Harness::start().await?;
    let first = harness.tenant("alto").await?;
    let operator = harness.operator().await?;
    operator.batch_execute("ALTER ROLE alto CONNECTION LIMIT 2").await?;
    assert_eq!(rows(&operator, "SELECT rolconnlimit FROM pg_roles WHERE rolname = 'alto'").await?, ["2"]);
    let config = harness.config("alto", super::harness::PASSWORD, "alto");
    let second = connect(&config).await?;
    let refused = told(&connect(&config).await.expect_err("two are there").downcast::<tokio_postgres::Error>()?);
    assert_eq!(refused, "53300 too many connections for role \"alto\"");
    // Those that are there go on, and one that ends makes room.
    assert_eq!(rows(&first, "SELECT 1").await?, ["1"]);
    let pid = rows(&second, "SELECT pg_backend_pid()").await?.join("");
    operator.batch_execute(&format!("SELECT pg_terminate_backend({pid})")).await?;
    while rows(&operator, &format!("SELECT 1 FROM pg_stat_activity WHERE pid = {pid}")).await? == ["1"] {}
    connect(&config).await?;
    // Operators are not bounded.
    operator.batch_execute("ALTER ROLE keyspan CONNECTION LIMIT 0; ALTER ROLE alto CONNECTION LIMIT 0").await?;
    harness.operator().await?;
    assert!(connect(&config).await.is_err());
    operator.batch_execute("ALTER ROLE alto CONNECTION LIMIT -1").await?;
    connect(&config).await?;
    // That of a database is its quota.
    let limit = "SELECT datconnlimit, connections FROM pg_database d JOIN keyspan.tenants t ON t.oid = d.oid";
    for (statement, expected) in
        [("ALTER DATABASE alto CONNECTION LIMIT 1", "1|1"), ("ALTER DATABASE alto WITH CONNECTION LIMIT -1", "-1|")]
    {
        operator.batch_execute(statement).await?;
        assert_eq!(rows(&operator, limit).await?, [expected], "{statement}");
    }
    Ok(())
}

#[tokio::test]
async fn a_password_ends() -> Result<()> {
    let harness = Harness::start().await?;
    let session = harness.tenant("alto").await?;
    let operator = harness.operator().await?;
    let config = harness.config("alto", super::harness::PASSWORD, "alto");
    operator.batch_execute("ALTER ROLE alto VALID UNTIL '2020-01-01'").await?;
    let refused =
        told(&connect(&config).await.expect_err("the password has ended").downcast::<tokio_postgres::Error>()?);
    assert_eq!(refused, "28P01 password authentication failed for user \"alto\"");
    // As in PostgreSQL it is the password that ends, not the session.
    assert_eq!(rows(&session, "SELECT 1").await?, ["1"]);
    let until = "SELECT rolvaliduntil FROM pg_roles WHERE rolname = 'alto'";
    assert_eq!(rows(&operator, until).await?, ["2020-01-01 00:00:00+00"]);
    for until in ["3000-01-01 00:00:00+02", "infinity"] {
        operator.batch_execute(&format!("ALTER ROLE alto VALID UNTIL '{until}'")).await?;
        connect(&config).await?;
    }
    assert_eq!(rows(&operator, until).await?, [""]);
    operator
        .batch_execute("CREATE ROLE late LOGIN PASSWORD 'late' VALID UNTIL 'soon' CONNECTION LIMIT 3")
        .await
        .expect_err("no time of a clock");
    Ok(())
}
