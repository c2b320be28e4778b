//! Schemas that tenants create: whose they are, who may do what in them, and what copies have of them.

use super::harness::{Harness, PASSWORD, connect, error, rows};
use anyhow::Result;
use tokio_postgres::Client;

/// A role that may connect to `alto`, and its client.
async fn role(harness: &Harness, name: &str) -> Result<Client> {
    let operator = harness.operator().await?;
    operator.batch_execute(&format!("CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}'")).await?;
    operator.batch_execute(&format!("GRANT CONNECT ON DATABASE alto TO {name}")).await?;
    harness.connect(name, "alto").await
}

#[tokio::test]
async fn schemas_of_one_name_are_of_one_tenant_each() -> Result<()> {
    let harness = Harness::start().await?;
    let (alto, ben) = (harness.tenant("alto").await?, harness.tenant("altostrat").await?);
    for (client, mark) in [(&alto, "of alto"), (&ben, "of altostrat")] {
        client
            .batch_execute(&format!(
                "CREATE SCHEMA sales; CREATE TABLE sales.t (k int PRIMARY KEY, v text); CREATE SEQUENCE sales.s;
                 INSERT INTO sales.t VALUES (1, '{mark}'); CREATE VIEW sales.v AS SELECT v FROM sales.t;"
            ))
            .await?;
    }
    alto.batch_execute("CREATE SCHEMA alone; CREATE TABLE alone.t (k int); SELECT nextval('sales.s')").await?;
    for (client, mark) in [(&alto, "of alto"), (&ben, "of altostrat")] {
        for sql in ["SELECT v FROM sales.t WHERE k = 1", "SELECT max(v) FROM sales.t", "SELECT v FROM sales.v"] {
            assert_eq!(rows(client, sql).await?, [mark], "{sql}");
        }
    }
    assert_eq!(rows(&ben, "SELECT nextval('sales.s')").await?, ["1"]);
    assert_eq!(error(&ben, "SELECT * FROM alone.t").await, "42P01 relation \"alone.t\" does not exist");
    for sql in [
        "CREATE TABLE alone.u (k int)",
        "DROP SCHEMA alone CASCADE",
        "ALTER SCHEMA alone RENAME TO mine",
        "GRANT USAGE ON SCHEMA alone TO PUBLIC",
        "COMMENT ON SCHEMA alone IS 'mine'",
        "ALTER TABLE sales.t SET SCHEMA alone",
        "SELECT 'alone'::regnamespace::oid",
    ] {
        assert_eq!(error(&ben, sql).await, "3F000 schema \"alone\" does not exist", "{sql}");
    }
    ben.batch_execute("SET search_path = alone, public").await?;
    assert_eq!(rows(&ben, "SELECT current_schema()").await?, ["public"]);
    // By the other's OID, too.
    let oid = rows(&alto, "SELECT oid FROM pg_namespace WHERE nspname = 'alone'").await?.remove(0);
    assert_eq!(rows(&ben, &format!("SELECT {oid}::regnamespace::text")).await?, [oid.as_str()]);
    for name in [format!("\"{oid} as target\""), format!("\"{oid} with keys\"")] {
        assert!(error(&alto, &format!("SELECT * FROM {name}.t")).await.starts_with("3F000"), "{name}");
    }
    ben.batch_execute("DROP SCHEMA sales CASCADE").await?;
    assert_eq!(rows(&alto, "SELECT v FROM sales.v").await?, ["of alto"]);
    let named = "SELECT nspname FROM pg_namespace WHERE nspname IN ('sales', 'alone') ORDER BY 1";
    assert_eq!(rows(&alto, named).await?, ["alone", "sales"]);
    assert!(rows(&ben, named).await?.is_empty());
    // The operator has no schemas of its own, and sees none of the tenants'.
    let operator = harness.operator().await?;
    assert!(rows(&operator, named).await?.is_empty());
    assert!(error(&operator, "CREATE SCHEMA sales").await.starts_with("0A000"));
    // A name in a schema that is not there is no shared table's.
    operator.batch_execute("CREATE TABLE shared (k text PRIMARY KEY)").await?;
    for sql in [
        "CREATE TABLE sales.other (k text PRIMARY KEY)",
        "ALTER TABLE sales.shared ADD COLUMN v text",
        "EXPLAIN ALTER TABLE sales.shared ADD COLUMN v text",
        "DROP TABLE sales.shared",
        "COMMENT ON TABLE sales.shared IS 'x'",
    ] {
        let told = error(&operator, sql).await;
        assert!(told.starts_with("3F000") || told.starts_with("42P01"), "{sql}: {told}");
    }
    operator.batch_execute("DROP TABLE IF EXISTS sales.shared; DROP TABLE public.shared").await?;
    Ok(())
}

