//! Who asks to log in: what a client without a password can learn, and for how long it can try.

use super::{
    command::Serving,
    harness::{Harness, OPERATOR_PASSWORD, PASSWORD, Raw, connect, error, rows, told},
};
use anyhow::{Context, Result};
use bytes::{Buf, BufMut, BytesMut};
use keyspan_gateway::auth::{operator::OPERATOR_ROLE, throttle::DELAY_MIN};
use std::time::{Duration, Instant};
use tokio_postgres::Config;

/// A secret in PostgreSQL's form, with a salt of 16 bytes, which is that of no password known here.
fn secret(iterations: u32, salt: &str) -> String {
    let key = format!("{}=", "A".repeat(43));
    format!("SCRAM-SHA-256${iterations}:{salt}${key}:{key}")
}

/// The salt and the rounds that the server gives to whoever asks to log in as a role.
async fn challenge(harness: &Harness, role: &str) -> Result<String> {
    let mut raw = Raw::connect(harness.address()).await?;
    raw.startup(196_608, format!("user\0{role}\0\0").as_bytes()).await?;
    raw.next().await?.context("a request for a password")?;
    let first = b"n,,n=,r=a nonce of the client";
    let mut body = BytesMut::from(&b"SCRAM-SHA-256\0"[..]);
    body.put_u32(first.len() as u32);
    body.put_slice(first);
    raw.message(b'p', &body).await?;
    let (kind, mut body) = raw.next().await?.context("the server's first message")?;
    assert_eq!((kind, body.get_u32()), (b'R', 11));
    let text = String::from_utf8(body.to_vec())?;
    let (_nonce, rest) = text.split_once(',').context("a salt")?;
    Ok(rest.to_owned())
}

#[tokio::test]
async fn nobody_learns_which_roles_there_are() -> Result<()> {
    let harness = Harness::start().await?;
    harness.tenant("alto").await?;
    let operator = harness.operator().await?;
    // The first role by name, of which anybody may know the secret.
    operator.batch_execute(&format!("CREATE ROLE aaa LOGIN PASSWORD '{PASSWORD}'; CREATE ROLE bare LOGIN")).await?;
    let roles = ["alto", "bare", "keyspan", "nobody", "nobody else"];
    let mut before = Vec::new();
    for role in roles {
        let told = challenge(&harness, role).await?;
        let (salt, rounds) = told.split_once(',').context("rounds")?;
        assert_eq!((salt.len(), rounds), ("s=".len() + 24, "i=4096"), "{role}");
        before.push(told);
    }
    let mut different = before.clone();
    different.sort();
    different.dedup();
    assert_eq!(different.len(), roles.len());
    // No role's challenge changes with the password of another, nor with a restart.
    for change in [
        format!("ALTER ROLE aaa PASSWORD '{}'", secret(4_096, "W22ZaJ0SNY7soEsUEjb6gQ==")),
        "ALTER ROLE aaa PASSWORD NULL".to_owned(),
        "DROP ROLE aaa".to_owned(),
    ] {
        operator.batch_execute(&change).await?;
        for (role, before) in roles.iter().zip(&before) {
            assert_eq!(challenge(&harness, role).await?, *before, "{role} after {change}");
        }
    }
    let harness = harness.restart().await?;
    for (role, before) in roles.iter().zip(&before) {
        assert_eq!(challenge(&harness, role).await?, *before, "{role} after a restart");
    }
    // Another server's are others.
    let other = Harness::start().await?;
    assert_ne!(challenge(&other, "nobody").await?, before[3]);
    Ok(())
}

