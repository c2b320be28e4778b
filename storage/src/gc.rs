//! Garbage-collection rules: which cells of a family may be dropped. Pure.
//!
//! A rule *condemns* cells. Reads never return a condemned cell, and a write of a row removes those that are condemned
//! at that time, so that none reappears when newer cells are deleted or the rule is loosened.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// Nesting of a rule.
pub const GC_RULE_DEPTH_MAX: usize = 20;

/// When a cell of a column is condemned. Bigtable's rules, nested at will.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GcRule {
    /// Never.
    #[default]
    KeepAll,
    /// Condemned if at least this number of cells of the column come before it, newest first.
    MaxVersions(u32),
    /// Condemned if older than this number of microseconds.
    MaxAgeMicros(i64),
    /// Condemned if any of the rules condemns it.
    Union(Vec<GcRule>),
    /// Condemned if all of the rules condemn it.
    Intersection(Vec<GcRule>),
}

impl GcRule {
    /// Checks the numbers and the nesting.
    ///
    /// # Errors
    /// [`Error::Invalid`] for versions below one, an age below a millisecond (Bigtable's minimum), an empty union or
    /// intersection, or a nesting deeper than [`GC_RULE_DEPTH_MAX`].
    pub fn check(&self) -> Result<()> {
        self.check_at(1)
    }

    fn check_at(&self, depth: usize) -> Result<()> {
        let wrong = |text: &str| Err(Error::Invalid(format!("a garbage collection rule {text}")));
        match self {
            _ if depth > GC_RULE_DEPTH_MAX => wrong("is nested too deep"),
            Self::MaxVersions(0) => wrong("must keep at least one version"),
            Self::MaxAgeMicros(age) if *age < 1_000 => wrong("must keep cells for at least a millisecond"),
            Self::Union(rules) | Self::Intersection(rules) if rules.is_empty() => wrong("combines no rules"),
            Self::Union(rules) | Self::Intersection(rules) => {
                rules.iter().try_for_each(|rule| rule.check_at(depth + 1))
            }
            _ => Ok(()),
        }
    }

    /// Whether the `index`-th newest cell of its column, from 0, is condemned at the time `now`, in microseconds.
    ///
    /// A cell that is condemned stays condemned at all later times, as long as the column only gains newer cells.
    pub fn condemns(&self, index: usize, timestamp: i64, now: i64) -> bool {
        match self {
            Self::KeepAll => false,
            Self::MaxVersions(versions) => index >= *versions as usize,
            Self::MaxAgeMicros(age) => timestamp < now.saturating_sub(*age),
            Self::Union(rules) => rules.iter().any(|rule| rule.condemns(index, timestamp, now)),
            Self::Intersection(rules) => rules.iter().all(|rule| rule.condemns(index, timestamp, now)),
        }
    }

    /// The age in microseconds past which every cell is condemned, if there is one.
    pub fn age_max_micros(&self) -> Option<i64> {
        match self {
            Self::KeepAll | Self::MaxVersions(_) => None,
            Self::MaxAgeMicros(age) => Some(*age),
            Self::Union(rules) => rules.iter().filter_map(Self::age_max_micros).min(),
            Self::Intersection(rules) => {
                rules.iter().map(Self::age_max_micros).try_fold(0, |most, age| Some(most.max(age?)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_condemn() {
        use GcRule::{Intersection, KeepAll, MaxAgeMicros, MaxVersions, Union};
        let check = |rule: GcRule, kept: &[(usize, i64)]| {
            let all = [(0, 9_000), (1, 5_000), (2, 4_000)];
            let left: Vec<_> = all.into_iter().filter(|&(index, at)| !rule.condemns(index, at, 10_000)).collect();
            assert_eq!(left, kept, "{rule:?}");
        };
        check(KeepAll, &[(0, 9_000), (1, 5_000), (2, 4_000)]);
        check(MaxVersions(1), &[(0, 9_000)]);
        check(MaxAgeMicros(5_000), &[(0, 9_000), (1, 5_000)]);
        check(Union(vec![MaxVersions(1), MaxAgeMicros(5_000)]), &[(0, 9_000)]);
        check(Intersection(vec![MaxVersions(1), MaxAgeMicros(5_000)]), &[(0, 9_000), (1, 5_000)]);
        check(
            Union(vec![Intersection(vec![MaxVersions(2), MaxAgeMicros(1_000)]), MaxAgeMicros(9_000)]),
            &[(0, 9_000), (1, 5_000)],
        );
    }

    #[test]
    fn rules_are_checked() {
        for rule in [
            GcRule::MaxVersions(0),
            GcRule::MaxAgeMicros(999),
            GcRule::Union(vec![]),
            GcRule::Intersection(vec![GcRule::MaxVersions(0)]),
        ] {
            assert!(rule.check().is_err(), "{rule:?}");
        }
        let deep = (0..GC_RULE_DEPTH_MAX).fold(GcRule::KeepAll, |rule, _| GcRule::Union(vec![rule]));
        assert!(deep.check().is_err());
    }

    #[test]
    fn the_longest_age_of_a_rule() {
        use GcRule::{Intersection, MaxAgeMicros, MaxVersions, Union};
        assert_eq!(Union(vec![MaxAgeMicros(2_000), MaxAgeMicros(1_000), MaxVersions(1)]).age_max_micros(), Some(1_000));
        assert_eq!(Intersection(vec![MaxAgeMicros(2_000), MaxAgeMicros(1_000)]).age_max_micros(), Some(2_000));
        assert_eq!(Intersection(vec![MaxAgeMicros(2_000), MaxVersions(1)]).age_max_micros(), None);
    }
}
