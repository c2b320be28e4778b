//! Predicates as sets of keys. Pure.
//!
//! A predicate over key parts becomes a [`KeySet`]: a union of boxes, where a box has a [`Slot`] for every part that it
//! restricts. Negations are pushed down to the comparisons. There SQL's third truth value is decided: a key for which
//! the comparison is NULL is neither in the set of the comparison nor in that of its negation.

use super::{
    interval::{Interval, Slot},
    keys::Keys,
    literal::{Edge, text},
};
use crate::pg::numeric::key::KEY;
use arrow::datatypes::DataType;
use datafusion::{
    logical_expr::{BinaryExpr, Expr, Like, Operator, expr::ScalarFunction, lit},
    scalar::ScalarValue,
};
use keyspan_catalog::{SqlType, Value, value::exact::Exact};
use std::{ops::Bound, sync::Arc};

/// The most boxes of one set; a predicate that needs more makes no ranges.
pub(super) const BOXES_MAX: usize = 10_000;

/// The values of each part; `None` for all.
pub(super) type KeyBox = Vec<Option<Slot>>;

/// A set of keys, as a union of boxes.
#[derive(Clone, Debug)]
pub(super) struct KeySet {
    /// No box is empty.
    pub(super) boxes: Vec<KeyBox>,
    /// Whether every key in the set satisfies the predicate. Every key that satisfies it is in the set.
    pub(super) exact: bool,
}

impl KeySet {
    /// Every key.
    pub(super) fn all(parts: usize) -> Self {
        Self { boxes: vec![vec![None; parts]], exact: true }
    }

    fn none() -> Self {
        Self { boxes: Vec::new(), exact: true }
    }

    fn of_part(parts: usize, part: usize, slot: Slot) -> Self {
        if slot.is_none() {
            return Self::none();
        }
        let mut only: KeyBox = vec![None; parts];
        only[part] = Some(slot).filter(|slot| !slot.complement().is_none());
        Self { boxes: vec![only], exact: true }
    }

    /// The keys in both; `None` if that takes too many boxes.
    pub(super) fn intersect(&self, other: &Self) -> Option<Self> {
        let boxes = intersect(&self.boxes, &other.boxes)?;
        Some(Self { boxes, exact: self.exact && other.exact })
    }

    /// The keys in either; `None` if that takes too many boxes.
    fn unite(mut self, other: Self) -> Option<Self> {
        self.exact &= other.exact;
        for next in other.boxes {
            let joined = self.boxes.last().and_then(|last| join(last, &next));
            match (joined, self.boxes.last_mut()) {
                (Some(joined), Some(last)) => *last = joined,
                _ => self.boxes.push(next),
            }
        }
        (self.boxes.len() <= BOXES_MAX).then_some(self)
    }

    /// The index of the last part that it restricts, plus one.
    pub(super) fn depth(&self) -> usize {
        let last = |b: &KeyBox| b.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        self.boxes.iter().map(last).max().unwrap_or(0)
    }
}

/// The intersection of two unions of boxes; `None` if it takes too many boxes.
pub(super) fn intersect(left: &[KeyBox], right: &[KeyBox]) -> Option<Vec<KeyBox>> {
    if left.len().saturating_mul(right.len()) > BOXES_MAX {
        return None;
    }
    let pairs = left.iter().flat_map(|a| right.iter().map(move |b| (a, b)));
    Some(
        pairs
            .filter_map(|(a, b)| a.iter().zip(b).map(|(a, b)| intersect_slots(a.as_ref(), b.as_ref())).collect())
            .collect(),
    )
}

/// The intersection of two slots: `None` if it is empty, inner `None` for all values.
fn intersect_slots(a: Option<&Slot>, b: Option<&Slot>) -> Option<Option<Slot>> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.intersect(b)).filter(|slot| !slot.is_none()).map(Some),
        (a, b) => Some(a.or(b).cloned()),
    }
}

