//! Operators of numbers, and where numbers of several types meet: an analyzer rule, before DataFusion settles types.
//!
//! PostgreSQL's types of numbers have an order, `smallint`, `integer`, `bigint`, `numeric`, `real`, `double precision`,
//! and a value beside one of a later type becomes one of it. DataFusion takes floats for decimals instead, cuts
//! decimals to 38 digits, and does not know the exact form of a [`numeric`]. So what Arrow computes as PostgreSQL
//! stays, and all else becomes a function or gets a cast here.

use super::each_expr::{EachExpr, Order};
use crate::{
    common_type::{SAME_TYPE, as_double, as_number, of_numbers},
    functions::{interval_micros, numeric as functions},
    numeric,
    workarounds::canonical_comparisons::compares,
};
use arrow::datatypes::{DataType, Field};
use datafusion::{
    common::{
        DFSchema,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    config::ConfigOptions,
    error::Result,
    logical_expr::{
        Between, BinaryExpr, Case, Cast, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, Subquery,
        binary_expr,
        expr::{AggregateFunction, InList, InSubquery, ScalarFunction, WindowFunction},
        utils::merge_schema,
    },
    optimizer::AnalyzerRule,
    scalar::ScalarValue,
    sql::sqlparser::ast::BinaryOperator as Sql,
};
use std::sync::Arc;

/// The rule.
pub fn numbers() -> Arc<dyn AnalyzerRule + Send + Sync> {
    Arc::new(Numbers(EachExpr {
        name: "types_of_numbers",
        order: Order::LeavesFirst,
        rewrite: |expr, schema, _| rewrite(expr, schema),
    }))
}

/// Expressions, and the columns of joins by USING and of INTERSECT and EXCEPT.
#[derive(Debug)]
struct Numbers(EachExpr);

impl AnalyzerRule for Numbers {
    fn name(&self) -> &str {
        self.0.name
    }

    fn analyze(&self, plan: LogicalPlan, options: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = self.0.analyze(plan, options)?;
        let joined = plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Join(mut join) => {
                let mut is = false;
                for (ours, theirs) in &mut join.on {
                    let types = (ours.get_type(join.left.schema())?, theirs.get_type(join.right.schema())?);
                    if types.0 != types.1
                        && let Some(to) = compared_as(&[types.0.clone(), types.1.clone()])
                    {
                        *ours = as_compared(std::mem::take(ours), &types.0, &to);
                        *theirs = as_compared(std::mem::take(theirs), &types.1, &to);
                        is = true;
                    }
                }
                let plan = LogicalPlan::Join(join);
                Ok(if is { Transformed::yes(plan) } else { Transformed::no(plan) })
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(joined.data)
    }
}

/// The plan with the results of CASE, where they are numbers of several types, cast to the type that they have
/// together: until the rule has seen a CASE, it has the type of its first result to all that is planned above.
///
/// # Errors
/// DataFusion's: a schema that cannot be recomputed.
pub fn typed_cases(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut mixed = false;
    plan.apply_with_subqueries(|node| {
        let mut schema = None;
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::Case(case) = expr {
                    let schema = schema.get_or_insert_with(|| merge_schema(&node.inputs()));
                    mixed |= types_of(results(case), schema).is_some_and(|types| of_numbers(&types).is_some());
                }
                Ok(if mixed { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })
    })?;
    if !mixed {
        return Ok(plan);
    }
    let cases = EachExpr {
        name: "typed_cases",
        order: Order::LeavesFirst,
        rewrite: |expr, schema, _| match expr {
            Expr::Case(case) => Ok(of_case(case, schema)),
            other => Ok(Transformed::no(other)),
        },
    };
    let typed = cases.analyze(plan, &ConfigOptions::default())?;
    super::unions::recomputed(typed)
}

fn results(case: &Case) -> impl Iterator<Item = &Expr> {
    case.when_then_expr.iter().map(|(_, then)| then).chain(&case.else_expr).map(AsRef::as_ref)
}

/// An expression as the rule leaves it.
///
/// # Errors
/// DataFusion's.
pub(crate) fn settled(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    Ok(expr.transform_up(|expr| rewrite(expr, schema))?.data)
}

/// The operator that SQL writes so, if numbers have it.
pub(crate) fn operator(written: &Sql) -> Option<Operator> {
    Some(match written {
        Sql::Plus => Operator::Plus,
        Sql::Minus => Operator::Minus,
        Sql::Multiply => Operator::Multiply,
        Sql::Divide => Operator::Divide,
        Sql::Modulo => Operator::Modulo,
        Sql::Eq => Operator::Eq,
        Sql::NotEq => Operator::NotEq,
        Sql::Lt => Operator::Lt,
        Sql::LtEq => Operator::LtEq,
        Sql::Gt => Operator::Gt,
        Sql::GtEq => Operator::GtEq,
        _ => return None,
    })
}

/// An operator of two numbers where DataFusion's is not PostgreSQL's; `None` where it is, and for other types.
pub(crate) fn operation(op: Operator, left: &Expr, a: &DataType, right: &Expr, b: &DataType) -> Option<Expr> {
    let has_exact = numeric::is_exact(a) || numeric::is_exact(b);
    let fits = |data: &DataType| numeric::is_number(data) || (has_exact && data.is_null());
    if !fits(a) || !fits(b) || !(numeric::is_numeric(a) || numeric::is_numeric(b)) {
        return None;
    }
    if a.is_floating() || b.is_floating() {
        let double = |side: &Expr, data: &DataType| {
            if numeric::is_numeric(data) { as_double(side.clone()) } else { side.clone() }
        };
        return Some(binary_expr(double(left, a), op, double(right, b)));
    }
    if compares(op) {
        let wider = if has_exact { numeric::EXACT } else { numeric::wider(a, b) };
        // By keys, of which the optimizer makes bounds that are integers.
        let beside_literal = |data: &DataType, other: &Expr| data.is_integer() && matches!(other, Expr::Literal(..));
        return match wider {
            DataType::Decimal128(..) if !beside_literal(a, right) && !beside_literal(b, left) => None,
            wide @ DataType::Decimal256(..) if a == b && *a == wide => None,
            wide @ DataType::Decimal256(..) => Some(binary_expr(cast(left, &wide), op, cast(right, &wide))),
            _ => {
                let key = |side: &Expr| numeric::key::key().call(vec![side.clone()]);
                Some(binary_expr(key(left), op, key(right)))
            }
        };
    }
    let function = functions::operator(op)?;
    if let Some((left, right)) = with_written_digits(left, a, right, b) {
        let computed = operation(op, &left.0, &left.1, &right.0, &right.1);
        return Some(computed.unwrap_or_else(|| binary_expr(left.0, op, right.0)));
    }
    match numeric::arithmetic(op, a, b) {
        Some(DataType::Decimal128(..)) => None,
        Some(DataType::Decimal256(..)) => {
            let wide = |side: &Expr, data: &DataType| match data {
                DataType::Decimal256(..) => Some(side.clone()),
                data => {
                    let (whole, scale) = numeric::digits(data)?;
                    let digits = u8::try_from(whole + scale).ok()?;
                    Some(cast(side, &DataType::Decimal256(digits, i8::try_from(scale).ok()?)))
                }
            };
            if matches!((a, b), (DataType::Decimal256(..), DataType::Decimal256(..))) {
                return None;
            }
            Some(binary_expr(wide(left, a)?, op, wide(right, b)?))
        }
        _ => Some(function.call(vec![left.clone(), right.clone()])),
    }
}

/// The sides of an operator and their types, with a whole number that is written out beside a decimal as a decimal of
/// the digits that it has: `1 - discount` needs one digit more than `discount`, not those of all integers.
fn with_written_digits(
    left: &Expr,
    a: &DataType,
    right: &Expr,
    b: &DataType,
) -> Option<((Expr, DataType), (Expr, DataType))> {
    let written = |side: &Expr| {
        let number = match side {
            Expr::Literal(ScalarValue::Int16(Some(number)), _) => i64::from(*number),
            Expr::Literal(ScalarValue::Int32(Some(number)), _) => i64::from(*number),
            Expr::Literal(ScalarValue::Int64(Some(number)), _) => *number,
            _ => return None,
        };
        let digits = u8::try_from(number.unsigned_abs().checked_ilog10().unwrap_or(0) + 1).ok()?;
        let value = ScalarValue::Decimal128(Some(number.into()), digits, 0);
        Some((Expr::Literal(value, None), DataType::Decimal128(digits, 0)))
    };
    match (numeric::is_decimal(a), numeric::is_decimal(b)) {
        (true, false) => Some(((left.clone(), a.clone()), written(right)?)),
        (false, true) => Some((written(left)?, (right.clone(), b.clone()))),
        _ => None,
    }
}

fn cast(expr: &Expr, to: &DataType) -> Expr {
    Expr::Cast(Cast::new(Box::new(expr.clone()), to.clone()))
}

fn rewrite(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if compares(op) || functions::operator(op).is_some() => {
            let types = left.get_type(schema).ok().zip(right.get_type(schema).ok());
            match types.and_then(|(a, b)| operation(op, &left, &a, &right, &b)) {
                Some(computed) => Transformed::yes(computed),
                None => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
            }
        }
        Expr::Negative(of) if of.get_type(schema).is_ok_and(|data| numeric::is_exact(&data)) => {
            Transformed::yes(functions::negate().call(vec![*of]))
        }
        Expr::Between(between) => of_between(between, schema),
        Expr::InList(list) => in_list(list, schema),
        Expr::InSubquery(within) => in_subquery(within, schema)?,
        Expr::Case(case) => of_case(case, schema),
        Expr::WindowFunction(call) if matches!(call.fun.name(), "lag" | "lead") => with_default(call, schema),
        Expr::AggregateFunction(call) => of_doubles(call, schema),
        Expr::ScalarFunction(call) if call.func.name() == "array_has" => array_has(call, schema),
        Expr::ScalarFunction(call) if SAME_TYPE.contains(&call.func.name()) => same_type(call, schema),
        other => Transformed::no(other),
    })
}

