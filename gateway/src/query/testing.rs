//! What tests of queries share: a parser, and queries over a small catalog without a store.

use super::schemas::Rows;
use crate::context::{StatementContext, introspection::NoObjects};
use arrow::{array::RecordBatch, datatypes::SchemaRef};
use datafusion::{
    datasource::MemTable,
    execution::{SessionStateBuilder, memory_pool::FairSpillPool, runtime_env::RuntimeEnvBuilder},
    prelude::SessionContext,
    sql::sqlparser::{ast::Statement, dialect::PostgreSqlDialect, parser::Parser},
};
use futures::TryStreamExt;
use keyspan_catalog::{
    Column, ColumnPlace, Encoding, KeyEncoding, KeyPart, KeySchema, Quotas, Role, Snapshot, SqlType, Table,
    TableFamily, TableId, Tenant, TenantId, TenantState,
};
use std::{collections::BTreeMap, sync::Arc};

/// The time of every test: 2013-01-02 03:04:05 UTC.
pub(crate) const NOW: i64 = 1_357_095_845_000_000;

/// Parses one statement.
pub(crate) fn parse(sql: &str) -> Statement {
    let parsed = Parser::parse_sql(&PostgreSqlDialect {}, sql);
    parsed.unwrap_or_else(|error| panic!("{sql}: {error}")).swap_remove(0)
}

fn column(id: u16, name: &str, kind: SqlType, key: Option<usize>) -> Column {
    let place = match key {
        Some(part) => ColumnPlace::Key(part),
        None => ColumnPlace::Cell {
            family: keyspan_storage::FamilyName::new("m").unwrap(),
            qualifier: name.into(),
            encoding: Encoding::Binary,
        },
    };
    Column {
        id,
        name: name.into(),
        kind,
        not_null: key.is_some(),
        place,
        default: None,
        identity: None,
        enumerated: None,
        domain: None,
    }
}

/// A catalog with the table `flights`, the tenants `ua` and `aa`, and the roles `keyspan` and `ana` (of `ua`).
pub(crate) fn snapshot() -> Snapshot {
    let part = |name: &str, kind, descending: bool| KeyPart { name: name.into(), kind, order: descending.into() };
    let columns = vec![
        column(1, "origin", SqlType::Text, Some(0)),
        column(2, "dest", SqlType::Text, Some(1)),
        column(3, "at", SqlType::Timestamptz(None), Some(2)),
        column(4, "flight", SqlType::Int4, None),
        column(5, "delay", SqlType::Float8, None),
        column(6, "tail", SqlType::Varchar(Some(10)), None),
        column(7, "price", SqlType::Numeric { precision: 10, scale: 2 }, None),
        column(8, "u", SqlType::Uuid, None),
        column(9, "j", SqlType::Jsonb, None),
        column(10, "n", SqlType::Int8, None),
    ];
    let key = KeySchema {
        encoding: KeyEncoding::Delimited,
        parts: vec![
            part("origin", SqlType::Text, false),
            part("dest", SqlType::Text, false),
            part("at", SqlType::Timestamptz(None), true),
        ],
        salt: 0,
        with_tenant: false,
    };
    let family = TableFamily {
        id: keyspan_catalog::FamilyId(1),
        name: keyspan_storage::FamilyName::new("m").unwrap(),
        gc: keyspan_storage::GcRule::MaxVersions(1),
        aggregate: None,
    };
    let table = Table {
        id: TableId(16_400),
        name: "flights".into(),
        schema: keyspan_catalog::rights::PUBLIC_SCHEMA,
        physical: keyspan_storage::TableName::new("t16400").unwrap(),
        space: None,
        remote: None,
        checks: Vec::new(),
        families: vec![family],
        columns,
        key,
        on_bad_value: keyspan_catalog::table::OnBadValue::Error,
        on_bad_key: keyspan_catalog::table::OnBadKey::Skip,
        history_micros: None,
        next_column_id: 11,
        next_family_id: 2,
        retired: Vec::new(),
        erasing: Vec::new(),
        comments: keyspan_catalog::Comments::default(),
    };
    let tenant = |id: &str, oid, owner| {
        let id = TenantId::new(id).unwrap();
        (
            id.clone(),
            Arc::new(Tenant {
                id,
                oid,
                state: TenantState::Active,
                created_micros: NOW,
                quotas: Quotas::default(),
                settings: Default::default(),
                owner: Some(owner),
                comment: None,
            }),
        )
    };
    let role = |name: &str, oid, operator, connect: &[&str]| {
        let connect = connect.iter().map(|id| TenantId::new(id).unwrap()).collect();
        (name.to_owned(), Arc::new(Role { name: name.into(), oid, login: true, operator, connect, ..Role::default() }))
    };
    Snapshot {
        version: 7,
        next_oid: 16_500,
        tenants: [tenant("ua", 16_390, 16_392), tenant("aa", 16_391, 16_393)].into(),
        tables: [(table.id, Arc::new(table))].into(),
        private: BTreeMap::new(),
        temporary: Arc::default(),
        protos: BTreeMap::new(),
        servers: BTreeMap::new(),
        roles: [
            role("keyspan", 16_384, true, &[]),
            role("ana", 16_392, false, &["ua"]),
            role("bob", 16_393, false, &["aa"]),
        ]
        .into(),
        erasures: keyspan_catalog::Erasures::new(),
        drops: Vec::new(),
        mock_nonce: None,
        ..Snapshot::default()
    }
}

