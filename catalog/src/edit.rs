//! Changes of the catalog, as values. [`Snapshot::apply`](crate::Snapshot::apply) applies them;
//! [`Catalog::commit`](crate::Catalog::commit) stores them.

use crate::{
    DropCertificate, Erasure, MockNonce, PrivateEdit, ProtoDescriptor, Quotas, Role, RoleName, Server, SettingDefaults,
    Table, TableId, Tenant, TenantId, erasure::ErasureStep,
};
use serde::{Deserialize, Serialize};

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Edit {
    /// A new tenant.
    CreateTenant(Tenant),
    /// The tenant, given by id and OID, has all of its relations and rows: it becomes usable.
    FinishCreateTenant(TenantId, u32),
    /// The creation of the tenant, given by id and OID, is given up: the tenant is to be dropped.
    AbandonTenant(TenantId, u32),
    /// New quotas for the tenant's sessions.
    SetQuotas(TenantId, Quotas),
    /// What sessions in the tenant's database begin with.
    SetTenantSettings(TenantId, SettingDefaults),
    /// A new comment on the tenant's database; `None` removes it.
    CommentTenant(TenantId, Option<String>),
    /// A new owner of the tenant's database, given by OID.
    SetTenantOwner(TenantId, u32),
    /// Gives each tenant without an owner a role of its own as one, whose members are all who may connect.
    GiveOwners,
    /// The tenant becomes invisible.
    BeginDropTenant(TenantId),
    /// The tenant's rows are deleted; the tenant leaves a certificate.
    FinishDropTenant(DropCertificate),
    /// The purge of dropped tenants, given by OID, begins at a timestamp in microseconds. Those whose purge began
    /// before keep their timestamp.
    BeginPurge(Vec<u32>, i64),
    /// The purge of these tenants is complete, at a timestamp in microseconds.
    FinishPurge(Vec<u32>, i64),
    /// A step of the purge of erasures, given by number: of a tenant, or of the operator.
    StepErasures(Vec<(Option<TenantId>, u64)>, ErasureStep),
    /// A new table.
    CreateTable(Table),
    /// A table with a new definition.
    AlterTable(Table),
    /// A table with a new definition, which lacks columns or families: their cells are erased.
    EraseFromTable(Box<(Table, Vec<Erasure>)>),
    /// Drops a table with its rows.
    DropTable(TableId),
    /// A new server. Its OID is the catalog's next.
    CreateServer(Server),
    /// Drops a server, by OID, that no table is on.
    DropServer(u32),
    /// A new protobuf descriptor of the operator's. Its OID is the catalog's next.
    CreateProto(ProtoDescriptor),
    /// A descriptor of the operator's with other files, which the tables that use it get.
    ReplaceProto(ProtoDescriptor),
    /// Drops a descriptor of the operator's, by OID.
    DropProto(u32),
    /// Changes of the private relations of a tenant, given by id and OID: all of them or none.
    ChangePrivate(TenantId, u32, Vec<PrivateEdit>),
    /// A new role.
    CreateRole(Role),
    /// A role with new attributes.
    AlterRole(Role),
    /// Drops a role.
    DropRole(RoleName),
    /// The role may connect to the tenant's database.
    GrantConnect(RoleName, TenantId),
    /// The role may no longer connect to the tenant's database.
    RevokeConnect(RoleName, TenantId),
    /// A role, given by name, becomes a member of another, given by OID; with the right to make others members, or
    /// without changing that.
    GrantRole(u32, RoleName, bool),
    /// A role is no longer a member of another, given by OID; or only loses the right to make others members.
    RevokeRole(u32, RoleName, bool),
    /// Random bytes for a store that has none; one that has some keeps them.
    SetMockNonce(MockNonce),
}