fn types_of<'a>(exprs: impl IntoIterator<Item = &'a Expr>, schema: &DFSchema) -> Option<Vec<DataType>> {
    exprs.into_iter().map(|expr| expr.get_type(schema).ok()).collect()
}

/// `BETWEEN` as the two comparisons that it is, where one of them is of numbers of several types.
fn of_between(between: Between, schema: &DFSchema) -> Transformed<Expr> {
    let compared = |op, other: &Expr| {
        let (a, b) = (between.expr.get_type(schema).ok()?, other.get_type(schema).ok()?);
        operation(op, &between.expr, &a, other, &b)
    };
    let (low, high) = (compared(Operator::GtEq, &between.low), compared(Operator::LtEq, &between.high));
    if low.is_none() && high.is_none() {
        return Transformed::no(Expr::Between(between));
    }
    let plain = |op, other: &Expr| binary_expr(between.expr.as_ref().clone(), op, other.clone());
    let low = low.unwrap_or_else(|| plain(Operator::GtEq, &between.low));
    let high = high.unwrap_or_else(|| plain(Operator::LtEq, &between.high));
    let within = low.and(high);
    Transformed::yes(if between.negated { Expr::Not(Box::new(within)) } else { within })
}

/// The type in which numbers are compared: `None` where DataFusion compares them right, or they are no numbers.
fn compared_as(types: &[DataType]) -> Option<DataType> {
    let mut numbers = types.iter().filter(|data| !data.is_null());
    let first = numbers.next()?;
    if !types.iter().all(|data| numeric::is_number(data) || data.is_null()) || !types.iter().any(numeric::is_numeric) {
        return None;
    }
    if types.iter().any(DataType::is_floating) {
        return Some(DataType::Float64);
    }
    let wider = numbers.fold(first.clone(), |wider, data| numeric::wider(&wider, data));
    match wider {
        DataType::Decimal128(..) => None,
        wider if numeric::is_exact(&wider) => Some(wider),
        wider => types.iter().any(|data| *data != wider).then_some(wider),
    }
}

