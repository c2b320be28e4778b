//! Each limit of the data model has its own error, and refused requests change nothing.

use crate::{
    Error, ErrorKind, Family, FamilyChange, Filter, GcRule, Mutation, RowKey, RowMutation, Scan, StoreExt, TableName,
    TableSchema,
    model::limits::{
        CELL_BYTES_MAX, FAMILIES_MAX, FILTER_BYTES_MAX, FILTER_COPIES_MAX, FILTER_DEPTH_MAX, MUTATIONS_MAX,
        QUALIFIER_BYTES_MAX, ROW_BYTES_MAX, ROW_KEY_BYTES_MAX, TABLES_MAX,
    },
    testing::notation::{Subject, family, key, schema, set, table},
};
use bytes::Bytes;

fn cell(qualifier: Bytes, value: Bytes) -> Mutation {
    Mutation::SetCell { family: family("a"), qualifier, timestamp: Some(1), value }
}

async fn one_row(s: &Subject) {
    s.create_plain().await;
    s.write("k", vec![set("a:q", 1, "v")]).await;
}

pub(super) async fn keys_qualifiers_and_cells(s: &Subject) {
    one_row(s).await;
    let longest = Bytes::from(vec![b'q'; QUALIFIER_BYTES_MAX]);
    let too_long = Bytes::from(vec![b'q'; QUALIFIER_BYTES_MAX + 1]);
    let error = s.refuse("k", vec![cell(too_long.clone(), Bytes::new())]).await;
    assert!(matches!(error, Error::TooLarge { what: "a qualifier", size: 16_385, limit: 16_384 }), "{error}");
    let error = s.refuse("k", vec![crate::store::delete_column(family("a"), too_long)]).await;
    assert!(matches!(error, Error::TooLarge { what: "a qualifier", .. }), "{error}");
    let error = s.refuse("k", vec![cell("x".into(), vec![0; CELL_BYTES_MAX + 1].into())]).await;
    assert!(matches!(error, Error::TooLarge { what: "a cell", size: 104_857_601, limit: 104_857_600 }), "{error}");
    s.check("nothing was lost", &["k: a:q@1=v"]).await;
    let long_key = RowKey::new(vec![b'k'; ROW_KEY_BYTES_MAX]).unwrap();
    s.store.mutate_row(&table(), long_key.clone(), vec![cell(longest.clone(), "v".into())]).await.unwrap();
    let row = s.store.read_row(&table(), &long_key, None).await.unwrap().unwrap();
    assert_eq!((row.key, row.cells[0].qualifier.clone()), (long_key, longest), "what just fits is kept");
}

pub(super) async fn rows(s: &Subject) {
    one_row(s).await;
    let value = Bytes::from(vec![0; ROW_BYTES_MAX / 3]);
    let too_much = ["x", "y", "z"].map(|qualifier| cell(qualifier.into(), value.clone()));
    let error = s.refuse("k", too_much.to_vec()).await;
    assert!(matches!(error, Error::TooLarge { what: "a row", limit: ROW_BYTES_MAX, .. }), "{error}");
    s.check("nothing was lost", &["k: a:q@1=v"]).await;
}

pub(super) async fn mutations_in_a_request(s: &Subject) {
    one_row(s).await;
    let many = vec![Mutation::DeleteFromRow; MUTATIONS_MAX + 1];
    let error = s.refuse("k", many.clone()).await;
    assert!(matches!(error, Error::TooMany { what: "mutations", count: 300_001, limit: 300_000 }), "{error}");
    let half = MUTATIONS_MAX / 2 + 1;
    let row = |name: &str| RowMutation { key: key(name), mutations: many[..half].to_vec() };
    let error = s.store.mutate_rows(&table(), vec![row("k"), row("l")]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge, "counted over all rows");
    let write = |name: &str| crate::Write::Row { table: table(), row: row(name) };
    let commit = crate::Commit { writes: vec![write("k"), write("l")], validation: None };
    assert_eq!(s.store.commit(commit).await.unwrap_err().kind(), ErrorKind::TooLarge);
    s.check("nothing was lost", &["k: a:q@1=v"]).await;
}

pub(super) async fn families_and_tables(s: &Subject) {
    let names: Vec<String> = (0..=FAMILIES_MAX).map(|number| format!("f{number}")).collect();
    let families = |count: usize| -> TableSchema {
        schema(&names[..count].iter().map(|name| (name.as_str(), GcRule::KeepAll)).collect::<Vec<_>>())
    };
    let error = s.store.create_table(&table(), families(FAMILIES_MAX + 1)).await.unwrap_err();
    assert!(matches!(error, Error::TooMany { what: "families", count: 101, limit: 100 }), "{error}");
    s.store.create_table(&table(), families(FAMILIES_MAX)).await.unwrap();
    let more = FamilyChange::Create(family("more"), Family::default());
    let error = s.store.modify_families(&table(), vec![more]).await.unwrap_err();
    assert!(matches!(error, Error::TooMany { what: "families", .. }), "{error}");
    assert_eq!(s.store.table(&table()).await.unwrap(), families(FAMILIES_MAX));
    for number in 1..TABLES_MAX {
        s.store.create_table(&TableName::new(&format!("t{number}")).unwrap(), schema(&[])).await.unwrap();
    }
    let error = s.store.create_table(&TableName::new("more").unwrap(), schema(&[])).await.unwrap_err();
    assert!(matches!(error, Error::TooMany { what: "tables", count: 1_001, limit: 1_000 }), "{error}");
    assert_eq!(s.store.tables().await.unwrap().len(), TABLES_MAX);
}

pub(super) async fn filters_in_depth_and_size(s: &Subject) {
    one_row(s).await;
    let nested = |depth: usize| (1..depth).fold(Filter::PassAll, |inner, _| Filter::Chain(vec![inner]));
    let refused =
        async |filter| s.store.read_rows(&table(), Scan { filter: Some(filter), ..Scan::all() }).await.unwrap_err();
    let deepest = Scan { filter: Some(nested(FILTER_DEPTH_MAX)), ..Scan::all() };
    s.check_scan("as deep as can be", deepest, &["k: a:q@1=v"]).await;
    let error = refused(nested(FILTER_DEPTH_MAX + 1)).await;
    assert!(matches!(error, Error::TooMany { what: "levels of a filter", count: 21, limit: 20 }), "{error}");
    let error = refused(Filter::ValueRegex("v".repeat(FILTER_BYTES_MAX))).await;
    assert!(matches!(error, Error::TooLarge { what: "a filter", size: 20_481, limit: 20_480 }), "{error}");
    // Each doubles the result of the previous one.
    let doubled = Filter::Chain(vec![Filter::Interleave(vec![Filter::PassAll, Filter::PassAll]); 64]);
    let error = refused(doubled).await;
    assert!(
        matches!(error, Error::TooMany { what: "copies of a cell in a filter", limit: FILTER_COPIES_MAX, .. }),
        "{error}"
    );
    s.check("nothing was lost", &["k: a:q@1=v"]).await;
}
