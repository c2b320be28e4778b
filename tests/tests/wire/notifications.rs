//! `LISTEN` and `NOTIFY` over the socket: who is told what, when, and who is not.

use super::harness::{Harness, PASSWORD, Raw, error, rows};
use anyhow::{Context, Result};
use keyspan_gateway::notifications::{QUEUED_BYTES_MAX, QUEUED_MAX};
use std::{future::poll_fn, sync::Arc};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_postgres::{AsyncMessage, Client, Config, NoTls};

/// A client, and what it is told.
struct Listener {
    client: Client,
    told: UnboundedReceiver<String>,
}

impl Listener {
    async fn connect(config: &Config) -> Result<Self> {
        let (client, mut connection) = config.connect(NoTls).await?;
        let (sender, told) = unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(told) = message {
                    let line = format!("{} {}|{}", told.process_id(), told.channel(), told.payload());
                    if sender.send(line).is_err() {
                        return;
                    }
                }
            }
        });
        Ok(Self { client, told })
    }

    /// The next notifications, which have to come; each without the number of the session that told it, which is
    /// checked.
    async fn hears(&mut self, from: i32, expected: &[&str]) -> Result<()> {
        for expected in expected {
            let told = self.told.recv().await.context("the connection ended")?;
            assert_eq!(told, format!("{from} {expected}"));
        }
        assert_eq!(self.told.try_recv().ok(), None);
        Ok(())
    }
}

async fn process_id(client: &Client) -> Result<i32> {
    Ok(rows(client, "SELECT pg_backend_pid()").await?[0].parse()?)
}

#[tokio::test]
async fn listeners_are_told_what_is_committed_and_in_its_order() -> Result<()> {
    let harness = Harness::start().await?;
    let notifier = harness.tenant("alto").await?;
    let mut listener = Listener::connect(&harness.config("alto", PASSWORD, "alto")).await?;
    let from = process_id(&notifier).await?;
    listener.client.batch_execute("LISTEN news; LISTEN \"Two Words\"; LISTEN news").await?;
    assert_eq!(rows(&listener.client, "SELECT * FROM pg_listening_channels()").await?, ["Two Words", "news"]);
    assert_eq!(rows(&notifier, "SELECT pg_listening_channels()").await?, [""; 0]);
    // By itself: at once, while the listener waits; the same once more is told once more.
    notifier.batch_execute("NOTIFY news; NOTIFY news, 'it''s'; NOTIFY \"Two Words\", 'x'; NOTIFY other, 'y'").await?;
    notifier.query("SELECT pg_notify($1, $2)", &[&"news", &"bound"]).await?;
    notifier.query("SELECT pg_notify('news', NULL)", &[]).await?;
    listener.hears(from, &["news|", "news|it's", "Two Words|x", "news|bound", "news|"]).await?;
    // In a transaction: at COMMIT, what is the same once.
    notifier.batch_execute("CREATE TABLE t (a int)").await?;
    notifier
        .batch_execute(
            "BEGIN; NOTIFY news, 'b'; NOTIFY news, 'a'; SELECT pg_notify('news', 'b'); SAVEPOINT s; NOTIFY news, 'gone';
             SELECT pg_notify('news', 'a'); ROLLBACK TO s; NOTIFY news, 'c'; INSERT INTO t SELECT 1 WHERE pg_notify('news', 'd') IS NOT NULL; COMMIT",
        )
        .await?;
    listener.hears(from, &["news|b", "news|a", "news|c", "news|d"]).await?;
    // Not what was taken back or failed.
    notifier.batch_execute("BEGIN; NOTIFY news, 'no'; ROLLBACK").await?;
    assert!(error(&notifier, "BEGIN; NOTIFY news, 'no'; SELECT 1 / 0").await.starts_with("22012"));
    notifier.batch_execute("COMMIT").await?;
    assert!(error(&notifier, "SELECT pg_notify('news', 'no'), 1 / (a - 1) FROM t").await.starts_with("22012"));
    assert!(error(&notifier, "INSERT INTO t VALUES (2); NOTIFY news, 'no'; SELECT 1 / 0").await.starts_with("22012"));
    notifier.batch_execute("NOTIFY news, 'yes'").await?;
    listener.hears(from, &["news|yes"]).await?;
    // A transaction is told nothing before its end.
    listener.client.batch_execute("BEGIN").await?;
    notifier.batch_execute("NOTIFY news, 'later'").await?;
    assert_eq!(rows(&listener.client, "SELECT 1").await?, ["1"]);
    assert_eq!(listener.told.try_recv().ok(), None);
    listener.client.batch_execute("ROLLBACK").await?;
    listener.hears(from, &["news|later"]).await?;
    // What is listened to is so from COMMIT on.
    listener
        .client
        .batch_execute("BEGIN; LISTEN late; UNLISTEN news; ROLLBACK; BEGIN; UNLISTEN news; LISTEN now; COMMIT")
        .await?;
    assert_eq!(rows(&listener.client, "SELECT pg_listening_channels()").await?, ["Two Words", "now"]);
    notifier.batch_execute("NOTIFY late; NOTIFY news; NOTIFY now").await?;
    listener.hears(from, &["now|"]).await?;
    listener.client.batch_execute("UNLISTEN *; LISTEN a; DISCARD ALL").await?;
    assert_eq!(rows(&listener.client, "SELECT pg_listening_channels()").await?, [""; 0]);
    // A session hears itself too.
    let own = process_id(&listener.client).await?;
    listener.client.batch_execute("BEGIN; NOTIFY a, 'before'; LISTEN a; COMMIT; NOTIFY a, 'alone'").await?;
    listener.hears(own, &["a|before", "a|alone"]).await
}

