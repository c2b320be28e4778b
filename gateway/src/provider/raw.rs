//! `raw('t')`: the rows of a table as they are stored.
//!
//! Columns: the key's (NULL where the key does not conform), `_key`, and for each family a map from qualifier to the newest cell's
//! value. A family keeps its name; a key column of the same name is left out. The hidden family of markers is not shown, but a row
//! that has nothing else is.

use super::{
    cells::{KeyReader, all_families, key_fields, qualifier_text},
    decode::{self, BatchBuilder, ColumnBuilder, Layout},
    keys::Keys,
};
use crate::pg::{
    error::{Result, SqlError, SqlState},
    types,
};
use arrow::{
    array::{ArrayRef, BinaryBuilder, MapBuilder, MapFieldNames, RecordBatch, StringBuilder},
    datatypes::{DataType, Field, Fields, Schema, SchemaRef},
};
use keyspan_catalog::{SqlType, Table, ValueRef, table::KEY_COLUMN};
use keyspan_storage::{Columns, FamilyName, Row, scan::FamilyColumns};
use std::sync::Arc;

/// The type of a family: from qualifiers, as text, to values.
fn map_type() -> DataType {
    let entry =
        Fields::from(vec![Field::new("key", DataType::Utf8, false), Field::new("value", DataType::Binary, true)]);
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entry), false)), false)
}

fn map_builder() -> MapBuilder<StringBuilder, BinaryBuilder> {
    let names = MapFieldNames { entry: "entries".into(), key: "key".into(), value: "value".into() };
    MapBuilder::new(Some(names), StringBuilder::new(), BinaryBuilder::new())
}

pub(super) fn schema_of(table: &Table, keys: &Keys) -> SchemaRef {
    let families = all_families(table);
    let taken = |name: &str| name == KEY_COLUMN || families.iter().any(|family| family.as_str() == name);
    let mut fields = key_fields(keys, taken);
    fields.push(types::field_of(KEY_COLUMN, SqlType::Bytea, false));
    fields.extend(families.iter().map(|family| Field::new(family.as_str(), map_type(), false)));
    Arc::new(Schema::new(fields))
}

#[derive(Clone, Debug)]
enum Source {
    Part(usize, SqlType),
    Key,
    Family(FamilyName),
}

pub(super) fn layout(table: &Table, keys: &Keys, operator: bool, schema: SchemaRef) -> (Arc<dyn Layout>, Columns) {
    let families = all_families(table);
    let source = |name: &str| match families.iter().find(|family| family.as_str() == name) {
        Some(family) => Source::Family(family.clone()),
        None => keys.part(name).map_or(Source::Key, |(part, kind)| Source::Part(part, kind)),
    };
    let sources: Vec<Source> = schema.fields().iter().map(|field| source(field.name())).collect();
    let shown = |family: &FamilyName| sources.iter().any(|of| matches!(of, Source::Family(name) if name == family));
    let columns = families.iter().filter(|family| shown(family));
    let columns = columns.map(|family| FamilyColumns { family: family.clone(), qualifiers: None }).collect();
    let layout = RawLayout { schema, keys: KeyReader::new(table, operator), sources };
    (Arc::new(Arc::new(layout)), Columns::Of(columns))
}

#[derive(Debug)]
struct RawLayout {
    schema: SchemaRef,
    keys: KeyReader,
    sources: Vec<Source>,
}

impl Layout for Arc<RawLayout> {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn start(&self) -> Box<dyn BatchBuilder> {
        let column = |source: &Source| match source {
            Source::Part(_, kind) => RawColumn::Plain(ColumnBuilder::new(*kind)),
            Source::Key => RawColumn::Plain(ColumnBuilder::new(SqlType::Bytea)),
            Source::Family(_) => RawColumn::Map(Box::new(map_builder())),
        };
        let columns = self.sources.iter().map(column).collect();
        Box::new(RawBuilder { layout: Arc::clone(self), columns, rows: 0, bytes: 0 })
    }
}

enum RawColumn {
    Plain(ColumnBuilder),
    Map(Box<MapBuilder<StringBuilder, BinaryBuilder>>),
}

struct RawBuilder {
    layout: Arc<RawLayout>,
    columns: Vec<RawColumn>,
    rows: usize,
    bytes: usize,
}

impl BatchBuilder for RawBuilder {
    fn push(&mut self, row: &Row) -> Result<()> {
        let parts = self.layout.keys.read(&row.key);
        for (source, column) in self.layout.sources.iter().zip(&mut self.columns) {
            match (source, column) {
                (Source::Part(part, _), RawColumn::Plain(column)) => self.bytes += column.push_value(&parts[*part])?,
                (Source::Family(family), RawColumn::Map(map)) => {
                    for cell in row.cells.iter().filter(|cell| cell.family == *family) {
                        map.keys().append_value(qualifier_text(&cell.qualifier));
                        map.values().append_value(&cell.value);
                        self.bytes += cell.qualifier.len() + cell.value.len();
                    }
                    map.append(true).map_err(|error| SqlError::new(SqlState::INTERNAL_ERROR, error.to_string()))?;
                }
                (_, RawColumn::Plain(column)) => {
                    self.bytes += column.push(&ValueRef::Bytes(row.key.bytes().as_ref().into()))?
                }
                (_, RawColumn::Map(_)) => unreachable!("a map is a family's"),
            }
        }
        self.rows += 1;
        Ok(())
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn finish(self: Box<Self>) -> Result<RecordBatch> {
        let finish = |column| -> ArrayRef {
            match column {
                RawColumn::Plain(column) => column.finish(),
                RawColumn::Map(mut map) => Arc::new(map.finish()),
            }
        };
        decode::batch(&self.layout.schema, self.columns.into_iter().map(finish).collect(), self.rows)
    }
}
