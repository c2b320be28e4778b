//! sqlx against a server: types both ways, prepared statements, a pool, transactions, streams, errors, migrations.
//!
//! Usage: keyspan-sqlx HOST PORT DATABASE USER PASSWORD.

use bigdecimal::BigDecimal;
use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Utc};
use futures::TryStreamExt;
use sqlx::{
    Acquire, FromRow, PgPool, Row,
    postgres::{PgConnectOptions, PgPoolOptions, types::PgInterval},
};
use std::{fmt::Debug, str::FromStr};
use uuid::Uuid;

/// The version in Cargo.lock, as docs/clients.md has it.
const VERSION: &str = "0.8.6";

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn same<T: PartialEq + Debug>(what: &str, found: T, expected: T) {
    if found != expected {
        eprintln!("sqlx: {what}: expected {expected:?}, found {found:?}");
        std::process::exit(1);
    }
    println!("ok: sqlx {VERSION}: {what}");
}

/// A value there and back.
macro_rules! there_and_back {
    ($pool:expr, $($name:literal: $kind:ty = $value:expr),* $(,)?) => {
        $({
            let value: $kind = $value;
            let found: $kind = sqlx::query_scalar(concat!("SELECT $1::", $name)).bind(value.clone()).fetch_one($pool).await?;
            same($name, found, value);
            let none: Option<$kind> = sqlx::query_scalar(concat!("SELECT $1::", $name)).bind(None::<$kind>).fetch_one($pool).await?;
            same(concat!("NULL of ", $name), none, None);
        })*
    };
}

#[derive(Debug, FromRow, PartialEq)]
struct Flight {
    dest: String,
    scheduled: DateTime<Utc>,
    flight: i32,
    dep_delay: Option<i32>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [host, port, database, user, password] = arguments.as_slice() else { return Err("five arguments".into()) };
    let options = PgConnectOptions::new().host(host).port(port.parse()?).database(database).username(user).password(password);
    let pool = PgPoolOptions::new().max_connections(4).connect_with(options.clone()).await?;
    let at = DateTime::from_timestamp_micros(1_375_360_215_250_000).ok_or("a time")?;

    there_and_back!(
        &pool,
        "bool": bool = true,
        "smallint": i16 = -7,
        "integer": i32 = 70_000,
        "bigint": i64 = 7_000_000_000,
        "real": f32 = 1.5,
        "double precision": f64 = 0.1,
        "numeric(12, 2)": BigDecimal = BigDecimal::from_str("12345678.50")?,
        "text": String = "é ✈".to_owned(),
        "bytea": Vec<u8> = vec![0, 255],
        "date": NaiveDate = at.date_naive(),
        "time": NaiveTime = at.time(),
        "timestamp": NaiveDateTime = at.naive_utc(),
        "timestamptz": DateTime<Utc> = at,
        "interval": PgInterval = PgInterval { months: 14, days: 3, microseconds: 4_000_005 },
        "uuid": Uuid = Uuid::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef),
        "jsonb": serde_json::Value = serde_json::json!({"a": [1, null], "b": "x"}),
        "integer[]": Vec<i32> = vec![1, 2, 3],
        "text[]": Vec<Option<String>> = vec![Some("a,b".to_owned()), None],
        "timestamptz[]": Vec<DateTime<Utc>> = vec![at],
    );
    flights(&pool, at).await?;
    transactions(&pool).await?;
    faults(&pool).await?;
    migrations(&pool).await?;
    pool.close().await;
    Ok(())
}

const KEY: &str = "origin = 'TST' AND dest = 'RUST'";

