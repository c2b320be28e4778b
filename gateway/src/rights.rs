//! The rights that a statement needs, and the check that its role has them.
//!
//! What a statement needs is found when it is bound and planned: a relation that it reads when its name is looked up
//! (`query::schemas`), one that it writes when its target is resolved (`dml::needs`). It is kept with the plan, wherever
//! that is kept, and held against the newest catalog each time that the plan runs, and before each FETCH and each part
//! of a portal. So a REVOKE holds from the next statement on, also for what was prepared before.
//!
//! A view reads what it reads with the rights of its owner, as in PostgreSQL. No right is asked of operators, in the
//! operator's database, and of a program that makes sessions without a log-in.

use crate::{
    lock::Mutex,
    pg::error::{Result, SqlError, SqlState},
};
use keyspan_catalog::{ObjectKind, Privileges, Snapshot, TenantId, rights::DATABASE_OWNER};
use std::sync::Arc;

/// Who runs a statement, as far as rights go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grantee<'a> {
    /// The OID of the session's role; `None` for a session without a log-in.
    pub(crate) role: Option<u32>,
    /// The tenant of its database; `None` in the operator's.
    pub(crate) tenant: Option<&'a TenantId>,
}

/// What a statement needs.
#[derive(Debug, Default)]
pub struct Needs(Mutex<State>);

#[derive(Clone, Debug, Default)]
struct State {
    needs: Vec<Need>,
    /// The version of the newest catalog that had all of these rights.
    granted_at: Option<u64>,
}

#[derive(Clone, Debug)]
struct Need {
    relation: u32,
    privileges: Privileges,
    /// The owner of the view that needs it; `None` for the statement itself.
    reader: Option<u32>,
    /// The catalog that the statement was planned with: it decides about relations that the newest does not have, since
    /// only the session's transaction knows them yet, or only its pin still does.
    seen: Arc<Snapshot>,
}

impl Needs {
    /// Adds a right that the statement needs on a relation, or that a view of `reader` does.
    pub(crate) fn add(&self, seen: &Arc<Snapshot>, relation: u32, privileges: Privileges, reader: Option<u32>) {
        let mut state = self.0.lock();
        let known = state.needs.iter_mut().find(|need| (need.relation, need.reader) == (relation, reader));
        let changes = match known {
            Some(need) => {
                let all = need.privileges | privileges;
                let changes = all != need.privileges || !Arc::ptr_eq(&need.seen, seen);
                (need.privileges, need.seen) = (all, seen.clone());
                changes
            }
            None => {
                state.needs.push(Need { relation, privileges, reader, seen: seen.clone() });
                true
            }
        };
        if changes {
            state.granted_at = None;
        }
    }

    /// Whether the statement itself needs a right on a relation.
    pub(crate) fn has(&self, relation: u32) -> bool {
        self.0.lock().needs.iter().any(|need| need.relation == relation && need.reader.is_none())
    }

    /// Adds all rights that a kept plan needs.
    pub(crate) fn adopt(&self, others: &Self) {
        if std::ptr::eq(self, others) {
            return;
        }
        let others = others.0.lock().clone();
        let mut state = self.0.lock();
        if state.needs.is_empty() {
            *state = others;
            return;
        }
        drop(state);
        for need in others.needs {
            self.add(&need.seen, need.relation, need.privileges, need.reader);
        }
    }

    /// # Errors
    /// 42501, as PostgreSQL says it.
    pub(crate) fn check(&self, who: Grantee<'_>, newest: &Snapshot) -> Result<()> {
        let (Some(role), Some(tenant)) = (who.role, who.tenant) else { return Ok(()) };
        let mut state = self.0.lock();
        if state.granted_at == Some(newest.version) {
            return Ok(());
        }
        for need in &state.needs {
            need.check(role, tenant, newest)?;
        }
        state.granted_at = Some(newest.version);
        Ok(())
    }
}

