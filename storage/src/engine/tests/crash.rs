//! Crashes after every call to the file system.
//!
//! A workload of commits runs until the machine stops. The rest of its disk is opened, and must hold every acknowledged
//! commit, nothing of a commit that was never sent, and no partial commit. Then the workload continues, crashes again
//! during recovery, and the store is opened once more.
//!
//! The number of calls and a seed determine a round; a failure names both.

use super::*;
use crate::fs::Fs;
use futures::future::join_all;
use std::collections::BTreeMap;
use url::Url;

/// Commits of a workload; each writes its number to two rows.
const COMMITS: usize = 40;
/// Seeds of the disk's content after a crash, for each number of calls.
const SEEDS: u64 = 6;

/// The acknowledgements of a workload.
#[derive(Default)]
struct Expected {
    made: bool,
    /// By row: the last counter that was acknowledged, and the last that was sent.
    acknowledged: BTreeMap<String, usize>,
    sent: BTreeMap<String, usize>,
}

impl Expected {
    /// Sends commits until one fails. Each writes its number to two rows that share a name.
    async fn work(&mut self, options: EngineOptions, commits: std::ops::Range<usize>) {
        let Ok(engine) = Engine::open(options).await else { return };
        if !self.made {
            self.made = engine.create_table(&table(), schema(GcRule::KeepAll)).await.is_ok()
                || engine.tables().await.is_ok_and(|tables| !tables.is_empty());
            if !self.made {
                return;
            }
        }
        for numbers in commits.collect::<Vec<_>>().chunks(3) {
            // The three commits may be one group.
            let commits = numbers.iter().map(|&number| {
                let name = format!("{}", number % 7);
                let mut commit = put(&format!("left {name}"), format!("{number}"));
                // Some are larger than a disk sector, some than a log file.
                let filler = "x".repeat([0, 30, 700, 3_000][number % 4]);
                commit.writes.extend(put(&format!("right {name}"), format!("{number} {filler}")).writes);
                self.sent.insert(name.clone(), number);
                let engine = engine.clone();
                async move { engine.commit(commit).await.map(|_| (name, number)) }
            });
            let answers = join_all(commits.collect::<Vec<_>>()).await;
            let count = answers.len();
            let acknowledged: Vec<_> = answers.into_iter().flatten().collect();
            let all = acknowledged.len() == count;
            self.acknowledged.extend(acknowledged);
            if !all {
                return;
            }
        }
        let _ = engine.close().await;
    }

    /// Opens the rest of the disk and compares.
    async fn check(&self, fs: &SimFs, round: &str) {
        let engine = Engine::open(simulated(fs)).await.unwrap_or_else(|error| panic!("{round}: {error}"));
        let tables = engine.tables().await.unwrap();
        assert!(!tables.is_empty() || !self.made, "{round}: the table is lost");
        if tables.is_empty() {
            return;
        }
        let number = |text: &str| text.split(' ').next().unwrap().parse::<usize>().unwrap();
        let found: BTreeMap<String, usize> =
            values(engine.as_ref()).await.into_iter().map(|(key, value)| (key, number(&value))).collect();
        for name in self.sent.keys() {
            let (left, right) = (found.get(&format!("left {name}")), found.get(&format!("right {name}")));
            assert_eq!(left, right, "{round}: half of a commit");
            assert!(left >= self.acknowledged.get(name), "{round}: {name} is at {left:?}, acknowledged was another");
            assert!(left <= self.sent.get(name), "{round}: {name} is at {left:?}, which nobody sent");
        }
        assert!(found.len() <= 2 * self.sent.len(), "{round}: rows that nobody sent");
        engine.commit(put("after", "1")).await.unwrap_or_else(|error| panic!("{round}: {error}"));
    }
}

/// The calls of a whole workload.
async fn calls() -> usize {
    let fs = SimFs::new();
    Expected::default().work(simulated(&fs), 0..COMMITS).await;
    fs.calls().len()
}

#[tokio::test]
async fn every_crash_leaves_what_was_acknowledged() {
    let calls = calls().await;
    assert!(calls > 2 * COMMITS);
    for stop in 0..=calls {
        let fs = SimFs::new();
        fs.stop_after(stop);
        let mut expected = Expected::default();
        expected.work(simulated(&fs), 0..COMMITS).await;
        for seed in 0..SEEDS {
            expected.check(&fs.crashed(seed), &format!("stopped after {stop} calls, seed {seed}")).await;
        }
    }
}

#[tokio::test]
async fn every_crash_during_recovery_leaves_what_was_acknowledged() {
    let calls = calls().await;
    for (round, stop) in (20..calls).step_by(7).enumerate() {
        let fs = SimFs::new();
        fs.stop_after(stop);
        let mut expected = Expected::default();
        expected.work(simulated(&fs), 0..COMMITS / 2).await;
        for again in 0..25 {
            let crashed = fs.crashed(round as u64);
            crashed.stop_after(again);
            let mut expected = Expected {
                made: expected.made,
                acknowledged: expected.acknowledged.clone(),
                sent: expected.sent.clone(),
            };
            expected.work(simulated(&crashed), COMMITS / 2..COMMITS).await;
            let crashed = crashed.crashed(again as u64);
            expected
                .check(&crashed, &format!("stopped after {stop} calls, then after {again}, seeds {round}, {again}"))
                .await;
        }
    }
}

