//! The configuration parameters of PostgreSQL that mean nothing here: a session may set and show them, as tools do, and
//! nothing changes by it.
//!
//! `postgres.txt` has their names, types, bounds and values at start, from `pg_settings` of PostgreSQL 15.18. Values
//! are kept as PostgreSQL's SHOW prints them. One that would change an answer can only be what it is ([`ONLY`]). Others
//! ask for less than there is: a commit is durable when it is acknowledged whatever `synchronous_commit` says.

use super::{
    takes::{TEXT_BYTES_MAX, on_off, read_bool},
    unknown,
};
use crate::pg::error::{Result, SqlError, SqlState};
use std::{collections::BTreeMap, sync::LazyLock};

/// What is said of each.
pub(crate) const ABOUT: &str = "A parameter of PostgreSQL that changes nothing here.";

/// Values other than these would change answers.
const ONLY: [(&str, &str); 5] = [
    ("array_nulls", "on"),
    ("exit_on_error", "off"),
    ("quote_all_identifiers", "off"),
    ("transform_null_equals", "off"),
    ("zero_damaged_pages", "off"),
];

/// A parameter.
#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    /// `bool`, `integer`, `real`, `enum` or `string`.
    pub(crate) kind: &'static str,
    /// Who may set it when: as `pg_settings` has it.
    pub(crate) context: &'static str,
    /// The value at start, in its unit.
    pub(crate) start: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) from: &'static str,
    pub(crate) to: &'static str,
    /// Those that an `enum` takes.
    words: &'static str,
}

static ALL: LazyLock<BTreeMap<&'static str, Parameter>> = LazyLock::new(|| {
    let lines = include_str!("postgres.txt").lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(Parameter::read).map(|parameter| (parameter.name, parameter)).collect()
});

/// The parameter of a name in lower case.
pub(super) fn find(name: &str) -> Option<&'static Parameter> {
    ALL.get(name)
}

/// All of them, by name.
pub(crate) fn all() -> impl Iterator<Item = &'static Parameter> {
    ALL.values()
}

/// Units of memory, in bytes, and of time, in microseconds; the largest last.
const MEMORY: [(&str, f64); 5] =
    [("B", 1.0), ("kB", 1024.0), ("MB", 1_048_576.0), ("GB", 1_073_741_824.0), ("TB", 1_099_511_627_776.0)];
const TIME: [(&str, f64); 6] = [
    ("us", 1.0),
    ("ms", 1_000.0),
    ("s", 1_000_000.0),
    ("min", 60_000_000.0),
    ("h", 3_600_000_000.0),
    ("d", 86_400_000_000.0),
];

impl Parameter {
    fn read(line: &'static str) -> Option<Self> {
        let mut fields = line.split('|');
        let mut next = || fields.next();
        Some(Self {
            name: next()?,
            kind: next()?,
            context: next()?,
            start: next()?,
            unit: next()?,
            from: next()?,
            to: next()?,
            words: next()?,
        })
    }

