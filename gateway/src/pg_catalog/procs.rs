//! The functions that the server has, as `pg_proc` and psql's `\df` show them.
//!
//! What PostgreSQL calls its functions, their numbers and their arguments, is a list of its own (`data/functions.txt`).
//! Which of them there are here, and what those give, the planner says: a test plans a call of each, and holds the list
//! against that. Functions of DataFusion's that PostgreSQL has not are not shown.

use super::{
    cluster::INTERNAL,
    columns::Row,
    functions::format_type,
    objects::{owner, proc_lines},
};
use crate::context::StatementContext;
use crate::pg_catalog::columns::row;
use std::{collections::BTreeMap, sync::LazyLock};

const FUNCTIONS: &str = include_str!("data/functions.txt");

/// A function of the list.
#[derive(Debug)]
struct Function {
    oid: u32,
    name: &'static str,
    /// As `pg_proc` has it, and behind it for an aggregate of an ordered set its kind.
    kind: &'static str,
    gives_set: bool,
    volatile: &'static str,
    strict: bool,
    /// The type that it gives in PostgreSQL.
    returns: u32,
    /// The type that it gives here, where that is another.
    gives: u32,
    arguments: Vec<u32>,
    variadic: u32,
    defaults: i64,
    result: &'static str,
    argument_list: &'static str,
}

impl Function {
    /// Of a line, and whether the server has it; `None` for a comment.
    fn read(line: &'static str) -> Option<(bool, Self)> {
        let mut parts = line.split('\t');
        let mut next = || parts.next();
        let is_here = next()? == "+";
        let number = |text: Option<&str>| text.and_then(|text| text.parse::<u32>().ok());
        Some((
            is_here,
            Self {
                gives: number(next())?,
                oid: number(next())?,
                name: next()?,
                kind: next()?,
                gives_set: next()? == "1",
                volatile: next()?,
                strict: next()? == "1",
                returns: number(next())?,
                arguments: next()?.split(',').filter_map(|oid| oid.parse().ok()).collect(),
                variadic: number(next())?,
                defaults: number(next())?.into(),
                result: next()?,
                argument_list: next()?,
            },
        ))
    }
}

/// Those that the server has, by OID.
static ALL: LazyLock<BTreeMap<u32, Function>> = LazyLock::new(|| {
    let lines = FUNCTIONS.lines().filter_map(Function::read).filter(|(is_here, _)| *is_here);
    lines.map(|(_, function)| (function.oid, function)).collect()
});

/// An argument of a function: its name, and its default as an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Argument {
    pub(super) name: &'static str,
    pub(super) default: Option<&'static str>,
}

/// The arguments of PostgreSQL's functions of a name, of those whose arguments all have names.
pub(super) fn arguments_of(name: &str) -> impl Iterator<Item = Vec<Argument>> {
    static NAMED: LazyLock<BTreeMap<&'static str, Vec<Vec<Argument>>>> = LazyLock::new(|| {
        let mut named: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (_, function) in FUNCTIONS.lines().filter_map(Function::read) {
            let all = function.argument_list.split(", ").filter(|argument| !argument.starts_with("OUT "));
            let all: Option<Vec<Argument>> = all.map(argument).collect();
            if let Some(all) = all.filter(|all| all.len() == function.arguments.len()) {
                named.entry(function.name).or_default().push(all);
            }
        }
        named
    });
    NAMED.get(name).into_iter().flatten().cloned()
}

/// `vars jsonb DEFAULT '{}'::jsonb`; `None` for a type without a name.
fn argument(text: &'static str) -> Option<Argument> {
    let (declared, default) = match text.split_once(" DEFAULT ") {
        Some((declared, default)) => (declared, Some(default)),
        None => (text, None),
    };
    let declared = declared.strip_prefix("VARIADIC ").unwrap_or(declared);
    let (name, kind) = declared.split_once(' ')?;
    // Types of several words.
    let is_type = ["double", "timestamp", "time", "character", "bit"].contains(&name) || kind.is_empty();
    (!is_type).then_some(Argument { name: name.trim_matches('"'), default })
}

/// The rows of `pg_proc`.
pub(super) fn rows(statement: &StatementContext) -> Vec<Row> {
    let of_types = proc_lines().map(|words| of_type(&words, statement));
    of_types.chain(ALL.values().map(|function| row(function, statement))).collect()
}

