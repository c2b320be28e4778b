//! What was read and written of ranges of keys in one period: values, and how periods are joined. Pure.
//!
//! The cells of a period are sorted by table and key and do not overlap; what was not touched has none. [`fold`] joins
//! periods whose borders differ: it cuts all cells at all borders, each into even parts, and adds up what lies on one
//! another. [`reduce`] then merges neighbours, the coldest first, until few enough are left. Neither loses a count.
//!
//! A cell that is no tenant's has borders at tenants' spans only: no key of a tenant is told outside of its own cells.

use bytes::Bytes;
use keyspan_catalog::tenant_store::span_at;
use keyspan_storage::KeyRange;
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

/// Reads and writes of rows, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) bytes_read: u64,
    pub(crate) bytes_written: u64,
}

impl Counts {
    pub(crate) fn array(self) -> [u64; 4] {
        [self.reads, self.writes, self.bytes_read, self.bytes_written]
    }

    pub(crate) fn of_array([reads, writes, bytes_read, bytes_written]: [u64; 4]) -> Self {
        Self { reads, writes, bytes_read, bytes_written }
    }

    /// The sum of both.
    pub(crate) fn and(self, more: Self) -> Self {
        let (mut sum, more) = (self.array(), more.array());
        for (sum, more) in sum.iter_mut().zip(more) {
            *sum = sum.saturating_add(more);
        }
        Self::of_array(sum)
    }

    pub(crate) fn is_none(self) -> bool {
        self == Self::default()
    }

    /// What makes a range hot: rows that were read and written.
    pub(crate) fn rows(self) -> u64 {
        self.reads.saturating_add(self.writes)
    }

    /// The share of the places `from..to` of `all` places. The shares of ranges that cover all places add up to it.
    pub(crate) fn share(self, from: usize, to: usize, all: usize) -> Self {
        let until = |count: u64, place: usize| u64::try_from(u128::from(count) * place as u128 / all as u128);
        Self::of_array(self.array().map(|count| {
            let (before, with) = (until(count, from).unwrap_or(count), until(count, to).unwrap_or(count));
            with.saturating_sub(before)
        }))
    }
}

/// A range of keys of a table, as the store has them, and what was done to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) table: u32,
    /// The OID of the tenant in whose span it lies; `None` if it may lie in those of several.
    pub(crate) tenant: Option<u32>,
    /// Inclusive.
    pub(crate) from: Bytes,
    /// Exclusive; `None` for no end.
    pub(crate) to: Option<Bytes>,
    pub(crate) counts: Counts,
}

/// An end of a range, which is a place even if it is no key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Border {
    Key(Bytes),
    End,
}

impl Border {
    fn of(to: Option<&Bytes>) -> Self {
        to.map_or(Self::End, |to| Self::Key(to.clone()))
    }

    fn key(&self) -> Option<Bytes> {
        match self {
            Self::Key(key) => Some(key.clone()),
            Self::End => None,
        }
    }
}

/// The cells of several periods as those of one. Of one table and key there is one cell.
pub(crate) fn fold(cells: impl IntoIterator<Item = Cell>) -> Vec<Cell> {
    let mut by_table: BTreeMap<u32, Vec<Cell>> = BTreeMap::new();
    for cell in cells {
        by_table.entry(cell.table).or_default().push(cell);
    }
    let mut folded = Vec::new();
    for (table, cells) in by_table {
        let mut borders = BTreeSet::new();
        let mut spans: BTreeMap<Bytes, (KeyRange, Option<u32>)> = BTreeMap::new();
        for cell in &cells {
            borders.insert(Border::Key(cell.from.clone()));
            borders.insert(Border::of(cell.to.as_ref()));
            let Some((tenant, span)) = cell.tenant.zip(span_at(&cell.from)) else { continue };
            borders.insert(Border::Key(span.start.clone()));
            borders.insert(Border::of(span.end.as_ref()));
            // Of two tenants that had the name one after the other it is neither's.
            let known = spans.entry(span.start.clone()).or_insert((span, Some(tenant)));
            known.1 = known.1.filter(|known| *known == tenant);
        }
        // What lies in the span of a tenant is the tenant's.
        let owner = |from: &Bytes| {
            let (_, (span, tenant)) = spans.range(..=from.clone()).next_back()?;
            tenant.filter(|_| span.contains(from))
        };
        let mut parts: BTreeMap<Border, Cell> = BTreeMap::new();
        for cell in cells {
            let (from, to) = (Border::Key(cell.from.clone()), Border::of(cell.to.as_ref()));
            let within: Vec<&Border> = borders.range((Bound::Included(from), Bound::Included(to))).collect();
            let count = within.len().saturating_sub(1);
            for (at, pair) in within.windows(2).enumerate() {
                let counts = cell.counts.share(at, at + 1, count);
                let Some(from) = pair[0].key() else { continue };
                let tenant = owner(&from);
                let empty = Cell { table, tenant, from, to: pair[1].key(), counts: Counts::default() };
                let part = parts.entry(pair[0].clone()).or_insert(empty);
                part.counts = part.counts.and(counts);
            }
        }
        folded.extend(parts.into_values().filter(|part| !part.counts.is_none()));
    }
    folded
}

