//! What tests of scans share: tables of several key schemas over a memory store, with rows of two tenants.

mod files;

use crate::{
    context::{StatementContext, introspection::NoObjects},
    pg::error::SqlError,
    provider::loose_scan::LooseScans,
    query::{
        self,
        explain::{ExplainOptions, explain},
    },
    view::View,
};
use arrow::array::RecordBatch;
use bytes::Bytes;
use datafusion::{
    execution::SessionStateBuilder, physical_optimizer::PhysicalOptimizerRule, physical_plan::execute_stream,
    prelude::SessionContext,
};
use files::FileStore;
use futures::TryStreamExt;
use keyspan_catalog::{
    Column, ColumnPlace, Encoding, FamilyId, KeyEncoding, KeyPart, KeySchema, Snapshot, SqlType, Table, TableFamily,
    TableId, TenantId, TenantStore, Value,
    layouts::{layout_of, private_layout, private_section},
    mapping,
    table::{MARKER_FAMILY, MARKER_QUALIFIER, OnBadKey, OnBadValue},
};
use keyspan_storage::{
    Commit, Family, FamilyName, GcRule, Layout, Layouts, Mutation, RowKey, RowMutation, Store, TableName, TableSchema,
    Write, clock::ManualClock, memory::MemoryStore,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The store's clock, in microseconds.
pub(super) const NOW: i64 = 1_357_095_845_000_000;

pub(super) fn part(name: &str, kind: SqlType, descending: bool) -> KeyPart {
    KeyPart { name: name.into(), kind, order: descending.into() }
}

/// A table whose key is `parts` and whose other columns are `cells`: name, type, family.
pub(super) fn table(
    name: &str,
    encoding: KeyEncoding,
    parts: Vec<KeyPart>,
    cells: &[(&str, SqlType, &str)],
) -> Arc<Table> {
    let mut columns: Vec<Column> = Vec::new();
    let mut families: Vec<TableFamily> = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        let place = ColumnPlace::Key(number);
        columns.push(Column {
            id: 0,
            name: part.name.clone(),
            kind: part.kind,
            not_null: true,
            place,
            default: None,
            identity: None,
            enumerated: None,
            domain: None,
        });
    }
    for (name, kind, family) in cells {
        let family = FamilyName::new(family).unwrap();
        if families.iter().all(|known| known.name != family) {
            let id = FamilyId(families.len() as u32);
            families.push(TableFamily { id, name: family.clone(), gc: GcRule::MaxVersions(3), aggregate: None });
        }
        let place = ColumnPlace::Cell { family, qualifier: (*name).into(), encoding: Encoding::Binary };
        columns.push(Column {
            id: 0,
            name: (*name).into(),
            kind: *kind,
            not_null: false,
            place,
            default: None,
            identity: None,
            enumerated: None,
            domain: None,
        });
    }
    for (at, column) in columns.iter_mut().enumerate() {
        column.id = at as u16 + 1;
    }
    Arc::new(Table {
        id: TableId(16_400 + name.bytes().map(u32::from).sum::<u32>()),
        name: name.into(),
        schema: keyspan_catalog::rights::PUBLIC_SCHEMA,
        physical: TableName::new(&format!("t-{name}")).unwrap(),
        space: None,
        remote: None,
        checks: Vec::new(),
        families,
        columns,
        key: KeySchema { encoding, parts, salt: 0, with_tenant: false },
        on_bad_value: OnBadValue::Error,
        on_bad_key: OnBadKey::Skip,
        history_micros: None,
        next_column_id: 100,
        next_family_id: 100,
        retired: Vec::new(),
        erasing: Vec::new(),
        comments: keyspan_catalog::Comments::default(),
    })
}

/// The same table, changed.
pub(super) fn with(table: &Arc<Table>, change: impl FnOnce(&mut Table)) -> Arc<Table> {
    let mut changed = Table::clone(table);
    change(&mut changed);
    Arc::new(changed)
}

/// `flights`: delimited, the last part descending.
pub(super) fn flights() -> Arc<Table> {
    let key = vec![
        part("origin", SqlType::Text, false),
        part("dest", SqlType::Text, false),
        part("at", SqlType::Timestamptz(None), true),
        part("flight", SqlType::Int4, false),
    ];
    let cells =
        [("delay", SqlType::Float8, "delays"), ("tail", SqlType::Text, "plane"), ("seats", SqlType::Int4, "plane")];
    table("flights", KeyEncoding::Delimited, key, &cells)
}

