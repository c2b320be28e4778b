//! Loads concurrent with writers, flushes, compactions, purges, and the end of the store.

use super::*;

#[tokio::test]
async fn what_others_write_while_a_load_is_under_way_counts() {
    let fs = SimFs::new();
    let engine = with_table(tiny(&fs)).await;
    for (flushes, compacts) in [(false, false), (true, false), (true, true)] {
        let at = format!("{flushes} {compacts}");
        // Another load writes a row of this one first.
        let mut under_way = begin(&engine).await;
        under_way.add(batch([(1, "a", "load"), (2, "b", "load")])).await.unwrap();
        under_way.add(batch([(3, "c", "load")])).await.unwrap();
        engine.commit(put("b", "first")).await.unwrap();
        if flushes {
            engine.flush().await.unwrap();
        }
        if compacts {
            engine.compact(None).await.unwrap();
        }
        let error = under_way.finish(None).await.unwrap_err();
        assert!(matches!(&error, Error::RowExists { key, .. } if key[..] == *b"b"), "{at}: {error:?}");
        assert_eq!(values(engine.as_ref()).await, pairs(&[("b", "first")]), "{at}");
        // It is written and deleted meanwhile.
        let mut under_way = begin(&engine).await;
        under_way.add(batch([(1, "a", "load")])).await.unwrap();
        engine.commit(put("a", "first")).await.unwrap();
        if flushes {
            engine.flush().await.unwrap();
        }
        engine.commit(Commit::row(table(), key("a"), vec![Mutation::DeleteFromRow])).await.unwrap();
        under_way.finish(None).await.unwrap();
        assert_eq!(values(engine.as_ref()).await, pairs(&[("a", "load"), ("b", "first")]), "{at}");
        engine.drop_row_range(&table(), Bytes::from_static(b"a")).await.unwrap();
        engine.drop_row_range(&table(), Bytes::from_static(b"b")).await.unwrap();
    }
}

#[tokio::test]
async fn a_flush_that_waits_keeps_a_load_that_came_meanwhile() {
    let fs = SimFs::new();
    let options = || EngineOptions { compacts: false, ..simulated(&fs) };
    let engine = with_table(options()).await;
    engine.flush().await.unwrap();
    engine.commit(put("a", "1")).await.unwrap();
    fs.fill_disk(true);
    assert_eq!(engine.flush().await.unwrap_err().kind(), ErrorKind::NoSpace);
    assert_eq!(load(&engine, &pairs(&[("b", "1")])).await.unwrap_err().kind(), ErrorKind::NoSpace);
    fs.fill_disk(false);
    load(&engine, &pairs(&[("b", "2")])).await.unwrap();
    engine.flush().await.unwrap();
    assert_eq!(values(engine.as_ref()).await, pairs(&[("a", "1"), ("b", "2")]));
    drop(engine);
    let engine = Engine::open(options()).await.unwrap();
    assert_eq!(values(engine.as_ref()).await, pairs(&[("a", "1"), ("b", "2")]));
}

#[tokio::test]
async fn a_commit_that_looked_for_a_row_before_a_load_brought_it_finds_it() {
    let fs = SimFs::new();
    let engine = with_table(EngineOptions { alone_sync_max: Duration::ZERO, compacts: false, ..simulated(&fs) }).await;
    load(&engine, &pairs(&[("a", "1"), ("c", "1")])).await.unwrap();
    let held = fs.hold_syncs_in(&Path::new(PATH).join("wal"));
    let commit = |row: &'static str| {
        let engine = engine.clone();
        tokio::spawn(async move { engine.commit(put(row, "2")).await })
    };
    let first = commit("x");
    while !held.has_met() {
        tokio::task::yield_now().await;
    }
    // It has looked up its rows, and waits for the log thread, which processes the load first.
    let queue = engine.queue.as_ref().unwrap();
    let second = commit("b");
    while queue.capacity() == queue.max_capacity() {
        tokio::task::yield_now().await;
    }
    let loading = {
        let engine = engine.clone();
        tokio::spawn(async move { load(&engine, &pairs(&[("b", "1"), ("d", "1")])).await })
    };
    while !engine.shared.coordination.has_installs() {
        tokio::task::yield_now().await;
    }
    drop(held);
    first.await.unwrap().unwrap();
    loading.await.unwrap().unwrap();
    second.await.unwrap().unwrap();
    let expected = pairs(&[("a", "1"), ("b", "2"), ("c", "1"), ("d", "1"), ("x", "2")]);
    assert_eq!(values(engine.as_ref()).await, expected);
    engine.compact(None).await.unwrap();
    assert_eq!(values(engine.as_ref()).await, expected);
    let row = engine.read_row(&table(), &key("b"), None).await.unwrap().unwrap();
    assert_eq!(row.cells.len(), 2, "what was loaded is a version of it");
}

