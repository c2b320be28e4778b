//! Two tenants whose sessions say random statements at the same time: nothing that one is answered, rows, tags, errors
//! or notices, holds the mark of the other, and nothing that it writes lands with the other.
//!
//! Both have the same keys in the same table, so that their rows stand in the same segments. A tenant's mark is in
//! every text that it writes, and never in a statement of the other's. Statements come from a grammar ([`Words`]) by a
//! seed; most are answered, many fail, which is part of it. `KEYSPAN_STATEMENTS` says how many each tenant says.

use super::harness::{Harness, rows};
use anyhow::Result;
use futures::future::try_join_all;
use std::fmt::Write as _;
use tokio_postgres::{Client, SimpleQueryMessage};

/// Statements of each tenant in a run of all tests.
const STATEMENTS: usize = 1_500;
/// After so many, segments are written.
const FLUSH_EVERY: usize = 500;
/// Neighbours in the order of keys; the first begins the second.
const TENANTS: [&str; 2] = ["alto", "alto-b"];

/// A tenant's mark; nobody else writes it.
fn mark(tenant: usize) -> &'static str {
    ["qmarkofone", "zmarkoftwo"][tenant]
}

/// Random words of SQL: SplitMix64 (Steele, Lea and Flood, 2014) chooses.
struct Words {
    state: u64,
    mark: &'static str,
    tables: u64,
}

impl Words {
    fn new(seed: u64, mark: &'static str) -> Self {
        Self { state: seed, mark, tables: 0 }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[usize::try_from(self.below(of.len() as u64)).expect("an index")]
    }

    fn key(&mut self) -> String {
        let key = self.one(&["", "#", "-b", "-b#", "-b#x", "a", "b", "~", "strat", "\u{7f}", "é"]);
        format!("'{key}'")
    }

    fn number(&mut self) -> String {
        match self.below(8) {
            0 => "NULL".into(),
            1 => "9223372036854775807".into(),
            2 => "-1".into(),
            _ => self.below(40).to_string(),
        }
    }

    fn text(&mut self) -> String {
        let tail = self.below(30);
        format!("'{} {tail}'", self.mark)
    }

