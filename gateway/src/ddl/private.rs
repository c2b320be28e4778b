//! Private tables: what a tenant's own roles define in its database.
//!
//! Whoever may CREATE in a schema may define tables there; they belong to the role that made them, which may change
//! and drop them. Shared tables are there too, by the same names: they are the operator's.

use super::{
    column_defaults::ColumnClauses,
    own_type,
    rewrite_rows::{self, Alteration},
    table::{cascading, definition_of, passed_over, settle},
};
use crate::{
    lookup,
    pg::{
        error::{Result, SqlError, SqlState},
        names::{RelationName, Schema},
    },
    session::{Found, Session},
    sql::ast::definition::{AlterAction, AlterTable, CreateSequence, CreateTable, DropTables, OnCommit, OptionClause},
};
use keyspan_catalog::{
    Edit, Error, ErrorKind, PrivateEdit, Sequence, Snapshot, SqlView, Table, TableId, TenantId,
    snapshot::FIRST_OID,
    table::{DefaultValue, RowEffect},
};
use std::{collections::BTreeSet, sync::Arc};

/// PostgreSQL's parameters of tables: they tune a storage that is not here.
const STORAGE_PARAMETERS: [&str; 8] = [
    "fillfactor",
    "log_autovacuum_min_duration",
    "parallel_workers",
    "toast_tuple_target",
    "user_catalog_table",
    "vacuum_index_cleanup",
    "vacuum_truncate",
    "oids",
];

pub(super) async fn create(session: &mut Session, create: &CreateTable) -> Result<()> {
    let place = session.place_of(&create.name)?;
    check_on_commit(&place, create.on_commit)?;
    if create.if_not_exists && is_there(session, &place, &create.name) {
        session.skipped(&format!("relation \"{}\" already exists", create.name));
        return Ok(());
    }
    check_create(session, &place)?;
    let create = own_type::with_kinds(session, create)?.into_owned();
    let options = without_storage_parameters(session, &create.options);
    let (tenant, plain) = (tenant(session)?.0, CreateTable { options, ..create.clone() });
    let definition = |snapshot: &Snapshot| definition_of(&plain, snapshot, Some(&tenant));
    let draft = Table::define_private(TableId(FIRST_OID), &definition(&session.catalog_snapshot())?)?;
    let given = ColumnClauses::of(session, &create, &draft).await?;
    let edit = |snapshot: &Snapshot| {
        let id = TableId(snapshot.next_oid.max(FIRST_OID));
        let mut table = Table::define_private(id, &definition(snapshot)?)?;
        table.schema = schema_oid(snapshot, &tenant, &place)?;
        let (table, sequences) = given.put(table, snapshot, Some(&tenant))?;
        Ok([PrivateEdit::CreateTable(Box::new(table))].into_iter().chain(sequences).collect())
    };
    change_in(session, &place, edit).await?;
    if place == Schema::Temporary {
        session.on_commit(&create.name, create.on_commit);
    }
    Ok(())
}

/// Whether a schema has a relation of a name.
pub(crate) fn is_there(session: &Session, place: &Schema, name: &str) -> bool {
    let name = RelationName::within(place.clone(), name);
    session.find(&name).is_some() || session.find_sequence(&name).is_some()
}

/// The OID of a schema in which something is made.
///
/// # Errors
/// [`NoSchema`](ErrorKind::NoSchema).
pub(crate) fn schema_oid(snapshot: &Snapshot, tenant: &TenantId, place: &Schema) -> keyspan_catalog::Result<u32> {
    let missing = || Error::new(ErrorKind::NoSchema, format!("schema \"{}\" does not exist", place.name()));
    lookup::schema_oid(snapshot, Some(tenant), place).ok_or_else(missing)
}

/// 42P16 for what only a temporary table can have.
pub(crate) fn check_on_commit(place: &Schema, on_commit: Option<OnCommit>) -> Result<()> {
    if on_commit.is_none() || *place == Schema::Temporary {
        return Ok(());
    }
    let message = "ON COMMIT can only be used on temporary tables";
    Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message))
}

