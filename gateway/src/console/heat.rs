//! The heat of a table as a map: columns of time, borders of keys, and cells between two borders.
//!
//! ```text
//! {"tables": [{"oid": 16390, "name": "readings"}], "table": 16390,
//!  "from": 1764108000000, "width": 60000, "slots": 60, "now": …,          milliseconds
//!  "borders": ["", "alto#", "alto$"],                                      null for the end of all keys
//!  "tenants": [[1, 2, "alto"]],                                            between the borders 1 and 2
//!  "columns": [{"from": 1764108000000, "cells": [[1, 2, reads, writes, bytes read, bytes written]]}]}
//! ```

use crate::{
    heat::{
        cells::{self, Cell, Counts},
        history::{MINUTE_MICROS, Period},
    },
    instance::Instance,
};
use bytes::Bytes;
use keyspan_catalog::{Snapshot, TableId, TenantState, key::key_text};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Cells of a column.
const CELLS_MAX: usize = 256;
/// Tables that can be chosen, the hottest of them.
const TABLES_MAX: usize = 100;

/// How much of the past is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    name: &'static str,
    /// The minutes of a column, and how many columns there are.
    minutes: i64,
    slots: i64,
}

impl Span {
    const ALL: [Self; 4] = [
        Self { name: "hour", minutes: 1, slots: 60 },
        Self { name: "half_day", minutes: 15, slots: 48 },
        Self { name: "days", minutes: 60, slots: 72 },
        Self { name: "month", minutes: 12 * 60, slots: 62 },
    ];

    /// The one of this name; without a name an hour.
    pub(crate) fn of(name: Option<&str>) -> Option<Self> {
        let name = name.unwrap_or(Self::ALL[0].name);
        Self::ALL.into_iter().find(|span| span.name == name)
    }

    /// The first minute of the column of a minute.
    fn column(self, minute: i64) -> i64 {
        minute.div_euclid(self.minutes) * self.minutes
    }

    /// The first minute that is shown.
    fn first(self, now: Period) -> i64 {
        self.column(now.minute) - (self.slots - 1) * self.minutes
    }
}

/// The map of a table; without a table, or if it has no heat, of the hottest.
pub(crate) fn heat(instance: &Instance, span: Span, table: Option<u32>) -> Value {
    let snapshot = instance.catalog.snapshot();
    let now_micros = instance.clock.now_micros();
    let now = Period::minute_of(now_micros);
    let first = span.first(now);
    let active = snapshot.tenants.values().filter(|tenant| tenant.state == TenantState::Active);
    let tenants: HashMap<u32, &str> = active.map(|tenant| (tenant.oid, tenant.id.as_str())).collect();
    let is_shown = |period: Period, cell: &Cell| {
        period.minute >= first && cell.tenant.is_none_or(|tenant| tenants.contains_key(&tenant))
    };
    let found = instance.heat.cells(now, is_shown);
    let tables = tables(&snapshot, &tenants, &found);
    let table = table.filter(|oid| tables.iter().any(|(known, _)| known == oid));
    let table = table.or_else(|| tables.first().map(|(oid, _)| *oid));
    let mut columns: BTreeMap<i64, Vec<Cell>> = BTreeMap::new();
    for (period, cell) in found.into_iter().filter(|(_, cell)| Some(cell.table) == table) {
        columns.entry(span.column(period.minute)).or_default().push(cell);
    }
    let columns: Vec<(i64, Vec<Cell>)> =
        columns.into_iter().map(|(minute, column)| (minute, cells::reduce(cells::fold(column), CELLS_MAX))).collect();
    let millis = |minute: i64| minute * (MINUTE_MICROS / 1_000);
    let (borders, bands, columns) = drawn(&columns, &tenants, millis);
    json!({
        "tables": tables.iter().map(|(oid, name)| json!({"oid": oid, "name": name})).collect::<Vec<_>>(),
        "table": table, "from": millis(first), "width": millis(span.minutes), "slots": span.slots,
        "now": now_micros / 1_000, "borders": borders, "tenants": bands, "columns": columns,
    })
}

