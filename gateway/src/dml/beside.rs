//! The relations beside the table that is written, of `UPDATE … FROM` and `DELETE … USING`: RETURNING may name their
//! columns, too.
//!
//! ```text
//! SELECT keys, new values, the table's columns, the others' columns FROM table, others WHERE condition
//! SELECT items FROM written rows AS table, others
//! ```
//!
//! The first gives the row of the others that each written row was found with; the second is planned over relations
//! of their names and columns, so that names, `*` and whole rows mean what they do in the statement. It joins nothing:
//! its tables are one, in which each written row stands beside the others' ([`Beside::plan`]).

use super::{
    returning::{PreparedTable, WRITTEN_ROWS},
    select,
};
use crate::{
    pg::{
        error::{Result, SqlError, SqlState},
        exec::run_aggregate::value_of_each,
        ident::quoted,
        names::RelationName,
        syntax::{build::select_from, dialect::parse_text},
    },
    query::Query,
};
use arrow::{
    array::{RecordBatch, RecordBatchOptions, UInt32Array},
    compute::concat_batches,
    datatypes::{FieldRef, Schema, SchemaRef},
};
use datafusion::{
    common::{
        Column, DFSchema, DataFusionError,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    datasource::{MemTable, provider_as_source},
    error::Result as PlanResult,
    logical_expr::{Expr as Planned, LogicalPlan, LogicalPlanBuilder, Projection},
    sql::sqlparser::ast::{self, Expr, Ident, SelectItem, SetExpr, TableWithJoins},
};
use std::sync::Arc;

/// The function that gives the rows of one of the relations, by its place: nothing calls it but the planner.
const ROWS_BESIDE: &str = "keyspan_rows_beside_";

/// The relations.
#[derive(Debug)]
pub(crate) struct Beside(Vec<Relation>);

/// A relation under the name by which the statement calls it, with its columns.
#[derive(Debug)]
struct Relation {
    name: String,
    columns: Vec<String>,
}

impl Beside {
    /// Those of a list of FROM or USING; `None` where there are none. A column whose name another of its relation has
    /// as well is left out: nothing can name it.
    ///
    /// # Errors
    /// Those of the list's plan.
    pub(super) async fn of(query: &Query, from: &[TableWithJoins]) -> Result<Option<Self>> {
        if from.is_empty() {
            return Ok(None);
        }
        let mut asked = select_from(&RelationName::bare("t"), &[])?;
        if let SetExpr::Select(select) = asked.body.as_mut() {
            select.from = from.to_vec();
        }
        let plan = query.plan(&ast::Statement::Query(asked)).await?;
        let mut relations: Vec<Relation> = Vec::new();
        for (qualifier, field) in plan.schema().iter() {
            let Some(name) = qualifier.map(|qualifier| qualifier.table().to_owned()) else { continue };
            let of = match relations.iter().position(|relation| relation.name == name) {
                Some(at) => &mut relations[at],
                None => {
                    relations.push(Relation { name, columns: Vec::new() });
                    relations.last_mut().expect("one was added")
                }
            };
            of.columns.push(field.name().clone());
        }
        for relation in &mut relations {
            let all = relation.columns.clone();
            relation.columns.retain(|column| all.iter().filter(|other| *other == column).count() == 1);
        }
        Ok(Some(Self(relations)))
    }

    /// Their columns, as items of the SELECT beneath the write.
    pub(super) fn items(&self) -> impl Iterator<Item = Expr> {
        let of = |relation: &Relation| {
            let name = quoted(&relation.name);
            relation.columns.iter().map(move |column| select::column(&name, column)).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(of)
    }

    fn width(&self) -> usize {
        self.0.iter().map(|relation| relation.columns.len()).sum()
    }

    /// The fields of their columns, which are the last of a schema.
    fn fields<'a>(&self, schema: &'a Schema) -> &'a [FieldRef] {
        &schema.fields()[schema.fields().len().saturating_sub(self.width())..]
    }

    /// Their columns of some rows of a batch of the SELECT.
    pub(super) fn rows(&self, batch: &RecordBatch, rows: Vec<u32>) -> Result<RecordBatch> {
        let (first, places) = (batch.num_columns().saturating_sub(self.width()), UInt32Array::from(rows));
        let schema = Arc::new(Schema::new(self.fields(&batch.schema()).to_vec()));
        // Copies: a few rows would hold, and count as, the memory of all.
        let columns = batch.columns()[first..].iter().map(|values| value_of_each(values, &places));
        let options = RecordBatchOptions::new().with_row_count(Some(places.len()));
        Ok(RecordBatch::try_new_with_options(schema, columns.collect::<PlanResult<_>>()?, &options)?)
    }

    /// The plan of the items of RETURNING over the written rows, under the name of their table, and the columns of
    /// these relations; `schema` is that of the SELECT, `batches` have a row for each written one.
    ///
    /// # Errors
    /// Those of planning.
    pub(super) async fn plan(
        &self,
        query: &Query,
        (name, items): (&Ident, &[SelectItem]),
        written: RecordBatch,
        (schema, batches): (&SchemaRef, &[RecordBatch]),
    ) -> Result<LogicalPlan> {
        let empty = |fields: &[FieldRef]| -> Result<PreparedTable> {
            let schema = Arc::new(Schema::new(fields.to_vec()));
            Ok(PreparedTable(Arc::new(MemTable::try_new(schema, vec![vec![]])?)))
        };
        let fields = self.fields(schema);
        query.context.register_udtf(WRITTEN_ROWS, Arc::new(empty(written.schema().fields())?));
        let mut sql = format!("SELECT * FROM {WRITTEN_ROWS}() AS {name}");
        let mut first = 0;
        for (at, relation) in self.0.iter().enumerate() {
            let called = |(field, name): (&FieldRef, &String)| Arc::new(field.as_ref().clone().with_name(name));
            let of = fields.iter().skip(first).zip(&relation.columns).map(called);
            query.context.register_udtf(&format!("{ROWS_BESIDE}{at}"), Arc::new(empty(&of.collect::<Vec<_>>())?));
            sql += &format!(", {ROWS_BESIDE}{at}() AS {}", quoted(&relation.name));
            first += relation.columns.len();
        }
        let parsed = parse_text(&sql, |parser| parser.parse_query());
        let mut asked = parsed.map_err(|error| internal(error.to_string()))?;
        if let SetExpr::Select(select) = asked.body.as_mut() {
            select.projection = items.to_vec();
        }
        let plan = query.plan(&ast::Statement::Query(asked)).await?;
        let beside = concat_batches(&Arc::new(Schema::new(fields.to_vec())), batches)?;
        let rows = side_by_side(&written, &beside)?;
        let in_place = |node: LogicalPlan| match node {
            LogicalPlan::Join(join) => Ok(Transformed::new(
                rows_as(&rows, &join.schema).map_err(|error| DataFusionError::External(Box::new(error)))?,
                true,
                TreeNodeRecursion::Jump,
            )),
            other => Ok(Transformed::no(other)),
        };
        Ok(plan.transform_down(in_place)?.data)
    }
}

