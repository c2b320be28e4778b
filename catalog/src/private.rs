//! Private relations: the tables, sequences and views that a tenant creates for itself.
//!
//! All private tables of all tenants live in one table of the store, [`PRIVATE_TABLE`], with one family. Each has a
//! *space* there, a number that is never reused, and its keys begin with the tenant's id and that number:
//!
//! ```text
//! alto#16390#…key, ordered…
//! ```
//!
//! So deleting the span of a tenant deletes its private tables too, and the rows of a space that no table uses any more
//! ([`Private::spare`]) are deleted as a range. A change that rewrites rows first writes them to a spare space; the
//! edit that gives the table that space makes them visible, all at once.
//!
//! A change is a [`PrivateEdit`], applied by a pure function.

use crate::{
    Domain, EnumType, Erasure, Erasures, Error, ErrorKind, ObjectKind, ObjectRights, ProtoDescriptor, Result, Schema,
    Sequence, SqlView, Table, TableId, TenantId,
    domain::DomainChange,
    erasure,
    proto::objects as proto,
    rights::{self, DefaultRights, ListChange, ListOf, PUBLIC_SCHEMA},
    tenant::TENANT_DELIMITER,
};
use bytes::Bytes;
use keyspan_storage::{Family, GcRule, TableName, TableSchema};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Tables, views and sequences of a tenant.
pub const RELATIONS_MAX: usize = 10_000;
/// Bytes of the text of a view, a default or a check.
pub const DEFINITION_BYTES_MAX: usize = 1 << 20;
/// Bytes of all these texts of a tenant, once one of them is longer than [`SHORT_TEXT_BYTES`].
pub const DEFINITIONS_BYTES_MAX: usize = 64 << 20;
/// Texts that are not summed up.
const SHORT_TEXT_BYTES: usize = 4 << 10;

/// The name of the store's table that holds all private tables. No other table can have it, since their names end with
/// a number.
pub const PRIVATE_TABLE: &str = "private";

/// The name of the schema that every database has.
const PUBLIC_NAME: &str = "public";

/// The private relations of one tenant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Private {
    /// The tables.
    pub tables: BTreeMap<TableId, Arc<Table>>,
    /// The sequences, by OID.
    pub sequences: BTreeMap<u32, Arc<Sequence>>,
    /// The views, by OID.
    pub views: BTreeMap<u32, Arc<SqlView>>,
    /// The protobuf descriptors, by OID.
    pub protos: BTreeMap<u32, Arc<ProtoDescriptor>>,
    /// The schemas beside `public`, by OID.
    pub schemas: BTreeMap<u32, Arc<Schema>>,
    /// The enumerated types, by OID.
    pub enum_types: BTreeMap<u32, Arc<EnumType>>,
    /// The domains, by OID.
    pub domains: BTreeMap<u32, Arc<Domain>>,
    /// Spaces that no table uses: their rows are being written, or are to be deleted.
    pub spare: BTreeSet<u32>,
    /// Owners and rights, by OID: of the tenant's relations, of shared tables in its database, and of its schema.
    pub rights: BTreeMap<u32, Arc<ObjectRights>>,
    /// The rights on what a role will make, by the role's OID.
    pub defaults: BTreeMap<u32, Arc<DefaultRights>>,
    /// What was erased of the tenant's rows.
    pub erasures: Erasures,
}

