//! Traces: a collector that the test is gets a span of each statement, without values; one that is down costs nothing.

use super::harness::{Harness, error, rows};
use anyhow::{Context, Result, ensure};
use keyspan_gateway::traces::Collector;
use std::{collections::BTreeMap, net::SocketAddr};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpListener,
    sync::mpsc,
};

/// A request that a collector got.
struct Request {
    head: String,
    body: Vec<u8>,
}

/// Answers all requests with a status, and hands them on.
async fn collector(status: &'static str) -> Result<(SocketAddr, mpsc::UnboundedReceiver<Request>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let (sender, receiver) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let sender = sender.clone();
            tokio::spawn(async move {
                let mut stream = BufReader::new(stream);
                while let Ok(request) = read(&mut stream).await {
                    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
                    if stream.write_all(answer.as_bytes()).await.is_err() || sender.send(request).is_err() {
                        return;
                    }
                }
            });
        }
    });
    Ok((address, receiver))
}

async fn read(stream: &mut BufReader<tokio::net::TcpStream>) -> Result<Request> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        ensure!(stream.read_line(&mut line).await? > 0, "the end");
        if line == "\r\n" {
            break;
        }
        let line = line.to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(Request { head, body })
}

/// A field of a protobuf message.
#[derive(Clone, Debug, PartialEq)]
enum Field {
    Number(u64),
    Bytes(Vec<u8>),
}

impl Field {
    fn message(&self) -> Result<Vec<(u64, Field)>> {
        match self {
            Self::Bytes(bytes) => message(bytes),
            Self::Number(number) => anyhow::bail!("{number} is no message"),
        }
    }

    fn text(&self) -> Result<String> {
        match self {
            Self::Bytes(bytes) => Ok(String::from_utf8(bytes.clone())?),
            Self::Number(number) => Ok(number.to_string()),
        }
    }
}

/// The fields of a message with their numbers, read by protobuf's wire format.
fn message(mut bytes: &[u8]) -> Result<Vec<(u64, Field)>> {
    fn varint(bytes: &mut &[u8]) -> Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (first, rest) = bytes.split_first().context("a byte")?;
            *bytes = rest;
            value |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                return Ok(value);
            }
        }
        anyhow::bail!("a number that is too long")
    }
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let field = match tag & 7 {
            0 => Field::Number(varint(&mut bytes)?),
            1 => {
                let (number, rest) = bytes.split_first_chunk().context("8 bytes")?;
                bytes = rest;
                Field::Number(u64::from_le_bytes(*number))
            }
            2 => {
                let length = usize::try_from(varint(&mut bytes)?)?;
                let (own, rest) = bytes.split_at_checked(length).context("as many bytes")?;
                bytes = rest;
                Field::Bytes(own.to_vec())
            }
            other => anyhow::bail!("wire type {other}"),
        };
        fields.push((tag >> 3, field));
    }
    Ok(fields)
}

fn all(fields: &[(u64, Field)], number: u64) -> impl Iterator<Item = &Field> {
    fields.iter().filter(move |(own, _)| *own == number).map(|(_, field)| field)
}

fn one(fields: &[(u64, Field)], number: u64) -> Result<&Field> {
    all(fields, number).next().with_context(|| format!("field {number} of {fields:?}"))
}

fn attributes(fields: &[(u64, Field)], number: u64) -> Result<BTreeMap<String, String>> {
    let attribute = |field: &Field| {
        let field = field.message()?;
        let value = one(&field, 2)?.message()?;
        let (_, value) = value.first().context("a value")?;
        Ok((one(&field, 1)?.text()?, value.text()?))
    };
    all(fields, number).map(attribute).collect()
}

/// A span as the collector reads it.
struct Span {
    name: String,
    attributes: BTreeMap<String, String>,
    nanos: u64,
    status: Option<String>,
    trace: Vec<u8>,
}

