//! Files of a time before numerics and the columns of private tables were typed: they answer the same, and a compaction
//! makes them typed.

use super::*;
use dirty::options;
use keyspan_catalog::layouts::layout_of;
use keyspan_storage::{ColumnKind, Layout, Layouts};

/// The layouts of that time, with which files were the same byte for byte.
#[derive(Debug)]
struct Before(Vec<Arc<Table>>);

impl Layouts for Before {
    fn layout(&self, table: &TableName, _: &[&[u8]], _: Option<&[u8]>) -> Option<Arc<Layout>> {
        let mut shared = self.0.iter().filter(|known| !known.is_private());
        let mut layout = layout_of(shared.find(|known| known.physical == *table)?);
        for column in &mut layout.columns {
            if matches!(column.kind, ColumnKind::Decimal { .. }) {
                (column.kind, column.accepts) = (ColumnKind::Binary, None);
            }
        }
        Some(Arc::new(layout))
    }
}

const EXTREMES: &str = "SELECT min(price), max(price) FROM metrics";

async fn check(private: bool) {
    let folder = tempfile::tempdir().unwrap();
    let options = || EngineOptions { compacts: false, ..options(folder.path()) };
    let engine = Engine::open(options()).await.unwrap();
    let world = World::in_engine(engine.clone(), tables(private)).await;
    engine.set_layouts(Arc::new(Before(tables(private))));
    for tenant in ["aa", "aa-2"] {
        world.insert_all("metrics", tenant, (0..ROWS).map(row)).await;
    }
    if private {
        insert_others(&world).await;
    }
    engine.flush().await.unwrap();
    engine.compact(None).await.unwrap();
    let changed = |every: usize| (0..ROWS).step_by(every).map(|n| [&row(n)[..3], &row(n + 1)[3..]].concat());
    world.insert_all("metrics", "aa-2", changed(501)).await;
    engine.flush().await.unwrap();
    let [_, by_rows] = sessions(&world, Some("aa-2")).await;
    let mut answers = Vec::new();
    for sql in BY_ROW_GROUPS {
        answers.push(rows(&by_rows, sql).await);
    }
    engine.close().await.unwrap();

    let engine = Engine::open(options()).await.unwrap();
    let world = World::in_engine_again(engine.clone(), tables(private));
    for state in ["opened", "with typed deltas", "compacted"] {
        match state {
            "with typed deltas" => {
                world.insert_all("metrics", "aa-2", changed(501)).await;
                engine.flush().await.unwrap();
            }
            "compacted" => engine.compact(None).await.unwrap(),
            _ => {}
        }
        let [fast, by_rows] = sessions(&world, Some("aa-2")).await;
        for (sql, answer) in BY_ROW_GROUPS.iter().zip(&answers) {
            let (a, b) = (rows(&fast, sql).await, rows(&by_rows, sql).await);
            assert!(
                a == *answer && b == *answer && !is_error(&a),
                "{state}: {sql}\n{a}\nby rows\n{b}\nbefore\n{answer}"
            );
        }
        let explained = plan(&fast, "SELECT sum(price), max(n) FROM metrics", false).await;
        assert!(explained.contains("Row groups:") && explained.contains("rest=none"), "{state}\n{explained}");
        let explained = plan(&fast, EXTREMES, false).await;
        assert_eq!(explained.contains("KeyspanMetadata"), state != "opened", "{state}\n{explained}");
    }
    let explained = plan(&sessions(&world, Some("aa-2")).await[0], EXTREMES, false).await;
    // Small stretches of private tables still share files with others, whose `price` is of another type.
    assert!(private || !explained.contains("KeyspanScan"), "{explained}");
    engine.close().await.unwrap();
}

#[tokio::test]
async fn files_of_shared_tables_that_were_written_before() {
    check(false).await;
}

#[tokio::test]
async fn files_of_private_tables_that_were_written_before() {
    check(true).await;
}
