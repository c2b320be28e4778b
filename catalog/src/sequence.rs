//! Sequences: their definition and arithmetic. Pure; [`TenantStore::advance`](crate::TenantStore::advance) stores the
//! state.

use crate::{Error, ErrorKind, Result, SqlType, TableId};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Bytes of a name, as PostgreSQL cuts it.
const NAME_BYTES_MAX: usize = 63;

/// A sequence of a tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sequence {
    /// The OID, never reused. It is also the space of the row that holds the sequence's state.
    pub id: u32,
    /// The name.
    pub name: String,
    /// The OID of the schema.
    #[serde(default = "crate::schema::public", skip_serializing_if = "crate::schema::is_public")]
    pub schema: u32,
    /// `smallint`, `integer` or `bigint`.
    pub kind: SqlType,
    /// The first value.
    pub start: i64,
    /// The difference of two successive values; not 0.
    pub increment: i64,
    /// The minimum value.
    pub min: i64,
    /// The maximum value.
    pub max: i64,
    /// Whether it wraps around after its last value.
    pub cycle: bool,
    /// The column that owns the sequence (`OWNED BY`), as table and column number: the sequence is dropped with it.
    #[serde(default)]
    pub owner: Option<(TableId, u16)>,
}

/// The options of `CREATE SEQUENCE` and `ALTER SEQUENCE`; `None` for those that the statement leaves out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SequenceOptions {
    /// `AS`
    pub kind: Option<SqlType>,
    /// `START WITH`
    pub start: Option<i64>,
    /// `INCREMENT BY`
    pub increment: Option<i64>,
    /// `MINVALUE`; the inner `None` is `NO MINVALUE`.
    pub min: Option<Option<i64>>,
    /// `MAXVALUE`; the inner `None` is `NO MAXVALUE`.
    pub max: Option<Option<i64>>,
    /// `CYCLE`, `NO CYCLE`
    pub cycle: Option<bool>,
    /// `RESTART`, of a sequence that is there; the inner `None` is without a number.
    pub restart: Option<Option<i64>>,
}

/// The state of a sequence, as PostgreSQL keeps it (`last_value`, `is_called`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceState {
    /// The last value.
    pub last: i64,
    /// Whether `nextval` returned it; if not, it is the next value.
    pub called: bool,
}

/// Successive values of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceValues {
    /// The first value.
    pub first: i64,
    /// The number of values, at least one.
    pub count: u64,
}

impl Sequence {
    /// A new sequence.
    ///
    /// # Errors
    /// [`InvalidOption`](ErrorKind::InvalidOption) for options that contradict each other.
    pub fn define(id: u32, name: &str, options: &SequenceOptions) -> Result<Self> {
        crate::table::check_name("sequence", name)?;
        let schema = crate::rights::PUBLIC_SCHEMA;
        Self::with((id, name.to_owned(), schema, None), options, None)
    }

    /// The sequence with other options: those that are left out stay. Bounds that are those of the type become those of
    /// another one.
    ///
    /// # Errors
    /// [`InvalidOption`](ErrorKind::InvalidOption) for options that contradict each other.
    pub fn alter(&self, options: &SequenceOptions) -> Result<Self> {
        Self::with((self.id, self.name.clone(), self.schema, self.owner), options, Some(self))
    }

    /// The state after such a change: that of `RESTART`, else the one before.
    ///
    /// # Errors
    /// [`InvalidOption`](ErrorKind::InvalidOption) for a value out of the bounds.
    pub fn restarted(&self, options: &SequenceOptions, before: SequenceState) -> Result<SequenceState> {
        let state = match options.restart {
            Some(last) => SequenceState { last: last.unwrap_or(self.start), called: false },
            None => before,
        };
        let (last, min, max) = (state.last, self.min, self.max);
        if last < min {
            return Err(invalid(format!("RESTART value ({last}) cannot be less than MINVALUE ({min})")));
        }
        if last > max {
            return Err(invalid(format!("RESTART value ({last}) cannot be greater than MAXVALUE ({max})")));
        }
        Ok(state)
    }

