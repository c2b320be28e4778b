//! Numbers in memory, and arithmetic on them with PostgreSQL's rules for digits after the point.
//!
//! A finite number is an integer and the count of its digits after the point, which is also what it shows. Sums,
//! products and remainders are exact; quotients have as many digits as PostgreSQL's `select_div_scale` gives them.
//! Rounding is half away from zero.

use crate::error::{Result, SqlError, SqlState};
use keyspan_catalog::value::exact::{Exact, Parts, SCALE_MAX, WHOLE_DIGITS_MAX};
use num_bigint::{BigInt, Sign};
use std::cmp::Ordering;

/// Digits that count in a result whose scale depends on its value, at least.
pub(crate) const SIGNIFICANT_MIN: i32 = 16;
/// Digits after the point of such a result, at most.
pub(crate) const DISPLAY_SCALE_MAX: i32 = 1_000;
/// Places before the point that a numeric may have, and one more: PostgreSQL's `NUMERIC_WEIGHT_MAX` in digits.
const PLACES_BEFORE_MAX: i32 = 131_073;
/// Places after it: PostgreSQL's `NUMERIC_DSCALE_MAX`.
const PLACES_AFTER_MAX: i32 = 16_383;
/// Digits in a group of PostgreSQL's representation, whose weights decide on scales.
pub(crate) const GROUP: i32 = 4;

/// An integer and its digits after the point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    pub(crate) unscaled: BigInt,
    pub(crate) scale: u32,
}

/// A numeric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Number {
    /// Not a number: above all others, and equal to itself.
    NaN,
    /// An infinity.
    Infinity {
        /// Below all numbers.
        negative: bool,
    },
    Finite(Decimal),
}

/// 10 to a power.
pub(crate) fn ten(power: u32) -> BigInt {
    match 10_u64.checked_pow(power) {
        Some(small) => BigInt::from(small),
        None => BigInt::from(10_u8).pow(power),
    }
}

/// A quotient rounded half away from zero. The divisor is not zero.
pub(crate) fn divide_rounded(dividend: &BigInt, divisor: &BigInt) -> BigInt {
    let (quotient, rest) = (dividend / divisor, dividend % divisor);
    if &(rest.magnitude() * 2_u8) < divisor.magnitude() {
        return quotient;
    }
    let same = (dividend.sign() == Sign::Minus) == (divisor.sign() == Sign::Minus);
    if same { quotient + 1 } else { quotient - 1 }
}

/// How many decimal digits an integer has; 0 for 0.
pub(crate) fn count_digits(value: &BigInt) -> u32 {
    let bits = value.bits();
    if bits == 0 {
        return 0;
    }
    if let Ok(small) = u128::try_from(value.magnitude()) {
        return small.ilog10() + 1;
    }
    // log10(2), and then the power of ten that decides.
    let least = ((bits - 1) as f64 * std::f64::consts::LOG10_2) as u32;
    if value.magnitude() >= ten(least + 1).magnitude() {
        least + 2
    } else if value.magnitude() >= ten(least).magnitude() {
        least + 1
    } else {
        least
    }
}

fn out_of_range() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format")
}

pub(crate) fn division_by_zero() -> SqlError {
    SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero")
}

impl Decimal {
    pub(crate) fn new(unscaled: impl Into<BigInt>, scale: u32) -> Self {
        Self { unscaled: unscaled.into(), scale }
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.unscaled.sign() == Sign::NoSign
    }

    pub(crate) fn is_negative(&self) -> bool {
        self.unscaled.sign() == Sign::Minus
    }

    /// The place of the first digit, counted from the point: 1 for units; 0 for zero.
    pub(crate) fn exponent(&self) -> i32 {
        if self.is_zero() { 0 } else { count_digits(&self.unscaled) as i32 - self.scale as i32 }
    }

    /// The weight of PostgreSQL's first group of four digits; 0 for zero.
    pub(crate) fn weight(&self) -> i32 {
        if self.is_zero() { 0 } else { (self.exponent() - 1).div_euclid(GROUP) }
    }

