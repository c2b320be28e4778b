//! What tenants have used in the last day, over restarts: the lines of [`usage`](super::usage), in a row of the store
//! for each hour and tenant.
//!
//! ```text
//! statements ──► Counters ──► Minutes    ──► every ten minutes, and at the end: "u#482013" = a line for each minute
//!                             Minutes    ◄── at the start
//! ```
//!
//! The rows lie among those of the heat of keys, in the span of the tenant, and go with it. Those of hours that no line
//! is left of are deleted. They have numbers only, nothing of keys or values: an erasure takes them from the store with
//! all else that lies there, and they are stored again ([`Hours::store_again`]).

use super::{
    Shares,
    stored::{self, Rows},
    usage::{Amounts, Line, MINUTE_MICROS},
};
use keyspan_catalog::{Catalog, tenant_store::HeatRow};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

/// How often what was used is stored: what a crash may lose.
const STORE_EVERY_MICROS: i64 = 10 * 60 * 1_000_000;
/// Rows that are kept; what is used beyond is known until the server ends.
const ROWS_MAX: usize = 16_384;
const HOUR_MICROS: i64 = 60 * MINUTE_MICROS;

/// What is stored.
#[derive(Debug, Default)]
pub struct Hours(tokio::sync::Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// By the hour since 1970: its last line, by which it is known whether the row has all of them.
    rows: Rows<i64, Line>,
    /// When it was stored last, in microseconds.
    stored_micros: i64,
}

impl Hours {
    /// Takes what was stored before the server's start. What cannot be read is left out: it is no reason not to start.
    pub(crate) async fn load(&self, catalog: &Catalog, rows: &[HeatRow], shares: &Shares, now_micros: i64) {
        let snapshot = catalog.snapshot();
        let mut kept = self.0.lock().await;
        let mut lines: BTreeMap<u32, Vec<Line>> = BTreeMap::new();
        for (oid, row) in stored::with_oids(rows, &snapshot) {
            let Some(hour) = hour_of(&row.name) else { continue };
            let of_hour = lines_of(hour, oid, &row.value);
            // One without lines of the tenant is no hour that is wanted: it goes.
            kept.rows.insert((oid, hour), of_hour.last().copied().unwrap_or_default());
            lines.entry(oid).or_default().extend(of_hour);
        }
        kept.stored_micros = now_micros;
        for (oid, mut lines) in lines {
            lines.sort_by_key(|line| line.minute_micros);
            shares.of((oid != 0).then_some(oid)).minutes.lock().remember(lines);
        }
    }

    /// Stores what was used, from time to time or at once. What fails is tried again.
    pub(crate) async fn keep(&self, catalog: &Catalog, shares: &Shares, now_micros: i64, at_once: bool) {
        let mut kept = self.0.lock().await;
        if now_micros < kept.stored_micros.saturating_add(STORE_EVERY_MICROS) && !at_once {
            return;
        }
        let (mut wanted, mut changes) = (BTreeSet::new(), Vec::new());
        for share in shares.all() {
            let lines = share.minutes.lock().lines(share.counters.amounts(), now_micros);
            for lines in lines.chunk_by(|one, next| hour(one) == hour(next)) {
                let Some(last) = lines.last() else { continue };
                let name = (share.flow(), hour(last));
                if !kept.rows.contains_key(&name) && wanted.len() >= ROWS_MAX {
                    continue;
                }
                wanted.insert(name);
                if kept.rows.get(&name) != Some(last) {
                    changes.push((name, Some((*last, text(share.flow(), lines).into()))));
                }
            }
        }
        changes.extend(kept.rows.keys().filter(|name| !wanted.contains(name)).map(|name| (*name, None)));
        stored::store(catalog, &mut kept.rows, changes, |hour| format!("u#{hour}").into()).await;
        kept.stored_micros = now_micros;
    }

    /// Takes it that nothing is stored any more: a purge of what was erased took it.
    pub(crate) async fn store_again(&self) {
        let mut kept = self.0.lock().await;
        kept.rows.clear();
        kept.stored_micros = 0;
    }
}

fn hour(line: &Line) -> i64 {
    line.minute_micros.div_euclid(HOUR_MICROS)
}

fn hour_of(name: &[u8]) -> Option<i64> {
    std::str::from_utf8(name).ok()?.strip_prefix("u#")?.parse().ok()
}

/// The tenant's OID, then a line for each minute: its number in the hour, the amounts, the stored bytes or `-`.
fn text(oid: u32, lines: &[Line]) -> String {
    let mut text = format!("{oid}\n");
    for line in lines {
        let minute = line.minute_micros.rem_euclid(HOUR_MICROS) / MINUTE_MICROS;
        // Writing to a String does not fail.
        let _ = write!(text, "{minute}");
        for amount in line.amounts.array() {
            let _ = write!(text, " {amount}");
        }
        match line.stored_bytes {
            Some(bytes) => drop(writeln!(text, " {bytes}")),
            None => text.push_str(" -\n"),
        }
    }
    text
}

/// The lines of a value, if it is the tenant's: an earlier one of the same name had another OID. What is no line is
/// left out.
fn lines_of(hour: i64, oid: u32, value: &[u8]) -> Vec<Line> {
    let mut lines = std::str::from_utf8(value).unwrap_or_default().lines();
    if lines.next().and_then(|first| first.parse().ok()) != Some(oid) {
        return Vec::new();
    }
    let one = |line: &str| {
        let mut words = line.split(' ');
        let minute: i64 = words.next()?.parse().ok().filter(|minute| (0..60).contains(minute))?;
        let mut amounts = Amounts::default().array();
        for amount in &mut amounts {
            *amount = words.next()?.parse().ok()?;
        }
        let stored_bytes = match words.next()? {
            "-" => None,
            bytes => Some(bytes.parse().ok()?),
        };
        let minute_micros = hour.checked_mul(HOUR_MICROS)?.checked_add(minute * MINUTE_MICROS)?;
        Some(Line { minute_micros, amounts: Amounts::of_array(amounts), stored_bytes })
    };
    lines.filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_were_written() {
        let line = |minute: i64, stored_bytes| Line {
            minute_micros: 482_013 * HOUR_MICROS + minute * MINUTE_MICROS,
            amounts: Amounts::of_array([1, 2, 3, 4, 5, 6, u64::MAX, 8]),
            stored_bytes,
        };
        let lines = [line(0, None), line(7, Some(9)), line(59, Some(0))];
        let written = text(7, &lines);
        assert_eq!(lines_of(482_013, 7, written.as_bytes()), lines);
        assert_eq!(lines_of(482_013, 8, written.as_bytes()), [], "an earlier tenant's");
        for other in ["", "7", "7\n60 1 2 3 4 5 6 7 8 -", "7\n1 2 3", "7\n1 1 2 3 4 5 6 7 x -", "7\n1 1 2 3 4 5 6 7 8"]
        {
            assert_eq!(lines_of(1, 7, other.as_bytes()), [], "{other}");
        }
        assert_eq!(hour_of(b"u#482013"), Some(482_013));
        for other in ["0#000029654321", "a#1#2", "u#", "u#x"] {
            assert_eq!(hour_of(other.as_bytes()), None, "{other}");
        }
    }
}
