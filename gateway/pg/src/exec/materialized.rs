//! The rows of a query that is computed once: the first reader computes and buffers them, and all readers read the
//! buffer. They are in memory while they are few and the pool has room, else in a file.

use crate::exec::node;
use arrow::{array::RecordBatch, datatypes::SchemaRef};
use datafusion::{
    common::{Result, exec_datafusion_err, tree_node::TreeNodeRecursion},
    error::DataFusionError,
    execution::{
        SendableRecordBatchStream, TaskContext,
        memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation},
        spill_file::SpillFile,
    },
    physical_expr::{EquivalenceProperties, PhysicalExpr},
    physical_plan::{
        DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, Partitioning, PlanProperties,
        ReplaceChildrenOptions, SpillManager,
        execution_plan::{Boundedness, EmissionType},
        metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, SpillMetrics},
        spill::get_record_batch_memory_size,
        stream::RecordBatchStreamAdapter,
    },
};
use futures::{
    FutureExt, StreamExt, TryStreamExt,
    future::{self, BoxFuture, WeakShared},
    stream,
};
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The part of a query's memory for buffered rows: they stay until the statement ends, and their readers need memory,
/// too.
const PART_OF_MEMORY: usize = 16;

/// The queries of one statement that are computed once, by their numbers: an extension of its session.
#[derive(Default)]
pub struct Shared(Mutex<HashMap<usize, State>>);

/// Rows that are computed by those who wait for them.
type Computing = future::Shared<BoxFuture<'static, Outcome>>;

type Outcome = std::result::Result<Arc<Rows>, Arc<DataFusionError>>;

enum State {
    /// Held by those who wait alone: what computes holds the session, which holds this.
    Computing(WeakShared<BoxFuture<'static, Outcome>>),
    Computed(Arc<Rows>),
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared")
    }
}

impl Shared {
    fn all(&self) -> MutexGuard<'_, HashMap<usize, State>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rows of a number, which `compute` gives if nobody computes them yet.
    fn of<F>(self: Arc<Self>, number: usize, compute: impl FnOnce() -> F) -> Computing
    where
        F: Future<Output = Result<Rows>> + Send + 'static,
    {
        let shared = Arc::clone(&self);
        let mut all = self.all();
        match all.get(&number) {
            Some(State::Computed(rows)) => return future::ready(Ok(Arc::clone(rows))).boxed().shared(),
            Some(State::Computing(waited)) => {
                if let Some(computing) = waited.upgrade() {
                    return computing;
                }
            }
            None => {}
        }
        let rows = compute();
        let computing = async move {
            let rows = Arc::new(rows.await.map_err(Arc::new)?);
            shared.all().insert(number, State::Computed(Arc::clone(&rows)));
            Ok(rows)
        };
        let computing = computing.boxed().shared();
        all.extend(computing.downgrade().map(|weak| (number, State::Computing(weak))));
        computing
    }
}

/// Rows in memory, or in a file.
struct Rows {
    batches: Vec<RecordBatch>,
    file: Option<Arc<dyn SpillFile>>,
    spills: SpillManager,
    /// What `batches` take.
    _reservation: MemoryReservation,
}

impl Rows {
    /// # Errors
    /// Those of the input, and what the disk has no room for.
    async fn of(mut input: SendableRecordBatchStream, context: &TaskContext, metrics: SpillMetrics) -> Result<Self> {
        let spills = SpillManager::new(context.runtime_env(), metrics, input.schema());
        // What could spill has a share of the pool that grows smaller by each of its kind, also by those in files.
        let consumer = MemoryConsumer::new("rows of a query of WITH");
        let reservation = consumer.register(context.memory_pool());
        let most = match context.memory_pool().memory_limit() {
            MemoryLimit::Finite(bytes) => bytes / PART_OF_MEMORY,
            _ => usize::MAX,
        };
        let (mut batches, mut file) = (Vec::new(), None);
        while let Some(batch) = input.try_next().await? {
            let bytes = get_record_batch_memory_size(&batch);
            let fits = file.is_none() && reservation.size().saturating_add(bytes) <= most;
            if fits && reservation.try_grow(bytes).is_ok() {
                batches.push(batch);
                continue;
            }
            let file = match &mut file {
                Some(file) => file,
                none => none.insert(spills.create_in_progress_file("rows of a query of WITH")?),
            };
            for before in batches.drain(..) {
                file.append_batch(&before)?;
            }
            reservation.free();
            file.append_batch(&batch)?;
        }
        let file = file.map(|mut file| file.finish()).transpose()?.flatten();
        Ok(Self { batches, file, spills, _reservation: reservation })
    }

