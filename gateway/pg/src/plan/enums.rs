//! Values of enumerated types in plans: an analyzer rule, before types of literals are settled.
//!
//! Such a value is the text of its label, under a name that its field bears ([`types::enums`]).
//! Texts that are equal are equal values, so that equality, grouping and joins need nothing. Where an order is asked
//! for, in comparisons, ORDER BY, `min` and `max`, the place of the label in its type stands in the place of the text.
//! Quoted texts beside a value are checked to be labels, and what has another type is refused, as PostgreSQL does.
//!
//! DataFusion drops the name of a field in CASE, `coalesce`, aggregates, windows and VALUES: there a cast to the type
//! puts it back, for without it the next ORDER BY would be one of texts.

use super::casts;
use crate::{
    common_type::{SAME_TYPE, is_unknown},
    error::{SqlError, SqlState},
    functions::scalar_function::{self, external, row_function},
    types::{self, enums, is_text},
};
use arrow::{
    array::{ArrayRef, Int32Array, StringViewArray},
    datatypes::{DataType, Field, FieldRef},
};
use datafusion::{
    common::{
        Column, DFSchema, DataFusionError,
        cast::{as_int32_array, as_string_view_array},
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    config::ConfigOptions,
    error::Result,
    functions_aggregate::first_last::first_value_udaf,
    logical_expr::{
        Between, BinaryExpr, ColumnarValue, Distinct, DistinctOn, Expr, ExprSchemable, LogicalPlan, Operator,
        Projection, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Sort, SortExpr,
        TypeSignature, Volatility, WindowFunctionDefinition,
        expr::{AggregateFunction, AggregateFunctionParams, InList, ScalarFunction, WindowFunction},
        expr_rewriter::NamePreserver,
        utils::merge_schema,
    },
    optimizer::AnalyzerRule,
    scalar::ScalarValue,
};
use keyspan_catalog::EnumType;
use std::sync::Arc;

/// The functions of labels, which are PostgreSQL's and take a value for its type.
const OF_TYPE: [&str; 3] = ["enum_first", "enum_last", "enum_range"];
/// What aggregates of sorted values are planned as: functions of a list.
const SORTS_LIST: [&str; 3] = ["list_mode", "list_percentile", "list_percentile_cont"];
/// Aggregates and window functions that give one of the values that they see.
const GIVE_BACK: [&str; 8] = ["min", "max", "first_value", "last_value", "nth_value", "lag", "lead", "any_value"];

/// The rule.
#[derive(Debug)]
pub struct Enums;

impl AnalyzerRule for Enums {
    fn name(&self) -> &str {
        "enumerated_types"
    }

    fn analyze(&self, plan: LogicalPlan, _options: &ConfigOptions) -> Result<LogicalPlan> {
        if !mentions(&plan)? {
            return Ok(plan);
        }
        let found = plan.transform_up_with_subqueries(rewritten)?;
        Ok(found.data)
    }
}

/// Whether there is a value of such a type anywhere: most plans have none, and are not walked twice.
fn mentions(plan: &LogicalPlan) -> Result<bool> {
    let mut any = false;
    plan.apply_with_subqueries(|node| {
        let named = |field: &Arc<Field>| field.metadata().get(types::TYPE_KEY).is_some_and(|name| enums::is_name(name));
        any = any || node.schema().fields().iter().any(named);
        if let LogicalPlan::TableScan(scan) = node {
            any = any || scan.source.schema().fields().iter().any(named);
        }
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                any = any || matches!(expr, Expr::Cast(cast) if named(&cast.field));
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(any)
}

fn rewritten(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let plan = plan.recompute_schema()?;
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = &plan {
        schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?);
    }
    let names = NamePreserver::new(&plan);
    let plan = plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let one = expr.transform_up(|expr| of_expr(expr, &schema))?;
        Ok(one.update_data(|expr| name.restore(expr)))
    })?;
    let plan = plan.data.recompute_schema()?;
    check_sorted(&plan)?;
    let plan = match plan {
        LogicalPlan::Sort(Sort { mut expr, input, fetch }) => {
            sort_ranks(&mut expr, &schema);
            LogicalPlan::Sort(Sort { expr, input, fetch })
        }
        LogicalPlan::Distinct(Distinct::On(mut on)) => {
            // The expressions of ON come first in the order, and have to be the same there.
            for expr in &mut on.on_expr {
                if let Some(of) = kind(expr, &schema) {
                    *expr = rank(std::mem::take(expr).unalias(), &of);
                }
            }
            if let Some(orders) = &mut on.sort_expr {
                sort_ranks(orders, &schema);
            }
            LogicalPlan::Distinct(Distinct::On(DistinctOn { ..on }))
        }
        LogicalPlan::Aggregate(aggregate) => {
            let groups = aggregate.schema.fields().len() - aggregate.aggr_expr.len();
            let of: Vec<_> = aggregate.aggr_expr.iter().map(|expr| given_back(expr, &schema)).collect();
            return named_above(LogicalPlan::Aggregate(aggregate), groups, &of);
        }
        LogicalPlan::Window(window) => {
            let before = window.input.schema().fields().len();
            let of: Vec<_> = window.window_expr.iter().map(|expr| given_back(expr, &schema)).collect();
            return named_above(LogicalPlan::Window(window), before, &of);
        }
        LogicalPlan::Values(values) => {
            let of_column = |at: usize| {
                let mut of = values.values.iter().filter_map(|row| row.get(at));
                let first = of.by_ref().find_map(|cell| kind(cell, &schema));
                first.filter(|first| {
                    let is_open = |cell: &Expr| matches!(cell, Expr::Literal(literal, _) if literal.is_null());
                    values
                        .values
                        .iter()
                        .filter_map(|row| row.get(at))
                        .all(|cell| is_open(cell) || kind(cell, &schema).is_some_and(|of| of.id == first.id))
                })
            };
            let of: Vec<_> = (0..values.schema.fields().len()).map(of_column).collect();
            return named_above(LogicalPlan::Values(values), 0, &of);
        }
        LogicalPlan::Union(union) => {
            let of_column = |at: usize| {
                let mut all = union.inputs.iter().map(|input| enums::of(input.schema().field(at)));
                let first = all.next()??;
                all.all(|of| of.is_some_and(|of| of.id == first.id)).then_some(first)
            };
            let of: Vec<_> = (0..union.schema.fields().len()).map(of_column).collect();
            return named_above(LogicalPlan::Union(union), 0, &of);
        }
        other => other,
    };
    Ok(Transformed::yes(plan))
}

