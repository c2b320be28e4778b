//! The messages of OTLP that are sent, with the numbers that opentelemetry-proto 1.x gives to their fields
//! (<https://github.com/open-telemetry/opentelemetry-proto>); fields that are not used are left out.
//!
//! Attributes are named by OpenTelemetry's conventions for databases, the stable names and those before them.

use super::Span;
use prost::Message;
use rand::RngCore;

/// The kind of a span that answers a request.
const SERVER: i32 = 2;
/// The code of a status that is an error.
const ERROR: i32 = 2;

#[derive(Clone, PartialEq, Message)]
pub(super) struct ExportTraceServiceRequest {
    #[prost(message, repeated, tag = "1")]
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct Resource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    scope: Option<InstrumentationScope>,
    #[prost(message, repeated, tag = "2")]
    spans: Vec<SpanMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct InstrumentationScope {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    version: String,
}

#[derive(Clone, PartialEq, Message)]
struct SpanMessage {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(int32, tag = "6")]
    kind: i32,
    #[prost(fixed64, tag = "7")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
    #[prost(message, optional, tag = "15")]
    status: Option<Status>,
}

#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(int32, tag = "3")]
    code: i32,
}

#[derive(Clone, PartialEq, Message)]
struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct AnyValue {
    #[prost(oneof = "Value", tags = "1, 3")]
    value: Option<Value>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Value {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(int64, tag = "3")]
    Number(i64),
}

fn text(key: &str, value: impl Into<String>) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(Value::Text(value.into())) }) }
}

fn number(key: &str, value: i64) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(Value::Number(value)) }) }
}

/// A request with spans.
pub(super) fn request(spans: Vec<Span>) -> ExportTraceServiceRequest {
    let version = env!("CARGO_PKG_VERSION");
    let scope = InstrumentationScope { name: "keyspan".to_owned(), version: version.to_owned() };
    let attributes = vec![text("service.name", "keyspan"), text("service.version", version)];
    let spans = spans.into_iter().map(message).collect();
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(Resource { attributes }),
            scope_spans: vec![ScopeSpans { scope: Some(scope), spans }],
        }],
    }
}

fn message(span: Span) -> SpanMessage {
    let (mut trace_id, mut span_id) = (vec![0; 16], vec![0; 8]);
    let mut random = rand::rng();
    random.fill_bytes(&mut trace_id);
    random.fill_bytes(&mut span_id);
    let end_time_unix_nano = u64::try_from(span.ended_micros).unwrap_or_default().saturating_mul(1_000);
    let took = u64::try_from(span.took.as_nanos()).unwrap_or(u64::MAX);
    let operation = span.operation.to_uppercase();
    let name = format!("{operation} {}", span.database);
    let mut attributes = vec![
        text("db.system", "postgresql"),
        text("db.system.name", "postgresql"),
        text("db.namespace", span.database),
        text("db.operation", operation.clone()),
        text("db.operation.name", operation),
        text("db.user", span.role),
        number("db.postgresql.pid", span.process_id.into()),
        number("db.response.returned_rows", i64::try_from(span.rows).unwrap_or(i64::MAX)),
    ];
    if !span.text.is_empty() {
        attributes.push(text("db.query.text", span.text));
    }
    if let Some(state) = span.error {
        attributes.push(text("db.response.status_code", state));
        attributes.push(text("error.type", state));
    }
    SpanMessage {
        trace_id,
        span_id,
        name,
        kind: SERVER,
        start_time_unix_nano: end_time_unix_nano.saturating_sub(took),
        end_time_unix_nano,
        attributes,
        status: span.error.map(|_| Status { code: ERROR }),
    }
}
