//! What the session's role may do, by the newest catalog; what only the session's transaction has made, by that.

use super::Session;
use crate::{
    lookup,
    pg::{
        error::{Result, SqlError},
        names::{RelationName, Schema},
    },
    rights::{self, Grantee, Needs},
};
use keyspan_catalog::{Privileges, Sequence, Snapshot, TenantId, rights::PUBLIC_SCHEMA};
use std::sync::Arc;

impl Session {
    /// Who the session is, as far as rights go.
    pub(crate) fn grantee(&self) -> Grantee<'_> {
        Grantee { role: self.identity.role_oid, tenant: self.identity.rows.tenant() }
    }

    /// Checks that the session's role has the rights that a statement needs.
    ///
    /// # Errors
    /// 42501.
    pub(crate) fn authorize(&self, needs: &Needs) -> Result<()> {
        needs.check(self.grantee(), &self.instance.catalog.snapshot())
    }

    /// The role and the tenant of a session that rights are asked of.
    pub(crate) fn limited(&self) -> Option<(u32, &TenantId)> {
        self.identity.role_oid.zip(self.identity.rows.tenant())
    }

    /// The catalog that decides about a relation, or the schema.
    pub(crate) fn deciding(&self, tenant: &TenantId, oid: u32) -> Arc<Snapshot> {
        let newest = self.instance.catalog.snapshot();
        let own = newest.private_of(Some(tenant)).is_some_and(|own| own.has_oid(oid));
        let known = own || oid == PUBLIC_SCHEMA || newest.tables.contains_key(&keyspan_catalog::TableId(oid));
        if known { newest } else { self.catalog_snapshot() }
    }

    /// Whether the role has the rights of the owner of a relation.
    pub(crate) fn owns(&self, oid: u32) -> bool {
        let Some((role, tenant)) = self.limited() else { return true };
        let catalog = self.deciding(tenant, oid);
        catalog.temporary.has_oid(oid) || catalog.has_rights_of(Some(tenant), role, catalog.owner_of(Some(tenant), oid))
    }

    /// Checks that the role has the rights of the owner of an object, or, to drop a relation, of its schema's.
    ///
    /// # Errors
    /// 42501.
    pub(crate) fn check_owner(&self, oid: u32, drops: bool) -> Result<()> {
        let Some((role, tenant)) = self.limited() else { return Ok(()) };
        let catalog = self.deciding(tenant, oid);
        let of_schema = || catalog.owner_of(Some(tenant), catalog.schema_of(Some(tenant), oid));
        if self.owns(oid) || (drops && catalog.has_rights_of(Some(tenant), role, of_schema())) {
            return Ok(());
        }
        Err(rights::not_owner(&catalog, tenant, oid))
    }

    /// Checks that the role may make relations in a schema.
    ///
    /// # Errors
    /// 42501; 3F000 for a schema that does not exist.
    pub(crate) fn check_create(&self, schema: &Schema) -> Result<()> {
        let Some((role, tenant)) = self.limited() else { return Ok(()) };
        let oid = lookup::schema_oid(&self.catalog_snapshot(), Some(tenant), schema).ok_or_else(|| schema.missing())?;
        let catalog = self.deciding(tenant, oid);
        if catalog.rights_of(tenant, role, oid).0.has(Privileges::CREATE) {
            return Ok(());
        }
        Err(rights::denied(&catalog, tenant, oid))
    }

    /// The schema in which a statement makes a relation of a name.
    ///
    /// # Errors
    /// 3F000 for a schema that does not exist, or if none is selected; 42501 for one of the server's.
    pub(crate) fn place_of(&self, name: &RelationName) -> Result<Schema> {
        match &name.schema {
            None => self.search_path().first(),
            Some(schema) => {
                let found = lookup::schema_oid(&self.catalog_snapshot(), self.identity.rows.tenant(), schema);
                found.map(|_| schema.clone()).ok_or_else(|| schema.missing())
            }
        }
    }

    /// 3F000 for a name in a schema that does not exist, else 42P01 for a relation, a table, ….
    pub(crate) fn missing(&self, name: &RelationName, what: &str) -> SqlError {
        self.place_of(name).err().filter(|_| name.schema.is_some()).unwrap_or_else(|| name.missing(what))
    }

    /// The sequence of a name, of those that the tenant has.
    pub(crate) fn find_sequence(&self, name: &RelationName) -> Option<Arc<Sequence>> {
        let snapshot = self.catalog_snapshot();
        lookup::sequence(&snapshot, self.identity.rows.tenant(), &self.search_path(), name).cloned()
    }
}
