//! Views: whose they are, how deep, what becomes of them.

use super::super::testing::{World, check, run};
use crate::query::views::{DEPTH_MAX, OPENED_MAX};
use expect_test::expect;

#[tokio::test]
async fn a_view_is_its_tenants_alone() {
    let world = World::new().await;
    let (mut alto, mut altostrat) = (world.tenant("alto"), world.tenant("altostrat"));
    check(
        &mut alto,
        "INSERT INTO t VALUES ('x', 1, 5); CREATE VIEW v AS SELECT a, b FROM t; SELECT * FROM v",
        expect![[r#"
            INSERT 0 1
            CREATE VIEW
            x|1"#]],
    )
    .await;
    check(&mut altostrat, "SELECT * FROM v", expect![[r#"42P01 relation "v" does not exist"#]]).await;
    check(&mut world.operator(), "SELECT * FROM v", expect![[r#"42P01 relation "v" does not exist"#]]).await;
    check(
        &mut altostrat,
        "CREATE VIEW v AS SELECT 1 AS of_altostrat; SELECT * FROM v; SELECT viewname FROM pg_views; DROP VIEW v",
        expect![[r#"
            CREATE VIEW
            1
            v
            DROP VIEW"#]],
    )
    .await;
    check(&mut alto, "SELECT * FROM v", expect!["x|1"]).await;
    drop(alto);
    check(
        &mut world.operator(),
        "EXPLAIN DROP DATABASE alto; DROP DATABASE alto; CREATE DATABASE alto",
        expect![[r#"
            Drop Database alto (dry run: nothing is changed)
              t: 1 rows, 1 cells, 39 bytes
              v: a view
            Total: 1 tables, 1 rows, 1 cells, 39 bytes
            DROP DATABASE
            CREATE DATABASE"#]],
    )
    .await;
    check(&mut world.tenant("alto"), "SELECT * FROM v", expect![[r#"42P01 relation "v" does not exist"#]]).await;
}

#[tokio::test]
async fn an_operator_drops_what_views_read_with_them_only() {
    let world = World::new().await;
    let (mut operator, mut alto) = (world.operator(), world.tenant("alto"));
    run(&mut alto, "CREATE VIEW v AS SELECT a, c FROM t; CREATE VIEW w AS SELECT c FROM v").await;
    run(&mut world.tenant("altostrat"), "CREATE VIEW other AS SELECT s FROM t").await;
    check(
        &mut operator,
        "ALTER TABLE t DROP COLUMN c",
        expect![[r#"
            2BP01 cannot drop column c of table t because other objects depend on it (view v of database alto depends on column c of table t
            view w of database alto depends on view v)"#]],
    )
    .await;
    check(
        &mut operator,
        "ALTER TABLE t DROP COLUMN n; ALTER TABLE t RENAME TO u",
        expect![[r#"
        ALTER TABLE
        ALTER TABLE"#]],
    )
    .await;
    check(&mut operator, "ALTER TABLE u DROP COLUMN c CASCADE", expect!["ALTER TABLE"]).await;
    check(&mut alto, "SELECT count(*) FROM pg_views", expect!["0"]).await;
    check(
        &mut operator,
        "DROP TABLE u",
        expect!["2BP01 cannot drop table u because other objects depend on it (view other of database altostrat depends on table u)"],
    )
    .await;
    check(&mut operator, "DROP TABLE u CASCADE", expect!["DROP TABLE"]).await;
    check(&mut world.tenant("altostrat"), "SELECT count(*) FROM pg_views", expect!["0"]).await;
    check(
        &mut operator,
        "CREATE VIEW v AS SELECT 1",
        expect!["0A000 CREATE VIEW in the operator's database is not supported"],
    )
    .await;
}

/// With the stack that threads of the server have.
#[test]
fn views_read_views_to_a_depth() {
    const STACK_BYTES: usize = 8 << 20;
    let body = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(to_a_depth());
    std::thread::Builder::new().stack_size(STACK_BYTES).spawn(body).unwrap().join().unwrap();
}

async fn to_a_depth() {
    let world = World::new().await;
    let mut session = world.tenant("alto");
    run(&mut session, "CREATE VIEW v1 AS SELECT 1 AS a").await;
    for depth in 2..=DEPTH_MAX {
        let sql = format!("CREATE VIEW v{depth} AS SELECT a FROM v{}", depth - 1);
        assert_eq!(run(&mut session, &sql).await, "CREATE VIEW");
    }
    assert_eq!(run(&mut session, &format!("SELECT a FROM v{DEPTH_MAX}")).await, "1");
    let sql = format!("CREATE VIEW more AS SELECT a FROM v{DEPTH_MAX}; SELECT a FROM more");
    let told = run(&mut session, &sql).await;
    assert_eq!(told, format!("CREATE VIEW\n54000 views read views more than {DEPTH_MAX} deep"));
}

#[tokio::test]
async fn a_statement_opens_so_many_views() {
    let world = World::new().await;
    let mut session = world.tenant("alto");
    run(&mut session, "CREATE VIEW v0 AS SELECT 1 AS a").await;
    // Each reads two views that read two: 2^n of the first one.
    let mut made = 0;
    let told = loop {
        let next = made + 1;
        let twins =
            format!("CREATE VIEW l{next} AS SELECT a FROM v{made}; CREATE VIEW r{next} AS SELECT a FROM v{made}");
        run(&mut session, &twins).await;
        let told = run(&mut session, &format!("CREATE VIEW v{next} AS SELECT l.a FROM l{next} l, r{next} r")).await;
        if told != "CREATE VIEW" {
            break told;
        }
        made = next;
        assert!(made < 12, "2^12 views are more than {OPENED_MAX}");
    };
    assert_eq!(told, format!("54000 a statement reads more than {OPENED_MAX} views, those that they read included"));
    assert_eq!(run(&mut session, &format!("SELECT a FROM v{made}")).await, "1");
}
