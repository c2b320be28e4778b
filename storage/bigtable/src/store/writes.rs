//! Commits, bulk writes, and writes that depend on the row.
//!
//! A write that relied on a row is one CheckAndMutateRow on the row's guard. When the server does not say what became
//! of it, the guard does: the write's own token means that it is done, the old one that it is not.

use super::{
    Inner, MILLI, convert,
    guard::{self, Guard, Place},
    pin::{Relied, Seen},
    rows::opened,
    schema::Known,
};
use crate::{Entry, ReadRows};
use futures::TryStreamExt;
use keyspan_storage::{
    Aggregate, Cell, CheckAndMutate, Commit, Error, KeyRange, Mutation, ReadModifyWrite, Result, Row, RowKey,
    RowMutation, RowSet, TableName, Validation, Write,
    row::{self, live, stamp_for},
};
use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
};

/// Attempts of a write whose outcome is not known.
const UNKNOWN_ATTEMPTS_MAX: u32 = 5;
/// Attempts of a write that depends on the row, while others write it. Each refusal is a write of another.
const DEPENDENT_ATTEMPTS_MAX: u32 = 64;
/// Rows of a range that are deleted one by one; larger ranges are dropped, where they are a prefix.
const DELETE_ROWS_MAX: usize = 10_000;

/// A row's part of a commit, checked.
struct Part {
    table: TableName,
    known: Arc<Known>,
    row: RowMutation,
}

/// One step of a commit: rows in any order, or a range.
enum Step {
    Rows(Vec<Part>),
    Range(TableName, KeyRange),
}

impl Inner {
    pub(super) async fn commit(&self, commit: Commit) -> Result<i64> {
        self.check_open()?;
        row::check_count(commit.writes.iter().map(mutations_in).sum())?;
        // Everything is checked before anything is written.
        let steps = self.steps(commit.writes).await?;
        match commit.validation.filter(|validation| !validation.rows.is_empty()) {
            Some(validation) => self.commit_validated(steps, validation).await,
            None => {
                let stamp_micros = self.stamp();
                for step in steps {
                    match step {
                        Step::Rows(parts) => self.write_blind(parts, stamp_micros).await?,
                        Step::Range(table, range) => self.delete_range(&table, range).await?,
                    }
                }
                Ok(stamp_micros)
            }
        }
    }

    async fn steps(&self, writes: Vec<Write>) -> Result<Vec<Step>> {
        let (mut steps, mut rows): (Vec<Step>, Vec<Part>) = (Vec::new(), Vec::new());
        let mut at = HashMap::new();
        let now_micros = self.now();
        for write in writes {
            match write {
                Write::Row { table, row } => {
                    let known = self.checked(&table, &row, now_micros).await?;
                    // Rows are sent in any order: those of one key become one.
                    match at.get(&(table.clone(), row.key.clone())) {
                        Some(&at) => append(&mut rows, at, row),
                        None => {
                            at.insert((table.clone(), row.key.clone()), rows.len());
                            rows.push(Part { table, known, row });
                        }
                    }
                }
                Write::DeleteRange { table, range } => {
                    self.known(&table).await?;
                    steps.push(Step::Rows(std::mem::take(&mut rows)));
                    at.clear();
                    steps.push(Step::Range(table, range));
                }
            }
        }
        steps.push(Step::Rows(rows));
        steps.retain(|step| !matches!(step, Step::Rows(rows) if rows.is_empty()));
        Ok(steps)
    }

    /// Checks a row's mutations; a family that is not known may be new.
    async fn checked(&self, table: &TableName, row: &RowMutation, now_micros: i64) -> Result<Arc<Known>> {
        let known = self.known(table).await?;
        let (known, checked) = match row::check(table, &known.schema, row, now_micros) {
            Err(Error::NoFamily { .. }) => {
                let known = self.refreshed(table).await?;
                let checked = row::check(table, &known.schema, row, now_micros);
                (known, checked)
            }
            checked => (known, checked),
        };
        checked?;
        row.mutations.iter().try_for_each(|mutation| check_fits(&known, mutation))?;
        Ok(known)
    }

