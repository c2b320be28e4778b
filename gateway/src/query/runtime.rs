//! Threads of their own for queries, so that what computes keeps no connection waiting.
//!
//! Some of DataFusion's operators compute for long before they give way: a nested loop join does as long as it finds no
//! row. On the threads of the connections that would stop the whole server. So a query runs on threads that serve no
//! connection, and its rows come over by a channel of [`BATCHES_MAX`]; whoever waits for them can be cancelled, timed
//! out and answered at any time. The query itself ends when it next gives way, which joins do even while they find
//! nothing ([`cancellable_joins`]).

use super::inline;
use crate::pg::{cancel_flag::CancelFlag, exec::cancellable_joins};
use datafusion::{
    error::Result,
    execution::{SendableRecordBatchStream, TaskContext},
    physical_plan::{ExecutionPlan, execute_stream, stream::RecordBatchReceiverStream},
};
use futures::StreamExt;
use std::sync::{Arc, OnceLock};
use tokio::runtime::{Builder, Handle, Runtime};

/// Batches between a query and who reads its rows.
const BATCHES_MAX: usize = 1;
/// Threads on a machine of few cores: one query that does not give way leaves others a thread.
const THREADS_MIN: usize = 4;
/// Bytes of a thread's stack: expressions may be nested deeply.
const STACK_BYTES: usize = 8 << 20;

/// Runs a plan: on the threads of queries, where it begins at once and is stopped when the stream is dropped; a
/// [short](inline::is_short) one on that of whoever reads its rows.
///
/// # Errors
/// What a short plan finds as it begins.
pub fn run(plan: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
    if inline::is_short(&plan) {
        return execute_stream(plan, context);
    }
    let (schema, flags) = (plan.schema(), cancellable_joins::flags(&plan));
    let statement = CancelFlag::within(context.session_config().options()).cloned();
    let mut stream = RecordBatchReceiverStream::builder(schema, BATCHES_MAX);
    let batches = stream.tx();
    let query = async move {
        let mut rows = execute_stream(plan, context)?;
        while let Some(batch) = rows.next().await {
            let failed = batch.is_err();
            if batches.send(batch).await.is_err() || failed {
                break;
            }
        }
        Result::Ok(())
    };
    stream.spawn_on(query, &threads());
    Ok(cancellable_joins::watched(stream.build(), flags, statement))
}

/// The threads; those of the caller on a machine that gives no more.
fn threads() -> Handle {
    static THREADS: OnceLock<Option<Runtime>> = OnceLock::new();
    let threads = THREADS.get_or_init(|| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(cores.max(THREADS_MIN)).thread_stack_size(STACK_BYTES);
        let built = builder.thread_name("keyspan-query").enable_all().build();
        built.inspect_err(|error| tracing::warn!(%error, "no threads of their own for queries")).ok()
    });
    threads.as_ref().map_or_else(Handle::current, |threads| threads.handle().clone())
}
