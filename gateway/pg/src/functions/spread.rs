//! `f(a, VARIADIC array)`: functions of any number of arguments, called with the items of an array as the last ones.
//!
//! Each of [`SPREAD`] exists a second time under a name that no user writes ([`spread`]); `syntax::calls` puts it in.

use super::scalar_function::{external, item_of, items, row_by_row, text_output};
use crate::{
    error::{SqlError, SqlState},
    types,
};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::{
    error::Result,
    execution::{FunctionRegistry, SessionState},
    logical_expr::{
        ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
    },
    scalar::ScalarValue,
};
use std::sync::Arc;

/// The function that marks an array of arguments, as the parser gives it.
pub const MARK: &str = "variadic items";

/// The functions that take any number of arguments, in PostgreSQL's catalog `VARIADIC`, with how many are before these.
const SPREAD: [(&str, usize); 13] = [
    ("concat", 0),
    ("concat_ws", 1),
    ("format", 1),
    ("json_build_array", 0),
    ("json_build_object", 0),
    ("json_extract_path", 1),
    ("json_extract_path_text", 1),
    ("jsonb_build_array", 0),
    ("jsonb_build_object", 0),
    ("jsonb_extract_path", 1),
    ("jsonb_extract_path_text", 1),
    ("num_nonnulls", 0),
    ("num_nulls", 0),
];

/// The name of a function of an array of arguments, behind `before` others; `None` where PostgreSQL has none.
pub(crate) fn spread(name: &str, before: usize) -> Option<String> {
    SPREAD.contains(&(name, before)).then(|| format!("{name} of items"))
}

/// The functions, each around that of its name.
pub(crate) fn functions(state: &SessionState) -> Vec<Arc<ScalarUDF>> {
    let found = SPREAD.iter().filter_map(|(name, before)| {
        let inner = state.udf(name).ok()?;
        let signature = Signature::variadic_any(Volatility::Immutable);
        Some(Arc::new(ScalarUDF::from(Spread { name: spread(name, *before)?, inner, signature })))
    });
    found.collect()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Spread {
    name: String,
    inner: Arc<ScalarUDF>,
    signature: Signature,
}

impl Spread {
    /// Whether the inner function takes texts only.
    fn takes_texts(&self) -> bool {
        self.name.starts_with("concat")
    }

    /// The types of the arguments before the array, and so many times that of its items.
    fn fields(&self, fields: &[FieldRef], count: usize) -> Vec<FieldRef> {
        let Some((array, before)) = fields.split_last() else { return Vec::new() };
        let text = || Arc::new(Field::new("", DataType::Utf8, true));
        let item = match types::item_field(array) {
            Some(_) if self.takes_texts() => text(),
            Some(item) => Arc::new(item),
            None => text(),
        };
        let before = before.iter().map(|field| if self.takes_texts() { text() } else { Arc::clone(field) });
        before.chain(std::iter::repeat_n(item, count)).collect()
    }

    fn returned(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        let is_array = fields.last().is_some_and(|field| item_of(field).is_some() || field.data_type().is_null());
        if !is_array {
            let message = "VARIADIC argument must be an array";
            return Err(external(SqlError::new(SqlState::DATATYPE_MISMATCH, message)));
        }
        let fields = self.fields(fields, 1);
        let values = vec![None; fields.len()];
        let returned =
            self.inner.return_field_from_args(ReturnFieldArgs { arg_fields: &fields, scalar_arguments: &values })?;
        Ok(Arc::new(returned.as_ref().clone().with_nullable(true)))
    }

    fn row(&self, values: &[ScalarValue], arguments: &ScalarFunctionArgs) -> Result<ScalarValue> {
        let (fields, returns) = (&arguments.arg_fields, &arguments.return_field);
        let options = &arguments.config_options;
        let Some((array, before)) = values.split_last() else { return ScalarValue::try_from(returns.data_type()) };
        let found = items(array);
        // Only `format` goes on without arguments.
        if found.is_none() && !self.name.starts_with("format") {
            return ScalarValue::try_from(returns.data_type());
        }
        if self.takes_texts() && found.as_ref().is_some_and(Vec::is_empty) {
            return ScalarValue::Utf8(Some(String::new())).cast_to(returns.data_type());
        }
        let all: Vec<ScalarValue> = before.iter().cloned().chain(found.unwrap_or_default()).collect();
        let mut own = fields[..before.len()].to_vec();
        if let Some(item) = types::item_field(&fields[before.len()]) {
            own.extend(std::iter::repeat_n(Arc::new(item), all.len() - before.len()));
        }
        let all = if self.takes_texts() {
            let texts =
                all.iter().zip(&own).map(|(value, field)| Ok(ScalarValue::Utf8(text_output(value, field, options)?)));
            texts.collect::<Result<Vec<_>>>()?
        } else {
            all
        };
        let arg_fields = self.fields(fields, all.len() - before.len());
        let called = self.inner.invoke_with_args(ScalarFunctionArgs {
            args: all.into_iter().map(ColumnarValue::Scalar).collect(),
            arg_fields,
            number_rows: 1,
            return_field: Arc::clone(returns),
            config_options: Arc::clone(options),
        })?;
        ScalarValue::try_from_array(&called.into_array(1)?, 0)?.cast_to(returns.data_type())
    }
}

impl ScalarUDFImpl for Spread {
    fn name(&self) -> &str {
        &self.name
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let fields: Vec<FieldRef> = types.iter().map(|data| Arc::new(Field::new("", data.clone(), true))).collect();
        Ok(self.returned(&fields)?.data_type().clone())
    }
    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        self.returned(arguments.arg_fields)
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        row_by_row(&self.name, &arguments, false, |values| self.row(values, &arguments))
    }
}
