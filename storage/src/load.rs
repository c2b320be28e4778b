//! Loads: new rows of one table, in any number, that become visible together.
//!
//! A [`Load`] is not a [`Commit`](crate::Commit): its rows need not fit into memory, or into one record of a log. The
//! client puts rows into [batches](NewRows), which [`Load::add`] takes in any order of keys; [`Load::finish`] makes all
//! of them visible with one stamp, or none. Rows must be new: a key that occurs twice, or that is in the table at the
//! end, fails the load.

use crate::{
    Error, FamilyName, Mutation, Result, RowKey, RowMutation, Validation,
    model::limits::{CELL_BYTES_MAX, QUALIFIER_BYTES_MAX, ROW_BYTES_MAX, ROW_KEY_BYTES_MAX},
};
use async_trait::async_trait;
use bytes::Bytes;
use std::{fmt, ops::Range};

/// Bytes after which a [batch](NewRows) is full.
pub const NEW_ROWS_BYTES_TARGET: usize = 1 << 20;

/// Where rows of a load may have cells. The family must not be an aggregate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadColumn {
    /// The family.
    pub family: FamilyName,
    /// The column; `None` for any columns of the family that are not among the others: the value is a
    /// [list of cells](put_cell). Such come last.
    pub qualifier: Option<Bytes>,
}

/// Appends a cell to the value of a whole family: its qualifier and value. Qualifiers must ascend.
///
/// ```text
/// length of the qualifier, of the value     4 bytes each, big-endian
/// qualifier, value
/// ```
///
/// # Errors
/// [`TooLarge`](Error::TooLarge) for a qualifier or a value.
pub fn put_cell(out: &mut Vec<u8>, qualifier: &[u8], value: &[u8]) -> Result<()> {
    let length = |what, size: usize, limit| match u32::try_from(size) {
        Ok(length) if size <= limit => Ok(length.to_be_bytes()),
        _ => Err(Error::TooLarge { what, size, limit }),
    };
    out.extend(length("a qualifier", qualifier.len(), QUALIFIER_BYTES_MAX)?);
    out.extend(length("a cell", value.len(), CELL_BYTES_MAX)?);
    out.extend_from_slice(qualifier);
    out.extend_from_slice(value);
    Ok(())
}

/// The cells of a whole family's value: qualifiers and values.
///
/// # Errors
/// [`Invalid`](Error::Invalid) for what [`put_cell`] has not made.
pub(crate) fn cells_of(mut value: &[u8]) -> Result<Vec<(&[u8], &[u8])>> {
    let bad = || Error::Invalid("the cells of a family of a new row are malformed".into());
    let mut cells = Vec::new();
    while !value.is_empty() {
        let (qualifier, rest) = value.split_first_chunk::<4>().ok_or_else(bad)?;
        let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(bad)?;
        let at = u32::from_be_bytes(*qualifier) as usize;
        let (qualifier, rest) = rest.split_at_checked(at).ok_or_else(bad)?;
        let at = u32::from_be_bytes(*length) as usize;
        let (cell, rest) = rest.split_at_checked(at).ok_or_else(bad)?;
        if cells.last().is_some_and(|(before, _): &(&[u8], &[u8])| *before >= qualifier) {
            return Err(bad());
        }
        cells.push((qualifier, cell));
        value = rest;
    }
    Ok(cells)
}

/// A load in progress. Dropped before it is finished, it leaves nothing.
#[async_trait]
pub trait Load: Send + Sync + fmt::Debug {
    /// Adds rows, each with a value for some of the load's columns. The work may continue after the return.
    ///
    /// # Errors
    /// [`RowExists`](Error::RowExists) for a key that occurs twice or is in the table. The load is over after any
    /// error, which may concern rows that were added before.
    async fn add(&mut self, rows: NewRows) -> Result<()>;

    /// Does all remaining work except making the rows visible. No more rows may be added then.
    ///
    /// # Errors
    /// Errors of [`add`](Self::add).
    async fn seal(&mut self) -> Result<()>;

    /// Makes all rows visible; returns the stamp, in microseconds. Cells may have an earlier one, from the load's
    /// beginning.
    ///
    /// # Errors
    /// Errors of [`add`](Self::add). [`Conflict`](crate::ErrorKind::Conflict) if a validated row changed: the call may
    /// be repeated. The same if the table changed since the load was begun, or the rows are being purged: every call
    /// fails then.
    async fn finish(&mut self, validation: Option<Validation>) -> Result<i64>;
}

/// Rows to be loaded: their keys and values, concatenated.
#[derive(Clone, Debug)]
pub struct NewRows {
    columns: usize,
    /// How many of the columns, the last ones, are whole families.
    families: usize,
    bytes: Vec<u8>,
    rows: Vec<NewRow>,
    /// The ends of the rows' values, one for each column; [`ABSENT`] if there is no value.
    ends: Vec<u32>,
}