/// An expression as it is compared with others of the type.
fn as_compared(expr: Expr, from: &DataType, to: &DataType) -> Expr {
    if numeric::is_exact(to) { numeric::key::key().call(vec![expr]) } else { as_number(expr, from, to) }
}

fn in_list(list: InList, schema: &DFSchema) -> Transformed<Expr> {
    let types = types_of(std::iter::once(list.expr.as_ref()).chain(&list.list), schema);
    let Some((types, to)) = types.and_then(|types| Some((types.clone(), compared_as(&types)?))) else {
        return Transformed::no(Expr::InList(list));
    };
    let InList { expr, list, negated } = list;
    let expr = Box::new(as_compared(*expr, &types[0], &to));
    let list = list.into_iter().zip(&types[1..]).map(|(item, from)| as_compared(item, from, &to)).collect();
    Transformed::yes(Expr::InList(InList { expr, list, negated }))
}

fn in_subquery(within: InSubquery, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let inner = Arc::clone(within.subquery.subquery.schema());
    let field = inner.fields().first().map(|field| field.data_type().clone());
    let types = within.expr.get_type(schema).ok().zip(field);
    let Some((a, b)) = types.filter(|(a, b)| a != b) else { return Ok(Transformed::no(Expr::InSubquery(within))) };
    let Some(to) = compared_as(&[a.clone(), b.clone()]) else {
        return Ok(Transformed::no(Expr::InSubquery(within)));
    };
    let InSubquery { expr, subquery, negated } = within;
    let item = inner.columns().into_iter().next().map(|column| as_compared(Expr::Column(column), &b, &to));
    let plan = LogicalPlanBuilder::from(Arc::clone(&subquery.subquery)).project(item)?.build()?;
    let subquery = Subquery { subquery: Arc::new(plan), ..subquery };
    let expr = Box::new(as_compared(*expr, &a, &to));
    Ok(Transformed::yes(Expr::InSubquery(InSubquery { expr, subquery, negated })))
}