    async fn commit_validated(&self, mut steps: Vec<Step>, validation: Validation) -> Result<i64> {
        let unsupported = |what: &str| {
            Err(Error::Unsupported(format!("{what} cannot be written together in Bigtable: it is atomic by row")))
        };
        let part = match (steps.pop(), steps.is_empty()) {
            (Some(Step::Rows(mut rows)), true) if rows.len() == 1 => rows.remove(0),
            (None, _) => return Ok(self.stamp()),
            _ => return unsupported("several rows that rely on reads"),
        };
        if validation.rows.iter().any(|(table, key)| *table != part.table || *key != part.row.key) {
            return unsupported("a row and others that it relies on");
        }
        if part.known.guard == Place::Nowhere {
            return Err(Error::Unsupported(format!("table {:?} has no guards: it can only be read", part.table)));
        }
        let relied = Relied::of(&validation.pin)?;
        let (table, key) = (&part.table, &part.row.key);
        let seen = match relied.seen(table, key) {
            Some(seen) => seen,
            None => {
                let (_, seen) = self.current(table, &part.known, key).await?;
                relied.add(table, key, seen)?;
                // Another commit of this pin may have been first.
                relied.seen(table, key).unwrap_or(Seen { guard: Guard::Absent, newest_micros: i64::MIN })
            }
        };
        let stamp_micros = self.stamp();
        if self.write_unchanged(table, &part.known, &part.row, &seen, stamp_micros).await? {
            Ok(stamp_micros)
        } else {
            Err(Error::Conflict)
        }
    }

    /// Writes a row if it is as it was seen; returns whether it was.
    async fn write_unchanged(
        &self,
        table: &TableName,
        known: &Known,
        row: &RowMutation,
        seen: &Seen,
        stamp_micros: i64,
    ) -> Result<bool> {
        let after = (seen.newest_micros.saturating_add(MILLI) / MILLI).saturating_mul(MILLI);
        let token = self.tokens.token();
        let is_there = matches!(seen.guard, Guard::Token(_));
        let stamp_micros = stamp_micros.max(after);
        let (mutations, has_guard) = guard::guarded(known, &row.mutations, is_there, stamp_micros, &token);
        let (predicate, holds) = guard::unchanged(known.guard, &seen.guard);
        let ends_absent = matches!(row.mutations.last(), Some(Mutation::DeleteFromRow));
        let is_repeatable = row.mutations.iter().all(convert::is_repeatable);
        for _ in 0..UNKNOWN_ATTEMPTS_MAX {
            let (then, otherwise) =
                if holds { (mutations.clone(), Vec::new()) } else { (Vec::new(), mutations.clone()) };
            let answer = self.client.check_and_mutate(table.as_str(), &row.key, predicate.clone(), then, otherwise);
            match answer.await {
                Ok(held) => {
                    self.is_writable.store(true, Ordering::Relaxed);
                    return Ok(held == holds);
                }
                Err(error) if error.is_outcome_unknown() => {
                    let (_, now) = self.current(table, known, &row.key).await?;
                    match &now.guard {
                        Guard::Token(now) if *now == token => return Ok(true),
                        Guard::Absent if ends_absent => return Ok(true),
                        // Without a guard of its own, the write may be done all the same.
                        now if *now == seen.guard && (has_guard || is_repeatable) => {
                            tracing::debug!(%error, "a write is sent again")
                        }
                        // Whether it was done before another write came, nobody can tell.
                        _ => return Err(convert::error(error)),
                    }
                }
                Err(error) => return Err(self.error(table, error)),
            }
        }
        Err(Error::Unreachable("Bigtable did not say what became of a write".into()))
    }

    /// A row as it is: all of its cells, without the guard.
    async fn current(&self, table: &TableName, known: &Known, key: &RowKey) -> Result<(Vec<Cell>, Seen)> {
        let rows = RowSet::from(KeyRange::point(key));
        let read = ReadRows { rows, filter: None, rows_max: Some(1), reversed: false };
        let rows: Vec<_> =
            self.client.read_rows(table.as_str(), read).try_concat().await.map_err(|error| self.error(table, error))?;
        let cells = rows.into_iter().flat_map(|row| row.cells).map(convert::cell).collect();
        let (cells, guard) = opened(known, cells);
        let newest_micros = cells.iter().map(|cell| cell.timestamp).max().unwrap_or(i64::MIN);
        Ok((cells, Seen { guard, newest_micros }))
    }