/// The tables that have heat, the hottest first, with their names; those of a tenant with its name.
fn tables(snapshot: &Snapshot, tenants: &HashMap<u32, &str>, found: &[(Period, Cell)]) -> Vec<(u32, String)> {
    let mut rows: HashMap<u32, (u64, Option<u32>)> = HashMap::new();
    for (_, cell) in found {
        let known = rows.entry(cell.table).or_default();
        *known = (known.0.saturating_add(cell.counts.rows()), known.1.or(cell.tenant));
    }
    let name = |oid: u32, tenant: Option<u32>| {
        if let Some(shared) = snapshot.tables.get(&TableId(oid)) {
            return Some(shared.name.clone());
        }
        let tenant = tenants.get(&tenant?)?;
        let own = snapshot.private.iter().find(|(id, _)| id.as_str() == *tenant)?.1;
        let view = || own.views.get(&oid).map(|view| &view.name);
        let name = own.tables.get(&TableId(oid)).map(|table| &table.name).or_else(view)?;
        Some(format!("{tenant}: {name}"))
    };
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_by_key(|(oid, (rows, _))| (std::cmp::Reverse(*rows), *oid));
    let named = rows.into_iter().filter_map(|(oid, (_, tenant))| Some((oid, name(oid, tenant)?)));
    named.take(TABLES_MAX).collect()
}

type Drawn = (Vec<Option<String>>, Vec<(usize, usize, String)>, Vec<Value>);

/// Borders, bands of tenants and columns, each cell by the places of its borders.
fn drawn(columns: &[(i64, Vec<Cell>)], tenants: &HashMap<u32, &str>, millis: impl Fn(i64) -> i64) -> Drawn {
    let all = || columns.iter().flat_map(|(_, cells)| cells);
    let keys: BTreeSet<&Bytes> = all().flat_map(|cell| [Some(&cell.from), cell.to.as_ref()]).flatten().collect();
    let keys: Vec<&Bytes> = keys.into_iter().collect();
    // The end of all keys comes behind them.
    let place = |key: Option<&Bytes>| key.map_or(keys.len(), |key| keys.partition_point(|known| *known < key));
    let mut bands: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
    for cell in all() {
        let Some(tenant) = cell.tenant else { continue };
        let (from, to) = (place(Some(&cell.from)), place(cell.to.as_ref()));
        let band = bands.entry(tenant).or_insert((from, to));
        *band = (band.0.min(from), band.1.max(to));
    }
    let mut bands: Vec<(usize, usize, String)> = bands
        .into_iter()
        .filter_map(|(tenant, (from, to))| Some((from, to, (*tenants.get(&tenant)?).to_owned())))
        .collect();
    bands.sort();
    let column = |(minute, cells): &(i64, Vec<Cell>)| {
        let one = |cell: &Cell| {
            let Counts { reads, writes, bytes_read, bytes_written } = cell.counts;
            json!([place(Some(&cell.from)), place(cell.to.as_ref()), reads, writes, bytes_read, bytes_written])
        };
        json!({"from": millis(*minute), "cells": cells.iter().map(one).collect::<Vec<_>>()})
    };
    let columns_drawn = columns.iter().map(column).collect();
    let mut borders: Vec<Option<String>> = keys.iter().map(|key| Some(key_text(key))).collect();
    if all().any(|cell| cell.to.is_none()) {
        borders.push(None);
    }
    (borders, bands, columns_drawn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn cell(tenant: Option<u32>, from: &'static str, to: Option<&'static str>, reads: u64) -> Cell {
        let counts = Counts { reads, ..Counts::default() };
        Cell { table: 1, tenant, from: from.into(), to: to.map(Bytes::from), counts }
    }

    #[test]
    fn cells_are_drawn_between_borders() {
        let columns = [
            (60, vec![cell(None, "", Some("a#"), 1), cell(Some(7), "a#", Some("a$"), 5)]),
            (61, vec![cell(Some(7), "a#k", Some("a$"), 2), cell(None, "a$", None, 3)]),
        ];
        let (borders, bands, columns) = drawn(&columns, &HashMap::from([(7, "a")]), |minute| minute);
        let text = format!("{borders:?}\n{bands:?}\n{}", Value::from(columns));
        expect![[r#"
            [Some(""), Some("a#"), Some("a#k"), Some("a$"), None]
            [(1, 3, "a")]
            [{"cells":[[0,1,1,0,0,0],[1,3,5,0,0,0]],"from":60},{"cells":[[2,3,2,0,0,0],[3,4,3,0,0,0]],"from":61}]"#]]
        .assert_eq(&text);
        let nothing = drawn(&[], &HashMap::new(), |minute| minute);
        assert_eq!(nothing, (Vec::new(), Vec::new(), Vec::new()));
    }

    #[test]
    fn columns_end_with_the_running_one() {
        for span in Span::ALL {
            let now = Period { layer: 0, minute: 29_654_321 };
            let last = span.first(now) + (span.slots - 1) * span.minutes;
            assert!(last <= now.minute && now.minute < last + span.minutes, "{span:?}");
            assert_eq!(Span::of(Some(span.name)), Some(span));
        }
        assert_eq!((Span::of(None), Span::of(Some("year"))), (Some(Span::ALL[0]), None));
    }
}
