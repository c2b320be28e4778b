//! Types of parameters: what the client declares, what DataFusion infers, and beyond it `$1::type` and `LIMIT $1`.
//!
//! A parameter whose type is known becomes a cast in the syntax tree ([`declare`]), so that functions and columns of
//! the result are planned with it.

use super::known_arguments;
use crate::{
    common_type::{SAME_TYPE, first_known},
    error::{Result, SqlError, SqlState},
    numeric,
    syntax::column_names,
    types::{self, ParameterType},
};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::{
    common::{
        DFSchema,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    logical_expr::{
        Case, Cast, Expr, LogicalPlan, TypeSignature,
        expr::{Placeholder, ScalarFunction},
        utils::merge_schema,
    },
    sql::sqlparser::ast::{self, BinaryOperator, CastKind, SelectItem, VisitMut, VisitorMut},
};
use pgwire::api::Type;
use std::{collections::BTreeMap, ops::ControlFlow, sync::Arc};

/// Gives parameters the type of the cast around them, and bigint in LIMIT and OFFSET; a parameter that DataFusion took
/// for a `numeric` with a precision gets any number of digits.
///
/// # Errors
/// DataFusion's.
pub fn infer(plan: LogicalPlan) -> datafusion::error::Result<LogicalPlan> {
    let inferred = plan.transform_up_with_subqueries(|plan| {
        let counts = matches!(plan, LogicalPlan::Limit(_));
        let schema = merge_schema(&plan.inputs());
        plan.map_expressions(|expr| {
            if let (Expr::Placeholder(Placeholder { id, field: None }), true) = (&expr, counts) {
                let bigint = Arc::new(Field::new("", DataType::Int64, true));
                return Ok(Transformed::yes(placeholder(id.clone(), bigint)));
            }
            expr.transform_up(|expr| match expr {
                Expr::Cast(Cast { expr, field }) => match *expr {
                    Expr::Placeholder(Placeholder { id, field: None }) => {
                        let inner = Box::new(placeholder(id, field.clone()));
                        Ok(Transformed::yes(Expr::Cast(Cast::new_from_field(inner, field))))
                    }
                    other => Ok(Transformed::no(Expr::Cast(Cast::new_from_field(Box::new(other), field)))),
                },
                // A value that is compared with a column of two digits after the point may have three.
                Expr::Placeholder(Placeholder { id, field: Some(field) })
                    if numeric::is_numeric(field.data_type()) && !numeric::is_exact(field.data_type()) =>
                {
                    let data = types::without_digits(field.data_type());
                    let field = field.as_ref().clone().with_data_type(data);
                    Ok(Transformed::yes(placeholder(id, Arc::new(field))))
                }
                Expr::ScalarFunction(mut call) if SAME_TYPE.contains(&call.func.name()) => {
                    let is = type_arguments(&mut call.args, &schema);
                    let call = Expr::ScalarFunction(call);
                    Ok(if is { Transformed::yes(call) } else { Transformed::no(call) })
                }
                Expr::ScalarFunction(mut call) => {
                    let is = known_arguments::give(call.func.name(), &mut call.args, &schema)
                        | declared_arguments(&mut call);
                    let call = Expr::ScalarFunction(call);
                    Ok(if is { Transformed::yes(call) } else { Transformed::no(call) })
                }
                Expr::WindowFunction(mut call) => {
                    let is = known_arguments::give(call.fun.name(), &mut call.params.args, &schema);
                    let call = Expr::WindowFunction(call);
                    Ok(if is { Transformed::yes(call) } else { Transformed::no(call) })
                }
                Expr::Case(mut case) => {
                    let is = of_case(&mut case, &schema);
                    let case = Expr::Case(case);
                    Ok(if is { Transformed::yes(case) } else { Transformed::no(case) })
                }
                other => Ok(Transformed::no(other)),
            })
        })
    })?;
    Ok(inferred.data)
}

/// Gives parameters without a type that of the first argument that has one.
fn type_arguments(arguments: &mut [Expr], schema: &DFSchema) -> bool {
    let Some(known) = first_known(arguments, schema) else { return false };
    let mut any = false;
    for argument in arguments {
        if let Expr::Placeholder(Placeholder { id, field: None }) = argument {
            let data = types::without_digits(known.data_type());
            let field = known.as_ref().clone().with_data_type(data).with_nullable(true);
            *argument = placeholder(id.clone(), Arc::new(field));
            any = true;
        }
    }
    any
}

/// Gives parameters without a type the one that the function declares in their place, where it declares types.
fn declared_arguments(call: &mut ScalarFunction) -> bool {
    let signatures = match &call.func.signature().type_signature {
        TypeSignature::OneOf(several) => several.as_slice(),
        one => std::slice::from_ref(one),
    };
    let declared = signatures.iter().find_map(|signature| match signature {
        TypeSignature::Exact(types) if types.len() == call.args.len() => Some(types.clone()),
        _ => None,
    });
    let mut any = false;
    for (argument, data) in call.args.iter_mut().zip(declared.into_iter().flatten()) {
        if let Expr::Placeholder(Placeholder { id, field: None }) = argument {
            *argument = placeholder(id.clone(), Arc::new(Field::new("", data, true)));
            any = true;
        }
    }
    any
}

/// Gives parameters without a type among the results of CASE the type of the first that has one, and those that it
/// compares, too.
fn of_case(case: &mut Case, schema: &DFSchema) -> bool {
    let (mut whens, mut results): (Vec<&mut Expr>, Vec<&mut Expr>) =
        case.when_then_expr.iter_mut().map(|(when, then)| (when.as_mut(), then.as_mut())).unzip();
    results.extend(case.else_expr.as_deref_mut());
    let typed = typed_together(&mut results, schema);
    let Some(of) = case.expr.as_deref_mut() else { return typed };
    whens.push(of);
    typed_together(&mut whens, schema) | typed
}

/// Gives parameters without a type that of the first expression that has one.
fn typed_together(all: &mut [&mut Expr], schema: &DFSchema) -> bool {
    let mut copies: Vec<Expr> = all.iter().map(|expr| (**expr).clone()).collect();
    let any = type_arguments(&mut copies, schema);
    if any {
        all.iter_mut().zip(copies).for_each(|(expr, typed)| **expr = typed);
    }
    any
}

/// Casts parameters to their types, where these are known and SQL has one name for them; and to double precision where
/// they are multiplied with an interval, since there is no other number for that.
pub fn declare(query: &mut ast::Statement, types: &[Option<ParameterType>]) {
    let _ = query.visit(&mut Declare(types));
}

struct Declare<'a>(&'a [Option<ParameterType>]);

