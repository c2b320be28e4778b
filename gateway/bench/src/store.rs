//! Keyspan's side of the bench: a store in a folder, opened as by `keyspan serve`, and sessions without a wire.

use super::data::{self, ALL, Data, Reading, TABLE, tenant_name, tenants};
use anyhow::{Context, Result, bail, ensure};
use arrow::array::RecordBatch;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use keyspan_catalog::{
    Catalog, ColumnPlace, Table, TenantId, TenantStore, Value,
    ids::OPERATOR_DATABASE,
    mapping,
    tenant_store::{Writes, span},
};
use keyspan_gateway::{
    auth::{login::identify, operator},
    demo::loader::Loader,
    execute::Outcome,
    instance::Instance,
    resources::{Memory, Resources, TEMP_BYTES},
    session::Session,
};
use keyspan_sql::ast::Statement;
use keyspan_storage::{
    Inspection, Mutation, RowKey, RowMutation, Store, StoreExt,
    engine::{Codec, Engine, EngineOptions},
    inspect::SegmentInfo,
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// Rows of one commit of updates.
const UPDATE_ROWS: usize = 20_000;
/// The operator's password; nothing listens, so that nobody can log in with it.
const PASSWORD: &str = "bench";

/// An open store.
pub(super) struct OpenStore {
    engine: Arc<Engine>,
    pub(super) instance: Arc<Instance>,
    folder: PathBuf,
}

/// Options of [`OpenStore::new`].
#[derive(Clone, Debug)]
pub(super) struct StoreOptions<'a> {
    pub(super) folder: &'a Path,
    pub(super) memory: Memory,
    pub(super) codec: Codec,
    /// Whether tablets are compacted in the background.
    pub(super) compacts: bool,
}

impl OpenStore {
    /// Opens a store.
    ///
    /// # Errors
    /// Those of the store.
    pub(super) async fn new(how: StoreOptions<'_>) -> Result<Self> {
        let memory = how.memory;
        let engine = Engine::open(EngineOptions {
            memory_bytes: memory.engine_bytes,
            memtable_bytes: memory.memtable_bytes,
            base_codec: how.codec,
            compacts: how.compacts,
            ..EngineOptions::new(how.folder)
        });
        let engine = engine.await?;
        let catalog = Catalog::open(engine.clone()).await?;
        operator::ensure(&catalog, PASSWORD).await?;
        let resources = Resources::new(memory, Some(how.folder.join("temp")), TEMP_BYTES)?;
        let instance = Instance { resources, ..Instance::new(Arc::new(catalog)) };
        Ok(Self { engine, instance: Arc::new(instance), folder: how.folder.to_owned() })
    }

    /// Closes the store.
    ///
    /// # Errors
    /// Those of the store.
    pub(super) async fn close(self) -> Result<()> {
        Ok(self.engine.close().await?)
    }

    /// Makes tenants and table.
    ///
    /// # Errors
    /// If a statement fails.
    pub(super) async fn define(&self) -> Result<()> {
        let mut operator = self.session(OPERATOR_DATABASE)?;
        for tenant in 0..data::TENANTS {
            run(&mut operator, &format!("CREATE DATABASE {}", tenant_name(tenant))).await?;
        }
        run(&mut operator, data::SCHEMA).await?;
        Ok(())
    }

    /// A session of the operator in a database.
    ///
    /// # Errors
    /// If the database does not exist.
    pub(super) fn session(&self, database: &str) -> Result<Session> {
        Ok(Session::new(self.instance.clone(), identify(&self.instance, operator::OPERATOR_ROLE, database)?, 0))
    }

    /// The table.
    ///
    /// # Errors
    /// If it does not exist.
    pub(super) fn table(&self) -> Result<Arc<Table>> {
        self.instance.catalog.snapshot().table(TABLE).cloned().context("the table is not there")
    }

    /// The store.
    pub(super) fn store(&self) -> &Arc<dyn Store> {
        self.instance.catalog.store()
    }