    /// Up to `count` of PostgreSQL's groups from the first, as an integer, and the weight of the last of them in
    /// decimal places. Groups beyond the last digit that is not zero are left out.
    pub(crate) fn leading_groups(&self, count: i32) -> (f64, i32) {
        if self.is_zero() {
            return (0.0, 0);
        }
        let weight = self.weight();
        let (mut value, mut at) = (0.0, weight * GROUP);
        let magnitude = BigInt::from(self.unscaled.magnitude().clone());
        for index in 0..count {
            let place = (weight - index) * GROUP;
            // The digits of this place and above.
            let shift = self.scale as i32 + place;
            let (head, rest) = match u32::try_from(shift) {
                Ok(shift) => (&magnitude / ten(shift), &magnitude % ten(shift)),
                Err(_) => (&magnitude * ten(shift.unsigned_abs()), BigInt::ZERO),
            };
            let group = u16::try_from(head % 10_000_u16).unwrap_or(0);
            value = value * 10_000.0 + f64::from(group);
            at = place;
            if rest.sign() == Sign::NoSign {
                break;
            }
        }
        (value, at)
    }

    /// With other digits after the point, rounded half away from zero.
    pub(crate) fn rescaled(&self, scale: u32) -> Self {
        let unscaled = match scale.cmp(&self.scale) {
            Ordering::Equal => self.unscaled.clone(),
            Ordering::Greater => &self.unscaled * ten(scale - self.scale),
            // Less than half of the last place that stays.
            Ordering::Less if self.scale - scale > count_digits(&self.unscaled) => BigInt::ZERO,
            Ordering::Less => divide_rounded(&self.unscaled, &ten(self.scale - scale)),
        };
        Self { unscaled, scale }
    }

    /// Rounded at a place that may lie before the point.
    pub(crate) fn rounded(&self, places: i32) -> Self {
        self.at_place(places, divide_rounded)
    }

    /// Cut at a place that may lie before the point.
    pub(crate) fn truncated(&self, places: i32) -> Self {
        self.at_place(places, |dividend, divisor| dividend / divisor)
    }

    fn at_place(&self, places: i32, divide: impl Fn(&BigInt, &BigInt) -> BigInt) -> Self {
        let places = places.clamp(-PLACES_BEFORE_MAX, PLACES_AFTER_MAX);
        let scale = places.max(0) as u32;
        let off = self.scale as i32 - places;
        if off <= 0 {
            return self.rescaled(scale);
        }
        if off > count_digits(&self.unscaled) as i32 {
            return Self::new(0, scale);
        }
        let unscaled = divide(&self.unscaled, &ten(off.unsigned_abs()));
        let unscaled = if places < 0 { unscaled * ten(places.unsigned_abs()) } else { unscaled };
        Self { unscaled, scale }
    }

    /// The least whole number above, or the greatest below.
    pub(crate) fn whole(&self, up: bool) -> Self {
        let unit = ten(self.scale);
        let (quotient, rest) = (&self.unscaled / &unit, &self.unscaled % &unit);
        let step = match rest.sign() {
            Sign::Plus if up => 1,
            Sign::Minus if !up => -1,
            _ => 0,
        };
        Self::new(quotient + step, 0)
    }

    fn aligned(&self, other: &Self) -> (BigInt, BigInt, u32) {
        let scale = self.scale.max(other.scale);
        (self.rescaled(scale).unscaled, other.rescaled(scale).unscaled, scale)
    }

    pub(crate) fn plus(&self, other: &Self) -> Self {
        let (a, b, scale) = self.aligned(other);
        Self { unscaled: a + b, scale }
    }

    pub(crate) fn minus(&self, other: &Self) -> Self {
        let (a, b, scale) = self.aligned(other);
        Self { unscaled: a - b, scale }
    }

