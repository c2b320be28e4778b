//! Which definitions and changes are valid.

use super::*;
use crate::{ErrorKind, KeyEncoding, PartOrder, Result};
use expect_test::{Expect, expect};

fn column(name: &str, kind: SqlType) -> ColumnDefinition {
    ColumnDefinition { name: name.into(), kind, not_null: false, family: None, encoding: None, qualifier: None }
}

fn pairs(options: &[(&str, &str)]) -> Vec<(String, String)> {
    options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn family(name: &str, columns: &[&str]) -> FamilyDefinition {
    FamilyDefinition { name: name.into(), columns: columns.iter().map(|&name| name.to_owned()).collect(), open: false }
}

/// The table `readings`.
fn readings() -> TableDefinition {
    TableDefinition {
        remote: None,
        name: "readings".into(),
        columns: vec![
            column("device", SqlType::Text),
            column("at", SqlType::Timestamptz(None)),
            column("temperature", SqlType::Float8),
            column("log", SqlType::Varchar(Some(20))),
        ],
        primary_key: vec![("device".into(), false.into()), ("at".into(), true.into())],
        families: vec![family("m", &["temperature"]), family("logs", &["log"])],
        options: pairs(&[("m.max_versions", "5"), ("logs.max_age", "30 days")]),
    }
}

fn define(definition: &TableDefinition) -> Result<Table> {
    Table::define(TableId(16_390), definition)
}

fn shown(table: &Table) -> String {
    let families: Vec<String> = table
        .storage_schema()
        .families
        .into_iter()
        .map(|(name, family)| {
            let merged = family.aggregate.map_or(String::new(), |aggregate| format!(" {aggregate:?}"));
            format!("{name}: {:?}{merged}\n", family.gc)
        })
        .collect();
    let columns: Vec<String> = table
        .columns
        .iter()
        .map(|column| {
            let place = match &column.place {
                ColumnPlace::Key(part) => format!("key {part}"),
                ColumnPlace::Cell { family, qualifier, encoding } => format!("{family}:{qualifier} {encoding:?}"),
                ColumnPlace::Open { family, encoding } => format!("{family}:* {encoding:?}"),
            };
            let not_null = if column.not_null { " not null" } else { "" };
            format!("{} {} {}{not_null} at {place}\n", column.id, column.name, column.kind)
        })
        .collect();
    format!("{} {:?}\n{}{}", table.physical, table.key.encoding, families.concat(), columns.concat())
}

fn check(definition: &TableDefinition, expected: Expect) {
    let table = define(definition).unwrap();
    expected.assert_eq(&shown(&table));
    let json = serde_json::to_string(&table).unwrap();
    assert_eq!(serde_json::from_str::<Table>(&json).unwrap(), table);
}

#[track_caller]
fn refused(result: Result<Table>, kind: ErrorKind, message: &str) {
    let error = result.unwrap_err();
    assert_eq!((error.kind(), error.to_string().as_str()), (kind, message));
}

#[test]
fn tables_are_defined() {
    check(
        &readings(),
        expect![[r#"
        readings-16390 Delimited
        _: MaxVersions(1)
        logs: MaxAgeMicros(2592000000000)
        m: MaxVersions(5)
        1 device text not null at key 0
        2 at timestamp with time zone not null at key 1
        3 temperature double precision at m:temperature Binary
        4 log character varying(20) at logs:log Binary
    "#]],
    );
    let plain = TableDefinition {
        name: "a table with a long name that is no name in the store".into(),
        families: vec![],
        options: pairs(&[("key_encoding", "ORDERED"), ("cf.encoding", "text"), ("on_bad_key", "error")]),
        ..readings()
    };
    check(
        &plain,
        expect![[r#"
        table-16390 Ordered
        _: MaxVersions(1)
        cf: KeepAll
        1 device text not null at key 0
        2 at timestamp with time zone not null at key 1
        3 temperature double precision at cf:temperature Text
        4 log character varying(20) at cf:log Text
    "#]],
    );
    assert_eq!(define(&plain).unwrap().on_bad_key, OnBadKey::Error);
}

#[test]
fn semantics_1_the_marker_ages_by_the_longest_age_if_all_families_have_one() {
    let marker = |options: &[(&str, &str)]| {
        let table = define(&TableDefinition { options: pairs(options), ..readings() }).unwrap();
        table.storage_schema().families[&marker_family()].gc.clone()
    };
    assert_eq!(marker(&[("m.max_age", "1 day")]), GcRule::MaxVersions(1));
    let aged = |age| GcRule::Union(vec![GcRule::MaxVersions(1), GcRule::MaxAgeMicros(age)]);
    assert_eq!(marker(&[("m.max_age", "1 s"), ("logs.max_age", "2 s")]), aged(2_000_000));
    assert_eq!(marker(&[("m.max_age", "3s"), ("logs.max_age", "2s"), ("m.max_versions", "1")]), aged(3_000_000));
}

#[test]
fn semantics_8_aggregate_families_hold_integers_without_age() {
    let counted = |kind, options: &[(&str, &str)]| {
        let mut definition = TableDefinition { options: pairs(options), ..readings() };
        definition.columns[2].kind = kind;
        define(&definition)
    };
    let table = counted(SqlType::Int8, &[("m.aggregate", "sum")]).unwrap();
    assert_eq!(table.family("m").unwrap().aggregate, Some(Aggregate::Sum));
    refused(
        counted(SqlType::Int4, &[("m.aggregate", "sum")]),
        ErrorKind::Invalid,
        "column \"temperature\" of aggregate family \"m\" must be a bigint",
    );
    refused(
        counted(SqlType::Int8, &[("m.aggregate", "max"), ("m.max_age", "1 day")]),
        ErrorKind::Invalid,
        "aggregate family \"m\" cannot have a max_age",
    );
    refused(
        table.set_options(&pairs(&[("m.max_age", "1 day")])),
        ErrorKind::Invalid,
        "aggregate family \"m\" cannot have a max_age",
    );
    refused(
        table.set_options(&pairs(&[("m.aggregate", "sum")])),
        ErrorKind::Unsupported,
        "parameter \"m.aggregate\" cannot be changed",
    );
}

#[test]
fn definitions_that_contradict_themselves_are_refused() {
    let with = |change: &dyn Fn(&mut TableDefinition)| {
        let mut definition = readings();
        change(&mut definition);
        define(&definition)
    };
    use ErrorKind::{ColumnExists, Invalid, NoColumn, Reserved, Unsupported};
    refused(with(&|d| d.primary_key.clear()), Invalid, "table \"readings\" has no primary key");
    refused(with(&|d| d.primary_key[0].0 = "x".into()), NoColumn, "column \"x\" named in key does not exist");
    refused(with(&|d| d.columns[3].name = "tenant".into()), Invalid, "column \"tenant\" belongs to no family");
    refused(
        with(&|d| (d.columns[3].name, d.families[1].columns[0]) = ("_key".into(), "_key".into())),
        Reserved,
        "column name \"_key\" is reserved",
    );
    refused(
        with(&|d| d.columns.push(d.columns[2].clone())),
        ColumnExists,
        "column \"temperature\" of relation \"readings\" already exists",
    );
    refused(with(&|d| drop(d.families.pop())), NoColumn, "family \"logs\" of relation \"readings\" does not exist");
    refused(with(&|d| d.families[1].columns.clear()), Invalid, "column \"log\" belongs to no family");
    refused(
        with(&|d| d.families[0].columns.push("log".into())),
        Invalid,
        "column \"log\" belongs to families \"m\" and \"logs\"",
    );
    refused(
        with(&|d| d.families[0].columns.push("at".into())),
        Invalid,
        "column \"at\" is part of the primary key and belongs to no family",
    );
    refused(
        with(&|d| d.families[0].columns.push("x".into())),
        NoColumn,
        "column \"x\" named in family \"m\" does not exist",
    );
    refused(with(&|d| d.families[0].name = "_".into()), Reserved, "family name \"_\" is reserved");
    refused(
        with(&|d| d.primary_key[0].1 = PartOrder::Descending),
        Unsupported,
        "column \"device\" cannot be part of the primary key: texts do not descend in delimited keys",
    );
    refused(
        with(&|d| d.columns[2].kind = SqlType::Numeric { precision: 39, scale: 0 }),
        Invalid,
        "numeric(39,0) must have a precision of 1 to 38 and a scale within it",
    );
}

#[test]
fn options_are_never_ignored() {
    let with = |name: &str, value: &str| define(&TableDefinition { options: pairs(&[(name, value)]), ..readings() });
    use ErrorKind::{Invalid, NoColumn};
    refused(with("fillfactor", "70"), Invalid, "unrecognized parameter \"fillfactor\"");
    refused(with("m.colour", "red"), Invalid, "unrecognized parameter \"m.colour\"");
    refused(with("x.max_versions", "1"), NoColumn, "family \"x\" of relation \"readings\" does not exist");
    refused(with("m.max_versions", "0"), Invalid, "invalid value for parameter \"m.max_versions\": \"0\"");
    refused(with("m.max_age", "2 months"), Invalid, "invalid value for parameter \"max_age\": \"2 months\"");
    refused(with("m.aggregate", "avg"), Invalid, "invalid value for parameter \"m.aggregate\": \"avg\"");
    refused(with("key_encoding", "x"), Invalid, "invalid value for parameter \"key_encoding\": \"x\"");
    refused(with("history", "0 days"), Invalid, "invalid value for parameter \"history\": \"0 days\"");
    refused(with("history", "1 month"), Invalid, "invalid value for parameter \"history\": \"1 month\"");
    let twice = TableDefinition { options: pairs(&[("m.max_versions", "1"), ("m.max_versions", "2")]), ..readings() };
    refused(define(&twice), Invalid, "parameter \"m.max_versions\" specified more than once");
    let age = |text| super::options::age("max_age", text);
    assert_eq!(age("1 hour 30min").unwrap(), 5_400_000_000);
    assert_eq!(age("2d").unwrap(), 172_800_000_000);
    assert!(age("").is_err() && age("1").is_err() && age("-1 day").is_err());
}

#[test]
fn options_are_changed_one_by_one() {
    let table = define(&readings()).unwrap();
    let gc = |table: &Table, name: &str| table.family(name).unwrap().gc.clone();
    let both = table.set_options(&pairs(&[("logs.max_versions", "3"), ("on_bad_value", "null")])).unwrap();
    let union = GcRule::Union(vec![GcRule::MaxVersions(3), GcRule::MaxAgeMicros(2_592_000_000_000)]);
    assert_eq!(
        (gc(&both, "logs"), gc(&both, "m"), both.on_bad_value),
        (union, GcRule::MaxVersions(5), OnBadValue::Null)
    );
    let one = both.set_options(&pairs(&[("logs.max_age", "none")])).unwrap();
    assert_eq!(gc(&one, "logs"), GcRule::MaxVersions(3));
    let history = |table: &Table| table.storage_schema().history.map(|history| history.keep_micros);
    let kept = table.set_options(&pairs(&[("history", "7 days")])).unwrap();
    let still = kept.set_options(&pairs(&[("m.max_versions", "2")])).unwrap();
    let none = kept.set_options(&pairs(&[("history", "none")])).unwrap();
    assert_eq!([&table, &kept, &still, &none].map(history), [None, Some(604_800_000_000), Some(604_800_000_000), None]);
    refused(
        table.set_options(&pairs(&[("key_encoding", "ordered")])),
        ErrorKind::Unsupported,
        "parameter \"key_encoding\" cannot be changed",
    );
}

#[test]
fn a_column_added_again_shows_nothing_of_the_old_cells() {
    let table = define(&readings()).unwrap();
    let again = |table: &Table| {
        let mut column = column("log", SqlType::Text);
        column.family = Some("logs".into());
        table.add_column(&column).unwrap()
    };
    let added = again(&table.drop_column("log").unwrap());
    let renamed = again(&added.rename_column("log", "old_log").unwrap());
    expect![[r#"
        readings-16390 Delimited
        _: MaxVersions(1)
        logs: MaxAgeMicros(2592000000000)
        m: MaxVersions(5)
        1 device text not null at key 0
        2 at timestamp with time zone not null at key 1
        3 temperature double precision at m:temperature Binary
        5 old_log text at logs:log~1 Binary
        6 log text at logs:log~2 Binary
    "#]]
    .assert_eq(&shown(&renamed));
}

#[test]
fn changes_that_cannot_be_are_refused() {
    let table = define(&readings()).unwrap();
    use ErrorKind::{ColumnExists, InUse, Invalid, NoColumn, Unsupported};
    refused(table.drop_column("at"), InUse, "cannot drop column \"at\" because it is part of the primary key");
    refused(table.drop_column("x"), NoColumn, "column \"x\" of relation \"readings\" does not exist");
    refused(table.rename_column("log", "at"), ColumnExists, "column \"at\" of relation \"readings\" already exists");
    refused(table.add_column(&column("x", SqlType::Text)), Invalid, "column \"x\" belongs to no family");
    let strict = ColumnDefinition { not_null: true, family: Some("m".into()), ..column("x", SqlType::Text) };
    refused(table.add_column(&strict), Unsupported, "column \"x\" cannot be added as NOT NULL");
    refused(table.drop_family("m"), InUse, "cannot drop family \"m\" of relation \"readings\"");
    refused(table.add_family("m", false, &[]), ColumnExists, "family \"m\" specified more than once");
    let more = table.add_family("n", false, &pairs(&[("n.max_versions", "2")])).unwrap();
    assert_eq!((more.families[2].id, &more.families[2].gc), (FamilyId(3), &GcRule::MaxVersions(2)));
    let fewer = more.drop_family("n").unwrap().add_family("n", false, &[]).unwrap();
    assert_eq!(fewer.families[2].id, FamilyId(4));
}

#[test]
fn types_change_where_what_is_stored_reads_the_same() {
    let table = define(&readings()).unwrap();
    assert_eq!(table.alter_type("log", SqlType::Text).unwrap().columns[3].kind, SqlType::Text);
    assert!(table.alter_type("log", SqlType::Varchar(Some(21))).is_ok());
    refused(
        table.alter_type("log", SqlType::Varchar(Some(19))),
        ErrorKind::Unsupported,
        "cannot change column \"log\" from character varying(20) to character varying(19)",
    );
    let key = table.alter_type("device", SqlType::Varchar(None)).unwrap();
    assert_eq!(key.key.parts[0].kind, SqlType::Varchar(None));
    assert!(table.alter_type("at", SqlType::Timestamp(None)).is_err());
    for (encoding, widens) in [(Encoding::Binary, false), (Encoding::Text, true), (Encoding::Json, true)] {
        let mut definition = readings();
        definition.columns[2].kind = SqlType::Int2;
        definition.columns[2].encoding = Some(encoding.clone());
        let changed = define(&definition).unwrap().alter_type("temperature", SqlType::Int8);
        assert_eq!(changed.is_ok(), widens, "{encoding:?}");
    }
    assert_eq!(table.key_for(true).columns().len(), 3);
    assert_eq!(table.key.encoding, KeyEncoding::Delimited);
}
