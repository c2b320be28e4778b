//! `keyspan advise`: what a running server has seen of its tables that would be better in another way.

use super::client::{ServerOptions, told};
use anyhow::{Context, Result};
use clap::Args;
use keyspan_gateway::resources::Size;
use std::io::{IsTerminal, Write, stdout};
use tokio_postgres::SimpleQueryMessage;

/// Characters of a line on a terminal.
const LINE_CHARS: usize = 100;

/// What is asked for: numbers as text.
const QUERY: &str = "SELECT tenant, table_name, kind, advice, seen, bytes, statement FROM keyspan.advice";

/// The help's end.
pub const HELP: &str = "\
Counted is what statements have done on the last seven days, or since pg_stat_reset(). In database keyspan the advice is on
all tables, in a tenant's on those that it sees; SQL has the same in keyspan.advice. Nothing is changed: each advice comes with the
statements that would do it, to be looked at and run by hand. The command connects without TLS.

Examples:
  keyspan advise                                     all advice of the server on 127.0.0.1:5433
  keyspan advise --statements > better.sql           the statements alone, with the advice as comments
  keyspan advise --server 10.0.0.7:5432 --user ana --database altostrat";

/// The options of `keyspan advise`.
#[derive(Clone, Debug, Args)]
pub struct AdviseOptions {
    /// Print a script: the statements, with the advice as comments.
    #[arg(long)]
    statements: bool,

    /// Where.
    #[command(flatten)]
    server: ServerOptions,
}

/// An advice of the server.
#[derive(Debug, Default)]
struct Advice {
    on: String,
    kind: String,
    text: String,
    bytes: Option<u64>,
    statement: Option<String>,
}

/// Asks a server, and prints its advice.
///
/// # Errors
/// If the server cannot be reached or refuses.
pub async fn run(options: AdviseOptions) -> Result<()> {
    let context = || format!("cannot ask {} for advice", options.server.address);
    let client = options.server.connect("keyspan advise").await.with_context(context)?;
    let answer = client.simple_query(QUERY).await.map_err(|error| told(&error)).with_context(context)?;
    let rows = answer.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let advice: Vec<Advice> = rows
        .map(|row| {
            let text = |at: usize| row.get(at).unwrap_or_default().to_owned();
            let on: Vec<&str> = [row.get(0), row.get(1)].into_iter().flatten().collect();
            Advice {
                on: if on.is_empty() { "all tenants".to_owned() } else { on.join(": ") },
                kind: text(2),
                text: text(3),
                bytes: row.get(5).and_then(|bytes| bytes.parse().ok()),
                statement: row.get(6).map(str::to_owned),
            }
        })
        .collect();
    let printed = if options.statements { script(&advice) } else { page(&advice, stdout().is_terminal()) };
    stdout().write_all(printed.as_bytes()).context("cannot write to standard output")
}

/// The advice for people.
fn page(advice: &[Advice], bold: bool) -> String {
    if advice.is_empty() {
        return "No advice: nothing was seen that the field would do in another way.\n".to_owned();
    }
    let mut out = String::new();
    for one in advice {
        let bytes = one.bytes.map(|bytes| format!(", {}", Size(bytes))).unwrap_or_default();
        let title = format!("{} ({}{bytes})", one.on, one.kind.replace('_', " "));
        out += &if bold { format!("\x1b[1m{title}\x1b[0m\n") } else { format!("{title}\n") };
        wrapped(&one.text, "  ", &mut out);
        for line in one.statement.iter().flat_map(|statement| statement.lines()) {
            out += &format!("      {line}\n");
        }
        out.push('\n');
    }
    out
}

/// The statements, with the advice as comments.
fn script(advice: &[Advice]) -> String {
    let mut out = String::new();
    for one in advice.iter().filter(|one| one.statement.is_some()) {
        out += &format!("-- {} ({})\n", one.on, one.kind);
        wrapped(&one.text, "-- ", &mut out);
        out += one.statement.as_deref().unwrap_or_default();
        out += "\n\n";
    }
    out
}

/// Lines of words, each behind `before`.
fn wrapped(text: &str, before: &str, out: &mut String) {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > LINE_CHARS {
            out.push_str(&format!("{before}{line}\n"));
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    out.push_str(&format!("{before}{line}\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_is_printed_for_people_and_as_a_script() {
        let advice = [
            Advice {
                on: "alto: log".to_owned(),
                kind: "scan_without_range".to_owned(),
                text: "word ".repeat(40),
                bytes: Some(3 << 20),
                statement: Some("CREATE TABLE x ();\nSELECT 1;".to_owned()),
            },
            Advice { on: "t".to_owned(), kind: "wide_row".to_owned(), text: "Wide.".to_owned(), ..Advice::default() },
        ];
        let line = "word ".repeat(20);
        let line = line.trim_end();
        let page = page(&advice, false);
        assert_eq!(
            page,
            format!(
                "alto: log (scan without range, {})\n  {line}\n  {line}\n      CREATE TABLE x ();\n      SELECT 1;\n\n\
                 t (wide row)\n  Wide.\n\n",
                Size(3 << 20)
            )
        );
        assert_eq!(
            script(&advice),
            format!("-- alto: log (scan_without_range)\n-- {line}\n-- {line}\nCREATE TABLE x ();\nSELECT 1;\n\n")
        );
    }
}
