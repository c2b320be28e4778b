//! `pg_timezone_names` and `pg_timezone_abbrevs`: zones and abbreviations with what they mean when the transaction began.

use super::columns::{Cell, Row, row};
use crate::{
    context::StatementContext,
    pg::datetime::{
        abbreviations::{self, Meaning},
        zone::{self, Zone},
    },
};

/// `pg_timezone_names`: the zones of the database.
pub(super) fn names(statement: &StatementContext) -> Vec<Row> {
    let seconds = statement.transaction_micros.div_euclid(1_000_000);
    let of = |name: String| {
        let at = Zone::named(&name)?.moment(seconds);
        Some(row! {
            "name" => name, "abbrev" => at.abbreviation, "utc_offset" => Cell::Seconds(at.offset),
            "is_dst" => at.is_summer,
        })
    };
    zone::names().filter_map(of).collect()
}

/// `pg_timezone_abbrevs`: what short names mean in input.
pub(super) fn abbreviations(statement: &StatementContext) -> Vec<Row> {
    let seconds = statement.transaction_micros.div_euclid(1_000_000);
    let of = |(name, meaning): &(&str, Meaning)| {
        let (offset, is_summer) = match meaning {
            Meaning::Standard(offset) => (i64::from(*offset), false),
            Meaning::Summer(offset) => (i64::from(*offset), true),
            Meaning::Of(_) => {
                let at = Zone::abbreviated(name)?.moment(seconds);
                (at.offset, at.is_summer)
            }
        };
        Some(row! {
            "abbrev" => name.to_ascii_uppercase(), "utc_offset" => Cell::Seconds(offset), "is_dst" => is_summer,
        })
    };
    abbreviations::ALL.iter().filter_map(of).collect()
}
