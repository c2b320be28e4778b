//! Functions of one row's values.
//!
//! A [`RowFunction`] takes values of any type. The type of its result is its own ([`row_function`]), or follows from
//! those of the arguments ([`strict`]); the latter is strict unless it says otherwise: where an argument is NULL, so is
//! the result.

use super::{bounded::ResultBytes, strictness::folded};
use crate::{
    cancel_flag::CancelFlag,
    codec::{column::Column, format::Format},
    datetime::Style,
    error::SqlError,
    types,
};
use arrow::{
    array::ArrayRef,
    datatypes::{DataType, Field, FieldRef},
};
use bytes::BytesMut;
use datafusion::{
    config::ConfigOptions,
    error::{DataFusionError, Result},
    logical_expr::{
        ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
        Volatility,
        simplify::{ExprSimplifyResult, SimplifyContext},
    },
    scalar::ScalarValue,
};
use std::{
    fmt::{Debug, Formatter},
    hash::{Hash, Hasher},
    ops::RangeInclusive,
    sync::Arc,
};

/// The most arguments of a function that takes any number.
const ARGUMENTS_MAX: usize = 100;

/// What a function is called with.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The arguments' values.
    pub values: &'a [ScalarValue],
    /// The arguments' types.
    pub fields: &'a [FieldRef],
    /// The result's type.
    pub returns: &'a Field,
    /// The statement's configuration, which carries what is known of it.
    pub options: &'a ConfigOptions,
}

type Returns = fn(&[FieldRef]) -> Result<FieldRef>;
type Run = fn(&Call) -> Result<ScalarValue>;
/// Computes a whole column of a type, if it can of these arguments.
pub type RunOnColumns = fn(&[ColumnarValue], &DataType, Option<&CancelFlag>) -> Result<Option<ArrayRef>>;
type RunOnValues = Box<dyn Fn(&[ScalarValue], &ConfigOptions) -> Result<ScalarValue> + Send + Sync>;

/// The type of a result.
#[derive(Debug)]
enum Returned {
    Always(FieldRef),
    By(Returns),
}

/// What computes a result.
enum Body {
    Values(RunOnValues),
    Call(Run),
}

impl Debug for Body {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Values(_) => "Values",
            Self::Call(_) => "Call",
        })
    }
}

/// A function of one row's values.
#[derive(Debug)]
pub struct RowFunction {
    name: &'static str,
    aliases: Vec<String>,
    signature: Signature,
    strict: bool,
    returns: Returned,
    body: Body,
    columns: Option<RunOnColumns>,
}

impl PartialEq for RowFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}
impl Eq for RowFunction {}
impl Hash for RowFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

