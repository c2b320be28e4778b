//! From the name or the OID of a relation to its definition in a snapshot, along a search path.
//!
//! [`find`] is the only lookup of users' tables and views by name; DataFusion's lookups follow the same path
//! ([`schemas`](crate::query::schemas)).

pub(crate) mod type_names;

use crate::{
    pg::names::{RelationName, Schema, SearchPath},
    system_relations,
};
use keyspan_catalog::{Domain, EnumType, Relation, Sequence, Snapshot, TenantId, rights::PUBLIC_SCHEMA};
use std::sync::Arc;

/// The table or view of a name; `None` for what there is not, and for a relation of the system.
pub fn find<'a>(
    snapshot: &'a Snapshot,
    tenant: Option<&TenantId>,
    path: &SearchPath,
    name: &RelationName,
) -> Option<(Schema, Relation<'a>)> {
    let look = |schema: &Schema| match schema {
        Schema::Temporary => {
            let own = &snapshot.temporary;
            own.table(name).map(Relation::Table).or_else(|| own.view(name).map(Relation::View))
        }
        Schema::Public => snapshot.relation_in(tenant, name),
        Schema::Own(schema) => snapshot.relation_within(tenant, snapshot.schema_in(tenant, schema)?, name),
        _ => None,
    };
    if let Some(schema) = &name.schema {
        return look(schema).map(|found| (schema.clone(), found));
    }
    for schema in path.lookup() {
        if let Some(found) = look(&schema) {
            return Some((schema, found));
        }
        if is_of_system(&schema, name) {
            return None;
        }
    }
    None
}

/// The table or view of users with a number, and its schema.
pub fn numbered<'a>(snapshot: &'a Snapshot, tenant: Option<&TenantId>, number: u32) -> Option<(Schema, Relation<'a>)> {
    snapshot.relation(tenant, number).map(|found| (schema_of(snapshot, tenant, number), found))
}

/// The schema of a relation of users.
pub fn schema_of(snapshot: &Snapshot, tenant: Option<&TenantId>, number: u32) -> Schema {
    if snapshot.temporary.has_oid(number) {
        return Schema::Temporary;
    }
    let schema = snapshot.schema_of(tenant, number);
    if schema == PUBLIC_SCHEMA {
        return Schema::Public;
    }
    snapshot.schema_name(tenant, schema).map_or(Schema::Public, |name| Schema::Own(name.into()))
}

/// The OID of a schema in which users have relations; `None` for one that does not exist. That of temporary ones is
/// `public`'s: in the session's own catalog of them there is no other.
pub fn schema_oid(snapshot: &Snapshot, tenant: Option<&TenantId>, schema: &Schema) -> Option<u32> {
    match schema {
        Schema::Own(name) => snapshot.schema_in(tenant, name),
        _ => Some(PUBLIC_SCHEMA),
    }
}

/// The sequence of a name among the session's and the tenant's own, along the path.
pub fn sequence<'a>(
    snapshot: &'a Snapshot,
    tenant: Option<&TenantId>,
    path: &SearchPath,
    name: &RelationName,
) -> Option<&'a Arc<Sequence>> {
    let look = |schema: &Schema| match schema {
        Schema::Temporary => snapshot.temporary.sequence(name),
        Schema::Public | Schema::Own(_) => {
            snapshot.sequence_within(tenant, schema_oid(snapshot, tenant, schema)?, name)
        }
        _ => None,
    };
    match &name.schema {
        Some(schema) => look(schema),
        None => path.lookup().find_map(|schema| look(&schema)),
    }
}

/// A type of the tenant's own.
#[derive(Clone, Debug)]
pub(crate) enum OwnType {
    Enum(Arc<EnumType>),
    Domain(Arc<Domain>),
}

impl OwnType {
    /// The OID.
    pub(crate) fn id(&self) -> u32 {
        match self {
            Self::Enum(of) => of.id,
            Self::Domain(of) => of.id,
        }
    }

    /// The name.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Enum(of) => &of.name,
            Self::Domain(of) => &of.name,
        }
    }

    /// The comment.
    pub(crate) fn comment(&self) -> Option<&str> {
        match self {
            Self::Enum(of) => of.comment.as_deref(),
            Self::Domain(of) => of.comment.as_deref(),
        }
    }

    /// The OID of its schema.
    pub(crate) fn schema(&self) -> u32 {
        match self {
            Self::Enum(of) => of.schema,
            Self::Domain(of) => of.schema,
        }
    }
}

/// The type of a name among the tenant's own, along the path.
pub(crate) fn own_type(
    snapshot: &Snapshot,
    tenant: Option<&TenantId>,
    path: &SearchPath,
    name: &RelationName,
) -> Option<OwnType> {
    let own = snapshot.private_of(tenant)?;
    let look = |schema: &Schema| {
        let (Schema::Public | Schema::Own(_)) = schema else { return None };
        let within = schema_oid(snapshot, tenant, schema)?;
        let domain = || own.domain_within(within, &name.name).cloned().map(OwnType::Domain);
        own.enum_within(within, &name.name).cloned().map(OwnType::Enum).or_else(domain)
    };
    match &name.schema {
        Some(schema) => look(schema),
        None => path.lookup().find_map(|schema| look(&schema)),
    }
}

/// Whether a schema of the server's has a relation of this name.
fn is_of_system(schema: &Schema, name: &str) -> bool {
    // Names of the first begin so, and it is in every path.
    let may_be = *schema != Schema::Catalog || name.starts_with("pg_");
    may_be
        && matches!(schema, Schema::Catalog | Schema::Information | Schema::Keyspan)
        && system_relations::names(schema.name(), true).any(|known| known == name)
}
