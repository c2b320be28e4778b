//! The latest statements that took long, each with the outline of its plan: a ring of bounded size. Neither texts nor
//! plans have values in them.

use crate::lock::Mutex;
use std::{collections::VecDeque, sync::Arc, time::Duration};

/// Statements that are kept; older ones make room.
pub(crate) const SLOW_MAX: usize = 200;
/// Bytes of a text and of a plan that are kept.
const TEXT_BYTES_MAX: usize = 4 << 10;
/// How long a statement takes that is kept, where `log_min_duration_statement` says nothing.
pub(crate) const SLOW_LEAST: Duration = Duration::from_secs(1);

/// A statement that took long.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Slow {
    /// When it ended, in microseconds since 1970.
    pub(crate) ended_micros: i64,
    /// The OID of the tenant; `None` for the operator's database.
    pub(crate) tenant: Option<u32>,
    pub(crate) database: String,
    pub(crate) role: String,
    pub(crate) process_id: i32,
    pub(crate) took: Duration,
    pub(crate) rows: u64,
    /// The SQLSTATE of its error.
    pub(crate) error: Option<&'static str>,
    /// Without constants.
    pub(crate) text: String,
    /// The nodes of its plan; empty for a statement without one.
    pub(crate) plan: String,
}

/// The ring.
#[derive(Debug, Default)]
pub(crate) struct SlowStatements(Mutex<VecDeque<Arc<Slow>>>);

impl SlowStatements {
    /// Adds a statement; the oldest makes room.
    pub(crate) fn add(&self, mut slow: Slow) {
        shorten(&mut slow.text);
        shorten(&mut slow.plan);
        let mut ring = self.0.lock();
        if ring.len() >= SLOW_MAX {
            ring.pop_front();
        }
        ring.push_back(Arc::new(slow));
    }

    /// All of them, the latest first.
    pub(crate) fn all(&self) -> Vec<Arc<Slow>> {
        self.0.lock().iter().rev().cloned().collect()
    }

    /// Forgets those of databases that are gone.
    pub(crate) fn retain(&self, is_there: impl Fn(u32) -> bool) {
        self.0.lock().retain(|slow| slow.tenant.is_none_or(&is_there));
    }
}

/// Cuts a text behind a whole character.
fn shorten(text: &mut String) {
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        text.push('…');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slow(tenant: Option<u32>, text: &str) -> Slow {
        Slow {
            ended_micros: 1,
            tenant,
            database: "alto".into(),
            role: "ana".into(),
            process_id: 7,
            took: Duration::from_secs(2),
            rows: 3,
            error: None,
            text: text.to_owned(),
            plan: "Seq Scan on t".into(),
        }
    }

    #[test]
    fn the_oldest_make_room_and_texts_are_cut() {
        let ring = SlowStatements::default();
        for at in 0..SLOW_MAX + 5 {
            ring.add(slow(None, &at.to_string()));
        }
        let all = ring.all();
        assert_eq!((all.len(), all[0].text.as_str()), (SLOW_MAX, "204"));
        assert_eq!(all.last().map(|slow| slow.text.as_str()), Some("5"));
        ring.add(slow(Some(1), &"ä".repeat(TEXT_BYTES_MAX)));
        let text = ring.all()[0].text.clone();
        assert!(text.len() <= TEXT_BYTES_MAX + '…'.len_utf8() && text.ends_with("ä…"), "{}", text.len());
    }

    #[test]
    fn those_of_a_dropped_tenant_go() {
        let ring = SlowStatements::default();
        for tenant in [None, Some(1), Some(2)] {
            ring.add(slow(tenant, "x"));
        }
        ring.retain(|oid| oid == 2);
        assert_eq!(ring.all().iter().map(|slow| slow.tenant).collect::<Vec<_>>(), [Some(2), None]);
    }
}