    fn stream(self: Arc<Self>) -> Result<SendableRecordBatchStream> {
        if let Some(file) = &self.file {
            return self.spills.read_spill_as_stream(Arc::clone(file), None);
        }
        let schema = Arc::clone(self.spills.schema());
        let batches = stream::unfold((self, 0), |(rows, at)| async move {
            let batch = rows.batches.get(at)?.clone();
            Some((Ok(batch), (rows, at + 1)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }
}

/// One reader of the rows.
#[derive(Clone, Debug)]
pub(crate) struct MaterializedExec {
    number: usize,
    child: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl MaterializedExec {
    pub(crate) fn new(number: usize, child: Arc<dyn ExecutionPlan>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(child.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self { number, child, properties: Arc::new(properties), metrics: ExecutionPlanMetricsSet::new() }
    }

    fn over(&self, child: Arc<dyn ExecutionPlan>) -> Self {
        Self { child, ..self.clone() }
    }
}

impl DisplayAs for MaterializedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Materialized: computed once, for all that read it")
    }
}

impl ExecutionPlan for MaterializedExec {
    fn name(&self) -> &'static str {
        "Materialized"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::SinglePartition]
    }

    node::over_child!();

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(shared) = context.session_config().get_extension::<Shared>() else {
            return Err(exec_datafusion_err!("a query of WITH runs in a session of another kind"));
        };
        let computed = shared.of(self.number, || {
            let (child, metrics) = (Arc::clone(&self.child), SpillMetrics::new(&self.metrics, partition));
            async move { Rows::of(child.execute(partition, Arc::clone(&context))?, &context, metrics).await }
        });
        let rows = computed.map(|rows| rows.map_err(DataFusionError::Shared).and_then(Rows::stream));
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let rows = stream::once(rows).try_flatten().inspect_ok(move |batch| metrics.record_output(batch.num_rows()));
        let schema: SchemaRef = self.schema();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows.boxed())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::{
        array::Int64Array,
        datatypes::{DataType, Field, Schema},
    };
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const BATCHES: i64 = 40;
    const BATCH_ROWS: i64 = 1_000;

    fn input() -> SendableRecordBatchStream {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
        let of = Arc::clone(&schema);
        let batches = (0..BATCHES).map(move |batch| {
            let numbers = Int64Array::from_iter_values(batch * BATCH_ROWS..(batch + 1) * BATCH_ROWS);
            Ok(RecordBatch::try_new(Arc::clone(&of), vec![Arc::new(numbers)])?)
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(batches.collect::<Vec<_>>())))
    }

    fn context(memory_bytes: usize) -> TaskContext {
        let runtime = RuntimeEnvBuilder::new().with_memory_limit(memory_bytes, 1.0).build_arc().unwrap();
        TaskContext::default().with_runtime(runtime)
    }

    async fn rows(memory_bytes: usize) -> (Arc<Rows>, usize) {
        let context = context(memory_bytes);
        let metrics = SpillMetrics::new(&ExecutionPlanMetricsSet::new(), 0);
        let rows = Rows::of(input(), &context, metrics).await.unwrap();
        (Arc::new(rows), context.memory_pool().reserved())
    }

    async fn read(rows: &Arc<Rows>) -> Vec<i64> {
        let batches: Vec<RecordBatch> = Arc::clone(rows).stream().unwrap().try_collect().await.unwrap();
        let numbers =
            |batch: &RecordBatch| batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap().values().to_vec();
        batches.iter().flat_map(numbers).collect()
    }

    #[tokio::test]
    async fn rows_are_in_memory_or_in_a_file_and_can_be_read_again() {
        let expected: Vec<i64> = (0..BATCHES * BATCH_ROWS).collect();
        let (in_memory, reserved) = rows(16 << 20).await;
        assert!(in_memory.file.is_none() && reserved > 300_000, "{reserved}");
        let (in_file, reserved) = rows(1 << 20).await;
        assert!(in_file.file.is_some() && in_file.batches.is_empty());
        assert_eq!(reserved, 0);
        for rows in [in_memory, in_file] {
            assert_eq!(read(&rows).await, expected);
            assert_eq!(read(&rows).await, expected);
        }
    }

    #[tokio::test]
    async fn rows_are_computed_once_unless_nobody_waited_for_them() {
        let (shared, computed) = (Arc::new(Shared::default()), Arc::new(AtomicUsize::new(0)));
        let of = |number| {
            let computed = Arc::clone(&computed);
            Arc::clone(&shared).of(number, move || async move {
                tokio::task::yield_now().await;
                computed.fetch_add(1, Ordering::Relaxed);
                Ok(Arc::into_inner(rows(16 << 20).await.0).unwrap())
            })
        };
        // Nobody waits until it is there.
        let mut never = of(1);
        assert!((&mut never).now_or_never().is_none());
        drop(never);
        let (first, second) = (of(1), of(1));
        let (first, second) = future::join(first, second).await;
        assert!(Arc::ptr_eq(&first.unwrap(), &second.unwrap()));
        // All who read it are gone.
        of(1).await.unwrap();
        assert_eq!(computed.load(Ordering::Relaxed), 1);
        of(2).await.unwrap();
        assert_eq!(computed.load(Ordering::Relaxed), 2);
    }
}
