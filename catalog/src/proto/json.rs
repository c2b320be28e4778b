//! JSON as protobuf's deserializer reads it.
//!
//! serde_json with numbers of arbitrary precision hands numbers to a visitor as maps of its own, which only its own
//! types understand. [`JsonInput`] hands out integers and floats.

use serde::{
    Deserializer,
    de::{
        Visitor,
        value::{MapDeserializer, SeqDeserializer},
    },
    forward_to_deserialize_any,
};
use serde_json::{Error, Value};

/// A parsed value.
#[derive(Clone, Copy)]
pub(super) struct JsonInput<'a>(pub(super) &'a Value);

impl<'de> Deserializer<'de> for JsonInput<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Number(number) => {
                if let Some(number) = number.as_u64() {
                    visitor.visit_u64(number)
                } else if let Some(number) = number.as_i64() {
                    visitor.visit_i64(number)
                } else {
                    let number: f64 = number.to_string().parse().map_err(serde::de::Error::custom)?;
                    visitor.visit_f64(number)
                }
            }
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(items) => {
                let mut items = SeqDeserializer::new(items.iter().map(JsonInput));
                let value = visitor.visit_seq(&mut items)?;
                items.end()?;
                Ok(value)
            }
            Value::Object(fields) => {
                let mut fields =
                    MapDeserializer::new(fields.iter().map(|(name, value)| (name.as_str(), JsonInput(value))));
                let value = visitor.visit_map(&mut fields)?;
                fields.end()?;
                Ok(value)
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de> serde::de::IntoDeserializer<'de, Error> for JsonInput<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// How deep JSON is nested, at most: brackets in strings count, too.
pub(super) fn depth(json: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for byte in json.bytes() {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}
