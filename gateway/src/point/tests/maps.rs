//! Random changes of the maps of open families through both ways.

use super::random::{Asked, through};
use crate::{
    pg::types::ParameterType,
    session::{
        Session,
        testing::{World, run},
    },
};
use keyspan_catalog::SqlType;
use proptest::prelude::*;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};

const TABLE: &str = "CREATE TABLE w (id int PRIMARY KEY, n bigint, FAMILY m (n), FAMILY props OPEN);
    ALTER TABLE w ADD COLUMN seen text FAMILY props";
/// Statements of a case.
const STATEMENTS: usize = 24;
/// Keys, also that of a declared column, of no qualifier, and one that is escaped.
const KEYS: &[&str] = &["a", "b", "c d", "seen", "", "\\xff", "7"];
const VALUES: &[&str] = &["7", "\"x\"", "null", "{\"k\": [1, 2.50]}", "1e2", "tru", "[]"];
const MAPS: &[&str] =
    &["{}", "{\"a\": 1}", "{\"b\": \"x\", \"a\": null}", "{\"seen\": \"y\"}", "[1]", "{\"c d\": {\"a\": 1.0}}", "{"];

async fn world() -> (World, Session) {
    let world = World::empty().await;
    run(&mut world.operator(), "CREATE DATABASE alto").await;
    assert_eq!(run(&mut world.operator(), TABLE).await, "CREATE TABLE\nALTER TABLE");
    let session = world.tenant("alto");
    (world, session)
}

/// A text of a kind: as it is, cast, NULL, or a parameter.
fn operand(random: &mut StdRng, kind: SqlType, of: &[&str], asked: &mut Vec<Asked>) -> String {
    let text = (*of.choose(random).unwrap()).to_owned();
    match random.random_range(0..20) {
        0..10 => format!("'{text}'"),
        10..13 => format!("'{text}'::{}", if kind == SqlType::Text { "text" } else { "jsonb" }),
        13 => "NULL".to_owned(),
        14 => "1".to_owned(),
        at => {
            let declared = (at < 17).then(|| ParameterType::of_kind(kind));
            asked.push((random.random_bool(0.9).then_some(text), declared));
            format!("${}", asked.len())
        }
    }
}

/// What `props` is set to.
fn change(random: &mut StdRng, asked: &mut Vec<Asked>) -> String {
    let mut map = "props".to_owned();
    for _ in 0..random.random_range(1..=3) {
        map = match random.random_range(0..3) {
            0 => format!("{map} - {}", operand(random, SqlType::Text, KEYS, asked)),
            1 => format!("({map}) || {}", operand(random, SqlType::Jsonb, MAPS, asked)),
            _ => format!("({map} || {})", operand(random, SqlType::Jsonb, MAPS, asked)),
        };
    }
    map
}

/// A statement and its parameters.
fn statement(random: &mut StdRng) -> (String, Vec<Asked>) {
    let (mut asked, id) = (Vec::new(), random.random_range(0..4));
    let set = match random.random_range(0..8) {
        0 => "props = '{\"whole\": 1}'".to_owned(),
        1..=3 => {
            let key = operand(random, SqlType::Text, KEYS, &mut asked);
            format!("props[{key}] = {}", operand(random, SqlType::Jsonb, VALUES, &mut asked))
        }
        _ => format!("props = {}", change(random, &mut asked)),
    };
    let beside = *["", "", ", n = n + 1", ", n = 5"].choose(random).unwrap();
    let returning = *["", "", "", " RETURNING n, id", " RETURNING *"].choose(random).unwrap();
    let sql = match random.random_range(0..6) {
        0 => format!(
            "INSERT INTO w (id, n, props) VALUES ({id}, 1, '{{\"a\": 0}}') ON CONFLICT (id) DO UPDATE SET n = 2"
        ),
        1 => format!("INSERT INTO w VALUES ({id}, 1) ON CONFLICT (id) DO UPDATE SET {set}{returning}")
            .replace("= props", "= w.props"),
        2 if random.random_bool(0.3) => format!("DELETE FROM w WHERE id = {id}"),
        _ => format!("UPDATE w SET {set}{beside} WHERE id = {id}{returning}"),
    };
    (sql, asked)
}

/// Runs a case; how many statements went around the optimizer.
async fn check(seed: u64) -> usize {
    let mut random = StdRng::seed_from_u64(seed);
    let ((_fast_world, mut fast), (_slow_world, mut slow)) = (world().await, world().await);
    run(&mut slow, "SET keyspan.point = off").await;
    let mut compiled = 0;
    for _ in 0..STATEMENTS {
        let (sql, asked) = statement(&mut random);
        let (told, is_fast) = through(&mut fast, &sql, &asked).await;
        let (expected, is_slow) = through(&mut slow, &sql, &asked).await;
        assert_eq!(told, expected, "seed {seed}: {sql}\n{asked:?}");
        assert!(!is_slow);
        compiled += usize::from(is_fast);
    }
    for sql in ["SELECT * FROM w ORDER BY id", "SELECT id, family, qualifier, bytes FROM cells('w') ORDER BY 1, 2, 3"] {
        assert_eq!(run(&mut fast, sql).await, run(&mut slow, sql).await, "seed {seed}: {sql}");
    }
    compiled
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn maps_become_the_same_on_both_ways(seed in any::<u64>()) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(check(seed));
    }
}

#[tokio::test]
async fn most_changes_of_maps_go_around_the_optimizer() {
    let compiled = check(1).await + check(2).await;
    assert!(compiled > STATEMENTS / 2, "{compiled} of {}", 2 * STATEMENTS);
}
