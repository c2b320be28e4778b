//! Changes of a tenant's enumerated types, and of the tables whose columns are of them.

use super::{Private, PrivateEdit};
use crate::{EnumType, Error, Result, Table, enum_type};
use std::sync::Arc;

impl Private {
    /// The enumerated type of this name in a schema.
    pub fn enum_within(&self, schema: u32, name: &str) -> Option<&Arc<EnumType>> {
        self.enum_types.values().find(|of| of.schema == schema && of.name == name)
    }

    /// Gives the columns of a table that an edit makes or changes their types as they are now.
    ///
    /// # Errors
    /// [`NoObject`](crate::ErrorKind::NoObject) for a type that is not there any more.
    pub(crate) fn settle_types(&mut self, edit: &PrivateEdit) -> Result<()> {
        self.check_domains_of(edit)?;
        let types = &self.enum_types;
        let settle = |table: &mut Table| {
            for of in table.columns.iter_mut().filter_map(|column| column.enumerated.as_mut()) {
                of.clone_from(types.get(&of.id).ok_or_else(|| enum_type::missing(of.id))?);
            }
            Ok::<_, Error>(())
        };
        let is_of_types = |table: &Table| table.columns.iter().any(|column| column.enumerated.is_some());
        let (table, view) = match edit {
            PrivateEdit::CreateTable(table) => (Some(table.id), None),
            PrivateEdit::AlterTable(change) => (Some(change.1.id), None),
            PrivateEdit::CreateView(view) => (None, Some(view.id)),
            PrivateEdit::AlterView(change) => (None, Some(change.1.id)),
            _ => return Ok(()),
        };
        if let Some(table) = table.and_then(|id| self.tables.get_mut(&id)).filter(|table| is_of_types(table)) {
            settle(Arc::make_mut(table))?;
        }
        if let Some(view) = view.and_then(|id| self.views.get_mut(&id))
            && view.materialized.as_deref().is_some_and(is_of_types)
            && let Some(table) = &mut Arc::make_mut(view).materialized
        {
            settle(table)?;
        }
        Ok(())
    }

    pub(super) fn alter_enum(&mut self, before: &EnumType, after: &EnumType) -> Result<()> {
        self.check_type(after.id, after.schema, &after.name)?;
        enum_type::replace(&mut self.enum_types, before, after)?;
        enum_type::replace_in(&mut self.tables, after);
        let shared = Arc::new(after.clone());
        for view in self.views.values_mut() {
            let is_user = |table: &Table| enum_type::user(table, after.id).is_some();
            if view.materialized.as_deref().is_some_and(is_user)
                && let Some(table) = &mut Arc::make_mut(view).materialized
            {
                enum_type::replace_in_table(table, &shared);
            }
        }
        Ok(())
    }

    pub(super) fn create_enum(&mut self, new: &EnumType, take_oid: impl FnOnce(u32) -> Result<()>) -> Result<()> {
        self.check_type(new.id, new.schema, &new.name)?;
        enum_type::check_count(&self.enum_types)?;
        self.check_room(0, std::iter::once(new.bytes()))?;
        if !self.spare.remove(&new.id) {
            take_oid(new.id)?;
        }
        self.enum_types.insert(new.id, Arc::new(new.clone()));
        Ok(())
    }

    pub(super) fn drop_enum(&mut self, id: u32) -> Result<()> {
        let dropped = self.enum_types.remove(&id).ok_or_else(|| enum_type::missing(id))?;
        let column = |table: &Table| Some(("column", enum_type::user(table, id)?.to_owned()));
        self.check_type_unused(id, &dropped.name, column)?;
        self.rights.remove(&id);
        Ok(())
    }
}
