//! The layouts of tables for the store, so that its segments hold typed columns.
//!
//! Every SQL column that lives in cells gets a column of the segment. It is typed where the bytes of a cell are the
//! value that SQL reads ([`column_kind`]), else binary. The store keeps values that do not decode apart, so that a
//! reader of the typed column never meets them.
//!
//! All private tables share one table of the store: module `private`.

mod private;

use crate::{
    Column, ColumnPlace, Encoding, Snapshot, SqlType, Table,
    key::KeyColumns,
    private::PRIVATE_TABLE,
    value::calendar::{is_date, is_timestamp},
};
use arc_swap::ArcSwap;
use bytes::Bytes;
use keyspan_storage::{Accepts, Aggregate, ColumnKind, KeyDecoder, Layout, LayoutColumn, Layouts, TableName};
pub use private::{private_layout, private_section};
use std::{fmt, sync::Arc};

/// The layouts of the tables of the newest snapshot. Holds a reference to the snapshot, not to the store.
pub(crate) struct NewestLayouts(pub(crate) Arc<ArcSwap<Snapshot>>);

impl fmt::Debug for NewestLayouts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NewestLayouts")
    }
}

impl Layouts for NewestLayouts {
    fn layout(&self, table: &TableName, keys: &[&[u8]], end: Option<&[u8]>) -> Option<Arc<Layout>> {
        let snapshot = self.0.load();
        if table.as_str() == PRIVATE_TABLE {
            let tables = private::tables_between(&snapshot, keys.first()?, end)?;
            return private_layout(keys, tables).map(Arc::new);
        }
        let found = snapshot.tables.values().find(|known| known.physical == *table)?;
        Some(Arc::new(layout_of(found)))
    }

    fn section<'a>(&self, table: &TableName, key: &'a [u8]) -> Option<&'a [u8]> {
        if table.as_str() == PRIVATE_TABLE { private_section(key) } else { None }
    }
}

/// The layout of a shared table's rows.
pub fn layout_of(table: &Table) -> Layout {
    let key = key_columns(table).map(|key| Arc::new(key) as Arc<dyn KeyDecoder>);
    Layout { columns: columns_of(table).collect(), key, section: Bytes::new() }
}

/// The columns of a table that live in cells.
fn columns_of(table: &Table) -> impl Iterator<Item = LayoutColumn> {
    let column = move |column: &Column| {
        let ColumnPlace::Cell { family, qualifier, .. } = &column.place else { return None };
        let kind = column_kind(table, column);
        let accepts = kind.and_then(|_| column_accepts(column));
        let kind = kind.unwrap_or(ColumnKind::Binary);
        Some(LayoutColumn { family: family.clone(), qualifier: qualifier.clone().into(), kind, accepts })
    };
    table.columns.iter().filter_map(column)
}

/// The id of the decoder of a table's keys; `None` if a part of the key has no column type.
pub fn key_columns_id(table: &Table) -> Option<String> {
    if table.is_private() { KeyColumns::id_in_space(&table.key) } else { key_columns(table).map(|key| key.id()) }
}

/// The columns of a shared table's keys as the store has them; `None` if a part of the key has no column type.
fn key_columns(table: &Table) -> Option<KeyColumns> {
    KeyColumns::new(&table.key)
}

/// The type of a column's cells, if their bytes are the values that SQL reads; `None` for key columns and where values
/// must be decoded from the bytes.
pub fn column_kind(table: &Table, column: &Column) -> Option<ColumnKind> {
    let ColumnPlace::Cell { family, encoding, .. } = &column.place else { return None };
    if let Some(aggregate) = table.family(family.as_str()).and_then(|family| family.aggregate) {
        let number = matches!(aggregate, Aggregate::Sum | Aggregate::Min | Aggregate::Max);
        return (number && column.kind == SqlType::Int8).then_some(ColumnKind::Int64);
    }
    if *encoding != Encoding::Binary {
        return (column.kind == SqlType::Text && *encoding == Encoding::Text).then_some(ColumnKind::Utf8);
    }
    Some(match column.kind {
        SqlType::Bool => ColumnKind::Bool,
        SqlType::Int2 => ColumnKind::Int16,
        SqlType::Int4 => ColumnKind::Int32,
        SqlType::Int8 => ColumnKind::Int64,
        SqlType::Float4 => ColumnKind::Float32,
        SqlType::Float8 => ColumnKind::Float64,
        SqlType::Text | SqlType::Name | SqlType::Varchar(_) | SqlType::Char(_) | SqlType::Json | SqlType::Jsonb => {
            ColumnKind::Utf8
        }
        SqlType::Bytea => ColumnKind::Binary,
        SqlType::Date => ColumnKind::Date32,
        SqlType::Timestamp(_) => ColumnKind::Timestamp,
        SqlType::Timestamptz(_) => ColumnKind::TimestampUtc,
        SqlType::Uuid => ColumnKind::Uuid,
        SqlType::Numeric { precision, scale } if precision > 0 && scale <= precision => {
            ColumnKind::Decimal { precision, scale }
        }
        SqlType::Numeric { .. }
        | SqlType::Exact(_)
        | SqlType::Time(_)
        | SqlType::Interval(_)
        | SqlType::Array(_)
        | SqlType::Bit(_)
        | SqlType::Varbit(_) => {
            return None;
        }
    })
}