/// The union of two boxes, if it is a box: they must differ in one part only.
fn join(a: &KeyBox, b: &KeyBox) -> Option<KeyBox> {
    let mut differing = (0..a.len()).filter(|part| a[*part] != b[*part]);
    let Some(part) = differing.next() else { return Some(a.clone()) };
    if differing.next().is_some() {
        return None;
    }
    let mut joined = a.clone();
    joined[part] = match (&a[part], &b[part]) {
        (Some(a), Some(b)) => Some(a.union(b)).filter(|slot| !slot.complement().is_none()),
        _ => None,
    };
    Some(joined)
}

/// The keys for which `predicate` may be true, or false if `negated`. `None` if it does not restrict keys.
pub(super) fn keys_of(predicate: &Expr, negated: bool, keys: &Keys) -> Option<KeySet> {
    let parts = keys.columns().len();
    match predicate {
        Expr::Alias(alias) => keys_of(&alias.expr, negated, keys),
        Expr::Not(inner) => keys_of(inner, !negated, keys),
        Expr::IsTrue(inner) if !negated => keys_of(inner, false, keys),
        Expr::IsFalse(inner) if !negated => keys_of(inner, true, keys),
        Expr::Literal(ScalarValue::Boolean(value), _) => {
            Some(if *value == Some(!negated) { KeySet::all(parts) } else { KeySet::none() })
        }
        Expr::Literal(ScalarValue::Null, _) => Some(KeySet::none()),
        Expr::Column(column) => match keys.part(&column.name)? {
            (part, SqlType::Bool) => {
                let edge = Edge::of(SqlType::Bool, None, &ScalarValue::Boolean(Some(!negated)))?;
                Some(KeySet::of_part(parts, part, edge.equal()))
            }
            _ => None,
        },
        Expr::IsNull(inner) | Expr::IsNotNull(inner) => {
            let part = matches!(inner.as_ref(), Expr::Column(column) if keys.part(&column.name).is_some());
            let never = matches!(predicate, Expr::IsNull(_)) != negated;
            (part && !keys.nullable).then(|| if never { KeySet::none() } else { KeySet::all(parts) })
        }
        Expr::BinaryExpr(binary) => match (binary.op, negated) {
            (Operator::And, false) | (Operator::Or, true) => all_of(predicate, binary.op, negated, keys),
            (Operator::And, true) | (Operator::Or, false) => any_of(predicate, binary.op, negated, keys),
            _ => comparison(binary, negated, keys),
        },
        Expr::Between(between) => {
            let low = compare(&between.expr, Operator::GtEq, &between.low);
            let high = compare(&between.expr, Operator::LtEq, &between.high);
            keys_of(&low.and(high), negated != between.negated, keys)
        }
        Expr::InList(list) => in_list(&list.expr, &list.list, negated != list.negated, keys),
        Expr::Like(like) if !like.case_insensitive => like_set(like, negated != like.negated, keys),
        Expr::ScalarFunction(function) => function_set(function, negated, keys),
        _ => None,
    }
}

fn compare(left: &Expr, op: Operator, right: &Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left.clone()), op, Box::new(right.clone())))
}

/// The operands of a chain of one operator, without recursion, since chains may have ten thousand operands.
fn operands(chain: &Expr, op: Operator) -> Vec<&Expr> {
    let (mut open, mut found) = (vec![chain], Vec::new());
    while let Some(next) = open.pop() {
        match next {
            Expr::BinaryExpr(binary) if binary.op == op => open.extend([binary.right.as_ref(), binary.left.as_ref()]),
            other => found.push(other),
        }
    }
    found
}

fn all_of(chain: &Expr, op: Operator, negated: bool, keys: &Keys) -> Option<KeySet> {
    let (mut all, mut exact) = (None, true);
    for operand in operands(chain, op) {
        let both = match (&all, keys_of(operand, negated, keys)) {
            (None, Some(set)) => Some(set),
            (Some(all), Some(set)) => KeySet::intersect(all, &set),
            (_, None) => None,
        };
        exact &= both.is_some();
        all = both.or(all);
    }
    all.map(|set| KeySet { exact: set.exact && exact, ..set })
}