impl VisitorMut for Declare<'_> {
    type Break = ();

    /// A column that has no name keeps none: that of a cast is its type's.
    fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<()> {
        keep_nameless(&mut query.body);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
        if let ast::Expr::BinaryOp { left, op: BinaryOperator::Multiply | BinaryOperator::Divide, right } = expr {
            let double = ast::DataType::DoublePrecision;
            match (is_interval(left), is_interval(right)) {
                (true, false) if name(right).is_some() => cast(right, double),
                (false, true) if name(left).is_some() => cast(left, double),
                _ => {}
            }
        }
        let number = name(expr).and_then(|name| name.strip_prefix('$')?.parse::<usize>().ok());
        let known = number.and_then(|number| self.0.get(number.checked_sub(1)?)?.as_ref());
        if let Some(data_type) = known.and_then(named_type) {
            cast(expr, data_type);
        }
        ControlFlow::Continue(())
    }
}

fn keep_nameless(body: &mut ast::SetExpr) {
    match body {
        ast::SetExpr::Select(select) => select.projection.iter_mut().for_each(keep_nameless_item),
        ast::SetExpr::SetOperation { left, right, .. } => {
            keep_nameless(left);
            keep_nameless(right);
        }
        // Queries within are visited by themselves.
        _ => {}
    }
}

fn keep_nameless_item(item: &mut SelectItem) {
    let SelectItem::UnnamedExpr(expr) = item else { return };
    let has_parameter = ast::visit_expressions(expr, |expr| match name(expr) {
        Some(_) => ControlFlow::Break(()),
        None => ControlFlow::Continue(()),
    });
    if has_parameter.is_break() && column_names::label_of(expr) == column_names::NAMELESS {
        let expr = std::mem::replace(expr, ast::Expr::Identifier(ast::Ident::new("")));
        *item = SelectItem::ExprWithAlias { expr, alias: ast::Ident::with_quote('"', column_names::NAMELESS) };
    }
}

/// The name of a parameter.
fn name(expr: &ast::Expr) -> Option<&str> {
    match expr {
        ast::Expr::Value(ast::ValueWithSpan { value: ast::Value::Placeholder(name), .. }) => Some(name),
        _ => None,
    }
}

fn is_interval(expr: &ast::Expr) -> bool {
    matches!(expr, ast::Expr::Interval(_) | ast::Expr::Cast { data_type: ast::DataType::Interval { .. }, .. })
}

fn cast(expr: &mut ast::Expr, data_type: ast::DataType) {
    let inner = Box::new(expr.clone());
    *expr = ast::Expr::Cast { kind: CastKind::Cast, expr: inner, data_type, array: false, format: None };
}

