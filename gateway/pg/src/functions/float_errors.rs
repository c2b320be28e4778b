//! Functions of floating point numbers that fail where PostgreSQL's do: `exp`, `power`, trigonometry.
//!
//! DataFusion's answer NaN where there is no result, infinity where it is too large, and 0 where it is too small. They
//! compute here too; what came out is looked at.

use super::scalar_function::external;
use crate::error::{SqlError, SqlState};
use arrow::{
    array::{Array, ArrayRef, ArrowPrimitiveType, AsArray},
    datatypes::{DataType, FieldRef, Float32Type, Float64Type},
};
use datafusion::{
    error::{DataFusionError, Result},
    execution::{FunctionRegistry, SessionState},
    logical_expr::{
        ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
        sort_properties::{ExprProperties, SortProperties},
    },
    scalar::ScalarValue,
};
use std::sync::{Arc, LazyLock};

/// What is wrong with a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The argument has no such value.
    Input,
    Overflow,
    Underflow,
    /// A root of a negative number.
    Complex,
    /// A negative power of 0.
    Zero,
}

impl Fault {
    fn error(self) -> SqlError {
        let (state, message) = match self {
            Self::Input => (SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "input is out of range"),
            Self::Zero => (SqlState::INVALID_POWER, "zero raised to a negative power is undefined"),
            Self::Overflow => (SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow"),
            Self::Underflow => (SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: underflow"),
            Self::Complex => {
                (SqlState::INVALID_POWER, "a negative number raised to a non-integer power yields a complex result")
            }
        };
        SqlError::new(state, message)
    }
}

/// What is wrong with a result of these arguments. Only asked of results that are no numbers or 0.
type Look = fn(&[f64], f64) -> Option<Fault>;

fn of_all_numbers(arguments: &[f64], result: f64) -> Option<Fault> {
    (result.is_nan() && !arguments[0].is_nan()).then_some(Fault::Input)
}

/// A result that is too large or too small.
fn out_of_range(arguments: &[f64], result: f64) -> Option<Fault> {
    match result {
        _ if !arguments.iter().all(|argument| argument.is_finite()) => None,
        result if result.is_infinite() => Some(Fault::Overflow),
        0.0 => Some(Fault::Underflow),
        _ => None,
    }
}

/// PostgreSQL's `dpow`: what is no number of numbers is a complex one; powers of 0 and of infinities are what they are.
fn of_powers(arguments: &[f64], result: f64) -> Option<Fault> {
    match arguments {
        [base, _] if result.is_nan() && !arguments.iter().any(|argument| argument.is_nan()) && *base < 0.0 => {
            Some(Fault::Complex)
        }
        // Also where it is infinite or 0: PostgreSQL looks at the exponent first.
        [base, exponent] if *base < 0.0 && exponent.is_finite() && exponent.fract() != 0.0 => Some(Fault::Complex),
        [base, _] if *base != 0.0 => out_of_range(arguments, result),
        _ => None,
    }
}

/// Infinities at the ends of what it is defined of are right.
const CHECKED: [(&str, Look); 10] = [
    ("sin", of_all_numbers),
    ("cos", of_all_numbers),
    ("tan", of_all_numbers),
    ("cot", of_all_numbers),
    ("acosh", of_all_numbers),
    ("atanh", of_all_numbers),
    ("exp", out_of_range),
    ("power", of_powers),
    (
        "degrees",
        |arguments, result| if result == 0.0 && arguments[0] == 0.0 { None } else { out_of_range(arguments, result) },
    ),
    (
        "radians",
        |arguments, result| if result == 0.0 && arguments[0] == 0.0 { None } else { out_of_range(arguments, result) },
    ),
];

/// DataFusion's functions with these checks, as far as the state has them.
pub(crate) fn functions(state: &SessionState) -> Vec<Arc<ScalarUDF>> {
    let made = |(name, look): (&str, Look)| {
        let inner = state.udf(name).ok()?;
        Some(Arc::new(ScalarUDF::from(Ranged { inner, look: Looked(look) })))
    };
    CHECKED.into_iter().filter_map(made).collect()
}

/// `power` of floating point numbers, as `a ^ b` computes it.
pub(crate) fn power() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let inner = datafusion::functions::math::power();
        Arc::new(ScalarUDF::from(Ranged { inner, look: Looked(of_powers) }))
    });
    Arc::clone(&FUNCTION)
}

