//! The way of a large load past the store's log: its rows become visible together at the end, or none does.
//!
//! Keys are looked up by the store, which says which row is there already, at once or at the end.

use super::Failed;
use crate::{
    dml::{
        insert::NewRow,
        target::{Place, Target},
    },
    pg::error::{Result, SqlError},
    session::Session,
    shares::LoadPlace,
    shield::shielded,
};
use bytes::Bytes;
use keyspan_catalog::{
    Value, mapping,
    table::{MARKER_QUALIFIER, marker_family},
    tenant_store::{TenantLoad, existing_row},
};
use keyspan_storage::{
    engine::loads_max,
    load::{LoadColumn, put_cell},
};

/// A large load under way.
#[derive(Debug)]
pub(crate) struct Bulk {
    load: TenantLoad,
    _place: LoadPlace,
    /// The places of the target's columns whose values are cells; in the load they come after the marker, open families
    /// last.
    cells: Vec<usize>,
    /// The place and the bytes of the largest cell of a column.
    largest: Option<(usize, usize)>,
}

impl Bulk {
    /// Begins; `None` where the rows must go through commits.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn begin(session: &Session, target: &Target) -> Result<Option<Self>> {
        if target.temporary {
            // The catalog, which a load is held against, does not know it.
            return Ok(None);
        }
        if session.settings.cell_time().is_some() {
            // All cells of a load have the timestamp at which they become visible.
            return Ok(None);
        }
        let (mut cells, mut open) = (Vec::new(), Vec::new());
        let mut columns =
            vec![LoadColumn { family: marker_family(), qualifier: Some(Bytes::from_static(MARKER_QUALIFIER)) }];
        for (at, column) in target.columns.iter().enumerate() {
            match &column.place {
                Place::Key(_) => {}
                Place::Cell { aggregate: Some(_), .. } => return Ok(None),
                Place::Open { family, .. } => {
                    open.push((at, LoadColumn { family: family.clone(), qualifier: None }));
                }
                Place::Cell { family, qualifier, .. } => {
                    cells.push(at);
                    columns.push(LoadColumn { family: family.clone(), qualifier: Some(qualifier.clone()) });
                }
            }
        }
        let (places, families): (Vec<usize>, Vec<LoadColumn>) = open.into_iter().unzip();
        cells.extend(places);
        columns.extend(families);
        let places = loads_max(session.instance.resources.memory.engine_bytes);
        let Some(place) = session.instance.shares.load_place(session.share(), places) else { return Ok(None) };
        let load = session.identity.rows.load(&target.table, &columns).await?;
        Ok(load.map(|load| Self { load, _place: place, cells, largest: None }))
    }

    /// Adds a row.
    ///
    /// # Errors
    /// What no key or cell can hold.
    pub(crate) fn push(&mut self, target: &Target, row: &NewRow) -> Result<()> {
        let (cells, largest) = (&self.cells, &mut self.largest);
        self.load.push(row.number, &row.key, |at, out| {
            // The marker has a cell in every row.
            let Some(at) = at.checked_sub(1) else { return Ok(true) };
            let (column, value) = (&target.columns[cells[at]], &row.values[cells[at]]);
            let Place::Cell { encoding, .. } = &column.place else {
                return column.put_cells(value, |qualifier, value| Ok(put_cell(out, qualifier, value)?));
            };
            if *value == Value::Null {
                return Ok(false);
            }
            let before = out.len();
            mapping::encode_into(value, column.kind, encoding, out)?;
            let bytes = out.len() - before;
            if largest.is_none_or(|(_, most)| most < bytes) {
                *largest = Some((cells[at], bytes));
            }
            Ok::<bool, SqlError>(true)
        })
    }

    /// The place among the target's columns, and the bytes, of the largest cell of a column so far.
    pub(crate) fn largest(&self) -> Option<(usize, usize)> {
        self.largest
    }

    /// Sends rows that were added, if they are enough.
    ///
    /// # Errors
    /// 23505; the store's.
    pub(crate) async fn send(&mut self, target: &Target) -> Result<(), Failed> {
        if !self.load.is_full() {
            return Ok(());
        }
        let sent = self.load.send().await;
        let span = self.load.span();
        sent.map_err(|error| explained(target, error, &span))
    }

    /// Does all of the work that is left but for making the rows visible.
    ///
    /// # Errors
    /// 23505; the store's.
    pub(crate) async fn seal(&mut self, target: &Target) -> Result<(), Failed> {
        let span = self.load.span();
        self.load.seal().await.map_err(|error| explained(target, error, &span))
    }

    /// Makes the rows visible, once they are [sealed](Self::seal). A private table is held meanwhile, as by any commit:
    /// who changes it by what its rows are must not miss them.
    ///
    /// # Errors
    /// 23505; 40001 when the table was changed meanwhile; the store's.
    pub(crate) async fn finish(self, session: &Session, target: &Target) -> Result<(), Failed> {
        let span = self.load.span();
        let table = target.table.is_private().then_some(target.table.id);
        let held = session.instance.table_locks.lock(table, []).await;
        let finished = shielded(self.load.finish()).await;
        held.committed(finished.map_err(|error| explained(target, error, &span))?);
        Ok(())
    }
}

/// The error as PostgreSQL has it.
fn explained(target: &Target, error: keyspan_catalog::Error, span: &[u8]) -> Failed {
    let Some((key, row)) = existing_row(&error, span) else { return SqlError::from(error).into() };
    match target.key.decode(&key) {
        Ok(parts) => Failed { error: target.duplicate(&parts), row },
        Err(error) => Failed { error: error.into(), row },
    }
}
