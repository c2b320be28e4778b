//! What a role may do once its password was right: the one place where an [`Identity`] is made.

use crate::{
    identity::{Checked, Identity},
    instance::Instance,
    pg::error::{Result, SqlError, SqlState},
};
use keyspan_catalog::{
    Tenant, TenantStore,
    ids::{OPERATOR_DATABASE, RESERVED_DATABASES},
};
use std::sync::Arc;

/// The identity of `role` in `database`.
///
/// # Errors
/// 28P01 when the role was dropped meanwhile, 28000 when it may not log in, 42501 for the operator's database, 3D000
/// for a database that is not there. A tenant's database that the role may not connect to is not there for it either:
/// else a tenant could learn who the other tenants are.
pub fn identify(instance: &Instance, role: &str, database: &str) -> Result<Identity> {
    let snapshot = instance.catalog.snapshot();
    let Some(known) = snapshot.role(role) else {
        let message = format!("password authentication failed for user \"{role}\"");
        return Err(SqlError::new(SqlState::INVALID_PASSWORD, message));
    };
    if !known.login {
        let message = format!("role \"{role}\" is not permitted to log in");
        return Err(SqlError::new(SqlState::INVALID_AUTHORIZATION, message));
    }
    let store = instance.catalog.store().clone();
    let identity = |operator, rows| Identity {
        role: role.to_owned(),
        role_oid: Some(known.oid),
        operator,
        database: database.to_owned(),
        rows,
        checked: Checked::default(),
    };
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
    let granted = |tenant: &&Arc<Tenant>| snapshot.may_connect(known, tenant);
    let Some(tenant) = snapshot.tenant(database).filter(granted) else {
        let hint =
            "An operator makes it with CREATE DATABASE … OWNER, and lets others in with GRANT CONNECT ON DATABASE.";
        return Err(unknown(database).with_hint(hint));
    };
    Ok(identity(false, TenantStore::of_session(store, tenant)))
}

fn unknown(database: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_CATALOG_NAME, format!("database \"{database}\" does not exist"))
}

fn denied(database: &str) -> SqlError {
    SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("permission denied for database \"{database}\""))
        .with_detail("The role does not have the CONNECT privilege.")
}
