//! Periods of the past: the finer, the younger. Pure.
//!
//! A minute's cells become a period of the finest of the [`LAYERS`]. Once all periods of a layer that make up one of
//! the next are older than the layer keeps them, they are folded into it; what is older than the last layer keeps is
//! forgotten. So no two periods overlap, and their number, and that of their cells, is bounded.

use super::cells::{self, Cell};
use std::collections::{BTreeMap, BTreeSet};

/// A minute.
pub(crate) const MINUTE_MICROS: i64 = 60_000_000;

/// How long the periods of a layer are, for how long it keeps them, and how many cells each may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layer {
    pub(crate) minutes: i64,
    pub(crate) keeps_minutes: i64,
    pub(crate) cells_max: usize,
}

/// The layers, the youngest first: an hour by minutes, half a day by 5 minutes, 3 days by half hours, 31 days by 4
/// hours. Each period's length is a multiple of that of the layer before.
pub(crate) const LAYERS: [Layer; 4] = [
    Layer { minutes: 1, keeps_minutes: 60, cells_max: super::RANGES_MAX },
    Layer { minutes: 5, keeps_minutes: 12 * 60, cells_max: 256 },
    Layer { minutes: 30, keeps_minutes: 3 * 24 * 60, cells_max: 256 },
    Layer { minutes: 240, keeps_minutes: 31 * 24 * 60, cells_max: 256 },
];

/// A period: the number of its layer, and its first minute since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Period {
    pub(crate) layer: usize,
    pub(crate) minute: i64,
}

impl Period {
    /// The minute of a time.
    pub(crate) fn minute_of(micros: i64) -> Self {
        Self { layer: 0, minute: micros.div_euclid(MINUTE_MICROS) }
    }

    pub(crate) fn start_micros(self) -> i64 {
        self.minute.saturating_mul(MINUTE_MICROS)
    }

    pub(crate) fn end_micros(self) -> i64 {
        (self.minute + LAYERS[self.layer].minutes).saturating_mul(MINUTE_MICROS)
    }

    /// The period of the next layer that it is a part of.
    fn whole(self) -> Option<Self> {
        let layer = self.layer + 1;
        let minutes = LAYERS.get(layer)?.minutes;
        Some(Self { layer, minute: self.minute.div_euclid(minutes) * minutes })
    }

    /// Whether its layer keeps it at a minute: as long as the period that it becomes a part of is not wholly too old.
    fn is_kept(self, now_minute: i64) -> bool {
        let end = match self.whole() {
            Some(whole) => whole.minute + LAYERS[whole.layer].minutes,
            None => self.minute + LAYERS[self.layer].minutes,
        };
        end > now_minute - LAYERS[self.layer].keeps_minutes
    }
}

/// The periods that are kept.
#[derive(Debug, Default)]
pub(crate) struct History {
    periods: BTreeMap<Period, Vec<Cell>>,
    /// Those that have changed since [`take_changes`](Self::take_changes).
    changed: BTreeSet<Period>,
}

impl History {
    /// Adds cells to a period.
    pub(crate) fn add(&mut self, period: Period, cells: Vec<Cell>) {
        if cells.is_empty() {
            return;
        }
        let before = self.periods.remove(&period).unwrap_or_default();
        let folded = cells::fold(before.into_iter().chain(cells));
        self.periods.insert(period, cells::reduce(folded, LAYERS[period.layer].cells_max));
        self.changed.insert(period);
    }

    /// Moves periods on that have become too old for their layer.
    pub(crate) fn age(&mut self, now_micros: i64) {
        let now_minute = now_micros.div_euclid(MINUTE_MICROS);
        for layer in 0..LAYERS.len() {
            let is_old = |period: &Period| period.layer == layer && !period.is_kept(now_minute);
            let old: Vec<Period> = self.periods.keys().copied().filter(is_old).collect();
            let mut wholes: BTreeMap<Period, Vec<Cell>> = BTreeMap::new();
            for period in old {
                let cells = self.periods.remove(&period).unwrap_or_default();
                self.changed.insert(period);
                if let Some(whole) = period.whole() {
                    wholes.entry(whole).or_default().extend(cells);
                }
            }
            for (whole, cells) in wholes {
                self.add(whole, cells);
            }
        }
    }