/// The type of what a function gives back of the values that it sees.
fn given_back(expr: &Expr, schema: &DFSchema) -> Option<EnumType> {
    match expr {
        Expr::Alias(alias) => given_back(&alias.expr, schema),
        Expr::AggregateFunction(call) if GIVE_BACK.contains(&call.func.name()) => {
            kind(call.params.args.first()?, schema)
        }
        Expr::WindowFunction(call) if GIVE_BACK.contains(&call.fun.name()) => kind(call.params.args.first()?, schema),
        _ => None,
    }
}

/// A node below a projection that names columns, from one on, after their types.
fn named_above(plan: LogicalPlan, from: usize, of: &[Option<EnumType>]) -> Result<Transformed<LogicalPlan>> {
    if of.iter().all(Option::is_none) {
        return Ok(Transformed::yes(plan));
    }
    let schema = Arc::clone(plan.schema());
    let items = schema.iter().enumerate().map(|(at, (qualifier, field))| {
        let column = Expr::Column(Column::new(qualifier.cloned(), field.name()));
        match at.checked_sub(from).and_then(|at| of.get(at)?.as_ref()) {
            Some(of) if enums::of(field).is_none() => {
                marked(column, of).alias_qualified(qualifier.cloned(), field.name())
            }
            _ => column,
        }
    });
    let items: Vec<Expr> = items.collect();
    Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(items, Arc::new(plan))?)))
}

