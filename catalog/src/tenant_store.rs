//! The tenant store: the only access to rows of tables.
//!
//! A [`TenantStore`] is created once for a connection, at authentication. It prepends the tenant's span to every key
//! that it passes to the store and strips it from every key that the store returns, so that no key that a session can
//! name lies outside of the span. The operator's has no span: its keys begin with the tenant's id.
//!
//! Every commit validates the catalog rows of the tenants that it writes for, and the store refuses it when one of them
//! has changed: a tenant that is being dropped gets no more rows. It validates the catalog rows of private tables too:
//! a row that was encoded for an old definition of a table is not written to the table with its new one.

mod heat;
mod load;
#[cfg(test)]
mod private_tests;
mod stored_keys;
#[cfg(test)]
mod tests;
mod there;

pub(crate) use heat::heat_table;
pub use heat::{HEAT_TABLE, HeatRow};
pub use load::{TenantLoad, existing_row};
pub use stored_keys::{StoredKeys, span_at};

use crate::{
    Error, ErrorKind, Result, Sequence, SequenceState, Snapshot, Table, Tenant, TenantId, TenantState,
    catalog::rows::{self, LastDecoded},
    ids::is_tenant_id,
    private::{private_table, space_span},
    table::DEFAULT_FAMILY,
    tenant::{SpanSize, TENANT_DELIMITER},
};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use keyspan_storage::{
    Columnar, ColumnarRequest, Commit, Cuts, FamilyName, Filter, HistorySize, KeyRange, Mutation, Pin, Rest, Row,
    RowKey, RowMutation, RowSample, RowSet, RowStream, Scan, SpanInfo, Store, StoreExt, TableName, Validation, Write,
    model::prefix_end,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Attempts to advance a sequence while other sessions advance it first. Each failed attempt means that another session
/// succeeded.
const ADVANCE_ATTEMPTS_MAX: usize = 1_000;

/// Rows of one tenant in every table, or of all tenants for the operator.
#[derive(Clone, Debug)]
pub struct TenantStore {
    store: Arc<dyn Store>,
    tenant: Option<TenantId>,
    /// The tenant's OID, if a later tenant of the same id must be refused.
    oid: Option<u32>,
    /// Catalog rows that commits read.
    row_cache: Arc<CatalogRowCache>,
}

/// A cache of the catalog rows that commits read.
#[derive(Debug, Default)]
struct CatalogRowCache {
    tenant: LastDecoded<Tenant>,
    table: LastDecoded<Table>,
}

/// Keys that divide a table, ascending, each with the bytes of the table before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Samples {
    /// They may be those of no row.
    pub keys: Vec<(Bytes, u64)>,
}

/// The writes of a statement or transaction, with keys without the span.
#[derive(Clone, Debug, Default)]
pub struct Writes {
    /// Mutations of rows.
    pub rows: Vec<(Arc<Table>, RowMutation)>,
    /// Key ranges to delete.
    pub ranges: Vec<(Arc<Table>, KeyRange)>,
    /// The read set: rows that must not have changed since the pin.
    pub validated: Vec<(Arc<Table>, RowKey)>,
    /// Spaces that the writer has reserved and no table has yet: nobody else reads or writes them.
    pub reserved: BTreeSet<u32>,
}

impl TenantStore {
    /// The rows of whichever tenant has the id.
    pub fn of_tenant(store: Arc<dyn Store>, tenant: TenantId) -> Self {
        Self { store, tenant: Some(tenant), oid: None, row_cache: Arc::default() }
    }

    /// The rows of this tenant only: after a drop, it writes nothing for a new tenant of the same id.
    pub fn of_session(store: Arc<dyn Store>, tenant: &Tenant) -> Self {
        Self { store, tenant: Some(tenant.id.clone()), oid: Some(tenant.oid), row_cache: Arc::default() }
    }

    /// The rows of all tenants, for the operator.
    pub fn of_operator(store: Arc<dyn Store>) -> Self {
        Self { store, tenant: None, oid: None, row_cache: Arc::default() }
    }

