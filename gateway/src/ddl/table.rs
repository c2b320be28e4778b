//! `CREATE TABLE`, `ALTER TABLE`, `DROP TABLE`.

use super::{
    column_defaults::{ColumnClauses, WithSequence, settled_check},
    erasure::{self, Dropped},
    foreign, own_type, proto,
    retype::{self, Conversion, Retyped},
    sequence,
};
use crate::{
    dml,
    pg::{
        error::{Result, SqlError},
        names::{RelationName, Schema},
    },
    session::Session,
    sql::ast::definition::{AlterAction, AlterTable, ColumnClause, CreateTable, DropTables, OptionClause},
};
use keyspan_catalog::{
    Edit, Encoding, Error, ErrorKind, PartOrder, Snapshot, SqlType, Table, TableId, TenantId,
    table::{ColumnDefault, ColumnDefinition, FamilyDefinition, TableDefinition},
};
use std::{collections::BTreeSet, sync::Arc};

pub(super) async fn create(session: &mut Session, create: &CreateTable) -> Result<()> {
    if create.on_commit.is_some() || create.name.schema == Some(Schema::Temporary) {
        return Err(SqlError::unsupported("a temporary table in the operator's database")
            .with_hint("A temporary table belongs to a session of a tenant's database."));
    }
    session.place_of(&create.name)?;
    let catalog = session.instance.catalog.clone();
    if create.if_not_exists && catalog.snapshot().table(&create.name).is_some() {
        session.skipped(&format!("relation \"{}\" already exists", create.name));
        return Ok(());
    }
    let found = foreign::found(session, create).await?;
    let definition = |snapshot: &Snapshot| -> keyspan_catalog::Result<TableDefinition> {
        let remote = foreign::remote(create, snapshot, found.as_ref())?;
        Ok(TableDefinition { remote, ..definition_of(create, snapshot, None)? })
    };
    let draft = Table::define(TableId(keyspan_catalog::snapshot::FIRST_OID), &definition(&catalog.snapshot())?)?;
    let given = ColumnClauses::of(session, create, &draft).await?;
    if given.has_sequences() {
        return Err(SqlError::unsupported("a sequence of a shared table")
            .with_hint("Consecutive keys all meet at one place; use uuid, or a key of what identifies the row."));
    }
    let edit = |snapshot: &Snapshot| {
        let id = TableId(snapshot.next_oid.max(keyspan_catalog::snapshot::FIRST_OID));
        Ok(Edit::CreateTable(given.put(Table::define(id, &definition(snapshot)?)?, snapshot, None)?.0))
    };
    catalog.commit(edit).await?;
    Ok(())
}

pub(super) async fn alter(session: &mut Session, alter: &AlterTable) -> Result<()> {
    let catalog = session.instance.catalog.clone();
    let before = catalog.snapshot();
    let Some(table) = shared(&before, &alter.name) else {
        if alter.if_exists {
            session.skipped(&format!("relation \"{}\" does not exist", alter.name));
            return Ok(());
        }
        return Err(missing(session, &alter.name));
    };
    for action in &alter.actions {
        refuse_for_shared(action)?;
        if let Some(what) = passed_over(table, action) {
            session.skipped(&what);
        }
    }
    foreign::reach(session, table).await?;
    let cascading = cascading(table, &alter.actions);
    let actions = settle(session, table, &alter.actions).await?;
    if !cascading.is_empty() {
        super::view::drop_shared(session, table.id.0, Some(&cascading)).await?;
    }
    let requested_micros = session.instance.clock.now_micros();
    let planned = actions.iter().try_fold(table.as_ref().clone(), |table, action| apply(&table, action))?;
    let rows = session.identity.rows.clone();
    let dropped = erasure::count(&rows, &rows.pin().await?, (table, &planned)).await?;
    let session = &*session;
    let edit = |snapshot: &Snapshot| {
        let table = snapshot.table(&alter.name).ok_or_else(|| no_table(&alter.name))?;
        let changed = actions.iter().try_fold(table.as_ref().clone(), |table, action| apply(&table, action))?;
        if dropped.is_empty() {
            return Ok(Edit::AlterTable(changed));
        }
        let target = |one: &Dropped| erasure::shared_target(&changed, one);
        let orders = erasure::orders(session, &changed, &dropped, requested_micros, target);
        Ok(Edit::EraseFromTable(Box::new((changed, orders))))
    };
    catalog.commit(edit).await?;
    if !dropped.is_empty() {
        session.instance.purges.wake();
    }
    Ok(())
}

