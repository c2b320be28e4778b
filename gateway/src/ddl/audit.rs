//! What the [audit log](crate::audit) says of a definition: the statement's tag and the names that it is about, whether
//! it was made or refused. Texts of definitions are left out, since defaults, checks and views may hold values.

use crate::sql::ast::{domain::DomainChange, enum_type::TypeChange, schema::SchemaChange};
use crate::{
    audit::Event,
    pg::error::SqlError,
    session::Session,
    sql::ast::{
        definition::{Commented, DatabaseSource, Definition, RoleOptions, SessionsOf, SettingChange},
        grant::{Granted, GrantedOn, Owned, RightsChange, RoleSpec},
    },
};

/// Records a definition that was made, or why it was not.
pub(super) fn record(session: &Session, (tag, definition): (&str, &Definition), refused: Option<&SqlError>) {
    let kind = match definition {
        Definition::GrantConnect { .. } | Definition::RevokeConnect { .. } | Definition::Rights(_) => "grant",
        Definition::DropTables(_)
        | Definition::DropSequences(_)
        | Definition::DropViews(..)
        | Definition::DropProtos { .. }
        | Definition::DropServers(_)
        | Definition::DropDatabase { .. }
        | Definition::DropRoles { .. } => "drop",
        _ => "definition",
    };
    session.audit(of(Event::new(kind).text("statement", tag), definition), refused);
}

/// The event with names.
fn of(event: Event, definition: &Definition) -> Event {
    let one = |event: Event, name: &dyn std::fmt::Display| event.names("objects", [name.to_string()]);
    match definition {
        Definition::CreateTable(create) => one(event, &create.name),
        Definition::AlterTable(alter) => one(event, &alter.name),
        Definition::CreateSequence(create) => one(event, &create.name),
        Definition::AlterSequence(alter) => one(event, &alter.name),
        Definition::CreateView(create) => one(event, &create.name),
        Definition::CreateProto(create) => one(event, &create.name),
        Definition::CreateServer(create) => one(event, &create.name),
        Definition::DropServers(drop) => event.names("objects", drop.names.iter().cloned()),
        Definition::ImportForeignSchema(said) => one(event, &said.server),
        Definition::AlterView(alter) => one(event, &alter.name),
        Definition::DropTables(drop) | Definition::DropSequences(drop) | Definition::DropViews(_, drop) => {
            event.names("objects", drop.names.iter().map(ToString::to_string))
        }
        Definition::Comment(comment) => match &comment.on {
            Commented::Table(name)
            | Commented::View(_, name)
            | Commented::Column(name, _)
            | Commented::Type(name)
            | Commented::Domain(name) => one(event, name),
            Commented::Database(name) | Commented::Schema(name) => one(event, name),
        },
        Definition::Type(change) => match change {
            TypeChange::Create { name, .. }
            | TypeChange::AddLabel { name, .. }
            | TypeChange::Rename { name, .. }
            | TypeChange::Move { name, .. } => one(event, name),
            TypeChange::Drop { names, .. } => event.names("objects", names.iter().map(ToString::to_string)),
        },
        Definition::Domain(change) => match change {
            DomainChange::Create(create) => one(event, &create.name),
            DomainChange::Alter { name, .. } => one(event, name),
            DomainChange::Drop { names, .. } => event.names("objects", names.iter().map(ToString::to_string)),
        },
        Definition::Schema(change) => match change {
            SchemaChange::Create { name, owner, .. } => {
                event.names("objects", name.iter().cloned()).names("roles", owner.iter().map(role_name))
            }
            SchemaChange::Drop { names, .. } => event.names("objects", names.iter().cloned()),
            SchemaChange::Rename { name, .. } => one(event, name),
            SchemaChange::Move { name, .. } => one(event, name),
        },
        Definition::CreateDatabase { name, owner, source } => {
            let event = one(event, name).names("roles", owner.iter().map(role_name));
            source.iter().fold(event, |event, source| event.text("copied_from", copied_from(source)))
        }
        Definition::Rights(change) => of_rights(event, change),
        Definition::AlterDatabase { name, quotas } => {
            one(event, name).names("options", quotas.iter().map(|(quota, _)| quota.clone()))
        }
        Definition::DropDatabase { name, force, .. } => one(event, name).with("force", *force),
        Definition::SessionDefaults { of, change } => {
            let event = match of {
                SessionsOf::Role(name) | SessionsOf::Database(name) => one(event, name),
                SessionsOf::RoleIn { role, database } => event.names("objects", [role.clone(), database.clone()]),
            };
            match change {
                SettingChange::Set(name, _) => event.names("options", [name.clone()]),
                SettingChange::ResetAll => event.names("options", ["all".to_owned()]),
            }
        }
        Definition::CreateRole(name, options) | Definition::AlterRole(name, options) => {
            one(event, name).names("options", said(options).map(str::to_owned))
        }
        Definition::DropRoles { names, .. } | Definition::DropProtos { names, .. } => {
            event.names("objects", names.iter().cloned())
        }
        Definition::GrantConnect { databases, roles } | Definition::RevokeConnect { databases, roles } => {
            event.names("objects", databases.iter().cloned()).names("roles", roles.iter().cloned())
        }
    }
}

