//! Who may do what: owners of databases, memberships of roles, and the rights that a role has by them.

use super::{Snapshot, no_role, no_tenant};
use crate::{
    Error, ErrorKind, Membership, ObjectKind, ObjectRights, Private, PrivateEdit, Privileges, Result, Role, RoleName,
    Tenant, TenantId, TenantState,
    rights::{DATABASE_OWNER, ListChange, ListOf, OPERATORS, PREDEFINED, PUBLIC, PUBLIC_SCHEMA},
};
use std::{
    collections::BTreeSet,
    sync::{Arc, LazyLock},
};

/// Bytes of a role's name, at most.
const ROLE_NAME_BYTES_MAX: usize = super::ROLE_NAME_BYTES_MAX;

impl Snapshot {
    /// The role with an OID.
    pub fn role_of(&self, oid: u32) -> Option<&Arc<Role>> {
        self.roles.values().find(|role| role.oid == oid)
    }

    /// Whether a role, given by OID, is an operator: no right is asked of it.
    pub fn is_operator(&self, role: u32) -> bool {
        role == OPERATORS || self.role_of(role).is_some_and(|role| role.operator)
    }

    /// The roles whose rights a role has in the database of a tenant: itself, and those that it is a member of, unless
    /// one in between does not inherit. The owner of the database is `pg_database_owner` too.
    pub fn roles_with(&self, tenant: Option<&TenantId>, role: u32) -> BTreeSet<u32> {
        self.reached(tenant, role, |role| !role.noinherit)
    }

    /// The roles that a role is a member of, itself among them.
    pub fn memberships(&self, tenant: Option<&TenantId>, role: u32) -> BTreeSet<u32> {
        self.reached(tenant, role, |_| true)
    }

    fn reached(&self, tenant: Option<&TenantId>, role: u32, passes: impl Fn(&Role) -> bool) -> BTreeSet<u32> {
        let owner = tenant.and_then(|id| self.tenant(id.as_str())?.owner);
        let (mut reached, mut next) = (BTreeSet::new(), vec![role]);
        while let Some(oid) = next.pop() {
            if !reached.insert(oid) {
                continue;
            }
            if owner == Some(oid) {
                reached.insert(DATABASE_OWNER);
            }
            if let Some(role) = self.role_of(oid).filter(|role| passes(role)) {
                next.extend(role.member_of.keys());
            }
        }
        reached
    }

    /// What a role may do with an object in the database of a tenant, and what of it grant.
    pub fn rights_of(&self, tenant: &TenantId, role: u32, object: u32) -> (Privileges, Privileges) {
        static NONE: LazyLock<Private> = LazyLock::new(Private::default);
        let own = self.private_of(Some(tenant)).map_or(&*NONE, |own| own.as_ref());
        let kind = own.kind_of(object);
        if self.is_operator(role) {
            return (kind.all(), kind.all());
        }
        static DEFAULT: LazyLock<ObjectRights> = LazyLock::new(ObjectRights::default);
        let rights = own.rights.get(&object).map_or(&*DEFAULT, |rights| rights.as_ref());
        rights.of_roles(kind, &self.roles_with(Some(tenant), role))
    }

    /// Whether a role may use a schema of a tenant, as everybody may use `public` until it is revoked.
    pub fn may_use_schema(&self, tenant: &TenantId, role: u32, schema: u32) -> bool {
        let own = self.private_of(Some(tenant));
        (schema == PUBLIC_SCHEMA && own.is_none_or(|own| !own.rights.contains_key(&PUBLIC_SCHEMA)))
            || self.rights_of(tenant, role, schema).0.has(Privileges::USAGE)
    }

    /// The owner of an object in the database of a tenant: a role's OID, or [`DATABASE_OWNER`].
    pub fn owner_of(&self, tenant: Option<&TenantId>, object: u32) -> u32 {
        let rights = self.private_of(tenant).and_then(|own| own.rights.get(&object));
        rights.map_or(DATABASE_OWNER, |rights| rights.owner())
    }

    /// Whether a role has the rights of another in the database of a tenant.
    pub fn has_rights_of(&self, tenant: Option<&TenantId>, role: u32, other: u32) -> bool {
        role == other || self.is_operator(role) || self.roles_with(tenant, role).contains(&other)
    }

    /// Whether a role may connect to the database of a tenant: operators, the owner, and who was granted CONNECT; who
    /// has their rights, too.
    pub fn may_connect(&self, role: &Role, tenant: &Tenant) -> bool {
        if role.operator || role.connect.contains(&tenant.id) || tenant.owner == Some(role.oid) {
            return true;
        }
        // Most roles are members of none.
        if role.member_of.is_empty() {
            return false;
        }
        let roles = self.roles_with(Some(&tenant.id), role.oid);
        let connects = |oid: &u32| self.role_of(*oid).is_some_and(|role| role.connect.contains(&tenant.id));
        roles.contains(&DATABASE_OWNER) || roles.iter().any(connects)
    }