fn row(function: &Function, statement: &StatementContext) -> Row {
    let arguments: Vec<i64> = function.arguments.iter().map(|oid| i64::from(*oid)).collect();
    let returns = if function.gives == 0 { function.returns } else { function.gives };
    row! {
        "oid" => function.oid, "proname" => function.name, "pronamespace" => 11_u32, "proowner" => owner(statement),
        "prolang" => INTERNAL, "procost" => 1_i64, "prorows" => if function.gives_set { 1000_i64 } else { 0 },
        "provariadic" => function.variadic, "prokind" => &function.kind[..1], "proisstrict" => function.strict,
        "proretset" => function.gives_set, "provolatile" => function.volatile, "proparallel" => "s",
        "pronargs" => i64::try_from(arguments.len()).unwrap_or(0), "pronargdefaults" => function.defaults,
        "prorettype" => returns, "proargtypes" => arguments, "prosrc" => function.name,
    }
}

/// Whether the server has a function of the list.
pub(super) fn is_there(oid: u32) -> bool {
    ALL.contains_key(&oid)
}

/// The rows of `pg_aggregate`. What an aggregate does step by step are no functions here.
pub(super) fn aggregates(_: &StatementContext) -> Vec<Row> {
    /// `internal`: the type of states of no other type.
    const INTERNAL_TYPE: u32 = 2281;
    let one = |function: &Function| {
        let kind = match function.kind {
            "a" => "n",
            "ao" => "o",
            "ah" => "h",
            _ => return None,
        };
        // Behind them stand the values of WITHIN GROUP.
        let direct = match kind {
            "o" => i64::try_from(function.arguments.len()).unwrap_or(0) - 1,
            "h" => 1,
            _ => 0,
        };
        Some(row! {
            // Names have several aggregates.
            "aggfnoid" => function.oid.to_string(), "aggkind" => kind, "aggnumdirectargs" => direct,
            "aggtransfn" => "-", "aggfinalfn" => "-", "aggcombinefn" => "-", "aggserialfn" => "-",
            "aggdeserialfn" => "-", "aggmtransfn" => "-", "aggminvtransfn" => "-", "aggmfinalfn" => "-",
            "aggfinalmodify" => "r", "aggmfinalmodify" => "r", "aggtranstype" => INTERNAL_TYPE,
        })
    };
    ALL.values().filter_map(one).collect()
}

