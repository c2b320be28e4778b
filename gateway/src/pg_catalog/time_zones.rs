//! `pg_timezone_names` and `pg_timezone_abbrevs`: what zones say of the moment at which the transaction began.

use super::columns::{Cell, Row, row};
use crate::{
    context::StatementContext,
    pg::datetime::{
        abbreviations::{ALL, Meaning},
        zone::{self, Zone},
    },
};

fn now_seconds(statement: &StatementContext) -> i64 {
    statement.transaction_micros.div_euclid(1_000_000)
}

/// The rows of `pg_timezone_names`.
pub(super) fn names(statement: &StatementContext) -> Vec<Row> {
    let now = now_seconds(statement);
    let one = |name: String| {
        let moment = Zone::named(&name)?.moment(now);
        Some(row! {
            "name" => name, "abbrev" => moment.abbreviation, "utc_offset" => Cell::Seconds(moment.offset),
            "is_dst" => moment.is_summer,
        })
    };
    zone::names().filter_map(one).collect()
}

/// The rows of `pg_timezone_abbrevs`.
pub(super) fn abbreviations(statement: &StatementContext) -> Vec<Row> {
    let now = now_seconds(statement);
    let one = |(name, meaning): &(&str, Meaning)| {
        let (offset, is_summer) = match meaning {
            Meaning::Standard(offset) => (i64::from(*offset), false),
            Meaning::Summer(offset) => (i64::from(*offset), true),
            Meaning::Of(_) => {
                let moment = Zone::abbreviated(name)?;
                (moment.offset_at(now), moment.moment(now).is_summer)
            }
        };
        Some(row! {
            "abbrev" => name.to_uppercase(), "utc_offset" => Cell::Seconds(offset), "is_dst" => is_summer,
        })
    };
    ALL.iter().filter_map(one).collect()
}
