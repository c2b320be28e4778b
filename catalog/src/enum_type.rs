//! Enumerated types of a tenant: a list of labels, whose order is that of its values.
//!
//! A value is stored as the text of its label, so that a new label, wherever in the list it is put, changes no row. A
//! column holds the type that it is of ([`Column::enumerated`](crate::Column::enumerated)): who reads and writes the
//! table needs no other object of the catalog. A change of the type changes the tables that use it, with one edit.

use crate::{Error, ErrorKind, Result, Table, TableId};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Enumerated types of a tenant, at most.
pub const ENUM_TYPES_MAX: usize = 1_000;
/// Labels of a type, at most: each plan and each definition of a table that uses it holds them.
pub const LABELS_MAX: usize = 1_000;
/// Bytes of a label: PostgreSQL's NAMEDATALEN without the zero at its end.
const LABEL_BYTES_MAX: usize = 63;

/// An enumerated type.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EnumType {
    /// The OID, never reused.
    pub id: u32,
    /// The name.
    pub name: String,
    /// The OID of its schema.
    #[serde(default = "crate::schema::public", skip_serializing_if = "crate::schema::is_public")]
    pub schema: u32,
    /// The labels, in the order of the values.
    pub labels: Vec<String>,
    /// The comment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// Where a new label goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelPlace {
    /// Behind all others.
    Last,
    /// Before a label.
    Before(String),
    /// Behind a label.
    After(String),
}

impl EnumType {
    /// A new type.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for an invalid name or label, [`Duplicate`](ErrorKind::Duplicate) for a label
    /// twice, [`TooMuch`](ErrorKind::TooMuch) beyond [`LABELS_MAX`].
    pub fn define(id: u32, schema: u32, name: &str, labels: &[String]) -> Result<Self> {
        crate::table::check_name("type", name)?;
        let mut seen = BTreeSet::new();
        for label in labels {
            check_label(label)?;
            if !seen.insert(label) {
                return Err(Error::new(ErrorKind::Duplicate, format!("enum label \"{label}\" used more than once")));
            }
        }
        if labels.len() > LABELS_MAX {
            return Err(too_many());
        }
        Ok(Self { id, name: name.to_owned(), schema, labels: labels.to_vec(), comment: None })
    }

    /// The place of a label in the order; `None` for no label of the type.
    pub fn position(&self, label: &str) -> Option<usize> {
        self.labels.iter().position(|known| known == label)
    }

    /// Checks a text that is to be a value.
    ///
    /// # Errors
    /// [`BadValue`](ErrorKind::BadValue) for no label of the type.
    pub fn check(&self, text: &str) -> Result<()> {
        match self.position(text) {
            Some(_) => Ok(()),
            None => {
                let message = format!("invalid input value for enum {}: \"{text}\"", self.name);
                Err(Error::new(ErrorKind::BadValue, message))
            }
        }
    }

    /// The type with one more label.
    ///
    /// # Errors
    /// Those of [`define`](Self::define); [`InvalidOption`](ErrorKind::InvalidOption) for a neighbour that is no
    /// label.
    pub fn with_label(&self, label: &str, place: &LabelPlace) -> Result<Self> {
        check_label(label)?;
        if self.position(label).is_some() {
            return Err(Error::new(ErrorKind::Duplicate, format!("enum label \"{label}\" already exists")));
        }
        if self.labels.len() >= LABELS_MAX {
            return Err(too_many());
        }
        let beside = |neighbour: &String| {
            let message = format!("\"{neighbour}\" is not an existing enum label");
            self.position(neighbour).ok_or_else(|| Error::new(ErrorKind::InvalidOption, message))
        };
        let at = match place {
            LabelPlace::Last => self.labels.len(),
            LabelPlace::Before(neighbour) => beside(neighbour)?,
            LabelPlace::After(neighbour) => beside(neighbour)? + 1,
        };
        let mut changed = self.clone();
        changed.labels.insert(at, label.to_owned());
        Ok(changed)
    }

    /// Bytes of its definition.
    pub(crate) fn bytes(&self) -> usize {
        self.name.len() + self.labels.iter().map(String::len).sum::<usize>()
    }
}

fn too_many() -> Error {
    Error::new(ErrorKind::TooMuch, format!("an enumerated type has at most {LABELS_MAX} labels"))
}

fn check_label(label: &str) -> Result<()> {
    if label.is_empty() || label.len() > LABEL_BYTES_MAX {
        let detail = format!("Labels must be {LABEL_BYTES_MAX} bytes or less.");
        return Err(Error::new(ErrorKind::Invalid, format!("invalid enum label \"{label}\"")).with_detail(detail));
    }
    Ok(())
}

type EnumTypes = BTreeMap<u32, Arc<EnumType>>;

/// Checks that there is room for one more type.
pub(crate) fn check_count(there: &EnumTypes) -> Result<()> {
    if there.len() >= ENUM_TYPES_MAX {
        return Err(Error::new(ErrorKind::TooMuch, format!("a database has at most {ENUM_TYPES_MAX} types")));
    }
    Ok(())
}

