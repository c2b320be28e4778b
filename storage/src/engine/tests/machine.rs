//! A simulated machine that runs an engine: it flushes, compacts, is killed and crashes when a test says so.

use super::*;
use crate::{
    KeyRange, Pin,
    engine::{apply, blobs::Blobs, state::RECENT_CHANGES_MAX},
    testing::{
        Subject,
        arbitrary::Maintenance,
        blobs::{FaultyBlobs, HeldRequests},
        columnar::Typed,
        sim::HeldSyncs,
    },
};
use tokio::task::JoinHandle;

/// The folder of segment files.
const SEGMENTS: &str = "/store/seg";

/// The machine: its disk, its clock, and the engine on it.
pub(super) struct Machine {
    pub(super) fs: SimFs,
    pub(super) clock: Arc<ManualClock>,
    /// The object store with the segments, if they are not on the disk.
    pub(super) blobs: Option<FaultyBlobs>,
    options: fn(&SimFs) -> EngineOptions,
    /// A flush or compaction that waits until its segment may be finished. Declared after the engine, so that it is
    /// dropped later: its threads end when it is released.
    begun: Option<(Held, JoinHandle<Result<()>>)>,
    engine: Option<Arc<Engine>>,
}

impl Machine {
    /// A machine with an empty disk; its engines have these options, but for the clock.
    pub(super) fn new(options: fn(&SimFs) -> EngineOptions) -> Self {
        let clock = Arc::new(ManualClock::new(0));
        Self { fs: SimFs::new(), clock, blobs: None, options, begun: None, engine: None }
    }

    /// A machine whose segments are in an object store.
    pub(super) fn with_blobs(options: fn(&SimFs) -> EngineOptions, blobs: FaultyBlobs) -> Self {
        Self { blobs: Some(blobs), ..Self::new(options) }
    }

    /// Starts an engine on the disk's content.
    pub(super) async fn start(&mut self) -> Result<Arc<Engine>> {
        let blobs = self.blobs.clone().map(|blobs| Arc::new(blobs) as Arc<dyn Blobs>);
        let options = EngineOptions { clock: Box::new(self.clock.clone()), blobs, ..(self.options)(&self.fs) };
        let engine = Engine::open(options).await?;
        engine.set_layouts(Arc::new(Typed));
        self.engine = Some(engine.clone());
        // A writer that waits for a held flush would wait for ever.
        let (shared, fs, blobs) = (engine.shared.clone(), self.fs.clone(), self.blobs.clone());
        std::thread::spawn(move || {
            let mut stalls = 0;
            while let Some(now) = shared.coordination.await_stall(stalls) {
                stalls = now;
                release(&fs, blobs.as_ref());
            }
        });
        Ok(engine)
    }

    /// The engine as the subject of a differential test.
    pub(super) async fn subject(&mut self) -> Subject {
        let engine = self.start().await.unwrap();
        let shared = engine.shared.clone();
        let forgets = move |pin: &Pin| {
            let flushes = shared.published.load().flushes - apply::pinned(pin).unwrap().flushes;
            flushes > RECENT_CHANGES_MAX as u64
        };
        let (fs, blobs) = (self.fs.clone(), self.blobs.clone());
        let release = move || release(&fs, blobs.as_ref());
        Subject { forgets: Box::new(forgets), release: Box::new(release), ..Subject::new(engine, self.clock.clone()) }
    }

    /// Performs maintenance with the engine of the subject, which must be the running one.
    pub(super) async fn maintain(&mut self, subject: Subject, maintenance: Maintenance) -> Subject {
        if maintenance.keeps_store() {
            self.tend(maintenance).await.unwrap();
            return subject;
        }
        match maintenance {
            Maintenance::Kill => {
                self.stop(subject).await;
                self.fs.go_on();
            }
            Maintenance::Crash(seed) => {
                self.stop(subject).await;
                self.fs = self.fs.crashed(seed);
            }
            _ => {
                self.finish().await.unwrap();
                subject.store.close().await.unwrap();
                self.engine = None;
                drop(subject);
            }
        }
        self.subject().await
    }

    /// Flushes, compacts, or begins or finishes one of them.
    pub(super) async fn tend(&mut self, maintenance: Maintenance) -> Result<()> {
        match self.finish().await {
            // A task begun while the disk was full ends so, even if there is room again.
            Err(error) if error.kind() == ErrorKind::NoSpace => {}
            ended => ended?,
        }
        let engine = self.engine.clone().expect("an engine runs");
        match maintenance {
            Maintenance::Flush => flush(&engine).await?,
            Maintenance::Compact => compact(&engine).await?,
            Maintenance::Purge(prefix) => drop(engine.purge(&[(table(), KeyRange::prefix(prefix))]).await?),
            Maintenance::PurgeCells => drop(engine.purge_cells(&[table()]).await?),
            Maintenance::BeginFlush => self.begin(tokio::spawn(async move { flush(&engine).await })).await,
            Maintenance::BeginCompact => self.begin(tokio::spawn(async move { compact(&engine).await })).await,
            _ => {}
        }
        Ok(())
    }

    /// Runs the task until its first segment is about to be finished, or to its end.
    async fn begin(&mut self, task: JoinHandle<Result<()>>) {
        let coordination = &self.engine.as_ref().expect("an engine runs").shared.coordination;
        let held = match &self.blobs {
            Some(blobs) => Held::Requests(blobs.hold("finish")),
            None => Held::Syncs(self.fs.hold_syncs_in(Path::new(SEGMENTS))),
        };
        while !held.has_met() && !task.is_finished() && !coordination.is_stalled() {
            tokio::task::yield_now().await;
        }
        if coordination.is_stalled() {
            // Stalled since before the syncs were held: nobody else releases them.
            release(&self.fs, self.blobs.as_ref());
        }
        self.begun = Some((held, task));
    }

    /// Releases the held task.
    pub(super) fn release(&self) {
        release(&self.fs, self.blobs.as_ref());
    }

    /// Finishes the held task.
    pub(super) async fn finish(&mut self) -> Result<()> {
        let Some((held, task)) = self.begun.take() else { return Ok(()) };
        drop(held);
        task.await.expect("maintenance does not panic")
    }

    /// Stops the machine and ends the process. The engine must have no other owner than `last`.
    pub(super) async fn stop<T>(&mut self, last: T) {
        self.fs.stop();
        // It fails or not, depending on its progress.
        let _ = self.finish().await;
        self.engine = None;
        drop(last);
    }
}

/// Holds the task until it is dropped.
enum Held {
    Syncs(HeldSyncs),
    Requests(HeldRequests),
}

impl Held {
    fn has_met(&self) -> bool {
        match self {
            Self::Syncs(held) => held.has_met(),
            Self::Requests(held) => held.has_met(),
        }
    }
}

/// Releases whatever is held.
fn release(fs: &SimFs, blobs: Option<&FaultyBlobs>) {
    match blobs {
        Some(blobs) => blobs.release(),
        None => fs.release_syncs(),
    }
}

async fn flush(engine: &Engine) -> Result<()> {
    engine.flush().await
}

async fn compact(engine: &Engine) -> Result<()> {
    engine.compact(None).await
}
