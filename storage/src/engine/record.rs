//! The records in a frame's payload: operations in order, with every timestamp decided.
//!
//! ```text
//! payload  = record …
//! record   = 1  stamp  count:varint  write …     commit: its writes become visible together
//!          | 2  stamp  descriptor:bytes          table created; the descriptor is JSON
//!          | 3  stamp  table:varint              table dropped
//!          | 4  stamp  descriptor:bytes          families changed: cells of family numbers that are not in it are gone
//!          | 5  stamp                            clock: reads have evaluated GC rules at this time
//! write    = 1  table:varint  key:bytes  count:varint  mutation …
//!          | 3  table:varint  key:bytes  existed  row:bytes  whole row, as encoded by module `cells`; empty: deleted
//!          | 2  table:varint  start:bytes  0             deletes rows from a key on
//!          | 2  table:varint  start:bytes  1  end:bytes  deletes rows from a key to another, exclusive
//! mutation = 1  family:varint  qualifier:bytes  timestamp  value:bytes     set
//!          | 2  family:varint  qualifier:bytes  timestamp  input           add to an aggregate
//!          | 3  family:varint  qualifier:bytes  timestamp  state:bytes     merge into an aggregate
//!          | 4  family:varint  qualifier:bytes  start  0                   delete from column, from a timestamp on
//!          | 4  family:varint  qualifier:bytes  start  1  end              the same, to another, exclusive
//!          | 5  family:varint                                              delete from family
//!          | 6                                                             delete from row
//! ```
//!
//! Tags are single bytes; stamps, timestamps, inputs, starts and ends of times are 8 bytes, little-endian; varints and
//! byte strings are those of module `codec`. Tables and families are identified by their stable numbers.
//!
//! *existed* is 1 if the row existed before, so that an older version may be in a segment; otherwise 0. Folding is a
//! function of the previous row, the mutations, the schema and the stamp, so that replaying the records gives the
//! acknowledged rows.

use super::{
    cells,
    codec::{Cursor, put_bytes, put_i64, put_varint},
    descriptor::{Descriptor, LoggedDescriptor},
    state::State,
};
use crate::{FamilyName, KeyRange, Mutation, RowKey, TableName, TimestampRange};
use bytes::Bytes;

const COMMIT: u8 = 1;
const CREATE_TABLE: u8 = 2;
const DROP_TABLE: u8 = 3;
const MODIFY_FAMILIES: u8 = 4;
const CLOCK: u8 = 5;

const ROW: u8 = 1;
const DELETE_RANGE: u8 = 2;
const WHOLE_ROW: u8 = 3;

const SET_CELL: u8 = 1;
const ADD_TO_CELL: u8 = 2;
const MERGE_TO_CELL: u8 = 3;
const DELETE_FROM_COLUMN: u8 = 4;
const DELETE_FROM_FAMILY: u8 = 5;
const DELETE_FROM_ROW: u8 = 6;

/// A record, with names instead of numbers.
#[derive(Debug)]
pub(crate) enum Record {
    /// Mutations, with their timestamps.
    Commit {
        /// In microseconds.
        stamp: i64,
        /// In order.
        writes: Vec<LoggedWrite>,
    },
    /// A new table.
    CreateTable {
        /// In microseconds.
        stamp: i64,
        /// Its descriptor.
        descriptor: LoggedDescriptor,
    },
    /// A dropped table.
    DropTable {
        /// In microseconds.
        stamp: i64,
        /// The table.
        table: TableName,
    },
    /// A table with other families.
    ModifyFamilies {
        /// In microseconds.
        stamp: i64,
        /// Its new descriptor.
        descriptor: LoggedDescriptor,
    },
    /// The time at which reads have evaluated GC rules.
    Clock {
        /// In microseconds.
        stamp: i64,
    },
}

/// A part of a logged commit.
#[derive(Debug)]
pub(crate) enum LoggedWrite {
    /// Mutations of a row that the memtable has.
    Row {
        /// The table.
        table: TableName,
        /// The row.
        row: LoggedRow,
    },
    /// A whole row.
    Whole {
        /// The table.
        table: TableName,
        /// The row's key.
        key: RowKey,
        /// Whether the row was there before.
        existed: bool,
        /// The row, encoded; `None` if it was deleted.
        row: Option<Bytes>,
    },
    /// Deleted rows.
    DeleteRange {
        /// The table.
        table: TableName,
        /// Their keys.
        range: KeyRange,
    },
}

