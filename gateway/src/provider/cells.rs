//! `cells('t')`: every cell of a table, all versions.
//!
//! Columns: the key's (NULL if the key does not conform), `_key`, `family`, `qualifier`, `timestamp`, `value` and
//! `bytes`. A key column with one of these names is left out; `_key` contains it. A qualifier that is not UTF-8 reads
//! as `\x` and hexadecimal digits. `value` is the text of the bytes ([`Decoders`]). Predicates on `family`, `qualifier`
//! and `timestamp` are pushed down to the store too. The hidden family of markers is left out.

use super::{
    decode::{self, BatchBuilder, BatchSize, ColumnBuilder, Layout},
    keys::{Keys, PartColumn},
    predicate::{KeyBox, keys_of},
    pushdown::Pushdown,
    table::ScanPlan,
};
use crate::pg::{error::Result, types};
use arrow::{
    array::RecordBatch,
    datatypes::{Field, Schema, SchemaRef},
};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use keyspan_catalog::{
    Encoding, KeySchema, SqlType, Table, Value, ValueRef, mapping,
    table::{ColumnPlace, KEY_COLUMN, TableFamily},
    tenant::TENANT_DELIMITER,
};
use keyspan_storage::{
    Aggregate, Cell, Columns, FamilyName, Row, RowKey, TimestampRange, aggregate, scan::FamilyColumns,
};
use std::{borrow::Cow, collections::HashMap, ops::Bound, sync::Arc};

const FAMILY: &str = "family";
const QUALIFIER: &str = "qualifier";
pub(super) const TIMESTAMP: &str = "timestamp";
pub(super) const VALUE: &str = "value";
pub(super) const BYTES: &str = "bytes";

/// The columns after those of the key; only a value may be NULL.
const COLUMNS: [(&str, SqlType); 6] = [
    (KEY_COLUMN, SqlType::Bytea),
    (FAMILY, SqlType::Text),
    (QUALIFIER, SqlType::Text),
    (TIMESTAMP, SqlType::Timestamptz(None)),
    (VALUE, SqlType::Text),
    (BYTES, SqlType::Bytea),
];

/// The columns of the key, nullable, without those whose name `is_taken`.
pub(super) fn key_fields(keys: &Keys, is_taken: impl Fn(&str) -> bool) -> Vec<Field> {
    let free = keys.columns().iter().filter(|part| !is_taken(&part.name));
    free.map(|part| types::field_of(&part.name, part.kind, true)).collect()
}

pub(super) fn schema_of(_: &Table, keys: &Keys) -> SchemaRef {
    let mut fields = key_fields(keys, |name| COLUMNS.iter().any(|(column, _)| *column == name));
    fields.extend(COLUMNS.iter().map(|(name, kind)| types::field_of(name, *kind, *name == VALUE)));
    Arc::new(Schema::new(fields))
}

/// All families of a table, sorted, without the hidden one.
pub(super) fn all_families(table: &Table) -> Vec<FamilyName> {
    let mut families: Vec<_> = table.families.iter().map(|family| family.name.clone()).collect();
    families.sort();
    families
}

fn whole_family(family: FamilyName) -> FamilyColumns {
    FamilyColumns { family, qualifiers: None }
}

/// Adds the filters on families, qualifiers and timestamps to the plan of keys.
pub(super) fn plan(filters: &[Expr], mut pushdown: Pushdown, table: &Table) -> ScanPlan {
    let columns = [(FAMILY, SqlType::Text), (QUALIFIER, SqlType::Text), (TIMESTAMP, SqlType::Timestamptz(None))];
    let keys =
        Keys::of_columns(columns.map(|(name, kind)| PartColumn { name: name.into(), kind, reversed: false }).to_vec());
    let mut all: Option<Vec<KeyBox>> = None;
    for (at, filter) in filters.iter().enumerate() {
        let Some(set) = keys_of(filter, false, &keys) else { continue };
        if pushdown.promises[at] == TableProviderFilterPushDown::Unsupported {
            pushdown.promises[at] = TableProviderFilterPushDown::Inexact;
        }
        let both = match &all {
            None => Some(set.boxes),
            Some(boxes) => super::predicate::intersect(boxes, &set.boxes),
        };
        if let Some(both) = both {
            all = Some(both);
            pushdown.pushed.push(filter.clone());
        }
    }
    let families = all_families(table);
    let Some(boxes) = all else {
        let columns = Columns::Of(families.into_iter().map(whole_family).collect());
        return ScanPlan { pushdown, columns: Some(columns), timestamps: TimestampRange::all() };
    };
    if boxes.is_empty() {
        pushdown.rows = keyspan_storage::RowSet::none();
        pushdown.shape = super::pushdown::Shape::Nothing;
    }
    let columns = families.into_iter().filter_map(|family| of_family(family, &boxes)).collect();
    ScanPlan { pushdown, columns: Some(Columns::Of(columns)), timestamps: timestamps(&boxes) }
}

