//! Functions of numerics: operators, and PostgreSQL's functions that have a numeric among their forms.
//!
//! An [`Overload`] is a function that exists for floats too: with a float among its arguments it is DataFusion's or
//! ours of doubles, and the numerics beside it become doubles, as PostgreSQL prefers them; with a numeric, and for some
//! with integers, it is exact.

use super::{bounded::ResultBytes, scalar_function::external, strictness::folded};
use crate::{
    cancel_flag::CancelFlag,
    common_type::arguments::taken_by,
    error::{Result, SqlError, SqlState},
    numeric::{
        self, EXACT,
        column::{self, returned},
        number::{Decimal, Number, division_by_zero},
        power,
    },
};
use arrow::{
    array::{Array, ArrayRef, AsArray},
    datatypes::{DataType, Field, FieldRef, Float32Type, Float64Type},
};
use datafusion::{
    common::internal_err,
    error::Result as PlanResult,
    execution::{FunctionRegistry, SessionState},
    logical_expr::{
        ColumnarValue, Expr, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
        Volatility,
        simplify::{ExprSimplifyResult, SimplifyContext},
    },
};
use std::sync::{Arc, LazyLock};

/// Computes a result; no argument is NULL.
type Compute = fn(&[Number]) -> Result<Number>;

/// A strict function of numbers.
#[derive(Debug)]
struct Numeric {
    name: &'static str,
    compute: Compute,
    arguments: &'static [usize],
    signature: Signature,
}

