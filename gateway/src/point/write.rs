//! `INSERT` of values and blind upserts, `UPDATE` and `DELETE` by the whole key. An INSERT has defaults that need not
//! be computed, and returns columns; an UPDATE sets values, or adds whole numbers to columns.
//!
//! Values are assigned, rows are checked and mutations are made by [`dml`](crate::dml), in the order of the general
//! way: it reports the same one of several errors.

use super::{
    names::{self, KeyComparisons, Parameters, operand_value},
    shape::{self, ChangeShape, NewValue, Operand},
};
use crate::{
    context::StatementContext,
    dml::{
        assign::assign_scalar,
        defaults::Defaults,
        insert::{called, new_row, numbers, put_blindly, put_new, resolve},
        returning::{Returned, field},
        target::{Place, Target, TargetColumn, marker},
        upsert,
    },
    pg::{
        error::{Result, SqlError, SqlState},
        ident::fold,
    },
    provider::{self, decode::Layout, keys::Keys},
    sql::write::{OnConflict, on_conflict},
    view::View,
    write_set::WriteSet,
};
use arrow::{
    array::ArrayRef,
    datatypes::{Schema, SchemaRef},
};
use datafusion::{
    execution::SendableRecordBatchStream,
    scalar::ScalarValue,
    sql::sqlparser::ast::{self, SelectItem},
};
use futures::TryStreamExt;
use keyspan_catalog::{SqlType, Table, Value, table::Identity};
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
    Insert(Box<Insert>),
    Update { key: KeyComparisons, set: Set },
    Delete { key: KeyComparisons },
}

/// New rows.
struct Insert {
    /// The places of the columns that are given.
    given: Vec<usize>,
    key_places: Vec<usize>,
    rows: Vec<Vec<Operand>>,
    taken: Taken,
    /// Whether columns that are not given have defaults.
    has_defaults: bool,
    /// The places of the columns that are returned, and what they are called.
    returned: Option<(Vec<usize>, SchemaRef)>,
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
            How::Insert(_) => "INSERT",
            How::Update { .. } => "UPDATE",
            How::Delete { .. } => "DELETE",
        };
        write!(f, "{how} {}", self.target.table.name)
    }
}