fn function(
    (name, arity): (&'static str, RangeInclusive<usize>),
    volatility: Volatility,
    strict: bool,
    (returns, body): (Returned, Body),
) -> RowFunction {
    let one = |count| if count == 0 { TypeSignature::Nullary } else { TypeSignature::Any(count) };
    let signature = Signature::one_of(arity.map(one).collect(), volatility);
    RowFunction { name, aliases: Vec::new(), signature, strict, returns, body, columns: None }
}

/// A function of `arity` arguments with a result of one type, stable within a statement. It is called with NULLs too.
pub fn row_function(
    name: &'static str,
    arity: RangeInclusive<usize>,
    returns: DataType,
    run: impl Fn(&[ScalarValue], &ConfigOptions) -> Result<ScalarValue> + Send + Sync + 'static,
) -> RowFunction {
    let returns = Returned::Always(Arc::new(Field::new(name, returns, true)));
    function((name, arity), Volatility::Stable, false, (returns, Body::Values(Box::new(run))))
}

/// A strict immutable function of `arity` arguments.
pub fn strict(name: &'static str, arity: RangeInclusive<usize>, returns: Returns, run: Run) -> RowFunction {
    function((name, arity), Volatility::Immutable, true, (Returned::By(returns), Body::Call(run)))
}

/// An immutable function of at least `least` arguments that is called with NULLs too.
pub fn variadic(name: &'static str, least: usize, returns: Returns, run: Run) -> RowFunction {
    RowFunction { strict: false, ..strict(name, least..=ARGUMENTS_MAX, returns, run) }
}

impl RowFunction {
    /// Called with NULLs too.
    #[must_use]
    pub fn with_nulls(self) -> Self {
        Self { strict: false, ..self }
    }

    /// Another volatility.
    #[must_use]
    pub fn with_volatility(mut self, volatility: Volatility) -> Self {
        self.signature.volatility = volatility;
        self
    }

    /// A result whose type, of the same form, PostgreSQL calls so.
    #[must_use]
    pub fn returning(mut self, type_name: &str) -> Self {
        if let Returned::Always(field) = &mut self.returns {
            *field = Arc::new(types::named(field.as_ref().clone(), type_name));
        }
        self
    }

    /// A way to compute whole columns, where it matters: its results are those of the function of a row, and have no
    /// more bytes than its arguments.
    #[must_use]
    pub fn with_columns(self, run: RunOnColumns) -> Self {
        Self { columns: Some(run), ..self }
    }

    /// Other names of the function.
    #[must_use]
    pub fn with_aliases(mut self, aliases: &[&str]) -> Self {
        self.aliases = aliases.iter().map(|alias| (*alias).to_owned()).collect();
        self
    }

    fn row(&self, call: &Call) -> Result<ScalarValue> {
        if self.strict && call.values.iter().any(ScalarValue::is_null) {
            return ScalarValue::try_from(call.returns.data_type());
        }
        match &self.body {
            Body::Values(run) => run(call.values, call.options),
            Body::Call(run) => run(call),
        }
    }

    fn returned(&self, arguments: &[FieldRef]) -> Result<FieldRef> {
        match &self.returns {
            Returned::Always(field) => Ok(field.clone()),
            Returned::By(returns) => returns(arguments),
        }
    }
}

impl ScalarUDFImpl for RowFunction {
    fn name(&self) -> &str {
        self.name
    }
    fn aliases(&self) -> &[String] {
        &self.aliases
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        let fields: Vec<_> = arguments.iter().map(|data| Arc::new(Field::new("", data.clone(), true))).collect();
        Ok(self.returned(&fields)?.data_type().clone())
    }
    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        self.returned(arguments.arg_fields)
    }
    fn simplify(&self, arguments: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        match self.strict {
            true => folded(arguments, context, |fields| self.returned(fields)),
            false => Ok(ExprSimplifyResult::Original(arguments)),
        }
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (returns, cancelled) = (arguments.return_field.data_type(), CancelFlag::within(&arguments.config_options));
        if let Some(run) = self.columns
            && let Some(results) = run(&arguments.args, returns, cancelled)?
        {
            return Ok(ColumnarValue::Array(results));
        }
        let (options, returns) = (arguments.config_options.as_ref(), arguments.return_field.as_ref());
        let is_volatile = self.signature.volatility == Volatility::Volatile;
        row_by_row(self.name, &arguments, is_volatile, |values| {
            self.row(&Call { values, fields: &arguments.arg_fields, returns, options })
        })
    }
}

/// Calls a function for each row, or once where all arguments are constants and it is not volatile.
///
/// # Errors
/// Those of the function; 57014 where the statement is cancelled, 54000 for results that are too large together.
pub(super) fn row_by_row(
    name: &str,
    arguments: &ScalarFunctionArgs,
    is_volatile: bool,
    run: impl Fn(&[ScalarValue]) -> Result<ScalarValue>,
) -> Result<ColumnarValue> {
    let constant = arguments.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
    let value = |argument: &ColumnarValue, row: usize| match argument {
        ColumnarValue::Scalar(scalar) => Ok(scalar.clone()),
        ColumnarValue::Array(array) => ScalarValue::try_from_array(array, row),
    };
    let once = constant && !is_volatile;
    let rows = if once { 1 } else { arguments.number_rows };
    let mut results = Vec::with_capacity(rows);
    let (bound, mut bytes) = (ResultBytes::within(&arguments.config_options), 0_u64);
    let cancelled = CancelFlag::within(&arguments.config_options);
    for row in 0..rows {
        cancelled.map_or(Ok(()), CancelFlag::check)?;
        let values = arguments.args.iter().map(|argument| value(argument, row)).collect::<Result<Vec<_>>>()?;
        let result = run(&values)?;
        bytes = bytes.saturating_add(result.size() as u64);
        bound.check(name, bytes)?;
        results.push(result);
    }
    match results.pop() {
        Some(result) if once => Ok(ColumnarValue::Scalar(result)),
        Some(last) => {
            results.push(last);
            Ok(ColumnarValue::Array(ScalarValue::iter_to_array(results)?))
        }
        None => Ok(ColumnarValue::Array(arrow::array::new_empty_array(arguments.return_field.data_type()))),
    }
}

