//! Tables on a server: what is read and written there, and what is refused.

use super::super::testing::{World, check, run};
use crate::{execute::Outcome, session::Session, sql::ast::Statement};
use expect_test::expect;
use keyspan_storage::{
    Family, FamilyName, GcRule, Mutation, RowKey, Store, StoreExt, SystemClock, TableName, TableSchema,
    memory::MemoryStore,
};
use std::sync::Arc;

#[tokio::test]
async fn a_table_there_reads_and_writes_as_one_here() {
    let world = World::with_server().await;
    let mut alto = world.tenant("alto");
    check(
        &mut alto,
        "INSERT INTO r VALUES ('a', 1, 'x');
         INSERT INTO r VALUES ('b', 2, 'y'), ('c', 3, 'z');
         INSERT INTO r VALUES ('a', 5, 'x') ON CONFLICT (k) DO NOTHING;
         INSERT INTO r VALUES ('a', 5, 'x') ON CONFLICT (k) DO UPDATE SET n = r.n + excluded.n;
         INSERT INTO r (k, n) VALUES ('b', 7), ('d', 8) ON CONFLICT (k) DO UPDATE SET n = excluded.n;
         UPDATE r SET n = n + 10 WHERE k = 'c';
         SELECT * FROM r ORDER BY k;
         SET keyspan.pushdown = off; SELECT * FROM r WHERE k >= 'c' ORDER BY k; RESET keyspan.pushdown;
         DELETE FROM r WHERE k = 'd';
         DELETE FROM r WHERE n > 6;
         SELECT count(*) FROM r;
         INSERT INTO t VALUES ('a', 1); SELECT r.k, r.s, t.n FROM r JOIN t USING (k)",
        expect![[r#"
            INSERT 0 1
            INSERT 0 2
            INSERT 0 0
            INSERT 0 1
            INSERT 0 2
            UPDATE 1
            a|6|x
            b|7|y
            c|13|z
            d|8|∅
            SET
            c|13|z
            d|8|∅
            RESET
            DELETE 1
            DELETE 2
            1
            INSERT 0 1
            a|x|1"#]],
    )
    .await;
    check(&mut world.tenant("altostrat"), "SELECT * FROM r", expect!["(no rows)"]).await;
    check(&mut world.operator(), "SELECT * FROM r", expect!["alto|a|6|x"]).await;
}

#[tokio::test]
async fn several_rows_are_changed_one_by_one_or_not_at_all() {
    let world = World::with_server().await;
    let mut alto = world.tenant("alto");
    check(
        &mut alto,
        "INSERT INTO r VALUES ('a', 1), ('b', 2), ('c', 3); SHOW keyspan.transactions; UPDATE r SET n = n + 1",
        expect![[r#"
            INSERT 0 3
            commit
            0A000 changing several rows of table "r" as one is not supported (Its rows are on a server, which is atomic by row.)"#]],
    )
    .await;
    check(
        &mut alto,
        "MERGE INTO r USING (VALUES ('a', 5), ('z', 6)) v (k, n) ON r.k = v.k
         WHEN MATCHED THEN UPDATE SET n = v.n WHEN NOT MATCHED THEN INSERT (k, n) VALUES (v.k, v.n)",
        expect![[r#"0A000 changing several rows of table "r" as one is not supported (Its rows are on a server, which is atomic by row.)"#]],
    )
    .await;
    check(
        &mut alto,
        "SET keyspan.transactions = 'row'; UPDATE r SET n = n + 1; RESET keyspan.transactions;
         UPDATE r SET n = n + 1 WHERE n = 2; SELECT k, n FROM r ORDER BY k",
        expect![[r#"
            SET
            UPDATE 3
            RESET
            UPDATE 1
            a|3
            b|3
            c|4"#]],
    )
    .await;
    assert_eq!(run(&mut alto, "SET keyspan.transactions = 'both'").await.split(' ').next(), Some("22023"));
}

#[tokio::test]
async fn a_transaction_writes_one_row_there() {
    let world = World::with_server().await;
    let mut alto = world.tenant("alto");
    check(
        &mut alto,
        "INSERT INTO r VALUES ('a', 1), ('b', 2);
         BEGIN; UPDATE r SET n = n + 1 WHERE k = 'a'; UPDATE r SET n = n * 10 WHERE k = 'a'; SELECT n FROM r ORDER BY k; COMMIT;
         SELECT n FROM r ORDER BY k; BEGIN; UPDATE r SET n = 0 WHERE k = 'a'; ROLLBACK; SELECT n FROM r WHERE k = 'a'",
        expect![[r#"
            INSERT 0 2
            BEGIN
            UPDATE 1
            UPDATE 1
            20
            2
            COMMIT
            20
            2
            BEGIN
            UPDATE 1
            ROLLBACK
            20"#]],
    )
    .await;
    for (sql, refused) in [
        ("BEGIN; UPDATE r SET n = 7 WHERE k = 'a'; UPDATE r SET n = 7 WHERE k = 'b'", "changing several rows"),
        ("BEGIN; INSERT INTO t VALUES ('a', 1); UPDATE r SET n = 7 WHERE k = 'b'", "writing here and on a server"),
        ("BEGIN; UPDATE r SET n = 7 WHERE k = 'b'; INSERT INTO t VALUES ('a', 1)", "writing here and on a server"),
        ("BEGIN; UPDATE r SET n = 7 WHERE k = 'b'; CREATE TABLE own (a int); COMMIT", "rows of several servers"),
        ("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM r", "a state of table"),
        ("BEGIN; SELECT * FROM r FOR UPDATE", "FOR UPDATE of table"),
        (
            "BEGIN; ROLLBACK; SET keyspan.transactions = 'row'; UPDATE r SET k = 'z' WHERE k = 'a'",
            "changing the primary key",
        ),
        ("RESET keyspan.transactions; BEGIN; ROLLBACK; TRUNCATE r", "TRUNCATE of table"),
        ("BEGIN; ROLLBACK; DELETE FROM r WHERE k = 'a' ERASE", "DELETE … ERASE of table"),
    ] {
        let told = run(&mut alto, sql).await;
        let last = told.lines().last().unwrap_or_default();
        assert!(last.starts_with("0A000") && last.contains(refused), "{sql}: {told}");
        run(&mut alto, "ROLLBACK").await;
    }
    check(
        &mut alto,
        "SELECT n FROM r ORDER BY k; SET keyspan.transactions = 'row';
         BEGIN; UPDATE r SET n = n + 1 WHERE k = 'a'; UPDATE r SET n = n + 1 WHERE k = 'b'; COMMIT; SELECT n FROM r ORDER BY k",
        expect![[r#"
            20
            2
            SET
            BEGIN
            UPDATE 1
            UPDATE 1
            COMMIT
            21
            3"#]],
    )
    .await;
}

#[tokio::test]
async fn servers_are_the_operators() {
    let world = World::with_server().await;
    let (mut alto, mut operator) = (world.tenant("alto"), world.operator());
    let create = "CREATE SERVER x FOREIGN DATA WRAPPER bigtable OPTIONS (project 'p', instance 'i')";
    assert_eq!(run(&mut alto, create).await.split(' ').next(), Some("42501"));
    assert_eq!(run(&mut alto, "DROP SERVER bt").await.split(' ').next(), Some("42501"));
    assert_eq!(
        run(&mut alto, "CREATE TABLE own (k text PRIMARY KEY) SERVER bt").await.split(' ').next(),
        Some("0A000")
    );
    for (sql, told) in [
        ("CREATE SERVER bt FOREIGN DATA WRAPPER bigtable OPTIONS (project 'p', instance 'i')", "42710"),
        ("CREATE SERVER IF NOT EXISTS bt FOREIGN DATA WRAPPER bigtable OPTIONS (project 'p', instance 'i')", "CREATE"),
        ("CREATE SERVER x FOREIGN DATA WRAPPER bigtable OPTIONS (project 'p')", "42P16"),
        ("CREATE SERVER x FOREIGN DATA WRAPPER bigtable OPTIONS (project 'p', instance 'i/../j')", "42P16"),
        ("CREATE SERVER x FOREIGN DATA WRAPPER other", "42704"),
        ("CREATE TABLE u (k text PRIMARY KEY) SERVER other", "42704"),
        ("CREATE TABLE u (k text PRIMARY KEY, n bigint) WITH (history = '7 days') SERVER bt", "0A000"),
        ("CREATE TABLE u (k text PRIMARY KEY, n bigint, FAMILY m (n)) WITH (m.aggregate = hll) SERVER bt", "0A000"),
        ("ALTER TABLE r DROP COLUMN n", "0A000"),
        ("ALTER TABLE r SET (history = '7 days')", "0A000"),
        ("DROP SERVER bt", "2BP01"),
        ("DROP SERVER IF EXISTS other", "DROP"),
        ("DROP SERVER other", "42704"),
        ("ALTER TABLE r ADD COLUMN more text", "ALTER"),
        ("DROP TABLE r; DROP SERVER bt", "DROP"),
    ] {
        let answer = run(&mut operator, sql).await;
        assert_eq!(answer.split(' ').next(), Some(told), "{sql}: {answer}");
    }
    assert_eq!(run(&mut alto, "SELECT * FROM r").await.split(' ').next(), Some("42P01"));
}

fn family(name: &str) -> FamilyName {
    FamilyName::new(name).unwrap()
}

/// A store with a table `metrics` that others made, and rows of theirs.
async fn others() -> Arc<dyn Store> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Box::new(SystemClock)));
    let rule = |gc| Family { gc, aggregate: None };
    let schema = TableSchema::of([(family("m"), rule(GcRule::MaxVersions(2))), (family("x"), rule(GcRule::KeepAll))]);
    let metrics = TableName::new("metrics").unwrap();
    store.create_table(&metrics, schema).await.unwrap();
    for (key, cpu) in [("alto#h1", "0.5"), ("alto#h2", "oops"), ("altostrat#h1", "0.75"), ("no tenant", "1")] {
        let set = |family_name: &str, qualifier: &'static str, value: &str| Mutation::SetCell {
            family: family(family_name),
            qualifier: qualifier.into(),
            timestamp: Some(1_000),
            value: value.to_owned().into(),
        };
        let mutations = vec![set("m", "cpu", cpu), set("x", "note", "theirs")];
        store.mutate_row(&metrics, RowKey::new(key).unwrap(), mutations).await.unwrap();
    }
    store
}

async fn stored(store: &Arc<dyn Store>) -> (Vec<String>, usize) {
    let metrics = TableName::new("metrics").unwrap();
    let families = store.table(&metrics).await.unwrap().families.into_keys().map(|name| name.to_string()).collect();
    (families, store.read_rows(&metrics, keyspan_storage::Scan::all()).await.unwrap().len())
}

#[tokio::test]
async fn a_found_table_is_not_ours() {
    let store = others().await;
    let world = World::with_server_at(store.clone()).await;
    let (mut operator, mut alto) = (world.operator(), world.tenant("alto"));
    let create =
        "CREATE FOREIGN TABLE found (host text, load float8 OPTIONS (family 'm', qualifier 'cpu', encoding 'text'),
        PRIMARY KEY (host)) SERVER bt OPTIONS (table 'metrics', on_bad_value 'null')";
    assert_eq!(run(&mut operator, create).await, "CREATE FOREIGN TABLE");
    check(
        &mut alto,
        "SELECT * FROM found ORDER BY host; SELECT host FROM found WHERE load > 0.1; INSERT INTO found VALUES ('h3', 1)",
        expect![[r#"
            h1|0.5
            h2|∅
            h1
            0A000 cannot change foreign table "found" (It was found on a server, and is only read.)"#]],
    )
    .await;
    check(
        &mut operator,
        "SELECT tenant, host, load FROM found ORDER BY 1, 2; SHOW CREATE TABLE found",
        expect![[r#"
            alto|h1|0.5
            alto|h2|∅
            altostrat|h1|0.75
            found|CREATE FOREIGN TABLE found (
                host text,
                load double precision OPTIONS (family 'm', qualifier 'cpu', encoding 'text'),
                PRIMARY KEY (host)
            ) SERVER bt OPTIONS (table 'metrics', key_encoding 'delimited', on_bad_value 'null')"#]],
    )
    .await;
    for (sql, told) in [
        ("ALTER TABLE found ADD FAMILY more", "0A000"),
        ("ALTER TABLE found SET (m.max_versions = 1)", "0A000"),
        ("ALTER TABLE found DROP COLUMN load", "0A000"),
        ("DELETE FROM found", "0A000"),
        ("TRUNCATE found", "0A000"),
        ("ALTER TABLE found ADD COLUMN note text FAMILY x", "ALTER"),
        (
            "CREATE FOREIGN TABLE u (k text, v text OPTIONS (family 'none'), PRIMARY KEY (k)) SERVER bt OPTIONS (table 'metrics')",
            "42703",
        ),
        ("CREATE FOREIGN TABLE u (k text, PRIMARY KEY (k)) SERVER bt OPTIONS (table 'none')", "42P01"),
        ("CREATE FOREIGN TABLE u (k text, PRIMARY KEY (k)) SERVER none OPTIONS (table 'metrics')", "42704"),
        (
            "CREATE FOREIGN TABLE u (k text, PRIMARY KEY (k)) SERVER bt OPTIONS (table 'metrics', escape 'none', key_encoding 'ordered')",
            "22023",
        ),
        ("CREATE FOREIGN TABLE u (k text, PRIMARY KEY (k)) SERVER bt OPTIONS (table 'metrics', colour 'red')", "HV00D"),
        (
            "CREATE FOREIGN TABLE u (k text, PRIMARY KEY (k)) SERVER bt OPTIONS (table 'metrics', on_drop 'delete')",
            "22023",
        ),
    ] {
        let answer = run(&mut operator, sql).await;
        assert_eq!(answer.split(' ').next(), Some(told), "{sql}: {answer}");
    }
    assert_eq!(run(&mut alto, "SELECT note FROM found WHERE host = 'h1'").await, "theirs");
    // Neither a drop of a tenant, nor of the table, nor another start changes anything there.
    drop(alto);
    assert_eq!(run(&mut operator, "DROP DATABASE alto; DROP TABLE found").await, "DROP DATABASE\nDROP TABLE");
    world.instance.catalog.finish_servers().await.unwrap();
    assert_eq!(stored(&store).await, (vec!["m".to_owned(), "x".to_owned()], 4));
    assert_eq!(run(&mut operator, "SELECT rows FROM keyspan.drops").await, "0");
}

#[tokio::test]
async fn keys_that_others_write_are_read_as_they_are() {
    let store = others().await;
    let metrics = TableName::new("metrics").unwrap();
    for key in ["alto#New York#9#a b#c", "alto#New York#10#x", "alto#a!#1#x", "alto#a#01#x"] {
        let value = Mutation::SetCell {
            family: family("m"),
            qualifier: "cpu".into(),
            timestamp: Some(1_000),
            value: "1".into(),
        };
        store.mutate_row(&metrics, RowKey::new(key).unwrap(), vec![value]).await.unwrap();
    }
    let world = World::with_server_at(store).await;
    let create =
        "CREATE FOREIGN TABLE metrics (city text, n int, host text, cpu text OPTIONS (family 'm', encoding 'text'),
        PRIMARY KEY (city, n, host)) SERVER bt OPTIONS (escape 'none', writable 'true')";
    assert_eq!(run(&mut world.operator(), create).await, "CREATE FOREIGN TABLE");
    let mut alto = world.tenant("alto");
    for pushdown in ["on", "off"] {
        run(&mut alto, &format!("SET keyspan.pushdown = {pushdown}")).await;
        check(
            &mut alto,
            "SELECT city, n, host FROM metrics ORDER BY city, n, host;
             SELECT n FROM metrics WHERE city = 'New York' ORDER BY n LIMIT 1;
             SELECT n, host FROM metrics WHERE city = 'New York' AND n > 9;
             SELECT host FROM metrics WHERE city = 'New York' AND n = 9 AND host = 'a b#c';
             SELECT count(*) FROM metrics WHERE city = 'New#York'; SELECT max(n), min(city) FROM metrics;
             SELECT DISTINCT city FROM metrics ORDER BY city DESC; SELECT city FROM metrics WHERE city < 'b'",
            expect![[r#"
                New York|9|a b#c
                New York|10|x
                a!|1|x
                9
                10|x
                a b#c
                0
                10|New York
                a!
                New York
                New York
                New York
                a!"#]],
        )
        .await;
    }
    check(
        &mut alto,
        "INSERT INTO metrics VALUES ('Rio', 7, 'c#d', '2'); UPDATE metrics SET cpu = '3' WHERE city = 'Rio';
         SELECT * FROM metrics WHERE city = 'Rio'",
        expect![[r#"
            INSERT 0 1
            UPDATE 1
            Rio|7|c#d|3"#]],
    )
    .await;
    let told = run(&mut alto, "INSERT INTO metrics VALUES ('a#b', 7, 'c', '2')").await;
    assert!(told.starts_with("22P02 the key's column \"city\" cannot hold"), "{told}");
    assert!(run(&mut world.operator(), "SHOW CREATE TABLE metrics").await.contains("key_encoding 'plain'"));
    let here = "CREATE TABLE u (k text PRIMARY KEY, n int) WITH (key_encoding = 'plain')";
    assert_eq!(run(&mut world.operator(), here).await.split(' ').next(), Some("0A000"));
}

#[tokio::test]
async fn a_found_table_may_be_written() {
    let store = others().await;
    let world = World::with_server_at(store.clone()).await;
    let (mut operator, mut alto) = (world.operator(), world.tenant("alto"));
    let create =
        "CREATE FOREIGN TABLE metrics (host text, cpu text OPTIONS (family 'm', qualifier 'cpu', encoding 'text'),
        PRIMARY KEY (host)) SERVER bt OPTIONS (writable 'true', on_drop 'delete')";
    assert_eq!(run(&mut operator, create).await, "CREATE FOREIGN TABLE");
    assert_eq!(stored(&store).await.0, ["_", "m", "x"]);
    check(
        &mut alto,
        "INSERT INTO metrics VALUES ('h1', 'taken')",
        expect![[
            r#"23505 duplicate key value violates unique constraint "metrics_pkey" (Key (host)=(h1) already exists.)"#
        ]],
    )
    .await;
    check(
        &mut alto,
        "INSERT INTO metrics VALUES ('h3', '3'); UPDATE metrics SET cpu = '0.6' WHERE host = 'h1';
         DELETE FROM metrics WHERE host = 'h2'; SELECT * FROM metrics ORDER BY host",
        expect![[r#"
            INSERT 0 1
            UPDATE 1
            DELETE 1
            h1|0.6
            h3|3"#]],
    )
    .await;
    drop(alto);
    assert_eq!(run(&mut operator, "DROP DATABASE alto").await, "DROP DATABASE");
    assert_eq!(stored(&store).await.1, 2, "those of the other tenant, and of none");
    run(&mut operator, "DROP TABLE metrics; DROP SERVER IF EXISTS none").await;
    assert_eq!(stored(&store).await, (vec!["_".to_owned(), "m".to_owned(), "x".to_owned()], 2));
}

#[tokio::test]
async fn psql_lists_servers_and_their_tables() {
    let world = World::with_server().await;
    let listed =
        "SELECT srvname, fdwname, srvoptions FROM pg_foreign_server s JOIN pg_foreign_data_wrapper f ON f.oid = srvfdw;
        SELECT relname, srvname, ftoptions FROM pg_foreign_table JOIN pg_class c ON c.oid = ftrelid
        JOIN pg_foreign_server s ON s.oid = ftserver";
    check(
        &mut world.operator(),
        listed,
        expect![[r#"
            bt|bigtable|[project=p, instance=i, app_profile=sql]
            r|bt|[table=r-16388]"#]],
    )
    .await;
    check(
        &mut world.tenant("alto"),
        listed,
        expect![[r#"
            bt|bigtable|∅
            r|bt|∅"#]],
    )
    .await;
    // What pg_dump asks: it leaves out what belongs to the extension.
    check(
        &mut world.tenant("alto"),
        "SELECT oid < 16384, fdwname, fdwhandler::pg_catalog.regproc, fdwacl, acldefault('F', fdwowner) IS NULL,
             array_to_string(ARRAY(SELECT quote_ident(option_name) || ' ' || quote_literal(option_value)
             FROM pg_options_to_table(fdwoptions) ORDER BY option_name), ',') FROM pg_foreign_data_wrapper;
         SELECT srvname, srvtype, srvacl, array_to_string(ARRAY(SELECT quote_ident(option_name) || ' ' ||
             quote_literal(option_value) FROM pg_options_to_table(srvoptions) ORDER BY option_name), ',')
         FROM pg_foreign_server;
         SELECT count(*) FROM pg_depend JOIN pg_foreign_server s ON s.oid = objid WHERE classid = 1417 AND deptype = 'e'",
        expect![[r#"
            true|bigtable|0|∅|false|
            bt|∅|∅|
            1"#]],
    )
    .await;
    let again = run(&mut world.operator(), "SHOW CREATE TABLE r").await;
    assert!(again.contains("CREATE TABLE r (") && again.ends_with(" SERVER bt"), "{again}");
    let own = run(&mut world.tenant("alto"), "SHOW CREATE TABLE r").await;
    assert!(own.contains("CREATE TABLE r (") && !own.contains("SERVER"), "{own}");
}

#[tokio::test]
async fn a_dropped_tenant_leaves_nothing_there() {
    let world = World::with_server().await;
    run(&mut world.tenant("alto"), "INSERT INTO r VALUES ('a', 1)").await;
    run(&mut world.tenant("altostrat"), "INSERT INTO r VALUES ('a', 2)").await;
    check(
        &mut world.operator(),
        "DROP DATABASE alto; SELECT tenant, rows FROM keyspan.drops; SELECT tenant, n FROM r",
        expect![[r#"
            DROP DATABASE
            alto|1
            altostrat|2"#]],
    )
    .await;
    assert!(world.instance.catalog.purge(&keyspan_storage::SystemClock).await.is_ok(), "the rest is purged here");
}

/// The command tag of a COPY into `r`, or its error with the detail.
async fn copied(session: &mut Session, text: &str) -> String {
    let statement = Statement::parse("COPY r FROM STDIN").unwrap().swap_remove(0);
    let prepared = session.prepare(statement, &[]).await.unwrap();
    let Outcome::CopyIn(mut copy) = session.execute(&prepared, Vec::new()).await.unwrap() else { panic!("no COPY") };
    let done = match copy.take(session, text.as_bytes()).await {
        Ok(()) => copy.finish(session).await,
        Err(error) => Err(error),
    };
    done.unwrap_or_else(|error| format!("{} {}", error.state.0, error.detail.unwrap_or_default()))
}

#[tokio::test]
async fn parts_of_a_copy_are_written_while_the_next_is_read() {
    let world = World::with_server().await;
    let mut alto = world.tenant("alto");
    // Of two cells each, so that a part has 49,999.
    let rows = |numbers: std::ops::Range<u32>| -> String {
        numbers.map(|number| format!("k{number:06}\t{number}\tx\n")).collect()
    };
    assert_eq!(copied(&mut alto, &rows(0..120_000)).await, "COPY 120000");
    let of_part_before = rows(200_000..250_000) + &rows(249_990..250_010);
    let told = "COPY stores large data in parts: the first 49999 rows are stored.";
    assert_eq!(copied(&mut alto, &of_part_before).await, format!("23505 Key (k)=(k249990) already exists. {told}"));
    let unreadable = rows(300_000..350_001) + "x\ty\tz\n";
    assert_eq!(copied(&mut alto, &unreadable).await, format!("22P02 {told}"));
    assert_eq!(run(&mut alto, "SELECT count(*), count(DISTINCT n), max(k) FROM r").await, "219998|219998|k349998");
}

#[tokio::test]
async fn keys_are_looked_up_where_others_are_between_them() {
    let world = World::with_server().await;
    let mut alto = world.tenant("alto");
    for (text, told) in [
        ("b\t1\tx\nd\t2\tx\n", "COPY 2"),
        ("a\t1\tx\nc\t2\tx\ne\t3\tx\n", "COPY 3"),
        ("f\t1\tx\ne\t1\tx\n", "23505 Key (k)=(e) already exists."),
        ("a\t1\tx\n", "23505 Key (k)=(a) already exists."),
        ("f\t1\tx\nf\t1\tx\n", "23505 Key (k)=(f) already exists."),
        ("f\t1\tx\n", "COPY 1"),
    ] {
        assert_eq!(copied(&mut alto, text).await, told, "{text}");
    }
    assert_eq!(run(&mut alto, "SELECT string_agg(k, '' ORDER BY k) FROM r").await, "abcdef");
}

#[tokio::test]
async fn a_large_tenant_there_is_not_read_to_be_dropped() {
    let world = World::with_server().await;
    for (tenant, rows) in [("alto", 300), ("altostrat", 3)] {
        let sql = format!(
            "SET keyspan.transactions = 'row';
             INSERT INTO r SELECT lpad(n::text, 4, '0'), n, repeat('x', 400000) FROM generate_series(1, {rows}) n"
        );
        run(&mut world.tenant(tenant), &sql).await;
    }
    let mut operator = world.operator();
    check(
        &mut operator,
        "EXPLAIN DROP DATABASE altostrat",
        expect![[r#"
            Drop Database altostrat (dry run: nothing is changed)
              t: 0 rows, 0 cells, 0 bytes
              r: 3 rows, 6 cells, 1200129 bytes, on server bt
            Total: 1 tables, 3 rows, 6 cells, 1200129 bytes
            Left to Bigtable: deleted bytes stay in Bigtable's files for up to a week, in backups of its tables until these expire, in change streams for as long as they are kept, and a table that was deleted before can be undeleted for a week"#]],
    )
    .await;
    // 64 MiB of these rows are counted, 167.
    check(&mut operator, "EXPLAIN DROP DATABASE alto", expect![[r#"
        Drop Database alto (dry run: nothing is changed)
          t: 0 rows, 0 cells, 0 bytes
          r: about 297 rows, 594 cells, 119614359 bytes, on server bt
        Total: 1 tables, about 297 rows, 594 cells, 119614359 bytes
        Left to Bigtable: deleted bytes stay in Bigtable's files for up to a week, in backups of its tables until these expire, in change streams for as long as they are kept, and a table that was deleted before can be undeleted for a week"#]]).await;
    check(
        &mut operator,
        "DROP DATABASE alto; SELECT tables, rows, cells, bytes, left_to_bigtable <> '', contents::jsonb -> 'by_table',
             contents::jsonb ->> 'counted' FROM keyspan.drops; SELECT count(*) FROM r",
        expect![[r#"
            DROP DATABASE
            1|297|594|119614359|true|[{"oid": 16388, "kind": "shared", "rows": 297, "bytes": 119614359, "cells": 594, "table": "r", "server": "bt", "counted": "about", "history_rows": 0, "history_bytes": 0}]|about
            3"#]],
    )
    .await;
    let certificate = world.instance.catalog.snapshot().drops[0].to_json();
    assert!(
        certificate.contains(r#""counted": "about""#) && certificate.contains("\"left_to_bigtable\": \"deleted bytes")
    );
}

#[tokio::test]
async fn what_stays_on_a_server_is_named_by_the_certificate() {
    let world = World::with_server_at(others().await).await;
    let mut operator = world.operator();
    run(
        &mut operator,
        "CREATE FOREIGN TABLE metrics (host text, cpu text OPTIONS (family 'm'), PRIMARY KEY (host)) SERVER bt",
    )
    .await;
    check(
        &mut operator,
        "EXPLAIN DROP DATABASE alto; DROP DATABASE alto; SELECT contents::jsonb -> 'stays_in' FROM keyspan.drops",
        expect![[r#"
            Drop Database alto (dry run: nothing is changed)
              t: 0 rows, 0 cells, 0 bytes
              r: 0 rows, 0 cells, 0 bytes, on server bt
              metrics: found on a server, where its rows stay
            Total: 0 tables, 0 rows, 0 cells, 0 bytes
            Left to Bigtable: deleted bytes stay in Bigtable's files for up to a week, in backups of its tables until these expire, in change streams for as long as they are kept, and a table that was deleted before can be undeleted for a week
            DROP DATABASE
            ["metrics"]"#]],
    )
    .await;
}
