//! Enumerated types where their order, their labels or their names could be lost: writes of every kind, conditions of
//! tables, COPY, parameters, copies of tenants, restarts. `slt/postgres/enums.slt` has what PostgreSQL answers.

use super::{
    command::Serving,
    harness::{Harness, PASSWORD, connect, error, rows},
};
use anyhow::Result;
use futures::SinkExt;
use rustix::process::Signal;
use std::pin::pin;
use tokio_postgres::Client;

const MADE: &str = "
    CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
    CREATE TABLE people (id int PRIMARY KEY, m mood, d mood NOT NULL DEFAULT 'ok');
    INSERT INTO people VALUES (1, 'happy'), (2, 'sad'), (3, 'ok'), (4, NULL)";
const IN_ORDER: &str = "SELECT id || ' ' || coalesce(m::text, '-') FROM people ORDER BY m, id";

/// The SQLSTATE of a statement that fails.
async fn state(client: &Client, sql: &str) -> String {
    error(client, sql).await.chars().take(5).collect()
}

#[tokio::test]
async fn no_write_leaves_what_is_no_label() -> Result<()> {
    let harness = Harness::start().await?;
    let client = harness.tenant("alto").await?;
    client.batch_execute(MADE).await?;
    client
        .batch_execute("CREATE TABLE keyed (m mood PRIMARY KEY, n mood); CREATE TABLE texts (id int, t text)")
        .await?;
    client.batch_execute("INSERT INTO texts VALUES (1, 'glad'); INSERT INTO keyed VALUES ('ok', 'ok')").await?;
    for sql in [
        "INSERT INTO people VALUES (9, 'glad')",
        "INSERT INTO people VALUES (8, 'ok'), (9, 'glad')",
        "INSERT INTO people SELECT 9, t FROM texts",
        "INSERT INTO people SELECT i, CASE i WHEN 2000 THEN 'glad' ELSE 'ok' END FROM generate_series(9, 2000) AS g(i)",
        "INSERT INTO people VALUES (1, 'ok') ON CONFLICT (id) DO UPDATE SET m = 'glad'",
        "INSERT INTO people VALUES (1, 'glad') ON CONFLICT (id) DO NOTHING",
        "UPDATE people SET m = 'glad'",
        "UPDATE people SET m = 'glad' WHERE id = 1",
        "UPDATE people SET m = t FROM texts WHERE people.id = texts.id",
        "UPDATE keyed SET m = 'glad'",
        "INSERT INTO keyed VALUES ('glad', 'ok')",
        "INSERT INTO keyed VALUES ('ok', 'glad') ON CONFLICT (m) DO UPDATE SET n = excluded.n",
        "MERGE INTO people p USING texts t ON p.id = t.id WHEN MATCHED THEN UPDATE SET m = t.t",
        "MERGE INTO people p USING texts t ON p.id = t.id + 100 WHEN NOT MATCHED THEN INSERT VALUES (9, t.t)",
        "ALTER TABLE people ADD COLUMN e mood DEFAULT 'glad'",
        "ALTER TABLE people ALTER COLUMN d SET DEFAULT 'glad'",
    ] {
        assert_eq!(state(&client, sql).await, "22P02", "{sql}");
    }
    for given in ["ok", "glad"] {
        let made = client.execute("INSERT INTO people VALUES ($1, $2)", &[&20_i32, &given]).await;
        assert_eq!(made.is_ok(), given == "ok");
        let made = client.execute("UPDATE people SET m = $1 WHERE id = 20", &[&given]).await;
        assert_eq!(made.is_ok(), given == "ok");
        let found = client.query("SELECT id FROM people WHERE m = $1", &[&given]).await;
        assert_eq!(found.is_ok(), given == "ok");
        let mut sink = pin!(client.copy_in("COPY people (id, m) FROM STDIN").await?);
        sink.send(bytes::Bytes::from(format!("21\t{given}\n"))).await?;
        assert_eq!(sink.finish().await.is_ok(), given == "ok");
    }
    client.batch_execute("DELETE FROM people WHERE id > 4").await?;
    assert_eq!(rows(&client, IN_ORDER).await?, ["2 sad", "3 ok", "1 happy", "4 -"]);
    Ok(())
}

