//! Random tables, rows, statements and parameters through both ways.

use super::{answer, is_compiled, prepared};
use crate::{
    pg::{
        codec::{format::Format, parameter},
        numeric,
        types::ParameterType,
    },
    session::{
        Session,
        testing::{World, run},
    },
};
use arrow::datatypes::DataType;
use datafusion::scalar::ScalarValue;
use proptest::prelude::*;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use std::collections::BTreeMap;

/// Statements of a case.
const STATEMENTS: usize = 24;
/// Types of key parts that both encodings have, with values of theirs, or some that do not fit.
const KEY_KINDS: [(&str, &[&str]); 8] = [
    ("text", &["", "a", "b", "a#b", "ä", "$"]),
    ("varchar(2)", &["a", "b", "ab"]),
    ("smallint", &["-1", "0", "1", "32767", "40000"]),
    ("int", &["-2147483648", "0", "1", "5000000000"]),
    ("bigint", &["-9223372036854775808", "0", "1", "9223372036854775807"]),
    ("timestamptz", &["2026-01-01 00:00:00+00", "1999-12-31 23:59:59.999999+00", "infinity"]),
    ("date", &["2026-01-01", "1969-12-31"]),
    ("bool", &["true", "false"]),
];
/// Types that only ordered keys have, or that only cells have.
const MORE_KINDS: [(&str, &[&str]); 5] = [
    ("double precision", &["0", "-0", "1.5", "NaN", "-Infinity"]),
    ("numeric(5,2)", &["0", "1.25", "1.2500", "1.254", "-0.005", "999.99", "12345"]),
    ("bytea", &["\\x", "\\x00ff", "\\x23"]),
    ("uuid", &["00000000-0000-0000-0000-000000000000", "12345678-1234-1234-1234-123456789abc"]),
    ("real", &["0.1", "2"]),
];
const CELL_KINDS: [(&str, &[&str]); 3] =
    [("jsonb", &["{\"a\": 1}", "[]"]), ("varchar(3)", &["abc", "abcd", ""]), ("text", &["x", "y"])];

