//! Between the types of the store and those of the API.

use super::MILLI;
use crate::Error as ApiError;
use bytes::Bytes;
use keyspan_bigtable_api::data::{
    ColumnRange, Mutation, RowFilter, TimestampRange as ApiRange, Value,
    column_range::{EndQualifier, StartQualifier},
    mutation::{self, AddToCell, DeleteFromColumn, DeleteFromFamily, DeleteFromRow, MergeToCell, SetCell},
    row_filter::{Chain, Filter, Interleave},
    value::Kind,
};
use keyspan_storage::{Cell, Error, Mutation as StoreMutation, TimestampRange};
use tonic::Code;

use crate::read::ApiCell;

/// What Google's service says of an application profile by which no decision about a row may be sent.
const NO_TRANSACTIONS: &str = "ingle-row transactions are not allowed";

/// An error of the server as one of a store.
pub(super) fn error(error: ApiError) -> Error {
    let text = format!("Bigtable: {error}");
    match (&error, error.code()) {
        (ApiError::Credentials(_), _) | (_, Some(Code::PermissionDenied | Code::Unauthenticated)) => {
            Error::Forbidden(text)
        }
        (ApiError::Config(_), _) => Error::Invalid(text),
        // The profile is not asked for: that is administration of the instance, which few may read.
        (ApiError::Status(status), Some(Code::FailedPrecondition)) if status.message().contains(NO_TRANSACTIONS) => {
            Error::ReadOnly(text)
        }
        (_, Some(Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange | Code::NotFound)) => {
            Error::Refused(text)
        }
        (_, Some(Code::Unimplemented)) => Error::Unsupported(text),
        (ApiError::Protocol(_), _) => Error::Protocol(text),
        _ => Error::Unreachable(text),
    }
}

/// A timestamp range of the store, whose bounds may lie between milliseconds: the cells of the API in it. `None` if
/// there can be none; the API has no empty range, since zero is no bound there.
pub(super) fn timestamps(range: TimestampRange) -> Option<ApiRange> {
    let up = |micros: i64| micros.saturating_add(MILLI - 1).div_euclid(MILLI).saturating_mul(MILLI);
    let start = up(range.start.max(0));
    let end = range.end.map(up);
    if end.is_some_and(|end| end <= start) {
        return None;
    }
    Some(ApiRange { start_timestamp_micros: start, end_timestamp_micros: end.unwrap_or(0) })
}

/// A mutation; `None` for one without effect. Cells without a timestamp get the stamp.
pub(super) fn mutation(mutation: &StoreMutation, stamp_micros: i64) -> Option<Mutation> {
    let aggregate = |qualifier: &Bytes, timestamp: &Option<i64>| {
        let column = Some(value(Kind::RawValue(qualifier.clone())));
        (column, Some(value(Kind::RawTimestampMicros(timestamp.unwrap_or(stamp_micros)))))
    };
    let mutation = match mutation {
        StoreMutation::SetCell { family, qualifier, timestamp, value } => {
            return Some(set_cell(family.as_str(), qualifier, timestamp.unwrap_or(stamp_micros), value.clone()));
        }
        StoreMutation::AddToCell { family, qualifier, timestamp, input } => {
            let (column_qualifier, timestamp) = aggregate(qualifier, timestamp);
            let input = Some(value(Kind::IntValue(*input)));
            let family_name = family.to_string();
            mutation::Mutation::AddToCell(AddToCell { family_name, column_qualifier, timestamp, input })
        }
        StoreMutation::MergeToCell { family, qualifier, timestamp, state } => {
            let (column_qualifier, timestamp) = aggregate(qualifier, timestamp);
            let input = Some(value(Kind::RawValue(state.clone())));
            let family_name = family.to_string();
            mutation::Mutation::MergeToCell(MergeToCell { family_name, column_qualifier, timestamp, input })
        }
        StoreMutation::DeleteFromColumn { family, qualifier, timestamps: range } => {
            let time_range = if *range == TimestampRange::all() { None } else { Some(timestamps(*range)?) };
            let (family_name, column_qualifier) = (family.to_string(), qualifier.clone());
            mutation::Mutation::DeleteFromColumn(DeleteFromColumn { family_name, column_qualifier, time_range })
        }
        StoreMutation::DeleteFromFamily { family } => {
            mutation::Mutation::DeleteFromFamily(DeleteFromFamily { family_name: family.to_string() })
        }
        StoreMutation::DeleteFromRow => mutation::Mutation::DeleteFromRow(DeleteFromRow {}),
    };
    Some(Mutation { mutation: Some(mutation) })
}

/// Whether the mutation may be applied twice.
pub(super) fn is_repeatable(mutation: &StoreMutation) -> bool {
    !matches!(mutation, StoreMutation::AddToCell { .. } | StoreMutation::MergeToCell { .. })
}