/// Merges neighbours until there are at most `most`: those of one tenant before those of several, the coldest first.
/// Ranges of different tables stay apart, so that as many are left as there are tables.
pub(crate) fn reduce(mut cells: Vec<Cell>, most: usize) -> Vec<Cell> {
    while cells.len() > most {
        let is_same = |one: &Cell, other: &Cell| one.table == other.table && one.tenant == other.tenant;
        let pair = |at: &usize| {
            let (one, other) = (&cells[*at], &cells[at + 1]);
            // Of several tenants only whole ones.
            let is_first = *at == 0 || one.tenant.is_none() || !is_same(&cells[at - 1], one);
            let is_last = other.tenant.is_none() || cells.get(at + 2).is_none_or(|next| !is_same(other, next));
            one.table == other.table && (one.tenant == other.tenant || is_first && is_last)
        };
        let cost = |at: &usize| {
            let (one, other) = (&cells[*at], &cells[at + 1]);
            (one.tenant != other.tenant, one.counts.rows().saturating_add(other.counts.rows()))
        };
        let Some(at) = (0..cells.len().saturating_sub(1)).filter(pair).min_by_key(cost) else { break };
        let mut other = cells.remove(at + 1);
        let one = &mut cells[at];
        if one.tenant != other.tenant {
            one.widen();
            other.widen();
            one.tenant = None;
        }
        one.counts = one.counts.and(other.counts);
        one.to = other.to;
    }
    cells
}

