//! What the session's settings say about values as text: `TimeZone`, `DateStyle`, `IntervalStyle`, `bytea_output` and
//! `extra_float_digits`.

use super::zone::Zone;
use datafusion::config::ConfigOptions;
use std::sync::{Arc, LazyLock};

/// How dates and timestamps are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DateStyle {
    /// `1997-12-17 07:37:16-08`
    #[default]
    Iso,
    /// `12/17/1997 07:37:16.00 PST`
    Sql,
    /// `Wed Dec 17 07:37:16 1997 PST`
    Postgres,
    /// `17.12.1997 07:37:16.00 PST`
    German,
    /// `1997-12-17T07:37:16-08:00`: in JSON, whatever the setting.
    Xsd,
}

/// In which order numbers are a date, and in which order some styles print them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DateOrder {
    /// Month, day, year.
    #[default]
    Mdy,
    /// Day, month, year.
    Dmy,
    /// Year, month, day.
    Ymd,
}

/// How intervals are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IntervalStyle {
    /// `1 year 2 mons 3 days 04:05:06`
    #[default]
    Postgres,
    /// `@ 1 year 2 mons 3 days 4 hours 5 mins 6 secs`
    PostgresVerbose,
    /// `+1-2 +3 +4:05:06`
    SqlStandard,
    /// `P1Y2M3DT4H5M6S`
    Iso8601,
}

/// How values are read and printed. Clones share the zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Style {
    /// The zone in which a `timestamptz` is printed, and read where it has none.
    pub zone: Zone,
    /// The style of dates.
    pub dates: DateStyle,
    /// The order of a date's numbers.
    pub order: DateOrder,
    /// The style of intervals.
    pub intervals: IntervalStyle,
    /// Whether bytes are printed with escapes, not in hexadecimal digits.
    pub bytea_escape: bool,
    /// Digits of floats beyond those that are always right; from 1 on the fewest that tell a float apart.
    pub extra_float_digits: i8,
}

impl Default for Style {
    fn default() -> Self {
        Self {
            zone: Zone::utc(),
            dates: DateStyle::default(),
            order: DateOrder::default(),
            intervals: IntervalStyle::default(),
            bytea_escape: false,
            extra_float_digits: 1,
        }
    }
}

impl Style {
    /// That of a session which has set nothing: UTC, ISO, MDY.
    pub fn initial() -> &'static Self {
        static INITIAL: LazyLock<Style> = LazyLock::new(Style::default);
        &INITIAL
    }

    /// The style of values in JSON.
    #[must_use]
    pub fn for_json(&self) -> Self {
        Self { dates: DateStyle::Xsd, ..self.clone() }
    }

    /// The style that a statement's configuration carries; the [initial](Self::initial) one where it has none.
    pub fn within(options: &ConfigOptions) -> &Self {
        match options.extensions.get::<Carried>() {
            Some(carried) => &carried.0,
            None => Self::initial(),
        }
    }
}

/// A [`Style`] as DataFusion's configuration carries it. Nothing in it can be set by name.
#[derive(Clone, Debug)]
pub struct Carried(pub Arc<Style>);

crate::extension::carried!(Carried, "keyspan_style");
