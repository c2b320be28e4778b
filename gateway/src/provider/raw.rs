//! `raw('t')`: the rows of a table as they are stored.
//!
//! Columns: the key's (NULL if the key does not conform), `_key`, and for each family a map from qualifier to the
//! newest cell: its `value` as text (as [`cells`](super::cells) has it), its `bytes`, and its `timestamp`. A family
//! keeps its name; a key column with the same name is left out. The hidden family of markers is left out, but a row
//! that has no other cells is in the result.

use super::{
    cells::{BYTES, Decoders, KeyReader, TIMESTAMP, VALUE, all_families, key_fields, qualifier_text},
    decode::{self, BatchBuilder, BatchSize, ColumnBuilder, Layout},
    keys::Keys,
};
use crate::pg::{
    error::{Result, SqlError, SqlState},
    types,
};
use arrow::{
    array::{
        ArrayBuilder, ArrayRef, BinaryBuilder, MapBuilder, MapFieldNames, RecordBatch, StringBuilder, StructBuilder,
        TimestampMicrosecondBuilder,
    },
    datatypes::{DataType, Field, Fields, Schema, SchemaRef},
};
use keyspan_catalog::{SqlType, Table, ValueRef, table::KEY_COLUMN};
use keyspan_storage::{Cell, Columns, FamilyName, Row, scan::FamilyColumns};
use std::sync::Arc;

/// What a qualifier has: `value`, `bytes`, `timestamp`.
fn cell_fields() -> Fields {
    Fields::from(vec![
        Field::new(VALUE, DataType::Utf8, true),
        Field::new(BYTES, DataType::Binary, true),
        Field::new(TIMESTAMP, types::data_type(SqlType::Timestamptz(None)), true),
    ])
}

/// The type of a family: from qualifiers, as text, to cells.
fn map_type() -> DataType {
    let entry =
        vec![Field::new("key", DataType::Utf8, false), Field::new("value", DataType::Struct(cell_fields()), true)];
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entry.into()), false)), false)
}

/// Builds the map of a family.
struct FamilyBuilder {
    map: MapBuilder<StringBuilder, StructBuilder>,
}

impl FamilyBuilder {
    fn new() -> Self {
        let names = MapFieldNames { entry: "entries".into(), key: "key".into(), value: "value".into() };
        let times = TimestampMicrosecondBuilder::new().with_data_type(types::data_type(SqlType::Timestamptz(None)));
        let columns: Vec<Box<dyn ArrayBuilder>> =
            vec![Box::new(StringBuilder::new()), Box::new(BinaryBuilder::new()), Box::new(times)];
        let cells = StructBuilder::new(cell_fields(), columns);
        Self { map: MapBuilder::new(Some(names), StringBuilder::new(), cells) }
    }

    /// Appends a row's cells of the family; returns their size in bytes.
    fn push<'a>(&mut self, cells: impl Iterator<Item = &'a Cell>, decoders: &Decoders) -> Result<usize> {
        let mut bytes = 0;
        for cell in cells {
            let text = decoders.text(cell);
            bytes += cell.qualifier.len() + cell.value.len() + text.as_ref().map_or(0, String::len) + size_of::<i64>();
            self.map.keys().append_value(qualifier_text(&cell.qualifier));
            let fields = self.map.values();
            field::<StringBuilder>(fields, 0)?.append_option(text);
            field::<BinaryBuilder>(fields, 1)?.append_value(&cell.value);
            field::<TimestampMicrosecondBuilder>(fields, 2)?.append_value(cell.timestamp);
            fields.append(true);
        }
        self.map.append(true).map_err(|error| SqlError::new(SqlState::INTERNAL_ERROR, error.to_string()))?;
        Ok(bytes)
    }
}

fn field<B: ArrayBuilder>(fields: &mut StructBuilder, at: usize) -> Result<&mut B> {
    let found = fields.field_builder(at);
    found.ok_or_else(|| SqlError::new(SqlState::INTERNAL_ERROR, "a field of a cell has another type"))
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
    let layout = RawLayout { schema, keys: KeyReader::new(table, operator), decoders: Decoders::new(table), sources };
    (Arc::new(Arc::new(layout)), Columns::Of(columns))
}

#[derive(Debug)]
struct RawLayout {
    schema: SchemaRef,
    keys: KeyReader,
    decoders: Decoders,
    sources: Vec<Source>,
}

impl Layout for Arc<RawLayout> {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn start(&self, _: usize) -> Box<dyn BatchBuilder> {
        let column = |source: &Source| match source {
            Source::Part(_, kind) => RawColumn::Values(ColumnBuilder::new(*kind)),
            Source::Key => RawColumn::Values(ColumnBuilder::new(SqlType::Bytea)),
            Source::Family(_) => RawColumn::Map(Box::new(FamilyBuilder::new())),
        };
        let columns = self.sources.iter().map(column).collect();
        Box::new(RawBuilder { layout: Arc::clone(self), columns, size: BatchSize::default() })
    }
}

enum RawColumn {
    Values(ColumnBuilder),
    Map(Box<FamilyBuilder>),
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
                    let cells = row.cells.iter().filter(|cell| cell.family == *family);
                    self.size.bytes += map.push(cells, &self.layout.decoders)?;
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
                RawColumn::Map(mut family) => Arc::new(family.map.finish()),
            }
        };
        decode::batch(&self.layout.schema, self.columns.into_iter().map(finish).collect(), self.size.rows)
    }
}
