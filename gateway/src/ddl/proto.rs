//! `CREATE PROTO DESCRIPTOR`, `DROP PROTO DESCRIPTOR`: the operator's, which columns of all tables may use, and a
//! tenant's own, for its private tables. Then the message that a column is declared with.

use super::private::{change, tenant};
use crate::{
    pg::{
        error::{Result, SqlError, SqlState},
        names::Schema,
    },
    session::Session,
    sql::ast::definition::{ColumnClause, CreateProto},
};
use keyspan_catalog::{Edit, Encoding, PrivateEdit, ProtoDescriptor, Snapshot, TenantId, snapshot::FIRST_OID};
use std::{collections::BTreeMap, sync::Arc};

type Descriptors = BTreeMap<u32, Arc<ProtoDescriptor>>;

pub(super) async fn create(session: &mut Session, create: &CreateProto) -> Result<()> {
    // Checked once, before anything waits.
    let checked = ProtoDescriptor::define(FIRST_OID, &create.name, create.files.clone().into())?;
    let place = |there: &Descriptors, next_oid: u32| {
        let old = named(there, &create.name).filter(|_| create.or_replace);
        (old.is_some(), checked.with_id(old.map_or(next_oid.max(FIRST_OID), |old| old.id)))
    };
    if session.identity.operator {
        let edit = |snapshot: &Snapshot| match place(&snapshot.protos, snapshot.next_oid) {
            (true, descriptor) => Ok(Edit::ReplaceProto(descriptor)),
            (false, descriptor) => Ok(Edit::CreateProto(descriptor)),
        };
        session.instance.catalog.clone().commit(edit).await?;
        return Ok(());
    }
    let tenant = tenant(session)?.0;
    match own(&session.catalog_snapshot(), &tenant).and_then(|own| named(own, &create.name)) {
        Some(old) if create.or_replace => session.check_owner(old.id, false)?,
        _ => session.check_create(&Schema::Public)?,
    }
    let none = Descriptors::new();
    let edit = |snapshot: &Snapshot| {
        let there = own(snapshot, &tenant).unwrap_or(&none);
        Ok(match place(there, snapshot.next_oid) {
            (true, descriptor) => vec![PrivateEdit::ReplaceProto(Box::new(descriptor))],
            (false, descriptor) => vec![PrivateEdit::CreateProto(Box::new(descriptor))],
        })
    };
    change(session, edit).await
}

pub(super) async fn drop(session: &mut Session, names: &[String], if_exists: bool) -> Result<()> {
    let operator = session.identity.operator;
    let tenant = if operator { None } else { Some(tenant(session)?.0) };
    let snapshot = session.catalog_snapshot();
    let none = Descriptors::new();
    let there = match &tenant {
        None => &snapshot.protos,
        Some(tenant) => own(&snapshot, tenant).unwrap_or(&none),
    };
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        match named(there, name) {
            Some(descriptor) if found.contains(&descriptor.id) => {}
            Some(descriptor) => {
                if !operator {
                    session.check_owner(descriptor.id, true)?;
                }
                found.push(descriptor.id);
            }
            None if if_exists => session.skipped(&format!("protobuf descriptor \"{name}\" does not exist")),
            None => {
                let message = format!("protobuf descriptor \"{name}\" does not exist");
                let error = SqlError::new(SqlState::UNDEFINED_OBJECT, message);
                let is_shared = !operator && named(&snapshot.protos, name).is_some();
                return Err(if is_shared { error.with_detail("An operator has one of this name.") } else { error });
            }
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    if !operator {
        let edits = |_: &Snapshot| Ok(found.iter().map(|id| PrivateEdit::DropProto(*id)).collect());
        return change(session, edits).await;
    }
    let catalog = session.instance.catalog.clone();
    for id in found {
        catalog.commit(|_| Ok(Edit::DropProto(id))).await?;
    }
    Ok(())
}

/// The encoding that `PROTOBUF` gives a column; `None` without it.
pub(super) fn encoding(
    snapshot: &Snapshot,
    tenant: Option<&TenantId>,
    column: &ColumnClause,
) -> keyspan_catalog::Result<Option<Encoding>> {
    let named = column.protobuf.as_deref();
    named.map(|named| snapshot.proto_message(tenant, named).map(Encoding::Protobuf)).transpose()
}

fn own<'a>(snapshot: &'a Snapshot, tenant: &TenantId) -> Option<&'a Descriptors> {
    snapshot.private_of(Some(tenant)).map(|own| &own.protos)
}

fn named<'a>(there: &'a Descriptors, name: &str) -> Option<&'a Arc<ProtoDescriptor>> {
    there.values().find(|descriptor| descriptor.name == name)
}
