//! The run of `keyspan bench scan`, step by step.

use super::{
    ScanOptions,
    data::{Data, Random},
    measure::{bytes_written, file_bytes, percentile, reset_peak, timed},
    plain::{Layout, Plain},
    progress::Progress,
    report::{Line, Quantity, Report, Target},
    rounds::{ALL, FEW, HALF, Query, Rounds, Side},
    store::{OpenStore, StoreOptions, write_singly},
};
use anyhow::{Context, Result, ensure};
use keyspan_catalog::ids::OPERATOR_DATABASE;
use keyspan_gateway::resources::{Memory, process_bytes};
use keyspan_storage::{RowKey, engine::Codec, inspect::SegmentKind};
use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    thread::available_parallelism,
    time::{Duration, Instant},
};

/// Devices that are deleted, each by a prefix of keys, at most.
const PREFIXES: u64 = 1_000;
/// Rows that are read one by one, at most; one in ten of a small table.
const ROWS_READ_MAX: u64 = 2_000;
/// Times of single reads that are recorded, at most.
const READS_MAX: usize = 1 << 20;
/// Concurrent writers.
const WRITERS: u64 = 64;
/// Writes of each concurrent writer, at most; a writer alone writes four times as many.
const WRITES_MAX: u64 = 500;
/// Memory of the process beyond `--memory`, as `keyspan serve --help` says.
const PROCESS_BYTES: u64 = 100 << 20;

/// A run under way.
struct Run<'a> {
    options: &'a ScanOptions,
    folder: &'a Path,
    memory: Memory,
    progress: Progress,
    lines: Vec<Line>,
    data: Data,
    open: OpenStore,
    /// The peak of the process's memory, without the phases that write plain files.
    peak_bytes: u64,
}

/// The whole run, in `folder`.
///
/// # Errors
/// If an answer is wrong, or anything fails.
pub(super) async fn run(options: &ScanOptions, folder: &Path) -> Result<Report> {
    let memory = Memory::of_machine(options.memory, None)?;
    let how = StoreOptions { folder: &folder.join("store"), memory, codec: Codec::Lz4, compacts: true };
    let open = Box::pin(OpenStore::new(how.clone())).await?;
    let (progress, lines, data) = (Progress::new(), Vec::new(), Data::new(options.seed, options.rows));
    let mut run = Run { options, folder, memory, progress, lines, data, open, peak_bytes: 0 };
    reset_peak();
    run.load().await?;
    let layout = run.layout()?;
    run.note_peak();
    let same = run.plain("same", &layout).await?;
    let default = run.plain("default", &layout.of_datafusion()?).await?;
    run.clean(&same, &default).await?;
    run.space("space, LZ4", &same)?;
    // From here on only `compact` compacts: otherwise the background would clean the dirty tables.
    let mut run = run.reopen(StoreOptions { compacts: false, ..how.clone() }, "start-up").await?;
    run.single_reads().await?;
    run.updates(&same).await?;
    run.compacted(&same).await?;
    run.deletions(&same).await?;
    let mut run =
        run.reopen(StoreOptions { codec: Codec::Zstd, compacts: false, ..how }, "start-up after updates").await?;
    run.small().await?;
    run.writers().await?;
    run.finish().await
}

