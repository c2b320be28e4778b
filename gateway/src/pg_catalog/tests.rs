//! The queries of psql and of tools plan and run, and say what PostgreSQL would.

use super::{ROWS, relation};
use crate::{
    context::StatementContext,
    query::testing::{answer, session, shown},
    system_relations,
};
use expect_test::{Expect, expect};
use std::collections::BTreeSet;

const PSQL_15: &str = include_str!("testdata/psql15.sql");
const COMPLETION_OF_PSQL_15: &str = include_str!("testdata/psql15_completion.sql");

/// Each entry of [`ROWS`] is a relation of `relations.txt`, listed once, whose rows have its columns and types.
#[test]
fn listed_relations_are_there() {
    let mut seen = BTreeSet::new();
    for (schema, name, _) in ROWS {
        let Some(columns) = system_relations::find(schema, name) else { panic!("there is no {schema}.{name}") };
        assert!(seen.insert((schema, name)), "{schema}.{name} is listed twice");
        for operator in [false, true] {
            let context = session(operator);
            let config = context.copied_config();
            let statement = StatementContext::within(config.options()).unwrap();
            let made = relation(schema, name, statement).unwrap();
            assert_eq!(made.is_some(), system_relations::is_visible(columns, operator), "{schema}.{name}");
            if let Some(made) = made {
                assert_eq!(made.schema(), columns.columns, "{schema}.{name}");
            }
        }
    }
}

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
        for sql in statements(PSQL_15).into_iter().chain(statements(COMPLETION_OF_PSQL_15)) {
            if let Err(error) = answer(&context, &sql).await {
                failed.push(format!("{sql}\n=> {} {}", error.state.0, error.message));
            }
        }
        assert!(failed.is_empty(), "{}", failed.join("\n\n"));
    }
}