/// The shared table of a name; `None` in any schema but `public`.
pub(super) fn shared<'a>(snapshot: &'a Snapshot, name: &RelationName) -> Option<&'a Arc<Table>> {
    match name.schema {
        None | Some(Schema::Public) => snapshot.table(name),
        _ => None,
    }
}

fn missing(session: &Session, name: &RelationName) -> SqlError {
    match name.schema {
        Some(Schema::Own(_)) => session.missing(name, "relation"),
        _ => no_table(name).into(),
    }
}

pub(super) async fn drop(session: &mut Session, drop: &DropTables) -> Result<()> {
    let catalog = session.instance.catalog.clone();
    let snapshot = catalog.snapshot();
    let mut tables: Vec<Arc<Table>> = Vec::with_capacity(drop.names.len());
    for name in &drop.names {
        match shared(&snapshot, name) {
            Some(table) => tables.push(table.clone()),
            None if drop.if_exists => session.skipped(&format!("table \"{name}\" does not exist")),
            None => return Err(missing(session, name)),
        }
    }
    for table in tables {
        if drop.cascade {
            super::view::drop_shared(session, table.id.0, None).await?;
        }
        catalog.commit(|_| Ok(Edit::DropTable(table.id))).await?;
        if table.remote.is_some()
            && let Err(error) = catalog.finish_servers().await
        {
            tracing::warn!(table = %table.physical, %error, "a dropped table is still on its server");
            session.instance.purges.wake();
        }
    }
    Ok(())
}

/// What asks something of rows: those of a shared table are every tenant's.
fn refuse_for_shared(action: &AlterAction) -> Result<()> {
    let what = match action {
        AlterAction::AddColumn { key: true, .. } => "ADD COLUMN … PRIMARY KEY",
        AlterAction::AddColumn { checks, .. } if !checks.is_empty() => "ADD COLUMN … CHECK",
        AlterAction::AddColumn { column, .. } if column.default.is_some() => {
            return Err(SqlError::unsupported("ALTER TABLE … ADD COLUMN … DEFAULT of a shared table")
                .with_hint("Add the column, UPDATE it, then ALTER COLUMN … SET DEFAULT for rows to come."));
        }
        AlterAction::AddCheck(_) | AlterAction::AddPrimaryKey(_) => "ADD CONSTRAINT",
        AlterAction::AddIdentity { .. } => "ALTER COLUMN … ADD GENERATED",
        AlterAction::AlterIdentity { .. } => "ALTER COLUMN … SET GENERATED",
        _ => return Ok(()),
    };
    Err(SqlError::unsupported(format!("ALTER TABLE … {what} of a shared table")))
}

fn no_table(name: &str) -> Error {
    Error::new(ErrorKind::NoTable, format!("relation \"{name}\" does not exist"))
}

/// The definition of a table, whose columns may hold messages of the tenant's own descriptors and of the operator's.
///
/// # Errors
/// For a message that is not known.
pub(super) fn definition_of(
    create: &CreateTable,
    snapshot: &Snapshot,
    tenant: Option<&TenantId>,
) -> keyspan_catalog::Result<TableDefinition> {
    foreign::refuse(create, tenant)?;
    let family = |family: &crate::sql::ast::definition::FamilyClause| FamilyDefinition {
        name: family.name.clone(),
        columns: family.columns.clone(),
        open: family.open,
    };
    let column = |column: &ColumnClause| Ok(column_of(column, proto::encoding(snapshot, tenant, column)?));
    Ok(TableDefinition {
        name: create.name.name.clone(),
        columns: create.columns.iter().map(column).collect::<keyspan_catalog::Result<_>>()?,
        primary_key: create.primary_key.iter().map(|part| (part.column.clone(), part.order)).collect(),
        families: create.families.iter().map(family).collect(),
        options: pairs(&create.options).into_iter().chain(foreign::table_options(create)).collect(),
        remote: None,
    })
}

/// A column; one that holds messages is a jsonb.
fn column_of(column: &ColumnClause, message: Option<Encoding>) -> ColumnDefinition {
    let cells = column.cells.clone().unwrap_or_default();
    ColumnDefinition {
        name: column.name.clone(),
        kind: if message.is_some() { SqlType::Jsonb } else { column.kind },
        not_null: column.not_null,
        family: cells.family,
        encoding: message.or(cells.encoding),
        qualifier: cells.qualifier,
    }
}

