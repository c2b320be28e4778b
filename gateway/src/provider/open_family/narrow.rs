//! Finds what a plan looks at of the maps of open families, from its result down to the scans.
//!
//! Going down, each column of a node's result has a use: none, some keys of a map, or all of it. An expression uses the
//! keys that it asks a column for (`props->>'a'`), and any other column as a whole. Where rows are made of a map's
//! members (`jsonb_each_text(props)`), a condition above on their keys says which of them matter: rows of others would
//! be dropped.
//!
//! ```text
//! Filter      key >= 'a' AND key < 'b'      restricts the column `key`
//!   Unnest    json_member_keys              the lists need the members within ['a', 'b') only
//!     Projection json_member_keys(props)    so does `props`
//!       TableScan                           which reads their cells alone
//! ```

use super::Wanted;
use crate::provider::{
    interval::Interval,
    keys::{Keys, PartColumn},
    predicate::{self, KeyBox, keys_of},
    table::KeyspanTable,
};
use bytes::Bytes;
use datafusion::{
    common::{
        Column, DFSchema, NullHandling, Result,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    datasource::{provider_as_source, source_as_provider},
    logical_expr::{Expr, JoinType, LogicalPlan, TableScan, Unnest, expr::ScalarFunction, utils::split_conjunction},
    optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule},
    scalar::ScalarValue,
};
use keyspan_catalog::{SqlType, Value, open_map};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
};

/// Qualifiers and ranges that a scan asks the store for, at most; with more it reads all.
const WANTED_MAX: usize = 1_000;
/// The name that the column of a [restriction](Restriction) has in its condition.
const KEY: &str = "key";

/// The rule, which must come after all others.
#[derive(Debug)]
pub(crate) struct NarrowMaps;

impl OptimizerRule for NarrowMaps {
    fn name(&self) -> &str {
        "narrow_maps"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        None
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        narrowed(plan)
    }
}

/// The plan once more when parameters have values; `None` if it reads no more than it looks at.
///
/// # Errors
/// DataFusion's.
pub(crate) fn narrowed_copy(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    if !reads_maps(plan)? {
        return Ok(None);
    }
    let narrowed = narrowed(plan.clone())?;
    Ok(narrowed.transformed.then_some(narrowed.data))
}

/// The plan whose scans read what it looks at of open families.
fn narrowed(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !reads_maps(&plan)? {
        return Ok(Transformed::no(plan));
    }
    let all = all_of(&plan);
    let mut walk = Walk { changed: false };
    let plan = walk.node(plan, all, Vec::new())?;
    Ok(Transformed::new_transformed(plan, walk.changed))
}

fn reads_maps(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            found |= table_of(scan)?
                .is_some_and(|table| !table.open_columns().is_empty() || !table.message_columns().is_empty());
        }
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

fn table_of(scan: &TableScan) -> Result<Option<Arc<KeyspanTable>>> {
    let provider = source_as_provider(&scan.source)?;
    Ok((provider as Arc<dyn std::any::Any + Send + Sync>).downcast::<KeyspanTable>().ok())
}

/// What is used of a column; `None` for nothing.
type Use = Option<Wanted>;
/// What is used of each column of a node's result.
type Uses = Vec<Use>;

/// That only those rows count in which a column of a node's result satisfies a condition; there it is called [`KEY`].
#[derive(Clone, Debug)]
struct Restriction {
    column: usize,
    condition: Expr,
}

fn all_of(plan: &LogicalPlan) -> Uses {
    vec![Some(Wanted::All); plan.schema().fields().len()]
}

fn none_of(plan: &LogicalPlan) -> Uses {
    vec![None; plan.schema().fields().len()]
}

fn unite(to: &mut Use, other: &Use) {
    let Some(other) = other else { return };
    let united = match (to.take(), other) {
        (None, other) => other.clone(),
        (Some(Wanted::All), _) | (_, Wanted::All) => Wanted::All,
        (Some(Wanted::These(mut these)), Wanted::These(more)) => {
            these.extend(more.iter().cloned());
            Wanted::These(these)
        }
        (Some(before), more) => {
            let mut ranges = ranges_of(&before);
            let more: Vec<_> = ranges_of(more).into_iter().filter(|range| !ranges.contains(range)).collect();
            ranges.extend(more);
            Wanted::Within(ranges)
        }
    };
    let count = match &united {
        Wanted::All => 0,
        Wanted::These(these) => these.len(),
        Wanted::Within(ranges) => ranges.len(),
    };
    *to = Some(if count > WANTED_MAX { Wanted::All } else { united });
}