impl PartialEq for Numeric {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}
impl Eq for Numeric {}
impl std::hash::Hash for Numeric {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl Numeric {
    fn function(name: &'static str, arguments: &'static [usize], compute: Compute) -> Arc<ScalarUDF> {
        let signature = Signature::user_defined(Volatility::Immutable);
        Arc::new(ScalarUDF::from(Self { name, compute, arguments, signature }))
    }
}

/// Calls a function of numbers for each row.
fn compute(name: &'static str, function: Compute, arguments: &ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
    let constant = arguments.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
    let rows = if constant { 1 } else { arguments.number_rows };
    // A constant is read once.
    let constants = arguments.args.iter().map(|argument| match argument {
        ColumnarValue::Scalar(scalar) => column::number_of_scalar(scalar),
        ColumnarValue::Array(_) => Ok(None),
    });
    let mut values = constants.map(|value| Ok(value?.unwrap_or(Number::NaN))).collect::<PlanResult<Vec<_>>>()?;
    let is_null = arguments.args.iter().any(|arg| matches!(arg, ColumnarValue::Scalar(scalar) if scalar.is_null()));
    let bound = ResultBytes::within(&arguments.config_options);
    let cancelled = CancelFlag::within(&arguments.config_options);
    let mut bytes = 0_u64;
    let results = (0..rows).map(|row| {
        if is_null {
            return Ok(None);
        }
        for (value, argument) in values.iter_mut().zip(&arguments.args) {
            let ColumnarValue::Array(array) = argument else { continue };
            match column::number(array, row) {
                Some(number) => *value = number,
                None => return Ok(None),
            }
        }
        if let Some(flag) = cancelled {
            flag.check().map_err(SqlError::from)?;
        }
        let exact = function(&values)?.to_exact()?;
        bytes = bytes.saturating_add(exact.as_bytes().len() as u64);
        bound.check(name, bytes).map_err(SqlError::from)?;
        Ok(Some(exact))
    });
    let array = column::collect(results).map_err(external)?;
    returned(array, constant)
}

impl ScalarUDFImpl for Numeric {
    fn name(&self) -> &str {
        self.name
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn coerce_types(&self, types: &[DataType]) -> PlanResult<Vec<DataType>> {
        if !self.arguments.contains(&types.len()) {
            return Err(external(super::values::undefined(self.name, types)));
        }
        types.iter().map(|data| taken(self.name, data, types)).collect()
    }
    fn return_type(&self, _: &[DataType]) -> PlanResult<DataType> {
        Ok(EXACT)
    }
    fn simplify(&self, arguments: Vec<Expr>, context: &SimplifyContext) -> PlanResult<ExprSimplifyResult> {
        folded(arguments, context, |_| Ok(Arc::new(Field::new(self.name, EXACT, true))))
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        compute(self.name, self.compute, &arguments)
    }
}

/// The type in which a function of numerics takes an argument: a quoted text is read as one.
///
/// # Errors
/// 42883
fn taken(name: &str, data: &DataType, types: &[DataType]) -> PlanResult<DataType> {
    match data {
        data if data.is_integer() || numeric::is_numeric(data) => Ok(data.clone()),
        DataType::Null | DataType::Utf8 => Ok(EXACT),
        _ => Err(external(super::values::undefined(name, types))),
    }
}

/// The function of an operator of arithmetic; `None` for other operators.
pub(crate) fn operator(operator: Operator) -> Option<Arc<ScalarUDF>> {
    static ALL: LazyLock<[Arc<ScalarUDF>; 5]> = LazyLock::new(|| {
        [
            Numeric::function("numeric_add", &[2], |values| Ok(values[0].plus(&values[1]))),
            Numeric::function("numeric_subtract", &[2], |values| Ok(values[0].minus(&values[1]))),
            Numeric::function("numeric_multiply", &[2], |values| Ok(values[0].times(&values[1]))),
            Numeric::function("numeric_divide", &[2], |values| values[0].over(&values[1])),
            Numeric::function("numeric_remainder", &[2], |values| values[0].remainder(&values[1])),
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
    Some(Arc::clone(&ALL[index]))
}

/// Unary minus of the exact form.
pub(crate) fn negate() -> Arc<ScalarUDF> {
    static NEGATE: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| Numeric::function("numeric_negate", &[1], |values| Ok(values[0].negated())));
    Arc::clone(&NEGATE)
}

/// A power of numerics.
pub(crate) fn raised() -> Arc<ScalarUDF> {
    static POWER: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| Numeric::function("numeric_power", &[2], |values| power::power(&values[0], &values[1])));
    Arc::clone(&POWER)
}

/// The value without zeros at its end: equal values become one, where the value itself is needed to tell them.
pub(crate) fn trim() -> Arc<ScalarUDF> {
    static TRIM: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| Numeric::function("trim_scale", &[1], |values| Ok(values[0].map(Decimal::trimmed))));
    Arc::clone(&TRIM)
}

/// What a function does with integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Integers {
    /// The function of DataFusion takes them.
    Inner,
    /// They are numerics.
    Numeric,
    /// Two of them are.
    TwoNumeric,
}

/// A function that floats have too.
#[derive(Debug)]
struct Overload {
    name: &'static str,
    /// That of floats.
    inner: Arc<ScalarUDF>,
    /// That of numerics; `None` where PostgreSQL has none, and these become doubles.
    compute: Option<Compute>,
    /// Whether the inner function computes decimals of Arrow.
    decimals: bool,
    integers: Integers,
    signature: Signature,
}

impl PartialEq for Overload {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}
impl Eq for Overload {}
impl std::hash::Hash for Overload {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl Overload {
    /// The function of numerics for arguments of these types; `None` where it is the inner one.
    fn exactly(&self, types: &[DataType]) -> Option<Compute> {
        if types.iter().any(DataType::is_floating) {
            return None;
        }
        let is_numeric = |data: &DataType| numeric::is_exact(data) || numeric::is_decimal(data) && !self.decimals;
        let taken = match self.integers {
            Integers::Inner => false,
            Integers::Numeric => true,
            Integers::TwoNumeric => types.len() == 2,
        };
        let is_integer = taken && types.iter().all(DataType::is_integer);
        self.compute.filter(|_| types.iter().any(is_numeric) || is_integer)
    }

