//! Bit strings: their operators, and what functions of texts and of `bytea` are of them.
//!
//! An operator is one of PostgreSQL's functions behind it (`bitand`, `bitcat` …), which the planner of operators calls.
//! A function that texts or `bytea` have too is wrapped ([`OfBits`]): of anything but bits the one below computes it.

use super::{
    bytes,
    scalar_function::{self, RowFunction, external, nullable, row_by_row, strict},
    values::{int_of, text_of, undefined},
};
use crate::{
    common_type::arguments::taken_by,
    error::{SqlError, SqlState},
    types::{BITS, bit_field, is_bits},
};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::{
    error::Result,
    execution::{FunctionRegistry, SessionState},
    functions::unicode,
    logical_expr::{
        ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
        simplify::{ExprSimplifyResult, SimplifyContext},
    },
    scalar::ScalarValue,
};
use keyspan_catalog::value::bits::parse;
use std::sync::{Arc, LazyLock};

/// The bits of a value, or those that a quoted text writes.
///
/// # Errors
/// 22P02
fn bits_of(value: &ScalarValue) -> Result<String> {
    let text = text_of(value).unwrap_or_default();
    if is_bits(&value.data_type()) {
        return Ok(text);
    }
    parse(&text).map(std::borrow::Cow::into_owned).map_err(|error| external(error.into()))
}

fn given(bits: impl Into<String>) -> Result<ScalarValue> {
    Ok(ScalarValue::LargeUtf8(Some(bits.into())))
}

fn some_bits(_: &[FieldRef]) -> Result<FieldRef> {
    Ok(Arc::new(bit_field("bit")))
}

/// What joins two bits of the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Joins {
    And,
    Or,
    Xor,
}

impl Joins {
    /// Two bit strings joined, of the same length.
    ///
    /// # Errors
    /// 22026 if they have two lengths.
    pub(crate) fn of(self, a: &str, b: &str) -> Result<String> {
        if a.len() != b.len() {
            let verb = match self {
                Self::And => "AND",
                Self::Or => "OR",
                Self::Xor => "XOR",
            };
            let message = format!("cannot {verb} bit strings of different sizes");
            return Err(external(SqlError::new(SqlState::STRING_DATA_LENGTH_MISMATCH, message)));
        }
        let joined = a.bytes().zip(b.bytes()).map(|(a, b)| {
            let (a, b) = (a == b'1', b == b'1');
            let is = match self {
                Self::And => a && b,
                Self::Or => a || b,
                Self::Xor => a != b,
            };
            if is { '1' } else { '0' }
        });
        Ok(joined.collect())
    }
}

/// Moves bits to the left, by a negative number to the right; zeros come in.
fn shifted(bits: &str, left: i64) -> String {
    let by = usize::try_from(left.unsigned_abs()).unwrap_or(usize::MAX).min(bits.len());
    let zeros = "0".repeat(by);
    if left >= 0 { format!("{}{zeros}", &bits[by..]) } else { format!("{zeros}{}", &bits[..bits.len() - by]) }
}

fn operators() -> [RowFunction; 7] {
    let join = |name, run| strict(name, 2..=2, some_bits, run);
    [
        join("bitand", |call| given(Joins::And.of(&bits_of(&call.values[0])?, &bits_of(&call.values[1])?)?)),
        join("bitor", |call| given(Joins::Or.of(&bits_of(&call.values[0])?, &bits_of(&call.values[1])?)?)),
        join("bitxor", |call| given(Joins::Xor.of(&bits_of(&call.values[0])?, &bits_of(&call.values[1])?)?)),
        strict("bitnot", 1..=1, some_bits, |call| {
            let turned =
                bits_of(&call.values[0])?.bytes().map(|bit| if bit == b'1' { '0' } else { '1' }).collect::<String>();
            given(turned)
        }),
        join("bitshiftleft", |call| given(shifted(&bits_of(&call.values[0])?, int_of(&call.values[1]).unwrap_or(0)))),
        join("bitshiftright", |call| {
            given(shifted(&bits_of(&call.values[0])?, int_of(&call.values[1]).unwrap_or(0).saturating_neg()))
        }),
        strict(
            "bitcat",
            2..=2,
            |_| nullable(BITS),
            |call| given(bits_of(&call.values[0])? + &bits_of(&call.values[1])?),
        ),
    ]
}

