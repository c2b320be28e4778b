use super::*;
use crate::{ColumnDefinition, KeyPart, Private, SqlType, TableDefinition, TableId, TenantId};
use expect_test::{Expect, expect};

/// A table with an integer key and these columns.
fn table(space: u32, columns: &[(&str, SqlType)]) -> Table {
    let column = |(name, kind): &(&str, SqlType)| ColumnDefinition {
        name: (*name).into(),
        kind: *kind,
        not_null: false,
        family: None,
        encoding: None,
        qualifier: None,
    };
    let id = column(&("id", SqlType::Int4));
    let definition = TableDefinition {
        remote: None,
        name: format!("t{space}"),
        columns: [id].into_iter().chain(columns.iter().map(column)).collect(),
        primary_key: vec![("id".into(), true.into())],
        families: Vec::new(),
        options: Vec::new(),
    };
    let table = Table::define_private(TableId(space), &definition).unwrap();
    assert!(matches!(&table.key.parts[..], [KeyPart { kind: SqlType::Int4, .. }]));
    table
}

/// Checks the layout of segments with these rows: sections and how many rows each has.
fn check(sections: &[(&str, usize)], expected: Expect) {
    let tables = [
        table(20_001, &[("at", SqlType::Timestamptz(None)), ("n", SqlType::Int4)]),
        table(20_002, &[("n", SqlType::Int4), ("price", SqlType::Numeric { precision: 9, scale: 2 })]),
        table(20_003, &[("n", SqlType::Text), ("at", SqlType::Timestamptz(None))]),
    ];
    let keys: Vec<Vec<u8>> = sections
        .iter()
        .flat_map(|(section, rows)| {
            (0..*rows).map(move |row| [section.as_bytes(), &(row as u32).to_be_bytes()].concat())
        })
        .collect();
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let mut snapshot = Snapshot::default();
    for tenant in ["alto", "bela"] {
        let tables = tables.iter().map(|table| (table.id, Arc::new(table.clone()))).collect();
        let private = Private { tables, ..Private::default() };
        snapshot.private.insert(TenantId::new(tenant).unwrap(), Arc::new(private));
    }
    let end = sections.last().map(|(section, _)| [section.as_bytes(), b"\xff"].concat());
    let found = tables_between(&snapshot, keys[0], end.as_deref()).unwrap();
    let Some(layout) = private_layout(&keys, found) else { return expected.assert_eq("none") };
    let columns = layout.columns.iter().map(|column| format!("{} {:?}", column.qualifier.escape_ascii(), column.kind));
    let key = layout.key.map(|key| format!("{} of {}", key.id(), layout.section.escape_ascii()));
    let lines: Vec<String> = columns.chain(key).collect();
    expected.assert_eq(&lines.join("\n"));
}

#[test]
fn columns_are_typed_where_tables_agree() {
    check(
        &[("alto#20001#", 3)],
        expect![[r#"
        at TimestampUtc
        n Int32
        1 private ordered int4- of alto#20001#"#]],
    );
    // Between them lie tables without rows in the sample, which have another type of `n`.
    check(
        &[("alto#20001#", 3), ("bela#20002#", 2)],
        expect![[r#"
        at TimestampUtc
        n Binary
        price Decimal { precision: 9, scale: 2 }
        1 private ordered int4- of alto#20001#"#]],
    );
    check(
        &[("alto#20001#", 3), ("bela#20003#", 4)],
        expect![[r#"
        n Binary
        at TimestampUtc
        1 private ordered int4- of bela#20003#"#]],
    );
    check(
        &[("alto#20001#", 70), ("alto#20003#", 10)],
        expect![[r#"
        at TimestampUtc
        n Binary
        1 private ordered int4- of alto#20001#"#]],
    );
    check(
        &[("alto#20001#", 1), ("alto#9#", 2), ("else#20001#", 3)],
        expect![[r#"
        at TimestampUtc
        n Binary"#]],
    );
    check(&[("alto#9#", 2), ("alto", 1), ("alto#x#", 1), ("", 1)], expect![""]);
}
