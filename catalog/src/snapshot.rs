//! The catalog at one version. Immutable: [`Snapshot::apply`], a pure function, makes the next snapshot from an
//! [`Edit`].

use crate::{
    DropCertificate, Edit, Erasure, Erasures, Error, ErrorKind, MockNonce, Private, PrivateEdit, ProtoDescriptor,
    ProtoMessage, Quotas, Relation, Result, Role, RoleName, Server, SettingDefaults, SqlView, Table, TableId, Tenant,
    TenantId, TenantState,
    erasure::{self, ErasureStep},
    proto::objects as proto,
    sql_view,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

pub(crate) mod format;
mod rights;
mod servers;

/// The first OID of a table, tenant or role: PostgreSQL reserves those below.
pub const FIRST_OID: u32 = 16_384;
/// Length limit of a role's name in bytes.
const ROLE_NAME_BYTES_MAX: usize = 63;

/// The catalog at one version.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// The number of edits before this snapshot.
    pub version: u64,
    /// The next free OID, from [`FIRST_OID`].
    pub next_oid: u32,
    /// The tenants.
    pub tenants: BTreeMap<TenantId, Arc<Tenant>>,
    /// The shared tables.
    pub tables: BTreeMap<TableId, Arc<Table>>,
    /// The private relations of tenants.
    pub private: BTreeMap<TenantId, Arc<Private>>,
    /// The temporary relations of a session: only in its own snapshots, never stored. Every change is checked against
    /// these views too, as against those of the tenant.
    pub temporary: Arc<Private>,
    /// The operator's protobuf descriptors, by OID.
    pub protos: BTreeMap<u32, Arc<ProtoDescriptor>>,
    /// The servers, by OID.
    pub servers: BTreeMap<u32, Arc<Server>>,
    /// The roles.
    pub roles: BTreeMap<RoleName, Arc<Role>>,
    /// The certificates of dropped tenants, oldest first.
    pub drops: Vec<Arc<DropCertificate>>,
    /// What was erased of shared tables, all tenants' rows.
    pub erasures: Erasures,
    /// For the salts of roles without a password; `None` in a store that no server of this version has served.
    pub mock_nonce: Option<MockNonce>,
    /// The format in which it is stored: the least that has all that was ever in it, so that programs that read no
    /// later one refuse it.
    pub format: u32,
}

impl Default for Snapshot {
    /// An empty catalog.
    fn default() -> Self {
        Self {
            version: 0,
            next_oid: FIRST_OID,
            tenants: BTreeMap::new(),
            tables: BTreeMap::new(),
            private: BTreeMap::new(),
            temporary: Arc::default(),
            protos: BTreeMap::new(),
            servers: BTreeMap::new(),
            roles: BTreeMap::new(),
            drops: Vec::new(),
            erasures: Erasures::new(),
            mock_nonce: None,
            format: format::FIRST_FORMAT,
        }
    }
}

