//! A mutex that stays usable after a panic.
//!
//! The standard mutex is *poisoned* when a thread panics while it holds the lock. The values behind our locks are valid
//! after each statement that changes them, so that a panic, which ends one connection, must not end the others: the
//! guard is taken anyway.

pub use std::sync::MutexGuard;

/// A [`std::sync::Mutex`] without poisoning.
#[derive(Debug, Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// An unlocked mutex around the value.
    pub const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    /// Locks, and waits for it. Whoever holds the lock on this thread already must not call it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_does_not_poison() {
        let mutex = Mutex::new(1);
        let panics = || {
            let mut value = mutex.lock();
            *value += 1;
            assert_eq!(*value, 0, "while the lock is held");
        };
        assert!(std::thread::scope(|scope| scope.spawn(panics).join()).is_err());
        assert_eq!(*mutex.lock(), 2);
    }
}
