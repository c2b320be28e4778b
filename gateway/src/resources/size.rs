//! Sizes as people write them: `512MiB`, `2GB`, `1.5GiB`.

use std::{fmt, str::FromStr};

/// Units, the largest first: `KB` is a thousand bytes, `KiB` 1,024. A letter alone means the binary unit, as in
/// PostgreSQL's and Java's options.
const UNITS: [(&str, u64); 13] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("T", 1 << 40),
    ("G", 1 << 30),
    ("M", 1 << 20),
    ("K", 1 << 10),
    ("B", 1),
];

/// The most digits after the point.
const FRACTION_DIGITS_MAX: usize = 9;

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let written = text.trim();
        let split = written.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(written.len());
        let (number, unit) = (&written[..split], written[split..].trim_start());
        let unit_bytes = match UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)) {
            Some((_, bytes)) => *bytes,
            None if unit.is_empty() => 1,
            None => return Err(format!("\"{unit}\" is no unit: use KiB, MiB, GiB, TiB or KB, MB, GB, TB")),
        };
        let no_size = || format!("\"{text}\" is no size: write it as 512MiB or 2GB");
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let is_number = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
        let is_one = is_number(whole) && is_number(fraction) && !(whole.is_empty() && fraction.is_empty());
        if !is_one || fraction.len() > FRACTION_DIGITS_MAX {
            return Err(no_size());
        }
        // Digits alone fail to parse only when the number is too large.
        let parsed = |digits: &str| if digits.is_empty() { Some(0) } else { digits.parse::<u64>().ok() };
        let (whole, part) = (parsed(whole).ok_or_else(no_size)?, parsed(fraction).ok_or_else(no_size)?);
        let unit_bytes = u128::from(unit_bytes);
        let part_bytes = u128::from(part) * unit_bytes / 10_u128.pow(fraction.len() as u32);
        let bytes = u128::from(whole) * unit_bytes + part_bytes;
        u64::try_from(bytes).map(Self).map_err(|_| no_size())
    }
}

impl fmt::Display for Size {
    /// In the largest binary unit that divides it, or with one digit after the point.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((name, unit)) = UNITS[..4].iter().find(|(_, unit)| self.0 >= *unit) else {
            return write!(f, "{}B", self.0);
        };
        let tenths = self.0 % unit * 10 / unit;
        if self.0.is_multiple_of(*unit) {
            write!(f, "{}{name}", self.0 / unit)
        } else {
            write!(f, "{}.{tenths}{name}", self.0 / unit)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(text: &str, expected: Expect) {
        expected.assert_eq(&match text.parse::<Size>() {
            Ok(size) => format!("{} {size}", size.0),
            Err(error) => error,
        });
    }

    #[test]
    fn sizes_are_read_and_shown() {
        check("512MiB", expect!["536870912 512MiB"]);
        check("2GB", expect!["2000000000 1.8GiB"]);
        check("1.5 gib", expect!["1610612736 1.5GiB"]);
        check("64k", expect!["65536 64KiB"]);
        check("0.5MB", expect!["500000 488.2KiB"]);
        check(".25KiB", expect!["256 256B"]);
        check("1.", expect!["1 1B"]);
        check(".", expect![[r#""." is no size: write it as 512MiB or 2GB"#]]);
        check("1.0000000000GB", expect![[r#""1.0000000000GB" is no size: write it as 512MiB or 2GB"#]]);
        check("123", expect!["123 123B"]);
        check("0", expect!["0 0B"]);
        check("16777216TiB", expect![[r#""16777216TiB" is no size: write it as 512MiB or 2GB"#]]);
        check("", expect![[r#""" is no size: write it as 512MiB or 2GB"#]]);
        check("MiB", expect![[r#""MiB" is no size: write it as 512MiB or 2GB"#]]);
        check("5 apples", expect![[r#""apples" is no unit: use KiB, MiB, GiB, TiB or KB, MB, GB, TB"#]]);
        check("-1MB", expect![[r#""-1MB" is no unit: use KiB, MiB, GiB, TiB or KB, MB, GB, TB"#]]);
        check("1.2.3MB", expect![[r#""1.2.3MB" is no size: write it as 512MiB or 2GB"#]]);
    }
}
