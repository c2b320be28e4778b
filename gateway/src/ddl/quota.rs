//! The quotas of `ALTER DATABASE … SET (…)`: names, values, and what they change.

use crate::{
    pg::error::{Result, SqlError, SqlState},
    resources::Size,
    settings::millis,
    shares::errors::{CONNECTIONS, MEMORY, READ_RATE, STATEMENTS, STORED, TEMPORARY, WRITE_RATE},
};
use keyspan_catalog::Quotas;

/// The greatest weight of a tenant; 100 is that of a tenant without one.
const WEIGHT_MAX: u64 = 10_000;

/// What a quota takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    Size,
    Number,
    Weight,
    Millis,
    Switch,
}

/// A quota: its name, what it takes, and how a value changes quotas.
type Quota = (&'static str, Takes, fn(&mut Quotas, Option<u64>));

/// All of them.
const QUOTAS: [Quota; 11] = [
    ("scan_budget", Takes::Size, |of, value| of.scan_bytes_max = value),
    (CONNECTIONS, Takes::Number, |of, value| of.connections_max = value.map(narrow)),
    (STATEMENTS, Takes::Number, |of, value| of.statements_max = value.map(narrow)),
    (MEMORY, Takes::Size, |of, value| of.memory_bytes_max = value),
    (TEMPORARY, Takes::Size, |of, value| of.temporary_bytes_max = value),
    (READ_RATE, Takes::Size, |of, value| of.read_bytes_per_second = value),
    (WRITE_RATE, Takes::Size, |of, value| of.written_bytes_per_second = value),
    (STORED, Takes::Size, |of, value| of.stored_bytes_max = value),
    ("statement_timeout", Takes::Millis, |of, value| of.statement_timeout_millis = value.filter(|millis| *millis > 0)),
    ("weight", Takes::Weight, |of, value| of.weight = value.map(narrow)),
    ("dryrun", Takes::Switch, |of, value| of.dryrun = value == Some(1)),
];

/// A quota with its new value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    apply: fn(&mut Quotas, Option<u64>),
    value: Option<u64>,
}

impl Change {
    /// A change by name; `None` resets the quota.
    ///
    /// # Errors
    /// 22023.
    pub(super) fn new(name: &str, value: Option<&str>) -> Result<Self> {
        let Some((name, takes, apply)) = QUOTAS.iter().find(|(known, ..)| *known == name) else {
            let names: Vec<&str> = QUOTAS.iter().map(|(name, ..)| *name).collect();
            return Err(
                invalid(format!("unrecognized quota \"{name}\"")).with_hint(format!("There are {}.", names.join(", ")))
            );
        };
        let value = value.map(|value| parse(name, *takes, value)).transpose()?;
        Ok(Self { apply: *apply, value })
    }

    pub(super) fn apply(&self, quotas: &mut Quotas) {
        (self.apply)(quotas, self.value);
    }
}

fn parse(name: &str, takes: Takes, value: &str) -> Result<u64> {
    let wrong = |why: String| invalid(format!("invalid value for \"{name}\": {why}"));
    let number = |most: u64| {
        let number = value.parse::<u64>().ok().filter(|number| *number <= most);
        number.ok_or_else(|| wrong(format!("\"{value}\" is no number from 0 to {most}")))
    };
    match takes {
        Takes::Size => Ok(value.parse::<Size>().map_err(wrong)?.0),
        Takes::Number => number(u64::from(u32::MAX)),
        Takes::Weight => match number(WEIGHT_MAX)? {
            0 => Err(wrong("a weight is 1 or more".to_owned())),
            weight => Ok(weight),
        },
        Takes::Millis => {
            let millis = millis(&value.to_lowercase()).and_then(|millis| u64::try_from(millis).ok());
            millis.ok_or_else(|| wrong(format!("\"{value}\" is no time: write it as 500ms, 30s or 5min")))
        }
        Takes::Switch => match value.to_lowercase().as_str() {
            "on" | "true" | "yes" | "1" => Ok(1),
            "off" | "false" | "no" | "0" => Ok(0),
            _ => Err(wrong(format!("\"{value}\" is neither on nor off"))),
        },
    }
}

/// A number that was checked.
fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

fn invalid(message: String) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_touches_its_quota_alone() {
        let mut quotas = Quotas::default();
        for (name, value) in [("weight", "300"), ("memory", "1MiB"), ("statement_timeout", "5s"), ("dryrun", "on")] {
            Change::new(name, Some(value)).unwrap().apply(&mut quotas);
        }
        let expected = Quotas {
            weight: Some(300),
            memory_bytes_max: Some(1 << 20),
            statement_timeout_millis: Some(5_000),
            dryrun: true,
            ..Quotas::default()
        };
        assert_eq!(quotas, expected);
        for name in ["weight", "memory", "statement_timeout", "dryrun"] {
            Change::new(name, None).unwrap().apply(&mut quotas);
        }
        assert!(quotas.is_none());
        for (name, value) in [("weight", "0"), ("weight", "-1"), ("connections", "many"), ("dryrun", "2"), ("x", "1")] {
            assert_eq!(Change::new(name, Some(value)).unwrap_err().state.0, "22023", "{name} = {value}");
        }
    }
}
