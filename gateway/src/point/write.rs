//! `INSERT` of values and blind upserts, `UPDATE` and `DELETE` by the whole key. An UPDATE sets values, or adds whole
//! numbers to columns.
//!
//! Values are assigned, rows are checked and mutations are made by [`dml`](crate::dml), in the order of the general
//! way: it reports the same one of several errors.

use super::{
    names::{self, KeyComparisons, Parameters, operand_value},
    shape::{self, ChangeShape, NewValue, Operand},
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
    provider::{self, decode::Layout, keys::Keys},
    sql::write::{OnConflict, on_conflict},
    view::View,
    write_set::WriteSet,
};
use arrow::array::ArrayRef;
use datafusion::{
    scalar::ScalarValue,
    sql::sqlparser::ast::{self},
};
use futures::TryStreamExt;
use keyspan_catalog::{SqlType, Table, Value};
use keyspan_storage::{Columns, Mutation, Row, RowSet, Scan};
use std::{collections::HashSet, sync::Arc};

/// Rows of an INSERT, at most.
const ROWS_MAX: usize = 256;

/// A write that goes around the optimizer.
pub(super) struct Write {
    target: Target,
    how: How,
}

enum How {
    Insert { named: Vec<usize>, key_places: Vec<usize>, rows: Vec<Vec<Operand>>, taken: Taken },
    Update { key: KeyComparisons, set: Set },
    Delete { key: KeyComparisons },
}

/// Columns by their places, and their new values.
struct Set {
    columns: Vec<(usize, Operand, Option<Added>)>,
    /// How the columns are read that values are added to, if there are any.
    sources: Option<(Arc<dyn Layout>, Columns)>,
}

/// The column that an operand is added to, or taken off, among those that are read.
#[derive(Clone, Copy, Debug)]
struct Added {
    source: usize,
    off: bool,
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
        let operator = view.rows.tenant().is_none();
        let all = provider::schema_of(&target.table, operator);
        let mut sources: Vec<usize> = Vec::new();
        let column = |(name, value): (String, NewValue)| {
            let at = target.position(&name).ok()?;
            let column = &target.columns[at];
            // What a message holds that its descriptor does not know is read, and kept.
            if !matches!(column.place, Place::Cell { aggregate: None, .. }) || column.message().is_some() {
                return None;
            }
            match value {
                NewValue::Given(operand) => {
                    assigned(&operand, column.kind, parameters)?;
                    Some((at, operand, None))
                }
                NewValue::Added { to, operand, off } => {
                    let source = &target.columns[target.position(&to).ok()?];
                    let is_cell = matches!(source.place, Place::Cell { aggregate: None, .. });
                    let is_whole = matches!(source.kind, SqlType::Int2 | SqlType::Int4 | SqlType::Int8);
                    if !is_cell || !is_whole || source.kind != column.kind {
                        return None;
                    }
                    parameters.beside(&operand, source.kind)?;
                    let read = all.index_of(&to).ok()?;
                    let known = sources.iter().position(|known| *known == read);
                    let source = known.unwrap_or_else(|| {
                        sources.push(read);
                        sources.len() - 1
                    });
                    Some((at, as_written(operand), Some(Added { source, off })))
                }
            }
        };
        let columns = set.into_iter().map(column).collect::<Option<_>>()?;
        let sources = if sources.is_empty() {
            None
        } else {
            let schema = Arc::new(all.project(&sources).ok()?);
            Some(provider::row_layout(&target.table, operator, &sources, schema, &provider::WantedMaps::new()))
        };
        let set = Set { columns, sources };
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
                self.change(rows, Some(set), view, parameters).await
            }
            How::Delete { key } => {
                let Some(rows) = key.rows(parameters) else { return Ok(None) };
                self.change(rows, None, view, parameters).await
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

    /// Sets columns of the row, or deletes it without any. `None` as [`run`](Self::run) has it.
    async fn change(
        &self,
        rows: RowSet,
        set: Option<&Set>,
        view: &View,
        parameters: &[ScalarValue],
    ) -> Result<Option<(WriteSet, u64)>> {
        let (target, mut written) = (&self.target, WriteSet::counted(view.memory.clone()));
        if rows.is_empty() {
            return Ok(Some((written, 0)));
        }
        let sources = set.and_then(|set| set.sources.as_ref());
        let columns = sources.map_or_else(|| Columns::Of(Vec::new()), |(_, columns)| columns.clone());
        let scan = Scan { columns, keep_empty: true, versions_max: Some(1), ..Scan::of(rows) };
        let found: Vec<Row> = view.scan(&target.table, scan).try_concat().await?;
        let count = found.len() as u64;
        for row in found {
            let old = match sources {
                None => None,
                Some((layout, _)) => {
                    let mut rows = layout.start();
                    rows.push(&row)?;
                    // A row that is not shown is for the general way.
                    let Some(old) = Some(rows.finish()?).filter(|old| old.num_rows() == 1) else { return Ok(None) };
                    Some(old)
                }
            };
            let Row { key, .. } = row;
            let mutations = match set {
                None => vec![Mutation::DeleteFromRow],
                Some(set) => {
                    let mut mutations = vec![marker()];
                    for (at, operand, added) in &set.columns {
                        let column = &target.columns[*at];
                        let value = match (added, &old) {
                            (Some(added), Some(old)) => {
                                let given = operand_value(operand, parameters).ok_or_else(no_value)?;
                                let sum = sum(old.column(added.source), given, added.off)?;
                                assign_scalar(&sum, &sum.data_type(), column, view.input.input())?
                            }
                            _ => self.value(*at, operand, parameters, view)?,
                        };
                        target.check_null(column, &value)?;
                        column.set(&value, &mut mutations)?;
                    }
                    mutations
                }
            };
            written.add_read(&target.table, key.clone())?;
            written.mutate(&target.table, key, mutations)?;
        }
        Ok(Some((written, count)))
    }

    /// The value of an operand, assigned to the column at a place.
    fn value(&self, at: usize, operand: &Operand, parameters: &[ScalarValue], view: &View) -> Result<Value> {
        let scalar = operand_value(operand, parameters).ok_or_else(no_value)?;
        assign_scalar(scalar, &scalar.data_type(), &self.target.columns[at], view.input.input())
    }
}