/// A check, which is one with its function.
#[derive(Clone, Copy, Debug)]
struct Looked(Look);

impl PartialEq for Looked {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for Looked {}
impl std::hash::Hash for Looked {
    fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Ranged {
    inner: Arc<ScalarUDF>,
    look: Looked,
}

impl ScalarUDFImpl for Ranged {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }
    fn signature(&self) -> &Signature {
        self.inner.signature()
    }
    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arguments)
    }
    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments)
    }
    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.return_field_from_args(arguments)
    }
    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(inputs)
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let given = arguments.args.clone();
        let result = self.inner.invoke_with_args(arguments).or_else(|error| refused(error, &given))?;
        match result.data_type() {
            DataType::Float64 => checked::<Float64Type>(result, &given, self.look.0),
            DataType::Float32 => checked::<Float32Type>(result, &given, self.look.0),
            _ => Ok(result),
        }
    }
}

/// What DataFusion refuses with no code: a negative power of 0.
fn refused(error: DataFusionError, given: &[ColumnarValue]) -> Result<ColumnarValue> {
    let [base, exponent] = &doubles(given)?[..] else { return Err(error) };
    let at = |column: &ArrayRef, row: usize| column.as_primitive::<Float64Type>().value(place(column, row));
    let is_zero = |row: usize| at(base, row) == 0.0 && at(exponent, row) < 0.0;
    Err(if (0..base.len().max(exponent.len())).any(is_zero) { external(Fault::Zero.error()) } else { error })
}

/// Arguments as columns; a constant has one row.
fn doubles(given: &[ColumnarValue]) -> Result<Vec<ArrayRef>> {
    given.iter().map(|given| Ok(arrow::compute::cast(&given.to_array(1)?, &DataType::Float64)?)).collect()
}

fn place(column: &ArrayRef, row: usize) -> usize {
    if column.len() == 1 { 0 } else { row }
}

fn checked<T: ArrowPrimitiveType>(result: ColumnarValue, given: &[ColumnarValue], look: Look) -> Result<ColumnarValue>
where
    T::Native: Into<f64> + From<f32>,
{
    let is_scalar = matches!(result, ColumnarValue::Scalar(_));
    let array = result.into_array(1)?;
    let results = array.as_primitive::<T>();
    let plain = |value: &T::Native| {
        let value: f64 = (*value).into();
        value.is_finite() && value != 0.0
    };
    if results.values().iter().all(plain) {
        return back(array, is_scalar);
    }
    let given = doubles(given)?;
    let mut arguments = vec![0.0; given.len()];
    for row in (0..results.len()).filter(|row| results.is_valid(*row)) {
        if plain(&results.value(row)) {
            continue;
        }
        for (argument, column) in arguments.iter_mut().zip(&given) {
            *argument = column.as_primitive::<Float64Type>().value(place(column, row));
        }
        if let Some(fault) = look(&arguments, results.value(row).into()) {
            return Err(external(fault.error()));
        }
    }
    let nan: T::Native = From::from(f32::NAN);
    let unsigned = |value: T::Native| if Into::<f64>::into(value).is_nan() { nan } else { value };
    back(Arc::new(results.unary::<_, T>(unsigned)), is_scalar)
}

fn back(array: ArrayRef, is_scalar: bool) -> Result<ColumnarValue> {
    Ok(if is_scalar {
        ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?)
    } else {
        ColumnarValue::Array(array)
    })
}