/// One change of a tenant's private relations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PrivateEdit {
    /// Reserves a space for rows that no table has yet.
    Reserve(u32),
    /// A new table. Its OID is the catalog's next, or a reserved one.
    CreateTable(Box<Table>),
    /// A changed table: the definition that it must still have, and the new one. Its old space may become spare.
    AlterTable(Box<(Table, Table)>),
    /// Drops a table; its space becomes spare.
    DropTable(TableId),
    /// A new sequence. Its OID is the catalog's next, or a reserved one.
    CreateSequence(Sequence),
    /// A sequence with other options, given by its OID: name, schema and owner stay.
    AlterSequence(Sequence),
    /// A sequence, given by OID, has another name.
    RenameSequence(u32, String),
    /// A column owns a sequence, given by OID; `None` for none.
    OwnSequence(u32, Option<(TableId, u16)>),
    /// Drops a sequence; its space becomes spare.
    DropSequence(u32),
    /// A new view. Its OID is the catalog's next, or a reserved one.
    CreateView(Box<SqlView>),
    /// A new protobuf descriptor. Its OID is the catalog's next.
    CreateProto(Box<ProtoDescriptor>),
    /// A descriptor with other files, which the tables that use it get.
    ReplaceProto(Box<ProtoDescriptor>),
    /// Drops a descriptor, by OID.
    DropProto(u32),
    /// A changed view: the definition that it must still have, and the new one.
    AlterView(Box<(SqlView, SqlView)>),
    /// Drops a view.
    DropView(u32),
    /// A new schema. Its OID is the catalog's next, or a reserved one.
    CreateSchema(Schema),
    /// A changed schema: the definition that it must still have, and the new one.
    AlterSchema(Box<(Schema, Schema)>),
    /// Drops a schema, in which nothing is left.
    DropSchema(u32),
    /// A new enumerated type. Its OID is the catalog's next, or a reserved one.
    CreateEnum(Box<EnumType>),
    /// A changed type: the definition that it must still have, and the new one, which the tables that use it get.
    AlterEnum(Box<(EnumType, EnumType)>),
    /// Drops an enumerated type, by OID.
    DropEnum(u32),
    /// A new domain. Its OID is the catalog's next, or a reserved one.
    CreateDomain(Box<Domain>),
    /// A changed domain.
    AlterDomain(Box<DomainChange>),
    /// Drops a domain, by OID.
    DropDomain(u32),
    /// Relations, given by OID, move to another schema.
    SetSchema(BTreeSet<u32>, u32),
    /// Forgets spare spaces whose rows are deleted.
    Forget(BTreeSet<u32>),
    /// A new relation, given by OID, belongs to the role that made it, and has the rights that its new objects have.
    Own(u32, u32),
    /// A relation that takes the place of another has its rights: from, to.
    MoveRights(u32, u32),
    /// Relations, given by OID, belong to another role.
    SetOwner(BTreeSet<u32>, u32),
    /// A list of rights changes.
    ChangeList(ListOf, ListChange),
    /// Rows or cells of the tenant are erased with this edit, or with the commit that it is part of.
    Erase(Box<Erasure>),
    /// The rights on objects, by their OIDs, and on what roles will make: those of a copy.
    SetRights(BTreeMap<u32, ObjectRights>, BTreeMap<u32, DefaultRights>),
}

impl Private {
    /// The table of this name in the schema `public`.
    pub fn table(&self, name: &str) -> Option<&Arc<Table>> {
        self.table_within(PUBLIC_SCHEMA, name)
    }

    /// The sequence of this name in the schema `public`.
    pub fn sequence(&self, name: &str) -> Option<&Arc<Sequence>> {
        self.sequence_within(PUBLIC_SCHEMA, name)
    }

    /// The view of this name in the schema `public`.
    pub fn view(&self, name: &str) -> Option<&Arc<SqlView>> {
        self.view_within(PUBLIC_SCHEMA, name)
    }

    /// The table of this name in a schema.
    pub fn table_within(&self, schema: u32, name: &str) -> Option<&Arc<Table>> {
        self.tables.values().find(|table| table.schema == schema && table.name == name)
    }

    /// The sequence of this name in a schema.
    pub fn sequence_within(&self, schema: u32, name: &str) -> Option<&Arc<Sequence>> {
        self.sequences.values().find(|sequence| sequence.schema == schema && sequence.name == name)
    }

    /// The view of this name in a schema.
    pub fn view_within(&self, schema: u32, name: &str) -> Option<&Arc<SqlView>> {
        self.views.values().find(|view| view.schema == schema && view.name == name)
    }