type Kind = (&'static str, &'static [&'static str]);
/// The value of a parameter as text, and the type that a client declares.
pub(super) type Asked = (Option<String>, Option<ParameterType>);

struct Column {
    name: String,
    kind: Kind,
    descending: bool,
    reversed: bool,
}

struct Case {
    random: StdRng,
    keys: Vec<Column>,
    cells: Vec<Column>,
    table: String,
}

impl Case {
    /// A case; of keys with reversed parts if `reversed`.
    fn new(seed: u64, reversed: bool) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let ordered = random.random_bool(0.5);
        let mut kinds = KEY_KINDS.to_vec();
        if ordered {
            kinds.extend(MORE_KINDS);
        }
        let mut keys: Vec<Column> = Vec::new();
        for at in 0..random.random_range(1..=3) {
            let kind = *kinds.choose(&mut random).unwrap();
            let fixed = !matches!(kind.0, "text" | "varchar(2)");
            let descending = random.random_bool(0.4) && (ordered || fixed);
            let reversible = matches!(kind.0, "text" | "varchar(2)" | "smallint" | "integer" | "bigint" | "int");
            let reversed = reversed && !descending && reversible && random.random_bool(0.6);
            keys.push(Column { name: format!("k{at}"), kind, descending, reversed });
        }
        kinds.extend(CELL_KINDS);
        let cell = |at| (format!("c{at}"), at);
        let cells: Vec<Column> = (0..random.random_range(1..=3))
            .map(cell)
            .map(|(name, _)| Column {
                name,
                kind: *kinds.choose(&mut random).unwrap(),
                descending: false,
                reversed: false,
            })
            .collect();
        let defaults: BTreeMap<String, &str> = keys
            .iter()
            .chain(&cells)
            .filter(|_| random.random_bool(0.3))
            .map(|column| (column.name.clone(), column.kind.1[0]))
            .collect();
        let columns = keys.iter().chain(&cells).map(|column| {
            let not_null = if column.name == "c1" { " NOT NULL" } else { "" };
            let default = defaults.get(&column.name).map(|value| format!(" DEFAULT '{value}'")).unwrap_or_default();
            format!("{} {}{default}{not_null}", column.name, column.kind.0)
        });
        let parts = keys.iter().map(|key| {
            format!(
                "{}{}",
                key.name,
                match (key.descending, key.reversed) {
                    (true, _) => " DESC",
                    (_, true) => " REVERSED",
                    _ => "",
                }
            )
        });
        let encoding = if ordered { "ordered" } else { "delimited" };
        let salt = if random.random_bool(0.3) { ", salt = 3" } else { "" };
        let (columns, parts): (Vec<_>, Vec<_>) = (columns.collect(), parts.collect());
        let (columns, parts) = (columns.join(", "), parts.join(", "));
        let options = format!("key_encoding = {encoding}{salt}");
        let table = format!("CREATE TABLE r ({columns}, PRIMARY KEY ({parts})) WITH ({options})");
        Self { random, keys, cells, table }
    }

    /// An operand, cast or not.
    fn operand(&mut self, kind: Kind, asked: &mut Vec<Asked>) -> String {
        let operand = self.plain_operand(kind, asked);
        // Few, for a statement with one that cuts goes the general way.
        let cuts = kind.0.contains('(');
        match self.random.random_range(0..40) {
            0..=2 if !cuts => format!("{operand}::{}", kind.0),
            0 => format!("CAST({operand} AS {})", kind.0),
            3 if kind.0 != "bytea" => format!("{operand}::text"),
            4 if kind.0.starts_with(['t', 'v']) => format!("{operand}::varchar"),
            _ => operand,
        }
    }

    /// A parameter whose value, as text, is put aside with the type that a client declares, or a literal.
    fn plain_operand(&mut self, kind: Kind, asked: &mut Vec<Asked>) -> String {
        let value = *kind.1.choose(&mut self.random).unwrap();
        if self.random.random_bool(0.25) {
            return match (kind.0, self.random.random_range(0..10)) {
                (_, 0) => "NULL".to_owned(),
                ("smallint" | "int" | "bigint" | "bool", _) => value.to_owned(),
                ("double precision" | "numeric(5,2)" | "real", _) if value.parse::<f64>().is_ok_and(f64::is_finite) => {
                    value.to_owned()
                }
                _ => format!("'{value}'"),
            };
        }
        let declared = match (kind.0, self.random.random_range(0..8)) {
            ("smallint" | "int" | "bigint", 0) => Some(DataType::Int64),
            ("smallint" | "int" | "bigint", 1) => Some(DataType::Int16),
            ("text", 0) => Some(DataType::Utf8View),
            ("int", 2) => Some(DataType::Utf8View),
            ("numeric(5,2)" | "double precision" | "real", 0) => Some(DataType::Int64),
            ("numeric(5,2)", 1..=3) => Some(numeric::EXACT),
            _ => None,
        };
        let declared = declared.map(ParameterType::from);
        let value = (!self.random.random_bool(0.05)).then(|| value.to_owned());
        asked.push((value, declared));
        format!("${}", asked.len())
    }

    fn returning(&mut self) -> &'static str {
        let all = ["", "", " RETURNING *", " RETURNING c0 AS x, r.k0, c0", " RETURNING c0, c0 IS NULL"];
        all.choose(&mut self.random).unwrap()
    }

    /// A statement and its parameters.
    fn statement(&mut self) -> (String, Vec<Asked>) {
        let mut asked = Vec::new();
        let keys: Vec<(String, Kind, bool)> =
            self.keys.iter().map(|key| (key.name.clone(), key.kind, key.descending)).collect();
        let cells: Vec<(String, Kind)> = self.cells.iter().map(|cell| (cell.name.clone(), cell.kind)).collect();
        let point = |case: &mut Self, asked: &mut Vec<_>| {
            let equal = keys.iter().map(|(name, kind, _)| format!("{name} = {}", case.operand(*kind, asked)));
            equal.collect::<Vec<_>>().join(" AND ")
        };
        let sql = match self.random.random_range(0..12) {
            0 | 1 => format!("SELECT * FROM r WHERE {}", point(self, &mut asked)),
            2 => format!("SELECT c0 AS x, k0 FROM r AS q WHERE {}", point(self, &mut asked)),
            3..=5 => {
                let fixed = self.random.random_range(0..keys.len());
                let mut all: Vec<String> = Vec::new();
                for (name, kind, _) in &keys[..fixed] {
                    all.push(format!("{name} = {}", self.operand(*kind, &mut asked)));
                }
                let (name, kind, _) = &keys[fixed];
                if fixed == 0 || self.random.random_bool(0.5) {
                    let op = *["<", "<=", ">", ">="].choose(&mut self.random).unwrap();
                    all.push(format!("{name} {op} {}", self.operand(*kind, &mut asked)));
                }
                let turned = self.random.random_bool(0.5);
                // All parts behind: ties would leave the order open.
                let order = keys[fixed..].iter().map(|(name, _, descending)| {
                    format!("{name} {}", if *descending != turned { "DESC" } else { "ASC" })
                });
                let order = order.collect::<Vec<_>>().join(", ");
                // As many as there are, or only the first.
                let limit = match self.random.random_range(0..8) {
                    limit @ 0..4 => format!(" LIMIT {limit}"),
                    _ => String::new(),
                };
                format!("SELECT * FROM r WHERE {} ORDER BY {order}{limit}", all.join(" AND "))
            }
            6 | 7 => {
                let set = cells[self.random.random_range(0..cells.len())].clone();
                let mut value = self.operand(set.1, &mut asked);
                if self.random.random_bool(0.5) {
                    let column = &cells[self.random.random_range(0..cells.len())].0;
                    value = match self.random.random_range(0..3) {
                        0 => format!("{column} + {value}"),
                        1 => format!("({value} + {column})"),
                        _ => format!("{column} - {value}"),
                    };
                }
                let point = point(self, &mut asked);
                format!("UPDATE r SET {} = {value} WHERE {point}{}", set.0, self.returning())
            }
            8 => {
                let point = point(self, &mut asked);
                format!("DELETE FROM r WHERE {point}{}", self.returning())
            }
            _ => {
                let all = keys
                    .iter()
                    .map(|(name, kind, _)| (name, kind))
                    .chain(cells.iter().map(|(name, kind)| (name, kind)));
                let all: Vec<(&String, &Kind)> = all.collect();
                // Some columns have their defaults: they are not named, or given as such.
                let named: Vec<bool> = all.iter().map(|_| self.random.random_bool(0.8)).collect();
                let lists = self.random.random_bool(0.5) && named.contains(&true);
                let mut row = || {
                    let mut values: Vec<String> = Vec::new();
                    for ((_, kind), named) in all.iter().zip(&named) {
                        match named {
                            true => values.push(self.operand(**kind, &mut asked)),
                            false if lists => {}
                            false if self.random.random_bool(0.9) => values.push("DEFAULT".to_owned()),
                            false => values.push(self.operand(**kind, &mut asked)),
                        }
                    }
                    format!("({})", values.join(", "))
                };
                let mut rows = vec![row()];
                if keys.len() < 3 {
                    rows.push(row());
                }
                let names = |of: Vec<&String>| of.into_iter().cloned().collect::<Vec<_>>().join(", ");
                let blind = self.random.random_bool(0.5);
                let mut set: Vec<String> = Vec::new();
                for (name, kind) in &cells {
                    let value = match self.random.random_range(0..8) {
                        _ if blind => format!("EXCLUDED.{name}"),
                        0 => format!("r.{name} + EXCLUDED.{name}"),
                        1 => format!("EXCLUDED.{name} + r.{name}"),
                        2 => format!("r.{name} - {}", self.operand(*kind, &mut asked)),
                        3 => self.operand(*kind, &mut asked),
                        4 if name != "c0" => continue,
                        _ => format!("EXCLUDED.{name}"),
                    };
                    set.push(format!("{name} = {value}"));
                }
                let key = names(keys.iter().map(|(name, ..)| name).collect());
                let update = format!("ON CONFLICT ({key}) DO UPDATE SET");
                let taken = match self.random.random_range(0..5) {
                    0 => String::new(),
                    1 => "ON CONFLICT DO NOTHING".to_owned(),
                    2 => format!("{update} c0 = coalesce(r.c0, EXCLUDED.c0)"),
                    3 => format!("{update} {} WHERE r.c0 IS DISTINCT FROM EXCLUDED.c0", set.join(", ")),
                    _ => format!("{update} {}", set.join(", ")),
                };
                let list = all.iter().zip(&named).filter(|(_, named)| **named).map(|((name, _), _)| *name);
                let list = if lists { format!(" ({})", names(list.collect())) } else { String::new() };
                format!("INSERT INTO r{list} VALUES {} {taken}{}", rows.join(", "), self.returning())
            }
        };
        (sql, asked)
    }
}

