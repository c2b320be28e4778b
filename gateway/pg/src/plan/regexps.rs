//! Regular expressions that DataFusion's functions do not read as PostgreSQL: with back references, look-around, bounds
//! of words, or patterns that are values of a column. They become functions on our [`Pattern`]; all others stay, and a
//! point in them is made to match the end of a line, too.

use crate::{
    error::{SqlError, SqlState},
    functions::{
        bounded::ResultBytes,
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

/// DataFusion's functions with a pattern as their second argument. (Those that count give bigint there: ours have their
/// names.)
pub(super) const FUNCTIONS: [&str; 3] = ["regexp_like", "regexp_match", "regexp_replace"];

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
        _ => call.args.len() < 3 || text(2).is_some_and(|flags| flags == "i"),
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

/// The pattern of a function of one match, with the flags that are an argument.
fn pattern_of_one(call: &Call, flags: usize, function: &str) -> Result<Pattern> {
    Pattern::of_one_match(&argument(call, 1)?, &argument(call, flags)?, function).map_err(external)
}

/// The byte at which a character of a text begins; the text's end where it has fewer.
fn byte_of(subject: &str, character: usize) -> usize {
    subject.char_indices().nth(character - 1).map_or(subject.len(), |(at, _)| at)
}

/// Hands on the matches of a pattern: [`Pattern::each_match`] with errors of functions.
fn each_match(
    pattern: &Pattern,
    text: &str,
    most: usize,
    mut take: impl FnMut(usize, Match) -> Result<()>,
) -> Result<()> {
    /// An error of the pattern or of what is made of its matches.
    struct Failed(datafusion::error::DataFusionError);
    impl From<SqlError> for Failed {
        fn from(error: SqlError) -> Self {
            Self(external(error))
        }
    }
    pattern.each_match(text, most, |number, found| take(number, found).map_err(Failed)).map_err(|Failed(error)| error)
}

fn all() -> [RowFunction; 6] {
    [
        strict(MATCHES, 3..=3, returns_boolean, |call| {
            let is = pattern(call, &argument(call, 2)?)?.is_match(&argument(call, 0)?).map_err(external)?;
            Ok(ScalarValue::Boolean(Some(is)))
        }),
        strict("keyspan_regexp_like", 2..=3, returns_boolean, |call| {
            let is = pattern_of_one(call, 2, "regexp_like")?.is_match(&argument(call, 0)?).map_err(external)?;
            Ok(ScalarValue::Boolean(Some(is)))
        }),
        strict("regexp_count", 2..=4, returns_integer, |call| {
            let start = number(call, 2, "start", 1)?;
            let subject = argument(call, 0)?;
            let mut count = 0_i32;
            let pattern = pattern_of_one(call, 3, "regexp_count")?;
            each_match(&pattern, &subject[byte_of(&subject, start)..], usize::MAX, |_, _| {
                count = count.saturating_add(1);
                Ok(())
            })?;
            Ok(ScalarValue::Int32(Some(count)))
        }),
        strict("keyspan_regexp_match", 2..=3, returns_texts, |call| {
            let subject = argument(call, 0)?;
            let found = pattern_of_one(call, 2, "regexp_match")?.matches(&subject, 1).map_err(external)?;
            let Some(found) = found.first() else { return ScalarValue::try_from(call.returns.data_type()) };
            let groups = found.iter().skip(usize::from(found.len() > 1));
            Ok(text_list(groups.map(|group| group.clone().map(|group| subject[group].to_owned()))))
        }),
        strict("regexp_instr", 2..=7, returns_integer, |call| {
            let (start, nth) = (number(call, 2, "start", 1)?, number(call, 3, "n", 1)?);
            let end = match call.values.get(4).and_then(int_of).unwrap_or(0) {
                end @ 0..=1 => end == 1,
                other => {
                    let message = format!("invalid value for parameter \"endoption\": {other}");
                    return Err(external(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)));
                }
            };
            let group = call.values.get(6).map_or(Ok(0), |_| number(call, 6, "subexpr", 0))?;
            let subject = argument(call, 0)?;
            let from = byte_of(&subject, start);
            let mut place = None;
            each_match(&pattern_of_one(call, 5, "regexp_instr")?, &subject[from..], nth, |number, found| {
                if number + 1 == nth {
                    place = found.get(group).cloned().flatten();
                }
                Ok(())
            })?;
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
            let (subject, replacement) = (argument(call, 0)?, argument(call, 2)?);
            let from = byte_of(&subject, start);
            let (rest, mut done) = (&subject[from..], 0);
            let mut out = Bounded { text: subject[..from].to_owned(), most: ResultBytes::within(call.options) };
            each_match(&pattern(call, &flags)?, rest, most, |number, found| {
                let Some(whole) = found.first().cloned().flatten().filter(|_| number + 1 >= nth) else {
                    return Ok(());
                };
                out.push(&rest[done..whole.start])?;
                let mut more = 0;
                pieces(&replacement, rest, &found, |piece| more += piece.len());
                out.check(more)?;
                pieces(&replacement, rest, &found, |piece| out.text.push_str(piece));
                done = whole.end;
                Ok(())
            })?;
            out.push(&rest[done..])?;
            Ok(ScalarValue::Utf8View(Some(out.text)))
        }),
    ]
}

/// A text that grows up to a bound.
struct Bounded {
    text: String,
    most: ResultBytes,
}

impl Bounded {
    fn check(&self, more: usize) -> Result<()> {
        self.most.check("regexp_replace", (self.text.len() + more) as u64)
    }

    fn push(&mut self, more: &str) -> Result<()> {
        self.check(more.len())?;
        self.text.push_str(more);
        Ok(())
    }
}

/// Hands on the pieces of a replacement: `\1` is a group, `\&` all that matched.
fn pieces<'a>(replacement: &'a str, text: &'a str, found: &Match, mut take: impl FnMut(&'a str)) {
    let group = |number: usize| found.get(number).cloned().flatten().map_or("", |range| &text[range]);
    let mut rest = replacement;
    while let Some(at) = rest.find('\\') {
        take(&rest[..at]);
        // A backslash takes one ASCII character, or stands for itself.
        let (taken, piece) = match rest.as_bytes().get(at + 1) {
            Some(b'&') => (2, group(0)),
            Some(digit @ b'1'..=b'9') => (2, group(usize::from(digit - b'0'))),
            Some(b'\\') => (2, "\\"),
            _ => (1, "\\"),
        };
        take(piece);
        rest = &rest[at + taken..];
    }
    take(rest);
}
