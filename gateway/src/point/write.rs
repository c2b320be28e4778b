//! `INSERT` of values and blind upserts, `UPDATE` and `DELETE` by the whole key.
//!
//! Values are assigned, rows are checked and mutations are made by [`dml`](crate::dml), in the order of the general
//! way: it reports the same one of several errors.

use super::{
    names::{self, KeyComparisons, Parameters, operand_value},
    shape::{self, ChangeShape, Operand},
};
use crate::{
    dml::{
        assign::assign_scalar,
        insert::{called, new_row, put_blindly, put_new, resolve},
        returning::Returned,
        target::{Place, Target, marker},
        upsert,
    },
    pg::error::{Result, SqlError, SqlState},
    provider::keys::Keys,
    sql::write::{OnConflict, on_conflict},
    view::View,
    write_set::WriteSet,
};
use datafusion::{
    scalar::ScalarValue,
    sql::sqlparser::ast::{self},
};
use futures::TryStreamExt;
use keyspan_catalog::{SqlType, Table, Value};
use keyspan_storage::{Columns, Mutation, Row, RowSet, Scan};
use std::collections::HashSet;

/// Rows of an INSERT, at most.
const ROWS_MAX: usize = 256;

/// A write that goes around the optimizer.
pub(super) struct Write {
    target: Target,
    how: How,
}

enum How {
    Insert {
        named: Vec<usize>,
        key_places: Vec<usize>,
        rows: Vec<Vec<Operand>>,
        taken: Taken,
    },
    /// Columns by their places, and their new values.
    Update {
        key: KeyComparisons,
        set: Vec<(usize, Operand)>,
    },
    Delete {
        key: KeyComparisons,
    },
}

/// What an INSERT does with a row whose key is there.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Taken {
    Fail,
    Skip,
    Overwrite,
}

impl std::fmt::Debug for Write {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let how = match self.how {
            How::Insert { .. } => "INSERT",
            How::Update { .. } => "UPDATE",
            How::Delete { .. } => "DELETE",
        };
        write!(f, "{how} {}", self.target.table.name)
    }
}

impl Write {
    /// Compiles an INSERT.
    pub(super) fn insert(insert: &ast::Insert, parameters: &mut Parameters, view: &View) -> Option<Self> {
        let rows = shape::insert(insert)?;
        let (target, named) = resolve(view, insert).ok()?;
        names::table(view, &target.name())?;
        if needs_more(&target) || target.columns.iter().any(|column| column.default.is_some()) {
            return None;
        }
        let width = rows.first().filter(|_| rows.len() <= ROWS_MAX)?.len();
        let fits = if insert.columns.is_empty() { (1..=named.len()).contains(&width) } else { width == named.len() };
        if !fits || rows.iter().any(|row| row.len() != width) {
            return None;
        }
        for row in &rows {
            for (operand, at) in row.iter().zip(&named) {
                assigned(operand, target.columns[*at].kind, parameters)?;
            }
        }
        // DataFusion gives all rows of a column one type.
        let kind_of = |operand: &Operand| match operand {
            Operand::Literal(ScalarValue::Null) => None,
            Operand::Literal(literal) => Some(Some(literal.data_type())),
            Operand::Parameter(_) => Some(None),
        };
        let alike = |at: usize| {
            let mut kinds = rows.iter().filter_map(|row| kind_of(&row[at]));
            let first = kinds.next();
            kinds.all(|kind| Some(&kind) == first.as_ref())
        };
        if !(0..width).all(alike) {
            return None;
        }
        let conflict = on_conflict(insert).ok()?;
        upsert::check_target(&target, &conflict).ok()?;
        let taken = match &conflict {
            OnConflict::Fail => Taken::Fail,
            OnConflict::Nothing { .. } => Taken::Skip,
            OnConflict::Update { .. } if upsert::is_blind(&target, &called(insert, &target), &named, &conflict) => {
                Taken::Overwrite
            }
            OnConflict::Update { .. } => return None,
        };
        let key_places = target.key_places().ok()?;
        Some(Self { target, how: How::Insert { named, key_places, rows, taken } })
    }

    /// Compiles an UPDATE.
    pub(super) fn update(update: &ast::Update, parameters: &mut Parameters, view: &View) -> Option<Self> {
        let ChangeShape { table, set, comparisons } = shape::update(update)?;
        names::table(view, &table.table)?;
        let target = Target::of(view, &table.table).ok()?;
        if needs_more(&target) {
            return None;
        }
        let column = |(name, operand): (String, Operand)| {
            let at = target.position(&name).ok()?;
            let column = &target.columns[at];
            // What a message holds that its descriptor does not know is read, and kept.
            if !matches!(column.place, Place::Cell { aggregate: None, .. }) || column.message().is_some() {
                return None;
            }
            assigned(&operand, column.kind, parameters)?;
            Some((at, operand))
        };
        let set = set.into_iter().map(column).collect::<Option<_>>()?;
        let key = by_key(&target, comparisons, parameters, view)?;
        Some(Self { target, how: How::Update { key, set } })
    }

