//! The values of `TimeZone`, `DateStyle` and `IntervalStyle`: read as PostgreSQL's checks of these settings do, and in
//! the form that SHOW has.

use super::{
    spans,
    style::{DateOrder, DateStyle, IntervalStyle, Style},
    zone::Zone,
};
use crate::error::{SqlError, SqlState};

/// A value that a setting cannot have: 22023.
fn invalid(name: &str, value: &str) -> SqlError {
    let message = format!("invalid value for parameter \"{name}\": \"{value}\"");
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// A zone as `SET TimeZone` reads it: a name, a POSIX form, hours east of Greenwich, `INTERVAL '+02:00'`.
///
/// # Errors
/// 22023.
pub fn time_zone(value: &str) -> Result<Zone, SqlError> {
    let wrong = || invalid("TimeZone", value);
    let beyond = || wrong().with_detail("UTC timezone offset is out of range.");
    let start = value.get(..8).filter(|word| word.eq_ignore_ascii_case("interval"));
    if start.is_some() {
        let (text, whole_minutes) = match value.strip_suffix(" HOUR TO MINUTE") {
            Some(interval) => (&interval[8..], true),
            None => (&value[8..], false),
        };
        let text = text.trim().strip_prefix('\'').and_then(|text| text.strip_suffix('\'')).ok_or_else(wrong)?;
        let span = spans::parse(text, Style::initial())?;
        if span.months != 0 {
            return Err(wrong().with_detail("Cannot specify months in time zone interval."));
        }
        if span.days != 0 {
            return Err(wrong().with_detail("Cannot specify days in time zone interval."));
        }
        let seconds = span.micros / 1_000_000;
        return Zone::fixed(if whole_minutes { seconds / 60 * 60 } else { seconds }).ok_or_else(beyond);
    }
    let is_number = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
    let trimmed = value.trim_start();
    if trimmed.contains(|c: char| c.is_ascii_digit())
        && trimmed.bytes().all(is_number)
        && let Ok(hours) = trimmed.parse::<f64>()
    {
        #[expect(clippy::cast_possible_truncation, reason = "what does not fit is out of range")]
        return Zone::fixed((hours * 3_600.0) as i64).ok_or_else(beyond);
    }
    Zone::named(value).ok_or_else(wrong)
}

/// `DateStyle` from its words; what they do not say stays as it is in `before`.
///
/// # Errors
/// 22023.
pub fn date_style(value: &str, before: (DateStyle, DateOrder)) -> Result<(DateStyle, DateOrder), SqlError> {
    let (mut style, mut order): (Option<DateStyle>, Option<DateOrder>) = (None, None);
    let (mut conflict, mut unsaid) = (false, None);
    if value.trim().is_empty() {
        return Ok(before);
    }
    for word in value.split(',') {
        let word = word.trim().trim_matches('"').to_lowercase();
        let starts = |prefix: &str| word.starts_with(prefix);
        let mut set = |wanted: DateStyle| {
            conflict |= style.is_some_and(|style| style != wanted);
            style = Some(wanted);
        };
        match () {
            () if word == "iso" => set(DateStyle::Iso),
            () if word == "sql" => set(DateStyle::Sql),
            () if starts("postgres") => set(DateStyle::Postgres),
            () if word == "german" => {
                set(DateStyle::German);
                // German has an order of its own, unless one is said.
                unsaid = Some(DateOrder::Dmy);
            }
            () if word == "ymd"
                || word == "dmy"
                || word == "mdy"
                || starts("euro")
                || starts("us")
                || starts("noneuro") =>
            {
                let wanted = match () {
                    () if word == "ymd" => DateOrder::Ymd,
                    () if word == "dmy" || starts("euro") => DateOrder::Dmy,
                    () => DateOrder::Mdy,
                };
                conflict |= order.is_some_and(|order| order != wanted);
                order = Some(wanted);
            }
            () if word == "default" => {
                style = style.or(Some(DateStyle::Iso));
                order = order.or(Some(DateOrder::Mdy));
            }
            () => {
                let detail = format!("Unrecognized key word: \"{word}\".");
                return Err(invalid("DateStyle", value).with_detail(detail));
            }
        }
    }
    if conflict {
        return Err(invalid("DateStyle", value).with_detail("Conflicting \"datestyle\" specifications."));
    }
    Ok((style.unwrap_or(before.0), order.or(unsaid).unwrap_or(before.1)))
}

/// `DateStyle` as SHOW says it.
pub fn date_style_shown((style, order): (DateStyle, DateOrder)) -> String {
    let style = match style {
        DateStyle::Iso => "ISO",
        DateStyle::Sql => "SQL",
        DateStyle::Postgres => "Postgres",
        DateStyle::German => "German",
        DateStyle::Xsd => "XSD",
    };
    let order = match order {
        DateOrder::Mdy => "MDY",
        DateOrder::Dmy => "DMY",
        DateOrder::Ymd => "YMD",
    };
    format!("{style}, {order}")
}

/// The words of `IntervalStyle`.
pub const INTERVAL_STYLES: &[&str] = &["postgres", "postgres_verbose", "sql_standard", "iso_8601"];

/// `IntervalStyle` by its word.
pub fn interval_style(value: &str) -> IntervalStyle {
    match value {
        "postgres_verbose" => IntervalStyle::PostgresVerbose,
        "sql_standard" => IntervalStyle::SqlStandard,
        "iso_8601" => IntervalStyle::Iso8601,
        _ => IntervalStyle::Postgres,
    }
}

impl Style {
    /// The style that settings in their normal form say.
    pub fn of_settings<'a>(value: impl Fn(&'static str) -> &'a str) -> Self {
        let initial = Self::initial();
        let before = (initial.dates, initial.order);
        let (dates, order) = date_style(value("datestyle"), before).unwrap_or(before);
        Self {
            zone: match value("timezone") {
                "UTC" | "" => Zone::utc(),
                name => Zone::named(name).unwrap_or_else(Zone::utc),
            },
            dates,
            order,
            intervals: interval_style(value("intervalstyle")),
            bytea_escape: value("bytea_output") == "escape",
            extra_float_digits: value("extra_float_digits").parse().unwrap_or(initial.extra_float_digits),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_set_as_in_postgres() {
        let named = |value: &str| match time_zone(value) {
            Ok(zone) => zone.name().to_owned(),
            Err(error) => format!("{} {} {}", error.state.0, error.message, error.detail.unwrap_or_default()),
        };
        for (value, name) in [
            ("europe/berlin", "Europe/Berlin"),
            ("+02", "<+02>-02"),
            ("-3.5", "<-03:30>+03:30"),
            ("0", "<+00>-00"),
            ("+02:00", "+02:00"),
            ("INTERVAL '-02:30:10'", "<-02:30:10>+02:30:10"),
            ("INTERVAL '-02:30:10' HOUR TO MINUTE", "<-02:30>+02:30"),
            (
                "interval '1 day'",
                "22023 invalid value for parameter \"TimeZone\": \"interval '1 day'\" Cannot specify days in time zone interval.",
            ),
            ("200", "22023 invalid value for parameter \"TimeZone\": \"200\" UTC timezone offset is out of range."),
            ("Nope", "22023 invalid value for parameter \"TimeZone\": \"Nope\" "),
        ] {
            assert_eq!(named(value), name);
        }
    }

    #[test]
    fn date_styles_are_set_as_in_postgres() {
        let initial = (DateStyle::Iso, DateOrder::Mdy);
        let shown = |value: &str| {
            date_style(value, initial).map(date_style_shown).map_err(|error| error.detail.unwrap_or_default())
        };
        for (value, expected) in [
            ("SQL, DMY", Ok("SQL, DMY")),
            ("ymd", Ok("ISO, YMD")),
            ("german", Ok("German, DMY")),
            ("german, ymd", Ok("German, YMD")),
            ("European", Ok("ISO, DMY")),
            ("postgres, noneuropean", Ok("Postgres, MDY")),
            ("default", Ok("ISO, MDY")),
            ("iso, sql", Err("Conflicting \"datestyle\" specifications.")),
            ("foo", Err("Unrecognized key word: \"foo\".")),
        ] {
            assert_eq!(shown(value), expected.map(str::to_owned).map_err(str::to_owned), "{value}");
        }
    }
}