#[tokio::test]
async fn nothing_is_told_across_databases() -> Result<()> {
    let harness = Harness::start().await?;
    let alto = harness.tenant("alto").await?;
    let other = harness.tenant("altostrat").await?;
    let mut inside = Listener::connect(&harness.config("alto", PASSWORD, "alto")).await?;
    let mut outside = Listener::connect(&harness.config("altostrat", PASSWORD, "altostrat")).await?;
    let operator = harness.config("keyspan", super::harness::OPERATOR_PASSWORD, "keyspan");
    let mut above = Listener::connect(&operator).await?;
    for listener in [&inside, &outside, &above] {
        listener.client.batch_execute("LISTEN c").await?;
    }
    alto.batch_execute("NOTIFY c, 'of alto'; BEGIN; SELECT pg_notify('c', 'once more'); COMMIT").await?;
    other.batch_execute("NOTIFY c, 'of altostrat'").await?;
    above.client.batch_execute("NOTIFY c, 'of the operator'").await?;
    inside.hears(process_id(&alto).await?, &["c|of alto", "c|once more"]).await?;
    outside.hears(process_id(&other).await?, &["c|of altostrat"]).await?;
    above.hears(process_id(&above.client).await?, &["c|of the operator"]).await?;
    // Nor to the next tenant of a name: its sessions are others'.
    let operator = harness.operator().await?;
    drop(alto);
    operator
        .batch_execute("DROP DATABASE alto WITH (FORCE); CREATE DATABASE alto; ALTER DATABASE alto OWNER TO alto")
        .await?;
    let mut next = Listener::connect(&harness.config("alto", PASSWORD, "alto")).await?;
    next.client.batch_execute("LISTEN c").await?;
    let _ = inside.client.batch_execute("NOTIFY c, 'of the dropped'").await;
    next.client.batch_execute("NOTIFY c, 'of the next'").await?;
    next.hears(process_id(&next.client).await?, &["c|of the next"]).await
}

#[tokio::test]
async fn a_listener_that_does_not_hear_holds_so_much_and_no_more() -> Result<()> {
    let harness = Harness::start().await?;
    let notifier = harness.tenant("alto").await?;
    let mut slow = Listener::connect(&harness.config("alto", PASSWORD, "alto")).await?;
    let from = process_id(&notifier).await?;
    notifier.batch_execute("CREATE TABLE t (a int)").await?;
    for (sql, expected) in [
        (format!("NOTIFY c, '{}'", "x".repeat(8_000)), "22023 payload string too long"),
        (format!("SELECT pg_notify('c', '{}')", "x".repeat(8_000)), "22023 payload string too long"),
        ("SELECT pg_notify('', 'x')".to_owned(), "22023 channel name cannot be empty"),
        ("SELECT pg_notify(NULL, 'x')".to_owned(), "22023 channel name cannot be empty"),
        (format!("SELECT pg_notify('{}', 'x')", "c".repeat(64)), "22023 channel name too long"),
    ] {
        assert_eq!(error(&notifier, &sql).await, expected, "{}", &sql[..20]);
    }
    slow.client.batch_execute("LISTEN c; BEGIN").await?;
    let payload = "x".repeat(7_999);
    let fits = QUEUED_BYTES_MAX / (payload.len() + 1 + 64);
    for _ in 0..fits {
        notifier.batch_execute(&format!("NOTIFY c, '{payload}'")).await?;
    }
    let full = "54000 too many notifications in the NOTIFY queue";
    assert_eq!(error(&notifier, &format!("NOTIFY c, '{payload}'")).await, full);
    assert_eq!(error(&notifier, &format!("SELECT pg_notify('c', '{payload}')")).await, full);
    // The transaction is not committed without what it tells.
    assert_eq!(
        error(&notifier, &format!("BEGIN; INSERT INTO t VALUES (1); NOTIFY c, '{payload}'; COMMIT")).await,
        full
    );
    assert_eq!(rows(&notifier, "SELECT count(*) FROM t").await?, ["0"]);
    // What nobody listens to has a place.
    notifier.batch_execute(&format!("NOTIFY d, '{payload}'")).await?;
    slow.client.batch_execute("COMMIT").await?;
    let (line, mut heard) = (format!("c|{payload}"), 0);
    while heard < fits {
        slow.hears_one(from, &line).await?;
        heard += 1;
    }
    notifier.batch_execute("BEGIN; INSERT INTO t VALUES (1); NOTIFY c, 'again'; COMMIT").await?;
    slow.hears(from, &["c|again"]).await?;
    let many = format!("SELECT count(pg_notify('c', a::text)) FROM generate_series(0, {QUEUED_MAX}) a");
    assert_eq!(error(&notifier, &many).await, full);
    notifier.batch_execute("NOTIFY c, 'end'").await?;
    slow.hears(from, &["c|end"]).await?;
    let channels: String = (0..1_025).map(|channel| format!("LISTEN c{channel};")).collect();
    assert_eq!(error(&slow.client, &channels).await, "54000 a session listens to at most 1024 channels");
    Ok(())
}

