//! How predicates are planned: access, ranges, and the residual filter.
//!
//! They go through all of it: PostgreSQL's grammar, DataFusion's analyzer and optimizer, promise and scan.

use crate::provider::testing::{World, flights, names, plan, things};
use expect_test::{Expect, expect};

async fn check_in(table: &str, tenant: Option<&str>, predicate: &str, expected: Expect) {
    let world = World::of(vec![flights(), things(), names()]).await;
    let session = world.session(tenant, true).await;
    let plan = plan(&session, &format!("SELECT * FROM {table} WHERE {predicate}"), false).await;
    let wanted = ["Access", "Ranges", "Residual"];
    let of =
        |line: &str| wanted.iter().find_map(|label| line.trim().strip_prefix(&format!("{label}: ")).map(str::to_owned));
    let mut parts: Vec<String> = plan.lines().filter_map(of).collect();
    if parts.is_empty() {
        parts.push(plan);
    }
    expected.assert_eq(&parts.join("; "));
}

async fn check(predicate: &str, expected: Expect) {
    check_in("flights", Some("aa"), predicate, expected).await;
}

#[tokio::test]
async fn predicates_on_delimited_keys_1() {
    check("origin = 'JFK'", expect!["range scan; [JFK#, JFK$); none"]).await;
    check("'JFK' = origin", expect!["range scan; [JFK#, JFK$); none"]).await;
    check("origin = 'JFK' AND dest = 'LAX'", expect!["range scan; [JFK#LAX#, JFK#LAX$); none"]).await;
    check("origin = 'JFK' AND dest >= 'L' AND dest < 'M'", expect!["range scan; [JFK#L, JFK#M); none"]).await;
    check("origin = 'JFK' AND dest > 'LAX'", expect!["range scan; [JFK#LAX$, JFK$); none"]).await;
    check("origin = 'JFK' AND dest BETWEEN 'A' AND 'LAX'", expect!["range scan; [JFK#A#, JFK#LAX$); none"]).await;
    check(
        "origin = 'JFK' AND dest NOT BETWEEN 'B' AND 'Y'",
        expect!["skip scan on 2 ranges; [JFK#, JFK#B#), [JFK#Y$, JFK$); none"],
    )
    .await;
    check(
        "origin = 'JFK' AND dest = 'LAX' AND at >= '2013-01-01 00:00Z'",
        expect!["range scan; [JFK#LAX#, JFK#LAX#7986-98-98T99:99:99.999999Z$); none"],
    )
    .await;
    check(
        "origin = 'JFK' AND dest = 'LAX' AND at >= '2013-01-01 00:00Z' AND at < '2013-02-01 00:00Z'",
        expect!["range scan; [JFK#LAX#7986-97-98T99:99:99.999999Z$, JFK#LAX#7986-98-98T99:99:99.999999Z$); none"],
    )
    .await;
    check(
        "origin = 'JFK' AND dest = 'LAX' AND at = '2013-01-01 05:15Z' AND flight = 11",
        expect!["point lookup on 1 key; [JFK#LAX#7986-98-98T94:84:99.999999Z#0000000011]; none"],
    )
    .await;
    check("origin = 'JFK' AND dest = 'LAX' AND at = '2013-01-01 05:15Z' AND flight IN (11, 12)", expect!["point lookup on 2 keys; [JFK#LAX#7986-98-98T94:84:99.999999Z#0000000011], [JFK#LAX#7986-98-98T94:84:99.999999Z#0000000012]; none"]).await;
    check(
        "origin = 'JFK' AND dest = 'LAX' AND at >= '2013-01-01 00:00Z' AND flight = 11",
        expect!["range scan; [JFK#LAX#, JFK#LAX#7986-98-98T99:99:99.999999Z$); flight = 11"],
    )
    .await;
    check("origin IN ('JFK', 'LGA')", expect!["skip scan on 2 ranges; [JFK#, JFK$), [LGA#, LGA$); none"]).await;
    check("origin IN ('JFK', 'LGA', NULL)", expect!["skip scan on 2 ranges; [JFK#, JFK$), [LGA#, LGA$); none"]).await;
    check(
        "origin NOT IN ('JFK', 'LGA')",
        expect!["skip scan on 3 ranges; [start of tenant span, JFK#), [JFK$, LGA#), [LGA$, end of tenant span); none"],
    )
    .await;
    check("origin NOT IN ('JFK', NULL)", expect!["nothing to read; none; none"]).await;
    check("origin IN ('JFK', 'LGA') AND dest IN ('LAX', 'SFO')", expect!["skip scan on 4 ranges; [JFK#LAX#, JFK#LAX$), [JFK#SFO#, JFK#SFO$), [LGA#LAX#, LGA#LAX$), [LGA#SFO#, LGA#SFO$); none"]).await;
    check(
        "origin IN ('JFK', 'LGA') AND dest LIKE 'S%'",
        expect!["skip scan on 2 ranges; [JFK#S, JFK#T), [LGA#S, LGA#T); none"],
    )
    .await;
    check("origin = 'JFK' AND flight = 11", expect!["range scan; [JFK#, JFK$); flight = 11"]).await;
    check("dest = 'LAX'", expect!["full scan; tenant span; dest = LAX"]).await;
}

