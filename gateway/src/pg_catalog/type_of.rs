//! `pg_typeof`: the type of an expression, which its field tells, not its value.

use crate::pg::{functions::text, types};
use arrow::datatypes::{DataType, Field};
use datafusion::{
    error::Result,
    logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility},
};
use keyspan_catalog::SqlType;

/// The function.
pub fn function() -> ScalarUDF {
    ScalarUDF::from(TypeOf { signature: Signature::new(TypeSignature::Any(1), Volatility::Stable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct TypeOf {
    signature: Signature,
}

impl ScalarUDFImpl for TypeOf {
    fn name(&self) -> &str {
        "pg_typeof"
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Scalar(text(type_text(&arguments.arg_fields[0]))))
    }
}

/// A type's name without its length or digits.
fn type_text(field: &Field) -> String {
    if let Some(of) = types::enums::of(field) {
        return crate::pg::ident::quote_ident(&of.name);
    }
    match types::sql_type(field) {
        Some(SqlType::Array(item)) => format!("{}[]", bare(item.kind())),
        Some(kind) => bare(kind),
        None => {
            let kind = types::pg_type(field);
            let name = kind.name();
            // The name of an array's type begins with a line.
            name.strip_prefix('_').map_or_else(|| name.to_owned(), |item| format!("{item}[]"))
        }
    }
}

fn bare(kind: SqlType) -> String {
    match kind {
        SqlType::Numeric { .. } | SqlType::Exact(_) => "numeric".to_owned(),
        SqlType::Varchar(_) => "character varying".to_owned(),
        SqlType::Char(_) => "character".to_owned(),
        SqlType::Bit(_) => "bit".to_owned(),
        SqlType::Varbit(_) => "bit varying".to_owned(),
        kind => types::type_name(kind.without_second_digits()),
    }
}
