//! The cells of aggregate families: what they hold, and how inputs and states merge into them. Pure.
//!
//! Sums, minima and maxima are 8 bytes, big-endian; a distinct count is a HyperLogLog sketch ([`hll`]). A state depends
//! on the *set* of what was merged into it (for a sum: the multiset), never on order or grouping, and states of equal
//! content are equal byte for byte.

pub mod hll;

use crate::{Aggregate, Error, Result};
use bytes::Bytes;

/// Adds an input to the state; `None` stands for an absent cell.
///
/// # Errors
/// [`Invalid`](Error::Invalid) if `state` is not a valid state.
pub fn add(kind: Aggregate, state: Option<&Bytes>, input: i64) -> Result<Bytes> {
    match kind {
        Aggregate::Sum | Aggregate::Min | Aggregate::Max => merge(kind, state, &input.to_be_bytes()),
        Aggregate::Hll => hll::add(state.map(AsRef::as_ref), input),
    }
}

/// Merges `other` into `state`; `None` stands for an absent cell.
///
/// # Errors
/// [`Invalid`](Error::Invalid) if one of them is not a valid state.
pub fn merge(kind: Aggregate, state: Option<&Bytes>, other: &[u8]) -> Result<Bytes> {
    let merged = match kind {
        Aggregate::Hll => return hll::merge(state.map(AsRef::as_ref), other),
        Aggregate::Sum => fold(state, other, i64::wrapping_add),
        Aggregate::Min => fold(state, other, i64::min),
        Aggregate::Max => fold(state, other, i64::max),
    }?;
    Ok(Bytes::copy_from_slice(&merged.to_be_bytes()))
}

/// Checks that the bytes are a valid state.
///
/// # Errors
/// [`Invalid`](Error::Invalid) if they are not.
pub fn check(kind: Aggregate, state: &[u8]) -> Result<()> {
    value(kind, state).map(drop)
}

/// The value of a state: the sum, the extreme, or the estimated number of distinct inputs.
///
/// # Errors
/// [`Invalid`](Error::Invalid) if the bytes are not a valid state.
pub fn value(kind: Aggregate, state: &[u8]) -> Result<i64> {
    match kind {
        Aggregate::Sum | Aggregate::Min | Aggregate::Max => number(state),
        Aggregate::Hll => hll::estimate(state),
    }
}

fn fold(state: Option<&Bytes>, other: &[u8], step: impl Fn(i64, i64) -> i64) -> Result<i64> {
    let other = number(other)?;
    state.map_or(Ok(other), |state| Ok(step(number(state)?, other)))
}

fn number(state: &[u8]) -> Result<i64> {
    let bytes = state.try_into();
    bytes
        .map(i64::from_be_bytes)
        .map_err(|_| Error::Invalid(format!("an aggregate of {} bytes must have 8", state.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_merge() {
        let check = |kind, inputs: &[i64], want: i64| {
            let mut state = None;
            for &input in inputs {
                state = Some(add(kind, state.as_ref(), input).unwrap());
            }
            assert_eq!(state.unwrap(), &want.to_be_bytes()[..], "{kind:?} of {inputs:?}");
        };
        check(Aggregate::Sum, &[5, -7], -2);
        check(Aggregate::Sum, &[i64::MAX, 1], i64::MIN);
        check(Aggregate::Min, &[5, -7, 3], -7);
        check(Aggregate::Max, &[-7, 5, 3], 5);
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for state in [&b""[..], b"1234567", b"123456789"] {
            assert!(merge(Aggregate::Sum, None, state).is_err());
            assert!(merge(Aggregate::Max, Some(&Bytes::from_static(b"12345678")), state).is_err());
            assert!(add(Aggregate::Min, Some(&Bytes::copy_from_slice(state)), 1).is_err());
        }
    }
}
