//! A subquery for many rows outside at once, where it reads nothing but them: each has a number, and the subquery's
//! rows stand beside the number of theirs.
//!
//! ```text
//! t, (SELECT sum(x) FROM unnest(t.l) x)     →     Sort: row
//!                                                   Projection: sum(x), row      (0 rows of x: from the relation)
//!                                                     Aggregate: sum(x), by row
//!                                                       Unnest: l AS x, row
//!                                                         rows: (row, l) of a batch of t
//! ```
//!
//! The values outside need not be told apart by `=`, as those of a [domain](super::domain) are: the number does that.

use super::{Unnesting, columns_of, number, unordered};
use crate::plan::{
    apply::{node::Kind, outer_columns},
    constant_rows,
};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::{
    common::{
        Column, DFSchema, Result, TableReference,
        metadata::FieldMetadata,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    functions_nested::expr_fn::make_array,
    logical_expr::{
        Case, EmptyRelation, Expr, ExprSchemable, JoinType, LogicalPlan, LogicalPlanBuilder, Projection, Sort,
        SortExpr, Unnest, Values, expr::Placeholder, lit,
    },
    scalar::ScalarValue,
};
use std::sync::Arc;

/// The column of the numbers, which are not negative.
pub(crate) const ROW: &str = "__row";

/// A subquery whose placeholders are columns of `relation`, beside [`ROW`] in it: its columns, and the number last, in
/// the order of the numbers. `None` where no rule says how.
pub(crate) fn numbered(
    subquery: &LogicalPlan,
    kind: Kind,
    outside: &[Placeholder],
    relation: LogicalPlan,
) -> Result<Option<LogicalPlan>> {
    let mut known = true;
    subquery.apply_with_subqueries(|node| {
        known &= !matches!(node, LogicalPlan::Extension(_)) || constant_rows::is_node(node);
        Ok(if known { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    if !known {
        return Ok(None);
    }
    let there = TableReference::bare(format!("__outside_{}", number()));
    let column = |id: &str| Column::new(Some(there.clone()), id);
    let mut subquery = outer_columns::bound(subquery, &|placeholder| {
        let found = outside.iter().find(|one| one.id == placeholder.id)?;
        Some(Expr::OuterReferenceColumn(found.field.clone()?, column(&found.id)))
    })?;
    let row: FieldRef = Arc::new(Field::new(ROW, DataType::UInt64, false));
    let fields = outside.iter().map(|one| Some((one.id.as_str(), one.field.clone()?)));
    let Some(fields) = [Some((ROW, row))].into_iter().chain(fields).collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    let name = format!("__outer_{}", number());
    let columns = fields.into_iter().enumerate().map(|(at, (id, field))| {
        (column(id), field, Column::new(Some(TableReference::bare(name.clone())), format!("{name}_{at}")))
    });
    let columns: Vec<_> = columns.collect();
    let shown = columns
        .iter()
        .map(|(outside, _, here)| Expr::Column(Column::new_unqualified(outside.name.clone())).alias(here.name.clone()));
    let domain = LogicalPlanBuilder::from(relation).project(shown.collect::<Vec<_>>())?.alias(name)?.build()?;
    let unnesting = Unnesting { domain, columns, numbered: true };
    let mut order: Vec<SortExpr> = Vec::new();
    match (kind, &subquery) {
        (Kind::Exists, _) => subquery = unordered(&subquery, true)?,
        (Kind::Value, _) => subquery = unordered(&subquery, false)?,
        (Kind::Rows { .. }, LogicalPlan::Sort(Sort { fetch: None, input, .. })) => {
            if let LogicalPlan::Sort(sort) = unnesting.rewritten(&subquery)? {
                order = sort.expr;
            }
            subquery = input.as_ref().clone();
        }
        _ => {}
    }
    let Some(pushed) = unnesting.push(&subquery)? else { return Ok(None) };
    let row = Expr::Column(unnesting.columns[0].2.clone());
    let own = subquery.schema().fields().len();
    let columns = columns_of(pushed.schema()).into_iter().take(own).chain([row.clone()]);
    let shown = columns.enumerate().map(|(at, column)| column.alias(format!("c{at}"))).collect::<Vec<_>>();
    let ordered = match order.is_empty() && is_in_order(&pushed) {
        true => pushed,
        false => {
            let order: Vec<_> = [row.sort(true, false)].into_iter().chain(order).collect();
            LogicalPlanBuilder::from(pushed).sort(order)?.build()?
        }
    };
    LogicalPlanBuilder::from(ordered).project(shown)?.build().map(Some)
}

/// Whether rows stay in the order of the relation.
fn is_in_order(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Unnest(_) => plan.inputs().into_iter().all(is_in_order),
        LogicalPlan::Join(join) => {
            join.join_type == JoinType::Inner
                && join.on.is_empty()
                && join.filter.is_none()
                && is_in_order(&join.left)
                && matches!(
                    join.right.as_ref(),
                    LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: true, .. })
                )
        }
        LogicalPlan::TableScan(_) => true,
        _ => false,
    }
}

/// What the rows of a plan that reads no relation are made of, in the order in which they are written; `None` for
/// another plan.
fn rows_of(plan: &LogicalPlan) -> Result<Option<Vec<Vec<Expr>>>> {
    Ok(match plan {
        LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: true, .. }) => Some(vec![Vec::new()]),
        LogicalPlan::Values(values) => Some(values.values.clone()),
        LogicalPlan::SubqueryAlias(alias) => rows_of(&alias.input)?,
        LogicalPlan::Union(union) => {
            let inputs = union.inputs.iter().map(|input| rows_of(input)).collect::<Result<Option<Vec<_>>>>()?;
            inputs.map(|inputs| inputs.concat())
        }
        LogicalPlan::Projection(Projection { expr, input, .. }) => {
            let Some(rows) = rows_of(input)? else { return Ok(None) };
            let columns = input.schema().columns();
            let projected = |row: &[Expr], expr: &Expr| {
                let inlined = expr.clone().transform_up(|expr| match &expr {
                    Expr::Column(column) => match columns.iter().position(|known| known == column) {
                        Some(at) => Ok(Transformed::yes(row[at].clone().unalias_nested().data)),
                        None => Ok(Transformed::no(expr)),
                    },
                    _ => Ok(Transformed::no(expr)),
                });
                inlined.map(|inlined| inlined.data)
            };
            let rows = rows.iter().map(|row| expr.iter().map(|expr| projected(row, expr)).collect());
            Some(rows.collect::<Result<_>>()?)
        }
        _ => None,
    })
}

