//! What a statement may be.

use super::{Sessions, answer, check};
use anyhow::Result;
use expect_test::expect;

#[tokio::test]
async fn semantics_10_definitions_of_datafusion_are_unreachable() -> Result<()> {
    check(expect![[r#"
        op> CREATE VIEW v AS SELECT 1
        0A000: CREATE VIEW in the operator's database is not supported
        HINT: A view belongs to a tenant: create it in the tenant's database.
        op> CREATE OR REPLACE VIEW v AS SELECT 1
        0A000: CREATE VIEW in the operator's database is not supported
        HINT: A view belongs to a tenant: create it in the tenant's database.
        op> CREATE MATERIALIZED VIEW v AS SELECT 1
        0A000: CREATE MATERIALIZED VIEW in the operator's database is not supported
        HINT: A view belongs to a tenant: create it in the tenant's database.
        op> CREATE EXTERNAL TABLE e STORED AS CSV LOCATION '/etc/passwd'
        0A000: CREATE EXTERNAL is not supported
        op> CREATE UNBOUNDED EXTERNAL TABLE e STORED AS CSV LOCATION '/etc/passwd'
        42601: syntax error at or near "UNBOUNDED"
        POSITION: 8
        op> CREATE TABLE c AS SELECT 1
        0A000: CREATE TABLE AS in the operator's database is not supported
        HINT: Create the table, with its key, and INSERT … SELECT into it.
        op> CREATE TABLE c AS VALUES (1)
        0A000: CREATE TABLE AS in the operator's database is not supported
        HINT: Create the table, with its key, and INSERT … SELECT into it.
        op> SELECT 1 INTO c
        0A000: CREATE TABLE AS in the operator's database is not supported
        HINT: Create the table, with its key, and INSERT … SELECT into it.
        op> CREATE TEMP TABLE c (a int)
        0A000: a temporary table in the operator's database is not supported
        HINT: A temporary table belongs to a session of a tenant's database.
        op> CREATE FUNCTION f(int) RETURNS int RETURN $1
        0A000: CREATE FUNCTION is not supported
        op> CREATE SCHEMA s
        0A000: CREATE SCHEMA in the operator's database is not supported
        HINT: A schema belongs to a tenant: create it in the tenant's database.
        op> CREATE INDEX i ON t (a)
        0A000: CREATE INDEX is not supported
        op> CREATE CATALOG c
        42601: syntax error at or near "CATALOG"
        POSITION: 8
        op> DROP VIEW v
        0A000: DROP VIEW in the operator's database is not supported
        HINT: A view belongs to a tenant: create it in the tenant's database.
        op> DROP SCHEMA public
        0A000: DROP SCHEMA in the operator's database is not supported
        HINT: A schema belongs to a tenant: create it in the tenant's database.
        op> DROP FUNCTION f
        0A000: DROP FUNCTION is not supported
        op> COPY (SELECT 1) TO '/tmp/x' STORED AS CSV
        0A000: COPY … TO a file as text is not supported
        HINT: Say (FORMAT parquet).
        op> COPY (SELECT 1) TO '/tmp/x.csv' (FORMAT csv)
        0A000: COPY to a file as csv is not supported
        op> COPY (SELECT 1) TO PROGRAM 'cat'
        0A000: COPY … TO PROGRAM is not supported
        HINT: COPY … TO STDOUT gives the rows to the client, which can start one.
        op> COPY t FROM '/etc/passwd'
        0A000: COPY FROM a file or program of the server is not supported
        HINT: COPY … FROM STDIN takes the rows from the client; psql's \copy reads a file of the client's.
        op> SET datafusion.execution.batch_size = 1
        42704: unrecognized configuration parameter "datafusion.execution.batch_size"
        op> SET datafusion.runtime.memory_limit = '1G'
        42704: unrecognized configuration parameter "datafusion.runtime.memory_limit"
        op> SHOW datafusion.execution.batch_size
        42704: unrecognized configuration parameter "datafusion.execution.batch_size"
        op> SELECT * FROM '/etc/passwd'
        42P01: relation "/etc/passwd" does not exist
        op> SELECT * FROM read_csv('/etc/passwd')
        42883: function read_csv does not exist
        POSITION: 15
        op> SELECT * FROM "/etc/passwd.csv"
        42P01: relation "/etc/passwd.csv" does not exist
        POSITION: 15
        op> PREPARE p AS DROP TABLE t
        0A000: PREPARE of this statement is not supported
        op> EXECUTE p
        26000: prepared statement "p" does not exist
        op> DECLARE c CURSOR FOR DROP TABLE t
        42601: syntax error at or near "DROP"
        POSITION: 22
        op> LOAD 'x'
        0A000: LOAD is not supported
        op> TRUNCATE t
        0A000: TRUNCATE of every tenant's rows is not supported
        HINT: DELETE FROM table WHERE tenant = '…' removes the rows of one.
        op> LOCK TABLE t
        0A000: LOCK is not supported
        HINT: Nothing locks here: a transaction whose rows others have changed fails at COMMIT with 40001.
        op> SELECT * FROM (WITH d AS (DELETE FROM t RETURNING a) SELECT * FROM d) x
        0A000: a statement that writes inside of WITH is not supported
        op> EXPLAIN CREATE TABLE c (a int)
        0A000: EXPLAIN of this statement is not supported
        op> SELECT tablename FROM pg_tables WHERE schemaname = 'public'
        (no rows)
    "#]])
    .await
}

#[tokio::test]
async fn semantics_10_what_the_planner_would_drop_is_refused() -> Result<()> {
    check(expect![[r#"
        op> CREATE TABLE t (a int PRIMARY KEY, b text)
        (0)
        a> SELECT * FROM (SELECT * FROM t FOR UPDATE) x
        0A000: FOR UPDATE or FOR SHARE in or of a subquery is not supported
        HINT: Put it at the end of the SELECT that reads the table. A subquery of UPDATE and DELETE, and a query in WITH before them, may have it as well, if it names nothing of the statement around it.
        a> SELECT sum(a) OVER w FROM t WINDOW w AS (ORDER BY a ROWS 1 PRECEDING EXCLUDE TIES)
        0A000: EXCLUDE TIES in the frame of a window is not supported
        a> SELECT * FROM t ORDER BY b COLLATE "de_DE"
        0A000: the collation "de_DE" is not supported
        a> DELETE FROM t LIMIT 1
        0A000: LIMIT in DELETE is not supported
        a> INSERT INTO t DEFAULT VALUES
        23502: null value in column "a" of relation "t" violates not-null constraint
        DETAIL: Failing row contains (null, null).
        op> CREATE TABLE u (a int GENERATED ALWAYS AS IDENTITY PRIMARY KEY)
        0A000: a sequence of a shared table is not supported
        HINT: Consecutive keys all meet at one place; use uuid, or a key of what identifies the row.
        op> CREATE TABLE u (a serial PRIMARY KEY)
        0A000: a sequence of a shared table is not supported
        HINT: Consecutive keys all meet at one place; use uuid, or a key of what identifies the row.
        op> CREATE TABLE u (a int PRIMARY KEY, b int UNIQUE)
        0A000: UNIQUE in a table's definition is not supported
        HINT: Only the primary key is unique: take the columns into it, or look before you insert.
        op> CREATE TABLE u (a int PRIMARY KEY REFERENCES t (a))
        0A000: REFERENCES in a table's definition is not supported
        op> CREATE TABLE u (a text, b text, PRIMARY KEY (a DESC, b))
        0A000: column "a" cannot be part of the primary key: texts do not descend in delimited keys
        HINT: Create the table WITH (key_encoding = 'ordered'), or leave out DESC.
        op> CREATE TABLE u (a double precision PRIMARY KEY)
        0A000: column "a" cannot be part of the primary key: its type has no place in delimited keys
        HINT: Create the table WITH (key_encoding = 'ordered'), or take an integer type.
        op> CREATE TABLE u (a int)
        42P16: table "u" has no primary key
        HINT: Declare PRIMARY KEY (…): it is the row key, and its order the order of the rows.
        op> CREATE TABLE u (tenant text PRIMARY KEY)
        42939: column name "tenant" is reserved
        HINT: In the operator's database every table has a leading column tenant; raw() shows the key as _key.
        op> CREATE TABLE u (_key text PRIMARY KEY)
        42939: column name "_key" is reserved
        HINT: In the operator's database every table has a leading column tenant; raw() shows the key as _key.
        op> CREATE TABLE u (a int PRIMARY KEY) WITH (fillfactor = 70)
        42P16: unrecognized parameter "fillfactor"
        HINT: There are key_encoding, salt, on_bad_value, on_bad_key, history, and for each family its name with .gc, .max_versions, .max_age, .aggregate, .encoding.
        op> CREATE TABLE u (a int PRIMARY KEY) WITH (nix.max_versions = 70)
        42703: family "nix" of relation "u" does not exist
        op> SELECT * FROM u
        42P01: relation "u" does not exist
        POSITION: 15
    "#]])
    .await
}

#[tokio::test]
async fn semantics_10_files_are_written_below_the_folder_for_them_only() -> Result<()> {
    let mut sessions = Sessions::start().await?;
    for (name, path) in
        [("a", "/tmp/x.parquet"), ("op", "/tmp/x.parquet"), ("op", "../x.parquet"), ("a", "a/../../x.parquet")]
    {
        let sql = format!("COPY (SELECT 1) TO '{path}' (FORMAT parquet)");
        let answer = answer(sessions.get(name).await?, &sql).await;
        assert!(answer.starts_with(&format!("42501: COPY may not write \"{path}\"")), "{answer}");
    }
    Ok(())
}
