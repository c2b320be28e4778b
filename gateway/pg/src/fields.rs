//! Arrow fields and schemas of relations that the server makes itself.

use crate::types;
use arrow::datatypes::{Field, Schema, SchemaRef};
use std::sync::Arc;

/// A field of a relation of the system: a name, the name of its type, whether it may be NULL.
pub fn field(name: &str, data: arrow::datatypes::DataType, type_name: Option<&str>) -> Field {
    let field = Field::new(name, data, true);
    match type_name {
        Some(type_name) => types::named(field, type_name),
        None => field,
    }
}

/// A schema of fields.
pub fn schema(fields: Vec<Field>) -> SchemaRef {
    Arc::new(Schema::new(fields))
}