pub(super) async fn alter(session: &mut Session, alter: &AlterTable) -> Result<()> {
    let Some((place, table)) = find(session, &alter.name) else {
        if let ([AlterAction::RenameTable(to)], Some(sequence)) =
            (alter.actions.as_slice(), session.find_sequence(&alter.name))
        {
            session.check_owner(sequence.id, false)?;
            return super::sequence::rename(session, &sequence, to).await;
        }
        if alter.if_exists {
            session.skipped(&format!("relation \"{}\" does not exist", alter.name));
            return Ok(());
        }
        return Err(session.missing(&alter.name, "relation"));
    };
    check_owner(session, &table, false)?;
    let mut actions = Vec::with_capacity(alter.actions.len());
    for action in &alter.actions {
        if let Some(what) = passed_over(&table, action) {
            session.skipped(&what);
        }
        match action {
            AlterAction::SetOptions(options) => {
                let options = without_storage_parameters(session, options);
                if !options.is_empty() {
                    actions.push(AlterAction::SetOptions(options));
                }
            }
            action => actions.push(action.clone()),
        }
    }
    let cascading = cascading(&table, &actions);
    let actions = settle(session, &table, &actions).await?;
    let (tenant, oid) = tenant(session)?;
    let gone = super::view::cascade(session, [table.id.0], Some(&cascading));
    let derive = |snapshot: &Snapshot| {
        let alteration = Alteration::of(snapshot, &tenant, (&alter.name, table.id), &actions)?;
        let views = cascaded(snapshot, &tenant, alteration.after(), &cascading);
        let alteration = alteration.with(views.iter().map(|view| PrivateEdit::DropView(view.id)));
        // Rows of a temporary table go with the session.
        Ok(if place == Schema::Temporary { alteration.keeping_cells() } else { alteration })
    };
    if place == Schema::Temporary {
        if derive(&session.temporary_snapshot())?.asks() == RowEffect::Nothing {
            return change_in(session, &place, |snapshot| derive(snapshot)?.edits()).await;
        }
        return Err(SqlError::unsupported("a change of a temporary table that asks something of its rows")
            .with_hint("CREATE TEMP TABLE … AS makes another one of its rows."));
    }
    let before = session.drop_temporary_views(&gone).await?;
    let altered = if derive(&session.catalog_snapshot())?.asks() == RowEffect::Nothing {
        change(session, |snapshot| derive(snapshot)?.edits()).await
    } else {
        rewrite_rows::alter(session, (&tenant, oid), table.id, derive).await
    };
    altered.inspect_err(|_| session.restore_temporary(before))
}

pub(super) async fn drop(session: &mut Session, drop: &DropTables) -> Result<()> {
    let mut found: Vec<(Schema, Arc<Table>)> = Vec::with_capacity(drop.names.len());
    for name in &drop.names {
        match find(session, name) {
            Some((place, table)) => {
                check_owner(session, &table, true)?;
                if found.iter().all(|(_, other)| other.id != table.id) {
                    found.push((place, table));
                }
            }
            None if super::view::is_view(session, name) => {
                let Some((_, found)) = session.find(name) else { continue };
                return Err(super::view::wrong_kind(name, "table", &found));
            }
            None if drop.if_exists => session.skipped(&format!("table \"{name}\" does not exist")),
            None => return Err(session.missing(name, "table")),
        }
    }
    let (temporary, permanent): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|(place, _)| *place == Schema::Temporary);
    for (place, found) in [(Schema::Public, permanent), (Schema::Temporary, temporary)] {
        if !found.is_empty() {
            drop_from(session, &place, &found.into_iter().map(|(_, table)| table).collect::<Vec<_>>(), drop.cascade)
                .await?;
        }
    }
    Ok(())
}

/// Drops tables, permanent or temporary ones.
async fn drop_from(session: &mut Session, place: &Schema, tables: &[Arc<Table>], cascade: bool) -> Result<()> {
    let tenant = tenant(session)?.0;
    let named: BTreeSet<u32> = tables.iter().map(|table| table.id.0).collect();
    let gone = if cascade { super::view::cascade(session, named.iter().copied(), None) } else { BTreeSet::new() };
    let edit = |snapshot: &Snapshot| {
        let sequences = owned(snapshot, &tenant, |(of, _)| tables.iter().any(|table| table.id == of));
        let views = if cascade { super::view::dependents(snapshot, &tenant, &named) } else { Vec::new() };
        let views = views.iter().map(|view| PrivateEdit::DropView(view.id));
        Ok(tables.iter().map(|table| PrivateEdit::DropTable(table.id)).chain(sequences).chain(views).collect())
    };
    if *place == Schema::Temporary {
        return session.define_temporary(edit).await;
    }
    let before = session.drop_temporary_views(&gone).await?;
    change(session, edit).await.inspect_err(|_| session.restore_temporary(before))
}

