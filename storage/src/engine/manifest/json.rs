//! Keys and segments in the JSON of a manifest: hexadecimal digits, since keys are arbitrary bytes.

use super::SegmentId;
use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

impl Serialize for SegmentId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SegmentId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// Bytes as digits.
struct Hexadecimal(Bytes);

impl Serialize for Hexadecimal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let digits = self.0.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
        let digits: String = digits.map(|digit| char::from_digit(digit.into(), 16).expect("a half byte")).collect();
        serializer.serialize_str(&digits)
    }
}

impl<'de> Deserialize<'de> for Hexadecimal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let digits = String::deserialize(deserializer)?;
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let bytes = digits.as_bytes().chunks(2).map(|pair| match pair {
            [high, low] => u8::try_from(digit(*high)? << 4 | digit(*low)?).ok(),
            _ => None,
        });
        let bytes: Option<Vec<u8>> = bytes.collect();
        bytes.map(|bytes| Self(bytes.into())).ok_or_else(|| D::Error::custom("a key is not in hexadecimal digits"))
    }
}

/// A row key.
pub(super) mod key {
    use super::{Deserialize, Deserializer, Error, Hexadecimal, Serialize, Serializer};
    use crate::RowKey;

    pub(in super::super) fn serialize<S: Serializer>(key: &RowKey, serializer: S) -> Result<S::Ok, S::Error> {
        Hexadecimal(key.bytes().clone()).serialize(serializer)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<RowKey, D::Error> {
        let Hexadecimal(bytes) = Hexadecimal::deserialize(deserializer)?;
        RowKey::stored(bytes).map_err(D::Error::custom)
    }
}

/// A range of keys.
pub(super) mod range {
    use super::{Deserialize, Deserializer, Hexadecimal, Serialize, Serializer};
    use crate::KeyRange;

    #[derive(Serialize, Deserialize)]
    struct Range {
        start: Hexadecimal,
        end: Option<Hexadecimal>,
    }

    pub(in super::super) fn serialize<S: Serializer>(range: &KeyRange, serializer: S) -> Result<S::Ok, S::Error> {
        Range { start: Hexadecimal(range.start.clone()), end: range.end.clone().map(Hexadecimal) }.serialize(serializer)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<KeyRange, D::Error> {
        let Range { start: Hexadecimal(start), end } = Range::deserialize(deserializer)?;
        Ok(KeyRange { start, end: end.map(|Hexadecimal(end)| end) })
    }
}
