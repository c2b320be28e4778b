//! From the name or the OID of a relation to its definition in a snapshot, along a search path.
//!
//! [`find`] is the only lookup of users' tables and views by name; DataFusion's lookups follow the same path
//! ([`schemas`](crate::query::schemas)).

use crate::{
    pg::names::{RelationName, Schema, SearchPath},
    system_relations,
};
use keyspan_catalog::{Relation, Snapshot, TenantId};

/// The table or view of a name; `None` for what there is not, and for a relation of the system.
pub fn find<'a>(
    snapshot: &'a Snapshot,
    tenant: Option<&TenantId>,
    path: &SearchPath,
    name: &RelationName,
) -> Option<(Schema, Relation<'a>)> {
    let look = |schema: Schema| match schema {
        Schema::Temporary => {
            let own = &snapshot.temporary;
            own.table(name).map(Relation::Table).or_else(|| own.view(name).map(Relation::View))
        }
        Schema::Public => snapshot.relation_in(tenant, name),
        _ => None,
    };
    if let Some(schema) = name.schema {
        return look(schema).map(|found| (schema, found));
    }
    for schema in path.lookup() {
        if let Some(found) = look(schema) {
            return Some((schema, found));
        }
        if is_of_system(schema, name) {
            return None;
        }
    }
    None
}

/// The table or view of users with a number, and its schema.
pub fn numbered<'a>(snapshot: &'a Snapshot, tenant: Option<&TenantId>, number: u32) -> Option<(Schema, Relation<'a>)> {
    let schema = if snapshot.temporary.has_oid(number) { Schema::Temporary } else { Schema::Public };
    snapshot.relation(tenant, number).map(|found| (schema, found))
}

/// Whether a schema of the server's has a relation of this name.
fn is_of_system(schema: Schema, name: &str) -> bool {
    // Names of the first begin so, and it is in every path.
    let may_be = schema != Schema::Catalog || name.starts_with("pg_");
    may_be
        && matches!(schema, Schema::Catalog | Schema::Information | Schema::Keyspan)
        && system_relations::names(schema.name(), true).any(|known| known == name)
}
