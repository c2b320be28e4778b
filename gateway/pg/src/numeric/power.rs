//! Roots, powers, exponentials and logarithms, with as many digits after the point as PostgreSQL's `numeric.c` gives
//! them.
//!
//! How many these are follows from estimates in floating point, which are PostgreSQL's (version 15), step by step; the
//! digits are those of the true result, rounded half away from zero. They are computed with [`GUARD`] digits more.

use super::number::{DISPLAY_SCALE_MAX, Decimal, GROUP, Number, SIGNIFICANT_MIN, count_digits, division_by_zero, ten};
use crate::error::{Result, SqlError, SqlState};
use num_bigint::{BigInt, Sign};

/// Digits more than a result shows.
const GUARD: u32 = 12;
/// A result's weight beyond which PostgreSQL does not go.
const RESULT_SCALE_MAX: f64 = 2_000.0;
/// log10(e), as PostgreSQL has it.
#[expect(clippy::approx_constant, reason = "a digit more would be another estimate")]
const LOG10_E: f64 = 0.434_294_481_903_252;
/// Digits of a result before the point, at most.
const WHOLE_DIGITS_MAX: f64 = 131_072.0;

fn overflow() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format")
}

fn invalid_power(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_POWER, message)
}

fn clamped(scale: i32, least: &[u32]) -> u32 {
    let least = least.iter().copied().max().unwrap_or(0) as i32;
    scale.max(least).clamp(0, DISPLAY_SCALE_MAX) as u32
}

/// The square root.
///
/// # Errors
/// 2201F
pub(crate) fn sqrt(number: &Number) -> Result<Number> {
    let decimal = match number {
        Number::Infinity { negative: false } | Number::NaN => return Ok(number.clone()),
        Number::Finite(decimal) if !decimal.is_negative() => decimal,
        _ => return Err(invalid_power("cannot take square root of a negative number")),
    };
    let whole = decimal.weight() * GROUP / 2 + 1;
    let scale = clamped(SIGNIFICANT_MIN - whole, &[decimal.scale]);
    Ok(Number::Finite(root(decimal, scale)))
}

/// The root of a number that is not negative.
pub(crate) fn root(decimal: &Decimal, scale: u32) -> Decimal {
    let wanted = 2 * scale;
    // What is cut off is less than what decides.
    let scaled = if wanted >= decimal.scale {
        &decimal.unscaled * ten(wanted - decimal.scale)
    } else {
        &decimal.unscaled / ten(decimal.scale - wanted)
    };
    let root = scaled.sqrt();
    // Above the half: (root + 1/2)² is root² + root + 1/4.
    let up = scaled - &root * &root > root;
    Decimal { unscaled: if up { root + 1 } else { root }, scale }
}

/// e to a power, as an integer with `scale` digits after the point, to within a few units of the last place.
fn exponential(value: &BigInt, scale: u32) -> BigInt {
    let unit = ten(scale);
    // Halved until small, and squared as often.
    let halvings = (value.bits().saturating_sub(unit.bits()) + 8) as u32;
    let extra = 2 + halvings / 3 + 4;
    let unit = unit * ten(extra);
    let small = (value * ten(extra)) >> halvings;
    let (mut sum, mut term, mut count) = (&unit + &small, small.clone(), 2_u32);
    while term.sign() != Sign::NoSign && term != BigInt::from(-1) {
        term = term * &small / &unit / count;
        sum += &term;
        count += 1;
    }
    for _ in 0..halvings {
        sum = &sum * &sum / &unit;
    }
    sum / ten(extra)
}

/// e to a power with `scale` digits after the point: PostgreSQL's `exp_var`.
fn exp_at(decimal: &Decimal, scale: u32) -> Result<Decimal> {
    let estimate = decimal.to_f64();
    if estimate.abs() >= RESULT_SCALE_MAX * 3.0 {
        return if estimate > 0.0 { Err(overflow()) } else { Ok(Decimal::new(0, scale)) };
    }
    // Digits before the point of the result.
    let whole = (estimate * LOG10_E) as i32 + 1;
    let digits = scale + GUARD + whole.max(0).unsigned_abs();
    let value = decimal.rescaled(digits + GUARD).unscaled;
    let result = if decimal.is_negative() {
        // The inverse is precise where the result is small.
        let inverse = exponential(&-value, digits + GUARD);
        ten(2 * (digits + GUARD)) / inverse
    } else {
        exponential(&value, digits + GUARD)
    };
    Ok(Decimal { unscaled: result, scale: digits + GUARD }.rescaled(scale))
}