#[tokio::test]
async fn a_purge_ends_loads_of_its_rows_and_no_others() {
    let fs = SimFs::new();
    let engine = with_table(tiny(&fs)).await;
    let mut under_way = begin(&engine).await;
    let rows = numbered(0..200);
    for part in rows.chunks(20) {
        under_way.add(batch(part.iter().map(|(key, value)| (1, &key[..], &value[..])))).await.unwrap();
    }
    engine.purge(&[(table(), KeyRange::prefix(Bytes::from_static(b"other")))]).await.unwrap();
    assert!(count_segments(&fs) > 0, "nothing was written yet");
    engine.purge(&[(table(), KeyRange::prefix(Bytes::from_static(b"row 01")))]).await.unwrap();
    assert_eq!((count_segments(&fs), files(&fs, "load").len()), (0, 0), "files of rows that are purged");
    assert_eq!(under_way.finish(None).await.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(values(engine.as_ref()).await, []);
}

#[tokio::test]
async fn a_load_that_is_dropped_leaves_nothing_and_makes_room() {
    let fs = SimFs::new();
    let engine = with_table(EngineOptions { memory_bytes: 64 << 20, ..tiny(&fs) }).await;
    let mut under_way = begin(&engine).await;
    let rows = numbered(0..200);
    for part in rows.chunks(20) {
        under_way.add(batch(part.iter().map(|(key, value)| (1, &key[..], &value[..])))).await.unwrap();
    }
    assert!(engine.load(&table(), &columns()).await.unwrap().is_none(), "there is room for one");
    drop(under_way);
    // Another thread, which holds the store's lock, removes the files.
    while count_segments(&fs) > 0 {
        tokio::task::yield_now().await;
    }
    load(&engine, &rows).await.unwrap();
    let mut left = begin(&engine).await;
    left.add(batch([(1, "x", "y")])).await.unwrap();
    engine.close().await.unwrap();
    assert_eq!(left.finish(None).await.unwrap_err().kind(), ErrorKind::Unavailable);
    drop(engine);
    while fs.lock(&Path::new(PATH).join(LOCK)).unwrap().is_none() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loads_and_writers_of_the_same_rows_agree() {
    let fs = SimFs::new();
    let engine = with_table(tiny(&fs)).await;
    let writer = {
        let engine = engine.clone();
        tokio::spawn(async move {
            let mut put_first = BTreeSet::new();
            for number in 0..200 {
                // An INSERT: relies on the row's absence.
                let (row, pin) = (format!("row {number:04}"), engine.pin().await.unwrap());
                let there = engine.read_row(&table(), &key(&row), Some(pin.clone())).await.unwrap().is_some();
                if there {
                    continue;
                }
                let mut commit = put(&row, "insert");
                commit.validation = Some(Validation { pin, rows: vec![(table(), key(&row))] });
                match engine.commit(commit).await {
                    Ok(_) => drop(put_first.insert(row)),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict),
                }
            }
            put_first
        })
    };
    let mut loaded = BTreeSet::new();
    for part in (0..200).collect::<Vec<_>>().chunks(10) {
        let rows = numbered(part.iter().rev().copied());
        match load(&engine, &rows).await {
            Ok(_) => loaded.extend(rows.into_iter().map(|(key, _)| key)),
            Err(error) => assert!(matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::Conflict), "{error:?}"),
        }
    }
    let inserted = writer.await.unwrap();
    assert!(loaded.is_disjoint(&inserted), "a row was made twice");
    let check = async |engine: &Engine| {
        for (key, value) in values(engine).await {
            let by_load = loaded.contains(&key);
            assert!(by_load != inserted.contains(&key) && by_load == (value != "insert"), "{key} {value}");
        }
        assert_eq!(rows(engine).await.len(), loaded.len() + inserted.len());
    };
    check(&engine).await;
    engine.compact(None).await.unwrap();
    check(&engine).await;
    drop(engine);
    check(&Engine::open(tiny(&fs)).await.unwrap()).await;
}