/// The enumerated type of a value.
fn kind(expr: &Expr, schema: &DFSchema) -> Option<EnumType> {
    match expr {
        Expr::Alias(alias) => kind(&alias.expr, schema),
        Expr::Case(case) => {
            let results = case.when_then_expr.iter().map(|(_, then)| then).chain(&case.else_expr);
            of_several(results.map(AsRef::as_ref), schema)
        }
        Expr::ScalarFunction(call) if SAME_TYPE.contains(&call.func.name()) => of_several(&call.args, schema),
        Expr::ScalarSubquery(subquery) => enums::of(subquery.subquery.schema().fields().first()?),
        Expr::Cast(cast) => enums::of(&cast.field),
        Expr::Column(_) | Expr::OuterReferenceColumn(..) => enums::of(&expr.to_field(schema).ok()?.1),
        Expr::ScalarFunction(call) => {
            let inner = call.func.inner().as_ref() as &dyn std::any::Any;
            if let Some(of) = inner.downcast_ref::<OfLabels>().filter(|function| !function.rank) {
                return Some(of.of.clone());
            }
            casts::target(&call.func).and_then(|target| enums::of(&target))
        }
        _ => None,
    }
}

/// The type of values of which all that have one are of it.
fn of_several<'a>(all: impl IntoIterator<Item = &'a Expr>, schema: &DFSchema) -> Option<EnumType> {
    let is_null = |expr: &Expr| matches!(expr, Expr::Literal(literal, _) if literal.is_null());
    let open = |expr: &&Expr| is_unknown(expr) || is_parameter(expr) || is_null(expr);
    let mut kinds = all.into_iter().filter(|expr| !open(expr)).map(|expr| kind(expr, schema));
    let first = kinds.next()??;
    kinds.all(|kind| kind.is_some_and(|kind| kind.id == first.id)).then_some(first)
}

/// Whether it is a parameter, or the value of one, which is text where the client says no type or says text.
fn is_parameter(expr: &Expr) -> bool {
    match expr {
        Expr::Cast(cast) => {
            is_text(cast.field.data_type()) && enums::of(&cast.field).is_none() && is_parameter(&cast.expr)
        }
        Expr::Placeholder(_) | Expr::Literal(ScalarValue::Utf8View(Some(_)), _) => true,
        _ => false,
    }
}

/// A text under the name of the type; what is no label is refused when it runs.
fn marked(expr: Expr, of: &EnumType) -> Expr {
    let target = enums::cast_field(of);
    match casts::function(&DataType::Utf8View, &target) {
        Some(cast) => Expr::ScalarFunction(ScalarFunction::new_udf(cast, vec![expr])),
        None => expr,
    }
}

/// The place of a value in the order of its type.
fn rank(expr: Expr, of: &EnumType) -> Expr {
    OfLabels::call(expr, of, true)
}

fn sort_ranks(orders: &mut [SortExpr], schema: &DFSchema) {
    for order in orders {
        if let Some(of) = kind(&order.expr, schema) {
            order.expr = rank(std::mem::take(&mut order.expr).unalias(), &of);
        }
    }
}

fn is_ordering(op: Operator) -> bool {
    matches!(op, Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq)
}

fn is_equality(op: Operator) -> bool {
    matches!(op, Operator::Eq | Operator::NotEq | Operator::IsDistinctFrom | Operator::IsNotDistinctFrom)
}

