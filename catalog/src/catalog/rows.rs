//! The rows of the catalog's table: how objects are encoded, how a difference of two snapshots becomes writes, and how
//! rows become a snapshot.
//!
//! ```text
//! key                 family "c", qualifier ""; a value in JSON
//! version             {"format": 2, "version": 7, "next_oid": 16391, "mock_nonce": [7, …]}    every edit writes it
//! tenant#alto         a Tenant
//! table#16390         a Table
//! role#ana            a Role
//! server#16399        a Server
//! private_table#alto#16391   a Table of the tenant's own
//! private_sequence#alto#16393   a Sequence of the tenant's own
//! private_view#alto#16394   a SqlView of the tenant's own
//! proto#16395         a ProtoDescriptor of the operator's
//! private_schema#alto#16397   a Schema of the tenant's own
//! private_enum#alto#16398   an EnumType of the tenant's own
//! private_domain#alto#16398 a Domain of the tenant's own
//! private_proto#alto#16396   a ProtoDescriptor of the tenant's own
//! private_space#alto#16392   true: a spare space of the tenant
//! private_rights#alto#16391   an ObjectRights: owner of and rights on a relation or a schema, in the tenant's database
//! private_defaults#alto#16401   a DefaultRights: the rights on what a role makes there
//! private_erasure#alto#00000000000000000001   an Erasure of the tenant's rows
//! drop#0000016385     a DropCertificate
//! erasure#00000000000000000001   an Erasure of shared tables
//! pending#flights-16390   true: a table of the store that is being created or dropped; for one on a server, the
//!                         RemoteTable
//! ```

use super::CATALOG_TABLE;
use crate::snapshot::format::{BITS_FORMAT, FIRST_FORMAT};
use crate::{
    Domain, DropCertificate, EnumType, Erasure, Error, ErrorKind, MockNonce, ObjectRights, Private, ProtoDescriptor,
    RemoteTable, Result, Role, Schema, Sequence, Server, Snapshot, SqlView, Table, TableId, Tenant, TenantId,
    rights::DefaultRights,
};
use bytes::Bytes;
use keyspan_storage::{Family, FamilyName, GcRule, Mutation, Row, RowKey, RowMutation, TableName, TableSchema, Write};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    collections::BTreeMap,
    str::FromStr,
    sync::{Arc, Mutex, PoisonError},
};

/// The latest format that is read; [`Snapshot::format`] says which is written.
const FORMAT: u32 = BITS_FORMAT;
const FAMILY: &str = "c";

/// The version row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Version {
    format: u32,
    version: u64,
    next_oid: u32,
    /// Stores of earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mock_nonce: Option<MockNonce>,
}

impl Version {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let Snapshot { format, version, next_oid, mock_nonce, .. } = *snapshot;
        Self { format, version, next_oid, mock_nonce }
    }

    /// Reads the version row; without one the catalog is empty.
    pub(super) fn read(row: Option<&Row>) -> Result<Self> {
        let Some(row) = row else { return Ok(Self::of(&Snapshot::default())) };
        let version: Self = decode(row)?;
        if !(FIRST_FORMAT..=FORMAT).contains(&version.format) {
            let formats = format!("{FIRST_FORMAT} to {FORMAT}");
            let message = format!("the catalog has format {}, this program reads {formats}", version.format);
            return Err(Error::new(ErrorKind::Corrupt, message));
        }
        Ok(version)
    }
}

/// The catalog's table in the store.
pub(crate) fn catalog_table() -> TableName {
    TableName::new(CATALOG_TABLE).expect("the constant is a name")
}

pub(super) fn catalog_schema() -> TableSchema {
    let family = Family { gc: GcRule::MaxVersions(1), aggregate: None };
    TableSchema::of([(family_name(), family)])
}

fn family_name() -> FamilyName {
    FamilyName::new(FAMILY).expect("the constant is a name")
}

fn key(text: String) -> RowKey {
    RowKey::new(text).expect("names in the catalog are shorter than keys may be")
}

pub(super) fn version_key() -> RowKey {
    key("version".into())
}

pub(crate) fn tenant_key(id: &TenantId) -> RowKey {
    key(format!("tenant#{id}"))
}

fn table_key(id: TableId) -> RowKey {
    key(format!("table#{}", id.0))
}

pub(crate) fn private_table_key(tenant: &TenantId, id: TableId) -> RowKey {
    key(format!("private_table#{tenant}#{}", id.0))
}

pub(crate) fn private_sequence_key(tenant: &TenantId, id: u32) -> RowKey {
    key(format!("private_sequence#{tenant}#{id}"))
}

fn private_rights_key(tenant: &TenantId, oid: u32) -> RowKey {
    key(format!("private_rights#{tenant}#{oid}"))
}

