//! Names and ids, checked once at construction.

use crate::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::{borrow::Borrow, fmt, sync::Arc};

/// Names of databases that no tenant can have.
pub const RESERVED_DATABASES: [&str; 4] = ["keyspan", "postgres", "template0", "template1"];
/// The operator's database.
pub const OPERATOR_DATABASE: &str = "keyspan";
/// Length limit of a tenant id, in characters.
pub const TENANT_ID_MAX: usize = 63;

/// Whether the text is a valid tenant id.
pub fn is_tenant_id(id: &str) -> bool {
    let follows = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-';
    let starts = id.as_bytes().first().is_some_and(|first| first.is_ascii_alphanumeric());
    starts && id.len() <= TENANT_ID_MAX && id.bytes().all(follows) && !RESERVED_DATABASES.contains(&id)
}

/// The id of a tenant, `[a-z0-9][a-z0-9_-]{0,62}`: it can never contain the delimiter that ends it in a row key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TenantId(Arc<str>);

impl TenantId {
    /// Checks an id.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for other characters or lengths, [`ErrorKind::Reserved`] for [`RESERVED_DATABASES`].
    pub fn new(id: &str) -> Result<Self> {
        if RESERVED_DATABASES.contains(&id) {
            return Err(Error::new(ErrorKind::Reserved, format!("database name \"{id}\" is reserved")));
        }
        if !is_tenant_id(id) {
            return Err(Error::new(ErrorKind::Invalid, format!("invalid tenant id \"{id}\"")).with_hint(
                "A tenant id starts with a-z or 0-9, goes on with a-z, 0-9, _ and -, and has at most 63 characters.",
            ));
        }
        Ok(Self(id.into()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl Borrow<str> for TenantId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for TenantId {
    type Error = Error;
    fn try_from(id: String) -> Result<Self> {
        Self::new(&id)
    }
}

impl From<TenantId> for String {
    fn from(id: TenantId) -> Self {
        id.0.as_ref().to_owned()
    }
}

/// The name of a role: 1 to 63 bytes, as PostgreSQL folds it.
pub type RoleName = String;

/// The id of a table, never reused. It is also the table's OID on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TableId(pub u32);

/// The id of a family in its table, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FamilyId(pub u32);
