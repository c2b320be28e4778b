//! A tenant's rows as a Parquet file, read back by another library than the one that wrote them is meant for.
//!
//! Run it: `cargo run -p keyspan-examples --example export`

use anyhow::{Result, ensure};
use arrow::util::pretty::pretty_format_batches;
use keyspan_examples::{Gateway, run};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::fs::File;

#[tokio::main]
async fn main() -> Result<()> {
    let gateway = Gateway::start().await?;
    let operator = gateway.operator().await?;
    run(&operator, "DROP DATABASE IF EXISTS example_lab WITH (FORCE)").await?;
    run(&operator, "DROP TABLE IF EXISTS example_samples").await?;
    run(
        &operator,
        "CREATE TABLE example_samples (
             probe text, at timestamptz, celsius double precision, remark text,
             PRIMARY KEY (probe, at DESC), FAMILY m (celsius), FAMILY r (remark)
         )",
    )
    .await?;
    run(&operator, "CREATE DATABASE example_lab").await?;
    run(
        &operator,
        "INSERT INTO example_samples VALUES
             ('example_lab', 'north', '2026-11-01 12:00Z', 4.5, NULL),
             ('example_lab', 'north', '2026-11-01 13:00Z', 5.25, 'sun'),
             ('example_lab', 'south', '2026-11-01 12:00Z', 7, NULL)",
    )
    .await?;

    // A file below the folder that the server allows: the path in the statement is taken from there.
    run(
        &operator,
        "COPY (SELECT probe, at, celsius, remark FROM example_samples WHERE tenant = 'example_lab')
         TO 'example_samples.parquet' (FORMAT parquet)",
    )
    .await?;

    let path = gateway.copy_folder()?.join("example_samples.parquet");
    let file = File::open(&path)?;
    println!("-- {} has {} bytes", path.display(), file.metadata()?.len());
    let batches: Vec<_> = ParquetRecordBatchReaderBuilder::try_new(file)?.build()?.collect::<Result<_, _>>()?;
    println!("{}", pretty_format_batches(&batches)?);
    ensure!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>() == 3, "the file does not hold three rows");

    std::fs::remove_file(&path)?;
    run(&operator, "DROP DATABASE example_lab WITH (FORCE)").await?;
    run(&operator, "DROP TABLE example_samples").await?;
    drop(operator);
    gateway.stop().await
}
