use super::{
    keys::is_personal,
    names::cut,
    remake::parts,
    tables::{of_database, of_tenants},
    *,
};
use crate::shares::access::{Ends, FamilyReads, LargestCell, WholeScans};
use keyspan_catalog::{ColumnDefinition, FamilyDefinition, PartOrder, SqlType, TableDefinition, TableId};
use keyspan_storage::FamilyName;
use std::{collections::BTreeSet, sync::Arc};

const TIME: SqlType = SqlType::Timestamptz(None);

fn definition(name: &str, columns: &[(&str, SqlType)], key: &[&str]) -> TableDefinition {
    let column = |(name, kind): &(&str, SqlType)| ColumnDefinition {
        name: (*name).to_owned(),
        kind: *kind,
        not_null: false,
        family: None,
        encoding: None,
        qualifier: None,
    };
    TableDefinition {
        name: name.to_owned(),
        columns: columns.iter().map(column).collect(),
        primary_key: key.iter().map(|name| ((*name).to_owned(), PartOrder::Ascending)).collect(),
        ..TableDefinition::default()
    }
}

fn shared(columns: &[(&str, SqlType)], key: &[&str]) -> Table {
    Table::define(TableId(20_000), &definition("t", columns, key)).unwrap()
}

fn private(name: &str, columns: &[(&str, SqlType)], key: &[&str]) -> Table {
    Table::define_private(TableId(20_001), &definition(name, columns, key)).unwrap()
}

fn kinds(table: &Table, seen: &Seen) -> Vec<Kind> {
    of_table(table, seen).iter().map(|advice| advice.kind).collect()
}

fn key_of(advice: &Advice) -> Vec<(&str, PartOrder)> {
    match &advice.remedy {
        Remedy::Remake(remake) => parts(&remake.table),
        other => panic!("{other:?}"),
    }
}

fn scans(columns: &[&str], scans: u64, in_vain: u64) -> Seen {
    let columns = columns.iter().map(|name| (*name).to_owned()).collect();
    let equal = BTreeSet::new();
    Seen { whole_scans: vec![WholeScans { columns, equal, scans, bytes: in_vain * 2, in_vain }], ..Seen::default() }
}

#[test]
fn scans_in_vain_ask_for_another_key() {
    let columns = [("site", SqlType::Text), ("device", SqlType::Text), ("at", TIME), ("note", SqlType::Text)];
    let table = shared(&columns, &["site", "device", "at"]);
    const MIB: u64 = 1 << 20;
    for (compared, key) in [
        (&["device"][..], &["device", "site", "at"][..]),
        (&["at", "device"], &["device", "at", "site"]),
        (&["note"], &["note", "site", "device", "at"]),
    ] {
        let found = of_table(&table, &scans(compared, 10, MIB));
        let [only] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((only.kind, only.seen, only.bytes), (Kind::ScanWithoutRange, 10, Some(MIB)));
        assert_eq!(key_of(only).iter().map(|(name, _)| *name).collect::<Vec<_>>(), key);
    }
    // What is one of some values goes first, a range of texts does not go with it.
    let mut seen = scans(&["at", "device", "note"], 10, MIB);
    seen.whole_scans[0].equal = ["device".to_owned()].into();
    let found = of_table(&table, &seen);
    assert_eq!(key_of(&found[0]).iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["device", "at", "site"]);
    // The key begins with it already.
    let found = of_table(&table, &scans(&["site"], 10, MIB));
    assert!(found[0].remedy == Remedy::Words && found[0].text.contains("compare the column itself"), "{found:?}");
    let too_little = [scans(&["device"], 9, MIB), scans(&["device"], 10, MIB - 1), scans(&["gone"], 10, MIB)];
    assert!(too_little.iter().all(|seen| of_table(&table, seen).is_empty()));
    // What can be in no key, and a table without one.
    let json = shared(&[("id", SqlType::Int8), ("body", SqlType::Jsonb)], &["id"]);
    assert_eq!(of_table(&json, &scans(&["body"], 10, MIB))[0].remedy, Remedy::Words);
    let keyless = private("t", &[("a", SqlType::Int8), ("row_id", SqlType::Int8)], &[]);
    let found = of_table(&keyless, &scans(&["a"], 10, MIB));
    assert_eq!(key_of(&found[0]).iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["a", "row_id2"]);
}