    /// The words of an `enum`.
    pub(crate) fn words(&self) -> Vec<&'static str> {
        self.words.split(',').filter(|word| !word.is_empty()).collect()
    }

    /// The value at start, as SHOW prints it.
    pub(crate) fn shown_start(&self) -> String {
        match self.start.parse::<f64>() {
            Ok(number) if matches!(self.kind, "integer" | "real") => self.shown(number),
            _ => self.start.to_owned(),
        }
    }

    /// A value in its normal form.
    ///
    /// # Errors
    /// 55P02 where PostgreSQL takes none from a session; 42501 for what only an operator sets; 22023; 0A000 for one
    /// that would change an answer.
    pub(super) fn value(&self, value: &str, operator: bool) -> Result<String> {
        self.check_context(operator)?;
        let normal = self.normal(value)?;
        match ONLY.iter().find(|(name, _)| *name == self.name) {
            Some((name, only)) if normal != *only => {
                Err(SqlError::unsupported(format!("{name} = {normal}")).with_hint(format!("It is always {only}.")))
            }
            _ => Ok(normal),
        }
    }

    fn check_context(&self, operator: bool) -> Result<()> {
        let fixed = |how: &str| {
            let message = format!("parameter \"{}\" cannot be {how}", self.name);
            Err(SqlError::new(SqlState::CANT_CHANGE_RUNTIME_PARAM, message))
        };
        match self.context {
            "internal" => fixed("changed"),
            "postmaster" => fixed("changed without restarting the server"),
            "sighup" => fixed("changed now"),
            "backend" | "superuser-backend" => fixed("set after connection start"),
            "superuser" if !operator => {
                let message = format!("permission denied to set parameter \"{}\"", self.name);
                Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message))
            }
            _ => Ok(()),
        }
    }

    fn normal(&self, value: &str) -> Result<String> {
        let wrong = || {
            let message = format!("invalid value for parameter \"{}\": \"{value}\"", self.name);
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
        };
        let lower = value.trim().to_lowercase();
        match self.kind {
            "bool" => read_bool(&lower).map(on_off).ok_or_else(|| {
                let message = format!("parameter \"{}\" requires a Boolean value", self.name);
                SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
            }),
            "enum" => {
                let words = self.words();
                let synonym = read_bool(&lower).map(on_off);
                let found = words.iter().find(|word| **word == lower);
                let found = found.or_else(|| words.iter().find(|word| Some(**word) == synonym.as_deref()));
                let hint = || wrong().with_hint(format!("Available values: {}.", words.join(", ")));
                found.map(|word| (*word).to_owned()).ok_or_else(hint)
            }
            "integer" | "real" => self.number(&lower, wrong),
            _ if value.len() > TEXT_BYTES_MAX => {
                let message = format!("the value of parameter \"{}\" has more than {TEXT_BYTES_MAX} bytes", self.name);
                Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
            }
            _ => Ok(value.to_owned()),
        }
    }

    /// The units that it may have, and how many of the smallest of them its own is.
    fn units(&self) -> Option<(&'static [(&'static str, f64)], f64)> {
        let (factor, name) = match self.unit {
            "" => return None,
            "8kB" => (8.0, "kB"),
            unit => (1.0, unit),
        };
        [&MEMORY[..], &TIME[..]].into_iter().find_map(|units| {
            let (_, size) = units.iter().find(|(unit, _)| *unit == name)?;
            Some((units, factor * size))
        })
    }

    /// A value in its unit, as `pg_settings` has it.
    pub(crate) fn in_unit(&self, shown: &str) -> String {
        match self.kind {
            "integer" | "real" => self
                .parsed(&shown.to_lowercase(), || unknown(self.name))
                .map_or_else(|_| shown.to_owned(), |n| n.to_string()),
            _ => shown.to_owned(),
        }
    }

    /// A number with a unit or without, in its own.
    fn parsed(&self, lower: &str, wrong: impl Fn() -> SqlError) -> Result<f64> {
        let digits = lower.find(|c: char| !matches!(c, '0'..='9' | '.' | '-' | '+')).unwrap_or(lower.len());
        let (number, unit) = lower.split_at(digits);
        let mut number: f64 = number.parse().map_err(|_| wrong())?;
        let unit = unit.trim();
        if !unit.is_empty() {
            let (units, own) = self.units().ok_or_else(&wrong)?;
            let found = units.iter().find(|(name, _)| name.to_lowercase() == unit);
            let (_, size) = found.ok_or_else(|| {
                let names: Vec<String> = units.iter().map(|(name, _)| format!("\"{name}\"")).collect();
                wrong().with_hint(format!("Valid units for this parameter are {}.", names.join(", ")))
            })?;
            number = number * size / own;
        }
        Ok(if self.kind == "integer" { number.round_ties_even() } else { number })
    }

    fn number(&self, lower: &str, wrong: impl Fn() -> SqlError) -> Result<String> {
        let number = self.parsed(lower, wrong)?;
        let within = |bound: &str, than: fn(&f64, &f64) -> bool| bound.parse::<f64>().is_ok_and(|b| than(&number, &b));
        if within(self.from, f64::lt) || within(self.to, f64::gt) {
            let (name, unit) =
                (self.name, if self.unit.is_empty() { String::new() } else { format!(" {}", self.unit) });
            let (from, to) = (format!("{}{unit}", self.from), format!("{}{unit}", self.to));
            let message =
                format!("{number}{unit} is outside the valid range for parameter \"{name}\" ({from} .. {to})");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        Ok(self.shown(number))
    }

    /// A number in the largest unit in which it is whole.
    fn shown(&self, number: f64) -> String {
        let Some((units, own)) = self.units().filter(|_| number > 0.0) else { return number.to_string() };
        let smallest = number * own;
        // PostgreSQL shows no size in bytes but of what counts bytes, and no microseconds but of milliseconds.
        let fits = |(_, size): &&(&str, f64)| *size <= smallest && smallest % size == 0.0;
        match units.iter().rev().find(fits) {
            Some((name, size)) => format!("{}{name}", smallest / size),
            None => format!("{number}{}", self.unit),
        }
    }
}