impl Snapshot {
    /// The snapshot after the edit.
    ///
    /// # Errors
    /// When the edit contradicts the catalog: a name is taken, an object does not exist or is in use, a definition is
    /// invalid.
    pub fn apply(&self, edit: &Edit) -> Result<Self> {
        let mut next = self.clone();
        next.version += 1;
        match edit {
            Edit::CreateTenant(tenant) => next.create_tenant(tenant)?,
            Edit::FinishCreateTenant(id, oid) => next.end_creation(id, *oid, TenantState::Active)?,
            Edit::AbandonTenant(id, oid) => next.end_creation(id, *oid, TenantState::Dropping)?,
            Edit::SetQuotas(id, quotas) => next.set_quotas(id, *quotas)?,
            Edit::SetTenantSettings(id, settings) => next.set_tenant_settings(id, settings)?,
            Edit::CommentTenant(id, comment) => next.comment_tenant(id, comment.clone())?,
            Edit::SetTenantOwner(id, owner) => next.set_tenant_owner(id, *owner)?,
            Edit::GiveOwners => next.give_owners()?,
            Edit::BeginDropTenant(id) => next.begin_drop_tenant(id)?,
            Edit::FinishDropTenant(certificate) => next.finish_drop_tenant(certificate)?,
            Edit::BeginPurge(oids, at) => {
                next.purge(oids, |drop| drop.purging_micros = drop.purging_micros.or(Some(*at)))?
            }
            Edit::FinishPurge(oids, at) => next.purge(oids, |drop| drop.purged_micros = Some(*at))?,
            Edit::CreateTable(table) => next.create_table(table)?,
            Edit::StepErasures(erasures, step) => next.step_erasures(erasures, *step),
            Edit::AlterTable(table) => next.alter_table(table)?,
            Edit::EraseFromTable(change) => {
                next.alter_table(&change.0)?;
                change.1.iter().try_for_each(|erasure| erasure::add(&mut next.erasures, erasure.clone()))?;
            }
            Edit::DropTable(id) => {
                next.tables.remove(id).ok_or_else(|| no_table(*id))?;
                next.forget_rights(id.0);
                next.check_views(self)?;
            }
            Edit::CreateServer(server) => next.create_server(server)?,
            Edit::DropServer(id) => next.drop_server(*id)?,
            Edit::CreateProto(descriptor) => {
                proto::check_new(&next.protos, descriptor)?;
                next.take_oid(descriptor.id)?;
                next.protos.insert(descriptor.id, Arc::new(descriptor.clone()));
            }
            Edit::ReplaceProto(descriptor) => next.replace_proto(descriptor)?,
            Edit::DropProto(id) => {
                let descriptor = proto::remove(&mut next.protos, *id)?;
                let own = next.private.values().flat_map(|private| private.tables.values());
                proto::check_unused(next.tables.values().chain(own), &descriptor, true)?;
            }
            Edit::ChangePrivate(tenant, oid, edits) => next.change_private(tenant, *oid, edits)?,
            Edit::CreateRole(role) => next.create_role(role)?,
            Edit::AlterRole(role) => next.alter_role(role)?,
            Edit::DropRole(name) => next.drop_role(name)?,
            Edit::GrantConnect(role, tenant) => next.grant(role, tenant)?,
            Edit::RevokeConnect(role, tenant) => next.revoke(role, tenant)?,
            Edit::GrantRole(oid, member, admin) => next.grant_role(*oid, member, *admin)?,
            Edit::RevokeRole(oid, member, admin) => next.revoke_role(*oid, member, *admin)?,
            Edit::SetMockNonce(nonce) => next.mock_nonce = next.mock_nonce.or(Some(*nonce)),
        }
        next.raise_format();
        Ok(next)
    }

    /// Allocates an OID that was never used before.
    fn take_oid(&mut self, oid: u32) -> Result<()> {
        if oid < self.next_oid {
            return Err(Error::new(ErrorKind::Invalid, format!("number {oid} was given before")));
        }
        let used_up = || Error::new(ErrorKind::Invalid, "every number for tables, tenants and roles was given");
        self.next_oid = oid.checked_add(1).ok_or_else(used_up)?;
        Ok(())
    }

    fn create_tenant(&mut self, tenant: &Tenant) -> Result<()> {
        if let Some(found) = self.tenants.get(&tenant.id) {
            let error = Error::new(ErrorKind::TenantExists, format!("database \"{}\" already exists", tenant.id));
            return Err(match found.state {
                TenantState::Active => error,
                TenantState::Creating => error.with_detail("It is being created."),
                TenantState::Dropping => error.with_detail("It is being dropped."),
            });
        }
        if let Some(owner) = tenant.owner {
            self.check_role(owner)?;
        }
        self.take_oid(tenant.oid)?;
        self.tenants.insert(tenant.id.clone(), Arc::new(tenant.clone()));
        Ok(())
    }

    fn end_creation(&mut self, id: &TenantId, oid: u32, state: TenantState) -> Result<()> {
        let found = self.tenants.get(id).filter(|tenant| tenant.oid == oid && tenant.state == TenantState::Creating);
        let ended = Tenant { state, ..found.ok_or_else(|| no_tenant(id))?.as_ref().clone() };
        self.tenants.insert(id.clone(), Arc::new(ended));
        Ok(())
    }

