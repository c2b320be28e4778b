//! What columns have that a statement gives no value, and conditions that rows must fulfil.

use super::{
    assign::{assign, now},
    returning::written_rows,
    target::{Target, TargetColumn},
};
use crate::{
    context::StatementContext,
    pg::{
        datetime::{Input, values},
        error::{Result, SqlError, SqlState},
        ident::{fold, quoted},
        syntax::dialect::parse_text,
        types,
    },
    pg_catalog::objects,
    query::Query,
};
use arrow::datatypes::DataType;
use datafusion::{
    common::tree_node::{TreeNode, TreeNodeRecursion},
    logical_expr::{Expr as PlanExpr, LogicalPlan, Volatility},
    sql::sqlparser::ast::{self, Expr, SelectItem},
};
use futures::TryStreamExt;
use keyspan_catalog::{
    Privileges, Sequence, SqlType, Table, Value,
    table::{ColumnDefault, DefaultValue},
};
use std::sync::Arc;

/// The defaults of the columns that a statement does not name.
pub(crate) struct Defaults {
    columns: Vec<(usize, Source)>,
    statement: Arc<StatementContext>,
}

enum Source {
    Value(Value),
    Uuid,
    Next(Arc<Sequence>),
}

impl Defaults {
    /// Of the columns that are not among those named.
    ///
    /// # Errors
    /// What evaluating a default finds.
    pub(crate) async fn new(query: &Query, target: &Target, named: &[usize]) -> Result<Self> {
        let statement = query.statement_context().clone();
        let mut columns = Vec::new();
        for (at, column, default) in of_others(target, named) {
            let source = match plain(&statement, column, default, query.view.input.input())? {
                Some(source) => source,
                None => {
                    let select = super::select::select(vec![parsed(&default.sql)?], Vec::new(), None)?;
                    let plan = query.plan(&select).await?;
                    let mut rows = query.run(plan).await?;
                    let batch = rows.try_next().await.map_err(SqlError::from)?;
                    let value = batch.filter(|batch| batch.num_rows() == 1);
                    let value =
                        value.map(|batch| assign(batch.column(0), 0, column, query.view.input.input())).transpose()?;
                    Source::Value(value.unwrap_or(Value::Null))
                }
            };
            columns.push((at, source));
        }
        Ok(Self { columns, statement })
    }

    /// The same where none of them [has to be computed](Self::are_plain).
    ///
    /// # Errors
    /// Those of sequences.
    pub(crate) fn of_plain(
        statement: Arc<StatementContext>,
        target: &Target,
        named: &[usize],
        input: Input<'_>,
    ) -> Result<Self> {
        let mut columns = Vec::new();
        for (at, column, default) in of_others(target, named) {
            columns.extend(plain(&statement, column, default, input)?.map(|source| (at, source)));
        }
        Ok(Self { columns, statement })
    }

    /// Whether no default of the columns that are not named is an expression that has to be computed.
    pub(crate) fn are_plain(target: &Target, named: &[usize]) -> bool {
        of_others(target, named).all(|(_, _, default)| default.value != DefaultValue::Expression)
    }

    /// Puts them into a row.
    ///
    /// # Errors
    /// Those of sequences.
    pub(crate) fn fill(&self, values: &mut [Value]) -> Result<()> {
        for (at, source) in &self.columns {
            values[*at] = match source {
                Source::Value(value) => value.clone(),
                Source::Uuid => Value::Uuid(uuid::Uuid::new_v4().into_bytes()),
                Source::Next(sequence) => Value::Int(self.statement.next_number(sequence)?),
            };
        }
        Ok(())
    }
}

/// The columns that are not named and have a default, with their places.
fn of_others<'a>(
    target: &'a Target,
    named: &'a [usize],
) -> impl Iterator<Item = (usize, &'a TargetColumn, &'a ColumnDefault)> {
    let others = target.columns.iter().enumerate().filter(|(at, _)| !named.contains(at));
    others.filter_map(|(at, column)| Some((at, column, column.default.as_ref()?)))
}

