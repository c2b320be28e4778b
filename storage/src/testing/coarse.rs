//! A store whose timestamps are milliseconds, seen by cases that count microseconds.
//!
//! A microsecond of a case is a millisecond of the store, and its zero is a moment that the wrapper is told: now. So no
//! server removes a case's cells for their age, and every timestamp is a multiple of a thousand.

use crate::{
    Cell, CheckAndMutate, Clock, ClockInfo, Commit, Family, FamilyChange, Filter, GcRule, Mutation, Pin, Promises,
    ReadModifyWrite, Result, Row, RowKey, RowMutation, RowSample, RowStream, Scan, Store, TableName, TableSchema,
    TimestampRange, Validation, Write, clock::ManualClock,
};
use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use std::sync::Arc;

/// Microseconds of the store for one of a case.
const SCALE: i64 = 1_000;

/// The clock of a store behind a [`Coarse`].
#[derive(Clone, Debug)]
pub struct CoarseClock {
    /// The clock of the case.
    pub case: Arc<ManualClock>,
    /// The store's time at the case's zero, in microseconds; a multiple of a thousand.
    pub zero_micros: i64,
}

impl Clock for CoarseClock {
    fn now_micros(&self) -> i64 {
        self.zero_micros + self.case.now_micros() * SCALE
    }
}

/// A store with coarse timestamps.
#[derive(Debug)]
pub struct Coarse {
    store: Arc<dyn Store>,
    zero_micros: i64,
}

impl Coarse {
    /// Wraps a store on a [`CoarseClock`] with the same zero.
    pub fn new(store: Arc<dyn Store>, zero_micros: i64) -> Self {
        Self { store, zero_micros }
    }

    /// A timestamp of the case as one of the store. A negative one stays negative, and one far ahead stays far ahead.
    fn up(&self, timestamp: i64) -> i64 {
        if timestamp < 0 { timestamp } else { timestamp.saturating_mul(SCALE).saturating_add(self.zero_micros) }
    }

    fn down(&self, timestamp: i64) -> i64 {
        (timestamp - self.zero_micros).div_euclid(SCALE)
    }

    fn range_up(&self, range: TimestampRange) -> TimestampRange {
        TimestampRange { start: self.up(range.start), end: range.end.map(|end| self.up(end)) }
    }

    fn mutations_up(&self, mut mutations: Vec<Mutation>) -> Vec<Mutation> {
        for mutation in &mut mutations {
            match mutation {
                Mutation::SetCell { timestamp, .. }
                | Mutation::AddToCell { timestamp, .. }
                | Mutation::MergeToCell { timestamp, .. } => *timestamp = timestamp.map(|at| self.up(at)),
                Mutation::DeleteFromColumn { timestamps, .. } => *timestamps = self.range_up(*timestamps),
                Mutation::DeleteFromFamily { .. } | Mutation::DeleteFromRow => {}
            }
        }
        mutations
    }

    fn row_up(&self, row: RowMutation) -> RowMutation {
        RowMutation { mutations: self.mutations_up(row.mutations), ..row }
    }

    fn row_down(&self, mut row: Row) -> Row {
        row.cells.iter_mut().for_each(|cell: &mut Cell| cell.timestamp = self.down(cell.timestamp));
        row
    }

    fn filter_up(&self, filter: Filter) -> Filter {
        let all = |parts: Vec<Filter>| parts.into_iter().map(|part| self.filter_up(part)).collect();
        let boxed = |part: Option<Box<Filter>>| part.map(|part| Box::new(self.filter_up(*part)));
        match filter {
            Filter::Timestamps(range) => Filter::Timestamps(self.range_up(range)),
            Filter::Chain(parts) => Filter::Chain(all(parts)),
            Filter::Interleave(parts) => Filter::Interleave(all(parts)),
            Filter::Condition { predicate, then, otherwise } => Filter::Condition {
                predicate: Box::new(self.filter_up(*predicate)),
                then: boxed(then),
                otherwise: boxed(otherwise),
            },
            other => other,
        }
    }

    fn pin_up(&self, pin: Pin) -> Pin {
        pin.state.downcast_ref::<Pin>().cloned().unwrap_or(pin)
    }
}

