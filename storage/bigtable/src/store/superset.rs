//! What a scan asks of the server: at least the cells that its [`RowReader`](keyspan_storage::row::RowReader) needs.
//!
//! For each family: its columns, then as much of its rule, of the timestamps and of the number of versions as the
//! server's filters can say. Beside them *proofs of life*, cells without values, where a row counts that has none of
//! the cells that are asked for. The same cell may come twice, once without its value; [`merged`] keeps the other.

use super::{convert, guard::Place, schema::Known};
use keyspan_bigtable_api::data::{RowFilter, TimestampRange as ApiRange};
use keyspan_storage::{
    Cell, Columns, Family, FamilyName, GcRule, Scan, TimestampRange, model::limits::FILTER_BYTES_MAX,
};
use prost::Message;

/// Columns of a family that are asked for one by one; more are asked for as the whole family.
const COLUMNS_MAX: usize = 16;

/// The filter; `None` if no cell can be wanted.
pub(super) fn superset(known: &Known, scan: &Scan, now_micros: i64) -> Option<RowFilter> {
    let filter = filter(known, scan, now_micros, COLUMNS_MAX)?;
    if filter.encoded_len() <= FILTER_BYTES_MAX {
        return Some(filter);
    }
    // Long names of columns, in many families.
    self::filter(known, scan, now_micros, 0)
}

fn filter(known: &Known, scan: &Scan, now_micros: i64, columns_max: usize) -> Option<RowFilter> {
    let mut parts = Vec::new();
    for (name, family) in &known.schema.families {
        let columns = match &scan.columns {
            Columns::All => Some(vec![convert::family(name.as_str())]),
            Columns::Of(wanted) => wanted
                .iter()
                .find(|of| of.family == *name)
                .map(|of| columns(name, of.qualifiers.as_deref(), columns_max)),
        };
        let columns = columns.filter(|columns| !columns.is_empty());
        let Some(cells) = columns.and_then(|columns| cells(family, scan, now_micros, columns)) else { continue };
        parts.push(cells);
    }
    if scan.relied {
        // The newest cell of each column proves life, and says after which timestamp a write is visible.
        for name in known.schema.families.keys() {
            parts.push(convert::chain(vec![convert::family(name.as_str()), convert::newest(1), convert::stripped()]));
        }
        if known.guard != Place::Nowhere {
            parts.push(known.guard.filter());
        }
    } else if scan.keep_empty && !(scan.columns == Columns::All && scan.timestamps == TimestampRange::all()) {
        let lives = |(name, family): (&FamilyName, &Family)| life(name, family, now_micros);
        let lives: Vec<_> = known.schema.families.iter().filter_map(lives).collect();
        if is_any_life(known) {
            parts.push(convert::chain(vec![convert::first(), convert::stripped()]));
        } else if !lives.is_empty() {
            parts.push(convert::chain(vec![convert::interleave(lives), convert::first(), convert::stripped()]));
        }
    }
    (!parts.is_empty()).then(|| convert::interleave(parts))
}

fn columns(family: &FamilyName, qualifiers: Option<&[bytes::Bytes]>, columns_max: usize) -> Vec<RowFilter> {
    match qualifiers {
        Some(qualifiers) if qualifiers.len() <= columns_max || qualifiers.is_empty() => {
            qualifiers.iter().map(|qualifier| convert::column(family.as_str(), qualifier)).collect()
        }
        _ => vec![convert::family(family.as_str())],
    }
}

/// The cells of columns of a family; `None` if none can be wanted.
fn cells(family: &Family, scan: &Scan, now_micros: i64, columns: Vec<RowFilter>) -> Option<RowFilter> {
    let mut steps = vec![convert::interleave(columns)];
    // Whether what is left has no cell that the rule condemns, so that versions can be counted.
    let mut is_exact = true;
    match &family.gc {
        GcRule::KeepAll => {}
        GcRule::MaxVersions(versions) => steps.push(convert::newest(*versions)),
        rule => {
            if let Some(age) = rule.age_max_micros() {
                steps.push(convert::at(since(now_micros.saturating_sub(age))?));
            }
            is_exact = matches!(rule, GcRule::MaxAgeMicros(_));
        }
    }
    if scan.timestamps != TimestampRange::all() {
        let range = convert::timestamps(scan.timestamps)?;
        // Without newer cells, a rule that is judged here would count too few before the older ones.
        let end_timestamp_micros = if is_exact { range.end_timestamp_micros } else { 0 };
        steps.push(convert::at(ApiRange { end_timestamp_micros, ..range }));
    }
    if let Some(versions) = scan.versions_max.filter(|versions| is_exact && *versions > 0) {
        steps.push(convert::newest(versions));
    }
    Some(convert::chain(steps))
}

/// Whether any cell of a row proves its life, so that its first one is asked for whatever its family is: naming
/// families takes the emulator half as long again. It may be of a family that was made since, which the scan has to
/// learn of ([`Known::may_be_new`]).
fn is_any_life(known: &Known) -> bool {
    known.guard != Place::Hidden && known.schema.families.values().all(|family| family.gc.age_max_micros().is_none())
}

/// A living cell of a family, if a row has one: its first, or, where a rule goes by age, the newest of some column.
fn life(name: &FamilyName, family: &Family, now_micros: i64) -> Option<RowFilter> {
    // Without an age the newest cell of every column lives, so that the first cell of the family does.
    let Some(age) = family.gc.age_max_micros() else { return Some(convert::family(name.as_str())) };
    let young = since(now_micros.saturating_sub(age))?;
    // The newest cell of a column goes by its age alone.
    Some(convert::chain(vec![convert::family(name.as_str()), convert::newest(1), convert::at(young)]))
}

fn since(micros: i64) -> Option<ApiRange> {
    convert::timestamps(TimestampRange { start: micros, end: None })
}

/// The cells of a row in order, each once: of two that differ in the value, the one that has it.
pub(super) fn merged(mut cells: Vec<Cell>) -> Vec<Cell> {
    if !cells.is_sorted_by(|a, b| a.order(b).is_lt()) {
        cells.sort_by(|a, b| a.order(b).then(b.value.len().cmp(&a.value.len())));
        cells.dedup_by(|later, kept| later.order(kept).is_eq());
    }
    cells
}