/// Where the values of a default come from; `None` for one that has to be computed.
///
/// # Errors
/// Those of sequences; a fault of ours for a constant that is none any more.
fn plain(
    statement: &StatementContext,
    column: &TargetColumn,
    default: &ColumnDefault,
    input: Input<'_>,
) -> Result<Option<Source>> {
    Ok(Some(match &default.value {
        DefaultValue::Constant(text) => Source::Value(values::read(text, column.kind, Input::initial())?),
        DefaultValue::Now => Source::Value(now(column, input)?),
        DefaultValue::Uuid => Source::Uuid,
        DefaultValue::Next(id) => {
            let found = statement.snapshot.sequence_of(statement.tenant.as_ref(), *id);
            let sequence = found.cloned().ok_or_else(|| {
                let message = format!("the sequence of column \"{}\" does not exist", column.name);
                SqlError::new(SqlState::UNDEFINED_TABLE, message)
            })?;
            // As in PostgreSQL, the sequence of an identity column is part of its table.
            if column.identity.is_none() {
                statement.authorize_sequence(&sequence, Privileges::USAGE | Privileges::UPDATE)?;
            }
            Source::Next(sequence)
        }
        DefaultValue::Expression => return Ok(None),
    }))
}

/// What a default that a statement declares comes to; `None` for NULL.
///
/// # Errors
/// 0A000 for what cannot be a default; what is wrong with the expression; 42804 and others for a value that the column
/// does not take.
pub async fn settled(query: &Query, table: &Table, column: &str, expression: &Expr) -> Result<Option<ColumnDefault>> {
    let target = Target::of_table(&query.view, Arc::new(table.clone()));
    let column = &target.columns[target.position(column)?];
    let mut sql = expression.to_string();
    let lower = sql.to_lowercase();
    let value = match (lower.as_str(), column.kind) {
        (
            "now()" | "current_timestamp" | "transaction_timestamp()",
            SqlType::Timestamp(_) | SqlType::Timestamptz(_),
        ) => DefaultValue::Now,
        ("gen_random_uuid()" | "uuid_generate_v4()", SqlType::Uuid) => DefaultValue::Uuid,
        _ if lower.starts_with("nextval(") => {
            let sequence = objects::sequence(query.statement_context(), &sequence_name(expression)?)?;
            if !matches!(column.kind, SqlType::Int2 | SqlType::Int4 | SqlType::Int8) {
                return Err(SqlError::unsupported("nextval as the default of a column that is no integer"));
            }
            if query.statement_context().is_temporary(sequence.id) {
                return Err(SqlError::unsupported("a default of a temporary table's sequence"));
            }
            sql = next_sql(&sequence.name);
            DefaultValue::Next(sequence.id)
        }
        _ => match evaluated(query, column, expression).await? {
            // What is said comes before the default of a domain.
            (Value::Null, true) if column.domains.iter().any(|domain| domain.default.is_some()) => {
                sql = "NULL".to_owned();
                DefaultValue::Expression
            }
            (Value::Null, true) => return Ok(None),
            (value, true) => {
                let text = value.to_text(column.kind);
                sql = constant_sql(&value, &text, column.kind);
                DefaultValue::Constant(text)
            }
            (_, false) => DefaultValue::Expression,
        },
    };
    Ok(Some(ColumnDefault { sql, value }))
}

/// `nextval('name'::regclass)`
pub fn next_sql(sequence: &str) -> String {
    format!("nextval('{}'::regclass)", crate::pg::ident::quote_ident(sequence).replace('\'', "''"))
}

/// The name in `nextval('name')`.
fn sequence_name(expression: &Expr) -> Result<String> {
    let unsupported = || SqlError::unsupported("this default").with_hint("nextval('sequence') is one.");
    let Expr::Function(ast::Function { args: ast::FunctionArguments::List(list), .. }) = expression else {
        return Err(unsupported());
    };
    let [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(argument))] = list.args.as_slice() else {
        return Err(unsupported());
    };
    let argument = match argument {
        Expr::Cast { expr, .. } => expr.as_ref(),
        other => other,
    };
    match argument {
        Expr::Value(value) => value.value.clone().into_string().ok_or_else(unsupported),
        _ => Err(unsupported()),
    }
}

/// The value of a default, and whether it is always the same.
async fn evaluated(query: &Query, column: &TargetColumn, expression: &Expr) -> Result<(Value, bool)> {
    if super::select::has_subquery(expression) {
        return Err(SqlError::unsupported("a subquery in DEFAULT"));
    }
    let mut expression = expression.clone();
    super::select::keep_digits(&mut expression, column.kind);
    let select = super::select::select(vec![expression], Vec::new(), None)?;
    let plan = query.plan(&select).await.map_err(|error| match error.state {
        SqlState::UNDEFINED_COLUMN => {
            SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "cannot use column reference in DEFAULT expression")
        }
        _ => error,
    })?;
    let volatility = volatility(&plan)?;
    if volatility == Volatility::Volatile {
        return Err(SqlError::unsupported("a default that differs from row to row")
            .with_hint("nextval('sequence') and, for a uuid, gen_random_uuid() are such defaults."));
    }
    let mut rows = query.run(plan).await?;
    let batch = rows.try_next().await.map_err(SqlError::from)?.filter(|batch| batch.num_rows() == 1);
    let value = batch.map(|batch| assign(batch.column(0), 0, column, query.view.input.input())).transpose()?;
    Ok((value.unwrap_or(Value::Null), volatility == Volatility::Immutable))
}

