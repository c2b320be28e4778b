//! Rights on relations: who may read and write what, by whom it was granted, and how soon a revoke holds.

use super::harness::{Harness, PASSWORD, error, rows, told};
use anyhow::{Context, Result};
use futures::TryStreamExt;
use keyspan_catalog::{Edit, Quotas, Snapshot, Tenant, TenantId, TenantState};
use tokio_postgres::Client;

/// What a statement needs on the table `{t}`, by PostgreSQL's letters: `a` INSERT, `r` SELECT, `w` UPDATE, `d` DELETE,
/// `D` TRUNCATE.
const STATEMENTS: &[(&str, &str)] = &[
    ("SELECT * FROM {t}", "r"),
    ("SELECT v FROM {t} WHERE k = 1", "r"),
    ("SELECT k FROM {t} ORDER BY k LIMIT 1", "r"),
    ("SELECT count(*), max(v) FROM {t}", "r"),
    ("SELECT 1 WHERE EXISTS (SELECT 1 FROM {t} WHERE k = 1)", "r"),
    ("WITH x AS (SELECT v FROM {t}) SELECT 1 FROM x", "r"),
    ("SELECT a.v FROM {t} a JOIN {t} b ON a.k = b.k", "r"),
    ("SELECT * FROM cells('{t}')", "r"),
    ("SELECT * FROM raw('{t}')", "r"),
    ("SELECT v FROM {t} WHERE k = 1 FOR UPDATE", "rw"),
    ("SELECT v FROM {t} FOR SHARE SKIP LOCKED", "rw"),
    ("EXPLAIN SELECT * FROM {t} WHERE v = 'a'", "r"),
    ("EXPLAIN ANALYZE SELECT * FROM {t}", "r"),
    ("EXPLAIN DELETE FROM {t} WHERE k = 1", "rd"),
    ("CREATE TEMPORARY TABLE copied AS SELECT * FROM {t}", "r"),
    ("INSERT INTO {t} VALUES (70, 'n')", "a"),
    ("INSERT INTO {t} SELECT 71, 'n'", "a"),
    ("INSERT INTO {t} SELECT k + 100, v FROM {t}", "ar"),
    ("INSERT INTO {t} VALUES (72, 'n') RETURNING v", "ar"),
    ("INSERT INTO {t} VALUES (1, 'n') ON CONFLICT DO NOTHING", "a"),
    ("INSERT INTO {t} VALUES (1, 'n') ON CONFLICT (k) DO NOTHING", "ar"),
    ("INSERT INTO {t} VALUES (1, 'n') ON CONFLICT (k) DO UPDATE SET v = EXCLUDED.v", "arw"),
    ("UPDATE {t} SET v = 'u'", "w"),
    ("UPDATE {t} SET v = 'u' WHERE k = 1", "rw"),
    ("UPDATE {t} SET v = v || 'u'", "rw"),
    ("UPDATE {t} SET v = 'u' RETURNING k", "rw"),
    ("DELETE FROM {t}", "d"),
    ("DELETE FROM {t} WHERE k = 1", "rd"),
    ("DELETE FROM {t} USING (VALUES (1)) x(y) WHERE k = y", "rd"),
    ("MERGE INTO {t} USING (VALUES (1)) x(y) ON k = y WHEN MATCHED THEN DELETE", "rd"),
    ("MERGE INTO {t} USING (VALUES (9)) x(y) ON k = y WHEN NOT MATCHED THEN INSERT VALUES (y, 'm')", "ar"),
    ("TRUNCATE {t}", "D"),
];

/// What no right on a table gives.
const OWNERS: &[&str] = &["ALTER TABLE {t} ADD COLUMN w int", "DROP TABLE {t}", "COMMENT ON TABLE {t} IS 'mine'"];

/// Sets of rights that a role is given.
const SETS: &[&str] = &["", "a", "r", "w", "d", "D", "ar", "rw", "rd", "arw", "arwd", "wdD", "arwdD"];

fn names(letters: &str) -> String {
    let name = |letter| match letter {
        'a' => "INSERT",
        'r' => "SELECT",
        'w' => "UPDATE",
        'd' => "DELETE",
        _ => "TRUNCATE",
    };
    letters.chars().map(name).collect::<Vec<_>>().join(", ")
}

