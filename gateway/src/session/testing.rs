//! What tests of sessions share: a server without a wire, mostly over the memory store, and statements with what they
//! were told.

use super::{Prepared, Session};
use crate::execute::Outcome;
use crate::pg::types::ParameterType;
use crate::{
    identity::{Checked, Identity},
    instance::Instance,
    sql::ast::Statement,
};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::scalar::ScalarValue;
use expect_test::Expect;
use futures::TryStreamExt;
use keyspan_catalog::{Catalog, TenantStore};
use keyspan_storage::{
    Clock, Store, SystemClock,
    engine::{Engine, EngineOptions},
    memory::MemoryStore,
};
use std::sync::Arc;

/// A clock that is shared.
#[derive(Debug)]
struct Told(Arc<dyn Clock>);

impl Clock for Told {
    fn now_micros(&self) -> i64 {
        self.0.now_micros()
    }
}

/// A server without a wire.
pub(crate) struct World {
    pub(crate) instance: Arc<Instance>,
    /// Where its store has its files, if it has some.
    _folder: Option<tempfile::TempDir>,
}

impl World {
    /// What an instance serves.
    pub(crate) fn of(instance: Instance) -> Self {
        Self { instance: Arc::new(instance), _folder: None }
    }

    /// An empty store.
    pub(crate) async fn empty() -> Self {
        Self::at(Arc::new(SystemClock)).await
    }

    /// An empty store, where a clock tells the time.
    pub(crate) async fn at(clock: Arc<dyn Clock>) -> Self {
        let store = Arc::new(MemoryStore::new(Box::new(Told(clock.clone()))));
        Self::in_store(store, clock).await
    }

    /// A store that is empty.
    pub(crate) async fn in_store(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        let catalog = Arc::new(Catalog::open(store).await.unwrap());
        Self::of(Instance { clock, ..Instance::new(catalog) })
    }

    /// An empty store of files, which knows where rows are few.
    pub(crate) async fn in_files() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let engine = Engine::open(EngineOptions::new(folder.path())).await.unwrap();
        Self { _folder: Some(folder), ..Self::in_store(engine, Arc::new(SystemClock)).await }
    }

    /// As [`new`](Self::new), with the table `r (k → n, s)` on server `bt`, which is a store in memory.
    pub(crate) async fn with_server() -> Self {
        Self::with_server_at(Arc::new(MemoryStore::new(Box::new(SystemClock)))).await
    }

    /// The same, where the server's store is given.
    pub(crate) async fn with_server_at(there: Arc<dyn Store>) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let here = Arc::new(MemoryStore::new(Box::new(SystemClock)));
        let catalog = Catalog::open_with_servers(here, move |_| Ok(there.clone())).await.unwrap();
        let world = Self::of(Instance { clock, ..Instance::new(Arc::new(catalog)) });
        let sql = "CREATE DATABASE alto; CREATE DATABASE altostrat;
            CREATE TABLE t (k text PRIMARY KEY, n bigint);
            CREATE SERVER bt FOREIGN DATA WRAPPER bigtable OPTIONS (project 'p', instance 'i', app_profile 'sql');
            CREATE TABLE r (k text PRIMARY KEY, n bigint, s text) SERVER bt";
        let made = "CREATE DATABASE\nCREATE DATABASE\nCREATE TABLE\nCREATE SERVER\nCREATE TABLE";
        assert_eq!(run(&mut world.operator(), sql).await, made);
        world
    }

    /// Tenants `alto` and `altostrat`, and the table `t (a, b → n, s, c)`.
    pub(crate) async fn new() -> Self {
        let world = Self::empty().await;
        let sql = "CREATE DATABASE alto; CREATE DATABASE altostrat;
            CREATE TABLE t (a text, b int, n bigint, s varchar(3), c bigint, PRIMARY KEY (a, b), FAMILY m (n, s), FAMILY k (c))
            WITH (m.max_versions = 2, k.aggregate = sum)";
        assert_eq!(run(&mut world.operator(), sql).await, "CREATE DATABASE\nCREATE DATABASE\nCREATE TABLE");
        world
    }

    pub(crate) fn operator(&self) -> Session {
        let rows = TenantStore::of_operator(self.instance.catalog.store().clone());
        let identity = Identity {
            role: "keyspan".into(),
            role_oid: None,
            operator: true,
            database: "keyspan".into(),
            rows,
            checked: Checked::default(),
        };
        Session::new(self.instance.clone(), identity, 1)
    }

    /// Drops a tenant that sessions are connected to, as if they had logged in while it was dropped.
    pub(crate) async fn drop_tenant(&self, name: &str) {
        let id = keyspan_catalog::TenantId::new(name).unwrap();
        let now = self.instance.clock.now_micros();
        self.instance.catalog.drop_tenant(&id, "keyspan", now).await.unwrap();
    }

    pub(crate) fn tenant(&self, name: &str) -> Session {
        let snapshot = self.instance.catalog.snapshot();
        let rows = TenantStore::of_session(self.instance.catalog.store().clone(), snapshot.tenant(name).unwrap());
        let identity = Identity {
            role: "ana".into(),
            role_oid: None,
            operator: false,
            database: name.into(),
            rows,
            checked: Checked::default(),
        };
        Session::new(self.instance.clone(), identity, 2)
    }
}

