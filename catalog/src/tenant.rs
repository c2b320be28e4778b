//! Tenants and what is left of those that were dropped.

use crate::TenantId;
use serde::{Deserialize, Serialize};

/// The byte between a tenant's id and the rest of the row key.
pub const TENANT_DELIMITER: u8 = b'#';

/// Whether a tenant can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TenantState {
    /// In use.
    Active,
    /// Invisible; its rows are being deleted.
    Dropping,
}

/// A tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenant {
    /// Its id: the name of its database.
    pub id: TenantId,
    /// Its number, never given twice: the database's OID.
    pub oid: u32,
    /// Whether it can be used.
    pub state: TenantState,
    /// When it was made, in microseconds.
    pub created_micros: i64,
    /// What its sessions may take.
    #[serde(default, skip_serializing_if = "Quotas::is_none")]
    pub quotas: Quotas,
    /// What is said of its database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// What the sessions of a tenant may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quotas {
    /// Bytes that a statement may read of the store; `None` for any number.
    pub scan_bytes_max: Option<u64>,
}

impl Quotas {
    /// Whether nothing is bounded.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// What a finished drop leaves: a row of `keyspan.drops`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropCertificate {
    /// The tenant's number.
    pub oid: u32,
    /// The tenant's id.
    pub tenant: TenantId,
    /// Who dropped it.
    pub dropped_by: String,
    /// Tables in which it had rows.
    pub tables: u64,
    /// Rows deleted.
    pub rows: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// When it became invisible, in microseconds.
    pub dropped_micros: i64,
    /// When the purge of its bytes was begun, in microseconds; `None` before.
    #[serde(default)]
    pub purging_micros: Option<i64>,
    /// When its last byte left the store's files, in microseconds; `None` until a purge has verified it.
    #[serde(default)]
    pub purged_micros: Option<i64>,
}

/// How far the purge of a dropped tenant's bytes is. It only goes forward; a crash repeats the step that it interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PurgeState {
    /// Its rows are dead; the store's files have them still.
    Waiting,
    /// The store has been told to rewrite and delete files.
    Running,
    /// The store has said that no file has a byte of it any more.
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
    /// How far the purge is.
    pub fn purge_state(&self) -> PurgeState {
        match (self.purged_micros, self.purging_micros) {
            (Some(_), _) => PurgeState::Done,
            (None, Some(_)) => PurgeState::Running,
            (None, None) => PurgeState::Waiting,
        }
    }

    /// The order of certificates: by time, then by number.
    pub(crate) fn order(&self) -> (i64, u32) {
        (self.dropped_micros, self.oid)
    }
}
