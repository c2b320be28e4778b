//! Protobuf: `proto_to_jsonb()`, `jsonb_to_proto()`, and the messages that there are, `keyspan.proto_messages`.

use super::columns::Row;
use crate::{
    context::StatementContext,
    pg::{
        error::{SqlError, SqlState},
        functions::{RowFunction, text_of},
    },
    pg_catalog::{columns::row, row_function::row_function},
};
use arrow::datatypes::DataType;
use datafusion::{
    error::{DataFusionError, Result},
    scalar::ScalarValue,
};
use keyspan_catalog::{ProtoMessage, Value};

/// The functions.
pub(super) fn functions() -> [RowFunction; 2] {
    [
        row_function("proto_to_jsonb", 2..=2, DataType::Utf8View, |values, statement| {
            let (Some(bytes), Some(named)) = (bytes_of(&values[0])?, text_of(&values[1])) else {
                return Ok(ScalarValue::Utf8View(None));
            };
            let message = message(statement, &named)?;
            message.check(&bytes).map_err(failed)?;
            match message.decode(&bytes) {
                Some(Value::Text(json)) => Ok(ScalarValue::Utf8View(Some(json))),
                _ => Ok(ScalarValue::Utf8View(None)),
            }
        })
        .returning("jsonb"),
        row_function("jsonb_to_proto", 2..=2, DataType::Binary, |values, statement| {
            let (Some(json), Some(named)) = (text_of(&values[0]), text_of(&values[1])) else {
                return Ok(ScalarValue::Binary(None));
            };
            let bytes = message(statement, &named)?.encode(&json).map_err(failed)?;
            Ok(ScalarValue::Binary(Some(bytes.to_vec())))
        }),
    ]
}

/// The rows of `keyspan.proto_messages`: of the operator's descriptors, and of the tenant's own.
pub(super) fn messages(statement: &StatementContext) -> Vec<Row> {
    let mut rows = Vec::new();
    for (descriptor, shared) in statement.snapshot.protos_in(statement.tenant.as_ref()) {
        for message in descriptor.messages() {
            rows.push(row! {
                "oid" => descriptor.id, "descriptor" => descriptor.name.clone(), "message" => message,
                "shared" => shared,
            });
        }
    }
    rows
}

fn message(statement: &StatementContext, named: &str) -> Result<ProtoMessage> {
    statement.snapshot.proto_reader(statement.tenant.as_ref(), named).map_err(failed)
}

fn failed(error: keyspan_catalog::Error) -> DataFusionError {
    DataFusionError::External(Box::new(SqlError::from(error)))
}

/// The bytes of a bytea, or of its text; `None` for NULL.
fn bytes_of(value: &ScalarValue) -> Result<Option<Vec<u8>>> {
    match value {
        ScalarValue::Binary(bytes) | ScalarValue::LargeBinary(bytes) | ScalarValue::BinaryView(bytes) => {
            Ok(bytes.clone())
        }
        other => match text_of(other) {
            None => Ok(None),
            Some(text) => match Value::parse(&text, keyspan_catalog::SqlType::Bytea).map_err(failed)? {
                Value::Bytes(bytes) => Ok(Some(bytes.to_vec())),
                _ => Err(DataFusionError::External(Box::new(SqlError::new(
                    SqlState::DATATYPE_MISMATCH,
                    "proto_to_jsonb takes a bytea",
                )))),
            },
        },
    }
}