/// A function that reads or writes a type.
fn of_type(words: &[&'static str], statement: &StatementContext) -> Row {
    let number = |word: &str| word.parse::<i64>().unwrap_or(0);
    let arguments: Vec<i64> = words[3].split(',').filter(|word| !word.is_empty()).map(number).collect();
    row! {
        "oid" => number(words[0]), "proname" => words[1], "pronamespace" => 11_u32, "proowner" => owner(statement),
        "prolang" => INTERNAL, "prokind" => "f", "proisstrict" => true, "provolatile" => "i", "proparallel" => "s",
        "pronargs" => i64::try_from(arguments.len()).unwrap_or(0), "prorettype" => number(words[2]),
        "proargtypes" => arguments, "prosrc" => words[1],
    }
}

/// What `pg_get_function_result` says of a function.
pub(super) fn result(statement: &StatementContext, oid: u32) -> Option<String> {
    if let Some(function) = ALL.get(&oid) {
        let set = if function.gives_set { "SETOF " } else { "" };
        return Some(match function.gives {
            0 => function.result.to_owned(),
            gives => format!("{set}{}", format_type(statement, gives, -1)),
        });
    }
    let words = proc_lines().find(|words| words[0].parse() == Ok(oid))?;
    Some(format_type(statement, words[2].parse().ok()?, -1))
}

/// What `pg_get_function_arguments` says of a function.
pub(super) fn arguments(statement: &StatementContext, oid: u32) -> Option<String> {
    if let Some(function) = ALL.get(&oid) {
        return Some(function.argument_list.to_owned());
    }
    let words = proc_lines().find(|words| words[0].parse() == Ok(oid))?;
    let types = words[3].split(',').filter_map(|oid| Some(format_type(statement, oid.parse().ok()?, -1)));
    Some(types.collect::<Vec<_>>().join(", "))
}

/// The same without defaults: what names the function.
pub(super) fn identity(statement: &StatementContext, oid: u32) -> Option<String> {
    let all = arguments(statement, oid)?;
    let plain = |part: &str| part.split(" DEFAULT ").next().unwrap_or(part).to_owned();
    Some(all.split(", ").map(plain).filter(|part| !part.starts_with("OUT ")).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::{
        pg::types,
        pg_catalog::objects::type_lines,
        query::{Query, plan, testing::session},
        sql::ast::Statement,
    };
    use datafusion::{prelude::SessionContext, sql::sqlparser::ast};
    use expect_test::expect_file;

    /// An argument of a type; polymorphic ones are integers here.
    pub(in super::super) fn argument(oid: u32) -> Option<String> {
        match oid {
            2249 => Some("ROW(1, 'a')".to_owned()),
            oid => type_name(oid).map(|name| format!("CAST(NULL AS {name})")),
        }
    }

    /// The name of a type as casts have it.
    pub(in super::super) fn type_name(oid: u32) -> Option<String> {
        match oid {
            2276 | 2283 | 2776 | 5077 | 5079 => Some("int".to_owned()),
            2277 | 5078 => Some("int[]".to_owned()),
            18 => Some("\"char\"".to_owned()),
            oid => {
                let words = type_lines().find(|words| words[0].parse() == Ok(oid))?;
                Some(match words[1].strip_prefix('_') {
                    Some(item) => format!("{item}[]"),
                    None => words[1].to_owned(),
                })
            }
        }
    }

    /// Calls of a function, in the forms that it may need.
    fn calls(function: &Function) -> Vec<String> {
        let mut types = function.arguments.clone();
        if let Some(last) = types.last_mut()
            && function.variadic != 0
        {
            *last = function.variadic;
        }
        let Some(arguments) = types.into_iter().map(argument).collect::<Option<Vec<_>>>() else { return Vec::new() };
        let list = arguments.join(", ");
        let named = [function.name.to_owned(), format!("\"{}\"", function.name)].into_iter();
        let form = |name: String| match function.kind {
            "w" => vec![format!("SELECT {name}({list}) OVER (ORDER BY n) FROM (VALUES (1)) v (n)")],
            "a" if list.is_empty() => vec![format!("SELECT {name}(*)")],
            "ao" | "ah" => {
                let (last, direct) = arguments.split_last().map_or(("1", &[][..]), |(last, rest)| (last, rest));
                vec![format!("SELECT {name}({}) WITHIN GROUP (ORDER BY {last})", direct.join(", "))]
            }
            _ if function.gives_set => {
                vec![format!("SELECT {name}({list})"), format!("SELECT * FROM {name}({list}) AS t")]
            }
            _ => vec![format!("SELECT {name}({list})")],
        };
        named.flat_map(form).collect()
    }

    /// The type that a call gives; `None` for what cannot be planned.
    pub(in super::super) async fn given(context: &SessionContext, sql: &str) -> Option<u32> {
        let Ok(mut parsed) = Statement::parse(sql) else { return None };
        let Some(Statement::Query(query)) = parsed.pop() else { return None };
        let query: ast::Statement = *query;
        let plan = plan(context, query).await.ok()?;
        let columns = Query::columns(&plan).await;
        // What may be planned and is not there fails at the types.
        context
            .state_ref()
            .read()
            .analyzer()
            .execute_and_check(plan, context.state_ref().read().config_options(), |_, _| {})
            .ok()?;
        columns.fields().first().map(|field| types::pg_type(field).oid())
    }

    /// Types that stand for others, and those of rows.
    pub(in super::super) const OPEN: [u32; 9] = [2249, 2276, 2277, 2283, 2776, 5077, 5078, 5079, 2278];

    #[tokio::test]
    async fn the_list_says_what_the_server_has() {
        let context = session(false);
        let mut text = String::new();
        for line in FUNCTIONS.lines() {
            let Some((_, function)) = Function::read(line) else {
                text.push_str(line);
                text.push('\n');
                continue;
            };
            let mut found = None;
            for call in calls(&function) {
                found = given(&context, &call).await;
                if found.is_some() {
                    break;
                }
            }
            let sign = if found.is_some() { '+' } else { '-' };
            let columns = function.argument_list.contains("OUT ") || function.result.starts_with("TABLE");
            let other = |gives: &u32| !OPEN.contains(&function.returns) && !columns && *gives != function.returns;
            let gives = found.filter(other).unwrap_or(0);
            let rest = line.splitn(3, '\t').nth(2).unwrap_or_default();
            text.push_str(&format!("{sign}\t{gives}\t{rest}\n"));
        }
        expect_file!["data/functions.txt"].assert_eq(&text);
    }
}
