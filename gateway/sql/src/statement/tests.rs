//! What text becomes, statement by statement.

use crate::ast::copy::CopyOptions;
use crate::ast::{Statement, WithPart};
use expect_test::{Expect, expect};

/// Each statement on a line of its own; queries and writes as sqlparser prints them.
fn check(sql: &str, expected: Expect) {
    let shown = match Statement::parse(sql) {
        Ok(statements) => statements.iter().map(show).collect::<Vec<_>>().join("\n"),
        Err(error) => {
            let mut text = format!("{} {}", error.state.0, error.message);
            if let Some(position) = error.position {
                text.push_str(&format!(" @{position}"));
            }
            text
        }
    };
    expected.assert_eq(&shown);
}

fn show(statement: &Statement) -> String {
    match statement {
        Statement::Query(query) => format!("query {query}"),
        Statement::LockingQuery(query) => format!("query {}", query.query),
        Statement::Insert(insert) => format!("insert {insert}"),
        Statement::Update(update) => format!("update {update}"),
        Statement::Delete(delete) => format!("delete {delete}"),
        Statement::WritingWith(parts) => {
            let part = |part: &WithPart| format!("{:?} {}", part.parameters, show(&part.statement));
            parts.iter().map(part).collect::<Vec<_>>().join("\n")
        }
        Statement::Explain(explain) => {
            format!("explain analyze={} {}", explain.analyze, show(&explain.statement))
        }
        Statement::CreateTableAs(create) => format!(
            "create table {} ({}) if_not_exists={} options={} with_data={}: query {}",
            create.name,
            create.columns.join(", "),
            create.if_not_exists,
            create.options.len(),
            create.with_data,
            create.query
        ),
        Statement::CopyTo(copy) => format!("copy {:?} {:?} {}", copy.path, copy.compression, copy.query),
        other => format!("{other:?}"),
    }
}

