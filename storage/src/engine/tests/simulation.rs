//! Crashes and faults, driven by seeds.
//!
//! A seed determines a workload of [operations](crate::testing::arbitrary) and a chain of rounds. In a round an engine
//! opens the store of the previous round, continues with the workload, and meets the fault that the seed picked: the
//! machine stops after some call to its file system (possibly during the opening), a sync fails, the disk is full for a
//! while, or the object store with the segments fails requests. Then the process is killed, or the machine crashes and
//! forgets some unsynced writes.
//!
//! The expected state is a memory store that performed the acknowledged operations. At most one operation of a round
//! had no answer; after the next opening it has happened completely or not at all.
//!
//! The variable [`SEEDS_VARIABLE`], `from..to`, picks other seeds than [`SEEDS`]. A failure names the seed, and how to
//! run it alone.

mod fault;

use self::fault::Fault;
use super::{differential::oracle, machine::Machine, *};
use crate::testing::{
    Subject,
    arbitrary::{Maintenance, Operation, families, operation, operations_with_history},
    blobs::FaultyBlobs,
    differential::{
        Answer, FIRST_MICROS, LoadInProgress, STEP_MICROS, as_of_views, observe, perform, views, waits_for_maintenance,
    },
};
use proptest::{
    collection::vec,
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::{
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// The seeds of every run.
const SEEDS: Range<u64> = 0..100;
/// Seeds with an object store, whose rounds take longer.
const SEEDS_WITH_BLOBS: Range<u64> = 0..40;
/// Operations of a seed.
const OPERATIONS: Range<usize> = 20..70;
/// The environment variable for other seeds.
const SEEDS_VARIABLE: &str = "KEYSPAN_SEEDS";
/// Rounds of a seed.
const ROUNDS: usize = 8;

/// How a round ended.
enum End {
    /// All of the workload is done.
    Done,
    /// An operation may have been done.
    Unanswered(Box<Operation>),
    /// Nothing is in doubt.
    Cut,
}

struct Simulation {
    random: StdRng,
    machine: Machine,
    oracle: Subject,
    now_micros: i64,
    /// Whether syncs fail in this round.
    syncs_fail: bool,
    /// Whether the disk was full in this round: a writer may get that error of a flush later.
    was_full: bool,
    /// Whether requests for segments failed in this round.
    blobs_failed: bool,
    /// The operation without an answer, until it is known whether it was done.
    doubt: Option<Operation>,
    /// The loads in progress of the oracle and of the engine.
    loads: (LoadInProgress, LoadInProgress),
    /// For messages.
    at: String,
}

/// Runs one seed.
async fn simulate(seed: u64, machine: Machine) {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    // Every other seed uses a table with history.
    let workload = match seed % 2 {
        0 => vec(operation(), OPERATIONS).new_tree(&mut runner).unwrap().current(),
        _ => operations_with_history().new_tree(&mut runner).unwrap().current(),
    };
    let mut simulation = Simulation {
        random: StdRng::seed_from_u64(seed),
        machine,
        oracle: oracle(),
        now_micros: FIRST_MICROS,
        syncs_fail: false,
        was_full: false,
        blobs_failed: false,
        doubt: None,
        loads: Default::default(),
        at: String::new(),
    };
    simulation.run(workload).await;
}

impl Simulation {
    async fn run(&mut self, workload: Vec<Operation>) {
        self.set_clocks();
        self.oracle.store.create_table(&super::table(), families()).await.unwrap();
        let engine = self.machine.start().await.unwrap();
        engine.create_table(&super::table(), families()).await.unwrap();
        self.end(engine).await;
        let mut left = workload.into_iter().enumerate();
        for round in 0..ROUNDS {
            let fault = Fault::pick(&mut self.random, self.machine.blobs.is_some());
            self.at = format!("round {round}, {fault:?}");
            if let Fault::Stop(calls) = fault {
                self.machine.fs.stop_after(self.machine.fs.calls().len() + calls);
            }
            if let Fault::Blobs { from: None, per_thousand, .. } = fault {
                self.fail_blobs(per_thousand);
            }
            match self.machine.start().await {
                Ok(engine) => {
                    match self.round(&engine, fault, &mut left).await {
                        End::Unanswered(operation) => self.doubt = Some(*operation),
                        End::Done | End::Cut => {}
                    }
                    self.end(engine).await;
                }
                Err(error) => {
                    let hurt = self.machine.fs.is_stopped() || self.blobs_failed && error.kind() == ErrorKind::Io;
                    assert!(hurt, "{}: it does not open: {error:?}", self.at);
                    self.end(()).await;
                }
            }
        }
        // The last opening is without faults.
        self.at = "the last opening".into();
        let engine = self.machine.start().await.unwrap_or_else(|error| panic!("{}: {error:?}", self.at));
        assert!(self.settle(&engine).await, "{}: it cannot be read", self.at);
        for (place, operation) in left {
            self.at = format!("the last opening, operation {place}, {operation:?}");
            assert!(matches!(self.step(&engine, operation).await, End::Done), "{}", self.at);
        }
        self.compare(&engine).await;
    }

    /// Ends the process at an arbitrary point.
    async fn end(&mut self, last: impl Sized) {
        self.machine.stop(last).await;
        // The oracle's load may be the operation in doubt.
        self.loads.1 = LoadInProgress::default();
        self.machine.fs.fail_syncs(false);
        self.syncs_fail = false;
        (self.was_full, self.blobs_failed) = (false, false);
        self.resume_blobs(0);
        self.machine.fs.fill_disk(false);
        match self.random.random_bool(0.3) {
            true => self.machine.fs.go_on(),
            false => self.machine.fs = self.machine.fs.crashed(self.random.random()),
        }
    }

    async fn round(
        &mut self,
        engine: &Arc<Engine>,
        fault: Fault,
        workload: &mut impl Iterator<Item = (usize, Operation)>,
    ) -> End {
        if !self.settle(engine).await {
            return match self.doubt.take() {
                Some(operation) => End::Unanswered(Box::new(operation)),
                None => End::Cut,
            };
        }
        let at = self.at.clone();
        let operations = self.random.random_range(1..30);
        for (step, (place, operation)) in workload.by_ref().take(operations).enumerate() {
            self.at = format!("{at}, operation {place}, {operation:?}");
            match fault {
                Fault::Sync(from) if step == from => {
                    self.machine.fs.fail_syncs(true);
                    self.syncs_fail = true;
                }
                Fault::Full { from, growths, .. } if step == from => {
                    self.machine.fs.fill_disk_after(growths);
                    self.was_full = true;
                }
                Fault::Full { to, .. } if step == to => self.machine.fs.fill_disk(false),
                Fault::Blobs { from: Some(from), per_thousand, .. } if step == from => self.fail_blobs(per_thousand),
                Fault::Blobs { to, .. } if step == to => self.resume_blobs(0),
                _ => {}
            }
            match self.step(engine, operation).await {
                End::Done => {}
                end => return end,
            }
            if self.machine.fs.is_stopped() {
                return End::Cut;
            }
        }
        End::Done
    }

    fn fail_blobs(&mut self, per_thousand: u32) {
        self.blobs_failed = true;
        self.resume_blobs(per_thousand);
    }

    /// Lets requests for segments succeed; returns how many of a thousand failed, for
    /// [`resume_blobs`](Self::resume_blobs).
    fn calm_blobs(&self) -> u32 {
        self.machine.blobs.as_ref().map_or(0, |blobs| blobs.fail(0))
    }

    fn resume_blobs(&self, per_thousand: u32) {
        if let Some(blobs) = &self.machine.blobs {
            blobs.fail(per_thousand);
        }
    }

    /// Finds out whether the operation without an answer was done, and compares. `false` if the machine has stopped.
    async fn settle(&mut self, engine: &Arc<Engine>) -> bool {
        let failing = self.calm_blobs();
        let found = self.whole(engine.as_ref()).await;
        self.resume_blobs(failing);
        let Some(found) = found else { return false };
        let mut expected = self.whole(self.oracle.store.as_ref()).await;
        if let Some(operation) = self.doubt.take()
            && expected.as_ref() != Some(&found)
        {
            let oracle = self.oracle.store.as_ref();
            let done = perform(oracle, &operation, self.now_micros, None, &mut self.loads.0).await;
            self.at += &format!(", after {operation:?} that was done or not: {done:?}");
            expected = self.whole(self.oracle.store.as_ref()).await;
        }
        assert_eq!(Some(found), expected, "{}", self.at);
        self.loads.0 = LoadInProgress::default();
        self.compare(engine).await
    }

    /// Every row, and the families; `None` if the machine has stopped.
    async fn whole(&self, store: &dyn Store) -> Option<(Vec<Row>, Vec<(TableName, TableSchema)>)> {
        let rows = observe(store, Scan::all()).await;
        let rows = rows.inspect_err(|kind| self.must_be_stopped(kind)).ok()?;
        let tables = store.tables().await;
        let mut tables = tables.inspect_err(|error| self.must_be_stopped(error)).ok()?;
        // Stores may skip stamps.
        for history in tables.iter_mut().filter_map(|(_, schema)| schema.history.as_mut()) {
            history.since_micros = history.since_micros.div_euclid(1_000);
        }
        Some((rows, tables))
    }

    fn must_be_stopped(&self, found: &dyn std::fmt::Debug) {
        assert!(self.machine.fs.is_stopped(), "{}: {found:?}", self.at);
    }

    /// Compares the engine with the oracle; `false` if the machine has stopped.
    async fn compare(&self, engine: &Arc<Engine>) -> bool {
        let failing = self.calm_blobs();
        let same = self.compare_in_peace(engine).await;
        self.resume_blobs(failing);
        same
    }

    async fn compare_in_peace(&self, engine: &Arc<Engine>) -> bool {
        for scan in views().into_iter().chain(as_of_views(self.now_micros)) {
            let found = observe(engine.as_ref(), scan.clone()).await;
            let expected = observe(self.oracle.store.as_ref(), scan.clone()).await;
            if found != expected
                && let Err(kind) = &found
            {
                self.must_be_stopped(kind);
                return false;
            }
            assert_eq!(found, expected, "{}, {scan:?}", self.at);
        }
        true
    }

    /// Whether calls to the file system may fail.
    fn is_hurt(&self) -> bool {
        self.syncs_fail || self.machine.fs.is_stopped() || self.machine.fs.is_full() || self.blobs_failed
    }

    /// Performs one operation. The clock advances before it, so that an operation in doubt is settled at its own time.
    async fn step(&mut self, engine: &Arc<Engine>, operation: Operation) -> End {
        self.now_micros += STEP_MICROS;
        self.set_clocks();
        match &operation {
            Operation::Wait(milliseconds) => {
                self.now_micros += milliseconds * 1_000;
                End::Done
            }
            Operation::Read(scan, _) => self.read(engine, scan).await,
            Operation::ReadAsOf(scan, milliseconds, _) => {
                let as_of = Some((self.now_micros / 1_000 - milliseconds) * 1_000);
                self.read(engine, &Scan { as_of, ..scan.clone() }).await
            }
            Operation::Maintain(maintenance) if maintenance.keeps_pins() => self.maintain(*maintenance).await,
            // A round has its own end, and a purge waits for files that a stopped machine does not remove.
            Operation::Maintain(_) | Operation::Pin(_) => End::Done,
            _ => self.write(engine, operation).await,
        }
    }

    async fn read(&self, engine: &Arc<Engine>, scan: &Scan) -> End {
        let found = observe(engine.as_ref(), scan.clone()).await;
        if found == observe(self.oracle.store.as_ref(), scan.clone()).await {
            return End::Done;
        }
        if self.blobs_failed && found == Err(ErrorKind::Io) {
            return End::Done;
        }
        self.must_be_stopped(&found);
        End::Cut
    }

    async fn write(&mut self, engine: &Arc<Engine>, operation: Operation) -> End {
        if waits_for_maintenance(&operation) {
            self.machine.release();
        }
        let found = perform(engine.as_ref(), &operation, self.now_micros, None, &mut self.loads.1).await;
        match found {
            Err(ErrorKind::NoSpace) if self.is_hurt() || self.was_full => {
                // Nothing was done, and reads work.
                self.give_up_load(&operation);
                match self.compare(engine).await {
                    true => End::Done,
                    false => End::Cut,
                }
            }
            // Nothing was written to the log.
            Err(ErrorKind::Unavailable | ErrorKind::Io) if self.only_blobs_hurt() => {
                self.give_up_load(&operation);
                match self.compare(engine).await {
                    true => End::Done,
                    false => End::Cut,
                }
            }
            Err(ErrorKind::Unavailable | ErrorKind::Io) if self.is_hurt() => End::Unanswered(Box::new(operation)),
            Ok(Answer::Statuses(found)) if self.is_hurt() => {
                // A row that could not be read was not written; the others were.
                let is_answer =
                    |status: &Result<(), ErrorKind>| !matches!(status, Err(ErrorKind::Unavailable | ErrorKind::Io));
                let Operation::MutateRows(rows) = operation else { unreachable!("only rows have statuses") };
                let rows = rows.into_iter().zip(&found).filter(|(_, status)| is_answer(status));
                let operation = Operation::MutateRows(rows.map(|(row, _)| row).collect());
                let expected = self.perform_expected(&operation).await;
                let found = found.into_iter().filter(is_answer).collect();
                assert_eq!(Ok(Answer::Statuses(found)), expected, "{}", self.at);
                End::Done
            }
            answer => {
                let expected = self.perform_expected(&operation).await;
                assert_eq!(answer, expected, "{}", self.at);
                End::Done
            }
        }
    }

    /// Performs the operation on the oracle.
    async fn perform_expected(&mut self, operation: &Operation) -> Result<Answer, ErrorKind> {
        perform(self.oracle.store.as_ref(), operation, self.now_micros, None, &mut self.loads.0).await
    }

    /// Aborts the oracle's load if the engine's was aborted by the failure.
    fn give_up_load(&mut self, operation: &Operation) {
        if let Operation::BeginLoad(..) | Operation::FinishLoad = operation {
            self.loads.0 = LoadInProgress::default();
        }
    }

    async fn maintain(&mut self, maintenance: Maintenance) -> End {
        match self.machine.tend(maintenance).await {
            Ok(()) => End::Done,
            Err(error) if error.kind() == ErrorKind::NoSpace && (self.is_hurt() || self.was_full) => End::Done,
            Err(error) => {
                assert!(self.is_hurt(), "{}: {error:?}", self.at);
                if self.only_blobs_hurt() { End::Done } else { End::Cut }
            }
        }
    }

    /// Whether only requests for segments may fail.
    fn only_blobs_hurt(&self) -> bool {
        self.blobs_failed && !self.machine.fs.is_stopped()
    }

    fn set_clocks(&self) {
        self.oracle.clock.set(self.now_micros);
        self.machine.clock.set(self.now_micros);
    }
}

/// The seeds to run.
fn seeds(usual: Range<u64>) -> Range<u64> {
    let Ok(chosen) = std::env::var(SEEDS_VARIABLE) else { return usual };
    let range = chosen.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    range.unwrap_or_else(|| panic!("{SEEDS_VARIABLE} is from..to, not {chosen}"))
}

/// Runs every seed on a machine of its own; `test` is the name of the test that does it.
fn run(test: &str, usual: Range<u64>, machine: fn(u64) -> Machine) {
    for seed in seeds(usual) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let outcome = catch_unwind(AssertUnwindSafe(|| runtime.block_on(simulate(seed, machine(seed)))));
        assert!(
            outcome.is_ok(),
            "seed {seed} failed, see above; alone: {SEEDS_VARIABLE}={seed}..{} cargo test -p keyspan-storage --lib {test}",
            seed + 1
        );
    }
}

#[test]
fn every_seed_leaves_what_was_acknowledged() {
    run("every_seed_leaves_what_was_acknowledged", SEEDS, |_| Machine::new(simulated));
}

#[test]
fn every_tiny_seed_leaves_what_was_acknowledged() {
    run("every_tiny_seed_leaves_what_was_acknowledged", SEEDS, |_| Machine::new(tiny));
}

#[test]
fn every_seed_with_an_object_store_leaves_what_was_acknowledged() {
    run("every_seed_with_an_object_store_leaves_what_was_acknowledged", SEEDS_WITH_BLOBS, |seed| {
        Machine::with_blobs(tiny, FaultyBlobs::new(seed))
    });
}
