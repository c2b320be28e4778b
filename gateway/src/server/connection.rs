//! A connection that has logged in: message after message, to its end.

use crate::{
    audit::Event,
    execute::text::parse_long,
    pg::error::{Result, SqlError, SqlState},
    resources::MessagePermit,
    server::{
        GOODBYE, Hub,
        cancel::Registration,
        extended::Portal,
        interrupt::{self, Guard, Stop, shutdown_error, wait_until},
        socket::{Input, Output, STALL_TIMEOUT},
        startup::{self, Started},
        write_batching::Answering,
    },
    session::Session,
    sql::{ast::Statement, error_position},
    wire::{
        frontend::{Frame, Frontend, MESSAGE_BYTES_MAX},
        reply::{self, Severity},
        transaction_status::TransactionStatus,
    },
};
use std::{collections::HashMap, io, net::SocketAddr, sync::Arc};
use tokio::{net::TcpStream, time::Instant};

/// A connection.
pub(crate) struct Connection {
    pub(crate) input: Input,
    pub(crate) output: Output,
    pub(crate) session: Session,
    pub(crate) registration: Registration,
    pub(crate) hub: Arc<Hub>,
    /// The room that the message takes which is answered now.
    admitted: Option<MessagePermit>,
    /// Portals by name.
    pub(crate) portals: HashMap<String, Portal>,
    /// After an error in the extended protocol: messages are skipped up to the next Sync.
    skipping: bool,
    /// Between a message of the extended protocol and its Sync.
    in_batch: bool,
    /// From the first message of a statement until its answer goes out.
    answering: Option<Answering>,
    /// The error that has ended it.
    ended_by: Option<SqlError>,
}

/// Why a message was not answered as it wanted.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The statement failed; the connection goes on.
    Sql(SqlError),
    /// The connection ends after an error to the client.
    Fatal(SqlError),
    /// The connection is lost.
    Lost(io::Error),
}

impl Failure {
    /// The SQLSTATE; `None` for a lost connection.
    pub(super) fn state(&self) -> Option<SqlState> {
        match self {
            Self::Sql(error) | Self::Fatal(error) => Some(error.state),
            Self::Lost(_) => None,
        }
    }

    /// With the place in the text of the name that it is about; `nth` is the statement that failed.
    pub(crate) fn with_position(mut self, (text, nth): (&str, usize), database: &str) -> Self {
        if let Self::Sql(error) = &mut self
            && error.position.is_none()
        {
            error.position = error_position::position(text, database, nth, error);
        }
        self
    }
}

/// Writes to the log what names files of the server.
pub(super) fn log_internal(error: &SqlError) {
    if let Some(internal) = error.internal() {
        tracing::error!(sqlstate = error.state.0, error = internal, "a statement failed on a file of the server");
    }
}

impl From<SqlError> for Failure {
    fn from(error: SqlError) -> Self {
        // What takes the session's rights ends it.
        if error.state == SqlState::ADMIN_SHUTDOWN { Self::Fatal(error) } else { Self::Sql(error) }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Lost(error)
    }
}

impl From<Stop> for Failure {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Gone => Self::Lost(io::ErrorKind::ConnectionReset.into()),
            Stop::Shutdown => Self::Fatal(stop.error()),
            Stop::Cancelled | Stop::TimedOut | Stop::Panicked => Self::Sql(stop.error()),
        }
    }
}

/// Serves a connection from its first byte to its last.
pub(crate) async fn serve(stream: TcpStream, peer: SocketAddr, hub: Arc<Hub>, place: bool) -> io::Result<()> {
    let started = startup::start(stream, peer, &hub, place).await?;
    let Some(Started { mut input, mut output, session, registration }) = started else { return Ok(()) };
    input.bound_messages(hub.instance.resources.messages.of(session.share().flow()));
    input.count_into(hub.instance.statistics.clone());
    output.count_into(hub.instance.statistics.clone());
    let connection = Connection {
        input,
        admitted: None,
        output,
        session,
        registration,
        hub,
        portals: HashMap::new(),
        skipping: false,
        in_batch: false,
        answering: None,
        ended_by: None,
    };
    connection.run().await
}