    /// The types of arguments of the inner function.
    fn coerced(&self, types: &[DataType]) -> PlanResult<Vec<DataType>> {
        // PostgreSQL has none for integers.
        let is_round = self.name == "round" && types.len() == 1;
        let to_double = |data: &DataType| {
            if is_round && data.is_integer() {
                return DataType::Float64;
            }
            let is_numeric = numeric::is_exact(data) || numeric::is_decimal(data) && !self.decimals;
            let beside_float = numeric::is_decimal(data) && types.iter().any(DataType::is_floating);
            if is_numeric || beside_float { DataType::Float64 } else { data.clone() }
        };
        let coerced = taken_by(self.inner.as_ref(), &types.iter().map(to_double).collect::<Vec<_>>())?;
        // Arrow casts none of the exact form: that is done when the function is called.
        let typed = coerced.into_iter().zip(types);
        Ok(typed.map(|(to, data)| if numeric::is_exact(data) { data.clone() } else { to }).collect())
    }
}

/// A type as the functions of floats see it.
fn as_inner(data: &DataType) -> DataType {
    if numeric::is_exact(data) { DataType::Float64 } else { data.clone() }
}

impl ScalarUDFImpl for Overload {
    fn name(&self) -> &str {
        self.name
    }
    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn coerce_types(&self, types: &[DataType]) -> PlanResult<Vec<DataType>> {
        if self.exactly(types).is_none() {
            return self.coerced(types);
        }
        types.iter().map(|data| taken(self.name, data, types)).collect()
    }
    fn return_type(&self, types: &[DataType]) -> PlanResult<DataType> {
        match self.exactly(types) {
            Some(_) => Ok(EXACT),
            None => self.inner.return_type(&types.iter().map(as_inner).collect::<Vec<_>>()),
        }
    }
    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> PlanResult<FieldRef> {
        let types: Vec<_> = arguments.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        match self.exactly(&types) {
            Some(_) => Ok(Arc::new(Field::new(self.name, EXACT, true))),
            None => {
                let typed = arguments
                    .arg_fields
                    .iter()
                    .map(|field| Arc::new(field.as_ref().clone().with_data_type(as_inner(field.data_type()))));
                let arg_fields: Vec<FieldRef> = typed.collect();
                self.inner.return_field_from_args(ReturnFieldArgs { arg_fields: &arg_fields, ..arguments })
            }
        }
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        let types: Vec<_> = arguments.args.iter().map(ColumnarValue::data_type).collect();
        match self.exactly(&types) {
            Some(function) => compute(self.name, function, &arguments),
            None => {
                let mut arguments = arguments;
                for (argument, field) in arguments.args.iter_mut().zip(&mut arguments.arg_fields) {
                    if !numeric::is_exact(&argument.data_type()) {
                        continue;
                    }
                    *argument = match &*argument {
                        ColumnarValue::Scalar(scalar) => {
                            ColumnarValue::Scalar(numeric::cast::convert_scalar(scalar, &DataType::Float64)?)
                        }
                        ColumnarValue::Array(array) => ColumnarValue::Array(
                            numeric::cast::convert(array, &DataType::Float64, None).map_err(external)?,
                        ),
                    };
                    *field = Arc::new(field.as_ref().clone().with_data_type(DataType::Float64));
                }
                if let ("round", [value]) = (self.name, arguments.args.as_slice())
                    && value.data_type().is_floating()
                {
                    return to_even(value);
                }
                self.inner.invoke_with_args(arguments)
            }
        }
    }
    // The inner one's would put the inner one in its place.
    fn simplify(&self, arguments: Vec<Expr>, context: &SimplifyContext) -> PlanResult<ExprSimplifyResult> {
        folded(arguments, context, |fields| {
            let types: Vec<_> = fields.iter().map(|field| field.data_type().clone()).collect();
            Ok(Arc::new(Field::new(self.name, self.return_type(&types)?, true)))
        })
    }
}

/// `round` of floats, as C's `rint`: a half goes to the even number.
fn to_even(value: &ColumnarValue) -> PlanResult<ColumnarValue> {
    let constant = matches!(value, ColumnarValue::Scalar(_));
    let array = value.clone().into_array(1)?;
    let rounded: ArrayRef = match array.as_primitive_opt::<Float32Type>() {
        Some(reals) => Arc::new(reals.unary::<_, Float32Type>(f32::round_ties_even)),
        None => Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(f64::round_ties_even)),
    };
    returned(rounded, constant)
}

/// A count of digits that an argument gives.
fn places(number: &Number) -> Result<i32> {
    match number {
        Number::Finite(decimal) => i32::try_from(&decimal.rounded(0).unscaled)
            .map_err(|_| SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range")),
        _ => Err(SqlError::unsupported("digits that are no number")),
    }
}

fn rounded(values: &[Number], round: fn(&Decimal, i32) -> Decimal) -> Result<Number> {
    let places = values.get(1).map_or(Ok(0), places)?;
    Ok(values[0].map(|decimal| round(decimal, places)))
}

fn common_divisor(values: &[Number]) -> Result<Number> {
    let (Number::Finite(a), Number::Finite(b)) = (&values[0], &values[1]) else { return Ok(Number::NaN) };
    let scale = a.scale.max(b.scale);
    let (mut a, mut b) = (a.abs().rescaled(scale).unscaled, b.abs().rescaled(scale).unscaled);
    while b.sign() != num_bigint::Sign::NoSign {
        (a, b) = (b.clone(), a % b);
    }
    Ok(Number::Finite(Decimal { unscaled: a, scale }))
}

fn common_multiple(values: &[Number]) -> Result<Number> {
    let (Number::Finite(a), Number::Finite(b)) = (&values[0], &values[1]) else { return Ok(Number::NaN) };
    let scale = a.scale.max(b.scale);
    if a.is_zero() || b.is_zero() {
        return Ok(Number::Finite(Decimal::new(0, scale)));
    }
    let Number::Finite(divisor) = common_divisor(values)? else { return Ok(Number::NaN) };
    let product = a.quotient(&divisor).times(b).abs();
    Ok(Number::Finite(product.rescaled(scale)))
}

fn factorial(values: &[Number]) -> Result<Number> {
    /// The greatest whose factorial a numeric holds.
    const MOST: i32 = 32_177;
    let out_of_range = |message: &str| SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message);
    if values[0].signum() < 0 {
        return Err(out_of_range("factorial of a negative number is undefined"));
    }
    let most = places(&values[0]).ok().filter(|count| *count <= MOST);
    let most = most.ok_or_else(|| out_of_range("value overflows numeric format"))?;
    Ok(Number::integer((2..=most).fold(num_bigint::BigInt::from(1), |product, next| product * next)))
}

fn scale(number: &Number) -> Option<u32> {
    match number {
        Number::Finite(decimal) => Some(decimal.scale),
        _ => None,
    }
}

/// Functions with a form for numerics: the name, what it computes, whether DataFusion's takes Arrow's decimals, and
/// what integers are.
const OVERLOADS: &[(&str, Option<Compute>, bool, Integers)] = &[
    ("abs", Some(|values| Ok(values[0].abs())), true, Integers::Inner),
    ("signum", Some(|values| Ok(sign(&values[0]))), false, Integers::Inner),
    ("ceil", Some(|values| Ok(values[0].map(|decimal| decimal.whole(true)))), false, Integers::Inner),
    ("floor", Some(|values| Ok(values[0].map(|decimal| decimal.whole(false)))), false, Integers::Inner),
    ("round", Some(|values| rounded(values, Decimal::rounded)), false, Integers::TwoNumeric),
    ("trunc", Some(|values| rounded(values, Decimal::truncated)), false, Integers::TwoNumeric),
    ("sqrt", Some(|values| power::sqrt(&values[0])), false, Integers::Inner),
    ("exp", Some(|values| power::exp(&values[0])), false, Integers::Inner),
    ("ln", Some(|values| power::ln(&values[0])), false, Integers::Inner),
    ("log10", Some(|values| power::log(&Number::integer(10), &values[0])), false, Integers::Inner),
    ("log", Some(logarithm), false, Integers::TwoNumeric),
    ("power", Some(|values| power::power(&values[0], &values[1])), false, Integers::Inner),
    ("gcd", Some(common_divisor), false, Integers::Inner),
    ("lcm", Some(common_multiple), false, Integers::Inner),
    ("factorial", Some(factorial), false, Integers::Numeric),
    ("cbrt", None, false, Integers::Inner),
    ("sin", None, false, Integers::Inner),
    ("cos", None, false, Integers::Inner),
    ("tan", None, false, Integers::Inner),
    ("cot", None, false, Integers::Inner),
    ("asin", None, false, Integers::Inner),
    ("acos", None, false, Integers::Inner),
    ("atan", None, false, Integers::Inner),
    ("atan2", None, false, Integers::Inner),
    ("sinh", None, false, Integers::Inner),
    ("cosh", None, false, Integers::Inner),
    ("tanh", None, false, Integers::Inner),
    ("asinh", None, false, Integers::Inner),
    ("acosh", None, false, Integers::Inner),
    ("atanh", None, false, Integers::Inner),
    ("degrees", None, false, Integers::Inner),
    ("radians", None, false, Integers::Inner),
];

fn sign(number: &Number) -> Number {
    if number.is_nan() { Number::NaN } else { Number::integer(number.signum()) }
}

fn logarithm(values: &[Number]) -> Result<Number> {
    match values {
        [base, number] => power::log(base, number),
        _ => power::log(&Number::integer(10), &values[0]),
    }
}

fn overloads(state: &SessionState) -> Vec<Arc<ScalarUDF>> {
    let found = OVERLOADS.iter().filter_map(|(name, compute, decimals, integers)| {
        let inner = state.udf(name).ok()?;
        let signature = Signature::user_defined(Volatility::Immutable);
        let (compute, decimals, integers) = (*compute, *decimals, *integers);
        Some(Arc::new(ScalarUDF::from(Overload { name, inner, compute, decimals, integers, signature })))
    });
    found.collect()
}

/// A function of one number with another result than a number.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ScaleOf {
    name: &'static str,
    least: bool,
    signature: Signature,
}