fn ranges_of(wanted: &Wanted) -> Vec<(Bound<Bytes>, Bound<Bytes>)> {
    match wanted {
        Wanted::All => vec![(Bound::Unbounded, Bound::Unbounded)],
        Wanted::These(these) => {
            these.iter().map(|one| (Bound::Included(one.clone()), Bound::Included(one.clone()))).collect()
        }
        Wanted::Within(ranges) => ranges.clone(),
    }
}

struct Walk {
    changed: bool,
}

impl Walk {
    fn node(&mut self, plan: LogicalPlan, uses: Uses, restrictions: Vec<Restriction>) -> Result<LogicalPlan> {
        let inputs = match &plan {
            LogicalPlan::TableScan(scan) => {
                return Ok(match narrowed_scan(scan, &uses)? {
                    Some(scan) => {
                        self.changed = true;
                        LogicalPlan::TableScan(scan)
                    }
                    None => plan,
                });
            }
            LogicalPlan::Projection(projection) => {
                let mut below = none_of(&projection.input);
                let mut passed = Vec::new();
                for (at, expr) in projection.expr.iter().enumerate() {
                    let expr = expr.clone().unalias_nested().data;
                    let of_lists = member_list(&expr).map(|(_, column)| column);
                    let bare = if let Expr::Column(column) = &expr { Some(column) } else { None };
                    let found =
                        bare.or(of_lists).and_then(|column| projection.input.schema().maybe_index_of_column(column));
                    match found {
                        Some(index) => {
                            unite(&mut below[index], &uses[at]);
                            if bare.is_some() {
                                let of_column = restrictions.iter().filter(|one| one.column == at);
                                passed.extend(of_column.map(|one| Restriction { column: index, ..one.clone() }));
                            }
                        }
                        None => collect(&expr, projection.input.schema(), &mut below)?,
                    }
                }
                vec![(below, passed)]
            }
            LogicalPlan::Filter(filter) => {
                let (mut below, mut passed) = (uses, restrictions);
                collect(&filter.predicate, filter.input.schema(), &mut below)?;
                passed.extend(restrictions_of(&filter.predicate, filter.input.schema())?);
                vec![(below, passed)]
            }
            LogicalPlan::SubqueryAlias(_) | LogicalPlan::Repartition(_) => vec![(uses, restrictions)],
            LogicalPlan::Sort(sort) => {
                let mut below = uses;
                sort.expr.iter().try_for_each(|by| collect(&by.expr, sort.input.schema(), &mut below))?;
                vec![(below, if sort.fetch.is_none() { restrictions } else { Vec::new() })]
            }
            // Which rows are the first ones depends on all of them.
            LogicalPlan::Limit(_) => vec![(uses, Vec::new())],
            LogicalPlan::Unnest(unnest) => vec![(unnested(unnest, &uses, &restrictions), Vec::new())],
            LogicalPlan::Aggregate(aggregate) => {
                let mut below = none_of(&aggregate.input);
                let exprs = aggregate.group_expr.iter().chain(&aggregate.aggr_expr);
                for expr in exprs {
                    collect(expr, aggregate.input.schema(), &mut below)?;
                }
                vec![(below, Vec::new())]
            }
            LogicalPlan::Window(window) => {
                let mut below = uses[..window.input.schema().fields().len()].to_vec();
                for expr in &window.window_expr {
                    collect(expr, window.input.schema(), &mut below)?;
                }
                vec![(below, Vec::new())]
            }
            LogicalPlan::Join(join) => {
                let (mut left, mut right) = (none_of(&join.left), none_of(&join.right));
                let width = left.len();
                match join.join_type {
                    JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => {
                        left.clone_from_slice(&uses[..width]);
                        right.clone_from_slice(&uses[width..]);
                    }
                    JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
                        left.clone_from_slice(&uses[..width]);
                    }
                    JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
                        let width = right.len();
                        right.clone_from_slice(&uses[..width]);
                    }
                }
                for (a, b) in &join.on {
                    collect(a, join.left.schema(), &mut left)?;
                    collect(b, join.right.schema(), &mut right)?;
                }
                if let Some(filter) = &join.filter {
                    collect(filter, join.left.schema(), &mut left)?;
                    collect(filter, join.right.schema(), &mut right)?;
                }
                vec![(left, Vec::new()), (right, Vec::new())]
            }
            other => other.inputs().into_iter().map(|input| (all_of(input), Vec::new())).collect(),
        };
        let mut inputs = inputs.into_iter();
        let changed = plan.map_children(|child| {
            let (uses, restrictions) = inputs.next().unwrap_or_else(|| (all_of(&child), Vec::new()));
            Ok(Transformed::yes(self.node(child, uses, restrictions)?))
        })?;
        Ok(changed.data)
    }
}

