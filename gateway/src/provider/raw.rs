//! `raw('t')`: the rows of a table as they are stored.
//!
//! Columns: the key's (NULL if the key does not conform), `_key`, and for each family a map from qualifier to the
//! newest cell's value. A family keeps its name; a key column with the same name is left out. The hidden family of
//! markers is left out, but a row that has no other cells is in the result.

use super::{
    cells::{KeyReader, all_families, key_fields, qualifier_text},
    decode::{self, BatchBuilder, BatchSize, ColumnBuilder, Layout},
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
    let is_taken = |name: &str| name == KEY_COLUMN || families.iter().any(|family| family.as_str() == name);
    let mut fields = key_fields(keys, is_taken);
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
    let is_read =
        |family: &FamilyName| sources.iter().any(|source| matches!(source, Source::Family(name) if name == family));
    let columns = families.iter().filter(|family| is_read(family));
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
            Source::Part(_, kind) => RawColumn::Values(ColumnBuilder::new(*kind)),
            Source::Key => RawColumn::Values(ColumnBuilder::new(SqlType::Bytea)),
            Source::Family(_) => RawColumn::Map(Box::new(map_builder())),
        };
        let columns = self.sources.iter().map(column).collect();
        Box::new(RawBuilder { layout: Arc::clone(self), columns, size: BatchSize::default() })
    }
}

enum RawColumn {
    Values(ColumnBuilder),
    Map(Box<MapBuilder<StringBuilder, BinaryBuilder>>),
}

struct RawBuilder {
    layout: Arc<RawLayout>,
    columns: Vec<RawColumn>,
    size: BatchSize,
}

impl BatchBuilder for RawBuilder {
    fn push(&mut self, row: &Row) -> Result<()> {
        let parts = self.layout.keys.read(&row.key);
        for (source, column) in self.layout.sources.iter().zip(&mut self.columns) {
            match (source, column) {
                (Source::Part(part, _), RawColumn::Values(column)) => {
                    self.size.bytes += column.push_value(&parts[*part])?
                }
                (Source::Family(family), RawColumn::Map(map)) => {
                    for cell in row.cells.iter().filter(|cell| cell.family == *family) {
                        map.keys().append_value(qualifier_text(&cell.qualifier));
                        map.values().append_value(&cell.value);
                        self.size.bytes += cell.qualifier.len() + cell.value.len();
                    }
                    map.append(true).map_err(|error| SqlError::new(SqlState::INTERNAL_ERROR, error.to_string()))?;
                }
                (_, RawColumn::Values(column)) => {
                    self.size.bytes += column.push(&ValueRef::Bytes(row.key.bytes().as_ref().into()))?
                }
                (_, RawColumn::Map(_)) => unreachable!("only a family has a map"),
            }
        }
        self.size.rows += 1;
        Ok(())
    }

    fn size(&self) -> BatchSize {
        self.size
    }

    fn finish(self: Box<Self>) -> Result<RecordBatch> {
        let finish = |column| -> ArrayRef {
            match column {
                RawColumn::Values(column) => column.finish(),
                RawColumn::Map(mut map) => Arc::new(map.finish()),
            }
        };
        decode::batch(&self.layout.schema, self.columns.into_iter().map(finish).collect(), self.size.rows)
    }
}