    /// The tenant; `None` for the operator.
    pub fn tenant(&self) -> Option<&TenantId> {
        self.tenant.as_ref()
    }

    /// Pins the newest state.
    ///
    /// # Errors
    /// The store's.
    pub async fn pin(&self) -> Result<Pin> {
        Ok(self.store.pin().await?)
    }

    /// The tenant's OID, if made with [`of_session`](Self::of_session).
    pub fn oid(&self) -> Option<u32> {
        self.oid
    }

    /// Reads rows of the span; keys of the scan and of the rows do not contain it.
    ///
    /// A row whose key is the span itself is skipped, since its key would be empty. No schema encodes such a key; the
    /// operator sees the row.
    pub fn scan(&self, table: &Table, scan: Scan) -> RowStream {
        match &self.tenant {
            Some(tenant) => scan_within(span_of(tenant, table), scan, |scan| self.store.scan(&table.physical, scan)),
            // The operator cannot name a private table; its keys would be those of every tenant.
            None if table.is_private() => keyspan_storage::store::failed(keyspan_storage::Error::Invalid(
                "a private table is read in the database of its tenant".into(),
            )),
            None => self.store.scan(&table.physical, scan),
        }
    }

    /// The files and memory that hold the rows of the span, for scans of many rows; `None` if the store has no such
    /// files. Keys of the request, of rows in memory and of the rest do not contain the span; key columns are the
    /// store's, the tenant first. May read files.
    ///
    /// A row group may contain rows of other tenants and of other private tables: only the rows that a part selects
    /// belong to this tenant and this table.
    ///
    /// # Errors
    /// The store's.
    pub fn columnar(&self, table: &Table, request: ColumnarRequest) -> Option<Result<Columnar>> {
        let fast = self.store.columnar()?;
        let span = self.span_within(table)?;
        let found = fast.columnar(&table.physical, request_within(span.as_deref(), request)).map_err(Error::from);
        Some(found.map(|found| match &span {
            Some(span) => without_span(span, found),
            None => found,
        }))
    }

    /// Keys that cut rows of the span, without it, into about `parts` parts; none where the store does not know. Reads
    /// metadata of files: call it where blocking is allowed.
    ///
    /// # Errors
    /// The store's.
    pub fn cuts(&self, table: &Table, rows: &RowSet, pin: &Pin, parts: usize) -> Result<Cuts> {
        let Some((fast, span)) = self.store.columnar().zip(self.span_within(table)) else { return Ok(Cuts::default()) };
        let Some(span) = span else { return Ok(fast.cuts(&table.physical, rows, Some(pin), parts)?) };
        let found = fast.cuts(&table.physical, &rows_within(&span, rows), Some(pin), parts)?;
        let own = |key: &Bytes| key.strip_prefix(&*span).filter(|key| !key.is_empty()).map(Bytes::copy_from_slice);
        Ok(Cuts { keys: found.keys.iter().filter_map(own).collect(), rows: found.rows })
    }

    /// Keys of a table that divide its rows into parts of about equal size, as far as they are in the span, and without
    /// it; they may be of a minute ago.
    ///
    /// # Errors
    /// The store's.
    pub async fn samples(&self, table: &Table) -> Result<Samples> {
        let Some(span) = self.span_within(table) else { return Ok(Samples::default()) };
        let span = span.unwrap_or_default();
        let all = self.store.recent_samples(&table.physical).await?;
        let own = |sample: RowSample| {
            let key = sample.key.strip_prefix(&*span).filter(|key| !key.is_empty())?;
            Some((Bytes::copy_from_slice(key), sample.offset_bytes))
        };
        Ok(Samples { keys: all.into_iter().filter_map(own).collect() })
    }

    /// Microseconds that a request for a row of the table takes at least; 0 where it is in this process.
    pub fn round_trip_micros(&self, table: &Table) -> u64 {
        self.store.promises_of(&table.physical).round_trip_micros
    }

