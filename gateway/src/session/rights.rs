//! What the session's role may do, by the newest catalog; what only the session's transaction has made, by that.

use super::Session;
use crate::{
    pg::error::{Result, SqlError, SqlState},
    rights::{self, Grantee, Needs},
};
use keyspan_catalog::{Privileges, Snapshot, TenantId, rights::PUBLIC_SCHEMA};
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

    /// Checks that the role has the rights of the owner of a relation, or, to drop it, of the schema's.
    ///
    /// # Errors
    /// 42501.
    pub(crate) fn check_owner(&self, oid: u32, drops: bool) -> Result<()> {
        let Some((role, tenant)) = self.limited() else { return Ok(()) };
        let catalog = self.deciding(tenant, oid);
        let database = keyspan_catalog::rights::DATABASE_OWNER;
        if self.owns(oid) || (drops && catalog.has_rights_of(Some(tenant), role, database)) {
            return Ok(());
        }
        Err(rights::not_owner(&catalog, tenant, oid))
    }

    /// Checks that the role may make relations in the schema `public`.
    ///
    /// # Errors
    /// 42501.
    pub(crate) fn check_create(&self) -> Result<()> {
        let Some((role, tenant)) = self.limited() else { return Ok(()) };
        let newest = self.instance.catalog.snapshot();
        if newest.rights_of(tenant, role, PUBLIC_SCHEMA).0.has(Privileges::CREATE) {
            return Ok(());
        }
        Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, "permission denied for schema public"))
    }
}