impl Cell {
    /// Widens a tenant's cell to the whole span.
    fn widen(&mut self) {
        if let Some(span) = self.tenant.and_then(|_| span_at(&self.from)) {
            (self.from, self.to) = (span.start, span.end);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    pub(crate) fn total(cells: &[Cell]) -> Counts {
        cells.iter().fold(Counts::default(), |sum, cell| sum.and(cell.counts))
    }

    pub(crate) fn are_sorted_and_disjoint(cells: &[Cell]) -> bool {
        let ends = |cell: &Cell| cell.to.as_ref().is_none_or(|to| cell.from < *to);
        let follows = |pair: &[Cell]| {
            let (one, other) = (&pair[0], &pair[1]);
            one.table < other.table || one.table == other.table && one.to.as_ref().is_some_and(|to| *to <= other.from)
        };
        cells.iter().all(ends) && cells.windows(2).all(follows)
    }

    pub(crate) fn text(cells: &[Cell]) -> String {
        let one = |cell: &Cell| {
            let to = cell.to.as_ref().map_or_else(|| "end".to_owned(), |to| to.escape_ascii().to_string());
            let Counts { reads, writes, bytes_read, bytes_written } = cell.counts;
            let tenant = cell.tenant.map_or_else(|| "-".to_owned(), |tenant| tenant.to_string());
            let from = cell.from.escape_ascii();
            format!("{}/{tenant} [{from}..{to}) {reads} {writes} {bytes_read} {bytes_written}", cell.table)
        };
        cells.iter().map(one).collect::<Vec<_>>().join("\n")
    }

    fn cell(table: u32, tenant: Option<u32>, from: &str, to: &str, reads: u64) -> Cell {
        let to = (to != "end").then(|| Bytes::copy_from_slice(to.as_bytes()));
        let counts = Counts { reads, bytes_read: reads * 10, ..Counts::default() };
        Cell { table, tenant, from: Bytes::copy_from_slice(from.as_bytes()), to, counts }
    }

    fn check(cells: Vec<Cell>, most: usize, expected: Expect) {
        expected.assert_eq(&text(&reduce(fold(cells), most)));
    }

    #[test]
    fn borders_that_differ_cut_into_even_parts() {
        let wide = cell(1, None, "", "end", 10);
        check(
            vec![wide.clone(), cell(1, Some(7), "b#k", "b#l", 5)],
            9,
            expect![[r#"
            1/- [..b#) 2 0 20 0
            1/7 [b#..b#k) 2 0 20 0
            1/7 [b#k..b#l) 7 0 70 0
            1/7 [b#l..b$) 2 0 20 0
            1/- [b$..end) 2 0 20 0"#]],
        );
        check(
            vec![cell(1, Some(7), "b#", "b$", 5), cell(1, Some(8), "b#", "b$", 1)],
            9,
            expect!["1/- [b#..b$) 6 0 60 0"],
        );
        check(
            vec![wide, cell(2, None, "", "end", 1)],
            1,
            expect![[r#"
            1/- [..end) 10 0 100 0
            2/- [..end) 1 0 10 0"#]],
        );
    }

    #[test]
    fn the_coldest_of_one_tenant_are_merged_first() {
        let cells = || {
            vec![
                cell(1, Some(7), "a#a", "a#b", 90),
                cell(1, Some(7), "a#b", "a#c", 80),
                cell(1, Some(8), "d#d", "d#e", 1),
                cell(1, Some(9), "e#k", "e#m", 1),
            ]
        };
        check(
            cells(),
            3,
            expect![[r#"
            1/7 [a#a..a#c) 170 0 1700 0
            1/8 [d#d..d#e) 1 0 10 0
            1/9 [e#k..e#m) 1 0 10 0"#]],
        );
        check(
            cells(),
            2,
            expect![[r#"
            1/7 [a#a..a#c) 170 0 1700 0
            1/- [d#..e$) 2 0 20 0"#]],
        );
        check(cells(), 1, expect!["1/- [a#..e$) 172 0 1720 0"]);
    }

    /// Cells of one period as the sketch gives them: a tenant's within its span, nobody's at the borders of spans.
    fn any_cells() -> impl Strategy<Value = Vec<Cell>> {
        let cut = (prop::collection::vec(0..9_usize, 0..4), prop::collection::vec(0..50_u64, 9));
        prop::collection::vec((0..3_u32, cut, any::<bool>()), 1..5).prop_map(|made| {
            let mut cells = Vec::new();
            for (tenant, (mut cuts, reads), mixed) in made {
                let id = ["a", "b", "c"][tenant as usize];
                cuts.sort();
                cuts.dedup();
                if mixed {
                    cells.push(cell(1, None, &format!("{id}#"), "c$", reads[0]));
                    continue;
                }
                let mut from = format!("{id}#");
                for at in cuts {
                    let to = format!("{id}#{at}");
                    cells.push(cell(1 + tenant % 2, Some(tenant), &from, &to, reads[at]));
                    from = to;
                }
                cells.push(cell(1 + tenant % 2, Some(tenant), &from, &format!("{id}$"), reads[8]));
            }
            cells
        })
    }

    fn tells_no_key(cell: &Cell) -> bool {
        let is_border = |key: &Bytes| key.is_empty() || key.len() == 2;
        cell.tenant.is_some() || is_border(&cell.from) && cell.to.as_ref().is_none_or(is_border)
    }

    proptest! {
        #[test]
        fn folds_and_merges_keep_totals(cells in any_cells(), most in 2..8_usize) {
            let folded = fold(cells.clone());
            prop_assert_eq!(total(&folded), total(&cells));
            prop_assert!(are_sorted_and_disjoint(&folded), "{}", text(&folded));
            let reduced = reduce(folded.clone(), most);
            prop_assert_eq!(total(&reduced), total(&cells));
            prop_assert!(are_sorted_and_disjoint(&reduced), "{}", text(&reduced));
            prop_assert!(reduced.len() <= most, "{}", text(&reduced));
            prop_assert!(folded.iter().chain(&reduced).all(tells_no_key), "{}", text(&reduced));
            prop_assert_eq!(fold(folded.clone()), folded);
        }

        #[test]
        fn shares_add_up(count in any::<u64>(), cuts in prop::collection::btree_set(1..99_usize, 0..9)) {
            let counts = Counts { reads: count, writes: count / 3, bytes_read: 1, bytes_written: 0 };
            let ends: Vec<usize> = [0].into_iter().chain(cuts).chain([99]).collect();
            let shares = ends.windows(2).map(|pair| counts.share(pair[0], pair[1], 99));
            prop_assert_eq!(shares.fold(Counts::default(), Counts::and), counts);
        }
    }
}