    fn column(&mut self) -> &'static str {
        self.one(&["k", "n", "v", "w"])
    }

    fn relation(&mut self, depth: u64) -> String {
        match self.below(if depth == 0 { 9 } else { 14 }) {
            0..=5 => "notes".into(),
            6 => format!("own{}", self.below(4)),
            7 => self.one(&["raw('notes')", "cells('notes')", "raw('own0')", "cells('own1')"]).into(),
            8 => self
                .one(&[
                    "pg_class",
                    "pg_database",
                    "pg_roles",
                    "pg_stat_activity",
                    "pg_stats",
                    "pg_statio_all_tables",
                    "pg_stat_user_tables",
                    "information_schema.tables",
                    "information_schema.columns",
                    "pg_settings",
                    "pg_locks",
                    "pg_views",
                    "pg_sequences",
                    "pg_prepared_statements",
                    "keyspan.tables",
                    "keyspan.drops",
                    "keyspan.segments",
                ])
                .into(),
            9 | 10 => format!("({}) q", self.query(depth - 1)),
            11 => "notes FOR SYSTEM_TIME AS OF now() - interval '1 ms'".into(),
            12 => format!("notes a JOIN notes b ON a.{} = b.{}", self.column(), self.column()),
            _ => format!("notes a LEFT JOIN own{} b ON a.n = b.n", self.below(4)),
        }
    }

    fn expression(&mut self, depth: u64) -> String {
        match self.below(if depth == 0 { 4 } else { 13 }) {
            0 => self.column().into(),
            1 => self.number(),
            2 => self.text(),
            3 => "n".into(),
            4 => format!("{} + {}", self.expression(depth - 1), self.expression(depth - 1)),
            5 => format!("{} || {}", self.expression(depth - 1), self.expression(depth - 1)),
            6 => format!("({})", self.query(depth - 1)),
            7 => format!(
                "{}({})",
                self.one(&["length", "upper", "md5", "abs", "min", "max"]),
                self.expression(depth - 1)
            ),
            8 => format!("{}(v)", self.one(&["count", "min", "max", "string_agg", "array_agg", "any_value"])),
            9 => format!("{}::{}", self.expression(depth - 1), self.one(&["text", "int", "bigint", "bytea", "date"])),
            10 => format!("{} OVER (ORDER BY k, n)", self.one(&["lag(v)", "lead(w)", "first_value(v)", "count(*)"])),
            11 => self
                .one(&[
                    "pg_table_size('notes')",
                    "pg_total_relation_size('notes')",
                    "pg_relation_size('notes')",
                    "current_setting('search_path')",
                    "pg_get_viewdef('own_view')",
                    "obj_description('notes'::regclass)",
                    "current_database()",
                    "pg_size_pretty(pg_database_size(current_database()))",
                    "to_regclass('alto-b.public.notes')",
                    "has_table_privilege('notes', 'SELECT')",
                    "nextval('own_sequence')",
                    "1 / (n - 3)",
                    "v::int",
                ])
                .into(),
            _ => format!("CASE WHEN {} THEN v ELSE w END", self.condition(depth - 1)),
        }
    }

    fn condition(&mut self, depth: u64) -> String {
        match self.below(if depth == 0 { 7 } else { 12 }) {
            0 => format!("k {} {}", self.one(&["=", "<", ">", "<=", ">=", "<>"]), self.key()),
            1 => format!("n {} {}", self.one(&["=", "<", ">", "<=", ">=", "<>"]), self.number()),
            2 => format!("k LIKE {}", self.one(&["'%'", "'-b%'", "'s%t'", "'\\#%'"])),
            3 => format!("(k, n) {} ({}, {})", self.one(&["=", "<", ">"]), self.key(), self.number()),
            4 => format!("k IN ({}, {})", self.key(), self.key()),
            5 => format!("v {} {}", self.one(&["<", ">", "="]), self.one(&["'a'", "'m'", "'r'", "'z'", "'zz'"])),
            6 => format!("n BETWEEN {} AND {}", self.number(), self.number()),
            7 => format!("{} OR {}", self.condition(depth - 1), self.condition(depth - 1)),
            8 => format!("{} AND {}", self.condition(depth - 1), self.condition(depth - 1)),
            9 => format!("NOT ({})", self.condition(depth - 1)),
            10 => format!("EXISTS ({})", self.query(depth - 1)),
            _ => format!("{} IS NOT NULL", self.expression(depth - 1)),
        }
    }

    fn query(&mut self, depth: u64) -> String {
        let mut sql = String::from("SELECT ");
        let group = (self.below(6) == 0).then(|| self.column());
        match (self.below(4), group) {
            (_, Some(column)) => {
                let _ = write!(sql, "{column}, count(*), min(v), max(w)");
            }
            (0, _) => sql.push('*'),
            (1, _) => sql.push_str("count(*), min(v), max(w)"),
            _ => {
                let _ = write!(sql, "{}, {}", self.expression(depth), self.column());
            }
        }
        let _ = write!(sql, " FROM {}", self.relation(depth));
        if self.below(3) > 0 {
            let _ = write!(sql, " WHERE {}", self.condition(depth));
        }
        if let Some(column) = group {
            let _ = write!(sql, " GROUP BY {column} ORDER BY {column}");
        } else if self.below(4) == 0 {
            let _ = write!(sql, " ORDER BY {} {}", self.column(), self.one(&["", "DESC", "NULLS FIRST"]));
        }
        if self.below(4) == 0 {
            let _ = write!(sql, " LIMIT {} OFFSET {}", self.below(9), self.below(4));
        }
        if depth > 0 && self.below(8) == 0 {
            let _ = write!(sql, " UNION ALL {}", self.query(depth - 1));
        }
        sql
    }

    fn write(&mut self) -> String {
        let table = if self.below(4) == 0 { format!("own{}", self.below(4)) } else { "notes".into() };
        let (k, n) = (self.key(), self.below(40));
        let returning = self.one(&["", "", " RETURNING *", " RETURNING v, k"]);
        let values = format!("({k}, {n}, {}, {})", self.text(), self.text());
        let text = self.text();
        match self.below(9) {
            0 | 1 => format!("INSERT INTO {table} VALUES {values}{returning}"),
            2 | 3 => format!(
                "INSERT INTO {table} VALUES {values} ON CONFLICT (k, n) DO UPDATE SET v = excluded.v{returning}"
            ),
            4 => format!("INSERT INTO {table} VALUES {values} ON CONFLICT DO NOTHING{returning}"),
            5 => format!("UPDATE {table} SET v = {text} WHERE {}{returning}", self.condition(1)),
            6 => format!("UPDATE {table} SET w = v || {text} WHERE k = {k} AND n = {n}{returning}"),
            7 => format!("DELETE FROM {table} WHERE {} AND n > 30{returning}", self.condition(1)),
            _ => format!(
                "INSERT INTO {table} SELECT k, n + 1, v, w FROM notes WHERE {} ON CONFLICT DO NOTHING",
                self.condition(1)
            ),
        }
    }

    fn definition(&mut self) -> String {
        let which = self.below(4);
        self.tables += 1;
        match self.below(10) {
            0..=3 => {
                format!("CREATE TABLE IF NOT EXISTS own{which} (k text, n bigint, v text, w text, PRIMARY KEY (k, n))")
            }
            4 => format!("DROP TABLE IF EXISTS own{which}"),
            5 => format!("ALTER TABLE own{which} ADD COLUMN c{} text DEFAULT {}", self.below(5), self.text()),
            6 => "CREATE SEQUENCE IF NOT EXISTS own_sequence".into(),
            7 => format!("CREATE OR REPLACE VIEW own_view AS SELECT k, n, v, w FROM notes WHERE {}", self.condition(0)),
            8 => format!("COMMENT ON TABLE own{which} IS {}", self.text()),
            _ => format!("CREATE TABLE copy{} AS SELECT * FROM notes WHERE {}", { self.tables }, self.condition(1)),
        }
    }

    fn statement(&mut self) -> String {
        match self.below(40) {
            0..=15 => self.query(2),
            16..=24 => self.write(),
            25 | 26 => self.definition(),
            27 => format!("EXPLAIN {}", self.query(1)),
            28 | 29 => format!("EXPLAIN ANALYZE {}", self.query(1)),
            30 => "SELECT * FROM own_view ORDER BY k, n".into(),
            31 => format!("BEGIN; {}; {}; {}", self.write(), self.query(1), self.one(&["COMMIT", "ROLLBACK"])),
            32 => format!("BEGIN; DECLARE c CURSOR FOR {}; FETCH 5 FROM c; FETCH ALL FROM c; COMMIT", self.query(1)),
            33 => format!("PREPARE p AS {}; EXECUTE p; DEALLOCATE p", self.query(1)),
            34 => "ROLLBACK".into(),
            35 => {
                format!("SET keyspan.{} = {}", self.one(&["pushdown", "columnar", "point"]), self.one(&["on", "off"]))
            }
            36 => format!("NOTIFY c, {}", self.text()),
            37 => self.one(&["LISTEN c", "UNLISTEN *", "RESET ALL", "SHOW ALL", "DEALLOCATE ALL"]).into(),
            38 => format!("TABLE notes FETCH FIRST {} ROWS ONLY", self.below(50)),
            _ => format!("SELECT v FROM notes WHERE {} FOR UPDATE", self.condition(0)),
        }
    }
}

