//! The results of a run, as a table for people and as JSON for programs.

use indicatif::HumanCount;
use keyspan_gateway::resources::Size;
use serde::Serialize;
use std::fmt;

/// One run.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) version: &'static str,
    pub(super) rows: u64,
    pub(super) rounds: usize,
    pub(super) seed: u64,
    pub(super) memory_bytes: u64,
    pub(super) cores: usize,
    pub(super) lines: Vec<Line>,
}

/// One result.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Line {
    pub(super) what: String,
    /// On Keyspan's side.
    pub(super) keyspan: Option<Quantity>,
    /// On the other side.
    pub(super) other: Option<Quantity>,
    /// The number that the target bounds.
    pub(super) result: Quantity,
    pub(super) target: Option<Target>,
    /// `None` where there is no target.
    pub(super) met: Option<bool>,
}

/// The bound of a result.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Target {
    AtMost(f64),
    AtLeast(f64),
}

/// A number with its unit.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Quantity {
    pub(super) value: f64,
    pub(super) unit: Unit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Unit {
    Seconds,
    Bytes,
    Rows,
    PerSecond,
    Times,
}

impl Quantity {
    pub(super) fn seconds(value: f64) -> Self {
        Self { value, unit: Unit::Seconds }
    }

    pub(super) fn bytes(value: u64) -> Self {
        Self { value: value as f64, unit: Unit::Bytes }
    }

    pub(super) fn per_second(value: f64) -> Self {
        Self { value, unit: Unit::PerSecond }
    }

    pub(super) fn rows(value: u64) -> Self {
        Self { value: value as f64, unit: Unit::Rows }
    }

    pub(super) fn times(value: f64) -> Self {
        Self { value, unit: Unit::Times }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.value;
        let text = match self.unit {
            Unit::Seconds if value < 1e-3 => format!("{:.1} µs", value * 1e6),
            Unit::Seconds if value < 1.0 => format!("{:.1} ms", value * 1e3),
            Unit::Seconds => format!("{value:.2} s"),
            Unit::Bytes => Size(value as u64).to_string(),
            Unit::Rows => format!("{} rows", HumanCount(value as u64)),
            Unit::PerSecond => format!("{}/s", HumanCount(value as u64)),
            Unit::Times => format!("{value:.2} ×"),
        };
        f.pad(&text)
    }
}

impl Target {
    fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
        }
    }
}

impl Line {
    /// A quantity without a target.
    pub(super) fn single(what: impl Into<String>, result: Quantity) -> Self {
        Self { what: what.into(), keyspan: None, other: None, result, target: None, met: None }
    }

    /// The ratio of Keyspan's quantity to the other.
    pub(super) fn ratio(what: impl Into<String>, keyspan: Quantity, other: Quantity) -> Self {
        let result = Quantity::times(keyspan.value / other.value);
        Self { keyspan: Some(keyspan), other: Some(other), ..Self::single(what, result) }
    }

    /// Adds a target for the result.
    #[must_use]
    pub(super) fn with(self, target: Target) -> Self {
        Self { met: Some(target.is_met(self.result.value)), target: Some(target), ..self }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rows, rounds, seed, memory_bytes, cores, .. } = self;
        let (rows, memory) = (HumanCount(*rows), Size(*memory_bytes));
        writeln!(f, "{rows} rows, {rounds} rounds, seed {seed}, memory {memory}, {cores} cores\n")?;
        table(&self.lines, f)
    }
}

/// Writes lines as a table, and the number of targets that are met.
pub(super) fn table(lines: &[Line], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let head = ["", "keyspan", "compared to", "result", "target", ""].map(str::to_owned);
    let cells: Vec<[String; 6]> = std::iter::once(head).chain(lines.iter().map(cells)).collect();
    let width = |column: usize| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let [a, b, c, d, e, _] = std::array::from_fn::<usize, 6, _>(width);
    for [what, keyspan, other, result, target, met] in &cells {
        let line = format!("{what:<a$}  {keyspan:>b$}  {other:>c$}  {result:>d$}  {target:>e$}  {met}");
        writeln!(f, "{}", line.trim_end())?;
    }
    let of = |met| lines.iter().filter(|line| line.met == Some(met)).count();
    write!(f, "\n{} targets met, {} not met", of(true), of(false))
}

fn cells(line: &Line) -> [String; 6] {
    let text = |quantity: &Option<Quantity>| quantity.map(|quantity| quantity.to_string()).unwrap_or_default();
    let target = line.target.map(|target| {
        let (sign, value) = match target {
            Target::AtMost(value) => ('≤', value),
            Target::AtLeast(value) => ('≥', value),
        };
        format!("{sign} {}", Quantity { value, unit: line.result.unit })
    });
    let met = line.met.map_or("", |met| if met { "met" } else { "not met" });
    let (keyspan, other) = (text(&line.keyspan), text(&line.other));
    [line.what.clone(), keyspan, other, line.result.to_string(), target.unwrap_or_default(), met.to_owned()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn report() -> Report {
        let lines = vec![
            Line::ratio("clean scan", Quantity::seconds(0.066), Quantity::seconds(0.06)).with(Target::AtMost(1.2)),
            Line::single("start-up", Quantity::seconds(1.5)).with(Target::AtMost(1.0)),
            Line::ratio("64 writers", Quantity::per_second(50_000.0), Quantity::per_second(5_000.0))
                .with(Target::AtLeast(10.0)),
            Line::single("written", Quantity::bytes(3 << 20)),
        ];
        Report { version: "1", rows: 10_000, rounds: 5, seed: 1, memory_bytes: 1 << 30, cores: 2, lines }
    }

    #[test]
    fn people_see_a_table() {
        expect![[r#"
            10,000 rows, 5 rounds, seed 1, memory 1GiB, 2 cores

                         keyspan  compared to   result     target
            clean scan   66.0 ms      60.0 ms   1.10 ×   ≤ 1.20 ×  met
            start-up                            1.50 s   ≤ 1.00 s  not met
            64 writers  50,000/s      5,000/s  10.00 ×  ≥ 10.00 ×  met
            written                               3MiB

            2 targets met, 1 not met"#]]
        .assert_eq(&report().to_string());
    }

    #[test]
    fn machines_get_numbers() {
        let json = serde_json::to_value(report()).unwrap();
        assert_eq!(json["lines"][0]["target"], serde_json::json!({ "at_most": 1.2 }));
        assert_eq!(json["lines"][1]["met"], false);
        assert_eq!(json["lines"][3]["result"], serde_json::json!({ "value": 3145728.0, "unit": "bytes" }));
    }
}