/// A subquery whose UNIONs ALL of rows without a relation are VALUES: their order is that in which they are written,
/// while the inputs of a UNION run beside each other.
pub(crate) fn with_values(plan: LogicalPlan) -> Result<LogicalPlan> {
    let listed = plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::Union(union) = &node else { return Ok(Transformed::no(node)) };
        let Some(rows) = rows_of(&node)? else { return Ok(Transformed::no(node)) };
        let typed = |row: Vec<Expr>| {
            let cells = row.into_iter().zip(union.schema.fields());
            cells.map(|(cell, field)| cell_of(cell, field, &DFSchema::empty())).collect::<Result<Option<Vec<_>>>>()
        };
        Ok(match rows.into_iter().map(typed).collect::<Result<Option<Vec<_>>>>()? {
            Some(values) => Transformed::yes(LogicalPlan::Values(Values { schema: Arc::clone(&union.schema), values })),
            None => Transformed::no(node),
        })
    })?;
    Ok(listed.data)
}

/// A cell of a column of VALUES, whose type is the column's; `None` for another one, for a subquery, and for what has
/// another value each time: it may stand in several cells.
fn cell_of(cell: Expr, field: &Field, schema: &DFSchema) -> Result<Option<Expr>> {
    let cell = cell.unalias_nested().data;
    let is_subquery = |expr: &Expr| matches!(expr, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_));
    if cell.is_volatile() || cell.exists(|expr| Ok(is_subquery(expr)))? {
        return Ok(None);
    }
    Ok(match cell.get_type(schema)? {
        DataType::Null => Some(Expr::Literal(ScalarValue::try_from(field.data_type())?, None)),
        data if data == *field.data_type() => Some(cell),
        _ => None,
    })
}

impl Unnesting {
    /// VALUES in their order. `None` for another plan, or where values of a domain may come several times.
    pub(super) fn listed(&self, plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
        if !self.numbered {
            return Ok(None);
        }
        let LogicalPlan::Values(Values { values: rows, .. }) = plan else { return Ok(None) };
        let place = format!("__place_{}", number());
        let places = make_array((0_i64..).take(rows.len()).map(lit).collect());
        let input = self.here().into_iter().chain([places.alias(place.clone())]).collect::<Vec<_>>();
        let place = Column::new_unqualified(place);
        let input =
            LogicalPlanBuilder::from(self.domain.clone()).project(input)?.unnest_column(place.clone())?.build()?;
        let columns = plan.schema().columns().into_iter().zip(plan.schema().fields()).enumerate();
        let mut shown = Vec::with_capacity(columns.len() + self.columns.len());
        for (at, (column, field)) in columns {
            let mut whens = Vec::with_capacity(rows.len());
            for (number, row) in (0_i64..).zip(rows) {
                let cell = outer_columns::in_expression(row[at].clone(), &|column| {
                    self.here_of(column).map(|(here, _)| Expr::Column(here))
                })?;
                let Some(cell) = cell_of(cell, field, input.schema())? else { return Ok(None) };
                whens.push((Box::new(Expr::Column(place.clone()).eq(lit(number))), Box::new(cell)));
            }
            let cells = Expr::Case(Case::new(None, whens, None));
            let metadata = (!field.metadata().is_empty()).then(|| FieldMetadata::new_from_field(field));
            shown.push(cells.alias_qualified_with_metadata(column.relation, column.name, metadata));
        }
        shown.extend(self.here());
        LogicalPlanBuilder::from(input).project(shown)?.build().map(Some)
    }

    /// The items of lists, beside the values of the domain whose lists they are of.
    pub(super) fn unnest(&self, unnest: &Unnest, input: LogicalPlan) -> Result<Option<LogicalPlan>> {
        let plan = LogicalPlanBuilder::from(input)
            .unnest_columns_with_options(unnest.exec_columns.clone(), unnest.options.clone())?
            .build()?;
        let (columns, own) = (columns_of(plan.schema()), unnest.schema.columns());
        if columns.len() != own.len() + self.columns.len() {
            return Ok(None);
        }
        let shown = columns.into_iter().zip(own).map(|(column, shown)| match &column {
            Expr::Column(known) if *known == shown => column,
            _ => column.alias_qualified(shown.relation, shown.name),
        });
        LogicalPlanBuilder::from(plan).project(shown.chain(self.here()).collect::<Vec<_>>())?.build().map(Some)
    }
}