impl Write {
    /// Compiles an INSERT.
    pub(super) fn insert(insert: &ast::Insert, parameters: &mut Parameters, view: &View) -> Option<Self> {
        let mut rows = shape::insert(insert)?;
        let (target, named) = resolve(view, insert).ok()?;
        names::filled(view, &target.name())?;
        let width = rows.first().filter(|_| rows.len() <= ROWS_MAX)?.len();
        let fits = if insert.columns.is_empty() { (1..=named.len()).contains(&width) } else { width == named.len() };
        if target.has_conditions() || !fits || rows.iter().any(|row| row.len() != width) {
            return None;
        }
        // A column that has its default in all rows is one that is not named.
        let is_default = |at: usize| rows.iter().all(|row| row[at] == Operand::Default);
        let kept: Vec<usize> = (0..width).filter(|at| !is_default(*at)).collect();
        let given: Vec<usize> = kept.iter().map(|at| named[*at]).collect();
        let always = |at: &usize| target.columns[*at].identity == Some(Identity::Always);
        if given.iter().any(always) || !Defaults::are_plain(&target, &given) {
            return None;
        }
        for row in &mut rows {
            let kept = kept.iter().zip(&given);
            *row = kept
                .map(|(at, to)| assigned(row[*at].clone(), target.columns[*to].kind, parameters))
                .collect::<Option<_>>()?;
        }
        // DataFusion gives all rows of a column one type.
        let kind_of = |operand: &Operand| match operand {
            Operand::Literal(ScalarValue::Null) => None,
            Operand::Literal(literal) => Some(Some(literal.data_type())),
            _ => Some(None),
        };
        let alike = |at: usize| {
            let mut kinds = rows.iter().filter_map(|row| kind_of(&row[at]));
            let first = kinds.next();
            kinds.all(|kind| Some(&kind) == first.as_ref())
        };
        if !(0..given.len()).all(alike) {
            return None;
        }
        let others = target.columns.iter().enumerate().filter(|(at, _)| !given.contains(at));
        let has_defaults = others.into_iter().any(|(_, column)| column.default.is_some());
        let called = called(insert, &target);
        let conflict = on_conflict(insert).ok()?;
        upsert::check_target(&target, &conflict).ok()?;
        let taken = match &conflict {
            OnConflict::Fail => Taken::Fail,
            OnConflict::Nothing { .. } => Taken::Skip,
            // A row that is new has its defaults, and one that is there keeps what it has.
            OnConflict::Update { .. }
                if !has_defaults
                    && insert.returning.is_none()
                    && upsert::is_blind(&target, &called, &given, &conflict) =>
            {
                Taken::Overwrite
            }
            OnConflict::Update { .. } => return None,
        };
        let returned = match &insert.returning {
            None => None,
            Some(items) => Some(returned(&target, items, &fold(&called))?),
        };
        let key_places = target.key_places().ok()?;
        let how = How::Insert(Box::new(Insert { given, key_places, rows, taken, has_defaults, returned }));
        Some(Self { target, how })
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
                NewValue::Given(operand) => Some((at, assigned(operand, column.kind, parameters)?, None)),
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

    /// The columns of its RETURNING.
    pub(super) fn columns(&self) -> Option<&SchemaRef> {
        match &self.how {
            How::Insert(insert) => insert.returned.as_ref().map(|(_, schema)| schema),
            How::Update { .. } | How::Delete { .. } => None,
        }
    }

    /// Whether it needs to know what a statement knows: the time, sequences, numbers of rows.
    pub(super) fn asks_context(&self) -> bool {
        matches!(&self.how, How::Insert(insert) if insert.has_defaults || self.target.hidden_key.is_some())
    }

    /// What it writes, how many rows, and those of RETURNING. `None` when the values are such that the general way has
    /// to see to them.
    pub(super) async fn run(
        &self,
        view: &View,
        parameters: &[ScalarValue],
        context: Option<Arc<StatementContext>>,
    ) -> Result<Option<(WriteSet, u64, Option<SendableRecordBatchStream>)>> {
        let (rows, set) = match &self.how {
            How::Insert(insert) => return self.put(insert, view, parameters, context).await.map(Some),
            How::Update { key, set } => (key.rows(parameters), Some(set)),
            How::Delete { key } => (key.rows(parameters), None),
        };
        let Some(rows) = rows else { return Ok(None) };
        let changed = self.change(rows, set, view, parameters).await?;
        Ok(changed.map(|(writes, count)| (writes, count, None)))
    }

    async fn put(
        &self,
        insert: &Insert,
        view: &View,
        parameters: &[ScalarValue],
        context: Option<Arc<StatementContext>>,
    ) -> Result<(WriteSet, u64, Option<SendableRecordBatchStream>)> {
        let target = &self.target;
        let numbers = context.as_deref().map(numbers);
        let defaults = match context.filter(|_| insert.has_defaults) {
            Some(context) => Some(Defaults::of_plain(context, target, &insert.given)?),
            None => None,
        };
        let mut new = Vec::with_capacity(insert.rows.len());
        for (number, row) in insert.rows.iter().enumerate() {
            let mut values = vec![Value::Null; target.columns.len()];
            if let Some(defaults) = &defaults {
                defaults.fill(&mut values)?;
            }
            for (operand, at) in row.iter().zip(&insert.given) {
                values[*at] = self.value(*at, operand, parameters, view)?;
            }
            let parts = match &numbers {
                Some(numbers) => target.new_parts(&insert.key_places, &values, numbers),
                None => insert.key_places.iter().map(|at| values[*at].clone()).collect(),
            };
            new.push(new_row(view, target, parts, values, number as u64)?);
        }
        let (mut written, mut seen) = (WriteSet::counted(view.memory.clone()), HashSet::new());
        let mut returned = Returned::plain(insert.returned.is_some());
        let count = match insert.taken {
            Taken::Overwrite => put_blindly(target, &insert.given, new, &mut seen, &mut written)?,
            Taken::Fail | Taken::Skip => {
                let skip = insert.taken == Taken::Skip;
                put_new((view, target), new, skip, &mut seen, (&mut written, &mut returned)).await?
            }
        };
        let rows = match &insert.returned {
            Some((places, schema)) => Some(returned.columns(target, places, schema)?),
            None => None,
        };
        Ok((written, count, rows))
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
    target.has_conditions() || target.columns.iter().any(|column| column.identity.is_some())
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

/// An operand as it goes to a column of a type, if it does so as on the general way: a parameter of the type, a text or
/// NULL to any, a number to whole numbers, and to others as it is written.
fn assigned(operand: Operand, kind: SqlType, parameters: &mut Parameters) -> Option<Operand> {
    let keeps_digits = matches!(kind, SqlType::Numeric { .. } | SqlType::Exact(_) | SqlType::Float4 | SqlType::Float8);
    match operand {
        Operand::Literal(ScalarValue::Null | ScalarValue::Utf8(_)) => Some(operand),
        Operand::Literal(ScalarValue::Int64(Some(number))) if keeps_digits => {
            Some(Operand::Literal(ScalarValue::Utf8(Some(number.to_string()))))
        }
        Operand::Digits(digits) => keeps_digits.then(|| Operand::Literal(ScalarValue::Utf8(Some(digits)))),
        Operand::Default => None,
        operand => parameters.beside(&operand, kind).map(|()| operand),
    }
}

/// The places of the columns that a RETURNING names, and what it calls them. `None` for what it computes.
fn returned(target: &Target, items: &[SelectItem], called: &str) -> Option<(Vec<usize>, SchemaRef)> {
    if target.columns.iter().any(TargetColumn::is_aggregate) {
        return None;
    }
    let all: Vec<&str> = target.columns.iter().map(|column| column.name.as_str()).collect();
    let items = shape::returned(items, called, &all)?;
    let places = items.iter().map(|(column, _)| target.position(column).ok()).collect::<Option<Vec<_>>>()?;
    let fields = places.iter().zip(items).map(|(at, (_, name))| field(&target.columns[*at]).with_name(name));
    Some((places.clone(), Arc::new(Schema::new(fields.collect::<Vec<_>>()))))
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