    /// Sees to it that a write may be made that no request would hold against the row: where the application profile
    /// permits no single-row transactions, tables can only be read, as no guard holds there. Asked once, by a decision
    /// that changes nothing, before the first such write.
    async fn check_writable(&self, table: &TableName, key: &RowKey) -> Result<()> {
        if self.is_writable.load(Ordering::Relaxed) {
            return Ok(());
        }
        let never = convert::block_all();
        let then: Vec<_> = convert::mutation(&Mutation::DeleteFromRow, 0).into_iter().collect();
        let mut attempt = 1;
        loop {
            let ask = self.client.check_and_mutate(table.as_str(), key, Some(never.clone()), then.clone(), Vec::new());
            match ask.await {
                Ok(_) => break,
                Err(error) if error.is_outcome_unknown() && attempt < UNKNOWN_ATTEMPTS_MAX => attempt += 1,
                Err(error) => return Err(self.error(table, error)),
            }
        }
        self.is_writable.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Writes rows, each by itself.
    async fn write_blind(&self, parts: Vec<Part>, stamp_micros: i64) -> Result<()> {
        let mut tables: Vec<(TableName, Vec<Part>)> = Vec::new();
        for part in parts {
            match tables.iter_mut().find(|(table, _)| *table == part.table) {
                Some((_, parts)) => parts.push(part),
                None => tables.push((part.table.clone(), vec![part])),
            }
        }
        for (table, mut parts) in tables {
            if let Some(part) = parts.first() {
                self.check_writable(&table, &part.row.key).await?;
            }
            let entry = |part: Part| self.entry(&part.known, part.row, stamp_micros);
            let results = match parts.pop() {
                Some(part) if parts.is_empty() => {
                    let Entry { key, mutations, repeatable } = entry(part);
                    vec![self.client.mutate_row(table.as_str(), &key, mutations, repeatable).await]
                }
                last => {
                    let entries = parts.into_iter().chain(last).map(entry);
                    self.client.mutate_rows(table.as_str(), entries).await.map_err(|error| self.error(&table, error))?
                }
            };
            results.into_iter().try_for_each(|result| result.map_err(|error| self.error(&table, error)))?;
        }
        Ok(())
    }

    fn entry(&self, known: &Known, row: RowMutation, stamp_micros: i64) -> Entry {
        let repeatable = row.mutations.iter().all(convert::is_repeatable);
        let (mutations, _) = guard::guarded(known, &row.mutations, false, stamp_micros, &self.tokens.token());
        Entry { key: row.key, mutations, repeatable }
    }

    pub(super) async fn mutate_rows(&self, table: &TableName, rows: Vec<RowMutation>) -> Result<Vec<Result<()>>> {
        self.known(table).await?;
        let (now_micros, stamp_micros) = (self.now(), self.stamp());
        // The result of each row: an error, or the entry that it is part of.
        let (mut parts, mut at, mut places): (Vec<Part>, HashMap<RowKey, usize>, Vec<_>) = Default::default();
        for row in rows {
            places.push(match (self.checked(table, &row, now_micros).await, at.get(&row.key)) {
                (Err(error), _) => Err(error),
                (Ok(_), Some(&at)) => {
                    append(&mut parts, at, row);
                    Ok(at)
                }
                (Ok(known), None) => {
                    at.insert(row.key.clone(), parts.len());
                    parts.push(Part { table: table.clone(), known, row });
                    Ok(parts.len() - 1)
                }
            });
        }
        if let Some(part) = parts.first() {
            self.check_writable(table, &part.row.key).await?;
        }
        let entries = parts.into_iter().map(|part| self.entry(&part.known, part.row, stamp_micros));
        let written = self.client.mutate_rows(table.as_str(), entries).await;
        let written = written.map_err(|error| self.error(table, error))?;
        let result = |at: usize| written[at].clone().map_err(|error| self.error(table, error));
        Ok(places.into_iter().map(|place| place.and_then(result)).collect())
    }

    pub(super) async fn check_and_mutate(&self, table: &TableName, request: CheckAndMutate) -> Result<bool> {
        let now_micros = self.now();
        let known = self.known(table).await?;
        row::check_decision(table, &known.schema, &request, now_micros)?;
        let both = request.then.iter().chain(&request.otherwise);
        both.into_iter().try_for_each(|mutation| check_fits(&known, mutation))?;
        for _ in 0..DEPENDENT_ATTEMPTS_MAX {
            let (cells, seen) = self.current(table, &known, &request.key).await?;
            let cells = live(&known.schema, cells, self.now());
            let holds = row::holds(request.predicate.as_ref(), &request.key, cells)?;
            let mutations = if holds { request.then.clone() } else { request.otherwise.clone() };
            let row = RowMutation { key: request.key.clone(), mutations };
            let stamp_micros = self.stamp();
            if row.mutations.is_empty() || self.write_unchanged(table, &known, &row, &seen, stamp_micros).await? {
                return Ok(holds);
            }
        }
        Err(Error::Conflict)
    }

    pub(super) async fn read_modify_write(
        &self,
        table: &TableName,
        key: RowKey,
        rules: Vec<ReadModifyWrite>,
    ) -> Result<Row> {
        let known = self.known(table).await?;
        for _ in 0..DEPENDENT_ATTEMPTS_MAX {
            let (cells, seen) = self.current(table, &known, &key).await?;
            let cells = live(&known.schema, cells, self.now());
            let mut mutations = row::modify(table, &known.schema, &cells, &rules)?;
            let stamp_micros = stamp_for(self.stamp(), true, &cells).saturating_add(MILLI - 1) / MILLI * MILLI;
            row::resolve(&mut mutations, stamp_micros);
            let row = RowMutation { key: key.clone(), mutations };
            if self.write_unchanged(table, &known, &row, &seen, stamp_micros).await? {
                return Ok(Row { key, cells: row::written(row.mutations) });
            }
        }
        Err(Error::Conflict)
    }

    /// Deletes the rows of a range: one by one, or, where they are many and share a prefix, by it.
    async fn delete_range(&self, table: &TableName, range: KeyRange) -> Result<()> {
        let filter = convert::chain(vec![convert::first(), convert::stripped()]);
        let rows = RowSet::from(range.clone());
        let read = ReadRows { rows, filter: Some(filter), rows_max: None, reversed: false };
        let mut found = Box::pin(self.client.read_rows(table.as_str(), read));
        let prefix = range.start.clone();
        let is_prefix = !prefix.is_empty() && KeyRange::prefix(prefix.clone()) == range;
        let (mut keys, mut deleted) = (Vec::new(), 0);
        loop {
            let rows = found.try_next().await.map_err(|error| self.error(table, error))?;
            let is_last = rows.is_none();
            keys.extend(rows.into_iter().flatten().map(|row| row.key));
            if let Some(key) = keys.first() {
                self.check_writable(table, key).await?;
            }
            if is_prefix && deleted == 0 && keys.len() > DELETE_ROWS_MAX {
                let dropped = self.client.drop_row_range(table.as_str(), prefix).await;
                return dropped.map_err(|error| self.error(table, error));
            }
            if is_last || (!is_prefix && keys.len() > DELETE_ROWS_MAX) {
                deleted += keys.len();
                self.delete_rows(table, std::mem::take(&mut keys)).await?;
            }
            if is_last {
                return Ok(());
            }
        }
    }

    async fn delete_rows(&self, table: &TableName, keys: Vec<RowKey>) -> Result<()> {
        let mutations: Vec<_> = convert::mutation(&Mutation::DeleteFromRow, 0).into_iter().collect();
        let entry = |key| Entry { key, mutations: mutations.clone(), repeatable: true };
        let results = self.client.mutate_rows(table.as_str(), keys.into_iter().map(entry)).await;
        let results = results.map_err(|error| self.error(table, error))?;
        results.into_iter().try_for_each(|result| result.map_err(|error| self.error(table, error)))
    }
}

/// Adds the mutations of a row to those of a part.
fn append(parts: &mut [Part], at: usize, row: RowMutation) {
    if let Some(part) = parts.get_mut(at) {
        part.row.mutations.extend(row.mutations);
    }
}

fn mutations_in(write: &Write) -> usize {
    match write {
        Write::Row { row, .. } => row.mutations.len(),
        Write::DeleteRange { .. } => 1,
    }
}

/// Checks what Bigtable cannot take of what a store can.
fn check_fits(known: &Known, mutation: &Mutation) -> Result<()> {
    let (Mutation::SetCell { timestamp, .. }
    | Mutation::AddToCell { timestamp, .. }
    | Mutation::MergeToCell { timestamp, .. }) = mutation
    else {
        return Ok(());
    };
    if let Some(micros) = timestamp.filter(|micros| micros % MILLI != 0) {
        return Err(Error::Invalid(format!("the timestamp {micros} is no whole millisecond, as Bigtable's are")));
    }
    let family = mutation.family().and_then(|family| known.schema.families.get(family));
    if family.is_some_and(|family| family.aggregate == Some(Aggregate::Hll)) {
        return Err(Error::Unsupported("Bigtable counts distinct inputs in a form of its own".into()));
    }
    Ok(())
}