/// One of the functions behind operators.
pub(crate) fn operator(name: &str) -> Arc<ScalarUDF> {
    static ALL: LazyLock<Vec<Arc<ScalarUDF>>> = LazyLock::new(|| scalar_function::functions(operators()).collect());
    let found = ALL.iter().find(|function| function.name() == name);
    Arc::clone(found.expect("who asks names one of them"))
}

/// A function that bit strings have, and texts or `bytea` too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Length,
    Octets,
    Position,
    GetBit,
    SetBit,
    Count,
    Substr,
    Overlay,
}

const KINDS: [(&str, Kind); 6] = [
    ("character_length", Kind::Length),
    ("bit_length", Kind::Length),
    ("octet_length", Kind::Octets),
    ("get_bit", Kind::GetBit),
    ("set_bit", Kind::SetBit),
    ("bit_count", Kind::Count),
];

impl Kind {
    /// Whether an argument is one of bits; the others are whole numbers.
    fn is_of_bits(self, at: usize) -> bool {
        at == 0 || at == 1 && matches!(self, Self::Position | Self::Overlay)
    }

    fn arguments(self) -> std::ops::RangeInclusive<usize> {
        match self {
            Self::Length | Self::Octets | Self::Count => 1..=1,
            Self::Position | Self::GetBit => 2..=2,
            Self::SetBit => 3..=3,
            Self::Substr => 2..=3,
            Self::Overlay => 3..=4,
        }
    }

    fn returns(self) -> FieldRef {
        let data = match self {
            Self::Count => DataType::Int64,
            Self::SetBit | Self::Substr | Self::Overlay => return Arc::new(bit_field("bit")),
            _ => DataType::Int32,
        };
        Arc::new(arrow::datatypes::Field::new("bits", data, true))
    }

    /// Whether it is computed here: `position` where one of both is of bits, the others by their first argument.
    fn takes(self, types: &[DataType]) -> bool {
        self.arguments().contains(&types.len())
            && types.iter().enumerate().any(|(at, data)| is_bits(data) && (at == 0 || self == Self::Position))
    }

    fn row(self, values: &[ScalarValue]) -> Result<ScalarValue> {
        let bits = bits_of(&values[0])?;
        let int = |at: usize| values.get(at).and_then(int_of);
        let number = |number: usize| Ok(ScalarValue::Int32(i32::try_from(number).ok()));
        match self {
            Self::Length => number(bits.len()),
            Self::Octets => number(bits.len().div_ceil(8)),
            Self::Count => Ok(ScalarValue::Int64(i64::try_from(bits.matches('1').count()).ok())),
            Self::Position => {
                let sought = bits_of(&values[1])?;
                // Nothing is found in nothing, not even nothing.
                let found = if bits.is_empty() { None } else { bits.find(&sought) };
                number(found.map_or(0, |at| at + 1))
            }
            Self::GetBit => {
                let at = place(int(1), bits.len())?;
                Ok(ScalarValue::Int32(Some(i32::from(bits.as_bytes()[at] == b'1'))))
            }
            Self::SetBit => {
                let at = place(int(1), bits.len())?;
                let bit = match int(2) {
                    Some(0) => "0",
                    Some(1) => "1",
                    _ => {
                        let message = "new bit must be 0 or 1";
                        return Err(external(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)));
                    }
                };
                given(format!("{}{bit}{}", &bits[..at], &bits[at + 1..]))
            }
            Self::Substr => ascii(bytes::part(bits.as_bytes(), int(1).unwrap_or(1), int(2))?),
            Self::Overlay => {
                let (new, from) = (bits_of(&values[1])?, int(2).unwrap_or(1));
                let count = int(3).unwrap_or_else(|| i64::try_from(new.len()).unwrap_or(i64::MAX));
                ascii(&bytes::overlaid(bits.as_bytes(), new.as_bytes(), from, count)?)
            }
        }
    }
}

fn ascii(bits: &[u8]) -> Result<ScalarValue> {
    given(String::from_utf8_lossy(bits))
}

/// A bit's place, counted from 0 on the left.
fn place(at: Option<i64>, length: usize) -> Result<usize> {
    let at = at.unwrap_or(-1);
    usize::try_from(at).ok().filter(|at| *at < length).ok_or_else(|| {
        let last = i64::try_from(length).unwrap_or(i64::MAX) - 1;
        let message = format!("bit index {at} out of valid range (0..{last})");
        external(SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message))
    })
}

/// A function, and what it is of bit strings.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OfBits {
    kind: Kind,
    inner: Arc<ScalarUDF>,
    signature: Signature,
}

