//! Wide rows and large values through the server: what a client of PostgreSQL gets of a row of 100,000 columns and of
//! values of 10 MB.

use super::harness::{Harness, rows, told};
use anyhow::{Context, Result};
use arrow::{array::AsArray, compute::cast, datatypes::DataType};
use keyspan_storage::{Commit, FamilyName, Mutation, RowKey, Store};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

/// Columns of the wide row, beside those that are declared.
const COLUMNS: usize = 100_000;
/// Bytes of a large value: the most that a cell may have without a warning.
const VALUE_BYTES: usize = 10_000_000;

/// Writes a row of many columns that nobody declared, as another client of the store would.
async fn write_wide(harness: &Harness, key: &str) -> Result<()> {
    let table = harness.instance().catalog.snapshot().table("wide").context("the table")?.physical.clone();
    let family = FamilyName::new("m")?;
    let set = |column: usize| Mutation::SetCell {
        family: family.clone(),
        qualifier: format!("q{column:06}").into(),
        timestamp: None,
        value: format!("value {column}").into(),
    };
    // A commit has a limit of its own.
    for columns in (0..COLUMNS).collect::<Vec<_>>().chunks(COLUMNS / 4) {
        let mutations = columns.iter().map(|column| set(*column)).collect();
        harness.engine().commit(Commit::row(table.clone(), RowKey::new(format!("one#{key}"))?, mutations)).await?;
    }
    Ok(())
}

