//! Manifests round-trip, damaged ones are refused, and a crash leaves the old one or the new one.

use super::{files::Cleanup, *};
use crate::{
    Error, Family, FamilyName, Result, TableName, TableSchema,
    engine::{
        blobs::{Blobs, LocalBlobs},
        state::State,
    },
    fs::Fs,
    testing::sim::SimFs,
};
use proptest::prelude::*;
use std::{path::Path, sync::Arc};

const STORE: &str = "/store";

/// A manifest of one table, whose tablets end at the given keys, each with a base and a number of deltas.
fn manifest(version: u64, tablets: &BTreeMap<Vec<u8>, usize>) -> Manifest {
    let families = [(FamilyName::new("cf").unwrap(), Family::default())];
    let descriptor = State::default().describe(TableSchema::of(families));
    let mut made = Manifest { version, sequence: 90, stamp: 1_000, next_table: 1, ..Manifest::default() };
    let mut start = bytes::Bytes::new();
    let mut tablet_metas = Vec::new();
    for (end, &deltas) in tablets {
        let end = bytes::Bytes::copy_from_slice(end);
        let first = RowKey::new([&start[..], b"\0"].concat()).unwrap();
        let range = KeyRange::new(start.clone(), Some(end.clone()));
        let segments = (0..=deltas).filter(|_| range.contains(&first)).map(|at| SegmentMeta {
            id: SegmentId((tablet_metas.len() * 100 + at) as u64),
            rows: 9,
            bytes: u64::MAX,
            side_bytes: at as u64,
            tail_bytes: 7,
            tail_crc: u32::MAX,
            first: first.clone(),
            last: first.clone(),
            stamp: -1,
            base: at == 0,
        });
        tablet_metas.push(TabletMeta { range: range.clone(), segments: segments.collect() });
        start = end;
    }
    let past_rules = vec![PastRule { family: 0, rule: GcRule::MaxVersions(3), at_micros: 7 }];
    let name = TableName::new("rows").unwrap();
    let table = TableMeta { descriptor: descriptor.to_logged(&name), past_rules, tablets: tablet_metas };
    made.deletion_vectors =
        table.tablets.iter().flat_map(|tablet| &tablet.segments).map(|segment| segment.id).map(dead).collect();
    made.tables.push(table);
    made
}

fn dead(segment: SegmentId) -> (SegmentId, DeletionVectorMeta) {
    (segment, DeletionVectorMeta { version: 1, count: 2 })
}

fn small(version: u64) -> Manifest {
    manifest(version, &[(b"m".to_vec(), 1)].into())
}

fn load(fs: &SimFs) -> Result<(Manifests, Manifest)> {
    Manifests::load(Arc::new(fs.clone()), STORE.into())
}

/// A store with this manifest and its deletion vectors.
fn store(manifest: &Manifest) -> SimFs {
    let fs = SimFs::new();
    fs.create_folder(Path::new(STORE)).unwrap();
    let (mut manifests, empty) = load(&fs).unwrap();
    assert_eq!(empty, Manifest::default());
    manifests
        .write_deletion_vectors(1, manifest.deletion_vectors.keys().map(|&segment| (segment, &b"bits"[..])))
        .unwrap();
    manifests.commit(manifest).unwrap();
    fs
}

proptest! {
    #[test]
    fn a_manifest_is_read_back(tablets in prop::collection::btree_map(prop::collection::vec(any::<u8>(), 1..4), 0usize..5, 0..6), version in 1u64..) {
        let made = manifest(version, &tablets);
        prop_assert_eq!(made.check(), Ok(()));
        let bytes = files::encode(&made);
        prop_assert_eq!(files::decode(version, Path::new("x"), &bytes).unwrap(), made.clone());
        let fs = store(&Manifest { version: 1, ..made.clone() });
        prop_assert_eq!(load(&fs).unwrap().1, Manifest { version: 1, ..made });
    }

    #[test]
    fn garbage_is_refused_without_a_panic(garbage in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(files::decode(1, Path::new("x"), &garbage).is_err());
        let sealed = envelope::seal(envelope::Kind::Manifest(1), 1, &garbage);
        prop_assert!(files::decode(1, Path::new("x"), &sealed).is_err());
    }
}

