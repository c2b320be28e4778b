//! Every column of the catalog that holds a number of an object points to one that is there: the columns are those
//! that PostgreSQL's `pg_get_catalog_foreign_keys()` names, as its regression file `oidjoins.sql` asks for them.

use super::harness::{Harness, rows};
use anyhow::{Context, Result};
use tokio_postgres::Client;

const KEYS: &str = include_str!("catalog_keys/foreign_keys.txt");

/// Objects of each kind that the catalog shows.
const MADE: &str = "
    CREATE TABLE sold (id serial PRIMARY KEY, region text DEFAULT 'x', at timestamptz[], CHECK (id > 0));
    CREATE VIEW v AS SELECT * FROM sold;
    CREATE MATERIALIZED VIEW m AS SELECT * FROM v;
    CREATE SCHEMA apart;
    CREATE TABLE apart.t (id int GENERATED ALWAYS AS IDENTITY, doc jsonb);
    CREATE TEMP TABLE mine (a int);
    COMMENT ON COLUMN sold.region IS 'where';
    GRANT SELECT ON sold TO PUBLIC;
    ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC";

/// Columns that point to others.
struct Key<'a> {
    table: &'a str,
    columns: Vec<&'a str>,
    to: &'a str,
    to_columns: Vec<&'a str>,
    array: bool,
    optional: bool,
}

impl<'a> Key<'a> {
    fn of(line: &'a str) -> Result<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        let [table, columns, to, to_columns, array, optional] = words[..] else { anyhow::bail!("{line}") };
        let (columns, to_columns) = (columns.split(',').collect(), to_columns.split(',').collect());
        Ok(Self { table, columns, to, to_columns, array: array == "t", optional: optional == "t" })
    }

    /// The query of how many values there are, and how many of them point to something. Functions may be told by name.
    fn query(&self, by_name: bool) -> String {
        let Self { table, to, .. } = self;
        let last = self.columns.len() - 1;
        if by_name {
            let column = self.columns[last];
            return format!(
                "SELECT count(*), count(p.name) FROM {table} f
                 LEFT JOIN (SELECT proname::text AS name FROM pg_proc UNION SELECT oid::text FROM pg_proc) p
                     ON p.name = f.{column}::text
                 WHERE f.{column}::text <> '-'"
            );
        }
        let mut from = table.to_string();
        if self.array {
            // Arrays and vectors as their texts; of a pair the other column is a single value.
            let elements = format!("translate({}::text, '{{}},', '   ')", self.columns[last]);
            let elements = format!("regexp_split_to_table(trim({elements}), ' +') AS element");
            let others = self.columns[..last].iter().map(|column| format!("{column}, ")).collect::<String>();
            let element = format!("nullif(element, '')::bigint AS {}", self.columns[last]);
            from = format!(
                "(SELECT {others}{element} FROM (SELECT {others}{elements} FROM {table}) e WHERE element <> '')"
            );
        }
        let pairs = self.columns.iter().zip(&self.to_columns);
        let on: Vec<String> = pairs.map(|(column, to)| format!("p.{to} = f.{column}")).collect();
        let nothing = if self.optional { format!(" AND f.{} <> 0", self.columns[last]) } else { String::new() };
        format!(
            "SELECT count(*), count(p.{0}) FROM {from} f LEFT JOIN (SELECT DISTINCT {1} FROM {to}) p ON {2}
             WHERE f.{3} IS NOT NULL{nothing}",
            self.to_columns[0],
            self.to_columns.join(", "),
            on.join(" AND "),
            self.columns[last],
        )
    }

    /// How many values there are, and how many of them point to something.
    async fn counts(&self, client: &Client) -> Result<(i64, i64)> {
        let (table, column) = (self.table, self.columns[self.columns.len() - 1]);
        let kind = "SELECT format_type(atttypid, -1) FROM pg_attribute WHERE";
        let kind = format!("{kind} attrelid = 'pg_catalog.{table}'::regclass AND attname = '{column}'");
        let kind = rows(client, &kind).await?.pop().with_context(|| format!("{table}.{column}"))?;
        let query = self.query(self.to == "pg_proc" && ["regproc", "text"].contains(&kind.as_str()));
        let row = rows(client, &query).await.with_context(|| query.clone())?.remove(0);
        let (all, found) = row.split_once('|').with_context(|| row.clone())?;
        Ok((all.parse()?, found.parse()?))
    }
}

#[tokio::test]
async fn every_number_in_the_catalog_is_of_something() -> Result<()> {
    let harness = Harness::start().await?;
    let client = harness.tenant("alto").await?;
    client.batch_execute(MADE).await?;
    let (mut faults, mut held) = (Vec::new(), 0);
    for line in KEYS.lines().filter(|line| !line.starts_with('#')) {
        let (all, found) = Key::of(line)?.counts(&client).await?;
        held += i32::from(all > 0);
        if all != found {
            faults.push(format!("{line}: {} of {all}", all - found));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    assert!(held >= 49, "only {held} of the columns have any number");
    // Numbers of relations are none of types: such a fault is found.
    let (all, found) = Key::of("pg_attribute attrelid pg_proc oid f f")?.counts(&client).await?;
    assert!(found < all, "{found} of {all}");
    Ok(())
}
