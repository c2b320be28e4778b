//! When a segment has garbage. Removal from rows is tested with compactions.

use super::*;
use crate::engine::compact::tests::{descriptor, encoded, row_of_cells, rule};
use expect_test::{Expect, expect};
use proptest::prelude::*;

proptest! {
    #[test]
    fn a_row_is_whole_exactly_when_no_rule_takes_a_cell(a in rule(), b in rule(), past in prop::collection::vec((0u32..3, rule(), 0i64..100), 0..3), cells in row_of_cells(), stamp in 0i64..100) {
        let past: Vec<PastRule> =
            past.into_iter().map(|(family, rule, at_micros)| PastRule { family, rule, at_micros }).collect();
        let garbage = Garbage::new(descriptor(&a, &b), &past, 100);
        let sieve = garbage.of(stamp);
        let row = encoded(&cells);
        let slowly = Sieve { keeps_all: false, ..sieve.clone() };
        prop_assert_eq!(sieve.remainder(&row), slowly.remainder(&row));
        match sieve.remainder(&row) {
            Remainder::Whole => {}
            Remainder::Part(left) => prop_assert!(left.len() < row.len() && cells::decode(&left).count() < cells.len()),
            Remainder::Nothing => prop_assert!(past.iter().any(|past| past.rule != GcRule::KeepAll) || a != GcRule::KeepAll || b != GcRule::KeepAll || cells.iter().all(|cell| cell.family.as_str() == "c")),
        }
    }
}

#[test]
fn horizons() {
    const HOUR: i64 = 3_600_000_000;
    let check = |gc: GcRule, stamp: i64, least: &[(u32, i64)], held: i64, expected: Expect| {
        let least = least.iter().map(|(number, hours)| (*number, hours * HOUR)).collect();
        let at = horizon(&descriptor(&gc, &GcRule::MaxVersions(1)), stamp * HOUR, &least, held * HOUR);
        expected.assert_eq(&at.map_or("never".into(), |at| format!("{:.2} h", at as f64 / HOUR as f64)));
    };
    let age = |hours: i64| GcRule::MaxAgeMicros(hours * HOUR);
    // A fifth of ten hours of cells is older than 24 hours.
    check(age(24), 10, &[(2, 0)], 0, expect!["26.00 h"]);
    check(age(24), 10, &[(2, 0)], 100, expect!["126.00 h"]);
    // Cells with timestamps after the segment's stamp.
    check(age(24), 10, &[(2, 20)], 0, expect!["44.00 h"]);
    // Not immediately again.
    check(age(0), 10, &[(2, 10)], 0, expect!["10.17 h"]);
    check(age(24), 10, &[(0, 0)], 0, expect!["never"]);
    check(GcRule::KeepAll, 10, &[(2, 0)], 0, expect!["never"]);
    check(GcRule::Union(vec![age(24), GcRule::MaxVersions(3)]), 10, &[(2, 0), (0, 0)], 0, expect!["26.00 h"]);
    check(GcRule::Intersection(vec![age(24), GcRule::MaxVersions(3)]), 10, &[(2, 0)], 0, expect!["never"]);
    // A dropped family goes soon.
    check(age(24), 10, &[(2, 0), (1, 5)], 0, expect!["10.17 h"]);
    check(age(24), 10, &[], 0, expect!["never"]);
}
