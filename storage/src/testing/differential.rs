//! One sequence of operations on two stores: the oracle and the one under test. Every answer must agree, errors by
//! their kind. After each operation the whole content must agree, and a part of it also on the [fast
//! path](super::columnar), if there is one; after [maintenance](Maintenance) every pin too, read in several ways.
//!
//! Stores may skip stamps (one that pins before it writes is a microsecond late), so timestamps are compared by the
//! millisecond; [`arbitrary`](super::arbitrary) keeps clients' timestamps apart from stamps. And a store may find a
//! conflict where the oracle finds none: in a row that was rewritten with the same content, or for a pin that it
//! [forgot](Subject::forgets). The oracle then skips the commit.

mod load;

pub use load::LoadInProgress;

use super::{
    arbitrary::{Maintenance, Operation, PINS, families},
    columnar,
    notation::{START_MICROS, Subject, family, table},
};
use crate::{
    Columns, Commit, ErrorKind, KeyRange, Pin, RequestedColumn, Result, Row, RowKey, RowMutation, RowSet, Scan, Store,
    StoreExt, Validation, Write, row::resolve, scan::FamilyColumns,
};
use bytes::Bytes;

/// Microseconds by which the clock advances with every operation.
pub const STEP_MICROS: i64 = 1_000;
/// The time before the first operation.
pub const FIRST_MICROS: i64 = START_MICROS + 500;

/// Runs the operations. `maintain` is called with the store under test for [`Operation::Maintain`], and returns it, or
/// a store opened in its place.
///
/// # Panics
/// If the stores disagree: with the operation and its index in the sequence.
pub async fn differential<M>(oracle: Subject, subject: Subject, operations: Vec<Operation>, mut maintain: M)
where
    M: AsyncFnMut(Subject, Maintenance) -> Subject,
{
    let (pins, loads) = Default::default();
    let mut pair = Pair { oracle, subject, now_micros: FIRST_MICROS, pins, loads };
    pair.set_clocks();
    pair.oracle.store.create_table(&table(), families()).await.unwrap();
    pair.subject.store.create_table(&table(), families()).await.unwrap();
    for (place, operation) in operations.into_iter().enumerate() {
        pair.now_micros += STEP_MICROS;
        pair.set_clocks();
        let what = format!("operation {place}, {operation:?}");
        if let Operation::Maintain(maintenance) = operation {
            if !maintenance.keeps_pins() {
                pair.pins = Default::default();
            }
            if let Maintenance::Purge(_) | Maintenance::PurgeCells = maintenance {
                // The purge waits for those who hold rows that it must remove.
                (pair.subject.release)();
            }
            pair.subject = maintain(pair.subject, maintenance).await;
            pair.end_loads(&what, maintenance).await;
            pair.compare_all(&what).await;
        } else {
            pair.apply(&what, operation).await;
            pair.compare(&format!("after {what}"), &Scan::all(), None).await;
            let requests = columnar::requests();
            pair.compare_columnar(&format!("after {what}"), &requests[place % requests.len()], None).await;
        }
    }
}

/// The outcome of an operation, as far as stores must agree on it.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// It was done.
    Done,
    /// The outcome of each row.
    Statuses(Vec<Result<(), ErrorKind>>),
    /// The decision.
    Decided(bool),
    /// The written cells.
    Written(Row),
}

/// Performs a client's operation, other than reads and pins; `pin` is the one that a commit relied on, `load` the
/// store's load in progress. The time is that of the store's clock.
///
/// # Errors
/// The kind of the store's error.
pub async fn perform(
    store: &dyn Store,
    operation: &Operation,
    now_micros: i64,
    pin: Option<&Pin>,
    load: &mut LoadInProgress,
) -> Result<Answer, ErrorKind> {
    let table = table();
    match operation.clone() {
        Operation::Commit(writes, relied_on) => {
            let validation = relied_on.zip(pin).map(|((_, keys), pin)| Validation {
                pin: pin.clone(),
                rows: keys.into_iter().map(|key| (table.clone(), key)).collect(),
            });
            kind(store.commit(Commit { writes, validation }).await.map(|_| Answer::Done))
        }
        Operation::MutateRows(mut rows) => {
            // A store may stamp the rows separately or together.
            rows.iter_mut().for_each(|row| resolve(&mut row.mutations, now_micros));
            let statuses = store.mutate_rows(&table, rows).await;
            kind(statuses.map(|all| Answer::Statuses(all.into_iter().map(kind).collect())))
        }
        Operation::CheckAndMutate(request) => kind(store.check_and_mutate(&table, request).await.map(Answer::Decided)),
        Operation::ReadModifyWrite(key, rules) => {
            kind(store.read_modify_write(&table, key, rules).await.map(|row| Answer::Written(rounded(row))))
        }
        Operation::Load(rows, fresh) => kind(load::load(store, rows, fresh).await),
        Operation::BeginLoad(rows, fresh) => kind(load.begin(store, rows, fresh).await.map(Answer::Decided)),
        Operation::FinishLoad => kind(load.finish().await.map(|()| Answer::Done)),
        Operation::DropRowRange(prefix) => kind(store.drop_row_range(&table, prefix).await.map(|()| Answer::Done)),
        Operation::ModifyFamily(change) => {
            kind(store.modify_families(&table, vec![change]).await.map(|()| Answer::Done))
        }
        Operation::Pin(_)
        | Operation::Read(..)
        | Operation::ReadAsOf(..)
        | Operation::Wait(_)
        | Operation::Maintain(_) => Ok(Answer::Done),
    }
}

