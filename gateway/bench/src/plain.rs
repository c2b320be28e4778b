//! The other side of the bench: plain Parquet files of the same rows, read by DataFusion alone.
//!
//! Files of the *same layout* equal the store's segments: the same number of files, each with the same rows, row
//! groups, pages, codec, encodings and dictionaries, all read from the segments' footers. They have SQL's columns only:
//! no row keys in the store's encoding, no timestamps of cells. Files of *DataFusion's layout* are what its own writer
//! makes by default.

use super::data::{Data, Reading, TABLE, tenant_name};
use anyhow::{Context, Result, ensure};
use arrow::{
    array::{
        ArrayRef, BooleanBuilder, Float32Builder, Float64Builder, Int16Builder, Int32Builder, Int64Builder,
        RecordBatch, StringBuilder, TimestampMicrosecondBuilder,
    },
    datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit},
};
use datafusion::{
    config::TableParquetOptions,
    prelude::{ParquetReadOptions, SessionConfig, SessionContext},
};
use futures::TryStreamExt;
use keyspan_gateway::{query::runtime, resources::BATCH_ROWS, resources::STREAMS};
use keyspan_storage::engine::{DICTIONARY_BYTES_MAX, PAGE_BYTES_TARGET, PAGE_ROWS_MAX};
use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, Encoding},
    file::{
        properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder},
        reader::{FileReader, SerializedFileReader},
    },
    schema::types::ColumnPath,
};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Rows of a batch.
const BATCH: usize = 8_192;

/// The layout of plain files.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// The rows of each row group, by file.
    files: Vec<Vec<u64>>,
    properties: WriterProperties,
    /// Whether row groups end as `files` says.
    is_exact: bool,
}

impl Layout {
    /// The layout of segments.
    ///
    /// # Errors
    /// If a segment cannot be read.
    pub(super) fn of_segments(segments: &[PathBuf]) -> Result<Self> {
        let (mut files, mut found) = (Vec::new(), None);
        for path in segments {
            let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
            let reader = SerializedFileReader::new(file)?;
            let groups = reader.metadata().row_groups();
            files.push(groups.iter().map(|group| u64::try_from(group.num_rows())).collect::<Result<_, _>>()?);
            if let Some(first) = groups.first() {
                let columns = first.columns().iter();
                found.get_or_insert_with(|| -> Vec<(String, Compression, bool, bool)> {
                    let written = |column: &parquet::file::metadata::ColumnChunkMetaData| {
                        let path = column.column_path().string();
                        let deltas = column.encodings().any(|encoding| encoding == Encoding::DELTA_BINARY_PACKED);
                        (path, column.compression(), column.dictionary_page_offset().is_some(), deltas)
                    };
                    columns.map(written).collect()
                });
            }
        }
        let found = found.context("there is no segment")?;
        let mut properties = WriterProperties::builder()
            .set_data_page_row_count_limit(PAGE_ROWS_MAX)
            .set_data_page_size_limit(PAGE_BYTES_TARGET)
            .set_dictionary_page_size_limit(DICTIONARY_BYTES_MAX)
            .set_write_batch_size(1_024)
            .set_statistics_enabled(EnabledStatistics::Page);
        for field in schema().fields() {
            let end = in_segments(field.name());
            let column = found.iter().find(|(path, ..)| path.ends_with(&end));
            let (_, codec, dictionary, deltas) =
                column.with_context(|| format!("segments have no {}", field.name()))?;
            let path = ColumnPath::new(vec![field.name().clone()]);
            if *deltas {
                properties = properties.set_column_encoding(path.clone(), Encoding::DELTA_BINARY_PACKED);
            }
            properties = properties.set_column_compression(path.clone(), *codec);
            properties = properties.set_column_dictionary_enabled(path, *dictionary);
        }
        Ok(Self { files, properties: properties.build(), is_exact: true })
    }

    /// The same number of files, with the defaults of DataFusion's writer.
    ///
    /// # Errors
    /// Those of DataFusion.
    pub(super) fn of_datafusion(&self) -> Result<Self> {
        let mut options = TableParquetOptions::default();
        options.arrow_schema(&schema());
        let properties = WriterPropertiesBuilder::try_from(&options)?.build();
        Ok(Self { files: self.files.clone(), properties, is_exact: false })
    }
}

/// The end of a column's name in segments: those of key parts have numbers.
fn in_segments(name: &str) -> String {
    match name {
        "device" => "key:part1".to_owned(),
        "at" => "key:part2".to_owned(),
        name => format!(":{name}"),
    }
}

/// Plain Parquet files in a folder.
pub(super) struct Plain {
    pub(super) files: Vec<PathBuf>,
    context: SessionContext,
}