/// Mutations of a row, with their timestamps.
#[derive(Debug)]
pub(crate) struct LoggedRow {
    /// The row.
    pub(crate) key: RowKey,
    /// In order.
    pub(crate) mutations: Vec<Mutation>,
}

/// Begins a commit; its `writes` writes follow.
pub(crate) fn put_commit(out: &mut Vec<u8>, stamp: i64, writes: usize) {
    out.push(COMMIT);
    put_i64(out, stamp);
    put_varint(out, writes as u64);
}

/// One row of a commit; timestamps are set, and families exist.
pub(crate) fn put_row(out: &mut Vec<u8>, table: &Descriptor, key: &[u8], mutations: &[Mutation]) {
    out.push(ROW);
    put_varint(out, u64::from(table.number));
    put_bytes(out, key);
    put_varint(out, mutations.len() as u64);
    for mutation in mutations {
        put_mutation(out, table, mutation);
    }
}

/// One row of a commit as a whole.
pub(crate) fn put_whole_row(out: &mut Vec<u8>, table: &Descriptor, key: &[u8], existed: bool, row: Option<&Bytes>) {
    out.push(WHOLE_ROW);
    put_varint(out, u64::from(table.number));
    put_bytes(out, key);
    out.push(u8::from(existed));
    put_bytes(out, row.map_or(&[], |row| &row[..]));
}

/// One range of a commit.
pub(crate) fn put_delete_range(out: &mut Vec<u8>, table: &Descriptor, range: &KeyRange) {
    out.push(DELETE_RANGE);
    put_varint(out, u64::from(table.number));
    put_bytes(out, &range.start);
    match &range.end {
        Some(end) => {
            out.push(1);
            put_bytes(out, end);
        }
        None => out.push(0),
    }
}

/// A new table.
pub(crate) fn put_create_table(out: &mut Vec<u8>, stamp: i64, table: &LoggedDescriptor) {
    put_descriptor(out, CREATE_TABLE, stamp, table);
}

/// Changed families.
pub(crate) fn put_modify_families(out: &mut Vec<u8>, stamp: i64, table: &LoggedDescriptor) {
    put_descriptor(out, MODIFY_FAMILIES, stamp, table);
}

/// A dropped table.
pub(crate) fn put_drop_table(out: &mut Vec<u8>, stamp: i64, table: u32) {
    out.push(DROP_TABLE);
    put_i64(out, stamp);
    put_varint(out, u64::from(table));
}

/// The clock.
pub(crate) fn put_clock(out: &mut Vec<u8>, stamp: i64) {
    out.push(CLOCK);
    put_i64(out, stamp);
}

fn put_descriptor(out: &mut Vec<u8>, tag: u8, stamp: i64, table: &LoggedDescriptor) {
    out.push(tag);
    put_i64(out, stamp);
    put_bytes(out, &serde_json::to_vec(table).expect("names and rules are JSON"));
}

fn put_mutation(out: &mut Vec<u8>, table: &Descriptor, mutation: &Mutation) {
    let column = |out: &mut Vec<u8>, tag: u8, family: &FamilyName, qualifier: &[u8]| {
        out.push(tag);
        put_varint(out, u64::from(table.number_of(family).expect("the families of a commit were checked")));
        put_bytes(out, qualifier);
    };
    let stamped = |out: &mut Vec<u8>, timestamp: Option<i64>| {
        put_i64(out, timestamp.expect("the timestamps of a commit were decided"));
    };
    match mutation {
        Mutation::SetCell { family, qualifier, timestamp, value } => {
            column(out, SET_CELL, family, qualifier);
            stamped(out, *timestamp);
            put_bytes(out, value);
        }
        Mutation::AddToCell { family, qualifier, timestamp, input } => {
            column(out, ADD_TO_CELL, family, qualifier);
            stamped(out, *timestamp);
            put_i64(out, *input);
        }
        Mutation::MergeToCell { family, qualifier, timestamp, state } => {
            column(out, MERGE_TO_CELL, family, qualifier);
            stamped(out, *timestamp);
            put_bytes(out, state);
        }
        Mutation::DeleteFromColumn { family, qualifier, timestamps } => {
            column(out, DELETE_FROM_COLUMN, family, qualifier);
            put_i64(out, timestamps.start);
            out.push(u8::from(timestamps.end.is_some()));
            timestamps.end.into_iter().for_each(|end| put_i64(out, end));
        }
        Mutation::DeleteFromFamily { family } => {
            out.push(DELETE_FROM_FAMILY);
            put_varint(out, u64::from(table.number_of(family).expect("the families of a commit were checked")));
        }
        Mutation::DeleteFromRow => out.push(DELETE_FROM_ROW),
    }
}

