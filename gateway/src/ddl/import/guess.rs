//! Columns of a table that others write, guessed of a sample of its rows. Pure.
//!
//! A key is a tenant's id, `#`, and the rest: as many parts as there are texts with `#` between them, if all keys of the
//! sample have as many, else one. A qualifier is a column, named after it; a family of more than [`COLUMNS_OF_FAMILY_MAX`]
//! qualifiers has data for qualifiers, and becomes one column of documents. A value is what all of a column's values
//! are: numbers and documents in text, else text; what is no text and has the width of a number, that number; else bytes.

use super::sample::{COLUMNS_MAX, Sample};
use bytes::Bytes;
use keyspan_catalog::{Encoding, SqlType, TenantId, mapping};
use std::collections::{BTreeMap, BTreeSet};

/// Qualifiers of a family that become columns.
pub(super) const COLUMNS_OF_FAMILY_MAX: usize = 200;
/// Parts of a key that become columns.
const PARTS_MAX: usize = 8;
/// Numbers beyond these are rather those of the other type of eight bytes.
const INTEGER_LIKELY: i64 = 1 << 53;
const FLOAT_LIKELY: std::ops::Range<f64> = 1e-12..1e18;

/// The columns of a table.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Guess {
    /// The parts of the key behind the tenant.
    pub(super) key: Vec<(String, SqlType)>,
    /// The columns, in the order of families and qualifiers.
    pub(super) columns: Vec<Guessed>,
    /// Families whose qualifiers are data, and how their values are stored.
    pub(super) open: Vec<(String, Encoding)>,
    /// Families without a column, of which the sample has no cell.
    empty: Vec<String>,
    /// Qualifiers that are no text, or too long for a name.
    unnamed: usize,
    rows: usize,
    /// Rows whose keys begin with no tenant's id.
    of_no_tenant: usize,
}

/// A column.
#[derive(Debug, PartialEq)]
pub(super) struct Guessed {
    pub(super) name: String,
    pub(super) family: String,
    pub(super) qualifier: String,
    pub(super) kind: SqlType,
    pub(super) encoding: Encoding,
}

impl Guess {
    /// What a user is told of the table.
    pub(super) fn told(&self, table: &str) -> Vec<String> {
        let key: Vec<&str> = self.key.iter().map(|(name, _)| name.as_str()).collect();
        let (rows, columns) = (self.rows, self.columns.len());
        let mut told = vec![format!(
            "foreign table \"{table}\": of {rows} rows guessed a key ({}) and {columns} columns",
            key.join(", ")
        )];
        if self.of_no_tenant > 0 {
            let rows = self.of_no_tenant;
            told.push(format!(
                "foreign table \"{table}\": the keys of {rows} rows begin with no tenant's id and \"#\""
            ));
        }
        for (family, _) in &self.open {
            told.push(format!("foreign table \"{table}\": qualifiers of family \"{family}\" are data, in one column"));
        }
        for family in &self.empty {
            told.push(format!(
                "foreign table \"{table}\": no column of family \"{family}\", of which no cell was found"
            ));
        }
        if self.unnamed > 0 {
            let qualifiers = self.unnamed;
            told.push(format!("foreign table \"{table}\": {qualifiers} qualifiers are no names, cells() shows them"));
        }
        told
    }
}

/// Guesses the columns.
pub(super) fn guess(sample: &Sample) -> Guess {
    let rests: Vec<Option<&[u8]>> = sample.keys.iter().map(|key| rest(key)).collect();
    let mut names = Names::default();
    let key = parts(rests.iter().flatten().copied()).map(|name| (names.take(&name), SqlType::Text)).collect();
    let mut guess = Guess {
        key,
        rows: rests.len(),
        of_no_tenant: rests.iter().filter(|rest| rest.is_none()).count(),
        ..Guess::default()
    };
    let mut by_family: BTreeMap<&str, Vec<(&Bytes, &Vec<Bytes>)>> = BTreeMap::new();
    for ((family, qualifier), values) in &sample.columns {
        by_family.entry(family).or_default().push((qualifier, values));
    }
    let whole = sample.columns.len() < COLUMNS_MAX;
    for family in &sample.families {
        let columns = by_family.get(family.as_str()).map_or(&[][..], Vec::as_slice);
        if columns.is_empty() {
            guess.empty.push(family.clone());
        } else if columns.len() > COLUMNS_OF_FAMILY_MAX || !whole && columns.len() > COLUMNS_OF_FAMILY_MAX / 2 {
            names.take(family);
            let values: Vec<Bytes> = columns.iter().flat_map(|(_, values)| values.iter().cloned()).collect();
            guess.open.push((family.clone(), encoding_of_documents(&values)));
        } else {
            for (qualifier, values) in columns {
                let Some(text) = named(qualifier) else {
                    guess.unnamed += 1;
                    continue;
                };
                let (kind, encoding) = type_of(values);
                let (name, family, qualifier) = (names.take(text), family.clone(), text.to_owned());
                guess.columns.push(Guessed { name, family, qualifier, kind, encoding });
            }
        }
    }
    guess
}