/// What a statement knows in database `ua` as `ana`, or in `keyspan` as the operator.
pub(crate) fn statement_context(operator: bool) -> StatementContext {
    let (role, database) = if operator { ("keyspan", "keyspan") } else { ("ana", "ua") };
    StatementContext {
        cancelled: crate::pg::cancel_flag::CancelFlag::default(),
        role: role.into(),
        database: database.into(),
        tenant: (!operator).then(|| TenantId::new(database).unwrap()),
        operator,
        process_id: 42,
        now_micros: NOW,
        transaction_micros: NOW,
        snapshot: Arc::new(snapshot()),
        settings: BTreeMap::from([("search_path".to_owned(), "\"$user\", public".to_owned())]),
        rows: None,
        objects: Arc::new(NoObjects),
        conditions: Arc::default(),
        style: Arc::default(),
        path: Arc::default(),
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
    }
}

/// A session with this context.
pub(crate) fn session(operator: bool) -> SessionContext {
    super::contexts::context(
        Arc::new(statement_context(operator)),
        Rows(Arc::new(|table, _| {
            let fields = table.columns.iter().map(|column| crate::pg::types::field_of(&column.name, column.kind, true));
            let schema = crate::pg::fields::schema(fields.collect());
            let rows = rows(&schema);
            Ok(Arc::new(MemTable::try_new(schema, vec![vec![rows]])?))
        })),
    )
}

/// Two rows of `flights`.
fn rows(schema: &SchemaRef) -> RecordBatch {
    let texts: [[&str; 10]; 2] = [
        [
            "EWR",
            "IAH",
            "2013-01-01 05:15:00Z",
            "1545",
            "2",
            "N14228",
            "10.50",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "{\"a\": 1}",
            "9223372036854775807",
        ],
        [
            "LGA",
            "IAH",
            "2013-01-01 05:29:00Z",
            "2147483647",
            "-4.5",
            "N24211",
            "0.10",
            "b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "{}",
            "1",
        ],
    ];
    let columns = schema.fields().iter().enumerate().map(|(index, field)| {
        let column: arrow::array::StringViewArray = texts.iter().map(|row| Some(row[index])).collect();
        crate::pg::plan::casts::convert(&(Arc::new(column) as _), field, crate::pg::datetime::Input::initial()).unwrap()
    });
    RecordBatch::try_new(schema.clone(), columns.collect()).unwrap()
}

/// Plans and runs a query; the columns with their types, then the rows, as PostgreSQL prints them, or the error.
pub(crate) async fn answer(
    context: &SessionContext,
    sql: &str,
) -> crate::pg::error::Result<(SchemaRef, Vec<Vec<String>>)> {
    let plan = super::plan(context, parse(sql)).await?;
    let stream = super::run(context, plan).await?;
    let schema = stream.schema();
    let batches: Vec<RecordBatch> = stream.try_collect().await?;
    let mut out = Vec::new();
    for batch in batches {
        let columns = batch
            .columns()
            .iter()
            .map(|column| crate::pg::codec::print::texts(column, crate::pg::datetime::Style::initial()));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            let value = |column: &arrow::array::StringViewArray| {
                if arrow::array::Array::is_null(column, row) { "NULL".to_owned() } else { column.value(row).to_owned() }
            };
            out.push(columns.iter().map(value).collect());
        }
    }
    Ok((schema, out))
}

/// A tenant's session that has so much memory, and small batches. A sort of it keeps `aside_bytes` to merge with.
pub(crate) fn scarce(memory_bytes: usize, batch_rows: usize, aside_bytes: usize) -> SessionContext {
    let state = session(false).state();
    let mut config = state.config().clone().with_batch_size(batch_rows);
    config.options_mut().execution.sort_spill_reservation_bytes = aside_bytes;
    let pool = Arc::new(FairSpillPool::new(memory_bytes));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc().expect("a runtime");
    let state = SessionStateBuilder::new_from_existing(state).with_config(config).with_runtime_env(runtime);
    SessionContext::new_with_state(state.build())
}

/// The answer as text: one line for the columns as `name:type`, one for each row; or SQLSTATE and message.
pub(crate) async fn shown(context: &SessionContext, sql: &str) -> String {
    match answer(context, sql).await {
        Ok((schema, rows)) => {
            let names: Vec<_> = schema
                .fields()
                .iter()
                .map(|field| format!("{}:{}", field.name(), crate::pg::types::pg_type(field).name()))
                .collect();
            let lines = rows.iter().map(|row| row.join(" | "));
            std::iter::once(names.join(" | ")).chain(lines).collect::<Vec<_>>().join("\n")
        }
        Err(error) => format!("{} {}", error.state.0, error.message),
    }
}
