//! A tenant learns nothing of its neighbours' values: from seeds, worlds whose neighbours have the same keys and other
//! values, in the row groups of the tenant's first and last rows. All that the tenant is told of its statements is the
//! same: answers, EXPLAIN ANALYZE, and whether a statement exceeds its scan budget.

use super::*;
use dirty::options;
use keyspan_storage::engine::Granularity;
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::ops::Range;

const SEEDS: Range<u64> = 0..2;
/// Statements for each state of a world.
const STATEMENTS: usize = 10;
/// Rows of a row group of the engine.
const GROUP_ROWS: u32 = 2_500;
/// In key order, with the fewest rows. All rows of `bc` are in one row group or two, with others' rows.
const TENANTS: [(&str, i64); 4] = [("aa", 1_000), ("bb", 8_000), ("bc", 1_300), ("cc", 1_000)];
const ATTACKERS: [&str; 2] = ["bb", "bc"];

/// A row of an attacker: its values lie in a narrow range, so that a predicate beyond it would ask about others.
fn own_row(n: i64) -> Vec<Value> {
    let mut made = row(n);
    made[5] = Value::Int(n % 1_000);
    made
}

/// A row of a neighbour: the key of row `n`, and random values of the same types, one in four NULL.
fn neighbours_row(n: i64, random: &mut StdRng) -> Vec<Value> {
    let letters = |random: &mut StdRng| (0..8).map(|_| random.random_range('a'..='z')).collect::<String>();
    let made = [
        Value::Float(random.random_range(-1_000_000..1_000_000) as f64),
        Value::Float(f64::from(random.random_range(-1_000_000..1_000_000) as f32)),
        Value::Int(random.random_range(-1_000_000_000_000..1_000_000_000_000)),
        Value::Int(random.random_range(-1_000_000..1_000_000)),
        Value::Int(random.random_range(-100..100)),
        Value::Bool(random.random()),
        text(letters(random)),
        text(letters(random)),
        Value::Bytes(Bytes::copy_from_slice(&random.random::<[u8; 2]>())),
        Value::Date(random.random_range(-10_000..10_000)),
        Value::Timestamp(random.random_range(-1_000_000..1_000_000) * MINUTE),
        Value::Uuid(random.random()),
        text(format!("{{\"n\": {}}}", random.random_range(1_000..9_999))),
        Value::Numeric { unscaled: random.random_range(-1_000_000..1_000_000), scale: 2 },
    ];
    let made = made.map(|value| if random.random_range(0..4) == 0 { Value::Null } else { value });
    [&row(n)[..3], &made].concat()
}

fn predicate(random: &mut StdRng) -> String {
    let op = [">", "<", ">=", "<=", "=", "<>"][random.random_range(0..6)];
    // Sizes of all magnitudes, so that some lie between the attacker's values and the neighbours' extremes.
    let number = |random: &mut StdRng, digits: u32| {
        let size = 10_i64.pow(random.random_range(0..=digits));
        random.random_range(-size..=size)
    };
    let letter = random.random_range('a'..='z');
    match random.random_range(0..12) {
        0 | 1 => format!("mem {op} {}", number(random, 12)),
        2 => format!("cpu {op} {}", number(random, 6)),
        3 => format!("procs {op} {}", number(random, 6)),
        4 => format!("note {op} '{letter}'"),
        5 => format!("day {op} '19{:02}-01-01'", random.random_range(43..99)),
        6 => format!("seen {op} '19{:02}-01-01'", random.random_range(69..72)),
        7 => format!("{} IS NULL", ["mem", "note", "small", "ok"][random.random_range(0..4)]),
        8 => format!("price {op} {}", number(random, 4)),
        9 => format!("tag IN ('t1', '{letter}')"),
        10 => format!("host > 'host {}' AND mem > {}", random.random_range(0..40), number(random, 9)),
        _ => format!("({}) OR ({})", predicate(random), predicate(random)),
    }
}

fn statement(random: &mut StdRng) -> String {
    let filter = predicate(random);
    match random.random_range(0..5) {
        0 => format!("SELECT count(*), min(mem), max(mem), max(note) FROM metrics WHERE {filter}"),
        1 => "SELECT count(*), count(small), min(mem), max(procs), max(note) FROM metrics".into(),
        2 => format!("SELECT n, mem, note, price, ok FROM metrics WHERE {filter}"),
        3 => format!(
            "SELECT sum(mem), count(DISTINCT tag), max(doc) FROM metrics WHERE {filter} AND {}",
            predicate(random)
        ),
        _ => format!("SELECT cpu, load, mem, procs, small, ok, note, tag, day FROM metrics WHERE {filter}"),
    }
}

/// All that an attacker is told of the statements: the same seed makes the same statements.
async fn told(world: &World, tenant: &str, seed: u64) -> Vec<String> {
    let mut random = StdRng::seed_from_u64(seed);
    let [fast, by_rows] = sessions(world, Some(tenant)).await;
    let mut all = Vec::new();
    for _ in 0..STATEMENTS {
        let sql = statement(&mut random);
        let bytes_max = 1 << random.random_range(8..20);
        let budget = Some(Arc::new(ScanBudget::new(Some(bytes_max), Shares::default().of(Some(1)))));
        let bounded = world.session_of(View { budget, ..world.view(Some(tenant), true).await });
        let mut answers = Vec::new();
        for session in [&fast, &by_rows, &bounded] {
            let mut lines: Vec<String> = rows(session, &sql).await.lines().map(str::to_owned).collect();
            lines.sort();
            answers.push(lines.join("\n"));
        }
        assert_eq!(answers[0], answers[1], "{tenant}: {sql}");
        assert!(answers[2] == answers[0] || answers[2].starts_with("53400"), "{tenant}: {sql}: {}", answers[2]);
        let explained = steady(&plan(&fast, &sql, true).await);
        let one_by_one = steady(&plan(&by_rows, &sql, true).await);
        let outcome = if answers[2] == answers[0] { "within" } else { "beyond" };
        all.push(format!("{sql}\n{explained}\nby rows:\n{one_by_one}\n{outcome} {bytes_max} bytes\n{}", answers[0]));
    }
    all
}