    /// Forgets cells.
    pub(crate) fn forget(&mut self, is_gone: impl Fn(&Cell) -> bool) {
        for (period, cells) in &mut self.periods {
            let before = cells.len();
            cells.retain(|cell| !is_gone(cell));
            if cells.len() < before {
                self.changed.insert(*period);
            }
        }
        self.periods.retain(|_, cells| !cells.is_empty());
    }

    /// The periods that have changed, with their cells; without any if they are gone.
    pub(crate) fn take_changes(&mut self) -> Vec<(Period, Vec<Cell>)> {
        let changed = std::mem::take(&mut self.changed);
        changed.into_iter().map(|period| (period, self.periods.get(&period).cloned().unwrap_or_default())).collect()
    }

    /// Takes it that a period has changed: what was changed could not be stored.
    pub(crate) fn has_changed(&mut self, period: Period) {
        self.changed.insert(period);
    }

    /// All periods, of each layer by time.
    pub(crate) fn periods(&self) -> impl Iterator<Item = (Period, &[Cell])> {
        self.periods.iter().map(|(period, cells)| (*period, cells.as_slice()))
    }
}

#[cfg(test)]
mod tests {
    use super::{super::cells::tests::total, super::cells::*, *};
    use proptest::prelude::*;

    fn cells(reads: u64) -> Vec<Cell> {
        let counts = Counts { reads, ..Counts::default() };
        vec![Cell { table: 1, tenant: Some(7), from: "a".into(), to: Some("b".into()), counts }]
    }

    fn at(minute: i64) -> Period {
        Period { layer: 0, minute }
    }

    #[test]
    fn what_ages_becomes_coarser_and_is_forgotten() {
        let mut history = History::default();
        for minute in 0..10 {
            history.add(at(minute), cells(1));
        }
        history.age(64 * MINUTE_MICROS);
        assert_eq!(history.periods().count(), 10);
        history.age(65 * MINUTE_MICROS);
        let periods: Vec<_> = history.periods().map(|(period, cells)| (period, total(cells).reads)).collect();
        assert_eq!(periods.len(), 6);
        assert_eq!(periods.last(), Some(&(Period { layer: 1, minute: 0 }, 5)));
        history.age(15 * 60 * MINUTE_MICROS);
        let periods: Vec<_> = history.periods().map(|(period, cells)| (period, total(cells).reads)).collect();
        assert_eq!(periods, [(Period { layer: 2, minute: 0 }, 10)]);
        history.age(40 * 24 * 60 * MINUTE_MICROS);
        assert_eq!(history.periods().count(), 0);
        let changes = history.take_changes();
        assert!(changes.len() == 14 && changes.iter().all(|(_, cells)| cells.is_empty()), "{changes:?}");
        assert!(history.take_changes().is_empty());
    }

    #[test]
    fn each_layer_divides_the_next() {
        for pair in LAYERS.windows(2) {
            assert_eq!(pair[1].minutes % pair[0].minutes, 0);
            assert_eq!(pair[0].keeps_minutes % pair[1].minutes, 0);
        }
        let periods: i64 = LAYERS.iter().map(|layer| layer.keeps_minutes / layer.minutes).sum();
        assert!(periods < 600, "{periods}");
    }

    proptest! {
        #[test]
        fn ages_keep_totals_and_periods_do_not_overlap(steps in prop::collection::vec((0..400_i64, 0..9_u64), 1..40)) {
            let (mut history, mut now, mut expected) = (History::default(), 1_000_i64, 0);
            for (later, reads) in steps {
                now += later;
                history.add(at(now), cells(reads));
                expected += reads;
                history.age(now * MINUTE_MICROS);
                let mut periods: Vec<Period> = history.periods().map(|(period, _)| period).collect();
                periods.sort_by_key(|period| period.minute);
                for pair in periods.windows(2) {
                    prop_assert!(pair[0].end_micros() <= pair[1].start_micros(), "{:?}", periods);
                }
                let sum: u64 = history.periods().map(|(_, cells)| total(cells).reads).sum();
                prop_assert_eq!(sum, expected);
            }
        }
    }
}
