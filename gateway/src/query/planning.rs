//! Threads of their own for reading and planning what is long, so that it keeps no connection waiting.
//!
//! Neither the parser nor DataFusion's analyzer, optimizer and planner give way before they are through. On the thread
//! of a connection no cancel request, no timeout and no end of the server would reach the statement meanwhile, and as
//! many of them as there are threads would stop the whole server. So what is not [short](is_short_query) runs on
//! threads that serve no connection, and whoever waits for it can be stopped at any time. What was given up before it
//! began never begins; what has begun runs to its end, which the bounds of a statement's size put near
//! (`sql/src/tokens/complexity.rs`, `pg/src/syntax/expansion.rs`), and keeps one of the threads until then.
//!
//! What is short stays where it is: the way to another thread and back takes longer than to plan a short query.

use crate::pg::ident::fold;
use datafusion::{
    common::tree_node::{TreeNode, TreeNodeRecursion},
    logical_expr::{Expr, LogicalPlan},
    sql::sqlparser::ast::{self, ObjectNamePart, Statement, visit_expressions, visit_relations},
};
use futures::{FutureExt, future::BoxFuture};
use std::{
    cell::Cell,
    future::{Future, poll_fn},
    ops::ControlFlow,
    pin::pin,
    sync::OnceLock,
};
use tokio::{
    runtime::{Builder, Handle, Runtime},
    task::AbortHandle,
};

/// Bytes of a text that is read at once.
pub(crate) const SHORT_TEXT_BYTES: usize = 32 << 10;
/// Expressions, with all that they hold, of what is planned at once.
const SHORT_EXPRESSIONS: usize = 300;
/// Relations of a query that is planned at once.
const SHORT_RELATIONS: usize = 12;
/// Bytes of a thread's stack: expressions may be nested deeply.
const STACK_BYTES: usize = 8 << 20;
/// Less stack than this is little.
const STACK_LEFT_BYTES: usize = 768 << 10;
/// Stack that is added at a time.
const STACK_MORE_BYTES: usize = 4 << 20;
/// Functions whose call with constants, which planning computes, may take long: their results outgrow what they are
/// given, or their time does.
const LONG_FUNCTIONS: [&str; 16] = [
    "array_repeat",
    "array_resize",
    "concat",
    "concat_ws",
    "format",
    "generate_series",
    "levenshtein",
    "lpad",
    "range",
    "regexp_count",
    "regexp_like",
    "regexp_match",
    "regexp_replace",
    "repeat",
    "replace",
    "rpad",
];

tokio::task_local! {
    /// Set on the threads of planning.
    static AWAY: ();
}

thread_local! {
    /// Whether the thread is within [`at_once`].
    static AT_ONCE: Cell<bool> = const { Cell::new(false) };
}

/// Sets [`AT_ONCE`] back, after a panic too.
struct AtOnce(bool);

impl Drop for AtOnce {
    fn drop(&mut self) {
        AT_ONCE.set(self.0);
    }
}

/// Ends a task that nobody waits for any more.
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Runs work on the threads of planning, unless it is there already. A panic of the work is one of the caller's.
///
/// Boxed: most statements do not go this way, and the future of each would have room for it.
pub(crate) fn away<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> BoxFuture<'static, T> {
    Box::pin(run(work))
}

async fn run<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    if AWAY.try_with(|()| ()).is_ok() {
        return work.await;
    }
    if AT_ONCE.get() {
        // Who asks would give up what begins here.
        return std::future::pending().await;
    }
    let task = threads().spawn(AWAY.scope((), work));
    let _abort = AbortOnDrop(task.abort_handle());
    match task.await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The threads end with the process.
            Err(_) => std::future::pending().await,
        },
    }
}

/// The result of planning that waits for nothing; `None` where it would wait, for the threads of planning among others.
pub(crate) fn at_once<T>(work: impl Future<Output = T>) -> Option<T> {
    let _before = AtOnce(AT_ONCE.replace(true));
    work.now_or_never()
}

/// Polls a future with more stack where little is left: what plans within what is planned, a view within a view.
pub(crate) async fn with_stack<T>(work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    poll_fn(move |context| stacker::maybe_grow(STACK_LEFT_BYTES, STACK_MORE_BYTES, || work.as_mut().poll(context)))
        .await
}

