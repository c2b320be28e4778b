//! The operators, casts and classes of operators that the server has, as `pg_operator` (psql's `\do`), `pg_cast` (`\dC`),
//! `pg_opclass` and `pg_opfamily` show them.
//!
//! PostgreSQL's are lists of their own (`data/operators.txt`, `data/casts.txt`, `data/operator_classes.txt`). Which of
//! them there are here, and what those give, the planner says: a test plans a use of each, and holds the lists against
//! that. A class is there where its type has an order.

use super::{
    columns::{Row, row},
    objects::owner,
    procs,
};
use crate::context::StatementContext;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

const OPERATORS: &str = include_str!("data/operators.txt");
const CASTS: &str = include_str!("data/casts.txt");
const CLASSES: &str = include_str!("data/operator_classes.txt");
/// `btree` in `pg_am`.
const BTREE: u32 = 403;

/// An operator of the list.
#[derive(Debug)]
struct Operator {
    name: &'static str,
    /// 0 for one that stands before its operand.
    left: u32,
    right: u32,
    /// The type that it gives in PostgreSQL.
    returns: u32,
    /// The type that it gives here, where that is another.
    gives: u32,
    commutator: u32,
    negator: u32,
    merges: bool,
    hashes: bool,
}

/// The words of the lines of a list.
fn lines(list: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    list.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(' ').collect())
}

fn number(word: &str) -> u32 {
    word.parse().unwrap_or(0)
}

/// An operator with its number, and whether the server has it.
fn operator(words: &[&'static str]) -> Option<(bool, u32, Operator)> {
    let [sign, gives, oid, name, left, right, returns, commutator, negator, merges, hashes] = *words else {
        return None;
    };
    let operator = Operator {
        name,
        left: number(left),
        right: number(right),
        returns: number(returns),
        gives: number(gives),
        commutator: number(commutator),
        negator: number(negator),
        merges: merges == "t",
        hashes: hashes == "t",
    };
    Some((sign == "+", number(oid), operator))
}

/// Those that the server has, by OID.
static ALL: LazyLock<BTreeMap<u32, Operator>> = LazyLock::new(|| {
    let all = lines(OPERATORS).filter_map(|words| operator(&words));
    all.filter(|(is_here, ..)| *is_here).map(|(_, oid, operator)| (oid, operator)).collect()
});

/// The rows of `pg_operator`.
pub(super) fn operators(statement: &StatementContext) -> Vec<Row> {
    let there = |oid: u32| if ALL.contains_key(&oid) { oid } else { 0 };
    let one = |(oid, operator): (&u32, &Operator)| {
        row! {
            "oid" => *oid, "oprname" => operator.name, "oprnamespace" => 11_u32, "oprowner" => owner(statement),
            "oprkind" => if operator.left == 0 { "l" } else { "b" }, "oprcanmerge" => operator.merges,
            "oprcanhash" => operator.hashes, "oprleft" => operator.left, "oprright" => operator.right,
            "oprresult" => if operator.gives == 0 { operator.returns } else { operator.gives },
            "oprcom" => there(operator.commutator), "oprnegate" => there(operator.negator),
            // They have no functions of their own here.
            "oprcode" => "-", "oprrest" => "-", "oprjoin" => "-",
        }
    };
    ALL.iter().map(one).collect()
}

/// The rows of `pg_cast`.
pub(super) fn casts(_: &StatementContext) -> Vec<Row> {
    let one = |words: Vec<&'static str>| {
        let ["+", oid, source, target, function, context, method] = *words.as_slice() else { return None };
        let function = Some(number(function)).filter(|function| procs::is_there(*function)).unwrap_or(0);
        Some(row! {
            "oid" => number(oid), "castsource" => number(source), "casttarget" => number(target),
            "castfunc" => function, "castcontext" => context, "castmethod" => method,
        })
    };
    lines(CASTS).filter_map(one).collect()
}

/// A class of operators whose type has an order here: its words.
fn classes_there() -> impl Iterator<Item = Vec<&'static str>> {
    let is_ordered = |kind: &str| {
        let kind = number(kind);
        ALL.values().any(|operator| operator.name == "<" && operator.left == kind && operator.right == kind)
    };
    lines(CLASSES).filter(move |words| words.get(4).is_some_and(|kind| is_ordered(kind)))
}

/// The rows of `pg_opclass`.
pub(super) fn classes(statement: &StatementContext) -> Vec<Row> {
    let one = |words: Vec<&'static str>| {
        let [oid, name, family, _, kind, default, key] = *words.as_slice() else { return None };
        Some(row! {
            "oid" => number(oid), "opcmethod" => BTREE, "opcname" => name, "opcnamespace" => 11_u32,
            "opcowner" => owner(statement), "opcfamily" => number(family), "opcintype" => number(kind),
            "opcdefault" => default == "t", "opckeytype" => number(key),
        })
    };
    classes_there().filter_map(one).collect()
}

/// The rows of `pg_opfamily`.
pub(super) fn families(statement: &StatementContext) -> Vec<Row> {
    let all: BTreeSet<(u32, &str)> = classes_there().map(|words| (number(words[2]), words[3])).collect();
    let one = |(oid, name): (u32, &'static str)| {
        row! {
            "oid" => oid, "opfmethod" => BTREE, "opfname" => name, "opfnamespace" => 11_u32,
            "opfowner" => owner(statement),
        }
    };
    all.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::{
        super::procs::tests::{OPEN, argument, given, type_name},
        *,
    };
    use crate::query::testing::session;
    use expect_test::{ExpectFile, expect_file};

    /// Holds a list against what the server plans: `asked` is a query with what a line is of, and `told` the words that
    /// the line begins with, by the type that the query gives, in the place of as many of its own.
    async fn check<const N: usize>(
        list: &str,
        file: ExpectFile,
        asked: impl Fn(&[&str]) -> Option<String>,
        told: impl Fn(&[&str], Option<u32>) -> [String; N],
    ) {
        let context = session(false);
        let mut text = String::new();
        for line in list.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            if line.starts_with('#') {
                text.push_str(&format!("{line}\n"));
                continue;
            }
            let found = match asked(&words) {
                Some(query) => given(&context, &query).await,
                None => None,
            };
            text.push_str(&format!("{} {}\n", told(&words, found).join(" "), words[N..].join(" ")));
        }
        file.assert_eq(&text);
    }

    fn sign(found: Option<u32>) -> String {
        if found.is_some() { "+" } else { "-" }.to_owned()
    }

    #[tokio::test]
    async fn the_list_says_which_operators_the_server_has() {
        let asked = |words: &[&str]| {
            let [.., name, left, right, _, _, _, _, _] = *words else { panic!("{words:?}") };
            let left = if left == "0" { Some(String::new()) } else { argument(number(left)) };
            Some(format!("SELECT {} {name} {}", left?, argument(number(right))?))
        };
        let told = |words: &[&str], found: Option<u32>| {
            let returns = number(words[6]);
            let other = |gives: &u32| !OPEN.contains(&returns) && *gives != returns;
            [sign(found), found.filter(other).unwrap_or(0).to_string()]
        };
        check(OPERATORS, expect_file!["data/operators.txt"], asked, told).await;
    }

    #[tokio::test]
    async fn the_list_says_which_casts_the_server_has() {
        let asked = |words: &[&str]| {
            let [_, _, source, target, ..] = *words else { panic!("{words:?}") };
            Some(format!("SELECT CAST({} AS {})", argument(number(source))?, type_name(number(target))?))
        };
        check(CASTS, expect_file!["data/casts.txt"], asked, |_, found| [sign(found)]).await;
    }
}