/// Marks an absent value.
const ABSENT: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct NewRow {
    number: u64,
    start: u32,
    key_end: u32,
}

/// A row of a batch.
#[derive(Clone, Copy, Debug)]
pub struct NewRowRef<'a> {
    batch: &'a NewRows,
    at: usize,
}

impl NewRows {
    /// An empty batch of rows with values for `columns` columns.
    pub fn new(columns: usize) -> Self {
        Self::with_families(columns, 0)
    }

    /// An empty batch of rows with values for `columns` columns, of which the last `families` are whole families.
    pub fn with_families(columns: usize, families: usize) -> Self {
        Self { columns, families, bytes: Vec::new(), rows: Vec::new(), ends: Vec::new() }
    }

    /// Adds a row. `number` identifies it in errors; `key` appends its key, and `value` a column's value, or returns
    /// `false` if there is none.
    ///
    /// # Errors
    /// [`TooLarge`](Error::TooLarge) above the limits of keys, cells and rows; [`Invalid`](Error::Invalid) for an empty
    /// key and a row without values; and errors of `key` and `value`. The batch is unchanged then.
    pub fn push<E: From<Error>>(
        &mut self,
        number: u64,
        key: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
        value: impl FnMut(usize, &mut Vec<u8>) -> Result<bool, E>,
    ) -> Result<(), E> {
        let (bytes, ends) = (self.bytes.len(), self.ends.len());
        let pushed = self.append(number, key, value);
        if pushed.is_err() {
            self.bytes.truncate(bytes);
            self.ends.truncate(ends);
        }
        pushed
    }

    fn append<E: From<Error>>(
        &mut self,
        number: u64,
        key: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
        mut value: impl FnMut(usize, &mut Vec<u8>) -> Result<bool, E>,
    ) -> Result<(), E> {
        let start = self.bytes.len();
        key(&mut self.bytes)?;
        let key_end = self.bytes.len();
        let check = |what, size, limit| if size > limit { Err(Error::TooLarge { what, size, limit }) } else { Ok(()) };
        if key_end == start {
            return Err(Error::Invalid("a row key is empty".into()).into());
        }
        check("a row key", key_end - start, ROW_KEY_BYTES_MAX)?;
        let mut any = false;
        for column in 0..self.columns {
            let from = self.bytes.len();
            let end = match value(column, &mut self.bytes)? {
                true => {
                    any = true;
                    if column < self.columns - self.families {
                        check("a cell", self.bytes.len() - from, CELL_BYTES_MAX)?;
                    }
                    check("a row", self.bytes.len() - key_end, ROW_BYTES_MAX)?;
                    offset(self.bytes.len())?
                }
                false => ABSENT,
            };
            self.ends.push(end);
        }
        if !any {
            return Err(Error::Invalid("a row is given without values".into()).into());
        }
        self.rows.push(NewRow { number, start: offset(start)?, key_end: offset(key_end)? });
        Ok(())
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether it should be passed to [`Load::add`]. It still takes more rows, up to 4 GiB.
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= NEW_ROWS_BYTES_TARGET
    }

    /// Bytes of keys and values.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The rows, in the order in which they were pushed.
    pub fn iter(&self) -> impl Iterator<Item = NewRowRef<'_>> {
        (0..self.rows.len()).map(|at| NewRowRef { batch: self, at })
    }

    /// The rows as mutations of these columns, with their numbers.
    ///
    /// # Errors
    /// Errors of [`RowKey::new`].
    pub(crate) fn mutations(&self, columns: &[LoadColumn]) -> Result<Vec<(u64, RowMutation)>> {
        let one = |row: NewRowRef<'_>| {
            let mut mutations = Vec::with_capacity(columns.len());
            for (LoadColumn { family, qualifier }, value) in columns.iter().zip(row.values()) {
                let Some(value) = value else { continue };
                let cells = match qualifier {
                    Some(qualifier) => vec![(qualifier.as_ref(), value)],
                    None => cells_of(value)?,
                };
                mutations.extend(cells.into_iter().map(|(qualifier, value)| Mutation::SetCell {
                    family: family.clone(),
                    qualifier: Bytes::copy_from_slice(qualifier),
                    timestamp: None,
                    value: Bytes::copy_from_slice(value),
                }));
            }
            Ok((row.number(), RowMutation { key: RowKey::new(Bytes::copy_from_slice(row.key()))?, mutations }))
        };
        self.iter().map(one).collect()
    }
}