/// The least constant of the functions in a plan.
fn volatility(plan: &LogicalPlan) -> Result<Volatility> {
    let mut found = Volatility::Immutable;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            expression.apply(|expression| {
                if let PlanExpr::ScalarFunction(call) = expression {
                    found = match (found, call.func.signature().volatility) {
                        (Volatility::Volatile, _) | (_, Volatility::Volatile) => Volatility::Volatile,
                        (Volatility::Stable, _) | (_, Volatility::Stable) => Volatility::Stable,
                        _ => Volatility::Immutable,
                    };
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(found)
}

/// A constant as PostgreSQL shows it.
fn constant_sql(value: &Value, text: &str, kind: SqlType) -> String {
    let plain = match value {
        Value::Int(number) => *number >= 0,
        Value::Float(number) => number.is_finite() && *number >= 0.0,
        Value::Numeric { unscaled, .. } => *unscaled >= 0,
        Value::Exact(_) => text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'),
        _ => false,
    };
    match value {
        Value::Bool(value) => value.to_string(),
        _ if plain => text.to_owned(),
        _ => {
            let named = types::type_name(kind);
            let bare = named.split('(').next().unwrap_or(&named);
            let dimensions = if matches!(kind, SqlType::Array(_)) && !bare.ends_with("[]") { "[]" } else { "" };
            format!("'{}'::{bare}{dimensions}", text.replace('\'', "''"))
        }
    }
}

/// The columns that a CHECK names, in order.
///
/// # Errors
/// What is wrong with the condition; 0A000 for subqueries and tables with an aggregate family.
pub async fn checked_columns(query: &Query, table: &Table, condition: &Expr) -> Result<Vec<String>> {
    if super::select::has_subquery(condition) {
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "cannot use subquery in check constraint"));
    }
    if table.families.iter().any(|family| family.aggregate.is_some()) {
        return Err(SqlError::unsupported("CHECK of a table with an aggregate family"));
    }
    let target = Target::of_table(&query.view, Arc::new(table.clone()));
    let item = SelectItem::ExprWithAlias { expr: condition.clone(), alias: quoted("c0") };
    let (_, plan) = written_rows(query, &target, &quoted(&table.name), &[item], &[]).await?;
    let kind = plan.schema().field(0).data_type();
    if !matches!(kind, DataType::Boolean | DataType::Null) {
        let message = "argument of CHECK must be type boolean";
        return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
    }
    if volatility(&plan)? == Volatility::Volatile {
        return Err(SqlError::unsupported("a volatile function in CHECK"));
    }
    let mut columns: Vec<String> = Vec::new();
    let _: std::ops::ControlFlow<()> = ast::visit_expressions(condition, |expression| {
        let name = match expression {
            Expr::Identifier(name) => Some(name),
            Expr::CompoundIdentifier(parts) => parts.last(),
            _ => None,
        };
        if let Some(name) = name.map(fold).filter(|name| table.column(name).is_some() && !columns.contains(name)) {
            columns.push(name);
        }
        std::ops::ControlFlow::Continue(())
    });
    Ok(columns)
}

/// An expression of the catalog.
///
/// # Errors
/// For one that cannot be read any more: a fault of ours.
pub(crate) fn parsed(sql: &str) -> Result<Expr> {
    let parsed = parse_text(sql, |parser| parser.parse_expr());
    parsed.map_err(|error| SqlError::new(SqlState::INTERNAL_ERROR, format!("expression {sql}: {error}")))
}

/// Whether `DEFAULT` stands there for a value.
pub(crate) fn is_default(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(name) if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("default"))
}

/// Makes values of `DEFAULT` in the rows of a VALUES.
///
/// # Errors
/// 428C9 for a value that is given to an identity column that is always generated.
pub(super) fn written_out(rows: &mut [ast::Parens<Vec<Expr>>], columns: &[&super::target::TargetColumn]) -> Result<()> {
    for cell in rows.iter_mut().flat_map(|row| row.content.iter_mut().zip(columns)) {
        let (expr, column) = cell;
        if is_default(expr) {
            *expr = column.default_expression()?;
        } else {
            column.check_given()?;
        }
    }
    Ok(())
}