/// The bases (`true`) and deltas of each tablet.
fn shape(engine: &Engine) -> Vec<Vec<bool>> {
    let state = engine.shared.published.load();
    let tablets = state.table(&table()).unwrap().tablets.clone();
    tablets.iter().map(|tablet| tablet.segments.iter().map(|segment| segment.meta().base).collect()).collect()
}

/// A compaction reads a tablet without a base, and a load adds one before it is done: there must not be two, since the
/// next load would split the tablet at their first keys.
#[tokio::test]
async fn a_compaction_that_was_under_way_leaves_a_load_its_tablet() {
    let fs = SimFs::new();
    let engine = with_table(EngineOptions { compacts: false, ..tiny(&fs) }).await;
    for row in ["row 0000", "row 0500", "row 0999"] {
        engine.commit(put(row, "before")).await.unwrap();
    }
    engine.flush().await.unwrap();
    assert_eq!(shape(&engine), [[false]]);
    let mut under_way = begin(&engine).await;
    let between = numbered(510..520);
    under_way.add(batch(between.iter().map(|(key, value)| (1, &key[..], &value[..])))).await.unwrap();
    under_way.seal().await.unwrap();
    let held = fs.hold_syncs_in(&Path::new(PATH).join("seg"));
    let compaction = {
        let engine = engine.clone();
        tokio::spawn(async move { engine.compact(None).await })
    };
    while !held.has_met() {
        tokio::task::yield_now().await;
    }
    under_way.finish(None).await.unwrap();
    assert_eq!(shape(&engine), [[true, false]], "a tablet of a base and a delta");
    drop(held);
    compaction.await.unwrap().unwrap();
    for tablet in shape(&engine) {
        assert!(tablet.iter().skip(1).all(|base| !base), "a tablet with two bases: {:?}", shape(&engine));
    }
    load(&engine, &numbered(600..640)).await.unwrap();
    let mut expected: Vec<_> = numbered((510..520).chain(600..640));
    expected.extend(["row 0000", "row 0500", "row 0999"].map(|row| (row.to_owned(), "before".to_owned())));
    assert_eq!(values(engine.as_ref()).await, sorted(expected.clone()));
    engine.compact(None).await.unwrap();
    assert_eq!(values(engine.as_ref()).await, sorted(expected));
}

#[tokio::test]
async fn a_load_that_is_over_holds_no_store() {
    let fs = SimFs::new();
    let engine = with_table(simulated(&fs)).await;
    let holders = engine.lock.strong_count();
    load(&engine, &numbered(0..10)).await.unwrap();
    assert_eq!(engine.lock.strong_count(), holders, "after a load that was finished");
    load(&engine, &numbered(5..15)).await.unwrap_err();
    assert_eq!(engine.lock.strong_count(), holders, "after a load that failed");
}

/// Another thread removes the files of an aborted load; dropping the store waits for it.
#[tokio::test]
async fn a_store_is_free_though_a_load_was_dropped_just_before() {
    for at_work in [false, true] {
        let fs = SimFs::new();
        let mut engine = with_table(tiny(&fs)).await;
        for _ in 0..30 {
            let mut under_way = begin(&engine).await;
            for part in numbered((0..100).rev()).chunks(20) {
                under_way.add(batch(part.iter().map(|(key, value)| (1, &key[..], &value[..])))).await.unwrap();
            }
            if !at_work {
                under_way.seal().await.unwrap();
            }
            drop(under_way);
            drop(engine);
            engine = Engine::open(tiny(&fs)).await.unwrap();
            assert_eq!((count_segments(&fs), files(&fs, "load").len()), (0, 0));
        }
    }
}