/// `things`: ordered, with types that delimited keys do not have.
pub(super) fn things() -> Arc<Table> {
    let key = vec![
        part("kind", SqlType::Int2, true),
        part("on_sale", SqlType::Bool, false),
        part("price", SqlType::Numeric { precision: 10, scale: 2 }, false),
        part("weight", SqlType::Float8, true),
        part("code", SqlType::Bytea, false),
        part("day", SqlType::Date, false),
    ];
    table("things", KeyEncoding::Ordered, key, &[("note", SqlType::Text, "m")])
}

/// `names`: ordered, one descending text.
pub(super) fn names() -> Arc<Table> {
    table("names", KeyEncoding::Ordered, vec![part("name", SqlType::Text, true)], &[("n", SqlType::Int8, "m")])
}

fn family(name: &str) -> FamilyName {
    FamilyName::new(name).unwrap()
}

fn mutation(key: Vec<u8>, cells: Vec<(FamilyName, Bytes, Bytes)>) -> RowMutation {
    let set = |(family, qualifier, value)| Mutation::SetCell { family, qualifier, timestamp: None, value };
    RowMutation { key: RowKey::new(key).unwrap(), mutations: cells.into_iter().map(set).collect() }
}

/// The layouts of tables.
#[derive(Debug)]
struct LaidOut(Vec<Arc<Table>>);

impl Layouts for LaidOut {
    fn layout(&self, table: &TableName, keys: &[&[u8]], end: Option<&[u8]>) -> Option<Arc<Layout>> {
        let mut sections: Vec<&[u8]> = keys.iter().filter_map(|key| self.section(table, key)).collect();
        sections.dedup();
        if !sections.is_empty() {
            let tenants = sections.iter().filter_map(|section| std::str::from_utf8(section).ok()?.split('#').next());
            let tenants: BTreeSet<&str> = tenants.collect();
            let sections_of = |tenant: &str| {
                let section = |known: &Arc<Table>| Some(Bytes::from(format!("{tenant}#{}#", known.space?)));
                self.0.iter().filter_map(|known| Some((section(known)?, known.as_ref()))).collect::<Vec<_>>()
            };
            let first = sections.first().copied().unwrap_or_default();
            let is_between = |section: &[u8]| section >= first && end.is_none_or(|end| section < end);
            let tables = tenants.into_iter().flat_map(sections_of).filter(|(section, _)| is_between(section));
            return private_layout(keys, tables).map(Arc::new);
        }
        self.0.iter().find(|known| known.physical == *table).map(|table| Arc::new(layout_of(table)))
    }

    fn section<'a>(&self, table: &TableName, key: &'a [u8]) -> Option<&'a [u8]> {
        let known = self.0.iter().find(|known| known.physical == *table)?;
        if known.is_private() { private_section(key) } else { None }
    }
}

/// A store with the tables and the snapshot that shows them.
pub(super) struct World {
    store: Arc<dyn Store>,
    snapshot: Arc<Snapshot>,
}

impl World {
    /// The tables, without rows.
    pub(super) async fn of(tables: Vec<Arc<Table>>) -> Self {
        Self::in_store(Arc::new(MemoryStore::new(Box::new(ManualClock::new(NOW)))), tables).await
    }

    /// The tables, without rows, in a store with a fast path.
    pub(super) async fn with_files(tables: Vec<Arc<Table>>) -> Self {
        let store = FileStore::new(MemoryStore::new(Box::new(ManualClock::new(NOW))));
        store.set_layouts(Arc::new(LaidOut(tables.clone())));
        Self::in_store(Arc::new(store), tables).await
    }

    /// The tables, without rows, in an engine.
    pub(super) async fn in_engine(engine: Arc<dyn Store>, tables: Vec<Arc<Table>>) -> Self {
        engine.set_layouts(Arc::new(LaidOut(tables.clone())));
        Self::in_store(engine, tables).await
    }

    /// The tables in an engine that has them.
    pub(super) fn in_engine_again(engine: Arc<dyn Store>, tables: Vec<Arc<Table>>) -> Self {
        engine.set_layouts(Arc::new(LaidOut(tables.clone())));
        Self::over(engine, tables)
    }

