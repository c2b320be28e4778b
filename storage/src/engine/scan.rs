//! Scans as clients request them, of the current rows and of history.
//!
//! A scan as of a time must return the same rows whenever it runs. Commits with stamps up to that time may have been in
//! progress when the state was pinned. If there were any, and the time is after the state's last commit, the scan waits
//! for them and reads a later state, which includes them. It still reads the pin's own state if the later one has lost
//! what is needed: the table or its history was recreated, or the history of a range was purged.

use super::{
    Engine, apply, blocking, history,
    maintain::Maintenance,
    pins::PinnedState,
    read::{HistoryReader, Parts, Reading},
    state::State,
};
use crate::{HistorySize, KeyRange, Pin, Result, RowStream, Scan, TableName, store::failed};
use futures::{StreamExt, TryStreamExt, stream};
use std::sync::Arc;

impl Engine {
    /// See [`Store::scan`](crate::Store::scan).
    pub(super) fn scan_stream(&self, table: &TableName, scan: Scan) -> RowStream {
        self.begin_scan(table, scan).unwrap_or_else(failed)
    }

    fn begin_scan(&self, table: &TableName, scan: Scan) -> Result<RowStream> {
        scan.check()?;
        self.check_open()?;
        let pin = scan.pin.clone().unwrap_or_else(|| self.pin_now());
        let held = apply::pinned_state(&pin)?;
        let state = held.state()?;
        let (now_micros, is_local) = (pin.now_micros, self.is_local);
        let is_late = |as_of: i64| held.is_unsettled() && as_of > state.stamp && as_of <= now_micros;
        let reader = Reader { maintenance: Arc::clone(&self.maintenance), held: held.clone(), now_micros, is_local };
        if !scan.as_of.is_some_and(is_late) {
            return reader.rows(&state, table, scan);
        }
        let table = table.clone();
        let waited = async move {
            let state = reader.settled(state, &table, scan.as_of).await?;
            reader.rows(&state, &table, scan)
        };
        Ok(stream::once(waited).try_flatten().boxed())
    }
}

impl Engine {
    /// See [`Store::history_size`](crate::Store::history_size).
    pub(super) async fn size_of_history(
        &self,
        table: &TableName,
        rows: &KeyRange,
        pin: Option<Pin>,
    ) -> Result<HistorySize> {
        let pin = pin.unwrap_or_else(|| self.pin_now());
        let held = apply::pinned_state(&pin)?;
        let state = held.state()?;
        state.table(table)?;
        let Some(past) = state.tables.get(&table.history_table()) else { return Ok(HistorySize::default()) };
        let owned = (held, Arc::clone(&self.shared));
        let scan = Scan::of(history::range(rows));
        let reading = Reading::new(owned, (past.clone(), Parts::All), scan, pin.now_micros, self.is_local)?;
        let mut batches = reading.stream();
        let mut size = HistorySize::default();
        while let Some(batch) = batches.try_next().await? {
            size.versions += batch.len() as u64;
            size.bytes += batch.iter().map(|row| row.size() as u64).sum::<u64>();
        }
        Ok(size)
    }
}

/// The context of a scan.
struct Reader {
    maintenance: Arc<Maintenance>,
    held: Arc<PinnedState>,
    /// The time of the pin.
    now_micros: i64,
    /// Whether segments are local, so that reading a few rows takes less time than handing it to another thread.
    is_local: bool,
}

impl Reader {
    /// The state with every commit up to the time of the pin, if it still has the same table and its history at
    /// `as_of`.
    async fn settled(&self, state: Arc<State>, table: &TableName, as_of: Option<i64>) -> Result<Arc<State>> {
        let maintenance = Arc::clone(&self.maintenance);
        let settle = move || {
            // A closed store has no commits in progress.
            let _ = maintenance.settle();
            Ok(maintenance.shared.published.load_full())
        };
        let settled = self.held.settled(blocking(settle).await?)?;
        let now_micros = self.maintenance.shared.clock.now();
        let same = state.tables.get(table).zip(settled.tables.get(table)).is_some_and(|(then, now)| {
            let is_whole = now.range_deleted <= as_of;
            let (then, now) = (&then.descriptor, &now.descriptor);
            let remembers = now.schema.history.is_some_and(|history| Some(history.oldest_micros(now_micros)) <= as_of);
            then.number == now.number && then.schema == now.schema && remembers && is_whole
        });
        Ok(if same { settled } else { state })
    }

    fn rows(&self, state: &State, table: &TableName, scan: Scan) -> Result<RowStream> {
        let found = state.table(table)?.clone();
        let history = match scan.as_of {
            Some(as_of) if found.descriptor.schema.history.is_some() => {
                let name = table.history_table();
                let history_table = state.table(&name)?.clone();
                Some(HistoryReader::new(name, history_table, as_of)?)
            }
            // Without history the scan itself returns the error.
            _ => None,
        };
        let owned = (Arc::clone(&self.held), Arc::clone(&self.maintenance.shared));
        let reading = Reading::new(owned, (found, Parts::All), scan, self.now_micros, self.is_local)?;
        Ok(reading.with_history(history).stream())
    }
}
