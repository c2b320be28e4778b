//! The stamps of the store, and the timestamps of clients.

use crate::{
    Commit, ErrorKind, StoreExt,
    testing::notation::{START_MICROS, Subject, key, set, set_now, table, write},
};

async fn stamp(s: &Subject, row: &str) -> i64 {
    s.store.commit(Commit { writes: vec![write(row, vec![set_now("a:q", "v")])], validation: None }).await.unwrap()
}

async fn newest(s: &Subject, row: &str) -> i64 {
    s.store.read_row(&table(), &key(row), None).await.unwrap().unwrap().cells[0].timestamp
}

pub(super) async fn semantics_2_stamps_grow(s: &Subject) {
    s.create_plain().await;
    let first = stamp(s, "k").await;
    assert!((START_MICROS..START_MICROS + 1_000).contains(&first), "{first} is not now");
    assert_eq!(newest(s, "k").await, first, "the cell has the commit's stamp");
    let second = stamp(s, "k").await;
    assert!(second > first, "a clock that stands still");
    s.clock.set(5);
    let third = stamp(s, "k").await;
    assert!(third > second, "a clock that went back");
    assert_eq!(newest(s, "k").await, third);
    s.clock.set(9_000_000);
    let fourth = stamp(s, "k").await;
    assert!((9_000_000..9_001_000).contains(&fourth), "a clock that caught up");
    let want = format!("k: a:q@{fourth}=v a:q@{third}=v a:q@{second}=v a:q@{first}=v");
    s.check("every version is kept", &[&want]).await;
    assert!(s.store.pin().await.unwrap().commit_micros >= fourth);
}

pub(super) async fn semantics_2_a_commit_has_one_stamp(s: &Subject) {
    s.create_plain().await;
    let writes =
        vec![write("k", vec![set_now("a:q", "1"), set_now("b:q", "2")]), write("l", vec![set_now("a:q", "3")])];
    let at = s.store.commit(Commit { writes, validation: None }).await.unwrap();
    s.check("one", &[&format!("k: a:q@{at}=1 b:q@{at}=2"), &format!("l: a:q@{at}=3")]).await;
}

pub(super) async fn semantics_2_a_write_after_a_read_is_newest(s: &Subject) {
    s.create_plain().await;
    let ahead = 50_000_000;
    s.write("k", vec![set("a:q", ahead, "ahead"), set("b:q", ahead + 7, "further")]).await;
    let blind = stamp(s, "k").await;
    assert!(blind < ahead, "a blind write has the commit's stamp, and lies below");
    assert_eq!(newest(s, "k").await, ahead);
    s.write("other", vec![set("a:q", ahead + 99, "v")]).await;
    let pin = s.store.pin().await.unwrap();
    s.commit_after(&pin, &["k"], "k", vec![set_now("a:q", "seen"), set("a:r", 1, "brought")]).await.unwrap();
    let row = s.store.read_row(&table(), &key("k"), None).await.unwrap().unwrap();
    let cell = row.newest("a", b"q").unwrap();
    assert_eq!((cell.timestamp, cell.value.as_ref()), (ahead + 8, &b"seen"[..]), "newer than any cell of the row");
    assert_eq!(row.newest("a", b"r").unwrap().timestamp, 1, "a timestamp that was brought stays");
}

pub(super) async fn semantics_2_client_timestamps_are_bounded(s: &Subject) {
    s.create_plain().await;
    let day = 86_400_000_000;
    s.write("k", vec![set("a:q", START_MICROS + day, "a day ahead"), set("a:q", 0, "1970")]).await;
    for timestamp in [-1, i64::MIN, START_MICROS + 2 * day, i64::MAX] {
        let error = s.refuse("k", vec![set("a:q", 5, "not applied either"), set("a:q", timestamp, "v")]).await;
        assert_eq!(error.kind(), ErrorKind::Invalid, "{timestamp}");
    }
    s.check("nothing was lost", &[&format!("k: a:q@{}=a day ahead a:q@0=1970", START_MICROS + day)]).await;
}