fn any_of(chain: &Expr, op: Operator, negated: bool, keys: &Keys) -> Option<KeySet> {
    let none = Some(KeySet::none());
    operands(chain, op).into_iter().fold(none, |any, operand| any?.unite(keys_of(operand, negated, keys)?))
}

/// The index and type of the key part that an expression is, and the type that a cast around it converts to.
fn part_of<'a>(expr: &'a Expr, keys: &Keys) -> Option<(usize, SqlType, Option<&'a DataType>)> {
    match expr {
        Expr::Alias(alias) => part_of(&alias.expr, keys),
        Expr::Column(column) => keys.part(&column.name).map(|(part, kind)| (part, kind, None)),
        Expr::Cast(cast) => cast_part(&cast.expr, cast.field.data_type(), keys),
        Expr::TryCast(cast) => cast_part(&cast.expr, cast.field.data_type(), keys),
        Expr::ScalarFunction(call) if call.name() == KEY => part_of(call.args.first()?, keys),
        _ => None,
    }
}

/// What an expression is compared with: the numeric, where it is one by its key.
fn compared(expr: &Expr, value: &ScalarValue) -> Option<ScalarValue> {
    match (expr, value) {
        (Expr::ScalarFunction(call), ScalarValue::Binary(Some(key))) if call.name() == KEY => {
            Some(ScalarValue::LargeBinary(Some(Exact::of_key(key)?.as_bytes().to_vec())))
        }
        (Expr::Alias(alias), value) => compared(&alias.expr, value),
        _ => Some(value.clone()),
    }
}

fn cast_part<'a>(expr: &Expr, to: &'a DataType, keys: &Keys) -> Option<(usize, SqlType, Option<&'a DataType>)> {
    let Expr::Column(column) = expr else { return None };
    let (part, kind) = keys.part(&column.name)?;
    Some((part, kind, Some(to).filter(|to| **to != crate::pg::types::data_type(kind))))
}

fn literal(expr: &Expr) -> Option<&ScalarValue> {
    match expr {
        Expr::Literal(value, _) => Some(value),
        Expr::Alias(alias) => literal(&alias.expr),
        _ => None,
    }
}

fn comparison(binary: &BinaryExpr, negated: bool, keys: &Keys) -> Option<KeySet> {
    let (left, right, op) = match literal(&binary.left) {
        Some(_) => (&binary.right, &binary.left, binary.op.swap()?),
        None => (&binary.left, &binary.right, binary.op),
    };
    if let Some(set) = row_comparison(left, op, right, negated, keys) {
        return Some(set);
    }
    let (part, kind, cast) = part_of(left, keys)?;
    let value = &compared(left, literal(right)?)?;
    let op = match op {
        // Key parts are not NULL, except where the table reads keys that do not conform as NULL.
        Operator::IsNotDistinctFrom if !keys.nullable && !value.is_null() => Operator::Eq,
        Operator::IsDistinctFrom if !keys.nullable && !value.is_null() => Operator::NotEq,
        Operator::IsNotDistinctFrom | Operator::IsDistinctFrom => return None,
        op => op,
    };
    let op = if negated { op.negate()? } else { op };
    if !matches!(op, Operator::Eq | Operator::NotEq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq) {
        return None;
    }
    let parts = keys.columns().len();
    if value.is_null() {
        return Some(KeySet::none());
    }
    Some(KeySet::of_part(parts, part, keys.slot(part, &Edge::of(kind, cast, value)?, op)?))
}

/// The values for which a comparison with a literal holds; `None` for other operators.
pub(super) fn slot_of(edge: &Edge, op: Operator) -> Option<Slot> {
    Some(match op {
        Operator::Eq => edge.equal(),
        Operator::NotEq => edge.equal().complement(),
        Operator::Lt => edge.less(),
        Operator::LtEq => edge.greater().complement(),
        Operator::Gt => edge.greater(),
        Operator::GtEq => edge.less().complement(),
        _ => return None,
    })
}

