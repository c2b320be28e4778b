//! `SELECT` of plain columns: one row by its whole key, the first rows of a key prefix in the order of keys, or all
//! rows of a range of keys, where they are few.

use super::{
    names::{self, KeyComparisons, Parameters, operand_value},
    shape::{self, Operand, SelectShape},
};
use crate::{
    provider::{
        self,
        batches::{self, FoundRows},
        decode::Layout,
        keys::Keys,
    },
    view::View,
};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::{scalar::ScalarValue, sql::sqlparser::ast::Query};
use keyspan_catalog::{KeyEncoding, KeyPart, Table};
use keyspan_storage::{Columns, TimestampRange};
use std::{collections::HashSet, sync::Arc};

/// Rows that are read on the threads of connections, at most: longer results are made on the threads of queries.
const ROWS_MAX: i64 = 1_000;

/// A query that goes around the optimizer.
#[derive(Debug)]
pub(super) struct Read {
    table: Arc<Table>,
    key: KeyComparisons,
    layout: Arc<dyn Layout>,
    columns: Columns,
    reversed: bool,
    limit: Option<Operand>,
}

impl Read {
    /// Compiles a query.
    pub(super) fn of(query: &Query, parameters: &mut Parameters, view: &View) -> Option<Self> {
        let SelectShape { table, items, comparisons, order, limit } = shape::select(query)?;
        let table = names::table(view, &table.table)?;
        let operator = view.rows.tenant().is_none();
        let key = KeyComparisons::of(Keys::of_table(&table, operator), comparisons, parameters)?;
        let is_plain = table.key.encoding == KeyEncoding::Plain;
        let reversed = direction(&table, operator, &key, &order)?;
        // Rows of salted keys come in the order of their buckets.
        if !key.is_point() && (table.key.salt > 0 || is_plain) {
            return None;
        }
        match &limit {
            Some(Operand::Parameter(number)) => {
                parameters.parameter(*number, DataType::Int64).filter(|data| *data == DataType::Int64)?;
            }
            Some(Operand::Literal(ScalarValue::Int64(Some(0..=ROWS_MAX)))) | None => {}
            Some(_) => return None,
        }
        let (projection, schema) = projection(&table, operator, items)?;
        let (layout, columns) =
            provider::row_layout(&table, operator, &projection, schema, &provider::WantedMaps::new());
        Some(Self { table, key, layout, columns, reversed, limit })
    }

    /// Its table.
    pub(super) fn table(&self) -> &Table {
        &self.table
    }

    /// The columns of its rows.
    pub(super) fn columns(&self) -> &SchemaRef {
        self.layout.schema()
    }

    /// Its rows. `None` when the values are such that the general way has to see to them.
    pub(super) fn rows(&self, view: &View, parameters: &[ScalarValue]) -> Option<FoundRows> {
        let limit = match &self.limit {
            None => None,
            Some(operand) => match operand_value(operand, parameters)? {
                ScalarValue::Int64(Some(limit @ 0..=ROWS_MAX)) => Some(usize::try_from(*limit).ok()?),
                _ => return None,
            },
        };
        let rows = self.key.rows(parameters)?;
        // The first rows that are asked for are few; of a whole range the store knows.
        if limit.is_none() && !self.key.is_point() && view.rows.few_rows(&self.table, &rows).is_none() {
            return None;
        }
        let read = batches::Read {
            rows,
            columns: self.columns.clone(),
            timestamps: TimestampRange::all(),
            versions_max: Some(1),
            keep_empty: true,
            reversed: self.reversed,
            limit,
        };
        Some(provider::rows(view, &self.table, read, self.layout.clone()))
    }
}

/// The places of the selected columns and the schema of the result. A column that is selected twice is left to the
/// general way.
fn projection(table: &Table, operator: bool, items: Option<Vec<(String, String)>>) -> Option<(Vec<usize>, SchemaRef)> {
    let all = provider::schema_of(table, operator);
    let Some(items) = items else { return Some(((0..all.fields().len()).collect(), all)) };
    let places: Vec<usize> = items.iter().map(|(column, _)| all.index_of(column).ok()).collect::<Option<_>>()?;
    let once: HashSet<usize> = places.iter().copied().collect();
    let names: HashSet<&str> = items.iter().map(|(_, name)| name.as_str()).collect();
    if once.len() < places.len() || names.len() < items.len() {
        return None;
    }
    let fields = places.iter().zip(&items).map(|(at, (_, name))| all.field(*at).clone().with_name(name));
    let schema = Schema::new(fields.collect::<Vec<_>>());
    Some((places, Arc::new(schema)))
}

/// Whether rows in the order that is asked for are those of keys backwards. `None` for an order that is not that of
/// keys.
fn direction(table: &Table, operator: bool, key: &KeyComparisons, order: &[(String, bool)]) -> Option<bool> {
    let parts = key.keys().columns();
    let tenant = operator.then_some(false);
    let directions: Vec<bool> = tenant.into_iter().chain(table.key.parts.iter().map(KeyPart::descends)).collect();
    let mut next = (0..parts.len()).filter(|part| !key.is_fixed(*part));
    let mut reversed = None;
    for (name, descending) in order {
        let part = parts.iter().position(|part| part.name == *name)?;
        if key.is_fixed(part) {
            continue;
        }
        // The order of a reversed part's keys is not that of its values.
        let of_table = part.checked_sub(usize::from(operator)).and_then(|at| table.key.parts.get(at));
        if of_table.is_some_and(KeyPart::is_reversed) {
            return None;
        }
        let turned = *descending != directions[part];
        if next.next() != Some(part) || *reversed.get_or_insert(turned) != turned {
            return None;
        }
    }
    // Order by fixed parts alone says nothing of the others.
    (reversed.is_some() || key.is_point() || order.is_empty()).then_some(reversed.unwrap_or(false))
}
