//! The options of a table: `WITH (key_encoding = 'ordered', m.max_versions = 5, m.max_age = '30 days')`.
//!
//! ```text
//! key_encoding         delimited | ordered          at creation only
//! salt                 a number from 2 to 256       at creation only; buckets over which keys are spread
//! on_bad_value         error | null
//! on_bad_key           skip | null | error
//! history              as '7 days', or none         how long AS OF reaches back
//! FAMILY.gc            a rule, or none              as 'versions > 3 OR (age > 7 days AND versions > 1)'
//! FAMILY.max_versions  a number, or none            short for gc = 'versions > …'
//! FAMILY.max_age       as '30 days', or none        short for gc = 'age > …'; with max_versions: OR
//! FAMILY.aggregate     sum | min | max | hll        at creation of the family only
//! FAMILY.encoding      binary | text | json         of the family's columns that name none
//! ```

use super::{OnBadKey, OnBadValue, Table, TableFamily, define::check_name, gc};
use crate::{Encoding, Error, ErrorKind, KeyEncoding, Result, key::SALT_MAX};
use keyspan_storage::{Aggregate, GcRule};
use serde::de::{DeserializeOwned, IntoDeserializer, value::Error as WordError};
use std::collections::BTreeMap;

/// Parsed options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The encoding of keys.
    pub key_encoding: Option<KeyEncoding>,
    /// The number of buckets over which keys are spread.
    pub salt: Option<u16>,
    /// Policy for values that do not decode.
    pub on_bad_value: Option<OnBadValue>,
    /// Policy for keys that do not conform.
    pub on_bad_key: Option<OnBadKey>,
    /// How long history is kept, in microseconds; the inner `None` stands for the value `none`.
    pub history_micros: Option<Option<i64>>,
    families: BTreeMap<String, FamilyOptions>,
}

/// Options of one family. The outer `None` means not given; the inner one stands for the value `none`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct FamilyOptions {
    gc: Option<GcRule>,
    versions_max: Option<Option<u32>>,
    age_max_micros: Option<Option<i64>>,
    aggregate: Option<Aggregate>,
    encoding: Option<Encoding>,
}

