//! The demo's three queries, asked through the server's own socket as any client would, and shown as small tables.

use anyhow::{Context, Result};
use std::{fmt::Write as _, net::SocketAddr, time::Instant};
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};

/// A client, and the task of its connection.
///
/// # Errors
/// If the connection or the log-in fails.
pub(super) async fn connect(
    address: SocketAddr,
    login: &Login<'_>,
) -> Result<(Client, JoinHandle<Result<(), tokio_postgres::Error>>)> {
    let (client, connection) = Config::new()
        .host(address.ip().to_string())
        .port(address.port())
        .user(login.role)
        .password(login.password)
        .dbname(login.database)
        .application_name("keyspan demo")
        .connect(NoTls)
        .await
        .with_context(|| format!("cannot connect as {} to the own address {address}", login.role))?;
    Ok((client, tokio::spawn(connection)))
}

/// The role and database of a client.
pub(super) struct Login<'a> {
    /// Role and password.
    pub(super) role: &'a str,
    pub(super) password: &'a str,
    /// The database: a tenant, or `keyspan`.
    pub(super) database: &'a str,
}

/// A query of the demo.
struct DemoQuery {
    heading: &'static str,
    sql: &'static str,
    /// Whether EXPLAIN's lines about keys are shown as well.
    ranges: bool,
}

/// The prefixes of the lines of EXPLAIN that the demo prints.
const EXPLAIN_LABELS: [&str; 2] = ["Access:", "Ranges:"];

const TENANT_QUERIES: [DemoQuery; 2] = [
    DemoQuery {
        heading: "Virgin America, a tenant, looks at one route on one day. The predicate is one range of keys:",
        sql: "SELECT flight, scheduled, dep_delay, arr_delay, tailnum\n  FROM flights\n \
              WHERE origin = 'JFK' AND dest = 'SFO'\n   \
              AND scheduled >= '2013-07-04 04:00Z' AND scheduled < '2013-07-05 04:00Z'\n \
              ORDER BY scheduled",
        ranges: true,
    },
    DemoQuery {
        heading: "It joins its flights with the weather that they left in:",
        sql: "SELECT CASE WHEN w.visib < 2 THEN 'fog' WHEN w.precip > 0 THEN 'rain' ELSE 'fair' END AS weather,\n       \
              count(*) AS flights, round(avg(f.dep_delay)) AS delay_minutes\n  \
              FROM flights f JOIN weather w\n    \
              ON f.origin = w.origin AND date_trunc('hour', f.scheduled) = w.time_hour\n \
              GROUP BY 1 ORDER BY delay_minutes DESC",
        ranges: false,
    },
];

const OPERATOR_QUERIES: [DemoQuery; 1] = [DemoQuery {
    heading: "The operator compares tenants, who cannot see each other:",
    sql: "SELECT tenant, count(*) AS flights, round(avg(arr_delay)) AS delay_minutes,\n       \
          round(100.0 * count(*) FILTER (WHERE dep_time IS NULL) / count(*)) AS cancelled_percent\n  \
          FROM flights GROUP BY tenant ORDER BY flights DESC LIMIT 6",
    ranges: false,
}];

/// Asks all queries; returns them with their answers as text.
///
/// # Errors
/// If the connection or a query fails.
pub(super) async fn ask(address: SocketAddr, tenant: &Login<'_>, operator: &Login<'_>) -> Result<String> {
    let mut text = String::new();
    for (login, queries) in [(tenant, TENANT_QUERIES.as_slice()), (operator, OPERATOR_QUERIES.as_slice())] {
        let (client, connection) = connect(address, login).await?;
        for query in queries {
            run(&client, query, &mut text).await.with_context(|| format!("this failed:\n{}", query.sql))?;
        }
        drop(client);
        connection.await??;
    }
    Ok(text)
}

async fn run(client: &Client, query: &DemoQuery, text: &mut String) -> Result<()> {
    let began = Instant::now();
    let answer = Answer::of(client.simple_query(query.sql).await?);
    let took = began.elapsed();
    writeln!(text, "{}\n", query.heading)?;
    for line in query.sql.lines() {
        writeln!(text, "    {line}")?;
    }
    text.push('\n');
    if query.ranges {
        let plan = Answer::of(client.simple_query(&format!("EXPLAIN {}", query.sql)).await?);
        let lines = plan.rows.iter().flatten().flat_map(|text| text.lines()).map(str::trim);
        for line in lines.filter(|line| EXPLAIN_LABELS.iter().any(|label| line.starts_with(label))) {
            writeln!(text, "    EXPLAIN  {line}")?;
        }
        text.push('\n');
    }
    for line in answer.to_string().lines() {
        writeln!(text, "    {line}")?;
    }
    let rows = answer.rows.len();
    writeln!(text, "    ({rows} {}, {} ms)\n", if rows == 1 { "row" } else { "rows" }, took.as_millis())?;
    Ok(())
}

/// The rows of an answer, as text.
pub(super) struct Answer {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Answer {
    pub(super) fn of(messages: Vec<SimpleQueryMessage>) -> Self {
        let mut answer = Self { columns: Vec::new(), rows: Vec::new() };
        for message in messages {
            match message {
                SimpleQueryMessage::RowDescription(columns) => {
                    answer.columns = columns.iter().map(|column| column.name().to_owned()).collect();
                }
                SimpleQueryMessage::Row(row) => {
                    let text = |column| row.get(column).unwrap_or_default().to_owned();
                    answer.rows.push((0..row.len()).map(text).collect());
                }
                _ => {}
            }
        }
        answer
    }

    /// The first column of the first row.
    pub(super) fn first(&self) -> Option<&str> {
        Some(self.rows.first()?.first()?.as_str())
    }
}

impl std::fmt::Display for Answer {
    /// Aligns columns as psql does: numbers to the right.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let columns = self.columns.iter().enumerate().map(|(at, name)| {
            let texts = || self.rows.iter().filter_map(move |row| row.get(at));
            let width = texts().chain([name]).map(|text| text.chars().count()).max().unwrap_or_default();
            let numbers = texts().all(|text| text.is_empty() || text.parse::<f64>().is_ok());
            (width, numbers)
        });
        let columns: Vec<_> = columns.collect();
        let line = |texts: &[String]| -> String {
            let cell = |(text, (width, numbers)): (&String, &(usize, bool))| match numbers {
                true => format!(" {text:>width$} "),
                false => format!(" {text:<width$} "),
            };
            texts.iter().zip(&columns).map(cell).collect::<Vec<_>>().join("|")
        };
        let rule: Vec<_> = columns.iter().map(|(width, _)| "-".repeat(width + 2)).collect();
        writeln!(f, "{}", line(&self.columns).trim_end())?;
        writeln!(f, "{}", rule.join("+"))?;
        self.rows.iter().try_for_each(|row| writeln!(f, "{}", line(row).trim_end()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn answers_are_aligned() {
        let text = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let answer = Answer {
            columns: text(&["weather", "flights"]),
            rows: vec![text(&["fog", "1"]), text(&["fair sky", "-20.5"]), text(&["", ""])],
        };
        expect![[r#"

             weather  | flights
            ----------+---------
             fog      |       1
             fair sky |   -20.5
                      |
        "#]]
        .assert_eq(&format!("\n{answer}"));
    }
}