impl ScalarUDFImpl for ScaleOf {
    fn name(&self) -> &str {
        self.name
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> PlanResult<DataType> {
        Ok(DataType::Int32)
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        let constant = matches!(arguments.args[0], ColumnarValue::Scalar(_));
        let Some(argument) = arguments.args.into_iter().next() else { return internal_err!("one argument") };
        let array = argument.into_array(if constant { 1 } else { arguments.number_rows })?;
        let shown = |number: Number| {
            let number = if self.least { number.map(Decimal::trimmed) } else { number };
            scale(&number).and_then(|scale| i32::try_from(scale).ok())
        };
        let scales = (0..array.len()).map(|row| column::number(&array, row).and_then(shown));
        returned(Arc::new(scales.collect::<arrow::array::Int32Array>()), constant)
    }
}

fn scale_of(name: &'static str, least: bool) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(ScaleOf { name, least, signature: Signature::any(1, Volatility::Immutable) }))
}

/// Functions that only numerics have, and those of floats that they have too.
pub(crate) fn functions(state: &SessionState) -> Vec<Arc<ScalarUDF>> {
    let mut all = overloads(state);
    all.push(Numeric::function("div", &[2], |values| values[0].quotient(&values[1])));
    all.extend([trim(), scale_of("scale", false), scale_of("min_scale", true)]);
    all
}

/// The bucket of a number between bounds, as `width_bucket` counts them.
///
/// # Errors
/// 2201G
pub(crate) fn bucket(operand: &Number, low: &Number, high: &Number, count: i32) -> Result<i32> {
    let wrong = |message: &str| Err(SqlError::new(SqlState::INVALID_WIDTH_BUCKET, message));
    if count <= 0 {
        return wrong("count must be greater than zero");
    }
    if operand.is_nan() || low.is_nan() || high.is_nan() {
        return wrong("operand, lower bound, and upper bound cannot be NaN");
    }
    let (Number::Finite(from), Number::Finite(to)) = (low, high) else {
        return wrong("lower and upper bounds must be finite");
    };
    let order = low.compare(high);
    if order.is_eq() {
        return wrong("lower bound cannot equal upper bound");
    }
    let up = order.is_lt();
    let beyond =
        count.checked_add(1).ok_or_else(|| SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range"));
    let (below, above) = (operand.compare(low), operand.compare(high));
    if (up && below.is_lt()) || (!up && below.is_gt()) {
        return Ok(0);
    }
    if (up && above.is_ge()) || (!up && above.is_le()) {
        return beyond;
    }
    let Number::Finite(at) = operand else { return Ok(0) };
    let width = to.minus(from);
    if width.is_zero() {
        return Err(division_by_zero());
    }
    let share = at.minus(from).times(&Decimal::new(count, 0)).quotient(&width);
    Ok(i32::try_from(&share.unscaled).unwrap_or(0).saturating_add(1))
}