impl Connection {
    /// Serves the client until either end has enough, and records that.
    async fn run(mut self) -> io::Result<()> {
        let ended = self.run_to_end().await;
        let event = Event::new("session_ended");
        self.session.audit(event, self.ended_by.as_ref());
        ended
    }

    async fn run_to_end(&mut self) -> io::Result<()> {
        loop {
            let answered = match self.next().await {
                Ok(Some(frame)) => self.answer(frame).await,
                Ok(None) => return Ok(()),
                Err(failure) => Err(failure),
            };
            match answered {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(Failure::Lost(error)) => return Err(error),
                Err(Failure::Fatal(error) | Failure::Sql(error)) => {
                    self.ended_by = Some(error.clone());
                    reply::problem(&self.told(error), Severity::Fatal, &mut self.output.buffer);
                    // A client that does not take the error in time does without.
                    return tokio::time::timeout(GOODBYE, self.output.close()).await.unwrap_or(Ok(()));
                }
            }
        }
    }

    /// The next message; `None` at the end. A server that stops ends a connection that waits here.
    async fn next(&mut self) -> Result<Option<Frame>, Failure> {
        // Between the messages of one statement the client is not idle.
        let idle = if self.in_batch { None } else { self.session.idle_timeout() };
        let idle = idle.and_then(|(timeout, error)| Some((Instant::now().checked_add(timeout)?, error)));
        let listens = !self.in_batch && self.session.transaction_status() == TransactionStatus::Idle;
        // The message before this one was answered.
        self.admitted = None;
        loop {
            if let Some(frame) = Frame::take(&mut self.input.buffer, MESSAGE_BYTES_MAX)? {
                self.admitted = self.input.take_admitted();
                return Ok(Some(frame));
            }
            let began = !self.input.buffer.is_empty();
            let deadline =
                if began { Instant::now().checked_add(STALL_TIMEOUT) } else { idle.as_ref().map(|(at, _)| *at) };
            // What stands before a Sync is part of a statement under way.
            let ending = if self.in_batch { &self.hub.stopping } else { &self.hub.draining };
            tokio::select! {
                biased;
                () = ending.cancelled() => return Err(Failure::Fatal(shutdown_error())),
                () = self.registration.controls.ending.cancelled() => return Err(Failure::Fatal(shutdown_error())),
                filled = interrupt::fill(&mut self.input) => if !filled? { return Ok(None) },
                () = self.session.ear().waits(), if listens => {
                    self.tell_notifications();
                    self.send().await?;
                }
                () = wait_until(deadline) => match idle {
                    _ if began => return Err(Failure::Fatal(interrupt::stalled())),
                    Some((_, error)) => return Err(Failure::Fatal(error)),
                    None => {}
                },
            }
        }
    }

    /// Answers a message; `false` for the last one.
    async fn answer(&mut self, frame: Frame) -> Result<bool, Failure> {
        self.answering.get_or_insert_with(|| self.hub.answers.begin());
        self.registration.begin();
        let extended = frame.is_extended();
        if self.skipping && !matches!(frame.kind, b'S' | b'X') {
            return Ok(true);
        }
        self.in_batch = extended;
        let done = match Frontend::parse(frame) {
            Ok(Frontend::Terminate) => return Ok(false),
            Ok(Frontend::Sync) => {
                self.skipping = false;
                return self.ready().await.map(|()| true);
            }
            // Data of a COPY that has failed, which the client had sent before it knew.
            Ok(Frontend::Copy) => return Ok(true),
            Ok(message) => self.dispatch(message).await,
            Err(error) => Err(error.into()),
        };
        match done {
            Ok(()) => {}
            Err(Failure::Sql(error)) => {
                self.session.failed();
                self.tell_notices();
                reply::problem(&self.told(error), Severity::Error, &mut self.output.buffer);
                self.skipping = extended;
            }
            Err(failure) => return Err(failure),
        }
        if !extended {
            self.ready().await?;
        } else if self.output.is_full() {
            self.output.send().await?;
        }
        Ok(true)
    }

    /// An error as the client reads it. What names files of the server goes to its log, and to operators only.
    fn told(&self, error: SqlError) -> SqlError {
        self.hub.instance.statistics.error(error.state);
        if error.state == SqlState::DEADLOCK_DETECTED {
            self.session.share().work.deadlocks.add(1);
        }
        log_internal(&error);
        if self.session.identity.operator { error.for_operator() } else { error }
    }

