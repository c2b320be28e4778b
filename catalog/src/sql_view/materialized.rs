//! Materialized views: views that keep the rows of their query.
//!
//! The rows lie in a space of the tenant's private tables, as those of a private table without a primary key do. The
//! table has the number of the view, and what the view says of name, schema and columns: it is not among the tenant's
//! tables, so that nothing but a refresh writes it. A refresh fills another space and gives it to the view, with one
//! edit; who reads meanwhile reads the old rows, which are deleted after it. Without a space the view was never filled,
//! or emptied.

use super::SqlView;
use crate::{Table, TableId};

impl SqlView {
    /// The kind, as PostgreSQL's messages name it.
    pub fn kind(&self) -> &'static str {
        if self.materialized.is_some() { "materialized view" } else { "view" }
    }

    /// Whether it can be read: a materialized view has to be filled.
    pub fn is_populated(&self) -> bool {
        self.materialized.is_none() || self.space().is_some()
    }

    /// The space of the rows that it keeps.
    pub fn space(&self) -> Option<u32> {
        self.materialized.as_ref()?.space
    }

    /// The table of the rows that it keeps, by the names that the view and its columns have now.
    pub fn table(&self) -> Option<Table> {
        let mut table = self.materialized.as_deref()?.clone();
        (table.id, table.schema) = (TableId(self.id), self.schema);
        table.name.clone_from(&self.name);
        for (column, shown) in table.columns.iter_mut().zip(&self.columns) {
            column.name.clone_from(&shown.name);
        }
        Some(table)
    }

    /// The view with its rows in another space; with none of them for `None`.
    #[must_use]
    pub fn with_space(&self, space: Option<u32>) -> Self {
        let mut view = self.clone();
        if let Some(table) = &mut view.materialized {
            table.space = space;
        }
        view
    }
}