/// Options by dotted name.
pub(crate) fn pairs(options: &[OptionClause]) -> Vec<(String, String)> {
    let name = |option: &OptionClause| match &option.family {
        Some(family) => format!("{family}.{}", option.name),
        None => option.name.clone(),
    };
    options.iter().map(|option| (name(option), option.value.clone())).collect()
}

/// The numbers of the columns that are dropped with all that depends on them.
pub(super) fn cascading(table: &Table, actions: &[AlterAction]) -> BTreeSet<u16> {
    let dropped = actions.iter().filter_map(|action| match action {
        AlterAction::DropColumn { name, cascade: true, .. } => table.column(name).map(|column| column.id),
        _ => None,
    });
    dropped.collect()
}

/// What an action with `IF [NOT] EXISTS` has nothing to do for.
pub(super) fn passed_over(table: &Table, action: &AlterAction) -> Option<String> {
    match action {
        AlterAction::AddColumn { column, if_not_exists: true, .. } if table.column(&column.name).is_some() => {
            Some(format!("column \"{}\" of relation \"{}\" already exists", column.name, table.name))
        }
        AlterAction::DropColumn { name, if_exists: true, .. } if table.column(name).is_none() => {
            Some(format!("column \"{name}\" of relation \"{}\" does not exist", table.name))
        }
        AlterAction::DropConstraint { name, if_exists: true }
            if table.checks.iter().all(|check| check.name != *name) && !is_primary_key(table, name) =>
        {
            Some(format!("constraint \"{name}\" of relation \"{}\" does not exist", table.name))
        }
        AlterAction::AddFamily { name, if_not_exists: true, .. } if table.family(name).is_some() => {
            Some(format!("family \"{name}\" of relation \"{}\" already exists", table.name))
        }
        _ => None,
    }
}

/// An action whose expressions were evaluated.
#[derive(Debug)]
pub(super) enum Settled {
    /// One without.
    Action(Box<AlterAction>),
    /// A default.
    Default(String, Option<ColumnDefault>),
    /// A type.
    Retyped(Box<Retyped>),
    /// A column, with what is given with it.
    Added { column: ColumnDefinition, given: ColumnClauses, key: bool, if_not_exists: bool },
    /// An identity: the sequence of a column that is there.
    Identity(ColumnClauses),
    /// A condition: its name, what it says, and the columns that it names.
    Check(Option<String>, String, Vec<String>),
}

impl Settled {
    /// How it converts what is stored.
    pub(super) fn conversion(&self) -> Option<&Conversion> {
        match self {
            Self::Retyped(retyped) => retyped.conversion.as_ref(),
            _ => None,
        }
    }

    /// The columns to which it gives a sequence: `added` tells those that the table did not have before.
    pub(super) fn own_sequences(&self, added: impl Fn(&str) -> bool) -> Vec<WithSequence> {
        match self {
            Self::Added { given, .. } => given.own().iter().filter(|own| added(&own.column)).cloned().collect(),
            Self::Identity(given) => given.own().to_vec(),
            _ => Vec::new(),
        }
    }
}

/// Evaluates what actions need.
pub(super) async fn settle(session: &mut Session, table: &Table, actions: &[AlterAction]) -> Result<Vec<Settled>> {
    let mut settled = Vec::with_capacity(actions.len());
    // Each action meets the table as those before it leave it.
    let (before, mut table) = (table, table.clone());
    for action in actions {
        let next = match action {
            AlterAction::AddColumn { column, checks, key, if_not_exists } if passed_over(&table, action).is_none() => {
                let tenant = session.identity.rows.tenant();
                let column = &own_type::with_kind(session, column)?;
                let message = proto::encoding(&session.catalog_snapshot(), tenant, column)?;
                let definition = column_of(column, message);
                let draft = table.add_column(&definition)?;
                let given = ColumnClauses::of_added(session, column, checks, &draft).await?;
                Settled::Added { column: definition, given, key: *key, if_not_exists: *if_not_exists }
            }
            AlterAction::AddCheck(check) => {
                let (sql, columns) = settled_check(session, &table, &check.condition).await?;
                Settled::Check(check.name.clone(), sql, columns)
            }
            AlterAction::SetDefault { column, default } => {
                let identity = table.column(column).is_some_and(|column| column.identity.is_some());
                if identity {
                    let message = format!("column \"{column}\" of relation \"{}\" is an identity column", table.name);
                    return Err(SqlError::syntax(message));
                }
                let default = match default {
                    Some(expression) => dml::settled(&session.query_now().await?, &table, column, expression).await?,
                    None => None,
                };
                Settled::Default(column.clone(), default)
            }
            AlterAction::SetType { column, kind, own_type, using } => {
                let to = (*kind, own_type.as_ref());
                retype::of(session, (before, &table), (column, to, using.as_deref())).await?
            }
            AlterAction::AlterIdentity { column, .. } => {
                sequence::of_identity(&table, column)?;
                Settled::Action(Box::new(action.clone()))
            }
            AlterAction::AddIdentity { column, identity, sequence } => {
                Settled::Identity(ColumnClauses::of_identity(&table, column, *identity, sequence)?)
            }
            action => Settled::Action(Box::new(action.clone())),
        };
        table = apply(&table, &next)?;
        settled.push(next);
    }
    Ok(settled)
}