/// Runs statements and shows what each gave, up to the first error.
pub(crate) async fn run(session: &mut Session, sql: &str) -> String {
    let statements = match Statement::parse_in(sql, &session.identity.database) {
        Ok(statements) => statements,
        Err(error) => return shown_error(&error),
    };
    let mut shown = Vec::new();
    for statement in statements {
        match one(session, statement).await {
            Ok(text) => shown.push(text),
            Err(error) => {
                session.failed();
                shown.push(shown_error(&error));
                break;
            }
        }
    }
    shown.join("\n")
}

fn shown_error(error: &crate::pg::error::SqlError) -> String {
    let detail = error.detail.as_ref().map(|detail| format!(" ({detail})")).unwrap_or_default();
    format!("{} {}{detail}", error.state.0, error.message)
}

async fn one(session: &mut Session, statement: Statement) -> crate::pg::error::Result<String> {
    let prepared = session.prepare_once(statement).await?;
    shown(session, &prepared, Vec::new()).await
}

async fn shown(
    session: &mut Session,
    prepared: &Prepared,
    parameters: Vec<ScalarValue>,
) -> crate::pg::error::Result<String> {
    match session.execute(prepared, parameters).await?.in_batches() {
        Outcome::Empty => Ok(String::new()),
        Outcome::Done(tag) => Ok(tag),
        Outcome::Found { .. } => unreachable!("all rows are in batches"),
        Outcome::CopyIn(_) => Ok("COPY FROM STDIN".to_owned()),
        Outcome::Rows { rows, .. } | Outcome::CopyOut { rows, .. } => {
            let mut lines = Vec::new();
            let batches: Vec<_> = rows.try_collect().await.map_err(crate::pg::error::SqlError::from)?;
            for batch in batches {
                let options = FormatOptions::default().with_null("∅");
                let columns: Vec<_> =
                    batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
                for row in 0..batch.num_rows() {
                    let cells: Vec<String> = columns.iter().map(|column| column.value(row).to_string()).collect();
                    lines.push(cells.join("|"));
                }
            }
            Ok(if lines.is_empty() { "(no rows)".to_owned() } else { lines.join("\n") })
        }
    }
}

/// Runs a statement that was prepared and shows what it gave.
pub(crate) async fn run_prepared(session: &mut Session, prepared: &Prepared, parameters: Vec<ScalarValue>) -> String {
    let shown = shown(session, prepared, parameters).await;
    shown.unwrap_or_else(|error| {
        session.failed();
        shown_error(&error)
    })
}

/// Runs a statement with values for its parameters and shows what it gave.
pub(crate) async fn run_with(session: &mut Session, sql: &str, parameters: Vec<ScalarValue>) -> String {
    let statement = Statement::parse(sql).unwrap().swap_remove(0);
    let types = |types: &[ParameterType]| types.iter().map(|kind| kind.data.to_string()).collect::<Vec<_>>().join(", ");
    match session.prepare(statement, &[]).await {
        Ok(prepared) => {
            let shown = shown(session, &prepared, parameters).await;
            let shown = shown.unwrap_or_else(|error| shown_error(&error));
            format!("({})\n{shown}", types(&prepared.parameters))
        }
        Err(error) => shown_error(&error),
    }
}

pub(crate) async fn check(session: &mut Session, sql: &str, expected: Expect) {
    expected.assert_eq(&run(session, sql).await);
}