/// The value and the default of `lag` and `lead`, which have one type.
fn with_default(mut call: Box<WindowFunction>, schema: &DFSchema) -> Transformed<Expr> {
    if let [value, _, default] = call.params.args.as_mut_slice()
        && let (Ok(a), Ok(b)) = (value.get_type(schema), default.get_type(schema))
        && let Some(to) = of_numbers([&a, &b])
        && (numeric::is_numeric(&a) || numeric::is_numeric(&b))
    {
        *value = as_number(std::mem::take(value), &a, &to);
        *default = as_number(std::mem::take(default), &b, &to);
        return Transformed::yes(Expr::WindowFunction(call));
    }
    Transformed::no(Expr::WindowFunction(call))
}

/// Aggregates of two doubles, as which numerics of the exact form are taken.
fn of_doubles(mut call: AggregateFunction, schema: &DFSchema) -> Transformed<Expr> {
    let name = call.func.name();
    let mut is = false;
    if name == "corr" || name.starts_with("covar") || name.starts_with("regr_") {
        for argument in &mut call.params.args {
            if argument.get_type(schema).is_ok_and(|data| numeric::is_exact(&data)) {
                *argument = as_double(std::mem::take(argument));
                is = true;
            }
        }
    }
    let call = Expr::AggregateFunction(call);
    if is { Transformed::yes(call) } else { Transformed::no(call) }
}

/// `value = ANY(array)`.
fn array_has(mut call: ScalarFunction, schema: &DFSchema) -> Transformed<Expr> {
    if let [list, value] = call.args.as_slice()
        && let Ok(DataType::List(item)) = list.get_type(schema)
        && let Ok(of) = value.get_type(schema)
        && let Some(to) = compared_as(&[item.data_type().clone(), of.clone()])
        && (*item.data_type() != of || numeric::is_exact(&of))
    {
        let items = if numeric::is_exact(&to) { numeric::EXACT } else { to.clone() };
        let items = DataType::List(Arc::new(Field::new_list_field(items, true)));
        let list = cast(list, &items);
        let list = if numeric::is_exact(&to) { interval_micros().call(vec![list]) } else { list };
        call.args = vec![list, as_compared(value.clone(), &of, &to)];
        return Transformed::yes(Expr::ScalarFunction(call));
    }
    Transformed::no(Expr::ScalarFunction(call))
}

/// `coalesce` and its kin.
fn same_type(mut call: ScalarFunction, schema: &DFSchema) -> Transformed<Expr> {
    let types = types_of(&call.args, schema);
    let Some((types, to)) = types.and_then(|types| Some((types.clone(), of_numbers(&types)?))) else {
        return Transformed::no(Expr::ScalarFunction(call));
    };
    if !types.iter().any(numeric::is_numeric) {
        return Transformed::no(Expr::ScalarFunction(call));
    }
    for (argument, from) in call.args.iter_mut().zip(&types).filter(|(_, from)| !from.is_null()) {
        *argument = as_number(std::mem::take(argument), from, &to);
    }
    Transformed::yes(Expr::ScalarFunction(call))
}

/// Both the values that CASE compares and its results.
fn of_case(mut case: Case, schema: &DFSchema) -> Transformed<Expr> {
    let mut is = false;
    if let Some(of) = &mut case.expr {
        let whens = case.when_then_expr.iter().map(|(when, _)| when.as_ref());
        let types = types_of(std::iter::once(of.as_ref()).chain(whens), schema);
        if let Some((types, to)) = types.and_then(|types| Some((types.clone(), compared_as(&types)?))) {
            let whens = case.when_then_expr.iter_mut().map(|(when, _)| when.as_mut());
            for (side, from) in std::iter::once(of.as_mut()).chain(whens).zip(&types) {
                *side = as_compared(std::mem::take(side), from, &to);
            }
            is = true;
        }
    }
    let types = types_of(results(&case), schema);
    if let Some((types, to)) = types.and_then(|types| Some((types.clone(), of_numbers(&types)?))) {
        let results = case.when_then_expr.iter_mut().map(|(_, then)| then).chain(&mut case.else_expr);
        for (result, from) in results.zip(&types).filter(|(_, from)| !from.is_null()) {
            **result = as_number(std::mem::take(result.as_mut()), from, &to);
        }
        is = true;
    }
    let case = Expr::Case(case);
    if is { Transformed::yes(case) } else { Transformed::no(case) }
}
