//! Tenants, and the certificates of dropped ones.

use crate::{SettingDefaults, SqlType, TableId, TenantId, Value, table::MARKER_FAMILY};
use keyspan_storage::Row;
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

/// The size of a span of a table. The terms are those of docs/operate.md.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpanSize {
    /// Live rows.
    pub rows: u64,
    /// Their live cells, every version, without the hidden cell that marks a row.
    #[serde(default)]
    pub cells: u64,
    /// Bytes of their keys, without the tenant's id, and of their live cells.
    pub bytes: u64,
    /// Previous versions of rows that history keeps.
    #[serde(default)]
    pub history_rows: u64,
    /// Bytes of these.
    #[serde(default)]
    pub history_bytes: u64,
}

impl SpanSize {
    /// Adds a row, as a scan of the span gives it.
    pub(crate) fn add_row(&mut self, row: &Row) {
        self.rows += 1;
        self.cells += row.cells.iter().filter(|cell| cell.family.as_str() != MARKER_FAMILY).count() as u64;
        self.bytes += row.size() as u64;
    }

    /// Whether there is neither a row nor history.
    pub fn is_empty(&self) -> bool {
        self.rows == 0 && self.history_rows == 0
    }
}

impl std::ops::Add for SpanSize {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            rows: self.rows + other.rows,
            cells: self.cells + other.cells,
            bytes: self.bytes + other.bytes,
            history_rows: self.history_rows + other.history_rows,
            history_bytes: self.history_bytes + other.history_bytes,
        }
    }
}

impl std::iter::Sum for SpanSize {
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        sizes.fold(Self::default(), |a, b| a + b)
    }
}

/// How a size is known. The worst of several is that of their sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counted {
    /// Every row was counted.
    #[default]
    Exactly,
    /// Bytes by samples of a server, rows and cells by rows from several places.
    About,
    /// What was counted, where the server's samples do not tell how much more there is.
    AtLeast,
}

impl Counted {
    /// Whether it is exact.
    pub fn is_exact(&self) -> bool {
        *self == Self::Exactly
    }

    /// What goes before the numbers: nothing, `about ` or `at least `.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Exactly => "",
            Self::About => "about ",
            Self::AtLeast => "at least ",
        }
    }
}

/// Whose a table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TableKind {
    /// The operator's.
    Shared,
    /// The tenant's own.
    Private,
}

/// What a tenant has in a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableContents {
    /// The table's OID.
    pub oid: TableId,
    /// The name of a shared table. That of a private table is the tenant's, and goes with the tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// Whose it is.
    pub kind: TableKind,
    /// The server that has its rows; `None` for a table here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// How the size is known.
    #[serde(default, skip_serializing_if = "Counted::is_exact")]
    pub counted: Counted,
    /// Rows, cells, bytes and history.
    #[serde(flatten)]
    pub size: SpanSize,
}

/// Files that `COPY … TO` wrote for a tenant and that are still there. A drop leaves them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exports {
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What a tenant has: what its drop deletes, and what it leaves. The dry run of a drop shows it, and its certificate
/// keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    /// The tables that hold rows or history of the tenant: its own and shared ones; at most [`CONTENTS_TABLES_MAX`].
    #[serde(default)]
    pub by_table: Vec<TableContents>,
    /// The tenant's own tables, empty ones too.
    #[serde(default)]
    pub private_tables: u64,
    /// The tenant's own sequences.
    #[serde(default)]
    pub sequences: u64,
    /// The tenant's own views.
    #[serde(default)]
    pub views: u64,
    /// Spaces of no table with rows: temporary tables, and rows of tables that were being made or dropped.
    #[serde(default)]
    pub temporary_tables: u64,
    /// Rows of these.
    #[serde(default)]
    pub temporary_rows: u64,
    /// Bytes of these.
    #[serde(default)]
    pub temporary_bytes: u64,
    /// Files of exports, which stay.
    #[serde(default)]
    pub exports: Exports,
    /// Shared tables that were found on servers, where rows of the tenant stay; at most [`CONTENTS_TABLES_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stays_in: Vec<String>,
    /// Whether tables on servers are among those that rows are deleted of.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_on_servers: bool,
    /// How the totals are known.
    #[serde(default, skip_serializing_if = "Counted::is_exact")]
    pub counted: Counted,
    /// Rows, cells, bytes and history of all tables, those that are not listed too.
    #[serde(default, flatten)]
    pub total: SpanSize,
    /// The number of tables that hold rows or history.
    #[serde(default)]
    pub tables: u64,
}