impl OfBits {
    fn function(kind: Kind, inner: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
        let signature = Signature::user_defined(Volatility::Immutable);
        Arc::new(ScalarUDF::from(Self { kind, inner, signature }))
    }
}

impl ScalarUDFImpl for OfBits {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if !self.kind.takes(types) {
            return taken_by(self.inner.as_ref(), types);
        }
        let typed = types.iter().enumerate().map(|(at, data)| match (self.kind.is_of_bits(at), data) {
            // A quoted text is read when the function is called.
            (true, data) if is_bits(data) || matches!(data, DataType::Utf8 | DataType::Null) => Ok(data.clone()),
            (false, data) if data.is_integer() || data.is_null() => Ok(DataType::Int64),
            _ => Err(external(undefined(self.name(), types))),
        });
        typed.collect()
    }
    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        if self.kind.takes(types) { Ok(self.kind.returns().data_type().clone()) } else { self.inner.return_type(types) }
    }
    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = arguments.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        if self.kind.takes(&types) { Ok(self.kind.returns()) } else { self.inner.return_field_from_args(arguments) }
    }
    fn simplify(&self, arguments: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.inner.inner().simplify(arguments, context)
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let types: Vec<DataType> = arguments.args.iter().map(ColumnarValue::data_type).collect();
        if !self.kind.takes(&types) {
            return self.inner.invoke_with_args(arguments);
        }
        let null = ScalarValue::try_from(self.kind.returns().data_type())?;
        row_by_row(self.name(), &arguments, false, |values| {
            if values.iter().any(ScalarValue::is_null) { Ok(null.clone()) } else { self.kind.row(values) }
        })
    }
}

/// `substr`, which `SUBSTRING (a FROM 2)` is too.
pub(crate) fn substr() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| OfBits::function(Kind::Substr, bytes::substr()));
    Arc::clone(&FUNCTION)
}

/// `overlay`
pub(crate) fn overlay() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| OfBits::function(Kind::Overlay, bytes::overlay()));
    Arc::clone(&FUNCTION)
}

/// `strpos`, which `POSITION (a IN b)` is too, with its arguments the other way round.
pub(crate) fn strpos() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| OfBits::function(Kind::Position, unicode::strpos()));
    Arc::clone(&FUNCTION)
}

/// The functions, around those that are registered.
pub(crate) fn functions(state: &SessionState) -> Vec<Arc<ScalarUDF>> {
    let wrapped = KINDS.iter().filter_map(|(name, kind)| Some(OfBits::function(*kind, state.udf(name).ok()?)));
    wrapped.chain([substr(), overlay(), strpos()]).chain(scalar_function::functions(operators())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(bits: &str) -> ScalarValue {
        ScalarValue::LargeUtf8(Some(bits.into()))
    }

    fn int(int: i64) -> ScalarValue {
        ScalarValue::Int64(Some(int))
    }

    #[test]
    fn parts_and_places_are_postgres() {
        let row = |kind: Kind, values: &[ScalarValue]| kind.row(values).map_err(|error| error.to_string());
        assert_eq!(row(Kind::Substr, &[bits("01010101"), int(-10), int(2_147_483_646)]), Ok(bits("01010101")));
        assert_eq!(row(Kind::Substr, &[bits("01010101"), int(2), int(3)]), Ok(bits("101")));
        assert_eq!(row(Kind::Overlay, &[bits("0101011100"), bits("001"), int(20)]), Ok(bits("0101011100001")));
        assert_eq!(row(Kind::Position, &[bits(""), bits("")]), Ok(ScalarValue::Int32(Some(0))));
        assert_eq!(row(Kind::Position, &[bits("00001010"), bits("1010")]), Ok(ScalarValue::Int32(Some(5))));
        assert_eq!(row(Kind::GetBit, &[bits("0101"), int(1)]), Ok(ScalarValue::Int32(Some(1))));
        assert_eq!(row(Kind::SetBit, &[bits("0101"), int(0), int(1)]), Ok(bits("1101")));
        assert!(row(Kind::SetBit, &[bits("0101"), int(4), int(1)]).is_err_and(|e| e.contains("(0..3)")));
        assert_eq!(row(Kind::Octets, &[bits("010101011")]), Ok(ScalarValue::Int32(Some(2))));
    }

    #[test]
    fn shifts_keep_the_length() {
        assert_eq!(shifted("1101", 1), "1010");
        assert_eq!(shifted("1101", -2), "0011");
        assert_eq!(shifted("1101", 9), "0000");
        assert_eq!(shifted("1101", i64::MIN), "0000");
    }
}