    /// The roles that a tenant's database knows: who may connect, the roles that these are members of, and those that
    /// own something there or were granted something.
    pub fn roles_in(&self, id: &TenantId) -> BTreeSet<u32> {
        let Some(tenant) = self.tenant(id.as_str()) else { return BTreeSet::new() };
        let mut known: BTreeSet<u32> = tenant.owner.into_iter().collect();
        for role in self.roles.values().filter(|role| !role.operator && self.may_connect(role, tenant)) {
            match role.member_of.is_empty() {
                true => drop(known.insert(role.oid)),
                false => known.extend(self.memberships(Some(id), role.oid)),
            }
        }
        known.extend(self.roles.values().filter(|role| role.connect.contains(id)).map(|role| role.oid));
        if let Some(own) = self.private.get(id) {
            known.extend(own.rights.values().flat_map(|rights| rights.roles().collect::<Vec<_>>()));
            known.extend(own.defaults.iter().flat_map(|(role, defaults)| defaults.roles().chain([*role])));
        }
        known
    }

    /// # Errors
    /// [`NoRole`](ErrorKind::NoRole).
    pub(super) fn check_role(&self, oid: u32) -> Result<()> {
        let known =
            oid == OPERATORS || PREDEFINED.iter().any(|(known, _)| *known == oid) || self.role_of(oid).is_some();
        if known { Ok(()) } else { Err(Error::new(ErrorKind::NoRole, format!("role with OID {oid} does not exist"))) }
    }

    /// The roles that a change names have to be there still: another may have dropped one meanwhile.
    pub(super) fn check_roles_of(&self, edit: &PrivateEdit) -> Result<()> {
        let item = match edit {
            PrivateEdit::Own(_, role) | PrivateEdit::SetOwner(_, role) => return self.check_role(*role),
            // What is revoked names roles that the list has.
            PrivateEdit::ChangeList(of, ListChange::Grant(item)) => {
                if let ListOf::Default { role, .. } = of {
                    self.check_role(*role)?;
                }
                item
            }
            _ => return Ok(()),
        };
        [item.grantee, item.grantor]
            .into_iter()
            .filter(|role| *role != PUBLIC)
            .try_for_each(|role| self.check_role(role))
    }

    /// What a change of rights is about has to be there still.
    pub(super) fn check_objects_of(&self, own: &Private, edit: &PrivateEdit) -> Result<()> {
        let oids: Vec<u32> = match edit {
            PrivateEdit::Own(oid, _) | PrivateEdit::ChangeList(ListOf::Object(oid), _) => vec![*oid],
            PrivateEdit::SetOwner(oids, _) => oids.iter().copied().collect(),
            PrivateEdit::ChangeList(ListOf::Default { in_schema: Some(schema), .. }, _) => {
                return match own.schema_name(*schema) {
                    Some(_) => Ok(()),
                    None => Err(Error::new(ErrorKind::NoSchema, format!("schema with OID {schema} does not exist"))),
                };
            }
            _ => return Ok(()),
        };
        let is_there =
            |oid: u32| own.has_oid(oid) || oid == PUBLIC_SCHEMA || self.tables.contains_key(&crate::TableId(oid));
        match oids.into_iter().find(|oid| !is_there(*oid)) {
            Some(oid) => Err(super::no_table(crate::TableId(oid))),
            None => Ok(()),
        }
    }

    pub(super) fn set_tenant_owner(&mut self, id: &TenantId, owner: u32) -> Result<()> {
        let tenant = self.tenant(id.as_str()).ok_or_else(|| no_tenant(id))?;
        self.check_role(owner)?;
        let owned = Tenant { owner: Some(owner), ..tenant.as_ref().clone() };
        self.tenants.insert(id.clone(), Arc::new(owned));
        Ok(())
    }

    /// Before there were owners, who could connect had all rights. So nobody loses any: a role without a log-in becomes
    /// the owner, and who may connect its member.
    pub(super) fn give_owners(&mut self) -> Result<()> {
        let without: Vec<TenantId> = self
            .tenants
            .values()
            .filter(|tenant| tenant.owner.is_none() && tenant.state == TenantState::Active)
            .map(|tenant| tenant.id.clone())
            .collect();
        for id in without {
            let role = Role { name: self.owner_name(&id), oid: self.next_oid, ..Role::default() };
            self.create_role(&role)?;
            for member in self.roles.values_mut().filter(|member| member.connect.contains(&id)) {
                Arc::make_mut(member).member_of.insert(role.oid, Membership::default());
            }
            self.set_tenant_owner(&id, role.oid)?;
        }
        Ok(())
    }

