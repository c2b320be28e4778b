//! Erasures: cells and rows that a statement took out of every view, and whose bytes leave the store's files after it.
//! Pure definitions; [`Catalog::purge_erasures`](crate::Catalog::purge_erasures) does the work.
//!
//! ```text
//! DROP COLUMN, ERASE, …        BeginErasures           the store purges         FinishErasures
//!   an Erasure, in the same ─►  purging_micros  ───►  ClearErasures, again ───►  purged_micros
//!   commit as the change
//! ```
//!
//! An [`Erasure`] is a certificate, and until it is done also the order: it has the [`Target`]. A target may be a
//! prefix of row keys, which is itself data that must go. So the target is cleared before the last purge, which also
//! covers the catalog's own rows.
//!
//! Erasures of a tenant's rows are among its [private relations](crate::Private), and go with the tenant; those of
//! shared tables are the operator's.

use crate::{Error, ErrorKind, Result, TableId, tenant::SpanSize};
use keyspan_storage::{FamilyName, TableName};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

/// Certificates that a tenant keeps, and the operator. The oldest ones that are done are forgotten.
pub const ERASURES_MAX: usize = 1_000;
/// How long after a statement the bytes are to be gone, in microseconds: a day. Transactions that still read them end
/// within an hour; the rest is time to rewrite files.
pub const ERASURE_DEADLINE_MICROS: i64 = 86_400_000_000;

/// What was erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErasureKind {
    /// A column: `DROP COLUMN`.
    Column,
    /// A column family: `DROP FAMILY`.
    Family,
    /// The rows whose keys begin alike: `DELETE … ERASE`.
    Prefix,
    /// All rows of a tenant in a table: `TRUNCATE`.
    Truncate,
}

impl ErasureKind {
    /// `column`, `family`, `prefix` or `truncate`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Column => "column",
            Self::Family => "family",
            Self::Prefix => "prefix",
            Self::Truncate => "truncate",
        }
    }
}

/// What a purge has to remove.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// Cells of a store's table: those of erased columns, which are named here, and of dropped families.
    Cells {
        /// The store's table.
        physical: TableName,
        /// The columns.
        columns: Vec<(FamilyName, String)>,
    },
    /// Deleted rows of a store's table, by prefixes of their keys, the tenant's span included.
    Rows {
        /// The store's table.
        physical: TableName,
        /// The prefixes.
        prefixes: Vec<Vec<u8>>,
    },
    /// The rows of a space of the tenant, which no table uses any more.
    Space(u32),
    /// The target was purged: only the order itself is left to go.
    Cleared,
}

/// One erasure, from the order to the certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Erasure {
    /// The kind.
    pub kind: ErasureKind,
    /// The table's OID.
    pub table: TableId,
    /// The table's name at that time.
    pub table_name: String,
    /// The name of the column or family, or the parts of the key that the prefix gave. Never a value.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub what: String,
    /// The role that asked for it.
    pub requested_by: String,
    /// When the statement began, in microseconds.
    pub requested_micros: i64,
    /// When it committed, in microseconds: no statement that began after its answer sees what is erased.
    pub invisible_micros: i64,
    /// What was there.
    pub size: SpanSize,
    /// When the bytes are to be gone, in microseconds.
    pub deadline_micros: i64,
    /// When the purge began, in microseconds; `None` before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purging_micros: Option<i64>,
    /// When the last byte had left the store's files, in microseconds; `None` until a purge has verified it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purged_micros: Option<i64>,
    /// What is to be purged.
    pub target: Target,
}

/// The erasures of a tenant, or the operator's, by number.
pub type Erasures = BTreeMap<u64, Arc<Erasure>>;

/// A step of a purge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErasureStep {
    /// It begins, at a time in microseconds. Those that began before keep their time.
    Begin(i64),
    /// What it had to remove is gone.
    Clear,
    /// It is complete, at a time in microseconds.
    Finish(i64),
}

