//! What a session listens to, and what its transaction will tell: `LISTEN`, `NOTIFY`, `pg_notify`.
//!
//! Statements and functions add to what is [`Pending`]. COMMIT tells it together with the commit of its rows; outside
//! of a transaction block [`Session::settle`] does at the end of the statement, which the connection says. ROLLBACK and
//! a failure forget it.

use super::Session;
use crate::lock::MutexGuard;
use crate::{
    notifications::{Ear, Notification, Pending, Room, SharedPending},
    pg::error::{Result, SqlError, SqlState},
    sql::ast::session::Listening,
};
use std::{collections::VecDeque, sync::Arc};

/// Bytes of a name in a statement, at most: as in PostgreSQL, what is longer is cut.
const NAME_BYTES_MAX: usize = 63;

/// What a session has to do with notifications.
#[derive(Debug, Default)]
pub(super) struct Notifications {
    pub(super) ear: Arc<Ear>,
    pub(super) pending: SharedPending,
    /// The database's, while the session listens.
    room: Option<Arc<Room>>,
}

impl Notifications {
    pub(super) fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock()
    }

    /// Forgets what is pending.
    pub(super) fn forget(&self) {
        *self.pending() = Pending::default();
    }

    /// Takes what is pending.
    pub(super) fn take(&self) -> Pending {
        std::mem::take(&mut *self.pending())
    }

    /// Holds the room, as long as there is something to hear.
    pub(super) fn keep(&mut self, room: Arc<Room>) {
        self.room = Some(room).filter(|_| !self.ear.is_deaf());
    }
}

impl Session {
    /// The room of the session's database.
    pub(super) fn room(&self) -> Arc<Room> {
        self.instance.rooms.of(self.identity.rows.oid())
    }

    /// `LISTEN`, `UNLISTEN`
    ///
    /// # Errors
    /// 54000 for too many channels.
    pub(crate) async fn listen(&mut self, change: Listening) -> Result<()> {
        let change = match change {
            Listening::To(channel) => Listening::To(self.cut(channel)),
            Listening::Not(channel) => Listening::Not(channel.map(|channel| self.cut(channel))),
        };
        {
            let mut pending = self.notifications.pending();
            if matches!(change, Listening::To(_)) {
                self.notifications.ear.check(&pending)?;
            }
            pending.listen(change)?;
        }
        self.settle().await
    }

    /// `NOTIFY`
    ///
    /// # Errors
    /// 22023, 54000.
    pub(crate) async fn notify(&mut self, channel: &str, payload: &str) -> Result<()> {
        let channel = self.cut(channel.to_owned());
        let notification = Notification::new(self.process_id, &channel, payload)?;
        self.notifications.pending().tell(notification)?;
        self.settle().await
    }

    /// A name, cut where it is too long, with a notice to the client.
    fn cut(&mut self, mut name: String) -> String {
        let cut = name.floor_char_boundary(NAME_BYTES_MAX);
        if cut < name.len() {
            let message = format!("identifier \"{name}\" will be truncated to \"{}\"", &name[..cut]);
            self.notice(SqlError::new(SqlState::NAME_TOO_LONG, message));
            name.truncate(cut);
        }
        name
    }

    /// `DISCARD ALL` listens to nothing.
    pub(crate) fn unlisten(&self) {
        self.notifications.ear.close();
    }

    /// Ends statements outside of a transaction block: what they have locked until then is released, and their
    /// notifications are delivered.
    ///
    /// # Errors
    /// 54000 when a queue is full: nothing is delivered then.
    pub(crate) async fn settle(&mut self) -> Result<()> {
        if self.in_transaction() {
            return Ok(());
        }
        self.advisory_locks.0.end_transaction();
        if self.notifications.pending().is_empty() {
            return Ok(());
        }
        let (room, pending) = (self.room(), self.notifications.take());
        let mut inside = room.enter().await;
        inside.check(&pending)?;
        inside.tell(&self.notifications.ear, pending);
        drop(inside);
        self.notifications.keep(room);
        Ok(())
    }

    /// Where notifications for the session wait.
    pub(crate) fn ear(&self) -> &Arc<Ear> {
        &self.notifications.ear
    }

    /// Takes the notifications that wait, if the session is in no transaction.
    pub(crate) fn take_notifications(&self) -> VecDeque<Arc<Notification>> {
        if self.in_transaction() { VecDeque::new() } else { self.notifications.ear.take() }
    }

    /// What is pending, for functions.
    pub(crate) fn pending(&self) -> SharedPending {
        self.notifications.pending.clone()
    }
}
