//! GC rules as texts: `versions > 3 OR (age > 7 days AND versions > 1)` says which cells a family may forget. Pure.
//!
//! ```text
//! rule  = all { OR all }          a cell goes if any of them says so
//! all   = term { AND term }       … if each of them says so
//! term  = ( rule )  |  versions > number  |  age > age  |  none
//! ```
//!
//! Versions are counted from the newest: `versions > 3` forgets what has three newer versions. [`display`] writes a
//! rule so that [`parse`] reads it.

use super::options::age;
use crate::{Error, ErrorKind, Result};
use keyspan_storage::{GcRule, gc::GC_RULE_DEPTH_MAX};

/// Bytes of a rule's text.
const RULE_BYTES_MAX: usize = 4 << 10;

/// Parses the rule of a family.
///
/// # Errors
/// [`InvalidOption`](ErrorKind::InvalidOption) with the place in the text, for what is no rule, and for one that is
/// nonsense.
pub(super) fn parse(option: &str, text: &str) -> Result<GcRule> {
    if text.trim().eq_ignore_ascii_case("none") {
        return Ok(GcRule::KeepAll);
    }
    let mut parser = Parser { option, text, words: words(text), at: 0 };
    if text.len() > RULE_BYTES_MAX {
        return Err(parser.wrong(format!("The rule has more than {} KiB.", RULE_BYTES_MAX >> 10)));
    }
    let rule = parser.any(1)?;
    if parser.at < parser.words.len() {
        return Err(parser.unexpected());
    }
    rule.check().map_err(|error| parser.wrong(format!("{}.", capital(&error.to_string()))))?;
    Ok(rule)
}

/// The rule as text; `none` for one that keeps everything.
pub(super) fn display(rule: &GcRule) -> String {
    let joined = |rules: &[GcRule], word: &str| {
        let one = |rule: &GcRule| match rule {
            GcRule::Union(inner) | GcRule::Intersection(inner) if inner.len() > 1 => format!("({})", display(rule)),
            rule => display(rule),
        };
        rules.iter().map(one).collect::<Vec<_>>().join(word)
    };
    match rule {
        GcRule::KeepAll => "none".to_owned(),
        GcRule::MaxVersions(versions) => format!("versions > {versions}"),
        GcRule::MaxAgeMicros(micros) => format!("age > {}", display_age(*micros)),
        GcRule::Union(rules) => joined(rules, " OR "),
        GcRule::Intersection(rules) => joined(rules, " AND "),
    }
}

/// An age as [`age`] reads it, in the greatest units: `1 day 12 hours`.
pub(super) fn display_age(micros: i64) -> String {
    let units = [("day", 86_400_000_000), ("hour", 3_600_000_000), ("minute", 60_000_000), ("second", 1_000_000)];
    let (mut left, mut parts) = (micros, Vec::new());
    for (unit, size) in units.into_iter().chain([("millisecond", 1_000)]) {
        match left / size {
            0 => {}
            1 => parts.push(format!("1 {unit}")),
            count => parts.push(format!("{count} {unit}s")),
        }
        left %= size;
    }
    parts.join(" ")
}

/// The words, numbers and signs of a text, each with its place.
fn words(text: &str) -> Vec<(usize, &str)> {
    let mut words = Vec::new();
    let mut rest = text.char_indices().peekable();
    while let Some((at, first)) = rest.next() {
        if first.is_whitespace() {
            continue;
        }
        let kind = |c: char| (c.is_alphabetic() || c == '_', c.is_ascii_digit());
        let mut end = at + first.len_utf8();
        if kind(first) != (false, false) {
            while let Some((next, _)) = rest.next_if(|(_, c)| kind(*c) == kind(first)) {
                end = next + text[next..].chars().next().map_or(1, char::len_utf8);
            }
        }
        words.push((at, &text[at..end]));
    }
    words
}

struct Parser<'a> {
    option: &'a str,
    text: &'a str,
    words: Vec<(usize, &'a str)>,
    at: usize,
}

