//! Composite values: `ROW(…)` and rows of relations, as Arrow's structs.

use arrow::{
    array::{Array, ArrayRef, BinaryArray, StructArray},
    datatypes::{DataType, Field, FieldRef, Fields},
    row::{RowConverter, SortField},
};
use datafusion::{
    common::exec_err,
    error::{DataFusionError, Result},
    logical_expr::{
        ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
    },
};
use std::sync::{Arc, LazyLock};

/// Makes a composite value of names and values by turns: `keyspan_record('f1', a, 'f2', b)`.
pub(crate) const RECORD: &str = "keyspan_record";

/// The function [`RECORD`].
pub(super) fn record() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(Record(Signature::variadic_any(Volatility::Immutable))))
}

/// DataFusion's `named_struct`, but its fields keep what they say of their types.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Record(Signature);

impl ScalarUDFImpl for Record {
    fn name(&self) -> &str {
        RECORD
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        exec_err!("the type of a record follows from its fields")
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let by_turns = arguments.arg_fields.chunks(2).zip(arguments.scalar_arguments.chunks(2));
        let fields = by_turns.map(|(pair, scalars)| {
            let ([_, value], [Some(name), _]) = (pair, scalars) else {
                return exec_err!("a record is made of names and values");
            };
            let name = name.try_as_str().flatten().unwrap_or_default();
            Ok(value.as_ref().clone().with_name(name).with_nullable(true))
        });
        let fields: Fields = fields.collect::<Result<Vec<Field>>>()?.into();
        Ok(Arc::new(Field::new(RECORD, DataType::Struct(fields), true)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let DataType::Struct(fields) = arguments.return_field.data_type() else {
            return Err(DataFusionError::Internal("a record is a struct".to_owned()));
        };
        let values = arguments.args.iter().skip(1).step_by(2);
        let columns: Vec<ArrayRef> =
            values.map(|value| value.to_array(arguments.number_rows)).collect::<Result<_>>()?;
        // A quoted text is text.
        let typed = columns.iter().zip(fields).map(|(column, field)| {
            if column.data_type() == field.data_type() {
                return Ok(Arc::clone(column));
            }
            Ok(arrow::compute::cast(column, field.data_type())?)
        });
        let columns = typed.collect::<Result<Vec<_>>>()?;
        Ok(ColumnarValue::Array(Arc::new(StructArray::try_new_with_length(
            fields.clone(),
            columns,
            None,
            arguments.number_rows,
        )?)))
    }
}

/// Bytes of a composite value that are equal where the values are: those of arrow's row format.
pub(crate) fn record_key() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| Arc::new(ScalarUDF::from(RecordKey(Signature::any(1, Volatility::Immutable)))));
    Arc::clone(&FUNCTION)
}

/// See [`record_key`].
#[derive(Debug, PartialEq, Eq, Hash)]
struct RecordKey(Signature);

impl ScalarUDFImpl for RecordKey {
    fn name(&self) -> &str {
        "record_key"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Binary)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(record) = arguments.args.first() else { return exec_err!("the key of a record has an argument") };
        let records = record.to_array(arguments.number_rows)?;
        let converter = RowConverter::new(vec![SortField::new(records.data_type().clone())])?;
        let keys = converter.convert_columns(&[Arc::clone(&records)])?;
        let keys: BinaryArray = (0..records.len()).map(|row| records.is_valid(row).then(|| keys.row(row))).collect();
        Ok(ColumnarValue::Array(Arc::new(keys)))
    }
}
