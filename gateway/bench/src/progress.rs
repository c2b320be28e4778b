//! The phase that the bench is in, and how much of it is done: a bar on a terminal, a line for each phase elsewhere.

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use std::{
    io::{IsTerminal, Write, stderr},
    time::{Duration, Instant},
};

/// How often the spinner of a phase of unknown length turns.
const TICK: Duration = Duration::from_millis(200);

/// Shows phases on standard error.
pub(super) struct Progress {
    bar: ProgressBar,
    is_shown: bool,
    began: Instant,
}

impl Progress {
    /// On this process's standard error.
    pub(super) fn new() -> Self {
        let is_shown = stderr().is_terminal();
        let bar = if is_shown { ProgressBar::no_length() } else { ProgressBar::hidden() };
        Self { bar, is_shown, began: Instant::now() }
    }

    /// Begins a phase of `steps` steps; `None` if their number is not known.
    pub(super) fn phase(&mut self, name: &str, steps: Option<u64>) {
        let template = match steps {
            Some(_) => "{msg:<44} {bar:32} {human_pos:>11}/{human_len}",
            None => "{msg:<44} {spinner} {elapsed}",
        };
        if self.is_shown {
            let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
            self.bar.set_style(style);
            self.bar.set_message(name.to_owned());
            self.bar.reset();
            match steps {
                Some(steps) => self.bar.set_length(steps),
                None => self.bar.unset_length(),
            }
            self.bar.enable_steady_tick(TICK);
        } else {
            // A closed standard error is no reason to stop.
            let _ = writeln!(stderr(), "{:>12} {name}", HumanDuration(self.began.elapsed()).to_string());
        }
    }

    /// Shows that this many steps of the phase are done.
    pub(super) fn at(&self, steps: u64) {
        self.bar.set_position(steps);
    }

    /// Leaves the screen as it found it.
    pub(super) fn finish(self) {
        self.bar.finish_and_clear();
    }
}
