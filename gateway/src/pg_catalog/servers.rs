//! `pg_foreign_data_wrapper`, `pg_foreign_server` and `pg_foreign_table`: what psql's `\dew`, `\des` and `\det` show.
//!
//! Everybody sees which tables are on a server. What the server is, and what the table is called there, only an
//! operator sees.

use super::{columns::Row, objects};
use crate::{context::StatementContext, pg_catalog::columns::row};
use keyspan_catalog::server::BIGTABLE;

/// The OID of the one wrapper.
const WRAPPER_OID: u32 = 16_006;

/// The rows of `pg_foreign_data_wrapper`: none where nobody uses it.
pub(super) fn wrappers(statement: &StatementContext) -> Vec<Row> {
    if statement.snapshot.servers.is_empty() {
        return Vec::new();
    }
    vec![row! {
        "oid" => WRAPPER_OID, "fdwname" => BIGTABLE, "fdwowner" => objects::owner(statement), "fdwhandler" => 0,
        "fdwvalidator" => 0,
    }]
}

/// The rows of `pg_foreign_server`.
pub(super) fn servers(statement: &StatementContext) -> Vec<Row> {
    let one = |server: &std::sync::Arc<keyspan_catalog::Server>| {
        let options = server.options().into_iter().map(|(name, value)| format!("{name}={value}"));
        row! {
            "oid" => server.id, "srvname" => server.name.clone(), "srvowner" => objects::owner(statement),
            "srvfdw" => WRAPPER_OID,
            "srvoptions" => Some(options.collect::<Vec<String>>()).filter(|_| statement.operator),
        }
    };
    statement.snapshot.servers.values().map(one).collect()
}

/// The rows of `pg_foreign_table`.
pub(super) fn tables(statement: &StatementContext) -> Vec<Row> {
    let one = |table: &std::sync::Arc<keyspan_catalog::Table>| {
        let remote = table.remote.as_ref()?;
        let options = vec![format!("table={}", remote.name)];
        Some(row! {
            "ftrelid" => table.id.0, "ftserver" => remote.server,
            "ftoptions" => Some(options).filter(|_| statement.operator),
        })
    };
    statement.permanent_tables().filter_map(one).collect()
}