/// The scan that reads what is used; `None` for one that does so already.
fn narrowed_scan(scan: &TableScan, uses: &Uses) -> Result<Option<TableScan>> {
    let Some(table) = table_of(scan)? else { return Ok(None) };
    let (open, messages) = (table.open_columns(), table.message_columns());
    let schema = DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?;
    let mut by_column: Uses = vec![None; schema.fields().len()];
    for (at, used) in uses.iter().enumerate() {
        let column = scan.projection.as_ref().map_or(at, |projection| projection[at]);
        unite(&mut by_column[column], used);
    }
    for filter in &scan.filters {
        collect(filter, &schema, &mut by_column)?;
    }
    let of_column = |(at, id): (usize, u16)| match by_column[at].take() {
        Some(Wanted::All) => None,
        used => Some((id, used.unwrap_or_else(|| Wanted::These(BTreeSet::new())))),
    };
    let columns = open.into_iter().chain(messages.iter().copied());
    let mut wanted: BTreeMap<u16, Wanted> = columns.filter_map(of_column).collect();
    // Of a message fields are read by name.
    wanted.retain(|id, wanted| matches!(wanted, Wanted::These(_)) || messages.iter().all(|(_, message)| message != id));
    if wanted == *table.wanted() {
        return Ok(None);
    }
    let source = provider_as_source(Arc::new(table.with_wanted(wanted)));
    Ok(Some(TableScan { source, ..scan.clone() }))
}