impl Options {
    /// Parses names and the texts of their values. Nothing is ignored.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for an unknown or duplicate name, or an invalid value.
    pub fn parse(pairs: &[(String, String)]) -> Result<Self> {
        let mut options = Self::default();
        for (index, (name, value)) in pairs.iter().enumerate() {
            if pairs[..index].iter().any(|(other, _)| other == name) {
                let message = format!("parameter \"{name}\" specified more than once");
                return Err(Error::new(ErrorKind::Invalid, message));
            }
            options.set(name, value.trim())?;
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let Some((family, option)) = name.rsplit_once('.') else {
            match name {
                "key_encoding" => self.key_encoding = Some(word(name, value, "delimited, ordered")?),
                "salt" => {
                    let salt = value.parse().ok().filter(|salt| (2..=SALT_MAX).contains(salt));
                    self.salt = Some(salt.ok_or_else(|| bad(name, value, &format!("a number from 2 to {SALT_MAX}")))?);
                }
                "on_bad_value" => self.on_bad_value = Some(word(name, value, "error, null")?),
                "on_bad_key" => self.on_bad_key = Some(word(name, value, "skip, null, error")?),
                "history" if value.eq_ignore_ascii_case("none") => self.history_micros = Some(None),
                "history" => self.history_micros = Some(Some(age(name, value)?)),
                _ => return Err(unknown(name)),
            }
            return Ok(());
        };
        let of = self.families.entry(family.to_owned()).or_default();
        let none = value.eq_ignore_ascii_case("none");
        match option {
            "gc" => of.gc = Some(gc::parse(name, value)?),
            "max_versions" if none => of.versions_max = Some(None),
            "max_versions" => {
                let versions = value.parse().ok().filter(|&versions: &u32| versions >= 1);
                of.versions_max = Some(Some(versions.ok_or_else(|| bad(name, value, "a number from 1, or none"))?));
            }
            "max_age" if none => of.age_max_micros = Some(None),
            "max_age" => of.age_max_micros = Some(Some(age(option, value)?)),
            "aggregate" => of.aggregate = Some(word(name, value, "sum, min, max, hll")?),
            "encoding" => of.encoding = Some(word(name, value, "binary, text, json")?),
            _ => return Err(unknown(name)),
        }
        Ok(())
    }

    /// The GC rule and the aggregate of a new family.
    pub(super) fn family(&self, name: &str) -> Result<(GcRule, Option<Aggregate>)> {
        let options = self.families.get(name).cloned().unwrap_or_default();
        let gc = options.change(name, &GcRule::KeepAll, options.aggregate)?;
        Ok((gc, options.aggregate))
    }

    /// The changed GC rule of an existing family.
    pub(super) fn change(&self, name: &str, gc: &GcRule, aggregate: Option<Aggregate>) -> Result<GcRule> {
        self.families.get(name).map_or(Ok(gc.clone()), |options| options.change(name, gc, aggregate))
    }

    /// The encoding of the family's columns that name none.
    pub(super) fn encoding(&self, family: &str) -> Option<Encoding> {
        self.families.get(family)?.encoding.clone()
    }

    /// Checks that every family with options exists in the table.
    pub(super) fn check_families(&self, table: &Table) -> Result<()> {
        self.families.keys().find(|name| table.family(name).is_none()).map_or(Ok(()), |name| Err(table.no_family(name)))
    }

    /// Refuses options that are fixed when a table or family is created.
    pub(super) fn check_changeable(&self) -> Result<()> {
        let fixed = |name: String| {
            let message = format!("parameter \"{name}\" cannot be changed");
            Err(Error::new(ErrorKind::Unsupported, message)
                .with_detail("It says how what is stored is to be read.")
                .with_hint("Create another table and copy the rows."))
        };
        if self.key_encoding.is_some() {
            return fixed("key_encoding".into());
        }
        if self.salt.is_some() {
            return fixed("salt".into());
        }
        for (family, options) in &self.families {
            if options.aggregate.is_some() {
                return fixed(format!("{family}.aggregate"));
            }
            if options.encoding.is_some() {
                return fixed(format!("{family}.encoding"));
            }
        }
        Ok(())
    }
}

impl FamilyOptions {
    fn change(&self, name: &str, old: &GcRule, aggregate: Option<Aggregate>) -> Result<GcRule> {
        check_name("family", name)?;
        let is_short = self.versions_max.is_some() || self.age_max_micros.is_some();
        if let Some(rule) = &self.gc {
            if is_short {
                let message = format!("parameter \"{name}.gc\" is given with max_versions or max_age");
                return Err(Error::new(ErrorKind::InvalidOption, message).with_hint("Say all of it in one rule."));
            }
            if aggregate.is_some() && has_age(rule) {
                return Err(aged_aggregate(name));
            }
            return Ok(rule.clone());
        }
        if !is_short {
            return Ok(old.clone());
        }
        let Some((versions, age)) = limits_of(old) else {
            let message = format!("max_versions and max_age cannot change the rule of family \"{name}\"");
            return Err(Error::new(ErrorKind::InvalidOption, message)
                .with_detail(format!("Its rule is '{}'.", gc::display(old)))
                .with_hint(format!("Give it another: SET ({name}.gc = '…').")));
        };
        let versions = self.versions_max.unwrap_or(versions).map(GcRule::MaxVersions);
        let age = self.age_max_micros.unwrap_or(age).map(GcRule::MaxAgeMicros);
        if age.is_some() && aggregate.is_some() {
            return Err(aged_aggregate(name));
        }
        let rule = match (versions, age) {
            (Some(versions), Some(age)) => GcRule::Union(vec![versions, age]),
            (one, other) => one.or(other).unwrap_or_default(),
        };
        rule.check().map_err(|error| Error::new(ErrorKind::Invalid, error.to_string()))?;
        Ok(rule)
    }
}

fn aged_aggregate(name: &str) -> Error {
    let message = format!("aggregate family \"{name}\" cannot have a max_age");
    Error::new(ErrorKind::Invalid, message)
        .with_detail("Its cells have no time: a rule by age would forget them at once.")
}

fn has_age(rule: &GcRule) -> bool {
    match rule {
        GcRule::MaxAgeMicros(_) => true,
        GcRule::KeepAll | GcRule::MaxVersions(_) => false,
        GcRule::Union(rules) | GcRule::Intersection(rules) => rules.iter().any(has_age),
    }
}

/// The version limit and the age limit (microseconds) of a rule; `None` for a rule that the short forms cannot say.
fn limits_of(rule: &GcRule) -> Option<(Option<u32>, Option<i64>)> {
    match rule {
        GcRule::KeepAll => Some((None, None)),
        GcRule::MaxVersions(versions) => Some((Some(*versions), None)),
        GcRule::MaxAgeMicros(age) => Some((None, Some(*age))),
        GcRule::Union(rules) => match rules.as_slice() {
            [GcRule::MaxVersions(versions), GcRule::MaxAgeMicros(age)]
            | [GcRule::MaxAgeMicros(age), GcRule::MaxVersions(versions)] => Some((Some(*versions), Some(*age))),
            _ => None,
        },
        GcRule::Intersection(_) => None,
    }
}

impl TableFamily {
    /// The options that give the family its rule, by name without the family's: the short forms where they can say it.
    pub fn rule_options(&self) -> Vec<(&'static str, String)> {
        match limits_of(&self.gc) {
            Some((versions, age)) => {
                let versions = versions.map(|versions| ("max_versions", versions.to_string()));
                versions.into_iter().chain(age.map(|age| ("max_age", gc::display_age(age)))).collect()
            }
            None => vec![("gc", gc::display(&self.gc))],
        }
    }