/// e to a power.
///
/// # Errors
/// 22003
pub(crate) fn exp(number: &Number) -> Result<Number> {
    let decimal = match number {
        Number::NaN | Number::Infinity { negative: false } => return Ok(number.clone()),
        Number::Infinity { negative: true } => return Ok(Number::integer(0)),
        Number::Finite(decimal) => decimal,
    };
    let weight = (decimal.to_f64() * LOG10_E).clamp(-RESULT_SCALE_MAX, RESULT_SCALE_MAX);
    let scale = clamped(SIGNIFICANT_MIN - weight as i32, &[decimal.scale]);
    Ok(Number::Finite(exp_at(decimal, scale)?))
}

/// The decimal weight of a logarithm: PostgreSQL's `estimate_ln_dweight`.
fn logarithm_weight(decimal: &Decimal) -> i32 {
    if decimal.is_zero() || decimal.is_negative() {
        return 0;
    }
    let (low, high) = (Decimal::new(9, 1), Decimal::new(11, 1));
    if decimal.compare(&low).is_ge() && decimal.compare(&high).is_le() {
        let off = decimal.minus(&Decimal::new(1, 0)).abs();
        if off.is_zero() {
            return 0;
        }
        let (first, _) = off.leading_groups(1);
        return off.weight() * GROUP + first.log10() as i32;
    }
    let (value, place) = decimal.leading_groups(2);
    let logarithm = value.ln() + f64::from(place) * std::f64::consts::LN_10;
    logarithm.abs().log10() as i32
}

/// The natural logarithm of a positive number with `scale` digits after the point.
fn ln_at(decimal: &Decimal, scale: u32) -> Decimal {
    // m × 10^exponent, with m from 0.1 to 1 (a result near 1 keeps its digits: exponent 0 or 1 changes nothing there).
    let exponent = decimal.exponent();
    let near_one = decimal.compare(&Decimal::new(5, 1)).is_ge() && decimal.compare(&Decimal::new(2, 0)).is_le();
    let exponent = if near_one { 0 } else { exponent };
    let digits = scale + GUARD + 8;
    let shift = digits as i32 - decimal.scale as i32 - exponent;
    let mantissa = if shift >= 0 {
        &decimal.unscaled * ten(shift.unsigned_abs())
    } else {
        super::number::divide_rounded(&decimal.unscaled, &ten(shift.unsigned_abs()))
    };
    let mut result = logarithm(&mantissa, digits);
    if exponent != 0 {
        result += logarithm_of_ten(digits) * exponent;
    }
    Decimal { unscaled: result, scale: digits }.rescaled(scale)
}

fn logarithm_of_ten(scale: u32) -> BigInt {
    -logarithm(&ten(scale - 1), scale)
}

/// The natural logarithm of an integer with `scale` digits after the point, to within a few units of the last place.
fn logarithm(value: &BigInt, scale: u32) -> BigInt {
    // Roots until it is near 1, then the series of the inverse hyperbolic tangent.
    const ROOTS: u32 = 12;
    let extra = 8;
    let unit = ten(scale + extra);
    let mut value = value * ten(extra);
    for _ in 0..ROOTS {
        value = (value * &unit).sqrt();
    }
    let ratio = (&value - &unit) * &unit / (&value + &unit);
    let square = &ratio * &ratio / &unit;
    let (mut sum, mut term, mut count) = (ratio.clone(), ratio, 3_u32);
    loop {
        term = term * &square / &unit;
        if term.sign() == Sign::NoSign {
            break;
        }
        sum += &term / count;
        count += 2;
    }
    ((sum * 2_u8) << ROOTS) / ten(extra)
}

