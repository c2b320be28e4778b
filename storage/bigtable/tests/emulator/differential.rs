//! Random writes and reads on the memory store and on the emulator: both give the same rows.
//!
//! Left out is what the stores do not promise alike. What a rule has condemned may come back there when newer cells are
//! deleted, so that single cells and columns are deleted only where a family keeps everything; and the emulator merges
//! no maxima, and Bigtable has other sketches.

use crate::subject;
use keyspan_storage::{
    Aggregate, Clock, Commit, Family, FamilyName, GcRule, Mutation, RowMutation, Scan, StoreExt, TableName,
    TableSchema, Write,
    clock::ManualClock,
    memory::MemoryStore,
    row,
    testing::{Subject, arbitrary},
};
use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use std::sync::Arc;

/// Sequences of operations.
const SEEDS: u8 = 60;
/// Operations of a sequence.
const OPERATIONS: usize = 40;
/// The time of the first operation, in microseconds of the case.
const START_MICROS: i64 = 1_000_500;
/// The families that keep everything.
const KEEPS_ALL: [&str; 2] = ["a", "sum"];

fn table() -> TableName {
    TableName::new("t").unwrap()
}

fn schema() -> TableSchema {
    let family = |name: &str, gc, aggregate| (FamilyName::new(name).unwrap(), Family { gc, aggregate });
    let age = GcRule::MaxAgeMicros;
    TableSchema::of([
        family("a", GcRule::KeepAll, None),
        family("b", GcRule::MaxVersions(2), None),
        family("c", age(12_250), None),
        family("d", GcRule::Intersection(vec![GcRule::MaxVersions(1), age(8_250)]), None),
        family("sum", GcRule::KeepAll, Some(Aggregate::Sum)),
    ])
}

/// Whether both stores promise the same of a mutation.
fn is_alike(mutation: &Mutation) -> bool {
    match mutation {
        Mutation::DeleteFromColumn { family, .. } => KEEPS_ALL.contains(&family.as_str()),
        other => other.family().is_none_or(|family| !["max", "hll", "none", "e"].contains(&family.as_str())),
    }
}

struct Run {
    runner: TestRunner,
    stores: [Subject; 2],
    now_micros: i64,
}

impl Run {
    fn draw<T: std::fmt::Debug>(&mut self, strategy: impl Strategy<Value = T>) -> T {
        strategy.new_tree(&mut self.runner).unwrap().current()
    }

    fn tick(&mut self) {
        self.now_micros += 1_000;
        self.stores.iter().for_each(|subject| subject.clock.set(self.now_micros));
    }

    /// Mutations of a row with the timestamps of this moment: stores may stamp differently by a millisecond.
    fn row(&mut self) -> RowMutation {
        let key = self.draw(arbitrary::row_key());
        let count = self.draw(1usize..5);
        let mut mutations: Vec<Mutation> = (0..count).map(|_| self.draw(arbitrary::mutation())).collect();
        mutations.retain(is_alike);
        row::resolve(&mut mutations, self.now_micros / 1_000 * 1_000);
        RowMutation { key, mutations }
    }

    async fn write(&mut self, what: &str) {
        let count = self.draw(1usize..6);
        let rows: Vec<RowMutation> = (0..count).map(|_| self.row()).collect();
        let as_commit = self.draw(proptest::bool::ANY);
        let mut kinds = Vec::new();
        for subject in &self.stores {
            kinds.push(if as_commit {
                // A commit that is refused in part would be written in part there.
                let first = rows[0].clone();
                let writes = vec![Write::Row { table: table(), row: first }];
                let done = subject.store.commit(Commit { writes, validation: None }).await;
                vec![done.err().map(|error| error.kind())]
            } else {
                let done = subject.store.mutate_rows(&table(), rows.clone()).await.unwrap();
                done.into_iter().map(|result| result.err().map(|error| error.kind())).collect()
            });
        }
        assert_eq!(kinds[0], kinds[1], "{what}: {rows:?}");
    }

    async fn compare(&self, what: &str, scan: Scan) {
        let mut answers = Vec::new();
        for subject in &self.stores {
            let rows = subject.store.read_rows(&table(), scan.clone()).await;
            answers.push(rows.map_err(|error| error.kind()));
        }
        assert_eq!(answers[0], answers[1], "{what}: {scan:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_emulator_agrees_with_the_memory_store() {
    for seed in 0..SEEDS {
        let clock = Arc::new(ManualClock::new(0));
        let memory = Subject::new(Arc::new(MemoryStore::new(Box::new(clock.clone()))), clock);
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
        let runner = TestRunner::new_with_rng(Config::default(), rng);
        let mut run = Run { runner, stores: [memory, subject().await], now_micros: START_MICROS };
        run.tick();
        for subject in &run.stores {
            subject.store.create_table(&table(), schema()).await.unwrap();
        }
        for operation in 0..OPERATIONS {
            let what = format!("seed {seed}, operation {operation}");
            run.tick();
            run.write(&what).await;
            run.compare(&what, Scan::all()).await;
            for _ in 0..3 {
                let scan = run.draw(arbitrary::scan());
                let relied = run.draw(proptest::bool::ANY);
                let pin = None;
                run.compare(&what, Scan { relied, pin, ..scan }).await;
            }
        }
        assert!(run.stores[0].clock.now_micros() > START_MICROS);
    }
}