    /// Whether the rows are few enough to call [`columnar`](Self::columnar) on a thread that must not block.
    pub fn runs_inline(&self, table: &Table, request: &ColumnarRequest) -> bool {
        let Some((fast, span)) = self.store.columnar().zip(self.span_within(table)) else { return true };
        fast.runs_inline(&table.physical, &request_within(span.as_deref(), request.clone()))
    }

    /// How many rows there are at most, if they are so few that a scan of them runs on the caller's thread, in less
    /// time than one by columns.
    pub fn few_rows(&self, table: &Table, rows: &RowSet) -> Option<u64> {
        let fast = self.store.columnar()?;
        match self.span_within(table)? {
            Some(span) => fast.few_rows(&table.physical, &rows_within(&span, rows)),
            None => fast.few_rows(&table.physical, rows),
        }
    }

    /// The span of a table's keys; the inner `None` for the operator, who has no span; the outer `None` for a table
    /// that this store cannot read.
    fn span_within(&self, table: &Table) -> Option<Option<Bytes>> {
        match &self.tenant {
            Some(tenant) => Some(Some(span_of(tenant, table))),
            None => (!table.is_private()).then_some(None),
        }
    }

    /// Commits the writes of a statement or transaction that read at `pin`. Refused when a validated row has changed,
    /// or when a tenant that it writes for is no longer active: the tenant's row in the catalog is validated too.
    /// Returns the commit timestamp in microseconds.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict); [`NoTenant`](crate::ErrorKind::NoTenant) for a tenant that does not
    /// exist or is not active; [`Invalid`](crate::ErrorKind::Invalid) for the operator's deletion of every tenant's
    /// rows; and the store's.
    pub async fn commit(&self, pin: &Pin, writes: Writes) -> Result<i64> {
        if writes.rows.is_empty() && writes.ranges.is_empty() {
            return Ok(pin.commit_micros);
        }
        let commit = self.prepare(pin, writes, None).await?;
        Ok(self.store.commit(commit).await?)
    }

    /// Prepares the commit of writes at a pin. The tables are those of the catalog at the pin or, if the commit changes
    /// the catalog too, those of the snapshot `after` it: then their catalog rows are not validated, since the commit
    /// validates the catalog's version.
    pub(crate) async fn prepare(&self, pin: &Pin, writes: Writes, after: Option<&Snapshot>) -> Result<Commit> {
        let mut tenants = BTreeSet::new();
        let mut commit = Commit::default();
        let mut validated = Vec::with_capacity(writes.validated.len() + 2);
        for table in private_tables(&writes) {
            match (after, table.space.filter(|space| writes.reserved.contains(space))) {
                (Some(after), _) if after.table_of(self.tenant(), table.id) == Some(&table) => {}
                (Some(after), _) if self.is_kept_by_view(after, &table) => {}
                (_, Some(space)) => validated.extend(self.reserved_space_row(&table, space, pin).await?),
                (Some(_), None) => return Err(table_changed(&table)),
                (None, None) => validated.push(self.unchanged_table_row(&table, pin).await?),
            }
        }
        for (table, range) in writes.ranges {
            commit.writes.extend(self.delete_range(&table, &range, &mut tenants)?);
        }
        for (table, row) in writes.rows {
            let key = self.key(&table, &row.key)?;
            match &self.tenant {
                Some(tenant) => drop(tenants.insert(tenant.clone())),
                None => drop(tenants.insert(tenant_of(&key)?)),
            }
            let row = RowMutation { key, mutations: row.mutations };
            commit.writes.push(Write::Row { table: table.physical.clone(), row });
        }
        for (table, key) in writes.validated {
            validated.push((table.physical.clone(), self.key(&table, &key)?));
        }
        for tenant in &tenants {
            validated.push(self.active_tenant_row(tenant, pin).await?);
        }
        commit.validation = Some(Validation { pin: pin.clone(), rows: validated });
        Ok(commit)
    }

