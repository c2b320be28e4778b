//! A table: families, columns, row-key schema, defaults, checks. Pure definitions; no IO.
//!
//! [`Table::define`] makes a table from a [`TableDefinition`], the content of `CREATE TABLE`. Functions such as
//! [`Table::add_column`] take a table and return the changed one. [`Table::storage_schema`] gives the schema of its
//! table in the store.

mod alter;
mod defaults;
mod define;
pub mod describe;
mod gc;
mod open;
mod options;
#[cfg(test)]
mod tests;

pub use alter::RowEffect;
pub use defaults::{Check, ColumnDefault, DefaultValue, Identity};
pub use define::{ColumnDefinition, FamilyDefinition, TableDefinition};
pub(crate) use define::{DEFAULT_FAMILY, check_name};
pub use options::Options;

use crate::{
    ColumnDomain, Comments, Encoding, EnumType, FamilyId, KeySchema, ProtoMessage, RemoteTable, SqlType, TableId,
};
use keyspan_storage::{Aggregate, ErasedColumns, Family, FamilyName, GcRule, History, TableName, TableSchema};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The hidden family whose one cell marks that a row exists, since a row may consist of NULLs only.
pub const MARKER_FAMILY: &str = "_";
/// The qualifier of the marker cell.
pub const MARKER_QUALIFIER: &[u8] = b"";
/// The leading column of every table in the operator's database.
pub const TENANT_COLUMN: &str = "tenant";
/// The column of `raw()` and `cells()` with the bytes of the row key.
pub const KEY_COLUMN: &str = "_key";
/// The key part of a private table without a primary key. No column shows it.
pub const HIDDEN_KEY: &str = "_row";

/// The policy for stored values that do not decode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnBadValue {
    /// The statement fails.
    #[default]
    Error,
    /// The value reads as NULL.
    Null,
}

/// The policy for rows whose key does not conform to the schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnBadKey {
    /// The row is skipped.
    #[default]
    Skip,
    /// The key parts read as NULL.
    Null,
    /// The statement fails.
    Error,
}

/// A column family of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableFamily {
    /// The id, never reused in a table.
    pub id: FamilyId,
    /// The name in SQL and in the store.
    pub name: FamilyName,
    /// The GC rule.
    pub gc: GcRule,
    /// The aggregate into which cells are merged, if they are.
    #[serde(default)]
    pub aggregate: Option<Aggregate>,
}

/// Where a column's values are stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnPlace {
    /// A key part, by index from 0.
    Key(usize),
    /// A cell.
    Cell {
        /// The family.
        family: FamilyName,
        /// The qualifier: the one that the column's definition names, else the column's first name, with a number
        /// appended if cells of a dropped column still have that qualifier.
        qualifier: String,
        /// The encoding of values.
        encoding: Encoding,
    },
    /// All cells of an open family but those of declared columns, as one jsonb object: [`open_map`](crate::open_map).
    Open {
        /// The family.
        family: FamilyName,
        /// The encoding of its values, and of declared columns that name none.
        encoding: Encoding,
    },
}

/// A SQL column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// The column number in the table, from 1, never reused. `attnum` on the wire.
    pub id: u16,
    /// The name.
    pub name: String,
    /// The type.
    pub kind: SqlType,
    /// Whether NULL is refused; always true for key columns.
    #[serde(default)]
    pub not_null: bool,
    /// Where the values are stored.
    pub place: ColumnPlace,
    /// The default; `None` for NULL.
    #[serde(default)]
    pub default: Option<ColumnDefault>,
    /// Set for `GENERATED … AS IDENTITY`.
    #[serde(default)]
    pub identity: Option<Identity>,
    /// The enumerated type of a text that is a label of one; in private tables only.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::enum_type::shared")]
    pub enumerated: Option<Arc<EnumType>>,
    /// The domain of its values; in private tables only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<ColumnDomain>,
}