/// The views that go with the columns that a table has no more.
fn cascaded(snapshot: &Snapshot, tenant: &TenantId, after: &Table, columns: &BTreeSet<u16>) -> Vec<Arc<SqlView>> {
    let gone = columns.iter().filter(|number| after.columns.iter().all(|column| column.id != **number));
    let gone = gone.copied().collect();
    let own = snapshot.private_of(Some(tenant));
    own.map(|own| super::view::dependents_of_columns(own, after.id.0, &gone)).unwrap_or_default()
}

/// The drops of the sequences whose owners are meant.
pub(super) fn owned(snapshot: &Snapshot, tenant: &TenantId, is: impl Fn((TableId, u16)) -> bool) -> Vec<PrivateEdit> {
    let private = snapshot.private_of(Some(tenant));
    let sequences = private.into_iter().flat_map(|private| private.sequences.values());
    let gone = sequences.filter(|sequence| sequence.owner.is_some_and(&is));
    gone.map(|sequence| PrivateEdit::DropSequence(sequence.id)).collect()
}

pub(super) async fn create_sequence(session: &mut Session, create: &CreateSequence) -> Result<()> {
    if session.identity.operator {
        return Err(SqlError::unsupported("CREATE SEQUENCE in the operator's database")
            .with_hint("A sequence belongs to a tenant: create it in the tenant's database."));
    }
    let tenant = tenant(session)?.0;
    let place = session.place_of(&create.name)?;
    if create.if_not_exists && is_there(session, &place, &create.name) {
        session.skipped(&format!("relation \"{}\" already exists", create.name));
        return Ok(());
    }
    check_create(session, &place)?;
    let edit = |snapshot: &Snapshot| {
        let id = snapshot.next_oid.max(FIRST_OID);
        let schema = schema_oid(snapshot, &tenant, &place)?;
        let sequence = Sequence::define(id, &create.name, &create.options)?;
        Ok(vec![PrivateEdit::CreateSequence(Sequence { schema, ..sequence })])
    };
    change_in(session, &place, edit).await
}

/// The schema of a sequence.
pub(super) fn place_of_sequence(session: &Session, sequence: &Sequence) -> Schema {
    lookup::schema_of(&session.catalog_snapshot(), session.identity.rows.tenant(), sequence.id)
}

pub(super) async fn drop_sequences(session: &mut Session, drop: &DropTables) -> Result<()> {
    if session.identity.operator {
        return Err(SqlError::unsupported("DROP SEQUENCE in the operator's database"));
    }
    let tenant = tenant(session)?.0;
    let mut names = Vec::new();
    for name in &drop.names {
        match session.find_sequence(name) {
            Some(sequence) => {
                session.check_owner(sequence.id, true)?;
                names.push((name, sequence));
            }
            None if drop.if_exists => session.skipped(&format!("sequence \"{name}\" does not exist")),
            None => return Err(session.missing(name, "sequence")),
        }
    }
    if names.is_empty() {
        return Ok(());
    }
    let edit = |snapshot: &Snapshot, names: &[(&RelationName, Arc<Sequence>)]| {
        let private = snapshot.private_of(Some(&tenant));
        let one = |(name, sequence): &(&RelationName, Arc<Sequence>)| {
            let sequence = private
                .and_then(|private| private.sequences.get(&sequence.id))
                .ok_or_else(|| Error::new(ErrorKind::NoTable, format!("sequence \"{name}\" does not exist")))?;
            let uses = |table: &&Arc<Table>| {
                let defaults = table.columns.iter().filter_map(|column| column.default.as_ref());
                defaults.into_iter().any(|default| default.value == DefaultValue::Next(sequence.id))
            };
            if let Some(table) = snapshot.tables_in(Some(&tenant)).find(uses) {
                let message = format!("cannot drop sequence {name} because other objects depend on it");
                return Err(Error::new(ErrorKind::InUse, message)
                    .with_detail(format!("A default of table {} depends on sequence {name}.", table.name)));
            }
            Ok(PrivateEdit::DropSequence(sequence.id))
        };
        names.iter().map(one).collect()
    };
    let (temporary, permanent): (Vec<_>, Vec<_>) =
        names.into_iter().partition(|(_, sequence)| place_of_sequence(session, sequence) == Schema::Temporary);
    for (place, names) in [(Schema::Temporary, temporary), (Schema::Public, permanent)] {
        if !names.is_empty() {
            change_in(session, &place, |snapshot| edit(snapshot, &names)).await?;
        }
    }
    Ok(())
}

