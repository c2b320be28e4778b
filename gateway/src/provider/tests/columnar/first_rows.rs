//! Pages in key order are found among the first rows, or by row groups, and are the same.

use super::*;

const ORDERS: [&str; 5] =
    ["host, at DESC, n", "host DESC, at, n DESC", "host, at DESC, n LIMIT 0", "host, at, n", "n, host"];
/// How many of the rows pass: all, many, few, the last of a tenant, none.
const FILTERS: [&str; 7] = [
    "n >= 0 OR note = 'x'",
    "n % 2 = 1",
    "n % 13 = 5 AND cpu IS NOT NULL",
    "note LIKE '%7' AND ok",
    "n % 1999 = 3",
    "n + 1 = 6000",
    "host || 'x' = 'none'",
];

#[tokio::test]
async fn pages_are_those_of_a_scan_by_rows() {
    let world = world(|_| {}).await;
    // The operator's scans are of all tenants.
    for (tenant, every) in [(Some("aa-2"), 7), (None, 23)] {
        let [fast, by_rows] = sessions(&world, tenant).await;
        let mut asked = 0;
        for filter in FILTERS {
            for order in ORDERS {
                for page in ["LIMIT 1", "LIMIT 10", "LIMIT 7 OFFSET 40", "LIMIT 200"] {
                    asked += 1;
                    if asked % every != 0 || order.contains("LIMIT") && page != "LIMIT 1" {
                        continue;
                    }
                    let order = if order.contains("LIMIT") { order.to_owned() } else { format!("{order} {page}") };
                    let sql = format!("SELECT n, note, at, host AS x FROM metrics WHERE {filter} ORDER BY {order}");
                    assert_eq!(rows(&fast, &sql).await, rows(&by_rows, &sql).await, "{sql}");
                }
            }
            let first =
                format!("SELECT n, host, at, note FROM metrics WHERE {filter} ORDER BY host, at DESC, n LIMIT 9");
            for sql in [
                format!("SELECT count(*) FROM (SELECT note FROM metrics WHERE {filter} LIMIT 9) x"),
                format!("SELECT n FROM ({first}) x WHERE n % 4 = 1 ORDER BY host DESC, at LIMIT 3"),
                format!("SELECT n FROM ({first}) x WHERE note <> 'x' ORDER BY host, at DESC LIMIT 5 OFFSET 1"),
            ] {
                assert_eq!(rows(&fast, &sql).await, rows(&by_rows, &sql).await, "{sql}");
            }
        }
    }
}

#[tokio::test]
async fn how_many_rows_are_read_in_key_order() {
    let world = world(|_| {}).await;
    let [fast, _] = sessions(&world, Some("aa")).await;
    let read = async |sql: &str| {
        let explained = plan(&fast, sql, true).await;
        let line = explained.lines().find_map(|line| line.trim().strip_prefix("Read in key order: "));
        let read = (line.map(str::to_owned), explained.contains("Files: row groups skipped=0 rows=0"));
        (read, explained)
    };
    for order in ["ORDER BY host, at DESC", "ORDER BY host DESC, at", ""] {
        let sql = format!("SELECT n, host, at FROM metrics WHERE note IS NOT NULL AND n % 3 = 0 {order} LIMIT 5");
        let (read, explained) = read(&sql).await;
        assert_eq!(read, (Some("128 rows".into()), true), "{sql}\n{explained}");
    }
    let ((tried, by_rows_alone), _) =
        read("SELECT n, note FROM metrics WHERE note || 'x' = 'none' ORDER BY host, at DESC LIMIT 5").await;
    assert_eq!((tried.as_deref(), by_rows_alone), (Some("128 rows"), false));
    // Of another order, and of too many rows, nothing is tried.
    for sql in ["SELECT n FROM metrics WHERE ok ORDER BY n LIMIT 5", "SELECT n FROM metrics WHERE ok LIMIT 257"] {
        let ((tried, _), explained) = read(sql).await;
        assert_eq!(tried, None, "{sql}\n{explained}");
    }
}
