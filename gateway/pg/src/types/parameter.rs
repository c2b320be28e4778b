//! Types of parameters, which have no field that could bear a name.

use super::{BITS, INTERVAL, TIME, TIMESTAMP, TYPE_KEY, UUID, data_type, list_of, pg_type_of_data, timestamptz};
use crate::numeric;
use arrow::datatypes::{DataType, Field};
use keyspan_catalog::SqlType;
use pgwire::api::Type;
use tokio_postgres::types::Kind;

/// The type of a parameter: Arrow's, and PostgreSQL's where it is a document, which is text to Arrow, or an array of
/// documents.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ParameterType {
    /// The type of its values.
    pub data: DataType,
    document: Option<Document>,
}

/// Whether a document is json or jsonb.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Document {
    Json,
    Jsonb,
}

impl ParameterType {
    /// `text`, which a parameter is whose type nothing says.
    pub const TEXT: Self = Self { data: DataType::Utf8View, document: None };

    /// Of what goes into a column of a type.
    pub fn of_kind(kind: SqlType) -> Self {
        let document = match kind {
            SqlType::Json => Some(Document::Json),
            SqlType::Jsonb => Some(Document::Jsonb),
            _ => None,
        };
        Self { data: data_type(kind), document }
    }

    /// Of a field of a plan.
    pub fn of_field(field: &Field) -> Self {
        let document = match field.metadata().get(TYPE_KEY).map(String::as_str) {
            Some("json") => Some(Document::Json),
            Some("jsonb") => Some(Document::Jsonb),
            _ => None,
        };
        Self { data: field.data_type().clone(), document }
    }

    /// The type that a client declared; `None` for `unknown`, which is inferred, and for types that are not known here,
    /// which come as text.
    pub fn declared(declared: &Type) -> Option<Self> {
        let document = match *declared {
            Type::JSON | Type::JSON_ARRAY => Some(Document::Json),
            Type::JSONB | Type::JSONB_ARRAY => Some(Document::Jsonb),
            _ => None,
        };
        Some(Self { data: parameter_type(declared)?, document })
    }

    /// The type in the protocol.
    pub fn pg_type(&self) -> Type {
        let is_array = matches!(self.data, DataType::List(_));
        match self.document {
            Some(Document::Json) if is_array => Type::JSON_ARRAY,
            Some(Document::Json) => Type::JSON,
            Some(Document::Jsonb) if is_array => Type::JSONB_ARRAY,
            Some(Document::Jsonb) => Type::JSONB,
            None => parameter_pg_type(&self.data),
        }
    }
}

impl From<DataType> for ParameterType {
    fn from(data: DataType) -> Self {
        Self { data, document: None }
    }
}

/// The Arrow type of a parameter that a client declared; `None` for `unknown`, which is inferred, and for types that
/// are not known here, which come as text.
pub fn parameter_type(declared: &Type) -> Option<DataType> {
    Some(match *declared {
        Type::BOOL => DataType::Boolean,
        Type::INT2 => DataType::Int16,
        Type::INT4 => DataType::Int32,
        Type::INT8 => DataType::Int64,
        Type::OID | Type::REGCLASS | Type::REGTYPE => DataType::UInt32,
        Type::FLOAT4 => DataType::Float32,
        Type::FLOAT8 => DataType::Float64,
        Type::NUMERIC => numeric::EXACT,
        Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::CHAR | Type::JSON | Type::JSONB => {
            DataType::Utf8View
        }
        Type::BIT | Type::VARBIT => BITS,
        Type::BYTEA => DataType::Binary,
        Type::DATE => DataType::Date32,
        Type::TIME => TIME,
        Type::TIMESTAMP => TIMESTAMP,
        Type::TIMESTAMPTZ => timestamptz(),
        Type::INTERVAL => INTERVAL,
        Type::UUID => UUID,
        _ => match declared.kind() {
            Kind::Array(item) if *declared != Type::OID_ARRAY => list_of(parameter_type(item)?),
            _ => return None,
        },
    })
}

/// The type of a parameter of this Arrow type in the protocol.
pub fn parameter_pg_type(data: &DataType) -> Type {
    match data {
        DataType::Null => Type::TEXT,
        other => pg_type_of_data(other),
    }
}