/// The functions as DataFusion knows them.
pub fn functions(all: impl IntoIterator<Item = RowFunction>) -> impl Iterator<Item = Arc<ScalarUDF>> {
    all.into_iter().map(|function| Arc::new(ScalarUDF::from(function)))
}

/// A nullable result of a type.
pub fn nullable(data: DataType) -> Result<FieldRef> {
    Ok(Arc::new(Field::new("", data, true)))
}

/// A nullable result whose type PostgreSQL calls so.
pub fn nullable_named(data: DataType, name: &str) -> Result<FieldRef> {
    Ok(Arc::new(types::named(Field::new("", data, true), name)))
}

/// Text.
pub fn returns_text(_: &[FieldRef]) -> Result<FieldRef> {
    nullable(DataType::Utf8View)
}

/// Integer.
pub fn returns_integer(_: &[FieldRef]) -> Result<FieldRef> {
    nullable(DataType::Int32)
}

/// Double precision.
pub fn returns_float(_: &[FieldRef]) -> Result<FieldRef> {
    nullable(DataType::Float64)
}

/// Boolean.
pub fn returns_boolean(_: &[FieldRef]) -> Result<FieldRef> {
    nullable(DataType::Boolean)
}

/// An array of texts.
pub fn returns_texts(_: &[FieldRef]) -> Result<FieldRef> {
    nullable(DataType::List(Arc::new(Field::new_list_field(DataType::Utf8View, true))))
}

/// An array of texts as a value.
pub fn text_list(items: impl IntoIterator<Item = Option<String>>) -> ScalarValue {
    let items: Vec<_> = items.into_iter().map(ScalarValue::Utf8View).collect();
    ScalarValue::List(ScalarValue::new_list_nullable(&items, &DataType::Utf8View))
}

/// An error as DataFusion carries it.
pub fn external(error: SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// A value as PostgreSQL's text of it; `None` for NULL.
///
/// # Errors
/// 0A000 for a type that the protocol has no form for.
pub fn text_output(value: &ScalarValue, field: &Field, options: &ConfigOptions) -> Result<Option<String>> {
    styled_output(value, field, Style::within(options))
}

/// [`text_output`] in a style.
///
/// # Errors
/// As there.
pub fn styled_output(value: &ScalarValue, field: &Field, style: &Style) -> Result<Option<String>> {
    match value {
        ScalarValue::Utf8(text) | ScalarValue::Utf8View(text) | ScalarValue::LargeUtf8(text) => return Ok(text.clone()),
        value if value.is_null() => return Ok(None),
        _ => {}
    }
    let column = Column::new(&value.to_array()?, &types::pg_type(field), Format::Text, style).map_err(external)?;
    let mut out = BytesMut::new();
    column.write(0, &mut out).map_err(external)?;
    Ok(Some(String::from_utf8_lossy(&out).into_owned()))
}

/// The items of an array; `None` for NULL and for other values.
pub fn items(value: &ScalarValue) -> Option<Vec<ScalarValue>> {
    use arrow::array::Array;
    let array: arrow::array::ArrayRef = match value {
        ScalarValue::List(list) if list.is_valid(0) => list.value(0),
        ScalarValue::LargeList(list) if list.is_valid(0) => list.value(0),
        ScalarValue::FixedSizeList(list) if list.is_valid(0) => list.value(0),
        _ => return None,
    };
    (0..array.len()).map(|index| ScalarValue::try_from_array(&array, index).ok()).collect()
}

/// The items' type of an array.
pub fn item_of(field: &Field) -> Option<FieldRef> {
    match field.data_type() {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => Some(item.clone()),
        _ => None,
    }
}