/// The columns of a family that are in the boxes; `None` if the family is in none.
fn of_family(family: FamilyName, boxes: &[KeyBox]) -> Option<FamilyColumns> {
    let name = Value::Text(family.as_str().to_owned());
    let mut qualifiers: Vec<bytes::Bytes> = Vec::new();
    let mut is_read = false;
    for one in boxes.iter().filter(|one| one[0].as_ref().is_none_or(|slot| slot.contains(&name))) {
        is_read = true;
        let points = one[1].as_ref().map(|slot| slot.intervals().iter().map(|only| only.as_point().cloned()));
        let points: Option<Vec<Value>> = points.and_then(Iterator::collect);
        // A text in hexadecimal may stand for bytes that are not UTF-8.
        let is_text = |value: &Value| matches!(value, Value::Text(text) if !text.starts_with("\\x"));
        let Some(points) = points.filter(|points| points.iter().all(is_text)) else {
            return Some(whole_family(family));
        };
        qualifiers.extend(points.into_iter().filter_map(|value| match value {
            Value::Text(text) => Some(text.into()),
            _ => None,
        }));
    }
    qualifiers.sort();
    qualifiers.dedup();
    is_read.then_some(FamilyColumns { family, qualifiers: Some(qualifiers) })
}

/// The smallest range with all timestamps in the boxes.
fn timestamps(boxes: &[KeyBox]) -> TimestampRange {
    let mut hull: Option<(i64, Option<i64>)> = None;
    for one in boxes {
        let Some(intervals) = one[2].as_ref().map(super::interval::Slot::intervals) else {
            return TimestampRange::all();
        };
        let (Some(first), Some(last)) = (intervals.first(), intervals.last()) else { continue };
        let start = match &first.low {
            Bound::Included(Value::Timestamp(at)) | Bound::Excluded(Value::Timestamp(at)) => *at,
            _ => i64::MIN,
        };
        let end = match &last.high {
            Bound::Included(Value::Timestamp(at)) | Bound::Excluded(Value::Timestamp(at)) => at.checked_add(1),
            _ => None,
        };
        hull = Some(match hull {
            None => (start, end),
            Some((low, high)) => (low.min(start), high.zip(end).map(|(a, b)| a.max(b))),
        });
    }
    hull.map_or(TimestampRange::all(), |(start, end)| TimestampRange { start, end })
}

pub(super) fn layout(table: &Table, keys: &Keys, operator: bool, schema: SchemaRef) -> (Arc<dyn Layout>, Columns) {
    let sources = schema.fields().iter().map(|field| source(field.name(), keys)).collect();
    let layout = CellLayout { schema, keys: KeyReader::new(table, operator), decoders: Decoders::new(table), sources };
    let columns = all_families(table).into_iter().map(whole_family).collect();
    (Arc::new(Arc::new(layout)), Columns::Of(columns))
}

/// Decodes keys that may not conform.
#[derive(Debug)]
pub(super) struct KeyReader {
    schema: KeySchema,
}

impl KeyReader {
    pub(super) fn new(table: &Table, operator: bool) -> Self {
        let mut schema = table.key.clone();
        schema.with_tenant = operator;
        Self { schema }
    }

    /// The parts of a key. If it does not conform, all are NULL but the tenant.
    pub(super) fn read(&self, key: &RowKey) -> Vec<Value> {
        if let Ok(parts) = self.schema.decode(key) {
            return parts;
        }
        let mut parts = vec![Value::Null; self.schema.parts.len() + usize::from(self.schema.with_tenant)];
        if self.schema.with_tenant
            && let Some(end) = key.iter().position(|byte| *byte == TENANT_DELIMITER)
            && let Ok(tenant) = std::str::from_utf8(&key[..end])
        {
            parts[0] = Value::Text(tenant.to_owned());
        }
        parts
    }
}

/// What the bytes of cells stand for.
#[derive(Debug)]
pub(super) struct Decoders {
    /// Families of aggregates.
    aggregates: HashMap<FamilyName, Aggregate>,
    /// The type and the encoding of each declared column, by family, then qualifier.
    declared: HashMap<FamilyName, HashMap<String, (SqlType, Encoding)>>,
}

