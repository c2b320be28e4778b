//! Arithmetic that fails as PostgreSQL's does: overflow is 22003, division by zero 22012, at run time and when
//! constants are folded.
//!
//! DataFusion's own operators wrap around, and give infinities. A processor's NaN may have a sign, by which Arrow takes
//! it for less than all numbers: every NaN that comes out of here is the one of `'NaN'`. After types are settled
//! [`semantics`](super::literals) puts these functions in their place; being immutable functions, they are folded by
//! the same code that runs them.

use crate::{
    error::{SqlError, SqlState},
    functions::strictness::folded,
};
use arrow::{
    array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, Datum},
    compute::kernels::numeric,
    datatypes::{DataType, Float32Type, Float64Type},
    error::ArrowError,
};
use datafusion::{
    error::{DataFusionError, Result},
    logical_expr::{
        ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
        Volatility,
        simplify::{ExprSimplifyResult, SimplifyContext},
    },
    scalar::ScalarValue,
};
use std::sync::{Arc, LazyLock};

/// One checked operation; both arguments have the same type.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    name: &'static str,
    operation: Operation,
    signature: Signature,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Negate,
}

/// The checked function for an operator; `None` for operators that need none.
pub fn checked(operator: Operator) -> Option<Arc<ScalarUDF>> {
    static ALL: LazyLock<[Arc<ScalarUDF>; 5]> = LazyLock::new(|| {
        [
            function("checked_add", Operation::Add),
            function("checked_subtract", Operation::Subtract),
            function("checked_multiply", Operation::Multiply),
            function("checked_divide", Operation::Divide),
            function("checked_remainder", Operation::Remainder),
        ]
    });
    let index = match operator {
        Operator::Plus => 0,
        Operator::Minus => 1,
        Operator::Multiply => 2,
        Operator::Divide => 3,
        Operator::Modulo => 4,
        _ => return None,
    };
    Some(ALL[index].clone())
}

/// Unary minus.
pub fn negate() -> Arc<ScalarUDF> {
    static NEGATE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function("checked_negate", Operation::Negate));
    NEGATE.clone()
}

fn function(name: &'static str, operation: Operation) -> Arc<ScalarUDF> {
    let arguments = if operation == Operation::Negate { 1 } else { 2 };
    let signature = Signature::new(TypeSignature::Any(arguments), Volatility::Immutable);
    Arc::new(ScalarUDF::from(Checked { name, operation, signature }))
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        self.name
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments[0].clone())
    }
    fn simplify(&self, arguments: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        folded(arguments, context, |fields| Ok(Arc::clone(&fields[0])))
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let data = arguments.args[0].data_type();
        let scalar = arguments.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let sides: Vec<Side> = arguments.args.into_iter().map(Side::of).collect::<Result<_>>()?;
        let right = sides.get(1);
        if data.is_floating() && matches!(self.operation, Operation::Divide | Operation::Remainder) {
            refuse_zero(&sides[0], right.map(Side::array))?;
        }
        let result = match (self.operation, right) {
            (Operation::Negate, _) | (_, None) => numeric::neg(sides[0].array()),
            (Operation::Add, Some(right)) => numeric::add(sides[0].datum(), right.datum()),
            (Operation::Subtract, Some(right)) => numeric::sub(sides[0].datum(), right.datum()),
            (Operation::Multiply, Some(right)) => numeric::mul(sides[0].datum(), right.datum()),
            (Operation::Divide, Some(right)) => numeric::div(sides[0].datum(), right.datum()),
            (Operation::Remainder, Some(right)) => remainder(&sides[0], right),
        };
        let array = result.map_err(|error| failed(error, &data))?;
        let array = match data {
            DataType::Float32 => in_range::<Float32Type>(array, &sides, self.operation)?,
            DataType::Float64 => in_range::<Float64Type>(array, &sides, self.operation)?,
            _ => array,
        };
        if scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?));
        }
        Ok(ColumnarValue::Array(array))
    }
}

/// An argument as Arrow's kernels take it.
enum Side {
    Scalar(arrow::array::Scalar<ArrayRef>),
    Array(ArrayRef),
}

impl Side {
    fn of(value: ColumnarValue) -> Result<Self> {
        Ok(match value {
            ColumnarValue::Scalar(scalar) => Self::Scalar(scalar.to_scalar()?),
            ColumnarValue::Array(array) => Self::Array(array),
        })
    }
    fn datum(&self) -> &dyn Datum {
        match self {
            Self::Scalar(scalar) => scalar,
            Self::Array(array) => array,
        }
    }
    fn array(&self) -> &dyn Array {
        self.datum().get().0
    }
}

