//! Changes of the catalog, as values.

use crate::{DropCertificate, PrivateEdit, Quotas, Role, RoleName, Table, TableId, Tenant, TenantId};
use serde::{Deserialize, Serialize};

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Edit {
    /// A new tenant.
    CreateTenant(Tenant),
    /// What the tenant's sessions may take is changed.
    SetQuotas(TenantId, Quotas),
    /// What is said of the tenant's database; `None` for nothing.
    CommentTenant(TenantId, Option<String>),
    /// The tenant becomes invisible.
    BeginDropTenant(TenantId),
    /// The tenant's rows are gone.
    FinishDropTenant(DropCertificate),
    /// The purge of dropped tenants, named by their numbers, begins at a time in microseconds. Those that it began for before keep their
    /// time.
    BeginPurge(Vec<u32>, i64),
    /// Their bytes are gone, at a time in microseconds.
    FinishPurge(Vec<u32>, i64),
    /// A new table.
    CreateTable(Table),
    /// A table with its definition changed.
    AlterTable(Table),
    /// A table goes, with its rows.
    DropTable(TableId),
    /// Changes of what a tenant, named with its number, has made for itself: all of them or none.
    ChangePrivate(TenantId, u32, Vec<PrivateEdit>),
    /// A new role.
    CreateRole(Role),
    /// A role changed.
    AlterRole(Role),
    /// A role goes.
    DropRole(RoleName),
    /// The role may connect to the tenant's database.
    GrantConnect(RoleName, TenantId),
    /// It may no longer.
    RevokeConnect(RoleName, TenantId),
}
