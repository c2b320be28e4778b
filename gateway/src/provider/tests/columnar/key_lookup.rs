//! A join that asks for a few keys gives the same answer with a key lookup as with a scan of all rows.

use super::*;

/// Joins, and whether the rows of `metrics` are looked up for them.
const JOINS: &[(&str, bool)] = &[
    // Keys that exist, and keys that do not.
    (
        "SELECT b.n, b.cpu, b.note FROM (VALUES ('host 5', TIMESTAMPTZ '2013-01-02 03:09:05Z', 5), \
         ('host 37', TIMESTAMPTZ '2013-01-02 04:21:05Z', 77), ('host 37', TIMESTAMPTZ '2013-01-02 04:21:05Z', 78), \
         ('nix', TIMESTAMPTZ '2013-01-02 03:09:05Z', 5), (NULL, TIMESTAMPTZ '2013-01-02 03:09:05Z', 5)) a (h, t, m) \
         JOIN metrics b ON b.host = a.h AND b.at = a.t AND b.n = a.m ORDER BY 1",
        true,
    ),
    // The first part of the key, alone and beside another column.
    (
        "SELECT count(*), sum(b.mem), min(b.at) FROM (VALUES ('host 5'), ('nix')) a (h) JOIN metrics b ON b.host = a.h",
        true,
    ),
    (
        "SELECT b.n, b.mem FROM (VALUES ('host 8', 88000000616), ('nix', 1)) a (h, m) JOIN metrics b ON b.host = a.h AND b.mem = a.m",
        true,
    ),
    (
        "SELECT b.n, b.note FROM (VALUES ('host 5')) a (h) JOIN metrics b ON b.host = a.h WHERE b.mem > 7 AND b.n % 2 = 1 AND b.note > 'note 3' ORDER BY 1",
        true,
    ),
    ("SELECT count(*), max(n) FROM metrics WHERE host IN (SELECT h || '' FROM (VALUES ('host 7')) a (h))", true),
    (
        "SELECT a.h, b.n FROM (VALUES ('host 9'), ('nix')) a (h) LEFT JOIN metrics b ON b.host = a.h AND b.n < 1000 ORDER BY 1, 2",
        true,
    ),
    ("SELECT count(*) FROM (VALUES ('nix')) a (h) JOIN metrics b ON b.host = a.h", true),
    // Columns with the names of others.
    (
        "SELECT count(*), min(b.host), max(b.note) FROM (VALUES ('host 5')) a (h) JOIN (SELECT host AS note, note AS host, n FROM metrics) b ON b.note = a.h",
        true,
    ),
    (
        "SELECT count(*), min(b.host) FROM (VALUES ('note 5')) a (h) JOIN (SELECT host AS note, note AS host, n FROM metrics) b ON b.host = a.h",
        false,
    ),
    // No lookup: too many rows, not the first key part, and outer joins, which keep rows without a match.
    (
        "SELECT count(*) FROM (VALUES ('host 1'), ('host 2'), ('host 3'), ('host 4')) a (h) JOIN metrics b ON b.host = a.h",
        false,
    ),
    ("SELECT count(*), sum(b.n) FROM (VALUES (5), (77)) a (m) JOIN metrics b ON b.n = a.m", false),
    ("SELECT count(*) FROM metrics WHERE host NOT IN (VALUES ('host 5'))", false),
    (
        "SELECT count(*) FROM metrics b WHERE NOT EXISTS (SELECT 1 FROM (VALUES ('host 5')) a (h) WHERE a.h = b.host)",
        false,
    ),
    ("SELECT count(*), count(a.h) FROM (VALUES ('host 5'), ('nix')) a (h) FULL JOIN metrics b ON b.host = a.h", false),
    ("SELECT count(*), count(a.h) FROM (VALUES ('host 5'), ('nix')) a (h) RIGHT JOIN metrics b ON b.host = a.h", false),
    ("SELECT n, host FROM metrics ORDER BY mem DESC NULLS LAST, n LIMIT 3", false),
    // Rows that are looked up for one join give the keys of another.
    (
        "SELECT c.n, b.n FROM (VALUES ('host 5', 5)) a (h, m) JOIN metrics b ON b.host = a.h AND b.n = a.m JOIN metrics c ON c.host = b.host AND c.at = b.at ORDER BY 1",
        true,
    ),
];

async fn check(state: &str, world: &World) {
    let [fast, by_rows] = sessions(world, Some("aa-2")).await;
    for (sql, is_looked_up) in JOINS {
        let (a, b) = (rows(&fast, sql).await, rows(&by_rows, sql).await);
        assert!(a == b && !is_error(&a), "{state}: {sql}\n{a}\nby rows\n{b}");
        let told = plan(&fast, sql, true).await;
        assert_eq!(told.contains("Looked up:"), *is_looked_up, "{state}: {sql}\n{told}");
    }
}

#[tokio::test]
async fn the_operator_looks_up_rows_of_tenants_that_it_names() {
    let world = world(|_| {}).await;
    let [fast, by_rows] = sessions(&world, None).await;
    for (named, is_looked_up) in [(" AND b.tenant = 'aa-2'", true), ("", false)] {
        let sql = format!(
            "SELECT b.tenant, count(*), min(n) FROM (VALUES ('host 5'), ('nix')) a (h) JOIN metrics b ON b.host = a.h{named} GROUP BY 1 ORDER BY 1"
        );
        let (a, b) = (rows(&fast, &sql).await, rows(&by_rows, &sql).await);
        assert!(a == b && a.contains("aa-2"), "{sql}\n{a}\nby rows\n{b}");
        let told = plan(&fast, &sql, true).await;
        assert_eq!(told.contains("Looked up:"), is_looked_up, "{sql}\n{told}");
    }
}

#[tokio::test]
async fn looking_up_never_changes_an_answer() {
    states(false, check).await;
}

#[tokio::test]
async fn nor_does_it_of_private_tables() {
    states(true, check).await;
}

#[tokio::test]
async fn nor_does_it_of_salted_keys() {
    states_of(vec![metrics(|table| table.key.salt = 3)], check).await;
}

#[tokio::test]
async fn explain_tells_what_was_looked_up() {
    let world = world(|_| {}).await;
    let [fast, _] = sessions(&world, Some("aa-2")).await;
    let told = plan(&fast, JOINS[0].0, true).await;
    let wanted = ["HashJoin", "KeyspanScan", "Row groups", "Looked up", "Rows:"];
    let told: Vec<&str> =
        told.lines().map(str::trim).filter(|line| wanted.iter().any(|word| line.contains(word))).collect();
    expect![[r#"
        ->  HashJoinExec: mode=CollectLeft, join_type=Inner, on=[(CAST(a.h AS Utf8View)@3, host@0), (t@1, at@1), (m@2, n@2)], projection=[n@6, cpu@7, note@8]  (actual rows=2)
        ->  KeyspanScan: metrics  (actual rows=2)
        Row groups: clean=7 files=2 rows=4,800, memory=about 600 rows, rest=about 600 rows
        Looked up: point lookup on 4 keys
        Rows: seen=2 returned=2"#]].assert_eq(&told.join("\n"));
}