/// The result of a scan, as far as stores must agree on it.
///
/// # Errors
/// The kind of the store's error.
pub async fn observe(store: &dyn Store, scan: Scan) -> Result<Vec<Row>, ErrorKind> {
    kind(store.read_rows(&table(), scan).await.map(|rows| rows.into_iter().map(rounded).collect()))
}

/// Scans that together cover a table in all ways.
pub fn views() -> Vec<Scan> {
    let column = |name: &str, qualifier: &'static str| FamilyColumns {
        family: family(name),
        qualifiers: Some(vec![Bytes::from_static(qualifier.as_bytes())]),
    };
    let middle = KeyRange::new(&b"ab"[..], Some(Bytes::from_static(b"k20")));
    vec![
        Scan::all(),
        Scan { reversed: true, ..Scan::all() },
        Scan { columns: Columns::Of(vec![column("a", "p")]), keep_empty: true, versions_max: Some(1), ..Scan::all() },
        Scan { columns: Columns::Of(vec![column("b", "p"), column("c", "q")]), ..Scan::of(middle) },
        Scan { rows_max: Some(3), reversed: true, ..Scan::all() },
    ]
}

/// Such scans as of some milliseconds before `now_micros`; refused if there is no history.
pub fn as_of_views(now_micros: i64) -> Vec<Scan> {
    let at = |milliseconds: i64| Some((now_micros / 1_000 - milliseconds) * 1_000);
    let moments = [0, 2, 6, 14, 30].map(|milliseconds| Scan { as_of: at(milliseconds), ..Scan::all() });
    moments.into_iter().chain(views().into_iter().map(|view| Scan { as_of: at(4), ..view })).collect()
}

struct Pair {
    oracle: Subject,
    subject: Subject,
    now_micros: i64,
    pins: [Option<Pins>; PINS],
    /// The loads in progress of the oracle and of the subject.
    loads: (LoadInProgress, LoadInProgress),
}

/// A pin of the oracle and one of the subject, taken at the same time.
#[derive(Clone)]
struct Pins {
    oracle: Pin,
    subject: Pin,
    /// A change of families may rewrite rows without a visible difference: no more validations.
    validates: bool,
    /// Ranges written since.
    touched: Vec<KeyRange>,
}

impl Pair {
    fn set_clocks(&self) {
        self.oracle.clock.set(self.now_micros);
        self.subject.clock.set(self.now_micros);
    }

    async fn apply(&mut self, what: &str, operation: Operation) {
        match &operation {
            Operation::Pin(place) => self.pins[*place] = Some(self.pin().await),
            Operation::Read(scan, place) => self.compare(what, scan, *place).await,
            Operation::ReadAsOf(scan, milliseconds, place) => {
                let as_of = Some((self.now_micros / 1_000 - milliseconds) * 1_000);
                self.compare(what, &Scan { as_of, ..scan.clone() }, *place).await;
            }
            Operation::Wait(milliseconds) => self.now_micros += milliseconds * 1_000,
            Operation::Commit(_, Some((place, relied_on))) => {
                let pins = match self.pins[*place].clone().filter(|pins| pins.validates) {
                    Some(pins) => pins,
                    None => self.pin().await,
                };
                let store = self.subject.store.as_ref();
                let right = perform(store, &operation, self.now_micros, Some(&pins.subject), &mut self.loads.1).await;
                if right == Err(ErrorKind::Conflict) {
                    let touched = |key: &RowKey| pins.touched.iter().any(|range| range.contains(key));
                    let forgets = (self.subject.forgets)(&pins.subject);
                    assert!(
                        forgets || relied_on.iter().any(touched),
                        "{what}: a conflict over rows that nothing has touched"
                    );
                    return;
                }
                let store = self.oracle.store.as_ref();
                let left = perform(store, &operation, self.now_micros, Some(&pins.oracle), &mut self.loads.0).await;
                assert_eq!(left, right, "{what}");
            }
            _ => {
                if waits_for_maintenance(&operation) {
                    (self.subject.release)();
                }
                let (left, right) = (self.oracle.store.as_ref(), self.subject.store.as_ref());
                let left = perform(left, &operation, self.now_micros, None, &mut self.loads.0).await;
                let right = perform(right, &operation, self.now_micros, None, &mut self.loads.1).await;
                assert_eq!(left, right, "{what}");
            }
        }
        let changes_families = matches!(operation, Operation::ModifyFamily(_));
        let mut touched = touched(&operation);
        if let Operation::FinishLoad = operation {
            touched = self.loads.1.take_rows();
        }
        for pins in self.pins.iter_mut().flatten() {
            pins.validates &= !changes_families;
            pins.touched.extend(touched.iter().cloned());
        }
    }

