//! Bytes of no sense, and clients in crowds: each connection gets an answer or its end, and nobody else notices.

use super::harness::{Harness, OPERATOR_PASSWORD, PASSWORD, Raw, rows, told};
use anyhow::{Context, Result};
use proptest::{
    collection::vec,
    prelude::*,
    sample::select,
    strategy::ValueTree,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};

/// Runs of messages that are sent.
const RUNS: usize = 60;
/// Connections that are attempted.
const ATTEMPTS: usize = 10_000;
/// Of these, at a time.
const AT_A_TIME: usize = 200;

/// Bodies that are messages of their type, or were.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let texts = select(vec![
        &b"SELECT 1\0"[..],
        b"BEGIN\0",
        b"SELECT $1::int\0",
        b"s\0SELECT $1, $2\0\0\x01\0\0\0\x17",
        b"\0SELECT * FROM t\0\0\0",
        b"p\0s\0\0\x01\0\x01\0\x01\0\0\0\x04\0\0\0\x07\0\0",
        b"\0\0\0\0\0\0\0\0",
        b"\0\0\0\0\x02",
        b"S\0",
        b"Ps\0",
        b"COPY t (k) FROM STDIN\0",
        b"COPY t (k) TO STDOUT (FORMAT binary)\0",
        b"\0COPY t FROM STDIN BINARY\0\0\0",
        b"1\n2\n\\.\n",
        b"PGCOPY\n\xff\r\n\0",
        b"DECLARE c SCROLL CURSOR WITH HOLD FOR SELECT 1; FETCH -1 FROM c\0",
        b"SAVEPOINT s; ROLLBACK TO s\0",
        b"",
    ]);
    let cut = (texts, any::<prop::sample::Index>(), any::<u8>(), 0..4_u8).prop_map(|(text, at, byte, how)| {
        let mut body = text.to_vec();
        let at = at.index(body.len() + 1);
        match how {
            0 => body.truncate(at),
            1 if at < body.len() => body[at] = byte,
            2 => body.insert(at, byte),
            _ => {}
        }
        body
    });
    prop_oneof![6 => cut, 1 => vec(any::<u8>(), 0..64)]
}

/// Messages of every type that a client has; now and then one of none, or with a length that is not its own.
fn messages() -> impl Strategy<Value = Vec<u8>> {
    let kind = select(b"QQPPBDECSHdcfFp".to_vec());
    let whole = (kind, body()).prop_map(|(kind, body)| frame(kind, body.len() as u32 + 4, &body));
    let odd = (any::<u8>(), any::<u32>(), body()).prop_map(|(kind, length, body)| frame(kind, length, &body));
    vec(prop_oneof![40 => whole, 1 => odd], 1..12).prop_map(|messages| messages.concat())
}

fn frame(kind: u8, length: u32, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &length.to_be_bytes(), body].concat()
}

/// First packets, and what is none.
fn packets() -> impl Strategy<Value = Vec<u8>> {
    let version = select(vec![196_608_u32, 196_610, 80_877_102, 80_877_103, 80_877_104, 131_072, 0]);
    let parameters =
        select(vec![&b"user\0alto\0\0"[..], b"user\0\0\0", b"user\0alto", b"\0", b"options\0-c\0user\0a\0\0"]);
    let packet =
        (version, parameters, vec(any::<u8>(), 0..8), -3..4_i32).prop_map(|(version, parameters, more, off)| {
            let body = [parameters, &more].concat();
            let length = (body.len() as i32 + 8 + off) as u32;
            [&length.to_be_bytes()[..], &version.to_be_bytes(), &body].concat()
        });
    prop_oneof![4 => packet, 1 => vec(any::<u8>(), 1..64)]
}

/// What the server answers up to its end, which may come while it is still sent something.
async fn answers(raw: &mut Raw) -> Result<Vec<String>> {
    let mut errors = Vec::new();
    while let Ok(Some((kind, body))) = raw.next().await {
        anyhow::ensure!(b"123ACDEGHIKNRSTZcdnstv".contains(&kind), "a message of type {kind}");
        if kind == b'E' {
            let fields = body[..].split(|byte| *byte == 0).map(|field| String::from_utf8_lossy(field).into_owned());
            errors.push(fields.collect::<Vec<_>>().join(" "));
        }
    }
    Ok(errors)
}