fn spans(body: &[u8]) -> Result<Vec<Span>> {
    let mut found = Vec::new();
    for resource in all(&message(body)?, 1) {
        let resource = resource.message()?;
        let of = attributes(&one(&resource, 1)?.message()?, 1)?;
        assert_eq!(of["service.name"], "keyspan");
        for scope in all(&resource, 2) {
            for span in all(&scope.message()?, 2) {
                let span = span.message()?;
                let (Field::Bytes(trace), Field::Bytes(id)) = (one(&span, 1)?, one(&span, 2)?) else {
                    anyhow::bail!("ids are bytes")
                };
                assert_eq!((trace.len(), id.len()), (16, 8));
                let (Field::Number(start), Field::Number(end)) = (one(&span, 7)?, one(&span, 8)?) else {
                    anyhow::bail!("times are numbers")
                };
                let status = all(&span, 15).next().map(Field::message).transpose()?;
                found.push(Span {
                    name: one(&span, 5)?.text()?,
                    attributes: attributes(&span, 9)?,
                    nanos: end - start,
                    status: status.map(|status| one(&status, 3)?.text()).transpose()?,
                    trace: trace.clone(),
                });
            }
        }
    }
    Ok(found)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_statement_is_a_span_without_values() -> Result<()> {
    let (address, mut requests) = collector("200 OK").await?;
    let traces = Some(Collector::at(&format!("http://{address}"))?);
    let mut harness = Harness::start_with(|options| options.traces = traces).await?;
    let client = harness.tenant("alto").await?;
    client.batch_execute("CREATE TABLE t (k bigint PRIMARY KEY, v text)").await?;
    client.execute("INSERT INTO t VALUES ($1, 'secret')", &[&1_i64]).await?;
    rows(&client, "SELECT v FROM t WHERE v = 'secret'").await?;
    assert!(error(&client, "SELECT 1 / 0 AS secret_7 FROM t WHERE v = 'secret'").await.starts_with("22012"));
    drop(client);
    // What waits is sent before the server has stopped.
    harness.stop().await?;
    let mut found = Vec::new();
    while let Ok(request) = requests.try_recv() {
        assert!(request.head.starts_with("post /v1/traces http/1.1"), "{}", request.head);
        assert!(request.head.contains("content-type: application/x-protobuf"), "{}", request.head);
        assert!(!request.body.windows(7).any(|part| part == b"secret'"), "a value");
        found.extend(spans(&request.body)?);
    }
    let of = |text: &str| {
        let is_it = |span: &&Span| span.attributes.get("db.query.text").is_some_and(|own| own == text);
        found.iter().find(is_it).with_context(|| format!("a span of {text}"))
    };
    let insert = of("INSERT INTO t VALUES ($1 /*, ... */)")?;
    assert_eq!((insert.name.as_str(), &insert.status), ("INSERT alto", &None));
    let expected = [
        ("db.system", "postgresql"),
        ("db.namespace", "alto"),
        ("db.operation", "INSERT"),
        ("db.operation.name", "INSERT"),
        ("db.user", "alto"),
        ("db.response.returned_rows", "1"),
    ];
    for (name, value) in expected {
        assert_eq!(insert.attributes.get(name).map(String::as_str), Some(value), "{name}");
    }
    assert!(insert.nanos > 0 && !insert.attributes.contains_key("error.type"));
    let select = of("SELECT v FROM t WHERE v = $1")?;
    assert_eq!((select.attributes["db.operation"].as_str(), &select.status), ("SELECT", &None));
    let failed = of("SELECT $1 / $2 AS secret_7 FROM t WHERE v = $3")?;
    let codes = ["db.response.status_code", "error.type"].map(|name| failed.attributes[name].as_str());
    assert_eq!((codes, failed.status.as_deref()), (["22012"; 2], Some("2")));
    // The operator's statements are spans of its own database.
    assert!(found.iter().any(|span| span.attributes["db.namespace"] == "keyspan"));
    let traces: std::collections::BTreeSet<_> = found.iter().map(|span| &span.trace).collect();
    assert_eq!(traces.len(), found.len(), "ids are random");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_down_costs_spans_alone() -> Result<()> {
    // A port that nobody listens on, and a collector that refuses.
    let closed = TcpListener::bind("127.0.0.1:0").await?.local_addr()?;
    let (refusing, mut refused) = collector("503 Service Unavailable").await?;
    for address in [closed, refusing] {
        let traces = Some(Collector::at(&format!("http://{address}"))?);
        let mut harness = Harness::start_with(|options| options.traces = traces).await?;
        let client = harness.tenant("alto").await?;
        client.batch_execute("CREATE TABLE t (k bigint PRIMARY KEY)").await?;
        for k in 0..20_i64 {
            client.execute("INSERT INTO t VALUES ($1)", &[&k]).await?;
        }
        assert_eq!(rows(&client, "SELECT count(*) FROM t").await?, ["20"]);
        drop(client);
        harness.stop().await?;
    }
    assert!(refused.try_recv().is_ok());
    Ok(())
}