impl Parser<'_> {
    fn any(&mut self, depth: usize) -> Result<GcRule> {
        let mut rules = vec![self.all(depth)?];
        while self.take("or") {
            rules.push(self.all(depth)?);
        }
        self.combined(rules, "OR", GcRule::Union)
    }

    fn all(&mut self, depth: usize) -> Result<GcRule> {
        let mut rules = vec![self.term(depth)?];
        while self.take("and") {
            rules.push(self.term(depth)?);
        }
        self.combined(rules, "AND", GcRule::Intersection)
    }

    fn term(&mut self, depth: usize) -> Result<GcRule> {
        if self.take("(") {
            // Each pair of parentheses may be a union of intersections: two levels of the rule.
            if depth + 1 > GC_RULE_DEPTH_MAX / 2 {
                return Err(self.wrong(format!("It is nested deeper than {}.", GC_RULE_DEPTH_MAX / 2)));
            }
            let rule = self.any(depth + 1)?;
            return if self.take(")") { Ok(rule) } else { Err(self.unexpected()) };
        }
        if self.take("versions") {
            self.expect_greater("versions")?;
            let number = self.word().and_then(|word| word.parse().ok());
            let Some(versions) = number else { return Err(self.unexpected()) };
            self.at += 1;
            if versions == 0 {
                return Err(self.wrong("\"versions > 0\" would keep nothing.".to_owned()));
            }
            return Ok(GcRule::MaxVersions(versions));
        }
        if self.take("age") {
            self.expect_greater("age")?;
            let from = self.at;
            while self
                .word()
                .is_some_and(|word| !["and", "or", "(", ")"].iter().any(|end| word.eq_ignore_ascii_case(end)))
            {
                self.at += 1;
            }
            let words: Vec<&str> = self.words[from..self.at].iter().map(|(_, word)| *word).collect();
            return age(self.option, &words.join(" ")).map(GcRule::MaxAgeMicros).map_err(|_| {
                self.at = from;
                self.unexpected()
            });
        }
        Err(self.unexpected())
    }

    /// Rules that are joined by one word, which is not said twice of the same measure: one of the two would decide
    /// nothing.
    fn combined(&self, rules: Vec<GcRule>, word: &str, combine: fn(Vec<GcRule>) -> GcRule) -> Result<GcRule> {
        let mut flat = Vec::with_capacity(rules.len());
        for rule in rules {
            match (rule, combine(Vec::new())) {
                (GcRule::Union(inner), GcRule::Union(_)) | (GcRule::Intersection(inner), GcRule::Intersection(_)) => {
                    flat.extend(inner);
                }
                (rule, _) => flat.push(rule),
            }
        }
        for (at, rule) in flat.iter().enumerate() {
            let same = |other: &&GcRule| std::mem::discriminant(*other) == std::mem::discriminant(rule);
            let is_measure = matches!(rule, GcRule::MaxVersions(_) | GcRule::MaxAgeMicros(_));
            if let Some(other) = flat[..at].iter().find(same).filter(|_| is_measure) {
                let detail = format!(
                    "\"{}\" {word} \"{}\": one of the two decides alone, whatever a cell is.",
                    display(other),
                    display(rule)
                );
                return Err(self.wrong(detail));
            }
        }
        Ok(match flat.len() {
            1 => flat.swap_remove(0),
            _ => combine(flat),
        })
    }

    fn word(&self) -> Option<&str> {
        self.words.get(self.at).map(|(_, word)| *word)
    }

    fn take(&mut self, word: &str) -> bool {
        let is = self.word().is_some_and(|next| next.eq_ignore_ascii_case(word));
        self.at += usize::from(is);
        is
    }

    fn expect_greater(&mut self, of: &str) -> Result<()> {
        if self.take(">") && self.word() != Some("=") {
            return Ok(());
        }
        Err(self.wrong(format!("{} are compared with \">\" alone: the rule says what goes.", capital(of))))
    }

    fn unexpected(&self) -> Error {
        let detail = match self.words.get(self.at) {
            Some((at, word)) => {
                let place = self.text[..*at].chars().count() + 1;
                format!("\"{word}\", at character {place}, is not expected there.")
            }
            None => "It ends too early.".to_owned(),
        };
        self.wrong(detail)
    }

    fn wrong(&self, detail: String) -> Error {
        let message = format!("invalid value for parameter \"{}\": \"{}\"", self.option, self.text);
        Error::new(ErrorKind::InvalidOption, message)
            .with_detail(detail)
            .with_hint("A rule is like 'versions > 3 OR (age > 7 days AND versions > 1)', or none.")
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, want: &str) {
        let got = match parse("m.gc", text) {
            Ok(rule) => display(&rule),
            Err(error) => format!("error: {}", error.detail.unwrap_or_default()),
        };
        assert_eq!(got, want, "{text}");
    }

    #[test]
    fn rules_are_read_and_written() {
        for text in [
            "none",
            "versions > 3",
            "age > 7 days",
            "age > 1 day 12 hours",
            "age > 250 milliseconds",
            "versions > 3 OR (age > 7 days AND versions > 1)",
            "(versions > 1 OR age > 2 days) AND age > 1 hour",
            "versions > 3 OR age > 30 days OR (age > 7 days AND versions > 1)",
        ] {
            check(text, text);
        }
        check("VERSIONS>3 or(age>7d and versions>1)", "versions > 3 OR (age > 7 days AND versions > 1)");
        check("((versions > 3))", "versions > 3");
        check(
            "age > 90 minutes OR versions > 2 AND age > 1min",
            "age > 1 hour 30 minutes OR (versions > 2 AND age > 1 minute)",
        );
        check(
            "versions > 1 OR (age > 1 h OR (age > 2 d AND versions > 9))",
            "versions > 1 OR age > 1 hour OR (age > 2 days AND versions > 9)",
        );
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        check("", "error: It ends too early.");
        check("versions > 0", "error: \"versions > 0\" would keep nothing.");
        check("versions >= 3", "error: Versions are compared with \">\" alone: the rule says what goes.");
        check("versions < 3", "error: Versions are compared with \">\" alone: the rule says what goes.");
        check("versions > many", "error: \"many\", at character 12, is not expected there.");
        check("age > 7", "error: \"7\", at character 7, is not expected there.");
        check("age > 0 days", "error: \"0\", at character 7, is not expected there.");
        check("age > 3 months", "error: \"3\", at character 7, is not expected there.");
        check("size > 3", "error: \"size\", at character 1, is not expected there.");
        check("versions > 3 XOR age > 1 day", "error: \"XOR\", at character 14, is not expected there.");
        check("(versions > 3", "error: It ends too early.");
        check("versions > 3)", "error: \")\", at character 13, is not expected there.");
        check("versions > 3 OR", "error: It ends too early.");
        check(
            "versions > 3 OR age > 1 day OR versions > 5",
            "error: \"versions > 3\" OR \"versions > 5\": one of the two decides alone, whatever a cell is.",
        );
        check(
            "age > 1 day AND (age > 2 days AND versions > 1)",
            "error: \"age > 1 day\" AND \"age > 2 days\": one of the two decides alone, whatever a cell is.",
        );
        check(&format!("{}versions > 1{}", "(".repeat(11), ")".repeat(11)), "error: It is nested deeper than 10.");
        assert!(parse("m.gc", &"(".repeat(100_000)).is_err());
    }

    fn rule() -> impl Strategy<Value = GcRule> {
        let leaf = prop_oneof![
            (1u32..9).prop_map(GcRule::MaxVersions),
            (1i64..9_000_000_000).prop_map(|millis| GcRule::MaxAgeMicros(millis * 1_000)),
        ];
        leaf.prop_recursive(4, 12, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 2..4).prop_map(GcRule::Union),
                prop::collection::vec(inner, 2..4).prop_map(GcRule::Intersection)
            ]
        })
    }

    proptest! {
        #[test]
        fn a_rule_reads_back_with_the_same_meaning(rule in rule(), index in 0usize..10, age in 0i64..10_000_000_000_000) {
            // Some are refused, as one of two measures would decide nothing.
            if let Ok(read) = parse("m.gc", &display(&rule)) {
                prop_assert_eq!(read.condemns(index, -age, 0), rule.condemns(index, -age, 0));
                prop_assert_eq!(parse("m.gc", &display(&read)).unwrap(), read);
            }
        }

        #[test]
        fn no_text_panics(text in "[versionag>0-9() ORAND\u{e4}]{0,60}") {
            let _ = parse("m.gc", &text);
        }
    }
}