#[tokio::test]
async fn messages_of_no_sense_end_at_most_their_connection() -> Result<()> {
    let harness = Harness::start().await?;
    let other = harness.tenant("alto").await?;
    harness.operator().await?.batch_execute("CREATE TABLE t (k bigint PRIMARY KEY)").await?;
    other.batch_execute("BEGIN; INSERT INTO t VALUES (-1)").await?;
    let mut runner = TestRunner::new_with_rng(Config::default(), TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let mut draw = |run: usize| -> Result<Vec<u8>> {
        let drawn = if run.is_multiple_of(3) { packets().boxed() } else { messages().boxed() };
        Ok(drawn.new_tree(&mut runner).map_err(|error| anyhow::anyhow!("{error}"))?.current())
    };
    for run in 0..RUNS {
        let bytes = draw(run)?;
        let mut raw = if run.is_multiple_of(3) {
            Raw::connect(harness.address()).await?
        } else {
            Raw::log_in(harness.address(), "alto", PASSWORD, "alto").await?.0
        };
        if raw.send(&bytes).await.is_ok() {
            let _ = raw.end().await;
        }
        let errors =
            answers(&mut raw).await.with_context(|| format!("after {:?}", bytes.escape_ascii().to_string()))?;
        let fault = errors.iter().find(|error| error.contains("CXX000"));
        assert_eq!(fault, None, "after {}", bytes.escape_ascii());
    }
    // The session beside them has its transaction.
    other.batch_execute("COMMIT").await?;
    assert_eq!(rows(&other, "SELECT count(*) FROM t WHERE k = -1").await?, ["1"]);
    Ok(())
}

#[tokio::test]
async fn ten_thousand_connection_attempts_leave_room_for_the_next() -> Result<()> {
    let harness = Harness::start_with(|options| options.connections_max = 20).await?;
    let operator = harness.operator().await?;
    let address = harness.address();
    for wave in 0..ATTEMPTS / AT_A_TIME {
        let attempts = (0..AT_A_TIME).map(|at| async move {
            let Ok(mut raw) = Raw::connect(address).await else { return };
            // Some say nothing, some half of a word, some who they are; those beyond the bound are refused or closed.
            // Whatever becomes of a refused one's bytes is no concern of the client's.
            let _ = match (wave + at) % 3 {
                0 => Ok(()),
                1 => raw.send(b"\0\0\0\x20\0\x03\0").await,
                _ => raw.startup(196_608, b"user\0keyspan\0\0").await,
            };
        });
        futures::future::join_all(attempts).await;
        assert_eq!(rows(&operator, "SELECT 1").await?, ["1"], "in wave {wave}");
    }
    // All of them are gone; the server learns of the last ones as it gets to them.
    loop {
        match Raw::log_in(harness.address(), "keyspan", OPERATOR_PASSWORD, "keyspan").await {
            Ok(_) => return Ok(()),
            Err(_) => tokio::task::yield_now().await,
        }
    }
}

#[tokio::test]
async fn parameters_of_many_megabytes_and_in_great_number_are_taken_or_refused() -> Result<()> {
    let harness = Harness::start().await?;
    let client = harness.operator().await?;
    let large = "x".repeat(24 << 20);
    let row = client.query_one("SELECT length($1::text)", &[&large]).await?;
    assert_eq!(row.get::<_, i32>(0), 24 << 20);
    let (mut raw, _) = Raw::log_in(harness.address(), "keyspan", OPERATOR_PASSWORD, "keyspan").await?;
    // More values than the statement has parameters, up to the most that a message can count.
    raw.message(b'P', b"s\0SELECT 1\0\0\0").await?;
    let mut bind = b"\0s\0\0\0\xff\xff".to_vec();
    bind.extend((0..u16::MAX).flat_map(|_| [0xff; 4]));
    bind.extend([0, 0]);
    raw.message(b'B', &bind).await?;
    raw.message(b'S', b"").await?;
    assert_eq!(raw.replies().await?, "1[08P01]Z");
    // A value that is longer than its message.
    raw.message(b'B', b"\0s\0\0\0\0\x01\x7f\xff\xff\xff\0\0").await?;
    raw.message(b'S', b"").await?;
    assert_eq!(raw.replies().await?, "[08P01]Z");
    Ok(())
}

#[tokio::test]
async fn idle_sessions_are_ended_when_they_ask_for_it() -> Result<()> {
    let harness = Harness::start().await?;
    let (mut raw, _) = Raw::log_in(harness.address(), "keyspan", OPERATOR_PASSWORD, "keyspan").await?;
    raw.message(b'Q', b"SET idle_session_timeout = '20ms'\0").await?;
    assert_eq!(raw.replies().await?, "CZ");
    assert_eq!(raw.replies().await?, "[57P05].");
    let (mut raw, _) = Raw::log_in(harness.address(), "keyspan", OPERATOR_PASSWORD, "keyspan").await?;
    raw.message(b'Q', b"SET idle_in_transaction_session_timeout = '20ms'\0").await?;
    assert_eq!(raw.replies().await?, "CZ");
    raw.message(b'Q', b"BEGIN\0").await?;
    assert_eq!(raw.replies().await?, "CZ");
    assert_eq!(raw.replies().await?, "[25P03].");
    Ok(())
}

#[tokio::test]
async fn texts_of_prepared_statements_are_bounded() -> Result<()> {
    let harness = Harness::start().await?;
    let client = harness.tenant("alto").await?;
    // A comment of eight megabytes, which costs nothing to read: three have room, four and a little do not.
    let text = |nth: usize| format!("SELECT {nth} -- {}", "x".repeat(8 << 20));
    let mut kept = Vec::new();
    for nth in 0..3 {
        kept.push(client.prepare(&text(nth)).await?);
    }
    let refused = client.prepare(&text(3)).await.err().context("32 MiB are taken")?;
    assert_eq!(told(&refused), "54000 the prepared statements of a connection have more than 32 MiB of text");
    // Those that were made are of use, and closing one makes room.
    assert_eq!(client.query_one(&kept[1], &[]).await?.get::<_, i32>(0), 1);
    drop(kept.pop());
    while client.prepare(&text(4)).await.is_err() {}
    Ok(())
}