/// What of a tenant's deleted rows is left to Bigtable, where a purge here does not reach.
/// <https://cloud.google.com/bigtable/docs/deletes> and the pages on backups, change streams and undeletion say so.
pub const LEFT_TO_BIGTABLE: &str = "deleted bytes stay in Bigtable's files for up to a week, in backups of its tables \
                                    until these expire, in change streams for as long as they are kept, and a table \
                                    that was deleted before can be undeleted for a week";

impl Contents {
    /// What is left to Bigtable, if rows are deleted there. Rows that the tenant deleted itself count, which the
    /// numbers do not show.
    pub fn left_to_bigtable(&self) -> Option<&'static str> {
        self.is_on_servers.then_some(LEFT_TO_BIGTABLE)
    }
}

/// Tables that a certificate lists by name; the totals count all.
pub const CONTENTS_TABLES_MAX: usize = 1_000;

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
    /// All that the tenant had; empty in the certificate of an earlier version.
    #[serde(default)]
    pub contents: Contents,
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
    verified_by: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    left_to_bigtable: Option<&'static str>,
    contents: &'a Contents,
}

/// How a purge is verified.
pub const VERIFICATION: &str = "the store rewrote or removed every file that was begun before the purge and reached \
                                into what was erased; the manifest and the log name none of them; no reader held one";

/// A time in microseconds as `2026-11-24T15:39:11.5Z`.
fn rfc3339(micros: i64) -> String {
    let text = Value::Timestamp(micros).to_text(SqlType::Timestamp(None));
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
            verified_by: self.purged_micros.map(|_| VERIFICATION),
            left_to_bigtable: self.contents.left_to_bigtable(),
            contents: &self.contents,
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
            contents: Contents {
                by_table: vec![TableContents {
                    oid: TableId(16_390),
                    table: Some("t".to_owned()),
                    kind: TableKind::Shared,
                    server: None,
                    counted: Counted::Exactly,
                    size: SpanSize { rows: 10, cells: 20, bytes: 300, history_rows: 3, history_bytes: 90 },
                }],
                sequences: 1,
                total: SpanSize { rows: 10, cells: 20, bytes: 300, history_rows: 3, history_bytes: 90 },
                tables: 1,
                ..Contents::default()
            },
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
              "purged_at": "2026-11-01T00:00:01.000001Z",
              "verified_by": "the store rewrote or removed every file that was begun before the purge and reached into what was erased; the manifest and the log name none of them; no reader held one",
              "contents": {
                "by_table": [
                  {
                    "oid": 16390,
                    "table": "t",
                    "kind": "shared",
                    "rows": 10,
                    "cells": 20,
                    "bytes": 300,
                    "history_rows": 3,
                    "history_bytes": 90
                  }
                ],
                "private_tables": 0,
                "sequences": 1,
                "views": 0,
                "temporary_tables": 0,
                "temporary_rows": 0,
                "temporary_bytes": 0,
                "exports": {
                  "files": 0,
                  "bytes": 0
                },
                "rows": 10,
                "cells": 20,
                "bytes": 300,
                "history_rows": 3,
                "history_bytes": 90,
                "tables": 1
              }
            }
        "#]]
        .assert_eq(&certificate.to_json());
    }
}