fn positive(number: &Number) -> Result<()> {
    let fails = |message: &str| Err(SqlError::new(SqlState::INVALID_LOGARITHM, message));
    match number.signum() {
        _ if number.is_nan() => Ok(()),
        0 => fails("cannot take logarithm of zero"),
        -1 => fails("cannot take logarithm of a negative number"),
        _ => Ok(()),
    }
}

/// The natural logarithm.
///
/// # Errors
/// 2201E
pub(crate) fn ln(number: &Number) -> Result<Number> {
    positive(number)?;
    let Number::Finite(decimal) = number else { return Ok(number.clone()) };
    let scale = clamped(SIGNIFICANT_MIN - logarithm_weight(decimal), &[decimal.scale]);
    Ok(Number::Finite(ln_at(decimal, scale)))
}

/// The logarithm to a base.
///
/// # Errors
/// 2201E, 22012
pub(crate) fn log(base: &Number, number: &Number) -> Result<Number> {
    if base.is_nan() || number.is_nan() {
        return Ok(Number::NaN);
    }
    positive(base)?;
    positive(number)?;
    let (base, decimal) = match (base, number) {
        (Number::Finite(base), Number::Finite(decimal)) => (base, decimal),
        (Number::Finite(_), infinity) => return Ok(infinity.clone()),
        (_, Number::Finite(_)) => return Ok(Number::integer(0)),
        _ => return Ok(Number::NaN),
    };
    let (of_base, of_number) = (logarithm_weight(base), logarithm_weight(decimal));
    let weight = of_number - of_base;
    let scale = clamped(SIGNIFICANT_MIN - weight, &[base.scale, decimal.scale]);
    let digits = |of: i32| (scale as i32 + weight - of + 8).max(0).unsigned_abs();
    let (base, decimal) = (ln_at(base, digits(of_base)), ln_at(decimal, digits(of_number)));
    if base.is_zero() {
        return Err(division_by_zero());
    }
    Ok(Number::Finite(decimal.over(&base, scale)))
}

/// Whether a number has no digits after the point that are not zero.
fn is_whole(decimal: &Decimal) -> bool {
    (&decimal.unscaled % ten(decimal.scale)).sign() == Sign::NoSign
}

fn is_odd(decimal: &Decimal) -> bool {
    (&decimal.unscaled / ten(decimal.scale)).bit(0)
}

/// A power.
///
/// # Errors
/// 2201F, 22003
pub(crate) fn power(base: &Number, exponent: &Number) -> Result<Number> {
    let one = Number::integer(1);
    match (base, exponent) {
        (Number::Finite(base), Number::Finite(exponent)) => return finite_power(base, exponent),
        // 1 to any power and any number to the power of 0 are 1, with NaN too.
        (_, Number::Finite(zero)) if zero.is_zero() => return Ok(one),
        (Number::Finite(_), _) if base.compare(&one).is_eq() => return Ok(one),
        (Number::NaN, _) | (_, Number::NaN) => return Ok(Number::NaN),
        _ => {}
    }
    if base.signum() == 0 && exponent.signum() < 0 {
        return Err(invalid_power("zero raised to a negative power is undefined"));
    }
    match (base, exponent) {
        (_, Number::Infinity { negative }) => {
            let magnitude = base.abs();
            Ok(match magnitude.compare(&one) {
                std::cmp::Ordering::Equal => one,
                order if order.is_gt() != *negative => Number::Infinity { negative: false },
                _ => Number::integer(0),
            })
        }
        (Number::Infinity { negative }, Number::Finite(exponent)) => {
            if *negative && !is_whole(exponent) {
                let message = "a negative number raised to a non-integer power yields a complex result";
                return Err(invalid_power(message));
            }
            if exponent.is_negative() {
                return Ok(Number::integer(0));
            }
            Ok(Number::Infinity { negative: *negative && is_odd(exponent) })
        }
        _ => Ok(Number::NaN),
    }
}