/// The next record of a payload, given the tables that the previous records made; `None` if it is malformed. Keys and
/// values are slices of the payload.
pub(crate) fn take(from: &mut Cursor<'_>, payload: &Bytes, state: &State) -> Option<Record> {
    let (tag, stamp) = (from.u8()?, from.i64()?);
    match tag {
        COMMIT => {
            let count = from.varint()?;
            // Memory is not allocated by the count, which may be wrong: writes are read one by one.
            let mut writes = Vec::new();
            for _ in 0..count {
                writes.push(take_write(from, payload, state)?);
            }
            Some(Record::Commit { stamp, writes })
        }
        CREATE_TABLE | MODIFY_FAMILIES => {
            let descriptor = serde_json::from_slice(from.bytes()?).ok()?;
            Some(match tag {
                CREATE_TABLE => Record::CreateTable { stamp, descriptor },
                _ => Record::ModifyFamilies { stamp, descriptor },
            })
        }
        DROP_TABLE => {
            let number = u32::try_from(from.varint()?).ok()?;
            Some(Record::DropTable { stamp, table: state.table_by_number(number)?.0.clone() })
        }
        CLOCK => Some(Record::Clock { stamp }),
        _ => None,
    }
}

fn take_write(from: &mut Cursor<'_>, payload: &Bytes, state: &State) -> Option<LoggedWrite> {
    let tag = from.u8()?;
    let number = u32::try_from(from.varint()?).ok()?;
    let (name, table) = state.table_by_number(number)?;
    match tag {
        ROW => {
            let key = RowKey::stored(payload.slice_ref(from.bytes()?)).ok()?;
            let count = from.varint()?;
            let mut mutations = Vec::new();
            for _ in 0..count {
                mutations.push(take_mutation(from, payload, &table.descriptor)?);
            }
            Some(LoggedWrite::Row { table: name.clone(), row: LoggedRow { key, mutations } })
        }
        WHOLE_ROW => {
            let key = RowKey::stored(payload.slice_ref(from.bytes()?)).ok()?;
            let existed = match from.u8()? {
                0 => false,
                1 => true,
                _ => return None,
            };
            let row = Some(from.bytes()?).filter(|row| !row.is_empty());
            if row.is_some_and(|row| !cells::is_sound(row)) {
                return None;
            }
            Some(LoggedWrite::Whole { table: name.clone(), key, existed, row: row.map(|row| payload.slice_ref(row)) })
        }
        DELETE_RANGE => {
            let start = payload.slice_ref(from.bytes()?);
            let end = match from.u8()? {
                0 => None,
                1 => Some(payload.slice_ref(from.bytes()?)),
                _ => return None,
            };
            Some(LoggedWrite::DeleteRange { table: name.clone(), range: KeyRange { start, end } })
        }
        _ => None,
    }
}

fn take_mutation(from: &mut Cursor<'_>, payload: &Bytes, table: &Descriptor) -> Option<Mutation> {
    let tag = from.u8()?;
    if tag == DELETE_FROM_ROW {
        return Some(Mutation::DeleteFromRow);
    }
    let family = table.family(u32::try_from(from.varint()?).ok()?)?.clone();
    if tag == DELETE_FROM_FAMILY {
        return Some(Mutation::DeleteFromFamily { family });
    }
    let qualifier = payload.slice_ref(from.bytes()?);
    let at = from.i64()?;
    Some(match tag {
        SET_CELL => {
            let value = payload.slice_ref(from.bytes()?);
            Mutation::SetCell { family, qualifier, timestamp: Some(at), value }
        }
        ADD_TO_CELL => Mutation::AddToCell { family, qualifier, timestamp: Some(at), input: from.i64()? },
        MERGE_TO_CELL => {
            let state = payload.slice_ref(from.bytes()?);
            Mutation::MergeToCell { family, qualifier, timestamp: Some(at), state }
        }
        DELETE_FROM_COLUMN => {
            let end = match from.u8()? {
                0 => None,
                1 => Some(from.i64()?),
                _ => return None,
            };
            Mutation::DeleteFromColumn { family, qualifier, timestamps: TimestampRange { start: at, end } }
        }
        _ => return None,
    })
}
