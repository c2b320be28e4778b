//! Threads of their own for queries, so that what computes keeps no connection waiting.
//!
//! Some of DataFusion's operators compute for long before they give way: a nested loop join does as long as it finds no
//! row. On the threads of the connections that would stop the whole server. So a query runs on threads that serve no
//! connection, and its rows come over by a channel of [`BATCHES_MAX`]; whoever waits for them can be cancelled, timed
//! out and answered at any time. The query itself ends when it next gives way, which joins do even while they find
//! nothing ([`cancellable_joins`]).
//!
//! Tenants take turns on these threads ([`shares`](crate::shares)), and the threads of connections, where short
//! statements run, come before them.

use super::inline;
use crate::{
    pg::{cancel_flag::CancelFlag, exec::cancellable_joins},
    shares::{
        gate,
        turns::{current, long_lane},
    },
};
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
/// How much nicer the threads of queries are than those of connections, on Linux: when both want a core, a short
/// statement gets it, and a query goes on with a tenth of the time.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;
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
    {
        let _lane = long_lane();
        stream.spawn_on(query, &threads());
    }
    Ok(cancellable_joins::watched(stream.build(), flags, statement))
}

/// The threads; those of the caller on a machine that gives no more.
fn threads() -> Handle {
    static THREADS: OnceLock<Option<Runtime>> = OnceLock::new();
    let threads = THREADS.get_or_init(|| {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(gate::threads()).thread_stack_size(STACK_BYTES);
        if current().is_none_or(|share| share.gate().is_open()) {
            builder.on_thread_start(give_way);
        }
        let built = builder.thread_name("keyspan-query").enable_all().build();
        built.inspect_err(|error| tracing::warn!(%error, "no threads of their own for queries")).ok()
    });
    threads.as_ref().map_or_else(Handle::current, |threads| threads.handle().clone())
}

/// Lowers the priority of the thread. Elsewhere than on Linux priorities are those of processes: nothing is done.
fn give_way() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
        tracing::debug!(%error, "a thread of queries keeps its priority");
    }
}