async fn flights(pool: &PgPool, at: DateTime<Utc>) -> Result<()> {
    for flight in 0..20 {
        let sql = "INSERT INTO flights (origin, dest, scheduled, flight, dep_delay) VALUES ('TST', 'RUST', $1, $2, $3)";
        let delay = (flight % 2 == 0).then_some(flight);
        sqlx::query(sql).bind(at).bind(flight).bind(delay).execute(pool).await?;
    }
    let sql = "SELECT dest, scheduled, flight, dep_delay FROM flights WHERE origin = $1 AND flight = ANY($2) ORDER BY flight";
    let found: Vec<Flight> = sqlx::query_as(sql).bind("TST").bind(vec![2, 3]).fetch_all(pool).await?;
    let expected = [(2, Some(2)), (3, None)]
        .map(|(flight, dep_delay)| Flight { dest: "RUST".to_owned(), scheduled: at, flight, dep_delay });
    same("rows as structs", found, expected.into());
    // One connection, one statement: prepared once and run from the cache.
    let mut connection = pool.acquire().await?;
    let mut sum = 0;
    for flight in 0..5 {
        let sql = format!("SELECT flight FROM flights WHERE {KEY} AND flight = $1");
        sum += sqlx::query_scalar::<_, i32>(&sql).bind(flight).fetch_one(&mut *connection).await?;
    }
    same("a prepared statement again and again", sum, 10);
    let sql = format!("SELECT flight, count(*) OVER () AS total FROM flights WHERE {KEY} ORDER BY flight");
    let mut rows = sqlx::query(&sql).fetch(&mut *connection);
    let mut seen = Vec::new();
    while let Some(row) = rows.try_next().await? {
        seen.push((row.try_get::<i32, _>("flight")?, row.try_get::<i64, _>("total")?));
    }
    drop(rows);
    same("a stream of rows", seen, (0..20).map(|flight| (flight, 20)).collect());
    let sql = format!("UPDATE flights SET dep_delay = 1 WHERE {KEY} AND flight < 5");
    same("rows affected", sqlx::query(&sql).execute(&mut *connection).await?.rows_affected(), 5);
    let sql = format!("SELECT 1; SELECT flight FROM flights WHERE {KEY} AND flight = 7");
    let rows = sqlx::raw_sql(&sql).fetch_all(&mut *connection).await?;
    same("several statements at once", rows.len(), 2);
    Ok(())
}

async fn transactions(pool: &PgPool) -> Result<()> {
    let count = format!("SELECT count(*) FROM flights WHERE {KEY}");
    let delete = format!("DELETE FROM flights WHERE {KEY}");
    let mut transaction = pool.begin().await?;
    sqlx::query(&delete).execute(&mut *transaction).await?;
    same("its own writes", sqlx::query_scalar::<_, i64>(&count).fetch_one(&mut *transaction).await?, 0);
    transaction.rollback().await?;
    same("rollback", sqlx::query_scalar::<_, i64>(&count).fetch_one(pool).await?, 20);
    let mut transaction = pool.begin().await?;
    let mut inner = transaction.begin().await?;
    sqlx::query(&delete).execute(&mut *inner).await?;
    inner.rollback().await?;
    same("rollback to a savepoint", sqlx::query_scalar::<_, i64>(&count).fetch_one(&mut *transaction).await?, 20);
    sqlx::query(&delete).execute(&mut *transaction).await?;
    transaction.commit().await?;
    same("commit", sqlx::query_scalar::<_, i64>(&count).fetch_one(pool).await?, 0);
    Ok(())
}

async fn faults(pool: &PgPool) -> Result<()> {
    let fault = sqlx::query("SELECT nothing FROM flights").fetch_all(pool).await.err().ok_or("an error")?;
    let fault = fault.as_database_error().and_then(|error| error.code()).map(|code| code.into_owned());
    same("SQLSTATE", fault.as_deref(), Some("42703"));
    let one: i32 = sqlx::query_scalar("SELECT 1").fetch_one(pool).await?;
    same("the pool goes on", one, 1);
    Ok(())
}

async fn migrations(pool: &PgPool) -> Result<()> {
    let mut migrator = sqlx::migrate!("./migrations");
    // Nobody else migrates; there are no advisory locks.
    migrator.set_locking(false);
    migrator.run(pool).await?;
    migrator.run(pool).await?;
    let applied: Vec<i64> = sqlx::query_scalar("SELECT version FROM _sqlx_migrations WHERE success ORDER BY version").fetch_all(pool).await?;
    same("migrations", applied, vec![1, 2]);
    sqlx::query("INSERT INTO sqlx_notes (id, note, at) VALUES (1, 'x', now())").execute(pool).await?;
    same("the migrated table", sqlx::query("SELECT at FROM sqlx_notes").fetch_all(pool).await?.len(), 1);
    for table in ["sqlx_notes", "_sqlx_migrations"] {
        sqlx::query(&format!("DROP TABLE {table}")).execute(pool).await?;
    }
    Ok(())
}
