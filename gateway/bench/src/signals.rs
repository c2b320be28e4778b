//! The signals that stop the program: SIGTERM and Ctrl-C.

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM and SIGINT, caught from [`Signals::new`] on.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Catches both signals, which no longer end the process by themselves.
    ///
    /// # Errors
    /// If the system refuses a handler.
    pub fn new() -> Result<Self> {
        let of = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self { terminate: of(SignalKind::terminate())?, interrupt: of(SignalKind::interrupt())? })
    }

    /// Waits for SIGTERM alone.
    pub async fn terminated(&mut self) {
        self.terminate.recv().await;
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