/// Adds what an expression uses of the columns of a schema.
fn collect(expr: &Expr, schema: &DFSchema, uses: &mut Uses) -> Result<()> {
    expr.apply(|expr| {
        if let Some((column, wanted)) = lookup(expr) {
            if let Some(at) = schema.maybe_index_of_column(column) {
                unite(&mut uses[at], &Some(wanted));
            }
            // The other arguments are literals.
            return Ok(TreeNodeRecursion::Jump);
        }
        match expr {
            Expr::Column(column) => {
                if let Some(at) = schema.maybe_index_of_column(column) {
                    uses[at] = Some(Wanted::All);
                }
            }
            // What it names of these columns is not told here.
            Expr::Exists(_)
            | Expr::InSubquery(_)
            | Expr::SetComparison(_)
            | Expr::ScalarSubquery(_)
            | Expr::OuterReferenceColumn(..) => uses.fill(Some(Wanted::All)),
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// The column and its keys that a call asks for, if it asks for no more of it.
fn lookup(expr: &Expr) -> Option<(&Column, Wanted)> {
    let Expr::ScalarFunction(ScalarFunction { func, args }) = expr else { return None };
    let [Expr::Column(column), asked @ ..] = args.as_slice() else { return None };
    let keys: Vec<String> = match (func.name(), asked) {
        ("json_get" | "json_get_text" | "jsonb_exists", [key]) => vec![text_of(key)?],
        ("json_get_path" | "json_get_path_text", [path]) => texts_of(path)?.into_iter().take(1).collect(),
        ("jsonb_extract_path" | "jsonb_extract_path_text", [first, rest @ ..]) => {
            rest.iter().all(|step| matches!(step, Expr::Literal(..))).then_some(())?;
            vec![text_of(first)?]
        }
        ("jsonb_exists_any" | "jsonb_exists_all", [keys]) => texts_of(keys)?,
        ("jsonb_contains", [part]) => open_map::members(&text_of(part)?).ok()?.keys().cloned().collect(),
        _ => return None,
    };
    // An empty path asks for the whole value.
    if keys.is_empty() && func.name() != "jsonb_contains" {
        return None;
    }
    Some((column, Wanted::These(keys.iter().filter_map(|key| open_map::qualifier_of(key)).collect())))
}

fn text_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Literal(value, _) => value.try_as_str().flatten().map(str::to_owned),
        Expr::Alias(alias) => text_of(&alias.expr),
        _ => None,
    }
}

fn texts_of(expr: &Expr) -> Option<Vec<String>> {
    let Expr::Literal(value @ (ScalarValue::List(_) | ScalarValue::Utf8(_) | ScalarValue::Utf8View(_)), _) = expr
    else {
        return None;
    };
    if value.is_null() {
        return None;
    }
    crate::pg::functions::json::path(value).ok()
}

/// The function and the column of a list of a map's members.
fn member_list(expr: &Expr) -> Option<(&str, &Column)> {
    let Expr::ScalarFunction(ScalarFunction { func, args }) = expr else { return None };
    match args.as_slice() {
        [Expr::Column(column)] if func.name().starts_with("json_member_") => Some((func.name(), column)),
        _ => None,
    }
}

/// What the conjuncts of a predicate say each of one column.
fn restrictions_of(predicate: &Expr, schema: &DFSchema) -> Result<Vec<Restriction>> {
    let mut found = Vec::new();
    for conjunct in split_conjunction(predicate) {
        let columns = conjunct.column_refs();
        let mut columns = columns.iter();
        let (Some(only), None) = (columns.next(), columns.next()) else { continue };
        let Some(column) = schema.maybe_index_of_column(only) else { continue };
        let renamed = conjunct.clone().transform(|expr| {
            Ok(match expr {
                Expr::Column(_) => Transformed::yes(Expr::Column(Column::from_name(KEY))),
                other => Transformed::no(other),
            })
        })?;
        found.push(Restriction { column, condition: renamed.data });
    }
    Ok(found)
}

/// What is used of the columns below a node that makes rows of lists.
fn unnested(unnest: &Unnest, uses: &Uses, restrictions: &[Restriction]) -> Uses {
    let mut below = none_of(&unnest.input);
    let is_list = |input: usize| unnest.list_type_columns.iter().any(|(list, _)| *list == input);
    for (at, input) in unnest.dependency_indices.iter().enumerate() {
        if !is_list(*input) && !unnest.struct_type_columns.contains(input) {
            unite(&mut below[*input], &uses[at]);
        }
    }
    let members = members_of_restricted(unnest, restrictions).unwrap_or(Wanted::All);
    for (list, _) in &unnest.list_type_columns {
        below[*list] = Some(members.clone());
    }
    unnest.struct_type_columns.iter().for_each(|at| below[*at] = Some(Wanted::All));
    below
}

/// The members that rows are made of which the restrictions leave; `None` if that is not known, or rows are made of
/// something else, too.
fn members_of_restricted(unnest: &Unnest, restrictions: &[Restriction]) -> Option<Wanted> {
    let LogicalPlan::Projection(projection) = unnest.input.as_ref() else { return None };
    let mut map = None;
    let mut keys_at = Vec::new();
    for (list, of) in &unnest.list_type_columns {
        let expr = projection.expr[*list].clone().unalias_nested().data;
        let (function, column) = member_list(&expr)?;
        if of.depth != 1 || map.get_or_insert_with(|| column.clone()) != column {
            return None;
        }
        if function == "json_member_keys" {
            keys_at.push(*list);
        }
    }
    if unnest.options.null_handling == NullHandling::PreserveAndExpandEmpty {
        // A map without these members would give a row, too.
        return None;
    }
    let keys = Keys::of_columns(vec![PartColumn { name: KEY.into(), kind: SqlType::Text, reversed: false }]);
    let mut all: Option<Vec<KeyBox>> = None;
    for one in restrictions.iter().filter(|one| keys_at.contains(&unnest.dependency_indices[one.column])) {
        let Some(set) = keys_of(&one.condition, false, &keys) else { continue };
        all = Some(match &all {
            None => set.boxes,
            Some(boxes) => predicate::intersect(boxes, &set.boxes)?,
        });
    }
    qualifiers_of(&all?)
}

/// The qualifiers whose keys are in the boxes; `None` for all.
fn qualifiers_of(boxes: &[KeyBox]) -> Option<Wanted> {
    let mut used: Use = Some(Wanted::These(BTreeSet::new()));
    for one in boxes {
        for interval in one[0].as_ref()?.intervals() {
            let wanted = match interval.as_point() {
                Some(Value::Text(key)) => Wanted::These(open_map::qualifier_of(key).into_iter().collect()),
                Some(_) => return None,
                None => Wanted::Within(vec![range_of(interval)?]),
            };
            unite(&mut used, &Some(wanted));
        }
    }
    used
}

/// The qualifiers whose keys are in an interval; `None` if keys in it may be escaped, whose order is another one.
fn range_of(interval: &Interval) -> Option<(Bound<Bytes>, Bound<Bytes>)> {
    // Escaped keys are from `\x` on, and below the next text of that length.
    const AFTER_ESCAPED: &str = "\\y";
    let text = |bound: &Bound<Value>| match bound {
        Bound::Included(Value::Text(text)) => Some(Bound::Included(text.clone())),
        Bound::Excluded(Value::Text(text)) => Some(Bound::Excluded(text.clone())),
        Bound::Unbounded => Some(Bound::Unbounded),
        _ => None,
    };
    let (low, high) = (text(&interval.low)?, text(&interval.high)?);
    let is_above = matches!(&low, Bound::Included(low) | Bound::Excluded(low) if low.as_str() >= AFTER_ESCAPED);
    let is_below = match &high {
        Bound::Included(high) => high.as_str() < open_map::ESCAPE,
        Bound::Excluded(high) => high.as_str() <= open_map::ESCAPE,
        Bound::Unbounded => false,
    };
    let bytes = |bound: Bound<String>| bound.map(Bytes::from);
    (is_above || is_below).then(|| (bytes(low), bytes(high)))
}