#[test]
fn every_damage_is_told_with_the_file_and_byte() {
    let made = small(1);
    let (&segment, dead) = made.deletion_vectors.first_key_value().unwrap();
    let (manifests, _) = load(&store(&made)).unwrap();
    let files =
        [Path::new(STORE).join(CURRENT), manifests.manifest_path(1), manifests.deletion_vector_path(segment, 1)];
    for path in files {
        let fs = store(&made);
        let sound = fs.read(&path).unwrap();
        let check = |bytes: Vec<u8>, what: &str| {
            fs.damage(&path, |file| *file = bytes);
            let read = load(&fs).and_then(|(manifests, _)| manifests.read_deletion_vector(segment, dead));
            match read {
                Err(Error::Corrupt { path: found, offset, .. }) if found == path => {
                    assert!(offset <= sound.len() as u64 + 1, "{what} of {path:?}: byte {offset}");
                }
                other => panic!("{what} of {path:?}: {other:?}"),
            }
        };
        for bit in 0..sound.len() * 8 {
            let mut bytes = sound.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            check(bytes, &format!("flipped bit {bit}"));
        }
        for length in 0..sound.len() {
            check(sound[..length].to_vec(), &format!("the first {length} bytes"));
        }
        check([&sound[..], b"\0"].concat(), "one byte more");
        fs.unlink(&path).unwrap();
        let read = load(&fs).and_then(|(manifests, _)| manifests.read_deletion_vector(segment, dead));
        assert!(matches!(read, Err(Error::Corrupt { path: found, .. }) if found == path), "{path:?} missing");
    }
}

#[test]
fn a_file_under_another_name_is_found_out() {
    let fs = store(&small(1));
    let (mut manifests, _) = load(&fs).unwrap();
    manifests.commit(&small(2)).unwrap();
    fs.rename(&manifests.manifest_path(1), &manifests.manifest_path(2)).unwrap();
    assert!(matches!(load(&fs), Err(Error::Corrupt { offset: 16, .. })));
    fs.rename(&manifests.deletion_vector_path(SegmentId(0), 1), &manifests.deletion_vector_path(SegmentId(1), 1))
        .unwrap();
    let read = manifests.read_deletion_vector(SegmentId(1), &DeletionVectorMeta { version: 1, count: 2 });
    assert!(matches!(read, Err(Error::Corrupt { offset: 16, .. })));
}

#[test]
fn a_newer_format_is_not_called_damage() {
    let fs = store(&small(1));
    fs.damage(&Path::new(STORE).join(CURRENT), |bytes| {
        bytes[8] = 3;
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), &bytes[16..]);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
    });
    assert!(matches!(load(&fs), Err(Error::Unsupported(text)) if text.contains("is in format 3")));
}

#[test]
fn a_crash_leaves_the_old_manifest_or_the_new() {
    let mut found = std::collections::BTreeSet::new();
    for first in [true, false] {
        for calls in 0.. {
            let fs = if first { SimFs::new() } else { store(&small(1)) };
            fs.create_folder(Path::new(STORE)).unwrap();
            let (mut manifests, old) = load(&fs).unwrap();
            let new = small(old.version + 1);
            fs.stop_after(fs.calls().len() + calls);
            let segments = new.deletion_vectors.keys().map(|&segment| (segment, &b"bits"[..]));
            let done = manifests.write_deletion_vectors(new.version, segments).and_then(|()| manifests.commit(&new));
            for seed in 0..32 {
                let crashed = fs.crashed(seed);
                let (manifests, loaded) = load(&crashed).unwrap();
                assert!(loaded == new || (loaded == old && done.is_err()), "{calls} calls, seed {seed}: {loaded:?}");
                for (&segment, dead) in &loaded.deletion_vectors {
                    assert_eq!(manifests.read_deletion_vector(segment, dead).unwrap(), "bits");
                }
                found.insert((first, loaded.version));
            }
            if done.is_ok() {
                break;
            }
        }
    }
    assert_eq!(found, [(true, 0), (true, 1), (false, 1), (false, 2)].into());
}

#[test]
fn start_up_makes_the_manifest_that_it_found_last() {
    let fs = store(&small(1));
    let (mut manifests, _) = load(&fs).unwrap();
    fs.stop_after(fs.calls().len() + rename_of(&small(2)));
    assert!(manifests.commit(&small(2)).is_err());
    // Killed, not crashed: the rename is visible.
    fs.go_on();
    let (manifests, manifest) = load(&fs).unwrap();
    assert_eq!(manifest.version, 2);
    let versions = || (0..64).map(|seed| load(&fs.crashed(seed)).map_or(0, |(_, loaded)| loaded.version));
    assert!(versions().any(|version| version == 1));
    let blobs = LocalBlobs::new(Arc::new(fs.clone()), Path::new(STORE).join("seg")).unwrap();
    manifests.clean_segments(&manifest, &blobs).unwrap();
    assert!(versions().all(|version| version == 2));
}

/// The calls of a commit up to the rename of `CURRENT`.
fn rename_of(manifest: &Manifest) -> usize {
    let fs = store(&small(1));
    let (mut manifests, _) = load(&fs).unwrap();
    let before = fs.calls().len();
    manifests.commit(manifest).unwrap();
    fs.calls()[before..].iter().position(|call| call.name == "rename").unwrap() + 1
}

