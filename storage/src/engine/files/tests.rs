//! Stores made by hand: damaged, copied, and copied while they change.

mod engine;

use super::*;
use crate::{
    Cell, Family, FamilyName, RowKey, TableName, TableSchema,
    engine::{
        cells,
        deletion_vector::DeletionVector,
        frame::{self, Header},
        manifest::{DeletionVectorMeta, Manifests, SegmentId, TableMeta, TabletMeta},
        segment::{SegmentOptions, SegmentWriter, Shape},
        state::State,
    },
    testing::sim::SimFs,
};
use std::path::Path;

const SOURCE: &str = "/source";
const TARGET: &str = "/target";

fn files(fs: &SimFs, path: &str) -> StoreFiles {
    StoreFiles { path: path.into(), fs: Arc::new(fs.clone()), segments: None }
}

/// A segment of a few rows, in the files of a store.
fn segment(store: &StoreFiles, id: u64, base: bool) -> SegmentMeta {
    let family = FamilyName::new("cf").unwrap();
    let shape = Shape::new([(0, &family)], None, &[], []);
    let options = match base {
        true => SegmentOptions::base(SegmentId(id), 0, 5),
        false => SegmentOptions::delta(SegmentId(id), 0, 5),
    };
    let mut writer = SegmentWriter::new(store.blobs().unwrap(), shape, options).unwrap();
    for row in 0..20 {
        let value = vec![b'v'; 100].into();
        let cell = Cell { family: family.clone(), qualifier: "q".into(), timestamp: 5, value };
        let key = RowKey::new(format!("key {row:03} of {id}")).unwrap();
        writer.push(&key, &cells::encode(&[cell], |_| 0)).unwrap();
    }
    writer.finish().unwrap().unwrap()
}

/// A manifest that names these segments, each with two dead positions.
fn commit(store: &StoreFiles, version: u64, segments: Vec<SegmentMeta>) -> Manifest {
    let (mut manifests, _) = Manifests::load(store.fs.clone(), store.path.clone()).unwrap();
    let families = [(FamilyName::new("cf").unwrap(), Family::default())];
    let descriptor = State::default().describe(TableSchema { families: families.into(), ..TableSchema::default() });
    let descriptor = descriptor.to_logged(&TableName::new("rows").unwrap());
    let dead: BTreeMap<SegmentId, DeletionVectorMeta> =
        segments.iter().map(|meta| (meta.id, DeletionVectorMeta { version, count: 2 })).collect();
    let tablets = vec![TabletMeta { range: crate::KeyRange::all(), segments }];
    let table = TableMeta { descriptor, past_rules: Vec::new(), tablets };
    let manifest =
        Manifest { version, sequence: 10, stamp: 5, next_table: 1, tables: vec![table], deletion_vectors: dead };
    let mut bits = DeletionVector::default();
    bits.insert_range(3..5);
    let bits = bits.encode();
    manifests.write_deletion_vectors(version, manifest.deletion_vectors.keys().map(|id| (*id, &bits[..]))).unwrap();
    manifests.commit(&manifest).unwrap();
    manifests.clean(&manifest, false).unwrap();
    manifest
}

/// A log file of frames of 8 bytes, from the first to the last.
fn log(store: &StoreFiles, number: u64, sequences: std::ops::RangeInclusive<u64>) {
    let mut bytes = frame::header(number, 1).to_vec();
    let Header::Sound { seed, .. } = frame::read_header(&bytes) else { panic!("a header") };
    for sequence in sequences {
        let mut frame = vec![0; frame::FRAME_BYTES];
        frame.extend_from_slice(&sequence.to_le_bytes());
        frame::seal(&mut frame, seed, sequence);
        bytes.extend_from_slice(&frame);
    }
    bytes.resize(4096, 0);
    store.fs.create_folder(&store.wal()).unwrap();
    let file = store.fs.create(&log::file_path(&store.wal(), number), 0).unwrap();
    file.write_at(0, &bytes).unwrap();
    file.sync().unwrap();
    store.fs.sync_folder(&store.wal()).unwrap();
}

/// Two segments, two log files, and one that was allocated ahead.
fn store(fs: &SimFs) -> (StoreFiles, Manifest) {
    let store = files(fs, SOURCE);
    let manifest = commit(&store, 1, vec![segment(&store, 100, true), segment(&store, 101, false)]);
    log(&store, 7, 8..=12);
    log(&store, 8, 13..=14);
    store.fs.create(&log::file_path(&store.wal(), 9), 4096).unwrap();
    (store, manifest)
}