/// What a statement comes to, and whether it went around the optimizer.
pub(super) async fn through(session: &mut Session, sql: &str, asked: &[Asked]) -> (String, bool) {
    let hints: Vec<_> = asked.iter().map(|(_, declared)| declared.clone()).collect();
    let prepared = match prepared(session, sql, &hints).await {
        Ok(prepared) => prepared,
        Err(error) => {
            session.failed();
            return (format!("{error:?}"), false);
        }
    };
    let compiled = is_compiled(&prepared);
    let told = format!("{:?}\n{:?}", prepared.parameters, prepared.columns);
    let mut values = Vec::new();
    for (data, (text, _)) in prepared.parameters.iter().zip(asked) {
        let bytes = text.as_ref().map(String::as_bytes);
        match parameter::decode(bytes, &data.pg_type(), Format::Text, &data.data, crate::pg::datetime::Input::initial())
        {
            Ok(value) => values.push(value),
            Err(error) => return (format!("{told}\n{error:?}"), compiled),
        }
    }
    (format!("{told}\n{}", answer(session, &prepared, values).await), compiled)
}

async fn world(table: &str, private: bool) -> (World, Session) {
    let world = World::in_files().await;
    assert_eq!(run(&mut world.operator(), "CREATE DATABASE alto").await, "CREATE DATABASE");
    let mut session = world.tenant("alto");
    // Keys of private tables are ordered, and they have no options.
    let made = match table.split_once(" WITH ") {
        Some((bare, _)) if private => run(&mut session, bare).await,
        _ if private => run(&mut session, table).await,
        _ => run(&mut world.operator(), table).await,
    };
    assert_eq!(made, "CREATE TABLE", "{table}");
    (world, session)
}