#[tokio::test]
async fn conditions_and_written_rows_know_the_order() -> Result<()> {
    let harness = Harness::start().await?;
    let client = harness.tenant("alto").await?;
    client.batch_execute(MADE).await?;
    client.batch_execute("ALTER TABLE people ADD CONSTRAINT c CHECK (m >= 'ok' OR id < 10)").await?;
    // `happy` comes before `ok` as a text, and `sad` behind it.
    client.batch_execute("INSERT INTO people VALUES (10, 'happy')").await?;
    assert_eq!(state(&client, "INSERT INTO people VALUES (11, 'sad')").await, "23514");
    assert_eq!(state(&client, "UPDATE people SET m = 'sad' WHERE id = 10").await, "23514");
    client.batch_execute("ALTER TABLE people ADD CONSTRAINT e CHECK (d < 'happy'::mood)").await?;
    client.batch_execute("ALTER TYPE mood RENAME TO feeling").await?;
    assert_eq!(state(&client, "UPDATE people SET d = 'happy' WHERE id = 10").await, "23514");
    let condition = "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'e'";
    assert_eq!(rows(&client, condition).await?, ["CHECK ((d < 'happy'::feeling))"]);
    client.batch_execute("ALTER TYPE feeling RENAME TO mood").await?;
    let returned = "UPDATE people SET m = 'happy' WHERE id = 1 RETURNING m > 'ok', greatest(m, d)::text";
    assert_eq!(rows(&client, returned).await?, ["t|happy"]);
    let upsert = |label: &str| {
        format!(
            "INSERT INTO people VALUES (2, '{label}') ON CONFLICT (id) DO UPDATE SET m = excluded.m
             WHERE excluded.m > people.m RETURNING m::text"
        )
    };
    assert_eq!(rows(&client, &upsert("happy")).await?, ["happy"]);
    assert_eq!(rows(&client, &upsert("ok")).await?, Vec::<String>::new());
    let merge = "MERGE INTO people p USING (SELECT 3 AS id, 'happy'::mood AS m) s ON p.id = s.id
                 WHEN MATCHED AND s.m > p.m THEN UPDATE SET m = s.m";
    client.batch_execute(merge).await?;
    assert_eq!(rows(&client, "SELECT m::text FROM people WHERE id = 3").await?, ["happy"]);
    client.batch_execute("DELETE FROM people WHERE m < 'ok'").await?;
    assert_eq!(rows(&client, IN_ORDER).await?, ["1 happy", "2 happy", "3 happy", "10 happy", "4 -"]);
    // What has no order of its own here is refused, not answered by texts.
    for sql in [
        "SELECT mode() WITHIN GROUP (ORDER BY m) FROM people",
        "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY m) FROM people HAVING count(*) > 0",
        "SELECT max(m) OVER () FROM people",
        "SELECT '{ok}'::mood[]",
    ] {
        assert_eq!(state(&client, sql).await, "0A000", "{sql}");
    }
    Ok(())
}

#[tokio::test]
async fn statements_that_were_prepared_see_new_labels() -> Result<()> {
    let harness = Harness::start().await?;
    let (client, other) = (harness.tenant("alto").await?, harness.connect("alto", "alto").await?);
    client.batch_execute(MADE).await?;
    let (sorted, above) = (client.prepare(IN_ORDER).await?, "SELECT id FROM people WHERE m > $1 ORDER BY id");
    let above = client.prepare(above).await?;
    assert_eq!(client.query(&above, &[&"ok"]).await?.len(), 1);
    other.batch_execute("ALTER TYPE mood ADD VALUE 'fine' AFTER 'ok'; INSERT INTO people VALUES (5, 'fine')").await?;
    let found = client.query(&sorted, &[]).await?;
    let found: Vec<&str> = found.iter().map(|row| row.get(0)).collect();
    assert_eq!(found, ["2 sad", "3 ok", "5 fine", "1 happy", "4 -"]);
    assert_eq!(client.query(&above, &[&"ok"]).await?.len(), 2);
    assert_eq!(client.query(&above, &[&"fine"]).await?.len(), 1);
    for sql in [
        "SELECT id FROM people WHERE coalesce(m, $1) >= 'ok'",
        "SELECT id FROM people WHERE m IN ($1, 'happy', 'fine') OR m = $1",
        "SELECT id FROM people WHERE CASE WHEN id > 0 THEN m ELSE $1 END BETWEEN $1 AND 'happy'",
    ] {
        assert_eq!(client.query(sql, &[&"ok"]).await?.len(), if sql.contains("coalesce") { 4 } else { 3 }, "{sql}");
        let refused = client.query(sql, &[&"glad"]).await.unwrap_err();
        assert_eq!(refused.code().unwrap().code(), "22P02", "{sql}");
    }
    assert_eq!(client.prepare("SELECT m FROM people").await?.columns()[0].type_().name(), "mood");
    Ok(())
}