/// The key prefixes of all erasures: of the tenants and the operator.
pub(super) fn erasures() -> [Bytes; 2] {
    [Bytes::from_static(b"private_erasure#"), Bytes::from_static(b"erasure#")]
}

fn private_erasure_key(tenant: &TenantId, number: u64) -> RowKey {
    key(format!("private_erasure#{tenant}#{number:020}"))
}

fn erasure_key(number: u64) -> RowKey {
    key(format!("erasure#{number:020}"))
}

fn private_defaults_key(tenant: &TenantId, role: u32) -> RowKey {
    key(format!("private_defaults#{tenant}#{role}"))
}

fn private_view_key(tenant: &TenantId, id: u32) -> RowKey {
    key(format!("private_view#{tenant}#{id}"))
}

fn private_schema_key(tenant: &TenantId, id: u32) -> RowKey {
    key(format!("private_schema#{tenant}#{id}"))
}

fn private_proto_key(tenant: &TenantId, id: u32) -> RowKey {
    key(format!("private_proto#{tenant}#{id}"))
}

fn private_enum_key(tenant: &TenantId, id: u32) -> RowKey {
    key(format!("private_enum#{tenant}#{id}"))
}

fn private_domain_key(tenant: &TenantId, id: u32) -> RowKey {
    key(format!("private_domain#{tenant}#{id}"))
}

pub(crate) fn private_space_key(tenant: &TenantId, space: u32) -> RowKey {
    key(format!("private_space#{tenant}#{space}"))
}

/// The key prefixes of everything that a tenant has defined.
pub(super) fn defined_by(tenant: &TenantId) -> impl Iterator<Item = Bytes> {
    let kinds = [
        "private_table",
        "private_sequence",
        "private_view",
        "private_proto",
        "private_schema",
        "private_enum",
        "private_domain",
        "private_space",
        "private_rights",
        "private_defaults",
        "private_erasure",
    ];
    kinds.into_iter().map(move |kind| format!("{kind}#{tenant}#").into())
}

pub(super) fn pending_key(table: &TableName) -> RowKey {
    key(format!("pending#{table}"))
}

/// Says that a table of the store is being created or dropped.
pub(super) fn pending(table: &Table) -> Write {
    let key = pending_key(&table.physical);
    table.remote.as_ref().map_or_else(|| put(key.clone(), &true), |remote| put(key.clone(), remote))
}

/// The encoded value of a row.
fn bytes(row: &Row) -> Bytes {
    row.newest(FAMILY, b"").map(|cell| cell.value.clone()).unwrap_or_default()
}

/// The decoded value of a row.
pub(crate) fn decode<T: DeserializeOwned>(row: &Row) -> Result<T> {
    serde_json::from_slice(&bytes(row)).map_err(|error| {
        let message = format!("row \"{}\" of the catalog cannot be read", row.key.escape_ascii());
        Error::new(ErrorKind::Corrupt, message).with_detail(error.to_string())
    })
}

/// A cache of the row decoded last, with its bytes: a commit reads the same rows as the commit before it, and they have
/// rarely changed.
#[derive(Debug)]
pub(crate) struct LastDecoded<T>(Mutex<Option<(Bytes, Arc<T>)>>);

impl<T> Default for LastDecoded<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: DeserializeOwned> LastDecoded<T> {
    /// The value of a row.
    ///
    /// # Errors
    /// [`Corrupt`](ErrorKind::Corrupt) for bytes that do not decode.
    pub(crate) fn get(&self, row: &Row) -> Result<Arc<T>> {
        let bytes = bytes(row);
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((seen, value)) = &*last
            && *seen == bytes
        {
            return Ok(Arc::clone(value));
        }
        let value = Arc::new(decode(row)?);
        *last = Some((bytes, Arc::clone(&value)));
        Ok(value)
    }
}

fn write(key: RowKey, mutation: Mutation) -> Write {
    Write::Row { table: catalog_table(), row: RowMutation { key, mutations: vec![mutation] } }
}

/// Writes a value to a row.
pub(super) fn put(key: RowKey, value: &impl Serialize) -> Write {
    let value = serde_json::to_vec(value).expect("what the catalog holds has a form in JSON");
    let value = Bytes::from(value);
    write(key, Mutation::SetCell { family: family_name(), qualifier: Bytes::new(), timestamp: None, value })
}

pub(super) fn delete(key: RowKey) -> Write {
    write(key, Mutation::DeleteFromRow)
}

