//! Casts to domains: a cast to the base type, and a function that holds the value against the domain's conditions.
//!
//! ```text
//! x::posint → "domain posint 16400"(x::integer)
//! ```
//!
//! The function ([`DomainValue`]) belongs to the statement. It has the conditions as physical expressions over one
//! column, the value: they are planned as a query's are, so that they mean what they mean in a table.

use super::plan;
use crate::{
    context::StatementContext,
    pg::{
        error::{Result, SqlError, SqlState},
        functions::domains::{DomainValue, condition_of, function_name},
        plan::{casts::reads_time, type_planner},
        syntax::dialect::parse_text,
    },
};
use datafusion::{
    common::tree_node::TreeNode,
    logical_expr::{
        Expr as PlanExpr, LogicalPlan, ScalarUDF, Volatility, execution_props::ExecutionProps,
        physical_planning_context::PhysicalPlanningContext,
    },
    physical_expr::create_physical_expr,
    prelude::SessionContext,
    sql::sqlparser::ast::{self, CastKind, Expr, Ident, SelectItem, SetExpr, TableFactor, VisitMut, VisitorMut},
};
use futures::future::BoxFuture;
use keyspan_catalog::{Domain, Private, domain::VALUE};
use std::{collections::BTreeMap, ops::ControlFlow, sync::Arc};

/// Puts functions in the place of casts to domains, and gives them to the statement.
///
/// # Errors
/// For a condition that cannot be planned any more: a fault of ours.
pub(super) fn expand<'a>(
    context: &'a SessionContext,
    statement: &'a StatementContext,
    query: &'a mut ast::Statement,
) -> BoxFuture<'a, Result<()>> {
    Box::pin(expand_here(context, statement, query))
}

async fn expand_here(context: &SessionContext, statement: &StatementContext, query: &mut ast::Statement) -> Result<()> {
    let Some(own) = statement.snapshot.private_of(statement.tenant.as_ref()).filter(|own| !own.domains.is_empty())
    else {
        return Ok(());
    };
    let mut casts = Casts { found: BTreeMap::new(), failed: None, own };
    let _ = VisitMut::visit(query, &mut casts);
    if let Some(error) = casts.failed {
        return Err(error);
    }
    for (id, base) in casts.found {
        let chain = own.domain_chain(id);
        let function = Box::pin(function(context, chain.into_iter().cloned().collect(), base)).await?;
        context.register_udf(ScalarUDF::new_from_impl(function));
    }
    Ok(())
}

struct Casts<'a> {
    /// The domains, with the types under them.
    found: BTreeMap<u32, ast::DataType>,
    failed: Option<SqlError>,
    own: &'a Private,
}

impl VisitorMut for Casts<'_> {
    type Break = ();
    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::Cast { kind, data_type, .. } = expr else { return ControlFlow::Continue(()) };
        let Some(domain) = type_planner::domain_of(data_type).and_then(|id| self.own.domains.get(&id)) else {
            return ControlFlow::Continue(());
        };
        if !matches!(kind, CastKind::Cast | CastKind::DoubleColon) {
            self.failed = Some(SqlError::unsupported("TRY_CAST to a domain"));
            return ControlFlow::Break(());
        }
        match self.base(domain) {
            Ok(base) => {
                self.found.entry(domain.id).or_insert_with(|| base.clone());
                *data_type = base;
                let cast = std::mem::replace(expr, Expr::value(ast::Value::Null));
                *expr = call(&function_name(domain), cast);
                ControlFlow::Continue(())
            }
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}

impl Casts<'_> {
    /// The type under a domain.
    fn base(&self, domain: &Domain) -> Result<ast::DataType> {
        match domain.enumerated.and_then(|of| self.own.enum_types.get(&of)) {
            Some(of) => Ok(type_planner::enumerated(of)),
            None => type_planner::written(domain.kind),
        }
    }
}

/// A call of one argument.
fn call(name: &str, argument: Expr) -> Expr {
    let argument = ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(argument));
    let list = ast::FunctionArgumentList { duplicate_treatment: None, args: vec![argument], clauses: Vec::new() };
    Expr::Function(ast::Function {
        name: ast::ObjectName::from(vec![Ident::with_quote('"', name)]),
        uses_odbc_syntax: false,
        parameters: ast::FunctionArguments::None,
        args: ast::FunctionArguments::List(list),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// The function of a domain at the end of its chain, over a type.
async fn function(context: &SessionContext, chain: Vec<Arc<Domain>>, base: ast::DataType) -> Result<DomainValue> {
    let internal = |message: String| SqlError::new(SqlState::INTERNAL_ERROR, message);
    let value = Ident::with_quote('"', VALUE);
    let item = |expr, alias: &str| SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', alias) };
    let null = Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::value(ast::Value::Null)),
        data_type: base,
        array: false,
        format: None,
    };
    // A query of conditions alone might have none.
    let mut items = vec![item(Expr::Identifier(value.clone()), VALUE)];
    for (at, check) in chain.iter().flat_map(|domain| &domain.checks).enumerate() {
        items.push(item(condition_of(&check.sql, &value)?, &format!("c{at}")));
    }
    let parsed = parse_text("SELECT * FROM (SELECT NULL) AS made", |parser| parser.parse_query());
    let mut query = parsed.map_err(|error| internal(error.to_string()))?;
    if let SetExpr::Select(outer) = query.body.as_mut()
        && let Some(TableFactor::Derived { subquery, .. }) = outer.from.first_mut().map(|from| &mut from.relation)
        && let SetExpr::Select(inner) = subquery.body.as_mut()
    {
        inner.projection = vec![item(null, VALUE)];
        outer.projection = items;
    }
    let planned = plan(context, ast::Statement::Query(query)).await?;
    let state = context.state();
    let planned = state.analyzer().execute_and_check(planned, state.config_options(), |_, _| {})?;
    let LogicalPlan::Projection(projection) = &planned else {
        return Err(internal(format!("the conditions of a domain became {planned}")));
    };
    let of = projection.input.schema();
    // Conditions of the time are of the moment when they are planned.
    let moment = |expr: &PlanExpr| match expr {
        PlanExpr::ScalarFunction(call) => call.func.signature().volatility != Volatility::Immutable || reads_time(call),
        _ => false,
    };
    // With what functions know of the statement.
    let mut properties = ExecutionProps::new();
    properties.mark_start_execution(Arc::clone(state.config_options()));
    let mut volatility = Volatility::Immutable;
    let mut conditions = Vec::with_capacity(projection.expr.len());
    for expr in projection.expr.iter().skip(1) {
        if expr.exists(|expr| Ok(moment(expr)))? {
            volatility = Volatility::Stable;
        }
        conditions.push(create_physical_expr(expr, of, &properties, &PhysicalPlanningContext::default())?);
    }
    Ok(DomainValue::new(chain, conditions, Arc::clone(of.inner()), volatility))
}
