//! Regular expressions that DataFusion's functions do not read as PostgreSQL: with back references, look-around, bounds
//! of words, or patterns that are values of a column. They become functions on our [`Pattern`]; all others stay, and a
//! point in them is made to match the end of a line, too.

use crate::{
    error::{SqlError, SqlState},
    functions::{
        int_of,
        scalar_function::{
            self, Call, RowFunction, external, returns_boolean, returns_integer, returns_text, returns_texts, strict,
            text_list, text_output,
        },
    },
    regexp::{Match, Pattern, regular},
};
use datafusion::{
    common::tree_node::Transformed,
    error::Result,
    logical_expr::{BinaryExpr, Expr, Operator, ScalarUDF, expr::ScalarFunction},
    prelude::lit,
    scalar::ScalarValue,
};
use std::sync::{Arc, LazyLock};

/// Whether a text has a match, by flags.
const MATCHES: &str = "keyspan_regexp_matches";

/// DataFusion's functions with a pattern as their second argument.
pub(super) const FUNCTIONS: [&str; 5] =
    ["regexp_count", "regexp_instr", "regexp_like", "regexp_match", "regexp_replace"];

/// The flags of an operator, and whether it holds where nothing matches; `None` for other operators.
pub(super) fn operator(op: Operator) -> Option<(&'static str, bool)> {
    Some(match op {
        Operator::RegexMatch => ("", false),
        Operator::RegexIMatch => ("i", false),
        Operator::RegexNotMatch => ("", true),
        Operator::RegexNotIMatch => ("i", true),
        _ => return None,
    })
}

/// `text ~ pattern`
pub(super) fn of_operator(mut binary: BinaryExpr) -> Transformed<Expr> {
    let Some((flags, negated)) = operator(binary.op) else { return Transformed::no(Expr::BinaryExpr(binary)) };
    if let Some(kept) = kept(&binary.right) {
        let is = kept != *binary.right;
        *binary.right = kept;
        let binary = Expr::BinaryExpr(binary);
        return if is { Transformed::yes(binary) } else { Transformed::no(binary) };
    }
    let call = function(MATCHES).call(vec![*binary.left, *binary.right, lit(flags)]);
    Transformed::yes(if negated { Expr::Not(Box::new(call)) } else { call })
}

/// A call of one of [`FUNCTIONS`].
pub(super) fn of_call(mut call: ScalarFunction) -> Transformed<Expr> {
    let Some(pattern) = call.args.get(1) else { return Transformed::no(Expr::ScalarFunction(call)) };
    let text = |at: usize| {
        call.args.get(at).and_then(|argument| match argument {
            Expr::Literal(literal, _) => literal.try_as_str().flatten(),
            _ => None,
        })
    };
    // Flags and references that both know.
    let plain = match call.func.name() {
        "regexp_replace" => {
            let flags =
                call.args.len() < 4 || text(3).is_some_and(|flags| flags.chars().all(|flag| "gi".contains(flag)));
            flags && text(2).is_some_and(|replacement| !replacement.contains(['\\', '$']))
        }
        "regexp_like" | "regexp_match" => call.args.len() < 3 || text(2).is_some_and(|flags| flags == "i"),
        _ => call.args.len() < 3,
    };
    match kept(pattern).filter(|_| plain) {
        Some(kept) if kept == *pattern => Transformed::no(Expr::ScalarFunction(call)),
        Some(kept) => {
            call.args[1] = kept;
            Transformed::yes(Expr::ScalarFunction(call))
        }
        _ => {
            let name = format!("keyspan_{}", call.func.name());
            Transformed::yes(function(&name).call(call.args))
        }
    }
}

/// A literal that DataFusion's functions read as PostgreSQL does, as they are to get it.
fn kept(pattern: &Expr) -> Option<Expr> {
    let Expr::Literal(literal, metadata) = pattern else { return None };
    let Some(text) = literal.try_as_str() else { return Some(pattern.clone()) };
    let Some(text) = text else { return Some(pattern.clone()) };
    let regular = regular(text)?;
    if regular == text {
        return Some(pattern.clone());
    }
    let literal = match literal {
        ScalarValue::Utf8(_) => ScalarValue::Utf8(Some(regular)),
        ScalarValue::LargeUtf8(_) => ScalarValue::LargeUtf8(Some(regular)),
        _ => ScalarValue::Utf8View(Some(regular)),
    };
    Some(Expr::Literal(literal, metadata.clone()))
}

fn function(name: &str) -> Arc<ScalarUDF> {
    static ALL: LazyLock<Vec<Arc<ScalarUDF>>> = LazyLock::new(|| functions().collect());
    let found = ALL.iter().find(|function| function.name() == name);
    Arc::clone(found.expect("each of the functions that are replaced has one of ours"))
}

/// The functions.
pub fn functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    scalar_function::functions(all())
}

fn argument(call: &Call, at: usize) -> Result<String> {
    match call.values.get(at) {
        Some(value) => Ok(text_output(value, &call.fields[at], call.options)?.unwrap_or_default()),
        None => Ok(String::new()),
    }
}