    async fn in_store(store: Arc<dyn Store>, tables: Vec<Arc<Table>>) -> Self {
        for (at, table) in tables.iter().enumerate() {
            // Private tables are one of the store; the first has all families.
            if tables[..at].iter().any(|other| other.physical == table.physical) {
                continue;
            }
            let of =
                |table: &TableFamily| (table.name.clone(), Family { gc: table.gc.clone(), aggregate: table.aggregate });
            let mut families: BTreeMap<_, _> = table.families.iter().map(of).collect();
            families.insert(family(MARKER_FAMILY), Family { gc: GcRule::MaxVersions(1), aggregate: None });
            store.create_table(&table.physical, TableSchema::of(families)).await.unwrap();
        }
        Self::over(store, tables)
    }

    fn over(store: Arc<dyn Store>, tables: Vec<Arc<Table>>) -> Self {
        let tables = tables.into_iter().map(|table| (table.id, table)).collect();
        Self { store, snapshot: Arc::new(Snapshot { tables, ..Snapshot::default() }) }
    }

    pub(super) fn table(&self, name: &str) -> &Arc<Table> {
        self.snapshot.table(name).unwrap()
    }

    /// Deletes rows by their keys in the store.
    pub(super) async fn delete(&self, table: &str, keys: impl IntoIterator<Item = Vec<u8>>) {
        let physical = self.table(table).physical.clone();
        let row = |key| RowMutation { key: RowKey::new(key).unwrap(), mutations: vec![Mutation::DeleteFromRow] };
        let writes = keys.into_iter().map(|key| Write::Row { table: physical.clone(), row: row(key) });
        self.store.commit(Commit { writes: writes.collect(), validation: None }).await.unwrap();
    }

    /// Writes a row of a tenant: values of the columns in order.
    pub(super) async fn insert(&self, table: &str, tenant: &str, values: &[Value]) {
        let (key, cells) = self.row(table, tenant, values);
        self.write(table, &key, cells).await;
    }

    /// The key of the store of a tenant's row.
    pub(super) fn key(&self, table: &str, tenant: &str, values: &[Value]) -> Vec<u8> {
        let table = self.table(table);
        let key = table.key.encode(&values[..table.key.parts.len()]).unwrap();
        let space = table.space.map(|space| format!("{space}#")).unwrap_or_default();
        [tenant.as_bytes(), b"#", space.as_bytes(), &key].concat()
    }

    /// The key of the store and the cells of a row.
    fn row(&self, table: &str, tenant: &str, values: &[Value]) -> (Vec<u8>, Vec<(FamilyName, Bytes, Bytes)>) {
        let key = self.key(table, tenant, values);
        let table = self.table(table);
        let parts = table.key.parts.len();
        let mut cells = vec![(family(MARKER_FAMILY), Bytes::from_static(MARKER_QUALIFIER), Bytes::new())];
        for (column, value) in table.columns.iter().zip(values).skip(parts) {
            if let ColumnPlace::Cell { family, qualifier, encoding } = &column.place
                && *value != Value::Null
            {
                let bytes = mapping::encode(value, column.kind, encoding).unwrap();
                cells.push((family.clone(), qualifier.clone().into(), bytes));
            }
        }
        (key, cells)
    }

    /// Writes many rows of a tenant at once.
    pub(super) async fn insert_all(&self, table: &str, tenant: &str, rows: impl IntoIterator<Item = Vec<Value>>) {
        let rows = rows.into_iter().map(|values| self.row(table, tenant, &values));
        let physical = self.table(table).physical.clone();
        let write = |(key, cells): (Vec<u8>, Vec<_>)| Write::Row { table: physical.clone(), row: mutation(key, cells) };
        let writes = rows.map(write).collect();
        self.store.commit(Commit { writes, validation: None }).await.unwrap();
    }

    /// Writes cells under a key of the store.
    pub(super) async fn write(&self, table: &str, key: &[u8], cells: Vec<(FamilyName, Bytes, Bytes)>) {
        let row = mutation(key.to_vec(), cells);
        self.store.commit(Commit::row(self.table(table).physical.clone(), row.key, row.mutations)).await.unwrap();
    }

    /// What a tenant sees, or the operator.
    pub(super) async fn view(&self, tenant: Option<&str>, pushdown: bool) -> View {
        let rows = match tenant {
            Some(tenant) => TenantStore::of_tenant(Arc::clone(&self.store), TenantId::new(tenant).unwrap()),
            None => TenantStore::of_operator(Arc::clone(&self.store)),
        };
        let pin = rows.pin().await.unwrap();
        View {
            snapshot: Arc::clone(&self.snapshot),
            pin,
            rows,
            buffered: Arc::default(),
            pushdown,
            columnar: true,
            as_of: None,
            memory: None,
            budget: None,
            path: Arc::default(),
            input: crate::pg::datetime::OwnedInput::default(),
            relied: crate::view::Relied::None,
            isolated: false,
        }
    }

