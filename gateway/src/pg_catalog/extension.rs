//! The extension `keyspan`: what of a database is not the tenant's to define, and so nothing that `pg_dump` defines
//! again.
//!
//! Shared tables, servers and the schema `keyspan` are its members. Its OID is one of those that PostgreSQL reserves
//! for what comes with the server, so that dumps do not create it. `pg_dump` dumps the rows of an extension's tables
//! where the extension asks for it (`extconfig`): here, with the setting `keyspan.dump_shared`.

use super::{columns::Row, objects};
use crate::pg_catalog::columns::row;
use crate::{
    context::StatementContext,
    pg::names::{KEYSPAN, PG_CATALOG},
};
use keyspan_catalog::{AclItem, ObjectKind, ObjectRights, rights::PUBLIC_SCHEMA};

/// The OID of the extension.
const OID: u32 = 16_005;
/// The OIDs of `pg_class`, `pg_namespace` and `pg_extension`, which `pg_depend` names.
const CLASSES: (u32, u32, u32) = (1259, 2615, 3079);
/// That of `pg_foreign_server`.
const SERVERS: u32 = 1417;

/// The shared tables.
fn members(statement: &StatementContext) -> impl Iterator<Item = u32> {
    statement.permanent_tables().filter(|table| !table.is_private()).map(|table| table.id.0)
}

/// The rows of `pg_extension`.
pub(super) fn extensions(statement: &StatementContext) -> Vec<Row> {
    let dumped = statement.settings.get("keyspan.dump_shared").is_some_and(|set| set == "on");
    let tables: Vec<i64> = members(statement).map(i64::from).collect();
    let conditions = vec![String::new(); tables.len()];
    vec![row! {
        "oid" => OID, "extname" => KEYSPAN, "extowner" => objects::owner(statement),
        "extnamespace" => objects::schema_oid(PG_CATALOG), "extrelocatable" => false,
        "extversion" => env!("CARGO_PKG_VERSION"), "extconfig" => Some(tables).filter(|_| dumped),
        "extcondition" => Some(conditions).filter(|_| dumped),
    }]
}

/// The rows of `pg_depend` that say what the extension consists of.
pub(super) fn dependencies(statement: &StatementContext) -> Vec<Row> {
    let member = |class: u32, oid: u32| {
        row! {
            "classid" => class, "objid" => oid, "objsubid" => 0, "refclassid" => CLASSES.2, "refobjid" => OID,
            "refobjsubid" => 0, "deptype" => "e",
        }
    };
    let schema = statement.operator.then(|| member(CLASSES.1, objects::schema_oid(KEYSPAN)));
    let relations = objects::system_relations(statement).filter(|relation| relation.schema == KEYSPAN);
    let relations = relations.map(|relation| relation.oid).chain(members(statement));
    let servers = statement.snapshot.servers.keys().map(|oid| member(SERVERS, *oid));
    schema.into_iter().chain(relations.map(|oid| member(CLASSES.0, oid))).chain(servers).collect()
}

/// The rows of `pg_init_privs`: the list of the schema `public` before anybody granted or revoked anything, from which
/// `pg_dump` tells what was granted since.
pub(super) fn initial_privileges(statement: &StatementContext) -> Vec<Row> {
    let items = ObjectRights::default().items(ObjectKind::Schema);
    let items = items.iter().map(|item: &AclItem| super::rights::item_text(statement, item, false));
    vec![row! {
        "objoid" => PUBLIC_SCHEMA, "classoid" => CLASSES.1, "objsubid" => 0, "privtype" => "i",
        "initprivs" => items.collect::<Vec<String>>(),
    }]
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_dump_does_not_create_the_extension() {
        // PostgreSQL's FirstNormalObjectId.
        const { assert!(super::OID < 16_384) };
    }
}