/// The event with what is granted or revoked, on what, and the roles.
fn of_rights(event: Event, change: &RightsChange) -> Event {
    let names = |roles: &[RoleSpec]| roles.iter().map(role_name).collect::<Vec<_>>();
    let granted = |event: Event, granted: &Granted| {
        let all = || vec!["all".to_owned()];
        let each = granted.privileges.map(|some| some.each().map(|(_, _, name)| name.to_lowercase()).collect());
        event.names("privileges", each.unwrap_or_else(all)).names("roles", names(&granted.roles))
    };
    match change {
        RightsChange::Privileges(what, on) => granted(event.names("objects", objects(on)), what),
        RightsChange::Defaults { roles, granted: what, .. } => granted(event.names("objects", names(roles)), what),
        RightsChange::Membership { roles, members, .. } => {
            event.names("objects", names(roles)).names("roles", names(members))
        }
        RightsChange::Owner(owned, to) => {
            let name = match owned {
                Owned::Table(name, _)
                | Owned::View(name, _)
                | Owned::Materialized(name, _)
                | Owned::Sequence(name, _)
                | Owned::Type(name)
                | Owned::Domain(name) => name.to_string(),
                Owned::Database(name) | Owned::Schema(name) => name.clone(),
            };
            event.names("objects", [name]).names("roles", [role_name(to)])
        }
        RightsChange::Reassign(roles, to) => event.names("objects", names(roles)).names("roles", [role_name(to)]),
    }
}

fn objects(on: &GrantedOn) -> Vec<String> {
    match on {
        GrantedOn::Relations(names) | GrantedOn::Sequences(names) => names.iter().map(ToString::to_string).collect(),
        GrantedOn::All(_, schemas) | GrantedOn::Schemas(schemas) => schemas.clone(),
        GrantedOn::Nothing => Vec::new(),
    }
}

fn role_name(role: &RoleSpec) -> String {
    match role {
        RoleSpec::Named(name) => name.clone(),
        RoleSpec::Public => "public".to_owned(),
        RoleSpec::Current => "current_user".to_owned(),
    }
}

/// The tenant that is copied; the path of a backup is left out.
fn copied_from(source: &DatabaseSource) -> &str {
    match source {
        DatabaseSource::Template { name, .. } => name,
        DatabaseSource::Backup { tenant, .. } => tenant,
    }
}

/// The options that a statement about a role has.
fn said(options: &RoleOptions) -> impl Iterator<Item = &'static str> {
    let RoleOptions { login, operator, password, connection_limit, valid_until, inherit } = options;
    let flag = |said: &Option<bool>, yes, no| said.map(|is| if is { yes } else { no });
    [
        flag(login, "login", "nologin"),
        flag(operator, "superuser", "nosuperuser"),
        password.as_ref().map(|_| "password"),
        connection_limit.map(|_| "connection limit"),
        valid_until.as_ref().map(|_| "valid until"),
        flag(inherit, "inherit", "noinherit"),
    ]
    .into_iter()
    .flatten()
}
