//! The columns that ranges of keys can be made of: key parts by name, or the key as bytes.

use keyspan_catalog::{
    KeySchema, PartBounds, SqlType, Table, Value,
    table::{ColumnPlace, KEY_COLUMN, OnBadKey, TENANT_COLUMN},
};
use keyspan_storage::{KeyRange, RowKey};
use std::ops::Bound;

/// A key part as a column.
#[derive(Clone, Debug, PartialEq)]
pub struct PartColumn {
    /// The column.
    pub name: String,
    /// Its type.
    pub kind: SqlType,
}

/// The key parts of a table as columns, or its keys as bytes.
#[derive(Clone, Debug)]
pub struct Keys {
    columns: Vec<PartColumn>,
    /// `None` for keys as bytes.
    schema: Option<KeySchema>,
    /// Whether parts of keys that do not conform read as NULL.
    pub(super) nullable: bool,
}

impl Keys {
    /// The key parts of a table; for the operator, the tenant before them.
    pub fn of_table(table: &Table, operator: bool) -> Self {
        let mut schema = table.key.clone();
        schema.with_tenant = operator;
        let name = |part: usize| {
            let column = table.columns.iter().find(|column| column.place == ColumnPlace::Key(part));
            column.map_or(&table.key.parts[part].name, |column| &column.name).clone()
        };
        let tenant = operator.then(|| PartColumn { name: TENANT_COLUMN.into(), kind: SqlType::Text });
        let parts = table.key.parts.iter().enumerate();
        let parts = parts.map(|(index, part)| PartColumn { name: name(index), kind: part.kind });
        Self {
            columns: tenant.into_iter().chain(parts).collect(),
            schema: Some(schema),
            nullable: table.on_bad_key == OnBadKey::Null,
        }
    }

    /// The same parts, which read as NULL for keys that do not conform.
    #[must_use]
    pub(super) fn with_nulls(self) -> Self {
        Self { nullable: true, ..self }
    }

    /// The key as bytes: the column `_key`.
    pub(super) fn as_bytes() -> Self {
        let column = PartColumn { name: KEY_COLUMN.into(), kind: SqlType::Bytea };
        Self { columns: vec![column], schema: None, nullable: false }
    }

    /// Columns that are not of the key: for predicates only, no ranges can be made of them.
    pub(super) fn of_columns(columns: Vec<PartColumn>) -> Self {
        Self { columns, schema: None, nullable: false }
    }

    /// The parts in order.
    pub fn columns(&self) -> &[PartColumn] {
        &self.columns
    }

    /// The index and type of the part with this column name.
    pub(super) fn part(&self, column: &str) -> Option<(usize, SqlType)> {
        let index = self.columns.iter().position(|part| part.name == column)?;
        Some((index, self.columns[index].kind))
    }

    /// The number of buckets of salted keys; 1 for other keys. One range may become one in each bucket.
    pub(super) fn buckets(&self) -> usize {
        self.schema.as_ref().map_or(1, |schema| usize::from(schema.salt.max(1)))
    }

    /// [`KeySchema::exact_ranges`].
    pub(super) fn exact_ranges(&self, equal: &[Value], next: Option<&PartBounds>) -> (Vec<KeyRange>, bool) {
        match &self.schema {
            None => (bytes_range(equal, next).into_iter().collect(), true),
            Some(_) if equal.is_empty() && next.is_none() => (vec![KeyRange::all()], true),
            Some(schema) => schema.exact_ranges(equal, next),
        }
    }

    /// [`KeySchema::range_is_exact`].
    pub(super) fn range_is_exact(&self, equal: &[Value], next: Option<&PartBounds>) -> bool {
        self.exact_ranges(equal, next).1
    }
}

fn bytes_range(equal: &[Value], next: Option<&PartBounds>) -> Option<KeyRange> {
    let bytes =
        |value: &Value| if let Value::Bytes(bytes) = value { bytes.clone() } else { unreachable!("a key is bytes") };
    let after = |value: &Value| [&bytes(value)[..], &[0]].concat().into();
    if let Some(key) = equal.first() {
        return RowKey::new(bytes(key)).ok().map(|key| KeyRange::point(&key));
    }
    let Some(PartBounds::Between(low, high)) = next else { return Some(KeyRange::all()) };
    let start = match low {
        Bound::Unbounded => bytes::Bytes::new(),
        Bound::Included(low) => bytes(low),
        Bound::Excluded(low) => after(low),
    };
    let end = match high {
        Bound::Unbounded => None,
        Bound::Included(high) => Some(after(high)),
        Bound::Excluded(high) => Some(bytes(high)),
    };
    Some(KeyRange::new(start, end)).filter(|range| !range.is_empty())
}