/// A number from 1 on, or from 0 on.
fn number(call: &Call, at: usize, name: &str, least: i64) -> Result<usize> {
    let value = call.values.get(at).map_or(Some(1.max(least)), int_of).unwrap_or(1);
    if value < least {
        let message = format!("invalid value for parameter \"{name}\": {value}");
        return Err(external(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)));
    }
    Ok(usize::try_from(value).unwrap_or(usize::MAX))
}

fn pattern(call: &Call, flags: &str) -> Result<Pattern> {
    Pattern::new(&argument(call, 1)?, flags).map_err(external)
}

/// The matches of a call's pattern in its text from a character on.
fn matches_from(call: &Call, flags: &str, start: usize, most: usize) -> Result<(String, usize, Vec<Match>)> {
    let subject = argument(call, 0)?;
    let from = subject.char_indices().nth(start - 1).map_or(subject.len(), |(at, _)| at);
    let found = pattern(call, flags)?.matches(&subject[from..], most).map_err(external)?;
    Ok((subject, from, found))
}

fn all() -> [RowFunction; 6] {
    [
        strict(MATCHES, 3..=3, returns_boolean, |call| {
            let is = pattern(call, &argument(call, 2)?)?.is_match(&argument(call, 0)?).map_err(external)?;
            Ok(ScalarValue::Boolean(Some(is)))
        }),
        strict("keyspan_regexp_like", 2..=3, returns_boolean, |call| {
            let is = pattern(call, &argument(call, 2)?)?.is_match(&argument(call, 0)?).map_err(external)?;
            Ok(ScalarValue::Boolean(Some(is)))
        }),
        strict("keyspan_regexp_count", 2..=4, returns_integer, |call| {
            let start = number(call, 2, "start", 1)?;
            let (_, _, found) = matches_from(call, &argument(call, 3)?, start, usize::MAX)?;
            Ok(ScalarValue::Int32(i32::try_from(found.len()).ok()))
        }),
        strict("keyspan_regexp_match", 2..=3, returns_texts, |call| {
            let (subject, _, found) = matches_from(call, &argument(call, 2)?, 1, 1)?;
            let Some(found) = found.first() else { return ScalarValue::try_from(call.returns.data_type()) };
            let groups = found.iter().skip(usize::from(found.len() > 1));
            Ok(text_list(groups.map(|group| group.clone().map(|group| subject[group].to_owned()))))
        }),
        strict("keyspan_regexp_instr", 2..=7, returns_integer, |call| {
            let (start, nth) = (number(call, 2, "start", 1)?, number(call, 3, "n", 1)?);
            let end = call.values.get(4).and_then(int_of).unwrap_or(0) == 1;
            let group = call.values.get(6).map_or(Ok(0), |_| number(call, 6, "subexpr", 0))?;
            let (subject, from, found) = matches_from(call, &argument(call, 5)?, start, nth)?;
            let place = found.get(nth - 1).and_then(|found| found.get(group).cloned().flatten());
            let place = place.map_or(0, |range| {
                let at = from + if end { range.end } else { range.start };
                subject[..at].chars().count() + 1
            });
            Ok(ScalarValue::Int32(i32::try_from(place).ok()))
        }),
        strict("keyspan_regexp_replace", 3..=6, returns_text, |call| {
            // By flags, or by a place to begin at and the number of the match.
            let by_place = call.values.get(3).is_some_and(|value| value.data_type().is_integer());
            let start = if by_place { number(call, 3, "start", 1)? } else { 1 };
            let flags = argument(call, if by_place { 5 } else { 3 })?;
            let nth = match by_place && call.values.len() > 4 {
                true => number(call, 4, "n", 0)?,
                false => usize::from(!flags.contains('g')),
            };
            let most = if nth == 0 { usize::MAX } else { nth };
            let (subject, from, found) = matches_from(call, &flags, start, most)?;
            let replacement = argument(call, 2)?;
            let most_bytes = crate::functions::bounded::ResultBytes::within(call.options);
            let mut out = subject[..from].to_owned();
            let (rest, mut done) = (&subject[from..], 0);
            for found in found.iter().skip(nth.saturating_sub(1)) {
                let Some(whole) = found.first().cloned().flatten() else { continue };
                out.push_str(&rest[done..whole.start]);
                replace(&replacement, rest, found, &mut out);
                most_bytes.check("regexp_replace", out.len() as u64)?;
                done = whole.end;
            }
            out.push_str(&rest[done..]);
            Ok(ScalarValue::Utf8View(Some(out)))
        }),
    ]
}

/// Writes a replacement: `\1` is a group, `\&` all that matched.
fn replace(replacement: &str, text: &str, found: &Match, out: &mut String) {
    let mut chars = replacement.chars();
    while let Some(c) = chars.next() {
        let group = match (c, chars.as_str().chars().next()) {
            ('\\', Some('&')) => Some(0),
            ('\\', Some(digit @ '1'..='9')) => digit.to_digit(10).map(|digit| digit as usize),
            ('\\', Some('\\')) => {
                chars.next();
                out.push('\\');
                continue;
            }
            _ => None,
        };
        match group {
            Some(group) => {
                chars.next();
                out.push_str(found.get(group).cloned().flatten().map_or("", |range| &text[range]));
            }
            None => out.push(c),
        }
    }
}