#[tokio::test]
async fn what_is_read_after_a_kill_outlives_a_crash() {
    let calls = calls().await;
    for stop in 0..calls {
        let fs = SimFs::new();
        fs.stop_after(stop);
        let mut expected = Expected::default();
        expected.work(simulated(&fs), 0..COMMITS).await;
        fs.go_on();
        let engine = Engine::open(simulated(&fs)).await.unwrap();
        if engine.tables().await.unwrap().is_empty() {
            continue;
        }
        let seen = rows(engine.as_ref()).await;
        for seed in 0..SEEDS {
            let left = Engine::open(simulated(&fs.crashed(seed))).await.unwrap();
            assert_eq!(rows(left.as_ref()).await, seen, "killed after {stop} calls, seed {seed}");
        }
    }
}

/// Minimum number of calls of a store's first start.
const STOPS_OF_A_START: usize = 24;

/// Options of a store with separate segments, so that it has an owner. Stores are identified by their creation time: no
/// two starts have the same time.
fn with_place(fs: &SimFs, start: i64) -> EngineOptions {
    let clock = Box::new(ManualClock::new(1_000_000 * start));
    EngineOptions { segments: Some(Url::parse("file:///elsewhere").unwrap()), clock, ..simulated(fs) }
}

#[tokio::test]
async fn what_segments_held_after_a_kill_outlives_a_crash() {
    async fn work(fs: &SimFs) -> Option<()> {
        let engine = Engine::open(with_place(fs, 1)).await.ok()?;
        engine.create_table(&table(), schema(GcRule::KeepAll)).await.ok()?;
        for round in 0..2 {
            for row in 0..3 {
                engine.commit(put(&format!("{row}"), format!("{round}"))).await.ok()?;
            }
            engine.flush().await.ok()?;
        }
        engine.compact(None).await.ok()
    }
    let whole = SimFs::new();
    work(&whole).await.unwrap();
    for stop in 0..whole.calls().len() {
        let fs = SimFs::new();
        fs.stop_after(stop);
        work(&fs).await;
        fs.go_on();
        let at = |seed: u64| format!("killed after {stop} calls, seed {seed}");
        let before = fs.calls().len();
        let engine = Engine::open(with_place(&fs, 2)).await.unwrap();
        let started = fs.calls().len();
        let seen = match engine.tables().await.unwrap().is_empty() {
            true => None,
            false => Some(rows(engine.as_ref()).await),
        };
        drop(engine);
        for seed in 0..SEEDS / 2 {
            let left = Engine::open(with_place(&fs.crashed(seed), 3))
                .await
                .unwrap_or_else(|error| panic!("{}: {error}", at(seed)));
            if let Some(seen) = &seen {
                assert_eq!(rows(left.as_ref()).await, *seen, "{}", at(seed));
            }
        }
        if stop >= STOPS_OF_A_START {
            continue;
        }
        // The machine may stop during the second start, too.
        for calls in 0..started - before {
            let fs = SimFs::new();
            fs.stop_after(stop);
            work(&fs).await;
            fs.stop_after(fs.calls().len() + calls);
            let _ = Engine::open(with_place(&fs, 2)).await;
            for seed in 0..2 {
                let left = Engine::open(with_place(&fs.crashed(seed), 3)).await;
                left.unwrap_or_else(|error| panic!("killed after {stop} calls, stopped after {calls} more: {error}"));
            }
        }
    }
}

/// A file system that omits a call that durability needs: the tests above must notice.
#[derive(Debug)]
struct Forgetful(SimFs);

impl Fs for Forgetful {
    fn create_folder(&self, path: &Path) -> std::io::Result<()> {
        self.0.create_folder(path)
    }

    fn list(&self, folder: &Path) -> std::io::Result<Vec<String>> {
        self.0.list(folder)
    }

    fn create(&self, path: &Path, bytes: u64) -> std::io::Result<Box<dyn crate::fs::File>> {
        self.0.create(path, bytes)
    }

    fn open(&self, path: &Path) -> std::io::Result<Box<dyn crate::fs::File>> {
        self.0.open(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> std::io::Result<()> {
        self.0.rename(from, to)
    }

    fn unlink(&self, path: &Path) -> std::io::Result<()> {
        self.0.unlink(path)
    }

    fn sync_folder(&self, _: &Path) -> std::io::Result<()> {
        Ok(())
    }

    fn lock(&self, path: &Path) -> std::io::Result<Option<Box<dyn std::any::Any + Send + Sync>>> {
        self.0.lock(path)
    }
}

#[tokio::test]
async fn the_simulator_notices_folders_that_are_not_synced() {
    let fs = SimFs::new();
    let mut expected = Expected::default();
    let options = EngineOptions { fs: Arc::new(Forgetful(fs.clone())), ..simulated(&fs) };
    expected.work(options, 0..COMMITS).await;
    let mut lost = 0;
    for seed in 0..20 {
        let crashed = fs.crashed(seed);
        let checked = Engine::open(simulated(&crashed)).await;
        let whole = match checked {
            Ok(engine) => engine.tables().await.is_ok_and(|tables| !tables.is_empty()),
            Err(_) => false,
        };
        lost += usize::from(!whole);
    }
    assert!(lost > 0, "no crash lost a file whose folder was never synced");
}
