//! Rows of `VALUES` that are constants, held as columns: applications send them by the thousand, as
//! `UPDATE … FROM (VALUES …)`, `JOIN (VALUES …)` and `INSERT … SELECT … FROM (VALUES …)`.
//!
//! DataFusion holds such rows as an expression for each value, and every rule of the analyzer and the optimizer visits
//! each of them, which takes longer than everything else that the statement does. A [`ConstantRows`] has no
//! expressions. Casts that all values of a column have are made of the column, in a projection above: `VALUES
//! ('2026-01-01'::date), ('2026-01-02'::date)` is a column of texts with a cast. So is what all rows have, as `now()`.

use super::literals;
use crate::{functions::lists::TEXT_BESIDE, numeric};
use arrow::{
    array::{ArrayRef, RecordBatch, RecordBatchOptions},
    datatypes::{DataType, Field, FieldRef},
};
use async_trait::async_trait;
use datafusion::{
    catalog::{Session, memory::MemorySourceConfig},
    common::{
        Column, DFSchema, DFSchemaRef, Result,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    logical_expr::{
        Cast, Expr, Extension, LogicalPlan, Projection, UserDefinedLogicalNode, UserDefinedLogicalNodeCore, Values,
        physical_planning_context::PhysicalPlanningContext,
    },
    physical_plan::ExecutionPlan,
    physical_planner::{ExtensionPlanner, PhysicalPlanner},
    scalar::ScalarValue,
};
use std::{
    cmp::Ordering,
    collections::HashMap,
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

/// Values from which on rows are held as columns.
const VALUES_MIN: usize = 64;

/// Rows that are constants.
#[derive(Clone)]
struct ConstantRows {
    rows: RecordBatch,
    schema: DFSchemaRef,
}

/// The plan with columns for the rows of each VALUES of many constants.
///
/// # Errors
/// DataFusion's.
pub fn in_columns(plan: LogicalPlan) -> Result<LogicalPlan> {
    if !has_many_values(&plan)? {
        return Ok(plan);
    }
    let held = plan.transform_down_with_subqueries(|node| match node {
        LogicalPlan::Values(values) if is_many(&values) => match columns_of(&values)? {
            // What is below would be its expressions.
            Some(columns) => Ok(Transformed::new(columns, true, TreeNodeRecursion::Jump)),
            None => Ok(Transformed::new(LogicalPlan::Values(values), false, TreeNodeRecursion::Jump)),
        },
        other => Ok(Transformed::no(other)),
    })?;
    Ok(held.data)
}

/// Whether a node is one of constant rows.
pub fn is_node(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Extension(extension) if extension.node.as_any().is::<ConstantRows>())
}

fn is_many(values: &Values) -> bool {
    values.values.len() * values.schema.fields().len() >= VALUES_MIN
}

/// Whether a plan has VALUES of many rows.
///
/// # Errors
/// DataFusion's.
pub fn has_many_values(plan: &LogicalPlan) -> Result<bool> {
    let mut has = false;
    plan.apply_with_subqueries(|node| {
        has |= matches!(node, LogicalPlan::Values(values) if is_many(values));
        Ok(if has { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(has)
}

/// A value of a column: a constant, and the casts of it, the innermost first.
struct Constant {
    value: ScalarValue,
    casts: Vec<FieldRef>,
}

impl Constant {
    fn of(expr: &Expr) -> Result<Option<Self>> {
        match expr {
            Expr::Literal(value, metadata) if metadata.as_ref().is_none_or(|metadata| metadata.is_empty()) => {
                Ok(Some(Self { value: value.clone(), casts: Vec::new() }))
            }
            Expr::Cast(cast) => Ok(Self::of(&cast.expr)?.map(|constant| constant.cast(&cast.field))),
            // A quoted text beside values of a type.
            Expr::ScalarFunction(call) if call.func.name() == TEXT_BESIDE => {
                let cell = literals::cell_of_values(call.clone(), &DFSchema::empty())?;
                Self::of(&cell)
            }
            _ => Ok(None),
        }
    }

    /// With one cast more, which is made at once if it is of a number that loses nothing by it.
    fn cast(mut self, to: &FieldRef) -> Self {
        if self.casts.is_empty()
            && let Some(value) = widened(&self.value, to)
        {
            return Self { value, ..self };
        }
        if !self.casts.last().is_some_and(|last| is_same_type(last, to)) {
            self.casts.push(Arc::clone(to));
        }
        self
    }

    /// A NULL is one of every type, whatever it is cast to.
    fn is_like(&self, other: &Self) -> bool {
        self.value.is_null()
            || self.value.data_type() == other.value.data_type()
                && self.casts.len() == other.casts.len()
                && self.casts.iter().zip(&other.casts).all(|(one, other)| is_same_type(one, other))
    }
}

fn is_same_type(one: &Field, other: &Field) -> bool {
    (one.data_type(), one.metadata()) == (other.data_type(), other.metadata())
}

/// A number as one of a type that has all numbers of its own; `None` for other values and types, and if it does not
/// fit.
fn widened(value: &ScalarValue, to: &Field) -> Option<ScalarValue> {
    use DataType::{Decimal128, Float64, LargeBinary};
    if value.is_null() || !to.metadata().is_empty() {
        return None;
    }
    let (from, to) = (value.data_type(), to.data_type());
    match (&from, to) {
        (_, to) if from == *to => Some(value.clone()),
        (DataType::Int64, DataType::Int32) => match value {
            ScalarValue::Int64(Some(value)) => i32::try_from(*value).ok().map(|value| ScalarValue::Int32(Some(value))),
            _ => None,
        },
        (from, to) if from.is_integer() && (to.is_integer() || *to == Float64) => value.cast_to(to).ok(),
        (Decimal128(_, s), Decimal128(_, scale)) if s <= scale => value.cast_to(to).ok(),
        (Decimal128(..) | DataType::Int32 | DataType::Int64, LargeBinary | Float64)
            if numeric::cast::converts(&from, to) =>
        {
            numeric::cast::convert_scalar(value, to).ok()
        }
        _ => None,
    }
}

/// A column of rows: what is held, if anything is, and what is shown of it.
struct Shown {
    held: Option<(Field, ArrayRef)>,
    shown: Expr,
}

/// The column of a place in the rows; `None` where values are not alike.
fn column_of(values: &Values, at: usize) -> Result<Option<Shown>> {
    let field = values.schema.field(at);
    let cells = || values.values.iter().map(|row| &row[at]);
    let constants = cells().map(Constant::of).collect::<Result<Option<Vec<_>>>>()?;
    let Some(constants) = constants else {
        // `now()` in all of them.
        let Some(first) = cells().next().filter(|first| is_one_value(first)) else { return Ok(None) };
        let shown = first.clone().alias(field.name());
        return Ok(cells().all(|cell| cell == first).then_some(Shown { held: None, shown }));
    };
    let Some(first) = constants.iter().find(|constant| !constant.value.is_null()).or(constants.first()) else {
        return Ok(None);
    };
    if !constants.iter().all(|constant| constant.is_like(first)) {
        return Ok(None);
    }
    let (kind, casts) = (first.value.data_type(), first.casts.clone());
    let null = ScalarValue::try_from(&kind)?;
    let value = |constant: Constant| if constant.value.is_null() { null.clone() } else { constant.value };
    let array = ScalarValue::iter_to_array(constants.into_iter().map(value))?;
    let column = Expr::Column(Column::new_unqualified(field.name().clone()));
    let cast = |inner: Expr, to: FieldRef| Expr::Cast(Cast::new_from_field(Box::new(inner), to));
    Ok(Some(match casts.is_empty() {
        true => Shown { held: Some((field.as_ref().clone(), array)), shown: column },
        false => Shown {
            held: Some((Field::new(field.name(), kind, field.is_nullable()), array)),
            shown: casts.into_iter().fold(column, cast).alias(field.name()),
        },
    }))
}

/// Whether an expression has the same value in every row.
fn is_one_value(expr: &Expr) -> bool {
    let is_open = |expr: &Expr| {
        Ok(matches!(
            expr,
            Expr::Placeholder(_)
                | Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::OuterReferenceColumn(..)
        ))
    };
    !expr.is_volatile() && !expr.exists(is_open).unwrap_or(true)
}

/// The rows as columns, with the casts of these above; `None` where a value is no constant, or values of a column are
/// not alike, and where it would not be what DataFusion makes of them.
fn columns_of(values: &Values) -> Result<Option<LogicalPlan>> {
    let columns = (0..values.schema.fields().len()).map(|at| column_of(values, at));
    let Some(columns) = columns.collect::<Result<Option<Vec<_>>>>()? else { return Ok(None) };
    let is_plain = columns.iter().all(|column| matches!(column.shown, Expr::Column(_)));
    let (held, shown): (Vec<_>, Vec<_>) = columns.into_iter().map(|column| (column.held, column.shown)).unzip();
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = held.into_iter().flatten().unzip();
    let schema = DFSchema::from_unqualified_fields(fields.into(), HashMap::new())?;
    let options = RecordBatchOptions::new().with_row_count(Some(values.values.len()));
    let Ok(rows) = RecordBatch::try_new_with_options(Arc::clone(schema.inner()), arrays, &options) else {
        return Ok(None);
    };
    let node = Arc::new(ConstantRows { rows, schema: Arc::new(schema) });
    let plan = LogicalPlan::Extension(Extension { node });
    let plan = match is_plain {
        true => plan,
        false => LogicalPlan::Projection(Projection::try_new(shown, Arc::new(plan))?),
    };
    Ok(is_same(plan.schema(), &values.schema).then_some(plan))
}

/// Whether what is above sees no difference.
fn is_same(one: &DFSchema, other: &DFSchema) -> bool {
    let is_same = |one: &Field, other: &Field| {
        one.name() == other.name() && one.is_nullable() == other.is_nullable() && is_same_type(one, other)
    };
    one.fields().len() == other.fields().len()
        && one.fields().iter().zip(other.fields()).all(|(one, other)| is_same(one, other))
}

impl fmt::Debug for ConstantRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Constants: {} rows", self.rows.num_rows())
    }
}

impl PartialEq for ConstantRows {
    fn eq(&self, other: &Self) -> bool {
        self.schema == other.schema && self.rows == other.rows
    }
}

impl Eq for ConstantRows {}

impl PartialOrd for ConstantRows {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl Hash for ConstantRows {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.schema.hash(state);
        self.rows.num_rows().hash(state);
    }
}

impl UserDefinedLogicalNodeCore for ConstantRows {
    fn name(&self) -> &str {
        "ConstantRows"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        Vec::new()
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, _: Vec<LogicalPlan>) -> Result<Self> {
        Ok(self.clone())
    }
}

/// Plans the node.
pub(crate) struct ConstantRowsPlanner;

#[async_trait]
impl ExtensionPlanner for ConstantRowsPlanner {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        _: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        _: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(node) = node.as_any().downcast_ref::<ConstantRows>() else { return Ok(None) };
        let most = session.config().batch_size();
        let batches = (0..node.rows.num_rows()).step_by(most.max(1));
        let batches = batches.map(|from| node.rows.slice(from, most.min(node.rows.num_rows() - from)));
        let rows = MemorySourceConfig::try_new_exec(&[batches.collect()], node.rows.schema(), None)?;
        Ok(Some(rows))
    }
}