/// A shared table, and a tenant `alto` with a private one; its owner's client, and that of `ben`, who may only connect.
async fn two_tables(harness: &Harness) -> Result<(Client, Client)> {
    let operator = harness.operator().await?;
    operator.batch_execute("CREATE TABLE shared (k bigint PRIMARY KEY, v text)").await?;
    let alto = harness.tenant("alto").await?;
    alto.batch_execute("CREATE TABLE own (k bigint PRIMARY KEY, v text)").await?;
    for table in ["shared", "own"] {
        alto.batch_execute(&format!("INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")).await?;
    }
    Ok((alto, role(harness, "ben").await?))
}

/// A role that may connect to `alto`, and its client.
async fn role(harness: &Harness, name: &str) -> Result<Client> {
    let operator = harness.operator().await?;
    operator.batch_execute(&format!("CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}'")).await?;
    operator.batch_execute(&format!("GRANT CONNECT ON DATABASE alto TO {name}")).await?;
    harness.connect(name, "alto").await
}

/// The answer to a statement: `ok`, or the error.
async fn answer(client: &Client, sql: &str) -> String {
    client.batch_execute(sql).await.map_or_else(|error| told(&error), |()| "ok".to_owned())
}

/// The same, forgotten when it was allowed.
async fn forgotten(client: &Client, sql: &str, allowed: bool) -> Result<String> {
    if !allowed {
        return Ok(answer(client, sql).await);
    }
    client.batch_execute("BEGIN").await?;
    let done = answer(client, sql).await;
    client.batch_execute("ROLLBACK").await?;
    Ok(done)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_statement_needs_its_rights() -> Result<()> {
    let harness = Harness::start().await?;
    let (alto, ben) = two_tables(&harness).await?;
    let operator = harness.operator().await?;
    let table = |sql: &str, table: &str| sql.replace("{t}", table);
    for name in ["shared", "own"] {
        // Prepared before there was any right.
        let mut prepared = Vec::new();
        for (sql, _) in STATEMENTS {
            let sql = table(sql, name);
            prepared.push(ben.prepare(&sql).await.with_context(|| sql)?);
        }
        let before = rows(&alto, &format!("SELECT * FROM {name} ORDER BY k")).await?;
        let denied = format!("42501 permission denied for table {name}");
        for set in SETS {
            alto.batch_execute(&format!("REVOKE ALL ON {name} FROM ben")).await?;
            if !set.is_empty() {
                alto.batch_execute(&format!("GRANT {} ON {name} TO ben", names(set))).await?;
            }
            for ((sql, needs), prepared) in STATEMENTS.iter().zip(&prepared) {
                let allowed = needs.chars().all(|right| set.contains(right));
                let expected = if allowed { "ok" } else { denied.as_str() };
                let sql = table(sql, name);
                assert_eq!(forgotten(&ben, &sql, allowed).await?, expected, "{sql} with {set:?}");
                ben.batch_execute("BEGIN").await?;
                let done = ben.query(prepared, &[]).await.map_or_else(|error| told(&error), |_| "ok".to_owned());
                ben.batch_execute("ROLLBACK").await?;
                assert_eq!(done, expected, "prepared: {sql} with {set:?}");
            }
            let copied = ben.copy_out(&format!("COPY {name} TO STDOUT")).await;
            let copied = match copied {
                Ok(rows) => rows.try_collect::<Vec<_>>().await.map(drop),
                Err(error) => Err(error),
            };
            let copied = copied.map_or_else(|error| told(&error), |()| "ok".to_owned());
            assert_eq!(copied, if set.contains('r') { "ok" } else { denied.as_str() }, "COPY TO with {set:?}");
            // A connection of its own: the driver sends on after a refusal.
            let loader = harness.connect("ben", "alto").await?;
            let loads = match loader.copy_in::<_, bytes::Bytes>(&format!("COPY {name} FROM STDIN")).await {
                Ok(nothing) => Box::pin(nothing).as_mut().finish().await.map(drop),
                Err(error) => Err(error),
            };
            let loads = loads.map_or_else(|error| told(&error), |()| "ok".to_owned());
            assert_eq!(loads, if set.contains('a') { "ok" } else { denied.as_str() }, "COPY FROM with {set:?}");
            for sql in OWNERS {
                let sql = table(sql, name);
                let done = answer(&ben, &sql).await;
                assert_eq!(done, format!("42501 must be owner of table {name}"), "{sql} with {set:?}");
            }
            assert_eq!(rows(&alto, &format!("SELECT * FROM {name} ORDER BY k")).await?, before, "after {set:?}");
        }
    }
    assert_eq!(rows(&operator, "SELECT tenant, k, v FROM shared ORDER BY k").await?, ["alto|1|a", "alto|2|b"]);
    Ok(())
}

#[tokio::test]
async fn an_error_shows_no_row_to_who_may_not_read() -> Result<()> {
    let harness = Harness::start().await?;
    let (alto, ben) = two_tables(&harness).await?;
    alto.batch_execute(
        "CREATE TABLE pay (k int PRIMARY KEY, secret text NOT NULL, v int CHECK (v < 9)); INSERT INTO pay VALUES (1, 'hidden', 2);
         GRANT UPDATE ON pay TO ben",
    )
    .await?;
    let detail = async |sql: &str| {
        let error = ben.batch_execute(sql).await.unwrap_err();
        error.as_db_error().map(|error| (error.code().code().to_owned(), error.detail().map(str::to_owned)))
    };
    for (sql, state) in [("UPDATE pay SET v = 10", "23514"), ("UPDATE pay SET secret = NULL", "23502")] {
        assert_eq!(detail(sql).await, Some((state.to_owned(), None)), "{sql}");
    }
    alto.batch_execute("GRANT SELECT ON pay TO ben").await?;
    let shown = "Failing row contains (1, hidden, 10).".to_owned();
    assert_eq!(detail("UPDATE pay SET v = 10").await, Some(("23514".to_owned(), Some(shown))));
    Ok(())
}

#[tokio::test]
async fn connect_alone_gives_nothing() -> Result<()> {
    let harness = Harness::start().await?;
    let (_alto, ben) = two_tables(&harness).await?;
    let operator = harness.operator().await?;
    operator.batch_execute("CREATE TABLE past (k bigint PRIMARY KEY) WITH (history = '1 day')").await?;
    for (sql, expected) in [
        ("SELECT * FROM own", "42501 permission denied for table own"),
        ("SELECT * FROM public.shared", "42501 permission denied for table shared"),
        ("SELECT * FROM \"2200 with keys\".own", "3F000 schema \"2200 with keys\" does not exist"),
        ("INSERT INTO own SELECT * FROM \"2200 as target\".own", "3F000 schema \"2200 as target\" does not exist"),
        ("SELECT * FROM \"public as target\".own", "42P01 relation \"public as target.own\" does not exist"),
        ("SELECT * FROM past FOR SYSTEM_TIME AS OF now()", "42501 permission denied for table past"),
        ("CREATE TABLE mine (k bigint PRIMARY KEY)", "42501 permission denied for schema public"),
        ("CREATE TABLE mine AS SELECT 1", "42501 permission denied for schema public"),
        ("SELECT 1 AS one INTO mine", "42501 permission denied for schema public"),
        ("CREATE VIEW mine AS SELECT 1 AS one", "42501 permission denied for schema public"),
        ("CREATE SEQUENCE mine", "42501 permission denied for schema public"),
        ("GRANT SELECT ON own TO ben", "42501 permission denied for table own"),
        ("GRANT alto TO ben", "42501 must have admin option on role \"alto\""),
        ("ALTER TABLE own OWNER TO ben", "42501 must be owner of table own"),
        ("ALTER DATABASE alto OWNER TO ben", "42501 must be owner of database alto"),
    ] {
        assert_eq!(answer(&ben, sql).await, expected, "{sql}");
    }
    // What is temporary is the session's own.
    ben.batch_execute("CREATE TEMPORARY TABLE t (k bigint PRIMARY KEY); INSERT INTO t VALUES (1)").await?;
    assert_eq!(rows(&ben, "SELECT * FROM t").await?, ["1"]);
    Ok(())
}

#[tokio::test]
async fn a_revoke_reaches_cursors_and_portals() -> Result<()> {
    let harness = Harness::start().await?;
    let (alto, mut ben) = two_tables(&harness).await?;
    let denied = "42501 permission denied for table own";
    alto.batch_execute("GRANT SELECT ON own TO ben").await?;
    let held = harness.connect("ben", "alto").await?;
    held.batch_execute("DECLARE held CURSOR WITH HOLD FOR SELECT * FROM own ORDER BY k").await?;
    assert_eq!(rows(&held, "FETCH 1 FROM held").await?, ["1|a"]);
    let scrolled = harness.connect("ben", "alto").await?;
    scrolled.batch_execute("BEGIN; DECLARE c SCROLL CURSOR FOR SELECT * FROM own ORDER BY k").await?;
    assert_eq!(rows(&scrolled, "FETCH 2 FROM c").await?.len(), 2);
    let transaction = ben.transaction().await?;
    let portal = transaction.bind("SELECT * FROM own ORDER BY k", &[]).await?;
    assert_eq!(transaction.query_portal(&portal, 1).await?.len(), 1);

    alto.batch_execute("REVOKE SELECT ON own FROM ben").await?;
    assert_eq!(error(&held, "FETCH 1 FROM held").await, denied);
    assert_eq!(error(&scrolled, "FETCH BACKWARD 1 FROM c").await, denied);
    assert_eq!(told(&transaction.query_portal(&portal, 1).await.unwrap_err()), denied);
    transaction.rollback().await?;
    alto.batch_execute("GRANT SELECT ON own TO ben").await?;
    assert_eq!(rows(&held, "FETCH 1 FROM held").await?, ["2|b"]);
    Ok(())
}

#[tokio::test]
async fn a_role_for_reports_can_only_read() -> Result<()> {
    let harness = Harness::start().await?;
    let (alto, ben) = two_tables(&harness).await?;
    alto.batch_execute(
        "GRANT SELECT ON ALL TABLES IN SCHEMA public TO ben;
         ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO ben;
         CREATE TABLE later (k bigserial PRIMARY KEY, v text); INSERT INTO later (v) VALUES ('l');
         CREATE VIEW seen AS SELECT upper(v) AS v FROM later",
    )
    .await?;
    for (sql, expected) in [
        ("SELECT v FROM shared ORDER BY k", ["a", "b"].as_slice()),
        ("SELECT v FROM own ORDER BY k", &["a", "b"]),
        ("SELECT v FROM later", &["l"]),
        ("SELECT v FROM seen", &["L"]),
    ] {
        assert_eq!(rows(&ben, sql).await?, expected, "{sql}");
    }
    for sql in ["INSERT INTO later (v) VALUES ('x')", "DELETE FROM later", "TRUNCATE later"] {
        assert_eq!(answer(&ben, sql).await, "42501 permission denied for table later", "{sql}");
    }
    assert_eq!(answer(&ben, "SELECT nextval('later_k_seq')").await, "42501 permission denied for sequence later_k_seq");
    alto.batch_execute("ALTER DEFAULT PRIVILEGES IN SCHEMA public REVOKE SELECT ON TABLES FROM ben; CREATE TABLE last (k int PRIMARY KEY)")
        .await?;
    assert_eq!(answer(&ben, "SELECT * FROM last").await, "42501 permission denied for table last");
    Ok(())
}

#[tokio::test]
async fn predefined_roles_read_and_write_everything() -> Result<()> {
    let harness = Harness::start().await?;
    let (alto, ben) = two_tables(&harness).await?;
    let operator = harness.operator().await?;
    operator.batch_execute("GRANT pg_read_all_data TO ben").await?;
    assert_eq!(rows(&ben, "SELECT v FROM own JOIN shared USING (k, v) ORDER BY k").await?, ["a", "b"]);
    assert_eq!(answer(&ben, "DELETE FROM own").await, "42501 permission denied for table own");
    operator.batch_execute("REVOKE pg_read_all_data FROM ben; GRANT pg_write_all_data TO ben").await?;
    ben.batch_execute("DELETE FROM own; INSERT INTO own VALUES (3, 'c')").await?;
    assert_eq!(answer(&ben, "SELECT * FROM own").await, "42501 permission denied for table own");
    assert_eq!(answer(&ben, "TRUNCATE own").await, "42501 permission denied for table own");
    assert_eq!(rows(&alto, "SELECT v FROM own").await?, ["c"]);
    Ok(())
}

#[tokio::test]
async fn views_read_with_the_rights_of_their_owner() -> Result<()> {
    let harness = Harness::start().await?;
    let (alto, ben) = two_tables(&harness).await?;
    alto.batch_execute("GRANT CREATE ON SCHEMA public TO ben; CREATE VIEW firsts AS SELECT v FROM own WHERE k = 1")
        .await?;
    assert_eq!(answer(&ben, "SELECT * FROM firsts").await, "42501 permission denied for view firsts");
    alto.batch_execute("GRANT SELECT ON firsts TO ben").await?;
    assert_eq!(rows(&ben, "SELECT * FROM firsts").await?, ["a"]);
    assert_eq!(answer(&ben, "SELECT * FROM own").await, "42501 permission denied for table own");
    // A view of his own reads with his own rights, also for others.
    ben.batch_execute("CREATE VIEW of_ben AS SELECT v FROM own; GRANT SELECT ON of_ben TO alto").await?;
    for client in [&ben, &alto] {
        assert_eq!(answer(client, "SELECT * FROM of_ben").await, "42501 permission denied for table own");
    }
    alto.batch_execute("GRANT SELECT ON own TO ben").await?;
    assert_eq!(rows(&alto, "SELECT * FROM of_ben ORDER BY v").await?, ["a", "b"]);
    assert_eq!(
        answer(&ben, "CREATE VIEW invoked WITH (security_invoker = true) AS SELECT 1 AS a").await,
        "0A000 option security_invoker of a view is not supported"
    );
    Ok(())
}

#[tokio::test]
async fn private_tables_belong_to_who_made_them() -> Result<()> {
    let harness = Harness::start().await?;
    let (alto, ben) = two_tables(&harness).await?;
    let eve = role(&harness, "eve").await?;
    alto.batch_execute("GRANT CREATE ON SCHEMA public TO ben").await?;
    ben.batch_execute("CREATE TABLE of_ben (k bigserial PRIMARY KEY, v text); INSERT INTO of_ben (v) VALUES ('b')")
        .await?;
    for client in [&alto, &eve] {
        assert_eq!(answer(client, "SELECT * FROM of_ben").await, "42501 permission denied for table of_ben");
        assert_eq!(answer(client, "ALTER TABLE of_ben ADD w int").await, "42501 must be owner of table of_ben");
    }
    assert_eq!(answer(&eve, "DROP TABLE of_ben").await, "42501 must be owner of table of_ben");
    assert_eq!(answer(&ben, "ALTER TABLE of_ben OWNER TO eve").await, "42501 must be member of role \"eve\"");
    harness.operator().await?.batch_execute("GRANT eve TO ben").await?;
    assert_eq!(answer(&ben, "ALTER TABLE of_ben OWNER TO eve").await, "42501 permission denied for schema public");
    alto.batch_execute("GRANT CREATE ON SCHEMA public TO eve").await?;
    ben.batch_execute("ALTER TABLE of_ben OWNER TO eve").await?;
    // His rights are now those of a member.
    eve.batch_execute("INSERT INTO of_ben (v) VALUES ('e')").await?;
    assert_eq!(rows(&ben, "SELECT v FROM of_ben ORDER BY k").await?, ["b", "e"]);
    let operator = harness.operator().await?;
    assert_eq!(
        error(&operator, "REVOKE CONNECT ON DATABASE alto FROM eve; DROP ROLE eve").await,
        "2BP01 role \"eve\" cannot be dropped because some objects depend on it"
    );
    // The owner of the database owns the schema, and may drop what is in it.
    alto.batch_execute("DROP TABLE of_ben; REVOKE CREATE ON SCHEMA public FROM eve").await?;
    operator.batch_execute("DROP ROLE eve").await?;
    Ok(())
}

#[tokio::test]
async fn grants_are_passed_on_and_taken_back() -> Result<()> {
    let harness = Harness::start().await?;
    let (alto, ben) = two_tables(&harness).await?;
    let eve = role(&harness, "eve").await?;
    alto.batch_execute("GRANT SELECT ON own TO ben WITH GRANT OPTION").await?;
    ben.batch_execute("GRANT SELECT ON own TO eve").await?;
    assert_eq!(rows(&eve, "SELECT v FROM own WHERE k = 2").await?, ["b"]);
    // Not all that he asks for is his to give: a warning, and what he has.
    ben.batch_execute("GRANT ALL ON own TO eve").await?;
    assert_eq!(answer(&eve, "DELETE FROM own").await, "42501 permission denied for table own");
    assert_eq!(error(&alto, "REVOKE SELECT ON own FROM ben").await, "2BP01 dependent privileges exist");
    alto.batch_execute("REVOKE SELECT ON own FROM ben CASCADE").await?;
    assert_eq!(answer(&eve, "SELECT v FROM own WHERE k = 2").await, "42501 permission denied for table own");
    alto.batch_execute("GRANT SELECT ON own TO PUBLIC").await?;
    assert_eq!(rows(&eve, "SELECT v FROM own WHERE k = 2").await?, ["b"]);
    for (sql, expected) in [
        ("GRANT SELECT ON own TO PUBLIC WITH GRANT OPTION", "0LP01 grant options can only be granted to roles"),
        ("GRANT USAGE ON own TO ben", "0LP01 invalid privilege type USAGE for table"),
        ("GRANT SELECT (v) ON own TO ben", "0A000 GRANT and REVOKE of privileges on columns is not supported"),
        ("GRANT SELECT ON own TO nobody", "42704 role \"nobody\" does not exist"),
        ("GRANT SELECT ON ghost TO ben", "42P01 relation \"ghost\" does not exist"),
        ("GRANT SELECT ON ALL TABLES IN SCHEMA elsewhere TO ben", "3F000 schema \"elsewhere\" does not exist"),
    ] {
        assert_eq!(answer(&alto, sql).await, expected, "{sql}");
    }
    Ok(())
}

#[tokio::test]
async fn grants_are_part_of_their_transaction() -> Result<()> {
    let harness = Harness::start().await?;
    let (alto, ben) = two_tables(&harness).await?;
    alto.batch_execute("BEGIN; CREATE TABLE made (k int PRIMARY KEY); INSERT INTO made VALUES (1)").await?;
    alto.batch_execute("GRANT SELECT ON made, own TO ben").await?;
    assert_eq!(rows(&alto, "SELECT * FROM made").await?, ["1"]);
    assert_eq!(answer(&ben, "SELECT * FROM own").await, "42501 permission denied for table own");
    alto.batch_execute("COMMIT").await?;
    assert_eq!(rows(&ben, "SELECT made.k FROM made JOIN own USING (k)").await?, ["1"]);
    alto.batch_execute("BEGIN; REVOKE SELECT ON made FROM ben; ROLLBACK").await?;
    assert_eq!(rows(&ben, "SELECT * FROM made").await?, ["1"]);
    alto.batch_execute("BEGIN; TRUNCATE made RESTART IDENTITY; COMMIT").await?;
    assert_eq!(rows(&ben, "SELECT count(*) FROM made").await?, ["0"]);
    Ok(())
}

#[tokio::test]
async fn members_have_the_rights_of_their_roles() -> Result<()> {
    let harness = Harness::start().await?;
    let (alto, ben) = two_tables(&harness).await?;
    let operator = harness.operator().await?;
    operator.batch_execute(&format!("CREATE ROLE readers; CREATE ROLE zoe LOGIN PASSWORD '{PASSWORD}'")).await?;
    assert!(harness.connect("zoe", "alto").await.is_err(), "nobody has let her in");
    // A role that the tenant's database does not know is not there.
    assert_eq!(answer(&alto, "GRANT SELECT ON own TO readers").await, "42704 role \"readers\" does not exist");
    operator.batch_execute("GRANT readers TO ben WITH ADMIN OPTION").await?;
    alto.batch_execute("GRANT SELECT ON own TO readers").await?;
    assert_eq!(rows(&ben, "SELECT v FROM own WHERE k = 1").await?, ["a"]);
    operator.batch_execute("GRANT CONNECT ON DATABASE alto TO readers; GRANT readers TO zoe").await?;
    let zoe = harness.connect("zoe", "alto").await?;
    assert_eq!(rows(&zoe, "SELECT v FROM own WHERE k = 1").await?, ["a"]);
    assert_eq!(answer(&zoe, "GRANT readers TO ben").await, "42501 must have admin option on role \"readers\"");
    ben.batch_execute("REVOKE readers FROM zoe").await?;
    let ended = answer(&zoe, "SELECT v FROM own WHERE k = 1").await;
    assert!(ended.starts_with("57P01") || ended.starts_with("not from the server"), "{ended}");
    operator.batch_execute("ALTER ROLE ben NOINHERIT").await?;
    assert_eq!(answer(&ben, "SELECT v FROM own WHERE k = 1").await, "42501 permission denied for table own");
    assert_eq!(error(&operator, "GRANT ben TO readers").await, "0LP01 role \"ben\" is a member of role \"readers\"");
    // The members of the owner are owners.
    operator.batch_execute("ALTER ROLE ben INHERIT; GRANT alto TO ben").await?;
    ben.batch_execute("CREATE TABLE t (k int PRIMARY KEY); TRUNCATE own, shared").await?;
    Ok(())
}

#[tokio::test]
async fn sequences_have_rights_of_their_own() -> Result<()> {
    let harness = Harness::start().await?;
    let (alto, ben) = two_tables(&harness).await?;
    alto.batch_execute(
        "CREATE SEQUENCE s; CREATE TABLE serials (k bigserial PRIMARY KEY, v text);
         CREATE TABLE identities (k bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v text);
         GRANT INSERT ON serials, identities TO ben",
    )
    .await?;
    let denied = "42501 permission denied for sequence s";
    for sql in ["SELECT nextval('s')", "SELECT setval('s', 5)"] {
        assert_eq!(answer(&ben, sql).await, denied, "{sql}");
    }
    assert_eq!(
        answer(&ben, "INSERT INTO serials (v) VALUES ('x')").await,
        "42501 permission denied for sequence serials_k_seq"
    );
    ben.batch_execute("INSERT INTO identities (v) VALUES ('x')").await?;
    alto.batch_execute("GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO ben").await?;
    ben.batch_execute("INSERT INTO serials (v) VALUES ('x')").await?;
    assert_eq!(rows(&ben, "SELECT nextval('s')").await?, ["1"]);
    assert_eq!(answer(&ben, "SELECT setval('s', 5)").await, denied);
    alto.batch_execute("REVOKE ALL ON SEQUENCE s FROM ben; GRANT UPDATE ON SEQUENCE s TO ben").await?;
    ben.batch_execute("SELECT setval('s', 5)").await?;
    assert_eq!(answer(&ben, "SELECT currval('s')").await, denied);
    assert_eq!(answer(&ben, "ALTER SEQUENCE s OWNER TO ben").await, "42501 must be owner of sequence s");
    Ok(())
}

#[tokio::test]
async fn the_schema_can_be_closed() -> Result<()> {
    let harness = Harness::start().await?;
    let (alto, ben) = two_tables(&harness).await?;
    alto.batch_execute("GRANT SELECT ON own TO ben; REVOKE USAGE ON SCHEMA public FROM PUBLIC").await?;
    for sql in ["SELECT * FROM own", "SELECT v FROM own WHERE k = 1"] {
        assert_eq!(answer(&ben, sql).await, "42501 permission denied for schema public", "{sql}");
    }
    assert_eq!(rows(&alto, "SELECT count(*) FROM own").await?, ["2"]);
    alto.batch_execute("GRANT USAGE ON SCHEMA public TO ben").await?;
    assert_eq!(rows(&ben, "SELECT v FROM own WHERE k = 1").await?, ["a"]);
    Ok(())
}

/// As stores were before databases had owners: whoever may connect reads and writes everything.
#[tokio::test]
async fn who_could_connect_to_an_old_store_keeps_its_rights() -> Result<()> {
    let harness = Harness::start().await?;
    let operator = harness.operator().await?;
    operator.batch_execute("CREATE TABLE shared (k bigint PRIMARY KEY, v text)").await?;
    let id = TenantId::new("alto")?;
    let create = |snapshot: &Snapshot| {
        Ok(Edit::CreateTenant(Tenant {
            id: id.clone(),
            oid: snapshot.next_oid,
            state: TenantState::Active,
            created_micros: 1,
            quotas: Quotas::default(),
            settings: Default::default(),
            owner: None,
            comment: None,
        }))
    };
    harness.instance().catalog.commit(create).await?;
    for name in ["ana", "ben"] {
        operator.batch_execute(&format!("CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}'")).await?;
        operator.batch_execute(&format!("GRANT CONNECT ON DATABASE alto TO {name}")).await?;
    }
    let ana = harness.connect("ana", "alto").await?;
    assert_eq!(answer(&ana, "SELECT * FROM shared").await, "42501 permission denied for table shared");
    drop((operator, ana));
    let harness = harness.restart().await?;
    let operator = harness.operator().await?;
    for name in ["ana", "ben"] {
        let client = harness.connect(name, "alto").await?;
        client
            .batch_execute(&format!(
                "INSERT INTO shared VALUES ({}, '{name}')",
                name.len() + name.as_bytes()[0] as usize
            ))
            .await?;
        client.batch_execute(&format!("CREATE TABLE of_{name} (k int PRIMARY KEY)")).await?;
        assert!(!rows(&client, "SELECT v FROM shared").await?.is_empty());
    }
    let owner =
        "SELECT r.rolname, r.rolcanlogin FROM pg_database d JOIN pg_roles r ON r.oid = d.datdba WHERE datname = 'alto'";
    assert_eq!(rows(&operator, owner).await?, ["alto_owner|f"]);
    operator
        .batch_execute(&format!("CREATE ROLE eve LOGIN PASSWORD '{PASSWORD}'; GRANT CONNECT ON DATABASE alto TO eve"))
        .await?;
    let eve = harness.connect("eve", "alto").await?;
    assert_eq!(answer(&eve, "SELECT * FROM shared").await, "42501 permission denied for table shared");
    Ok(())
}

/// What tools show of rights is what holds.
#[tokio::test]
async fn the_catalog_tells_who_may_what() -> Result<()> {
    let harness = Harness::start().await?;
    let (alto, ben) = two_tables(&harness).await?;
    alto.batch_execute(
        "GRANT SELECT, INSERT ON own TO ben WITH GRANT OPTION; GRANT SELECT ON shared TO PUBLIC;
         GRANT CREATE ON SCHEMA public TO ben; CREATE SEQUENCE s; GRANT USAGE ON SEQUENCE s TO ben",
    )
    .await?;
    let acl = "SELECT relname, pg_get_userbyid(relowner), array_to_string(relacl, ' ') FROM pg_class
               WHERE relname IN ('own', 'shared', 's') ORDER BY relname";
    assert_eq!(
        rows(&alto, acl).await?,
        [
            "own|alto|alto=arwdDxt/alto ben=a*r*/alto",
            "s|alto|alto=rwU/alto ben=U/alto",
            "shared|alto|alto=arwdDxt/alto =r/alto"
        ]
    );
    let schema = "SELECT array_to_string(nspacl, ' ') FROM pg_namespace WHERE nspname = 'public'";
    assert_eq!(
        rows(&alto, schema).await?,
        ["pg_database_owner=UC/pg_database_owner =U/pg_database_owner ben=C/pg_database_owner"]
    );
    let has = "SELECT has_table_privilege('own', 'SELECT'), has_table_privilege('own', 'DELETE'),
        has_table_privilege('own', 'INSERT WITH GRANT OPTION'), has_table_privilege('shared', 'SELECT, DELETE'),
        has_table_privilege('alto', 'own', 'DELETE'), has_schema_privilege('public', 'CREATE'),
        has_sequence_privilege('s', 'USAGE'), has_sequence_privilege('s', 'UPDATE'),
        has_any_column_privilege('own', 'UPDATE'), has_column_privilege('own', 'v', 'SELECT'),
        pg_has_role('alto', 'MEMBER')";
    assert_eq!(rows(&ben, has).await?, ["t|f|t|t|t|t|t|f|f|t|f"]);
    let grants = "SELECT grantee, privilege_type, is_grantable FROM information_schema.role_table_grants
                  WHERE table_name = 'own' AND grantee = 'ben' ORDER BY 2";
    assert_eq!(rows(&ben, grants).await?, ["ben|INSERT|YES", "ben|SELECT|YES"]);
    let database =
        "SELECT pg_get_userbyid(datdba), array_to_string(datacl, ' ') FROM pg_database WHERE datname = 'alto'";
    assert_eq!(rows(&alto, database).await?, ["alto|=T/alto alto=CTc/alto ben=c/alto"]);
    Ok(())
}
