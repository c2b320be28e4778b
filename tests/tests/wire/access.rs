//! Access rules: who may try to log in from where.

use super::{
    command::{Serving, keyspan},
    harness::{Harness, connect, rows, told},
};
use anyhow::Result;
use keyspan_gateway::auth::access::AccessRules;
use rustix::process::Signal;

async fn refused(config: &tokio_postgres::Config) -> Result<String> {
    match connect(config).await {
        Ok(_) => anyhow::bail!("it may log in"),
        Err(error) => Ok(told(&error.downcast::<tokio_postgres::Error>()?)),
    }
}

#[tokio::test]
async fn a_rule_decides_before_the_password() -> Result<()> {
    let rules = "host keyspan keyspan 127.0.0.0/8 scram-sha-256\n\
                 host alto alto,nobody 127.0.0.1/32 scram-sha-256\n\
                 host borealis all all reject\n";
    let rules = AccessRules::parse(rules)?;
    let harness = Harness::start_with(|options| options.access = Some(rules)).await?;
    // Both are made; the one cannot connect.
    let session = harness.tenant("alto").await?;
    assert!(harness.tenant("borealis").await.is_err());
    let config = |role: &str, database: &str| harness.config(role, "a wrong password", database);
    for (role, database, expected) in [
        ("alto", "alto", "28P01 password authentication failed for user \"alto\""),
        // A rule knows nothing of which roles there are.
        ("nobody", "alto", "28P01 password authentication failed for user \"nobody\""),
        (
            "borealis",
            "borealis",
            "28000 access rules reject connection for host \"127.0.0.1\", user \"borealis\", database \"borealis\", \
             no encryption",
        ),
        (
            "alto",
            "keyspan",
            "28000 no access rule for host \"127.0.0.1\", user \"alto\", database \"keyspan\", no encryption",
        ),
    ] {
        assert_eq!(refused(&config(role, database)).await?, expected);
    }
    assert_eq!(rows(&session, "SELECT 1").await?, ["1"]);
    Ok(())
}

#[tokio::test]
async fn rules_of_a_file_are_read_anew() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (store, file) = (folder.path().join("store"), folder.path().join("access"));
    // A file of no use is no reason to open the store.
    std::fs::write(&file, "host all all all trust\n")?;
    let mut command = keyspan();
    command.args(["serve", "--listen", "127.0.0.1:0", "--store"]).arg(&store).arg("--access").arg(&file);
    let output = command.output().await?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("line 1: \"trust\" is no method"), "{said}");
    assert!(!store.exists());

    std::fs::write(&file, "host keyspan keyspan all scram-sha-256\n")?;
    let server = Serving::start_with(&store, Some("password"), |command| {
        command.arg("--access").arg(&file);
    })
    .await?;
    let config = server.config("password");
    let session = connect(&config).await?;
    // One that is wrong changes nothing; the next locks everybody out, but not who is in.
    std::fs::write(&file, "hots keyspan keyspan all scram-sha-256\n")?;
    server.send(Signal::HUP)?;
    connect(&config).await?;
    std::fs::write(&file, "")?;
    server.send(Signal::HUP)?;
    while connect(&config).await.is_ok() {}
    assert!(refused(&config).await?.starts_with("28000 no access rule"));
    assert_eq!(rows(&session, "SELECT 1").await?, ["1"]);
    std::fs::write(&file, "host all all all scram-sha-256\n")?;
    server.send(Signal::HUP)?;
    while connect(&config).await.is_err() {}
    server.signal(Signal::TERM).await?;
    Ok(())
}
