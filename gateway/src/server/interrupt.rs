//! What may stop a statement: a cancel request, its timeout, a client that went away, the server's end.
//!
//! Every wait of a statement goes through [`Guard::run`], which gives the statement's future up when one of these comes
//! first. The one thing that must not be given up is a commit under way: its outcome would not be known.
//! [`shielded`](crate::shield::shielded) marks it; a stop then waits until it is done.

use crate::{
    pg::error::{SqlError, SqlState},
    server::{
        connection::Failure,
        socket::{Input, STALL_TIMEOUT},
    },
    shares::{Admitted, Share, turns::poll_for},
    shield::SHIELDS,
    sql::ast::{Statement, session::CursorStatement},
    wire::frontend::{Frame, MESSAGE_BYTES_MAX},
};
use futures::FutureExt;
use std::{
    future::{Future, poll_fn},
    panic::AssertUnwindSafe,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Why a statement was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// By a cancel request.
    Cancelled,
    /// By `statement_timeout`.
    TimedOut,
    /// The client went away.
    Gone,
    /// The server ends.
    Shutdown,
    /// It panicked: a fault of ours.
    Panicked,
}

impl Stop {
    /// The error that the client receives.
    pub(crate) fn error(self) -> SqlError {
        match self {
            Self::Cancelled => SqlError::new(SqlState::QUERY_CANCELED, "canceling statement due to user request"),
            Self::TimedOut => SqlError::new(SqlState::QUERY_CANCELED, "canceling statement due to statement timeout"),
            Self::Gone | Self::Shutdown => shutdown_error(),
            Self::Panicked => SqlError::new(SqlState::INTERNAL_ERROR, "the statement failed by a fault of the server")
                .with_hint("The server's log says more."),
        }
    }
}

/// The error that a client receives when the server shuts down.
pub(crate) fn shutdown_error() -> SqlError {
    SqlError::new(SqlState::ADMIN_SHUTDOWN, "terminating connection due to administrator command")
}

/// Guards the waits of one statement.
pub(crate) struct Guard<'a> {
    /// Cancelled by a cancel request.
    pub(crate) cancel: CancellationToken,
    /// When the statement's time is over.
    pub(crate) deadline: Option<Instant>,
    /// Cancelled when the server waits no longer.
    pub(crate) stopping: &'a CancellationToken,
    /// Cancelled when another session ends this one.
    pub(crate) ending: &'a CancellationToken,
    /// Tells whether the client is there.
    pub(crate) input: &'a mut Input,
    /// Whose work the statement is.
    pub(crate) share: Option<Arc<Share>>,
}

impl Guard<'_> {
    /// Waits for a future of the statement, or for what stops it.
    pub(crate) async fn run<F: Future>(&mut self, future: F) -> Result<F::Output, Stop> {
        let shields = Arc::new(AtomicUsize::new(0));
        let share = self.share.clone();
        let mut future = pin!(SHIELDS.scope(shields.clone(), AssertUnwindSafe(future).catch_unwind()));
        let mut stopped = pin!(self.stopped());
        let mut stop = None;
        poll_fn(|context| {
            if let Poll::Ready(output) = poll_for(share.as_ref(), || future.as_mut().poll(context)) {
                return Poll::Ready(output.map_err(|_| Stop::Panicked));
            }
            if stop.is_none()
                && let Poll::Ready(why) = stopped.as_mut().poll(context)
            {
                stop = Some(why);
            }
            match stop {
                Some(why) if shields.load(Ordering::SeqCst) == 0 => Poll::Ready(Err(why)),
                _ => Poll::Pending,
            }
        })
        .await
    }

    /// Waits until a statement may begin, by the quotas of its database.
    pub(crate) async fn admit(&mut self, statement: &Statement) -> Result<Option<Admitted>, Failure> {
        let Some(share) = self.share.clone().filter(|_| waits_for_admission(statement)) else { return Ok(None) };
        if let Some(admitted) = share.try_admit() {
            return Ok(Some(admitted));
        }
        Ok(Some(self.run(share.admit()).await??))
    }

    /// Waits for the next message, or for what stops the statement.
    pub(crate) async fn frame(&mut self) -> Result<Frame, Failure> {
        loop {
            let taken = Frame::take(&mut self.input.buffer, MESSAGE_BYTES_MAX).map_err(Failure::Fatal)?;
            if let Some(frame) = taken {
                // What a COPY has read is in the load's memory.
                drop(self.input.take_admitted());
                return Ok(frame);
            }
            let deadline = wait_until(self.deadline);
            let stall = if self.input.buffer.is_empty() { None } else { Instant::now().checked_add(STALL_TIMEOUT) };
            tokio::select! {
                () = wait_until(stall) => return Err(Failure::Fatal(stalled())),
                () = self.cancel.cancelled() => return Err(Stop::Cancelled.into()),
                () = self.stopping.cancelled() => return Err(Stop::Shutdown.into()),
                () = self.ending.cancelled() => return Err(Stop::Shutdown.into()),
                () = deadline => return Err(Stop::TimedOut.into()),
                filled = fill(self.input) => if !filled? { return Err(Stop::Gone.into()) },
            }
        }
    }

    async fn stopped(&mut self) -> Stop {
        let deadline = wait_until(self.deadline);
        tokio::select! {
            () = self.cancel.cancelled() => Stop::Cancelled,
            () = self.stopping.cancelled() => Stop::Shutdown,
            () = self.ending.cancelled() => Stop::Shutdown,
            () = deadline => Stop::TimedOut,
            () = self.input.gone() => Stop::Gone,
        }
    }
}

