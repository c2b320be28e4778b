//! The contract of every location of segment files, and the state of a local one after a crash.

use super::*;
use crate::{
    fs::LocalFs,
    testing::{blobs::FaultyBlobs, sim::SimFs},
};
use object_store::memory::InMemory;

/// Checks the contract on an empty location.
fn conforms(blobs: &dyn Blobs) {
    let long: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    let mut writer = blobs.create("b.parquet").unwrap();
    writer.write(&long[..10]).unwrap();
    writer.write(&[]).unwrap();
    writer.write(&long[10..]).unwrap();
    assert_eq!(writer.finish().unwrap(), long.len() as u64);
    assert_eq!(blobs.create("a.side").unwrap().finish().unwrap(), 0);

    let listed = [("a.side".to_owned(), 0), ("b.parquet".to_owned(), long.len() as u64)];
    assert_eq!(blobs.list().unwrap(), listed);
    let blob = blobs.open("b.parquet").unwrap();
    assert_eq!(blob.size(), long.len() as u64);
    assert_eq!(blob.read_at(0, long.len()).unwrap(), long);
    assert_eq!(blob.read_at(1_000_001, 7).unwrap(), long[1_000_001..1_000_008]);
    assert_eq!(blob.read_at(blob.size(), 0).unwrap(), Bytes::new());
    let parts = blob.read_ranges(&[0..3, 700_000..700_009, 2_999_999..3_000_000]).unwrap();
    assert_eq!(parts, [&long[..3], &long[700_000..700_009], &long[2_999_999..]]);
    assert_eq!(blob.read_ranges(&[]).unwrap(), Vec::<Bytes>::new());
    assert!(matches!(blob.read_ranges(&[0..3, 7..blob.size() + 1]), Err(Error::Corrupt { .. })));
    match blob.read_at(blob.size() - 3, 4) {
        Err(Error::Corrupt { path, offset, .. }) => assert_eq!((path, offset), (blob.path(), blob.size())),
        other => panic!("{other:?}"),
    }
    assert!(matches!(blob.read_at(blob.size() + 9, 4), Err(Error::Corrupt { .. })));

    drop(blobs.create("unfinished").unwrap());
    assert_eq!(blobs.list().unwrap(), listed, "a file that was not finished");
    let mut writer = blobs.create("a.side").unwrap();
    writer.write(b"again").unwrap();
    writer.finish().unwrap();
    assert_eq!(blobs.open("a.side").unwrap().read_at(0, 5).unwrap(), "again", "a file in place of another");

    blobs.delete("b.parquet").unwrap();
    blobs.delete("b.parquet").unwrap();
    match blobs.open("b.parquet") {
        Err(Error::Corrupt { path, offset: 0, .. }) => assert!(path.ends_with("b.parquet"), "{path:?}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(blobs.list().unwrap(), [("a.side".to_owned(), 5)]);
}

#[test]
fn a_folder_conforms() {
    let folder = tempfile::tempdir().unwrap();
    conforms(&LocalBlobs::new(Arc::new(LocalFs), folder.path().join("a/seg")).unwrap());
    conforms(&LocalBlobs::new(Arc::new(SimFs::new()), "/store/seg".into()).unwrap());
}

fn remote() -> RemoteBlobs {
    RemoteBlobs::new(Arc::new(InMemory::new()), "a/prefix".into(), "s3://bucket/a/prefix".into()).unwrap()
}

#[test]
fn a_bucket_conforms() {
    conforms(&remote());
}

#[test]
fn requests_to_a_bucket_are_counted() {
    let blobs = remote();
    assert!(blobs.requests().iter().all(|info| (info.requests, info.failures, info.bytes) == (0, 0, 0)));
    let mut writer = blobs.create("a").unwrap();
    writer.write(b"0123456789").unwrap();
    writer.finish().unwrap();
    let mut large = blobs.create("b").unwrap();
    large.write(&vec![7; 9 << 20]).unwrap();
    large.finish().unwrap();
    let blob = blobs.open("a").unwrap();
    blob.read_at(2, 3).unwrap();
    // Close together: one request for both, and for what is between them.
    blob.read_ranges(&[0..2, 4..5]).unwrap();
    assert!(blobs.open("none").is_err());
    blobs.list().unwrap();
    blobs.delete("a").unwrap();
    let found: Vec<_> =
        blobs.requests().into_iter().map(|info| (info.kind.name(), info.requests, info.bytes)).collect();
    let upload = ("upload", 4, 9 << 20);
    assert_eq!(found, [("get", 2, 8), ("head", 2, 0), ("put", 1, 10), upload, ("delete", 1, 0), ("list", 1, 0)]);
    assert!(blobs.requests().iter().all(|info| info.failures == 0), "a missing object is an answer");
    let local = LocalBlobs::new(Arc::new(SimFs::new()), "/store/seg".into()).unwrap();
    assert_eq!(local.requests(), []);
}

#[tokio::test]
async fn a_bucket_may_be_asked_from_any_thread() {
    tokio::task::spawn_blocking(|| conforms(&remote())).await.unwrap();
    // Nobody should block a thread of a runtime, but doing so must not panic.
    conforms(&remote());
}

#[test]
fn a_large_file_goes_up_in_parts() {
    let store = Arc::new(InMemory::new());
    let blobs = RemoteBlobs::new(store, "a/prefix".into(), "s3://bucket/a/prefix".into()).unwrap();
    // Five parts and a piece: more than may be uploaded at once.
    let long: Vec<u8> = (0..5 * (8 << 20) + 5_u32).map(|at| (at / 7 % 253) as u8).collect();
    let mut writer = blobs.create("x").unwrap();
    for piece in long.chunks(1_000_003) {
        writer.write(piece).unwrap();
    }
    assert_eq!(blobs.list().unwrap(), [], "it is there only when it is finished");
    assert_eq!(writer.finish().unwrap(), long.len() as u64);
    assert!(blobs.open("x").unwrap().read_at(0, long.len()).unwrap() == long);

    let mut writer = blobs.create("y").unwrap();
    writer.write(&long).unwrap();
    drop(writer);
    assert_eq!(blobs.list().unwrap(), [("x".to_owned(), long.len() as u64)]);
}

#[test]
fn a_bucket_lists_its_prefix_alone() {
    let store = Arc::new(InMemory::new());
    let blobs = |prefix: &str| RemoteBlobs::new(store.clone(), prefix.into(), "s3://bucket".into()).unwrap();
    for prefix in ["", "a", "a/b", "ab"] {
        blobs(prefix).create(&format!("of-{}", prefix.replace('/', "-"))).unwrap().finish().unwrap();
    }
    for (prefix, name) in [("", "of-"), ("a", "of-a"), ("a/b", "of-a-b"), ("ab", "of-ab")] {
        assert_eq!(blobs(prefix).list().unwrap(), [(name.to_owned(), 0)], "{prefix:?}");
    }
}

#[test]
fn a_url_chooses_the_place() {
    let fs: Arc<dyn Fs> = Arc::new(SimFs::new());
    let check = |url: Option<&str>, expected: &str| {
        let place = at(url.map(|url| url.parse().unwrap()).as_ref(), Path::new("/store"), &fs);
        let shown = place.map_or_else(|error| error.to_string(), |place| place.describe());
        assert!(shown.contains(expected), "{url:?}: {shown}");
    };
    check(None, "/store/seg");
    check(Some("file:///elsewhere/x"), "/elsewhere/x");
    check(Some("s3://key:secret@bucket/a/prefix/?x=y"), "s3://bucket/a/prefix");
    check(Some("memory:///"), "s3://, gs:// and az://");
    check(Some("ftp://x/y"), "segments at ftp://x/y");
}

#[test]
fn a_finished_file_lasts_and_a_deleted_one_is_gone() {
    let fs = SimFs::new();
    let blobs = LocalBlobs::new(Arc::new(fs.clone()), "/seg".into()).unwrap();
    let mut writer = blobs.create("x").unwrap();
    writer.write(b"bytes").unwrap();
    writer.finish().unwrap();
    let after = |seed| LocalBlobs::new(Arc::new(fs.crashed(seed)), "/seg".into()).unwrap();
    for seed in 0..64 {
        assert_eq!(after(seed).open("x").unwrap().read_at(0, 5).unwrap(), "bytes");
    }
    blobs.delete("x").unwrap();
    for seed in 0..64 {
        assert_eq!(after(seed).list().unwrap(), []);
    }
}

#[test]
fn a_full_disk_is_reported_and_leaves_nothing() {
    let fs = SimFs::new();
    let blobs = LocalBlobs::new(Arc::new(fs.clone()), "/seg".into()).unwrap();
    let mut writer = blobs.create("x").unwrap();
    fs.fill_disk(true);
    writer.write(b"bytes").unwrap();
    assert!(matches!(writer.finish(), Err(Error::NoSpace { path }) if path.ends_with("x")));
    assert!(matches!(blobs.create("y").err(), Some(Error::NoSpace { .. })));
    fs.fill_disk(false);
    assert!(blobs.list().unwrap().iter().all(|(name, _)| name != "x"));
    assert_eq!(blobs.create("x").unwrap().finish().unwrap(), 0);
}

#[test]
fn a_store_of_faults_conforms_without_any() {
    conforms(&FaultyBlobs::new(1));
}

#[test]
fn faults_are_errors_and_some_are_done_all_the_same() {
    let blobs = FaultyBlobs::new(7);
    blobs.fail(500);
    let (mut lost, mut refused) = (0, 0);
    for file in 0..200 {
        let name = format!("{file:03}");
        let mut writer = blobs.create(&name).unwrap();
        let written = writer.write(b"x").and_then(|()| writer.finish());
        blobs.fail(0);
        let there = blobs.open(&name).is_ok();
        blobs.fail(500);
        match written {
            Ok(_) => assert!(there),
            Err(Error::Io { .. }) if there => lost += 1,
            Err(Error::Io { .. }) => refused += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(lost > 10 && refused > 10 && blobs.failed() >= lost + refused, "{lost} {refused}");
}

#[test]
fn a_place_has_one_store() {
    let (fs, place) = (SimFs::new(), FaultyBlobs::new(1));
    for store in ["/one", "/another"] {
        fs.create_folder(Path::new(store)).unwrap();
    }
    let claim = |store: &str, now| claim(&place, &fs, (Path::new(store), None), now).map_err(|error| error.to_string());
    assert_eq!(claim("/one", 7), Ok(()));
    assert_eq!(claim("/one", 8), Ok(()), "at every start");
    let refused = "memory: holds the segments of another store than /another";
    assert_eq!(claim("/another", 9), Err(refused.into()));
    // Segments without an owner belong to another store.
    place.delete("STORE").unwrap();
    place.create("0000000000000001.parquet").unwrap().finish().unwrap();
    assert!(claim("/one", 10).is_err());
    place.delete("0000000000000001.parquet").unwrap();
    assert_eq!(claim("/another", 11), Ok(()));
}

#[test]
fn a_store_knows_where_its_segments_are() {
    let (fs, place) = (SimFs::new(), FaultyBlobs::new(1));
    let one = Path::new("/one");
    fs.create_folder(one).unwrap();
    assert_eq!(check_is_local(&fs, one).map_err(|error| error.to_string()), Ok(()));
    let refused = |place: &str| Err(format!("the segments of /one are at {place}: say so with --segments"));
    // As earlier versions have left it.
    claim(&place, &fs, (one, None), 7).unwrap();
    assert_eq!(check_is_local(&fs, one).map_err(|error| error.to_string()), refused("another place"));
    for url in ["s3://bucket/a", "s3://bucket/moved"] {
        claim(&place, &fs, (one, Some(&Url::parse(url).unwrap())), 8).unwrap();
        assert_eq!(check_is_local(&fs, one).map_err(|error| error.to_string()), refused(url));
    }
}

#[test]
fn an_older_folder_is_not_opened_beside_newer_segments() {
    let place = FaultyBlobs::new(1);
    let check = |manifest| check_age(&place, Path::new("/one"), manifest);
    check(0).unwrap();
    note_newest(&place, 7).unwrap();
    check(7).unwrap();
    check(8).unwrap();
    let told = check(6).unwrap_err().to_string();
    assert!(
        told.starts_with("/one is an older copy of the store: its manifest has version 6, and memory: has"),
        "{told}"
    );
    // What a crash has cut short.
    let mut writer = place.create("NEWEST").unwrap();
    writer.write(b"KSSTOR").unwrap();
    writer.finish().unwrap();
    check(6).unwrap();
}

#[test]
fn a_claim_that_a_crash_cut_short_is_made_at_the_next_start() {
    for calls in 0.. {
        let (fs, place) = (SimFs::new(), FaultyBlobs::new(1));
        fs.create_folder(Path::new("/one")).unwrap();
        fs.stop_after(fs.calls().len() + calls);
        let done = claim(&place, &fs, (Path::new("/one"), None), 7);
        for seed in 0..16 {
            let crashed = fs.crashed(seed);
            claim(&place, &crashed, (Path::new("/one"), None), 8).unwrap();
            if done.is_err() {
                place.delete("STORE").unwrap();
            }
        }
        if done.is_ok() {
            break;
        }
    }
}