    /// Aborts the oracle's loads that the subject has ended.
    async fn end_loads(&mut self, what: &str, maintenance: Maintenance) {
        let is_over = match maintenance {
            Maintenance::Purge(prefix) => self.loads.1.reaches_into(prefix),
            _ => !maintenance.keeps_store(),
        };
        if !is_over {
            return;
        }
        if maintenance.keeps_store() {
            let ended = kind(self.loads.1.finish().await);
            assert_eq!(ended, Err(ErrorKind::Conflict), "{what}: a load of rows that were purged");
        }
        self.loads = Default::default();
    }

    async fn pin(&self) -> Pins {
        let (oracle, subject) = (self.oracle.store.pin().await.unwrap(), self.subject.store.pin().await.unwrap());
        Pins { oracle, subject, validates: true, touched: Vec::new() }
    }

    async fn compare(&self, what: &str, scan: &Scan, place: Option<usize>) {
        let pins = place.and_then(|place| self.pins[place].as_ref());
        let at = |pin: Option<&Pin>| Scan { pin: pin.cloned(), ..scan.clone() };
        let left = observe(self.oracle.store.as_ref(), at(pins.map(|pins| &pins.oracle))).await;
        let right = observe(self.subject.store.as_ref(), at(pins.map(|pins| &pins.subject))).await;
        assert_eq!(left, right, "{what}");
    }

    /// Compares the fast path, if the store has one.
    async fn compare_columnar(&self, what: &str, request: &(RowSet, Vec<RequestedColumn>), place: Option<usize>) {
        let Some(columnar) = self.subject.store.columnar() else { return };
        let pins = place.and_then(|place| self.pins[place].as_ref());
        let pin = match pins {
            Some(pins) => pins.subject.clone(),
            None => self.subject.store.pin().await.unwrap(),
        };
        let left = columnar::expected(self.oracle.store.as_ref(), request, pins.map(|pins| pins.oracle.clone())).await;
        let right = columnar::read(columnar, request, pin).await.map(|(found, _)| found);
        assert_eq!(kind(left), kind(right), "{what}, columnar {request:?}, pin {place:?}");
    }

    /// Compares the newest state and that of every pin, in all ways.
    async fn compare_all(&self, what: &str) {
        for scan in views().into_iter().chain(as_of_views(self.now_micros)) {
            self.compare(&format!("after {what}, {scan:?}"), &scan, None).await;
            for place in 0..PINS {
                self.compare(&format!("after {what}, pin {place}, {scan:?}"), &scan, Some(place)).await;
            }
        }
        for request in columnar::requests() {
            self.compare_columnar(&format!("after {what}"), &request, None).await;
            for place in 0..PINS {
                self.compare_columnar(&format!("after {what}"), &request, Some(place)).await;
            }
        }
    }
}

/// Whether the operation waits for held flushes and compactions.
pub fn waits_for_maintenance(operation: &Operation) -> bool {
    matches!(operation, Operation::Load(..) | Operation::BeginLoad(..) | Operation::FinishLoad)
}

/// The rows that an operation may have written to.
fn touched(operation: &Operation) -> Vec<KeyRange> {
    match operation {
        Operation::Commit(writes, _) => {
            let ranges = writes.iter().map(|write| match write {
                Write::Row { row: RowMutation { key, .. }, .. } => KeyRange::point(key),
                Write::DeleteRange { range, .. } => range.clone(),
            });
            ranges.collect()
        }
        Operation::MutateRows(rows) => rows.iter().map(|row| KeyRange::point(&row.key)).collect(),
        Operation::CheckAndMutate(request) => vec![KeyRange::point(&request.key)],
        Operation::ReadModifyWrite(key, _) => vec![KeyRange::point(key)],
        Operation::Load(rows, _) | Operation::BeginLoad(rows, _) => {
            rows.iter().map(|(key, _)| KeyRange::point(key)).collect()
        }
        Operation::DropRowRange(prefix) => vec![KeyRange::prefix(prefix.clone())],
        Operation::ModifyFamily(_)
        | Operation::FinishLoad
        | Operation::Pin(_)
        | Operation::Read(..)
        | Operation::ReadAsOf(..)
        | Operation::Wait(_)
        | Operation::Maintain(_) => Vec::new(),
    }
}

fn kind<T>(answer: Result<T>) -> Result<T, ErrorKind> {
    answer.map_err(|error| error.kind())
}

fn rounded(mut row: Row) -> Row {
    row.cells.iter_mut().for_each(|cell| cell.timestamp = cell.timestamp.div_euclid(1_000));
    row
}
