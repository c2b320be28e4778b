//! Tenants, and the certificates of dropped ones.

use crate::{SettingDefaults, TenantId};
use serde::{Deserialize, Serialize};

/// The byte between a tenant's id and the rest of the row key.
pub const TENANT_DELIMITER: u8 = b'#';

/// The state of a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TenantState {
    /// Invisible; its relations and rows are being copied from another tenant.
    Creating,
    /// Usable.
    Active,
    /// Invisible; its rows are being deleted.
    Dropping,
}

/// A tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenant {
    /// The id: the name of the tenant's database.
    pub id: TenantId,
    /// The OID of the tenant's database, never reused.
    pub oid: u32,
    /// The state.
    pub state: TenantState,
    /// The creation timestamp, in microseconds.
    pub created_micros: i64,
    /// The limits of the tenant's sessions.
    #[serde(default, skip_serializing_if = "Quotas::is_none")]
    pub quotas: Quotas,
    /// What sessions in the tenant's database begin with.
    #[serde(default, skip_serializing_if = "SettingDefaults::is_empty")]
    pub settings: SettingDefaults,
    /// The comment on the tenant's database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// Limits of a tenant's sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quotas {
    /// Bytes that a statement may read from the store; `None` for no limit.
    pub scan_bytes_max: Option<u64>,
}

impl Quotas {
    /// Whether nothing is limited.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// The certificate of a finished drop: a row of `keyspan.drops`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropCertificate {
    /// The OID of the tenant's database.
    pub oid: u32,
    /// The tenant's id.
    pub tenant: TenantId,
    /// The role that dropped the tenant.
    pub dropped_by: String,
    /// The number of tables that held rows of the tenant.
    pub tables: u64,
    /// Rows deleted.
    pub rows: u64,
    /// Bytes of these rows.
    pub bytes: u64,
    /// When the tenant became invisible, in microseconds.
    pub dropped_micros: i64,
    /// When the purge began, in microseconds; `None` before.
    #[serde(default)]
    pub purging_micros: Option<i64>,
    /// When the last byte of the tenant left the store's files, in microseconds; `None` until a purge has verified it.
    #[serde(default)]
    pub purged_micros: Option<i64>,
}

/// The state of a dropped tenant's purge. It only advances; after a crash the interrupted step is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PurgeState {
    /// The rows are deleted, but the store's files still contain them.
    Waiting,
    /// The store is rewriting and deleting files.
    Running,
    /// The store has verified that no file contains a byte of the tenant.
    Done,
}

impl PurgeState {
    /// `waiting`, `running` or `done`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Done => "done",
        }
    }
}

impl DropCertificate {
    /// The state of the purge.
    pub fn purge_state(&self) -> PurgeState {
        match (self.purged_micros, self.purging_micros) {
            (Some(_), _) => PurgeState::Done,
            (None, Some(_)) => PurgeState::Running,
            (None, None) => PurgeState::Waiting,
        }
    }

    /// The sort key of certificates: timestamp, then OID.
    pub(crate) fn order(&self) -> (i64, u32) {
        (self.dropped_micros, self.oid)
    }
}
