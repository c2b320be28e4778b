//! Definitions: tables, databases, roles, grants. The operator's, in database `keyspan`; private tables are a tenant's
//! own.
//!
//! Each becomes [`Edit`](keyspan_catalog::Edit)s of the catalog, derived from the newest snapshot and tried again when
//! another edit comes first. Those of shared tables, databases and roles stand by themselves: they commit at once and
//! cannot be part of a transaction. A tenant's own are part of the transaction that they stand in.

mod audit;
mod clock;
mod column_defaults;
mod comment;
mod database;
mod database_copy;
mod domain;
mod drop_type;
mod dry_run;
mod enum_type;
mod erasure;
mod foreign;
mod import;
mod membership;
mod own_type;
pub(crate) mod private;
mod proto;
mod quota;
mod retype;
mod rewrite_rows;
mod rights;
mod role;
mod schema;
mod sequence;
mod server;
mod session_defaults;
pub(crate) mod table;
pub(crate) mod view;

pub(crate) use clock::confirm_clock;
pub use database::explain_drop_database;
pub use dry_run::explain_alter_table;
pub(crate) use session_defaults::stored;

use crate::{
    pg::error::{Result, SqlError, SqlState},
    session::Session,
    shield::shielded,
    sql::ast::{
        definition::{Definition, SessionsOf},
        view::{AlterView, ViewKind},
    },
};

/// The command tag of a definition.
pub fn tag(definition: &Definition) -> &'static str {
    match definition {
        Definition::CreateTable(create) if create.found.is_some() => "CREATE FOREIGN TABLE",
        Definition::CreateTable(_) => "CREATE TABLE",
        Definition::AlterTable(_) => "ALTER TABLE",
        Definition::DropTables(_) => "DROP TABLE",
        Definition::CreateSequence(_) => "CREATE SEQUENCE",
        Definition::AlterSequence(_) => "ALTER SEQUENCE",
        Definition::DropSequences(_) => "DROP SEQUENCE",
        Definition::CreateView(_) => "CREATE VIEW",
        Definition::AlterView(AlterView { kind: Some(ViewKind::Materialized), .. }) => "ALTER MATERIALIZED VIEW",
        Definition::AlterView(_) => "ALTER VIEW",
        Definition::DropViews(ViewKind::Materialized, _) => "DROP MATERIALIZED VIEW",
        Definition::DropViews(ViewKind::Plain, _) => "DROP VIEW",
        Definition::CreateProto(_) => "CREATE PROTO DESCRIPTOR",
        Definition::DropProtos { .. } => "DROP PROTO DESCRIPTOR",
        Definition::Schema(said) => schema::tag(said),
        Definition::Type(said) => enum_type::tag(said),
        Definition::Domain(said) => domain::tag(said),
        Definition::CreateServer(_) => "CREATE SERVER",
        Definition::DropServers(_) => "DROP SERVER",
        Definition::ImportForeignSchema(_) => "IMPORT FOREIGN SCHEMA",
        Definition::Comment(_) => "COMMENT",
        Definition::CreateDatabase { .. } => "CREATE DATABASE",
        Definition::Rights(change) => rights::tag(change),
        Definition::AlterDatabase { .. } => "ALTER DATABASE",
        Definition::SessionDefaults { of: SessionsOf::Database(_), .. } => "ALTER DATABASE",
        Definition::SessionDefaults { .. } => "ALTER ROLE",
        Definition::DropDatabase { .. } => "DROP DATABASE",
        Definition::CreateRole(..) => "CREATE ROLE",
        Definition::AlterRole(..) => "ALTER ROLE",
        Definition::DropRoles { .. } => "DROP ROLE",
        Definition::GrantConnect { .. } => "GRANT",
        Definition::RevokeConnect { .. } => "REVOKE",
    }
}

/// Whether the definition commits at once, whatever transaction it stands in.
pub fn stands_alone(session: &Session, definition: &Definition) -> bool {
    let global = matches!(
        definition,
        Definition::CreateDatabase { .. }
            | Definition::AlterDatabase { .. }
            | Definition::SessionDefaults { .. }
            | Definition::DropDatabase { .. }
            | Definition::CreateServer(_)
            | Definition::DropServers(_)
            | Definition::ImportForeignSchema(_)
            | Definition::CreateRole(..)
            | Definition::AlterRole(..)
            | Definition::DropRoles { .. }
            | Definition::GrantConnect { .. }
            | Definition::RevokeConnect { .. }
    );
    let global = global || matches!(definition, Definition::Rights(change) if rights::is_global(change));
    global || session.identity.operator
}

