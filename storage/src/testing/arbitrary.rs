//! Random operations, as `proptest` strategies. The alphabets are small, so that rows, columns and timestamps collide;
//! now and then many rows, or a wide one, are written at once, so that a store's data has several pieces.
//!
//! Clients' timestamps are whole milliseconds; the clock is at half ones (see [`differential`](super::differential)),
//! so that a store's stamp never equals a client's timestamp, whichever stamps the store skips.

mod scans;

pub use scans::{filter, scan};

use super::notation::{START_MICROS, family, table};
use crate::{
    Aggregate, CheckAndMutate, Family, FamilyChange, FamilyName, GcRule, KeyRange, Mutation, ReadModifyWrite, RowKey,
    RowMutation, Scan, TableSchema, TimestampRange, Write,
};
use bytes::Bytes;
use proptest::{collection::vec, option, prelude::*, sample::select};

/// Number of pins that a test keeps.
pub const PINS: usize = 3;
/// The columns of a load.
pub const LOAD_COLUMNS: [(&str, &str); 4] = [("c", "q"), ("a", "q"), ("b", "p"), ("a", "p")];
/// A row of a load: its key, and an optional value for each of [`LOAD_COLUMNS`].
pub type NewRow = (RowKey, Vec<Option<Bytes>>);
/// Numbered rows, besides those with unusual keys.
const NUMBERED_ROWS: u8 = 48;

/// One step of a differential test on one table.
#[derive(Clone, Debug)]
pub enum Operation {
    /// A commit; optionally with rows that it relied on, at the pin with this index, or else at a new one.
    Commit(Vec<Write>, Option<(usize, Vec<RowKey>)>),
    /// Rows mutated separately.
    MutateRows(Vec<RowMutation>),
    /// A check-and-mutate.
    CheckAndMutate(CheckAndMutate),
    /// A read-modify-write.
    ReadModifyWrite(RowKey, Vec<ReadModifyWrite>),
    /// A load of rows with values in [`LOAD_COLUMNS`]; if `true`, only of absent ones.
    Load(Vec<NewRow>, bool),
    /// Such a load without its last step, [`FinishLoad`](Self::FinishLoad). It aborts an earlier one in progress.
    BeginLoad(Vec<NewRow>, bool),
    /// The last step of the load in progress, if there is one.
    FinishLoad,
    /// A range dropped by prefix.
    DropRowRange(Bytes),
    /// A change of the families.
    ModifyFamily(FamilyChange),
    /// A pin, which replaces the one with this index.
    Pin(usize),
    /// A read, at the pin with this index or of the newest state.
    Read(Scan, Option<usize>),
    /// Such a read as of this number of milliseconds ago, rounded to whole ones; negative for the future.
    ReadAsOf(Scan, i64, Option<usize>),
    /// The clock advances by this number of milliseconds.
    Wait(i64),
    /// Maintenance of a store's files.
    Maintain(Maintenance),
}

/// Changes the location of a store's rows, but not its content. A store without files has nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maintenance {
    /// Memtables are flushed.
    Flush,
    /// Tablets are compacted.
    Compact,
    /// A compaction begins, and ends at [`Finish`](Self::Finish) or any other maintenance.
    BeginCompact,
    /// A flush begins, and ends at [`Finish`](Self::Finish) or any other maintenance.
    BeginFlush,
    /// The task in progress ends.
    Finish,
    /// Deleted rows with this prefix are purged; the pins are dropped.
    Purge(&'static str),
    /// Cells of erased columns and dropped families are purged; the pins are dropped.
    PurgeCells,
    /// The store is closed and opened again; the pins are dropped.
    Reopen,
    /// The process is killed, and another opens the store; the pins are dropped.
    Kill,
    /// The machine crashes, depending on the seed, and the rest of its disk is opened; the pins are dropped.
    Crash(u64),
}

impl Maintenance {
    /// Whether pins survive it.
    pub fn keeps_pins(self) -> bool {
        self.keeps_store() && !matches!(self, Self::Purge(_) | Self::PurgeCells)
    }

    /// Whether the store is the same instance afterwards.
    pub fn keeps_store(self) -> bool {
        !matches!(self, Self::Reopen | Self::Kill | Self::Crash(_))
    }
}

/// The families: plain ones with each kind of rule, and aggregates. `e` is created and dropped.
pub fn families() -> TableSchema {
    let plain = |name, gc| (family(name), Family { gc, aggregate: None });
    let merging = |name, of| (family(name), Family { gc: GcRule::MaxVersions(2), aggregate: Some(of) });
    TableSchema::of([
        plain("a", GcRule::KeepAll),
        plain("b", GcRule::MaxVersions(2)),
        plain("c", age(12)),
        plain("d", GcRule::Intersection(vec![GcRule::MaxVersions(1), age(8)])),
        merging("sum", Aggregate::Sum),
        merging("max", Aggregate::Max),
        merging("hll", Aggregate::Hll),
    ])
}

