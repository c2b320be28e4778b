//! Loads with a crash, or with a failed sync.

use super::*;

/// Runs loads one after the other, with rows written between and during them.
async fn work(options: EngineOptions) -> (BTreeSet<usize>, BTreeSet<usize>, Option<usize>) {
    let (mut loaded, mut written) = (BTreeSet::new(), BTreeSet::new());
    let Ok(engine) = Engine::open(options).await else { return (loaded, written, None) };
    if engine.create_table(&table(), schema(GcRule::KeepAll)).await.is_err() {
        return (loaded, written, None);
    }
    for round in 0..3 {
        let of = |number: usize| number % 3 == round;
        // Every other load is sorted.
        let mut rows: Vec<_> = (0..60).filter(|number| of(*number)).collect();
        if round == 1 {
            rows.reverse();
        }
        let number = 100 + round;
        if engine.commit(put(&format!("row {number:04}"), format!("value {number}"))).await.is_err() {
            return (loaded, written, None);
        }
        written.insert(number);
        // A row that was deleted before it is loaded: the log has its deletion.
        let first = format!("row {round:04}");
        let deleted = engine.commit(put(&first, "old")).await.is_ok()
            && engine.commit(Commit::row(table(), key(&first), vec![Mutation::DeleteFromRow])).await.is_ok();
        if !deleted {
            return (loaded, written, Some(round));
        }
        if load(&engine, &numbered(rows.iter().copied())).await.is_err() {
            return (loaded, written, Some(round));
        }
        loaded.insert(round);
    }
    let _ = engine.close().await;
    (loaded, written, None)
}

#[tokio::test]
async fn every_crash_leaves_a_load_whole_or_not_at_all() {
    crash_everywhere(|fs| EngineOptions { compacts: false, ..tiny(fs) }).await;
}

#[tokio::test]
async fn every_crash_leaves_a_load_of_two_threads_whole_or_not_at_all() {
    crash_everywhere(|fs| EngineOptions { compacts: false, ..halves(fs) }).await;
}

async fn crash_everywhere(options: fn(&SimFs) -> EngineOptions) {
    let fs = SimFs::new();
    assert_eq!(work(options(&fs)).await.0.len(), 3);
    for stop in 0..=fs.calls().len() {
        let fs = SimFs::new();
        fs.stop_after(stop);
        let (loaded, written, doubt) = work(options(&fs)).await;
        let at = format!("stopped after {stop} calls");
        let fs = fs.crashed(stop as u64);
        let engine = Engine::open(options(&fs)).await.unwrap_or_else(|error| panic!("{at}: {error}"));
        if engine.tables().await.unwrap().is_empty() {
            assert!(loaded.is_empty() && written.is_empty(), "{at}");
            continue;
        }
        let found: BTreeSet<_> = values(engine.as_ref()).await.into_iter().collect();
        for round in 0..3 {
            let rows: Vec<_> = numbered((0..60).filter(|number| number % 3 == round));
            let there = rows.iter().filter(|row| found.contains(*row)).count();
            let whole = there == rows.len();
            assert!(whole || there == 0, "{at}: {there} rows of load {round}");
            assert!(whole || !loaded.contains(&round), "{at}: load {round} is lost");
            assert!(!whole || loaded.contains(&round) || doubt == Some(round), "{at}: load {round} was not made");
        }
        assert!(numbered(written.iter().copied()).iter().all(|row| found.contains(row)), "{at}");
        assert_eq!(files(&fs, "load"), [] as [String; 0], "{at}");
        let named = engine.maintenance.manifest().manifest.segments().len();
        assert_eq!(count_segments(&fs), named, "{at}: segments that no manifest names are left");
    }
}

/// If it is unknown which manifest the next start finds, the load's segments stay.
#[tokio::test]
async fn every_sync_that_fails_leaves_a_load_whole_or_not_at_all() {
    let options = |fs: &SimFs| EngineOptions { compacts: false, ..tiny(fs) };
    let (mut whole, mut syncs) = (0, 0);
    loop {
        let fs = SimFs::new();
        let engine = with_table(options(&fs)).await;
        engine.flush().await.unwrap();
        fs.fail_syncs_after(syncs);
        let loaded = load(&engine, &numbered(0..60)).await.is_ok();
        let failed = fs.has_failed_syncs();
        // A sync may fail that the load does not need: that of the removal of old files.
        assert!(loaded || failed, "after {syncs} syncs");
        let check = async |fs: &SimFs| {
            let at = format!("after {syncs} syncs");
            let engine = Engine::open(options(fs)).await.unwrap_or_else(|error| panic!("{at}: {error}"));
            let found = values(engine.as_ref()).await.len();
            assert!(found == 60 || found == 0 && !loaded, "{at}: {found} rows");
            found / 60
        };
        fs.fail_syncs(false);
        for seed in 0..4 {
            whole += check(&fs.crashed(seed)).await;
        }
        drop(engine);
        whole += check(&fs).await;
        if !failed {
            break;
        }
        syncs += 1;
    }
    assert!(whole > 5, "no manifest was in force though its last sync had failed");
}
