//! Changes of a private table that ask something of its rows: that they fulfil a new condition, or that they are
//! written anew, under another key or with a value more.
//!
//! ```text
//! hold the table alone → reserve a space and numbers → read the rows as they are → check them, write them to the space in parts
//!                      → the edit that gives the table that space
//! ```
//!
//! The edit makes all of it visible at once. Before it, a crash leaves a spare space, which the next start deletes;
//! after it, the old space is the spare one. Rows pass through in batches: nothing holds a whole table.

use super::{
    column_defaults::with_sequences,
    erasure,
    retype::{Conversion, Converter},
    table::{Settled, apply},
};
use crate::{
    load::Load,
    pg::error::Result,
    session::{Reserved, Session},
    view::View,
};
use futures::TryStreamExt;
use keyspan_catalog::{
    ColumnPlace, Edit, Error, ErrorKind, PrivateEdit, Snapshot, Table, TableId, TenantId, Value,
    erasure::Target,
    mapping,
    snapshot::FIRST_OID,
    table::{Column, RowEffect},
};
use keyspan_storage::{Row, Scan};
use std::sync::Arc;

/// What an `ALTER TABLE` makes of a table.
pub(super) struct Alteration {
    before: Table,
    after: Table,
    /// Sequences that come with columns.
    sequences: Vec<PrivateEdit>,
    /// Sequences that go with them, and views.
    gone: Vec<PrivateEdit>,
    /// Whether the cells of columns that it drops stay.
    keeps_cells: bool,
    /// Columns whose values become those of another type.
    conversions: Vec<Conversion>,
}

impl Alteration {
    /// Of the table with this name and number, in a snapshot from whose next number on new sequences are numbered.
    pub(super) fn of(
        snapshot: &Snapshot,
        tenant: &TenantId,
        (name, id): (&str, TableId),
        actions: &[Settled],
    ) -> keyspan_catalog::Result<Self> {
        let found = snapshot.table_of(Some(tenant), id);
        let before =
            found.ok_or_else(|| Error::new(ErrorKind::NoTable, format!("relation \"{name}\" does not exist")))?;
        let after = actions.iter().try_fold(before.as_ref().clone(), |table, action| apply(&table, action))?;
        let is_new = |name: &str| {
            let added = after.column(name);
            added.is_some_and(|added| before.columns.iter().all(|old| old.id != added.id))
        };
        let own: Vec<_> = actions.iter().flat_map(|action| action.own_sequences(is_new)).collect();
        let (after, sequences) = with_sequences(after, &own, snapshot.next_oid.max(FIRST_OID), snapshot, Some(tenant))?;
        // A column takes its own sequence along.
        let kept = |column: u16| after.columns.iter().any(|other| other.id == column);
        let gone = super::private::owned(snapshot, tenant, |(of, column)| of == id && !kept(column));
        let conversions = actions.iter().filter_map(Settled::conversion);
        let conversions = conversions.filter(|one| kept(one.column)).cloned().collect();
        Ok(Self { before: before.as_ref().clone(), after, sequences, gone, keeps_cells: false, conversions })
    }

    /// The table as it shall be.
    pub(super) fn after(&self) -> &Table {
        &self.after
    }

    /// The same with what goes along.
    #[must_use]
    pub(super) fn with(mut self, gone: impl Iterator<Item = PrivateEdit>) -> Self {
        self.gone.extend(gone);
        self
    }

    /// The same, but the cells of columns that it drops stay.
    #[must_use]
    pub(super) fn keeping_cells(self) -> Self {
        Self { keeps_cells: true, ..self }
    }

    /// What it asks of the rows. Those of a table that loses a column are written anew without its cells, those of one
    /// that gets a column of a domain with its default.
    pub(super) fn asks(&self) -> RowEffect {
        // A new column of a domain may have a default and conditions that the table does not tell.
        let is_old = |id: u16| self.before.columns.iter().any(|old| old.id == id);
        let new_domain = self.after.columns.iter().any(|column| column.domain.is_some() && !is_old(column.id));
        match new_domain || !self.conversions.is_empty() || (!self.keeps_cells && self.after.erases_from(&self.before))
        {
            true => RowEffect::Rewrite,
            false => self.after.effect_on_rows(&self.before),
        }
    }

    /// The edits that make it, if it asks nothing of the rows.
    pub(super) fn edits(self) -> keyspan_catalog::Result<Vec<PrivateEdit>> {
        if self.asks() == RowEffect::Nothing {
            return Ok(self.into_edits());
        }
        let message = format!("relation \"{}\" was changed by another at the same moment", self.before.name);
        Err(Error::new(ErrorKind::Conflict, message))
    }

    fn into_edits(self) -> Vec<PrivateEdit> {
        let altered = PrivateEdit::AlterTable(Box::new((self.before, self.after)));
        [altered].into_iter().chain(self.sequences).chain(self.gone).collect()
    }

    /// How many numbers it needs: of sequences, and of a space.
    fn numbers(&self) -> u32 {
        let sequences = u32::try_from(self.sequences.len()).unwrap_or(u32::MAX);
        sequences + u32::from(self.asks() == RowEffect::Rewrite)
    }
}

