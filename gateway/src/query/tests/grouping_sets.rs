//! Grouping sets over tables in key order.

use crate::session::testing::{World, run};

/// Grouping sets give what the same groups give one by one: over a table whose keys are in order, where parts of the
/// key have one value, and in order.
#[tokio::test]
async fn grouping_sets_give_what_their_groups_give() {
    let world = World::new().await;
    let mut alto = world.tenant("alto");
    let rows = (0..40).map(|row| format!("('{}', {}, {})", ["x", "y", "z"][row % 3], row / 3, row % 5));
    let insert = format!("INSERT INTO t (a, b, n) VALUES {}", rows.collect::<Vec<_>>().join(", "));
    assert_eq!(run(&mut alto, &insert).await, "INSERT 0 40");
    for (sets, groups) in [
        ("ROLLUP (a, b)", vec!["a, b", "a", ""]),
        ("CUBE (a, b)", vec!["a, b", "a", "b", ""]),
        ("GROUPING SETS ((b, a), (a))", vec!["a, b", "a"]),
        ("GROUPING SETS ((a, b), (b))", vec!["a, b", "b"]),
    ] {
        for condition in ["true", "a = 'x'", "b = 3", "a = 'y' AND b > 2"] {
            let parts = groups.iter().map(|group| {
                let of = |column: &str, kind: &str| match group.split(", ").any(|one| one == column) {
                    true => column.to_owned(),
                    false => format!("NULL::{kind} AS {column}"),
                };
                let by = if group.is_empty() { String::new() } else { format!("GROUP BY {group}") };
                format!(
                    "SELECT {}, {}, count(*) AS c, sum(n) AS s FROM t WHERE {condition} {by}",
                    of("a", "text"),
                    of("b", "int")
                )
            });
            let parts = parts.collect::<Vec<_>>().join(" UNION ALL ");
            let by_sets = format!("SELECT a, b, count(*) AS c, sum(n) AS s FROM t WHERE {condition} GROUP BY {sets}");
            for order in ["a, b, c", "a DESC, b DESC, c", "b, a, c", "a, c, s, b LIMIT 5"] {
                let expected = run(&mut alto, &format!("SELECT * FROM ({parts}) AS x ORDER BY {order}")).await;
                let found = run(&mut alto, &format!("SELECT * FROM ({by_sets}) AS x ORDER BY {order}")).await;
                assert_eq!(found, expected, "{sets} WHERE {condition} ORDER BY {order}");
            }
        }
    }
}