/// A rule with every age changed; ages that are refused stay so.
fn aged(rule: GcRule, age: impl Fn(i64) -> i64 + Copy) -> GcRule {
    let all = |rules: Vec<GcRule>| rules.into_iter().map(|rule| aged(rule, age)).collect();
    match rule {
        GcRule::MaxAgeMicros(micros) if micros >= SCALE => GcRule::MaxAgeMicros(age(micros)),
        GcRule::Union(rules) => GcRule::Union(all(rules)),
        GcRule::Intersection(rules) => GcRule::Intersection(all(rules)),
        other => other,
    }
}

fn family_up(family: Family) -> Family {
    Family { gc: aged(family.gc, |age| age * SCALE), ..family }
}

#[async_trait]
impl Store for Coarse {
    async fn create_table(&self, table: &TableName, mut schema: TableSchema) -> Result<()> {
        schema.families.values_mut().for_each(|family| *family = family_up(family.clone()));
        self.store.create_table(table, schema).await
    }

    async fn drop_table(&self, table: &TableName) -> Result<()> {
        self.store.drop_table(table).await
    }

    async fn tables(&self) -> Result<Vec<(TableName, TableSchema)>> {
        let mut tables = self.store.tables().await?;
        for family in tables.iter_mut().flat_map(|(_, schema)| schema.families.values_mut()) {
            family.gc = aged(family.gc.clone(), |age| age / SCALE);
        }
        Ok(tables)
    }

    async fn modify_families(&self, table: &TableName, changes: Vec<FamilyChange>) -> Result<()> {
        let up = |change| match change {
            FamilyChange::Create(name, family) => FamilyChange::Create(name, family_up(family)),
            FamilyChange::SetGc(name, rule) => FamilyChange::SetGc(name, aged(rule, |age| age * SCALE)),
            other => other,
        };
        self.store.modify_families(table, changes.into_iter().map(up).collect()).await
    }

    async fn pin(&self) -> Result<Pin> {
        let pin = self.store.pin().await?;
        let (commit_micros, now_micros) = (self.down(pin.commit_micros), self.down(pin.now_micros));
        Ok(Pin { commit_micros, now_micros, state: Arc::new(pin) })
    }

    fn scan(&self, table: &TableName, scan: Scan) -> RowStream {
        let scan = Scan {
            timestamps: self.range_up(scan.timestamps),
            filter: scan.filter.map(|filter| self.filter_up(filter)),
            pin: scan.pin.map(|pin| self.pin_up(pin)),
            ..scan
        };
        let down = Self { store: self.store.clone(), zero_micros: self.zero_micros };
        let rows = self.store.scan(table, scan);
        rows.map_ok(move |batch| batch.into_iter().map(|row| down.row_down(row)).collect()).boxed()
    }

    async fn sample_row_keys(&self, table: &TableName) -> Result<Vec<RowSample>> {
        self.store.sample_row_keys(table).await
    }

    async fn commit(&self, commit: Commit) -> Result<i64> {
        let up = |write| match write {
            Write::Row { table, row } => Write::Row { table, row: self.row_up(row) },
            range @ Write::DeleteRange { .. } => range,
        };
        let validation = |Validation { pin, rows }| Validation { pin: self.pin_up(pin), rows };
        let writes = commit.writes.into_iter().map(up).collect();
        let stamp = self.store.commit(Commit { writes, validation: commit.validation.map(validation) }).await?;
        Ok(self.down(stamp))
    }

    async fn mutate_rows(&self, table: &TableName, rows: Vec<RowMutation>) -> Result<Vec<Result<()>>> {
        self.store.mutate_rows(table, rows.into_iter().map(|row| self.row_up(row)).collect()).await
    }

    async fn check_and_mutate(&self, table: &TableName, request: CheckAndMutate) -> Result<bool> {
        let request = CheckAndMutate {
            predicate: request.predicate.map(|filter| self.filter_up(filter)),
            then: self.mutations_up(request.then),
            otherwise: self.mutations_up(request.otherwise),
            ..request
        };
        self.store.check_and_mutate(table, request).await
    }

    async fn read_modify_write(&self, table: &TableName, key: RowKey, rules: Vec<ReadModifyWrite>) -> Result<Row> {
        Ok(self.row_down(self.store.read_modify_write(table, key, rules).await?))
    }

    async fn drop_row_range(&self, table: &TableName, prefix: Bytes) -> Result<()> {
        self.store.drop_row_range(table, prefix).await
    }

    fn clock(&self) -> Option<ClockInfo> {
        self.store.clock()
    }

    fn promises(&self) -> Promises {
        self.store.promises()
    }

    async fn close(&self) -> Result<()> {
        self.store.close().await
    }
}