/// An offset in a batch.
fn offset(at: usize) -> Result<u32> {
    let limit = ABSENT as usize - 1;
    match at > limit {
        true => Err(Error::TooLarge { what: "a batch of new rows", size: at, limit }),
        false => Ok(at as u32),
    }
}

impl<'a> NewRowRef<'a> {
    /// The number that identifies it in errors.
    pub fn number(&self) -> u64 {
        self.batch.rows[self.at].number
    }

    /// Its key.
    pub fn key(&self) -> &'a [u8] {
        let NewRow { start, key_end, .. } = self.batch.rows[self.at];
        &self.batch.bytes[start as usize..key_end as usize]
    }

    /// Its value in each of the columns.
    pub fn values(&self) -> impl Iterator<Item = Option<&'a [u8]>> + use<'a> {
        let NewRows { columns, bytes, ends, .. } = self.batch;
        let mut from = self.batch.rows[self.at].key_end as usize;
        let range: Range<usize> = self.at * columns..(self.at + 1) * columns;
        ends[range].iter().map(move |&end| {
            (end != ABSENT).then(|| {
                let value = &bytes[from..end as usize];
                from = end as usize;
                value
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, option, prelude::*};

    type Made = (Vec<u8>, Vec<Option<Vec<u8>>>);

    fn put(rows: &mut NewRows, number: u64, (key, values): &Made) -> Result<()> {
        let key = |out: &mut Vec<u8>| {
            out.extend_from_slice(key);
            Ok(())
        };
        rows.push(number, key, |column, out| {
            out.extend_from_slice(values[column].as_deref().unwrap_or_default());
            Ok(values[column].is_some())
        })
    }

    proptest! {
        #[test]
        fn rows_are_read_back(made in vec((vec(any::<u8>(), 0..5), vec(option::of(vec(any::<u8>(), 0..5)), 3)), 0..8)) {
            let (mut rows, mut expected) = (NewRows::new(3), Vec::new());
            for (number, row) in made.into_iter().enumerate() {
                let is_row = !row.0.is_empty() && row.1.iter().any(Option::is_some);
                prop_assert_eq!(put(&mut rows, number as u64, &row).is_ok(), is_row);
                if is_row {
                    expected.push((number as u64, row));
                }
            }
            let read = rows.iter().map(|row| {
                (row.number(), (row.key().to_vec(), row.values().map(|value| value.map(<[u8]>::to_vec)).collect()))
            });
            prop_assert_eq!(read.collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn cells_of_a_family_are_read_back() {
        let all: [(&[u8], &[u8]); 3] = [(b"", b"1"), (b"a", b""), (b"b\xff", b"22")];
        let mut value = Vec::new();
        all.iter().for_each(|(qualifier, cell)| put_cell(&mut value, qualifier, cell).unwrap());
        assert_eq!(cells_of(&value).unwrap(), all);
        assert_eq!(cells_of(b"").unwrap(), []);
        for length in 1..value.len() {
            let cut = cells_of(&value[..length]);
            assert!(cut.is_err() || cut.unwrap().len() < all.len());
        }
        let again = value.clone();
        value.extend(again);
        assert!(matches!(cells_of(&value), Err(Error::Invalid(_))), "not in order");
        let long = vec![b'q'; QUALIFIER_BYTES_MAX + 1];
        assert!(matches!(put_cell(&mut value, &long, b""), Err(Error::TooLarge { what: "a qualifier", .. })));
    }

    #[test]
    fn a_row_that_fails_leaves_no_trace() {
        let mut rows = NewRows::new(2);
        put(&mut rows, 1, &(b"a".to_vec(), vec![Some(b"1".to_vec()), None])).unwrap();
        let failed = rows.push(
            2,
            |out| {
                out.push(b'b');
                Ok::<(), Error>(())
            },
            |column, out| {
                out.push(b'x');
                if column == 1 { Err(Error::Conflict) } else { Ok(true) }
            },
        );
        assert!(matches!(failed, Err(Error::Conflict)));
        let long = (vec![b'k'; ROW_KEY_BYTES_MAX + 1], vec![Some(Vec::new()), None]);
        assert!(matches!(put(&mut rows, 3, &long), Err(Error::TooLarge { what: "a row key", .. })));
        put(&mut rows, 4, &(b"c".to_vec(), vec![None, Some(b"2".to_vec())])).unwrap();
        let found: Vec<_> = rows.iter().map(|row| (row.number(), row.key().to_vec())).collect();
        assert_eq!(found, [(1, b"a".to_vec()), (4, b"c".to_vec())]);
        let last = rows.iter().last().map(|row| row.values().map(|value| value.map(<[u8]>::to_vec)).collect());
        assert_eq!(last, Some(vec![None, Some(b"2".to_vec())]));
    }
}
