//! Spans of time as people write them: `90s`, `30min`, `1h`.

use std::{fmt, str::FromStr};

/// Units with their seconds, the largest first.
const UNITS: [(&str, u64); 4] = [("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)];

/// A span of time, in seconds; at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Age(pub u64);

impl Age {
    /// In microseconds, saturating.
    pub fn micros(self) -> i64 {
        i64::try_from(self.0).unwrap_or(i64::MAX).saturating_mul(1_000_000)
    }
}

impl FromStr for Age {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let written = text.trim();
        let split = written.find(|c: char| !c.is_ascii_digit()).unwrap_or(written.len());
        let (number, unit) = (&written[..split], written[split..].trim_start());
        let seconds = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, seconds)| *seconds);
        let seconds =
            seconds.ok_or_else(|| format!("\"{text}\" is no span of time: write it as 90s, 30min, 1h or 7d"))?;
        let age = number.parse::<u64>().ok().and_then(|number| number.checked_mul(seconds)).filter(|age| *age > 0);
        age.map(Self).ok_or_else(|| format!("\"{text}\" is no span of time that can pass"))
    }
}

impl fmt::Display for Age {
    /// In the largest unit that divides it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, seconds) = UNITS.iter().find(|(_, seconds)| self.0.is_multiple_of(*seconds)).unwrap_or(&UNITS[3]);
        write!(f, "{}{name}", self.0 / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(text: &str, expected: Expect) {
        expected.assert_eq(&match text.parse::<Age>() {
            Ok(age) => format!("{} {age}", age.micros()),
            Err(error) => error,
        });
    }

    #[test]
    fn spans_are_read_and_shown() {
        check("90s", expect!["90000000 90s"]);
        check("60 min", expect!["3600000000 1h"]);
        check("7d", expect!["604800000000 7d"]);
        check("0s", expect![[r#""0s" is no span of time that can pass"#]]);
        check("1", expect![[r#""1" is no span of time: write it as 90s, 30min, 1h or 7d"#]]);
        check("1 hour", expect![[r#""1 hour" is no span of time: write it as 90s, 30min, 1h or 7d"#]]);
        check("99999999999999999999d", expect![[r#""99999999999999999999d" is no span of time that can pass"#]]);
    }
}