    fn set_quotas(&mut self, id: &TenantId, quotas: Quotas) -> Result<()> {
        let tenant = self.tenant(id.as_str()).ok_or_else(|| no_tenant(id))?;
        let bounded = Tenant { quotas, ..tenant.as_ref().clone() };
        self.tenants.insert(id.clone(), Arc::new(bounded));
        Ok(())
    }

    fn set_tenant_settings(&mut self, id: &TenantId, settings: &SettingDefaults) -> Result<()> {
        let tenant = self.tenant(id.as_str()).ok_or_else(|| no_tenant(id))?;
        let changed = Tenant { settings: settings.clone(), ..tenant.as_ref().clone() };
        self.tenants.insert(id.clone(), Arc::new(changed));
        Ok(())
    }

    fn comment_tenant(&mut self, id: &TenantId, comment: Option<String>) -> Result<()> {
        let tenant = self.tenant(id.as_str()).ok_or_else(|| no_tenant(id))?;
        let commented = Tenant { comment, ..tenant.as_ref().clone() };
        self.tenants.insert(id.clone(), Arc::new(commented));
        Ok(())
    }

    /// Also revokes every role's right to connect and removes its settings there: a tenant created later under this
    /// name is a different one.
    fn begin_drop_tenant(&mut self, id: &TenantId) -> Result<()> {
        let tenant = self.tenant(id.as_str()).ok_or_else(|| no_tenant(id))?;
        let dropping = Tenant { state: TenantState::Dropping, ..tenant.as_ref().clone() };
        self.tenants.insert(id.clone(), Arc::new(dropping));
        for role in self.roles.values_mut().filter(|role| role.connect.contains(id)) {
            Arc::make_mut(role).connect.remove(id);
        }
        for role in self.roles.values_mut().filter(|role| role.settings_in.contains_key(id)) {
            Arc::make_mut(role).settings_in.remove(id);
        }
        Ok(())
    }