/// A quarter of a millisecond more than whole: no cell is so close to the limit that a skipped stamp could decide.
fn micros(milliseconds: i64) -> i64 {
    milliseconds * 1_000 + 250
}

fn age(milliseconds: i64) -> GcRule {
    GcRule::MaxAgeMicros(micros(milliseconds))
}

/// Sequences of operations.
pub fn operations() -> impl Strategy<Value = Vec<Operation>> {
    vec(operation(), 1..60)
}

/// Sequences of operations on a table that mostly keeps history.
pub fn operations_with_history() -> impl Strategy<Value = Vec<Operation>> {
    let set = |milliseconds: Option<i64>| Operation::ModifyFamily(FamilyChange::SetHistory(milliseconds.map(micros)));
    let keep = prop_oneof![8 => (4i64..60).prop_map(Some), 1 => Just(None)];
    let next = prop_oneof![
        12 => operation(),
        5 => (scan(), -1i64..40, option::of(0..PINS)).prop_map(|(scan, ago, pinned)| Operation::ReadAsOf(scan, ago, pinned)),
        5 => (0i64..30).prop_map(|ago| Operation::ReadAsOf(Scan::all(), ago, None)),
        1 => keep.prop_map(set),
    ];
    vec(next, 1..80).prop_map(move |operations| [set(Some(40))].into_iter().chain(operations).collect())
}

/// One operation.
pub fn operation() -> impl Strategy<Value = Operation> {
    let write = prop_oneof![
        18 => row_mutation().prop_map(row_write),
        1 => key_range().prop_map(|range| Write::DeleteRange { table: table(), range }),
    ];
    prop_oneof![
        16 => (vec(write, 0..4), option::weighted(0.3, (0..PINS, vec(row_key(), 0..3))))
            .prop_map(|(writes, relied_on)| Operation::Commit(writes, relied_on)),
        2 => prop_oneof![3 => many_rows(), 1 => wide_row()].prop_map(|writes| Operation::Commit(writes, None)),
        4 => vec(row_mutation(), 0..4).prop_map(Operation::MutateRows),
        4 => (row_key(), option::of(filter()), mutations(), mutations()).prop_map(|(key, predicate, then, otherwise)| {
            Operation::CheckAndMutate(CheckAndMutate { key, predicate, then, otherwise })
        }),
        4 => (row_key(), vec(rule(), 0..3)).prop_map(|(key, rules)| Operation::ReadModifyWrite(key, rules)),
        3 => load().prop_map(|(rows, fresh)| Operation::Load(rows, fresh)),
        3 => load().prop_map(|(rows, fresh)| Operation::BeginLoad(rows, fresh)),
        4 => Just(Operation::FinishLoad),
        2 => select(vec!["", "a", "ab", "b", "c", "k0", "k2"]).prop_map(|prefix| Operation::DropRowRange(prefix.into())),
        3 => family_change().prop_map(Operation::ModifyFamily),
        4 => (0..PINS).prop_map(Operation::Pin),
        18 => (scan(), option::of(0..PINS)).prop_map(|(scan, pinned)| Operation::Read(scan, pinned)),
        3 => (1i64..10).prop_map(Operation::Wait),
        1 => (10i64..40).prop_map(Operation::Wait),
        13 => maintenance().prop_map(Operation::Maintain),
    ]
}

/// Maintenance.
pub fn maintenance() -> impl Strategy<Value = Maintenance> {
    prop_oneof![
        5 => Just(Maintenance::Flush),
        3 => Just(Maintenance::Compact),
        3 => Just(Maintenance::BeginCompact),
        2 => Just(Maintenance::BeginFlush),
        2 => Just(Maintenance::Finish),
        1 => select(vec!["a", "b", "k", "k2"]).prop_map(Maintenance::Purge),
        1 => Just(Maintenance::PurgeCells),
        1 => Just(Maintenance::Reopen),
        1 => Just(Maintenance::Kill),
        1 => any::<u64>().prop_map(Maintenance::Crash),
    ]
}

