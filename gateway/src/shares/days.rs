//! How tables were used on the last days, over restarts: what [`access`](super::access) counted, in a row of the store
//! for each day, table and tenant. Advice is made of all of them.
//!
//! ```text
//! statements ──► Access, of today      ──► every ten minutes, and at the end: "a#20784#16390" = JSON
//!                Access, days before   ◄── at the start
//! ```
//!
//! The rows lie among those of the heat of keys, in the span of the tenant: they go with it, and are forgotten by age.
//! Of what an erasure may have meant nothing stays ([`Days::forget`]); no row has a key or a value of a cell.

use super::{
    Share, Shares,
    access::{Ends, FamilyReads, LargestCell, Seen, WholeScans},
    stored::{self, Rows},
};
use bytes::Bytes;
use keyspan_catalog::{Catalog, TenantId, tenant_store::HeatRow};
use keyspan_storage::FamilyName;
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc};

/// Days of which advice is made, today among them.
pub(crate) const DAYS: i64 = 7;
/// Rows of all days that are kept; what comes later counts until the server ends.
const ROWS_MAX: usize = 16_384;
/// How often what was counted is stored.
const STORE_EVERY_MICROS: i64 = 10 * 60 * 1_000_000;
const DAY_MICROS: i64 = 24 * 60 * 60 * 1_000_000;
/// Scans that read some families, below which nothing is advised of them.
const SCANS_MIN: u64 = 16;
/// Rows written, below which nothing is advised of their places.
const WRITTEN_MIN: u64 = 1_024;
/// Bytes of a cell, below which nothing is advised of it.
const CELL_BYTES_MIN: u64 = 1 << 20;

/// Stored rows, by the day since 1970 and the table.
type Seens = Rows<(i64, u32), Seen>;

/// What is stored.
#[derive(Debug, Default)]
pub struct Days(tokio::sync::Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    rows: Seens,
    /// When it was stored last.
    stored_micros: i64,
}

/// The day of a time in microseconds since 1970.
pub(crate) fn day_of(micros: i64) -> i64 {
    micros.div_euclid(DAY_MICROS)
}

impl Days {
    /// Takes what was stored before the server's start. What cannot be read is left out: it is no reason not to start.
    pub(crate) async fn load(&self, catalog: &Catalog, rows: &[HeatRow], shares: &Shares, now_micros: i64) {
        let snapshot = catalog.snapshot();
        let erased: BTreeSet<TenantId> = snapshot.pending_erasures().into_iter().filter_map(|(id, ..)| id).collect();
        let is_erased = |row: &HeatRow| row.tenant.as_ref().is_some_and(|id| erased.contains(id));
        let mut kept = self.0.lock().await;
        for (oid, row) in stored::with_oids(rows, &snapshot).filter(|(_, row)| !is_erased(row)) {
            let Some((day, table)) = day_and_table(&row.name) else { continue };
            let Some(seen) = std::str::from_utf8(&row.value).ok().and_then(seen_of) else { continue };
            if kept.rows.len() < ROWS_MAX {
                let share = shares.of((oid != 0).then_some(oid));
                share.work.table(table).access.remember(day, seen.clone());
                kept.rows.insert((oid, (day, table)), seen);
            }
        }
        kept.stored_micros = now_micros;
        drop(kept);
        turn(shares, day_of(now_micros));
    }

