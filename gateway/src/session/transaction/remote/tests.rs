//! Rows that are written one by one, of which one cannot be.

use super::*;
use crate::session::testing::{World, run};
use keyspan_storage::FamilyName;

fn cell(value: &'static str) -> Vec<Mutation> {
    let family = FamilyName::new("cf").unwrap();
    vec![Mutation::SetCell { family, qualifier: "s".into(), timestamp: None, value: value.into() }]
}

fn key(text: &'static str) -> RowKey {
    RowKey::new(text).unwrap()
}

async fn insert(world: &World, taken: &str) -> String {
    let session = world.tenant("alto");
    let table = world.instance.catalog.snapshot().table("r").unwrap().clone();
    let pin = session.identity.rows.pin().await.unwrap();
    run(&mut world.tenant("alto"), &format!("INSERT INTO r VALUES ('{taken}', 7)")).await;
    let mut written = WriteSet::default();
    for row in ["a", "b"] {
        written.add_read(&table, key(row)).unwrap();
        written.mutate(&table, key(row), cell("new")).unwrap();
    }
    assert!(way(&written, false).is_err(), "an update");
    written.inserted = 2;
    let way = way(&written, false).unwrap();
    let error = commit(&session.identity.rows, written, way, |_, _| &pin).await.unwrap_err();
    format!("{} {}", error.state.0, error.message)
}

#[tokio::test]
async fn what_was_not_done_is_told() {
    let world = World::with_server().await;
    let told = insert(&world, "b").await;
    assert_eq!(told, "40003 1 of 2 rows were written, the others were not");
    assert_eq!(run(&mut world.tenant("alto"), "SELECT k, n, s FROM r ORDER BY k").await, "a|∅|new\nb|7|∅");
}

#[tokio::test]
async fn where_nothing_was_done_the_statement_may_run_again() {
    let world = World::with_server().await;
    assert_eq!(insert(&world, "a").await.split(' ').next(), Some("40001"));
    assert_eq!(run(&mut world.tenant("alto"), "SELECT k, n, s FROM r ORDER BY k").await, "a|7|∅");
}

#[tokio::test]
async fn a_transaction_relies_on_what_it_saw_first() {
    let world = World::with_server().await;
    let (mut one, mut two) = (world.tenant("alto"), world.tenant("alto"));
    run(&mut one, "INSERT INTO r VALUES ('a', 1); BEGIN; UPDATE r SET n = n + 1 WHERE k = 'a'").await;
    run(&mut two, "UPDATE r SET n = n + 100 WHERE k = 'a'").await;
    let told = run(&mut one, "UPDATE r SET s = 'seen' WHERE k = 'a'; COMMIT").await;
    assert!(told.contains("40001"), "{told}");
    assert_eq!(run(&mut two, "SELECT n, s FROM r").await, "101|∅");
}
