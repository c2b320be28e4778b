//! Views: named queries of a tenant, and which changes of relations their dependencies allow.
//!
//! A view refers to what it reads by OID and column number ([`SqlView::uses`]): these stay when a relation or column is
//! renamed, so that the query keeps its meaning. How the query's text refers to them is up to the gateway. Nothing that
//! a view uses is dropped without the view: [`check`] compares every change of a tenant's relations, and of shared
//! tables, with its views.
//!
//! A view may keep the rows of its query, as they were when it was last filled: then it is [`materialized`].

mod materialized;

use crate::{Comments, Error, ErrorKind, Private, Result, Table, TableId};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// PostgreSQL's hint for a drop that other objects prevent.
const CASCADE_HINT: &str = "Use DROP ... CASCADE to drop the dependent objects too.";

/// A view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SqlView {
    /// The OID, never reused.
    pub id: u32,
    /// The name.
    pub name: String,
    /// The OID of the schema.
    #[serde(default = "crate::schema::public", skip_serializing_if = "crate::schema::is_public")]
    pub schema: u32,
    /// The columns in order.
    pub columns: Vec<ViewColumn>,
    /// The query.
    pub sql: String,
    /// The OIDs of the relations that the view reads, each with the numbers of the columns that it reads.
    pub uses: BTreeMap<u32, BTreeSet<u16>>,
    /// The comments.
    #[serde(default, skip_serializing_if = "Comments::is_empty")]
    pub comments: Comments,
    /// The table of the rows that a materialized view keeps: [`SqlView::table`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub materialized: Option<Box<Table>>,
}

/// A column of a view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewColumn {
    /// The column number, from 1. A view's columns are never dropped.
    pub number: u16,
    /// The name.
    pub name: String,
    /// The OID of the type.
    pub type_oid: u32,
    /// The type modifier; −1 for none.
    pub modifier: i32,
}

/// Shared tables by OID.
pub type SharedTables = BTreeMap<TableId, Arc<Table>>;

impl SqlView {
    /// The column of this name.
    pub fn column(&self, name: &str) -> Option<&ViewColumn> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// Checks that `CREATE OR REPLACE VIEW` may replace this view by another: the new one has the same columns, and
    /// perhaps more after them.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid).
    pub fn check_replaced_by(&self, new: &Self) -> Result<()> {
        let invalid = |message: String| Err(Error::new(ErrorKind::Invalid, message));
        if new.columns.len() < self.columns.len() {
            return invalid("cannot drop columns from view".to_owned());
        }
        for (old, new) in self.columns.iter().zip(&new.columns) {
            if old.name != new.name {
                let message = format!("cannot change name of view column \"{}\" to \"{}\"", old.name, new.name);
                let hint = "Use ALTER VIEW ... RENAME COLUMN ... to change name of view column instead.";
                return Err(Error::new(ErrorKind::Invalid, message).with_hint(hint));
            }
            if (old.type_oid, old.modifier) != (new.type_oid, new.modifier) {
                return invalid(format!("cannot change data type of view column \"{}\"", old.name));
            }
        }
        Ok(())
    }

    /// The view under another name.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for an invalid name.
    pub fn rename(&self, to: &str) -> Result<Self> {
        crate::table::check_name("view", to)?;
        Ok(Self { name: to.to_owned(), ..self.clone() })
    }

    /// The view with a column renamed.
    ///
    /// # Errors
    /// [`NoColumn`](ErrorKind::NoColumn), [`ColumnExists`](ErrorKind::ColumnExists).
    pub fn rename_column(&self, from: &str, to: &str) -> Result<Self> {
        let mut view = self.clone();
        if self.column(to).is_some() {
            let message = format!("column \"{to}\" of relation \"{}\" already exists", self.name);
            return Err(Error::new(ErrorKind::ColumnExists, message));
        }
        match view.columns.iter_mut().find(|column| column.name == from) {
            Some(column) => to.clone_into(&mut column.name),
            None => return Err(Error::new(ErrorKind::NoColumn, format!("column \"{from}\" does not exist"))),
        }
        Ok(view)
    }
}

/// A relation that a query can read.
#[derive(Clone, Copy, Debug)]
pub enum Relation<'a> {
    /// A table.
    Table(&'a Arc<Table>),
    /// A view.
    View(&'a Arc<SqlView>),
}

impl<'a> Relation<'a> {
    /// The relation with an OID, among a tenant's private ones and the shared tables.
    pub fn of(oid: u32, own: &'a Private, shared: &'a SharedTables) -> Option<Self> {
        let id = TableId(oid);
        let table = own.tables.get(&id).or_else(|| shared.get(&id)).map(Self::Table);
        table.or_else(|| own.views.get(&oid).map(Self::View))
    }

    /// The OID.
    pub fn oid(&self) -> u32 {
        match self {
            Self::Table(table) => table.id.0,
            Self::View(view) => view.id,
        }
    }

    /// The name.
    pub fn name(&self) -> &'a str {
        match self {
            Self::Table(table) => &table.name,
            Self::View(view) => &view.name,
        }
    }

    /// The OID of the schema.
    pub fn schema(&self) -> u32 {
        match self {
            Self::Table(table) => table.schema,
            Self::View(view) => view.schema,
        }
    }

    /// The columns in order: numbers and names.
    pub fn columns(&self) -> Vec<(u16, &'a str)> {
        match self {
            Self::Table(table) => table.columns.iter().map(|column| (column.id, column.name.as_str())).collect(),
            Self::View(view) => view.columns.iter().map(|column| (column.number, column.name.as_str())).collect(),
        }
    }

    /// The name of the column with a number.
    pub fn column(&self, number: u16) -> Option<&'a str> {
        self.columns().into_iter().find(|(other, _)| *other == number).map(|(_, name)| name)
    }

    /// Kind and name, as PostgreSQL's messages have them: `table t`, `view v`.
    pub fn described(&self) -> String {
        match self {
            Self::Table(table) => format!("table {}", table.name),
            Self::View(view) => format!("{} {}", view.kind(), view.name),
        }
    }

    fn has_type_of(&self, other: &Self, number: u16) -> bool {
        let kind = |of: &Self| match of {
            Self::Table(table) => {
                table.columns.iter().find(|column| column.id == number).map(|column| format!("{:?}", column.kind))
            }
            Self::View(view) => view
                .columns
                .iter()
                .find(|column| column.number == number)
                .map(|column| format!("{} {}", column.type_oid, column.modifier)),
        };
        kind(self) == kind(other)
    }
}