/// Makes a change that asks something of the rows.
pub(super) async fn alter(
    session: &mut Session,
    (tenant, oid): (&TenantId, u32),
    table: TableId,
    derive: impl Fn(&Snapshot) -> keyspan_catalog::Result<Alteration> + Send + Sync,
) -> Result<()> {
    let instance = session.instance.clone();
    let requested_micros = instance.clock.now_micros();
    let in_transaction = session.in_transaction();
    // In a transaction COMMIT looks whether others have written the table meanwhile.
    let _held = if in_transaction { None } else { Some(instance.table_locks.lock([], [table]).await) };
    let count = derive(&session.catalog_snapshot())?.numbers();
    let (reserved, first) = match count {
        0 => (None, None),
        _ if in_transaction => (None, Some(session.reserve(count).await?)),
        _ => {
            let (reserved, first) = Reserved::new(instance.clone(), (tenant, oid), count).await?;
            (Some(reserved), Some(first))
        }
    };
    let view = session.view().await?;
    let numbered = Snapshot { next_oid: first.unwrap_or(view.snapshot.next_oid), ..view.snapshot.as_ref().clone() };
    let mut alteration = derive(&numbered)?;
    if alteration.numbers() != count {
        let message = format!("relation \"{}\" was changed by another at the same moment", alteration.before.name);
        return Err(Error::new(ErrorKind::Conflict, message).into());
    }
    if let (RowEffect::Rewrite, Some(first)) = (alteration.asks(), first) {
        alteration.after.space = Some(first + count - 1);
        session.forget_rows(table);
    }
    let (before, after) = (alteration.before.clone(), alteration.after.clone());
    let conversions = std::mem::take(&mut alteration.conversions);
    let mut edits = super::private::owned_by(session.identity.role_oid, alteration.into_edits());
    if let Some(space) = before.space {
        let dropped = erasure::count(&view.rows, &view.pin, (&before, &after)).await?;
        let orders = erasure::orders(session, &before, &dropped, requested_micros, |_| Target::Space(space));
        edits.extend(orders.into_iter().map(|order| PrivateEdit::Erase(Box::new(order))));
    }
    let erases = edits.iter().any(|edit| matches!(edit, PrivateEdit::Erase(_)));
    let draft = Arc::new(session.drafted(&numbered, &edits)?);
    fill(session, &view, &draft, (&before, &after), &conversions).await?;
    if in_transaction {
        session.depends_on_rows(table, &view.pin);
        return session.defined(edits);
    }
    drop(view);
    let edit = Edit::ChangePrivate(tenant.clone(), oid, edits);
    instance.catalog.commit(|_| Ok(edit.clone())).await?;
    if let Some(reserved) = reserved {
        reserved.used();
    }
    if erases {
        instance.purges.wake();
    }
    Ok(())
}

/// Reads the rows of a table as it is, and checks and writes them as it shall be. `draft` is the catalog with it.
async fn fill(
    session: &mut Session,
    view: &View,
    draft: &Arc<Snapshot>,
    (before, after): (&Table, &Table),
    conversions: &[Conversion],
) -> Result<()> {
    let kept = |column: &Column| before.columns.iter().find(|old| old.id == column.id);
    let old: Vec<&Column> = after.columns.iter().filter_map(kept).collect();
    let named: Vec<usize> = (0..after.columns.len()).filter(|at| kept(&after.columns[*at]).is_some()).collect();
    let drafted = View { snapshot: draft.clone(), ..view.clone() };
    let converter = match conversions {
        [] => None,
        _ => Some(Converter::new(session, (view, before), (&drafted, after), conversions)?),
    };
    let converted: Vec<Option<usize>> =
        conversions.iter().map(|one| old.iter().position(|column| column.id == one.column)).collect();
    let whole: Vec<&Column> = before.columns.iter().collect();
    let mut load = Load::altering(session, drafted, (before, after), named).await?;
    let mut rows = view.scan(before, Scan::all());
    let mut number = 0;
    while let Some(batch) = rows.try_next().await? {
        let mut new = match &converter {
            None => Vec::new(),
            Some(converter) => {
                let rows: Vec<_> = batch.iter().map(|row| values(row, before, &whole)).collect::<Result<_>>()?;
                converter.values(&rows).await?
            }
        };
        for (at, row) in batch.iter().enumerate() {
            let mut values = values(row, before, &old)?;
            for (place, of) in converted.iter().zip(&mut new) {
                if let Some(place) = place {
                    values[*place] = std::mem::replace(&mut of[at], Value::Null);
                }
            }
            load.add(number, values)?;
            number += 1;
            if load.is_full() {
                load.write(session, false).await.map_err(|failed| failed.error)?;
            }
        }
    }
    load.write(session, true).await.map_err(|failed| failed.error)
}

/// The values of some columns of a stored row.
pub(super) fn values(row: &Row, table: &Table, columns: &[&Column]) -> Result<Vec<Value>> {
    let parts = table.key.decode(&row.key)?;
    let value = |column: &&Column| match &column.place {
        ColumnPlace::Key(part) => Ok(parts[*part].clone()),
        ColumnPlace::Open { .. } => Err(crate::pg::error::SqlError::unsupported("an open family of a private table")),
        ColumnPlace::Cell { family, qualifier, encoding } => {
            let Some(cell) = row.newest(family.as_str(), qualifier.as_bytes()) else { return Ok(Value::Null) };
            // A message stays as it is, with what its descriptor does not know.
            if encoding.message().is_some() {
                return Ok(Value::Bytes(cell.value.clone()));
            }
            Ok(mapping::decode(&cell.value, column.kind, encoding)?)
        }
    };
    columns.iter().map(value).collect()
}