/// The check that tells which values of the column's kind are valid; `None` if all are.
pub fn column_accepts(column: &Column) -> Option<Accepts> {
    kind_accepts(column.kind)
}

/// The check that tells which bytes of the right length are values of the type; `None` if all are.
pub fn kind_accepts(kind: SqlType) -> Option<Accepts> {
    let accepts = |name, holds| Some(Accepts { name, holds });
    match kind {
        SqlType::Date => accepts("date", |bytes| bytes.try_into().is_ok_and(|days| is_date(i32::from_be_bytes(days)))),
        SqlType::Timestamp(_) | SqlType::Timestamptz(_) => {
            accepts("timestamp", |bytes| bytes.try_into().is_ok_and(|micros| is_timestamp(i64::from_be_bytes(micros))))
        }
        SqlType::Json => accepts("json", |bytes| reads_as_itself(bytes, SqlType::Json)),
        SqlType::Jsonb => accepts("jsonb", |bytes| reads_as_itself(bytes, SqlType::Jsonb)),
        _ => None,
    }
}

/// Whether the bytes are a text of the type that parses to itself.
fn reads_as_itself(bytes: &[u8], kind: SqlType) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    crate::Value::parse(text, kind).is_ok_and(|value| matches!(value, crate::Value::Text(read) if read == text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ColumnDefinition, FamilyDefinition, TableDefinition, TableId, Value, mapping};
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    const KINDS: [SqlType; 15] = [
        SqlType::Bool,
        SqlType::Int2,
        SqlType::Int4,
        SqlType::Int8,
        SqlType::Float4,
        SqlType::Float8,
        SqlType::Text,
        SqlType::Varchar(Some(3)),
        SqlType::Bytea,
        SqlType::Date,
        SqlType::Timestamp(None),
        SqlType::Timestamptz(None),
        SqlType::Uuid,
        SqlType::Jsonb,
        SqlType::Numeric { precision: 20, scale: 2 },
    ];

    /// A table with one column for each type, `c0` and on, all in the family `m`.
    fn table(columns: &[(SqlType, Encoding)], options: &[(&str, &str)]) -> Table {
        let column =
            |(name, kind, family, encoding): (String, SqlType, Option<&str>, Option<Encoding>)| ColumnDefinition {
                name,
                kind,
                not_null: false,
                family: family.map(str::to_owned),
                encoding,
                qualifier: None,
            };
        let id = column(("id".into(), SqlType::Int4, None, None));
        let cells = columns.iter().enumerate();
        let cells = cells.map(|(at, (kind, encoding))| column((format!("c{at}"), *kind, None, Some(encoding.clone()))));
        let names = (0..columns.len()).map(|at| format!("c{at}")).collect();
        let definition = TableDefinition {
            remote: None,
            name: "t".into(),
            columns: [id].into_iter().chain(cells).collect(),
            primary_key: vec![("id".into(), true.into())],
            families: vec![FamilyDefinition { name: "m".into(), columns: names, open: false }],
            options: options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        };
        Table::define(TableId(20_000), &definition).unwrap()
    }

    fn check(columns: &[(SqlType, Encoding)], options: &[(&str, &str)], expected: Expect) {
        let layout = layout_of(&table(columns, options));
        let columns = layout.columns.iter().map(|column| {
            let some = if column.accepts.is_some() { " (some)" } else { "" };
            format!("{}:{} {:?}{some}", column.family, column.qualifier.escape_ascii(), column.kind)
        });
        let lines: Vec<String> = columns.chain(layout.key.map(|key| key.id())).collect();
        expected.assert_eq(&lines.join("\n"));
    }

    #[test]
    fn columns_are_typed_where_bytes_are_values() {
        check(
            &KINDS.map(|kind| (kind, Encoding::Binary)),
            &[],
            expect![[r#"
            m:c0 Bool
            m:c1 Int16
            m:c2 Int32
            m:c3 Int64
            m:c4 Float32
            m:c5 Float64
            m:c6 Utf8
            m:c7 Utf8
            m:c8 Binary
            m:c9 Date32 (some)
            m:c10 Timestamp (some)
            m:c11 TimestampUtc (some)
            m:c12 Uuid
            m:c13 Utf8 (some)
            m:c14 Decimal { precision: 20, scale: 2 }
            1 delimited int4-"#]],
        );
        let others = [
            (SqlType::Numeric { precision: 5, scale: 2 }, Encoding::Binary),
            (SqlType::Int4, Encoding::Text),
            (SqlType::Text, Encoding::Text),
            (SqlType::Text, Encoding::Json),
        ];
        check(
            &others,
            &[],
            expect![[r#"
            m:c0 Decimal { precision: 5, scale: 2 }
            m:c1 Binary
            m:c2 Utf8
            m:c3 Binary
            1 delimited int4-"#]],
        );
        let one = [(SqlType::Int8, Encoding::Binary)];
        check(
            &one,
            &[("m.aggregate", "max")],
            expect![[r#"
            m:c0 Int64
            1 delimited int4-"#]],
        );
        check(
            &one,
            &[("m.aggregate", "hll")],
            expect![[r#"
            m:c0 Binary
            1 delimited int4-"#]],
        );
    }

    /// Whether the bytes have the form that [`ColumnKind`] defines for the kind.
    fn is_of(kind: ColumnKind, bytes: &[u8]) -> bool {
        match kind {
            ColumnKind::Binary => true,
            ColumnKind::Utf8 => std::str::from_utf8(bytes).is_ok(),
            ColumnKind::Bool => matches!(bytes, [0 | 1]),
            ColumnKind::Int16 => bytes.len() == 2,
            ColumnKind::Int32 | ColumnKind::Float32 | ColumnKind::Date32 => bytes.len() == 4,
            ColumnKind::Int64 | ColumnKind::Float64 | ColumnKind::Timestamp | ColumnKind::TimestampUtc => {
                bytes.len() == 8
            }
            ColumnKind::Uuid => bytes.len() == 16,
            ColumnKind::Decimal { precision, scale } => mapping::numeric_parts(bytes).is_some_and(|(unscaled, of)| {
                let value = Value::Numeric { unscaled, scale: of };
                let written = mapping::encode(&value, SqlType::Numeric { precision: 38, scale: of }, Encoding::Binary);
                of == scale
                    && unscaled.unsigned_abs() < 10_u128.pow(precision.into())
                    && written.is_ok_and(|written| written == bytes)
            }),
        }
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let width = prop::sample::select(vec![0, 1, 2, 4, 8, 16]);
        let random = width.prop_flat_map(|width| prop::collection::vec(any::<u8>(), width));
        let near = (any::<i32>(), prop::sample::select(vec![0_u8, 0x7f, 0x80, 0xff]));
        let near = near.prop_map(|(low, high)| [&[high; 4][..], &low.to_be_bytes()].concat());
        let texts = prop::sample::select(vec!["{}", "{\"a\": 1}", "{\"a\":1}", "[1, 2]", "é", "nul", "1.50"]);
        let decimals = (0..4_u8, prop::collection::vec(any::<u8>(), 0..12));
        let decimals = decimals.prop_map(|(scale, digits)| [vec![0, 0, 0, scale], digits].concat());
        prop_oneof![random, near, texts.prop_map(|text| text.as_bytes().to_vec()), decimals]
    }

    proptest! {
        #[test]
        fn what_a_column_takes_is_what_decodes_as_it_stands(bytes in bytes(), kind in prop::sample::select(KINDS.to_vec())) {
            let column = layout_of(&table(&[(kind, Encoding::Binary)], &[])).columns.remove(0);
            let taken = is_of(column.kind, &bytes) && column.accepts.is_none_or(|accepts| (accepts.holds)(&bytes));
            let decoded = mapping::decode(&bytes.clone().into(), kind, Encoding::Binary);
            if taken {
                prop_assert!(decoded.is_ok(), "{:?} {:?}", kind, decoded);
            }
            if let Ok(value) = decoded {
                let text = matches!(&value, Value::Text(text) if text.as_bytes() != bytes);
                // In another form than the one that is written.
                let written = mapping::encode(&value, kind, Encoding::Binary);
                let numeric = matches!(value, Value::Numeric { .. }) && written.is_ok_and(|written| written != bytes);
                prop_assert!(taken || text || numeric, "{:?} {:?}", kind, value);
                if let Ok(written) = mapping::encode(&value, kind, Encoding::Binary) {
                    prop_assert!(is_of(column.kind, &written) && column.accepts.is_none_or(|accepts| (accepts.holds)(&written)));
                }
            }
        }
    }
}