    /// Advances a sequence: `change` maps its state (`None` at its beginning) to the next state and a result. Not part
    /// of a transaction: it neither waits for one nor is rolled back with one.
    ///
    /// # Errors
    /// Those of `change`; [`NoTable`](ErrorKind::NoTable) when the sequence no longer exists;
    /// [`Conflict`](ErrorKind::Conflict) when other sessions kept advancing it; the store's.
    pub async fn advance<T>(
        &self,
        sequence: &Sequence,
        change: impl Fn(Option<SequenceState>) -> Result<(SequenceState, T)> + Send,
    ) -> Result<T> {
        let Some(tenant) = &self.tenant else {
            return Err(Error::new(ErrorKind::Invalid, "a sequence is moved in the database of its tenant"));
        };
        let catalog = rows::catalog_table();
        let (made, reserved) =
            (rows::private_sequence_key(tenant, sequence.id), rows::private_space_key(tenant, sequence.id));
        let (table, key) = (private_table(), sequence_key(tenant, sequence)?);
        let family = FamilyName::new(DEFAULT_FAMILY)?;
        for _ in 0..ADVANCE_ATTEMPTS_MAX {
            let pin = self.pin().await?;
            let is_there =
                async |key| Ok::<_, Error>(self.store.read_row(&catalog, key, Some(pin.clone())).await?.is_some());
            // A sequence that a transaction is creating has a reserved OID.
            let known = if is_there(&made).await? {
                &made
            } else if is_there(&reserved).await? {
                &reserved
            } else {
                let message = format!("relation \"{}\" does not exist", sequence.name);
                return Err(Error::new(ErrorKind::NoTable, message));
            };
            let row = self.store.read_row(&table, &key, Some(pin.clone())).await?;
            let (state, answer) = change(state_in(row.as_ref())?)?;
            let (family, value) = (family.clone(), state.to_bytes());
            let set = Mutation::SetCell { family, qualifier: Bytes::new(), timestamp: None, value };
            let row = RowMutation { key: key.clone(), mutations: vec![set] };
            let validated = vec![
                self.active_tenant_row(tenant, &pin).await?,
                (catalog.clone(), known.clone()),
                (table.clone(), key.clone()),
            ];
            let commit = Commit {
                writes: vec![Write::Row { table: table.clone(), row }],
                validation: Some(Validation { pin, rows: validated }),
            };
            match self.store.commit(commit).await {
                Err(error) if error.kind() == keyspan_storage::ErrorKind::Conflict => {}
                other => return other.map(|_| answer).map_err(Error::from),
            }
        }
        Err(Error::new(ErrorKind::Conflict, format!("sequence \"{}\" is being moved by others", sequence.name)))
    }

    /// The state of a sequence as it is stored now; `None` at its beginning.
    ///
    /// # Errors
    /// The store's.
    pub async fn sequence_state(&self, sequence: &Sequence) -> Result<Option<SequenceState>> {
        let Some(tenant) = &self.tenant else { return Ok(None) };
        let row = self.store.read_row(&private_table(), &sequence_key(tenant, sequence)?, None).await?;
        state_in(row.as_ref())
    }

    /// The size of the span in a table, measured by reading it; for the operator, the size of the whole table.
    ///
    /// # Errors
    /// The store's.
    pub async fn size(&self, table: &Table, pin: Option<Pin>) -> Result<SpanSize> {
        self.size_of(table, Scan { pin, ..Scan::all() }).await
    }

    /// The size of what a scan of the span in a table returns, without history.
    ///
    /// # Errors
    /// The store's.
    pub async fn size_of(&self, table: &Table, scan: Scan) -> Result<SpanSize> {
        let mut size = SpanSize::default();
        let mut rows = self.scan(table, scan);
        while let Some(batch) = rows.try_next().await? {
            batch.iter().for_each(|row| size.add_row(row));
        }
        Ok(size)
    }

