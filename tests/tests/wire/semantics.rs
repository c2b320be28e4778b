//! The semantics that the design numbers, over the wire; each test names its number.
//!
//! A test is a transcript: lines `name> statement`, each followed by what it gave. The statements are run again, one
//! after the other, in a session for each name, and the transcript that this makes must be the same.

mod bad_input;
mod concurrency;
mod extended;
mod repeated;
mod rows;
mod statements;
mod types;
mod versions;
mod writes;

use super::{harness::Harness, slt::shown};
use anyhow::Result;
use expect_test::Expect;
use std::collections::HashMap;
use tokio_postgres::{Client, SimpleQueryMessage};

/// The sessions of a transcript: `op` is the operator's; names that begin with `s` are those of tenant `altostrat`, all
/// others of tenant `alto`, which is the beginning of that name.
struct Sessions {
    harness: Harness,
    clients: HashMap<String, Client>,
}

impl Sessions {
    async fn start() -> Result<Self> {
        let harness = Harness::start().await?;
        harness.tenant("alto").await?;
        harness.tenant("altostrat").await?;
        Ok(Self { harness, clients: HashMap::new() })
    }

    async fn get(&mut self, name: &str) -> Result<&Client> {
        if !self.clients.contains_key(name) {
            let client = match name {
                "op" => self.harness.operator().await?,
                name if name.starts_with('s') => self.harness.connect("altostrat", "altostrat").await?,
                _ => self.harness.connect("alto", "alto").await?,
            };
            self.clients.insert(name.to_owned(), client);
        }
        Ok(&self.clients[name])
    }

    /// Runs what a transcript tells and compares.
    async fn check(&mut self, transcript: Expect) -> Result<()> {
        let mut made = Vec::new();
        for line in transcript.data().lines().map(str::trim_start) {
            let Some((name, sql)) = line.split_once("> ").filter(|(name, _)| is_name(name)) else { continue };
            made.push(line.to_owned());
            made.push(answer(self.get(name).await?, sql).await);
        }
        made.retain(|line| !line.is_empty());
        transcript.assert_eq(&format!("{}\n", made.join("\n")));
        Ok(())
    }
}

/// Runs what a transcript tells on a fresh server and compares.
async fn check(transcript: Expect) -> Result<()> {
    Sessions::start().await?.check(transcript).await
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// The rows that a statement gave, the number of rows that it touched, or its error.
async fn answer(client: &Client, sql: &str) -> String {
    let messages = match client.simple_query(sql).await {
        Ok(messages) => messages,
        Err(error) => return error.as_db_error().map_or_else(|| format!("not from the server: {error:?}"), shown),
    };
    let mut lines = Vec::new();
    let mut is_query = false;
    for message in messages {
        match message {
            SimpleQueryMessage::RowDescription(_) => is_query = true,
            SimpleQueryMessage::Row(row) => {
                let values: Vec<_> = (0..row.len()).map(|at| row.get(at).unwrap_or("NULL").to_owned()).collect();
                lines.push(values.join(" | "));
            }
            SimpleQueryMessage::CommandComplete(count) if is_query => {
                if count == 0 {
                    lines.push("(no rows)".to_owned());
                }
                is_query = false;
            }
            SimpleQueryMessage::CommandComplete(count) => lines.push(format!("({count})")),
            _ => {}
        }
    }
    lines.join("\n")
}

#[test]
fn a_name_is_a_word() {
    assert!(is_name("op") && is_name("s2"));
    assert!(!is_name("") && !is_name("a b") && !is_name("x ="));
}
