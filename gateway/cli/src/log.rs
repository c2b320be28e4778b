//! What the program writes to standard error: text where a person reads it, lines of JSON where a program does.
//!
//! The JSON has the keys of PostgreSQL's `jsonlog`, so that its tools read it; a slow statement has PostgreSQL's words.
//! What an event has beside these is a key of its own.

use clap::ValueEnum;
use serde_json::{Map, Value};
use std::{
    fmt::{self, Debug, Write as _},
    io::{self, IsTerminal},
};
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    EnvFilter,
    fmt::{FmtContext, FormatEvent, FormatFields, format::Writer, time::FormatTime},
    registry::LookupSpan,
};

/// The target of slow statements: they are logged whatever the filter says, since a setting asks for them.
const SLOW: &str = "keyspan::slow";

/// The form of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    #[default]
    Auto,
    /// Text.
    Text,
    /// Lines of JSON.
    Json,
}

/// Begins to log, by `KEYSPAN_LOG`.
pub fn begin(format: LogFormat) {
    let filter = EnvFilter::try_from_env("KEYSPAN_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    let filter = match format!("{SLOW}=info").parse() {
        Ok(slow) => filter.add_directive(slow),
        Err(_) => filter,
    };
    let is_terminal = io::stderr().is_terminal();
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    match format {
        LogFormat::Json => builder.event_format(Json).init(),
        LogFormat::Auto if !is_terminal => builder.event_format(Json).init(),
        LogFormat::Auto | LogFormat::Text => builder.with_ansi(is_terminal).init(),
    }
}

/// Lines of JSON.
struct Json;

impl<S, N> FormatEvent<S, N> for Json
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut time = String::new();
        tracing_subscriber::fmt::time::SystemTime.format_time(&mut Writer::new(&mut time))?;
        let mut fields = Fields::default();
        event.record(&mut fields);
        let line = line(&time, event.metadata().level(), event.metadata().target(), fields);
        writeln!(writer, "{}", Value::Object(line))
    }
}

/// The object of an event. `time` is as `2026-11-25T18:50:00.123456Z`.
fn line(time: &str, level: &Level, target: &str, fields: Fields) -> Map<String, Value> {
    let Fields { mut message, mut others } = fields;
    let mut line = Map::new();
    // PostgreSQL has milliseconds and the zone's name.
    let stamp = time.get(..23).map_or_else(|| time.to_owned(), |short| format!("{} UTC", short.replace('T', " ")));
    line.insert("timestamp".into(), stamp.into());
    for (ours, theirs) in [("user", "user"), ("role", "user"), ("database", "dbname"), ("pid", "pid")] {
        if let Some(value) = others.remove(ours) {
            line.insert(theirs.into(), value);
        }
    }
    if let Some(value) = others.remove("sqlstate") {
        line.insert("state_code".into(), value);
    }
    let severity = match *level {
        Level::ERROR => "ERROR",
        Level::WARN => "WARNING",
        Level::INFO => "LOG",
        Level::DEBUG => "DEBUG1",
        Level::TRACE => "DEBUG5",
    };
    line.insert("error_severity".into(), severity.into());
    if target == SLOW
        && let (Some(duration), Some(statement)) = (others.remove("duration_ms"), others.remove("statement"))
    {
        let (duration, statement) =
            (duration.as_f64().unwrap_or_default(), statement.as_str().unwrap_or_default().to_owned());
        message = format!("duration: {duration:.3} ms  statement: {statement}");
        line.insert("backend_type".into(), "client backend".into());
    }
    line.insert("message".into(), message.into());
    line.insert("target".into(), target.into());
    for (name, value) in others {
        // Keys that PostgreSQL has stay what they are there.
        let name = if line.contains_key(&name) { format!("{name}_") } else { name };
        line.insert(name, value);
    }
    line
}

/// The fields of an event.
#[derive(Default)]
struct Fields {
    message: String,
    others: Map<String, Value>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::String(text)) => self.message = text,
            (name, value) => drop(self.others.insert(name.to_owned(), value)),
        }
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let mut text = String::new();
        // Into a String: it does not fail.
        let _ = write!(text, "{value:?}");
        self.put(field, text.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(target: &str, message: &str, others: &[(&str, Value)]) -> Value {
        let others = others.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let fields = Fields { message: message.to_owned(), others };
        Value::Object(line("2026-11-25T18:50:00.123456Z", &Level::WARN, target, fields))
    }

    #[test]
    fn a_line_has_the_keys_of_postgres() {
        let line = of(
            "keyspan_gateway::server",
            "refused",
            &[("role", "ana".into()), ("sqlstate", "28P01".into()), ("peer", "::1".into())],
        );
        let expected = serde_json::json!({
            "timestamp": "2026-11-25 18:50:00.123 UTC", "user": "ana", "error_severity": "WARNING", "state_code": "28P01",
            "message": "refused", "target": "keyspan_gateway::server", "peer": "::1"
        });
        assert_eq!(line, expected);
    }

    #[test]
    fn a_slow_statement_has_the_words_of_postgres() {
        let line = of(
            SLOW,
            "slow statement",
            &[("duration_ms", 1.5.into()), ("statement", "SELECT $1".into()), ("plan", "Result".into())],
        );
        assert_eq!(line["message"], "duration: 1.500 ms  statement: SELECT $1");
        assert_eq!(line["plan"], "Result");
    }
}