fn of_expr(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_ordering(op) || is_equality(op) => {
            let Some(of) = kind(&left, schema).or_else(|| kind(&right, schema)) else {
                return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })));
            };
            check(&left, op, &right, &of, schema)?;
            let side = |side: Box<Expr>| match *side {
                side if is_ordering(op) => Box::new(rank(side, &of)),
                // The value of a parameter is looked at when it runs.
                side if is_parameter(&side) => Box::new(marked(side, &of)),
                side => Box::new(side),
            };
            let (left, right) = (side(left), side(right));
            Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
        }
        Expr::InList(InList { expr, mut list, negated }) => {
            if let Some(of) = kind(&expr, schema) {
                list.iter().try_for_each(|item| check(&expr, Operator::Eq, item, &of, schema))?;
                for item in list.iter_mut().filter(|item| is_parameter(item)) {
                    *item = marked(std::mem::take(item), &of);
                }
            }
            Transformed::yes(Expr::InList(InList { expr, list, negated }))
        }
        Expr::Between(between) => match kind(&between.expr, schema) {
            Some(of) => {
                check(&between.expr, Operator::GtEq, &between.low, &of, schema)?;
                check(&between.expr, Operator::LtEq, &between.high, &of, schema)?;
                let rank = |side: Box<Expr>| Box::new(rank(*side, &of));
                let Between { expr, negated, low, high } = between;
                let between = Between { expr: rank(expr), negated, low: rank(low), high: rank(high) };
                Transformed::yes(Expr::Between(between))
            }
            None => Transformed::no(Expr::Between(between)),
        },
        Expr::Cast(cast) => {
            let data = cast.field.data_type();
            if let Some(of) = kind(&cast.expr, schema).filter(|_| !is_text(data)) {
                let shown = types::sql_type(&cast.field).map(types::type_name).unwrap_or_default();
                let message = format!("cannot cast type {} to {shown}", of.name);
                return Err(external(SqlError::new(SqlState::CANNOT_COERCE, message)));
            }
            let to = enums::of(&cast.field);
            match (to, kind(&cast.expr, schema)) {
                (Some(to), Some(from)) if to.id != from.id => {
                    let message = format!("cannot cast type {} to {}", from.name, to.name);
                    return Err(external(SqlError::new(SqlState::CANNOT_COERCE, message)));
                }
                _ => Transformed::no(Expr::Cast(cast)),
            }
        }
        Expr::Case(case) => {
            let whole = Expr::Case(case);
            match kind(&whole, schema) {
                Some(of) => Transformed::yes(marked(whole, &of)),
                None => Transformed::no(whole),
            }
        }
        Expr::ScalarSubquery(subquery) => match enums::of(subquery.subquery.schema().field(0)) {
            Some(of) => Transformed::yes(marked(Expr::ScalarSubquery(subquery), &of)),
            None => Transformed::no(Expr::ScalarSubquery(subquery)),
        },
        Expr::ScalarFunction(call) if SAME_TYPE.contains(&call.func.name()) => {
            let Some(of) = of_several(&call.args, schema) else {
                return Ok(Transformed::no(Expr::ScalarFunction(call)));
            };
            match call.func.name() {
                "greatest" | "least" => {
                    let args = call.args.into_iter().map(|argument| rank(argument, &of)).collect();
                    let call = Expr::ScalarFunction(ScalarFunction { func: call.func, args });
                    Transformed::yes(OfLabels::call(call, &of, false))
                }
                _ => Transformed::yes(marked(Expr::ScalarFunction(call), &of)),
            }
        }
        Expr::ScalarFunction(call) if OF_TYPE.contains(&call.func.name()) => {
            match call.args.iter().find_map(|argument| kind(argument, schema)) {
                Some(of) => Transformed::yes(of_type(&call, &of)?),
                None => Transformed::no(Expr::ScalarFunction(call)),
            }
        }
        Expr::AggregateFunction(call) => aggregated(call, schema)?,
        Expr::WindowFunction(call) => windowed(call, schema)?,
        other => Transformed::no(other),
    })
}

/// Checks the sides of a comparison, of which one is of a type.
///
/// # Errors
/// 22P02 for a quoted text that is no label; 42883 for a value of another type.
fn check(left: &Expr, op: Operator, right: &Expr, of: &EnumType, schema: &DFSchema) -> Result<()> {
    let shown = |side: &Expr| match kind(side, schema) {
        Some(kind) => kind.name,
        None => side.to_field(schema).ok().map_or_else(String::new, |(_, field)| {
            types::sql_type(&field).map_or_else(|| types::pg_type(&field).name().to_owned(), types::type_name)
        }),
    };
    for side in [left, right] {
        match side {
            Expr::Literal(ScalarValue::Utf8(Some(text)), _) => {
                of.check(text).map_err(|error| external(error.into()))?;
            }
            Expr::Literal(literal, _) if literal.is_null() => {}
            side if is_parameter(side) => {}
            side if kind(side, schema).is_some_and(|kind| kind.id == of.id) => {}
            _ => {
                let message = format!("operator does not exist: {} {op} {}", shown(left), shown(right));
                return Err(external(SqlError::new(SqlState::UNDEFINED_FUNCTION, message).with_hint(
                    "No operator matches the given name and argument types. You might need to add explicit type casts.",
                )));
            }
        }
    }
    Ok(())
}

