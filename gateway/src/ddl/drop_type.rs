//! `DROP TYPE`, `DROP DOMAIN`.

use super::{own_type::found, private::change};
use crate::{
    lookup::OwnType,
    pg::{
        error::{Result, SqlError, SqlState},
        names::RelationName,
    },
    session::Session,
};
use keyspan_catalog::{PrivateEdit, Snapshot};

/// `DROP TYPE`, which drops domains too, and `DROP DOMAIN`.
///
/// # Errors
/// Those of [`found`]; 42809 for `DROP DOMAIN` of what is none; 2BP01 for one that is used,
/// 0A000 with `CASCADE`.
pub(super) async fn drop(
    session: &mut Session,
    (names, what): (&[RelationName], &str),
    if_exists: bool,
    cascade: bool,
) -> Result<()> {
    let mut dropped: Vec<OwnType> = Vec::with_capacity(names.len());
    for name in names {
        match found(session, name) {
            Ok(OwnType::Enum(_)) if what == "domain" => {
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is not a domain")));
            }
            Ok(of) => {
                session.check_owner(of.id(), true)?;
                if dropped.iter().all(|other| other.id() != of.id()) {
                    dropped.push(of);
                }
            }
            Err(error)
                if if_exists && [SqlState::UNDEFINED_OBJECT, SqlState::INVALID_SCHEMA_NAME].contains(&error.state) =>
            {
                session.skipped(&format!("type \"{name}\" does not exist"));
            }
            Err(error) => return Err(error),
        }
    }
    if dropped.is_empty() {
        return Ok(());
    }
    // What is based on another goes first.
    dropped.sort_by_key(|of| std::cmp::Reverse(of.id()));
    let edit = |of: &OwnType| match of {
        OwnType::Enum(of) => PrivateEdit::DropEnum(of.id),
        OwnType::Domain(of) => PrivateEdit::DropDomain(of.id),
    };
    let edits = |_: &Snapshot| Ok(dropped.iter().map(edit).collect());
    change(session, edits).await.map_err(|error| match error.state {
        SqlState::DEPENDENT_OBJECTS_STILL_EXIST if cascade => {
            SqlError::unsupported(format!("DROP {} … CASCADE of a used type", what.to_uppercase()))
                .with_detail(error.detail.unwrap_or_default())
                .with_hint("Drop the columns and views that use it first.")
        }
        _ => error,
    })
}