    async fn dispatch(&mut self, message: Frontend) -> Result<(), Failure> {
        match message {
            Frontend::Query(sql) => {
                self.session.received(&sql, false);
                Box::pin(self.query(sql)).await
            }
            Frontend::Parse { name, sql, types } => {
                self.session.received(&sql, name.is_empty());
                Box::pin(self.parse(name, &sql, &types)).await
            }
            Frontend::Bind(bind) => Ok(self.bind(bind)?),
            Frontend::Describe(target) => Ok(self.describe(&target)?),
            Frontend::Execute { portal, rows_max } => Box::pin(self.execute(portal, rows_max)).await,
            Frontend::Close(target) => {
                self.close(&target);
                Ok(())
            }
            Frontend::Flush => Ok(self.output.send().await?),
            Frontend::FunctionCall => Err(SqlError::unsupported("a call of a function by its OID").into()),
            Frontend::Copy | Frontend::Password(_) | Frontend::Sync | Frontend::Terminate => Ok(()),
        }
    }

    /// Ends a simple query or a run of the extended protocol: what changed meanwhile, and the state of the transaction.
    async fn ready(&mut self) -> Result<(), Failure> {
        self.in_batch = false;
        self.end_portals();
        if let Err(error) = self.session.settle().await {
            reply::problem(&self.told(error), Severity::Error, &mut self.output.buffer);
        }
        self.tell_notices();
        for (name, value) in self.session.take_parameter_status() {
            reply::parameter_status(&name, &value, &mut self.output.buffer);
        }
        self.tell_notifications();
        self.session.answered();
        self.registration.end();
        reply::ready(self.session.transaction_status(), &mut self.output.buffer);
        let answering = self.answering.take();
        if answering.as_ref().is_some_and(Answering::is_one_of_several) {
            tokio::task::yield_now().await;
        }
        self.send().await
    }

    /// Sends what is written.
    async fn send(&mut self) -> Result<(), Failure> {
        // Only the server's end stops this: the client is to have its answer.
        tokio::select! {
            biased;
            sent = self.output.send() => Ok(sent?),
            () = self.hub.stopping.cancelled() => Err(Failure::Lost(io::ErrorKind::TimedOut.into())),
            // A session that is ended does not wait for a client that takes nothing.
            () = self.registration.controls.ending.cancelled() => Err(Failure::Lost(io::ErrorKind::TimedOut.into())),
        }
    }

    /// Writes the notifications that wait.
    fn tell_notifications(&mut self) {
        for told in self.session.take_notifications() {
            reply::notification(told.process_id, &told.channel, &told.payload, &mut self.output.buffer);
        }
    }

    /// Portals live as long as their transaction.
    fn end_portals(&mut self) {
        if self.session.transaction_status() == TransactionStatus::Idle {
            self.portals.clear();
        }
    }

    /// Writes the notices that have come up.
    pub(crate) fn tell_notices(&mut self) {
        for notice in self.session.take_notices() {
            reply::problem(&notice, Severity::of_notice(&notice), &mut self.output.buffer);
        }
    }

    /// The statements of a long text; `None` for a short one, which is read with less ado.
    pub(crate) async fn parse_long(&mut self, sql: &str) -> Result<Option<Vec<Statement>>, Failure> {
        let Some(parsing) = parse_long(sql, &self.session.identity.database) else { return Ok(None) };
        let (mut guard, ..) = self.begin();
        Ok(Some(guard.run(parsing).await??))
    }

    /// Begins a statement: what may stop it from now on, with the parts of the connection that it needs.
    pub(crate) fn begin(&mut self) -> (Guard<'_>, &mut Session, &mut Output) {
        let cancel = self.registration.begin();
        let deadline = self.session.statement_timeout().and_then(|timeout| Instant::now().checked_add(timeout));
        let (stopping, ending) = (&self.hub.stopping, &self.registration.controls.ending);
        let share = Some(self.session.share().clone());
        let guard = Guard { cancel, deadline, stopping, ending, input: &mut self.input, share };
        (guard, &mut self.session, &mut self.output)
    }
}