    /// A free name for the owner of a tenant's database: `alto_owner`.
    fn owner_name(&self, id: &TenantId) -> RoleName {
        let prefix = if id.as_str().starts_with("pg_") { "of_" } else { "" };
        let suffixes = std::iter::once("_owner".to_owned()).chain((2_u64..).map(|number| format!("_owner_{number}")));
        let mut names = suffixes.map(|suffix| {
            let room = ROLE_NAME_BYTES_MAX - prefix.len() - suffix.len();
            let end = (0..=room.min(id.as_str().len())).rev().find(|at| id.as_str().is_char_boundary(*at)).unwrap_or(0);
            format!("{prefix}{}{suffix}", &id.as_str()[..end])
        });
        names.find(|name| !self.roles.contains_key(name)).expect("there are more numbers than roles")
    }

    pub(super) fn grant_role(&mut self, oid: u32, member: &RoleName, admin: bool) -> Result<()> {
        self.check_role(oid)?;
        let name = self.role_name(oid);
        let role = self.roles.get(member).ok_or_else(|| no_role(member))?;
        if oid == DATABASE_OWNER {
            return Err(Error::new(ErrorKind::Invalid, format!("role \"{name}\" cannot have explicit members")));
        }
        if self.memberships(None, oid).contains(&role.oid) {
            let message = format!("role \"{name}\" is a member of role \"{member}\"");
            return Err(Error::new(ErrorKind::InvalidGrant, message));
        }
        let mut role = role.as_ref().clone();
        let membership = role.member_of.entry(oid).or_default();
        membership.admin |= admin;
        self.roles.insert(member.clone(), Arc::new(role));
        Ok(())
    }

    pub(super) fn revoke_role(&mut self, oid: u32, member: &RoleName, admin_only: bool) -> Result<()> {
        let mut role = self.roles.get(member).ok_or_else(|| no_role(member))?.as_ref().clone();
        if admin_only {
            role.member_of.entry(oid).and_modify(|membership| membership.admin = false);
        } else {
            role.member_of.remove(&oid);
        }
        self.roles.insert(member.clone(), Arc::new(role));
        Ok(())
    }

    /// The name of a role, predefined ones too.
    pub fn role_name(&self, oid: u32) -> String {
        let predefined = PREDEFINED.iter().find(|(known, _)| *known == oid).map(|(_, name)| (*name).to_owned());
        let named = || self.role_of(oid).map(|role| role.name.clone());
        predefined.or_else(named).unwrap_or_else(|| oid.to_string())
    }

    /// Forgets the rights on a shared table that is dropped.
    pub(super) fn forget_rights(&mut self, table: u32) {
        for own in self.private.values_mut().filter(|own| own.rights.contains_key(&table)) {
            Arc::make_mut(own).rights.remove(&table);
        }
        self.private.retain(|_, own| !own.is_empty());
    }

    /// Removes a role, and its members' memberships in it.
    pub(super) fn forget_role(&mut self, name: &str) {
        let Some(role) = self.roles.remove(name) else { return };
        for member in self.roles.values_mut().filter(|member| member.member_of.contains_key(&role.oid)) {
            Arc::make_mut(member).member_of.remove(&role.oid);
        }
    }

    /// # Errors
    /// [`InUse`](ErrorKind::InUse) for a role that owns something, or that something was granted to or by.
    pub(super) fn check_nothing_depends(&self, role: &Role) -> Result<()> {
        let owned = self.tenants.values().filter(|tenant| tenant.owner == Some(role.oid));
        let mut depending: Vec<String> = owned.map(|tenant| format!("owner of database {}", tenant.id)).collect();
        depending.extend(role.connect.iter().map(|id| format!("privileges for database {id}")));
        for (id, own) in &self.private {
            let rights = own.rights.values().filter(|rights| rights.roles().any(|oid| oid == role.oid)).count();
            let names = |defaults: &crate::rights::DefaultRights| defaults.roles().any(|oid| oid == role.oid);
            let defaults = own.defaults.iter().filter(|(of, list)| **of == role.oid || names(list)).count();
            match rights + defaults {
                0 => {}
                1 => depending.push(format!("1 object in database {id}")),
                count => depending.push(format!("{count} objects in database {id}")),
            }
        }
        if depending.is_empty() {
            return Ok(());
        }
        let message = format!("role \"{}\" cannot be dropped because some objects depend on it", role.name);
        Err(Error::new(ErrorKind::InUse, message).with_detail(depending.join("\n")))
    }

    /// The kind of an object in the database of a tenant.
    pub fn kind_of(&self, tenant: &TenantId, object: u32) -> ObjectKind {
        self.private_of(Some(tenant)).map_or_else(|| Private::default().kind_of(object), |own| own.kind_of(object))
    }
}
