//! The operator's role, `keyspan`: made at the first start of a store.

use crate::{
    auth::scram::{is_password_of, secret_of},
    pg::error::Result,
};
use keyspan_catalog::{Catalog, Edit, Role, Snapshot, ids::OPERATOR_DATABASE};

/// The operator's role.
pub const OPERATOR_ROLE: &str = OPERATOR_DATABASE;

/// Whether the store has its operator's role.
pub fn exists(snapshot: &Snapshot) -> bool {
    snapshot.role(OPERATOR_ROLE).is_some()
}

/// Makes the role, or gives it this password if it has another.
///
/// # Errors
/// What is wrong with the password, and the catalog's.
pub async fn ensure(catalog: &Catalog, password: &str) -> Result<()> {
    let snapshot = catalog.snapshot();
    if let Some(role) = snapshot.role(OPERATOR_ROLE) {
        let same = role.secret.as_ref().is_some_and(|secret| is_password_of(password, secret));
        if same && role.login && role.operator {
            return Ok(());
        }
    }
    let secret = secret_of(password)?;
    catalog
        .commit(|snapshot| {
            let secret = Some(secret.clone());
            Ok(match snapshot.role(OPERATOR_ROLE) {
                Some(role) => Edit::AlterRole(Role { login: true, operator: true, secret, ..role.as_ref().clone() }),
                None => Edit::CreateRole(Role {
                    name: OPERATOR_ROLE.to_owned(),
                    oid: snapshot.next_oid,
                    login: true,
                    operator: true,
                    secret,
                    ..Role::default()
                }),
            })
        })
        .await?;
    Ok(())
}

/// Gives databases of before there were owners one, whose members are all roles that may connect
/// ([`Edit::GiveOwners`]): once, at the start.
///
/// A store that cannot be written serves all the same: nobody but operators has rights in such a database then.
pub(crate) async fn give_owners(catalog: &Catalog) {
    if catalog.snapshot().tenants.values().all(|tenant| tenant.owner.is_some()) {
        return;
    }
    match catalog.commit(|_| Ok(Edit::GiveOwners)).await {
        Ok(after) => {
            let owners = after.tenants.values().filter_map(|tenant| Some((&tenant.id, tenant.owner?)));
            for (tenant, owner) in owners {
                let owner = after.role_name(owner);
                tracing::info!(%tenant, owner, "a database has an owner, whose members are who may connect");
            }
        }
        Err(error) => tracing::warn!(%error, "databases of an earlier version have no owner yet"),
    }
}
