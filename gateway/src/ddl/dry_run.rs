//! `EXPLAIN ALTER TABLE`: what a change of a table would forget, counted as the change would do it. Nothing changes.
//!
//! Rules are tried on every row: a cell is counted if the new rule condemns it and the old one does not, and a row if
//! none of its cells would be left. Dropped columns and families are counted as their certificates do.

use super::{
    database::sized,
    erasure,
    private::{check_owner, find},
    table::{apply, settle},
};
use crate::{
    pg::error::{Result, SqlError},
    query::explain,
    session::Session,
    sql::ast::definition::AlterTable,
};
use datafusion::execution::SendableRecordBatchStream;
use futures::TryStreamExt;
use keyspan_catalog::{Table, TenantStore, table::TableFamily};
use keyspan_storage::{FamilyName, KeyRange, Pin, Scan, row};
use std::{collections::BTreeMap, sync::Arc};

/// What rules would forget.
#[derive(Default)]
struct Forgotten {
    /// Cells and their bytes, by family.
    families: BTreeMap<FamilyName, (u64, u64)>,
    /// Rows of which nothing would be left.
    rows: u64,
}

/// # Errors
/// 42P01, 42501; those of the actions; the store's.
pub async fn explain_alter_table(session: &mut Session, alter: &AlterTable) -> Result<SendableRecordBatchStream> {
    let table = table(session, alter)?;
    let actions = settle(session, &table, &alter.actions).await?;
    let after = actions.iter().try_fold(table.as_ref().clone(), |table, action| apply(&table, action))?;
    let rows = session.identity.rows.clone();
    let pin = rows.pin().await?;
    let mut lines = vec![format!("Alter Table {} (dry run: nothing is changed)", table.name)];
    let dropped = erasure::count(&rows, &pin, (&table, &after)).await?;
    lines.extend(dropped.iter().map(|one| format!("  {} {}: {}", one.kind.name(), one.name, sized(&one.size))));
    let changed: Vec<(&TableFamily, &TableFamily)> = changed_rules(&table, &after).collect();
    if !changed.is_empty() {
        let forgotten = forgotten(&rows, &pin, (&table, &after)).await?;
        for (old, new) in &changed {
            let (cells, bytes) = forgotten.families.get(&old.name).copied().unwrap_or_default();
            lines.push(format!(
                "  family {}: {} instead of {}: {cells} cells, {bytes} bytes",
                old.name,
                new.rule(),
                old.rule()
            ));
        }
        lines.push(format!("Rows of which nothing is left: {}", forgotten.rows));
    }
    if table.history_micros.is_some() && !(dropped.is_empty() && changed.is_empty()) {
        let history = rows.history_size(&table, &KeyRange::all(), &pin).await?;
        lines.push(format!("History begins anew: {} rows, {} bytes are gone", history.versions, history.bytes));
    }
    explain::lines(&lines)
}

fn table(session: &Session, alter: &AlterTable) -> Result<Arc<Table>> {
    if session.identity.operator {
        let snapshot = session.instance.catalog.snapshot();
        return super::table::shared(&snapshot, &alter.name).cloned().ok_or_else(|| alter.name.missing("relation"));
    }
    let (_, table) = find(session, &alter.name).ok_or_else(|| alter.name.missing("relation"))?;
    if !table.is_private() {
        return Err(SqlError::unsupported("EXPLAIN ALTER TABLE of a shared table")
            .with_hint("Shared tables are changed in the operator's database."));
    }
    check_owner(session, &table, false)?;
    Ok(table)
}

/// The families whose rules differ, as they are and as they would be.
fn changed_rules<'a>(before: &'a Table, after: &'a Table) -> impl Iterator<Item = (&'a TableFamily, &'a TableFamily)> {
    let pairs =
        before.families.iter().filter_map(|old| Some((old, after.families.iter().find(|new| new.id == old.id)?)));
    pairs.filter(|(old, new)| old.gc != new.gc)
}

async fn forgotten(rows: &TenantStore, pin: &Pin, (before, after): (&Table, &Table)) -> Result<Forgotten> {
    let schema = after.storage_schema();
    let declared = |family: &FamilyName| before.families.iter().any(|of| of.name == *family);
    let mut forgotten = Forgotten::default();
    let mut batches = rows.scan(before, Scan { pin: Some(pin.clone()), ..Scan::all() });
    while let Some(batch) = batches.try_next().await? {
        for row in batch {
            // All of them are live by the rules as they are.
            for cell in row.cells.iter().filter(|cell| declared(&cell.family)) {
                let (cells, bytes) = forgotten.families.entry(cell.family.clone()).or_default();
                (*cells, *bytes) = (*cells + 1, *bytes + cell.size() as u64);
            }
            let left = row::live(&schema, row.cells, pin.now_micros);
            forgotten.rows += u64::from(left.is_empty());
            for cell in left.iter().filter(|cell| declared(&cell.family)) {
                if let Some((cells, bytes)) = forgotten.families.get_mut(&cell.family) {
                    (*cells, *bytes) = (*cells - 1, *bytes - cell.size() as u64);
                }
            }
        }
    }
    Ok(forgotten)
}