    fn finish_drop_tenant(&mut self, certificate: &DropCertificate) -> Result<()> {
        let found = self.tenants.get(&certificate.tenant).ok_or_else(|| no_tenant(&certificate.tenant))?;
        if found.state != TenantState::Dropping || found.oid != certificate.oid {
            let message = format!("database \"{}\" is not being dropped", certificate.tenant);
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        self.tenants.remove(&certificate.tenant);
        self.private.remove(&certificate.tenant);
        self.drops.push(Arc::new(certificate.clone()));
        self.drops.sort_by_key(|certificate| certificate.order());
        Ok(())
    }

    /// Advances the purges of dropped tenants, given by OID: `step` changes each certificate. Fails if one of them is
    /// complete or unknown.
    fn purge(&mut self, oids: &[u32], step: impl Fn(&mut DropCertificate)) -> Result<()> {
        for oid in oids {
            let found = self.drops.iter_mut().find(|drop| drop.oid == *oid && drop.purged_micros.is_none());
            let message = || format!("the drop of database {oid} is not known, or its bytes were purged before");
            step(Arc::make_mut(found.ok_or_else(|| Error::new(ErrorKind::Invalid, message()))?));
        }
        Ok(())
    }

    /// Takes a step of the purge of erasures. Columns whose cells are gone are hidden no longer.
    fn step_erasures(&mut self, erasures: &[(Option<TenantId>, u64)], step: ErasureStep) {
        for (tenant, number) in erasures {
            let shown = match tenant {
                None => erasure::step(&mut self.erasures, *number, step),
                Some(tenant) => {
                    let Some(private) = self.private.get_mut(tenant) else { continue };
                    erasure::step(&mut Arc::make_mut(private).erasures, *number, step)
                }
            };
            if let Some((id, columns)) = shown
                && let Some(table) = self.tables.get_mut(&id)
                && columns.iter().any(|column| table.erasing.contains(column))
            {
                Arc::make_mut(table).erasing.retain(|column| !columns.contains(column));
            }
        }
    }

    /// The erasures whose bytes may still be there, each with its tenant, if it is one's, and its number; oldest first.
    pub fn pending_erasures(&self) -> Vec<(Option<TenantId>, u64, Arc<Erasure>)> {
        let of = |tenant: Option<&TenantId>, erasures: &Erasures| {
            let pending = erasures.iter().filter(|(_, erasure)| erasure.is_pending());
            pending.map(|(number, erasure)| (tenant.cloned(), *number, erasure.clone())).collect::<Vec<_>>()
        };
        let own = self.private.iter().flat_map(|(tenant, private)| of(Some(tenant), &private.erasures));
        let mut pending: Vec<_> = of(None, &self.erasures).into_iter().chain(own).collect();
        pending.sort_by_key(|(_, _, erasure)| erasure.requested_micros);
        pending
    }

    fn create_table(&mut self, table: &Table) -> Result<()> {
        self.check_table(table)?;
        self.take_oid(table.id.0)?;
        self.tables.insert(table.id, Arc::new(table.clone()));
        Ok(())
    }

    fn alter_table(&mut self, table: &Table) -> Result<()> {
        let old = self.tables.get(&table.id).ok_or_else(|| no_table(table.id))?;
        let fixed = |table: &Table| (table.physical.clone(), table.remote.clone(), table.key.encoding, table.key.salt);
        if fixed(old) != fixed(table) {
            let message = format!("where table \"{}\" is stored cannot change", table.name);
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let renewed = |name: &str, id| old.family(name).is_some_and(|old| old.id != id);
        if let Some(family) = table.families.iter().find(|family| renewed(family.name.as_str(), family.id)) {
            let message = format!("family \"{}\" cannot be dropped and added in one statement", family.name);
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        servers::check_altered(old, table)?;
        self.check_table(table)?;
        let before = self.clone();
        self.tables.insert(table.id, Arc::new(table.clone()));
        self.check_views(&before)
    }

    /// Checks a change of the shared tables against the views of every tenant, also of those that are being created.
    fn check_views(&self, before: &Self) -> Result<()> {
        let is_kept = |id: &TenantId| self.tenants.get(id).is_some_and(|tenant| tenant.state != TenantState::Dropping);
        for (tenant, own) in self.private.iter().filter(|(tenant, _)| is_kept(tenant)) {
            let suffix = format!(" of database {tenant}");
            sql_view::check((own, own), (&before.tables, &self.tables), &suffix)?;
        }
        Ok(())
    }

    /// A descriptor of the operator's with other files; tables that use it, those of tenants too, get them.
    fn replace_proto(&mut self, descriptor: &ProtoDescriptor) -> Result<()> {
        proto::replace(&mut self.protos, descriptor)?;
        proto::replace_in(&mut self.tables, descriptor, true)?;
        for private in self.private.values_mut() {
            if proto::is_used(private.tables.values(), descriptor, true) {
                proto::replace_in(&mut Arc::make_mut(private).tables, descriptor, true)?;
            }
        }
        Ok(())
    }

    fn check_table(&self, table: &Table) -> Result<()> {
        if self.tables.values().any(|other| other.id != table.id && other.name == table.name) {
            let message = format!("relation \"{}\" already exists", table.name);
            return Err(Error::new(ErrorKind::TableExists, message));
        }
        if let Some((tenant, _)) = self.private.iter().find(|(_, private)| private.has(&table.name)) {
            let message = format!("relation \"{}\" already exists", table.name);
            return Err(Error::new(ErrorKind::TableExists, message)
                .with_detail(format!("Database \"{tenant}\" has a private relation of this name.")));
        }
        self.check_place(table)?;
        table.key.check()?;
        table.storage_schema().check().map_err(|error| Error::new(ErrorKind::Invalid, error.to_string()))
    }

    /// Applies only if the tenant's OID is `oid`: a tenant created later with the same id is not the session's. A
    /// tenant that is being created has no sessions: only its creator knows the OID.
    fn change_private(&mut self, id: &TenantId, oid: u32, edits: &[PrivateEdit]) -> Result<()> {
        let is_usable = |tenant: &Arc<Tenant>| tenant.oid == oid && tenant.state != TenantState::Dropping;
        self.tenants.get(id).filter(|tenant| is_usable(tenant)).ok_or_else(|| no_tenant(id))?;
        let mut private = self.private.get(id).map(|private| private.as_ref().clone()).unwrap_or_default();
        let shared = self.tables.clone();
        for edit in edits {
            let is_taken = |name: &str| shared.values().any(|table| table.name == name);
            private.apply(edit, |oid| self.take_oid(oid), is_taken)?;
            private.settle_types(edit)?;
            self.check_roles_of(edit)?;
            self.check_objects_of(&private, edit)?;
        }
        let before = self.private.get(id).cloned().unwrap_or_default();
        if self.temporary.is_empty() {
            sql_view::check((&before, &private), (&shared, &shared), "")?;
        } else {
            let (before, after) = (before.union(&self.temporary), private.union(&self.temporary));
            sql_view::check((&before, &after), (&shared, &shared), "")?;
        }
        if private.is_empty() {
            self.private.remove(id);
        } else {
            self.private.insert(id.clone(), Arc::new(private));
        }
        Ok(())
    }

    fn create_role(&mut self, role: &Role) -> Result<()> {
        let name = &role.name;
        if name.starts_with("pg_") || name == "public" || name == "none" {
            return Err(Error::new(ErrorKind::Reserved, format!("role name \"{name}\" is reserved")));
        }
        if name.is_empty() || name.len() > ROLE_NAME_BYTES_MAX {
            let message = format!("role name \"{name}\" must have 1 to {ROLE_NAME_BYTES_MAX} bytes");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        if self.roles.contains_key(name) {
            return Err(Error::new(ErrorKind::RoleExists, format!("role \"{name}\" already exists")));
        }
        if let Some(id) = role.connect.iter().find(|id| self.tenant(id.as_str()).is_none()) {
            return Err(no_tenant(id));
        }
        self.take_oid(role.oid)?;
        self.roles.insert(name.clone(), Arc::new(role.clone()));
        Ok(())
    }

    fn alter_role(&mut self, role: &Role) -> Result<()> {
        let old = self.roles.get(&role.name).ok_or_else(|| no_role(&role.name))?;
        if old.oid != role.oid {
            return Err(Error::new(ErrorKind::Invalid, format!("the number of role \"{}\" cannot change", role.name)));
        }
        if let Some(id) =
            role.connect.iter().find(|id| !old.connect.contains(*id) && self.tenant(id.as_str()).is_none())
        {
            return Err(no_tenant(id));
        }
        if let Some(id) = role.settings_in.keys().find(|id| self.tenant(id.as_str()).is_none()) {
            return Err(no_tenant(id));
        }
        if !is_login_operator(role) {
            self.check_other_login_operator(&role.name)?;
        }
        self.roles.insert(role.name.clone(), Arc::new(role.clone()));
        Ok(())
    }

    fn drop_role(&mut self, name: &RoleName) -> Result<()> {
        let role = self.roles.get(name).ok_or_else(|| no_role(name))?;
        self.check_nothing_depends(role)?;
        self.check_other_login_operator(name)?;
        self.forget_role(name);
        Ok(())
    }

    /// Fails if the role is the last operator who may log in.
    fn check_other_login_operator(&self, name: &str) -> Result<()> {
        let is_one = self.roles.get(name).is_some_and(|role| is_login_operator(role));
        if is_one && !self.roles.values().any(|role| role.name != name && is_login_operator(role)) {
            let message = format!("role \"{name}\" is the last operator who may log in");
            return Err(Error::new(ErrorKind::InUse, message).with_hint("Make another operator first."));
        }
        Ok(())
    }

    fn grant(&mut self, role: &RoleName, id: &TenantId) -> Result<()> {
        self.tenant(id.as_str()).ok_or_else(|| no_tenant(id))?;
        let role = self.roles.get_mut(role).ok_or_else(|| no_role(role))?;
        Arc::make_mut(role).connect.insert(id.clone());
        Ok(())
    }

    fn revoke(&mut self, role: &RoleName, id: &TenantId) -> Result<()> {
        self.tenant(id.as_str()).ok_or_else(|| no_tenant(id))?;
        let role = self.roles.get_mut(role).ok_or_else(|| no_role(role))?;
        Arc::make_mut(role).connect.remove(id);
        Ok(())
    }

    /// The message that a column names, `message` or `descriptor:message`: of the operator's descriptors, and of the
    /// tenant's own.
    ///
    /// # Errors
    /// [`NoObject`](ErrorKind::NoObject); [`Ambiguous`](ErrorKind::Ambiguous) if several descriptors have the message.
    pub fn proto_message(&self, tenant: Option<&TenantId>, named: &str) -> Result<ProtoMessage> {
        proto::find(self.protos_in(tenant), named, ProtoDescriptor::message)
    }

    /// The same to read and write with.
    ///
    /// # Errors
    /// As [`proto_message`](Self::proto_message).
    pub fn proto_reader(&self, tenant: Option<&TenantId>, named: &str) -> Result<ProtoMessage> {
        proto::find(self.protos_in(tenant), named, ProtoDescriptor::reader)
    }

    /// The protobuf descriptors that a tenant sees, its own first, and whether each is the operator's.
    pub fn protos_in(&self, tenant: Option<&TenantId>) -> impl Iterator<Item = (&Arc<ProtoDescriptor>, bool)> {
        let own = self.private_of(tenant).into_iter().flat_map(|private| private.protos.values());
        own.map(|own| (own, false)).chain(self.protos.values().map(|shared| (shared, true)))
    }

    /// The shared table of this name.
    pub fn table(&self, name: &str) -> Option<&Arc<Table>> {
        self.tables.values().find(|table| table.name == name)
    }

    /// The private or shared table of this name in the database of a tenant, or the operator's for `None`.
    pub fn table_in(&self, tenant: Option<&TenantId>, name: &str) -> Option<&Arc<Table>> {
        self.private_of(tenant).and_then(|private| private.table(name)).or_else(|| self.table(name))
    }

    /// The shared tables, then the private ones, in the database of a tenant, or the operator's for `None`.
    pub fn tables_in(&self, tenant: Option<&TenantId>) -> impl Iterator<Item = &Arc<Table>> + Clone {
        let own = self.private_of(tenant).into_iter().flat_map(|private| private.tables.values());
        self.tables.values().chain(own)
    }

    /// The view of this name in the database of a tenant.
    pub fn view_in(&self, tenant: Option<&TenantId>, name: &str) -> Option<&Arc<SqlView>> {
        self.private_of(tenant)?.view(name)
    }

    /// The OID of a schema of users' relations in the database of a tenant, or the operator's for `None`.
    pub fn schema_in(&self, tenant: Option<&TenantId>, name: &str) -> Option<u32> {
        static NONE: LazyLock<Private> = LazyLock::new(Private::default);
        self.private_of(tenant).map_or(&*NONE, |own| own.as_ref()).schema(name)
    }

    /// The name of a schema of users' relations in the database of a tenant.
    pub fn schema_name(&self, tenant: Option<&TenantId>, oid: u32) -> Option<&str> {
        static NONE: LazyLock<Private> = LazyLock::new(Private::default);
        self.private_of(tenant).map_or(&*NONE, |own| own.as_ref()).schema_name(oid)
    }

    /// The OID of the schema of a relation in the database of a tenant: `public` of what is not its own.
    pub fn schema_of(&self, tenant: Option<&TenantId>, relation: u32) -> u32 {
        let own = self.private_of(tenant).and_then(|own| own.schema_of(relation));
        own.unwrap_or(crate::rights::PUBLIC_SCHEMA)
    }

    /// The private or shared table of this name in a schema of the database of a tenant.
    pub fn table_within(&self, tenant: Option<&TenantId>, schema: u32, name: &str) -> Option<&Arc<Table>> {
        if schema == crate::rights::PUBLIC_SCHEMA {
            return self.table_in(tenant, name);
        }
        self.private_of(tenant)?.table_within(schema, name)
    }

    /// The sequence of this name in a schema of the database of a tenant.
    pub fn sequence_within(&self, tenant: Option<&TenantId>, schema: u32, name: &str) -> Option<&Arc<crate::Sequence>> {
        self.private_of(tenant)?.sequence_within(schema, name)
    }

    /// The table or view of this name in a schema of the database of a tenant.
    pub fn relation_within(&self, tenant: Option<&TenantId>, schema: u32, name: &str) -> Option<Relation<'_>> {
        let table = self.table_within(tenant, schema, name).map(Relation::Table);
        table.or_else(|| self.private_of(tenant)?.view_within(schema, name).map(Relation::View))
    }

    /// The views in the database of a tenant.
    pub fn views_in(&self, tenant: Option<&TenantId>) -> impl Iterator<Item = &Arc<SqlView>> + Clone {
        self.private_of(tenant).into_iter().flat_map(|private| private.views.values())
    }

    /// The table or view of this name in the database of a tenant.
    pub fn relation_in(&self, tenant: Option<&TenantId>, name: &str) -> Option<Relation<'_>> {
        let table = self.table_in(tenant, name).map(Relation::Table);
        table.or_else(|| self.view_in(tenant, name).map(Relation::View))
    }

    /// The table or view with this OID in the database of a tenant, or among the session's temporary ones.
    pub fn relation(&self, tenant: Option<&TenantId>, oid: u32) -> Option<Relation<'_>> {
        static NONE: LazyLock<Private> = LazyLock::new(Private::default);
        let own = self.private_of(tenant).map_or(&*NONE, |own| own.as_ref());
        Relation::of(oid, own, &self.tables).or_else(|| Relation::of(oid, &self.temporary, &self.tables))
    }

    /// The table with this OID in the database of a tenant, or the operator's for `None`, or among the session's
    /// temporary ones.
    pub fn table_of(&self, tenant: Option<&TenantId>, id: TableId) -> Option<&Arc<Table>> {
        let own = || self.temporary.tables.get(&id);
        self.tables.get(&id).or_else(own).or_else(|| self.private_of(tenant)?.tables.get(&id))
    }

    /// The table of the rows that a materialized view of a tenant keeps, by the view's OID.
    pub fn kept_by_view(&self, tenant: &TenantId, id: TableId) -> Option<Table> {
        self.private_of(Some(tenant))?.views.get(&id.0)?.table()
    }

    /// The sequence with this OID in the database of a tenant, or among the session's temporary ones.
    pub fn sequence_of(&self, tenant: Option<&TenantId>, oid: u32) -> Option<&Arc<crate::Sequence>> {
        let own = || self.temporary.sequences.get(&oid);
        self.private_of(tenant).and_then(|private| private.sequences.get(&oid)).or_else(own)
    }

    /// The private relations of a tenant.
    pub fn private_of(&self, tenant: Option<&TenantId>) -> Option<&Arc<Private>> {
        self.private.get(tenant?)
    }

    /// The tenant of this name, if it is active.
    pub fn tenant(&self, name: &str) -> Option<&Arc<Tenant>> {
        self.tenants.get(name).filter(|tenant| tenant.state == TenantState::Active)
    }

    /// The active tenant with this OID.
    pub fn tenant_by_oid(&self, oid: u32) -> Option<&Arc<Tenant>> {
        self.tenants.values().find(|tenant| tenant.oid == oid && tenant.state == TenantState::Active)
    }

    /// The tenants whose drop has begun but not finished.
    pub fn dropping(&self) -> impl Iterator<Item = &Arc<Tenant>> {
        self.tenants.values().filter(|tenant| tenant.state == TenantState::Dropping)
    }

    /// The tenants whose creation has begun but not finished.
    pub fn creating(&self) -> impl Iterator<Item = &Arc<Tenant>> {
        self.tenants.values().filter(|tenant| tenant.state == TenantState::Creating)
    }

    /// The role of this name.
    pub fn role(&self, name: &str) -> Option<&Arc<Role>> {
        self.roles.get(name)
    }
}

/// Whether the role is an operator who may log in.
fn is_login_operator(role: &Role) -> bool {
    role.operator && role.login
}

fn no_tenant(id: &TenantId) -> Error {
    Error::new(ErrorKind::NoTenant, format!("database \"{id}\" does not exist"))
}

fn no_role(name: &str) -> Error {
    Error::new(ErrorKind::NoRole, format!("role \"{name}\" does not exist"))
}

fn no_table(id: TableId) -> Error {
    Error::new(ErrorKind::NoTable, format!("relation with OID {} does not exist", id.0))
}

#[cfg(test)]
mod tests;
