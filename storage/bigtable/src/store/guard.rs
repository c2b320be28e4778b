//! Guards: a cell of each row with a token that no other write has, so that one request can tell whether the row was
//! written since.
//!
//! The token is 16 bytes: a random number of this process, and a counter.

use super::{GUARD_FAMILY, HIDDEN_GUARD_FAMILY, convert, schema::Known};
use bytes::Bytes;
use keyspan_bigtable_api::data::{
    Mutation, RowFilter, ValueRange,
    row_filter::{Chain, Filter},
    value_range::{EndValue, StartValue},
};
use keyspan_storage::{FamilyName, Mutation as StoreMutation};
use std::sync::atomic::{AtomicU64, Ordering};

/// The column of the guard in its family.
const QUALIFIER: Bytes = Bytes::new();

/// Makes tokens.
#[derive(Debug)]
pub(super) struct Tokens {
    process: u64,
    next: AtomicU64,
}

impl Tokens {
    pub(super) fn new(process: u64) -> Self {
        Self { process, next: AtomicU64::new(0) }
    }

    pub(super) fn token(&self) -> Bytes {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        [self.process.to_be_bytes(), number.to_be_bytes()].concat().into()
    }
}

/// What a row's guard is known to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Guard {
    /// There is no row.
    Absent,
    /// There is a row, which no one of us has written.
    None,
    /// The token.
    Token(Bytes),
}

/// Where a table has its guards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In a family of the schema.
    Shown,
    /// In a family that no one sees.
    Hidden,
    /// Nowhere: the table is not this store's, and takes no writes that rely on rows.
    Nowhere,
}

impl Place {
    /// The name of the family; that of nowhere names no family of the table.
    pub(super) fn family(self) -> &'static str {
        if self == Self::Shown { GUARD_FAMILY } else { HIDDEN_GUARD_FAMILY }
    }

    /// Whether a cell is the guard.
    pub(super) fn is(self, family: &FamilyName, qualifier: &[u8]) -> bool {
        self != Self::Nowhere && qualifier.is_empty() && family.as_str() == self.family()
    }

    /// The guard's cell.
    pub(super) fn filter(self) -> RowFilter {
        chain(vec![convert::column(self.family(), &QUALIFIER), convert::newest(1)])
    }
}

/// The mutations of a row with those of its guard, which gets the token; all with timestamps. The guard is left out
/// where it would bring a row to life: `is_there` says that the row exists before them, and has a guard. Returns
/// whether the guard is set, too.
pub(super) fn guarded(
    known: &Known,
    mutations: &[StoreMutation],
    is_there: bool,
    stamp_micros: i64,
    token: &Bytes,
) -> (Vec<Mutation>, bool) {
    let marks = |mutation: &StoreMutation| match mutation {
        StoreMutation::SetCell { family, qualifier, .. } => known.guard.is(family, qualifier),
        _ => false,
    };
    let removes = |mutation: &StoreMutation| match mutation {
        StoreMutation::DeleteFromRow => true,
        StoreMutation::DeleteFromFamily { family } => known.guard.is(family, &QUALIFIER),
        StoreMutation::DeleteFromColumn { family, qualifier, .. } => known.guard.is(family, qualifier),
        _ => false,
    };
    let has_guard = match known.guard {
        Place::Nowhere => false,
        // SQL sets it in each row that exists after the write.
        Place::Shown => mutations.iter().any(marks) || (is_there && !mutations.iter().any(removes)),
        Place::Hidden => !matches!(mutations.last(), Some(StoreMutation::DeleteFromRow)),
    };
    let mut all: Vec<Mutation> = Vec::with_capacity(mutations.len() + 2);
    for mutation in mutations.iter().filter(|mutation| known.guard != Place::Shown || !marks(mutation)) {
        all.extend(convert::mutation(mutation, stamp_micros));
    }
    if has_guard {
        // The token that was there may have a later timestamp.
        all.push(convert::delete_column(known.guard.family(), &QUALIFIER));
        all.push(convert::set_cell(known.guard.family(), &QUALIFIER, stamp_micros, token.clone()));
    }
    (all, has_guard)
}

/// Whether the row is still as it was: the predicate, and whether it has to hold. `None` asks for any cell.
pub(super) fn unchanged(place: Place, guard: &Guard) -> (Option<RowFilter>, bool) {
    match guard {
        Guard::Absent => (None, false),
        Guard::None => (Some(place.filter()), false),
        Guard::Token(token) => {
            let value = ValueRange {
                start_value: Some(StartValue::StartValueClosed(token.clone())),
                end_value: Some(EndValue::EndValueClosed(token.clone())),
            };
            let is_token = RowFilter { filter: Some(Filter::ValueRangeFilter(value)) };
            (Some(chain(vec![convert::column(place.family(), &QUALIFIER), convert::newest(1), is_token])), true)
        }
    }
}

fn chain(filters: Vec<RowFilter>) -> RowFilter {
    RowFilter { filter: Some(Filter::Chain(Chain { filters })) }
}
