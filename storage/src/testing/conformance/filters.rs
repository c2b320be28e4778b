//! The result of each filter for a row.

use crate::{
    Columns, ErrorKind, Filter, Scan, StoreExt, TimestampRange,
    scan::FamilyColumns,
    testing::notation::{Subject, family, set, table},
};
use bytes::Bytes;
use std::ops::Bound::{self, Excluded, Included, Unbounded};

const ALL: &str = "k: a:p@3=x a:q@3=x a:q@2=yy a:q@1=zzz b:q@2=x";

async fn one_row(s: &Subject) {
    s.create_plain().await;
    let row = [set("a:p", 3, "x"), set("a:q", 3, "x"), set("a:q", 2, "yy"), set("a:q", 1, "zzz"), set("b:q", 2, "x")];
    s.write("k", row.to_vec()).await;
}

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn qualifiers(start: Bound<Bytes>, end: Bound<Bytes>) -> Filter {
    Filter::QualifierRange { family: family("a"), start, end }
}

fn values(start: Bound<Bytes>, end: Bound<Bytes>) -> Filter {
    Filter::ValueRange { start, end }
}

fn condition(predicate: Filter, then: Option<Filter>, otherwise: Option<Filter>) -> Filter {
    Filter::Condition { predicate: predicate.into(), then: then.map(Box::new), otherwise: otherwise.map(Box::new) }
}

fn value(pattern: &str) -> Filter {
    Filter::ValueRegex(pattern.into())
}

/// `None` if the row is not returned.
async fn check_all(s: &Subject, filters: Vec<(Filter, Option<&str>)>) {
    for (filter, want) in filters {
        let want: Vec<&str> = want.into_iter().collect();
        s.check_scan(&filter, Scan { filter: Some(filter.clone()), ..Scan::all() }, &want).await;
    }
}

pub(super) async fn each_filter(s: &Subject) {
    use Filter::*;
    one_row(s).await;
    let timestamps = |start, end| Timestamps(TimestampRange { start, end });
    check_all(
        s,
        vec![
            (PassAll, Some(ALL)),
            (BlockAll, None),
            (FamilyRegex("a".into()), Some("k: a:p@3=x a:q@3=x a:q@2=yy a:q@1=zzz")),
            (FamilyRegex("a|b".into()), Some(ALL)),
            (FamilyRegex("".into()), None),
            (QualifierRegex("q".into()), Some("k: a:q@3=x a:q@2=yy a:q@1=zzz b:q@2=x")),
            (QualifierRegex("[a-p]".into()), Some("k: a:p@3=x")),
            (qualifiers(Included(bytes("q")), Unbounded), Some("k: a:q@3=x a:q@2=yy a:q@1=zzz")),
            (qualifiers(Excluded(bytes("p")), Unbounded), Some("k: a:q@3=x a:q@2=yy a:q@1=zzz")),
            (qualifiers(Unbounded, Excluded(bytes("q"))), Some("k: a:p@3=x")),
            (qualifiers(Included(bytes("p")), Included(bytes("p"))), Some("k: a:p@3=x")),
            (qualifiers(Included(bytes("q")), Excluded(bytes("p"))), None),
            (timestamps(2, Some(3)), Some("k: a:q@2=yy b:q@2=x")),
            (timestamps(i64::MIN, Some(2)), Some("k: a:q@1=zzz")),
            (timestamps(4, None), None),
            // A pattern matches the whole value.
            (value("z"), None),
            (value("z*"), Some("k: a:q@1=zzz")),
            (value("x|y"), Some("k: a:p@3=x a:q@3=x b:q@2=x")),
            (value("y|zz."), Some("k: a:q@1=zzz")),
            (values(Included(bytes("yy")), Unbounded), Some("k: a:q@2=yy a:q@1=zzz")),
            (values(Excluded(bytes("yy")), Unbounded), Some("k: a:q@1=zzz")),
            (values(Included(bytes("x")), Excluded(bytes("yy"))), Some("k: a:p@3=x a:q@3=x b:q@2=x")),
            (CellsPerColumn(1), Some("k: a:p@3=x a:q@3=x b:q@2=x")),
            (CellsPerColumn(2), Some("k: a:p@3=x a:q@3=x a:q@2=yy b:q@2=x")),
            (CellsPerRow(2), Some("k: a:p@3=x a:q@3=x")),
            (CellsPerRow(99), Some(ALL)),
            (CellsPerRowOffset(0), Some(ALL)),
            (CellsPerRowOffset(3), Some("k: a:q@1=zzz b:q@2=x")),
            (CellsPerRowOffset(5), None),
            (StripValue, Some("k: a:p@3= a:q@3= a:q@2= a:q@1= b:q@2=")),
            (
                Chain(vec![QualifierRegex("q".into()), CellsPerRowOffset(1), CellsPerRow(2)]),
                Some("k: a:q@2=yy a:q@1=zzz"),
            ),
            // The newest cell among the results of the value filter.
            (Chain(vec![value("[^x]*"), CellsPerColumn(1)]), Some("k: a:q@2=yy")),
            (Chain(vec![CellsPerColumn(1), value("[^x]*")]), None),
            (Chain(vec![StripValue, value("")]), Some("k: a:p@3= a:q@3= a:q@2= a:q@1= b:q@2=")),
            (Interleave(vec![value("zzz"), value("yy")]), Some("k: a:q@2=yy a:q@1=zzz")),
            (condition(value("zzz"), Some(CellsPerRow(1)), None), Some("k: a:p@3=x")),
            (condition(value("none"), Some(CellsPerRow(1)), None), None),
            (condition(value("none"), Some(PassAll), Some(value("yy"))), Some("k: a:q@2=yy")),
            (condition(value("zzz"), None, Some(PassAll)), None),
            // The predicate sees the results of earlier filters, and returns nothing itself.
            (Chain(vec![CellsPerRow(1), condition(value("yy"), None, Some(PassAll))]), Some("k: a:p@3=x")),
        ],
    )
    .await;
}