impl Listener {
    async fn hears_one(&mut self, from: i32, expected: &str) -> Result<()> {
        let told = self.told.recv().await.context("the connection ended")?;
        assert_eq!(told, format!("{from} {expected}"));
        Ok(())
    }
}

#[tokio::test]
async fn notifications_come_before_the_session_is_ready() -> Result<()> {
    let harness = Harness::start().await?;
    harness.tenant("alto").await?;
    let (mut raw, _) = Raw::log_in(harness.address(), "alto", PASSWORD, "alto").await?;
    raw.message(b'Q', b"LISTEN a; NOTIFY a; SELECT pg_notify('a', 'x')\0").await?;
    assert_eq!(raw.replies().await?, "CCTDCAAZ");
    // In the extended protocol: at Sync.
    raw.message(b'P', b"\0NOTIFY a\0\0\0").await?;
    raw.message(b'B', b"\0\0\0\0\0\0\0\0").await?;
    raw.message(b'E', b"\0\0\0\0\0").await?;
    raw.message(b'S', b"").await?;
    assert_eq!(raw.replies().await?, "12CAZ");
    raw.message(b'Q', b"BEGIN; NOTIFY a\0").await?;
    assert_eq!(raw.replies().await?, "CCZ");
    raw.message(b'Q', b"COMMIT\0").await?;
    assert_eq!(raw.replies().await?, "CAZ");
    Ok(())
}

#[tokio::test]
async fn who_begins_to_listen_hears_of_what_it_does_not_see() -> Result<()> {
    const WRITES: usize = 100;
    let harness = Harness::start().await?;
    let notifier = harness.tenant("alto").await?;
    notifier.batch_execute("CREATE TABLE t (a int PRIMARY KEY)").await?;
    let config = harness.config("alto", PASSWORD, "alto");
    let writer = tokio::spawn(async move {
        for a in 0..WRITES {
            notifier.batch_execute(&format!("BEGIN; INSERT INTO t VALUES ({a}); NOTIFY t, '{a}'; COMMIT")).await?;
        }
        Ok::<_, tokio_postgres::Error>(())
    });
    let config = Arc::new(config);
    let mut listeners = Vec::new();
    for _ in 0..10 {
        let listener = Listener::connect(&config).await?;
        listener.client.batch_execute("LISTEN t").await?;
        let seen = rows(&listener.client, "SELECT count(*) FROM t").await?[0].parse::<usize>()?;
        listeners.push((listener, seen));
    }
    writer.await??;
    for (mut listener, seen) in listeners {
        // It may hear of some that it has seen, and of all that come after these, in their order.
        let first = match WRITES - seen {
            0 => continue,
            _ => listener.told.recv().await.context("the connection ended")?,
        };
        let first: usize = first.rsplit('|').next().unwrap_or_default().parse()?;
        assert!(first <= seen, "{first} {seen}");
        for next in first + 1..WRITES {
            let told = listener.told.recv().await.context("the connection ended")?;
            assert!(told.ends_with(&format!("|{next}")), "{told} {next}");
        }
    }
    Ok(())
}