/// One table of two, whose columns are called by their places.
fn side_by_side(left: &RecordBatch, right: &RecordBatch) -> Result<RecordBatch> {
    let (ours, theirs) = (left.schema(), right.schema());
    let fields = ours.fields().iter().chain(theirs.fields()).enumerate();
    let fields: Vec<_> = fields.map(|(at, field)| field.as_ref().clone().with_name(format!("c{at}"))).collect();
    let columns = left.columns().iter().chain(right.columns()).cloned().collect();
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}

/// The rows under the names that a join's columns have.
fn rows_as(rows: &RecordBatch, joined: &DFSchema) -> Result<LogicalPlan> {
    if joined.fields().len() != rows.num_columns() {
        return Err(internal("RETURNING does not have the columns of its statement".to_owned()));
    }
    let table = Arc::new(MemTable::try_new(rows.schema(), vec![vec![rows.clone()]])?);
    let scan = LogicalPlanBuilder::scan("rows", provider_as_source(table), None)?.build()?;
    let columns = scan.schema().columns().into_iter().zip(joined.iter());
    let items = columns.map(|(Column { relation, name, .. }, (qualifier, field))| {
        Planned::Column(Column::new(relation, name)).alias_qualified(qualifier.cloned(), field.name())
    });
    Ok(LogicalPlan::Projection(Projection::try_new(items.collect(), Arc::new(scan))?))
}

fn internal(message: String) -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, message)
}