impl Plain {
    /// Writes the rows in their present state.
    ///
    /// # Errors
    /// If a file cannot be written, or the layout has another number of rows.
    pub(super) async fn write(folder: &Path, layout: &Layout, data: &Data, mut step: impl FnMut(u64)) -> Result<Self> {
        fs::create_dir(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let (mut rows, mut files, mut done) = (data.in_order().peekable(), Vec::new(), 0);
        for (at, groups) in layout.files.iter().enumerate() {
            let path = folder.join(format!("{at:04}.parquet"));
            let mut writer = ArrowWriter::try_new(File::create(&path)?, schema(), Some(layout.properties.clone()))?;
            for group in groups {
                let mut left = *group;
                while left > 0 {
                    let mut batch = Batch::default();
                    let some: Vec<Reading> = rows.by_ref().take(BATCH.min(usize::try_from(left)?)).collect();
                    ensure!(!some.is_empty(), "segments hold more rows than there are");
                    some.iter().for_each(|row| batch.push(data.tenant_of(row.device), row));
                    left -= some.len() as u64;
                    done += some.len() as u64;
                    writer.write(&batch.finish()?)?;
                    step(done);
                    // Yield, so that a signal can stop the run.
                    tokio::task::yield_now().await;
                }
                if layout.is_exact {
                    writer.flush()?;
                }
            }
            writer.close()?;
            files.push(path);
        }
        ensure!(rows.peek().is_none(), "segments hold fewer rows than there are");
        // As Keyspan's own sessions: the same number of streams, batches of the same size.
        let config = SessionConfig::new().with_target_partitions(STREAMS).with_batch_size(BATCH_ROWS);
        let context = SessionContext::new_with_config(config);
        let path = folder.to_str().context("the folder's name is no text")?;
        context.register_parquet(TABLE, path, ParquetReadOptions::default()).await?;
        Ok(Self { files, context })
    }

    /// Runs a query, on the threads that run Keyspan's queries.
    ///
    /// # Errors
    /// Those of DataFusion.
    pub(super) async fn run(&self, sql: &str) -> Result<Vec<RecordBatch>> {
        let plan = self.context.sql(sql).await?.create_physical_plan().await?;
        Ok(runtime::run(plan, self.context.task_ctx())?.try_collect().await?)
    }
}

fn schema() -> SchemaRef {
    let at = DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()));
    let fields = [
        ("tenant", DataType::Utf8),
        ("device", DataType::Utf8),
        ("at", at),
        ("temperature", DataType::Float64),
        ("humidity", DataType::Float64),
        ("pressure", DataType::Float64),
        ("voltage", DataType::Float32),
        ("signal", DataType::Int32),
        ("counter", DataType::Int64),
        ("status", DataType::Int16),
        ("healthy", DataType::Boolean),
        ("firmware", DataType::Utf8),
        ("note", DataType::Utf8),
    ];
    Arc::new(Schema::new(fields.map(|(name, data)| Field::new(name, data, true)).to_vec()))
}

/// Builds a batch row by row.
#[derive(Default)]
struct Batch {
    tenant: StringBuilder,
    device: StringBuilder,
    at: TimestampMicrosecondBuilder,
    floats: [Float64Builder; 3],
    voltage: Float32Builder,
    signal: Int32Builder,
    counter: Int64Builder,
    status: Int16Builder,
    healthy: BooleanBuilder,
    firmware: StringBuilder,
    note: StringBuilder,
}

impl Batch {
    fn push(&mut self, tenant: u64, row: &Reading) {
        self.tenant.append_value(tenant_name(tenant));
        self.device.append_value(Reading::device_name(row.device));
        self.at.append_value(row.at);
        let floats = [row.temperature, row.humidity, row.pressure];
        self.floats.iter_mut().zip(floats).for_each(|(column, value)| column.append_value(value));
        self.voltage.append_value(row.voltage);
        self.signal.append_value(row.signal);
        self.counter.append_value(row.counter);
        self.status.append_value(row.status);
        self.healthy.append_value(row.healthy);
        self.firmware.append_value(row.firmware);
        self.note.append_option(row.note);
    }

    fn finish(mut self) -> Result<RecordBatch> {
        let [temperature, humidity, pressure] = &mut self.floats;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.tenant.finish()),
            Arc::new(self.device.finish()),
            Arc::new(self.at.finish().with_timezone("+00:00")),
            Arc::new(temperature.finish()),
            Arc::new(humidity.finish()),
            Arc::new(pressure.finish()),
            Arc::new(self.voltage.finish()),
            Arc::new(self.signal.finish()),
            Arc::new(self.counter.finish()),
            Arc::new(self.status.finish()),
            Arc::new(self.healthy.finish()),
            Arc::new(self.firmware.finish()),
            Arc::new(self.note.finish()),
        ];
        Ok(RecordBatch::try_new(schema(), columns)?)
    }
}
