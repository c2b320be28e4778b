//! Random maps, written and read by SQL, equal the store's cells.

use super::{Harness, rows, start, stored};
use anyhow::{Context, Result};
use keyspan_catalog::open_map;
use std::collections::BTreeMap;
use tokio_postgres::Client;

/// Random numbers by seed (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).unwrap_or(0)]
    }
}

type Map = BTreeMap<Vec<u8>, serde_json::Value>;

const QUALIFIERS: [&[u8]; 9] =
    [b"", b"a", b"fan-rpm", b"friend:bo", b"friend:cy", b"\\x61", b"\xff\x00", "é\"".as_bytes(), b"\x00"];
const VALUES: [&str; 9] =
    ["0", "-7", "1.50", "\"\"", "\"x\\\"y\"", "true", "null", "[1, null]", "{\"b\": {\"c\": \"é\"}}"];

fn map(random: &mut Random) -> Map {
    let count = random.below(5);
    (0..count).map(|_| (random.one_of(&QUALIFIERS).to_vec(), value(random))).collect()
}

fn value(random: &mut Random) -> serde_json::Value {
    serde_json::from_str(random.one_of(&VALUES)).unwrap_or_default()
}

fn json(map: &Map) -> String {
    let members = map.iter().map(|(qualifier, value)| (open_map::key_of(qualifier).into_owned(), value.clone()));
    serde_json::Value::Object(members.collect()).to_string()
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A change of a row, in SQL and of the model.
fn change(random: &mut Random, key: &str, model: &mut BTreeMap<String, Map>) -> String {
    let (new, qualifier) = (map(random), random.one_of(&QUALIFIERS).to_vec());
    let (text, name) = (quoted(&json(&new)), quoted(&open_map::key_of(&qualifier)));
    let upsert = format!("INSERT INTO t (id, props) VALUES ('{key}', {text}) ON CONFLICT (id) DO UPDATE SET props =");
    match (random.below(8), model.get_mut(key)) {
        (0, _) => {
            model.insert(key.to_owned(), new);
            format!("{upsert} EXCLUDED.props")
        }
        (1, _) => {
            model.entry(key.to_owned()).or_default().extend(new);
            format!("{upsert} t.props || EXCLUDED.props")
        }
        (2, _) => {
            model.remove(key);
            format!("DELETE FROM t WHERE id = '{key}'")
        }
        (3, Some(own)) => {
            *own = new;
            format!("UPDATE t SET props = {text} WHERE id = '{key}'")
        }
        (4, Some(own)) => {
            own.extend(new);
            format!("UPDATE t SET props = props || {text} WHERE id = '{key}'")
        }
        (5, Some(own)) => {
            own.remove(&qualifier);
            format!("UPDATE t SET props = props - {name} WHERE id = '{key}'")
        }
        (6, Some(own)) => {
            own.extend(new);
            own.remove(&qualifier);
            format!("UPDATE t SET props = (props || {text}) - {name} WHERE id = '{key}'")
        }
        (_, Some(own)) => {
            let value = value(random);
            let text = quoted(&value.to_string());
            own.insert(qualifier, value);
            format!("UPDATE t SET props[{name}] = {text} WHERE id = '{key}'")
        }
        (_, None) => format!("UPDATE t SET props = props || {text} WHERE id = '{key}'"),
    }
}

/// The rows of a query of a key and a document.
async fn documents(client: &Client, sql: &str) -> Result<Vec<(String, serde_json::Value)>> {
    let found = client.query(sql, &[]).await?;
    Ok(found.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// Compares the rows with the model, by SQL with and without pushdown, and in the store.
async fn check(harness: &Harness, client: &Client, model: &BTreeMap<String, Map>) -> Result<()> {
    for pushdown in ["on", "off"] {
        client.batch_execute(&format!("SET keyspan.pushdown = {pushdown}")).await?;
        let whole = model.iter().map(|(key, map)| Ok((key.clone(), serde_json::from_str(&json(map))?)));
        let found = documents(client, "SELECT id, props FROM t ORDER BY id").await?;
        assert_eq!(found, whole.collect::<Result<Vec<_>>>()?);
        for qualifier in QUALIFIERS {
            let key = quoted(&open_map::key_of(qualifier));
            let sql = format!("SELECT id, props->{key} FROM t WHERE props ? {key} ORDER BY id");
            let expected = model.iter().filter_map(|(id, map)| Some((id.clone(), map.get(qualifier)?.clone())));
            assert_eq!(documents(client, &sql).await?, expected.collect::<Vec<_>>(), "{sql}");
        }
        let friends = "SELECT id, key FROM t, jsonb_each(props) WHERE key LIKE 'friend:%' ORDER BY 1, 2";
        let expected = model.iter().flat_map(|(id, map)| {
            let keys = map.keys().filter(|key| key.starts_with(b"friend:"));
            keys.map(move |key| format!("{id}|{}", key.escape_ascii()))
        });
        assert_eq!(rows(client, friends).await?, expected.collect::<Vec<_>>());
    }
    for (id, map) in model {
        let cells = stored(harness, id).await?.into_iter();
        let cells = cells.map(|(qualifier, value)| Ok((qualifier, serde_json::from_slice(&value)?)));
        let cells: Vec<(String, serde_json::Value)> = cells.collect::<Result<_>>()?;
        let expected = map.iter().map(|(qualifier, value)| (qualifier.escape_ascii().to_string(), value.clone()));
        assert_eq!(cells, expected.collect::<Vec<_>>());
    }
    Ok(())
}

#[tokio::test]
async fn random_maps_equal_the_cells_of_the_store() -> Result<()> {
    let (harness, _operator, client) = start("").await?;
    for seed in 0..6 {
        let (mut random, mut model) = (Random(seed), BTreeMap::new());
        client.batch_execute("DELETE FROM t").await?;
        for step in 0..40 {
            let key = random.one_of(&["a", "b", "c", "d"]);
            let sql = change(&mut random, key, &mut model);
            client.batch_execute(&sql).await.with_context(|| format!("seed {seed}: {sql}"))?;
            if step % 20 == 10 {
                harness.engine().compact(None).await?;
            }
            if step % 10 == 9 {
                check(&harness, &client, &model).await.with_context(|| format!("seed {seed}, step {step}"))?;
            }
        }
    }
    Ok(())
}