/// Row keys, some of which are prefixes of others.
pub fn row_key() -> impl Strategy<Value = RowKey> {
    let keys: [&'static [u8]; 7] = [b"a", b"a\0", b"ab", b"abc", b"b", b"b\xff", b"c"];
    prop_oneof![
        2 => select(keys.to_vec()).prop_map(|key| RowKey::new(key).expect("short and not empty")),
        1 => (0..NUMBERED_ROWS).prop_map(numbered),
    ]
}

fn numbered(number: u8) -> RowKey {
    RowKey::new(format!("k{number:02}")).expect("short and not empty")
}

fn row_write(row: RowMutation) -> Write {
    Write::Row { table: table(), row }
}

fn set(family_name: &str, qualifier: impl Into<Bytes>, timestamp: i64, value: Bytes) -> Mutation {
    Mutation::SetCell { family: family(family_name), qualifier: qualifier.into(), timestamp: Some(timestamp), value }
}

/// Many similar rows, of one to three columns.
fn many_rows() -> impl Strategy<Value = Vec<Write>> {
    let column =
        (select(vec!["a", "b", "c"]), qualifier(), timestamp().prop_filter("one that is taken", |&at| at >= 0));
    let value = prop_oneof![value(), select(vec![60usize, 400]).prop_map(|bytes| Bytes::from(vec![b'x'; bytes]))];
    (0..NUMBERED_ROWS, 1..NUMBERED_ROWS, vec((column, value), 1..4)).prop_map(|(first, count, columns)| {
        let row = |number| {
            let cells = columns
                .iter()
                .map(|((family, qualifier, at), value)| set(family, qualifier.clone(), *at, value.clone()));
            RowMutation { key: numbered(number), mutations: cells.collect() }
        };
        (first..NUMBERED_ROWS.min(first + count)).map(row).map(row_write).collect()
    })
}

/// A row of hundreds of columns, or with a column of hundreds of versions.
fn wide_row() -> impl Strategy<Value = Vec<Write>> {
    (row_key(), select(vec!["a", "d"]), 100u16..400, any::<bool>()).prop_map(|(key, family, cells, versions)| {
        let cell = |number: u16| match versions {
            true => set(family, "p", START_MICROS - i64::from(number) * 1_000, Bytes::from_static(b"version")),
            false => set(family, format!("w{number:03}"), START_MICROS + 5_000, Bytes::from_static(b"x")),
        };
        vec![row_write(RowMutation { key, mutations: (0..cells).map(cell).collect() })]
    })
}

fn key_range() -> impl Strategy<Value = KeyRange> {
    (row_key(), option::of(row_key()))
        .prop_map(|(start, end)| KeyRange::new(start.into_bytes(), end.map(RowKey::into_bytes)))
}

fn plain_family() -> impl Strategy<Value = FamilyName> {
    // Occasionally one that does not exist, or does not take plain cells.
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

/// Mutations of a row; occasionally one that is refused.
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

fn new_values() -> impl Strategy<Value = Vec<Option<Bytes>>> {
    let some = |values: &Vec<Option<Bytes>>| values.iter().any(Option::is_some);
    vec(option::of(value()), LOAD_COLUMNS.len()).prop_filter("a row has values", some)
}

/// The rows of a load, and whether only absent ones are loaded.
fn load() -> impl Strategy<Value = (Vec<NewRow>, bool)> {
    (prop_oneof![2 => vec(new_row(), 0..12), 1 => many_new_rows()], proptest::bool::weighted(0.9))
}

fn new_row() -> impl Strategy<Value = NewRow> {
    (row_key(), new_values())
}

/// Rows with consecutive numbers, in their order or not.
fn many_new_rows() -> impl Strategy<Value = Vec<NewRow>> {
    let numbers = (0..NUMBERED_ROWS, 1..NUMBERED_ROWS)
        .prop_map(|(from, count)| (from..NUMBERED_ROWS.min(from + count)).map(numbered).collect::<Vec<_>>());
    let ordered = prop_oneof![numbers.clone(), numbers.prop_shuffle()];
    (ordered, new_values()).prop_map(|(keys, values)| keys.into_iter().map(|key| (key, values.clone())).collect())
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

/// Unions and intersections of rules, nested.
fn nested_rule() -> impl Strategy<Value = GcRule> {
    let leaf = prop_oneof![(1u32..4).prop_map(GcRule::MaxVersions), (5i64..20).prop_map(age)];
    leaf.prop_recursive(3, 8, 3, |inner| {
        prop_oneof![vec(inner.clone(), 1..4).prop_map(GcRule::Union), vec(inner, 1..4).prop_map(GcRule::Intersection)]
    })
}

fn family_change() -> impl Strategy<Value = FamilyChange> {
    let rule = || prop_oneof![1 => Just(GcRule::KeepAll), 5 => nested_rule()];
    prop_oneof![
        // Always the same column of a family: only a purge permits to take one off the list.
        1 => select(vec!["a", "c", "sum"]).prop_map(|name| {
            FamilyChange::SetErased(family(name), [b"pp".to_vec()].into())
        }),
        4 => (plain_family(), rule()).prop_map(|(family, gc)| FamilyChange::SetGc(family, gc)),
        1 => rule().prop_map(|gc| FamilyChange::Create(family("e"), Family { gc, aggregate: None })),
        1 => select(vec!["e", "b"]).prop_map(|name| FamilyChange::Drop(family(name))),
        1 => Just(FamilyChange::Create(family("b"), Family::default())),
    ]
}