/// Whether quotas bound when a statement begins. What ends or sets something never waits.
fn waits_for_admission(statement: &Statement) -> bool {
    !matches!(
        statement,
        Statement::Empty
            | Statement::Setting(_)
            | Statement::Transaction(_)
            | Statement::Prepare(_)
            | Statement::Deallocate(_)
            | Statement::Listen(_)
            | Statement::Cursor(CursorStatement::Close(_))
    )
}

/// [Admits](Input::admit) the message that the buffer begins with, and reads more of it; `false` at the end.
pub(crate) async fn fill(input: &mut Input) -> Result<bool, Failure> {
    input.admit().await.map_err(Failure::Fatal)?;
    Ok(input.fill().await?)
}

/// The error of a client that has sent a part of a message, and no more.
pub(crate) fn stalled() -> SqlError {
    let message =
        format!("terminating connection: the rest of a message has not come for {} s", STALL_TIMEOUT.as_secs());
    SqlError::new(SqlState::PROTOCOL_VIOLATION, message)
}

/// Waits for a moment; for ever without one.
pub(crate) async fn wait_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::planning;
    use crate::server::socket;
    use crate::shield::shielded;
    use std::{future::pending, time::Duration};
    use tokio::sync::Notify;

    async fn run<F: Future>(
        cancel: &CancellationToken,
        timeout: Option<Duration>,
        future: F,
    ) -> Result<F::Output, Stop> {
        let (client, server) = tokio::io::duplex(64);
        let (mut input, _output) = socket::split(Box::new(server));
        let stopping = CancellationToken::new();
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let mut guard = Guard {
            cancel: cancel.clone(),
            deadline,
            stopping: &stopping,
            ending: &CancellationToken::new(),
            input: &mut input,
            share: None,
        };
        let output = guard.run(future).await;
        drop(client);
        output
    }

    #[tokio::test]
    async fn a_cancel_and_a_timeout_stop_a_wait() {
        let cancel = CancellationToken::new();
        assert_eq!(run(&cancel, None, async { 1 }).await, Ok(1));
        assert_eq!(run(&cancel, Some(Duration::ZERO), pending::<()>()).await, Err(Stop::TimedOut));
        cancel.cancel();
        assert_eq!(run(&cancel, None, pending::<()>()).await, Err(Stop::Cancelled));
    }

    #[tokio::test]
    async fn a_cancel_stops_what_is_planned() {
        let cancel = CancellationToken::new();
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let (began, mut begun) = tokio::sync::mpsc::unbounded_channel();
        let planning = planning::away(async move {
            began.send(()).unwrap();
            // Neither the parser nor the planner gives way.
            let _ = gone.recv();
        });
        let stop = async {
            begun.recv().await.unwrap();
            cancel.cancel();
        };
        let (output, ()) = tokio::join!(run(&cancel, None, planning), stop);
        assert_eq!(output, Err(Stop::Cancelled));
        drop(go);
    }

    #[tokio::test]
    async fn a_client_that_goes_away_stops_a_wait() {
        let (client, server) = tokio::io::duplex(64);
        let (mut input, _output) = socket::split(Box::new(server));
        let (cancel, stopping) = (CancellationToken::new(), CancellationToken::new());
        let (share, ending) = (None, CancellationToken::new());
        let mut guard =
            Guard { cancel, deadline: None, stopping: &stopping, ending: &ending, input: &mut input, share };
        drop(client);
        assert_eq!(guard.run(pending::<()>()).await, Err(Stop::Gone));
    }

    #[tokio::test]
    async fn a_commit_under_way_is_not_given_up() {
        let cancel = CancellationToken::new();
        let (begun, done) = (Notify::new(), Notify::new());
        let statement = async {
            shielded(async {
                begun.notify_one();
                done.notified().await;
            })
            .await;
            pending::<()>().await;
        };
        let stop = async {
            begun.notified().await;
            cancel.cancel();
            // The statement is polled again with the stop seen, and goes on.
            tokio::task::yield_now().await;
            done.notify_one();
        };
        let (output, ()) = tokio::join!(run(&cancel, None, statement), stop);
        assert_eq!(output, Err(Stop::Cancelled));
    }

    #[tokio::test]
    async fn a_panic_becomes_an_error() {
        let output = run(&CancellationToken::new(), None, async { panic!("on purpose") }).await;
        assert_eq!(output, Err(Stop::Panicked));
    }
}