    /// A session of a tenant, or of the operator.
    pub(super) async fn session(&self, tenant: Option<&str>, pushdown: bool) -> SessionContext {
        self.session_of(self.view(tenant, pushdown).await)
    }

    /// A session with a view.
    pub(super) fn session_of(&self, view: View) -> SessionContext {
        let tenant = view.rows.tenant().map(TenantId::as_str);
        let statement = StatementContext {
            cancelled: crate::pg::cancel_flag::CancelFlag::default(),
            role: "ana".into(),
            database: tenant.unwrap_or("keyspan").into(),
            tenant: view.rows.tenant().cloned(),
            operator: tenant.is_none(),
            process_id: 1,
            now_micros: NOW,
            transaction_micros: NOW,
            snapshot: Arc::clone(&self.snapshot),
            settings: BTreeMap::new(),
            objects: Arc::new(NoObjects),
            conditions: Arc::default(),
            style: Arc::default(),
            path: Arc::default(),
            rows: None,
            last_values: Arc::default(),
            pending_settings: Arc::default(),
            pending: Arc::default(),
            ear: Arc::default(),
            advisory_locks: None,
            instance: None,
            ran: None,
            needs: Arc::default(),
            known_roles: Arc::default(),
            role_oid: None,
        };
        with_loose_scans(query::over(Arc::new(statement), &view), SMALL_GROUPS)
    }
}

/// Seeks groups of 64 rows: tables of tests are too small for the bound that ships.
const SMALL_GROUPS: LooseScans = LooseScans { group_rows_min: 64, requests_max: None };

/// The session with another rule for loose scans.
pub(super) fn with_loose_scans(context: SessionContext, rule: LooseScans) -> SessionContext {
    let state = context.state();
    let small: Arc<dyn PhysicalOptimizerRule + Send + Sync> = Arc::new(rule);
    let rules = state.physical_optimizers().iter().map(|rule| match rule.name() == small.name() {
        true => Arc::clone(&small),
        false => Arc::clone(rule),
    });
    let rules = rules.collect();
    let state = SessionStateBuilder::new_from_existing(state).with_physical_optimizer_rules(rules).build();
    SessionContext::new_with_state(state)
}

/// The answer as PostgreSQL prints it, one line for each row, in the order given; or SQLSTATE and message.
pub(super) async fn rows(context: &SessionContext, sql: &str) -> String {
    match query::testing::answer(context, sql).await {
        Ok((_, rows)) => rows.iter().map(|row| row.join(" | ")).collect::<Vec<_>>().join("\n"),
        Err(error) => format!("{} {}", error.state.0, error.message),
    }
}

/// The lines of EXPLAIN.
pub(super) async fn plan(context: &SessionContext, sql: &str, analyze: bool) -> String {
    let lines = async {
        let plan = query::plan(context, query::testing::parse(sql)).await?;
        let stream = explain(context, &plan, ExplainOptions { analyze, ..ExplainOptions::default() }).await?;
        Ok::<Vec<RecordBatch>, SqlError>(stream.try_collect().await?)
    };
    match lines.await {
        Ok(batches) => {
            let text = |batch: &RecordBatch| {
                let column = batch.column(0).as_any().downcast_ref::<arrow::array::StringViewArray>().unwrap();
                column.iter().map(|line| line.unwrap().to_owned()).collect::<Vec<_>>()
            };
            batches.iter().flat_map(text).collect::<Vec<_>>().join("\n")
        }
        Err(error) => format!("{} {}", error.state.0, error.message),
    }
}

/// The number of batches of a query, and the rows of the largest.
pub(super) async fn batches(context: &SessionContext, sql: &str) -> (usize, usize) {
    let plan = query::plan(context, query::testing::parse(sql)).await.unwrap();
    let plan = context.state().create_physical_plan(&plan).await.unwrap();
    let stream = execute_stream(plan, context.task_ctx()).unwrap();
    let batches: Vec<RecordBatch> = stream.try_collect().await.unwrap();
    (batches.len(), batches.iter().map(RecordBatch::num_rows).max().unwrap_or(0))
}