/// Whether the name is that of the table's primary key.
fn is_primary_key(table: &Table, name: &str) -> bool {
    !table.has_hidden_key()
        && table.checks.iter().all(|check| check.name != *name)
        && name.strip_suffix("_pkey").is_some_and(|of| of == table.name)
}

pub(super) fn apply(table: &Table, action: &Settled) -> keyspan_catalog::Result<Table> {
    let action = match action {
        Settled::Action(action) => action.as_ref(),
        Settled::Default(column, default) => return table.set_default(column, default.clone()),
        Settled::Retyped(retyped) => return retyped.apply(table),
        // Its sequence is made when all else is.
        Settled::Identity(_) => return Ok(table.clone()),
        Settled::Check(name, sql, columns) => return table.add_check(name.as_deref(), sql.clone(), columns.clone()),
        Settled::Added { column, if_not_exists: true, .. } if table.column(&column.name).is_some() => {
            return Ok(table.clone());
        }
        Settled::Added { column, given, key, .. } => {
            let table = given.put_values(table.add_column(column)?)?;
            return if *key {
                table.add_primary_key(&[(column.name.clone(), PartOrder::Ascending)])
            } else {
                Ok(table)
            };
        }
    };
    if passed_over(table, action).is_some() {
        return Ok(table.clone());
    }
    match action {
        AlterAction::AddColumn { column, .. } => table.add_column(&column_of(column, None)),
        AlterAction::DropColumn { name, .. } => table.drop_column(name),
        AlterAction::RenameColumn { from, to } => table.rename_column(from, to),
        AlterAction::RenameTable(to) => table.rename(to),
        AlterAction::SetType { .. } => Err(Error::new(ErrorKind::Invalid, "a type that was not settled")),
        AlterAction::SetOptions(options) => table.set_options(&pairs(options)),
        AlterAction::DropNotNull(column) => table.drop_not_null(column),
        AlterAction::SetNotNull(column) => table.set_not_null(column),
        AlterAction::AddPrimaryKey(parts) => {
            let parts: Vec<_> = parts.iter().map(|part| (part.column.clone(), part.order)).collect();
            table.add_primary_key(&parts)
        }
        AlterAction::AddCheck(_) => Err(Error::new(ErrorKind::Invalid, "a condition that was not planned")),
        AlterAction::DropConstraint { name, .. } if is_primary_key(table, name) => table.drop_primary_key(),
        AlterAction::DropConstraint { name, .. } => table.drop_check(name),
        // The options of its sequence change after the table.
        AlterAction::AlterIdentity { column, identity: Some(identity), .. } => {
            table.set_identity(column, Some(*identity))
        }
        AlterAction::AlterIdentity { .. } => Ok(table.clone()),
        AlterAction::AddIdentity { .. } => Err(Error::new(ErrorKind::Invalid, "an identity that was not settled")),
        AlterAction::SetDefault { .. } => Err(Error::new(ErrorKind::Invalid, "a default that was not evaluated")),
        AlterAction::AddFamily { name, open, options, .. } => {
            let own = |option: &OptionClause| OptionClause {
                family: option.family.clone().or_else(|| Some(name.clone())),
                ..option.clone()
            };
            table.add_family(name, *open, &pairs(&options.iter().map(own).collect::<Vec<_>>()))
        }
        AlterAction::DropFamily(name) => table.drop_family(name),
    }
}
