//! `LISTEN` and `NOTIFY`: who listens in each database, and the queue of each session.
//!
//! ```text
//! NOTIFY, pg_notify ──▶ Pending of the transaction ──COMMIT──▶ Room of the database ──▶ Queue of each session that listens ──▶ the client
//! LISTEN, UNLISTEN  ──▶ Pending of the transaction ──COMMIT──▶ Room of the database
//! ```
//!
//! A [`Room`] is that of one tenant: no name leads from one to another, and a database that is dropped and made again
//! has another room. Who commits with something pending has the room to itself until it is told ([`Room::enter`]): so
//! notifications come in the order of commits, a session that begins to listen hears of every commit that it does not
//! see, and a commit whose notifications have no place is refused before it is made. Sessions hold their rooms and
//! queues; a room without sessions, and a queue without its session, is gone.

use crate::lock::Mutex;
use crate::pg::error::{Result, SqlError, SqlState};
use crate::sql::ast::session::Listening;
use std::{
    collections::{BTreeSet, HashMap, HashSet, VecDeque},
    fmt,
    sync::{Arc, Weak},
};
use tokio::sync::{MutexGuard, Notify};

/// Notifications that wait for one session, at most; and those of one transaction.
pub const QUEUED_MAX: usize = 8_192;
/// Bytes of notifications that wait for one session, at most; and of those of one transaction.
pub const QUEUED_BYTES_MAX: usize = 1 << 20;
/// Channels that a session listens to, at most.
pub const CHANNELS_MAX: usize = 1_024;
/// Bytes of a payload, which has to be shorter: as in PostgreSQL.
const PAYLOAD_BYTES_LIMIT: usize = 8_000;
/// Bytes of a channel's name, which has to be shorter: as in PostgreSQL.
const CHANNEL_BYTES_LIMIT: usize = 64;
/// Bytes that are counted for a notification beside its texts.
const OVERHEAD_BYTES: usize = 64;

/// A notification as the client receives it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Notification {
    /// The session that tells it: its `pg_backend_pid()`.
    pub process_id: i32,
    /// The channel.
    pub channel: String,
    /// What goes with it; often empty.
    pub payload: String,
}

impl Notification {
    /// A notification whose channel and payload are within PostgreSQL's bounds.
    ///
    /// # Errors
    /// 22023.
    pub fn new(process_id: i32, channel: &str, payload: &str) -> Result<Self> {
        let invalid = |message: &str| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        match () {
            () if channel.is_empty() => invalid("channel name cannot be empty"),
            () if channel.len() >= CHANNEL_BYTES_LIMIT => invalid("channel name too long"),
            () if payload.len() >= PAYLOAD_BYTES_LIMIT => invalid("payload string too long"),
            () => Ok(Self { process_id, channel: channel.to_owned(), payload: payload.to_owned() }),
        }
    }

    fn size(&self) -> usize {
        OVERHEAD_BYTES + self.channel.len() + self.payload.len()
    }
}

fn full() -> SqlError {
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "too many notifications in the NOTIFY queue").with_hint(format!(
        "At most {QUEUED_MAX} of together {} KiB wait for a session that listens: one in a long transaction is told nothing until its end.",
        QUEUED_BYTES_MAX >> 10
    ))
}

/// What a transaction tells and listens to at its COMMIT.
#[derive(Clone, Debug, Default)]
pub struct Pending {
    told: Vec<Arc<Notification>>,
    known: HashSet<Arc<Notification>>,
    bytes: usize,
    listening: Vec<Listening>,
}

/// What is pending in a session; functions of its statements add to it.
pub type SharedPending = Arc<Mutex<Pending>>;

/// How much was pending at a savepoint.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mark(usize, usize);

impl Pending {
    /// Adds a notification; a duplicate is dropped.
    ///
    /// # Errors
    /// 54000 beyond [`QUEUED_MAX`] and [`QUEUED_BYTES_MAX`].
    pub fn tell(&mut self, notification: Notification) -> Result<()> {
        let (size, notification) = (notification.size(), Arc::new(notification));
        if !self.known.insert(notification.clone()) {
            return Ok(());
        }
        self.bytes += size;
        self.told.push(notification);
        if self.told.len() > QUEUED_MAX || self.bytes > QUEUED_BYTES_MAX { Err(full()) } else { Ok(()) }
    }

    /// Adds a change of what is listened to.
    ///
    /// # Errors
    /// 54000 beyond [`CHANNELS_MAX`].
    pub fn listen(&mut self, change: Listening) -> Result<()> {
        self.listening.push(change);
        if self.listening.len() <= CHANNELS_MAX { Ok(()) } else { Err(too_many_channels()) }
    }

    /// Whether nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.told.is_empty() && self.listening.is_empty()
    }

    /// How much there is.
    pub fn mark(&self) -> Mark {
        Mark(self.told.len(), self.listening.len())
    }

    /// Forgets what came later.
    pub fn rollback_to(&mut self, Mark(told, listening): Mark) {
        for notification in self.told.drain(told.min(self.told.len())..) {
            self.bytes -= notification.size();
            self.known.remove(&notification);
        }
        self.listening.truncate(listening);
    }
}

fn too_many_channels() -> SqlError {
    let message = format!("a session listens to at most {CHANNELS_MAX} channels");
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message).with_hint("UNLISTEN some; a payload can tell more.")
}