#[test]
fn a_full_disk_leaves_the_old_manifest_in_force() {
    for first in [true, false] {
        let fs = if first { SimFs::new() } else { store(&small(1)) };
        fs.create_folder(Path::new(STORE)).unwrap();
        let (mut manifests, old) = load(&fs).unwrap();
        let new = small(old.version + 1);
        fs.fill_disk(true);
        assert!(matches!(manifests.commit(&new), Err(Error::NoSpace { .. })));
        assert_eq!(load(&fs).unwrap().1, old);
        fs.fill_disk(false);
        manifests.commit(&new).unwrap();
        assert_eq!(load(&fs).unwrap().1, new);
    }
}

#[test]
fn what_no_manifest_names_is_removed() {
    let fs = store(&small(1));
    let blobs = LocalBlobs::new(Arc::new(fs.clone()), Path::new(STORE).join("seg")).unwrap();
    let (kept, dropped) = (SegmentId(1), SegmentId(77));
    for name in [kept.parquet_name(), kept.side_name(), dropped.parquet_name(), dropped.side_name(), "notes".into()] {
        blobs.create(&name).unwrap().finish().unwrap();
    }
    let (mut manifests, _) = load(&fs).unwrap();
    let mut new = small(2);
    new.deletion_vectors = [(kept, DeletionVectorMeta { version: 2, count: 9 })].into();
    manifests.write_deletion_vectors(2, [(kept, &b"newer"[..])]).unwrap();
    manifests.commit(&new).unwrap();
    manifests.write_deletion_vectors(3, [(kept, &b"about to be named"[..])]).unwrap();

    assert_eq!(manifests.clean(&new, false).unwrap(), Cleanup { files: 3, segment_bytes: 0 });
    let dead = |version| manifests.read_deletion_vector(kept, &DeletionVectorMeta { version, count: 9 });
    assert!(fs.read(&manifests.manifest_path(1)).is_none() && dead(1).is_err());
    assert_eq!((dead(2).unwrap(), dead(3).unwrap()), ("newer".into(), "about to be named".into()));

    assert_eq!(manifests.clean_segments(&new, &blobs).unwrap(), Cleanup { files: 3, segment_bytes: 0 });
    assert!(dead(3).is_err());
    let left: Vec<String> = blobs.list().unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!(left, [kept.parquet_name(), kept.side_name(), "notes".into()]);
    assert_eq!(load(&fs.crashed(1)).unwrap().1, new);
}

#[test]
fn a_manifest_that_makes_no_sense_is_not_taken() {
    let check = |change: fn(&mut Manifest), part: &str| {
        let mut made = manifest(1, &[(b"g".to_vec(), 1), (b"m".to_vec(), 0)].into());
        change(&mut made);
        let detail = made.check().unwrap_err();
        assert!(detail.contains(part), "{detail}");
        let read = files::decode(1, Path::new("x"), &files::encode(&made));
        assert!(matches!(read, Err(Error::Corrupt { offset: 40, .. })), "{detail}");
    };
    check(|made| made.next_table = 0, "number");
    check(|made| made.tables.push(made.tables[0].clone()), "another's");
    check(|made| made.tables[0].tablets.reverse(), "order");
    check(|made| made.tables[0].tablets[0].segments.reverse(), "after a delta");
    check(|made| made.tables[0].tablets[0].segments[1].first = RowKey::new("zz").unwrap(), "before it begins");
    check(|made| made.tables[0].tablets[0].range.start = "b".into(), "outside");
    check(|made| made.tables[0].tablets[1].segments[0].id = SegmentId(1), "two forms");
    check(
        |made| {
            made.deletion_vectors.clear();
            made.tables[0].tablets[0].segments[1].rows = 0;
        },
        "no rows",
    );
    check(
        |made| _ = made.deletion_vectors.insert(SegmentId(999), DeletionVectorMeta { version: 1, count: 0 }),
        "not there",
    );
    check(
        |made| _ = made.deletion_vectors.insert(SegmentId(0), DeletionVectorMeta { version: 1, count: 10 }),
        "contradict",
    );
}

#[test]
fn names_of_segments_are_read_back() {
    let segment = SegmentId(0xab);
    assert_eq!(segment.parquet_name(), "00000000000000ab.parquet");
    assert_eq!(SegmentId::of_name(&segment.parquet_name()), Some(segment));
    assert_eq!(SegmentId::of_name(&segment.side_name()), Some(segment));
    for name in ["", "ab.parquet", "00000000000000AB.parquet", "+0000000000000ab.side", "00000000000000ab.txt"] {
        assert_eq!(SegmentId::of_name(name), None, "{name}");
    }
}