/// SQL's name of a parameter's type; `None` where the name does not say all of it.
fn named_type(known: &ParameterType) -> Option<ast::DataType> {
    match known.pg_type() {
        Type::JSON => Some(ast::DataType::JSON),
        Type::JSONB => Some(ast::DataType::JSONB),
        Type::JSON_ARRAY => Some(array_of(ast::DataType::JSON)),
        Type::JSONB_ARRAY => Some(array_of(ast::DataType::JSONB)),
        _ => sql_type(&known.data),
    }
}

/// SQL's name of a type; `None` where the name does not say all of it.
fn sql_type(known: &DataType) -> Option<ast::DataType> {
    use ast::{DataType as Sql, TimezoneInfo};
    Some(match known {
        DataType::Boolean => Sql::Boolean,
        DataType::Int16 => Sql::SmallInt(None),
        DataType::Int32 => Sql::Integer(None),
        DataType::Int64 => Sql::BigInt(None),
        DataType::Float32 => Sql::Real,
        DataType::Float64 => Sql::DoublePrecision,
        DataType::LargeUtf8 => Sql::VarBit(None),
        DataType::Utf8 | DataType::Utf8View => Sql::Text,
        DataType::Binary | DataType::BinaryView => Sql::Bytea,
        DataType::Date32 => Sql::Date,
        DataType::FixedSizeBinary(16) => Sql::Uuid,
        data if numeric::is_exact(data) => Sql::Numeric(ast::ExactNumberInfo::None),
        DataType::Decimal128(precision, scale) => {
            Sql::Numeric(ast::ExactNumberInfo::PrecisionAndScale((*precision).into(), (*scale).into()))
        }
        DataType::Timestamp(_, None) => Sql::Timestamp(None, TimezoneInfo::None),
        DataType::Timestamp(_, Some(_)) => Sql::Timestamp(None, TimezoneInfo::WithTimeZone),
        DataType::Interval(_) => Sql::Interval { fields: None, precision: None },
        DataType::Time64(_) => Sql::Time(None, TimezoneInfo::None),
        DataType::List(item) => array_of(sql_type(item.data_type())?),
        _ => return None,
    })
}

fn array_of(item: ast::DataType) -> ast::DataType {
    ast::DataType::Array(ast::ArrayElemTypeDef::SquareBracket(Box::new(item), None))
}

pub(super) fn placeholder(id: String, field: FieldRef) -> Expr {
    let field = Arc::new(field.as_ref().clone().with_name(&id));
    Expr::Placeholder(Placeholder::new_with_field(id, Some(field)))
}

/// The types of `$1`, `$2`, … of a plan: those that `hints` declare, else those inferred, else text.
///
/// # Errors
/// 42P18 for a number that is left out, 42P02 for a parameter that is no `$n`.
pub fn parameters(plan: &LogicalPlan, hints: &[Option<ParameterType>]) -> Result<Vec<ParameterType>> {
    let mut found: Vec<Option<ParameterType>> = hints.to_vec();
    hint(plan, &mut found)?;
    let typed = found.into_iter().enumerate().map(|(index, found)| {
        found.ok_or_else(|| {
            let message = format!("could not determine data type of parameter ${}", index + 1);
            SqlError::new(SqlState::INDETERMINATE_DATATYPE, message)
        })
    });
    typed.collect()
}

/// Adds the types that a plan has for parameters without a type; text where it has none. If a parameter has several
/// types, the first counts, as in PostgreSQL; elsewhere its value is cast to the type there.
///
/// # Errors
/// 42P02 for a parameter that is no `$n`.
pub fn hint(plan: &LogicalPlan, found: &mut Vec<Option<ParameterType>>) -> Result<()> {
    let mut inferred: BTreeMap<String, Option<ParameterType>> = BTreeMap::new();
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::Placeholder(Placeholder { id, field }) = expr {
                    let known = inferred.entry(id.clone()).or_default();
                    if known.is_none() {
                        *known = field.as_ref().map(|field| ParameterType::of_field(field));
                    }
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    for (name, kind) in inferred {
        let number =
            name.strip_prefix('$').and_then(|number| number.parse::<usize>().ok()).filter(|number| *number > 0);
        let number = number
            .ok_or_else(|| SqlError::new(SqlState::UNDEFINED_PARAMETER, format!("there is no parameter {name}")))?;
        if found.len() < number {
            found.resize(number, None);
        }
        if found[number - 1].is_none() {
            found[number - 1] = Some(kind.unwrap_or(ParameterType::TEXT));
        }
    }
    Ok(())
}
