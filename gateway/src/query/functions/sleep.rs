//! `pg_sleep()`: waits, for each row, without holding a thread; a statement that waits is cancelled and timed out as any other.

use crate::types;
use arrow::{
    array::{Array, AsArray},
    datatypes::{DataType, Field, FieldRef, Float64Type},
};
use async_trait::async_trait;
use datafusion::{
    common::Result,
    error::DataFusionError,
    logical_expr::{
        ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
        async_udf::{AsyncScalarUDF, AsyncScalarUDFImpl},
    },
    scalar::ScalarValue,
};
use std::{sync::Arc, time::Duration};

const NAME: &str = "pg_sleep";

/// The function.
pub(super) fn function() -> Arc<ScalarUDF> {
    let signature = Signature::exact(vec![DataType::Float64], Volatility::Volatile);
    Arc::new(AsyncScalarUDF::new(Arc::new(Sleep { signature })).into_scalar_udf())
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Sleep {
    signature: Signature,
}

impl ScalarUDFImpl for Sleep {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::new(types::named(Field::new(NAME, DataType::Utf8View, true), "void")))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Err(DataFusionError::NotImplemented("pg_sleep outside of a select list or a condition in WHERE".to_owned()))
    }
}

#[async_trait]
impl AsyncScalarUDFImpl for Sleep {
    async fn invoke_async_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let Some(seconds) = args.args.into_iter().next() else {
            return Err(DataFusionError::Internal("pg_sleep without its argument".to_owned()));
        };
        let seconds = seconds.into_array(rows)?;
        let mut slept = Vec::with_capacity(rows);
        for row in 0..rows {
            if seconds.is_null(row) {
                slept.push(ScalarValue::Utf8View(None));
                continue;
            }
            let seconds = seconds.as_primitive::<Float64Type>().value(row);
            // What is less than no time is none, and what no clock counts to is for ever.
            let time = if seconds > 0.0 {
                Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
            } else {
                Duration::ZERO
            };
            tokio::time::sleep(time).await;
            slept.push(ScalarValue::Utf8View(Some(String::new())));
        }
        Ok(ColumnarValue::Array(ScalarValue::iter_to_array(slept)?))
    }
}