    /// Inserts all rows in the order of their numbers; returns the bytes of their values, the key's included.
    ///
    /// # Errors
    /// Those of the store.
    pub(super) async fn load(&self, data: &Data, mut step: impl FnMut(u64)) -> Result<u64> {
        let (table, tenants) = (self.table()?, tenants()?);
        let mut loader = Loader::new(&self.instance, table, &data::COLUMNS)?;
        let mut bytes = 0;
        for row in (0..data.rows()).filter_map(|number| data.row(number)) {
            let tenant = &tenants[data.tenant_of(row.device) as usize];
            bytes += row.bytes();
            loader.put(tenant, &row.values(), &mut step).await?;
        }
        loader.finish(&mut step).await?;
        Ok(bytes)
    }

    /// Updates further rows, until `updated` thousandths of all rows are updated.
    ///
    /// # Errors
    /// Those of the store.
    pub(super) async fn update(&self, data: &mut Data, updated: u64, mut step: impl FnMut(u64)) -> Result<()> {
        ensure!(updated <= ALL, "more than all rows");
        let lots = data.updated..updated;
        data.updated = updated;
        let (table, tenants) = (self.table()?, tenants()?);
        let stores: Vec<_> = tenants.into_iter().map(|id| TenantStore::of_tenant(self.store().clone(), id)).collect();
        let mut waiting: Vec<Vec<RowMutation>> = vec![Vec::new(); stores.len()];
        for number in (0..data.rows()).filter(|number| lots.contains(&data.lot(*number))) {
            let Some(row) = data.row(number) else { continue };
            let tenant = data.tenant_of(row.device) as usize;
            waiting[tenant].push(updated_row(&table, &row)?);
            if waiting[tenant].len() >= UPDATE_ROWS {
                write(&stores[tenant], &table, std::mem::take(&mut waiting[tenant])).await?;
                step(number);
            }
        }
        for (store, rows) in stores.iter().zip(waiting) {
            write(store, &table, rows).await?;
        }
        Ok(())
    }

    /// Deletes further devices, each by a statement, until `deleted` of them are deleted.
    ///
    /// # Errors
    /// If a statement fails.
    pub(super) async fn delete(&self, data: &mut Data, deleted: u64, mut step: impl FnMut(u64)) -> Result<()> {
        let sessions: Result<Vec<Session>> = (0..data::TENANTS).map(|at| self.session(&tenant_name(at))).collect();
        let mut sessions = sessions?;
        for at in data.deleted..deleted {
            let device = Data::to_delete(at);
            let session = &mut sessions[data.tenant_of(device) as usize];
            let name = Reading::device_name(device);
            run(session, &format!("DELETE FROM {TABLE} WHERE device = '{name}'")).await?;
            step(at);
        }
        data.deleted = deleted;
        Ok(())
    }

    /// The key of a row in the store.
    ///
    /// # Errors
    /// Never: the parts are valid.
    pub(super) fn key(&self, table: &Table, data: &Data, row: &Reading) -> Result<RowKey> {
        let span = span(&TenantId::new(&tenant_name(data.tenant_of(row.device)))?);
        Ok(RowKey::new([&span[..], table.key.encode(&row.key())?.bytes()].concat())?)
    }

    /// Reads a whole row in the engine; returns whether it exists.
    ///
    /// # Errors
    /// Those of the store.
    pub(super) async fn read(&self, table: &Table, key: &RowKey) -> Result<bool> {
        Ok(self.store().read_row(&table.physical, key, None).await?.is_some())
    }

    /// Writes memtables to segments.
    ///
    /// # Errors
    /// Those of the store.
    pub(super) async fn flush(&self) -> Result<()> {
        Ok(self.engine.flush().await?)
    }

    /// Compacts every tablet to one base.
    ///
    /// # Errors
    /// Those of the store.
    pub(super) async fn compact(&self) -> Result<()> {
        Ok(self.engine.compact(None).await?)
    }

    fn inspect(&self) -> Result<Inspection> {
        self.engine.inspect().context("the engine tells nothing of its inside")
    }

