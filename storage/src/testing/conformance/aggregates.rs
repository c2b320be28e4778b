//! Families that merge writes into their cells.

use crate::{
    Aggregate, ErrorKind, Mutation, StoreExt, aggregate,
    testing::notation::{Subject, add, aggregates, delete, delete_between, key, merge, set, table},
};
use bytes::Bytes;

async fn make(s: &Subject) {
    s.store.create_table(&table(), aggregates()).await.unwrap();
}

pub(super) async fn numbers_merge(s: &Subject) {
    make(s).await;
    for input in [5, -7, 3] {
        s.write("k", vec![add("sum:n", 0, input), add("min:n", 0, input), add("max:n", 0, input)]).await;
    }
    s.check("inputs", &["k: max:n@0=5 min:n@0=-7 sum:n@0=1"]).await;
    let state = |value: i64| value.to_be_bytes();
    s.write("k", vec![merge("sum:n", 0, &state(10)), merge("min:n", 0, &state(-8)), merge("max:n", 0, &state(4))])
        .await;
    s.check("states", &["k: max:n@0=5 min:n@0=-8 sum:n@0=11"]).await;
    s.write("k", vec![add("sum:n", 0, 1), add("sum:n", 0, 1), add("sum:m", 0, 9)]).await;
    s.check("in one row", &["k: max:n@0=5 min:n@0=-8 sum:m@0=9 sum:n@0=13"]).await;
    s.write("l", vec![add("sum:n", 0, i64::MAX), add("sum:n", 0, 1)]).await;
    let row = s.store.read_row(&table(), &key("l"), None).await.unwrap().unwrap();
    assert_eq!(row.cells[0].value, i64::MIN.to_be_bytes()[..], "a sum wraps");
}

pub(super) async fn timestamps_name_the_cell(s: &Subject) {
    make(s).await;
    s.write("k", vec![add("sum:n", 10, 1), add("sum:n", 20, 2)]).await;
    s.write("k", vec![add("sum:n", 10, 5)]).await;
    s.check("each timestamp its own", &["k: sum:n@20=2 sum:n@10=6"]).await;
    let error = s.refuse("k", vec![add("sum:n", -1, 5)]).await;
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

async fn count(s: &Subject, row: &str) -> i64 {
    let row = s.store.read_row(&table(), &key(row), None).await.unwrap().unwrap();
    aggregate::value(Aggregate::Hll, &row.newest("hll", b"n").unwrap().value).unwrap()
}

pub(super) async fn distinct_counts(s: &Subject) {
    make(s).await;
    let inputs = |range: std::ops::Range<i64>| range.map(|input| add("hll:n", 0, input)).collect::<Vec<_>>();
    s.write("k", inputs(0..7)).await;
    s.write("k", inputs(3..12)).await;
    assert_eq!(count(s, "k").await, 12);
    s.write("l", inputs(10..20)).await;
    let state = s.store.read_row(&table(), &key("l"), None).await.unwrap().unwrap().cells[0].value.clone();
    s.write("k", vec![merge("hll:n", 0, &state)]).await;
    assert_eq!(count(s, "k").await, 20, "10 and 11 were in both");
    s.write("l", inputs(0..1_000)).await;
    let many = count(s, "l").await;
    assert!((900..1_100).contains(&many), "{many} for a thousand");
    s.write("m", vec![merge("hll:n", 0, &state)]).await;
    assert_eq!(count(s, "m").await, 10, "a state into a cell that was not there");
}

pub(super) async fn kinds_do_not_mix(s: &Subject) {
    make(s).await;
    s.write("k", vec![add("sum:n", 0, 1), set("plain:n", 0, "v")]).await;
    for mutation in
        [set("sum:n", 0, "12345678"), set("hll:n", 0, ""), add("plain:n", 0, 1), merge("plain:n", 0, b"12345678")]
    {
        let error = s.refuse("k", vec![add("sum:n", 0, 1), mutation.clone()]).await;
        assert_eq!(error.kind(), ErrorKind::Invalid, "{mutation:?}");
    }
    assert_eq!(s.refuse("k", vec![add("none:n", 0, 1)]).await.kind(), ErrorKind::NotFound);
    s.check("nothing was lost", &["k: plain:n@0=v sum:n@0=1"]).await;
}

pub(super) async fn bad_states_are_refused(s: &Subject) {
    make(s).await;
    s.write("k", vec![add("hll:n", 0, 1), add("sum:n", 0, 1)]).await;
    let good = s.store.read_row(&table(), &key("k"), None).await.unwrap().unwrap().cells[0].value.clone();
    let mut wrong_size = good.to_vec();
    wrong_size.push(0);
    let mut wrong_version = good.to_vec();
    wrong_version[1] = 9;
    for state in
        [Bytes::new(), Bytes::from_static(b"1234567"), wrong_size.into(), wrong_version.into(), vec![255; 5_000].into()]
    {
        for at in ["hll:n", "hll:new", "sum:n", "min:n"] {
            let error = s.refuse("k", vec![merge(at, 0, &state)]).await;
            assert_eq!(error.kind(), ErrorKind::Invalid, "{} into {at}", state.escape_ascii());
        }
    }
    assert_eq!(count(s, "k").await, 1, "nothing was lost");
}

pub(super) async fn aggregates_can_be_deleted(s: &Subject) {
    make(s).await;
    s.write("k", vec![add("sum:n", 10, 5), add("sum:n", 20, 6), add("min:n", 0, 5)]).await;
    s.write("k", vec![delete_between("sum:n", 10, Some(11)), add("sum:n", 10, 1)]).await;
    s.check("begun anew", &["k: min:n@0=5 sum:n@20=6 sum:n@10=1"]).await;
    s.write("k", vec![delete("sum:n")]).await;
    s.check("deleted", &["k: min:n@0=5"]).await;
    s.write("k", vec![Mutation::DeleteFromRow, add("min:n", 0, 9)]).await;
    s.check("a minimum does not remember what was deleted", &["k: min:n@0=9"]).await;
}