fn finite_power(base: &Decimal, exponent: &Decimal) -> Result<Number> {
    if base.is_zero() && exponent.is_negative() {
        return Err(invalid_power("zero raised to a negative power is undefined"));
    }
    let whole = is_whole(exponent);
    if base.is_negative() && !whole {
        return Err(invalid_power("a negative number raised to a non-integer power yields a complex result"));
    }
    if whole && let Ok(times) = i32::try_from(&exponent.unscaled / ten(exponent.scale)) {
        return whole_power(base, times).map(Number::Finite);
    }
    if base.is_zero() {
        return Ok(Number::Finite(Decimal::new(0, SIGNIFICANT_MIN as u32)));
    }
    let negative = base.is_negative() && is_odd(exponent);
    let base = base.abs();
    let weight = logarithm_weight(&base);
    let estimate = ln_at(&base, (8 - weight).max(0).unsigned_abs()).times(exponent).to_f64();
    if estimate.abs() > RESULT_SCALE_MAX * 3.01 {
        if estimate > 0.0 {
            return Err(overflow());
        }
        return Ok(Number::Finite(Decimal::new(0, DISPLAY_SCALE_MAX as u32)));
    }
    let decimal_weight = (estimate * LOG10_E) as i32;
    let scale = clamped(SIGNIFICANT_MIN - decimal_weight, &[base.scale, exponent.scale]);
    let digits = (scale as i32 + decimal_weight - weight + 8).max(0).unsigned_abs() + GUARD;
    let logarithm = ln_at(&base, digits + count_digits(&exponent.unscaled));
    let result = exp_at(
        &Decimal { unscaled: &logarithm.unscaled * &exponent.unscaled, scale: logarithm.scale + exponent.scale },
        scale,
    )?;
    Ok(Number::Finite(if negative { result.negated() } else { result }))
}

/// A whole power: PostgreSQL's `power_var_int`, whose scale is that of the base.
fn whole_power(base: &Decimal, times: i32) -> Result<Decimal> {
    let scale = clamped(SIGNIFICANT_MIN, &[base.scale]);
    let weight = if base.is_zero() {
        0.0
    } else {
        let (value, place) = base.leading_groups(4);
        f64::from(times) * (value.log10() + f64::from(place))
    };
    if weight > WHOLE_DIGITS_MAX {
        return Err(overflow());
    }
    if weight + 1.0 < -f64::from(DISPLAY_SCALE_MAX) {
        return Ok(Decimal::new(0, scale));
    }
    match times {
        0 => return Ok(Decimal::new(1, 0).rescaled(scale)),
        1 => return Ok(base.rescaled(scale)),
        2 => return Ok(base.times(base).rescaled(scale)),
        _ => {}
    }
    if base.is_zero() {
        return if times < 0 { Err(division_by_zero()) } else { Ok(Decimal::new(0, scale)) };
    }
    if times == -1 {
        return Ok(Decimal::new(1, 0).over(base, scale));
    }
    // Digits that count: those of the result, and what multiplying loses.
    let digits = scale.saturating_add((weight.abs() as u32).saturating_add(1)) + GUARD + 12;
    let (mut value, mut exponent) = (base.unscaled.clone(), -i64::from(base.scale));
    let (mut result, mut result_exponent) = (BigInt::from(1), 0_i64);
    let mut left = times.unsigned_abs();
    loop {
        if left & 1 == 1 {
            result *= &value;
            result_exponent += exponent;
            cut(&mut result, &mut result_exponent, digits);
        }
        left >>= 1;
        if left == 0 {
            break;
        }
        value = &value * &value;
        exponent *= 2;
        cut(&mut value, &mut exponent, digits);
    }
    if times < 0 {
        // 1 / (result × 10^exponent)
        let places = i64::from(scale) - result_exponent;
        if places < 0 {
            return Ok(Decimal::new(0, scale));
        }
        let power = ten(u32::try_from(places).map_err(|_| overflow())?);
        return Ok(Decimal { unscaled: super::number::divide_rounded(&power, &result), scale });
    }
    let places = i64::from(scale) + result_exponent;
    let power = ten(u32::try_from(places.unsigned_abs()).map_err(|_| overflow())?);
    let unscaled = if places >= 0 { result * power } else { super::number::divide_rounded(&result, &power) };
    Ok(Decimal { unscaled, scale })
}

/// Cuts digits beyond those that count.
fn cut(value: &mut BigInt, exponent: &mut i64, digits: u32) {
    let count = count_digits(value);
    if count > digits {
        *value = super::number::divide_rounded(value, &ten(count - digits));
        *exponent += i64::from(count - digits);
    }
}