/// What stands behind the tenant's id.
fn rest(key: &[u8]) -> Option<&[u8]> {
    let end = key.iter().position(|byte| *byte == b'#')?;
    let id = std::str::from_utf8(&key[..end]).ok()?;
    TenantId::new(id).ok().map(|_| &key[end + 1..])
}

/// The names of the parts of keys.
fn parts<'a>(rests: impl Iterator<Item = &'a [u8]>) -> impl Iterator<Item = String> {
    let counts: BTreeSet<usize> = rests.map(|rest| rest.split(|byte| *byte == b'#').count()).collect();
    let count = match counts.iter().collect::<Vec<_>>()[..] {
        [count] if (2..=PARTS_MAX).contains(count) => *count,
        _ => 1,
    };
    (1..=count).map(move |part| if count == 1 { "row_key".to_owned() } else { format!("key_{part}") })
}

/// A qualifier that can be a column's name.
fn named(qualifier: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(qualifier).ok()?;
    let fits = !text.is_empty() && text.len() <= 63 && !text.chars().any(char::is_control);
    fits.then_some(text)
}

/// Names of columns, each once.
#[derive(Default)]
struct Names(BTreeSet<String>);

impl Names {
    fn take(&mut self, name: &str) -> String {
        let reserved = [keyspan_catalog::table::TENANT_COLUMN, keyspan_catalog::table::KEY_COLUMN];
        let mut taken = name.to_owned();
        let mut number = 2;
        while reserved.contains(&taken.as_str()) || self.0.contains(&taken) {
            taken = format!("{}_{number}", &name[..name.floor_char_boundary(60)]);
            number += 1;
        }
        self.0.insert(taken.clone());
        taken
    }
}

/// The encoding of an open family with these values: documents, else texts; numbers of eight bytes; else as it is.
fn encoding_of_documents(values: &[Bytes]) -> Encoding {
    match type_of(values) {
        (SqlType::Jsonb | SqlType::Int8 | SqlType::Exact(_), Encoding::Text) => Encoding::Json,
        (_, encoding) => encoding,
    }
}

