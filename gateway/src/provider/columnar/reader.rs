//! How DataFusion's Parquet source reads files of the store: each [`PartitionedFile`] carries its file and the metadata
//! of its footer.

use crate::view::budget::ScanBudget;
use bytes::Bytes;
use datafusion::{
    common::Result,
    datasource::{
        listing::PartitionedFile,
        physical_plan::{ParquetFileMetrics, ParquetFileReaderFactory},
    },
    error::DataFusionError,
    physical_plan::metrics::ExecutionPlanMetricsSet,
};
use futures::{FutureExt, TryFutureExt, future::BoxFuture};
use keyspan_storage::PartFile;
use parquet::{
    arrow::{arrow_reader::ArrowReaderOptions, async_reader::AsyncFileReader},
    errors::{ParquetError, Result as ParquetResult},
    file::metadata::ParquetMetaData,
};
use std::{ops::Range, sync::Arc};

/// The extension that a [`PartitionedFile`] carries.
#[derive(Clone, Debug)]
pub(super) struct OpenFile {
    pub(super) file: Arc<dyn PartFile>,
    pub(super) metadata: Arc<ParquetMetaData>,
    /// How the bytes that are read are counted.
    pub(super) reads: Reads,
}

/// Who counts what is read of a file.
#[derive(Clone, Debug)]
pub(super) enum Reads {
    /// The reader: the bytes are charged to the budget.
    Counted(Budget),
    /// A node above, by the rows that it gets ([`border_rows`](super::border_rows)).
    CountedAbove,
}

/// The scan budget of the statement, and the hint of the error when it is exceeded; `None` without a budget.
pub(super) type Budget = Option<(Arc<ScanBudget>, Option<Arc<str>>)>;

/// Makes readers of files that carry an [`OpenFile`].
#[derive(Debug)]
pub(super) struct ReaderFactory;

impl ParquetFileReaderFactory for ReaderFactory {
    fn create_reader(
        &self,
        partition: usize,
        file: PartitionedFile,
        _: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<Box<dyn AsyncFileReader + Send>> {
        let opened = file.extension::<OpenFile>().cloned();
        let opened = opened.ok_or_else(|| DataFusionError::Internal("a file that is none of the store's".into()))?;
        let metrics = ParquetFileMetrics::new(partition, file.object_meta.location.as_ref(), metrics);
        Ok(Box::new(Reader { opened, metrics }))
    }
}

struct Reader {
    opened: OpenFile,
    metrics: ParquetFileMetrics,
}

impl AsyncFileReader for Reader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, ParquetResult<Bytes>> {
        let read = self.get_byte_ranges(vec![range]);
        let only =
            |mut bytes: Vec<Bytes>| bytes.pop().ok_or_else(|| ParquetError::General("a read gave no bytes".into()));
        async move { read.await.and_then(only) }.boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, ParquetResult<Vec<Bytes>>> {
        let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        if let Reads::Counted(budget) = &self.opened.reads {
            self.metrics.bytes_scanned.add(usize::try_from(bytes).unwrap_or(usize::MAX));
            if let Some((budget, hint)) = budget
                && let Err(error) = budget.charge(0, bytes, hint.as_deref())
            {
                return futures::future::ready(Err(ParquetError::External(Box::new(error)))).boxed();
            }
        }
        self.opened.file.read(&ranges).map_err(|error| ParquetError::External(Box::new(error))).boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, ParquetResult<Arc<ParquetMetaData>>> {
        futures::future::ready(Ok(Arc::clone(&self.opened.metadata))).boxed()
    }
}
