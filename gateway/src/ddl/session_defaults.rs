//! `ALTER ROLE … SET` and `ALTER DATABASE … SET`: settings that sessions begin with, from their next log-in on.
//!
//! A later one of this list goes before an earlier: the setting's own default, the database's, the role's, the role's
//! in that database, and what the client says when it connects ([`stored`]).

use crate::{
    identity::Identity,
    pg::error::Result,
    session::Session,
    settings::Settings,
    sql::ast::definition::{Definition, SessionsOf, SettingChange},
};
use keyspan_catalog::{Edit, Error, ErrorKind, SettingDefaults, Snapshot, TenantId};

/// Whether a role says what its own sessions begin with, which needs no operator.
pub(super) fn is_own(session: &Session, definition: &Definition) -> bool {
    let Definition::SessionDefaults { of, .. } = definition else { return false };
    match of {
        SessionsOf::Role(role) => *role == session.identity.role,
        SessionsOf::RoleIn { role, database } => {
            *role == session.identity.role && *database == session.identity.database
        }
        SessionsOf::Database(_) => false,
    }
}

pub(super) async fn change(session: &mut Session, of: &SessionsOf, change: &SettingChange) -> Result<()> {
    let change = checked(change, session.identity.operator)?;
    let edit = |snapshot: &Snapshot| edited(snapshot, of, &change);
    session.instance.catalog.commit(edit).await?;
    Ok(())
}

/// The change with names and values as settings take them; 42501 for what only operators set.
fn checked(change: &SettingChange, operator: bool) -> Result<SettingChange> {
    match change {
        SettingChange::Set(name, value) => {
            let (name, value, _) = Settings::checked(name, value.as_deref(), operator)?;
            Ok(SettingChange::Set(name.into_owned(), value))
        }
        SettingChange::ResetAll => Ok(SettingChange::ResetAll),
    }
}

fn edited(snapshot: &Snapshot, of: &SessionsOf, change: &SettingChange) -> keyspan_catalog::Result<Edit> {
    let role = |name: &str| {
        let missing = || Error::new(ErrorKind::NoRole, format!("role \"{name}\" does not exist"));
        snapshot.role(name).map(|role| role.as_ref().clone()).ok_or_else(missing)
    };
    let tenant = |name: &str| {
        let missing = || Error::new(ErrorKind::NoTenant, format!("database \"{name}\" does not exist"));
        snapshot.tenant(name).ok_or_else(missing)
    };
    match of {
        SessionsOf::Role(name) => {
            let mut role = role(name)?;
            apply(&mut role.settings, change);
            Ok(Edit::AlterRole(role))
        }
        SessionsOf::RoleIn { role: name, database } => {
            let (mut role, tenant) = (role(name)?, tenant(database)?);
            let settings = role.settings_in.entry(tenant.id.clone()).or_default();
            apply(settings, change);
            if settings.is_empty() {
                role.settings_in.remove(&tenant.id);
            }
            Ok(Edit::AlterRole(role))
        }
        SessionsOf::Database(name) => {
            let tenant = tenant(name)?;
            let mut settings = tenant.settings.clone();
            apply(&mut settings, change);
            Ok(Edit::SetTenantSettings(tenant.id.clone(), settings))
        }
    }
}

fn apply(settings: &mut SettingDefaults, change: &SettingChange) {
    match change {
        SettingChange::Set(name, Some(value)) => {
            settings.insert(name.clone(), value.clone());
        }
        SettingChange::Set(name, None) => {
            settings.remove(name);
        }
        SettingChange::ResetAll => settings.clear(),
    }
}

/// What a session begins with, in the order in which it is set: of a name that occurs twice the last value holds.
pub(crate) fn stored<'a>(snapshot: &'a Snapshot, identity: &Identity) -> Vec<(&'a str, &'a str)> {
    let (database, role) = (identity.rows.tenant(), snapshot.role(&identity.role));
    let of_database = database.and_then(|id| snapshot.tenant(id.as_str())).map(|tenant| &tenant.settings);
    let of_role = role.map(|role| &role.settings);
    let of_both = database.zip(role).and_then(|(id, role): (&TenantId, _)| role.settings_in.get(id));
    let all = [of_database, of_role, of_both].into_iter().flatten().flatten();
    all.map(|(name, value)| (name.as_str(), value.as_str())).collect()
}