/// `(a, b) > (x, y)`: the first elements that differ decide. The set is inexact, so that the predicate is evaluated
/// again: DataFusion compares structures by other rules for NULL.
fn row_comparison(left: &Expr, op: Operator, right: &Expr, negated: bool, keys: &Keys) -> Option<KeySet> {
    let (left, right) = (elements(left)?, elements(right)?);
    if left.len() != right.len() || left.is_empty() || right.iter().any(|e| literal(e).is_none_or(ScalarValue::is_null))
    {
        return None;
    }
    let strict = match op {
        Operator::Eq | Operator::NotEq => {
            let equal = left.iter().zip(&right).map(|(a, b)| compare(a, Operator::Eq, b));
            let equal = equal.reduce(Expr::and)?;
            return keys_of(&equal, negated != (op == Operator::NotEq), keys).map(|set| KeySet { exact: false, ..set });
        }
        Operator::Lt | Operator::LtEq => Operator::Lt,
        Operator::Gt | Operator::GtEq => Operator::Gt,
        _ => return None,
    };
    let mut pairs = left.iter().zip(&right).rev();
    let (a, b) = pairs.next()?;
    let innermost = compare(a, op, b);
    let rows = pairs.fold(innermost, |rest, (a, b)| compare(a, strict, b).or(compare(a, Operator::Eq, b).and(rest)));
    keys_of(&rows, negated, keys).map(|set| KeySet { exact: false, ..set })
}

/// The elements of a row, which is a call that makes a structure, or a literal structure.
fn elements(expr: &Expr) -> Option<Vec<Expr>> {
    match expr {
        Expr::ScalarFunction(call) if matches!(call.name(), "struct" | "row") => Some(call.args.clone()),
        Expr::ScalarFunction(call) if call.name() == "named_struct" => {
            Some(call.args.iter().skip(1).step_by(2).cloned().collect())
        }
        Expr::Literal(ScalarValue::Struct(row), _) => {
            row.columns().iter().map(|column| ScalarValue::try_from_array(column, 0).ok().map(lit)).collect()
        }
        Expr::Cast(cast) => elements(&cast.expr),
        _ => None,
    }
}

fn in_list(tested: &Expr, list: &[Expr], negated: bool, keys: &Keys) -> Option<KeySet> {
    let parts = keys.columns().len();
    if let Some(row) = elements(tested) {
        let equal = list.iter().map(|item| row_comparison(tested, Operator::Eq, item, false, keys));
        let none = Some(KeySet::none()).filter(|_| !negated && !row.is_empty());
        return equal.fold(none, |any, next| any?.unite(next?)).map(|set| KeySet { exact: false, ..set });
    }
    let (part, kind, cast) = part_of(tested, keys)?;
    let values: Vec<&ScalarValue> = list.iter().map(literal).collect::<Option<_>>()?;
    // A NULL in the list makes every other comparison unknown, never true.
    if negated && values.iter().any(|value| value.is_null()) {
        return Some(KeySet::none());
    }
    let mut intervals: Vec<Interval> = Vec::with_capacity(values.len());
    for value in values.into_iter().filter(|value| !value.is_null()) {
        intervals.extend_from_slice(Edge::of(kind, cast, &compared(tested, value)?)?.equal().intervals());
    }
    let slot = keys.points(part, Slot::new(intervals))?;
    Some(KeySet::of_part(parts, part, if negated { slot.complement() } else { slot }))
}

fn function_set(call: &ScalarFunction, negated: bool, keys: &Keys) -> Option<KeySet> {
    match (call.name(), call.args.as_slice()) {
        ("starts_with", [tested, prefix]) => text_prefix(tested, literal(prefix)?, negated, keys),
        // `tested = ANY(array)`
        ("array_has" | "array_contains" | "list_has" | "list_contains", [array, tested]) => match array {
            // For an absent element of an array with a NULL, DataFusion returns false where NOT IN would return NULL.
            _ if negated => None,
            Expr::ScalarFunction(make) if make.name() == "make_array" => in_list(tested, &make.args, false, keys),
            Expr::Literal(list, _) => {
                let items: Vec<Expr> = list_items(list)?.into_iter().map(lit).collect();
                in_list(tested, &items, false, keys)
            }
            _ => None,
        },
        _ => None,
    }
}