    /// The rule as text: `versions > 3 OR …`, or `none`.
    pub fn rule(&self) -> String {
        gc::display(&self.gc)
    }
}

/// Parses an age such as `30 days` or `1 hour 30 minutes` for the parameter `name`, in microseconds. Months and years
/// have no fixed length and are refused, and so is an age below a millisecond.
pub(super) fn age(name: &str, text: &str) -> Result<i64> {
    let wrong = || bad(name, text, "an age in days, hours, minutes, seconds or milliseconds, or none");
    let mut words = text.split_whitespace().flat_map(split_unit);
    let mut total = 0i64;
    while let Some(number) = words.next() {
        let number: i64 = number.parse().map_err(|_| wrong())?;
        let unit = words.next().unwrap_or_default().to_ascii_lowercase();
        let micros = match unit.strip_suffix('s').filter(|unit| unit.len() > 1).unwrap_or(&unit) {
            "ms" | "msec" | "millisecond" => 1_000,
            "s" | "sec" | "second" => 1_000_000,
            "min" | "minute" => 60_000_000,
            "h" | "hour" => 3_600_000_000,
            "d" | "day" => 86_400_000_000,
            "w" | "week" => 604_800_000_000,
            _ => return Err(wrong()),
        };
        total = number.checked_mul(micros).and_then(|micros| total.checked_add(micros)).ok_or_else(wrong)?;
    }
    if total < 1_000 { Err(wrong()) } else { Ok(total) }
}

/// Splits `30d` into `30` and `d`.
fn split_unit(word: &str) -> impl Iterator<Item = &str> {
    let end = word.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(word.len());
    [&word[..end], &word[end..]].into_iter().filter(|part| !part.is_empty())
}

/// Parses an enum from the word that also stands for it in the catalog's JSON.
fn word<T: DeserializeOwned>(name: &str, value: &str, words: &str) -> Result<T> {
    let lower = value.to_ascii_lowercase();
    let read = T::deserialize(IntoDeserializer::<WordError>::into_deserializer(lower));
    read.map_err(|_| bad(name, value, &format!("one of {words}")))
}

fn bad(name: &str, value: &str, wanted: &str) -> Error {
    Error::new(ErrorKind::Invalid, format!("invalid value for parameter \"{name}\": \"{value}\""))
        .with_hint(format!("It takes {wanted}."))
}

fn unknown(name: &str) -> Error {
    Error::new(ErrorKind::Invalid, format!("unrecognized parameter \"{name}\"")).with_hint(
        "There are key_encoding, salt, on_bad_value, on_bad_key, history, and for each family its name with \
         .gc, .max_versions, .max_age, .aggregate, .encoding.",
    )
}
