//! `GRANT role TO role`, `REVOKE role FROM role`.
//!
//! Roles are the server's: operators make members, in the operator's database; and roles with the admin option, in any
//! database that they are in.

use super::rights::role_oid;
use crate::{
    pg::error::{Result, SqlError, SqlState},
    session::Session,
    sql::ast::grant::RoleSpec,
};
use keyspan_catalog::{Edit, Snapshot, rights::PUBLIC};

/// Makes members, or lets them go.
///
/// # Errors
/// 42501 without the admin option; 42704 for roles that are not there; 0LP01 for a circle.
pub(super) async fn change(
    session: &mut Session,
    grant: bool,
    (roles, members): (&[RoleSpec], &[RoleSpec]),
    admin: bool,
) -> Result<()> {
    for role in roles {
        for member in members {
            one(session, grant, (role, member), admin).await?;
        }
    }
    Ok(())
}

async fn one(session: &mut Session, grant: bool, (role, member): (&RoleSpec, &RoleSpec), admin: bool) -> Result<()> {
    let catalog = session.instance.catalog.clone();
    let snapshot = catalog.snapshot();
    let (oid, member) = (role_oid(session, &snapshot, role)?, role_oid(session, &snapshot, member)?);
    if oid == PUBLIC || member == PUBLIC {
        return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, "role \"public\" does not exist"));
    }
    let name = snapshot.role_name(oid);
    if !may_admit(session, &snapshot, oid) {
        let message = format!("must have admin option on role \"{name}\"");
        return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
    }
    let Some(of) = snapshot.role_of(member).cloned() else {
        let message = format!("role \"{}\" cannot be a member of any role", snapshot.role_name(member));
        return Err(SqlError::new(SqlState::INVALID_GRANT_OPERATION, message));
    };
    let known = of.member_of.get(&oid);
    if grant && known.is_some_and(|known| known.admin || !admin) {
        let message = format!("role \"{}\" is already a member of role \"{name}\"", of.name);
        session.notice(SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message));
        return Ok(());
    }
    if !grant && known.is_none() {
        let message = format!("role \"{}\" is not a member of role \"{name}\"", of.name);
        session.notice(SqlError::new(SqlState::WARNING, message));
        return Ok(());
    }
    let edit = |_: &Snapshot| {
        let member = of.name.clone();
        Ok(if grant { Edit::GrantRole(oid, member, admin) } else { Edit::RevokeRole(oid, member, admin) })
    };
    catalog.commit(edit).await?;
    Ok(())
}

/// Whether the session may make members of a role. Of one whose rights operators have nobody else does.
fn may_admit(session: &Session, snapshot: &Snapshot, role: u32) -> bool {
    if session.identity.operator {
        return true;
    }
    let Some((me, _)) = session.limited() else { return false };
    if snapshot.is_operator(me) {
        return true;
    }
    let holders = snapshot.roles_with(session.identity.rows.tenant(), me);
    let mut memberships = holders.iter().filter_map(|holder| snapshot.role_of(*holder)?.member_of.get(&role));
    !snapshot.is_operator(role) && memberships.any(|membership| membership.admin)
}