/// Asks for the wide row and its neighbours.
async fn check_wide(harness: &Harness) -> Result<()> {
    let client = harness.connect("one", "one").await?;
    let all = "SELECT k, cardinality(map_keys(m)) FROM raw('wide') ORDER BY k";
    assert_eq!(rows(&client, all).await?, ["a|1", &format!("b|{}", COLUMNS + 1), "c|1"]);
    let some = "SELECT m['q000000']['value'], m['q099999']['bytes'], m['q100000'], m['name']['value'] FROM raw('wide') WHERE k = 'b'";
    assert_eq!(rows(&client, some).await?, [r"value 0|\x76616c7565203939393939||the wide one"]);
    // Whole, as jsonb.
    let whole = client.query_one("SELECT m FROM raw('wide') WHERE k = 'b'", &[]).await?;
    let whole: serde_json::Value = whole.get(0);
    let whole = whole.as_object().context("an object")?;
    assert_eq!((whole.len(), &whole["q050000"]["value"]), (COLUMNS + 1, &"value 50000".into()));
    let cells = "SELECT count(*), count(DISTINCT qualifier), sum(length(value)) FROM cells('wide') WHERE k = 'b'";
    let bytes: usize = (0..COLUMNS).map(|column| format!("value {column}").len()).sum::<usize>() + "the wide one".len();
    assert_eq!(rows(&client, cells).await?, [format!("{0}|{0}|{bytes}", COLUMNS + 1)]);
    assert_eq!(rows(&client, "SELECT name FROM wide ORDER BY k").await?, ["narrow", "the wide one", "narrow"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_of_100_000_columns_is_read() -> Result<()> {
    let harness = Harness::start_engine(|options| options.compacts = false).await?;
    let operator = harness.operator().await?;
    operator
        .batch_execute("CREATE TABLE wide (k text PRIMARY KEY, name text, FAMILY m (name)) WITH (m.max_versions = 1)")
        .await?;
    let client = harness.tenant("one").await?;
    client.batch_execute("INSERT INTO wide VALUES ('a', 'narrow'), ('b', 'the wide one'), ('c', 'narrow')").await?;
    write_wide(&harness, "b").await?;
    check_wide(&harness).await?;
    harness.engine().compact(None).await?;
    check_wide(&harness).await?;
    let harness = harness.restart().await?;
    check_wide(&harness).await?;
    // A statement that knows of one column leaves the others.
    let client = harness.connect("one", "one").await?;
    client.batch_execute("UPDATE wide SET name = 'the wide one' WHERE k = 'b'").await?;
    check_wide(&harness).await?;
    client.batch_execute("DELETE FROM wide WHERE k = 'b'").await?;
    assert_eq!(rows(&client, "SELECT count(*) FROM cells('wide') WHERE k = 'b'").await?, ["0"]);
    Ok(())
}

/// A value of which each part says where it is.
fn large(seed: usize) -> String {
    let parts = (0..).map(|at| format!("{seed}:{at};"));
    let mut value = String::with_capacity(VALUE_BYTES + 16);
    for part in parts {
        if value.len() >= VALUE_BYTES {
            break;
        }
        value.push_str(&part);
    }
    value.truncate(VALUE_BYTES);
    value
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_10_mb_come_and_go() -> Result<()> {
    let harness = Harness::start().await?;
    let operator = harness.operator().await?;
    operator.batch_execute("CREATE TABLE large (k int PRIMARY KEY, v text, b bytea)").await?;
    let client = harness.tenant("one").await?;
    // As a parameter, as text in a statement, from a query.
    let insert = "INSERT INTO large VALUES ($1, $2, $3)";
    client.execute(insert, &[&1, &large(1), &large(11).into_bytes()]).await?;
    client.batch_execute(&format!("INSERT INTO large VALUES (2, '{}', NULL)", large(2))).await?;
    client.batch_execute("INSERT INTO large SELECT 3, v, NULL FROM large WHERE k = 2").await?;
    client.execute("UPDATE large SET v = $1 WHERE k = 3", &[&large(3)]).await?;
    check_large(&harness).await?;
    harness.engine().flush().await?;
    check_large(&harness).await?;
    harness.engine().compact(None).await?;
    let harness = harness.restart().await?;
    check_large(&harness).await?;

    // A cell has a limit, which is told, and what is beyond it leaves nothing.
    let client = harness.connect("one", "one").await?;
    let refused = client.batch_execute("UPDATE large SET v = repeat(v, 11) WHERE k = 1").await;
    let refused = refused.err().map(|error| told(&error)).context("it was taken")?;
    assert!(refused.starts_with("54000 "), "{refused}");
    check_large(&harness).await
}

async fn check_large(harness: &Harness) -> Result<()> {
    let client = harness.connect("one", "one").await?;
    for k in 1..=3 {
        let row = client.query_one("SELECT v, b FROM large WHERE k = $1", &[&k]).await?;
        // Not `assert_eq`, which would print them.
        assert!(row.get::<_, &str>(0) == large(k as usize), "value {k}");
        let bytes: Option<&[u8]> = row.get(1);
        assert!(bytes == (k == 1).then(|| large(11).into_bytes()).as_deref(), "bytes {k}");
    }
    let lengths = rows(&client, "SELECT k, length(v), octet_length(b) FROM large ORDER BY k").await?;
    assert_eq!(
        lengths,
        [format!("1|{VALUE_BYTES}|{VALUE_BYTES}"), format!("2|{VALUE_BYTES}|"), format!("3|{VALUE_BYTES}|")]
    );
    let operator = harness.operator().await?;
    operator.batch_execute("COPY (SELECT k, v FROM large ORDER BY k) TO 'large.parquet' (FORMAT parquet)").await?;
    let file = std::fs::File::open(harness.copy_folder().join("large.parquet"))?;
    let mut copied = Vec::new();
    for batch in ParquetRecordBatchReaderBuilder::try_new(file)?.build()? {
        let batch = batch?;
        let values = cast(batch.column(1), &DataType::LargeUtf8)?;
        copied.extend(values.as_string::<i64>().iter().map(|value| value.unwrap_or_default().to_owned()));
    }
    assert!(copied == [large(1), large(2), large(3)], "COPY TO");
    std::fs::remove_file(harness.copy_folder().join("large.parquet"))?;
    Ok(())
}