impl Decoders {
    pub(super) fn new(table: &Table) -> Self {
        let mut declared: HashMap<_, HashMap<_, _>> = HashMap::new();
        for column in &table.columns {
            if let ColumnPlace::Cell { family, qualifier, encoding } = &column.place {
                let family = declared.entry(family.clone()).or_default();
                family.insert(qualifier.clone(), (column.kind, encoding.clone()));
            }
        }
        let aggregate = |family: &TableFamily| family.aggregate.map(|aggregate| (family.name.clone(), aggregate));
        Self { aggregates: table.families.iter().filter_map(aggregate).collect(), declared }
    }

    /// A cell's value as the text of its column's type; of a column that no one declared, the bytes as UTF-8. `None`
    /// for bytes that are neither: no text of PostgreSQL has the character of number 0.
    pub(super) fn text(&self, cell: &Cell) -> Option<String> {
        if let Some(aggregate) = self.aggregates.get(&cell.family) {
            return aggregate::value(*aggregate, &cell.value).ok().map(|value| value.to_string());
        }
        let declared = std::str::from_utf8(&cell.qualifier).ok();
        let declared = declared.and_then(|qualifier| self.declared.get(&cell.family)?.get(qualifier));
        match declared {
            Some((kind, encoding)) => Some(mapping::decode(&cell.value, *kind, encoding).ok()?.to_text(*kind)),
            None => Some(std::str::from_utf8(&cell.value).ok().filter(|text| !text.contains('\0'))?.to_owned()),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Source {
    Part(usize, SqlType),
    Key,
    Family,
    Qualifier,
    Timestamp,
    Value,
    Bytes,
}

fn source(name: &str, keys: &Keys) -> Source {
    match name {
        KEY_COLUMN => Source::Key,
        FAMILY => Source::Family,
        QUALIFIER => Source::Qualifier,
        TIMESTAMP => Source::Timestamp,
        VALUE => Source::Value,
        BYTES => Source::Bytes,
        part => keys.part(part).map_or(Source::Key, |(part, kind)| Source::Part(part, kind)),
    }
}

#[derive(Debug)]
struct CellLayout {
    schema: SchemaRef,
    keys: KeyReader,
    decoders: Decoders,
    sources: Vec<Source>,
}

impl Layout for Arc<CellLayout> {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn start(&self, _: usize) -> Box<dyn BatchBuilder> {
        let kind = |source: &Source| match source {
            Source::Part(_, kind) => *kind,
            Source::Key | Source::Bytes => SqlType::Bytea,
            Source::Family | Source::Qualifier | Source::Value => SqlType::Text,
            Source::Timestamp => SqlType::Timestamptz(None),
        };
        let columns = self.sources.iter().map(|source| ColumnBuilder::new(kind(source))).collect();
        Box::new(CellBuilder { layout: Arc::clone(self), columns, size: BatchSize::default() })
    }
}

struct CellBuilder {
    layout: Arc<CellLayout>,
    columns: Vec<ColumnBuilder>,
    size: BatchSize,
}

/// A qualifier as text.
pub(super) fn qualifier_text(qualifier: &[u8]) -> Cow<'_, str> {
    let hexadecimal = || qualifier.iter().fold(String::from("\\x"), |text, byte| format!("{text}{byte:02x}"));
    std::str::from_utf8(qualifier).map_or_else(|_| hexadecimal().into(), Cow::Borrowed)
}

impl BatchBuilder for CellBuilder {
    fn push(&mut self, row: &Row) -> Result<()> {
        let parts = self.layout.keys.read(&row.key);
        for cell in &row.cells {
            for (source, column) in self.layout.sources.iter().zip(&mut self.columns) {
                self.size.bytes += match source {
                    Source::Part(part, _) => column.push_value(&parts[*part])?,
                    Source::Key => column.push(&ValueRef::Bytes(row.key.bytes().as_ref().into()))?,
                    Source::Family => column.push(&ValueRef::Text(cell.family.as_str().into()))?,
                    Source::Qualifier => column.push(&ValueRef::Text(qualifier_text(&cell.qualifier)))?,
                    Source::Timestamp => column.push(&ValueRef::Timestamp(cell.timestamp))?,
                    Source::Value => match self.layout.decoders.text(cell) {
                        Some(text) => column.push(&ValueRef::Text(text.into()))?,
                        None => {
                            column.push_null();
                            1
                        }
                    },
                    Source::Bytes => column.push(&ValueRef::Bytes(cell.value.as_ref().into()))?,
                };
            }
            self.size.rows += 1;
        }
        Ok(())
    }

    fn size(&self) -> BatchSize {
        self.size
    }

    fn finish(self: Box<Self>) -> Result<RecordBatch> {
        let columns = self.columns.into_iter().map(ColumnBuilder::finish).collect();
        decode::batch(&self.layout.schema, columns, self.size.rows)
    }
}