    /// A product; with more than PostgreSQL's digits after the point it is rounded.
    pub(crate) fn times(&self, other: &Self) -> Self {
        let product = Self { unscaled: &self.unscaled * &other.unscaled, scale: self.scale + other.scale };
        if product.scale > SCALE_MAX { product.rescaled(SCALE_MAX) } else { product }
    }

    /// A quotient with `scale` digits after the point. The divisor is not zero.
    pub(crate) fn over(&self, other: &Self, scale: u32) -> Self {
        let shift = scale as i64 + i64::from(other.scale) - i64::from(self.scale);
        let power = ten(u32::try_from(shift.unsigned_abs()).unwrap_or(u32::MAX));
        let unscaled = if shift >= 0 {
            divide_rounded(&(&self.unscaled * power), &other.unscaled)
        } else {
            divide_rounded(&self.unscaled, &(&other.unscaled * power))
        };
        Self { unscaled, scale }
    }

    /// The whole part of a quotient. The divisor is not zero.
    pub(crate) fn quotient(&self, other: &Self) -> Self {
        let (a, b, _) = self.aligned(other);
        Self::new(a / b, 0)
    }

    /// The remainder of that. The divisor is not zero.
    pub(crate) fn remainder(&self, other: &Self) -> Self {
        let (a, b, scale) = self.aligned(other);
        Self { unscaled: a % b, scale }
    }

    /// The digits after the point of a quotient: PostgreSQL's `select_div_scale`.
    pub(crate) fn quotient_scale(&self, other: &Self) -> u32 {
        let mut weight = self.weight() - other.weight();
        if self.leading_groups(1).0 <= other.leading_groups(1).0 {
            weight -= 1;
        }
        let scale = SIGNIFICANT_MIN - weight * GROUP;
        scale.max(self.scale as i32).max(other.scale as i32).clamp(0, DISPLAY_SCALE_MAX) as u32
    }

    /// Without zeros at the end of its digits after the point.
    pub(crate) fn trimmed(&self) -> Self {
        let (mut unscaled, mut scale) = (self.unscaled.clone(), self.scale);
        if self.is_zero() {
            return Self::new(0, 0);
        }
        while scale > 0 && (&unscaled % 10_u8).sign() == Sign::NoSign {
            unscaled /= 10_u8;
            scale -= 1;
        }
        Self { unscaled, scale }
    }

    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        if self.scale == other.scale {
            return self.unscaled.cmp(&other.unscaled);
        }
        let (a, b, _) = self.aligned(other);
        a.cmp(&b)
    }

    pub(crate) fn abs(&self) -> Self {
        Self { unscaled: self.unscaled.magnitude().clone().into(), scale: self.scale }
    }

    pub(crate) fn negated(&self) -> Self {
        Self { unscaled: -&self.unscaled, scale: self.scale }
    }

    /// The nearest double; an infinity beyond them.
    pub(crate) fn to_f64(&self) -> f64 {
        Exact::of_integer(&self.unscaled, self.scale)
            .ok()
            .and_then(|exact| exact.to_text().parse().ok())
            .unwrap_or(f64::INFINITY)
    }
}

impl Number {
    pub(crate) fn integer(value: impl Into<BigInt>) -> Self {
        Self::Finite(Decimal::new(value, 0))
    }

    pub(crate) fn of(exact: &Exact) -> Self {
        match exact.to_integer() {
            Some((unscaled, scale)) => Self::Finite(Decimal { unscaled, scale: scale.into() }),
            None => match exact.parts() {
                Parts::Infinity => Self::Infinity { negative: false },
                Parts::MinusInfinity => Self::Infinity { negative: true },
                _ => Self::NaN,
            },
        }
    }

