//! `COMMENT ON`: a text in the catalog, with the relation or the tenant that it is about.
//!
//! Those of what a tenant has made are its own, and part of the transaction that they stand in; those of shared tables
//! and of databases are the operator's.

use super::{
    database::tenant_id,
    private::{change_in, check_owner, tenant},
    view::wrong_kind,
};
use crate::{
    pg::{
        error::{Result, SqlError, SqlState},
        names::{RelationName, Schema},
    },
    session::{Found, Session},
    sql::ast::definition::{Comment, Commented},
};
use keyspan_catalog::{
    Edit, Error, ErrorKind, PrivateEdit, Snapshot, SqlView, Table, comment::COMMENT_BYTES_MAX, table::TENANT_COLUMN,
};

pub(super) async fn comment(session: &mut Session, said: &Comment) -> Result<()> {
    let text = &said.text;
    if text.as_ref().is_some_and(|text| text.len() > COMMENT_BYTES_MAX) {
        let message = format!("a comment has at most {COMMENT_BYTES_MAX} bytes");
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
    }
    match &said.on {
        Commented::Database(name) => on_database(session, name, text).await,
        Commented::Schema(_) if session.identity.operator => {
            Err(SqlError::unsupported("COMMENT ON SCHEMA in the operator's database"))
        }
        Commented::Schema(name) => super::schema::comment(session, name, text.as_ref()).await,
        Commented::Domain(name) => super::domain::comment(session, name, text.as_ref()).await,
        Commented::Type(name) => super::enum_type::comment(session, name, text.as_ref()).await,
        Commented::Table(name) => match found(session, name)? {
            (place, Found::Table(table)) => on_table(session, place, &table, None, text).await,
            (_, found) => Err(SqlError { hint: None, ..wrong_kind(name, "table", &found) }),
        },
        Commented::View(kind, name) => match found(session, name)? {
            (place, Found::View(view)) if view.kind() == kind.name() => {
                on_view(session, place, &view, None, text).await
            }
            (_, found) => Err(SqlError { hint: None, ..wrong_kind(name, kind.name(), &found) }),
        },
        Commented::Column(name, column) => {
            let missing = || SqlError::undefined_column_of(name, column);
            match found(session, name)? {
                (_, Found::Table(_)) if session.identity.operator && column == TENANT_COLUMN => {
                    Err(SqlError::unsupported("a comment on the column \"tenant\""))
                }
                (place, Found::Table(table)) => {
                    let number = table.column(column).map(|column| column.id).ok_or_else(missing)?;
                    on_table(session, place, &table, Some(number), text).await
                }
                (place, Found::View(view)) => {
                    let number = view.column(column).map(|column| column.number).ok_or_else(missing)?;
                    on_view(session, place, &view, Some(number), text).await
                }
            }
        }
    }
}

fn found(session: &Session, name: &RelationName) -> Result<(Schema, Found)> {
    session.find(name).ok_or_else(|| session.missing(name, "relation"))
}

async fn on_database(session: &mut Session, name: &str, text: &Option<String>) -> Result<()> {
    if !session.identity.operator {
        let message = format!("must be owner of database {name}");
        return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
    }
    let id = tenant_id(name)?;
    session.instance.catalog.commit(|_| Ok(Edit::CommentTenant(id.clone(), text.clone()))).await?;
    Ok(())
}

async fn on_table(
    session: &mut Session,
    place: Schema,
    table: &Table,
    column: Option<u16>,
    text: &Option<String>,
) -> Result<()> {
    let id = table.id;
    let gone = || Error::new(ErrorKind::NoTable, format!("relation \"{}\" does not exist", table.name));
    let commented = |now: &Table| Table { comments: now.comments.with(column, text.clone()), ..now.clone() };
    if session.identity.operator {
        let edit = |snapshot: &Snapshot| Ok(Edit::AlterTable(commented(snapshot.tables.get(&id).ok_or_else(gone)?)));
        session.instance.catalog.commit(edit).await?;
        return Ok(());
    }
    check_owner(session, table, false)?;
    let tenant = tenant(session)?.0;
    let edit = |snapshot: &Snapshot| {
        let now = snapshot.private_of(Some(&tenant)).and_then(|own| own.tables.get(&id)).ok_or_else(gone)?;
        Ok(vec![PrivateEdit::AlterTable(Box::new((now.as_ref().clone(), commented(now))))])
    };
    change_in(session, &place, edit).await
}

async fn on_view(
    session: &mut Session,
    place: Schema,
    view: &SqlView,
    column: Option<u16>,
    text: &Option<String>,
) -> Result<()> {
    session.check_owner(view.id, false)?;
    let tenant = tenant(session)?.0;
    let edit = |snapshot: &Snapshot| {
        let now = snapshot.private_of(Some(&tenant)).and_then(|own| own.views.get(&view.id));
        let gone = || Error::new(ErrorKind::NoTable, format!("relation \"{}\" does not exist", view.name));
        let before = now.ok_or_else(gone)?.as_ref().clone();
        let after = SqlView { comments: before.comments.with(column, text.clone()), ..before.clone() };
        Ok(vec![PrivateEdit::AlterView(Box::new((before, after)))])
    };
    change_in(session, &place, edit).await
}