impl Erasure {
    /// `waiting`, `running` or `done`.
    pub fn state(&self) -> &'static str {
        match (self.purged_micros, self.purging_micros) {
            (Some(_), _) => "done",
            (None, Some(_)) => "running",
            (None, None) => "waiting",
        }
    }

    /// Whether the bytes may still be there.
    pub fn is_pending(&self) -> bool {
        self.purged_micros.is_none()
    }
}

/// Adds an erasure under the next number. The oldest that are done make room.
///
/// # Errors
/// [`TooMuch`](ErrorKind::TooMuch) if [`ERASURES_MAX`] are pending.
pub(crate) fn add(erasures: &mut Erasures, erasure: Erasure) -> Result<()> {
    while erasures.len() >= ERASURES_MAX {
        let done = erasures.iter().find(|(_, erasure)| !erasure.is_pending()).map(|(number, _)| *number);
        let Some(number) = done else {
            let message = format!("{ERASURES_MAX} erasures wait for their bytes to be purged");
            return Err(Error::new(ErrorKind::TooMuch, message)
                .with_hint("Look at keyspan.erasures, and try again when some are done."));
        };
        erasures.remove(&number);
    }
    let number = erasures.keys().next_back().map_or(1, |last| last + 1);
    erasures.insert(number, Arc::new(erasure));
    Ok(())
}

/// Takes a step; returns the columns that are no longer to be hidden, with the OID of their table. Erasures that are
/// gone by now, or done, are passed over.
pub(crate) fn step(
    erasures: &mut Erasures,
    number: u64,
    step: ErasureStep,
) -> Option<(TableId, Vec<(FamilyName, String)>)> {
    let erasure = Arc::make_mut(erasures.get_mut(&number).filter(|erasure| erasure.is_pending())?);
    match step {
        ErasureStep::Begin(at) => {
            erasure.purging_micros = erasure.purging_micros.or(Some(at));
            None
        }
        ErasureStep::Clear => match std::mem::replace(&mut erasure.target, Target::Cleared) {
            Target::Cells { columns, .. } => Some((erasure.table, columns)),
            _ => None,
        },
        ErasureStep::Finish(at) => {
            erasure.purged_micros = Some(at);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn erasure(requested_micros: i64) -> Erasure {
        Erasure {
            kind: ErasureKind::Truncate,
            table: TableId(16_390),
            table_name: "t".to_owned(),
            what: String::new(),
            requested_by: "ana".to_owned(),
            requested_micros,
            invisible_micros: requested_micros,
            size: SpanSize::default(),
            deadline_micros: requested_micros + ERASURE_DEADLINE_MICROS,
            purging_micros: None,
            purged_micros: None,
            target: Target::Space(7),
        }
    }

    #[test]
    fn the_oldest_that_are_done_make_room() {
        let mut erasures = Erasures::new();
        for at in 0..ERASURES_MAX as i64 {
            add(&mut erasures, erasure(at)).unwrap();
        }
        assert_eq!(add(&mut erasures, erasure(0)).unwrap_err().kind(), ErrorKind::TooMuch);
        step(&mut erasures, 3, ErasureStep::Finish(9));
        add(&mut erasures, erasure(0)).unwrap();
        assert!(!erasures.contains_key(&3) && erasures.contains_key(&(ERASURES_MAX as u64 + 1)));
    }

    #[test]
    fn a_certificate_is_final_and_keeps_its_times() {
        let mut erasures = Erasures::new();
        add(&mut erasures, erasure(1)).unwrap();
        for (next, state) in [
            (ErasureStep::Begin(2), "running"),
            (ErasureStep::Begin(3), "running"),
            (ErasureStep::Clear, "running"),
            (ErasureStep::Finish(4), "done"),
            (ErasureStep::Finish(5), "done"),
        ] {
            step(&mut erasures, 1, next);
            assert_eq!(erasures[&1].state(), state);
        }
        let done = &erasures[&1];
        assert_eq!((done.purging_micros, done.purged_micros, &done.target), (Some(2), Some(4), &Target::Cleared));
    }
}
