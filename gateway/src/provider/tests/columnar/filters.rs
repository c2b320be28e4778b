//! Filters that DataFusion makes while a query runs reach row groups: row groups that they exclude are not read.

use super::*;
use dirty::options;
use std::sync::LazyLock;

/// Rows in row groups by host and time: `n` ascends in a host, `mem` and `note` with it.
async fn loaded(folder: &std::path::Path) -> (Arc<Engine>, World) {
    let engine = Engine::open(EngineOptions { compacts: false, ..options(folder) }).await.unwrap();
    let world = World::in_engine(engine.clone(), vec![metrics(|_| {})]).await;
    let row = |n: i64| {
        let mut made = row(n);
        (made[0], made[5], made[9]) = (text(format!("host {:02}", n / 500)), Value::Int(n), text(format!("{n:05}")));
        made
    };
    world.insert_all("metrics", "aa", (0..ROWS).map(row)).await;
    engine.flush().await.unwrap();
    engine.compact(None).await.unwrap();
    (engine, world)
}

/// The numbers of row groups that were skipped, and of rows that were read, by each scan of row groups.
async fn read(session: &SessionContext, sql: &str) -> Vec<(usize, usize)> {
    static FILES: LazyLock<regex::Regex> =
        LazyLock::new(|| regex::Regex::new(r"Files: row groups skipped=(\d+) rows=(\d+)").unwrap());
    let explained = plan(session, sql, true).await;
    let numbers = FILES.captures_iter(&explained);
    numbers.map(|found| (found[1].parse().unwrap(), found[2].parse().unwrap())).collect()
}

#[tokio::test]
async fn a_hash_joins_keys_reach_row_groups() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, world) = loaded(folder.path()).await;
    let [fast, by_rows] = sessions(&world, Some("aa")).await;
    // The few rows of the build side are read before the other side.
    let sql = "SELECT count(*), sum(b.procs) FROM (VALUES (4321), (4322), (-5)) a (mem) JOIN metrics b USING (mem)";
    assert_eq!(rows(&fast, sql).await, rows(&by_rows, sql).await);
    let all = read(&fast, "SELECT sum(procs) FROM metrics").await;
    assert_eq!(all, [(0, ROWS as usize)]);
    let joined = read(&fast, sql).await;
    let [(skipped, read)] = joined[..] else { panic!("{joined:?}") };
    assert!(skipped >= 25 && read <= 200, "{joined:?}");
    engine.close().await.unwrap();
}

#[tokio::test]
async fn the_bound_of_a_sort_with_a_limit_reaches_row_groups() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, world) = loaded(folder.path()).await;
    let [fast, by_rows] = sessions(&world, Some("aa")).await;
    for sql in [
        "SELECT n, mem FROM metrics ORDER BY mem LIMIT 3",
        "SELECT n, note FROM metrics ORDER BY note LIMIT 3",
        "SELECT n, mem, host FROM metrics ORDER BY mem DESC, n LIMIT 3",
    ] {
        assert_eq!(rows(&fast, sql).await, rows(&by_rows, sql).await, "{sql}");
    }
    // Row groups come in the order of keys, here that of `mem`: behind the first of each partition all can be skipped.
    let sorted = read(&fast, "SELECT n, mem FROM metrics ORDER BY mem LIMIT 3").await;
    let [(skipped, _)] = sorted[..] else { panic!("{sorted:?}") };
    assert!(skipped > 10, "{sorted:?}");
    engine.close().await.unwrap();
}