impl Run<'_> {
    async fn load(&mut self) -> Result<()> {
        self.open.define().await?;
        let before = bytes_written();
        self.progress.phase("load", Some(self.data.rows()));
        let progress = &self.progress;
        let (bytes, elapsed) = timed(self.open.load(&self.data, |rows| progress.at(rows))).await?;
        let rate = self.data.rows() as f64 / elapsed.wall;
        self.lines.push(Line::single("load, through the tenants' stores", Quantity::per_second(rate)));
        self.progress.phase("compact", None);
        self.open.compact().await?;
        if let Some((before, after)) = before.zip(bytes_written()) {
            let (written, given) = (Quantity::bytes(after - before), Quantity::bytes(bytes));
            self.lines.push(Line::ratio("write amplification of load and compaction", written, given));
        }
        Ok(())
    }

    /// The layout of the table's segments, which are all bases.
    fn layout(&self) -> Result<Layout> {
        let segments = self.open.segments()?;
        ensure!(segments.iter().all(|(segment, _)| segment.kind == SegmentKind::Base), "compaction left deltas");
        Layout::of_segments(&segments.into_iter().map(|(_, file)| file).collect::<Vec<PathBuf>>())
    }

    async fn plain(&mut self, name: &str, layout: &Layout) -> Result<Plain> {
        self.progress.phase(&format!("plain files, {name} layout"), Some(self.data.rows()));
        let progress = &self.progress;
        let plain = Plain::write(&self.folder.join(name), layout, &self.data, |rows| progress.at(rows)).await;
        reset_peak();
        plain
    }

    async fn clean(&mut self, same: &Plain, default: &Plain) -> Result<()> {
        let (data, mut session) = (self.data, self.open.session(OPERATOR_DATABASE)?);
        for query in [ALL, FEW, HALF] {
            self.progress.phase(&format!("clean scan, {}", query.name), None);
            let sides = [Side::Keyspan(&mut session), Side::Plain(same), Side::Plain(default)];
            let rounds = Rounds::ask(query, &mut sides.map(|side| (side, data)), self.options.rounds).await?;
            let name = format!("clean scan, {}", query.name);
            self.compared(&name, &rounds, 1, (query.name == ALL.name).then_some(Target::AtMost(1.2)));
            self.compared(&format!("{name}, DataFusion's layout"), &rounds, 2, None);
        }
        Ok(())
    }

    /// One query, compared to plain files with the rows before any change.
    async fn scan(&mut self, name: &str, query: Query, same: &Plain, target: Option<Target>) -> Result<Rounds> {
        self.progress.phase(name, None);
        let mut session = self.open.session(OPERATOR_DATABASE)?;
        let before = self.data.before();
        let mut sides = [(Side::Keyspan(&mut session), self.data), (Side::Plain(same), before)];
        let rounds = Rounds::ask(query, &mut sides, self.options.rounds).await?;
        self.compared(name, &rounds, 1, target);
        Ok(rounds)
    }

    fn compared(&mut self, name: &str, rounds: &Rounds, other: usize, target: Option<Target>) {
        let (keyspan, plain) = (Quantity::seconds(rounds.seconds(0)), Quantity::seconds(rounds.seconds(other)));
        let line = Line::ratio(name, keyspan, plain);
        // The median of the rounds' ratios, not the ratio of median times.
        let line = Line { result: Quantity::times(rounds.ratio(other)), ..line };
        self.lines.push(target.into_iter().fold(line, Line::with));
        self.lines.push(Line::single(format!("{name}: CPU"), Quantity::times(rounds.cpu_ratio(other))));
    }

    fn space(&mut self, name: &str, plain: &Plain) -> Result<()> {
        let segments: Vec<PathBuf> = self.open.segments()?.into_iter().map(|(_, file)| file).collect();
        let (ours, theirs) = (Quantity::bytes(file_bytes(&segments)?), Quantity::bytes(file_bytes(&plain.files)?));
        self.lines.push(Line::ratio(name, ours, theirs).with(Target::AtMost(1.3)));
        Ok(())
    }

    /// Closes the store, opens it again and reads a row; measures how long that takes.
    async fn reopen(mut self, how: StoreOptions<'_>, name: &str) -> Result<Self> {
        self.progress.phase(name, None);
        let number = self.data.rows() - 1;
        let row = (0..=number).rev().find_map(|number| self.data.row(number)).context("a row")?;
        let data = self.data;
        self.open.close().await?;
        let start = async {
            let open = Box::pin(OpenStore::new(how)).await?;
            let table = open.table()?;
            ensure!(open.read(&table, &open.key(&table, &data, &row)?).await?, "a row is lost");
            Ok(open)
        };
        let (open, elapsed) = timed(start).await?;
        self.lines.push(Line::single(name, Quantity::seconds(elapsed.wall)).with(Target::AtMost(1.0)));
        Ok(Self { open, ..self })
    }

    fn reads(&self) -> u64 {
        ROWS_READ_MAX.min(self.data.rows() / 10)
    }

    /// Keys of random rows that exist.
    fn keys(&self, count: u64) -> Result<Vec<RowKey>> {
        let (table, mut random) = (self.open.table()?, Random::new(self.options.seed, u64::MAX));
        let numbers = (0..count).map(|_| random.below(self.data.rows()));
        let rows = numbers.filter_map(|number| self.data.row(number));
        rows.map(|row| self.open.key(&table, &self.data, &row)).collect()
    }

    async fn read_all(&self, keys: &[RowKey]) -> Result<Vec<Duration>> {
        let (table, mut times) = (self.open.table()?, Vec::with_capacity(keys.len()));
        for key in keys {
            let began = Instant::now();
            ensure!(self.open.read(&table, key).await?, "a row is lost");
            times.push(began.elapsed());
        }
        Ok(times)
    }

    async fn single_reads(&mut self) -> Result<()> {
        self.progress.phase("single rows", None);
        // Fewer rows than the caches hold; the first run loads their pages.
        let keys = self.keys(self.reads())?;
        let mut first = self.read_all(&keys).await?;
        let mut again = self.read_all(&keys).await?;
        let line =
            |name, times: &mut [Duration], percent| Line::single(name, Quantity::seconds(percentile(times, percent)));
        self.lines.push(line("a row from segments, p50", &mut first, 50).with(Target::AtMost(300e-6)));
        self.lines.push(line("a row from segments, p99", &mut first, 99));
        self.lines.push(line("a row from the row cache, p50", &mut again, 50).with(Target::AtMost(20e-6)));
        Ok(())
    }

    async fn updates(&mut self, same: &Plain) -> Result<()> {
        for (percent, most) in [(1, 1.5), (10, 3.0)] {
            self.progress.phase(&format!("update {percent} % of the rows"), Some(self.data.rows()));
            let progress = &self.progress;
            self.open.update(&mut self.data, percent * 10, |number| progress.at(number)).await?;
            let memory = Quantity::bytes(self.open.memtable_bytes());
            self.lines.push(Line::single(format!("{percent} % updated: in memtables"), memory));
            let target = Some(Target::AtMost(most));
            self.scan(&format!("{percent} % updated, as written"), ALL, same, target).await?;
            self.open.flush().await?;
            self.scan(&format!("{percent} % updated, flushed"), ALL, same, target).await?;
            self.scan(&format!("{percent} % updated, flushed, 1 % by a third"), FEW, same, None).await?;
        }
        Ok(())
    }

    /// Compacts while single rows are read, then scans.
    async fn compacted(&mut self, same: &Plain) -> Result<()> {
        self.progress.phase("compact", None);
        let keys = self.keys(self.reads() * 10)?;
        let (ended, mut times) = (AtomicBool::new(false), Vec::new());
        let reads = async {
            for key in keys.iter().cycle() {
                if ended.load(Ordering::Relaxed) || times.len() == READS_MAX {
                    break;
                }
                times.extend(self.read_all(std::slice::from_ref(key)).await?);
                // A read from caches never yields by itself.
                tokio::task::yield_now().await;
            }
            anyhow::Ok(())
        };
        let compaction = async {
            let done = timed(async { self.open.compact().await }).await;
            ended.store(true, Ordering::Relaxed);
            done
        };
        let (done, read) = tokio::join!(compaction, reads);
        let (((), elapsed), ()) = (done?, read?);
        self.lines.push(Line::single("compaction with 10 % updated", Quantity::seconds(elapsed.wall)));
        self.lines.push(Line::single("single reads meanwhile", Quantity::rows(times.len() as u64)));
        for percent in [50, 99] {
            let time = Quantity::seconds(percentile(&mut times, percent));
            self.lines.push(Line::single(format!("a row during compaction, p{percent}"), time));
        }
        self.scan("compacted again", ALL, same, Some(Target::AtMost(1.2))).await?;
        Ok(())
    }

    /// Deletes devices by the prefixes of their keys; scans before and after a compaction, each compared to the same
    /// plain files.
    async fn deletions(&mut self, same: &Plain) -> Result<()> {
        let prefixes = self.data.deletable().min(PREFIXES);
        self.progress.phase(&format!("delete {prefixes} prefixes"), Some(prefixes));
        let progress = &self.progress;
        let deleting = self.open.delete(&mut self.data, prefixes, |at| progress.at(at));
        let ((), elapsed) = timed(deleting).await?;
        self.lines.push(Line::single("prefix deletes", Quantity::per_second(prefixes as f64 / elapsed.wall)));
        let before = self.scan(&format!("{prefixes} prefixes deleted"), ALL, same, None).await?;
        self.progress.phase("compact", None);
        self.open.compact().await?;
        let after = self.scan("compacted after deletes", ALL, same, None).await?;
        // By way of the plain files, to which both were compared.
        let (deleted, compacted) = (Quantity::times(before.ratio(1)), Quantity::times(after.ratio(1)));
        let line = Line::ratio("deleted prefixes to compacted", deleted, compacted);
        self.lines.push(line.with(Target::AtMost(1.5)));
        Ok(())
    }

    /// Rewrites the store with zstd: a few updates everywhere, and a compaction.
    async fn small(&mut self) -> Result<()> {
        self.progress.phase("compact with zstd", None);
        let updated = self.data.updated + 1;
        self.open.update(&mut self.data, updated, |_| {}).await?;
        self.open.compact().await?;
        let layout = self.layout()?;
        self.note_peak();
        let plain = self.plain("zstd", &layout).await?;
        self.space("space, zstd", &plain)?;
        self.progress.phase("clean scan, zstd", None);
        let (data, mut session) = (self.data, self.open.session(OPERATOR_DATABASE)?);
        let mut sides = [(Side::Keyspan(&mut session), data), (Side::Plain(&plain), data)];
        let rounds = Rounds::ask(ALL, &mut sides, self.options.rounds).await?;
        self.compared("clean scan, zstd", &rounds, 1, None);
        Ok(())
    }

    async fn writers(&mut self) -> Result<()> {
        self.progress.phase("single durable writes", None);
        let writes = (self.data.rows() / WRITERS).clamp(1, WRITES_MAX);
        let alone = writes * 4;
        let ((), one) = timed(write_singly(&self.open, 1, alone, 0)).await?;
        let ((), many) = timed(write_singly(&self.open, WRITERS, writes, alone)).await?;
        let rate = |writes: u64, elapsed: f64| Quantity::per_second(writes as f64 / elapsed);
        let (many, one) = (rate(WRITERS * writes, many.wall), rate(alone, one.wall));
        self.lines.push(Line::ratio("64 writers to one", many, one).with(Target::AtLeast(10.0)));
        Ok(())
    }

    /// Records the peak of the process's memory so far.
    fn note_peak(&mut self) {
        if let Some((_, peak)) = process_bytes() {
            self.peak_bytes = self.peak_bytes.max(peak);
        }
    }

    async fn finish(mut self) -> Result<Report> {
        self.note_peak();
        if self.peak_bytes > 0 {
            let may = self.memory.all_bytes + PROCESS_BYTES;
            let (took, may) = (Quantity::bytes(self.peak_bytes), Quantity::bytes(may));
            self.lines.push(Line::ratio("peak memory to --memory + 100MiB", took, may).with(Target::AtMost(1.0)));
        }
        self.open.close().await?;
        self.progress.finish();
        Ok(Report {
            version: env!("CARGO_PKG_VERSION"),
            rows: self.options.rows,
            rounds: self.options.rounds.into(),
            seed: self.options.seed,
            memory_bytes: self.memory.all_bytes,
            cores: available_parallelism().map_or(1, usize::from),
            lines: self.lines,
        })
    }
}