#[tokio::test]
async fn predicates_on_delimited_keys_2() {
    check("origin LIKE 'J%'", expect!["range scan; [J, K); none"]).await;
    check("origin LIKE 'JFK'", expect!["range scan; [JFK#, JFK$); none"]).await;
    check("origin LIKE '%FK'", expect!["full scan; tenant span; origin LIKE %FK"]).await;
    check("origin LIKE 'J%K'", expect!["range scan; [J, K); origin LIKE J%K"]).await;
    check("origin LIKE 'J_K'", expect!["range scan; [J, K); origin LIKE J_K"]).await;
    check(r"origin LIKE 'J\%K%'", expect!["range scan; [J%K, J%L); none"]).await;
    check("origin LIKE '100#%'", expect!["range scan; [100$c, 100$d); none"]).await;
    check(
        "origin NOT LIKE 'J%'",
        expect!["skip scan on 2 ranges; [start of tenant span, J#), [K#, end of tenant span); none"],
    )
    .await;
    check("origin NOT LIKE 'J%K'", expect!["full scan; tenant span; origin NOT LIKE J%K"]).await;
    check("origin ILIKE 'j%'", expect!["full scan; tenant span; origin ILIKE j%"]).await;
    check("origin LIKE ''", expect!["range scan; [#, $); none"]).await;
    check("origin LIKE '%'", expect!["full scan; tenant span; none"]).await;
    check("starts_with(origin, 'J')", expect!["range scan; [J, K); none"]).await;
    check(
        "NOT starts_with(origin, 'J')",
        expect!["skip scan on 2 ranges; [start of tenant span, J#), [K#, end of tenant span); none"],
    )
    .await;
    check(
        "NOT (origin = 'JFK')",
        expect!["skip scan on 2 ranges; [start of tenant span, JFK#), [JFK$, end of tenant span); none"],
    )
    .await;
    check("NOT (origin < 'JFK' OR origin > 'LGA')", expect!["range scan; [JFK#, LGA$); none"]).await;
    check(
        "origin <> 'JFK'",
        expect!["skip scan on 2 ranges; [start of tenant span, JFK#), [JFK$, end of tenant span); none"],
    )
    .await;
    check("origin = 'JFK' OR origin = 'LGA'", expect!["skip scan on 2 ranges; [JFK#, JFK$), [LGA#, LGA$); none"]).await;
    check("origin = 'JFK' OR dest = 'LAX'", expect!["full scan; tenant span; origin = JFK OR dest = LAX"]).await;
    check(
        "(origin = 'JFK' AND dest = 'LAX') OR (origin = 'LGA' AND dest = 'SFO')",
        expect!["skip scan on 2 ranges; [JFK#LAX#, JFK#LAX$), [LGA#SFO#, LGA#SFO$); none"],
    )
    .await;
}

