//! Whose work a thread does, and the turns of the tasks of queries.
//!
//! A statement's future is polled on its connection's thread as [`Work`] of its tenant: what it computes is counted. A
//! query that is not short runs in the *long lane*, on the threads of queries: DataFusion spawns tasks for it, and
//! tells our [`Tracer`] of each, which makes [`Turns`] of it: before each poll it asks the [gate](super::gate). Short
//! statements are in the short lane: nothing holds them up.

use super::{
    Share,
    gate::{OVERDUE, Turn, Waiter},
};
use datafusion::common::runtime::{JoinSetTracer, set_join_set_tracer};
use futures::{FutureExt, future::BoxFuture};
use std::{
    any::Any,
    cell::RefCell,
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::{Arc, OnceLock},
    task::{Context, Poll},
    time::Instant,
};
use tokio::time::{Sleep, sleep};

/// For whom a thread works.
#[derive(Clone, Debug)]
struct Work {
    share: Arc<Share>,
    long: bool,
}

thread_local! {
    static WORK: RefCell<Option<Work>> = const { RefCell::new(None) };
}

/// Until this is dropped the thread works for another.
pub(crate) struct Working(Option<Work>);

impl Drop for Working {
    fn drop(&mut self) {
        let before = self.0.take();
        WORK.with_borrow_mut(|work| *work = before);
    }
}

fn work_for(work: Option<Work>) -> Working {
    Working(WORK.with_borrow_mut(|current| std::mem::replace(current, work)))
}

/// The tenant that the thread works for, if it is known.
pub(crate) fn current() -> Option<Arc<Share>> {
    WORK.with_borrow(|work| work.as_ref().map(|work| Arc::clone(&work.share)))
}

/// Until the guard is dropped what the thread spawns is in the long lane.
pub(crate) fn long_lane() -> Working {
    static SET: OnceLock<()> = OnceLock::new();
    SET.get_or_init(|| {
        if set_join_set_tracer(&Tracer).is_err() {
            tracing::warn!("tasks of queries have another tracer: tenants do not take turns");
        }
    });
    let work = WORK.with_borrow(Clone::clone);
    work_for(work.map(|work| Work { long: true, ..work }))
}

/// Polls a future of a statement as work of its tenant, and counts the time.
pub(crate) fn poll_for<T>(share: Option<&Arc<Share>>, poll: impl FnOnce() -> T) -> T {
    let Some(share) = share else { return poll() };
    let _working = work_for(Some(Work { share: Arc::clone(share), long: false }));
    let began = Instant::now();
    let polled = poll();
    share.worked(began.elapsed());
    polled
}

/// A future that is spawned for a statement, as work of its tenant.
pub(crate) async fn of_share<F: Future>(share: Arc<Share>, future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|context| poll_for(Some(&share), || future.as_mut().poll(context))).await
}

/// Makes turns of what DataFusion spawns.
#[derive(Debug)]
struct Tracer;

impl JoinSetTracer for Tracer {
    fn trace_future(&self, future: BoxFuture<'static, Box<dyn Any + Send>>) -> BoxFuture<'static, Box<dyn Any + Send>> {
        match WORK.with_borrow(Clone::clone) {
            Some(work) => Turns { future, work, state: State::Free }.boxed(),
            None => future,
        }
    }

    fn trace_block(
        &self,
        block: Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>,
    ) -> Box<dyn FnOnce() -> Box<dyn Any + Send> + Send> {
        let Some(work) = WORK.with_borrow(Clone::clone) else { return block };
        Box::new(move || {
            let share = Arc::clone(&work.share);
            let _working = work_for(Some(work));
            let began = Instant::now();
            let done = block();
            share.worked(began.elapsed());
            done
        })
    }
}

/// A task that takes a turn for each poll.
struct Turns {
    future: BoxFuture<'static, Box<dyn Any + Send>>,
    work: Work,
    state: State,
}

enum State {
    /// Between two turns.
    Free,
    /// Waits for a turn; looks for overdue ones now and then.
    Waiting(Waiter, Pin<Box<Sleep>>),
    /// Waits until the tenant may read again.
    Paused(Pin<Box<Sleep>>),
}

/// Ends a turn and counts its time, also after a panic.
struct Ends<'a>(&'a Share, Option<Turn>, Instant);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        let took = match &self.1 {
            Some(turn) => self.0.gate().leave(self.0.flow(), turn),
            None => self.2.elapsed(),
        };
        self.0.worked(took);
    }
}

impl Turns {
    /// The next turn, once it may begin; `None` without a gate.
    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<Option<Turn>> {
        let share = &self.work.share;
        loop {
            match &mut self.state {
                State::Free => {
                    let pause = share.pause(Instant::now());
                    if !pause.is_zero() {
                        self.state = State::Paused(Box::pin(sleep(pause)));
                        continue;
                    }
                    if !share.gate().is_open() {
                        return Poll::Ready(None);
                    }
                    match share.gate().enter(share.flow(), share.weight()) {
                        Ok(turn) => return Poll::Ready(Some(turn)),
                        Err(waiter) => self.state = State::Waiting(waiter, Box::pin(sleep(OVERDUE))),
                    }
                }
                State::Paused(until) => {
                    std::task::ready!(until.as_mut().poll(context));
                    self.state = State::Free;
                }
                State::Waiting(waiter, look) => {
                    if waiter.is_granted(context.waker()) {
                        self.state = State::Free;
                        return Poll::Ready(Some(share.gate().begin()));
                    }
                    std::task::ready!(look.as_mut().poll(context));
                    share.gate().lend();
                    look.set(sleep(OVERDUE));
                }
            }
        }
    }
}

impl Future for Turns {
    type Output = Box<dyn Any + Send>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let turn = if this.work.long { std::task::ready!(this.poll_turn(context)) } else { None };
        let share = Arc::clone(&this.work.share);
        let _ends = Ends(&share, turn, Instant::now());
        let _working = work_for(Some(this.work.clone()));
        this.future.as_mut().poll(context)
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        if let State::Waiting(waiter, _) = &self.state {
            self.work.share.gate().withdraw(self.work.share.flow(), waiter);
        }
        // What it drops is the tenant's, too.
        let _working = work_for(Some(self.work.clone()));
        self.future = futures::future::pending().boxed();
    }
}
