//! Decimals of a fixed number of digits: their cells, and Parquet's DECIMAL. Pure.
//!
//! ```text
//! cell    scale (4 bytes, big-endian), unscaled integer (two's complement, big-endian, as few bytes as hold it)
//! ```
//!
//! Only this form round-trips: a cell of another scale, with redundant bytes, or with more digits than the column has
//! does not fit.

use crate::ColumnKind;
use arrow::{
    array::{Array, Decimal128Array},
    buffer::{OffsetBuffer, ScalarBuffer},
    datatypes::DataType,
};
use bytes::Bytes;

/// The most digits of the kind: those of Arrow's `Decimal128`.
const PRECISION_MAX: u8 = 38;
/// Bytes of a cell's scale.
const SCALE_BYTES: usize = size_of::<u32>();

pub(super) fn data_type(precision: u8, scale: u8) -> DataType {
    // Below 39, see `ColumnKind::Decimal`.
    DataType::Decimal128(precision, scale as i8)
}

/// The permanent name of the kind in footers.
pub(super) fn name(precision: u8, scale: u8) -> String {
    format!("decimal({precision},{scale})")
}

/// The kind with such a [`name`].
pub(super) fn of_name(text: &str) -> Option<ColumnKind> {
    let (precision, scale) = text.strip_prefix("decimal(")?.strip_suffix(')')?.split_once(',')?;
    let (precision, scale): (u8, u8) = (precision.parse().ok()?, scale.parse().ok()?);
    let is_sound = (1..=PRECISION_MAX).contains(&precision) && scale <= precision && name(precision, scale) == text;
    is_sound.then_some(ColumnKind::Decimal { precision, scale })
}

/// The unscaled integer of a cell; `None` if it does not fit.
pub(super) fn decode(cell: &[u8], precision: u8, scale: u8) -> Option<i128> {
    let (cell_scale, digits) = cell.split_first_chunk::<SCALE_BYTES>()?;
    if u32::from_be_bytes(*cell_scale) != u32::from(scale) {
        return None;
    }
    let first = *digits.first()?;
    let fill = if first & 0x80 == 0 { 0 } else { 0xff };
    let is_redundant = first == fill && digits.get(1).is_some_and(|second| (second ^ fill) & 0x80 == 0);
    let mut whole = [fill; size_of::<i128>()];
    let from = whole.len().checked_sub(digits.len()).filter(|_| !is_redundant)?;
    whole[from..].copy_from_slice(digits);
    let unscaled = i128::from_be_bytes(whole);
    let bound = 10_u128.checked_pow(precision.into())?;
    (unscaled.unsigned_abs() < bound).then_some(unscaled)
}

/// The cells of a column, one after the other, and where each begins; `None` for a negative scale, which no column has,
/// and for more bytes than offsets reach.
pub(super) fn encode_all(array: &Decimal128Array, scale: i8) -> Option<(Bytes, OffsetBuffer<i32>)> {
    let scale = u32::try_from(scale).ok()?.to_be_bytes();
    let mut bytes = Vec::with_capacity(array.len() * (SCALE_BYTES + size_of::<u64>()));
    let mut offsets: Vec<i32> = Vec::with_capacity(array.len() + 1);
    offsets.push(0);
    for (row, unscaled) in array.values().iter().enumerate() {
        if array.is_valid(row) {
            let digits = unscaled.to_be_bytes();
            // Bits that only repeat the sign, but for the sign itself.
            let sign_bits = if *unscaled < 0 { unscaled.leading_ones() } else { unscaled.leading_zeros() };
            let redundant = (sign_bits.saturating_sub(1) / u8::BITS) as usize;
            bytes.extend_from_slice(&scale);
            bytes.extend_from_slice(&digits[redundant.min(digits.len() - 1)..]);
        }
        offsets.push(i32::try_from(bytes.len()).ok()?);
    }
    Some((bytes.into(), OffsetBuffer::new(ScalarBuffer::from(offsets))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cell(scale: u32, digits: &[u8]) -> Vec<u8> {
        [&scale.to_be_bytes()[..], digits].concat()
    }

    #[test]
    fn only_the_shortest_form_fits() {
        assert_eq!(decode(&cell(2, &[0]), 4, 2), Some(0));
        assert_eq!(decode(&cell(2, &[0xff]), 4, 2), Some(-1));
        assert_eq!(decode(&cell(2, &[0, 0x80]), 4, 2), Some(128));
        assert_eq!(decode(&cell(2, &[0x80]), 4, 2), Some(-128));
        assert_eq!(decode(&cell(2, &[0x27, 0x0f]), 4, 2), Some(9_999));
        assert_eq!(decode(&cell(2, &[0x27, 0x10]), 4, 2), None);
        assert_eq!(decode(&cell(2, &[0xd8, 0xf1]), 4, 2), Some(-9_999));
        assert_eq!(decode(&cell(2, &[0xd8, 0xf0]), 4, 2), None);
        for other in [cell(3, &[1]), cell(2, &[]), cell(2, &[0, 1]), cell(2, &[0xff, 0x80]), cell(2, &[1; 17]), vec![]]
        {
            assert_eq!(decode(&other, 38, 2), None, "{other:?}");
        }
    }

    #[test]
    fn names_are_those_of_kinds() {
        assert_eq!(of_name("decimal(12,2)"), Some(ColumnKind::Decimal { precision: 12, scale: 2 }));
        for other in ["decimal(0,0)", "decimal(39,2)", "decimal(2,3)", "decimal(02,1)", "decimal(2)", "decimal"] {
            assert_eq!(of_name(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn cells_come_back(values in prop::collection::vec(prop::option::of((any::<i128>(), 0..127_u32)), 0..20)) {
            let bound = 10_i128.pow(38);
            let values: Vec<_> = values.into_iter().map(|value| value.map(|(value, by)| (value >> by) % bound)).collect();
            let array = Decimal128Array::from(values.clone()).with_precision_and_scale(38, 3).unwrap();
            let (bytes, offsets) = encode_all(&array, 3).unwrap();
            for (row, value) in values.iter().enumerate() {
                let cell = &bytes[offsets[row] as usize..offsets[row + 1] as usize];
                prop_assert_eq!(decode(cell, 38, 3), *value);
            }
        }
    }
}
