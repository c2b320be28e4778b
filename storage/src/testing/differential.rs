//! One sequence of operations on two stores: the oracle and the one under test. Every answer must agree, errors by their kind,
//! and after each operation everything that both hold.
//!
//! Stores may skip stamps (one that pins before it writes is a microsecond late), so that timestamps are compared by the
//! millisecond; [`arbitrary`](super::arbitrary) keeps what clients bring away from them. And a store may find a conflict
//! where the oracle finds none, in a row that was written to what it was before: the oracle then sits the commit out.

use super::{
    arbitrary::{Operation, families},
    notation::{START_MICROS, Subject, table},
};
use crate::{
    Commit, ErrorKind, KeyRange, Pin, Result, Row, RowKey, RowMutation, Scan, StoreExt, Validation, Write, row::resolve,
};

/// Runs the operations. `reopen` is called for [`Operation::Reopen`] with the store under test, closed, and gives it back open.
///
/// # Panics
/// When the stores disagree: with the operation, by its place in the sequence.
pub async fn differential<R>(oracle: Subject, subject: Subject, operations: Vec<Operation>, reopen: R)
where
    R: AsyncFn(Subject) -> Subject,
{
    let mut pair = Pair { oracle, subject, now_micros: START_MICROS + 500, pins: None, touched: Vec::new() };
    pair.set_clocks();
    pair.oracle.store.create_table(&table(), families()).await.unwrap();
    pair.subject.store.create_table(&table(), families()).await.unwrap();
    for (place, operation) in operations.into_iter().enumerate() {
        pair.now_micros += 1_000;
        pair.set_clocks();
        let what = format!("operation {place}, {operation:?}");
        if matches!(operation, Operation::Reopen) {
            pair.subject.store.close().await.unwrap();
            (pair.subject, pair.pins) = (reopen(pair.subject).await, None);
        } else {
            pair.apply(&what, operation).await;
        }
        pair.compare(&format!("after {what}"), &Scan::all(), false).await;
    }
}

struct Pair {
    oracle: Subject,
    subject: Subject,
    now_micros: i64,
    /// The oracle's and the subject's, taken at the same time.
    pins: Option<Pins>,
    /// What was written since the pins were taken.
    touched: Vec<KeyRange>,
}

#[derive(Clone)]
struct Pins {
    oracle: Pin,
    subject: Pin,
    /// A change of families may rewrite rows of which no reader sees a difference: no more validations.
    validates: bool,
}

impl Pair {
    fn set_clocks(&self) {
        self.oracle.clock.set(self.now_micros);
        self.subject.clock.set(self.now_micros);
    }

    async fn apply(&mut self, what: &str, operation: Operation) {
        let (oracle, subject) = (self.oracle.store.clone(), self.subject.store.clone());
        match operation {
            Operation::Commit(writes, relied_on) => self.commit(what, writes, relied_on).await,
            Operation::MutateRows(mut rows) => {
                // A store may stamp the rows one by one or together.
                rows.iter_mut().for_each(|row| resolve(&mut row.mutations, self.now_micros));
                self.touched.extend(rows.iter().map(|row| KeyRange::point(&row.key)));
                let answers =
                    (oracle.mutate_rows(&table(), rows.clone()).await, subject.mutate_rows(&table(), rows).await);
                let statuses =
                    |answer: Result<Vec<Result<()>>>| answer.map(|all| all.into_iter().map(kind).collect::<Vec<_>>());
                assert_eq!(kind(statuses(answers.0)), kind(statuses(answers.1)), "{what}");
            }
            Operation::CheckAndMutate(request) => {
                self.touched.push(KeyRange::point(&request.key));
                let left = oracle.check_and_mutate(&table(), request.clone()).await;
                assert_eq!(kind(left), kind(subject.check_and_mutate(&table(), request).await), "{what}");
            }
            Operation::ReadModifyWrite(key, rules) => {
                self.touched.push(KeyRange::point(&key));
                let left = oracle.read_modify_write(&table(), key.clone(), rules.clone()).await;
                let right = subject.read_modify_write(&table(), key, rules).await;
                assert_eq!(kind(left.map(rounded)), kind(right.map(rounded)), "{what}");
            }
            Operation::DropRowRange(prefix) => {
                self.touched.push(KeyRange::prefix(prefix.clone()));
                let left = oracle.drop_row_range(&table(), prefix.clone()).await;
                assert_eq!(kind(left), kind(subject.drop_row_range(&table(), prefix).await), "{what}");
            }
            Operation::ModifyFamily(change) => {
                let left = oracle.modify_families(&table(), vec![change.clone()]).await;
                assert_eq!(kind(left), kind(subject.modify_families(&table(), vec![change]).await), "{what}");
                self.pins.iter_mut().for_each(|pins| pins.validates = false);
            }
            Operation::Pin => {
                self.pins = Some(self.pin().await);
                self.touched.clear();
            }
            Operation::Read(scan, pinned) => self.compare(what, &scan, pinned).await,
            Operation::Wait(milliseconds) => self.now_micros += milliseconds * 1_000,
            Operation::Reopen => {}
        }
    }

    async fn pin(&self) -> Pins {
        let (oracle, subject) = (self.oracle.store.pin().await.unwrap(), self.subject.store.pin().await.unwrap());
        Pins { oracle, subject, validates: true }
    }

    async fn commit(&mut self, what: &str, writes: Vec<Write>, relied_on: Option<Vec<RowKey>>) {
        let kept = self.pins.clone().filter(|pins| pins.validates);
        let is_fresh = kept.is_none();
        let pins = match kept {
            Some(pins) => pins,
            None => self.pin().await,
        };
        let commit = |pin: &Pin| Commit {
            writes: writes.clone(),
            validation: relied_on.as_ref().map(|keys| Validation {
                pin: pin.clone(),
                rows: keys.iter().map(|key| (table(), key.clone())).collect(),
            }),
        };
        let right = kind(self.subject.store.commit(commit(&pins.subject)).await.map(drop));
        if right == Err(ErrorKind::Conflict) {
            let touched = |key: &RowKey| !is_fresh && self.touched.iter().any(|range| range.contains(key));
            assert!(relied_on.iter().flatten().any(touched), "{what}: a conflict over rows that nothing has touched");
            return;
        }
        let left = kind(self.oracle.store.commit(commit(&pins.oracle)).await.map(drop));
        assert_eq!(left, right, "{what}");
        self.touched.extend(writes.iter().map(|write| match write {
            Write::Row { row: RowMutation { key, .. }, .. } => KeyRange::point(key),
            Write::DeleteRange { range, .. } => range.clone(),
        }));
    }

    async fn compare(&self, what: &str, scan: &Scan, pinned: bool) {
        let pins = self.pins.as_ref().filter(|_| pinned);
        let at = |pin: Option<&Pin>| Scan { pin: pin.cloned(), ..scan.clone() };
        let left = self.oracle.store.read_rows(&table(), at(pins.map(|pins| &pins.oracle))).await;
        let right = self.subject.store.read_rows(&table(), at(pins.map(|pins| &pins.subject))).await;
        let rounded = |rows: Vec<Row>| rows.into_iter().map(rounded).collect::<Vec<_>>();
        assert_eq!(kind(left.map(rounded)), kind(right.map(rounded)), "{what}");
    }
}

fn kind<T>(answer: Result<T>) -> Result<T, ErrorKind> {
    answer.map_err(|error| error.kind())
}

fn rounded(mut row: Row) -> Row {
    row.cells.iter_mut().for_each(|cell| cell.timestamp = cell.timestamp.div_euclid(1_000));
    row
}
