//! Scans as the store's clients ask for them, of now and of what was.
//!
//! What was at a moment must be the same whenever it is asked for. Commits with stamps up to the moment may have been under way when the
//! state was pinned: if there were any, and the moment comes after the state's last commit, they are waited for, and the moment is
//! told by a state that has them. The pin's own still counts where the table has become another since, or its history, or the past of a
//! range of rows went with them.

use super::{
    Engine, apply, blocking,
    maintain::Maintenance,
    pins::PinnedState,
    read::{HistoryReader, Parts, Reading},
    state::State,
};
use crate::{Result, RowStream, Scan, TableName, store::failed};
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

/// What a scan reads with.
struct Reader {
    maintenance: Arc<Maintenance>,
    held: Arc<PinnedState>,
    /// The time of the pin.
    now_micros: i64,
    /// Whether reading a few rows of segments takes less than handing it to another thread.
    is_local: bool,
}

impl Reader {
    /// The state with every commit up to the time of the pin, if the table is still the one that it was, and remembers the moment.
    async fn settled(&self, state: Arc<State>, table: &TableName, as_of: Option<i64>) -> Result<Arc<State>> {
        let maintenance = Arc::clone(&self.maintenance);
        let settle = move || {
            // A store that is closed has nothing under way.
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
            // Without history the reading says that there is none.
            _ => None,
        };
        let owned = (Arc::clone(&self.held), Arc::clone(&self.maintenance.shared));
        let reading = Reading::new(owned, (found, Parts::All), scan, self.now_micros, self.is_local)?;
        Ok(reading.with_history(history).stream())
    }
}