/// Makes the definition.
///
/// # Errors
/// 42501 outside of the operator's database; what the definition contradicts; the store's.
pub async fn execute(session: &mut Session, definition: &Definition) -> Result<()> {
    let allowed = match definition {
        Definition::CreateTable(_)
        | Definition::AlterTable(_)
        | Definition::DropTables(_)
        | Definition::CreateSequence(_)
        | Definition::AlterSequence(_)
        | Definition::DropSequences(_)
        | Definition::CreateView(_)
        | Definition::AlterView(_)
        | Definition::DropViews(..)
        | Definition::CreateProto(_)
        | Definition::DropProtos { .. }
        | Definition::Schema(_)
        | Definition::Type(_)
        | Definition::Domain(_)
        | Definition::Comment(_) => defines_tables(session),
        // Who may change which rights, those rights say.
        Definition::Rights(_) => true,
        _ => {
            session.identity.operator
                || role::is_own_password(session, definition)
                || session_defaults::is_own(session, definition)
        }
    };
    if !allowed {
        let command = tag(definition);
        let refused = SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("permission denied for {command}"))
            .with_detail("Databases and roles are defined by an operator in database \"keyspan\".");
        audit::record(session, (tag(definition), definition), Some(&refused));
        return Err(refused);
    }
    // It takes as long as there are rows, and can be cancelled at any time: nothing of it shows before its end.
    if let Definition::CreateDatabase { name, owner, source: Some(source) } = definition {
        let made = Box::pin(database_copy::create(session, name, owner.as_ref(), source)).await;
        audit::record(session, (tag(definition), definition), made.as_ref().err());
        return made;
    }
    // What is there is read before anything is made: that can be cancelled, too.
    if let Definition::ImportForeignSchema(said) = definition {
        let made = Box::pin(import::import(session, said)).await;
        audit::record(session, (tag(definition), definition), made.as_ref().err());
        return made;
    }
    // A definition must not be applied by half: a cancel request waits until it is complete.
    let made = shielded(Box::pin(make(session, definition))).await;
    audit::record(session, (tag(definition), definition), made.as_ref().err());
    made
}

/// Whether the session may define tables: private ones in a tenant's database, shared ones as an operator.
fn defines_tables(session: &Session) -> bool {
    session.identity.operator || session.identity.rows.tenant().is_some()
}

async fn make(session: &mut Session, definition: &Definition) -> Result<()> {
    let private = !session.identity.operator;
    match definition {
        Definition::CreateTable(create) if private => private::create(session, create).await,
        Definition::AlterTable(alter) if private && view::is_view(session, &alter.name) => {
            view::alter_table(session, alter).await
        }
        Definition::AlterTable(alter) if private => {
            private::alter(session, alter).await?;
            sequence::of_columns(session, &alter.name, &alter.actions).await
        }
        Definition::DropTables(drop) if private => private::drop(session, drop).await,
        Definition::CreateSequence(create) => private::create_sequence(session, create).await,
        Definition::AlterSequence(alter) => sequence::alter(session, alter).await,
        Definition::DropSequences(drop) => private::drop_sequences(session, drop).await,
        Definition::CreateView(create) => view::create(session, create).await,
        Definition::AlterView(alter) => view::alter(session, alter).await,
        Definition::DropViews(kind, drop) => view::drop(session, *kind, drop).await,
        Definition::CreateProto(create) => proto::create(session, create).await,
        Definition::DropProtos { names, if_exists } => proto::drop(session, names, *if_exists).await,
        Definition::Schema(said) => schema::execute(session, said).await,
        Definition::Type(said) => enum_type::execute(session, said).await,
        Definition::Domain(said) => domain::execute(session, said).await,
        Definition::CreateServer(create) => server::create(session, create).await,
        Definition::DropServers(drop) => server::drop(session, drop).await,
        Definition::ImportForeignSchema(said) => import::import(session, said).await,
        Definition::Comment(said) => comment::comment(session, said).await,
        Definition::CreateTable(create) => table::create(session, create).await,
        Definition::AlterTable(alter) => table::alter(session, alter).await,
        Definition::DropTables(drop) => table::drop(session, drop).await,
        Definition::CreateDatabase { name, owner, .. } => database::create(session, name, owner.as_ref()).await,
        Definition::Rights(change) => rights::change(session, change).await,
        Definition::AlterDatabase { name, quotas } => database::alter(session, name, quotas).await,
        Definition::SessionDefaults { of, change } => session_defaults::change(session, of, change).await,
        Definition::DropDatabase { name, if_exists, force } => database::drop(session, name, *if_exists, *force).await,
        Definition::CreateRole(name, options) => role::create(session, name, options).await,
        Definition::AlterRole(name, options) => role::alter(session, name, options).await,
        Definition::DropRoles { names, if_exists } => role::drop(session, names, *if_exists).await,
        Definition::GrantConnect { databases, roles } => role::grant(session, databases, roles, true).await,
        Definition::RevokeConnect { databases, roles } => role::grant(session, databases, roles, false).await,
    }
}
