//! Bit strings: `bit(n)` and `bit varying(n)`.
//!
//! A value is the text of its bits, `0` and `1`, everywhere: in keys, cells and batches. The order of such texts is
//! PostgreSQL's order of bit strings (`bit_cmp`), in which a string comes before those that begin with it.

use super::SqlType;
use crate::{Error, ErrorKind, Result};
use std::borrow::Cow;

/// Maximum bits of a declared length, as in PostgreSQL (`MaxAttrSize * BITS_PER_BYTE`).
pub const BITS_MAX: u32 = 10 * 1024 * 1024 * 8;

/// The bits that a text writes: `101`, `b101`, or as hexadecimal digits `x1F`.
///
/// # Errors
/// [`BadValue`](ErrorKind::BadValue) for another digit.
pub fn parse(text: &str) -> Result<Cow<'_, str>> {
    let invalid =
        |digit: char, kind: &str| Error::new(ErrorKind::BadValue, format!("\"{digit}\" is not a valid {kind} digit"));
    if let Some(digits) = text.strip_prefix(['x', 'X']) {
        let mut bits = String::with_capacity(digits.len().saturating_mul(4));
        for digit in digits.chars() {
            let value = digit.to_digit(16).ok_or_else(|| invalid(digit, "hexadecimal"))?;
            bits.extend((0..4).rev().map(|at| if value >> at & 1 == 1 { '1' } else { '0' }));
        }
        return Ok(Cow::Owned(bits));
    }
    let digits = text.strip_prefix(['b', 'B']).unwrap_or(text);
    match digits.chars().find(|digit| !matches!(digit, '0' | '1')) {
        Some(digit) => Err(invalid(digit, "binary")),
        None => Ok(Cow::Borrowed(digits)),
    }
}

/// The bits as an explicit cast makes them fit: cut on the right, and for `bit(n)` filled there with zeros.
pub fn cut(bits: &str, kind: SqlType) -> Cow<'_, str> {
    let first = |length: u32| &bits[..bits.len().min(length as usize)];
    match kind {
        SqlType::Bit(Some(length)) if bits.len() < length as usize => {
            Cow::Owned(format!("{bits}{}", "0".repeat(length as usize - bits.len())))
        }
        SqlType::Bit(Some(length)) | SqlType::Varbit(Some(length)) => Cow::Borrowed(first(length)),
        _ => Cow::Borrowed(bits),
    }
}

/// Whether a text is a value of a type of bit strings; true of other types.
pub(crate) fn is_value(text: &str, kind: SqlType) -> bool {
    !matches!(kind, SqlType::Bit(_) | SqlType::Varbit(_))
        || text.bytes().all(|bit| matches!(bit, b'0' | b'1')) && check(text, kind).is_ok()
}

/// Whether bits fit a type as they are.
///
/// # Errors
/// [`WrongLength`](ErrorKind::WrongLength) where `bit(n)` has another length, [`TooLong`](ErrorKind::TooLong) where
/// `bit varying(n)` has fewer.
pub(super) fn check(bits: &str, kind: SqlType) -> Result<()> {
    match kind {
        SqlType::Bit(Some(length)) if bits.len() != length as usize => Err(Error::new(
            ErrorKind::WrongLength,
            format!("bit string length {} does not match type {kind}", bits.len()),
        )),
        SqlType::Varbit(Some(length)) if bits.len() > length as usize => {
            Err(Error::new(ErrorKind::TooLong, format!("bit string too long for type {kind}")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;

    #[test]
    fn texts_are_read_as_postgres_reads_them() {
        let read = |text: &str| parse(text).map(Cow::into_owned).map_err(|error| error.to_string());
        assert_eq!(read("101"), Ok("101".into()));
        assert_eq!(read("b01"), Ok("01".into()));
        assert_eq!(read("X1f"), Ok("00011111".into()));
        assert_eq!(read(""), Ok(String::new()));
        assert_eq!(read("102"), Err("\"2\" is not a valid binary digit".into()));
        assert_eq!(read("x1g"), Err("\"g\" is not a valid hexadecimal digit".into()));
    }

    #[test]
    fn values_fit_or_are_refused_and_casts_cut() {
        let fit = |text: &str, kind| Value::parse(text, kind).map_err(|error| (error.kind(), error.to_string()));
        assert_eq!(fit("x5", SqlType::Bit(Some(4))), Ok(Value::Text("0101".into())));
        let (kind, message) = fit("10", SqlType::Bit(Some(3))).expect_err("too short");
        assert_eq!(
            (kind, message.as_str()),
            (ErrorKind::WrongLength, "bit string length 2 does not match type bit(3)")
        );
        let (kind, message) = fit("1010", SqlType::Varbit(Some(3))).expect_err("too long");
        assert_eq!((kind, message.as_str()), (ErrorKind::TooLong, "bit string too long for type bit varying(3)"));
        assert_eq!(cut("10", SqlType::Bit(Some(4))), "1000");
        assert_eq!(cut("10110", SqlType::Bit(Some(4))), "1011");
        assert_eq!(cut("10110", SqlType::Varbit(Some(2))), "10");
        assert_eq!(cut("10", SqlType::Varbit(None)), "10");
    }

    #[test]
    fn the_order_is_that_of_bytes_then_of_length() {
        // As PostgreSQL compares: bytes that zeros fill, then lengths.
        let bytes = |bits: &str| -> (Vec<u8>, usize) {
            let filled = |byte: &[u8]| (0..8).fold(0, |sum, at| sum << 1 | u8::from(byte.get(at) == Some(&b'1')));
            (bits.as_bytes().chunks(8).map(filled).collect(), bits.len())
        };
        let all: Vec<String> = (0..2048_u32)
            .flat_map(|n| {
                (0..=11).map(move |length| (0..length).map(|at| if n >> at & 1 == 1 { '1' } else { '0' }).collect())
            })
            .collect();
        for pair in all.windows(2).chain(all.chunks(7)) {
            let (a, b) = (&pair[0], &pair[pair.len() - 1]);
            let ((x, m), (y, n)) = (bytes(a), bytes(b));
            let common = x.len().min(y.len());
            let expected = x[..common].cmp(&y[..common]).then(m.cmp(&n));
            assert_eq!(a.cmp(b), expected, "{a} and {b}");
        }
    }
}