/// A plan without what differs from run to run: how many groups an aggregation in part has depends on which partition a
/// batch came to first.
fn steady(plan: &str) -> String {
    let line = |line: &str| match line.split_once("  (actual rows=") {
        Some((before, _)) if line.contains("mode=Partial") || line.contains("RepartitionExec") => before.to_owned(),
        _ => line.to_owned(),
    };
    plan.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Compares what the attackers are told in two worlds, and says how many of their statements read row groups.
async fn compare(worlds: &[World; 2], what: &str, seed: u64) -> usize {
    let mut by_row_groups = 0;
    for tenant in ATTACKERS {
        let (one, other) = (told(&worlds[0], tenant, seed).await, told(&worlds[1], tenant, seed).await);
        for (one, other) in one.iter().zip(&other) {
            assert_eq!(one, other, "{what}, seed {seed}: {tenant} is told of its neighbours");
            by_row_groups += usize::from(one.contains("Files: row groups"));
        }
    }
    by_row_groups
}

/// Fills two worlds with rows of the same keys. `values` are the seeds of the neighbours' values.
async fn fill(worlds: &[World; 2], seed: u64, of: impl Fn(i64) -> bool, values: [u64; 2]) {
    for (world, values) in worlds.iter().zip(values) {
        let (mut sizes, mut values) = (StdRng::seed_from_u64(seed), StdRng::seed_from_u64(values));
        for (tenant, rows_min) in TENANTS {
            let rows = 0..rows_min + sizes.random_range(0..500);
            let made = rows.filter(|n| of(*n)).map(|n| match ATTACKERS.contains(&tenant) {
                true => own_row(n),
                // The attackers are each other's neighbours, too.
                false => neighbours_row(n, &mut values),
            });
            let made: Vec<_> = made.collect();
            world.insert_all("metrics", tenant, made).await;
        }
    }
}

#[tokio::test]
async fn nothing_tells_of_neighbours_in_the_engine() {
    let mut by_row_groups = 0;
    for seed in SEEDS {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let open = async |folder: &tempfile::TempDir| {
            let small = options(folder.path());
            let granularity = Granularity { group_rows_max: GROUP_ROWS, page_rows_max: 250, ..small.granularity };
            let options =
                EngineOptions { compacts: false, memtable_bytes: None, base_bytes: 1 << 30, granularity, ..small };
            Engine::open(options).await.unwrap()
        };
        let engines = [open(&folders[0]).await, open(&folders[1]).await];
        let of = |engine: &Arc<Engine>| World::in_engine(engine.clone(), vec![metrics(|_| {})]);
        let worlds = [of(&engines[0]).await, of(&engines[1]).await];
        fill(&worlds, seed, |_| true, [2 * seed + 1_000, 2 * seed + 1_001]).await;
        for engine in &engines {
            engine.flush().await.unwrap();
        }
        by_row_groups += compare(&worlds, "flushed", seed).await;
        // Some rows have other values then: rows of everybody are dead in row groups.
        let every = [3, 7, 700][seed as usize % 3];
        fill(&worlds, seed, |n| n % every == 1, [2 * seed + 2_000, 2 * seed + 2_001]).await;
        for engine in &engines {
            engine.flush().await.unwrap();
        }
        by_row_groups += compare(&worlds, "changed", seed + 100).await;
        for engine in &engines {
            engine.compact(None).await.unwrap();
        }
        by_row_groups += compare(&worlds, "compacted", seed + 200).await;
        for engine in &engines {
            engine.close().await.unwrap();
        }
    }
    assert!(by_row_groups > SEEDS.count() * STATEMENTS * 3, "{by_row_groups} statements read row groups");
}

#[tokio::test]
async fn nothing_tells_of_neighbours_in_files() {
    for seed in SEEDS {
        let of = || World::with_files(vec![metrics(|_| {})]);
        let worlds = [of().await, of().await];
        fill(&worlds, seed, |_| true, [2 * seed + 1_000, 2 * seed + 1_001]).await;
        assert!(compare(&worlds, "files", seed + 300).await > 0);
    }
}

/// The attack: a tenant looks for its neighbour's maximum by predicates that none of its own rows meets.
#[tokio::test]
async fn a_neighbours_maximum_is_not_found_by_search() {
    let world = World::with_files(vec![metrics(|_| {})]).await;
    world.insert_all("metrics", "aa", (0..ROWS).map(own_row)).await;
    let secret = |n: i64| {
        let mut made = own_row(n);
        made[5] = Value::Int(1_234_567 - n);
        made
    };
    world.insert_all("metrics", "bb", (0..ROWS).map(secret)).await;
    let [fast, _] = sessions(&world, Some("aa")).await;
    let mut answers = std::collections::BTreeSet::new();
    let (mut least, mut most) = (1_000_i64, 1_i64 << 40);
    while most - least > 1 {
        let middle = least + (most - least) / 2;
        let told = plan(&fast, &format!("SELECT count(cpu) FROM metrics WHERE mem > {middle}"), true).await;
        let files = told.lines().find(|line| line.contains("Files:")).unwrap().to_owned();
        // Whatever a search could go by.
        if files.contains("skipped=0") {
            least = middle
        } else {
            most = middle
        }
        answers.insert(files);
    }
    assert_eq!(answers.len(), 1, "{answers:?}");
}