    /// The OID of the schema of this name.
    pub fn schema(&self, name: &str) -> Option<u32> {
        if name == PUBLIC_NAME {
            return Some(PUBLIC_SCHEMA);
        }
        self.schemas.values().find(|schema| schema.name == name).map(|schema| schema.id)
    }

    /// The name of a schema.
    pub fn schema_name(&self, oid: u32) -> Option<&str> {
        if oid == PUBLIC_SCHEMA {
            return Some(PUBLIC_NAME);
        }
        self.schemas.get(&oid).map(|schema| schema.name.as_str())
    }

    /// The OID of the schema of a relation; `None` for a relation that is not the tenant's own.
    pub fn schema_of(&self, oid: u32) -> Option<u32> {
        let table = self.tables.get(&TableId(oid)).map(|table| table.schema);
        let sequence = || self.sequences.get(&oid).map(|sequence| sequence.schema);
        let view = || self.views.get(&oid).map(|view| view.schema);
        let enum_type = || self.enum_types.get(&oid).map(|of| of.schema);
        let domain = || self.domains.get(&oid).map(|domain| domain.schema);
        table.or_else(sequence).or_else(view).or_else(enum_type).or_else(domain)
    }

    /// The OIDs of the relations of a schema: tables, sequences, views.
    pub fn relations_within(&self, schema: u32) -> (Vec<TableId>, Vec<u32>, Vec<u32>) {
        let tables = self.tables.values().filter(|table| table.schema == schema).map(|table| table.id);
        let sequences = self.sequences.values().filter(|sequence| sequence.schema == schema);
        let views = self.views.values().filter(|view| view.schema == schema).map(|view| view.id);
        (tables.collect(), sequences.map(|sequence| sequence.id).collect(), views.collect())
    }

    /// The protobuf descriptor of this name.
    pub fn proto(&self, name: &str) -> Option<&Arc<ProtoDescriptor>> {
        self.protos.values().find(|descriptor| descriptor.name == name)
    }

    /// Whether a relation of the schema `public` has this name.
    pub fn has(&self, name: &str) -> bool {
        self.has_within(PUBLIC_SCHEMA, name)
    }

    /// Whether a relation of a schema has this name.
    pub fn has_within(&self, schema: u32, name: &str) -> bool {
        self.table_within(schema, name).is_some()
            || self.sequence_within(schema, name).is_some()
            || self.view_within(schema, name).is_some()
    }

    /// Whether a table, a sequence, a view, a protobuf descriptor, a schema or a type has this OID.
    pub fn has_oid(&self, oid: u32) -> bool {
        self.tables.contains_key(&TableId(oid))
            || self.sequences.contains_key(&oid)
            || self.views.contains_key(&oid)
            || self.protos.contains_key(&oid)
            || self.schemas.contains_key(&oid)
            || self.enum_types.contains_key(&oid)
            || self.domains.contains_key(&oid)
    }

