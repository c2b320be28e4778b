//! Schemas that a tenant creates beside `public`: namespaces of its own tables, views and sequences.
//!
//! A relation says the OID of its schema ([`Table::schema`](crate::Table::schema) and its kin); `public` has
//! [`PUBLIC_SCHEMA`], which is not written, so that definitions of before there were schemas read as they did. Shared
//! tables are in `public` always. Owners and rights are kept with those of relations, by OID.

use crate::{Error, ErrorKind, Result, rights::PUBLIC_SCHEMA};
use serde::{Deserialize, Serialize};

/// Schemas of a tenant, at most.
pub const SCHEMAS_MAX: usize = 1_000;

/// A schema of a tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schema {
    /// The OID, never reused.
    pub id: u32,
    /// The name.
    pub name: String,
    /// The comment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

impl Schema {
    /// A new schema.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for an invalid name; [`Reserved`](ErrorKind::Reserved) for one of the server's.
    pub fn define(id: u32, name: &str) -> Result<Self> {
        crate::table::check_name("schema", name)?;
        if name.starts_with("pg_") {
            return Err(Error::new(ErrorKind::Reserved, format!("unacceptable schema name \"{name}\""))
                .with_detail("The prefix \"pg_\" is reserved for system schemas."));
        }
        Ok(Self { id, name: name.to_owned(), comment: None })
    }
}

/// The schema of what names none.
pub(crate) fn public() -> u32 {
    PUBLIC_SCHEMA
}

/// Whether a schema is `public`.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
pub(crate) fn is_public(schema: &u32) -> bool {
    *schema == PUBLIC_SCHEMA
}
