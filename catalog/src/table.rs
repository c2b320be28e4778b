//! A table: families, columns, row-key schema.
//!
//! [`Table::define`] makes one of a [`TableDefinition`], what `CREATE TABLE` says; functions such as [`Table::add_column`] take a table
//! and give the changed one, all of them pure. [`Table::storage_schema`] is what the store must hold for it.

mod alter;
mod defaults;
mod define;
mod options;
#[cfg(test)]
mod tests;

pub use alter::AsksOfRows;
pub use defaults::{Check, ColumnDefault, DefaultValue, Identity};
pub use define::{ColumnDefinition, FamilyDefinition, TableDefinition};
pub(crate) use define::{DEFAULT_FAMILY, check_name};
pub use options::Options;

use crate::{Comments, Encoding, FamilyId, KeySchema, SqlType, TableId};
use keyspan_storage::{Aggregate, Family, FamilyName, GcRule, History, TableName, TableSchema};
use serde::{Deserialize, Serialize};

/// The hidden family whose one cell says that a row exists: a row of NULLs does.
pub const MARKER_FAMILY: &str = "_";
/// The qualifier of the marker cell.
pub const MARKER_QUALIFIER: &[u8] = b"";
/// The leading column of every table in the operator's database.
pub const TENANT_COLUMN: &str = "tenant";
/// The column of `raw()` and `cells()` with the bytes of the row key.
pub const KEY_COLUMN: &str = "_key";
/// The part of the key of a private table that was made without a primary key. No column shows it.
pub const HIDDEN_KEY: &str = "_row";

/// What is done with a stored value that does not decode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnBadValue {
    /// The statement fails.
    #[default]
    Error,
    /// It reads as NULL.
    Null,
}

/// What is done with a row whose key does not conform to the schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnBadKey {
    /// It is not seen.
    #[default]
    Skip,
    /// Its key parts read as NULL.
    Null,
    /// The statement fails.
    Error,
}

/// A column family of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableFamily {
    /// Never given twice in a table.
    pub id: FamilyId,
    /// Its name in SQL and in the store.
    pub name: FamilyName,
    /// What it may forget.
    pub gc: GcRule,
    /// Set when cells are merged.
    #[serde(default)]
    pub aggregate: Option<Aggregate>,
}

/// Where a column's values live.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnPlace {
    /// The part of the key with this number, from 0.
    Key(usize),
    /// A cell.
    Cell {
        /// The family.
        family: FamilyName,
        /// The qualifier: the column's first name, or that and a number when cells of a dropped column still have it.
        qualifier: String,
        /// How values become bytes.
        encoding: Encoding,
    },
}

/// A SQL column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// Its number in the table, from 1; never given twice. `attnum` on the wire.
    pub id: u16,
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: SqlType,
    /// Whether NULL is refused; always so in the key.
    #[serde(default)]
    pub not_null: bool,
    /// Where its values live.
    pub place: ColumnPlace,
    /// What a row has that is given no value; `None` for NULL.
    #[serde(default)]
    pub default: Option<ColumnDefault>,
    /// Set for `GENERATED … AS IDENTITY`.
    #[serde(default)]
    pub identity: Option<Identity>,
}

/// A table: shared, made by the operator and seen by each tenant as its own, or private, made by a tenant and seen by no other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Never given twice.
    pub id: TableId,
    /// Its name in SQL.
    pub name: String,
    /// Its name in the store: for a shared table its own, never given twice.
    pub physical: TableName,
    /// The space of a private table's rows in the store's table of all of them ([`private`](crate::private)), never given twice; `None`
    /// for a shared one.
    #[serde(default)]
    pub space: Option<u32>,
    /// The declared families; the marker family is not among them.
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
    /// For how long what rows held is kept after they changed, in microseconds; `None` for not at all.
    #[serde(default)]
    pub history_micros: Option<i64>,
    /// What no row may contradict.
    #[serde(default)]
    pub checks: Vec<Check>,
    /// The number for the next column.
    pub next_column_id: u16,
    /// The number for the next family.
    pub next_family_id: u32,
    /// Qualifiers of dropped columns, with their families: not to be given again.
    #[serde(default)]
    pub retired: Vec<(FamilyName, String)>,
    /// What is said of it.
    #[serde(default, skip_serializing_if = "Comments::is_empty")]
    pub comments: Comments,
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

    /// Whether it was made by a tenant, for itself.
    pub fn is_private(&self) -> bool {
        self.space.is_some()
    }

    /// Whether its key is one that no column shows: it was made without a primary key.
    pub fn has_hidden_key(&self) -> bool {
        self.is_private() && self.key.parts.iter().any(|part| part.name == HIDDEN_KEY)
    }

    /// The key as tenants see it, or with the tenant's id before it, as the operator does.
    pub fn key_for(&self, operator: bool) -> KeySchema {
        KeySchema { with_tenant: operator, ..self.key.clone() }
    }

    /// The families that the store must have: those declared, and the marker's. A marker ages by the longest age, and only if every
    /// family has one: a row lives as long as any of its cells may. Since when there is history is the store's business: 0 here.
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
        TableSchema { families: declared.chain([marker]).collect(), history }
    }
}

/// The name of the hidden family: [`MARKER_FAMILY`].
pub fn marker_family() -> FamilyName {
    FamilyName::new(MARKER_FAMILY).expect("one underscore is a name")
}