/// The counts and findings of a check.
fn check(store: &StoreFiles) -> (Checked, Vec<String>) {
    let mut found = Vec::new();
    let checked = store.check(&mut |step| {
        if let Step::Found(error) = step {
            found.push(error.to_string());
        }
    });
    (checked.unwrap(), found)
}

#[test]
fn a_sound_store_is_read_wholly() {
    let fs = SimFs::new();
    let (store, manifest) = store(&fs);
    let (checked, found) = check(&store);
    assert_eq!(found, [""; 0]);
    let segments: u64 = manifest.segments().values().map(|meta| meta.bytes).sum();
    assert!(checked.bytes > segments);
    assert_eq!(checked, Checked { files: 8, bytes: checked.bytes, found: 0, segment_rows: 40, frames: 7, unnamed: 0 });
    // A store in use changes during a check.
    let lock = store.lock().unwrap();
    assert!(matches!(store.check(&mut |_| {}), Err(Error::Locked { .. })));
    drop(lock);
    assert!(matches!(files(&fs, "/").check(&mut |_| {}), Err(Error::Invalid(_))));
}

#[test]
fn each_damaged_file_is_named_and_the_others_are_looked_at_all_the_same() {
    let fs = SimFs::new();
    let (store, _) = store(&fs);
    let paths = [
        "seg/0000000000000064.parquet",
        "seg/0000000000000065.parquet",
        "dead/0000000000000064-0000000001",
        "wal/0000000007.log",
    ];
    for (at, path) in paths.iter().enumerate() {
        // In the log, that is in the second frame.
        fs.damage(&Path::new(SOURCE).join(path), |bytes| bytes[if at == 3 { 70 } else { 50 }] ^= 1);
        let (checked, found) = check(&store);
        assert_eq!((checked.files, checked.found as usize, found.len()), (8, at + 1, at + 1), "{found:?}");
        for damaged in &paths[..=at] {
            let lines = found.iter().filter(|found| found.contains(&format!("{damaged} is damaged at byte ")));
            assert_eq!(lines.count(), 1, "{damaged}: {found:?}");
        }
    }
    fs.unlink(&Path::new(SOURCE).join(paths[0])).unwrap();
    assert!(check(&store).1.iter().any(|found| found.contains("0064.parquet") && found.contains("missing")));
    // Only the damaged frame is missing from the count.
    assert_eq!(check(&store).0.frames, 6);
    // Without its manifest a store has no segments, but a log.
    fs.damage(&Path::new(SOURCE).join("manifest/0000000001"), |bytes| bytes.truncate(99));
    let (checked, found) = check(&store);
    assert!(found.iter().any(|found| found.contains("manifest/0000000001 is damaged at byte 99")), "{found:?}");
    assert_eq!((checked.found, checked.frames, checked.unnamed), (2, 6, 0));
}

#[test]
fn a_log_with_a_hole_is_found_out() {
    let fs = SimFs::new();
    let (store, _) = store(&fs);
    fs.unlink(&log::file_path(&store.wal(), 8)).unwrap();
    log(&store, 9, 15..=15);
    let (_, found) = check(&store);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("are missing") && found[1].contains("frame 15 follows frame 12"), "{found:?}");
    // An incomplete frame is a torn tail at the end of the log, and a damage elsewhere.
    log(&store, 8, 13..=14);
    fs.damage(&log::file_path(&store.wal(), 9), |bytes| bytes[60] ^= 1);
    assert_eq!(check(&store).1, [""; 0]);
    log(&store, 10, 15..=15);
    let (_, found) = check(&store);
    assert!(found.len() == 1 && found[0].contains("0000000009.log is damaged at byte 40"), "{found:?}");
}

/// The manifest and the number of frames of a store, after a check without findings.
fn contents(store: &StoreFiles) -> (Manifest, u64) {
    let (checked, found) = check(store);
    assert_eq!(found, [""; 0]);
    assert_eq!(checked.unnamed, 0);
    let (_, manifest) = Manifests::load(store.fs.clone(), store.path.clone()).unwrap();
    (manifest, checked.frames)
}

#[test]
fn a_copy_is_the_same_store() {
    let fs = SimFs::new();
    let (store, manifest) = store(&fs);
    let target = files(&fs, TARGET);
    let copied = store.copy_to(&target, &mut |_| {}).unwrap();
    assert_eq!((copied.segments, copied.frames), (2, 7));
    assert_eq!(contents(&target), (manifest.clone(), 7));
    // The copy is durable, and can be copied again when the source is gone.
    let crashed = fs.crashed(3);
    let again = files(&crashed, "/again");
    files(&crashed, TARGET).copy_to(&again, &mut |_| {}).unwrap();
    assert_eq!(contents(&again), (manifest, 7));
}