#[tokio::test]
async fn predicates_on_delimited_keys_3() {
    check(
        "(origin = 'JFK' AND dest = 'LAX') OR (origin = 'LGA' AND delay > 5)",
        expect!["skip scan on 2 ranges; [JFK#LAX#, JFK#LAX$), [LGA#, LGA$); origin = JFK AND dest = LAX OR origin = LGA AND delay > 5"],
    )
    .await;
    check(
        "origin = 'JFK' AND (dest = 'LAX' OR dest > 'S')",
        expect!["skip scan on 2 ranges; [JFK#LAX#, JFK#LAX$), [JFK#S$, JFK$); none"],
    )
    .await;
    check("origin = 'JFK' AND origin = 'LGA'", expect!["nothing to read; none; none"]).await;
    check("origin > 'L' AND origin < 'K'", expect!["nothing to read; none; none"]).await;
    check("origin = NULL", expect!["EmptyExec"]).await;
    check("origin IS NULL", expect!["EmptyExec"]).await;
    check("origin IS NOT NULL", expect!["full scan; tenant span; none"]).await;
    check("false", expect!["EmptyExec"]).await;
    check("true", expect!["full scan; tenant span; none"]).await;
    check("origin = 'JFK' AND delay > 10", expect!["range scan; [JFK#, JFK$); delay > 10"]).await;
    check("origin = 'JFK' AND delay IS NULL", expect!["range scan; [JFK#, JFK$); delay IS NULL"]).await;
    check("delay > 10", expect!["full scan; tenant span; delay > 10"]).await;
    check("origin = ANY(ARRAY['JFK', 'LGA'])", expect!["skip scan on 2 ranges; [JFK#, JFK$), [LGA#, LGA$); none"])
        .await;
    check(
        "NOT (origin = ANY(ARRAY['JFK', 'LGA']))",
        expect!["skip scan on 3 ranges; [start of tenant span, JFK#), [JFK$, LGA#), [LGA$, end of tenant span); none"],
    )
    .await;
    check(
        "(origin, dest) > ('JFK', 'LAX')",
        expect!["range scan; [JFK#LAX$, end of tenant span); origin > JFK OR origin = JFK AND dest > LAX"],
    )
    .await;
    check("(origin, dest) = ('JFK', 'LAX')", expect!["range scan; [JFK#LAX#, JFK#LAX$); none"]).await;
    check(
        "(origin, dest) IN (('JFK', 'LAX'), ('LGA', 'SFO'))",
        expect!["skip scan on 2 ranges; [JFK#LAX#, JFK#LAX$), [LGA#SFO#, LGA#SFO$); none"],
    )
    .await;
    check(
        "(origin, dest) <= ('JFK', 'LAX') AND origin >= 'J'",
        expect!["range scan; [J#, JFK#LAX$); origin < JFK OR origin = JFK AND dest <= LAX"],
    )
    .await;
    check(
        "origin = 'JFK' AND dest = 'LAX' AND at >= date '2013-01-01'",
        expect!["range scan; [JFK#LAX#, JFK#LAX#7986-98-98T99:99:99.999999Z$); none"],
    )
    .await;
    check(
        "origin = 'JFK' AND dest = 'LAX' AND at::date = date '2013-01-01'",
        expect!["range scan; [JFK#LAX#7986-98-97T99:99:99.999999Z$, JFK#LAX#7986-98-98T99:99:99.999999Z$); none"],
    )
    .await;
}

