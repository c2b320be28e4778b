//! The past in a table of the store: a row for each period and tenant, a line for each cell.
//!
//! ```text
//! 0#000029654321   16390 16385 616c746f2361 616c746f2362 12 0 1024 0
//!                  table, tenant or -, from, to or - (both in hex), reads, writes, bytes read, bytes written
//! ```

use super::{
    Heat,
    cells::{Cell, Counts},
    history::{LAYERS, Period},
};
use bytes::Bytes;
use futures::StreamExt;
use keyspan_catalog::{Catalog, Snapshot, TenantId, tenant_store::HeatRow};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

/// Commits of tenants under way at a time.
const COMMITS_MAX: usize = 8;

/// The rows that are stored, by the OIDs of tenants.
pub(super) type Stored = BTreeSet<(Option<u32>, Period)>;

impl Heat {
    /// Takes what was stored before the server's start. What is no heat is left out.
    pub(crate) async fn load(&self, catalog: &Catalog, rows: &[HeatRow], now_micros: i64) {
        let snapshot = catalog.snapshot();
        // The purge of what they have erased deletes it.
        let erased: BTreeSet<TenantId> = snapshot.pending_erasures().into_iter().filter_map(|(id, ..)| id).collect();
        let mut stored = self.stored.lock().await;
        let mut history = self.history.lock();
        for row in rows {
            let Some(period) = period(&row.name) else { continue };
            let tenant = match &row.tenant {
                Some(id) => match snapshot.tenant(id.as_str()).filter(|_| !erased.contains(id)) {
                    Some(tenant) => Some(tenant.oid),
                    None => continue,
                },
                None => None,
            };
            // Rows of an earlier tenant of that name are none of its own.
            let cells = cells(&row.value).filter(|cell| cell.tenant == tenant).collect();
            history.add(period, cells);
            stored.insert((tenant, period));
        }
        drop(history.take_changes());
        history.age(now_micros);
    }

    /// Stores the periods that have changed. What fails is tried again with the next.
    pub(crate) async fn store(&self, catalog: &Catalog) {
        let mut stored = self.stored.lock().await;
        let changes = self.history.lock().take_changes();
        if changes.is_empty() {
            return;
        }
        let snapshot = catalog.snapshot();
        let mut by_tenant: BTreeMap<Option<u32>, BTreeMap<Period, Vec<Cell>>> = BTreeMap::new();
        for (period, cells) in changes {
            // Those that are stored of the period and have no cell any more are deleted.
            for (tenant, _) in stored.iter().filter(|(_, of)| *of == period) {
                by_tenant.entry(*tenant).or_default().entry(period).or_default();
            }
            for cell in cells {
                by_tenant.entry(cell.tenant).or_default().entry(period).or_default().push(cell);
            }
        }
        let writes = by_tenant.into_iter().map(|(oid, periods)| self.store_of(catalog, &snapshot, oid, periods));
        let done: Vec<_> = futures::stream::iter(writes).buffer_unordered(COMMITS_MAX).collect().await;
        for (oid, period, is_there) in done.into_iter().flatten() {
            if is_there {
                stored.insert((oid, period))
            } else {
                stored.remove(&(oid, period))
            };
        }
    }

    /// Stores periods of a tenant: which of them are stored now.
    async fn store_of(
        &self,
        catalog: &Catalog,
        snapshot: &Snapshot,
        oid: Option<u32>,
        periods: BTreeMap<Period, Vec<Cell>>,
    ) -> Vec<(Option<u32>, Period, bool)> {
        let tenant = oid.map(|oid| snapshot.tenant_by_oid(oid));
        if tenant == Some(None) {
            // Its rows have gone with it.
            return periods.into_keys().map(|period| (oid, period, false)).collect();
        }
        let value = |cells: &Vec<Cell>| (!cells.is_empty()).then(|| Bytes::from(text(cells)));
        let rows = periods.iter().map(|(period, cells)| (name(*period), value(cells))).collect();
        match catalog.put_heat(tenant.flatten(), rows).await {
            Ok(()) => periods.into_iter().map(|(period, cells)| (oid, period, !cells.is_empty())).collect(),
            Err(error) => {
                tracing::debug!(%error, ?oid, "the heat of keys was not stored");
                let mut history = self.history.lock();
                periods.keys().for_each(|period| history.has_changed(*period));
                Vec::new()
            }
        }
    }