    /// The same, and the size of the history of rows in a range of the span.
    ///
    /// # Errors
    /// The store's.
    pub async fn size_with_history(&self, table: &Table, rows: &KeyRange, pin: &Pin) -> Result<SpanSize> {
        let scan = Scan { pin: Some(pin.clone()), ..Scan::of(RowSet::from(rows.clone())) };
        let size = self.size_of(table, scan).await?;
        let history = self.history_size(table, rows, pin).await?;
        Ok(SpanSize { history_rows: history.versions, history_bytes: history.bytes, ..size })
    }

    /// The size of the history of rows in a range of the span.
    ///
    /// # Errors
    /// The store's.
    pub async fn history_size(&self, table: &Table, rows: &KeyRange, pin: &Pin) -> Result<HistorySize> {
        if table.history_micros.is_none() {
            return Ok(HistorySize::default());
        }
        let rows = self.range_in_store(table, rows);
        Ok(self.store.history_size(&table.physical, &rows, Some(pin.clone())).await?)
    }

    /// The size of the span in a table as the store knows it without reading rows; for the operator, of the whole
    /// table.
    /// `None` for a store that cannot tell. May block for a few reads of files.
    ///
    /// # Errors
    /// The store's.
    pub fn span_info(&self, table: &Table) -> Result<Option<SpanInfo>> {
        Ok(self.store.span(&table.physical, &self.range_in_store(table, &KeyRange::all()))?)
    }

    /// A range of the span as the store has it.
    pub fn range_in_store(&self, table: &Table, rows: &KeyRange) -> KeyRange {
        self.tenant.as_ref().map_or_else(|| rows.clone(), |tenant| within(&span_of(tenant, table), rows))
    }

    /// The key with the span prepended.
    fn key(&self, table: &Table, key: &RowKey) -> Result<RowKey> {
        let Some(tenant) = &self.tenant else { return Ok(key.clone()) };
        let span = span_of(tenant, table);
        RowKey::new(join(&span, key)).map_err(|error| {
            Error::from(error)
                .with_detail(format!("Of these, {} bytes are the tenant's id and its delimiter.", span.len()))
        })
    }

    fn delete_range(&self, table: &Table, range: &KeyRange, tenants: &mut BTreeSet<TenantId>) -> Result<Option<Write>> {
        let range = match &self.tenant {
            Some(tenant) => {
                tenants.insert(tenant.clone());
                within(&span_of(tenant, table), range)
            }
            None if range.start.is_empty() && range.end.is_none() => {
                return Err(Error::new(ErrorKind::Invalid, "a deletion of every tenant's rows needs a range of keys")
                    .with_hint("Name the tenant, or DROP the table."));
            }
            None => {
                // Validate the tenant if the range lies in the span of one; a range over several may cover tenants that
                // are being dropped.
                let tenant = tenant_of(&range.start).ok();
                tenants.extend(tenant.filter(|tenant| within_span(&span(tenant), range)));
                range.clone()
            }
        };
        Ok((!range.is_empty()).then(|| Write::DeleteRange { table: table.physical.clone(), range }))
    }

    /// The catalog row of a private table, to be validated; an error if its definition at the pin is not the writer's.
    async fn unchanged_table_row(&self, table: &Table, pin: &Pin) -> Result<(TableName, RowKey)> {
        let Some(tenant) = &self.tenant else {
            return Err(Error::new(ErrorKind::Invalid, "a private table is written in the database of its tenant"));
        };
        let (catalog, key) = (rows::catalog_table(), rows::private_table_key(tenant, table.id));
        let row = self.store.read_row(&catalog, &key, Some(pin.clone())).await?;
        let now = row.as_ref().map(|row| self.row_cache.table.get(row)).transpose()?;
        if now.is_none_or(|now| *now != *table) {
            return Err(table_changed(table));
        }
        Ok((catalog, key))
    }

    fn is_kept_by_view(&self, after: &Snapshot, table: &Table) -> bool {
        self.tenant().and_then(|tenant| after.kept_by_view(tenant, table.id)).as_ref() == Some(table)
    }