    /// Begins a new day if there is one, and stores what was counted, from time to time or at once. What fails is tried
    /// again.
    pub(crate) async fn keep(&self, catalog: &Catalog, shares: &Shares, now_micros: i64, at_once: bool) {
        let mut kept = self.0.lock().await;
        let day = day_of(now_micros);
        let all = shares.all();
        let is_reset = all.iter().any(|share| share.work.take_reset());
        let is_due = now_micros >= kept.stored_micros.saturating_add(STORE_EVERY_MICROS);
        let is_new_day = day != day_of(kept.stored_micros);
        if !is_due && !is_new_day && !at_once && !is_reset {
            return;
        }
        let wanted = wanted(&all, &kept.rows, day_of(kept.stored_micros), day);
        let gone = kept.rows.keys().filter(|name| !wanted.contains_key(name)).map(|name| (*name, None));
        let mut changes: Vec<_> = gone.collect();
        changes.extend(wanted.into_iter().filter(|(name, seen)| kept.rows.get(name) != Some(seen)).map(
            |(name, seen)| {
                let text = text(&seen).into();
                (name, Some((seen, text)))
            },
        ));
        stored::store(catalog, &mut kept.rows, changes, name).await;
        kept.stored_micros = now_micros;
        turn(shares, day);
    }

    /// Forgets how a tenant has used its tables, also in the store: some of its rows are erased.
    pub(crate) async fn forget(&self, catalog: &Catalog, shares: &Shares, oid: u32) {
        let tables = shares.of(Some(oid)).work.tables();
        tables.iter().for_each(|(_, table)| table.access.forget());
        let mut kept = self.0.lock().await;
        let rows = kept.rows.keys().filter(|name| name.0 == oid).map(|name| (*name, None)).collect();
        stored::store(catalog, &mut kept.rows, rows, name).await;
    }
}

/// Lets all tables begin the day.
fn turn(shares: &Shares, day: i64) {
    for share in shares.all() {
        for (_, table) in share.work.tables() {
            table.access.turn(day);
        }
    }
}

/// What is to be stored: of the days before what is known, of the one that ends or goes on what was counted.
fn wanted(shares: &[Arc<Share>], stored: &Seens, counted: i64, today: i64) -> Seens {
    let mut wanted = Seens::new();
    for share in shares {
        for (table, work) in share.work.tables() {
            for (day, seen) in work.access.by_day(counted) {
                let name = (share.flow(), (day, table));
                let has_place = stored.contains_key(&name) || wanted.len() < ROWS_MAX;
                if day > today - DAYS && has_place && is_worth_keeping(&seen) {
                    wanted.insert(name, seen);
                }
            }
        }
    }
    wanted
}

/// Whether advice could be made of it.
fn is_worth_keeping(seen: &Seen) -> bool {
    let read = seen.families.iter().map(|reads| reads.scans).sum::<u64>();
    !seen.whole_scans.is_empty()
        || read >= SCANS_MIN
        || seen.ends.rows >= WRITTEN_MIN
        || seen.row_cells > 0
        || seen.cell.as_ref().is_some_and(|cell| cell.bytes >= CELL_BYTES_MIN)
}

/// The name of a stored row.
fn name((day, table): &(i64, u32)) -> Bytes {
    format!("a#{day}#{table}").into()
}

fn day_and_table(name: &[u8]) -> Option<(i64, u32)> {
    let (day, table) = std::str::from_utf8(name).ok()?.strip_prefix("a#")?.split_once('#')?;
    Some((day.parse().ok()?, table.parse().ok()?))
}

fn text(seen: &Seen) -> String {
    let Seen { whole_scans, families, ends, row_cells, row_bytes, cell } = seen;
    let scans = whole_scans.iter().map(|of| json!([of.columns, of.equal, of.scans, of.bytes, of.in_vain]));
    let families = families.iter().map(|of| {
        let names = of.families.as_ref().map(|names| names.iter().map(FamilyName::as_str).collect::<Vec<_>>());
        json!([names, of.scans])
    });
    let cell = cell.as_ref().map(|cell| json!([cell.family.as_str(), &cell.qualifier, cell.bytes]));
    json!({
        "scans": scans.collect::<Vec<_>>(), "families": families.collect::<Vec<_>>(),
        "ends": [ends.rows, ends.above, ends.below], "row": [row_cells, row_bytes], "cell": cell,
    })
    .to_string()
}