#[tokio::test]
async fn a_secret_that_would_harm_those_who_log_in_is_refused() -> Result<()> {
    let harness = Harness::start().await?;
    let alto = harness.tenant("alto").await?;
    let before = challenge(&harness, "alto").await?;
    let own = |secret: String| format!("ALTER ROLE alto PASSWORD '{secret}'");
    let salt = "W22ZaJ0SNY7soEsUEjb6gQ==";
    for (secret, what) in [
        (secret(1, salt), "1 iterations, not 4096 to 1000000"),
        (secret(u32::MAX, salt), "4294967295 iterations, not 4096 to 1000000"),
        (secret(4_096, "AAAA"), "3 bytes of salt, not 8 to 64"),
        (secret(4_096, &"AAAA".repeat(100_000)), "300000 bytes of salt, not 8 to 64"),
    ] {
        assert_eq!(error(&alto, &own(secret)).await, format!("22023 the SCRAM secret has {what}"));
    }
    assert_eq!(challenge(&harness, "alto").await?, before);
    alto.batch_execute(&own(secret(10_000, salt))).await?;
    assert_eq!(challenge(&harness, "alto").await?, format!("s={salt},i=10000"));
    let refused = connect(&harness.config("alto", PASSWORD, "alto")).await.err().context("an error")?;
    let refused = refused.downcast::<tokio_postgres::Error>()?;
    assert_eq!(told(&refused), "28P01 password authentication failed for user \"alto\"");
    assert_eq!(rows(&alto, "SELECT 1").await?, ["1"]);
    Ok(())
}

/// How long the server took to refuse a password.
async fn time_to_refuse(config: &Config) -> Result<Duration> {
    let begun = Instant::now();
    let refused = connect(config).await.err().context("an error")?.downcast::<tokio_postgres::Error>()?;
    assert!(told(&refused).starts_with("28P01 "), "{refused}");
    Ok(begun.elapsed())
}

#[tokio::test]
async fn wrong_passwords_are_answered_later_and_later() -> Result<()> {
    let harness = Harness::start().await?;
    harness.tenant("alto").await?;
    for role in ["alto", "nobody"] {
        for failures in 1..=5 {
            let took = time_to_refuse(&harness.config(role, "wrong", "alto")).await?;
            let least = match failures {
                1..=3 => Duration::ZERO,
                4 => DELAY_MIN,
                _ => 2 * DELAY_MIN,
            };
            assert!(took >= least, "{role}: {failures} failures, {took:?}");
        }
        // Nobody is locked out, but a right guess is not told at once either. It ends the counts of its role and
        // address.
        let begun = Instant::now();
        harness.connect("alto", "alto").await?;
        assert!(begun.elapsed() >= 2 * DELAY_MIN, "{role}: {:?}", begun.elapsed());
    }
    Ok(())
}