#[test]
fn a_store_that_has_only_a_log_is_copied() {
    let fs = SimFs::new();
    let store = files(&fs, SOURCE);
    log(&store, 1, 1..=5);
    let target = files(&fs, TARGET);
    store.copy_to(&target, &mut |_| {}).unwrap();
    assert_eq!(contents(&target), (Manifest::default(), 5));
    let nothing = files(&fs, "/nothing");
    fs.create_folder(&nothing.path).unwrap();
    assert!(matches!(nothing.copy_to(&files(&fs, "/x"), &mut |_| {}), Err(Error::Invalid(_))));
}

#[test]
fn a_target_that_is_not_empty_is_refused() {
    let fs = SimFs::new();
    let (store, _) = store(&fs);
    fs.create_folder(&Path::new(TARGET).join("holiday")).unwrap();
    let refused = store.copy_to(&files(&fs, TARGET), &mut |_| {}).unwrap_err();
    assert_eq!(refused.to_string(), "the folder /target is not empty");
    let elsewhere = StoreFiles { segments: Some("file:///source/seg".parse().unwrap()), ..files(&fs, "/empty") };
    let refused = store.copy_to(&elsewhere, &mut |_| {}).unwrap_err();
    assert_eq!(refused.to_string(), "/source/seg is not empty");
    assert_eq!(check(&store).1, [""; 0]);
}

#[test]
fn a_damaged_store_gives_no_copy() {
    for path in ["seg/0000000000000065.parquet", "dead/0000000000000064-0000000001", "wal/0000000007.log"] {
        let fs = SimFs::new();
        let (store, _) = store(&fs);
        fs.damage(&Path::new(SOURCE).join(path), |bytes| bytes[50] ^= 1);
        let refused = store.copy_to(&files(&fs, TARGET), &mut |_| {}).unwrap_err();
        assert!(matches!(refused, Error::Corrupt { .. }), "{path}: {refused}");
        let opened = Manifests::load(Arc::new(fs.clone()), TARGET.into());
        assert!(matches!(opened, Err(Error::Corrupt { .. })), "{path}: half a copy passes for a store");
    }
}

#[test]
fn a_store_that_changes_while_it_is_copied_is_copied_as_it_is_then() {
    let fs = SimFs::new();
    let (store, first) = store(&fs);
    let mut last = first.clone();
    let mut turns = 0;
    let copied = store.copy_to(&files(&fs, TARGET), &mut |step| {
        // Three compactions, each while a segment is copied that it removes.
        if turns == 3 || !matches!(step, Step::Done(_)) {
            return;
        }
        turns += 1;
        let old: Vec<_> = last.segments().keys().copied().collect();
        let id = 200 + turns;
        last = commit(&store, 1 + turns, vec![segment(&store, id, true), segment(&store, id + 50, false)]);
        log(&store, 8, 13..=14 + turns);
        for id in old {
            store.blobs().unwrap().delete(&id.parquet_name()).unwrap();
        }
    });
    assert_eq!((turns, copied.unwrap().segments), (3, 2));
    assert_eq!(contents(&files(&fs, TARGET)), (last, 10));
}

#[test]
fn a_copy_cut_short_is_whole_or_no_store() {
    let mut found = std::collections::BTreeSet::new();
    for calls in 0.. {
        let fs = SimFs::new();
        let (store, manifest) = store(&fs);
        fs.stop_after(fs.calls().len() + calls);
        let done = store.copy_to(&files(&fs, TARGET), &mut |_| {});
        for seed in 0..4 {
            let crashed = fs.crashed(seed);
            let target = files(&crashed, TARGET);
            let whole = match Manifests::load(target.fs.clone(), target.path.clone()) {
                Ok((_, loaded)) if loaded == Manifest::default() => {
                    // A folder in which nothing was begun.
                    assert!(crashed.list(&target.path.join("seg")).unwrap_or_default().is_empty(), "{calls} {seed}");
                    assert!(crashed.list(&target.wal()).unwrap_or_default().is_empty(), "{calls} {seed}");
                    false
                }
                Ok(_) => {
                    assert_eq!(contents(&target), (manifest.clone(), 7), "{calls} {seed}");
                    true
                }
                Err(error) => {
                    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
                    false
                }
            };
            assert!(whole || done.is_err(), "{calls} {seed}");
            found.insert(whole);
        }
        if done.is_ok() {
            break;
        }
    }
    assert_eq!(found.len(), 2);
}