/// The views that depend on a relation (on one of `columns`, if given), directly or through other views. Each view
/// comes after the views that it reads.
pub fn dependents(own: &Private, relation: u32, columns: Option<&BTreeSet<u16>>) -> Vec<Arc<SqlView>> {
    let reads = |view: &SqlView, oid: u32| view.uses.contains_key(&oid);
    let direct = own.views.values().filter(|view| match (view.uses.get(&relation), columns) {
        (Some(used), Some(columns)) => !used.is_disjoint(columns),
        (used, _) => used.is_some(),
    });
    let mut found: Vec<Arc<SqlView>> = direct.cloned().collect();
    let mut next = 0;
    while let Some(of) = found.get(next).map(|view| view.id) {
        for view in own.views.values().filter(|view| reads(view, of)) {
            if found.iter().all(|other| other.id != view.id) {
                found.push(view.clone());
            }
        }
        next += 1;
    }
    found
}

/// Checks a change against the views of a tenant: nothing that they use may be dropped or change its type, and no view
/// may read itself. `suffix` follows the views' names in errors, to name the database when the change is not the
/// tenant's own.
///
/// # Errors
/// [`InUse`](ErrorKind::InUse), [`Unsupported`](ErrorKind::Unsupported) for a type that changes,
/// [`Recursion`](ErrorKind::Recursion), [`Conflict`](ErrorKind::Conflict) when a relation that a new view reads no
/// longer exists.
pub fn check(
    (before, after): (&Private, &Private),
    (shared_before, shared_after): (&SharedTables, &SharedTables),
    suffix: &str,
) -> Result<()> {
    for view in after.views.values() {
        // Another session may have dropped what a temporary view reads: that does not concern this change.
        let known = before.views.get(&view.id).is_some_and(|old| Arc::ptr_eq(old, view));
        for (oid, columns) in &view.uses {
            let old = Relation::of(*oid, before, shared_before);
            let new = Relation::of(*oid, after, shared_after);
            let (Some(new), Some(old)) = (new, old.or(new)) else {
                match old {
                    Some(old) => return Err(in_use(after, &old, None, suffix)),
                    None if known => continue,
                    None => return Err(gone(view)),
                }
            };
            for column in columns {
                match (old.column(*column), new.column(*column)) {
                    (_, Some(_)) if new.has_type_of(&old, *column) => {}
                    (_, Some(name)) => {
                        let message = "cannot alter type of a column used by a view or rule";
                        let detail = format!(
                            "rule _RETURN on {} {}{suffix} depends on column \"{name}\"",
                            view.kind(),
                            view.name
                        );
                        return Err(Error::new(ErrorKind::Unsupported, message).with_detail(detail));
                    }
                    (Some(name), None) => return Err(in_use(after, &old, Some((*column, name)), suffix)),
                    (None, None) if known => {}
                    (None, None) => return Err(gone(view)),
                }
            }
        }
        let changed = !known && before.views.contains_key(&view.id);
        if changed && dependents(after, view.id, None).iter().any(|other| other.id == view.id) {
            let message = format!("infinite recursion detected in rules for relation \"{}\"", view.name);
            return Err(Error::new(ErrorKind::Recursion, message));
        }
    }
    Ok(())
}

fn gone(view: &SqlView) -> Error {
    let message = format!("a relation that view \"{}\" reads was changed by another at the same moment", view.name);
    Error::new(ErrorKind::Conflict, message)
}

/// Error 2BP01, with everything that depends on a relation, or on a column of it, in its detail.
fn in_use(own: &Private, relation: &Relation<'_>, column: Option<(u16, &str)>, suffix: &str) -> Error {
    let what = match column {
        Some((_, name)) => format!("column {name} of {}", relation.described()),
        None => relation.described(),
    };
    let columns = column.map(|(number, _)| BTreeSet::from([number]));
    let all = dependents(own, relation.oid(), columns.as_ref());
    let lines = all.iter().map(|view| {
        let direct = view.uses.get(&relation.oid());
        let direct = direct.filter(|used| columns.as_ref().is_none_or(|columns| !used.is_disjoint(columns)));
        let on = match direct {
            Some(_) => what.clone(),
            None => {
                let through = all.iter().find(|other| view.uses.contains_key(&other.id));
                through.map_or_else(|| what.clone(), |other| format!("{} {}", other.kind(), other.name))
            }
        };
        format!("{} {}{suffix} depends on {on}", view.kind(), view.name)
    });
    let message = format!("cannot drop {what} because other objects depend on it");
    let detail = lines.collect::<Vec<_>>().join("\n");
    Error::new(ErrorKind::InUse, message).with_detail(detail).with_hint(CASCADE_HINT)
}

#[cfg(test)]
mod tests;