/// `enum_first`, `enum_last`, `enum_range`: what they give depends on the type, and for the last on two literals.
fn of_type(call: &ScalarFunction, of: &EnumType) -> Result<Expr> {
    let text = |label: Option<&String>| ScalarValue::Utf8View(label.cloned());
    let plain = |value: ScalarValue| Expr::Literal(value, None);
    let edge = |argument: &Expr| match argument {
        Expr::Literal(literal, _) if literal.is_null() => Ok(None),
        Expr::Cast(cast) => match cast.expr.as_ref() {
            Expr::Literal(literal, _) if literal.is_null() => Ok(None),
            Expr::Literal(ScalarValue::Utf8(Some(label)) | ScalarValue::Utf8View(Some(label)), _) => {
                of.check(label).map_err(|error| external(error.into()))?;
                Ok(of.position(label))
            }
            _ => Err(external(SqlError::unsupported("enum_range of values that are no literals"))),
        },
        _ => Err(external(SqlError::unsupported("enum_range of values that are no literals"))),
    };
    Ok(match (call.func.name(), call.args.as_slice()) {
        ("enum_first", [_]) => marked(plain(text(of.labels.first())), of),
        ("enum_last", [_]) => marked(plain(text(of.labels.last())), of),
        (_, arguments) => {
            let (first, last) = match arguments {
                [first, last] => (edge(first)?.unwrap_or(0), edge(last)?.map_or(of.labels.len(), |at| at + 1)),
                _ => (0, of.labels.len()),
            };
            let labels = of.labels.get(first..last).unwrap_or_default();
            let labels: Vec<ScalarValue> = labels.iter().map(|label| text(Some(label))).collect();
            plain(ScalarValue::List(ScalarValue::new_list_nullable(&labels, &DataType::Utf8View)))
        }
    })
}

/// `min` and `max` are the first by rank; of other aggregates it is their ORDER BY.
fn aggregated(mut call: AggregateFunction, schema: &DFSchema) -> Result<Transformed<Expr>> {
    sort_ranks(&mut call.params.order_by, schema);
    let of = call.params.args.first().and_then(|argument| kind(argument, schema));
    let Some(of) = of else { return Ok(Transformed::yes(Expr::AggregateFunction(call))) };
    match call.func.name() {
        name @ ("min" | "max") => {
            let by = rank(call.params.args[0].clone(), &of);
            let by = SortExpr { expr: by, asc: name == "min", nulls_first: false };
            let AggregateFunctionParams { args, filter, .. } = call.params;
            let params =
                AggregateFunctionParams { args, distinct: false, filter, order_by: vec![by], null_treatment: None };
            Ok(Transformed::yes(Expr::AggregateFunction(AggregateFunction { func: first_value_udaf(), params })))
        }
        "count" | "array_agg" | "first_value" | "last_value" | "nth_value" | "any_value" | "json_agg" | "jsonb_agg"
        | "json_object_agg" | "jsonb_object_agg" => Ok(Transformed::yes(Expr::AggregateFunction(call))),
        name => Err(refused(name)),
    }
}

fn refused(name: &str) -> DataFusionError {
    let what = format!("{name} of values of an enumerated type");
    external(SqlError::unsupported(what).with_hint("Cast them to text."))
}

