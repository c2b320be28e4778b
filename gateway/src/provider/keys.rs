//! The columns that ranges of keys can be made of: key parts by name, or the key as bytes.

use super::{
    interval::{Interval, Slot},
    literal::Edge,
    predicate::slot_of,
};
use datafusion::logical_expr::Operator;
use keyspan_catalog::{
    KeySchema, PartBounds, PartOrder, SqlType, Table, Value,
    key::reversed::{is_text, reversed_labels, suffix_prefix},
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
    /// Whether it is reversed: its keys are not in the order of its values.
    pub reversed: bool,
}

/// The key parts of a table as columns, or its keys as bytes.
///
/// A reversed text is a text here whose labels are reversed, as keys have it: of these, domains with one end are those
/// with one beginning. [`slot`](Self::slot) and its kin make them of what predicates say, and [`shown`](Self::shown)
/// turns them back.
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
        for part in schema.parts.iter_mut().filter(|part| is_text(part.kind) && part.is_reversed()) {
            part.order = PartOrder::Ascending;
        }
        let name = |part: usize| {
            let column = table.columns.iter().find(|column| column.place == ColumnPlace::Key(part));
            column.map_or(&table.key.parts[part].name, |column| &column.name).clone()
        };
        let tenant = operator.then(|| PartColumn { name: TENANT_COLUMN.into(), kind: SqlType::Text, reversed: false });
        let parts = table.key.parts.iter().enumerate();
        let parts =
            parts.map(|(index, part)| PartColumn { name: name(index), kind: part.kind, reversed: part.is_reversed() });
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
        let column = PartColumn { name: KEY_COLUMN.into(), kind: SqlType::Bytea, reversed: false };
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

    /// The values of a part for which a comparison with a literal holds; `None` if they cannot be said, as the order of
    /// a reversed part's values.
    pub(super) fn slot(&self, part: usize, edge: &Edge, op: Operator) -> Option<Slot> {
        let column = self.columns.get(part)?;
        if !column.reversed {
            return slot_of(edge, op);
        }
        let equal = self.points(part, edge.equal())?;
        match op {
            Operator::Eq => Some(equal),
            Operator::NotEq => Some(equal.complement()),
            _ => None,
        }
    }

    /// Single values of a part, as they are here; `None` for what is more than values of a reversed part.
    pub(super) fn points(&self, part: usize, slot: Slot) -> Option<Slot> {
        if !self.columns.get(part)?.reversed {
            return Some(slot);
        }
        let point = |interval: &Interval| {
            let point = Bound::Included(self.shown(part, interval.as_point()?.clone()));
            Some(Interval::new(point.clone(), point))
        };
        Some(Slot::new(slot.intervals().iter().map(point).collect::<Option<_>>()?))
    }

    /// The texts of a part that begin with a prefix; `None` of a reversed part, of which it says nothing.
    pub(super) fn with_prefix(&self, part: usize, prefix: &str) -> Option<Slot> {
        (!self.columns.get(part)?.reversed).then(|| Slot::text_prefix(prefix))
    }

    /// The texts of a reversed part that end with a suffix, and whether these are all; `None` of another part, and of a
    /// suffix that says nothing.
    pub(super) fn with_suffix(&self, part: usize, suffix: &str) -> Option<(Slot, bool)> {
        let column = self.columns.get(part).filter(|column| column.reversed && is_text(column.kind));
        let (prefix, exact) = suffix_prefix(suffix).filter(|_| column.is_some())?;
        Some((Slot::text_prefix(&prefix), exact))
    }

    /// The value of a part in SQL for the one that it is here, and the other way around.
    pub(super) fn shown(&self, part: usize, value: Value) -> Value {
        match (value, self.columns.get(part)) {
            (Value::Text(text), Some(PartColumn { reversed: true, .. })) => Value::Text(reversed_labels(&text)),
            (value, _) => value,
        }
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