pub(super) fn set_cell(family: &str, qualifier: &Bytes, timestamp_micros: i64, value: Bytes) -> Mutation {
    let (family_name, column_qualifier) = (family.to_owned(), qualifier.clone());
    let cell = SetCell { family_name, column_qualifier, timestamp_micros, value };
    Mutation { mutation: Some(mutation::Mutation::SetCell(cell)) }
}

pub(super) fn delete_column(family: &str, qualifier: &Bytes) -> Mutation {
    let (family_name, column_qualifier) = (family.to_owned(), qualifier.clone());
    let column = DeleteFromColumn { family_name, column_qualifier, time_range: None };
    Mutation { mutation: Some(mutation::Mutation::DeleteFromColumn(column)) }
}

fn value(kind: Kind) -> Value {
    Value { r#type: None, kind: Some(kind) }
}

/// A cell of the server.
pub(super) fn cell(cell: ApiCell) -> Cell {
    let ApiCell { family, qualifier, timestamp_micros: timestamp, value, labels: _ } = cell;
    Cell { family, qualifier, timestamp, value }
}

/// The cells of one column.
pub(super) fn column(family: &str, qualifier: &Bytes) -> RowFilter {
    of(Filter::ColumnRangeFilter(ColumnRange {
        family_name: family.to_owned(),
        start_qualifier: Some(StartQualifier::StartQualifierClosed(qualifier.clone())),
        end_qualifier: Some(EndQualifier::EndQualifierClosed(qualifier.clone())),
    }))
}

/// The cells of one family.
pub(super) fn family(family: &str) -> RowFilter {
    of(Filter::ColumnRangeFilter(ColumnRange {
        family_name: family.to_owned(),
        start_qualifier: None,
        end_qualifier: None,
    }))
}

/// The newest cells of each column.
pub(super) fn newest(versions: u32) -> RowFilter {
    of(Filter::CellsPerColumnLimitFilter(i32::try_from(versions).unwrap_or(i32::MAX)))
}

/// The first cell of the row.
pub(super) fn first() -> RowFilter {
    of(Filter::CellsPerRowLimitFilter(1))
}

/// No cell.
pub(super) fn block_all() -> RowFilter {
    of(Filter::BlockAllFilter(true))
}

/// Cells without their values.
pub(super) fn stripped() -> RowFilter {
    of(Filter::StripValueTransformer(true))
}

/// Cells with a timestamp in the range.
pub(super) fn at(range: ApiRange) -> RowFilter {
    of(Filter::TimestampRangeFilter(range))
}

/// One filter after the other. The API refuses a chain of one.
pub(super) fn chain(mut filters: Vec<RowFilter>) -> RowFilter {
    if filters.len() == 1 { filters.remove(0) } else { of(Filter::Chain(Chain { filters })) }
}

/// The results of all filters. The API refuses an interleave of one.
pub(super) fn interleave(mut filters: Vec<RowFilter>) -> RowFilter {
    if filters.len() == 1 { filters.remove(0) } else { of(Filter::Interleave(Interleave { filters })) }
}

fn of(filter: Filter) -> RowFilter {
    RowFilter { filter: Some(filter) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_to_do() {
        use keyspan_storage::ErrorKind;
        let check = |code: Code, kind| assert_eq!(error(tonic::Status::new(code, "why").into()).kind(), kind, "{code}");
        check(Code::Unavailable, ErrorKind::Unreachable);
        check(Code::DeadlineExceeded, ErrorKind::Unreachable);
        check(Code::PermissionDenied, ErrorKind::Forbidden);
        check(Code::InvalidArgument, ErrorKind::Invalid);
        check(Code::Unimplemented, ErrorKind::Unsupported);
        check(Code::FailedPrecondition, ErrorKind::Invalid);
        let refused = tonic::Status::failed_precondition("Single-row transactions are not allowed by this app profile");
        assert_eq!(error(refused.into()).kind(), ErrorKind::ReadOnly);
        assert_eq!(error(ApiError::Protocol("a row has two keys")).kind(), ErrorKind::Protocol);
        assert_eq!(error(ApiError::Credentials("none".into())).kind(), ErrorKind::Forbidden);
    }

    #[test]
    fn ranges_hold_the_milliseconds_in_them() {
        let check = |start, end, want: Option<(i64, i64)>| {
            let range = timestamps(TimestampRange { start, end });
            let range = range.map(|range| (range.start_timestamp_micros, range.end_timestamp_micros));
            assert_eq!(range, want, "{start} {end:?}");
        };
        check(i64::MIN, None, Some((0, 0)));
        check(1, None, Some((1_000, 0)));
        check(1_000, Some(2_000), Some((1_000, 2_000)));
        check(1_000, Some(2_001), Some((1_000, 3_000)));
        check(1_001, Some(2_000), None);
        check(0, Some(0), None);
        check(i64::MIN, Some(-5), None);
    }
}