#[tokio::test]
async fn psql_completes_names() {
    let context = session(false);
    let mut found = Vec::new();
    for sql in statements(COMPLETION_OF_PSQL_15) {
        let rows = shown(&context, &sql).await;
        // Each has its names in the first column, or a schema's in the second.
        found.extend(["flights", "delay", "flights_pkey"].into_iter().filter(|name| rows.contains(*name)));
    }
    found.sort_unstable();
    found.dedup();
    assert_eq!(found, ["delay", "flights", "flights_pkey"]);
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
        expect![[r#"
            > SELECT d.datname as "Name",
                   pg_catalog.pg_get_userbyid(d.datdba) as "Owner",
                   pg_catalog.pg_encoding_to_char(d.encoding) as "Encoding",
                   d.datcollate as "Collate",
                   d.datctype as "Ctype",
                   d.daticulocale as "ICU Locale",
                   CASE d.datlocprovider WHEN 'c' THEN 'libc' WHEN 'i' THEN 'icu' END AS "Locale Provider",
                   pg_catalog.array_to_string(d.datacl, E'\n') AS "Access privileges"
            FROM pg_catalog.pg_database d
            ORDER BY 1
            Name:name | Owner:name | Encoding:name | Collate:text | Ctype:text | ICU Locale:text | Locale Provider:text | Access privileges:text
            ua | ana | UTF8 | C.UTF-8 | C.UTF-8 | NULL | libc | =T/ana
            ana=CTc/ana
            > SELECT n.nspname as "Schema",
              c.relname as "Name",
              CASE c.relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' WHEN 'i' THEN 'index' WHEN 'S' THEN 'sequence' WHEN 't' THEN 'TOAST table' WHEN 'f' THEN 'foreign table' WHEN 'p' THEN 'partitioned table' WHEN 'I' THEN 'partitioned index' END as "Type",
              pg_catalog.pg_get_userbyid(c.relowner) as "Owner"
            FROM pg_catalog.pg_class c
                 LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                 LEFT JOIN pg_catalog.pg_am am ON am.oid = c.relam
            WHERE c.relkind IN ('r','p','')
                  AND n.nspname <> 'pg_catalog'
                  AND n.nspname !~ '^pg_toast'
                  AND n.nspname <> 'information_schema'
              AND pg_catalog.pg_table_is_visible(c.oid)
            ORDER BY 1,2
            Schema:name | Name:name | Type:text | Owner:name
            public | flights | table | ana
            > SELECT c.oid,
              n.nspname,
              c.relname
            FROM pg_catalog.pg_class c
                 LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
            WHERE c.relname OPERATOR(pg_catalog.~) '^(flights)$' COLLATE pg_catalog.default
              AND pg_catalog.pg_table_is_visible(c.oid)
            ORDER BY 2, 3
            oid:oid | nspname:name | relname:name
            16400 | public | flights
            > SELECT a.attname,
              pg_catalog.format_type(a.atttypid, a.atttypmod),
              (SELECT pg_catalog.pg_get_expr(d.adbin, d.adrelid, true)
               FROM pg_catalog.pg_attrdef d
               WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum AND a.atthasdef),
              a.attnotnull,
              (SELECT c.collname FROM pg_catalog.pg_collation c, pg_catalog.pg_type t
               WHERE c.oid = a.attcollation AND t.oid = a.atttypid AND a.attcollation <> t.typcollation) AS attcollation,
              a.attidentity,
              a.attgenerated
            FROM pg_catalog.pg_attribute a
            WHERE a.attrelid = '16400' AND a.attnum > 0 AND NOT a.attisdropped
            ORDER BY a.attnum
            attname:name | format_type:text | pg_get_expr:text | attnotnull:bool | attcollation:name | attidentity:char | attgenerated:char
            origin | text | NULL | true | NULL |  | 
            dest | text | NULL | true | NULL |  | 
            at | timestamp with time zone | NULL | true | NULL |  | 
            flight | integer | NULL | false | NULL |  | 
            delay | double precision | NULL | false | NULL |  | 
            tail | character varying(10) | NULL | false | NULL |  | 
            price | numeric(10,2) | NULL | false | NULL |  | 
            u | uuid | NULL | false | NULL |  | 
            j | jsonb | NULL | false | NULL |  | 
            n | bigint | NULL | false | NULL |  | 
            > SELECT c2.relname, i.indisprimary, i.indisunique, i.indisclustered, i.indisvalid, pg_catalog.pg_get_indexdef(i.indexrelid, 0, true),
              pg_catalog.pg_get_constraintdef(con.oid, true), contype, condeferrable, condeferred, i.indisreplident, c2.reltablespace
            FROM pg_catalog.pg_class c, pg_catalog.pg_class c2, pg_catalog.pg_index i
              LEFT JOIN pg_catalog.pg_constraint con ON (conrelid = i.indrelid AND conindid = i.indexrelid AND contype IN ('p','u','x'))
            WHERE c.oid = '16400' AND c.oid = i.indrelid AND i.indexrelid = c2.oid
            ORDER BY i.indisprimary DESC, c2.relname
            relname:name | indisprimary:bool | indisunique:bool | indisclustered:bool | indisvalid:bool | pg_get_indexdef:text | pg_get_constraintdef:text | contype:char | condeferrable:bool | condeferred:bool | indisreplident:bool | reltablespace:oid
            flights_pkey | true | true | false | true | CREATE UNIQUE INDEX flights_pkey ON public.flights USING keyspan (origin, dest, at DESC) | PRIMARY KEY (origin, dest, at) | p | false | false | false | 0
            > SELECT r.rolname, r.rolsuper, r.rolinherit,
              r.rolcreaterole, r.rolcreatedb, r.rolcanlogin,
              r.rolconnlimit, r.rolvaliduntil,
              ARRAY(SELECT b.rolname
                    FROM pg_catalog.pg_auth_members m
                    JOIN pg_catalog.pg_roles b ON (m.roleid = b.oid)
                    WHERE m.member = r.oid) as memberof
            , r.rolreplication
            , r.rolbypassrls
            FROM pg_catalog.pg_roles r
            WHERE r.rolname !~ '^pg_'
            ORDER BY 1
            rolname:name | rolsuper:bool | rolinherit:bool | rolcreaterole:bool | rolcreatedb:bool | rolcanlogin:bool | rolconnlimit:int4 | rolvaliduntil:timestamptz | memberof:_name | rolreplication:bool | rolbypassrls:bool
            ana | false | true | false | false | true | -1 | NULL | {} | false | false
            keyspan | true | true | true | true | true | -1 | NULL | {} | false | false
            > SELECT n.nspname AS "Name",
              pg_catalog.pg_get_userbyid(n.nspowner) AS "Owner"
            FROM pg_catalog.pg_namespace n
            WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
            ORDER BY 1
            Name:name | Owner:name
            public | pg_database_owner"#]],
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
        expect![[r#"
            > SELECT datname FROM pg_database
            datname:name
            ua
            > SELECT rolname FROM pg_roles ORDER BY 1
            rolname:name
            ana
            keyspan
            pg_database_owner
            pg_read_all_data
            pg_write_all_data
            > SELECT usename FROM pg_user ORDER BY 1
            usename:name
            ana
            keyspan
            > SELECT pg_get_userbyid(16393)
            pg_get_userbyid:name
            unknown (OID=16393)
            > SELECT has_database_privilege('aa', 'CONNECT'), has_database_privilege('ua', 'CONNECT')
            has_database_privilege:bool | has_database_privilege:bool
            false | true
            > SELECT 'bob'::regrole
            42704 role "bob" does not exist
            > SELECT catalog_name, schema_name FROM information_schema.schemata ORDER BY 2
            catalog_name:name | schema_name:name
            ua | information_schema
            ua | pg_catalog
            ua | public
            > SELECT count(*) FROM pg_class WHERE relname = 'tenants'
            count:int8
            0"#]],
    )
    .await;
    check(
        true,
        &[
            "SELECT datname FROM pg_database ORDER BY 1",
            "SELECT tenant, state, created_at, scan_budget FROM keyspan.tenants ORDER BY 1",
            "SELECT * FROM keyspan.drops",
            "SELECT attname, attnum, attnotnull FROM pg_attribute WHERE attrelid = 'flights'::regclass ORDER BY attnum LIMIT 3",
            "SELECT indkey, indoption FROM pg_index",
        ],
        expect![[r#"
            > SELECT datname FROM pg_database ORDER BY 1
            datname:name
            aa
            keyspan
            ua
            > SELECT tenant, state, created_at, scan_budget FROM keyspan.tenants ORDER BY 1
            tenant:text | state:text | created_at:timestamptz | scan_budget:int8
            aa | active | 2013-01-02 03:04:05+00 | NULL
            ua | active | 2013-01-02 03:04:05+00 | NULL
            > SELECT * FROM keyspan.drops
            oid:oid | tenant:text | dropped_by:text | tables:int8 | rows:int8 | bytes:int8 | dropped_at:timestamptz | purged_at:timestamptz | purge:text | purge_error:text | cells:int8 | history_rows:int8 | history_bytes:int8 | private_tables:int8 | temporary_tables:int8 | sequences:int8 | views:int8 | exports:int8 | verified_by:text | contents:text | left_to_bigtable:text
            > SELECT attname, attnum, attnotnull FROM pg_attribute WHERE attrelid = 'flights'::regclass ORDER BY attnum LIMIT 3
            attname:name | attnum:int2 | attnotnull:bool
            tenant | 1 | true
            origin | 2 | true
            dest | 3 | true
            > SELECT indkey, indoption FROM pg_index
            indkey:int2vector | indoption:int2vector
            {1,2,3,4} | {0,0,0,3}"#]],
    )
    .await;
}

#[tokio::test]
async fn functions_of_the_session() {
    check(
        false,
        &[
            "SELECT version() LIKE 'PostgreSQL 15.%', current_database(), current_schema(), current_schema, current_schemas(true)",
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
        expect![[r#"
            > SELECT version() LIKE 'PostgreSQL 15.%', current_database(), current_schema(), current_schema, current_schemas(true)
            ?column?:bool | current_database:name | current_schema:name | current_schema:name | current_schemas:_text
            true | ua | public | public | {pg_catalog,public}
            > SELECT current_user, session_user, user, current_role, pg_backend_pid()
            current_user:name | session_user:name | user:name | current_role:name | pg_backend_pid:int4
            ana | ana | ana | ana | 42
            > SELECT current_setting('search_path'), current_setting('nix', true), current_setting('server_version_num')
            current_setting:text | current_setting:text | current_setting:text
            "$user", public | NULL | 150018
            > SELECT current_setting('nix')
            42704 unrecognized configuration parameter "nix"
            > SELECT format_type(1043, 16), format_type(1700, 655366), format_type(1009, -1), format_type(23, NULL)
            format_type:text | format_type:text | format_type:text | format_type:text
            character varying(12) | numeric(10,2) | text[] | integer
            > SELECT 'flights'::regclass, 'flights'::regclass::oid, 16400::regclass, to_regclass('nix')
            regclass:text | oid:oid | regclass:text | to_regclass:text
            flights | 16400 | flights | NULL
            > SELECT 'nix'::regclass
            42P01 relation "nix" does not exist
            > SELECT 'int4'::regtype, 23::regtype::text, 'pg_class'::regclass::oid
            regtype:text | text:text | oid:oid
            integer | integer | 1259
            > SELECT pg_size_pretty(12345678), pg_encoding_to_char(6), pg_typeof(1), quote_ident('A b')
            pg_size_pretty:text | pg_encoding_to_char:name | pg_typeof:text | quote_ident:text
            12 MB | UTF8 | integer | "A b"
            > SELECT (current_schemas(true))[1], array_to_string(current_schemas(true), ',')
            current_schemas:text | array_to_string:text
            pg_catalog | pg_catalog,public
            > SELECT relname FROM pg_class WHERE oid = 'flights'::regclass
            relname:name
            flights
            > SELECT nspname FROM pg_namespace WHERE nspname = ANY(current_schemas(false))
            nspname:name
            public
            > SELECT inet_server_addr(), pg_is_in_recovery(), pg_catalog.pg_client_encoding()
            inet_server_addr:text | pg_is_in_recovery:bool | pg_client_encoding:text
            NULL | false | UTF8"#]],
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
        expect![[r#"
            > SELECT table_name, table_type FROM information_schema.tables WHERE table_schema = 'public'
            table_name:name | table_type:varchar
            flights | BASE TABLE
            > SELECT column_name, ordinal_position, is_nullable, data_type, character_maximum_length, numeric_precision, udt_name FROM information_schema.columns WHERE table_name = 'flights' ORDER BY 2
            column_name:name | ordinal_position:int4 | is_nullable:varchar | data_type:varchar | character_maximum_length:int4 | numeric_precision:int4 | udt_name:name
            origin | 1 | NO | text | NULL | NULL | text
            dest | 2 | NO | text | NULL | NULL | text
            at | 3 | NO | timestamp with time zone | NULL | NULL | timestamptz
            flight | 4 | YES | integer | NULL | 32 | int4
            delay | 5 | YES | double precision | NULL | 53 | float8
            tail | 6 | YES | character varying | 10 | NULL | varchar
            price | 7 | YES | numeric | NULL | 10 | numeric
            u | 8 | YES | uuid | NULL | NULL | uuid
            j | 9 | YES | jsonb | NULL | NULL | jsonb
            n | 10 | YES | bigint | NULL | 64 | int8
            > SELECT constraint_name, constraint_type FROM information_schema.table_constraints
            constraint_name:name | constraint_type:varchar
            flights_pkey | PRIMARY KEY
            > SELECT column_name, ordinal_position, position_in_unique_constraint FROM information_schema.key_column_usage ORDER BY 2
            column_name:name | ordinal_position:int4 | position_in_unique_constraint:int4
            origin | 1 | NULL
            dest | 2 | NULL
            at | 3 | NULL"#]],
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
            "SELECT name, setting FROM pg_settings WHERE category = 'Keyspan'",
            "SELECT count(*) FROM pg_locks",
            "SELECT * FROM pg_range",
            "SELECT tablename, hasindexes FROM pg_tables",
            "SELECT indexname, indexdef FROM pg_indexes",
        ],
        expect![[r#"
            > select pg_catalog.version()
            version:text
            PostgreSQL 15.18 (Keyspan 0.1.0) on x86_64, 64-bit
            > SELECT t.oid, typarray FROM pg_type t JOIN pg_namespace ns ON typnamespace = ns.oid WHERE typname = 'int4'
            oid:oid | typarray:oid
            23 | 1007
            > SELECT typname, typinput, typsend FROM pg_type WHERE oid = 2950
            typname:name | typinput:text | typsend:text
            uuid | uuid_in | uuid_send
            > SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid WHERE c.relname = 'flights' AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
            attname:name | format_type:text | attnotnull:bool
            origin | text | true
            dest | text | true
            at | timestamp with time zone | true
            flight | integer | false
            delay | double precision | false
            tail | character varying(10) | false
            price | numeric(10,2) | false
            u | uuid | false
            j | jsonb | false
            n | bigint | false
            > SELECT n.nspname, c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p') AND n.nspname = 'public'
            nspname:name | relname:name
            public | flights
            > SELECT conname, pg_get_constraintdef(oid), conkey FROM pg_constraint WHERE conrelid = 16400 AND contype = 'p'
            conname:name | pg_get_constraintdef:text | conkey:_int2
            flights_pkey | PRIMARY KEY (origin, dest, at) | {1,2,3}
            > SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey) WHERE i.indrelid = 'flights'::regclass AND i.indisprimary ORDER BY a.attnum
            attname:name
            origin
            dest
            at
            > SELECT name, setting FROM pg_settings WHERE category = 'Keyspan'
            name:text | setting:text
            search_path | "$user", public
            > SELECT count(*) FROM pg_locks
            count:int8
            0
            > SELECT * FROM pg_range
            rngtypid:oid | rngsubtype:oid | rngmultitypid:oid | rngcollation:oid | rngsubopc:oid | rngcanonical:text | rngsubdiff:text
            > SELECT tablename, hasindexes FROM pg_tables
            tablename:name | hasindexes:bool
            flights | true
            > SELECT indexname, indexdef FROM pg_indexes
            indexname:name | indexdef:text
            flights_pkey | CREATE UNIQUE INDEX flights_pkey ON public.flights USING keyspan (origin, dest, at DESC)"#]],
    )
    .await;
}
