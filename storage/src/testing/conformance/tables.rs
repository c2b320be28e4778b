//! Tables and their families.

use crate::{
    ErrorKind, Family, FamilyChange, GcRule, Scan, StoreExt, TableName, TableSchema,
    testing::notation::{Subject, aggregates, family, key, schema, set, table},
};

pub(super) async fn created_listed_and_dropped(s: &Subject) {
    assert_eq!(s.store.tables().await.unwrap(), vec![]);
    for name in ["t", "b", "s"] {
        s.store.create_table(&TableName::new(name).unwrap(), schema(&[("a", GcRule::KeepAll)])).await.unwrap();
    }
    let names = |tables: Vec<(TableName, TableSchema)>| -> Vec<String> {
        tables.into_iter().map(|(name, _)| name.to_string()).collect()
    };
    assert_eq!(names(s.store.tables().await.unwrap()), ["b", "s", "t"]);
    s.write("k", vec![set("a:q", 1, "v")]).await;
    s.store.drop_table(&table()).await.unwrap();
    assert_eq!(names(s.store.tables().await.unwrap()), ["b", "s"]);
    // A table that is created again is empty.
    s.create_plain().await;
    s.check("made again", &[]).await;
    s.write("k", vec![set("a:q", 2, "w")]).await;
    s.check("written again", &["k: a:q@2=w"]).await;
}

pub(super) async fn bad_tables_are_refused(s: &Subject) {
    s.create_plain().await;
    s.write("k", vec![set("a:q", 1, "v")]).await;
    let other = TableName::new("other").unwrap();
    assert_eq!(s.store.create_table(&table(), schema(&[])).await.unwrap_err().kind(), ErrorKind::AlreadyExists);
    let bad = schema(&[("a", GcRule::MaxVersions(0))]);
    assert_eq!(s.store.create_table(&other, bad).await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(s.store.drop_table(&other).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(s.store.read_rows(&other, Scan::all()).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(s.store.sample_row_keys(&other).await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(s.store.modify_families(&other, vec![]).await.unwrap_err().kind(), ErrorKind::NotFound);
    let write = s.store.mutate_row(&other, key("k"), vec![set("a:q", 1, "v")]).await;
    assert_eq!(write.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(s.refuse("k", vec![set("none:q", 1, "v")]).await.kind(), ErrorKind::NotFound);
    assert_eq!(s.store.tables().await.unwrap().len(), 1);
    s.check("nothing was lost", &["k: a:q@1=v"]).await;
}

pub(super) async fn families_change_all_or_none(s: &Subject) {
    s.create_plain().await;
    s.write("k", vec![set("a:q", 1, "v"), set("b:q", 1, "w")]).await;
    s.write("l", vec![set("b:q", 1, "only b")]).await;
    let name = table();
    let change = |changes| s.store.modify_families(&name, changes);
    let create = |name: &str| FamilyChange::Create(family(name), Family::default());
    let drop = |name: &str| FamilyChange::Drop(family(name));
    let set_gc = |name: &str, rule| FamilyChange::SetGc(family(name), rule);
    for (changes, kind) in [
        (vec![drop("b"), create("a")], ErrorKind::AlreadyExists),
        (vec![drop("b"), drop("none")], ErrorKind::NotFound),
        (vec![drop("b"), set_gc("none", GcRule::KeepAll)], ErrorKind::NotFound),
        (vec![drop("b"), set_gc("a", GcRule::MaxVersions(0))], ErrorKind::Invalid),
    ] {
        assert_eq!(change(changes.clone()).await.unwrap_err().kind(), kind, "{changes:?}");
    }
    s.check("a refused change changes nothing", &["k: a:q@1=v b:q@1=w", "l: b:q@1=only b"]).await;
    change(vec![create("c"), drop("b"), set_gc("a", GcRule::MaxVersions(1))]).await.unwrap();
    let families = s.store.table(&table()).await.unwrap();
    assert_eq!(families, schema(&[("a", GcRule::MaxVersions(1)), ("c", GcRule::KeepAll)]));
    s.check("a dropped family takes its cells, and a row that had no others", &["k: a:q@1=v"]).await;
    s.write("k", vec![set("c:q", 1, "x")]).await;
    s.check("the new family takes cells", &["k: a:q@1=v c:q@1=x"]).await;
    assert_eq!(s.refuse("k", vec![set("b:q", 1, "v")]).await.kind(), ErrorKind::NotFound);
}

pub(super) async fn a_family_dropped_and_made_again_is_empty(s: &Subject) {
    s.create_plain().await;
    s.write("k", vec![set("a:q", 1, "v"), set("b:q", 1, "w")]).await;
    s.store.modify_families(&table(), vec![FamilyChange::Drop(family("b"))]).await.unwrap();
    let again = FamilyChange::Create(family("b"), Family::default());
    s.store.modify_families(&table(), vec![again]).await.unwrap();
    s.check("nothing of the old cells", &["k: a:q@1=v"]).await;
    s.write("k", vec![set("b:q", 2, "new")]).await;
    s.check("only the new cell", &["k: a:q@1=v b:q@2=new"]).await;
}

pub(super) async fn names_and_schemas_are_kept(s: &Subject) {
    let rule = GcRule::Union(vec![
        GcRule::MaxVersions(5),
        GcRule::Intersection(vec![GcRule::MaxAgeMicros(7_000), GcRule::MaxVersions(2)]),
    ]);
    let mut wanted = aggregates();
    wanted.families.insert(family("nested"), Family { gc: rule, aggregate: None });
    let name = TableName::new("A-name_with.all-9").unwrap();
    s.store.create_table(&name, wanted.clone()).await.unwrap();
    assert_eq!(s.store.tables().await.unwrap(), vec![(name, wanted)]);
}

pub(super) async fn a_closed_store_stops(s: &Subject) {
    s.create_plain().await;
    s.write("k", vec![set("a:q", 1, "v")]).await;
    s.store.close().await.unwrap();
    assert_eq!(s.refuse("k", vec![set("a:q", 2, "v")]).await.kind(), ErrorKind::Unavailable);
    assert_eq!(s.store.read_rows(&table(), Scan::all()).await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(s.store.pin().await.unwrap_err().kind(), ErrorKind::Unavailable);
}
