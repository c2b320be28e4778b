//! A scan over buffered writes gives what a scan after their commit would give, but for timestamps.

use super::{Buffered, View};
use crate::session::testing::World;
use bytes::Bytes;
use futures::TryStreamExt;
use keyspan_catalog::{Table, table::marker_family, tenant_store::Writes};
use keyspan_storage::{
    Columns, FamilyName, KeyRange, Mutation, Row, RowKey, RowMutation, RowSet, Scan, TimestampRange,
    scan::FamilyColumns, store::delete_column,
};
use proptest::prelude::*;
use std::sync::Arc;

const KEYS: [&str; 6] = ["a#1", "a#2", "b#1", "b#2", "c#1", "c#2"];

fn family(name: &str) -> FamilyName {
    FamilyName::new(name).unwrap()
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let set = |name: &'static str, column: &'static str| {
        any::<u8>().prop_map(move |value| Mutation::SetCell {
            family: family(name),
            qualifier: Bytes::from_static(column.as_bytes()),
            timestamp: None,
            value: vec![value].into(),
        })
    };
    let marker =
        Mutation::SetCell { family: marker_family(), qualifier: Bytes::new(), timestamp: None, value: Bytes::new() };
    let add = (-5_i64..5).prop_map(|input| Mutation::AddToCell {
        family: family("k"),
        qualifier: Bytes::from_static(b"c"),
        timestamp: Some(0),
        input,
    });
    prop_oneof![
        4 => set("m", "n"),
        3 => set("m", "s"),
        3 => Just(marker),
        2 => add,
        2 => Just(delete_column(family("m"), Bytes::from_static(b"n"))),
        1 => Just(Mutation::DeleteFromFamily { family: family("m") }),
        2 => Just(Mutation::DeleteFromRow),
    ]
}

type RowChange = (usize, Vec<Mutation>);

fn changes() -> impl Strategy<Value = Vec<RowChange>> {
    prop::collection::vec((0..KEYS.len(), prop::collection::vec(mutation(), 1..4)), 0..8)
}

fn scan() -> impl Strategy<Value = Scan> {
    let range = (0..KEYS.len(), 0..=KEYS.len()).prop_map(|(start, end)| {
        KeyRange::new(
            Bytes::from_static(KEYS[start].as_bytes()),
            KEYS.get(end).map(|key| Bytes::from_static(key.as_bytes())),
        )
    });
    let rows = prop_oneof![Just(RowSet::all()), prop::collection::vec(range, 0..3).prop_map(RowSet::new)];
    let only = |name: &str, column: &'static [u8]| {
        Columns::Of(vec![FamilyColumns { family: family(name), qualifiers: Some(vec![Bytes::from_static(column)]) }])
    };
    let columns =
        prop_oneof![Just(Columns::All), Just(Columns::Of(Vec::new())), Just(only("m", b"n")), Just(only("k", b"c")),];
    let numbers = (prop::option::of(1_u32..3), prop::option::of(1_u64..5));
    (rows, columns, numbers, any::<bool>(), any::<bool>()).prop_map(
        |(rows, columns, (versions_max, rows_max), keep_empty, reversed)| Scan {
            rows,
            columns,
            versions_max,
            rows_max,
            keep_empty,
            reversed,
            timestamps: TimestampRange::all(),
            ..Scan::all()
        },
    )
}

fn row_mutations(changes: Vec<RowChange>) -> Vec<RowMutation> {
    let one = |(key, mutations): RowChange| RowMutation { key: RowKey::new(KEYS[key]).unwrap(), mutations };
    changes.into_iter().map(one).collect()
}

async fn read(view: &View, table: &Table, scan: Scan) -> Vec<(RowKey, Vec<(String, Bytes, Bytes)>)> {
    let rows: Vec<Row> = view.scan(table, scan).try_concat().await.unwrap();
    let cells = |row: Row| {
        let cells = row.cells.into_iter();
        (row.key, cells.map(|cell| (cell.family.to_string(), cell.qualifier, cell.value)).collect())
    };
    rows.into_iter().map(cells).collect()
}

async fn same_before_and_after(base: Vec<RowChange>, own: Vec<RowChange>, scans: Vec<Scan>) {
    let world = World::new().await;
    let mut session = world.tenant("alto");
    let before = session.view().await.unwrap();
    let table = before.snapshot.table("t").unwrap().clone();
    for row in row_mutations(base) {
        let writes = Writes { rows: vec![(table.clone(), row)], ..Writes::default() };
        before.rows.commit(&before.pin, writes).await.unwrap();
    }
    let mut buffered = Buffered::new();
    let by_key = buffered.entry(table.id).or_default();
    for row in row_mutations(own) {
        let empty = || RowMutation { key: row.key.clone(), mutations: Vec::new() };
        by_key.entry(row.key.clone()).or_insert_with(empty).mutations.extend(row.mutations);
    }
    let rows: Vec<(Arc<Table>, RowMutation)> = by_key.values().map(|row| (table.clone(), row.clone())).collect();
    let validated = by_key.keys().map(|key| (table.clone(), key.clone())).collect();
    let over = View { buffered: Arc::new(buffered), ..session.view().await.unwrap() };
    let mut answers = Vec::new();
    for scan in &scans {
        answers.push(read(&over, &table, scan.clone()).await);
    }
    over.rows.commit(&over.pin, Writes { rows, validated, ..Writes::default() }).await.unwrap();
    let after = session.view().await.unwrap();
    for (scan, answer) in scans.into_iter().zip(answers) {
        assert_eq!(answer, read(&after, &table, scan.clone()).await, "{scan:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn semantics_3_own_writes_read_as_after_the_commit(
        base in changes(), own in changes(), scans in prop::collection::vec(scan(), 1..6)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(same_before_and_after(base, own, scans));
    }
}