fn list_items(list: &ScalarValue) -> Option<Vec<ScalarValue>> {
    let items: Arc<dyn arrow::array::Array> = match list {
        ScalarValue::List(list) => list.value(0),
        ScalarValue::LargeList(list) => list.value(0),
        ScalarValue::FixedSizeList(list) => list.value(0),
        other if other.is_null() => return Some(Vec::new()),
        _ => return None,
    };
    (0..items.len()).map(|at| ScalarValue::try_from_array(&items, at).ok()).collect()
}

fn text_prefix(tested: &Expr, prefix: &ScalarValue, negated: bool, keys: &Keys) -> Option<KeySet> {
    let (part, kind, cast) = part_of(tested, keys)?;
    if prefix.is_null() {
        return Some(KeySet::none());
    }
    // Only checks that the part is compared as text.
    Edge::of(kind, cast, prefix)?;
    let slot = keys.with_prefix(part, text(prefix)?)?;
    Some(KeySet::of_part(keys.columns().len(), part, if negated { slot.complement() } else { slot }))
}

/// The literal start of a LIKE pattern.
struct Pattern {
    /// The characters before the first wildcard.
    prefix: String,
    /// Whether the pattern has no wildcard.
    whole: bool,
    /// Whether only `%` follows the prefix.
    only_prefix: bool,
    /// The characters behind the last `%`, if there is no `_` among them and the pattern has a wildcard.
    suffix: Option<String>,
    /// Whether only `%` precedes the suffix.
    only_suffix: bool,
}

impl Pattern {
    /// `None` for a pattern that ends with its escape character.
    fn parse(pattern: &str) -> Option<Self> {
        let (mut prefix, mut chars) = (String::new(), pattern.chars());
        // The characters behind the last wildcard, and the wildcards before them.
        let (mut suffix, mut wildcards) = (String::new(), String::new());
        while let Some(next) = chars.next() {
            let literal = match next {
                '%' | '_' => None,
                '\\' => Some(chars.next()?),
                other => Some(other),
            };
            match literal {
                Some(literal) if wildcards.is_empty() => prefix.push(literal),
                Some(literal) => suffix.push(literal),
                None => {
                    // What stands between two wildcards ends neither.
                    if !suffix.is_empty() {
                        wildcards.push_str("between");
                        suffix.clear();
                    }
                    wildcards.push(next);
                }
            }
        }
        let only_any = wildcards.chars().all(|wildcard| wildcard == '%');
        Some(Self {
            whole: wildcards.is_empty(),
            only_prefix: !wildcards.is_empty() && only_any && suffix.is_empty(),
            only_suffix: only_any && prefix.is_empty(),
            suffix: wildcards.ends_with('%').then_some(suffix),
            prefix,
        })
    }
}

fn like_set(like: &Like, negated: bool, keys: &Keys) -> Option<KeySet> {
    let value = literal(&like.pattern)?;
    let (part, kind, cast) = part_of(&like.expr, keys)?;
    if value.is_null() {
        return Some(KeySet::none());
    }
    Edge::of(kind, cast, value)?;
    if like.escape_char.is_some_and(|escape| escape != '\\') {
        return None;
    }
    let pattern = Pattern::parse(text(value)?)?;
    let (slot, exact) = if pattern.whole {
        let point = Value::Text(pattern.prefix);
        let point = Slot::new(vec![Interval::new(Bound::Included(point.clone()), Bound::Included(point))]);
        (keys.points(part, point)?, true)
    } else if let Some((slot, exact)) = pattern.suffix.and_then(|suffix| keys.with_suffix(part, &suffix)) {
        (slot, exact && pattern.only_suffix)
    } else {
        (keys.with_prefix(part, &pattern.prefix)?, pattern.only_prefix)
    };
    let set = |slot| KeySet { exact, ..KeySet::of_part(keys.columns().len(), part, slot) };
    match negated {
        false => Some(set(slot)),
        true => exact.then(|| set(slot.complement())),
    }
}