/// A number that is written out is integer where it fits.
fn as_written(operand: Operand) -> Operand {
    match operand {
        Operand::Literal(ScalarValue::Int64(Some(number))) => {
            let narrow = i32::try_from(number).map(|number| ScalarValue::Int32(Some(number)));
            Operand::Literal(narrow.unwrap_or(ScalarValue::Int64(Some(number))))
        }
        other => other,
    }
}

fn no_value() -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, "a parameter without a value")
}

/// A whole number of a row with another added, or taken off: of the wider type of both, as in PostgreSQL.
///
/// # Errors
/// 22003.
fn sum(old: &ArrayRef, given: &ScalarValue, off: bool) -> Result<ScalarValue> {
    let whole = |scalar: &ScalarValue| match scalar {
        ScalarValue::Int16(number) => (2, number.map(i64::from)),
        ScalarValue::Int32(number) => (4, number.map(i64::from)),
        ScalarValue::Int64(number) => (8, *number),
        _ => (2, None),
    };
    let (old_bytes, old) = whole(&ScalarValue::try_from_array(old, 0)?);
    let (given_bytes, given) = whole(given);
    let Some((old, given)) = old.zip(given) else { return Ok(ScalarValue::Int64(None)) };
    let sum = if off { old.checked_sub(given) } else { old.checked_add(given) };
    let (fits, name) = match old_bytes.max(given_bytes) {
        2 => (sum.is_some_and(|sum| i16::try_from(sum).is_ok()), "smallint"),
        4 => (sum.is_some_and(|sum| i32::try_from(sum).is_ok()), "integer"),
        _ => (sum.is_some(), "bigint"),
    };
    if !fits {
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{name} out of range")));
    }
    Ok(ScalarValue::Int64(sum))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_of_the_wider_type() {
        let sum = |old: ScalarValue, given: ScalarValue, off| match sum(&old.to_array().unwrap(), &given, off) {
            Ok(sum) => sum.to_string(),
            Err(error) => error.message,
        };
        let (two, four, eight) = (ScalarValue::Int16, ScalarValue::Int32, ScalarValue::Int64);
        assert_eq!(sum(two(Some(i16::MAX)), two(Some(1)), false), "smallint out of range");
        assert_eq!(sum(two(Some(i16::MAX)), four(Some(1)), false), "32768");
        assert_eq!(sum(two(Some(1)), four(Some(i32::MAX)), false), "integer out of range");
        assert_eq!(sum(four(Some(i32::MIN)), four(Some(1)), true), "integer out of range");
        assert_eq!(sum(four(Some(i32::MIN)), eight(Some(1)), true), "-2147483649");
        assert_eq!(sum(eight(Some(i64::MIN)), two(Some(-1)), false), "bigint out of range");
        assert_eq!(sum(eight(Some(i64::MIN)), two(Some(-1)), true), "-9223372036854775807");
        assert_eq!([sum(four(None), four(Some(1)), true), sum(eight(Some(1)), eight(None), false)], ["NULL", "NULL"]);
    }
}
