//! Integers and byte strings as the log and the memtable store them.
//!
//! A *varint* is LEB128: seven bits in each byte, the least significant first, the high bit set on all but the last. A
//! *byte string* is its length as a varint, then its bytes.

/// Appends a varint.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a byte string.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends 8 bytes, little-endian.
pub(crate) fn put_i64(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Maps small numbers of either sign to small numbers.
pub(crate) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The inverse of [`zigzag`].
pub(crate) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Reads encoded values from the front. Methods return `None` if the bytes end too early or are malformed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Starts at the first byte.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Whether all bytes are read.
    pub(crate) fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// One byte.
    pub(crate) fn u8(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    /// 8 bytes, little-endian.
    pub(crate) fn i64(&mut self) -> Option<i64> {
        let bytes = self.bytes.get(self.at..self.at.checked_add(8)?)?;
        self.at += 8;
        Some(i64::from_le_bytes(bytes.try_into().ok()?))
    }

    /// A varint.
    pub(crate) fn varint(&mut self) -> Option<u64> {
        let first = self.u8()?;
        if first < 0x80 {
            return Some(u64::from(first));
        }
        let mut value = u64::from(first & 0x7f);
        for shift in (7..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// A byte string.
    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.varint()?).ok()?;
        let bytes = self.bytes.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_and_bytes_are_read_back(value: u64, signed: i64, text in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            put_i64(&mut out, signed);
            put_bytes(&mut out, &text);
            put_varint(&mut out, zigzag(signed));
            let mut cursor = Cursor::new(&out);
            prop_assert_eq!(cursor.varint(), Some(value));
            prop_assert_eq!(cursor.i64(), Some(signed));
            prop_assert_eq!(cursor.bytes(), Some(&text[..]));
            prop_assert_eq!(cursor.varint().map(unzigzag), Some(signed));
            prop_assert!(cursor.is_empty());
            prop_assert_eq!(cursor.u8(), None);
        }

        #[test]
        fn garbage_is_refused_without_a_panic(garbage in prop::collection::vec(any::<u8>(), 0..20)) {
            let mut cursor = Cursor::new(&garbage);
            while cursor.varint().is_some() {}
            let _ = cursor.bytes();
            let _ = cursor.i64();
        }
    }
}