/// The writes that turn the rows of `before` into those of `after`. Objects that both snapshots share are not written
/// again.
pub(super) fn difference(before: &Snapshot, after: &Snapshot) -> Vec<Write> {
    let mut writes = Vec::new();
    maps(&before.tenants, &after.tenants, tenant_key, &mut writes);
    maps(&before.tables, &after.tables, |id| table_key(*id), &mut writes);
    maps(&before.protos, &after.protos, |id| key(format!("proto#{id}")), &mut writes);
    maps(&before.servers, &after.servers, |id| key(format!("server#{id}")), &mut writes);
    maps(&before.roles, &after.roles, |name| key(format!("role#{name}")), &mut writes);
    private(before, after, &mut writes);
    maps(&before.erasures, &after.erasures, |number| erasure_key(*number), &mut writes);
    let old = |order| before.drops.binary_search_by_key(&order, |certificate| certificate.order()).ok();
    let is_old = |new: &Arc<DropCertificate>| old(new.order()).is_some_and(|at| Arc::ptr_eq(&before.drops[at], new));
    for certificate in after.drops.iter().filter(|certificate| !is_old(certificate)) {
        writes.push(put(key(format!("drop#{:010}", certificate.oid)), certificate.as_ref()));
    }
    writes.push(put(version_key(), &Version::of(after)));
    writes
}

/// The writes for private relations of tenants.
fn private(before: &Snapshot, after: &Snapshot, writes: &mut Vec<Write>) {
    let none = Arc::new(Private::default());
    let gone = before.private.keys().filter(|id| !after.private.contains_key(*id));
    for tenant in gone.chain(after.private.keys()) {
        let old = before.private.get(tenant).unwrap_or(&none);
        let new = after.private.get(tenant).unwrap_or(&none);
        if Arc::ptr_eq(old, new) {
            continue;
        }
        maps(&old.tables, &new.tables, |id| private_table_key(tenant, *id), writes);
        maps(&old.sequences, &new.sequences, |id| private_sequence_key(tenant, *id), writes);
        maps(&old.views, &new.views, |id| private_view_key(tenant, *id), writes);
        maps(&old.protos, &new.protos, |id| private_proto_key(tenant, *id), writes);
        maps(&old.schemas, &new.schemas, |id| private_schema_key(tenant, *id), writes);
        maps(&old.enum_types, &new.enum_types, |id| private_enum_key(tenant, *id), writes);
        maps(&old.domains, &new.domains, |id| private_domain_key(tenant, *id), writes);
        maps(&old.rights, &new.rights, |oid| private_rights_key(tenant, *oid), writes);
        maps(&old.defaults, &new.defaults, |role| private_defaults_key(tenant, *role), writes);
        maps(&old.erasures, &new.erasures, |number| private_erasure_key(tenant, *number), writes);
        let space = |space: &u32| private_space_key(tenant, *space);
        writes.extend(new.spare.difference(&old.spare).map(|spare| put(space(spare), &true)));
        writes.extend(old.spare.difference(&new.spare).map(|spare| delete(space(spare))));
    }
}

fn maps<K: Ord, V: Serialize>(
    before: &BTreeMap<K, Arc<V>>,
    after: &BTreeMap<K, Arc<V>>,
    key: impl Fn(&K) -> RowKey,
    writes: &mut Vec<Write>,
) {
    for (id, value) in after {
        if !before.get(id).is_some_and(|old| Arc::ptr_eq(old, value)) {
            writes.push(put(key(id), value.as_ref()));
        }
    }
    writes.extend(before.keys().filter(|id| !after.contains_key(id)).map(|id| delete(key(id))));
}

/// A snapshot being loaded, and the tables of the store whose creation or drop may be unfinished.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    pub(super) snapshot: Snapshot,
    pub(super) pending: Vec<TableName>,
    /// Those on servers.
    pub(super) pending_remote: Vec<(TableName, RemoteTable)>,
}