#[tokio::test]
async fn copies_of_a_tenant_have_types_of_their_own() -> Result<()> {
    let harness = Harness::start().await?;
    let (client, operator) = (harness.tenant("alto").await?, harness.operator().await?);
    client.batch_execute(MADE).await?;
    client
        .batch_execute(
            "CREATE VIEW some AS SELECT id, 'ok'::mood AS k FROM people WHERE m > 'sad'::mood;
             ALTER TABLE people ADD CHECK (m <> 'sad'::mood OR id < 9);
             CREATE MATERIALIZED VIEW kept AS SELECT m FROM people WHERE m IS NOT NULL",
        )
        .await?;
    drop(client);
    operator.batch_execute("CREATE DATABASE brio TEMPLATE alto").await?;
    operator.batch_execute("GRANT CONNECT ON DATABASE brio TO alto").await?;
    let copy = harness.connect("alto", "brio").await?;
    operator.batch_execute("DROP DATABASE alto").await?;
    copy.batch_execute("ALTER TYPE mood RENAME TO feeling; ALTER TYPE feeling ADD VALUE 'best'").await?;
    assert_eq!(rows(&copy, "SELECT id || k::text FROM some ORDER BY id").await?, ["1ok", "3ok"]);
    assert_eq!(rows(&copy, "SELECT m::text AS s FROM kept ORDER BY m").await?, ["sad", "ok", "happy"]);
    copy.batch_execute("INSERT INTO people VALUES (5, 'best')").await?;
    assert_eq!(state(&copy, "INSERT INTO people VALUES (9, 'sad')").await, "23514");
    assert_eq!(rows(&copy, IN_ORDER).await?, ["2 sad", "3 ok", "1 happy", "5 best", "4 -"]);
    let of =
        "SELECT count(DISTINCT atttypid), count(DISTINCT t.oid) FROM pg_attribute a JOIN pg_type t ON t.oid = atttypid
              WHERE typtype = 'e'";
    assert_eq!(rows(&copy, of).await?, ["1|1"]);
    assert_eq!(state(&copy, "DROP TYPE feeling").await, "2BP01");
    copy.batch_execute("DROP MATERIALIZED VIEW kept; DROP TABLE people CASCADE; DROP TYPE feeling").await?;
    Ok(())
}

#[tokio::test]
async fn only_the_owner_changes_a_type() -> Result<()> {
    let harness = Harness::start().await?;
    let (client, operator) = (harness.tenant("alto").await?, harness.operator().await?);
    client.batch_execute(MADE).await?;
    operator.batch_execute(&format!("CREATE ROLE other LOGIN PASSWORD '{PASSWORD}'")).await?;
    operator.batch_execute("GRANT CONNECT ON DATABASE alto TO other").await?;
    let other = harness.connect("other", "alto").await?;
    for sql in ["DROP TYPE mood", "ALTER TYPE mood ADD VALUE 'x'", "ALTER TYPE mood RENAME TO y"] {
        let told = error(&other, sql).await;
        assert!(told.starts_with("42501") && told.contains("must be owner of type mood"), "{told}");
    }
    assert_eq!(state(&other, "CREATE TYPE mine AS ENUM ('a')").await, "42501");
    assert_eq!(rows(&other, "SELECT 'ok'::mood::text").await?, ["ok"]);
    assert_eq!(state(&client, "ALTER TYPE mood OWNER TO other").await, "42501");
    operator.batch_execute("GRANT other TO alto").await?;
    client.batch_execute("GRANT CREATE ON SCHEMA public TO other").await?;
    client.batch_execute("ALTER TYPE mood OWNER TO other").await?;
    other.batch_execute("ALTER TYPE mood ADD VALUE 'x'; CREATE TYPE mine AS ENUM ('a')").await?;
    let owners = "SELECT typname, pg_get_userbyid(typowner) FROM pg_type WHERE typtype = 'e' ORDER BY 1";
    assert_eq!(rows(&other, owners).await?, ["mine|other", "mood|other"]);
    let stored = "SELECT attstorage FROM pg_attribute WHERE attrelid = 'v'::regclass AND attname = 'm'";
    client.batch_execute("CREATE VIEW v AS SELECT m FROM people").await?;
    assert_eq!(rows(&client, stored).await?, ["p"]);
    assert_eq!(state(&operator, "CREATE TYPE mood AS ENUM ('a')").await, "0A000");
    Ok(())
}

#[tokio::test]
async fn types_outlive_a_kill() -> Result<()> {
    let store = tempfile::tempdir()?;
    let serving = Serving::start(store.path(), Some(PASSWORD)).await?;
    let mut config = serving.config(PASSWORD);
    connect(&config).await?.batch_execute("CREATE DATABASE alto").await?;
    let client = connect(config.dbname("alto")).await?;
    client.batch_execute(MADE).await?;
    client
        .batch_execute("ALTER TYPE mood ADD VALUE 'awful' BEFORE 'sad'; INSERT INTO people VALUES (6, 'awful')")
        .await?;
    serving.signal(Signal::KILL).await?;
    let serving = Serving::start(store.path(), Some(PASSWORD)).await?;
    let client = connect(serving.config(PASSWORD).dbname("alto")).await?;
    assert_eq!(rows(&client, IN_ORDER).await?, ["6 awful", "2 sad", "3 ok", "1 happy", "4 -"]);
    assert_eq!(state(&client, "INSERT INTO people VALUES (9, 'glad')").await, "22P02");
    serving.signal(Signal::TERM).await?;
    Ok(())
}
