//! Distinct counts: HyperLogLog sketches of Apache DataSketches, 4096 registers, about 1.6 % standard error.
//!
//! A state is a sketch in DataSketches' own format, so that its tools read it, but in one *canonical* form, so that
//! equal contents have equal bytes whatever the order of inputs: small sketches list their coupons (hashes) in
//! ascending order; large ones are marked as out of order, so that the registers are the only content.
//!
//! ```text
//! list, below 8:    02 01 07 0c 03 08 <count> 08                        coupons u32 LE … (flags 0c when empty)
//! set, up to 384:   03 01 07 0c <lg size> 08 00 09  <count u32 LE>      coupons u32 LE …
//! registers:        0a 01 07 0c 00 10 00 0a  0.0 f64, kxq0 f64, kxq1 f64, <zeros u32> <0 u32>  4096 registers
//! ```
//!
//! A state is checked completely before it reaches the library: bytes from a client must never trigger an assertion.

use crate::{Error, Result};
use bytes::Bytes;
use datasketches::hll::{HllSketch, HllType, HllUnion};

/// Binary logarithm of the number of registers.
const LG_K: u8 = 12;
const REGISTERS: usize = 1 << LG_K;
/// Maximum of a register: leading zeros of 64 bits, capped, plus one.
const REGISTER_MAX: u8 = 63;
/// Bits of a coupon that name its slot; the others are the register's value, never 0.
const COUPON_SLOT_BITS: u32 = 26;

const LIST: u8 = 2;
const LIST_HEADER: usize = 8;
/// A list of this many coupons becomes a set.
const LIST_FULL: usize = 8;
const SET: u8 = 3;
const SET_HEADER: usize = 12;
const SET_LG_SIZES: std::ops::RangeInclusive<u8> = 5..=LG_K - 3;
const ARRAY: u8 = 10;
const ARRAY_HEADER: usize = 40;

/// Adds an input.
///
/// # Errors
/// [`Invalid`](Error::Invalid) if `state` is not a valid state.
pub fn add(state: Option<&[u8]>, input: i64) -> Result<Bytes> {
    let mut sketch = match state {
        Some(state) => decode(state)?,
        None => empty()?,
    };
    sketch.update(input);
    Ok(encode(&sketch))
}

/// Merges two states; `None` stands for no inputs yet.
///
/// # Errors
/// [`Invalid`](Error::Invalid) if one of them is not a valid state.
pub fn merge(state: Option<&[u8]>, other: &[u8]) -> Result<Bytes> {
    let mut union = HllUnion::new(LG_K).map_err(|_| refused())?;
    if let Some(state) = state {
        union.update(&decode(state)?);
    }
    union.update(&decode(other)?);
    Ok(encode(&union.to_sketch(HllType::Hll8)))
}

/// The estimated number of distinct inputs.
///
/// # Errors
/// [`Invalid`](Error::Invalid) if the bytes are not a valid state.
pub fn estimate(state: &[u8]) -> Result<i64> {
    // The cast saturates; a sketch estimates neither more than about 2^70 nor less than 0.
    Ok(decode(state)?.composite_estimate().round() as i64)
}

fn empty() -> Result<HllSketch> {
    HllSketch::new(LG_K, HllType::Hll8).map_err(|_| refused())
}

fn refused() -> Error {
    Error::Invalid("the state of a distinct count is not one that this store writes".into())
}

fn decode(state: &[u8]) -> Result<HllSketch> {
    if !is_canonical(state) {
        return Err(refused());
    }
    HllSketch::deserialize(state).map_err(|_| refused())
}

fn encode(sketch: &HllSketch) -> Bytes {
    let mut bytes = sketch.serialize();
    match bytes[0] {
        LIST => sort_coupons(&mut bytes[LIST_HEADER..]),
        SET => sort_coupons(&mut bytes[SET_HEADER..]),
        _ => {
            // Out of order: the estimate comes from the registers, not from the history in the eight bytes after the
            // header.
            bytes[5] = 0x10;
            bytes[8..16].fill(0);
        }
    }
    bytes.into()
}

fn sort_coupons(bytes: &mut [u8]) {
    let mut sorted: Vec<u32> = coupons(bytes).collect();
    sorted.sort_unstable();
    for (to, coupon) in bytes.chunks_exact_mut(4).zip(sorted) {
        to.copy_from_slice(&coupon.to_le_bytes());
    }
}

