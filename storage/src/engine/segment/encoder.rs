//! Encodes batches into the column writers of a row group: at once, or on a thread beside the one that splits rows.
//!
//! ```text
//! rows ─► Columns ─► Batch ─┬──────────────────────────────┬─► Encoder: arrays ─► column writers of the row group
//!                           └─ a thread, one batch behind ─┘
//! ```
//!
//! A load has nothing else to wait for, so half of its work goes to a thread of its own ([`Beside`]). Flushes and
//! compactions, which queries run beside, take one thread.
//!
//! Column writers go with each batch and come back with it: whoever has them may write.

use super::{
    batch::{Arrays, Batch},
    shape::Shape,
};
use arrow::datatypes::{Field, SchemaRef};
use parquet::{
    arrow::arrow_writer::{ArrowColumnWriter, compute_leaves},
    errors::ParquetError,
};
use std::{
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
};

/// How batches of a shape are encoded.
#[derive(Debug)]
pub(super) struct Encoder {
    shape: Shape,
    schema: SchemaRef,
    key_fields: Vec<Field>,
}

/// A batch to be encoded.
pub(super) struct Job {
    pub(super) batch: Batch,
    /// Of the row group.
    pub(super) writers: Vec<ArrowColumnWriter>,
    /// Whether the row group has columns of the keys' parts.
    pub(super) decodes_keys: bool,
}

/// A batch that was encoded.
pub(super) struct Encoded {
    /// It is empty.
    pub(super) batch: Batch,
    pub(super) writers: Vec<ArrowColumnWriter>,
    /// Whether every key was decoded.
    pub(super) keys_decoded: bool,
    /// The shredded columns with NaNs.
    pub(super) nan: Vec<usize>,
    /// Encoded bytes of the row group so far.
    pub(super) bytes: usize,
}

impl Encoder {
    pub(super) fn new(shape: Shape, schema: SchemaRef) -> Self {
        let key_fields = shape.key_fields();
        Self { shape, schema, key_fields }
    }

    /// Encodes a batch.
    ///
    /// # Errors
    /// Parquet's.
    pub(super) fn encode(&self, job: Job) -> Result<Encoded, ParquetError> {
        let Job { mut batch, mut writers, decodes_keys } = job;
        let Arrays { columns, nan, keys_decoded } = batch.take(&self.shape, &self.key_fields, decodes_keys);
        for ((writer, field), array) in writers.iter_mut().zip(self.schema.fields()).zip(&columns) {
            compute_leaves(field, array)?.iter().try_for_each(|leaf| writer.write(leaf))?;
        }
        let bytes = writers.iter().map(ArrowColumnWriter::get_estimated_total_bytes).sum();
        Ok(Encoded { batch, writers, keys_decoded, nan, bytes })
    }
}

/// A thread that encodes one batch at a time.
#[derive(Debug)]
pub(super) struct Beside {
    /// `None` once the thread is to end.
    jobs: Option<mpsc::SyncSender<Job>>,
    done: mpsc::Receiver<Result<Encoded, ParquetError>>,
    thread: Option<JoinHandle<()>>,
}

impl Beside {
    /// Starts the thread; `None` if there can be no more threads.
    pub(super) fn start(encoder: Arc<Encoder>) -> Option<Self> {
        let (jobs, taken) = mpsc::sync_channel::<Job>(1);
        let (give, done) = mpsc::sync_channel(1);
        let work = move || {
            // Nobody takes what is done when the segment is given up.
            while let Ok(job) = taken.recv()
                && give.send(encoder.encode(job)).is_ok()
            {}
        };
        let thread = thread::Builder::new().name("keyspan-encode".into()).spawn(work).ok()?;
        Some(Self { jobs: Some(jobs), done, thread: Some(thread) })
    }

    /// Hands over a batch, after the one before has been [taken](Self::take).
    ///
    /// # Errors
    /// If the thread has panicked.
    pub(super) fn put(&self, job: Job) -> Result<(), ParquetError> {
        let sent = self.jobs.as_ref().map(|jobs| jobs.send(job).is_ok());
        if sent == Some(true) { Ok(()) } else { Err(ended()) }
    }

    /// Waits for the batch that was handed over.
    ///
    /// # Errors
    /// Parquet's; if the thread has panicked.
    pub(super) fn take(&self) -> Result<Encoded, ParquetError> {
        self.done.recv().map_err(|_| ended())?
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.jobs = None;
        // A panic has been reported to whoever waited for the batch.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn ended() -> ParquetError {
    ParquetError::General("the thread that encodes rows has ended early".to_owned())
}
