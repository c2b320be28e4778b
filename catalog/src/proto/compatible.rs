//! Whether a message may take the place of another of its name: what is stored reads the same.
//!
//! Fields and enum values may be added. Those that are there keep number, names, type and cardinality, in this message
//! and in each that it holds.

use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};
use std::collections::BTreeSet;

/// The first difference that matters; `None` if there is none.
pub(super) fn difference(before: &MessageDescriptor, after: &MessageDescriptor) -> Option<String> {
    let mut seen = BTreeSet::from([before.full_name().to_owned()]);
    let mut ahead = vec![(before.clone(), after.clone())];
    while let Some((before, after)) = ahead.pop() {
        for old in before.fields() {
            let Some(new) = after.get_field(old.number()) else {
                return Some(format!("Field {} is missing.", old.full_name()));
            };
            if shape(&old) != shape(&new) {
                return Some(format!("Field {} has another name, type or cardinality.", old.full_name()));
            }
            match (old.kind(), new.kind()) {
                (Kind::Message(old), Kind::Message(new)) if seen.insert(old.full_name().to_owned()) => {
                    ahead.push((old, new));
                }
                (Kind::Enum(old), Kind::Enum(new)) => {
                    if let Some(value) = missing(&old, &new) {
                        return Some(format!("Value {value} of enum {} is missing.", old.full_name()));
                    }
                }
                _ => {}
            }
        }
    }
    None
}

/// What of a field may not change.
fn shape(field: &FieldDescriptor) -> impl PartialEq {
    let kind = match field.kind() {
        Kind::Message(message) => message.full_name().to_owned(),
        Kind::Enum(of) => of.full_name().to_owned(),
        kind => format!("{kind:?}"),
    };
    let oneof = field.containing_oneof().map(|oneof| oneof.name().to_owned());
    let names = (field.name().to_owned(), field.json_name().to_owned());
    (names, kind, field.cardinality(), field.is_group(), field.supports_presence(), oneof)
}

/// A value of an enum that another does not have.
fn missing(before: &EnumDescriptor, after: &EnumDescriptor) -> Option<String> {
    let is_kept = |name: &str, number| after.get_value_by_name(name).is_some_and(|value| value.number() == number);
    before.values().find(|value| !is_kept(value.name(), value.number())).map(|value| value.name().to_owned())
}