/// Puts a changed type in the place of the one that it was, given too.
pub(crate) fn replace(there: &mut EnumTypes, before: &EnumType, after: &EnumType) -> Result<()> {
    if there.get(&before.id).is_none_or(|now| **now != *before) || after.id != before.id {
        let message = format!("type \"{}\" was changed by another at the same moment", before.name);
        return Err(Error::new(ErrorKind::Conflict, message));
    }
    there.insert(after.id, Arc::new(after.clone()));
    Ok(())
}

/// Gives the columns of tables that are of a type what it is now.
pub(crate) fn replace_in(tables: &mut BTreeMap<TableId, Arc<Table>>, changed: &EnumType) {
    let shared = Arc::new(changed.clone());
    for table in tables.values_mut().filter(|table| user(table, changed.id).is_some()) {
        replace_in_table(Arc::make_mut(table), &shared);
    }
}

/// As [`replace_in`], of one table.
pub(crate) fn replace_in_table(table: &mut Table, changed: &Arc<EnumType>) {
    let columns = table.columns.iter_mut().filter_map(|column| column.enumerated.as_mut());
    columns.filter(|of| of.id == changed.id).for_each(|of| *of = changed.clone());
}

/// The first column of a table that is of a type.
pub fn user(table: &Table, id: u32) -> Option<&str> {
    let is = |of: &Option<Arc<EnumType>>| of.as_ref().is_some_and(|of| of.id == id);
    table.columns.iter().find(|column| is(&column.enumerated)).map(|column| column.name.as_str())
}

/// The schema of types that are named by number.
pub const BOUND: &str = "bound";

/// How the text of a view's query, or of a condition, names a type: by its OID, so that the type may get another name.
pub fn bound_name(id: u32) -> String {
    format!("\"{BOUND}\".\"{id}\"")
}

/// The text of a view's query, or of a condition, with other numbers of types.
///
/// # Errors
/// Those of `number`.
pub(crate) fn renumbered(sql: &str, number: impl Fn(u32) -> Result<u32>) -> Result<String> {
    let mut parts = sql.split("\"bound\".\"");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (digits, rest) = part.split_once('"').unwrap_or((part, ""));
        match digits.parse() {
            Ok(old) => text.push_str(&format!("{}{rest}", bound_name(number(old)?))),
            // A relation, with the numbers of its columns.
            Err(_) => text.push_str(&format!("\"bound\".\"{part}")),
        }
    }
    Ok(text)
}

pub(crate) fn missing(id: u32) -> Error {
    Error::new(ErrorKind::NoObject, format!("type with OID {id} does not exist"))
}

/// A type within a column's definition, as serde has it.
pub(crate) mod shared {
    use super::EnumType;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::sync::Arc;

    #[allow(clippy::ref_option, reason = "serde passes references")]
    pub(crate) fn serialize<S: Serializer>(of: &Option<Arc<EnumType>>, to: S) -> Result<S::Ok, S::Error> {
        of.as_deref().serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Arc<EnumType>>, D::Error> {
        Ok(Option::<EnumType>::deserialize(from)?.map(Arc::new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rights::PUBLIC_SCHEMA;

    fn mood() -> EnumType {
        EnumType::define(7, PUBLIC_SCHEMA, "mood", &["sad", "ok"].map(str::to_owned)).unwrap()
    }

    #[test]
    fn labels_go_where_they_are_put() {
        let last = mood().with_label("happy", &LabelPlace::Last).unwrap();
        let before = last.with_label("awful", &LabelPlace::Before("sad".into())).unwrap();
        let after = before.with_label("so", &LabelPlace::After("sad".into())).unwrap();
        assert_eq!(after.labels, ["awful", "sad", "so", "ok", "happy"]);
        assert_eq!(after.position("ok"), Some(3));
        let error = |label: &str, place: LabelPlace| after.with_label(label, &place).unwrap_err().to_string();
        assert_eq!(error("ok", LabelPlace::Last), "enum label \"ok\" already exists");
        assert_eq!(error("x", LabelPlace::After("y".into())), "\"y\" is not an existing enum label");
        assert_eq!(error("", LabelPlace::Last), "invalid enum label \"\"");
        assert_eq!(error(&"x".repeat(64), LabelPlace::Last), format!("invalid enum label \"{}\"", "x".repeat(64)));
    }

    #[test]
    fn a_text_is_a_label_or_none() {
        assert!(mood().check("sad").is_ok());
        assert_eq!(mood().check("Sad").unwrap_err().to_string(), "invalid input value for enum mood: \"Sad\"");
        let twice = EnumType::define(7, PUBLIC_SCHEMA, "mood", &["a", "a"].map(str::to_owned)).unwrap_err();
        assert_eq!(twice.to_string(), "enum label \"a\" used more than once");
    }
}
