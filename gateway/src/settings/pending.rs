//! Settings that functions of a running statement ask for: `set_config`.
//!
//! A query runs apart from its session and cannot change it. It leaves what it wants here; the session takes it before
//! its next statement, and before it tells the client of settings. What a statement that fails has asked for is
//! forgotten. There is one place for each setting and each of both durations.

use super::{Settings, Values};
use crate::lock::{Mutex, MutexGuard};
use crate::pg::error::Result;
use std::{borrow::Cow, collections::BTreeMap};

/// What is wanted, by name and by whether it holds until the transaction's end only; `None` for the value at start.
type Wanted = BTreeMap<(Cow<'static, str>, bool), Option<String>>;

/// Settings that are wanted.
#[derive(Debug, Default)]
pub struct PendingSettings {
    values: Mutex<Wanted>,
    /// What RESET goes back to.
    initial: Mutex<Values>,
}

impl PendingSettings {
    /// Asks for a setting; gives its value in its normal form.
    ///
    /// # Errors
    /// Those of [`Settings::set`].
    pub fn ask(&self, name: &str, value: Option<&str>, local: bool) -> Result<String> {
        let (known, value, normal) = Settings::checked(name, value, true)?;
        let reset = if value.is_none() { self.initial().get(&known).cloned() } else { None };
        self.lock().insert((known, local), value);
        Ok(reset.unwrap_or(normal))
    }

    /// The value that was asked for last, with the shorter duration where both were.
    pub fn get(&self, name: &str) -> Option<String> {
        let values = self.lock();
        let of = |local: bool| values.iter().find(|((known, of), _)| *known == name && *of == local);
        of(true).or_else(|| of(false)).and_then(|(_, value)| value.clone())
    }

    /// Takes all of it, what holds longer first.
    pub(crate) fn take(&self) -> Vec<(Cow<'static, str>, bool, Option<String>)> {
        let mut taken: Vec<_> =
            std::mem::take(&mut *self.lock()).into_iter().map(|((name, local), value)| (name, local, value)).collect();
        taken.sort_by_key(|(_, local, _)| *local);
        taken
    }

    /// Forgets it.
    pub(crate) fn forget(&self) {
        self.lock().clear();
    }

    /// Remembers what RESET goes back to.
    pub(crate) fn started(&self, settings: Values) {
        *self.initial() = settings;
    }

    fn initial(&self) -> MutexGuard<'_, Values> {
        self.initial.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Wanted> {
        self.values.lock()
    }
}