/// Runs a case; how many statements went around the optimizer.
async fn check(seed: u64, reversed: bool) -> usize {
    let mut case = Case::new(seed, reversed);
    let private = case.random.random_bool(0.3);
    let (fast_world, mut fast) = world(&case.table, private).await;
    let (slow_world, mut slow) = world(&case.table, private).await;
    if !private && case.random.random_bool(0.3) {
        // The operator's table has one more key part.
        (fast, slow) = (fast_world.operator(), slow_world.operator());
        case.keys.insert(
            0,
            Column {
                name: "tenant".into(),
                kind: ("text", &["alto", "none", "a#"]),
                descending: false,
                reversed: false,
            },
        );
    }
    run(&mut slow, "SET keyspan.point = off").await;
    let mut compiled = 0;
    for _ in 0..STATEMENTS {
        let bound = ["BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ", "COMMIT", "ROLLBACK"];
        if case.random.random_bool(0.1) {
            let sql = bound.choose(&mut case.random).unwrap();
            assert_eq!(run(&mut fast, sql).await, run(&mut slow, sql).await);
        }
        let (sql, asked) = case.statement();
        let (told, is_fast) = through(&mut fast, &sql, &asked).await;
        let (expected, is_slow) = through(&mut slow, &sql, &asked).await;
        assert_eq!(told, expected, "seed {seed}: {}\n{sql}\n{asked:?}", case.table);
        assert!(!is_slow);
        compiled += usize::from(is_fast);
    }
    run(&mut fast, "COMMIT").await;
    run(&mut slow, "COMMIT").await;
    let order = case.keys.iter().map(|key| key.name.as_str()).collect::<Vec<_>>().join(", ");
    let all = format!("SELECT * FROM r ORDER BY {order}");
    assert_eq!(run(&mut fast, &all).await, run(&mut slow, &all).await, "seed {seed}: {}", case.table);
    compiled
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn both_ways_lead_to_the_same(seed in any::<u64>(), reversed in any::<bool>()) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(check(seed, reversed));
    }
}

#[tokio::test]
async fn most_random_statements_go_around_the_optimizer() {
    let compiled = check(1, false).await + check(2, false).await;
    assert!(compiled > STATEMENTS, "{compiled} of {}", 2 * STATEMENTS);
}

/// NULL beside a parameter, in a column of a type that Arrow has no name for.
#[tokio::test]
async fn a_uuid_given_and_null_in_one_insert() {
    check(5_602_434_390_786_382_226, false).await;
}

/// `-0` for a key of floats: zero has no sign in a whole number.
#[tokio::test]
async fn a_whole_zero_with_a_minus() {
    check(5_206_740_629_585_777_312, true).await;
}

/// A scalar is what its type says: what the comparisons of this test rely on.
#[test]
fn parameters_are_of_their_types() {
    let value = parameter::decode(
        Some(b"7"),
        &pgwire::api::Type::INT2,
        Format::Text,
        &DataType::Int64,
        crate::pg::datetime::Input::initial(),
    )
    .unwrap();
    assert_eq!(value, ScalarValue::Int64(Some(7)));
}
