//! What was read and written of ranges of keys in one period: values, and how periods are joined. Pure.
//!
//! The cells of a period are sorted by table and key and do not overlap; what was not touched has none. [`fold`] joins
//! periods whose borders differ: it cuts all cells at all borders, each into even parts, and adds up what lies on one
//! another. [`reduce`] then merges neighbours, the coldest first, until few enough are left. Neither loses a count.

use bytes::Bytes;
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
        for cell in &cells {
            borders.insert(Border::Key(cell.from.clone()));
            borders.insert(Border::of(cell.to.as_ref()));
        }
        let mut parts: BTreeMap<Border, Cell> = BTreeMap::new();
        for cell in cells {
            let (from, to) = (Border::Key(cell.from.clone()), Border::of(cell.to.as_ref()));
            let within: Vec<&Border> = borders.range((Bound::Included(from), Bound::Included(to))).collect();
            let count = within.len().saturating_sub(1);
            for (at, pair) in within.windows(2).enumerate() {
                let counts = cell.counts.share(at, at + 1, count);
                let Some(from) = pair[0].key() else { continue };
                parts
                    .entry(pair[0].clone())
                    .and_modify(|part| {
                        part.counts = part.counts.and(counts);
                        // A span of a tenant within a range over several is the tenant's; of two tenants that had the
                        // name one after the other it is neither's.
                        part.tenant = match (part.tenant, cell.tenant) {
                            (Some(one), Some(other)) if one != other => None,
                            (one, other) => one.or(other),
                        };
                    })
                    .or_insert_with(|| Cell { table, tenant: cell.tenant, from, to: pair[1].key(), counts });
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
        let pair = |at: &usize| cells[*at].table == cells[at + 1].table;
        let cost = |at: &usize| {
            let (one, other) = (&cells[*at], &cells[at + 1]);
            (one.tenant != other.tenant, one.counts.rows().saturating_add(other.counts.rows()))
        };
        let Some(at) = (0..cells.len().saturating_sub(1)).filter(pair).min_by_key(cost) else { break };
        let other = cells.remove(at + 1);
        let one = &mut cells[at];
        one.counts = one.counts.and(other.counts);
        one.to = other.to;
        one.tenant = one.tenant.filter(|tenant| Some(*tenant) == other.tenant);
    }
    cells
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
        let wide = cell(1, None, "", "end", 9);
        check(
            vec![wide.clone(), cell(1, Some(7), "b", "c", 5)],
            9,
            expect![[r#"
            1/- [..b) 3 0 30 0
            1/7 [b..c) 8 0 80 0
            1/- [c..end) 3 0 30 0"#]],
        );
        check(vec![cell(1, Some(7), "b", "c", 5), cell(1, Some(8), "b", "c", 1)], 9, expect!["1/- [b..c) 6 0 60 0"]);
        check(
            vec![wide, cell(2, None, "", "end", 1)],
            1,
            expect![[r#"
            1/- [..end) 9 0 90 0
            2/- [..end) 1 0 10 0"#]],
        );
    }

    #[test]
    fn the_coldest_of_one_tenant_are_merged_first() {
        let cells = || {
            vec![
                cell(1, Some(7), "a", "b", 90),
                cell(1, Some(7), "b", "c", 80),
                cell(1, Some(8), "d", "e", 1),
                cell(1, Some(9), "e", "f", 1),
            ]
        };
        check(
            cells(),
            3,
            expect![[r#"
            1/7 [a..c) 170 0 1700 0
            1/8 [d..e) 1 0 10 0
            1/9 [e..f) 1 0 10 0"#]],
        );
        check(
            cells(),
            2,
            expect![[r#"
            1/7 [a..c) 170 0 1700 0
            1/- [d..f) 2 0 20 0"#]],
        );
    }

    fn any_cell() -> impl Strategy<Value = Cell> {
        let key = || prop::collection::vec(prop::sample::select(vec![b'a', b'b', 0, 0xff]), 0..3);
        let counts = (0..50_u64, 0..50_u64, 0..5_000_u64, 0..5_000_u64);
        let tenant = prop::option::of(1..3_u32);
        (1..3_u32, tenant, key(), prop::option::of(key()), counts).prop_filter_map("an empty range", |made| {
            let (table, tenant, from, to, (reads, writes, bytes_read, bytes_written)) = made;
            let to = to.map(Bytes::from);
            let counts = Counts { reads, writes, bytes_read, bytes_written };
            to.as_ref().is_none_or(|to| from < *to).then(|| Cell { table, tenant, from: from.into(), to, counts })
        })
    }

    proptest! {
        #[test]
        fn folds_and_merges_keep_totals(cells in prop::collection::vec(any_cell(), 0..12), most in 2..8_usize) {
            let folded = fold(cells.clone());
            prop_assert_eq!(total(&folded), total(&cells));
            prop_assert!(are_sorted_and_disjoint(&folded), "{}", text(&folded));
            let reduced = reduce(folded.clone(), most);
            prop_assert_eq!(total(&reduced), total(&cells));
            prop_assert!(are_sorted_and_disjoint(&reduced), "{}", text(&reduced));
            prop_assert!(reduced.len() <= most);
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
