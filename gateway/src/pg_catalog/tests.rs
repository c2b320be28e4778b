//! The queries of psql and of tools plan and run, and say what PostgreSQL would.

use crate::query::testing::{session, shown};
use expect_test::{Expect, expect};

const PSQL_15: &str = include_str!("testdata/psql15.sql");

async fn check(operator: bool, queries: &[&str], expected: Expect) {
    let context = session(operator);
    let mut answers = Vec::new();
    for sql in queries {
        answers.push(format!("> {sql}\n{}", shown(&context, sql).await));
    }
    expected.assert_eq(&answers.join("\n"));
}

/// The statements of a file, each ended by a semicolon at the end of a line.
fn statements(file: &str) -> Vec<String> {
    let lines = file.lines().filter(|line| !line.starts_with("--")).collect::<Vec<_>>().join("\n");
    lines.split(";\n").map(str::trim).filter(|sql| !sql.is_empty()).map(|sql| sql.replace("16385", "16400")).collect()
}

#[tokio::test]
async fn all_queries_of_psql_run() {
    for operator in [false, true] {
        let context = session(operator);
        let mut failed = Vec::new();
        for sql in statements(PSQL_15) {
            let answer = shown(&context, &sql).await;
            if answer.lines().next().is_none_or(|first| !first.contains(':')) || answer.starts_with("XX") {
                failed.push(format!("{sql}\n=> {answer}"));
            }
        }
        assert!(failed.is_empty(), "{}", failed.join("\n\n"));
    }
}

#[tokio::test]
async fn psql_sees_tables_and_keys() {
    let all = statements(PSQL_15);
    let find = |text: &str| all.iter().find(|sql| sql.contains(text)).unwrap().as_str();
    check(
        false,
        &[
            find("pg_database d\nORDER"),
            find("relkind IN ('r','p','')"),
            find("c.relname OPERATOR(pg_catalog.~) '^(flights)$'"),
            find("a.attidentity,\n  a.attgenerated\nFROM"),
            find("pg_get_indexdef"),
            find("pg_auth_members"),
            find("FROM pg_catalog.pg_namespace n\nWHERE"),
        ],
        expect![[""]],
    )
    .await;
}

#[tokio::test]
async fn a_tenant_sees_no_other_tenant() {
    check(
        false,
        &[
            "SELECT datname FROM pg_database",
            "SELECT rolname FROM pg_roles ORDER BY 1",
            "SELECT usename FROM pg_user ORDER BY 1",
            "SELECT pg_get_userbyid(16393)",
            "SELECT has_database_privilege('aa', 'CONNECT'), has_database_privilege('ua', 'CONNECT')",
            "SELECT 'bob'::regrole",
            "SELECT catalog_name, schema_name FROM information_schema.schemata ORDER BY 2",
            "SELECT count(*) FROM pg_class WHERE relname = 'tenants'",
        ],
        expect![[""]],
    )
    .await;
    check(
        true,
        &[
            "SELECT datname FROM pg_database ORDER BY 1",
            "SELECT tenant, state, created_at FROM keyspan.tenants ORDER BY 1",
            "SELECT * FROM keyspan.drops",
            "SELECT attname, attnum, attnotnull FROM pg_attribute WHERE attrelid = 'flights'::regclass ORDER BY attnum LIMIT 3",
            "SELECT indkey, indoption FROM pg_index",
        ],
        expect![[""]],
    )
    .await;
}

#[tokio::test]
async fn functions_of_the_session() {
    check(
        false,
        &[
            "SELECT version() LIKE 'PostgreSQL 16.%', current_database(), current_schema(), current_schema, current_schemas(true)",
            "SELECT current_user, session_user, user, current_role, pg_backend_pid()",
            "SELECT current_setting('search_path'), current_setting('nix', true), current_setting('server_version_num')",
            "SELECT current_setting('nix')",
            "SELECT format_type(1043, 16), format_type(1700, 655366), format_type(1009, -1), format_type(23, NULL)",
            "SELECT 'flights'::regclass, 'flights'::regclass::oid, 16400::regclass, to_regclass('nix')",
            "SELECT 'nix'::regclass",
            "SELECT 'int4'::regtype, 23::regtype::text, 'pg_class'::regclass::oid",
            "SELECT pg_size_pretty(12345678), pg_encoding_to_char(6), pg_typeof(1), quote_ident('A b')",
            "SELECT (current_schemas(true))[1], array_to_string(current_schemas(true), ',')",
            "SELECT relname FROM pg_class WHERE oid = 'flights'::regclass",
            "SELECT nspname FROM pg_namespace WHERE nspname = ANY(current_schemas(false))",
            "SELECT inet_server_addr(), pg_is_in_recovery(), pg_catalog.pg_client_encoding()",
        ],
        expect![[""]],
    )
    .await;
}

#[tokio::test]
async fn information_schema_is_live() {
    check(
        false,
        &[
            "SELECT table_name, table_type FROM information_schema.tables WHERE table_schema = 'public'",
            "SELECT column_name, ordinal_position, is_nullable, data_type, character_maximum_length, numeric_precision, udt_name FROM information_schema.columns WHERE table_name = 'flights' ORDER BY 2",
            "SELECT constraint_name, constraint_type FROM information_schema.table_constraints",
            "SELECT column_name, ordinal_position, position_in_unique_constraint FROM information_schema.key_column_usage ORDER BY 2",
        ],
        expect![[""]],
    )
    .await;
}

#[tokio::test]
async fn what_tools_ask_first() {
    check(
        false,
        &[
            "select pg_catalog.version()",
            "SELECT t.oid, typarray FROM pg_type t JOIN pg_namespace ns ON typnamespace = ns.oid WHERE typname = 'int4'",
            "SELECT typname, typinput, typsend FROM pg_type WHERE oid = 2950",
            "SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid WHERE c.relname = 'flights' AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
            "SELECT n.nspname, c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p') AND n.nspname = 'public'",
            "SELECT conname, pg_get_constraintdef(oid), conkey FROM pg_constraint WHERE conrelid = 16400 AND contype = 'p'",
            "SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey) WHERE i.indrelid = 'flights'::regclass AND i.indisprimary ORDER BY a.attnum",
            "SELECT name, setting FROM pg_settings",
            "SELECT pid, state, usename FROM pg_stat_activity",
            "SELECT count(*) FROM pg_locks",
            "SELECT * FROM pg_range",
            "SELECT tablename, hasindexes FROM pg_tables",
            "SELECT indexname, indexdef FROM pg_indexes",
        ],
        expect![[""]],
    )
    .await;
}