#[test]
fn keys_that_grow_are_spread() {
    let grew = |above, below| Seen { ends: Ends { rows: 10_000, above, below }, ..Seen::default() };
    let time_first = shared(&[("at", TIME), ("device", SqlType::Text)], &["at", "device"]);
    let time = shared(&[("at", TIME), ("v", SqlType::Text)], &["at"]);
    let number = private("t", &[("id", SqlType::Int8), ("v", SqlType::Text)], &["id"]);
    let text = shared(&[("id", SqlType::Text)], &["id"]);
    assert_eq!(key_of(&of_table(&time_first, &grew(9_500, 0))[0])[0].0, "device");
    let Remedy::Remake(salted) = &of_table(&time, &grew(9_000, 0))[0].remedy else { panic!() };
    assert_eq!(salted.table.key.salt, 8);
    assert_eq!(key_of(&of_table(&number, &grew(0, 9_000))[0]), [("id", PartOrder::Reversed)]);
    for (table, seen) in [(&time, grew(8_999, 0)), (&text, grew(10_000, 0)), (&salted.table, grew(10_000, 0))] {
        assert_eq!(kinds(table, &seen), []);
    }
    let few = Seen { ends: Ends { rows: 9_999, above: 9_999, below: 0 }, ..Seen::default() };
    assert_eq!(kinds(&time, &few), []);
}

#[test]
fn names_of_people_are_told_from_others() {
    for name in ["email", "user_email", "E-Mail", "phone", "first_name", "ip", "date_of_birth", "tax_id", "client_ip"] {
        assert!(is_personal(name), "{name}");
    }
    for name in ["id", "name", "email_id", "phone_hash", "device", "shipment", "recipient", "description", "address"] {
        assert!(!is_personal(name), "{name}");
    }
    let table = shared(&[("email", SqlType::Text), ("at", TIME)], &["email", "at"]);
    let found = of_table(&table, &Seen::default());
    assert_eq!(found[0].kind, Kind::PersonalKey);
    assert_eq!(key_of(&found[0]).iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["email_id", "at"]);
}

#[test]
fn names_with_values_are_told_from_others() {
    assert_eq!(cut("m01"), Some(("m", "01")));
    assert_eq!(cut("sales_2023_04"), Some(("sales", "2023_04")));
    assert_eq!([cut("m"), cut("2023"), cut("a1b"), cut("m_")], [None; 4]);
    let months: Vec<String> = (1..=5).map(|month| format!("m{month:02}")).collect();
    let mut columns = vec![("id", SqlType::Int8)];
    columns.extend(months.iter().map(|name| (name.as_str(), SqlType::Int4)));
    let table = shared(&columns, &["id"]);
    let found = of_table(&table, &Seen::default());
    assert_eq!((found.len(), found[0].kind, found[0].seen), (1, Kind::ValuesInNames, 5));
    let Remedy::Remake(remake) = &found[0].remedy else { panic!() };
    assert!(remake.table.open_column("m").is_some() && remake.table.families.len() == 1);
    assert_eq!(kinds(&shared(&columns[..5], &["id"]), &Seen::default()), []);
    columns[5].1 = SqlType::Text;
    assert_eq!(kinds(&shared(&columns, &["id"]), &Seen::default()), []);
}

fn family(name: &str) -> FamilyName {
    FamilyName::new(name).unwrap()
}

