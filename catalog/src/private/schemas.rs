//! Changes of a tenant's schemas.

use super::{PUBLIC_NAME, Private};
use crate::{Error, ErrorKind, Result, Schema, TableId, rights::PUBLIC_SCHEMA, schema::SCHEMAS_MAX};
use std::{collections::BTreeSet, sync::Arc};

impl Private {
    /// # Errors
    /// [`SchemaExists`](ErrorKind::SchemaExists); [`TooMuch`](ErrorKind::TooMuch) beyond [`SCHEMAS_MAX`].
    pub(super) fn check_schema_name(&self, name: &str) -> Result<()> {
        // Those that every database has; `keyspan` is the operator's.
        let system = [PUBLIC_NAME, "information_schema", "keyspan"].contains(&name) || name.starts_with("pg_");
        if system || self.schema(name).is_some() {
            return Err(Error::new(ErrorKind::SchemaExists, format!("schema \"{name}\" already exists")));
        }
        if self.schemas.len() >= SCHEMAS_MAX {
            return Err(Error::new(ErrorKind::TooMuch, format!("a database has at most {SCHEMAS_MAX} schemas")));
        }
        Ok(())
    }

    pub(super) fn alter_schema(&mut self, before: &Schema, after: &Schema) -> Result<()> {
        if self.schemas.get(&before.id).is_none_or(|now| **now != *before) || after.id != before.id {
            let message = format!("schema \"{}\" was changed by another at the same moment", before.name);
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        if after.name != before.name {
            self.check_schema_name(&after.name)?;
        }
        self.schemas.insert(after.id, Arc::new(after.clone()));
        Ok(())
    }

    /// Also forgets the rights that were to be given to what is made in the schema.
    pub(super) fn drop_schema(&mut self, id: u32) -> Result<()> {
        let missing = || Error::new(ErrorKind::NoSchema, format!("schema with OID {id} does not exist"));
        let schema = self.schemas.get(&id).cloned().ok_or_else(missing)?;
        let (tables, sequences, views) = self.relations_within(id);
        let has_types = self.enum_types.values().any(|of| of.schema == id)
            || self.domains.values().any(|domain| domain.schema == id);
        if has_types || !(tables.is_empty() && sequences.is_empty() && views.is_empty()) {
            let message = format!("cannot drop schema {} because other objects depend on it", schema.name);
            return Err(Error::new(ErrorKind::InUse, message)
                .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        self.schemas.remove(&id);
        self.rights.remove(&id);
        for defaults in self.defaults.values_mut() {
            if defaults.lists.iter().any(|list| list.in_schema == Some(id)) {
                Arc::make_mut(defaults).lists.retain(|list| list.in_schema != Some(id));
            }
        }
        self.defaults.retain(|_, defaults| !defaults.lists.is_empty());
        Ok(())
    }

    /// The sequences that columns of moved tables own move with them.
    pub(super) fn set_schema(
        &mut self,
        oids: &BTreeSet<u32>,
        schema: u32,
        is_taken: impl Fn(&str) -> bool,
    ) -> Result<()> {
        let owned =
            self.sequences.values().filter(|sequence| sequence.owner.is_some_and(|(table, _)| oids.contains(&table.0)));
        let oids: BTreeSet<u32> = owned.map(|sequence| sequence.id).chain(oids.iter().copied()).collect();
        for oid in &oids {
            let missing = || Error::new(ErrorKind::NoTable, format!("relation with OID {oid} does not exist"));
            let id = TableId(*oid);
            let table = self.tables.get(&id).map(|table| table.name.clone());
            let sequence = || self.sequences.get(oid).map(|sequence| sequence.name.clone());
            let view = || self.views.get(oid).map(|view| view.name.clone());
            let name = table.or_else(sequence).or_else(view).ok_or_else(missing)?;
            if self.schema_of(*oid) == Some(schema) {
                continue;
            }
            let taken = self.has_within(schema, &name) || (schema == PUBLIC_SCHEMA && is_taken(&name));
            if taken {
                let within = self.schema_name(schema).unwrap_or_default();
                let message = format!("relation \"{name}\" already exists in schema \"{within}\"");
                return Err(Error::new(ErrorKind::TableExists, message));
            }
            self.check_name(schema, &name, &is_taken)?;
            if let Some(table) = self.tables.get_mut(&id) {
                Arc::make_mut(table).schema = schema;
            } else if let Some(sequence) = self.sequences.get_mut(oid) {
                Arc::make_mut(sequence).schema = schema;
            } else if let Some(view) = self.views.get_mut(oid) {
                Arc::make_mut(view).schema = schema;
            }
        }
        Ok(())
    }
}