    /// The table's segments and their files, in the order of keys.
    ///
    /// # Errors
    /// If the engine cannot be inspected.
    pub(super) fn segments(&self) -> Result<Vec<(SegmentInfo, PathBuf)>> {
        let table = self.table()?;
        let segments = self.inspect()?.segments.into_iter().filter(|segment| segment.table == table.physical);
        let file = |segment: &SegmentInfo| self.folder.join("seg").join(format!("{:016x}.parquet", segment.id));
        let with_file = |segment: SegmentInfo| {
            let file = file(&segment);
            (segment, file)
        };
        let mut segments: Vec<_> = segments.map(with_file).collect();
        segments.sort_by(|(a, _), (b, _)| a.first_key.cmp(&b.first_key));
        Ok(segments)
    }

    /// Bytes of rows in memtables.
    pub(super) fn memtable_bytes(&self) -> u64 {
        self.engine.memory_bytes()
    }
}

/// The mutations that update a row: those of the two columns that change.
fn updated_row(table: &Table, row: &Reading) -> Result<RowMutation> {
    let changed = [("temperature", Value::Float(row.temperature)), ("signal", Value::Int(row.signal.into()))];
    let set = changed.into_iter().map(|(name, value)| {
        let column = table.column(name).context("the column is not there")?;
        let ColumnPlace::Cell { family, qualifier, encoding } = &column.place else {
            bail!("{name} is a part of the key");
        };
        let value = mapping::encode(&value, column.kind, encoding)?;
        let qualifier = Bytes::copy_from_slice(qualifier.as_bytes());
        Ok(Mutation::SetCell { family: family.clone(), qualifier, timestamp: None, value })
    });
    Ok(RowMutation { key: table.key.encode(&row.key())?, mutations: set.collect::<Result<_>>()? })
}

async fn write(store: &TenantStore, table: &Arc<Table>, rows: Vec<RowMutation>) -> Result<()> {
    let rows = rows.into_iter().map(|row| (table.clone(), row)).collect();
    store.commit(&store.pin().await?, Writes { rows, ..Writes::default() }).await?;
    Ok(())
}

/// Runs statements as a connection does, without the wire; returns the rows of the last.
///
/// # Errors
/// The error of the first statement that fails.
pub(super) async fn run(session: &mut Session, sql: &str) -> Result<Vec<RecordBatch>> {
    let mut batches = Vec::new();
    for statement in Statement::parse(sql)? {
        let prepared = session.prepare(statement, &[]).await?;
        batches = match session.execute(&prepared, Vec::new()).await? {
            Outcome::Rows { rows, .. } | Outcome::CopyOut { rows, .. } => rows.try_collect().await?,
            Outcome::Found { rows, .. } => rows.into_batches().try_collect().await?,
            Outcome::CopyIn(_) | Outcome::Done(_) | Outcome::Empty => Vec::new(),
        };
    }
    Ok(batches)
}

/// Writes rows of one cell each, durably, by `writers` concurrent tasks; each waits for its write before the next.
///
/// # Errors
/// Those of the store.
pub(super) async fn write_singly(open: &OpenStore, writers: u64, writes: u64, first: u64) -> Result<()> {
    let (table, tenants) = (open.table()?, tenants()?);
    let tenant = tenants.first().context("a tenant")?;
    let writer = |writer: u64| {
        let (store, table, span) = (open.store().clone(), table.clone(), span(tenant));
        tokio::spawn(async move {
            for number in 0..writes {
                // The key sorts after all devices, and its time is not that of any row.
                let at = i64::try_from(first + writer * writes + number)?;
                let key = [Value::Text("writer".to_owned()), Value::Timestamp(at)];
                let key = RowKey::new([&span[..], table.key.encode(&key)?.bytes()].concat())?;
                let row = Reading { device: 0, at, ..Reading::default() };
                let mutations = updated_row(&table, &row)?.mutations;
                store.mutate_row(&table.physical, key, mutations).await?;
            }
            Ok(())
        })
    };
    let ended = stream::iter((0..writers).map(writer)).buffer_unordered(writers.max(1) as usize);
    ended.map(|ended| ended.context("a writer ended")?).try_collect::<()>().await
}
