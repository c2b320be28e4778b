//! The progress of a check or a copy: a bar on a terminal, nothing elsewhere.

use indicatif::{ProgressBar, ProgressStyle};
use keyspan_storage::engine::files::Step;
use std::io::{IsTerminal, stderr};

/// Shows steps on standard error.
pub(super) struct Progress(ProgressBar);

impl Progress {
    /// On this process's standard error.
    pub(super) fn new() -> Self {
        if !stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let template = "{bar:32} {binary_bytes:>11} of {binary_total_bytes} {wide_msg}";
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        Self(ProgressBar::new(0).with_style(style))
    }

    /// Shows a step.
    pub(super) fn step(&mut self, step: &Step<'_>) {
        match step {
            Step::Ahead(bytes) => self.0.inc_length(*bytes),
            Step::File(name) => self.0.set_message((*name).to_owned()),
            Step::Done(bytes) => self.0.inc(*bytes),
            Step::Found(_) => {}
        }
    }

    /// Hides the bar while `write` runs.
    pub(super) fn hidden(&self, write: impl FnOnce()) {
        self.0.suspend(write);
    }

    /// Leaves the screen as it found it.
    pub(super) fn finish(self) {
        self.0.finish_and_clear();
    }
}