/// The type and encoding of a column with these values.
fn type_of(values: &[Bytes]) -> (SqlType, Encoding) {
    let all = |is: &dyn Fn(&Bytes) -> bool| !values.is_empty() && values.iter().all(is);
    // As text, and back as it was: 007 is a text.
    let as_text = |kind: SqlType| {
        all(&|value: &Bytes| {
            let decoded = mapping::decode(value, kind, Encoding::Text);
            decoded.is_ok_and(|decoded| decoded.to_text(kind).as_bytes() == &value[..])
        })
    };
    let is_text = |value: &Bytes| {
        std::str::from_utf8(value)
            .is_ok_and(|text| !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t')))
    };
    let integer = |value: &Bytes| value[..].try_into().ok().map(i64::from_be_bytes);
    let float = |value: &Bytes| value[..].try_into().ok().map(f64::from_be_bytes);
    if all(&is_text) {
        let numbers = [SqlType::Int8, SqlType::Exact(None), SqlType::Float8];
        if let Some(kind) = numbers.into_iter().find(|kind| as_text(*kind)) {
            return (kind, Encoding::Text);
        }
        let document = |value: &Bytes| {
            matches!(value.first(), Some(b'{' | b'[')) && mapping::decode(value, SqlType::Jsonb, Encoding::Text).is_ok()
        };
        return if all(&document) { (SqlType::Jsonb, Encoding::Text) } else { (SqlType::Text, Encoding::Text) };
    }
    if all(&|value| integer(value).is_some_and(|n| n.abs() < INTEGER_LIKELY)) {
        return (SqlType::Int8, Encoding::Binary);
    }
    if all(&|value| float(value).is_some_and(|x| x == 0.0 || FLOAT_LIKELY.contains(&x.abs()))) {
        return (SqlType::Float8, Encoding::Binary);
    }
    if all(&|value| value.len() == 1 && value[0] <= 1) {
        return (SqlType::Bool, Encoding::Binary);
    }
    (SqlType::Bytea, Encoding::Binary)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[&[u8]], kind: SqlType, encoding: Encoding) {
        let values: Vec<Bytes> = values.iter().map(|value| Bytes::copy_from_slice(value)).collect();
        assert_eq!(type_of(&values), (kind, encoding), "{values:?}");
    }

    #[test]
    fn values_are_what_all_of_them_are() {
        check(&[b"1", b"-20"], SqlType::Int8, Encoding::Text);
        check(&[b"1", b"007"], SqlType::Text, Encoding::Text);
        check(&[b"1", b"2.50"], SqlType::Exact(None), Encoding::Text);
        check(&[b"1e+20", b"2.5"], SqlType::Float8, Encoding::Text);
        check(&[b"{\"a\": 1}", b"[]"], SqlType::Jsonb, Encoding::Text);
        check(&[b"{\"a\": 1}", b"{"], SqlType::Text, Encoding::Text);
        check(&[b"", b"x"], SqlType::Text, Encoding::Text);
        check(&[&7_i64.to_be_bytes(), &(-1_i64).to_be_bytes()], SqlType::Int8, Encoding::Binary);
        check(&[&7.5_f64.to_be_bytes(), &0_f64.to_be_bytes()], SqlType::Float8, Encoding::Binary);
        check(&[&[1], &[0]], SqlType::Bool, Encoding::Binary);
        check(&[&[1, 2, 3]], SqlType::Bytea, Encoding::Binary);
        check(&[&7_i64.to_be_bytes(), b"text"], SqlType::Bytea, Encoding::Binary);
    }

    fn sample(keys: &[&str], columns: &[(&str, &[u8], &[u8])]) -> Sample {
        let mut families: Vec<String> = columns.iter().map(|(family, ..)| (*family).to_owned()).collect();
        families.dedup();
        let keys = keys.iter().map(|key| Bytes::copy_from_slice(key.as_bytes())).collect();
        let column = |(family, qualifier, value): &(&str, &[u8], &[u8])| {
            (((*family).to_owned(), Bytes::copy_from_slice(qualifier)), vec![Bytes::copy_from_slice(value)])
        };
        Sample { families, keys, columns: columns.iter().map(column).collect(), ..Sample::default() }
    }

    #[test]
    fn keys_have_parts_where_all_have_as_many() {
        let key = |keys: &[&str]| guess(&sample(keys, &[])).key.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(key(&["alto#phone#1", "bari#tv#2"]), ["key_1", "key_2"]);
        assert_eq!(key(&["alto#phone#1", "bari#tv"]), ["row_key"]);
        assert_eq!(key(&["alto#phone"]), ["row_key"]);
        assert_eq!(key(&[]), ["row_key"]);
        assert_eq!(guess(&sample(&["user1", "alto#x"], &[])).of_no_tenant, 1);
    }

    #[test]
    fn names_are_taken_once() {
        let found = guess(&sample(
            &["a#b"],
            &[("f", b"row_key", b"1"), ("f", b"tenant", b"x"), ("g", b"row_key", b"2"), ("g", b"\xff", b"")],
        ));
        let names: Vec<(&str, &str)> = found.columns.iter().map(|c| (c.name.as_str(), c.qualifier.as_str())).collect();
        assert_eq!(names, [("row_key_2", "row_key"), ("tenant_2", "tenant"), ("row_key_3", "row_key")]);
        assert_eq!(found.unnamed, 1);
    }

    #[test]
    fn many_qualifiers_are_data() {
        let qualifiers: Vec<String> = (0..=COLUMNS_OF_FAMILY_MAX).map(|n| format!("friend{n}")).collect();
        let columns: Vec<(&str, &[u8], &[u8])> =
            qualifiers.iter().map(|qualifier| ("friends", qualifier.as_bytes(), &b"1"[..])).collect();
        let found = guess(&sample(&["a#b"], &columns));
        assert_eq!((found.columns.len(), found.open.as_slice()), (0, &[("friends".to_owned(), Encoding::Json)][..]));
    }
}
