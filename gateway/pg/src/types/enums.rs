//! Values of enumerated types: texts, under a name that holds the whole type.
//!
//! A field of such values is one of text whose [`TYPE_KEY`] is [`PREFIX`] and the type in JSON, so that whoever has the
//! field knows the labels and their order, and needs no catalog. [`plan::enums`](crate::plan::enums) gives comparisons
//! and sorts that order, and keeps the name where DataFusion would drop it.

use super::{TYPE_KEY, field_of, is_text, named};
use arrow::datatypes::{DataType, Field, FieldRef};
use keyspan_catalog::{Column, EnumType};
use pgwire::api::Type;
use std::sync::Arc;
use tokio_postgres::types::Kind;

/// How the name of such a type begins.
const PREFIX: &str = "enum ";

/// Whether the name of a type is that of an enumerated one.
pub fn is_name(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// The enumerated type of a field.
pub fn of(field: &Field) -> Option<EnumType> {
    if !is_text(field.data_type()) {
        return None;
    }
    serde_json::from_str(field.metadata().get(TYPE_KEY)?.strip_prefix(PREFIX)?).ok()
}

/// The field of values of an enumerated type.
pub fn field(name: &str, of: &EnumType, nullable: bool) -> Field {
    let of = EnumType { comment: None, ..of.clone() };
    let json = serde_json::to_string(&of).expect("names and labels are texts");
    named(Field::new(name, DataType::Utf8View, nullable), &format!("{PREFIX}{json}"))
}

/// A nullable field for casts.
pub fn cast_field(of: &EnumType) -> FieldRef {
    Arc::new(field("cast", of, true))
}

/// The field of a column of a table.
pub fn field_of_column(column: &Column, nullable: bool) -> Field {
    match &column.enumerated {
        Some(of) => field(&column.name, of, nullable),
        None => field_of(&column.name, column.kind, nullable),
    }
}

/// The type in the protocol.
pub fn pg_type(of: &EnumType) -> Type {
    Type::new(of.name.clone(), of.id, Kind::Enum(of.labels.clone()), "public".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::sql_type;
    use keyspan_catalog::SqlType;

    #[test]
    fn a_field_tells_its_type() {
        let mood = EnumType::define(7, 2_200, "mood", &["sad", "o\"k"].map(str::to_owned)).unwrap();
        let field = field("m", &mood, true);
        assert_eq!(of(&field), Some(mood));
        assert_eq!(sql_type(&field), Some(SqlType::Text));
        assert_eq!((super::super::pg_type(&field).oid(), super::super::pg_type(&field).name()), (7, "mood"));
        // A cast leaves the name of what it was made of.
        assert_eq!(of(&field.with_data_type(DataType::Int32)), None);
    }
}