/// All that a statement says: rows, tags, and every field of its error.
async fn said(client: &Client, sql: &str) -> (bool, String) {
    match client.simple_query(sql).await {
        Ok(messages) => {
            let mut text = String::new();
            for message in &messages {
                if let SimpleQueryMessage::Row(row) = message {
                    (0..row.len()).for_each(|at| text.push_str(row.get(at).unwrap_or("")));
                    text.push('\n');
                }
            }
            (true, text)
        }
        Err(error) => (false, format!("{error:?}")),
    }
}

fn hexadecimal(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// The marks of a text that are not the tenant's own.
fn shows_another(text: &str, tenant: usize) -> bool {
    let other = mark(1 - tenant);
    text.contains(other) || text.contains(&other.to_uppercase()) || text.contains(&hexadecimal(other))
}

async fn say(harness: &Harness, tenant: usize, seed: u64, count: usize) -> Result<usize> {
    let mut client = harness.connect(TENANTS[tenant], TENANTS[tenant]).await?;
    let mut words = Words::new(seed ^ (tenant as u64) << 32, mark(tenant));
    let mut answered = 0;
    for nth in 0..count {
        let sql = words.statement();
        let (ok, text) = said(&client, &sql).await;
        assert!(
            !shows_another(&text, tenant),
            "statement {nth} of {} shows another's rows: {sql}\n{text}",
            TENANTS[tenant]
        );
        assert!(
            !text.contains("XX000"),
            "statement {nth} of {} fails by a fault of ours: {sql}\n{text}",
            TENANTS[tenant]
        );
        answered += usize::from(ok);
        if client.is_closed() {
            client = harness.connect(TENANTS[tenant], TENANTS[tenant]).await?;
        }
        if tenant == 0 && nth % FLUSH_EVERY == FLUSH_EVERY - 1 {
            harness.engine().flush().await?;
        }
    }
    Ok(answered)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_statements_show_and_change_the_own_rows_alone() -> Result<()> {
    let count = std::env::var("KEYSPAN_STATEMENTS").ok().and_then(|said| said.parse().ok()).unwrap_or(STATEMENTS);
    let seed = std::env::var("KEYSPAN_SEED").ok().and_then(|said| said.parse().ok()).unwrap_or(20);
    let harness = Harness::start().await?;
    let operator = harness.operator().await?;
    let table = "CREATE TABLE notes (k text, n bigint, v text, w text, PRIMARY KEY (k, n), FAMILY f (v), FAMILY g (w)) \
                 WITH (history = '1 hour')";
    operator.batch_execute(table).await?;
    for (tenant, id) in TENANTS.iter().enumerate() {
        let client = harness.tenant(id).await?;
        let rows: Vec<_> = (0..40)
            .map(|n| format!("('{}', {n}, '{} v', '{1} w')", ["", "#", "-b", "b"][n % 4], mark(tenant)))
            .collect();
        client.batch_execute(&format!("INSERT INTO notes VALUES {}", rows.join(", "))).await?;
    }
    harness.engine().flush().await?;
    let answered = try_join_all((0..TENANTS.len()).map(|tenant| say(&harness, tenant, seed, count))).await?;
    // The grammar is of use: a good part of it runs.
    assert!(answered.iter().all(|answered| *answered * 4 > count), "{answered:?} of {count} were answered");
    let cells = rows(&operator, "SELECT _key, value FROM cells('notes')").await?;
    for (tenant, id) in TENANTS.iter().enumerate() {
        let prefix = format!("\\x{}", hexadecimal(&format!("{id}#")));
        let own: Vec<_> = cells.iter().filter(|cell| cell.starts_with(&prefix)).collect();
        assert!(!own.is_empty(), "{id} has no rows left");
        assert!(own.iter().all(|cell| !shows_another(cell, tenant)), "another tenant's text is among {id}'s rows");
    }
    Ok(())
}
