//! Counts and extremes from metadata of row groups equal those from rows.

use super::*;
use dirty::options;

/// Queries that metadata of row groups answer.
pub(super) const ANSWERED: &[&str] = &[
    "SELECT count(*) FROM metrics",
    "SELECT count(*), count(cpu), count(small), count(note), count(raw), count(id), min(mem), max(mem) FROM metrics",
    "SELECT min(at), max(at), min(n), max(n), count(ok) FROM metrics",
    "SELECT min(note), max(note), min(tag), max(small), min(procs) FROM metrics",
    "SELECT min(day), max(day), min(seen), max(seen), min(price), max(price) FROM metrics",
    "SELECT count(*), count(mem), max(mem), min(note) FROM metrics WHERE host >= 'host 1' AND host < 'host 7'",
    "SELECT max(m) / 2 - min(p), count(*) + 1 FROM (SELECT procs AS p, mem AS m FROM metrics) x HAVING count(*) > 0",
];
/// Similar queries that metadata do not answer.
const UNKNOWN: &[&str] = &[
    "SELECT max(cpu) FROM metrics",
    "SELECT count(*), max(load) FROM metrics",
    "SELECT count(DISTINCT procs) FROM metrics",
    "SELECT count(DISTINCT procs), count(DISTINCT note) FROM metrics",
    "SELECT count(*) FILTER (WHERE mem > 7), count(*) FROM metrics",
    "SELECT count(*) FROM metrics WHERE procs > 3",
    "SELECT max(mem + 1) FROM metrics",
    "SELECT count(*) FROM (SELECT n FROM metrics LIMIT 4500) x",
    "SELECT ok, count(*) FROM metrics GROUP BY ok ORDER BY ok",
    // The last host alone has a value of the one, the first host the least of the other.
    "SELECT min(n), max(small) FROM metrics WHERE procs + 0 > -9",
];

const METADATA: &str = "KeyspanMetadata: metrics row groups=";

async fn check(state: &str, world: &World, sql: &str, is_known: bool) {
    let [fast, by_rows] = sessions(world, Some("aa-2")).await;
    let (a, b) = (rows(&fast, sql).await, rows(&by_rows, sql).await);
    assert!(a == b && !is_error(&a), "{state}: {sql}\n{a}\nby rows\n{b}");
    let explained = plan(&fast, sql, false).await;
    assert_eq!(explained.contains(METADATA), is_known, "{state}: {sql}\n{explained}");
}

#[tokio::test]
async fn metadata_of_row_groups_never_change_an_answer() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Engine::open(EngineOptions { compacts: false, ..options(folder.path()) }).await.unwrap();
    let world = World::in_engine(engine.clone(), tables(false)).await;
    for tenant in ["aa", "aa-2"] {
        world.insert_all("metrics", tenant, (0..ROWS).map(row)).await;
    }
    engine.flush().await.unwrap();
    engine.compact(None).await.unwrap();
    for sql in ANSWERED {
        check("compacted", &world, sql, true).await;
    }
    for sql in UNKNOWN {
        check("compacted", &world, sql, false).await;
    }
    let [fast, _] = sessions(&world, Some("aa-2")).await;
    let sql = "SELECT count(*), max(mem) FROM metrics WHERE host >= 'host 1' AND host < 'host 7'";
    expect![[r#"
        ProjectionExec: expr=[count(Int64(1))@0 as count, max(metrics.mem)@1 as max]  (actual rows=1)
          ->  AggregateExec: mode=Final, gby=[], aggr=[count(Int64(1)), max(metrics.mem)]  (actual rows=1)
                ->  CoalescePartitionsExec  (actual rows=27)
                      ->  UnionExec  (actual rows=27)
                            ->  KeyspanMetadata: metrics row groups=26 rows=5,200  (actual rows=26)
                            ->  AggregateExec: mode=Partial, gby=[], aggr=[count(Int64(1)), max(metrics.mem)]  (actual rows=1)
                                  ->  KeyspanScan: metrics  (actual rows=200)
                                          Access: range scan
                                          Ranges: [host$`1#, host$`7#)
                                          Families: m(mem)
                                          Columns: mem
                                          Pushed: host >= host 1 AND host < host 7
                                          Residual: none
                                          Versions: 1
                                          Order: none
                                          Row groups: clean=2 files=2 rows=200, memory=none, rest=none
                                          Files: row groups skipped=0 rows=200 bytes=546, memory rows=0"#]].assert_eq(&plan(&fast, sql, true).await);
    // Metadata answer all of it.
    let [operator, _] = sessions(&world, None).await;
    expect![[r#"
        ProjectionExec: expr=[count(Int64(1))@0 as count]  (actual rows=1)
          ->  AggregateExec: mode=Final, gby=[], aggr=[count(Int64(1))]  (actual rows=1)
                ->  KeyspanMetadata: metrics row groups=60 rows=12,000  (actual rows=60)"#]]
    .assert_eq(&plan(&operator, "SELECT count(*) FROM metrics", true).await);
    // The greatest text is longer than statistics keep; all but two values are NULL.
    let long = "zzzzzzzz".repeat(20);
    let changed = |n: i64, note: String| {
        let mut changed = row(n);
        (changed[9], changed[5]) = (text(note), Value::Int(i64::MAX));
        changed
    };
    world.insert_all("metrics", "aa-2", [changed(17, long.clone()), changed(4_000, " ".repeat(100))]).await;
    let notes = "SELECT max(note) = repeat('z', 160), length(min(note)), max(mem) FROM metrics";
    for state in ["changed in memory", "changed in deltas", "compacted again"] {
        match state {
            "changed in deltas" => engine.flush().await.unwrap(),
            "compacted again" => engine.compact(None).await.unwrap(),
            _ => {}
        }
        for sql in ANSWERED {
            check(state, &world, sql, true).await;
        }
        let [fast, _] = sessions(&world, Some("aa-2")).await;
        assert_eq!(rows(&fast, notes).await, "true | 100 | 9223372036854775807", "{state}");
    }
    // The extremes are deleted with their rows, also before the deletion is flushed.
    world.delete("metrics", [17, 4_000].map(|n| world.key("metrics", "aa-2", &row(n)))).await;
    for sql in ANSWERED {
        check("deleted", &world, sql, true).await;
    }
    // Metadata do not answer for a row group that several tenants share.
    let [few, by_rows] = sessions(&world, Some("few")).await;
    assert_eq!(rows(&few, ANSWERED[1]).await, rows(&by_rows, ANSWERED[1]).await);
    engine.close().await.unwrap();
}

#[tokio::test]
async fn metadata_of_private_tables_know_as_much() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Engine::open(options(folder.path())).await.unwrap();
    let world = World::in_engine(engine.clone(), tables(true)).await;
    for tenant in ["aa", "aa-2"] {
        world.insert_all("metrics", tenant, (0..ROWS).map(row)).await;
    }
    insert_others(&world).await;
    engine.flush().await.unwrap();
    engine.compact(None).await.unwrap();
    for sql in ANSWERED {
        check("compacted", &world, sql, true).await;
    }
    engine.close().await.unwrap();
}
