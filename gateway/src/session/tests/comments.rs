//! Comments of what the operator defines. Those of a tenant's own, PostgreSQL says (`tests/slt/postgres/comments.slt`).

use super::super::testing::{World, check};
use expect_test::expect;

#[tokio::test]
async fn an_operator_comments_and_tenants_read() {
    let world = World::new().await;
    let mut operator = world.operator();
    check(
        &mut operator,
        "COMMENT ON TABLE t IS 'counts'; COMMENT ON COLUMN t.n IS 'how many'; COMMENT ON DATABASE alto IS 'the first'; COMMENT ON DATABASE altostrat IS 'secret';
         SELECT obj_description('t'::regclass), col_description('t'::regclass, 4), col_description('t'::regclass, 3);
         SELECT datname, shobj_description(oid, 'pg_database') FROM pg_database ORDER BY datname;
         COMMENT ON COLUMN t.tenant IS 'whose'",
        expect![[r#"
            COMMENT
            COMMENT
            COMMENT
            COMMENT
            counts|how many|∅
            alto|the first
            altostrat|secret
            keyspan|∅
            0A000 a comment on the column "tenant" is not supported"#]],
    )
    .await;
    let mut tenant = world.tenant("alto");
    check(
        &mut tenant,
        "SELECT objsubid, description FROM pg_description ORDER BY 1; SELECT description FROM pg_shdescription;
         SELECT col_description('t'::regclass, 3), col_description('t'::regclass, 4); COMMENT ON TABLE t IS 'mine'",
        expect![[r#"
            0|counts
            0|standard public schema
            3|how many
            the first
            how many|∅
            42501 must be owner of table t (It is a shared table: an operator defines it in database "keyspan".)"#]],
    )
    .await;
    check(&mut tenant, "COMMENT ON DATABASE alto IS 'x'", expect!["42501 must be owner of database alto"]).await;
    check(&mut operator, "COMMENT ON DATABASE nowhere IS 'x'", expect![[r#"3D000 database "nowhere" does not exist"#]])
        .await;
    check(&mut operator, "COMMENT ON INDEX t_pkey IS 'x'", expect!["0A000 COMMENT ON INDEX is not supported"]).await;
}