    /// The relations of both, which have no OID in common.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut both = self.clone();
        both.tables.extend(other.tables.iter().map(|(id, table)| (*id, table.clone())));
        both.sequences.extend(other.sequences.iter().map(|(id, sequence)| (*id, sequence.clone())));
        both.views.extend(other.views.iter().map(|(id, view)| (*id, view.clone())));
        both.protos.extend(other.protos.iter().map(|(id, descriptor)| (*id, descriptor.clone())));
        both.schemas.extend(other.schemas.iter().map(|(id, schema)| (*id, schema.clone())));
        both.enum_types.extend(other.enum_types.iter().map(|(id, of)| (*id, of.clone())));
        both.domains.extend(other.domains.iter().map(|(id, domain)| (*id, domain.clone())));
        both.spare.extend(&other.spare);
        both.rights.extend(other.rights.iter().map(|(oid, rights)| (*oid, rights.clone())));
        both
    }

    /// Whether there are no relations and no spare spaces.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Applies a change. `take_oid` allocates an OID that was never used; `is_taken` tells whether a shared relation
    /// has a name.
    pub(crate) fn apply(
        &mut self,
        edit: &PrivateEdit,
        mut take_oid: impl FnMut(u32) -> Result<()>,
        is_taken: impl Fn(&str) -> bool,
    ) -> Result<()> {
        match edit {
            PrivateEdit::Reserve(space) => {
                take_oid(*space)?;
                self.spare.insert(*space);
            }
            PrivateEdit::CreateTable(table) => {
                self.check_name(table.schema, &table.name, &is_taken)?;
                check(table)?;
                self.check_room(1, table_texts(table))?;
                if !self.spare.remove(&table.id.0) {
                    take_oid(table.id.0)?;
                }
                self.tables.insert(table.id, Arc::new(table.as_ref().clone()));
            }
            PrivateEdit::AlterTable(change) => self.alter(&change.0, &change.1, is_taken)?,
            PrivateEdit::DropTable(id) => {
                let table = self.tables.remove(id);
                let table = table.ok_or_else(|| {
                    Error::new(ErrorKind::NoTable, format!("relation with OID {} does not exist", id.0))
                })?;
                self.spare.extend(table.space);
                self.rights.remove(&id.0);
            }
            PrivateEdit::CreateSequence(sequence) => {
                self.check_name(sequence.schema, &sequence.name, &is_taken)?;
                self.check_room(1, std::iter::empty())?;
                if !self.spare.remove(&sequence.id) {
                    take_oid(sequence.id)?;
                }
                self.sequences.insert(sequence.id, Arc::new(sequence.clone()));
            }
            PrivateEdit::AlterSequence(changed) => {
                let id = changed.id;
                let sequence = self
                    .sequences
                    .get_mut(&id)
                    .ok_or_else(|| Error::new(ErrorKind::NoTable, format!("relation with OID {id} does not exist")))?;
                let Sequence { name, schema, owner, .. } = sequence.as_ref().clone();
                *sequence = Arc::new(Sequence { name, schema, owner, ..changed.clone() });
            }
            PrivateEdit::RenameSequence(id, name) => {
                crate::table::check_name("sequence", name)?;
                let missing = || Error::new(ErrorKind::NoTable, format!("relation with OID {id} does not exist"));
                let schema = self.sequences.get(id).ok_or_else(missing)?.schema;
                self.check_name(schema, name, &is_taken)?;
                if let Some(sequence) = self.sequences.get_mut(id) {
                    name.clone_into(&mut Arc::make_mut(sequence).name);
                }
            }
            PrivateEdit::OwnSequence(id, owner) => {
                let sequence = self
                    .sequences
                    .get_mut(id)
                    .ok_or_else(|| Error::new(ErrorKind::NoTable, format!("relation with OID {id} does not exist")))?;
                Arc::make_mut(sequence).owner = *owner;
            }
            PrivateEdit::DropSequence(id) => {
                self.sequences
                    .remove(id)
                    .ok_or_else(|| Error::new(ErrorKind::NoTable, format!("relation with OID {id} does not exist")))?;
                self.spare.insert(*id);
                self.rights.remove(id);
            }
            PrivateEdit::CreateView(view) => {
                self.check_name(view.schema, &view.name, &is_taken)?;
                self.check_room(1, std::iter::once(view.sql.len()))?;
                if view.space().is_some_and(|space| space != view.id) {
                    return Err(no_space(view.kind(), &view.name));
                }
                if !self.spare.remove(&view.id) {
                    take_oid(view.id)?;
                }
                self.views.insert(view.id, Arc::new(view.as_ref().clone()));
            }
            PrivateEdit::AlterView(change) => self.alter_view(&change.0, &change.1, is_taken)?,
            PrivateEdit::DropView(id) => {
                let view = self
                    .views
                    .remove(id)
                    .ok_or_else(|| Error::new(ErrorKind::NoTable, format!("relation with OID {id} does not exist")))?;
                self.spare.extend(view.space());
                self.rights.remove(id);
            }
            PrivateEdit::CreateSchema(schema) => {
                self.check_schema_name(&schema.name)?;
                self.check_room(1, std::iter::empty())?;
                if !self.spare.remove(&schema.id) {
                    take_oid(schema.id)?;
                }
                self.schemas.insert(schema.id, Arc::new(schema.clone()));
            }
            PrivateEdit::AlterSchema(change) => self.alter_schema(&change.0, &change.1)?,
            PrivateEdit::DropSchema(id) => self.drop_schema(*id)?,
            PrivateEdit::CreateEnum(new) => self.create_enum(new, take_oid)?,
            PrivateEdit::AlterEnum(change) => self.alter_enum(&change.0, &change.1)?,
            PrivateEdit::DropEnum(id) => self.drop_enum(*id)?,
            PrivateEdit::CreateDomain(new) => self.create_domain(new, take_oid)?,
            PrivateEdit::AlterDomain(change) => self.alter_domain(change)?,
            PrivateEdit::DropDomain(id) => self.drop_domain(*id)?,
            PrivateEdit::SetSchema(oids, schema) => self.set_schema(oids, *schema, is_taken)?,
            PrivateEdit::CreateProto(descriptor) => {
                proto::check_new(&self.protos, descriptor)?;
                if !self.spare.remove(&descriptor.id) {
                    take_oid(descriptor.id)?;
                }
                self.protos.insert(descriptor.id, Arc::new(descriptor.as_ref().clone()));
            }
            PrivateEdit::ReplaceProto(descriptor) => {
                proto::replace(&mut self.protos, descriptor)?;
                proto::replace_in(&mut self.tables, descriptor, false)?;
            }
            PrivateEdit::DropProto(id) => {
                let descriptor = proto::remove(&mut self.protos, *id)?;
                proto::check_unused(self.tables.values(), &descriptor, false)?;
                self.rights.remove(id);
            }
            PrivateEdit::Forget(spaces) => self.spare.retain(|space| !spaces.contains(space)),
            PrivateEdit::Own(oid, role) => self.own(*oid, *role),
            PrivateEdit::MoveRights(from, to) => {
                if let Some(rights) = self.rights.remove(from) {
                    self.rights.insert(*to, rights);
                }
            }
            PrivateEdit::SetOwner(oids, role) => {
                for oid in oids {
                    Arc::make_mut(self.rights.entry(*oid).or_default()).set_owner(*role);
                }
            }
            PrivateEdit::ChangeList(of, change) => self.change_list(*of, change)?,
            PrivateEdit::Erase(erasure) => erasure::add(&mut self.erasures, erasure.as_ref().clone())?,
            PrivateEdit::SetRights(rights, defaults) => {
                self.rights.extend(rights.iter().map(|(oid, rights)| (*oid, Arc::new(rights.clone()))));
                self.defaults.extend(defaults.iter().map(|(role, defaults)| (*role, Arc::new(defaults.clone()))));
            }
        }
        Ok(())
    }

    fn alter(&mut self, before: &Table, after: &Table, is_taken: impl Fn(&str) -> bool) -> Result<()> {
        if self.tables.get(&before.id).is_none_or(|now| **now != *before) {
            let message = format!("relation \"{}\" was changed by another at the same moment", before.name);
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        if after.id != before.id {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!("the number of table \"{}\" cannot change", after.name),
            ));
        }
        if (&after.name, after.schema) != (&before.name, before.schema) {
            self.check_name(after.schema, &after.name, is_taken)?;
        }
        check(after)?;
        self.check_room(0, table_texts(after))?;
        if after.space != before.space {
            if !after.space.is_some_and(|space| self.spare.remove(&space)) {
                return Err(no_space("table", &after.name));
            }
            self.spare.extend(before.space);
        } else if after.key != before.key && !same_keys(before, after) {
            let message = format!("where rows of table \"{}\" are stored cannot change", after.name);
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        self.tables.insert(after.id, Arc::new(after.clone()));
        Ok(())
    }

    fn alter_view(&mut self, before: &SqlView, after: &SqlView, is_taken: impl Fn(&str) -> bool) -> Result<()> {
        if self.views.get(&before.id).is_none_or(|now| **now != *before) || after.id != before.id {
            let message = format!("relation \"{}\" was changed by another at the same moment", before.name);
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        if (&after.name, after.schema) != (&before.name, before.schema) {
            self.check_name(after.schema, &after.name, is_taken)?;
        }
        self.check_room(0, std::iter::once(after.sql.len()))?;
        if after.space() != before.space() {
            if after.space().is_some_and(|space| !self.spare.remove(&space)) {
                return Err(no_space(after.kind(), &after.name));
            }
            self.spare.extend(before.space());
        }
        self.views.insert(after.id, Arc::new(after.clone()));
        Ok(())
    }

    /// The kind of an object with rights. What is not the tenant's own is a shared table, or the schema `public`.
    pub fn kind_of(&self, oid: u32) -> ObjectKind {
        match oid {
            PUBLIC_SCHEMA => ObjectKind::Schema,
            oid if self.schemas.contains_key(&oid) => ObjectKind::OwnSchema,
            oid if self.sequences.contains_key(&oid) => ObjectKind::Sequence,
            _ => ObjectKind::Relation,
        }
    }

    /// The rights on an object.
    pub fn rights_on(&self, oid: u32) -> ObjectRights {
        self.rights.get(&oid).map(|rights| rights.as_ref().clone()).unwrap_or_default()
    }

    /// The sequence of a column belongs to the owner of its table, whoever made it.
    fn own(&mut self, oid: u32, role: u32) {
        let table = self.sequences.get(&oid).and_then(|sequence| sequence.owner);
        let owner = table.and_then(|(table, _)| self.rights.get(&table.0)?.owner).unwrap_or(role);
        let schema = self.schema_of(oid).unwrap_or(PUBLIC_SCHEMA);
        let items = self.defaults.get(&owner).and_then(|defaults| defaults.items(owner, self.kind_of(oid), schema));
        self.rights.insert(oid, Arc::new(ObjectRights { owner: Some(owner), items }));
    }

    fn change_list(&mut self, of: ListOf, change: &ListChange) -> Result<()> {
        match of {
            ListOf::Object(oid) => {
                let (mut rights, kind) = (self.rights_on(oid), self.kind_of(oid));
                rights.items = Some(rights::changed(rights.items(kind), rights.owner(), change)?);
                self.rights.insert(oid, Arc::new(rights));
            }
            ListOf::Default { role, kind, in_schema } => {
                let mut defaults = self.defaults.get(&role).map(|found| found.as_ref().clone()).unwrap_or_default();
                defaults.change(role, kind, in_schema, change)?;
                if defaults.lists.is_empty() {
                    self.defaults.remove(&role);
                } else {
                    self.defaults.insert(role, Arc::new(defaults));
                }
            }
        }
        Ok(())
    }

    /// Checks that there is room for more relations, and for texts of these lengths. Definitions stay in memory, in
    /// each version of the catalog and from each start on.
    fn check_room(&self, more: usize, texts: impl Iterator<Item = usize>) -> Result<()> {
        let too_much = |message: String| Err(Error::new(ErrorKind::TooMuch, message));
        let count = self.tables.len() + self.sequences.len() + self.views.len() + self.schemas.len();
        if count + more > RELATIONS_MAX {
            return too_much(format!("a database has at most {RELATIONS_MAX} tables, views and sequences of its own"));
        }
        let (mut longest, mut sum) = (0, 0);
        texts.for_each(|bytes| (longest, sum) = (longest.max(bytes), sum + bytes));
        if longest > DEFINITION_BYTES_MAX {
            return too_much(format!("a definition has more than {} KiB of text", DEFINITION_BYTES_MAX >> 10));
        }
        // Short ones have room by the number of relations.
        if sum > SHORT_TEXT_BYTES {
            let tables = self.tables.values().flat_map(|table| table_texts(table));
            let domains = self.domains.values().map(|domain| domain.bytes());
            let all = tables.chain(self.views.values().map(|view| view.sql.len())).chain(domains).sum::<usize>() + sum;
            if all > DEFINITIONS_BYTES_MAX {
                let message =
                    format!("the definitions of a database have more than {} MiB", DEFINITIONS_BYTES_MAX >> 20);
                return too_much(message);
            }
        }
        Ok(())
    }

    fn check_name(&self, schema: u32, name: &str, is_taken: impl Fn(&str) -> bool) -> Result<()> {
        if self.schema_name(schema).is_none() {
            return Err(Error::new(ErrorKind::NoSchema, format!("schema with OID {schema} does not exist")));
        }
        if self.has_within(schema, name) || (schema == PUBLIC_SCHEMA && is_taken(name)) {
            return Err(Error::new(ErrorKind::TableExists, format!("relation \"{name}\" already exists")));
        }
        Ok(())
    }

    /// The spaces that tables, sequences and materialized views use.
    pub fn used_spaces(&self) -> BTreeSet<u32> {
        let tables = self.tables.values().filter_map(|table| table.space);
        let views = self.views.values().filter_map(|view| view.space());
        tables.chain(views).chain(self.sequences.keys().copied()).collect()
    }

    /// The tables that have rows in a space, those of materialized views among them.
    pub fn with_rows(&self) -> impl Iterator<Item = &Table> {
        let views = self.views.values().filter_map(|view| view.materialized.as_deref());
        self.tables.values().map(Arc::as_ref).chain(views.filter(|table| table.space.is_some()))
    }
}

