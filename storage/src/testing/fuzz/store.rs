//! A store with files of every kind, and the effect of damaging them.

use super::{
    super::{differential::views, notation::schema},
    GROUP_ROWS_MAX, STORE, block_on, damage, family, is_refusal, open, table,
};
use crate::{
    Commit, GcRule, Mutation, Row, RowKey, Scan, Store, StoreExt, fs::Fs, inspect::SegmentKind, testing::sim::SimFs,
};
use bytes::Bytes;
use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// Commits: the first third is in bases, the second in a delta.
const COMMITS: u8 = 36;
/// The first of those that only the log has.
const LOGGED: u8 = COMMITS / 3 * 2;

/// A closed store.
struct Sample {
    fs: SimFs,
    /// Every file, by path.
    files: Vec<PathBuf>,
    /// The content after each commit that only the log has, and before them.
    states: Vec<Vec<Row>>,
}

fn sample() -> &'static Sample {
    static SAMPLE: OnceLock<Sample> = OnceLock::new();
    SAMPLE.get_or_init(|| block_on(make()))
}

async fn make() -> Sample {
    let fs = SimFs::new();
    let engine = open(&fs).await.expect("an empty store opens");
    let gc = [("a", GcRule::KeepAll), ("b", GcRule::MaxVersions(2))];
    engine.create_table(&table(), schema(&gc)).await.unwrap();
    let mut states = Vec::new();
    for number in 0..COMMITS {
        if number == COMMITS / 3 {
            engine.compact(None).await.unwrap();
        }
        if number == LOGGED {
            engine.flush().await.unwrap();
            states.push(engine.read_rows(&table(), Scan::all()).await.unwrap());
        }
        engine.commit(commit(number)).await.unwrap();
        if number >= LOGGED {
            states.push(engine.read_rows(&table(), Scan::all()).await.unwrap());
        }
    }
    let segments = engine.inspect().expect("engines say what they have").segments;
    let has_groups = |kind| segments.iter().any(|one| one.kind == kind && one.rows > u64::from(GROUP_ROWS_MAX));
    assert!(has_groups(SegmentKind::Base) && has_groups(SegmentKind::Delta), "{segments:?}");
    engine.close().await.unwrap();
    let files = files(&fs, Path::new(STORE));
    Sample { fs, files, states }
}

/// Two rows; later commits touch rows of earlier ones, so that some positions are dead.
fn commit(number: u8) -> Commit {
    let cell = |name: &str, value: Vec<u8>| Mutation::SetCell {
        family: family(name),
        qualifier: Bytes::from_static(b"q"),
        timestamp: Some(1_000 * i64::from(number)),
        value: value.into(),
    };
    let row = |key: String| RowKey::new(key).expect("short and not empty");
    let mut commit = Commit::row(
        table(),
        row(format!("row {:02}", number % 16)),
        vec![cell("a", vec![number; 40]), cell("b", vec![])],
    );
    let other = Commit::row(table(), row(format!("side {number:02}")), vec![cell("b", vec![b'x'; 100])]);
    commit.writes.extend(other.writes);
    commit
}

fn files(fs: &SimFs, folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for name in fs.list(folder).unwrap() {
        let path = folder.join(name);
        match fs.read(&path) {
            Some(_) => files.push(path),
            None => files.extend(self::files(fs, &path)),
        }
    }
    files
}

/// The first log file of the store.
pub(super) fn log() -> &'static [u8] {
    static LOG: OnceLock<Vec<u8>> = OnceLock::new();
    LOG.get_or_init(|| {
        let sample = sample();
        let first = sample.files.iter().find(|path| path.extension().is_some_and(|ending| ending == "log"));
        sample.fs.read(first.expect("a store has a log")).expect("it is a file")
    })
}

/// The footer of a segment of the store.
pub(super) fn footer() -> &'static [u8] {
    static FOOTER: OnceLock<Vec<u8>> = OnceLock::new();
    FOOTER.get_or_init(|| {
        let sample = sample();
        let segment = sample.files.iter().find(|path| path.extension().is_some_and(|ending| ending == "parquet"));
        let bytes = sample.fs.read(segment.expect("it has segments")).expect("it is a file");
        // It is uncompressed in the tail: JSON, the only such text in the file.
        let start = bytes.windows(11).position(|window| window == br#"{"version":"#).expect("a footer");
        let mut depth = 0;
        let end = bytes[start..].iter().position(|byte| {
            depth += i32::from(*byte == b'{') - i32::from(*byte == b'}');
            depth == 0
        });
        bytes[start..=start + end.expect("it ends")].to_vec()
    })
}

/// A store with damaged files, as the bytes describe: a byte for the file, then one edit. It is refused, or has its
/// content except for commits at the end of a damaged log.
pub fn damaged_store(bytes: &[u8]) {
    let sample = sample();
    let fs = sample.fs.crashed(0);
    let mut log_is_damaged = false;
    for edit in bytes.chunks_exact(damage::EDIT_BYTES + 1) {
        let path = &sample.files[usize::from(edit[0]) % sample.files.len()];
        if fs.read(path).is_none() {
            continue;
        }
        log_is_damaged |= path.extension().is_some_and(|ending| ending == "log");
        match edit[1] {
            u8::MAX => fs.unlink(path).unwrap(),
            _ => fs.damage(path, |bytes| damage::change(bytes, &edit[1..])),
        }
    }
    block_on(check(&fs, sample, log_is_damaged));
}

async fn check(fs: &SimFs, sample: &Sample, log_is_damaged: bool) {
    let engine = match open(fs).await {
        Ok(engine) => engine,
        Err(kind) => return assert!(is_refusal(kind), "{kind:?}"),
    };
    let found = match engine.read_rows(&table(), Scan::all()).await {
        Ok(found) => found,
        Err(error) => return assert!(is_refusal(error.kind()), "{error:?}"),
    };
    let allowed = if log_is_damaged { &sample.states[..] } else { &sample.states[sample.states.len() - 1..] };
    assert!(allowed.contains(&found), "neither refused nor right: {found:?}");
    for scan in views() {
        // Other ways to the same rows find them, or the damage.
        if let Err(error) = engine.read_rows(&table(), scan).await {
            assert!(is_refusal(error.kind()), "{error:?}");
        }
    }
    // It can be inspected and closed, whatever happened.
    let _ = engine.close().await;
}