/// A table: shared (created by the operator, seen by each tenant as its own) or private (created by a tenant and seen
/// by no other).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// The id, never reused.
    pub id: TableId,
    /// The name in SQL.
    pub name: String,
    /// The OID of the schema: `public` but for some private tables.
    #[serde(default = "crate::schema::public", skip_serializing_if = "crate::schema::is_public")]
    pub schema: u32,
    /// The name of the store's table. A shared table has one of its own, whose name is never reused.
    pub physical: TableName,
    /// The space of a private table's rows in the store's table of all private tables ([`private`](crate::private)),
    /// never reused; `None` for a shared table.
    #[serde(default)]
    pub space: Option<u32>,
    /// Where its rows are, if they are on a server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<RemoteTable>,
    /// The declared families, without the marker family.
    pub families: Vec<TableFamily>,
    /// The columns, in the order of `SELECT *`; without `tenant`.
    pub columns: Vec<Column>,
    /// The row-key schema, as tenants see it.
    pub key: KeySchema,
    /// Policy for values that do not decode.
    #[serde(default)]
    pub on_bad_value: OnBadValue,
    /// Policy for keys that do not conform.
    #[serde(default)]
    pub on_bad_key: OnBadKey,
    /// How long old versions of rows are kept as history, in microseconds; `None` for no history.
    #[serde(default)]
    pub history_micros: Option<i64>,
    /// The CHECK constraints.
    #[serde(default)]
    pub checks: Vec<Check>,
    /// The next column number.
    pub next_column_id: u16,
    /// The next family id.
    pub next_family_id: u32,
    /// Qualifiers of dropped columns, with their families: not to be reused.
    #[serde(default)]
    pub retired: Vec<(FamilyName, String)>,
    /// Those of them whose cells are hidden and wait for their purge ([`Erasure`](crate::Erasure)).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub erasing: Vec<(FamilyName, String)>,
    /// The comments.
    #[serde(default, skip_serializing_if = "Comments::is_empty")]
    pub comments: Comments,
}

impl ColumnPlace {
    /// The family; `None` for a part of the key.
    pub fn family(&self) -> Option<&FamilyName> {
        match self {
            Self::Key(_) => None,
            Self::Cell { family, .. } | Self::Open { family, .. } => Some(family),
        }
    }
}

impl Column {
    /// The message that its cells hold, if they hold protobuf.
    pub fn message(&self) -> Option<&ProtoMessage> {
        match &self.place {
            ColumnPlace::Cell { encoding, .. } => encoding.message(),
            ColumnPlace::Key(_) | ColumnPlace::Open { .. } => None,
        }
    }
}

impl Table {
    /// The column of this name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// The family of this name.
    pub fn family(&self, name: &str) -> Option<&TableFamily> {
        self.families.iter().find(|family| family.name.as_str() == name)
    }

    /// Whether the table is private.
    pub fn is_private(&self) -> bool {
        self.space.is_some()
    }

    /// Whether the table was found on a server: it is not ours.
    pub fn is_found(&self) -> bool {
        self.remote.as_ref().is_some_and(RemoteTable::is_found)
    }

    /// Whether the rows of a tenant go with it: not those of tables that are not ours, unless they are said to.
    pub fn is_dropped_with_tenant(&self) -> bool {
        self.remote.as_ref().and_then(|remote| remote.found).is_none_or(|found| found.on_drop_delete)
    }

    /// Whether the table has a hidden key, since it has no primary key.
    pub fn has_hidden_key(&self) -> bool {
        self.is_private() && self.key.parts.iter().any(|part| part.name == HIDDEN_KEY)
    }

    /// The key schema as tenants see it, or with the tenant's id first, as the operator sees it.
    pub fn key_for(&self, operator: bool) -> KeySchema {
        KeySchema { with_tenant: operator, ..self.key.clone() }
    }

    /// The schema of the store's table: the declared families and the marker's. A marker expires after the longest
    /// `max_age`, and only if every family has one: a row exists as long as any of its cells may. The store sets the
    /// start of history; it is 0 here.
    pub fn storage_schema(&self) -> TableSchema {
        let ages = self.families.iter().map(|family| family.gc.age_max_micros());
        let longest = ages.reduce(|a, b| Some(a?.max(b?))).flatten();
        let one = GcRule::MaxVersions(1);
        let gc = longest.map_or(one.clone(), |age| GcRule::Union(vec![one, GcRule::MaxAgeMicros(age)]));
        let marker = (marker_family(), Family { gc, aggregate: None });
        let declared = self
            .families
            .iter()
            .map(|family| (family.name.clone(), Family { gc: family.gc.clone(), aggregate: family.aggregate }));
        let history = self.history_micros.map(|keep_micros| History { keep_micros, since_micros: 0 });
        let mut erased = ErasedColumns::new();
        for (family, qualifier) in &self.erasing {
            erased.entry(family.clone()).or_default().insert(qualifier.clone().into_bytes());
        }
        TableSchema { families: declared.chain([marker]).collect(), history, erased }
    }
}

/// The name of the hidden family: [`MARKER_FAMILY`].
pub fn marker_family() -> FamilyName {
    FamilyName::new(MARKER_FAMILY).expect("one underscore is a name")
}