#[test]
fn families_are_joined_or_go() {
    let mut definition = definition(
        "t",
        &[("id", SqlType::Int8), ("a", SqlType::Text), ("b", SqlType::Text), ("c", SqlType::Text)],
        &["id"],
    );
    let declared = |name: &str, column: &str| FamilyDefinition {
        name: name.to_owned(),
        columns: vec![column.to_owned()],
        open: false,
    };
    definition.families = vec![declared("f", "a"), declared("g", "b"), declared("h", "c")];
    let table = Table::define(TableId(20_000), &definition).unwrap();
    let reads = |sets: &[(&[&str], u64)]| {
        let reads = |(names, scans): &(&[&str], u64)| FamilyReads {
            families: Some(names.iter().map(|name| family(name)).collect()),
            scans: *scans,
        };
        Seen { families: sets.iter().map(reads).collect(), ..Seen::default() }
    };
    assert_eq!(kinds(&table, &reads(&[(&["f", "g"], 100), (&["h"], 1)])), [Kind::FamiliesTogether]);
    assert_eq!(kinds(&table, &reads(&[(&["f", "g", "h"], 100)])), [Kind::FamiliesTogether]);
    assert_eq!(kinds(&table, &reads(&[(&["f", "g"], 100), (&["f"], 1), (&["h"], 1)])), []);
    assert_eq!(kinds(&table, &reads(&[(&["f"], 60), (&["g"], 60)])), [Kind::FamilyUnread]);
    assert_eq!(kinds(&table, &reads(&[(&["f"], 60), (&["g"], 39)])), []);
    let all = Seen { families: vec![FamilyReads { families: None, scans: 1_000 }], ..Seen::default() };
    assert_eq!(kinds(&table, &all), []);
}

#[test]
fn large_rows_and_cells_are_told() {
    let table = private("t", &[("id", SqlType::Int8), ("body", SqlType::Text)], &["id"]);
    assert_eq!(kinds(&table, &Seen { row_cells: 10_000, ..Seen::default() }), [Kind::WideRow]);
    assert_eq!(kinds(&table, &Seen { row_bytes: 10 << 20, row_cells: 300, ..Seen::default() }), [Kind::WideRow]);
    assert_eq!(kinds(&table, &Seen { row_cells: 9_999, ..Seen::default() }), []);
    let cell = |bytes| {
        let cell = LargestCell { family: family("cf"), qualifier: b"body".to_vec(), bytes };
        Seen { cell: Some(cell), ..Seen::default() }
    };
    let found = of_table(&table, &cell((10 << 20) + 1));
    assert!(matches!(&found[0].remedy, Remedy::Statement(sql) if sql.contains("substr(body")), "{found:?}");
    assert_eq!(kinds(&table, &cell(10 << 20)), []);
}

#[test]
fn many_tables_become_one() {
    let columns = [("id", SqlType::Int8), ("v", SqlType::Text)];
    let named = |name: String| Arc::new(private(&name, &columns, &["id"]));
    let days: Vec<Arc<Table>> = (1..=10).map(|day| named(format!("log_2026_{day:02}"))).collect();
    let small = |tables: &[Arc<Table>], bytes| {
        let sized: Vec<_> = tables.iter().map(|table| (table, bytes)).collect();
        (of_database(&sized).len(), of_tenants(&sized).len())
    };
    assert_eq!([small(&days, None), small(&days, Some(1)), small(&days, Some(100 << 20))], [(1, 0), (1, 0), (0, 0)]);
    assert_eq!(small(&days[..9], None), (0, 0));
    let tenants: Vec<Arc<Table>> = (0..20).map(|_| named("orders".to_owned())).collect();
    assert_eq!([small(&tenants, None), small(&tenants[..19], None)], [(0, 1), (0, 0)]);
    let sized: Vec<_> = tenants.iter().map(|table| (table, None)).collect();
    let Remedy::Remake(remake) = &of_tenants(&sized)[0].remedy else { panic!() };
    assert!(!remake.table.is_private() && remake.values.is_empty());
}
