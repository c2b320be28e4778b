//! Operations at random, as `proptest` strategies. The alphabets are small, so that rows, columns and timestamps meet.
//!
//! Timestamps that clients bring are whole milliseconds; the clock stands at half ones ([`differential`](super::differential)
//! sees to it), so that what a store stamps never lies on what a client brought, whatever stamps the store skips.

use super::notation::{START_MICROS, family, table};
use crate::{
    Aggregate, CheckAndMutate, Columns, Family, FamilyChange, FamilyName, Filter, GcRule, KeyRange, Mutation,
    ReadModifyWrite, RowKey, RowMutation, RowSet, Scan, TableSchema, TimestampRange, Write, scan::FamilyColumns,
};
use bytes::Bytes;
use proptest::{collection::vec, option, prelude::*, sample::select};
use std::ops::Bound;

/// One step of a differential test. It works on one table.
#[derive(Clone, Debug)]
pub enum Operation {
    /// A commit; with rows, it relied on them at the pin kept before, or else at a fresh one.
    Commit(Vec<Write>, Option<Vec<RowKey>>),
    /// Rows mutated each by itself.
    MutateRows(Vec<RowMutation>),
    /// A decision.
    CheckAndMutate(CheckAndMutate),
    /// A change that depends on the newest cell.
    ReadModifyWrite(RowKey, Vec<ReadModifyWrite>),
    /// A range dropped by prefix.
    DropRowRange(Bytes),
    /// A change of the families.
    ModifyFamily(FamilyChange),
    /// A pin, kept instead of the one before.
    Pin,
    /// A read, at the pin kept before or of the newest state.
    Read(Scan, bool),
    /// Time goes on by this many milliseconds.
    Wait(i64),
    /// The store is closed and opened again; the kept pin is gone.
    Reopen,
}

/// The families: plain ones with each kind of rule, and aggregates. `e` comes and goes.
pub fn families() -> TableSchema {
    let plain = |name, gc| (family(name), Family { gc, aggregate: None });
    let merging = |name, of| (family(name), Family { gc: GcRule::MaxVersions(2), aggregate: Some(of) });
    TableSchema {
        families: [
            plain("a", GcRule::KeepAll),
            plain("b", GcRule::MaxVersions(2)),
            plain("c", age(12)),
            plain("d", GcRule::Intersection(vec![GcRule::MaxVersions(1), age(8)])),
            merging("sum", Aggregate::Sum),
            merging("max", Aggregate::Max),
            merging("hll", Aggregate::Hll),
        ]
        .into(),
    }
}

/// A quarter of a millisecond more than whole: no cell lies so near the edge that a skipped stamp could decide.
fn age(milliseconds: i64) -> GcRule {
    GcRule::MaxAgeMicros(milliseconds * 1_000 + 250)
}

/// Sequences of operations.
pub fn operations() -> impl Strategy<Value = Vec<Operation>> {
    vec(operation(), 1..60)
}

/// One operation.
pub fn operation() -> impl Strategy<Value = Operation> {
    let write = prop_oneof![
        9 => row_mutation().prop_map(|row| Write::Row { table: table(), row }),
        1 => key_range().prop_map(|range| Write::DeleteRange { table: table(), range }),
    ];
    prop_oneof![
        8 => (vec(write, 0..4), option::weighted(0.3, vec(row_key(), 0..3))).prop_map(|(w, rows)| Operation::Commit(w, rows)),
        2 => vec(row_mutation(), 0..4).prop_map(Operation::MutateRows),
        2 => (row_key(), option::of(filter()), mutations(), mutations()).prop_map(|(key, predicate, then, otherwise)| {
            Operation::CheckAndMutate(CheckAndMutate { key, predicate, then, otherwise })
        }),
        2 => (row_key(), vec(rule(), 0..3)).prop_map(|(key, rules)| Operation::ReadModifyWrite(key, rules)),
        1 => select(vec!["", "a", "ab", "b", "c"]).prop_map(|prefix| Operation::DropRowRange(prefix.into())),
        1 => family_change().prop_map(Operation::ModifyFamily),
        2 => Just(Operation::Pin),
        9 => (scan(), any::<bool>()).prop_map(|(scan, pinned)| Operation::Read(scan, pinned)),
        2 => (1i64..10).prop_map(Operation::Wait),
        1 => Just(Operation::Reopen),
    ]
}