/// Whether a query is planned at once.
pub(crate) fn is_short_query(query: &Statement) -> bool {
    let (mut expressions, mut relations) = (0, 0);
    let within = |count: &mut usize, most| {
        *count += 1;
        if *count <= most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    visit_relations(query, |_| within(&mut relations, SHORT_RELATIONS)).is_continue()
        && visit_expressions(query, |expr| match expr {
            ast::Expr::Function(call) if call.name.0.last().is_some_and(is_long_name) => ControlFlow::Break(()),
            _ => within(&mut expressions, SHORT_EXPRESSIONS),
        })
        .is_continue()
}

/// Whether a plan is optimised at once.
pub(crate) fn is_short_plan(plan: &LogicalPlan) -> bool {
    let (mut expressions, mut scans) = (0, 0);
    let visited = plan.apply_with_subqueries(|node| {
        scans += usize::from(matches!(node, LogicalPlan::TableScan(_)));
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                expressions += 1;
                if matches!(expr, Expr::ScalarFunction(call) if is_long_function(call.name())) {
                    expressions += SHORT_EXPRESSIONS;
                }
                Ok(proceed(expressions, scans))
            })
        })?;
        Ok(proceed(expressions, scans))
    });
    visited.is_ok() && is_within(expressions, scans)
}

fn is_within(expressions: usize, scans: usize) -> bool {
    // A plan has more of them than its text: each projection repeats columns.
    expressions <= 2 * SHORT_EXPRESSIONS && scans <= SHORT_RELATIONS
}

fn proceed(expressions: usize, scans: usize) -> TreeNodeRecursion {
    if is_within(expressions, scans) { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop }
}

fn is_long_name(name: &ObjectNamePart) -> bool {
    name.as_ident().is_some_and(|name| is_long_function(&fold(name)))
}

fn is_long_function(name: &str) -> bool {
    LONG_FUNCTIONS.binary_search(&name).is_ok()
}

/// The threads; those of the caller on a machine that gives no more.
fn threads() -> Handle {
    static THREADS: OnceLock<Option<Runtime>> = OnceLock::new();
    let threads = THREADS.get_or_init(|| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(cores).thread_stack_size(STACK_BYTES);
        let built = builder.thread_name("keyspan-plan").enable_all().build();
        built.inspect_err(|error| tracing::warn!(%error, "no threads of their own for planning")).ok()
    });
    threads.as_ref().map_or_else(Handle::current, |threads| threads.handle().clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::testing;
    use std::{
        panic::AssertUnwindSafe,
        sync::mpsc,
        task::{Context, Waker},
    };

    fn is_short(sql: &str) -> bool {
        is_short_query(&testing::parse(sql))
    }

    #[test]
    fn what_is_long_is_seen() {
        assert!(LONG_FUNCTIONS.is_sorted());
        assert!(is_short("SELECT a, count(*) FROM t JOIN u USING (a) WHERE b > 1 AND lower(c) = 'x' GROUP BY a"));
        assert!(!is_short("SELECT Repeat('a', 100000000)"));
        assert!(!is_short(&format!("SELECT 1{}", " + 1".repeat(SHORT_EXPRESSIONS))));
        assert!(!is_short(&format!("SELECT 1 FROM {}", vec!["t"; SHORT_RELATIONS + 1].join(", "))));
        assert!(!is_short(&format!("SELECT 1 WHERE a IN ({})", vec!["1"; SHORT_EXPRESSIONS].join(", "))));
        assert!(!is_short(&format!("VALUES {}", vec!["(1)"; SHORT_EXPRESSIONS + 1].join(", "))));
    }

    #[tokio::test]
    async fn work_is_done_elsewhere_and_only_once_there() {
        let here = std::thread::current().id();
        let (first, second) = away(async {
            let outer = std::thread::current().id();
            (outer, away(async { std::thread::current().id() }).await)
        })
        .await;
        assert_ne!(first, here);
        // The inner work is part of the outer one: it never waits for a thread.
        assert_eq!(first, second);
    }

    #[tokio::test]
    async fn a_panic_is_the_callers() {
        let work = AssertUnwindSafe(away(async { panic!("on purpose") }));
        let panic = futures::FutureExt::catch_unwind(work).await.unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"on purpose"));
    }

    #[tokio::test]
    async fn at_once_nothing_begins_elsewhere() {
        let (began, begun) = mpsc::channel();
        assert_eq!(at_once(async { 1 }), Some(1));
        assert_eq!(at_once(away(async move { began.send(()).unwrap() })), None);
        assert!(begun.recv().is_err(), "it was dropped without having begun");
        let failed = std::panic::catch_unwind(|| at_once(async { panic!("on purpose") }));
        assert!(failed.is_err());
        assert_eq!(away(async { 2 }).await, 2);
    }

    #[test]
    fn what_nobody_waits_for_goes_on_alone() {
        let (go, gone) = mpsc::channel::<()>();
        let (began, begun) = mpsc::channel();
        let (told, done) = mpsc::channel();
        let mut work = Box::pin(away(async move {
            began.send(()).unwrap();
            // As the planner, it does not give way.
            gone.recv().unwrap();
            told.send(()).unwrap();
        }));
        assert!(work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        begun.recv().unwrap();
        drop(work);
        go.send(()).unwrap();
        done.recv().unwrap();
    }
}
