//! Who a session is.

use crate::pg::error::{Result, SqlError, SqlState};
use keyspan_catalog::{Snapshot, TenantStore};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Who a session is; fixed at authentication. What it may do, the catalog says at each statement
/// ([`check_rights`](Identity::check_rights)).
#[derive(Clone, Debug)]
pub struct Identity {
    /// The role's name.
    pub role: String,
    /// The role's OID: another role of the same name is not the session's. `None` in a program that makes sessions
    /// without a log-in, where no role is looked at.
    pub role_oid: Option<u32>,
    /// Whether it is an operator in the operator's database: defines tables, tenants and roles.
    pub operator: bool,
    /// The database: a tenant's id, or `keyspan`.
    pub database: String,
    /// The only door to rows.
    pub rows: TenantStore,
    /// The version of the newest catalog by which it may be here; [`u64::MAX`] before the first check.
    pub(crate) checked: Checked,
}

/// The version of a catalog that was looked at.
#[derive(Clone, Debug)]
pub(crate) struct Checked(Arc<AtomicU64>);

impl Default for Checked {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(u64::MAX)))
    }
}

impl Identity {
    /// Checks that the role may still be here: that it and its database are those that it logged in with, and that it
    /// may log in and connect.
    ///
    /// # Errors
    /// 57P01, which ends the session.
    pub fn check_rights(&self, snapshot: &Snapshot) -> Result<()> {
        if self.checked.0.load(Ordering::Relaxed) == snapshot.version {
            return Ok(());
        }
        self.look(snapshot)?;
        self.checked.0.store(snapshot.version, Ordering::Relaxed);
        Ok(())
    }

    fn look(&self, snapshot: &Snapshot) -> Result<()> {
        let ended = |why: String| {
            let message = "terminating connection due to administrator command";
            Err(SqlError::new(SqlState::ADMIN_SHUTDOWN, message).with_detail(why))
        };
        let tenant = self.rows.tenant();
        let same = |oid: u32| self.rows.oid().is_none_or(|known| known == oid);
        if tenant.is_some_and(|id| !snapshot.tenant(id.as_str()).is_some_and(|tenant| same(tenant.oid))) {
            return ended(format!("Database \"{}\" was dropped.", self.database));
        }
        let Some(role_oid) = self.role_oid else { return Ok(()) };
        let Some(role) = snapshot.role(&self.role).filter(|role| role.oid == role_oid) else {
            return ended(format!("Role \"{}\" was dropped.", self.role));
        };
        if !role.login {
            return ended(format!("Role \"{}\" may not log in any more.", self.role));
        }
        let Some(id) = tenant else {
            return match role.operator {
                true => Ok(()),
                false => ended(format!("Role \"{}\" is no operator any more.", self.role)),
            };
        };
        if snapshot.tenant(id.as_str()).is_some_and(|tenant| snapshot.may_connect(role, tenant)) {
            return Ok(());
        }
        ended(format!("Role \"{}\" may not connect to database \"{}\" any more.", self.role, self.database))
    }
}
