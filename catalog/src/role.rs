//! Roles: who may connect, and where.

use crate::{RoleName, TenantId};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// The server's record of a password (RFC 5802): enough to verify the password, not enough to reveal it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScramSecret {
    /// Random bytes.
    pub salt: Vec<u8>,
    /// Iterations of PBKDF2.
    pub iterations: u32,
    /// `StoredKey` of the RFC: verifies the client's proof.
    pub stored_key: Vec<u8>,
    /// `ServerKey` of the RFC: proves to the client that the server knows the secret too.
    pub server_key: Vec<u8>,
}

impl fmt::Debug for ScramSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScramSecret(…)")
    }
}

/// Random bytes of the store, from which the salts of roles are made that have no password or do not exist:
/// PostgreSQL's `mock_authentication_nonce`.
///
/// Made once, so that such a salt stays what it is; known to nobody, so that nobody can tell it from a stored one.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MockNonce(pub [u8; 32]);

impl fmt::Debug for MockNonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MockNonce(…)")
    }
}

/// Settings that sessions begin with, by name.
pub type SettingDefaults = BTreeMap<String, String>;

/// A role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Role {
    /// The name.
    pub name: RoleName,
    /// The OID, never reused.
    pub oid: u32,
    /// Whether it may connect at all.
    pub login: bool,
    /// Whether it is an operator: sees every tenant, defines tables, tenants and roles.
    pub operator: bool,
    /// The password; `None` for a role without one.
    pub secret: Option<ScramSecret>,
    /// The databases that the role may connect to.
    pub connect: BTreeSet<TenantId>,
    /// Its sessions at a time; `None` for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_limit: Option<u32>,
    /// When its password ends, in microseconds; `None` for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_until_micros: Option<i64>,
    /// What its sessions begin with.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: SettingDefaults,
    /// What its sessions in a database begin with, besides.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings_in: BTreeMap<TenantId, SettingDefaults>,
    /// The roles that it is a member of, by OID.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub member_of: BTreeMap<u32, Membership>,
    /// `NOINHERIT`: it has no rights of the roles that it is a member of.
    #[serde(default, skip_serializing_if = "is_false")]
    pub noinherit: bool,
}

/// The membership of a role in another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    /// `WITH ADMIN OPTION`: it may make others members too.
    #[serde(default, skip_serializing_if = "is_false")]
    pub admin: bool,
}

fn is_false(flag: &bool) -> bool {
    !flag
}
