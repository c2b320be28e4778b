//! A load: many new rows, written in parts.
//!
//! Rows are kept until a part is full. What fits into one part is written with one commit: keys are looked up, one that
//! is there fails the load, all are relied on to be absent, as for INSERT. Of more than that, all parts go past the
//! store's log and become visible together (`bulk`), where the store has a way: it has none for tables that keep
//! history or merge cells, and for many loads at a time. Then each part is a commit, and those before a failure are
//! stored. In a transaction nothing is stored before its COMMIT, and its bounds hold for all of it; but for a private
//! table that the transaction has made or truncated, whose rows nobody else sees and ROLLBACK forgets: its parts are
//! written at once. A part of a table on a server is written while the next is read (`behind`).
//!
//! The rows of a private table that is altered pass through here too ([`Load::altering`]), into the space that will
//! have them.

mod behind;
mod bulk;
pub(crate) mod insert;

use self::{behind::Behind, bulk::Bulk};
use crate::{
    dml::{
        ATTEMPTS_MAX,
        assign::as_read,
        conditions,
        defaults::Defaults,
        insert::{LOOKUP_ROWS, NewRow, creation, existing, is_gap},
        target::{Numbers, Place, Target, TargetColumn},
    },
    pg::{
        codec::{format::Format, parameter},
        datetime::values,
        error::{Result, SqlError, SqlState},
        names::RelationName,
        types,
    },
    query::Query,
    session::Session,
    shares::work::Written,
    view::View,
    write_set::{CELLS_MAX, WriteSet},
};
use arrow::array::RecordBatch;
use keyspan_catalog::{SqlType, Table, Value};
use keyspan_storage::Pin;
use std::{collections::HashSet, sync::Arc};

/// Bytes of values of a part, at most: they are in memory.
const PART_BYTES_MAX: usize = 64 << 20;

/// Bytes of values of a part that goes past the log, at most.
const BULK_PART_BYTES_MAX: usize = 1 << 20;

/// Why a load failed, and at which row if it was one's fault.
#[derive(Debug)]
pub(crate) struct Failed {
    /// The message to the client.
    pub error: SqlError,
    /// The number that the row was added with.
    pub row: Option<u64>,
}

impl From<SqlError> for Failed {
    fn from(error: SqlError) -> Self {
        Self { error, row: None }
    }
}

/// Where rows go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Destination {
    /// To the table.
    Table,
    /// To a space that the session has reserved: at once, and nobody else sees them.
    Space(u32),
    /// Nowhere: they are only checked.
    Nowhere,
}

/// A load under way.
pub(crate) struct Load {
    target: Target,
    destination: Destination,
    /// Whether the rows are those that the table has: they fail in other words.
    altering: bool,
    named: Vec<usize>,
    key_places: Vec<usize>,
    numbers: Numbers,
    defaults: Defaults,
    rows: Vec<NewRow>,
    bytes: usize,
    cells: usize,
    /// The way past the log, once it is taken.
    bulk: Option<Bulk>,
    /// Whether parts are expected to lie between the rows of a server's table, as those of a new table, or of times
    /// that go on, do.
    in_gaps: bool,
    /// The part before, which is being written.
    behind: Option<Behind>,
    /// Rows of parts that are stored.
    stored: u64,
}

impl std::fmt::Debug for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Load").field("table", &self.target.table.name).field("rows", &self.rows.len()).finish()
    }
}

impl Load {
    /// A load of a table; `columns` are those that rows have values for, none for all of them.
    ///
    /// # Errors
    /// 42P01, 42703, 42701.
    pub(crate) async fn new(session: &Session, view: View, table: &RelationName, columns: &[String]) -> Result<Self> {
        let target = Target::of(&view, table)?;
        let mut named = Vec::with_capacity(columns.len());
        for name in columns {
            let position = target.position(name)?;
            if named.contains(&position) {
                let message = format!("column \"{name}\" specified more than once");
                return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
            }
            named.push(position);
        }
        if columns.is_empty() {
            named = (0..target.columns.len()).collect();
        }
        Self::begin(session, view, target, named, (Destination::Table, false)).await
    }