/// Row keys, some of which begin with others.
pub fn row_key() -> impl Strategy<Value = RowKey> {
    let keys: [&'static [u8]; 7] = [b"a", b"a\0", b"ab", b"abc", b"b", b"b\xff", b"c"];
    select(keys.to_vec()).prop_map(|key| RowKey::new(key).expect("short and not empty"))
}

fn key_range() -> impl Strategy<Value = KeyRange> {
    (row_key(), option::of(row_key()))
        .prop_map(|(start, end)| KeyRange::new(start.into_bytes(), end.map(RowKey::into_bytes)))
}

fn row_set() -> impl Strategy<Value = RowSet> {
    prop_oneof![
        2 => Just(RowSet::all()),
        1 => row_key().prop_map(|key| KeyRange::point(&key).into()),
        2 => vec(key_range(), 0..4).prop_map(RowSet::new),
    ]
}

fn plain_family() -> impl Strategy<Value = FamilyName> {
    // Now and then one that is not there, or does not take plain cells.
    prop_oneof![20 => select(vec!["a", "b", "c", "d"]), 1 => select(vec!["e", "sum", "none"])].prop_map(family)
}

fn aggregate_family() -> impl Strategy<Value = FamilyName> {
    prop_oneof![20 => select(vec!["sum", "max", "hll"]), 1 => Just("a")].prop_map(family)
}

fn qualifier() -> impl Strategy<Value = Bytes> {
    select(vec!["", "p", "pp", "q"]).prop_map(Bytes::from)
}

fn timestamp() -> impl Strategy<Value = i64> {
    prop_oneof![30 => (0i64..40).prop_map(|at| START_MICROS + at * 1_000), 1 => Just(0), 1 => Just(-1)]
}

fn timestamps() -> impl Strategy<Value = TimestampRange> {
    let start = prop_oneof![Just(i64::MIN), timestamp()];
    (start, option::of(timestamp())).prop_map(|(start, end)| TimestampRange { start, end })
}

fn value() -> impl Strategy<Value = Bytes> {
    prop_oneof![
        select(vec!["", "x", "yy"]).prop_map(Bytes::from),
        (-2i64..3).prop_map(|number| Bytes::copy_from_slice(&number.to_be_bytes())),
    ]
}

/// Mutations of a row; now and then one that is refused.
pub fn mutation() -> impl Strategy<Value = Mutation> {
    let at = || option::weighted(0.8, timestamp());
    let state =
        prop_oneof![5 => (-9i64..9).prop_map(|n| Bytes::copy_from_slice(&n.to_be_bytes())), 1 => Just(Bytes::new())];
    prop_oneof![
        10 => (plain_family(), qualifier(), at(), value()).prop_map(|(family, qualifier, timestamp, value)| {
            Mutation::SetCell { family, qualifier, timestamp, value }
        }),
        3 => (aggregate_family(), qualifier(), at(), -9i64..9).prop_map(|(family, qualifier, timestamp, input)| {
            Mutation::AddToCell { family, qualifier, timestamp, input }
        }),
        1 => (select(vec!["sum", "max"]), qualifier(), at(), state).prop_map(|(name, qualifier, timestamp, state)| {
            Mutation::MergeToCell { family: family(name), qualifier, timestamp, state }
        }),
        4 => (plain_family(), qualifier(), timestamps()).prop_map(|(family, qualifier, timestamps)| {
            Mutation::DeleteFromColumn { family, qualifier, timestamps }
        }),
        1 => (aggregate_family(), qualifier(), timestamps()).prop_map(|(family, qualifier, timestamps)| {
            Mutation::DeleteFromColumn { family, qualifier, timestamps }
        }),
        1 => plain_family().prop_map(|family| Mutation::DeleteFromFamily { family }),
        1 => Just(Mutation::DeleteFromRow),
    ]
}

fn mutations() -> impl Strategy<Value = Vec<Mutation>> {
    prop_oneof![1 => Just(Vec::new()), 20 => vec(mutation(), 1..6)]
}

fn row_mutation() -> impl Strategy<Value = RowMutation> {
    (row_key(), mutations()).prop_map(|(key, mutations)| RowMutation { key, mutations })
}

fn rule() -> impl Strategy<Value = ReadModifyWrite> {
    prop_oneof![
        (plain_family(), qualifier(), value()).prop_map(|(family, qualifier, value)| ReadModifyWrite::Append {
            family,
            qualifier,
            value
        }),
        (plain_family(), qualifier(), -9i64..9).prop_map(|(family, qualifier, by)| ReadModifyWrite::Increment {
            family,
            qualifier,
            by
        }),
    ]
}

fn family_change() -> impl Strategy<Value = FamilyChange> {
    let rule = || {
        prop_oneof![
            Just(GcRule::KeepAll),
            (1u32..4).prop_map(GcRule::MaxVersions),
            (5i64..20).prop_map(age),
            Just(GcRule::Union(vec![GcRule::MaxVersions(2), age(9)])),
        ]
    };
    prop_oneof![
        4 => (plain_family(), rule()).prop_map(|(family, gc)| FamilyChange::SetGc(family, gc)),
        1 => rule().prop_map(|gc| FamilyChange::Create(family("e"), Family { gc, aggregate: None })),
        1 => select(vec!["e", "b"]).prop_map(|name| FamilyChange::Drop(family(name))),
        1 => Just(FamilyChange::Create(family("b"), Family::default())),
    ]
}

/// Filters, of at most three levels.
pub fn filter() -> impl Strategy<Value = Filter> {
    let bound = |of: BoxedStrategy<Bytes>| {
        (of, 0..3).prop_map(|(bytes, kind)| match kind {
            0 => Bound::Included(bytes),
            1 => Bound::Excluded(bytes),
            _ => Bound::Unbounded,
        })
    };
    let values = (bound(value().boxed()), bound(value().boxed()));
    let qualifiers = (plain_family(), bound(qualifier().boxed()), bound(qualifier().boxed()));
    let leaf = prop_oneof![
        Just(Filter::PassAll),
        Just(Filter::BlockAll),
        Just(Filter::StripValue),
        select(vec!["a.*", r"b\C*", "ab|c", "("]).prop_map(|pattern| Filter::RowKeyRegex(pattern.into())),
        select(vec!["[abc]", "sum|d", ""]).prop_map(|pattern| Filter::FamilyRegex(pattern.into())),
        select(vec!["p+", "", "q|p"]).prop_map(|pattern| Filter::QualifierRegex(pattern.into())),
        select(vec!["x", "y*", r"\C{8}"]).prop_map(|pattern| Filter::ValueRegex(pattern.into())),
        qualifiers.prop_map(|(family, start, end)| Filter::QualifierRange { family, start, end }),
        values.prop_map(|(start, end)| Filter::ValueRange { start, end }),
        timestamps().prop_map(Filter::Timestamps),
        (0u32..4).prop_map(Filter::CellsPerColumn),
        (0u32..6).prop_map(Filter::CellsPerRow),
        (0u32..4).prop_map(Filter::CellsPerRowOffset),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Filter::Chain),
            vec(inner.clone(), 0..3).prop_map(Filter::Interleave),
            (inner.clone(), option::of(inner.clone()), option::of(inner)).prop_map(|(predicate, then, otherwise)| {
                Filter::Condition {
                    predicate: Box::new(predicate),
                    then: then.map(Box::new),
                    otherwise: otherwise.map(Box::new),
                }
            }),
        ]
    })
}

