//! Many rows at once: mutated separately, sampled, dropped by prefix.

use crate::{
    ErrorKind, KeyRange, Mutation, RowMutation, SpanInfo, TableName,
    testing::notation::{Subject, family, key, set, set_now, table},
};
use bytes::Bytes;

fn row(name: &str, mutations: Vec<Mutation>) -> RowMutation {
    RowMutation { key: key(name), mutations }
}

pub(super) async fn each_row_has_a_status(s: &Subject) {
    s.create_plain().await;
    let rows = vec![
        row("k", vec![set("a:q", 1, "1")]),
        row("l", vec![set("a:q", 1, "not applied"), set("none:q", 1, "v")]),
        row("m", vec![]),
        row("n", vec![set("a:q", -1, "v")]),
        row("k", vec![set("b:q", 2, "again")]),
        row("o", vec![set("a:q", 1, "o")]),
    ];
    let statuses = s.store.mutate_rows(&table(), rows).await.unwrap();
    let kinds: Vec<_> = statuses.into_iter().map(|status| status.err().map(|error| error.kind())).collect();
    let (not_found, invalid) = (Some(ErrorKind::NotFound), Some(ErrorKind::Invalid));
    assert_eq!(kinds, [None, not_found, invalid, invalid, None, None]);
    s.check("the good rows", &["k: a:q@1=1 b:q@2=again", "o: a:q@1=o"]).await;
    assert!(s.store.mutate_rows(&table(), vec![]).await.unwrap().is_empty());
    let none = TableName::new("none").unwrap();
    let refused = s.store.mutate_rows(&none, vec![row("k", vec![set_now("a:q", "v")])]).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::NotFound);
}

pub(super) async fn samples_cut_the_table(s: &Subject) {
    s.create_plain().await;
    assert_eq!(s.store.sample_row_keys(&table()).await.unwrap(), vec![]);
    s.write("k", vec![set("a:q", 1, "v")]).await;
    let one = s.store.sample_row_keys(&table()).await.unwrap();
    assert_eq!(one.iter().map(|sample| sample.key.clone()).collect::<Vec<_>>(), [key("k")]);
    let value = Bytes::from(vec![7; 1_000]);
    let set = |qualifier: &'static str| Mutation::SetCell {
        family: family("a"),
        qualifier: qualifier.into(),
        timestamp: Some(1),
        value: value.clone(),
    };
    let rows = (0..500).map(|number| row(&format!("{number:03}"), vec![set("q")])).collect();
    s.store.mutate_rows(&table(), rows).await.unwrap();
    let samples = s.store.sample_row_keys(&table()).await.unwrap();
    assert!(samples.is_sorted_by(|a, b| a.key < b.key && a.offset_bytes <= b.offset_bytes), "{samples:?}");
    let last = samples.last().unwrap();
    assert_eq!(last.key, key("k"), "the last is the last key");
    assert!((500_000..1_000_000).contains(&last.offset_bytes), "{} bytes for half a million", last.offset_bytes);
}

/// A store that tells sizes tells those of living rows, wherever they are.
pub(super) async fn spans_have_sizes(s: &Subject) {
    s.create_plain().await;
    let span = |prefix: &'static str| s.store.span(&table(), &KeyRange::prefix(Bytes::from_static(prefix.as_bytes())));
    let Some(none) = span("a#").unwrap() else { return };
    assert_eq!(none, SpanInfo::default());
    let value = |byte: &str| byte.repeat(100);
    let rows = (0..50)
        .flat_map(|at| ["a#", "b#"].map(|tenant| row(&format!("{tenant}{at:02}"), vec![set("a:q", 1, &value("1"))])));
    s.store.mutate_rows(&table(), rows.collect()).await.unwrap();
    for at in 0..10 {
        s.write(&format!("a#{at:02}"), vec![Mutation::DeleteFromRow]).await;
        s.write(&format!("b#{at:02}"), vec![set("a:q", 2, &value("2"))]).await;
    }
    s.write("a#99", vec![set("a:q", 1, "new")]).await;
    let (a, b) = (span("a#").unwrap().unwrap(), span("b#").unwrap().unwrap());
    assert_eq!((a.rows, b.rows), (41, 50));
    assert!(a.bytes > 0 && b.bytes >= a.bytes, "{a:?} {b:?}");
    let all = s.store.span(&table(), &KeyRange::all()).unwrap().unwrap();
    assert_eq!(all.rows, 91);
    let none = TableName::new("none").unwrap();
    assert_eq!(s.store.span(&none, &KeyRange::all()).unwrap_err().kind(), ErrorKind::NotFound);
}

pub(super) async fn ranges_are_dropped(s: &Subject) {
    s.create_plain().await;
    let all = ["a#1", "a#2", "a$", "ab#1", "b"];
    for name in all {
        s.write(name, vec![set("a:q", 1, "v")]).await;
    }
    let refused = s.store.drop_row_range(&table(), Bytes::new()).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid, "an empty prefix would be every row");
    s.check("nothing was lost", &["a#1: a:q@1=v", "a#2: a:q@1=v", "a$: a:q@1=v", "ab#1: a:q@1=v", "b: a:q@1=v"]).await;
    s.store.drop_row_range(&table(), "a#".into()).await.unwrap();
    s.check("exactly the prefix", &["a$: a:q@1=v", "ab#1: a:q@1=v", "b: a:q@1=v"]).await;
    s.store.drop_row_range(&table(), "none".into()).await.unwrap();
    s.store.drop_row_range(&table(), "a".into()).await.unwrap();
    s.check("a shorter one", &["b: a:q@1=v"]).await;
    let none = TableName::new("none").unwrap();
    assert_eq!(s.store.drop_row_range(&none, "a".into()).await.unwrap_err().kind(), ErrorKind::NotFound);
}

pub(super) async fn a_dropped_range_takes_new_rows(s: &Subject) {
    s.create_plain().await;
    s.write("a#1", vec![set("a:q", 9, "old"), set("b:q", 9, "old")]).await;
    s.store.drop_row_range(&table(), "a#".into()).await.unwrap();
    s.check("gone", &[]).await;
    s.write("a#1", vec![set("a:q", 5, "new, with an older timestamp")]).await;
    s.check("only what came later", &["a#1: a:q@5=new, with an older timestamp"]).await;
    s.store.drop_row_range(&table(), "a#1".into()).await.unwrap();
    s.check("gone again", &[]).await;
}
