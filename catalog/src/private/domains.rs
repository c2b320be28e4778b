//! Changes of a tenant's domains, and what they have in common with its enumerated types.

use super::{Private, PrivateEdit};
use crate::{
    Domain, Error, ErrorKind, Result, Table, domain,
    domain::{DOMAINS_MAX, DomainChange},
    enum_type::{self, bound_name},
};
use std::sync::Arc;

impl Private {
    /// The domain of this name in a schema.
    pub fn domain_within(&self, schema: u32, name: &str) -> Option<&Arc<Domain>> {
        self.domains.values().find(|domain| domain.schema == schema && domain.name == name)
    }

    /// Checks that the columns of a table that an edit makes or changes are of domains that are there.
    pub(super) fn check_domains_of(&self, edit: &PrivateEdit) -> Result<()> {
        let table = match edit {
            PrivateEdit::CreateTable(table) => table.as_ref(),
            PrivateEdit::AlterTable(change) => &change.1,
            _ => return Ok(()),
        };
        let mut named = table.columns.iter().filter_map(|column| column.domain);
        match named.find(|of| !self.domains.contains_key(&of.id)) {
            Some(of) => Err(enum_type::missing(of.id)),
            None => Ok(()),
        }
    }

    /// Checks the schema of a type, and that no other there has its name.
    pub(super) fn check_type(&self, id: u32, schema: u32, name: &str) -> Result<()> {
        if self.schema_name(schema).is_none() {
            return Err(Error::new(ErrorKind::NoSchema, format!("schema with OID {schema} does not exist")));
        }
        let enum_type = self.enum_within(schema, name).map(|of| of.id);
        let domain = || self.domain_within(schema, name).map(|domain| domain.id);
        if enum_type.or_else(domain).is_some_and(|other| other != id) {
            return Err(Error::new(ErrorKind::Duplicate, format!("type \"{name}\" already exists")));
        }
        Ok(())
    }

    pub(super) fn create_domain(&mut self, new: &Domain, take_oid: impl FnOnce(u32) -> Result<()>) -> Result<()> {
        self.check_type(new.id, new.schema, &new.name)?;
        self.check_domain(new)?;
        if self.domains.len() >= DOMAINS_MAX {
            return Err(Error::new(ErrorKind::TooMuch, format!("a database has at most {DOMAINS_MAX} domains")));
        }
        self.check_room(0, new.texts().map(str::len))?;
        if !self.spare.remove(&new.id) {
            take_oid(new.id)?;
        }
        self.domains.insert(new.id, Arc::new(new.clone()));
        Ok(())
    }

    /// The tables that use it are told, those of domains on it too.
    pub(super) fn alter_domain(&mut self, change: &DomainChange) -> Result<()> {
        let DomainChange { before, after, held } = change;
        let changed = self.domains_on(after.id);
        let is_held = |table: &Arc<Table>| held.as_ref().is_none_or(|held| held.contains(&table.id));
        let mut users = self.tables.values().filter(|table| domain::user(table, &changed).is_some());
        if self.domains.get(&before.id).is_none_or(|now| **now != *before)
            || after.id != before.id
            || !users.all(is_held)
        {
            let message = format!("type \"{}\" was changed by another at the same moment", before.name);
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        self.check_type(after.id, after.schema, &after.name)?;
        self.check_domain(after)?;
        self.check_room(0, after.texts().map(str::len))?;
        self.domains.insert(after.id, Arc::new(after.clone()));
        for table in self.tables.values_mut().filter(|table| domain::user(table, &changed).is_some()) {
            domain::note_change(Arc::make_mut(table), &changed);
        }
        Ok(())
    }

    pub(super) fn drop_domain(&mut self, id: u32) -> Result<()> {
        let dropped = self.domains.remove(&id).ok_or_else(|| enum_type::missing(id))?;
        let column = |table: &Table| Some(("column", domain::user(table, &[id])?.to_owned()));
        self.check_type_unused(id, &dropped.name, column)?;
        self.rights.remove(&id);
        Ok(())
    }

    /// Checks that nothing needs a type that is dropped: no column, as `column` finds one, no condition, no view, no
    /// domain.
    ///
    /// # Errors
    /// [`InUse`](ErrorKind::InUse), with the first that does.
    pub(super) fn check_type_unused(
        &self,
        id: u32,
        dropped: &str,
        column: impl Fn(&Table) -> Option<(&'static str, String)>,
    ) -> Result<()> {
        let name = bound_name(id);
        let views = self.views.values().filter_map(|view| view.materialized.as_deref());
        let of_table = |table: &Table| {
            let check = || table.checks.iter().find(|check| check.sql.contains(&name));
            let (what, user) = column(table).or_else(|| Some(("constraint", check()?.name.clone())))?;
            Some(format!("{what} {user} of table {} depends on type {dropped}", table.name))
        };
        let mut tables = self.tables.values().map(Arc::as_ref).chain(views);
        let of_view = || {
            let view = self.views.values().find(|view| view.sql.contains(&name))?;
            Some(format!("{} {} depends on type {dropped}", view.kind(), view.name))
        };
        let of_domain = || {
            let on = self.domains.values().find(|domain| domain.names(id))?;
            Some(format!("type {} depends on type {dropped}", on.name))
        };
        let Some(detail) = tables.find_map(of_table).or_else(of_view).or_else(of_domain) else { return Ok(()) };
        let message = format!("cannot drop type {dropped} because other objects depend on it");
        Err(Error::new(ErrorKind::InUse, message)
            .with_detail(detail)
            .with_hint("Use DROP ... CASCADE to drop the dependent objects too."))
    }
}
