//! What becomes of predicates: access, ranges, and what is left to the filter above.
//!
//! The predicates go the whole way: PostgreSQL's grammar, DataFusion's analyzer and optimizer, promise and scan.

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
    check("origin = 'JFK'", expect![""]).await;
    check("'JFK' = origin", expect![""]).await;
    check("origin = 'JFK' AND dest = 'LAX'", expect![""]).await;
    check("origin = 'JFK' AND dest >= 'L' AND dest < 'M'", expect![""]).await;
    check("origin = 'JFK' AND dest > 'LAX'", expect![""]).await;
    check("origin = 'JFK' AND dest BETWEEN 'A' AND 'LAX'", expect![""]).await;
    check("origin = 'JFK' AND dest NOT BETWEEN 'B' AND 'Y'", expect![""]).await;
    check("origin = 'JFK' AND dest = 'LAX' AND at >= '2013-01-01 00:00Z'", expect![""]).await;
    check("origin = 'JFK' AND dest = 'LAX' AND at >= '2013-01-01 00:00Z' AND at < '2013-02-01 00:00Z'", expect![""])
        .await;
    check("origin = 'JFK' AND dest = 'LAX' AND at = '2013-01-01 05:15Z' AND flight = 11", expect![""]).await;
    check("origin = 'JFK' AND dest = 'LAX' AND at = '2013-01-01 05:15Z' AND flight IN (11, 12)", expect![""]).await;
    check("origin = 'JFK' AND dest = 'LAX' AND at >= '2013-01-01 00:00Z' AND flight = 11", expect![""]).await;
    check("origin IN ('JFK', 'LGA')", expect![""]).await;
    check("origin IN ('JFK', 'LGA', NULL)", expect![""]).await;
    check("origin NOT IN ('JFK', 'LGA')", expect![""]).await;
    check("origin NOT IN ('JFK', NULL)", expect![""]).await;
    check("origin IN ('JFK', 'LGA') AND dest IN ('LAX', 'SFO')", expect![""]).await;
    check("origin IN ('JFK', 'LGA') AND dest LIKE 'S%'", expect![""]).await;
    check("origin = 'JFK' AND flight = 11", expect![""]).await;
    check("dest = 'LAX'", expect![""]).await;
}

#[tokio::test]
async fn predicates_on_delimited_keys_2() {
    check("origin LIKE 'J%'", expect![""]).await;
    check("origin LIKE 'JFK'", expect![""]).await;
    check("origin LIKE '%FK'", expect![""]).await;
    check("origin LIKE 'J%K'", expect![""]).await;
    check("origin LIKE 'J_K'", expect![""]).await;
    check(r"origin LIKE 'J\%K%'", expect![""]).await;
    check("origin LIKE '100#%'", expect![""]).await;
    check("origin NOT LIKE 'J%'", expect![""]).await;
    check("origin NOT LIKE 'J%K'", expect![""]).await;
    check("origin ILIKE 'j%'", expect![""]).await;
    check("origin LIKE ''", expect![""]).await;
    check("origin LIKE '%'", expect![""]).await;
    check("starts_with(origin, 'J')", expect![""]).await;
    check("NOT starts_with(origin, 'J')", expect![""]).await;
    check("NOT (origin = 'JFK')", expect![""]).await;
    check("NOT (origin < 'JFK' OR origin > 'LGA')", expect![""]).await;
    check("origin <> 'JFK'", expect![""]).await;
    check("origin = 'JFK' OR origin = 'LGA'", expect![""]).await;
    check("origin = 'JFK' OR dest = 'LAX'", expect![""]).await;
    check("(origin = 'JFK' AND dest = 'LAX') OR (origin = 'LGA' AND dest = 'SFO')", expect![""]).await;
}

#[tokio::test]
async fn predicates_on_delimited_keys_3() {
    check("(origin = 'JFK' AND dest = 'LAX') OR (origin = 'LGA' AND delay > 5)", expect![""]).await;
    check("origin = 'JFK' AND (dest = 'LAX' OR dest > 'S')", expect![""]).await;
    check("origin = 'JFK' AND origin = 'LGA'", expect![""]).await;
    check("origin > 'L' AND origin < 'K'", expect![""]).await;
    check("origin = NULL", expect![""]).await;
    check("origin IS NULL", expect![""]).await;
    check("origin IS NOT NULL", expect![""]).await;
    check("false", expect![""]).await;
    check("true", expect![""]).await;
    check("origin = 'JFK' AND delay > 10", expect![""]).await;
    check("origin = 'JFK' AND delay IS NULL", expect![""]).await;
    check("delay > 10", expect![""]).await;
    check("origin = ANY(ARRAY['JFK', 'LGA'])", expect![""]).await;
    check("NOT (origin = ANY(ARRAY['JFK', 'LGA']))", expect![""]).await;
    check("(origin, dest) > ('JFK', 'LAX')", expect![""]).await;
    check("(origin, dest) = ('JFK', 'LAX')", expect![""]).await;
    check("(origin, dest) IN (('JFK', 'LAX'), ('LGA', 'SFO'))", expect![""]).await;
    check("(origin, dest) <= ('JFK', 'LAX') AND origin >= 'J'", expect![""]).await;
    check("origin = 'JFK' AND dest = 'LAX' AND at >= date '2013-01-01'", expect![""]).await;
    check("origin = 'JFK' AND dest = 'LAX' AND at::date = date '2013-01-01'", expect![""]).await;
}

