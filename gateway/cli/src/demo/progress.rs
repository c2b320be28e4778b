//! The progress of the load: a bar on a terminal, a line for each tenth of a table elsewhere.

use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use keyspan_gateway::demo::Progress;
use std::io::{IsTerminal, Write, stderr};

/// A table of at least this many rows gets a line for each tenth, a smaller one only its last line.
const LINES_FROM_ROWS: u64 = 100_000;

/// Shows a load on standard error.
pub(super) struct LoadProgress {
    bar: Option<ProgressBar>,
    table: &'static str,
    tenth: u64,
}

impl LoadProgress {
    /// On this process's standard error.
    pub(super) fn new() -> Self {
        let template = "{prefix:>10} {bar:32} {human_pos:>9}/{human_len} rows";
        let bar = stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::no_length().with_style(style)
        });
        Self { bar, table: "", tenth: 0 }
    }

    /// Shows a step.
    pub(super) fn step(&mut self, progress: Progress) {
        let Progress { table, rows, rows_total } = progress;
        let next = table != self.table;
        if next {
            (self.table, self.tenth) = (table, 0);
        }
        match &self.bar {
            Some(bar) => {
                if next {
                    bar.set_prefix(table);
                    bar.set_length(rows_total);
                }
                bar.set_position(rows);
                if rows == rows_total {
                    // The finished bar stays on the screen, and the next one is drawn below it.
                    bar.println(format!("{table:>10} {} rows", HumanCount(rows)));
                }
            }
            None => {
                let tenth = rows * 10 / rows_total.max(1);
                if tenth > self.tenth && (tenth == 10 || rows_total >= LINES_FROM_ROWS) {
                    self.tenth = tenth;
                    let (rows, rows_total) = (HumanCount(rows), HumanCount(rows_total));
                    // A closed standard error is no reason to stop.
                    let _ = writeln!(stderr(), "{table:>10} {rows} of {rows_total} rows");
                }
            }
        }
    }

    /// Leaves the screen as it found it.
    pub(super) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}