    /// PostgreSQL's cast of a double: 15 digits of it, or 6 of a real.
    pub(crate) fn of_f64(value: f64, digits: usize) -> Self {
        if value.is_nan() {
            return Self::NaN;
        }
        if value.is_infinite() {
            return Self::Infinity { negative: value < 0.0 };
        }
        let text = format!("{value:.*e}", digits - 1);
        let exact = Exact::parse(&text).and_then(std::result::Result::ok);
        match exact.map(|exact| Self::of(&exact)) {
            Some(Self::Finite(decimal)) => Self::Finite(decimal.trimmed()),
            _ => Self::integer(0),
        }
    }

    /// The number as it is stored.
    ///
    /// # Errors
    /// 22003 for more digits than a numeric has.
    pub(crate) fn to_exact(&self) -> Result<Exact> {
        Ok(match self {
            Self::NaN => Exact::nan(),
            Self::Infinity { negative } => Exact::infinity(*negative),
            Self::Finite(Decimal { unscaled, scale }) => {
                if *scale > SCALE_MAX || count_digits(unscaled) as i32 - *scale as i32 > WHOLE_DIGITS_MAX {
                    return Err(out_of_range());
                }
                Exact::of_integer(unscaled, *scale)?
            }
        })
    }

    pub(crate) fn is_nan(&self) -> bool {
        matches!(self, Self::NaN)
    }