fn coupons(bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    bytes.chunks_exact(4).map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

fn is_canonical(state: &[u8]) -> bool {
    match state.first() {
        Some(&LIST) if state.len() >= LIST_HEADER => {
            let (header, coupons) = state.split_at(LIST_HEADER);
            let count = header[6];
            let flags = if count == 0 { 0x0c } else { 0x08 };
            header == [LIST, 1, 7, LG_K, 3, flags, count, 0x08]
                && usize::from(count) < LIST_FULL
                && are_coupons(coupons, count.into())
        }
        Some(&SET) if state.len() >= SET_HEADER => {
            let (header, coupons) = state.split_at(SET_HEADER);
            let lg_size = header[4];
            let count = u32::from_le_bytes([header[8], header[9], header[10], header[11]]) as usize;
            header[..8] == [SET, 1, 7, LG_K, lg_size, 0x08, 0, 0x09]
                && SET_LG_SIZES.contains(&lg_size)
                && fits_set(count, lg_size)
                && are_coupons(coupons, count)
        }
        Some(&ARRAY) if state.len() == ARRAY_HEADER + REGISTERS => {
            let (header, registers) = state.split_at(ARRAY_HEADER);
            header == array_header(registers) && registers.iter().all(|&register| register <= REGISTER_MAX)
        }
        _ => false,
    }
}

/// A set grows when more than three quarters of it are used; the smallest one begins where a list ends.
fn fits_set(count: usize, lg_size: u8) -> bool {
    let most = |lg_size: u8| (1usize << lg_size) / 4 * 3;
    let least = if lg_size == *SET_LG_SIZES.start() { LIST_FULL } else { most(lg_size - 1) + 1 };
    (least..=most(lg_size)).contains(&count)
}

fn are_coupons(bytes: &[u8], count: usize) -> bool {
    bytes.len() == count * 4
        && coupons(bytes).is_sorted_by(|a, b| a < b)
        && coupons(bytes).all(|coupon| coupon >> COUPON_SLOT_BITS != 0)
}

fn array_header(registers: &[u8]) -> [u8; ARRAY_HEADER] {
    // Sums of powers of two within 44 bits of each other: exact in any order.
    let sum = |of: fn(u8) -> bool| -> f64 {
        registers.iter().filter(|register| of(**register)).map(|&register| (-f64::from(register)).exp2()).sum()
    };
    let zeros = registers.iter().filter(|&&register| register == 0).count() as u32;
    let mut header = [0; ARRAY_HEADER];
    header[..8].copy_from_slice(&[ARRAY, 1, 7, LG_K, 0, 0x10, 0, 0x0a]);
    header[16..24].copy_from_slice(&(sum(|register| register < 32) + 0.0).to_le_bytes());
    header[24..32].copy_from_slice(&(sum(|register| register >= 32) + 0.0).to_le_bytes());
    header[32..36].copy_from_slice(&zeros.to_le_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(inputs: impl IntoIterator<Item = i64>) -> Bytes {
        let mut sketch = empty().unwrap();
        inputs.into_iter().for_each(|input| sketch.update(input));
        encode(&sketch)
    }

    #[test]
    fn inputs_added_to_states_one_by_one_agree_with_a_sketch() {
        let mut state = None;
        for input in 0..400 {
            state = Some(add(state.as_deref(), input).unwrap());
            if [0, 6, 7, 23, 24, 383, 384, 399].contains(&input) {
                assert_eq!(state, Some(of(0..=input)), "after {input}");
            }
        }
    }

    #[test]
    fn counts_are_near() {
        for (count, within) in [(0, 0), (1, 0), (7, 0), (8, 0), (24, 0), (25, 0), (384, 1), (385, 12), (20_000, 800)] {
            let estimate = estimate(&of(0..count)).unwrap();
            assert!((estimate - count).abs() <= within, "{count} distinct inputs were estimated as {estimate}");
            assert_eq!(of((0..count).chain(0..count)), of(0..count), "repeated inputs count once");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_state_depends_on_the_set_of_inputs_alone(mut inputs in prop::collection::vec(any::<i64>(), 0..600), cut in any::<prop::sample::Index>()) {
            let whole = of(inputs.iter().copied());
            let (left, right) = inputs.split_at(cut.index(inputs.len() + 1));
            prop_assert_eq!(&merge(Some(&of(left.iter().copied())), &of(right.iter().copied())).unwrap(), &whole);
            prop_assert_eq!(&merge(Some(&whole), &of(left.iter().copied())).unwrap(), &whole);
            prop_assert_eq!(&merge(None, &whole).unwrap(), &whole);
            inputs.reverse();
            prop_assert_eq!(&of(inputs), &whole);
        }

        #[test]
        fn damaged_states_never_panic(count in 0i64..600, at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>()) {
            let good = of(0..count);
            let mut state = good.to_vec();
            let at = at.index(state.len());
            state[at] = byte;
            // It is either refused or a valid state that merges.
            if let Ok(merged) = merge(Some(&good), &state) {
                prop_assert!(estimate(&merged).is_ok());
                prop_assert!(add(Some(&state), 5).is_ok());
            }
            let cut = cut.index(good.len());
            prop_assert!(estimate(&good[..cut]).is_err());
        }
    }
}