    /// The rows of a private table on their way into what it becomes, of which the view's catalog knows: `named` are
    /// the columns that it had before. To a table with another space they are written there, in parts; else they are
    /// only checked.
    ///
    /// # Errors
    /// What evaluating a default finds.
    pub(crate) async fn altering(
        session: &Session,
        view: View,
        (before, after): (&Table, &Table),
        named: Vec<usize>,
    ) -> Result<Self> {
        let destination = match after.space {
            Some(space) if after.space != before.space => Destination::Space(space),
            _ => Destination::Nowhere,
        };
        let target = Target::of_table(&view, Arc::new(after.clone()));
        Self::begin(session, view, target, named, (destination, true)).await
    }

    /// The rows of a private table that is being made, on their way into the space that it will have: they are written
    /// there at once, in parts, and nobody sees them before the table is there.
    ///
    /// # Errors
    /// What evaluating a default finds.
    pub(crate) async fn filling(session: &Session, view: View, table: Arc<Table>) -> Result<Self> {
        let destination = table.space.map_or(Destination::Nowhere, Destination::Space);
        let target = Target::of_table(&view, table);
        let named = (0..target.columns.len()).collect();
        Self::begin(session, view, target, named, (destination, false)).await
    }

    /// The values of a row of a query, as the table's columns take them.
    ///
    /// # Errors
    /// What PostgreSQL's assignment casts find.
    pub(crate) fn assigned(&self, batch: &RecordBatch, row: usize) -> Result<Vec<Value>> {
        self.target.row(batch, 0, row)
    }

    /// The rows of an INSERT, more than a commit holds, on their way into the table, whole or not at all: past the log,
    /// or in parts where nobody else sees the table. `None` if neither is possible.
    ///
    /// # Errors
    /// What evaluating a default finds; the store's.
    async fn whole(session: &Session, view: View, table: Arc<Table>) -> Result<Option<Self>> {
        let target = Target::of_table(&view, table);
        let bulk = match session.in_transaction() {
            true if session.writes_apart(&target.table).is_none() => return Ok(None),
            true => None,
            false => match Bulk::begin(session, &target).await? {
                None => return Ok(None),
                bulk => bulk,
            },
        };
        let named = (0..target.columns.len()).collect();
        let mut load = Self::begin(session, view, target, named, (Destination::Table, false)).await?;
        load.bulk = bulk;
        Ok(Some(load))
    }

    async fn begin(
        session: &Session,
        view: View,
        target: Target,
        named: Vec<usize>,
        (destination, altering): (Destination, bool),
    ) -> Result<Self> {
        let key_places = target.key_places()?;
        let instance = &session.instance;
        let numbers = Numbers { given: instance.row_numbers.clone(), now_micros: instance.clock.now_micros() };
        let query = session.query(view)?;
        let defaults = Box::pin(Defaults::new(&query, &target, &named)).await?;
        let (rows, bytes, cells, bulk, stored) = (Vec::new(), 0, 0, None, 0);
        let in_gaps = target.table.remote.is_some() && target.hidden_key.is_none();
        Ok(Self {
            target,
            destination,
            altering,
            named,
            key_places,
            numbers,
            defaults,
            rows,
            bytes,
            cells,
            bulk,
            in_gaps,
            behind: None,
            stored,
        })
    }

    /// The table's name.
    pub(crate) fn table(&self) -> &str {
        &self.target.table.name
    }

    /// The OID of its table.
    pub(crate) fn relation(&self) -> u32 {
        self.target.table.id.0
    }

    /// The name and type of each column that rows have values for.
    pub(crate) fn columns(&self) -> impl Iterator<Item = (&str, SqlType)> {
        self.named.iter().map(|at| (self.target.columns[*at].name.as_str(), self.target.columns[*at].kind))
    }