    /// Compiles a DELETE.
    pub(super) fn delete(delete: &ast::Delete, parameters: &mut Parameters, view: &View) -> Option<Self> {
        let ChangeShape { table, comparisons, .. } = shape::delete(delete)?;
        names::table(view, &table.table)?;
        let target = Target::of(view, &table.table).ok()?;
        let key = by_key(&target, comparisons, parameters, view)?;
        Some(Self { target, how: How::Delete { key } })
    }

    /// Its table.
    pub(super) fn table(&self) -> &Table {
        &self.target.table
    }

    /// What it writes, and how many rows. `None` when the values are such that the general way has to see to them.
    pub(super) async fn run(&self, view: &View, parameters: &[ScalarValue]) -> Result<Option<(WriteSet, u64)>> {
        match &self.how {
            How::Insert { named, key_places, rows, taken } => {
                self.put((named, key_places), rows, *taken, view, parameters).await.map(Some)
            }
            How::Update { key, set } => {
                let Some(rows) = key.rows(parameters) else { return Ok(None) };
                self.change(rows, Some(set), view, parameters).await.map(Some)
            }
            How::Delete { key } => {
                let Some(rows) = key.rows(parameters) else { return Ok(None) };
                self.change(rows, None, view, parameters).await.map(Some)
            }
        }
    }

    async fn put(
        &self,
        (named, key_places): (&[usize], &[usize]),
        rows: &[Vec<Operand>],
        taken: Taken,
        view: &View,
        parameters: &[ScalarValue],
    ) -> Result<(WriteSet, u64)> {
        let target = &self.target;
        let mut new = Vec::with_capacity(rows.len());
        for (number, row) in rows.iter().enumerate() {
            let mut values = vec![Value::Null; target.columns.len()];
            for (operand, at) in row.iter().zip(named) {
                values[*at] = self.value(*at, operand, parameters, view)?;
            }
            let parts = key_places.iter().map(|at| values[*at].clone()).collect();
            new.push(new_row(view, target, parts, values, number as u64)?);
        }
        let (mut written, mut seen) = (WriteSet::counted(view.memory.clone()), HashSet::new());
        let count = match taken {
            Taken::Overwrite => put_blindly(target, named, new, &mut seen, &mut written)?,
            Taken::Fail | Taken::Skip => {
                let skip = taken == Taken::Skip;
                let mut returned = Returned::new(None);
                put_new((view, target), new, skip, &mut seen, (&mut written, &mut returned)).await?
            }
        };
        Ok((written, count))
    }

    /// Sets columns of the row, or deletes it without any.
    async fn change(
        &self,
        rows: RowSet,
        set: Option<&Vec<(usize, Operand)>>,
        view: &View,
        parameters: &[ScalarValue],
    ) -> Result<(WriteSet, u64)> {
        let (target, mut written) = (&self.target, WriteSet::counted(view.memory.clone()));
        if rows.is_empty() {
            return Ok((written, 0));
        }
        let scan = Scan { columns: Columns::Of(Vec::new()), keep_empty: true, versions_max: Some(1), ..Scan::of(rows) };
        let found: Vec<Row> = view.scan(&target.table, scan).try_concat().await?;
        let count = found.len() as u64;
        for Row { key, .. } in found {
            let mutations = match set {
                None => vec![Mutation::DeleteFromRow],
                Some(set) => {
                    let mut mutations = vec![marker()];
                    for (at, operand) in set {
                        let (column, value) = (&target.columns[*at], self.value(*at, operand, parameters, view)?);
                        target.check_null(column, &value)?;
                        column.set(&value, &mut mutations)?;
                    }
                    mutations
                }
            };
            written.add_read(&target.table, key.clone())?;
            written.mutate(&target.table, key, mutations)?;
        }
        Ok((written, count))
    }

    /// The value of an operand, assigned to the column at a place.
    fn value(&self, at: usize, operand: &Operand, parameters: &[ScalarValue], view: &View) -> Result<Value> {
        let scalar = operand_value(operand, parameters)
            .ok_or_else(|| SqlError::new(SqlState::INTERNAL_ERROR, "a parameter without a value"))?;
        assign_scalar(scalar, &scalar.data_type(), &self.target.columns[at], view.input.input())
    }
}

/// Whether rows are held against conditions, or values may not be given.
fn needs_more(target: &Target) -> bool {
    !target.table.checks.is_empty() || target.columns.iter().any(|column| column.identity.is_some())
}

/// The key that an UPDATE or DELETE names, whole.
fn by_key(
    target: &Target,
    comparisons: Vec<shape::Comparison>,
    parameters: &mut Parameters,
    view: &View,
) -> Option<KeyComparisons> {
    let keys = Keys::of_table(&target.table, view.rows.tenant().is_none());
    KeyComparisons::of(keys, comparisons, parameters).filter(KeyComparisons::is_point)
}

/// Whether an operand goes to a column of a type as it does on the general way: a parameter of the type, a text or NULL
/// to any, a number to whole numbers.
fn assigned(operand: &Operand, kind: SqlType, parameters: &mut Parameters) -> Option<()> {
    match operand {
        Operand::Literal(ScalarValue::Null | ScalarValue::Utf8(_)) => Some(()),
        operand => parameters.beside(operand, kind),
    }
}