#[test]
fn text_is_split_at_semicolons() {
    check("", expect!["Empty"]);
    check(" ; -- nothing\n;", expect!["Empty"]);
    check(
        "SELECT ';' ; select $$;$$, \";\" /* ; */; SHOW ALL",
        expect![[r#"
            query SELECT ';'
            query SELECT $$;$$, ";"
            Setting(Show(None))"#]],
    );
    check("SELECT (1; 2)", expect![[r#"42601 syntax error at or near ";" @10"#]]);
}

#[test]
fn a_table_with_families() {
    check(
        "CREATE TABLE readings (device_type text, \"At\" timestamptz NOT NULL, t double precision, family text,
            log varchar(20), n numeric(10,2), family numeric(5), PRIMARY KEY (device_type, \"At\" DESC),
            FAMILY m (t, n), FAMILY logs (log), FAMILY rest ())
         WITH (m.max_versions = 5, logs.max_age = '30 days', key_encoding = ordered, m.aggregate = SUM)",
        expect![[
            r#"Definition(CreateTable(CreateTable { name: "readings", if_not_exists: false, columns: [ColumnClause { name: "device_type", kind: Text, own_type: None, not_null: false, default: None, protobuf: None, cells: None }, ColumnClause { name: "At", kind: Timestamptz(None), own_type: None, not_null: true, default: None, protobuf: None, cells: None }, ColumnClause { name: "t", kind: Float8, own_type: None, not_null: false, default: None, protobuf: None, cells: None }, ColumnClause { name: "family", kind: Text, own_type: None, not_null: false, default: None, protobuf: None, cells: None }, ColumnClause { name: "log", kind: Varchar(Some(20)), own_type: None, not_null: false, default: None, protobuf: None, cells: None }, ColumnClause { name: "n", kind: Numeric { precision: 10, scale: 2 }, own_type: None, not_null: false, default: None, protobuf: None, cells: None }, ColumnClause { name: "family", kind: Numeric { precision: 5, scale: 0 }, own_type: None, not_null: false, default: None, protobuf: None, cells: None }], primary_key: [KeyClause { column: "device_type", order: Ascending }, KeyClause { column: "At", order: Descending }], checks: [], families: [FamilyClause { name: "m", columns: ["t", "n"], open: false }, FamilyClause { name: "logs", columns: ["log"], open: false }, FamilyClause { name: "rest", columns: [], open: false }], options: [OptionClause { family: Some("m"), name: "max_versions", value: "5" }, OptionClause { family: Some("logs"), name: "max_age", value: "30 days" }, OptionClause { family: None, name: "key_encoding", value: "ordered" }, OptionClause { family: Some("m"), name: "aggregate", value: "sum" }], on_commit: None, server: None, found: None }))"#
        ]],
    );
    check(
        "create table if not exists public.t (a int primary key, b bool null)",
        expect![[
            r#"Definition(CreateTable(CreateTable { name: "public.t", if_not_exists: true, columns: [ColumnClause { name: "a", kind: Int4, own_type: None, not_null: false, default: None, protobuf: None, cells: None }, ColumnClause { name: "b", kind: Bool, own_type: None, not_null: false, default: None, protobuf: None, cells: None }], primary_key: [KeyClause { column: "a", order: Ascending }], checks: [], families: [], options: [], on_commit: None, server: None, found: None }))"#
        ]],
    );
}

#[test]
fn semantics_10_nothing_in_a_definition_is_ignored() {
    check(
        "CREATE TABLE t (a int DEFAULT 1)",
        expect![[
            r#"Definition(CreateTable(CreateTable { name: "t", if_not_exists: false, columns: [ColumnClause { name: "a", kind: Int4, own_type: None, not_null: false, default: Some(Expression(Value(ValueWithSpan { value: Number("1", false), span: Span(Location(1,31)..Location(1,32)) }))), protobuf: None, cells: None }], primary_key: [], checks: [], families: [], options: [], on_commit: None, server: None, found: None }))"#
        ]],
    );
    check(
        "CREATE TABLE t (a int, CHECK (a > 1))",
        expect![[
            r#"Definition(CreateTable(CreateTable { name: "t", if_not_exists: false, columns: [ColumnClause { name: "a", kind: Int4, own_type: None, not_null: false, default: None, protobuf: None, cells: None }], primary_key: [], checks: [CheckClause { name: None, condition: BinaryOp { left: Identifier(Ident { value: "a", quote_style: None, span: Span(Location(1,31)..Location(1,32)) }), op: Gt, right: Value(ValueWithSpan { value: Number("1", false), span: Span(Location(1,35)..Location(1,36)) }) } }], families: [], options: [], on_commit: None, server: None, found: None }))"#
        ]],
    );
    check("CREATE TABLE t (a int REFERENCES b)", expect!["0A000 REFERENCES in a table's definition is not supported"]);
    check(
        "CREATE TABLE t (a int, CONSTRAINT u UNIQUE (a))",
        expect!["0A000 UNIQUE in a table's definition is not supported"],
    );
    check(
        "CREATE TABLE t (a int GENERATED ALWAYS AS IDENTITY)",
        expect![[
            r#"Definition(CreateTable(CreateTable { name: "t", if_not_exists: false, columns: [ColumnClause { name: "a", kind: Int4, own_type: None, not_null: true, default: Some(Identity(Always, OwnSequence { name: None, options: SequenceOptions { kind: None, start: None, increment: None, min: None, max: None, cycle: None, restart: None } })), protobuf: None, cells: None }], primary_key: [], checks: [], families: [], options: [], on_commit: None, server: None, found: None }))"#
        ]],
    );
    check(
        "CREATE TABLE t (a int PRIMARY KEY, PRIMARY KEY (a))",
        expect![[r#"42P16 multiple primary keys for table "t" are not allowed"#]],
    );
    check(
        "CREATE TABLE t (a serial)",
        expect![[
            r#"Definition(CreateTable(CreateTable { name: "t", if_not_exists: false, columns: [ColumnClause { name: "a", kind: Int4, own_type: None, not_null: true, default: Some(Serial), protobuf: None, cells: None }], primary_key: [], checks: [], families: [], options: [], on_commit: None, server: None, found: None }))"#
        ]],
    );
    check(
        "CREATE TABLE t (a int[][])",
        expect!["0A000 an array of more than one dimension in a table is not supported"],
    );
    check(
        "CREATE TABLE t (a nonsense)",
        expect![[
            r#"Definition(CreateTable(CreateTable { name: "t", if_not_exists: false, columns: [ColumnClause { name: "a", kind: Text, own_type: Some("nonsense"), not_null: false, default: None, protobuf: None, cells: None }], primary_key: [], checks: [], families: [], options: [], on_commit: None, server: None, found: None }))"#
        ]],
    );
    check(
        "CREATE TABLE IF NOT EXISTS public.t (a, b) WITH (fillfactor = 100) AS TABLE s WITH NO DATA",
        expect![[r#"create table t (a, b) if_not_exists=true options=1 with_data=false: query SELECT * FROM "s""#]],
    );
    check("CREATE TABLE t AS EXECUTE p", expect!["0A000 CREATE TABLE … AS EXECUTE is not supported"]);
    check("CREATE TABLE t (a, b int) AS SELECT 1", expect![[r#"42601 syntax error at or near "," @18"#]]);
    check("CREATE TABLE t AS DELETE FROM s", expect![[r#"42601 syntax error at or near "DELETE" @19"#]]);
    check(
        "CREATE TEMP TABLE t (a int)",
        expect![[
            r#"Definition(CreateTable(CreateTable { name: "pg_temp.t", if_not_exists: false, columns: [ColumnClause { name: "a", kind: Int4, own_type: None, not_null: false, default: None, protobuf: None, cells: None }], primary_key: [], checks: [], families: [], options: [], on_commit: None, server: None, found: None }))"#
        ]],
    );
    check(
        "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '/etc/passwd'",
        expect!["0A000 CREATE EXTERNAL is not supported"],
    );
    check("CREATE NONSENSE x", expect![[r#"42601 syntax error at or near "NONSENSE" @8"#]]);
    check("CREATE TABLE t (a int) nonsense", expect![[r#"42601 syntax error at or near "nonsense" @24"#]]);
    check("CREATE TABLE keyspan.t (a int)", expect!["42501 permission denied for schema keyspan"]);
    check(
        "CREATE TABLE other.public.t (a int)",
        expect![[r#"0A000 cross-database references are not implemented: "other.public.t""#]],
    );
    check("LOCK TABLE t", expect!["0A000 LOCK is not supported"]);
}

#[test]
fn tables_change() {
    check(
        "ALTER TABLE r ADD COLUMN IF NOT EXISTS battery float8 FAMILY m, ADD x int, DROP COLUMN IF EXISTS y",
        expect![[
            r#"Definition(AlterTable(AlterTable { name: "r", if_exists: false, actions: [AddColumn { column: ColumnClause { name: "battery", kind: Float8, own_type: None, not_null: false, default: None, protobuf: None, cells: Some(CellsClause { family: Some("m"), qualifier: None, encoding: None }) }, checks: [], key: false, if_not_exists: true }, AddColumn { column: ColumnClause { name: "x", kind: Int4, own_type: None, not_null: false, default: None, protobuf: None, cells: None }, checks: [], key: false, if_not_exists: false }, DropColumn { name: "y", if_exists: true, cascade: false }] }))"#
        ]],
    );
    check(
        "ALTER TABLE r RENAME COLUMN a TO b; ALTER TABLE r RENAME TO s; ALTER TABLE r ALTER COLUMN a TYPE bigint;
         ALTER TABLE r SET (m.max_versions = 10); ALTER TABLE r ADD FAMILY f, DROP FAMILY g",
        expect![[r#"
            Definition(AlterTable(AlterTable { name: "r", if_exists: false, actions: [RenameColumn { from: "a", to: "b" }] }))
            Definition(AlterTable(AlterTable { name: "r", if_exists: false, actions: [RenameTable("s")] }))
            Definition(AlterTable(AlterTable { name: "r", if_exists: false, actions: [SetType { column: "a", kind: Int8, own_type: None, using: None }] }))
            Definition(AlterTable(AlterTable { name: "r", if_exists: false, actions: [SetOptions([OptionClause { family: Some("m"), name: "max_versions", value: "10" }])] }))
            Definition(AlterTable(AlterTable { name: "r", if_exists: false, actions: [AddFamily { name: "f", open: false, options: [], if_not_exists: false }, DropFamily("g")] }))"#]],
    );
    check(
        "ALTER TABLE r ALTER COLUMN a SET NOT NULL",
        expect![[r#"Definition(AlterTable(AlterTable { name: "r", if_exists: false, actions: [SetNotNull("a")] }))"#]],
    );
    check("ALTER TABLE r OWNER TO x", expect![[r#"Definition(Rights(Owner(Table("r", false), Named("x"))))"#]]);
    check(
        "DROP TABLE IF EXISTS a, public.b CASCADE",
        expect![[r#"Definition(DropTables(DropTables { names: ["a", "public.b"], if_exists: true, cascade: true }))"#]],
    );
}

#[test]
fn databases_and_roles() {
    check(
        "CREATE DATABASE alto; DROP DATABASE IF EXISTS alto WITH (FORCE); EXPLAIN DROP DATABASE alto;
         GRANT CONNECT ON DATABASE a, b TO ana; REVOKE CONNECT ON DATABASE a FROM ana; DROP USER IF EXISTS x, y",
        expect![[r#"
            Definition(CreateDatabase { name: "alto", owner: None, source: None })
            Definition(DropDatabase { name: "alto", if_exists: true, force: true })
            ExplainDropDatabase("alto")
            Definition(GrantConnect { databases: ["a", "b"], roles: ["ana"] })
            Definition(RevokeConnect { databases: ["a"], roles: ["ana"] })
            Definition(DropRoles { names: ["x", "y"], if_exists: true })"#]],
    );
    check(
        "CREATE ROLE ana LOGIN PASSWORD 'secret'; CREATE USER bob WITH ENCRYPTED PASSWORD 'x' SUPERUSER;
         ALTER ROLE ana NOLOGIN PASSWORD NULL",
        expect![[r#"
            Definition(CreateRole("ana", RoleOptions { login: Some(true), operator: None, password: Some(Some("…")), connection_limit: None, valid_until: None, inherit: None }))
            Definition(CreateRole("bob", RoleOptions { login: Some(true), operator: Some(true), password: Some(Some("…")), connection_limit: None, valid_until: None, inherit: None }))
            Definition(AlterRole("ana", RoleOptions { login: Some(false), operator: None, password: Some(None), connection_limit: None, valid_until: None, inherit: None }))"#]],
    );
    check("CREATE ROLE a LOGIN NOLOGIN", expect!["42601 conflicting or redundant options"]);
    check("CREATE ROLE a CREATEDB", expect!["0A000 role option CREATEDB is not supported"]);
    check("CREATE ROLE a NONSENSE", expect![[r#"42601 syntax error at or near "NONSENSE" @15"#]]);
    check(
        "GRANT SELECT ON t TO a",
        expect![[
            r#"Definition(Rights(Privileges(Granted { grant: true, privileges: Some(Privileges(2)), roles: [Named("a")], option: false, cascade: false }, Relations(["t"]))))"#
        ]],
    );
    check(
        "CREATE DATABASE a OWNER b",
        expect![[r#"Definition(CreateDatabase { name: "a", owner: Some(Named("b")), source: None })"#]],
    );
}

#[test]
fn semantics_10_queries_pass_and_what_nobody_handles_does_not() {
    check(
        "TABLE t; VALUES (1), (2); (SELECT 1) UNION SELECT 2; WITH a AS (SELECT 1) SELECT * FROM a FETCH FIRST 2 ROWS ONLY",
        expect![[r#"
            query SELECT * FROM "t"
            query VALUES (1), (2)
            query (SELECT 1) UNION SELECT 2
            query WITH a AS (SELECT 1) SELECT * FROM a LIMIT 2"#]],
    );
    check("SELECT 1 FOR UPDATE", expect!["query SELECT 1 FOR UPDATE"]);
    check(
        "SELECT * FROM (SELECT 1 FOR SHARE) x",
        expect!["0A000 FOR UPDATE or FOR SHARE in or of a subquery is not supported"],
    );
    check("SELECT * FROM t TABLESAMPLE SYSTEM (1)", expect!["query SELECT * FROM t TABLESAMPLE SYSTEM (1)"]);
    check("SELECT * FROM t FOR SYSTEM_TIME AS OF 'x'", expect!["query SELECT * FROM t FOR SYSTEM_TIME AS OF 'x'"]);
    check(
        "SELECT 1 INTO x UNION SELECT 2",
        expect!["create table x () if_not_exists=false options=0 with_data=true: query SELECT 1 UNION SELECT 2"],
    );
    check(
        "SELECT 1 INTO TEMP x",
        expect!["create table x () if_not_exists=false options=0 with_data=true: query SELECT 1"],
    );
    check("SELECT 1 UNION SELECT 2 INTO x", expect!["0A000 SELECT INTO is not supported"]);
    check("SELECT * FROM (SELECT 1 INTO x) s", expect!["0A000 SELECT INTO is not supported"]);
    check(
        "WITH a AS (DELETE FROM t RETURNING *) SELECT * FROM a",
        expect![[r#"
        [] delete DELETE FROM t RETURNING *
        [] query WITH a AS (SELECT * FROM keyspan_with_rows_0() AS rows) SELECT * FROM a"#]],
    );
    // A query that two parts read is a part; one that returns nothing is left out of those behind it.
    check(
        "WITH x (n) AS (SELECT random()), a AS (INSERT INTO t SELECT n FROM x), b AS NOT MATERIALIZED (UPDATE t SET n = x.n FROM x WHERE t.n = $2 RETURNING t.n) INSERT INTO u SELECT n + $1 FROM b",
        expect![[r#"
            [] query SELECT random()
            [] insert INSERT INTO t WITH x (n) AS (SELECT * FROM keyspan_with_rows_0() AS rows) SELECT n FROM x
            [2] update UPDATE t SET n = x.n FROM (SELECT * FROM keyspan_with_rows_0() AS rows) AS x (n) WHERE t.n = $2 RETURNING t.n
            [1] insert INSERT INTO u WITH x (n) AS (SELECT * FROM keyspan_with_rows_0() AS rows), b AS NOT MATERIALIZED (SELECT * FROM keyspan_with_rows_2() AS rows) SELECT n + $1 FROM b"#]],
    );
    check(
        "WITH RECURSIVE a AS (DELETE FROM t RETURNING *) SELECT * FROM a",
        expect!["0A000 WITH RECURSIVE beside a statement that writes inside of WITH is not supported"],
    );
    check(
        "WITH a AS (DELETE FROM t RETURNING *), a AS (SELECT 1) SELECT * FROM a",
        expect![[r#"42712 WITH query name "a" specified more than once"#]],
    );
    check("WITH a AS (DELETE FROM t WHERE) SELECT * FROM a", expect![[r#"42601 syntax error at or near ")" @31"#]]);
    check(
        "WITH a AS (SELECT * FROM (WITH b AS (DELETE FROM t) SELECT 1) x) SELECT 1",
        expect!["0A000 a statement that writes inside of WITH is not supported"],
    );
    let twice = |query: &str| {
        format!("WITH a AS ({query}), b AS (SELECT * FROM a) UPDATE t SET n = a.n FROM a, b WHERE a.n = b.n")
    };
    check(
        &twice("SELECT random() AS n"),
        expect![[
            r#"0A000 "a" of WITH twice before UPDATE or DELETE, with a function that has another value each time, is not supported"#
        ]],
    );
    assert!(Statement::parse(&twice("SELECT abs(1) AS n")).is_ok());
    assert!(Statement::parse("WITH a AS (SELECT random() AS n) DELETE FROM t USING a WHERE t.n = a.n").is_ok());
    check("SELECT 1 +", expect!["42601 syntax error at end of input @11"]);
    check("SELECT 1;\nSELEKT 2", expect![[r#"42601 syntax error at or near "SELEKT" @11"#]]);
    check("SELECT * FROM t WHERE a = = 1", expect![[r#"42601 syntax error at or near "=" @27"#]]);
    check("SELECT 'abc", expect![[r#"42601 unterminated string literal at or near "'abc" @8"#]]);
    check("SELECT 'é', 1 1", expect![[r#"42601 syntax error at or near "1" @15"#]]);
}

#[test]
fn writes() {
    check(
        "INSERT INTO t (a, b) VALUES (1, DEFAULT), ($1, 2) ON CONFLICT (a) DO UPDATE SET b = EXCLUDED.b WHERE t.b > 1;
         UPDATE t x SET b = DEFAULT, c = c + 1 WHERE a = 1; DELETE FROM t WHERE a IN (SELECT 1)",
        expect![[r#"
            insert INSERT INTO t (a, b) VALUES (1, DEFAULT), ($1, 2) ON CONFLICT(a) DO UPDATE SET b = EXCLUDED.b WHERE t.b > 1
            update UPDATE t x SET b = DEFAULT, c = c + 1 WHERE a = 1
            delete DELETE FROM t WHERE a IN (SELECT 1)"#]],
    );
    check("INSERT INTO t DEFAULT VALUES", expect!["insert INSERT INTO t DEFAULT VALUES"]);
    check("DELETE FROM t LIMIT 1", expect!["0A000 LIMIT in DELETE is not supported"]);
}

#[test]
fn explains_and_copies() {
    check(
        "EXPLAIN SELECT 1; EXPLAIN ANALYZE VERBOSE SELECT 1; EXPLAIN (ANALYZE, COSTS off, FORMAT text) SELECT 1;
         EXPLAIN (SELECT 1); EXPLAIN DELETE FROM t",
        expect![[r#"
            explain analyze=false query SELECT 1
            explain analyze=true query SELECT 1
            explain analyze=true query SELECT 1
            explain analyze=false query (SELECT 1)
            explain analyze=false delete DELETE FROM t"#]],
    );
    check("EXPLAIN (FORMAT json) SELECT 1", expect!["explain analyze=false query SELECT 1"]);
    check(
        "EXPLAIN (FORMAT toml) SELECT 1",
        expect![[r#"22023 unrecognized value for EXPLAIN option "format": "toml""#]],
    );
    check(
        "EXPLAIN ANALYZE DELETE FROM t",
        expect!["0A000 EXPLAIN ANALYZE of a statement that writes is not supported"],
    );
    check("EXPLAIN DROP TABLE t", expect!["0A000 EXPLAIN of this statement is not supported"]);
    check(
        "COPY (SELECT a FROM t) TO '/tmp/a' (FORMAT parquet); COPY t (a, b) TO 'b' WITH (FORMAT parquet, COMPRESSION lz4)",
        expect![[r#"
            copy "/tmp/a" Zstd SELECT a FROM t
            copy "b" Lz4 SELECT "a", "b" FROM "t""#]],
    );
    check("COPY t FROM '/tmp/a'", expect!["0A000 COPY FROM a file or program of the server is not supported"]);
    check("COPY t FROM STDIN WHERE a > 1", expect!["0A000 WHERE in COPY is not supported"]);
    check("COPY (SELECT 1) FROM STDIN", expect![[r#"42601 syntax error at or near "STDIN" @22"#]]);
    check("COPY t TO '/tmp/a'", expect!["0A000 COPY … TO a file as text is not supported"]);
}

#[test]
fn settings_and_transactions() {
    check(
        "SET keyspan.pushdown = off; SET search_path TO \"$user\", public; SET LOCAL TIME ZONE 'UTC'; SET x = DEFAULT;
         SET extra_float_digits = -1; RESET ALL; SHOW transaction isolation level; DISCARD ALL; DEALLOCATE ALL; DEALLOCATE p",
        expect![[r#"
            Setting(Set { name: "keyspan.pushdown", value: Some("off"), local: false })
            Setting(Set { name: "search_path", value: Some("\"$user\", public"), local: false })
            Setting(Set { name: "timezone", value: Some("UTC"), local: true })
            Setting(Set { name: "x", value: None, local: false })
            Setting(Set { name: "extra_float_digits", value: Some("-1"), local: false })
            Setting(Reset(None))
            Setting(Show(Some("transaction_isolation")))
            Setting(Discard("ALL"))
            Deallocate(None)
            Deallocate(Some("p"))"#]],
    );
    check(
        "BEGIN; START TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY; COMMIT WORK; END; ROLLBACK; ABORT TRANSACTION;
         SET TRANSACTION READ WRITE; SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED",
        expect![[r#"
            Transaction(Begin { modes: Modes { isolation: None, read_only: None, deferrable: None }, start: false })
            Transaction(Begin { modes: Modes { isolation: Some(RepeatableRead), read_only: Some(true), deferrable: None }, start: true })
            Transaction(Commit { chain: false })
            Transaction(Commit { chain: false })
            Transaction(Rollback { chain: false })
            Transaction(Rollback { chain: false })
            Setting(SetTransaction { modes: Modes { isolation: None, read_only: Some(false), deferrable: None }, session: false })
            Setting(SetTransaction { modes: Modes { isolation: Some(ReadCommitted), read_only: None, deferrable: None }, session: true })"#]],
    );
    check("BEGIN ISOLATION LEVEL SERIALIZABLE", expect!["0A000 ISOLATION LEVEL SERIALIZABLE is not supported"]);
    check(
        "SAVEPOINT a; ROLLBACK TO \"A\"; rollback work to savepoint savepoint; RELEASE a; RELEASE SAVEPOINT b",
        expect![[r#"
            Transaction(Savepoint("a"))
            Transaction(RollbackTo("A"))
            Transaction(RollbackTo("savepoint"))
            Transaction(Release("a"))
            Transaction(Release("b"))"#]],
    );
}

/// The options of a COPY as they are understood, or why they are not.
fn check_copy(sql: &str, expected: Expect) {
    let shown = match Statement::parse(sql) {
        Err(error) => format!("{} {}", error.state.0, error.message),
        Ok(statements) => match &statements[0] {
            Statement::CopyFrom(copy) => format!("{} {:?} {}", copy.table, copy.columns, show_options(&copy.options)),
            Statement::CopyOut(copy) => format!("{} {}", copy.query, show_options(&copy.options)),
            other => format!("{other:?}"),
        },
    };
    expected.assert_eq(&shown);
}

fn show_options(of: &CopyOptions) -> String {
    let CopyOptions { format, header, null, force_quote, force_not_null, force_null, .. } = of;
    let bytes: String = [of.delimiter, of.quote, of.escape].iter().map(|byte| char::from(*byte)).collect();
    let bytes = bytes.escape_default();
    format!("{format:?} {header:?} {bytes} {null:?} {force_quote:?} {force_not_null:?} {force_null:?}")
}

#[test]
fn copy_takes_the_options_of_postgres_old_and_new() {
    check_copy("COPY public.t FROM STDIN", expect![[r#"t [] Text No \t\"\" "\\N" None None None"#]]);
    check_copy(
        "COPY t (a, \"B\") FROM stdin WITH (FORMAT csv, HEADER match, DELIMITER ';', QUOTE '''', FORCE_NULL (a), FREEZE, ENCODING 'utf-8')",
        expect![[r#"t ["a", "B"] Csv Match ;\'\' "" None None Of(["a"])"#]],
    );
    check_copy(
        "COPY (SELECT 1) TO STDOUT CSV HEADER DELIMITER AS E'\\t' NULL 'x' ESCAPE '!' FORCE QUOTE *",
        expect![[r#"SELECT 1 Csv Yes \t\"! "x" All None None"#]],
    );
    check_copy("COPY t TO STDOUT BINARY", expect![[r#"SELECT * FROM "t" Binary No \t\"\" "\\N" None None None"#]]);
    check_copy("COPY t TO STDOUT (FORMAT binary, HEADER)", expect!["0A000 cannot specify HEADER in BINARY mode"]);
    check_copy("COPY t TO STDOUT (HEADER match)", expect![[r#"0A000 cannot use "match" with HEADER in COPY TO"#]]);
    check_copy("COPY t TO STDOUT (DELIMITER 'a')", expect![[r#"22023 COPY delimiter cannot be "a""#]]);
    check_copy("COPY t TO STDOUT (QUOTE 'a')", expect!["0A000 COPY quote available only in CSV mode"]);
    check_copy("COPY t TO STDOUT (FORMAT xml)", expect![[r#"22023 COPY format "xml" not recognized"#]]);
    check_copy("COPY t TO STDOUT (NOPE 1)", expect![[r#"42601 option "nope" not recognized"#]]);
    check_copy("COPY t TO STDOUT (ENCODING 'latin1')", expect!["0A000 COPY with encoding latin1 is not supported"]);
    check_copy(
        "COPY t TO STDOUT (NULL E'\\t')",
        expect!["22023 COPY delimiter must not appear in the NULL specification"],
    );
}

#[test]
fn cursors_are_fetched_in_every_form() {
    check(
        "FETCH c; FETCH next; FETCH NEXT FROM c; FETCH PRIOR IN c; FETCH -3 c; FETCH FORWARD c; FETCH FORWARD 2 FROM c;
         FETCH BACKWARD -2 FROM c; FETCH BACKWARD ALL FROM c; FETCH ABSOLUTE -1 FROM c; FETCH RELATIVE +2 FROM c; FETCH 0 FROM c; FETCH LAST c",
        expect![[r#"
            Cursor(Fetch(Fetch { name: "c", direction: Forward(1) }))
            Cursor(Fetch(Fetch { name: "next", direction: Forward(1) }))
            Cursor(Fetch(Fetch { name: "c", direction: Forward(1) }))
            Cursor(Fetch(Fetch { name: "c", direction: Backward(1) }))
            Cursor(Fetch(Fetch { name: "c", direction: Backward(3) }))
            Cursor(Fetch(Fetch { name: "c", direction: Forward(1) }))
            Cursor(Fetch(Fetch { name: "c", direction: Forward(2) }))
            Cursor(Fetch(Fetch { name: "c", direction: Forward(2) }))
            Cursor(Fetch(Fetch { name: "c", direction: Backward(18446744073709551615) }))
            Cursor(Fetch(Fetch { name: "c", direction: Absolute(-1) }))
            Cursor(Fetch(Fetch { name: "c", direction: Relative(2) }))
            Cursor(Fetch(Fetch { name: "c", direction: Relative(0) }))
            Cursor(Fetch(Fetch { name: "c", direction: Absolute(-1) }))"#]],
    );
    check("FETCH ABSOLUTE FROM c", expect![[r#"42601 syntax error at or near "FROM" @16"#]]);
    check("DECLARE c SCROLL NO SCROLL CURSOR FOR SELECT 1", expect!["42601 cannot specify both SCROLL and NO SCROLL"]);
    check("DECLARE c CURSOR FOR DELETE FROM t", expect![[r#"42601 syntax error at or near "DELETE" @22"#]]);
    check("DECLARE c BINARY CURSOR FOR SELECT 1", expect!["0A000 a binary cursor is not supported"]);
}
