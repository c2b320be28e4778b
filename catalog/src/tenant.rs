//! Tenants, and the certificates of dropped ones.

use crate::{SettingDefaults, SqlType, TenantId, Value};
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
    /// The OID of the role that owns the tenant's database; `None` in a store of before there were owners
    /// ([`Edit::GiveOwners`](crate::Edit::GiveOwners)).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<u32>,
    /// The comment on the tenant's database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// What a tenant may take of the server; `None` for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quotas {
    /// Bytes that a statement may read from the store.
    pub scan_bytes_max: Option<u64>,
    /// Sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections_max: Option<u32>,
    /// Statements that run at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statements_max: Option<u32>,
    /// Bytes of memory that running queries reserve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes_max: Option<u64>,
    /// Bytes of temporary files of running queries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temporary_bytes_max: Option<u64>,
    /// Bytes that statements read from the store in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes_per_second: Option<u64>,
    /// Bytes that commits write in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_bytes_per_second: Option<u64>,
    /// Bytes of stored rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored_bytes_max: Option<u64>,
    /// How long a statement may run, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statement_timeout_millis: Option<u64>,
    /// The tenant's weight when several want turns; `None` for 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Whether quotas only say what they would have refused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dryrun: bool,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

/// What a certificate's document has, in this order. The names stay: programs of others read them.
#[derive(Serialize)]
struct CertificateFields<'a> {
    tenant: &'a str,
    oid: u32,
    dropped_by: &'a str,
    tables: u64,
    rows: u64,
    bytes: u64,
    dropped_at: String,
    purge: &'static str,
    purge_began_at: Option<String>,
    purged_at: Option<String>,
}

/// A time in microseconds as `2026-11-24T15:39:11.5Z`.
fn rfc3339(micros: i64) -> String {
    let text = Value::Timestamp(micros).to_text(SqlType::Timestamp);
    format!("{}Z", text.replacen(' ', "T", 1))
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

    /// The certificate as a document in JSON: the fields of `keyspan.drops`, with times in RFC 3339.
    pub fn to_json(&self) -> String {
        let fields = CertificateFields {
            tenant: self.tenant.as_str(),
            oid: self.oid,
            dropped_by: &self.dropped_by,
            tables: self.tables,
            rows: self.rows,
            bytes: self.bytes,
            dropped_at: rfc3339(self.dropped_micros),
            purge: self.purge_state().name(),
            purge_began_at: self.purging_micros.map(rfc3339),
            purged_at: self.purged_micros.map(rfc3339),
        };
        let mut text = serde_json::to_string_pretty(&fields).expect("texts and numbers have a form in JSON");
        text.push('\n');
        text
    }

    /// The sort key of certificates: timestamp, then OID.
    pub(crate) fn order(&self) -> (i64, u32) {
        (self.dropped_micros, self.oid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn a_certificate_is_a_document() {
        let mut certificate = DropCertificate {
            oid: 16_385,
            tenant: TenantId::new("alto").unwrap(),
            dropped_by: "an \"operator\"".to_owned(),
            tables: 2,
            rows: 10,
            bytes: 300,
            dropped_micros: 1_793_491_200_000_000,
            purging_micros: None,
            purged_micros: None,
        };
        assert!(certificate.to_json().contains("\"purged_at\": null"));
        certificate.purging_micros = Some(1_793_491_200_500_000);
        certificate.purged_micros = Some(1_793_491_201_000_001);
        expect![[r#"
            {
              "tenant": "alto",
              "oid": 16385,
              "dropped_by": "an \"operator\"",
              "tables": 2,
              "rows": 10,
              "bytes": 300,
              "dropped_at": "2026-11-01T00:00:00Z",
              "purge": "done",
              "purge_began_at": "2026-11-01T00:00:00.5Z",
              "purged_at": "2026-11-01T00:00:01.000001Z"
            }
        "#]]
        .assert_eq(&certificate.to_json());
    }
}