    /// A field of text as a value of the column.
    ///
    /// # Errors
    /// 22P02 and what else PostgreSQL's input functions find.
    pub(crate) fn value_of_text(&self, column: usize, text: &str) -> Result<Value> {
        let column = &self.target.columns[self.named[column]];
        let value = values::read(no_zero(text)?, column.kind, self.target.input.input())?;
        match column.message() {
            Some(message) => as_read(message, value),
            None => column.check_label(value),
        }
    }

    /// A field of binary as a value of the column.
    ///
    /// # Errors
    /// 22P03 and what else PostgreSQL's receive functions find.
    pub(crate) fn value_of_binary(&self, column: usize, bytes: &[u8]) -> Result<Value> {
        let column = &self.target.columns[self.named[column]];
        let kind = column.kind;
        if let SqlType::Numeric { .. } | SqlType::Exact(_) = kind {
            let text = crate::pg::codec::numeric::text_of_binary(bytes).ok_or_else(|| {
                SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, "incorrect binary data format")
            })?;
            return values::read(&text, kind, self.target.input.input());
        }
        let scalar = parameter::decode(
            Some(bytes),
            &types::pg_type_of(kind),
            Format::Binary,
            &types::data_type(kind),
            self.target.input.input(),
        )?;
        let value = types::value_of_scalar(&scalar)?;
        if let Value::Text(text) = &value {
            no_zero(text)?;
        }
        let value = value.into_fit(kind)?;
        match column.message() {
            Some(message) => as_read(message, value),
            None => column.check_label(value),
        }
    }

    /// Adds a row, with a value for each of the columns.
    ///
    /// # Errors
    /// 23502; what no key can hold.
    pub(crate) fn add(&mut self, number: u64, fields: Vec<Value>) -> Result<()> {
        let target = &self.target;
        let mut values = vec![Value::Null; target.columns.len()];
        self.defaults.fill(&mut values)?;
        for (at, value) in self.named.iter().zip(fields) {
            values[*at] = value;
        }
        target.settle_maps(&mut values)?;
        for (column, value) in target.columns.iter().zip(&values) {
            target.check_null(column, value).map_err(|error| {
                let error = if self.altering { error } else { error.with_detail(target.failing(&values)) };
                self.of_rows(error, column)
            })?;
        }
        let parts = target.new_parts(&self.key_places, &values, &self.numbers);
        let key = target.row_key(&parts)?;
        self.put(NewRow { parts, key, number, values });
        Ok(())
    }

    /// Adds a row that is made and checked, but for the conditions of the table.
    fn put(&mut self, row: NewRow) {
        self.bytes += row.bytes();
        self.cells += row.cells(&self.target);
        self.rows.push(row);
    }

    /// Whether the part is full: another row might not fit into one commit.
    pub(crate) fn is_full(&self) -> bool {
        if self.bulk.is_some() {
            return self.rows.len() >= LOOKUP_ROWS || self.bytes > BULK_PART_BYTES_MAX;
        }
        self.bytes > PART_BYTES_MAX || self.cells + self.target.columns.len().max(1) > CELLS_MAX
    }

    /// Rows that were stored for good before a failure.
    pub(crate) fn stored(&self) -> u64 {
        self.stored
    }

    /// Writes the part; with the last one of a large load, all of it is there.
    ///
    /// # Errors
    /// 23505 for a key that is there, 23503 for a tenant that is not, 40001 in a transaction or when others keep
    /// changing these rows, 54000 in a transaction that is too large, the store's.
    pub(crate) async fn write(&mut self, session: &mut Session, last: bool) -> Result<(), Failed> {
        let (rows, bytes) = (std::mem::take(&mut self.rows), self.bytes as u64);
        (self.bytes, self.cells) = (0, 0);
        let is_large = !last && self.stored == 0 && self.destination == Destination::Table;
        if self.bulk.is_none() && is_large && !session.in_transaction() {
            self.bulk = Bulk::begin(session, &self.target).await?;
        }
        if self.bulk.is_some() {
            let turn = session.commit_turn(bytes, bytes).await?;
            let largest = self.past_the_log(session, &rows, last).await?;
            drop(turn);
            session.share().count_written(rows.len() as u64, bytes);
            self.count_keys(session, &rows, bytes, largest);
            self.count_rows(session, rows.len());
            return Ok(());
        }
        if self.destination == Destination::Table && session.writes_behind(&self.target.table) {
            return self.write_behind(session, rows, last).await;
        }
        if rows.is_empty() {
            return Ok(());
        }
        self.write_part(session, &rows).await
    }

    /// Writes a part as a commit.
    async fn write_part(&mut self, session: &mut Session, rows: &[NewRow]) -> Result<(), Failed> {
        let in_transaction = session.in_transaction();
        let attempts = if in_transaction || self.destination != Destination::Table { 1 } else { ATTEMPTS_MAX };
        let mut attempt = 1;
        loop {
            match self.once(session, rows).await {
                Err(failed) if failed.error.state == SqlState::SERIALIZATION_FAILURE && attempt < attempts => {}
                Err(failed) => return Err(failed),
                Ok(()) => break,
            }
            attempt += 1;
            tokio::task::yield_now().await;
        }
        self.stored += if in_transaction || self.altering { 0 } else { rows.len() as u64 };
        self.count_rows(session, rows.len());
        Ok(())
    }

    /// Counts the keys of rows that went past the log, and the place and the bytes of the largest cell.
    fn count_keys(&self, session: &Session, rows: &[NewRow], bytes: u64, largest: Option<(usize, usize)>) {
        if self.altering {
            return;
        }
        let mut keys: Vec<_> = rows.iter().map(|row| &row.key).collect();
        keys.sort_unstable();
        let work = session.share().work.table(self.target.table.id.0);
        work.access.wrote(&keys);
        if let Some((at, bytes)) = largest
            && let Place::Cell { family, qualifier, .. } = &self.target.columns[at].place
        {
            work.access.wrote_cell(family, qualifier, bytes as u64);
        }
        if let Some(counter) = session.counter(&self.target.table) {
            counter.wrote(&keys, bytes);
        }
    }

    /// Counts rows as written by a statement; those of a table that is altered were there.
    fn count_rows(&self, session: &Session, rows: usize) {
        if !self.altering {
            session.share().work.table(self.target.table.id.0).wrote(Written::Inserted, rows as u64);
        }
    }

    /// Hands the rows to the store; the last of them make all visible. The place among the target's columns, and the
    /// bytes, of the largest cell of a column so far.
    async fn past_the_log(
        &mut self,
        session: &mut Session,
        rows: &[NewRow],
        last: bool,
    ) -> Result<Option<(usize, usize)>, Failed> {
        let Some(mut bulk) = self.bulk.take() else { return Ok(None) };
        let view = session.view().await?;
        self.check_table(&view)?;
        let query = self.target.has_conditions().then(|| session.query(view.clone())).transpose()?;
        for chunk in rows.chunks(LOOKUP_ROWS) {
            self.check_rows(query.as_ref(), chunk).await?;
            for row in chunk {
                let at = |error: SqlError| Failed { error, row: Some(row.number) };
                self.target.check_tenant(&view, &row.parts).map_err(at)?;
                bulk.push(&self.target, row).map_err(at)?;
            }
            bulk.send(&self.target).await?;
        }
        drop((query, view));
        let largest = bulk.largest();
        if !last {
            self.bulk = Some(bulk);
            return Ok(largest);
        }
        bulk.seal(&self.target).await?;
        // That takes as long as there are rows.
        self.check_table(&session.view().await?)?;
        bulk.finish(session, &self.target).await?;
        Ok(largest)
    }

    /// 55000 when the table is another by now.
    fn check_table(&self, view: &View) -> Result<()> {
        let table = &self.target.table;
        if view.snapshot.table_of(view.rows.tenant(), table.id) == Some(table) {
            return Ok(());
        }
        let name = &table.name;
        let message = format!("table \"{name}\" was changed while rows were copied into it");
        Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message))
    }

    /// 23514
    async fn check_rows(&self, query: Option<&Query>, rows: &[NewRow]) -> Result<(), Failed> {
        let Some(query) = query else { return Ok(()) };
        let values: Vec<&[Value]> = rows.iter().map(|row| row.values.as_slice()).collect();
        let at = |(place, error): (usize, SqlError)| Failed { error, row: rows.get(place).map(|row| row.number) };
        Box::pin(conditions::check(query, &self.target, &values, self.altering)).await.map_err(at)
    }

    async fn once(&mut self, session: &mut Session, rows: &[NewRow]) -> Result<(), Failed> {
        let apart = match self.destination {
            Destination::Table => session.writes_apart(&self.target.table),
            // Who reads one state would not see what is written now.
            Destination::Space(_) if session.keeps_state() => None,
            Destination::Space(space) => Some(space),
            Destination::Nowhere => None,
        };
        let (pin, written) = self.written(session, rows, apart).await?;
        match apart {
            Some(space) => session.write_apart(&pin, written, (space, !self.altering)).await?,
            None if self.destination == Destination::Nowhere => {}
            None => session.write(&pin, written).await?,
        }
        Ok(())
    }

    /// What the commit of a part writes, and where it was looked for the keys.
    async fn written(
        &mut self,
        session: &mut Session,
        rows: &[NewRow],
        apart: Option<u32>,
    ) -> Result<(Pin, WriteSet), Failed> {
        let view = session.view().await?;
        let pin = view.pin.clone();
        if self.in_gaps && self.destination == Destination::Table {
            self.in_gaps = is_gap(&view, &self.target, rows).await?;
        }
        let target = &self.target;
        if self.destination == Destination::Table {
            self.check_table(&view)?;
        }
        let mut written = WriteSet::counted(view.memory.clone());
        let mut seen = HashSet::with_capacity(rows.len());
        let query = target.has_conditions().then(|| session.query(view.clone())).transpose()?;
        for chunk in rows.chunks(LOOKUP_ROWS) {
            self.check_rows(query.as_ref(), chunk).await?;
            if self.destination == Destination::Nowhere {
                continue;
            }
            let there = if self.in_gaps { HashSet::new() } else { existing(&view, target, chunk).await? };
            for row in chunk {
                let at = |error: SqlError| Failed { error, row: Some(row.number) };
                target.check_tenant(&view, &row.parts).map_err(at)?;
                if there.contains(&row.key) || !seen.insert(&row.key) {
                    let error =
                        if self.altering { target.not_unique(&row.parts) } else { target.duplicate(&row.parts) };
                    return Err(at(error));
                }
                // Rows on a server go in bulk: a key that another takes meanwhile is not held against them.
                if self.destination == Destination::Table && apart.is_none() && target.table.remote.is_none() {
                    written.add_read(&target.table, row.key.clone())?;
                }
                written.mutate(&target.table, row.key.clone(), creation(target, row)?)?;
            }
        }
        Ok((pin, written))
    }

    /// 23502 for a NULL in an existing row.
    fn of_rows(&self, error: SqlError, column: &TargetColumn) -> SqlError {
        if !self.altering || error.state != SqlState::NOT_NULL_VIOLATION {
            return error;
        }
        let message =
            format!("column \"{}\" of relation \"{}\" contains null values", column.name, self.target.table.name);
        SqlError { message, ..error }
    }
}

/// 22021 for text with the character of number 0, which no text of PostgreSQL has.
fn no_zero(text: &str) -> Result<&str> {
    if text.contains('\0') {
        let message = "invalid byte sequence for encoding \"UTF8\": 0x00";
        return Err(SqlError::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message));
    }
    Ok(text)
}
