//! Cancel requests: a connection's number and secret, by which another connection may stop its running statement.
//!
//! The number leaves room: it counts from 1 on each server, and several servers behind one address could give each a
//! range.

use crate::{
    activity::Controls,
    lock::{Mutex, MutexGuard},
};
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering},
    },
};
use tokio_util::sync::CancellationToken;

/// Bytes of a secret in protocol 3.0.
const SECRET_BYTES: usize = 4;
/// Bytes of a secret from protocol 3.2 on.
const LONG_SECRET_BYTES: usize = 32;

/// The connections whose statements can be cancelled.
#[derive(Debug, Default)]
pub(crate) struct Cancels {
    connections: Mutex<HashMap<i32, (Vec<u8>, Controls)>>,
    last: AtomicI32,
}

/// A connection that can be cancelled for as long as this lives.
#[derive(Debug)]
pub(crate) struct Registration {
    /// The connection's number.
    pub(crate) process_id: i32,
    /// Its secret.
    pub(crate) secret: Vec<u8>,
    /// How others stop it.
    pub(crate) controls: Controls,
    cancels: Arc<Cancels>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that panics runs under these locks.
    mutex.lock()
}

impl Cancels {
    /// Gives a connection its number and a random secret; `long` for protocol 3.2.
    pub(crate) fn register(self: &Arc<Self>, long: bool) -> Registration {
        let secret = rand::random::<[u8; LONG_SECRET_BYTES]>();
        let secret = secret[..if long { LONG_SECRET_BYTES } else { SECRET_BYTES }].to_vec();
        let controls = Controls::default();
        let mut connections = locked(&self.connections);
        let process_id = loop {
            let next = |last: i32| Some(if last == i32::MAX { 1 } else { last + 1 });
            let last = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
            let process_id = next(last.unwrap_or_default()).unwrap_or(1);
            if !connections.contains_key(&process_id) {
                break process_id;
            }
        };
        connections.insert(process_id, (secret.clone(), controls.clone()));
        drop(connections);
        Registration { process_id, secret, controls, cancels: self.clone() }
    }

    /// Stops the statement of a connection; without effect when it runs none or the secret is wrong.
    pub(crate) fn cancel(&self, process_id: i32, secret: &[u8]) {
        let connections = locked(&self.connections);
        let Some((known, controls)) = connections.get(&process_id) else { return };
        // All bytes are looked at, so that the time tells nothing of them.
        let differs = known.iter().zip(secret).fold(0, |sum, (a, b)| sum | (a ^ b));
        if known.len() == secret.len() && differs == 0 {
            controls.cancel();
        }
    }
}

impl Registration {
    /// The token of what runs, from the first message of the client to its answer: a cancel that comes between two
    /// parts of a statement, its parsing and its run, stops the next.
    pub(crate) fn begin(&self) -> CancellationToken {
        locked(&self.controls.running).get_or_insert_default().clone()
    }

    /// It was answered: what comes late cancels nothing.
    pub(crate) fn end(&self) {
        *locked(&self.controls.running) = None;
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        locked(&self.cancels.connections).remove(&self.process_id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancel_needs_number_and_secret_and_a_running_statement() {
        let cancels = Arc::new(Cancels::default());
        let (one, other) = (cancels.register(false), cancels.register(true));
        assert_eq!((one.secret.len(), other.secret.len()), (4, 32));
        cancels.cancel(one.process_id, &one.secret);
        let (token, others) = (one.begin(), other.begin());
        assert!(!token.is_cancelled());
        cancels.cancel(one.process_id, &other.secret);
        cancels.cancel(one.process_id, &one.secret[..3]);
        cancels.cancel(other.process_id + 1, &one.secret);
        assert!(!token.is_cancelled());
        cancels.cancel(one.process_id, &one.secret);
        assert!(token.is_cancelled() && !others.is_cancelled());
    }

    #[test]
    fn a_cancel_between_the_parts_of_a_statement_stops_the_next() {
        let cancels = Arc::new(Cancels::default());
        let one = cancels.register(false);
        drop(one.begin());
        cancels.cancel(one.process_id, &one.secret);
        assert!(one.begin().is_cancelled());
    }

    #[test]
    fn an_ended_statement_or_connection_is_not_cancelled() {
        let cancels = Arc::new(Cancels::default());
        let one = cancels.register(false);
        let (process_id, secret) = (one.process_id, one.secret.clone());
        let token = one.begin();
        one.end();
        cancels.cancel(process_id, &secret);
        assert!(!one.begin().is_cancelled());
        drop(one);
        cancels.cancel(process_id, &secret);
        assert!(!token.is_cancelled() && locked(&cancels.connections).is_empty());
    }
}
