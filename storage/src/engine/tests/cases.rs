//! Regression cases that random operations have found, or would take long to find, each by its name.

use super::{differential::agree, *};
use crate::{
    FamilyChange, Write,
    testing::arbitrary::{Maintenance, Operation},
};

/// The stores agree, whatever the sizes.
fn agree_in_all_sizes(operations: &[Operation]) {
    agree(simulated, operations.to_vec());
    agree(tiny, operations.to_vec());
}

/// Sets a cell, `milliseconds` after the first second.
fn cell(family: &str, qualifier: &'static str, milliseconds: i64) -> Mutation {
    Mutation::SetCell {
        family: FamilyName::new(family).unwrap(),
        qualifier: Bytes::from_static(qualifier.as_bytes()),
        timestamp: Some(1_000_000 + milliseconds * 1_000),
        value: Bytes::from_static(b"x"),
    }
}

fn writes(row: &str, mutations: Vec<Mutation>) -> Vec<Write> {
    Commit::row(table(), key(row), mutations).writes
}

fn set_rule(family: &str, rule: GcRule) -> Operation {
    Operation::ModifyFamily(FamilyChange::SetGc(FamilyName::new(family).unwrap(), rule))
}

/// A column that a rule condemned before it was loosened proves nothing about the existence of its row: another one
/// may.
#[test]
fn a_row_is_there_by_what_a_past_rule_left() {
    agree_in_all_sizes(&[
        Operation::Commit(writes("a", vec![cell("d", "", 0), cell("d", "p", 30)]), None),
        set_rule("d", GcRule::MaxAgeMicros(6_250)),
        Operation::Maintain(Maintenance::Flush),
        Operation::Wait(20),
        set_rule("d", GcRule::KeepAll),
        Operation::Maintain(Maintenance::Finish),
    ]);
}

/// Changed rows are known for the last flushes only: a commit that relied on an older pin is refused, and nothing else
/// goes wrong.
#[test]
fn a_commit_that_relied_on_an_old_pin_is_refused_at_worst() {
    let mut operations = vec![Operation::Commit(writes("b", vec![cell("a", "p", 0)]), None), Operation::Pin(0)];
    for flush in 0..7 {
        operations.push(Operation::Commit(writes("a", vec![cell("a", "p", flush)]), None));
        operations.push(Operation::Maintain(Maintenance::Flush));
        operations.push(Operation::Commit(writes("c", vec![cell("a", "q", 1)]), Some((0, vec![key("b")]))));
    }
    agree_in_all_sizes(&operations);
}

/// A writer that finds both memtables full waits for the held flush, which must then be released.
#[test]
fn a_writer_that_waits_for_a_held_flush_lets_it_go() {
    let many = |value: &'static str| {
        let row = |number| writes(&format!("k{number:02}"), vec![set(value.repeat(100))]);
        (0..40).flat_map(row).collect()
    };
    agree(
        tiny,
        vec![
            Operation::ModifyFamily(FamilyChange::Create(FamilyName::new("f").unwrap(), Family::default())),
            Operation::Commit(many("a"), None),
            Operation::Maintain(Maintenance::BeginFlush),
            Operation::Commit(many("b"), None),
            Operation::Commit(many("c"), None),
            Operation::Commit(many("d"), None),
        ],
    );
}

/// A row in the frozen memtable is deleted with its range and written again: the log has its mutations in the new
/// memtable, and a start after the flush finds it in no memtable.
#[test]
fn a_row_that_a_range_took_out_of_a_flush_is_replayed() {
    for end in [Maintenance::Kill, Maintenance::Crash(3), Maintenance::Reopen] {
        agree_in_all_sizes(&[
            Operation::Commit(writes("k00", vec![cell("a", "p", 0), cell("a", "q", 0)]), None),
            Operation::Maintain(Maintenance::BeginFlush),
            Operation::DropRowRange(Bytes::from_static(b"k0")),
            Operation::Commit(writes("k00", vec![cell("a", "q", 1)]), None),
            Operation::Maintain(Maintenance::Finish),
            Operation::Maintain(end),
        ]);
    }
}

/// The fast path never returns a condemned value, though another column proves that the rows exist: with the current
/// rule, and with one that was loosened.
#[test]
fn row_groups_show_nothing_that_is_condemned() {
    let rows = (0..6).flat_map(|row| writes(&format!("k0{row}"), vec![cell("a", "", 0), cell("c", "q", 0)])).collect();
    let mut operations = vec![
        Operation::Commit(rows, None),
        Operation::Maintain(Maintenance::Flush),
        Operation::Wait(20),
        Operation::Maintain(Maintenance::Finish),
    ];
    agree_in_all_sizes(&operations);
    operations.extend([set_rule("c", GcRule::KeepAll), Operation::Maintain(Maintenance::Finish)]);
    agree_in_all_sizes(&operations);
}