/// Refuses functions that sort the values of a list, which `mode()` and `percentile_disc` become: there the list has
/// texts.
fn check_sorted(plan: &LogicalPlan) -> Result<()> {
    let mut below = plan.inputs();
    while let [LogicalPlan::Filter(_) | LogicalPlan::Sort(_)] = below.as_slice() {
        below = below[0].inputs();
    }
    let [LogicalPlan::Aggregate(aggregate)] = below.as_slice() else { return Ok(()) };
    let groups = aggregate.schema.fields().len() - aggregate.aggr_expr.len();
    let of_values = |list: &Expr| {
        let Expr::Column(column) = list else { return false };
        let at = aggregate.schema.index_of_column(column).ok().and_then(|at| at.checked_sub(groups));
        let collected = at.and_then(|at| aggregate.aggr_expr.get(at)).map(|expr| expr.clone().unalias());
        let Some(Expr::AggregateFunction(call)) = collected else { return false };
        call.params.args.iter().any(|argument| kind(argument, aggregate.input.schema()).is_some())
    };
    plan.apply_expressions(|expr| {
        expr.apply(|expr| match expr {
            Expr::ScalarFunction(call)
                if SORTS_LIST.contains(&call.func.name()) && call.args.first().is_some_and(of_values) =>
            {
                Err(refused("an aggregate of sorted values"))
            }
            _ => Ok(TreeNodeRecursion::Continue),
        })
    })?;
    Ok(())
}

fn windowed(mut call: Box<WindowFunction>, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let was = call.params.order_by.clone();
    sort_ranks(&mut call.params.order_by, schema);
    let of = call.params.args.first().and_then(|argument| kind(argument, schema));
    if of.is_some()
        && let WindowFunctionDefinition::AggregateUDF(function) = &call.fun
        && !matches!(function.name(), "count" | "first_value" | "last_value" | "nth_value" | "array_agg")
    {
        let what = format!("{} of values of an enumerated type as a window function", function.name());
        return Err(external(SqlError::unsupported(what)));
    }
    let is = was != call.params.order_by;
    Ok(if is { Transformed::yes(Expr::WindowFunction(call)) } else { Transformed::no(Expr::WindowFunction(call)) })
}

/// The functions by which the rule finds those of labels: they stay only where no type is known.
pub fn functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    let function = |name: &'static str| {
        let most = if name == "enum_range" { 2 } else { 1 };
        row_function(name, 1..=most, DataType::Utf8View, |_, _| {
            Err(external(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "could not determine actual enum type")))
        })
    };
    scalar_function::functions(OF_TYPE.map(function))
}

/// The place of a label in its type, from 0, or the label at a place.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OfLabels {
    of: EnumType,
    rank: bool,
    signature: Signature,
}

impl OfLabels {
    fn call(argument: Expr, of: &EnumType, rank: bool) -> Expr {
        let signature = Signature::new(TypeSignature::Any(1), Volatility::Immutable);
        let function = ScalarUDF::from(Self { of: of.clone(), rank, signature });
        Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), vec![argument]))
    }

    fn run(&self, array: &ArrayRef) -> Result<ArrayRef> {
        if !self.rank {
            let places = arrow::compute::cast(array, &DataType::Int32)?;
            let label = |at: i32| self.of.labels.get(usize::try_from(at).ok()?).map(String::as_str);
            let labels: StringViewArray = as_int32_array(&places)?.iter().map(|at| label(at?)).collect();
            return Ok(Arc::new(labels));
        }
        let texts = arrow::compute::cast(array, &DataType::Utf8View)?;
        let place = |text: Option<&str>| {
            let Some(text) = text else { return Ok(None) };
            self.of.check(text).map_err(|error| external(error.into()))?;
            Ok::<_, DataFusionError>(self.of.position(text).and_then(|at| i32::try_from(at).ok()))
        };
        let places: Int32Array = as_string_view_array(&texts)?.iter().map(place).collect::<Result<_>>()?;
        Ok(Arc::new(places))
    }
}

impl ScalarUDFImpl for OfLabels {
    fn name(&self) -> &str {
        if self.rank { "keyspan_enum_rank" } else { "keyspan_enum_label" }
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(if self.rank { DataType::Int32 } else { DataType::Utf8View })
    }
    fn return_field_from_args(&self, _arguments: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(if self.rank {
            Arc::new(Field::new(self.name(), DataType::Int32, true))
        } else {
            enums::cast_field(&self.of)
        })
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match &arguments.args[0] {
            ColumnarValue::Array(array) => Ok(ColumnarValue::Array(self.run(array)?)),
            ColumnarValue::Scalar(scalar) => {
                let array = self.run(&scalar.to_array()?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?))
            }
        }
    }
}