#[tokio::test]
async fn predicates_on_delimited_keys_4() {
    check(
        "origin = 'JFK' AND dest = 'LAX' AND at > now() - interval '1 day'",
        expect!["range scan; [JFK#LAX#, JFK#LAX#7986-98-98T96:95:94.999999Z#); none"],
    )
    .await;
    check(
        "origin = 'JFK' AND dest = 'LAX' AND at = '2013-01-01 05:15Z' AND flight > 99999999999",
        expect!["nothing to read; none; none"],
    )
    .await;
    check(
        "origin = 'JFK' AND dest = 'LAX' AND at = '2013-01-01 05:15Z' AND flight < 99999999999",
        expect!["range scan; [JFK#LAX#7986-98-98T94:84:99.999999Z#, JFK#LAX#7986-98-98T94:84:99.999999Z$); none"],
    )
    .await;
    check(
        "origin = 'JFK' AND dest = 'LAX' AND at = '2013-01-01 05:15Z' AND flight = 1.5",
        expect!["nothing to read; none; none"],
    )
    .await;
    check(
        "origin = 'JFK' AND dest = 'LAX' AND at = '2013-01-01 05:15Z' AND flight < 1.5",
        expect![
            "range scan; [JFK#LAX#7986-98-98T94:84:99.999999Z#, JFK#LAX#7986-98-98T94:84:99.999999Z#0000000002); none"
        ],
    )
    .await;
    check("origin = 'JFK' AND dest = 'LAX' AND at = '2013-01-01 05:15Z' AND flight::bigint <= 7", expect![[r#"range scan; [JFK#LAX#7986-98-98T94:84:99.999999Z#, JFK#LAX#7986-98-98T94:84:99.999999Z#0000000007\x00); none"#]]).await;
    check("origin = 'JFK' AND dest = 'LAX' AND at = '2013-01-01 05:15Z' AND flight >= -5 AND flight <= 5", expect![[r#"range scan; [JFK#LAX#7986-98-98T94:84:99.999999Z#-9999999994, JFK#LAX#7986-98-98T94:84:99.999999Z#0000000005\x00); none"#]])
        .await;
    check("origin = 'New York'", expect!["range scan; [New$`York#, New$`York$); none"]).await;
    check("origin = ''", expect!["range scan; [#, $); none"]).await;
    check("upper(origin) = 'JFK'", expect!["full scan; tenant span; upper(origin) = JFK"]).await;
    check("origin || 'x' = 'JFKx'", expect!["full scan; tenant span; origin || x = JFKx"]).await;
    check("origin = dest", expect!["full scan; tenant span; origin = dest"]).await;
    check("origin >= 'JFK'", expect!["range scan; [JFK#, end of tenant span); none"]).await;
    check("origin IS NOT DISTINCT FROM 'JFK'", expect!["range scan; [JFK#, JFK$); none"]).await;
    check("(origin = 'JFK') IS TRUE", expect!["range scan; [JFK#, JFK$); none"]).await;
    check(
        "length(origin) = 3 AND origin > 'B'",
        expect!["range scan; [B$, end of tenant span); character_length(origin) = 3"],
    )
    .await;
}

async fn check_things(predicate: &str, expected: Expect) {
    check_in("things", Some("aa"), predicate, expected).await;
}

#[tokio::test]
async fn predicates_on_ordered_keys() {
    check_things("kind = 3", expect![[r#"range scan; [\x7f\xfc, \x7f\xfd); none"#]]).await;
    check_things("kind > 3", expect![[r#"range scan; [start of tenant span, \x7f\xfc); none"#]]).await;
    check_things("kind = 3 AND on_sale", expect![[r#"range scan; [\x7f\xfc\x01, \x7f\xfc\x02); none"#]]).await;
    check_things("kind = 3 AND NOT on_sale", expect![[r#"range scan; [\x7f\xfc\x00, \x7f\xfc\x01); none"#]]).await;
    check_things(
        "kind = 3 AND on_sale = true AND price = 10.5",
        expect![[r#"range scan; [\x7f\xfc\x01\x02\x80\x02\x0b3\x00, \x7f\xfc\x01\x02\x80\x02\x0b3\x01); none"#]],
    )
    .await;
    check_things(
        "kind = 3 AND on_sale AND price BETWEEN 1 AND 2.005",
        expect![[r#"range scan; [\x7f\xfc\x01\x02\x80\x01\x0b\x00, \x7f\xfc\x01\x02\x80\x01\x15\x01); none"#]],
    )
    .await;
    check_things("kind = 3 AND on_sale AND price = 1.005", expect!["nothing to read; none; none"]).await;
    check_things(
        "kind IN (1, 2) AND on_sale IN (true, false) AND price >= 0",
        expect![[r#"range scan; [\x7f\xfd, \x7f\xff); price >= 0.00"#]],
    )
    .await;
    check_things("kind = 3 AND on_sale AND price = 1 AND weight > 1.5", expect![[r#"range scan; [\x7f\xfc\x01\x02\x80\x01\x0b\x00, \x7f\xfc\x01\x02\x80\x01\x0b\x00@\x07\xff\xff\xff\xff\xff\xff); none"#]]).await;
    check_things("kind = 3 AND on_sale AND price = 1 AND weight <= 0", expect![[r#"range scan; [\x7f\xfc\x01\x02\x80\x01\x0b\x00\x7f\xff\xff\xff\xff\xff\xff\xff, \x7f\xfc\x01\x02\x80\x01\x0b\x01); none"#]]).await;
    check_things("kind = 3 AND on_sale AND price = 1 AND weight = 'NaN'", expect![[r#"range scan; [\x7f\xfc\x01\x02\x80\x01\x0b\x00\x00\x07\xff\xff\xff\xff\xff\xff, \x7f\xfc\x01\x02\x80\x01\x0b\x00\x00\x08); none"#]]).await;
    check_things(r"kind = 3 AND on_sale AND price = 1 AND weight = 1.5 AND code = '\x00ff'", expect![[r#"range scan; [\x7f\xfc\x01\x02\x80\x01\x0b\x00@\x07\xff\xff\xff\xff\xff\xff\x00\xff\xff\x00\x01, \x7f\xfc\x01\x02\x80\x01\x0b\x00@\x07\xff\xff\xff\xff\xff\xff\x00\xff\xff\x00\x02); none"#]]).await;
    check_things(
        r"kind = 3 AND on_sale AND price = 1 AND weight = 1.5 AND code >= '\x00' AND code < '\x01'",
        expect![[r#"range scan; [\x7f\xfc\x01\x02\x80\x01\x0b\x00@\x07\xff\xff\xff\xff\xff\xff\x00\xff\x00\x01, \x7f\xfc\x01\x02\x80\x01\x0b\x00@\x07\xff\xff\xff\xff\xff\xff\x01\x00\x01); none"#]],
    )
    .await;
    check_things(
        r"kind = 3 AND on_sale AND price = 1 AND weight = 1.5 AND code = '\x00' AND day > '2013-01-01'",
        expect![[r#"range scan; [\x7f\xfc\x01\x02\x80\x01\x0b\x00@\x07\xff\xff\xff\xff\xff\xff\x00\xff\x00\x01\x80\x00=Z\x00, \x7f\xfc\x01\x02\x80\x01\x0b\x00@\x07\xff\xff\xff\xff\xff\xff\x00\xff\x00\x02); none"#]],
    )
    .await;
    check_things(
        r"kind = 3 AND on_sale AND price = 1 AND weight = 1.5 AND code = '\x00' AND day > timestamp '2013-01-01 12:00'",
        expect![[r#"range scan; [\x7f\xfc\x01\x02\x80\x01\x0b\x00@\x07\xff\xff\xff\xff\xff\xff\x00\xff\x00\x01\x80\x00=Z\x00, \x7f\xfc\x01\x02\x80\x01\x0b\x00@\x07\xff\xff\xff\xff\xff\xff\x00\xff\x00\x02); none"#]],
    )
    .await;
    check_things("kind = 40000", expect!["nothing to read; none; none"]).await;
    check_things("kind < 40000", expect!["full scan; tenant span; none"]).await;
    check_things(
        "kind <> 0",
        expect![[r#"skip scan on 2 ranges; [start of tenant span, \x7f\xff), [\x80, end of tenant span); none"#]],
    )
    .await;
    check_things("kind::bigint = 3", expect![[r#"range scan; [\x7f\xfc, \x7f\xfd); none"#]]).await;
}

async fn check_names(predicate: &str, expected: Expect) {
    check_in("names", Some("aa"), predicate, expected).await;
}

#[tokio::test]
async fn predicates_on_a_descending_text() {
    check_names("name = 'a'", expect![[r#"point lookup on 1 key; [\x9e\xff\xfe]; none"#]]).await;
    check_names("name > 'a'", expect![[r#"range scan; [start of tenant span, \x9e\xff\xfe); none"#]]).await;
    check_names("name < 'a'", expect![[r#"range scan; [\x9e\xff\xfe\x00, end of tenant span); none"#]]).await;
    check_names("name LIKE 'a%'", expect![[r#"range scan; [\x9e, \x9f); none"#]]).await;
    check_names(
        "name LIKE 'a%' AND name > 'ab'",
        expect![[r#"range scan; [\x9d\xff\xfe\x00, \x9e\x9d\xff\xfe); none"#]],
    )
    .await;
    check_names(
        "name IN ('a', 'b') OR name LIKE 'c%'",
        expect![[r#"skip scan on 3 ranges; [\x9c, \x9d), [\x9d\xff\xfe], [\x9e\xff\xfe]; none"#]],
    )
    .await;
}

async fn check_operator(predicate: &str, expected: Expect) {
    check_in("flights", None, predicate, expected).await;
}

#[tokio::test]
async fn predicates_of_the_operator() {
    check_operator("tenant = 'aa'", expect!["range scan; [aa#, aa$); none"]).await;
    check_operator("tenant = 'aa' AND origin = 'JFK'", expect!["range scan; [aa#JFK#, aa#JFK$); none"]).await;
    check_operator(
        "tenant IN ('aa', 'ua') AND origin = 'JFK'",
        expect!["skip scan on 2 ranges; [aa#JFK#, aa#JFK$), [ua#JFK#, ua#JFK$); none"],
    )
    .await;
    check_operator("tenant LIKE 'a%'", expect!["range scan; [a, b); none"]).await;
    check_operator("tenant > 'aa'", expect!["range scan; [aa$, end); none"]).await;
    check_operator("tenant = 'No Tenant'", expect!["nothing to read; none; none"]).await;
    check_operator("tenant = 'aa#'", expect!["nothing to read; none; none"]).await;
    check_operator("origin = 'JFK'", expect!["full scan; whole table; origin = JFK"]).await;
}