/// A database: a tenant's number; `None` for the operator's.
pub type Place = Option<u32>;

/// The rooms of all databases.
#[derive(Debug, Default)]
pub struct Rooms(Mutex<HashMap<Place, Weak<Room>>>);

impl Rooms {
    /// The room of a database.
    pub fn of(&self, place: Place) -> Arc<Room> {
        let mut rooms = self.0.lock();
        if let Some(room) = rooms.get(&place).and_then(Weak::upgrade) {
            return room;
        }
        rooms.retain(|_, room| room.strong_count() > 0);
        let room = Arc::new(Room::default());
        rooms.insert(place, Arc::downgrade(&room));
        room
    }
}

/// Those who listen in a database.
#[derive(Debug, Default)]
pub struct Room(tokio::sync::Mutex<Vec<Weak<Ear>>>);

/// The room, for one who commits.
pub struct Inside<'a>(MutexGuard<'a, Vec<Weak<Ear>>>);

impl fmt::Debug for Inside<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inside")
    }
}

impl Room {
    /// Waits until nobody else is about to tell something here.
    pub async fn enter(&self) -> Inside<'_> {
        Inside(self.0.lock().await)
    }
}

impl Inside<'_> {
    /// Whether there is a place for what is pending with everybody who listens.
    ///
    /// # Errors
    /// 54000.
    pub fn check(&self, pending: &Pending) -> Result<()> {
        let fits = |ear: &Arc<Ear>| {
            let heard: Vec<_> = pending.told.iter().filter(|told| ear.hears(&told.channel)).collect();
            let bytes: usize = heard.iter().map(|told| told.size()).sum();
            let queue = ear.queue();
            queue.waiting.len() + heard.len() <= QUEUED_MAX && queue.bytes + bytes <= QUEUED_BYTES_MAX
        };
        if self.0.iter().filter_map(Weak::upgrade).all(|ear| fits(&ear)) { Ok(()) } else { Err(full()) }
    }

    /// Lets a session listen as its transaction has asked, then delivers its notifications. It was checked
    /// before.
    pub fn tell(&mut self, own: &Arc<Ear>, pending: Pending) {
        for change in pending.listening {
            own.change(change);
        }
        self.0.retain(|ear| ear.strong_count() > 0 && ear.as_ptr() != Arc::as_ptr(own));
        if !own.is_deaf() {
            self.0.push(Arc::downgrade(own));
        }
        for ear in self.0.iter().filter_map(Weak::upgrade) {
            ear.hear(&pending.told);
        }
    }
}

/// What a session listens to, and what waits for it.
#[derive(Debug, Default)]
pub struct Ear {
    channels: Mutex<BTreeSet<String>>,
    queue: Mutex<Queue>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Arc<Notification>>,
    bytes: usize,
}

impl Ear {
    fn queue(&self) -> crate::lock::MutexGuard<'_, Queue> {
        self.queue.lock()
    }

    fn channels_now(&self) -> crate::lock::MutexGuard<'_, BTreeSet<String>> {
        self.channels.lock()
    }

    /// The channels, in order.
    pub fn channels(&self) -> Vec<String> {
        self.channels_now().iter().cloned().collect()
    }

    /// Whether it listens to nothing.
    pub fn is_deaf(&self) -> bool {
        self.channels_now().is_empty()
    }

    /// Whether there is room for one more channel beside those that are pending.
    ///
    /// # Errors
    /// 54000 beyond [`CHANNELS_MAX`].
    pub fn check(&self, pending: &Pending) -> Result<()> {
        if self.channels_now().len() + pending.listening.len() < CHANNELS_MAX {
            Ok(())
        } else {
            Err(too_many_channels())
        }
    }

    fn hears(&self, channel: &str) -> bool {
        self.channels_now().contains(channel)
    }

    /// Stops listening to all channels; queued notifications are still delivered.
    pub fn close(&self) {
        self.change(Listening::Not(None));
    }

    fn change(&self, change: Listening) {
        let mut channels = self.channels_now();
        match change {
            Listening::To(channel) => drop(channels.insert(channel)),
            Listening::Not(Some(channel)) => drop(channels.remove(&channel)),
            Listening::Not(None) => channels.clear(),
        }
    }

    fn hear(&self, told: &[Arc<Notification>]) {
        let mut queue = self.queue();
        let before = queue.waiting.len();
        for notification in told.iter().filter(|told| self.hears(&told.channel)) {
            queue.bytes += notification.size();
            queue.waiting.push_back(notification.clone());
        }
        if queue.waiting.len() > before {
            self.wake.notify_one();
        }
    }

    /// What waits, in order.
    pub fn take(&self) -> VecDeque<Arc<Notification>> {
        let mut queue = self.queue();
        queue.bytes = 0;
        std::mem::take(&mut queue.waiting)
    }

    /// The part of its queue that is full, from 0 to 1.
    pub fn usage(&self) -> f64 {
        let queue = self.queue();
        let part = |now: usize, most: usize| now as f64 / most as f64;
        part(queue.waiting.len(), QUEUED_MAX).max(part(queue.bytes, QUEUED_BYTES_MAX))
    }

    /// Waits until something waits.
    pub async fn waits(&self) {
        loop {
            let woken = self.wake.notified();
            if !self.queue().waiting.is_empty() {
                return;
            }
            woken.await;
        }
    }
}
