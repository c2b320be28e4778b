//! The behaviour of a [`Store`](crate::Store), case by case. Every backend's tests call [`conformance`].
//!
//! Expected results are written by hand, not taken from another implementation. Each case gets its own store; cases
//! that need commits to be atomic over rows end early on a store that does not promise it.

mod aggregates;
mod bulk;
mod commits;
mod decisions;
mod filters;
mod gc;
mod history;
mod limits;
mod mutations;
mod pins;
mod scans;
mod tables;
mod time;

use super::notation::{START_MICROS, Subject};
use crate::{Atomicity, GcPromise, Promises};
use futures::{FutureExt, future::BoxFuture};
use std::panic::AssertUnwindSafe;

/// A case: its name, and its test.
type Case = (&'static str, for<'a> fn(&'a Subject) -> BoxFuture<'a, ()>);

/// The cases of each module, by name.
macro_rules! cases {
    ($all:ident $($room:ident: $($case:ident),+;)+) => {
        const $all: &[Case] = &[$($(
            (concat!(stringify!($room), "::", stringify!($case)), |subject| $room::$case(subject).boxed()),
        )+)+];
    };
}

cases! { CASES
    tables: created_listed_and_dropped, bad_tables_are_refused, families_change_all_or_none,
        a_family_dropped_and_made_again_is_empty, names_and_schemas_are_kept, a_closed_store_stops;
    mutations: cells_are_read_back_in_order, a_cell_is_replaced, odd_bytes_are_kept, deletes_take_what_they_name,
        a_row_without_cells_is_gone, mutations_apply_in_order, deletes_take_newer_timestamps_too;
    scans: ranges_and_points, an_empty_set_reads_nothing, limits_and_directions, columns_are_chosen,
        timestamps_and_versions, rows_of_which_nothing_was_chosen, batches_are_bounded, batches_are_bounded_in_bytes,
        metrics_count, bad_scans_are_refused;
    filters: each_filter, rows_by_key, duplicates_count_each, filters_come_after_columns, bad_filters_are_refused;
    gc: reads_agree_with_each_rule, a_row_of_condemned_cells_is_gone, semantics_6_deleting_newer_cells_brings_none_back,
        semantics_6_loosening_a_rule_brings_none_back, semantics_6_age_condemns_for_ever,
        semantics_6_the_clock_never_goes_back, a_stricter_rule_holds_at_once, a_write_may_be_condemned_at_once,
        erased_columns_are_gone_at_once;
    time: semantics_2_stamps_grow, semantics_2_a_commit_has_one_stamp, semantics_2_a_write_after_a_read_is_newest,
        semantics_2_client_timestamps_are_bounded;
    commits: rows_are_visible_together, a_refused_commit_leaves_nothing, writes_apply_in_order,
        semantics_3_a_changed_row_conflicts, semantics_3_a_new_row_conflicts, semantics_3_a_deleted_row_conflicts,
        semantics_3_other_rows_do_not_conflict, semantics_3_the_second_of_two_conflicts,
        semantics_3_a_refused_commit_does_not_conflict_later, semantics_3_ranges_conflict;
    decisions: check_and_mutate_decides, check_and_mutate_looks_at_living_cells, check_and_mutate_is_checked,
        appends_and_increments, read_modify_write_is_newest, bad_read_modify_writes_are_refused;
    aggregates: numbers_merge, timestamps_name_the_cell, distinct_counts, kinds_do_not_mix, bad_states_are_refused,
        aggregates_can_be_deleted;
    pins: a_pin_keeps_its_state, a_pin_keeps_its_time, a_pin_keeps_its_table, a_stream_keeps_its_state;
    bulk: each_row_has_a_status, samples_cut_the_table, spans_have_sizes, ranges_are_dropped,
        a_dropped_range_takes_new_rows;
    limits: keys_qualifiers_and_cells, rows, mutations_in_a_request, families_and_tables, filters_in_depth_and_size;
}

cases! { OF_HISTORY
    history: rows_as_they_were, a_timestamp_lies_between_commits, absent_rows_are_absent, the_past_is_read_as_the_present_is,
        history_begins_and_ends, semantics_7_what_cannot_be_asked, keeping_longer_brings_nothing_back,
        semantics_7_a_purge_takes_history_along, semantics_6_what_was_condemned_then_is_not_shown,
        a_change_of_rules_begins_anew, an_erased_column_has_no_past, sizes_of_history, several_changes_in_one_commit, every_kind_of_write_is_kept, a_pin_keeps_its_past;
}

/// Runs every case against a new store.
///
/// # Panics
/// If a case fails, after all have run: with the names of the failed ones. Each failure was printed before, like any
/// panic.
pub async fn conformance<F, M>(make: M)
where
    M: Fn() -> F,
    F: Future<Output = Subject>,
{
    run(CASES, &[], make).await;
}

/// Runs the cases that a store promises, but for those with a `fault` that is not the store's. Returns the names of the
/// cases that were left out; the caller asserts which they are.
///
/// # Panics
/// Same as [`conformance`]; for a fault that no case has.
pub async fn conformance_without<F, M>(faults: &[&str], make: M) -> Vec<&'static str>
where
    M: Fn() -> F,
    F: Future<Output = Subject>,
{
    let promises = make().await.store.promises();
    let mut left_out = unpromised(&promises);
    for fault in faults {
        let case = CASES.iter().find(|(name, _)| name == fault);
        left_out.push(case.unwrap_or_else(|| panic!("there is no case {fault}")).0);
    }
    left_out.sort_unstable();
    run(CASES, &left_out, make).await;
    left_out
}

/// The number of cases.
pub const fn cases() -> usize {
    CASES.len()
}

/// The cases that need what the store does not promise.
fn unpromised(promises: &Promises) -> Vec<&'static str> {
    let mut cases = Vec::new();
    if promises.atomicity == Atomicity::Row {
        // They rely on rows that they do not write.
        cases.extend([
            "commits::semantics_3_a_changed_row_conflicts",
            "commits::semantics_3_a_deleted_row_conflicts",
            "commits::semantics_3_other_rows_do_not_conflict",
            "commits::semantics_3_ranges_conflict",
        ]);
    }
    if !promises.snapshots {
        cases.extend([
            "pins::a_pin_keeps_its_state",
            "pins::a_pin_keeps_its_time",
            "pins::a_pin_keeps_its_table",
            "pins::a_stream_keeps_its_state",
        ]);
    }
    if promises.gc == GcPromise::AtReads {
        cases.extend([
            "gc::semantics_6_deleting_newer_cells_brings_none_back",
            "gc::semantics_6_loosening_a_rule_brings_none_back",
            "gc::semantics_6_age_condemns_for_ever",
        ]);
    }
    if !promises.purge {
        cases.push("gc::erased_columns_are_gone_at_once");
    }
    if !promises.distinct_counts {
        cases.extend(["aggregates::distinct_counts", "aggregates::bad_states_are_refused"]);
    }
    if !promises.exact_samples {
        cases.push("bulk::samples_cut_the_table");
    }
    cases
}

/// Runs the cases of tables that keep history, for stores that support it.
///
/// # Panics
/// Same as [`conformance`].
pub async fn conformance_of_history<F, M>(make: M)
where
    M: Fn() -> F,
    F: Future<Output = Subject>,
{
    run(OF_HISTORY, &[], make).await;
}

async fn run<F, M>(cases: &[Case], left_out: &[&str], make: M)
where
    M: Fn() -> F,
    F: Future<Output = Subject>,
{
    let mut failed = Vec::new();
    for (name, case) in cases.iter().filter(|(name, _)| !left_out.contains(name)) {
        let subject = make().await;
        subject.clock.set(START_MICROS);
        if AssertUnwindSafe(case(&subject)).catch_unwind().await.is_err() {
            failed.push(*name);
        }
    }
    assert!(failed.is_empty(), "{} of {} conformance cases failed: {}", failed.len(), cases.len(), failed.join(", "));
}