    /// Forgets the keys of a tenant, also in the store: some of its rows are erased.
    pub(crate) async fn forget_tenant(&self, catalog: &Catalog, oid: u32) {
        self.retain(|_| true, |tenant| tenant != oid);
        self.store(catalog).await;
    }
}

fn name(period: Period) -> Bytes {
    format!("{}#{:012}", period.layer, period.minute).into()
}

fn period(name: &[u8]) -> Option<Period> {
    let (layer, minute) = std::str::from_utf8(name).ok()?.split_once('#')?;
    let layer = layer.parse().ok().filter(|layer| *layer < LAYERS.len())?;
    Some(Period { layer, minute: minute.parse().ok()? })
}

fn text(cells: &[Cell]) -> String {
    let mut text = String::new();
    for cell in cells {
        // Writing to a String does not fail.
        let _ = write!(text, "{} ", cell.table);
        match cell.tenant {
            Some(tenant) => drop(write!(text, "{tenant} ")),
            None => text.push_str("- "),
        }
        hex(&mut text, &cell.from);
        text.push(' ');
        match &cell.to {
            Some(to) => hex(&mut text, to),
            None => text.push('-'),
        }
        for count in cell.counts.array() {
            let _ = write!(text, " {count}");
        }
        text.push('\n');
    }
    text
}

/// The empty key is `.`, so that every word has a character.
fn hex(text: &mut String, key: &[u8]) {
    if key.is_empty() {
        text.push('.');
    }
    for byte in key {
        let _ = write!(text, "{byte:02x}");
    }
}

/// The cells of a value; lines that are none are left out.
fn cells(value: &[u8]) -> impl Iterator<Item = Cell> {
    let text = std::str::from_utf8(value).unwrap_or_default();
    text.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let table = words.next()?.parse().ok()?;
        let tenant = match words.next()? {
            "-" => None,
            oid => Some(oid.parse().ok()?),
        };
        let from = key(words.next()?)?;
        let to = match words.next()? {
            "-" => None,
            to => Some(key(to)?),
        };
        let mut count = || words.next()?.parse().ok();
        let counts = Counts::of_array([count()?, count()?, count()?, count()?]);
        to.as_ref().is_none_or(|to| from < *to).then_some(Cell { table, tenant, from, to, counts })
    })
}

fn key(hex: &str) -> Option<Bytes> {
    if hex == "." {
        return Some(Bytes::new());
    }
    let pairs = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok());
    pairs.map(|pair| u8::from_str_radix(pair.filter(|pair| pair.len() == 2)?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_and_periods_are_read_as_they_were_written() {
        let counts = Counts { reads: 1, writes: 0, bytes_read: u64::MAX, bytes_written: 7 };
        let written = vec![
            Cell { table: 1, tenant: None, from: Bytes::new(), to: Some("a".into()), counts },
            Cell { table: 1, tenant: Some(7), from: "a".into(), to: Some(Bytes::from_static(b"\0\xff #")), counts },
            Cell { table: 9, tenant: Some(7), from: Bytes::from_static(b"\0"), to: None, counts },
        ];
        let kept: Vec<Cell> =
            written.iter().filter(|cell| cell.to.as_ref().is_none_or(|to| cell.from < *to)).cloned().collect();
        assert_eq!(cells(text(&written).as_bytes()).collect::<Vec<_>>(), kept);
        assert_eq!(kept.len(), 2);
        for other in ["", "1", "1 - a b 1 2 3 4", "1 - 61 62 1 2 3", "x - 61 62 1 2 3 4", "1 - 6 62 1 2 3 4"] {
            assert_eq!(cells(other.as_bytes()).count(), 0, "{other}");
        }
        let one = Period { layer: 3, minute: 29_654_320 };
        assert_eq!(period(&name(one)), Some(one));
        for other in ["", "4#1", "x#1", "1", "1#x"] {
            assert_eq!(period(other.as_bytes()), None, "{other}");
        }
    }
}