pub(super) async fn rows_by_key(s: &Subject) {
    s.create_plain().await;
    for key in ["a", "ab", "b", "a\nb", "\u{e9}"] {
        s.write(key, vec![set("a:q", 1, "v")]).await;
    }
    let check = async |pattern: &str, want: &[&str]| {
        let filter = Some(Filter::RowKeyRegex(pattern.into()));
        s.check_scan(pattern, Scan { filter, ..Scan::all() }, want).await;
    };
    check("a", &["a: a:q@1=v"]).await;
    check("a.*", &["a: a:q@1=v", "ab: a:q@1=v"]).await;
    check(r"a\C*", &["a: a:q@1=v", r"a\nb: a:q@1=v", "ab: a:q@1=v"]).await;
    // Bytes, not characters.
    check("..", &["ab: a:q@1=v", r"\xc3\xa9: a:q@1=v"]).await;
    check(r"\xc3.", &[r"\xc3\xa9: a:q@1=v"]).await;
    check("\u{e9}", &[r"\xc3\xa9: a:q@1=v"]).await;
}

pub(super) async fn duplicates_count_each(s: &Subject) {
    use Filter::*;
    one_row(s).await;
    let twice = || Interleave(vec![QualifierRegex("p".into()), Chain(vec![PassAll, StripValue]), CellsPerRow(2)]);
    check_all(
        s,
        vec![
            (twice(), Some("k: a:p@3=x a:p@3= a:p@3=x a:q@3= a:q@3=x a:q@2= a:q@1= b:q@2=")),
            (Chain(vec![twice(), CellsPerColumn(2)]), Some("k: a:p@3=x a:p@3= a:q@3= a:q@3=x b:q@2=")),
            (Chain(vec![twice(), CellsPerRow(2)]), Some("k: a:p@3=x a:p@3=")),
            (Chain(vec![twice(), CellsPerRowOffset(6)]), Some("k: a:q@1= b:q@2=")),
        ],
    )
    .await;
}

pub(super) async fn filters_come_after_columns(s: &Subject) {
    one_row(s).await;
    let scan = Scan {
        columns: Columns::Of(vec![FamilyColumns { family: family("a"), qualifiers: Some(vec![bytes("q")]) }]),
        versions_max: Some(2),
        filter: Some(Filter::CellsPerRowOffset(1)),
        ..Scan::all()
    };
    s.check_scan("columns, then versions, then the filter", scan, &["k: a:q@2=yy"]).await;
}

pub(super) async fn bad_filters_are_refused(s: &Subject) {
    one_row(s).await;
    for filter in [
        value("("),
        value("a)(b"),
        Filter::FamilyRegex("[".into()),
        Filter::RowKeyRegex("*".into()),
        Filter::QualifierRegex("a{2,1}".into()),
        Filter::CellsPerColumn(0),
        Filter::CellsPerRow(0),
        Filter::Chain(vec![]),
        Filter::Interleave(vec![]),
        condition(Filter::PassAll, Some(value("(")), None),
    ] {
        let scan = Scan { filter: Some(filter.clone()), ..Scan::all() };
        assert_eq!(s.store.read_rows(&table(), scan).await.unwrap_err().kind(), ErrorKind::Invalid, "{filter:?}");
    }
}