fn no_space(kind: &str, name: &str) -> Error {
    Error::new(ErrorKind::Invalid, format!("the new rows of {kind} \"{name}\" have no space of their own"))
}

/// Whether rows have the same key bytes in both: only names and lengths of text types differ.
fn same_keys(before: &Table, after: &Table) -> bool {
    let (old, new) = (&before.key, &after.key);
    old.encoding == new.encoding
        && old.salt == new.salt
        && old.parts.len() == new.parts.len()
        && old.parts.iter().zip(&new.parts).all(|(old, new)| old.order == new.order)
}

/// The lengths of the expressions that a table's definition holds.
fn table_texts(table: &Table) -> impl Iterator<Item = usize> {
    let defaults = table.columns.iter().filter_map(|column| column.default.as_ref()).map(|default| default.sql.len());
    let messages = table.columns.iter().filter_map(|column| Some(column.message()?.bytes()));
    defaults.chain(table.checks.iter().map(|check| check.sql.len())).chain(messages)
}

fn check(table: &Table) -> Result<()> {
    if table.space.is_none() {
        return Err(Error::new(ErrorKind::Invalid, format!("table \"{}\" is not private", table.name)));
    }
    table.key.check()
}

mod domains;
mod enum_types;
mod schemas;

/// The store's table that all private tables share.
pub(crate) fn private_table() -> TableName {
    TableName::new(PRIVATE_TABLE).expect("the constant is a name")
}

/// The schema of the store's table: the family of private tables, which keeps one version, and the marker's.
pub(crate) fn private_schema() -> TableSchema {
    let family = || Family { gc: GcRule::MaxVersions(1), aggregate: None };
    let name = keyspan_storage::FamilyName::new(crate::table::DEFAULT_FAMILY).expect("the constant is a name");
    TableSchema::of([(name, family()), (crate::table::marker_family(), family())])
}

/// The key prefix of a space.
pub fn space_span(tenant: &TenantId, space: u32) -> Bytes {
    let mut digits = itoa::Buffer::new();
    let space = digits.format(space).as_bytes();
    [tenant.as_str().as_bytes(), &[TENANT_DELIMITER], space, &[TENANT_DELIMITER]].concat().into()
}
