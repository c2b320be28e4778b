//! `CREATE ROLE`, `ALTER ROLE`, `DROP ROLE`, `GRANT` and `REVOKE CONNECT`.

use super::database::tenant_id;
use crate::pg::datetime::Input;
use crate::{
    auth::{self, operator::OPERATOR_ROLE},
    pg::{
        codec::parse,
        error::{Result, SqlError, SqlState},
    },
    session::Session,
    sql::ast::definition::{Definition, RoleOptions},
};
use keyspan_catalog::{Edit, Error, ErrorKind, Role, ScramSecret, Snapshot, snapshot::FIRST_OID};

/// Whether it is the session's own password that is changed, which needs no operator.
pub(super) fn is_own_password(session: &Session, definition: &Definition) -> bool {
    matches!(definition, Definition::AlterRole(name, RoleOptions {
        login: None, operator: None, password: Some(_), connection_limit: None, valid_until: None,
        inherit: None,
    }) if *name == session.identity.role)
}

pub(super) async fn create(session: &mut Session, name: &str, options: &RoleOptions) -> Result<()> {
    if name.is_empty() || name.len() > keyspan_catalog::ids::TENANT_ID_MAX {
        let message = format!("role name \"{name}\" does not have 1 to 63 bytes");
        return Err(SqlError::new(SqlState::INVALID_NAME, message));
    }
    let (secret, until) = (secret_of(options)?, valid_until(options)?);
    let edit = |snapshot: &Snapshot| {
        Ok(Edit::CreateRole(Role {
            name: name.to_owned(),
            oid: snapshot.next_oid.max(FIRST_OID),
            login: options.login.unwrap_or_default(),
            operator: options.operator.unwrap_or_default(),
            secret: secret.clone().flatten(),
            connection_limit: options.connection_limit.flatten(),
            valid_until_micros: until.flatten(),
            noinherit: options.inherit == Some(false),
            ..Role::default()
        }))
    };
    session.instance.catalog.commit(edit).await?;
    Ok(())
}

pub(super) async fn alter(session: &mut Session, name: &str, options: &RoleOptions) -> Result<()> {
    if name == OPERATOR_ROLE && (options.login == Some(false) || options.operator == Some(false)) {
        let message = format!("role \"{name}\" must stay an operator that can log in");
        return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message));
    }
    let (secret, until) = (secret_of(options)?, valid_until(options)?);
    let edit = |snapshot: &Snapshot| {
        let mut role = snapshot.role(name).ok_or_else(|| no_role(name))?.as_ref().clone();
        role.login = options.login.unwrap_or(role.login);
        role.operator = options.operator.unwrap_or(role.operator);
        role.secret = secret.clone().unwrap_or(role.secret);
        role.connection_limit = options.connection_limit.unwrap_or(role.connection_limit);
        role.noinherit = options.inherit.map_or(role.noinherit, |inherit| !inherit);
        role.valid_until_micros = until.unwrap_or(role.valid_until_micros);
        Ok(Edit::AlterRole(role))
    };
    session.instance.catalog.commit(edit).await?;
    Ok(())
}

pub(super) async fn drop(session: &mut Session, names: &[String], if_exists: bool) -> Result<()> {
    let catalog = session.instance.catalog.clone();
    for name in names {
        if *name == session.identity.role {
            return Err(SqlError::new(SqlState::OBJECT_IN_USE, "current user cannot be dropped"));
        }
        if name == OPERATOR_ROLE {
            let message = format!("role \"{name}\" is required by the system");
            return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message));
        }
        match catalog.commit(|_| Ok(Edit::DropRole(name.clone()))).await {
            Err(error) if if_exists && error.kind() == ErrorKind::NoRole => {
                session.skipped(&format!("role \"{name}\" does not exist"));
            }
            dropped => drop_ok(dropped)?,
        }
    }
    Ok(())
}

fn drop_ok<T>(result: keyspan_catalog::Result<T>) -> Result<()> {
    Ok(result.map(|_| ())?)
}

pub(super) async fn grant(session: &mut Session, databases: &[String], roles: &[String], given: bool) -> Result<()> {
    let catalog = session.instance.catalog.clone();
    for database in databases {
        let tenant = tenant_id(database)?;
        for role in roles {
            let edit = |_: &Snapshot| {
                let (role, tenant) = (role.clone(), tenant.clone());
                Ok(if given { Edit::GrantConnect(role, tenant) } else { Edit::RevokeConnect(role, tenant) })
            };
            catalog.commit(edit).await?;
        }
    }
    Ok(())
}

fn no_role(name: &str) -> Error {
    Error::new(ErrorKind::NoRole, format!("role \"{name}\" does not exist"))
}

/// When the password ends; the outer `None` when nothing was said, the inner for never.
fn valid_until(options: &RoleOptions) -> Result<Option<Option<i64>>> {
    match options.valid_until.as_deref() {
        None => Ok(None),
        Some(text) if text.trim().eq_ignore_ascii_case("infinity") => Ok(Some(None)),
        Some(text) => Ok(Some(Some(parse::timestamp(text, true, Input::initial())?))),
    }
}

/// The secret that a password becomes; the outer `None` when none was said.
fn secret_of(options: &RoleOptions) -> Result<Option<Option<ScramSecret>>> {
    match &options.password {
        None => Ok(None),
        Some(None) => Ok(Some(None)),
        Some(Some(password)) => Ok(Some(Some(auth::secret_of(password)?))),
    }
}