    /// −1, 0 or 1; 1 for NaN, which is above all others.
    pub(crate) fn signum(&self) -> i32 {
        match self {
            Self::NaN => 1,
            Self::Infinity { negative } => {
                if *negative {
                    -1
                } else {
                    1
                }
            }
            Self::Finite(decimal) if decimal.is_zero() => 0,
            Self::Finite(decimal) => {
                if decimal.is_negative() {
                    -1
                } else {
                    1
                }
            }
        }
    }

    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        let rank = |number: &Self| match number {
            Self::Infinity { negative: true } => 0,
            Self::Finite(_) => 1,
            Self::Infinity { negative: false } => 2,
            Self::NaN => 3,
        };
        match (self, other) {
            (Self::Finite(a), Self::Finite(b)) => a.compare(b),
            _ => rank(self).cmp(&rank(other)),
        }
    }

    /// As a double.
    pub(crate) fn to_f64(&self) -> f64 {
        match self {
            Self::NaN => f64::NAN,
            Self::Infinity { negative: true } => f64::NEG_INFINITY,
            Self::Infinity { negative: false } => f64::INFINITY,
            Self::Finite(decimal) => decimal.to_f64(),
        }
    }

    pub(crate) fn negated(&self) -> Self {
        match self {
            Self::NaN => Self::NaN,
            Self::Infinity { negative } => Self::Infinity { negative: !negative },
            Self::Finite(decimal) => Self::Finite(decimal.negated()),
        }
    }

    pub(crate) fn abs(&self) -> Self {
        if self.signum() < 0 { self.negated() } else { self.clone() }
    }

    /// The same function of a finite number; others stay.
    pub(crate) fn map(&self, change: impl FnOnce(&Decimal) -> Decimal) -> Self {
        match self {
            Self::Finite(decimal) => Self::Finite(change(decimal)),
            other => other.clone(),
        }
    }

    pub(crate) fn plus(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Finite(a), Self::Finite(b)) => Self::Finite(a.plus(b)),
            (Self::NaN, _) | (_, Self::NaN) => Self::NaN,
            (Self::Infinity { negative: a }, Self::Infinity { negative: b }) if a != b => Self::NaN,
            (infinity @ Self::Infinity { .. }, _) | (_, infinity) => infinity.clone(),
        }
    }

    pub(crate) fn minus(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Finite(a), Self::Finite(b)) => Self::Finite(a.minus(b)),
            _ => self.plus(&other.negated()),
        }
    }

    pub(crate) fn times(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Finite(a), Self::Finite(b)) => Self::Finite(a.times(b)),
            (Self::NaN, _) | (_, Self::NaN) => Self::NaN,
            _ => match self.signum() * other.signum() {
                0 => Self::NaN,
                sign => Self::Infinity { negative: sign < 0 },
            },
        }
    }

    /// A quotient, with PostgreSQL's digits.
    ///
    /// # Errors
    /// 22012
    pub(crate) fn over(&self, other: &Self) -> Result<Self> {
        self.divided(other, |a, b| a.over(b, a.quotient_scale(b)))
    }

    /// The whole part of a quotient.
    ///
    /// # Errors
    /// 22012
    pub(crate) fn quotient(&self, other: &Self) -> Result<Self> {
        self.divided(other, Decimal::quotient)
    }

    fn divided(&self, other: &Self, divide: impl Fn(&Decimal, &Decimal) -> Decimal) -> Result<Self> {
        Ok(match (self, other) {
            (Self::NaN, _) | (_, Self::NaN) => Self::NaN,
            (Self::Infinity { .. }, Self::Infinity { .. }) => Self::NaN,
            (_, Self::Finite(b)) if b.is_zero() => return Err(division_by_zero()),
            (Self::Infinity { negative }, Self::Finite(b)) => Self::Infinity { negative: *negative != b.is_negative() },
            (Self::Finite(_), Self::Infinity { .. }) => Self::integer(0),
            (Self::Finite(a), Self::Finite(b)) => Self::Finite(divide(a, b)),
        })
    }

    /// The remainder of a division to whole numbers.
    ///
    /// # Errors
    /// 22012
    pub(crate) fn remainder(&self, other: &Self) -> Result<Self> {
        Ok(match (self, other) {
            (Self::NaN, _) | (_, Self::NaN) => Self::NaN,
            (_, Self::Finite(b)) if b.is_zero() => return Err(division_by_zero()),
            (Self::Infinity { .. }, _) => Self::NaN,
            (Self::Finite(_), Self::Infinity { .. }) => self.clone(),
            (Self::Finite(a), Self::Finite(b)) => Self::Finite(a.remainder(b)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn number(text: &str) -> Number {
        Number::of(&Exact::parse(text).unwrap().unwrap())
    }

    fn shown(number: &Number) -> String {
        number.to_exact().unwrap().to_text()
    }

    #[test]
    fn quotients_have_the_digits_of_postgres() {
        let check = |a: &str, b: &str, expected: Expect| {
            expected
                .assert_eq(&number(a).over(&number(b)).map_or_else(|error| error.message, |quotient| shown(&quotient)));
        };
        check("1", "3", expect!["0.33333333333333333333"]);
        check("98", "3.0", expect!["32.6666666666666667"]);
        check("862.54", "9", expect!["95.8377777777777778"]);
        check("0", "7", expect!["0.00000000000000000000"]);
        check("1e40", "7", expect!["1428571428571428571428571428571428571429"]);
        check("1", "0.0", expect!["division by zero"]);
        check("Infinity", "-2", expect!["-Infinity"]);
        check("5", "Infinity", expect!["0"]);
    }

    #[test]
    fn places_before_the_point_are_rounded() {
        let check = |text: &str, places, expected: Expect| {
            let Number::Finite(decimal) = number(text) else { panic!("{text} is finite") };
            let both = [decimal.rounded(places), decimal.truncated(places)];
            expected.assert_eq(&both.map(|decimal| shown(&Number::Finite(decimal))).join(" "));
        };
        check("1.255", 2, expect!["1.26 1.25"]);
        check("-1250", -2, expect!["-1300 -1200"]);
        check("1.5", 4, expect!["1.5000 1.5000"]);
        check("4", -1, expect!["0 0"]);
        check("5", -1, expect!["10 0"]);
        check("0.05", 1, expect!["0.1 0.0"]);
    }

    #[test]
    fn doubles_keep_fifteen_digits() {
        assert_eq!(shown(&Number::of_f64(0.1, 15)), "0.1");
        assert_eq!(shown(&Number::of_f64(1e22, 15)), "10000000000000000000000");
        assert_eq!(shown(&Number::of_f64(-123_456.789, 6)), "-123457");
    }
}