#[tokio::test]
async fn log_ins_are_logged_without_passwords() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let serving = Serving::start_with(folder.path(), Some(PASSWORD), |command| {
        command.env("KEYSPAN_LOG", "keyspan=info").env("KEYSPAN_LOG_FORMAT", "text");
    })
    .await?;
    connect(&serving.config(PASSWORD)).await?;
    time_to_refuse(&serving.config("a wrong one")).await?;
    let long = "x".repeat(9_000);
    time_to_refuse(serving.config("a wrong one").user(&long).dbname("no\nwhere")).await?;
    let output = serving.signal(rustix::process::Signal::TERM).await?;
    let log = String::from_utf8(output.stderr)?;
    let lines = |words: &[&str]| log.lines().filter(|line| words.iter().all(|word| line.contains(word))).count();
    let of_operator = ["peer=127.0.0.1:", "role=\"keyspan\"", "database=\"keyspan\""];
    assert_eq!(lines(&[&of_operator[..], &[" INFO ", "logged in"]].concat()), 1, "{log}");
    let reason = "28P01";
    assert_eq!(lines(&[&of_operator[..], &[" WARN ", "log-in refused", reason]].concat()), 1, "{log}");
    assert_eq!(lines(&["role=\"xxx", r#"database="no\nwhere""#, reason]), 1, "{log}");
    assert!(!log.contains(&"x".repeat(300)), "{log}");
    assert!(!log.contains(PASSWORD) && !log.contains("a wrong one"), "{log}");
    Ok(())
}

#[tokio::test]
async fn the_last_places_are_kept_for_operators() -> Result<()> {
    let harness =
        Harness::start_with(|options| (options.connections_max, options.connections_reserved) = (4, 2)).await?;
    let (alto, operator) = (harness.tenant("alto").await?, harness.operator().await?);
    // Connections that have ended give their places back in their time: until then there may be none at all.
    let full = "53300 sorry, too many clients already";
    let refused = async |password: &str| loop {
        let error = connect(&harness.config("alto", password, "alto")).await.err().context("an error")?;
        let told = told(&error.downcast()?);
        if told != full {
            break Ok::<_, anyhow::Error>(told);
        }
    };
    let reserved = "53300 remaining connection slots are reserved for operators";
    assert_eq!(refused(PASSWORD).await?, reserved);
    // Who they are kept from is decided once the password was right.
    assert_eq!(refused("wrong").await?, "28P01 password authentication failed for user \"alto\"");
    // An operator in a tenant's database is one.
    let inside = harness.config(OPERATOR_ROLE, OPERATOR_PASSWORD, "alto");
    let inside = loop {
        match connect(&inside).await {
            Ok(client) => break client,
            Err(error) => assert_eq!(told(&error.downcast()?), full),
        }
    };
    assert_eq!(refused(PASSWORD).await?, reserved);
    assert_eq!(rows(&inside, "SELECT current_user, current_database()").await?, ["keyspan|alto"]);
    drop((operator, inside));
    let again = loop {
        match harness.connect("alto", "alto").await {
            Ok(client) => break client,
            Err(error) => assert!([reserved, full].contains(&told(&error.downcast()?).as_str())),
        }
    };
    assert_eq!((rows(&alto, "SELECT 1").await?, rows(&again, "SELECT 1").await?), (vec!["1".into()], vec!["1".into()]));
    Ok(())
}

#[tokio::test]
async fn a_log_in_has_one_deadline() -> Result<()> {
    const TIMEOUT: Duration = Duration::from_secs(2);
    let harness = Harness::start_with(|options| options.login_timeout = TIMEOUT).await?;
    let client = harness.operator().await?;
    let begun = Instant::now();
    let mut raw = Raw::connect(harness.address()).await?;
    // Time itself is what is tested: the first packet comes late.
    tokio::time::sleep(TIMEOUT * 3 / 4).await;
    raw.startup(196_608, b"user\0keyspan\0\0").await?;
    assert_eq!(raw.next().await?.context("a request for a password")?.0, b'R');
    assert_eq!(raw.replies().await?, ".");
    let took = begun.elapsed();
    assert!(took >= TIMEOUT - TIMEOUT / 10 && took < TIMEOUT * 3 / 2, "{took:?}");
    // It is for log-ins only.
    assert_eq!(rows(&client, "SELECT 1").await?, ["1"]);
    Ok(())
}

#[tokio::test]
async fn connections_beyond_the_bound_are_one_line_a_second() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let serving = Serving::start_with(folder.path(), Some(PASSWORD), |command| {
        command.args(["--connections-max", "1"]);
    })
    .await?;
    let client = connect(&serving.config(PASSWORD)).await?;
    let begun = Instant::now();
    for _ in 0..50 {
        let refused = connect(&serving.config(PASSWORD)).await.err().context("an error")?;
        assert_eq!(told(&refused.downcast()?), "53300 sorry, too many clients already");
    }
    let seconds = begun.elapsed().as_secs() as usize;
    assert_eq!(rows(&client, "SELECT 1").await?, ["1"]);
    let log = String::from_utf8(serving.signal(rustix::process::Signal::TERM).await?.stderr)?;
    let lines = log.lines().filter(|line| line.contains("too many connections")).count();
    assert!((1..=seconds + 1).contains(&lines), "{lines} lines in {seconds} s: {log}");
    Ok(())
}