impl Loaded {
    /// Adds one row of the catalog's table.
    pub(super) fn take(&mut self, row: &Row) -> Result<()> {
        let snapshot = &mut self.snapshot;
        let key = String::from_utf8_lossy(&row.key).into_owned();
        match key.split_once('#').unwrap_or((&key, "")) {
            ("version", "") => {
                let version = Version::read(Some(row))?;
                (snapshot.version, snapshot.next_oid) = (version.version, version.next_oid);
                (snapshot.mock_nonce, snapshot.format) = (version.mock_nonce, version.format);
            }
            ("tenant", _) => {
                let tenant: Tenant = decode(row)?;
                snapshot.tenants.insert(tenant.id.clone(), Arc::new(tenant));
            }
            ("table", _) => {
                let table: Table = decode(row)?;
                snapshot.tables.insert(table.id, Arc::new(table));
            }
            ("server", _) => {
                let server: Server = decode(row)?;
                snapshot.servers.insert(server.id, Arc::new(server));
            }
            ("private_table", of) => {
                let table: Table = decode(row)?;
                let private = self.private::<u32>(row, of)?.0;
                private.tables.insert(table.id, Arc::new(table));
            }
            ("private_sequence", of) => {
                let sequence: Sequence = decode(row)?;
                let private = self.private::<u32>(row, of)?.0;
                private.sequences.insert(sequence.id, Arc::new(sequence));
            }
            ("private_view", of) => {
                let view: SqlView = decode(row)?;
                let private = self.private::<u32>(row, of)?.0;
                private.views.insert(view.id, Arc::new(view));
            }
            ("proto", _) => {
                let descriptor: ProtoDescriptor = decode(row)?;
                snapshot.protos.insert(descriptor.id, Arc::new(descriptor));
            }
            ("private_proto", of) => {
                let descriptor: ProtoDescriptor = decode(row)?;
                let private = self.private::<u32>(row, of)?.0;
                private.protos.insert(descriptor.id, Arc::new(descriptor));
            }
            ("private_schema", of) => {
                let schema: Schema = decode(row)?;
                let private = self.private::<u32>(row, of)?.0;
                private.schemas.insert(schema.id, Arc::new(schema));
            }
            ("private_enum", of) => {
                let found: EnumType = decode(row)?;
                let private = self.private::<u32>(row, of)?.0;
                private.enum_types.insert(found.id, Arc::new(found));
            }
            ("private_domain", of) => {
                let found: Domain = decode(row)?;
                let private = self.private::<u32>(row, of)?.0;
                private.domains.insert(found.id, Arc::new(found));
            }
            ("private_space", of) => {
                let (private, space) = self.private(row, of)?;
                private.spare.insert(space);
            }
            ("private_rights", of) => {
                let rights: ObjectRights = decode(row)?;
                let (private, oid) = self.private(row, of)?;
                private.rights.insert(oid, Arc::new(rights));
            }
            ("private_defaults", of) => {
                let defaults: DefaultRights = decode(row)?;
                let (private, role) = self.private(row, of)?;
                private.defaults.insert(role, Arc::new(defaults));
            }
            ("private_erasure", of) => {
                let erasure: Erasure = decode(row)?;
                let (private, number) = self.private::<u64>(row, of)?;
                private.erasures.insert(number, Arc::new(erasure));
            }
            ("erasure", number) => {
                let number = number.parse().map_err(|_| unknown_row(row))?;
                snapshot.erasures.insert(number, Arc::new(decode::<Erasure>(row)?));
            }
            ("role", _) => {
                let role: Role = decode(row)?;
                snapshot.roles.insert(role.name.clone(), Arc::new(role));
            }
            ("drop", _) => snapshot.drops.push(Arc::new(decode::<DropCertificate>(row)?)),
            ("pending", name) if &bytes(row)[..] == b"true" => self.pending.push(TableName::new(name)?),
            ("pending", name) => self.pending_remote.push((TableName::new(name)?, decode(row)?)),
            _ => return Err(unknown_row(row)),
        }
        Ok(())
    }

    /// The tenant's private relations and the OID or number, from the key suffix `tenant#oid`.
    fn private<N: FromStr>(&mut self, row: &Row, of: &str) -> Result<(&mut Private, N)> {
        let (tenant, oid) = of.split_once('#').ok_or_else(|| unknown_row(row))?;
        let oid = oid.parse().map_err(|_| unknown_row(row))?;
        let private = self.snapshot.private.entry(TenantId::new(tenant)?).or_default();
        Ok((Arc::make_mut(private), oid))
    }
}

fn unknown_row(row: &Row) -> Error {
    let message = format!("row \"{}\" of the catalog is of no known kind", row.key.escape_ascii());
    Error::new(ErrorKind::Corrupt, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_tenant_has_defined_is_purged_with_it() {
        // Whoever adds a field adds its key below.
        let Private {
            tables: _,
            sequences: _,
            views: _,
            protos: _,
            schemas: _,
            enum_types: _,
            domains: _,
            spare: _,
            rights: _,
            defaults: _,
            erasures: _,
        } = Private::default();
        let tenant = TenantId::new("alto").unwrap();
        let keys = [
            private_table_key(&tenant, TableId(1)),
            private_sequence_key(&tenant, 1),
            private_view_key(&tenant, 1),
            private_proto_key(&tenant, 1),
            private_schema_key(&tenant, 1),
            private_enum_key(&tenant, 1),
            private_domain_key(&tenant, 1),
            private_space_key(&tenant, 1),
            private_rights_key(&tenant, 1),
            private_defaults_key(&tenant, 1),
            private_erasure_key(&tenant, 1),
        ];
        for key in keys {
            let purged = defined_by(&tenant).any(|prefix| key.starts_with(&prefix));
            assert!(purged, "{}", key.escape_ascii());
        }
    }
}