impl Need {
    fn check(&self, role: u32, tenant: &TenantId, newest: &Snapshot) -> Result<()> {
        let Some(catalog) = deciding(newest, &self.seen, tenant, self.relation) else { return Ok(()) };
        let reader = match self.reader {
            None => role,
            Some(DATABASE_OWNER) => {
                catalog.tenant(tenant.as_str()).and_then(|tenant| tenant.owner).unwrap_or(DATABASE_OWNER)
            }
            Some(owner) => owner,
        };
        if catalog.is_operator(reader) {
            return Ok(());
        }
        // A view names what it reads by OID: its schema was looked at when it was made.
        let schema = catalog.schema_of(Some(tenant), self.relation);
        if self.reader.is_none() && !catalog.may_use_schema(tenant, reader, schema) {
            return Err(denied(catalog, tenant, schema));
        }
        if catalog.rights_of(tenant, reader, self.relation).0.has(self.privileges) {
            return Ok(());
        }
        Err(denied(catalog, tenant, self.relation))
    }
}

/// The catalog that decides about a relation; `None` for a temporary one, which is the session's own.
fn deciding<'a>(newest: &'a Snapshot, seen: &'a Snapshot, tenant: &TenantId, relation: u32) -> Option<&'a Snapshot> {
    if seen.temporary.has_oid(relation) {
        return None;
    }
    let own = newest.private_of(Some(tenant)).is_some_and(|own| own.has_oid(relation));
    let known = own || newest.tables.contains_key(&keyspan_catalog::TableId(relation));
    Some(if known { newest } else { seen })
}

/// Whether a role has one of some privileges on a relation or a sequence: what functions ask.
pub(crate) fn has_any(
    who: Grantee<'_>,
    (newest, seen): (&Snapshot, &Snapshot),
    relation: u32,
    privileges: Privileges,
) -> bool {
    let (Some(role), Some(tenant)) = (who.role, who.tenant) else { return true };
    let Some(catalog) = deciding(newest, seen, tenant, relation) else { return true };
    !(catalog.rights_of(tenant, role, relation).0 & privileges).is_empty()
}

/// 42501 for an object of the tenant's database.
pub(crate) fn denied(snapshot: &Snapshot, tenant: &TenantId, oid: u32) -> SqlError {
    let message = format!("permission denied for {}", described(snapshot, tenant, oid));
    SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
}

/// 42501 for what only the owner of an object may do.
pub(crate) fn not_owner(snapshot: &Snapshot, tenant: &TenantId, oid: u32) -> SqlError {
    let message = format!("must be owner of {}", described(snapshot, tenant, oid));
    SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
}

/// The kind and the name of an object: `table t`.
pub(crate) fn described(snapshot: &Snapshot, tenant: &TenantId, oid: u32) -> String {
    use keyspan_catalog::Relation;
    match (snapshot.kind_of(tenant, oid), snapshot.relation(Some(tenant), oid)) {
        (ObjectKind::Schema | ObjectKind::OwnSchema, _) => {
            format!("schema {}", snapshot.schema_name(Some(tenant), oid).unwrap_or_default())
        }
        (ObjectKind::Sequence, _) => {
            let sequence = snapshot.sequence_of(Some(tenant), oid);
            format!("sequence {}", sequence.map_or("", |sequence| sequence.name.as_str()))
        }
        (_, Some(Relation::Table(table))) => format!("table {}", table.name),
        (_, Some(Relation::View(view))) => format!("{} {}", view.kind(), view.name),
        (_, None) => {
            let own = snapshot.private_of(Some(tenant));
            let of = own.and_then(|own| own.enum_types.get(&oid)).map(|of| &of.name);
            let domain = || own.and_then(|own| own.domains.get(&oid)).map(|domain| &domain.name);
            of.or_else(domain).map_or_else(|| format!("relation {oid}"), |name| format!("type {name}"))
        }
    }
}