#[tokio::test]
async fn schemas_stay_over_a_restart() -> Result<()> {
    let harness = Harness::start().await?;
    let alto = harness.tenant("alto").await?;
    alto.batch_execute(
        "CREATE SCHEMA sales; CREATE TABLE sales.t (id serial PRIMARY KEY, v text);
         INSERT INTO sales.t (v) VALUES ('a');
         CREATE SCHEMA gone; CREATE TABLE gone.t (k int); DROP SCHEMA gone CASCADE; COMMENT ON SCHEMA sales IS 'sold'",
    )
    .await?;
    let owner = rows(&alto, "SELECT current_user").await?.remove(0);
    drop(alto);
    let harness = harness.restart().await?;
    let alto = harness.connect(&owner, "alto").await?;
    alto.batch_execute("INSERT INTO sales.t (v) VALUES ('b')").await?;
    assert_eq!(rows(&alto, "SELECT v FROM sales.t ORDER BY id").await?, ["a", "b"]);
    assert_eq!(rows(&alto, "SELECT obj_description('sales'::regnamespace, 'pg_namespace')").await?, ["sold"]);
    assert!(error(&alto, "SELECT * FROM gone.t").await.starts_with("42P01"));
    Ok(())
}

#[tokio::test]
async fn rights_on_a_schema_are_those_of_postgresql() -> Result<()> {
    let harness = Harness::start().await?;
    let alto = harness.tenant("alto").await?;
    let ben = role(&harness, "ben").await?;
    assert_eq!(error(&ben, "CREATE SCHEMA mine").await, "42501 permission denied for database alto");
    alto.batch_execute(
        "CREATE SCHEMA sales; CREATE TABLE sales.t (k int PRIMARY KEY, v text); INSERT INTO sales.t VALUES (1, 'a');
         GRANT SELECT ON sales.t TO ben",
    )
    .await?;
    // A right on a relation is nothing without USAGE.
    let denied = "42501 permission denied for schema sales";
    for sql in ["SELECT * FROM sales.t", "SELECT v FROM sales.t WHERE k = 1", "CREATE TABLE sales.u (k int)"] {
        assert_eq!(error(&ben, sql).await, denied, "{sql}");
    }
    ben.batch_execute("SET search_path = sales").await?;
    assert_eq!(error(&ben, "SELECT * FROM t").await, "42P01 relation \"t\" does not exist");
    alto.batch_execute("GRANT USAGE ON SCHEMA sales TO ben").await?;
    assert_eq!(rows(&ben, "SELECT v FROM sales.t").await?, ["a"]);
    assert_eq!(rows(&ben, "SELECT v FROM t WHERE k = 1").await?, ["a"]);
    assert_eq!(error(&ben, "INSERT INTO sales.t VALUES (2, 'b')").await, "42501 permission denied for table t");
    assert_eq!(error(&ben, "CREATE TABLE sales.u (k int)").await, denied);
    assert_eq!(error(&ben, "CREATE SEQUENCE sales.q").await, denied);
    assert_eq!(error(&ben, "CREATE VIEW sales.w AS SELECT 1").await, denied);
    alto.batch_execute("GRANT CREATE ON SCHEMA sales TO ben").await?;
    ben.batch_execute("CREATE TABLE sales.u (k int); INSERT INTO sales.u VALUES (1)").await?;
    for sql in ["DROP SCHEMA sales CASCADE", "ALTER SCHEMA sales RENAME TO mine", "COMMENT ON SCHEMA sales IS 'x'"] {
        assert_eq!(error(&ben, sql).await, "42501 must be owner of schema sales", "{sql}");
    }
    // The owner of a schema may drop what others have made in it.
    assert_eq!(rows(&alto, "SELECT has_schema_privilege('ben', 'sales', 'CREATE')").await?, ["t"]);
    alto.batch_execute("DROP TABLE sales.u").await?;
    // ALL TABLES IN SCHEMA and default privileges are of that schema only.
    alto.batch_execute(
        "CREATE TABLE outside (k int); GRANT INSERT ON ALL TABLES IN SCHEMA sales TO ben;
         ALTER DEFAULT PRIVILEGES IN SCHEMA sales GRANT SELECT ON TABLES TO ben;
         CREATE TABLE sales.later (k int); CREATE TABLE later (k int)",
    )
    .await?;
    ben.batch_execute("INSERT INTO sales.t VALUES (2, 'b'); SELECT * FROM sales.later").await?;
    assert_eq!(error(&ben, "INSERT INTO public.outside VALUES (1)").await, "42501 permission denied for table outside");
    assert_eq!(error(&ben, "SELECT * FROM public.later").await, "42501 permission denied for table later");
    // A revoke holds from the next statement on, for prepared ones too.
    let prepared = ben.prepare("SELECT v FROM sales.t WHERE k = 1").await?;
    assert_eq!(ben.query(&prepared, &[]).await?.len(), 1);
    alto.batch_execute("REVOKE USAGE ON SCHEMA sales FROM ben").await?;
    let refused = ben.query(&prepared, &[]).await.expect_err("the right is revoked");
    assert_eq!(refused.code().map(|code| code.code().to_owned()).as_deref(), Some("42501"));
    // An owner by AUTHORIZATION, and a new one.
    alto.batch_execute("GRANT CREATE ON SCHEMA public TO ben").await?;
    let operator = harness.operator().await?;
    let owner = rows(&alto, "SELECT current_user").await?.remove(0);
    assert!(error(&alto, "CREATE SCHEMA AUTHORIZATION ben").await.starts_with("42501 must be member of role \"ben\""));
    operator.batch_execute(&format!("GRANT ben TO {owner}")).await?;
    alto.batch_execute("CREATE SCHEMA AUTHORIZATION ben").await?;
    ben.batch_execute("RESET search_path; CREATE TABLE own (k int)").await?;
    assert_eq!(rows(&ben, "SELECT 'own'::regclass::text, current_schemas(false)::text").await?, ["own|{ben,public}"]);
    assert_eq!(rows(&ben, "SELECT schemaname FROM pg_tables WHERE tablename = 'own'").await?, ["ben"]);
    alto.batch_execute("ALTER SCHEMA sales OWNER TO ben").await?;
    ben.batch_execute("DROP SCHEMA sales CASCADE").await?;
    assert!(error(&operator, "DROP ROLE ben").await.starts_with("2BP01"));
    Ok(())
}