/// The remainder; that of the least integer and −1, which the processor calls an overflow, is 0.
fn remainder(left: &Side, right: &Side) -> Result<ArrayRef, ArrowError> {
    match numeric::rem(left.datum(), right.datum()) {
        Err(ArrowError::ArithmeticOverflow(_)) => {
            let wide = |side: &Side| arrow::compute::cast(side.array(), &DataType::Decimal128(19, 0));
            let scalar = |array, side: &Side| match side {
                Side::Scalar(_) => Side::Scalar(arrow::array::Scalar::new(array)),
                Side::Array(_) => Side::Array(array),
            };
            let (a, b) = (scalar(wide(left)?, left), scalar(wide(right)?, right));
            arrow::compute::cast(&numeric::rem(a.datum(), b.datum())?, left.array().data_type())
        }
        other => other,
    }
}

/// Refuses a zero among the divisors of floats, which Arrow lets pass, where the dividend is not NULL.
fn refuse_zero(dividend: &Side, divisor: Option<&dyn Array>) -> Result<()> {
    let Some(divisor) = divisor else { return Ok(()) };
    let left = dividend.array();
    let null = |index: usize| left.is_null(if left.len() == 1 { 0 } else { index });
    let zero = match divisor.data_type() {
        DataType::Float32 => zeroes(divisor.as_primitive::<Float32Type>().iter().map(|v| v == Some(0.0)), null),
        DataType::Float64 => zeroes(divisor.as_primitive::<Float64Type>().iter().map(|v| v == Some(0.0)), null),
        _ => false,
    };
    if zero { Err(failed(ArrowError::DivideByZero, divisor.data_type())) } else { Ok(()) }
}

fn zeroes(values: impl Iterator<Item = bool>, null: impl Fn(usize) -> bool) -> bool {
    values.enumerate().any(|(index, zero)| zero && !null(index))
}

/// The result of floats, with every NaN that of `'NaN'`; 22003 for an overflow, or an underflow of a product or
/// quotient.
fn in_range<T: ArrowPrimitiveType>(array: ArrayRef, sides: &[Side], operation: Operation) -> Result<ArrayRef>
where
    T::Native: Into<f64> + From<f32>,
{
    let results = array.as_primitive::<T>();
    let may_vanish = matches!(operation, Operation::Multiply | Operation::Divide);
    let plain = |result: &T::Native| {
        let result: f64 = (*result).into();
        result.is_finite() && !(may_vanish && result == 0.0)
    };
    if results.values().iter().all(plain) {
        return Ok(array);
    }
    // An argument of the row; `None` where there is one argument.
    let given = |side: usize, row: usize| -> Option<f64> {
        let values = sides.get(side)?.array().as_primitive_opt::<T>()?;
        Some(values.value(if values.len() == 1 { 0 } else { row }).into())
    };
    for (row, result) in results.iter().enumerate() {
        let Some(result) = result.map(Into::<f64>::into) else { continue };
        let (Some(left), right) = (given(0, row), given(1, row).unwrap_or_default()) else { continue };
        let overflows = result.is_infinite() && left.is_finite() && right.is_finite();
        let underflows = may_vanish && result == 0.0 && left != 0.0 && right != 0.0 && right.is_finite();
        if overflows || underflows {
            let what = if overflows { "overflow" } else { "underflow" };
            let message = format!("value out of range: {what}");
            let error = SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message);
            return Err(DataFusionError::External(Box::new(error)));
        }
    }
    let nan: T::Native = From::from(f32::NAN);
    let canonical = |result: T::Native| if Into::<f64>::into(result).is_nan() { nan } else { result };
    Ok(Arc::new(results.unary::<_, T>(canonical)))
}

fn failed(error: ArrowError, data: &DataType) -> DataFusionError {
    let error = match error {
        ArrowError::DivideByZero => SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero"),
        ArrowError::ArithmeticOverflow(_) => out_of_range(data),
        other => return other.into(),
    };
    DataFusionError::External(Box::new(error))
}

/// 22003 for a type.
pub(crate) fn out_of_range(data: &DataType) -> SqlError {
    let name = match data {
        DataType::Int8 | DataType::Int16 => "smallint",
        DataType::Int32 => "integer",
        DataType::Int64 => "bigint",
        DataType::Float32 => "real",
        DataType::Float64 => "double precision",
        DataType::Decimal128(..) | DataType::Decimal256(..) => "numeric",
        _ => "value",
    };
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{name} out of range"))
}