/// What a text of the store says; `None` for one that another version has written in another form.
fn seen_of(text: &str) -> Option<Seen> {
    let value: Value = serde_json::from_str(text).ok()?;
    let names = |value: &Value| -> Option<BTreeSet<String>> {
        value.as_array()?.iter().map(|name| Some(name.as_str()?.to_owned())).collect()
    };
    let scan = |of: &Value| {
        let (columns, equal) = (names(of.get(0)?)?, names(of.get(1)?)?);
        let [scans, bytes, in_vain] = [of.get(2)?.as_u64()?, of.get(3)?.as_u64()?, of.get(4)?.as_u64()?];
        Some(WholeScans { columns, equal, scans, bytes, in_vain })
    };
    let family = |name: &Value| FamilyName::new(name.as_str()?).ok();
    let reads = |of: &Value| {
        let families = match of.get(0)? {
            Value::Null => None,
            names => Some(names.as_array()?.iter().map(family).collect::<Option<_>>()?),
        };
        Some(FamilyReads { families, scans: of.get(1)?.as_u64()? })
    };
    let number = |list: &str, at: usize| value.get(list)?.get(at)?.as_u64();
    let cell = match value.get("cell")? {
        Value::Null => None,
        cell => {
            let qualifier = cell.get(1)?.as_array()?.iter();
            let qualifier = qualifier.map(|byte| u8::try_from(byte.as_u64()?).ok()).collect::<Option<_>>()?;
            Some(LargestCell { family: family(cell.get(0)?)?, qualifier, bytes: cell.get(2)?.as_u64()? })
        }
    };
    Some(Seen {
        whole_scans: value.get("scans")?.as_array()?.iter().map(scan).collect::<Option<_>>()?,
        families: value.get("families")?.as_array()?.iter().map(reads).collect::<Option<_>>()?,
        ends: Ends { rows: number("ends", 0)?, above: number("ends", 1)?, below: number("ends", 2)? },
        row_cells: number("row", 0)?,
        row_bytes: number("row", 1)?,
        cell,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn family(name: &str) -> FamilyName {
        FamilyName::new(name).unwrap()
    }

    #[test]
    fn rows_are_read_as_they_were_written() {
        let seen = Seen {
            whole_scans: vec![WholeScans {
                columns: ["a".to_owned(), "ä \"b\"".to_owned()].into(),
                equal: ["a".to_owned()].into(),
                scans: 3,
                bytes: u64::MAX,
                in_vain: 5,
            }],
            families: vec![
                FamilyReads { families: None, scans: 1 },
                FamilyReads { families: Some(vec![family("m"), family("n")]), scans: 2 },
                FamilyReads { families: Some(vec![]), scans: 4 },
            ],
            ends: Ends { rows: 9, above: 8, below: 1 },
            row_cells: 300,
            row_bytes: 4_000,
            cell: Some(LargestCell { family: family("m"), qualifier: vec![0, 255, b'#'], bytes: 7 }),
        };
        for seen in [seen, Seen::default()] {
            assert_eq!(seen_of(&text(&seen)), Some(seen));
        }
        for other in ["", "{}", "[]", "{\"scans\": 1}", &text(&Seen::default()).replace("null", "7")] {
            assert_eq!(seen_of(other), None, "{other}");
        }
        assert_eq!(day_and_table(b"a#20784#16390"), Some((20_784, 16_390)));
        for other in ["0#000029654321", "a#1", "a#x#1", "a#1#x"] {
            assert_eq!(day_and_table(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn little_is_not_kept() {
        assert!(!is_worth_keeping(&Seen::default()));
        let reads = |scans| Seen { families: vec![FamilyReads { families: None, scans }], ..Seen::default() };
        assert!(!is_worth_keeping(&reads(15)) && is_worth_keeping(&reads(16)));
        let written = |rows| Seen { ends: Ends { rows, ..Ends::default() }, ..Seen::default() };
        assert!(!is_worth_keeping(&written(1_023)) && is_worth_keeping(&written(1_024)));
    }
}