fn columns() -> impl Strategy<Value = Columns> {
    let qualifiers = option::of(proptest::collection::btree_set(qualifier(), 0..3));
    let wanted = proptest::collection::btree_map(plain_family(), qualifiers, 0..3).prop_map(|wanted| {
        let of = |(family, qualifiers): (_, Option<std::collections::BTreeSet<_>>)| FamilyColumns {
            family,
            qualifiers: qualifiers.map(|all| all.into_iter().collect()),
        };
        Columns::Of(wanted.into_iter().map(of).collect())
    });
    prop_oneof![3 => Just(Columns::All), 1 => wanted]
}

/// Scans without a pin.
pub fn scan() -> impl Strategy<Value = Scan> {
    let choice =
        (columns(), prop_oneof![5 => Just(TimestampRange::all()), 1 => timestamps()], option::weighted(0.3, 0u32..4));
    let shape = (any::<bool>(), option::weighted(0.3, 0u64..5), any::<bool>());
    (row_set(), choice, option::weighted(0.3, filter()), shape).prop_map(|(rows, choice, filter, shape)| Scan {
        columns: choice.0,
        timestamps: choice.1,
        versions_max: choice.2,
        filter,
        keep_empty: shape.0,
        rows_max: shape.1,
        reversed: shape.2,
        ..Scan::of(rows)
    })
}
