//! Commits that change many rows of segments, which are read in one pass.

use super::*;
use crate::Write;

const ROWS: usize = 200;

fn set_in(qualifier: &'static str, value: String) -> Mutation {
    let Mutation::SetCell { family, timestamp, .. } = set("") else { unreachable!("it sets a cell") };
    Mutation::SetCell { family, qualifier: Bytes::from_static(qualifier.as_bytes()), timestamp, value: value.into() }
}

fn commit(rows: impl IntoIterator<Item = (usize, Vec<Mutation>)>) -> Commit {
    let row = |(row, mutations)| crate::RowMutation { key: key(&format!("row {row:03}")), mutations };
    let write = |row| Write::Row { table: table(), row };
    Commit { writes: rows.into_iter().map(row).map(write).collect(), ..Commit::default() }
}

#[tokio::test]
async fn many_rows_of_segments_keep_what_a_commit_does_not_change() {
    let fs = SimFs::new();
    let granularity = Granularity { group_rows_max: 7, page_rows_max: 3, ..Granularity::default() };
    let engine = with_table(EngineOptions { granularity, compacts: false, ..simulated(&fs) }).await;
    let both = |row| (row, vec![set_in("a", format!("a {row}")), set_in("b", format!("b {row}"))]);
    engine.commit(commit((0..ROWS).map(both))).await.unwrap();
    engine.compact(None).await.unwrap();
    // Some are deleted, a run of them and single ones, and some lie in another segment.
    engine.commit(commit((60..90).map(|row| (row, vec![Mutation::DeleteFromRow])))).await.unwrap();
    engine
        .commit(commit((0..ROWS).step_by(5).map(|row| (row, vec![set_in("b", format!("newer {row}"))]))))
        .await
        .unwrap();
    engine.flush().await.unwrap();
    // Including absent rows.
    let changed = |row: &usize| row % 3 != 1;
    let change = |row| (row, vec![set_in("a", format!("changed {row}"))]);
    engine.commit(commit((0..ROWS + 20).filter(changed).map(change))).await.unwrap();
    for flushed in [false, true] {
        let found = rows(engine.as_ref()).await;
        let text = |row: &Row| -> Vec<String> {
            row.cells.iter().map(|cell| String::from_utf8_lossy(&cell.value).into_owned()).collect()
        };
        let found: Vec<(RowKey, Vec<String>)> = found.iter().map(|row| (row.key.clone(), text(row))).collect();
        let expected = (0..ROWS + 20).filter_map(|row| {
            let mut cells = Vec::new();
            let gone = row >= ROWS || (60..90).contains(&row);
            cells.extend(changed(&row).then(|| format!("changed {row}")));
            cells.extend((!gone).then(|| format!("a {row}")));
            cells.extend((row < ROWS && row % 5 == 0).then(|| format!("newer {row}")));
            cells.extend((!gone).then(|| format!("b {row}")));
            (!cells.is_empty()).then(|| (key(&format!("row {row:03}")), cells))
        });
        assert_eq!(found, expected.collect::<Vec<_>>(), "flushed: {flushed}");
        engine.flush().await.unwrap();
    }
}
