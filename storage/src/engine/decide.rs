//! Check-and-mutate and read-modify-write: read a row, decide, and commit if it is unchanged.

use super::{Engine, ROW_ATTEMPTS_MAX, ROW_LOCKS, apply, fetch::Lookups, state::Table};
use crate::{Cell, Commit, Error, Mutation, Result, RowKey, Store, TableName, Validation, row};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The result of [`Engine::decide`].
pub(super) struct Decision<T> {
    /// The caller's decision.
    pub(super) decision: T,
    /// Mutations that were written, before stamps; possibly empty.
    pub(super) mutations: Vec<Mutation>,
    /// The stamp of the row's new cells.
    pub(super) stamp: i64,
}

impl Engine {
    /// Holds the lock of a row, decides from its cells what to write, and writes it if the row is unchanged; retries
    /// otherwise. `decide` takes the table, the live cells and the time. Without mutations nothing is written.
    pub(super) async fn decide<T>(
        &self,
        name: &TableName,
        key: &RowKey,
        decide: impl Fn(&Table, Vec<Cell>, i64) -> Result<(T, Vec<Mutation>)> + Send + Sync,
    ) -> Result<Decision<T>> {
        let mut hasher = DefaultHasher::new();
        (name, key).hash(&mut hasher);
        let _lock = self.row_locks[hasher.finish() as usize % ROW_LOCKS].lock().await;
        for _ in 0..ROW_ATTEMPTS_MAX {
            self.check_open()?;
            let pin = self.pin_now();
            let state = apply::pinned(&pin)?;
            let fetched = self.fetch(&state, Lookups::of_row(&state, name, key)).await?;
            let (decision, mutations, cells) = {
                let table = state.table(name)?;
                let cells = fetched.prior_row(state.flushes, table, (key, true), &self.shared.rows)?.cells;
                let cells = row::live(&table.descriptor.schema, cells, pin.now_micros);
                let (decision, mutations) = decide(table, cells.clone(), pin.now_micros)?;
                (decision, mutations, cells)
            };
            if mutations.is_empty() {
                return Ok(Decision { decision, mutations, stamp: pin.commit_micros });
            }
            let mut commit = Commit::row(name.clone(), key.clone(), mutations.clone());
            commit.validation = Some(Validation { pin, rows: vec![(name.clone(), key.clone())] });
            match self.commit(commit).await {
                Ok(stamp) => {
                    let stamp = row::stamp_for(stamp, true, &cells);
                    return Ok(Decision { decision, mutations, stamp });
                }
                Err(Error::Conflict) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::Conflict)
    }
}