#[tokio::test]
async fn a_copy_has_the_schemas_of_its_template() -> Result<()> {
    let harness = Harness::start().await?;
    let alto = harness.tenant("alto").await?;
    let ben = role(&harness, "ben").await?;
    alto.batch_execute(
        "CREATE SCHEMA sales; CREATE TABLE sales.t (id serial PRIMARY KEY, v text); CREATE TABLE t (id int, v text);
         INSERT INTO sales.t (v) VALUES ('a'), ('b'); INSERT INTO t VALUES (1, 'public');
         CREATE VIEW sales.w AS SELECT s.v, p.v AS other FROM sales.t s JOIN public.t p USING (id);
         CREATE SCHEMA hidden; CREATE TABLE hidden.t (k int);
         GRANT USAGE ON SCHEMA sales TO ben; GRANT SELECT ON sales.t, hidden.t TO ben;
         ALTER DEFAULT PRIVILEGES IN SCHEMA hidden GRANT SELECT ON TABLES TO ben",
    )
    .await?;
    assert_eq!(rows(&ben, "SELECT v FROM sales.t ORDER BY 1").await?, ["a", "b"]);
    let operator = harness.operator().await?;
    operator.batch_execute("CREATE DATABASE copied TEMPLATE alto; GRANT CONNECT ON DATABASE copied TO ben").await?;
    let owner = rows(&alto, "SELECT current_user").await?.remove(0);
    operator.batch_execute(&format!("ALTER DATABASE copied OWNER TO {owner}")).await?;
    alto.batch_execute("DROP SCHEMA sales CASCADE").await?;
    let copied = connect(&harness.config(&owner, PASSWORD, "copied")).await?;
    copied.batch_execute("INSERT INTO sales.t (v) VALUES ('c')").await?;
    assert_eq!(rows(&copied, "SELECT v FROM sales.t ORDER BY id").await?, ["a", "b", "c"]);
    assert_eq!(rows(&copied, "SELECT * FROM sales.w").await?, ["a|public"]);
    copied.batch_execute("CREATE TABLE hidden.more (k int); CREATE TABLE more (k int)").await?;
    let ben = harness.connect("ben", "copied").await?;
    assert_eq!(rows(&ben, "SELECT v FROM sales.t ORDER BY 1").await?, ["a", "b", "c"]);
    assert_eq!(error(&ben, "SELECT * FROM hidden.t").await, "42501 permission denied for schema hidden");
    // What was granted in one schema is granted in no other.
    assert_eq!(error(&ben, "SELECT * FROM public.more").await, "42501 permission denied for table more");
    copied.batch_execute("GRANT USAGE ON SCHEMA hidden TO ben").await?;
    ben.batch_execute("SELECT * FROM hidden.more").await?;
    Ok(())
}