    fn with(
        (id, name, schema, owner): (u32, String, u32, Option<(TableId, u16)>),
        options: &SequenceOptions,
        before: Option<&Self>,
    ) -> Result<Self> {
        let bounds = |kind| match kind {
            SqlType::Int2 => Ok((i64::from(i16::MIN), i64::from(i16::MAX))),
            SqlType::Int4 => Ok((i64::from(i32::MIN), i64::from(i32::MAX))),
            SqlType::Int8 => Ok((i64::MIN, i64::MAX)),
            _ => Err(invalid("sequence type must be smallint, integer, or bigint".into())),
        };
        let kind = options.kind.or(before.map(|before| before.kind)).unwrap_or(SqlType::Int8);
        let (least, greatest) = bounds(kind)?;
        let increment = options.increment.or(before.map(|before| before.increment)).unwrap_or(1);
        if increment == 0 {
            return Err(invalid("INCREMENT must not be zero".into()));
        }
        // Bounds of the former type are no choice.
        let kept = |of: fn(&Self) -> i64, of_type: fn((i64, i64)) -> i64| {
            let before = before?;
            let is_of_type =
                options.kind.is_some() && bounds(before.kind).is_ok_and(|both| of_type(both) == of(before));
            (!is_of_type).then(|| of(before))
        };
        let min = match options.min {
            Some(min) => min,
            None => kept(|sequence| sequence.min, |(least, _)| least),
        };
        let max = match options.max {
            Some(max) => max,
            None => kept(|sequence| sequence.max, |(_, greatest)| greatest),
        };
        let min = min.unwrap_or(if increment > 0 { 1 } else { least });
        let max = max.unwrap_or(if increment > 0 { greatest } else { -1 });
        if min < least || max > greatest {
            return Err(invalid(format!(
                "MINVALUE ({min}) or MAXVALUE ({max}) is out of range for sequence data type {kind}"
            )));
        }
        if min > max {
            return Err(invalid(format!("MINVALUE ({min}) must be less than MAXVALUE ({max})")));
        }
        let start = options.start.or(before.map(|before| before.start));
        let start = start.unwrap_or(if increment > 0 { min } else { max });
        if start < min {
            return Err(invalid(format!("START value ({start}) cannot be less than MINVALUE ({min})")));
        }
        if start > max {
            return Err(invalid(format!("START value ({start}) cannot be greater than MAXVALUE ({max})")));
        }
        let cycle = options.cycle.or(before.map(|before| before.cycle)).unwrap_or_default();
        Ok(Self { id, name, schema, kind, start, increment, min, max, cycle, owner })
    }

    /// The name that PostgreSQL chooses for the sequence of a column, `table_column_seq`: cut to the length of a name,
    /// the longer of both names first.
    pub fn name_for_column(table: &str, column: &str) -> String {
        let (mut table, mut column) = (table.to_owned(), column.to_owned());
        while table.len() + column.len() + "__seq".len() > NAME_BYTES_MAX {
            if table.len() >= column.len() {
                table.pop()
            } else {
                column.pop()
            };
        }
        format!("{table}_{column}_seq")
    }

    /// The next values, `count` of them or as many as remain before the sequence ends or wraps around, and the state
    /// after them.
    ///
    /// # Errors
    /// [`SequenceEnds`](ErrorKind::SequenceEnds).
    pub fn next(&self, state: Option<SequenceState>, count: u64) -> Result<(SequenceState, SequenceValues)> {
        let first = match state {
            None => Some(self.start),
            Some(SequenceState { last, called: false }) => Some(last),
            Some(SequenceState { last, called: true }) => last.checked_add(self.increment),
        };
        let within = first.filter(|first| (self.min..=self.max).contains(first));
        let first = match within {
            Some(first) => first,
            None if self.cycle => {
                if self.increment > 0 {
                    self.min
                } else {
                    self.max
                }
            }
            None => {
                let (what, bound) = if self.increment > 0 { ("maximum", self.max) } else { ("minimum", self.min) };
                let message = format!("nextval: reached {what} value of sequence \"{}\" ({bound})", self.name);
                return Err(Error::new(ErrorKind::SequenceEnds, message));
            }
        };
        let end = if self.increment > 0 { self.max } else { self.min };
        let left = (i128::from(end) - i128::from(first)) / i128::from(self.increment);
        let more = u64::try_from(left).unwrap_or(u64::MAX).min(count.saturating_sub(1));
        let last = i128::from(first) + i128::from(more) * i128::from(self.increment);
        let last = i64::try_from(last).expect("it lies between the least and the greatest number");
        Ok((SequenceState { last, called: true }, SequenceValues { first, count: more + 1 }))
    }