#[tokio::test]
async fn predicates_on_delimited_keys_4() {
    check("origin = 'JFK' AND dest = 'LAX' AND at > now() - interval '1 day'", expect![""]).await;
    check("origin = 'JFK' AND dest = 'LAX' AND at = '2013-01-01 05:15Z' AND flight > 99999999999", expect![""]).await;
    check("origin = 'JFK' AND dest = 'LAX' AND at = '2013-01-01 05:15Z' AND flight < 99999999999", expect![""]).await;
    check("origin = 'JFK' AND dest = 'LAX' AND at = '2013-01-01 05:15Z' AND flight = 1.5", expect![""]).await;
    check("origin = 'JFK' AND dest = 'LAX' AND at = '2013-01-01 05:15Z' AND flight < 1.5", expect![""]).await;
    check("origin = 'JFK' AND dest = 'LAX' AND at = '2013-01-01 05:15Z' AND flight::bigint <= 7", expect![""]).await;
    check("origin = 'JFK' AND dest = 'LAX' AND at = '2013-01-01 05:15Z' AND flight >= -5 AND flight <= 5", expect![""])
        .await;
    check("origin = 'New York'", expect![""]).await;
    check("origin = ''", expect![""]).await;
    check("upper(origin) = 'JFK'", expect![""]).await;
    check("origin || 'x' = 'JFKx'", expect![""]).await;
    check("origin = dest", expect![""]).await;
    check("origin >= 'JFK'", expect![""]).await;
    check("origin IS NOT DISTINCT FROM 'JFK'", expect![""]).await;
    check("(origin = 'JFK') IS TRUE", expect![""]).await;
    check("length(origin) = 3 AND origin > 'B'", expect![""]).await;
}

async fn check_things(predicate: &str, expected: Expect) {
    check_in("things", Some("aa"), predicate, expected).await;
}

#[tokio::test]
async fn predicates_on_ordered_keys() {
    check_things("kind = 3", expect![""]).await;
    check_things("kind > 3", expect![""]).await;
    check_things("kind = 3 AND on_sale", expect![""]).await;
    check_things("kind = 3 AND NOT on_sale", expect![""]).await;
    check_things("kind = 3 AND on_sale = true AND price = 10.5", expect![""]).await;
    check_things("kind = 3 AND on_sale AND price BETWEEN 1 AND 2.005", expect![""]).await;
    check_things("kind = 3 AND on_sale AND price = 1.005", expect![""]).await;
    check_things("kind IN (1, 2) AND on_sale IN (true, false) AND price >= 0", expect![""]).await;
    check_things("kind = 3 AND on_sale AND price = 1 AND weight > 1.5", expect![""]).await;
    check_things("kind = 3 AND on_sale AND price = 1 AND weight <= 0", expect![""]).await;
    check_things("kind = 3 AND on_sale AND price = 1 AND weight = 'NaN'", expect![""]).await;
    check_things(r"kind = 3 AND on_sale AND price = 1 AND weight = 1.5 AND code = '\x00ff'", expect![""]).await;
    check_things(
        r"kind = 3 AND on_sale AND price = 1 AND weight = 1.5 AND code >= '\x00' AND code < '\x01'",
        expect![""],
    )
    .await;
    check_things(
        r"kind = 3 AND on_sale AND price = 1 AND weight = 1.5 AND code = '\x00' AND day > '2013-01-01'",
        expect![""],
    )
    .await;
    check_things(
        r"kind = 3 AND on_sale AND price = 1 AND weight = 1.5 AND code = '\x00' AND day > timestamp '2013-01-01 12:00'",
        expect![""],
    )
    .await;
    check_things("kind = 40000", expect![""]).await;
    check_things("kind < 40000", expect![""]).await;
    check_things("kind <> 0", expect![""]).await;
    check_things("kind::bigint = 3", expect![""]).await;
}

async fn check_names(predicate: &str, expected: Expect) {
    check_in("names", Some("aa"), predicate, expected).await;
}

#[tokio::test]
async fn predicates_on_a_descending_text() {
    check_names("name = 'a'", expect![""]).await;
    check_names("name > 'a'", expect![""]).await;
    check_names("name < 'a'", expect![""]).await;
    check_names("name LIKE 'a%'", expect![""]).await;
    check_names("name LIKE 'a%' AND name > 'ab'", expect![""]).await;
    check_names("name IN ('a', 'b') OR name LIKE 'c%'", expect![""]).await;
}

async fn check_operator(predicate: &str, expected: Expect) {
    check_in("flights", None, predicate, expected).await;
}

#[tokio::test]
async fn predicates_of_the_operator() {
    check_operator("tenant = 'aa'", expect![""]).await;
    check_operator("tenant = 'aa' AND origin = 'JFK'", expect![""]).await;
    check_operator("tenant IN ('aa', 'ua') AND origin = 'JFK'", expect![""]).await;
    check_operator("tenant LIKE 'a%'", expect![""]).await;
    check_operator("tenant > 'aa'", expect![""]).await;
    check_operator("tenant = 'No Tenant'", expect![""]).await;
    check_operator("tenant = 'aa#'", expect![""]).await;
    check_operator("origin = 'JFK'", expect![""]).await;
}
