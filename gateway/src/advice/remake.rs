//! A table made anew with its rows: the changed definition, and the query that fills it.

use crate::pg::ident::quote_ident;
use keyspan_catalog::{
    Column, ColumnPlace, Encoding, KeyPart, KeySchema, PartOrder, SqlType, Table,
    table::{ColumnDefault, DefaultValue, TENANT_COLUMN},
};

/// Bytes that are kept of a name to which something is appended: together they are no longer than a name may be.
const NAME_BYTES_KEPT: usize = 40;

/// A table in the place of another.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Remake {
    /// Its name.
    pub(crate) name: String,
    /// The definition, under the old one's name.
    pub(crate) table: Table,
    /// Its columns with the expressions that fill them; others have their defaults.
    pub(crate) values: Vec<(String, String)>,
    /// What stands behind FROM.
    pub(crate) from: String,
}

impl Remake {
    /// The same table under another name, filled with its own values. `None` for one that others made on a server.
    pub(crate) fn of(table: &Table, suffix: &str) -> Option<Self> {
        if table.is_found() {
            return None;
        }
        let tenant = (!table.is_private()).then_some(TENANT_COLUMN);
        let own = table.columns.iter().map(|column| column.name.as_str());
        let values = tenant.into_iter().chain(own).map(|name| (name.to_owned(), quote_ident(name))).collect();
        let (name, from) = (named(&table.name, suffix), quote_ident(&table.name));
        Some(Self { name, table: table.clone(), values, from })
    }

    /// The same with another key: columns with the order of each. What was a part before and is none is a cell. `None`
    /// if there can be no such key.
    pub(crate) fn keyed(mut self, parts: &[(&str, PartOrder)]) -> Option<Self> {
        let table = &mut self.table;
        let part = |(name, order): &(&str, PartOrder)| {
            let column = table.column(name)?;
            Some(KeyPart { name: (*name).to_owned(), kind: column.kind, order: *order })
        };
        let key = KeySchema { parts: parts.iter().map(part).collect::<Option<_>>()?, ..table.key.clone() };
        key.check().ok()?;
        let family = table.families.iter().find(|family| family.aggregate.is_none())?;
        let (encoding, family) = (table.encoding_of(family).cloned().unwrap_or_default(), family.name.clone());
        for column in &mut table.columns {
            match (key.parts.iter().position(|part| part.name == column.name), &column.place) {
                (Some(part), _) => (column.place, column.not_null) = (ColumnPlace::Key(part), true),
                (None, ColumnPlace::Key(_)) => {
                    let (family, qualifier) = (family.clone(), column.name.clone());
                    column.place = ColumnPlace::Cell { family, qualifier, encoding: encoding.clone() };
                }
                (None, _) => {}
            }
        }
        table.key = key;
        Some(self)
    }

    /// The same with one column more, the first one, until [`keyed`](Self::keyed) in the key. With a default it fills
    /// itself.
    pub(crate) fn with_first(mut self, name: &str, kind: SqlType, default: Option<ColumnDefault>) -> Self {
        let table = &mut self.table;
        let id = table.next_column_id;
        table.next_column_id += 1;
        let place = ColumnPlace::Key(0);
        let column = Column {
            id,
            name: name.to_owned(),
            kind,
            not_null: true,
            place,
            default,
            identity: None,
            enumerated: None,
            domain: None,
        };
        table.columns.insert(0, column);
        self
    }

    /// The same with one column of cells more, the last one, in a family that the table has. `None` without a family.
    pub(crate) fn with_cell(mut self, name: &str, kind: SqlType) -> Option<Self> {
        let table = &mut self.table;
        let (id, family) = (table.next_column_id, table.families.first()?.name.clone());
        table.next_column_id += 1;
        let place = ColumnPlace::Cell { family, qualifier: name.to_owned(), encoding: Encoding::default() };
        let name = name.to_owned();
        let (default, identity, enumerated, domain) = (None, None, None, None);
        table.columns.push(Column { id, name, kind, not_null: false, place, default, identity, enumerated, domain });
        Some(self)
    }

    /// The same without some columns and the conditions that name them.
    pub(crate) fn without(mut self, columns: &[&str]) -> Self {
        let is_gone = |name: &str| columns.contains(&name);
        self.table.columns.retain(|column| !is_gone(&column.name));
        self.table.checks.retain(|check| !check.columns.iter().any(|name| is_gone(name)));
        self.values.retain(|(name, _)| !is_gone(name));
        self
    }
}

/// A random value for each row.
pub(super) fn random_uuid() -> Option<ColumnDefault> {
    Some(ColumnDefault { sql: "gen_random_uuid()".to_owned(), value: DefaultValue::Uuid })
}

/// A name with something appended.
pub(super) fn named(name: &str, suffix: &str) -> String {
    let kept = name.floor_char_boundary(NAME_BYTES_KEPT);
    let suffix = &suffix[..suffix.floor_char_boundary(NAME_BYTES_KEPT / 2)];
    format!("{}_{suffix}", &name[..kept])
}

/// A name that no column of the table has: this one, or this with a number.
pub(super) fn free_column(table: &Table, name: &str) -> String {
    let numbered = (2_u32..).map(|number| format!("{name}{number}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    names.find(|name| table.column(name).is_none()).expect("numbers do not run out")
}

/// The parts of a table's key that have a name.
pub(super) fn parts(table: &Table) -> Vec<(&str, PartOrder)> {
    let parts = table.key.parts.iter().filter(|_| !table.has_hidden_key());
    parts.map(|part| (part.name.as_str(), part.order)).collect()
}