    /// The state that `setval` sets.
    ///
    /// # Errors
    /// [`OutOfRange`](ErrorKind::OutOfRange).
    pub fn set(&self, last: i64, called: bool) -> Result<SequenceState> {
        if (self.min..=self.max).contains(&last) {
            return Ok(SequenceState { last, called });
        }
        let (name, min, max) = (&self.name, self.min, self.max);
        let message = format!("setval: value {last} is out of bounds for sequence \"{name}\" ({min}..{max})");
        Err(Error::new(ErrorKind::OutOfRange, message))
    }
}

impl SequenceState {
    /// The last value, 8 bytes big-endian, then one byte: whether it was called.
    pub(crate) fn to_bytes(self) -> Bytes {
        [&self.last.to_be_bytes()[..], &[u8::from(self.called)]].concat().into()
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self> {
        match bytes.split_first_chunk::<8>() {
            Some((last, [called])) => Ok(Self { last: i64::from_be_bytes(*last), called: *called != 0 }),
            _ => Err(Error::new(ErrorKind::Corrupt, "the state of a sequence cannot be read")),
        }
    }
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidOption, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    /// The values that a sequence returns for calls of [`Sequence::next`] with a count of three.
    fn check(options: SequenceOptions, times: usize, expected: Expect) {
        let sequence = Sequence::define(20_000, "s", &options).unwrap();
        let (mut state, mut given) = (None, Vec::new());
        for _ in 0..times {
            match sequence.next(state, 3) {
                Ok((next, numbers)) => {
                    state = Some(SequenceState::from_bytes(&next.to_bytes()).unwrap());
                    given.push(format!("{}×{}", numbers.first, numbers.count));
                }
                Err(error) => given.push(error.to_string()),
            }
        }
        expected.assert_eq(&given.join(", "));
    }

    #[test]
    fn numbers_follow_each_other_to_the_end() {
        check(SequenceOptions::default(), 2, expect!["1×3, 4×3"]);
        let five = SequenceOptions { max: Some(Some(5)), ..SequenceOptions::default() };
        check(five.clone(), 3, expect![[r#"1×3, 4×2, nextval: reached maximum value of sequence "s" (5)"#]]);
        check(SequenceOptions { cycle: Some(true), ..five }, 4, expect!["1×3, 4×2, 1×3, 4×2"]);
        let down = SequenceOptions { increment: Some(-2), min: Some(Some(-6)), ..SequenceOptions::default() };
        check(
            down,
            3,
            expect![[
                r#"-1×3, nextval: reached minimum value of sequence "s" (-6), nextval: reached minimum value of sequence "s" (-6)"#
            ]],
        );
        let top = SequenceOptions { start: Some(i64::MAX - 1), ..SequenceOptions::default() };
        check(
            top,
            2,
            expect![[r#"9223372036854775806×2, nextval: reached maximum value of sequence "s" (9223372036854775807)"#]],
        );
        let sequence = Sequence::define(1, "s", &SequenceOptions::default()).unwrap();
        let from = |called| sequence.next(Some(sequence.set(7, called).unwrap()), 1).unwrap().1.first;
        assert_eq!((from(true), from(false)), (8, 7));
        assert_eq!(sequence.set(0, true).unwrap_err().kind(), ErrorKind::OutOfRange);
    }

    #[test]
    fn options_that_contradict_each_other_are_refused() {
        let none = SequenceOptions::default();
        for options in [
            SequenceOptions { increment: Some(0), ..none.clone() },
            SequenceOptions { kind: Some(SqlType::Text), ..none.clone() },
            SequenceOptions { kind: Some(SqlType::Int2), max: Some(Some(40_000)), ..none.clone() },
            SequenceOptions { min: Some(Some(5)), max: Some(Some(4)), ..none.clone() },
            SequenceOptions { start: Some(0), ..none.clone() },
            SequenceOptions { start: Some(9), max: Some(Some(8)), ..none },
        ] {
            assert_eq!(Sequence::define(1, "s", &options).unwrap_err().kind(), ErrorKind::InvalidOption, "{options:?}");
        }
    }
}
