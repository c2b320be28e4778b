//! What a role may do once its password was right: the one place where an [`Identity`] is made.

use crate::{
    error::{Result, SqlError, SqlState},
    session::{Identity, Shared},
};
use keyspan_catalog::{
    TenantStore,
    ids::{OPERATOR_DATABASE, RESERVED_DATABASES},
};

/// The identity of `role` in `database`.
///
/// # Errors
/// 28P01 when the role was dropped meanwhile, 28000 when it may not log in, 3D000 for an unknown database, 42501 for one that it
/// may not connect to.
pub fn identify(shared: &Shared, role: &str, database: &str) -> Result<Identity> {
    let snapshot = shared.catalog.snapshot();
    let Some(known) = snapshot.role(role) else {
        let message = format!("password authentication failed for user \"{role}\"");
        return Err(SqlError::new(SqlState::INVALID_PASSWORD, message));
    };
    if !known.login {
        let message = format!("role \"{role}\" is not permitted to log in");
        return Err(SqlError::new(SqlState::INVALID_AUTHORIZATION, message));
    }
    let store = shared.catalog.store().clone();
    let identity = |operator, rows| Identity { role: role.to_owned(), operator, database: database.to_owned(), rows };
    if database == OPERATOR_DATABASE {
        return if known.operator {
            Ok(identity(true, TenantStore::of_operator(store)))
        } else {
            Err(denied(database))
        };
    }
    if RESERVED_DATABASES.contains(&database) {
        return Err(unknown(database)
            .with_hint("Operators connect to database \"keyspan\"; every other database is a tenant's, by its id."));
    }
    let Some(tenant) = snapshot.tenant(database) else { return Err(unknown(database)) };
    if !known.operator && !known.connect.contains(&tenant.id) {
        return Err(denied(database));
    }
    Ok(identity(false, TenantStore::of_tenant(store, tenant.id.clone())))
}

fn unknown(database: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_CATALOG_NAME, format!("database \"{database}\" does not exist"))
}

fn denied(database: &str) -> SqlError {
    SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("permission denied for database \"{database}\""))
        .with_detail("The role does not have the CONNECT privilege.")
}
