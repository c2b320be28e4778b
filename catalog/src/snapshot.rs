//! The catalog at one moment. Immutable; changed by a pure function of an [`Edit`](crate::Edit).

use crate::{DropCertificate, Edit, Result, Role, RoleName, Table, TableId, Tenant, TenantId};
use std::{collections::BTreeMap, sync::Arc};

/// The first OID given to a table, tenant or role: PostgreSQL keeps those below for itself.
pub const FIRST_OID: u32 = 16_384;

/// The catalog at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Counts edits.
    pub version: u64,
    /// The number for the next table, tenant or role, from [`FIRST_OID`].
    pub next_oid: u32,
    /// The tenants.
    pub tenants: BTreeMap<TenantId, Arc<Tenant>>,
    /// The tables.
    pub tables: BTreeMap<TableId, Arc<Table>>,
    /// The roles.
    pub roles: BTreeMap<RoleName, Arc<Role>>,
    /// What was dropped, oldest first.
    pub drops: Vec<Arc<DropCertificate>>,
}

impl Snapshot {
    /// The snapshot after the edit.
    ///
    /// # Errors
    /// What the edit contradicts.
    pub fn apply(&self, edit: &Edit) -> Result<Self> {
        let _ = edit;
        todo!()
    }

    /// The table of this name.
    pub fn table(&self, name: &str) -> Option<&Arc<Table>> {
        self.tables.values().find(|table| table.name == name)
    }

    /// The tenant of this name, if it is active.
    pub fn tenant(&self, name: &str) -> Option<&Arc<Tenant>> {
        let found = self.tenants.iter().find(|(id, _)| id.as_str() == name);
        found.map(|(_, tenant)| tenant).filter(|tenant| tenant.state == crate::TenantState::Active)
    }

    /// The role of this name.
    pub fn role(&self, name: &str) -> Option<&Arc<Role>> {
        self.roles.get(name)
    }
}