/// Makes a change of what the tenant has, derived from the newest catalog; in a transaction, from the catalog as that
/// sees it.
pub(crate) async fn change(
    session: &mut Session,
    derive: impl Fn(&Snapshot) -> keyspan_catalog::Result<Vec<PrivateEdit>> + Send + Sync,
) -> Result<()> {
    let (tenant, oid) = tenant(session)?;
    let maker = session.identity.role_oid;
    let derive = |snapshot: &Snapshot| Ok(owned_by(maker, derive(snapshot)?));
    if session.in_transaction() {
        return session.define(derive).await;
    }
    let catalog = session.instance.catalog.clone();
    let temporary = session.catalog_snapshot().temporary.clone();
    let edit = |snapshot: &Snapshot| {
        let edit = Edit::ChangePrivate(tenant.clone(), oid, derive(snapshot)?);
        if !temporary.views.is_empty() {
            // Refused for what they read.
            Snapshot { temporary: temporary.clone(), ..snapshot.clone() }.apply(&edit)?;
        }
        Ok(edit)
    };
    catalog.commit(edit).await?;
    Ok(())
}

/// The edits, and those that give what they make to the role that makes it.
pub(super) fn owned_by(maker: Option<u32>, mut edits: Vec<PrivateEdit>) -> Vec<PrivateEdit> {
    let Some(role) = maker else { return edits };
    let made = edits.iter().filter_map(|edit| match edit {
        PrivateEdit::CreateTable(table) => Some(table.id.0),
        PrivateEdit::CreateSequence(sequence) => Some(sequence.id),
        PrivateEdit::CreateView(view) => Some(view.id),
        PrivateEdit::CreateProto(descriptor) => Some(descriptor.id),
        PrivateEdit::CreateEnum(of) => Some(of.id),
        PrivateEdit::CreateDomain(of) => Some(of.id),
        _ => None,
    });
    let owned: Vec<_> = made.map(|oid| PrivateEdit::Own(oid, role)).collect();
    edits.extend(owned);
    edits
}

/// Checks that the session may make a relation in a schema: everybody may make temporary ones.
pub(crate) fn check_create(session: &Session, place: &Schema) -> Result<()> {
    if *place == Schema::Temporary { Ok(()) } else { session.check_create(place) }
}

/// Makes a change of what the tenant has, or of what the session has for itself.
pub(crate) async fn change_in(
    session: &mut Session,
    place: &Schema,
    derive: impl Fn(&Snapshot) -> keyspan_catalog::Result<Vec<PrivateEdit>> + Send + Sync,
) -> Result<()> {
    if *place == Schema::Temporary { session.define_temporary(derive).await } else { change(session, derive).await }
}

/// The tenant of the session and its number.
pub(crate) fn tenant(session: &Session) -> Result<(TenantId, u32)> {
    let rows = &session.identity.rows;
    let found = rows.tenant().cloned().zip(rows.oid());
    found.ok_or_else(|| SqlError::new(SqlState::INTERNAL_ERROR, "a session of one tenant was expected"))
}

pub(super) fn find(session: &Session, name: &RelationName) -> Option<(Schema, Arc<Table>)> {
    match session.find(name)? {
        (place, Found::Table(table)) => Some((place, table)),
        (_, Found::View(_)) => None,
    }
}

/// Checks that a table is the tenant's own, and its owner's rights the session's.
pub(super) fn check_owner(session: &Session, table: &Table, drops: bool) -> Result<()> {
    if table.is_private() {
        return session.check_owner(table.id.0, drops);
    }
    let message = format!("must be owner of table {}", table.name);
    Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
        .with_detail("It is a shared table: an operator defines it in database \"keyspan\"."))
}

/// The options without those that mean something to PostgreSQL's storage only; a notice to the client names these.
pub(crate) fn without_storage_parameters(session: &mut Session, options: &[OptionClause]) -> Vec<OptionClause> {
    let (storage, rest): (Vec<_>, Vec<_>) = options.iter().cloned().partition(|option| {
        let name = option.name.as_str();
        let known = STORAGE_PARAMETERS.contains(&name) || name.starts_with("autovacuum_");
        match option.family.as_deref() {
            None => known,
            Some(family) => family == "toast" && known,
        }
    });
    for option in storage {
        let message = format!("storage parameter \"{}\" has no effect", option.name);
        session.notice(SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message));
    }
    rest
}