    /// The catalog row of a reserved space, to be validated; `None` if the space was reserved after the pin, an error
    /// if it is not reserved.
    async fn reserved_space_row(&self, table: &Table, space: u32, pin: &Pin) -> Result<Option<(TableName, RowKey)>> {
        let Some(tenant) = &self.tenant else {
            return Err(Error::new(ErrorKind::Invalid, "a private table is written in the database of its tenant"));
        };
        let (catalog, key) = (rows::catalog_table(), rows::private_space_key(tenant, space));
        if self.store.read_row(&catalog, &key, Some(pin.clone())).await?.is_none() {
            // The snapshot of a REPEATABLE READ transaction may be older than the space of its temporary table, which
            // only the transaction gives up.
            if self.store.read_row(&catalog, &key, None).await?.is_some() {
                return Ok(None);
            }
            let message = format!("the space of the new rows of \"{}\" is no longer reserved", table.name);
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        Ok(Some((catalog, key)))
    }

    /// The catalog row of a tenant, to be validated; an error if the tenant is not active at the pin.
    async fn active_tenant_row(&self, id: &TenantId, pin: &Pin) -> Result<(TableName, RowKey)> {
        let (table, key) = (rows::catalog_table(), rows::tenant_key(id));
        let row = self.store.read_row(&table, &key, Some(pin.clone())).await?;
        let tenant = row.as_ref().map(|row| self.row_cache.tenant.get(row)).transpose()?;
        let usable =
            |tenant: Arc<Tenant>| tenant.state == TenantState::Active && self.oid.is_none_or(|oid| oid == tenant.oid);
        if !tenant.is_some_and(usable) {
            return Err(Error::new(ErrorKind::NoTenant, format!("database \"{id}\" does not exist")));
        }
        Ok((table, key))
    }
}

fn table_changed(table: &Table) -> Error {
    let message = format!("relation \"{}\" was changed or dropped by another at the same moment", table.name);
    Error::new(ErrorKind::Conflict, message)
}

/// The span of a tenant: the prefix of its keys.
pub fn span(tenant: &TenantId) -> Bytes {
    join(tenant.as_str().as_bytes(), &[TENANT_DELIMITER])
}

/// The span of a tenant in a table: the prefix of its keys there.
fn span_of(tenant: &TenantId, table: &Table) -> Bytes {
    table.space.map_or_else(|| span(tenant), |space| space_span(tenant, space))
}

/// The private tables that are written, without duplicates.
fn private_tables(writes: &Writes) -> Vec<Arc<Table>> {
    let tables = writes.rows.iter().map(|(table, _)| table).chain(writes.ranges.iter().map(|(table, _)| table));
    let by_id: BTreeMap<_, _> = tables.filter(|table| table.is_private()).map(|table| (table.id, table)).collect();
    by_id.into_values().cloned().collect()
}

fn join(a: &[u8], b: &[u8]) -> Bytes {
    [a, b].concat().into()
}

/// The range, moved into the span. A range without an end ends with the span.
fn within(span: &[u8], range: &KeyRange) -> KeyRange {
    let end = range.end.as_ref().map_or_else(|| prefix_end(span), |end| Some(join(span, end)));
    KeyRange::new(join(span, &range.start), end)
}

/// The rows, moved into the span.
fn rows_within(span: &[u8], rows: &RowSet) -> RowSet {
    RowSet::new(rows.ranges().iter().map(|range| within(span, range)))
}

/// Runs a scan of the span as a scan of the store: prepends the span to the scan's keys and strips it from the rows'
/// keys.
fn scan_within(span: Bytes, scan: Scan, read: impl FnOnce(Scan) -> RowStream) -> RowStream {
    let scan = Scan {
        rows: rows_within(&span, &scan.rows),
        filter: scan.filter.map(|filter| filter_within(&span, filter)),
        ..scan
    };
    let strip = move |mut batch: Vec<Row>| {
        batch.retain_mut(|row| match RowKey::new(row.key.bytes().slice(span.len()..)) {
            Ok(key) => {
                row.key = key;
                true
            }
            Err(_) => false,
        });
        batch
    };
    read(scan).map_ok(strip).try_filter(|batch| futures::future::ready(!batch.is_empty())).boxed()
}

/// The request, moved into the span; the tenant may read nothing beyond it.
fn request_within(span: Option<&[u8]>, request: ColumnarRequest) -> ColumnarRequest {
    match span {
        Some(span) => {
            let (rows, span) = (rows_within(span, &request.rows), KeyRange::prefix(span.to_vec()));
            ColumnarRequest { rows, span, ..request }
        }
        None => request,
    }
}

/// The same files and rows, with the span stripped from the keys of the rest, of its scans, and of rows in memory.
fn without_span(span: &Bytes, found: Columnar) -> Columnar {
    let Columnar { parts, memory, rest } = found;
    let parts = parts.into_iter().map(|part| part.in_span(span.clone())).collect();
    let memory = memory.into_iter().map(|part| part.in_span(span.clone())).collect();
    if rest.is_empty() {
        return Columnar { parts, memory, rest };
    }
    let (estimate, span) = (rest.rows_estimate(), span.clone());
    let rest = Rest::new(estimate, move |scan| scan_within(span.clone(), scan, |scan| rest.scan(scan)));
    Columnar { parts, memory, rest }
}

/// Whether the range lies within the span.
fn within_span(span: &[u8], range: &KeyRange) -> bool {
    let end = prefix_end(span);
    range.start.starts_with(span) && range.end.as_ref().is_some_and(|last| end.is_none_or(|end| *last <= end))
}

/// The key of the row that holds a sequence's state.
fn sequence_key(tenant: &TenantId, sequence: &Sequence) -> Result<RowKey> {
    let mut key = space_span(tenant, sequence.id).to_vec();
    key.push(b'=');
    Ok(RowKey::new(key)?)
}

/// The state of a sequence in its row.
fn state_in(row: Option<&Row>) -> Result<Option<SequenceState>> {
    let cell = row.and_then(|row| row.newest(DEFAULT_FAMILY, b""));
    cell.map(|cell| SequenceState::from_bytes(&cell.value)).transpose()
}

/// The tenant whose id an operator's key begins with.
fn tenant_of(key: &[u8]) -> Result<TenantId> {
    let end = memchr::memchr(TENANT_DELIMITER, key).unwrap_or(key.len());
    let id = std::str::from_utf8(&key[..end]).ok().filter(|id| end < key.len() && is_tenant_id(id));
    id.map_or_else(
        || {
            let message = format!("row key \"{}\" does not begin with a tenant's id", key.escape_ascii());
            Err(Error::new(ErrorKind::NoTenant, message))
        },
        TenantId::new,
    )
}

/// The filter with its row-key patterns made to match after the span. The scan's rows, not these patterns, ensure that
/// nothing outside of the span is read.
fn filter_within(span: &[u8], filter: Filter) -> Filter {
    let all = |filters: Vec<Filter>| filters.into_iter().map(|filter| filter_within(span, filter)).collect();
    let one = |filter: Option<Box<Filter>>| filter.map(|filter| Box::new(filter_within(span, *filter)));
    match filter {
        Filter::RowKeyRegex(pattern) => {
            let span = std::str::from_utf8(span).expect("the ids of tenants and numbers are ASCII");
            Filter::RowKeyRegex(format!("{}(?:{pattern})", regex::escape(span)))
        }
        Filter::Chain(filters) => Filter::Chain(all(filters)),
        Filter::Interleave(filters) => Filter::Interleave(all(filters)),
        Filter::Condition { predicate, then, otherwise } => Filter::Condition {
            predicate: Box::new(filter_within(span, *predicate)),
            then: one(then),
            otherwise: one(otherwise),
        },
        other => other,
    }
}
