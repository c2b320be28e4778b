//! Changes of rows that are there: what is read of a row, and what its columns are set to.
//!
//! An UPDATE sets columns to values, or adds to them, or writes and deletes cells of an open family; an INSERT whose
//! key is taken may also use the row that was to be inserted (`EXCLUDED`). Read of a row are the columns that something
//! is added to, and those of RETURNING that are not set.

use super::{
    names::{Parameters, operand_value},
    shape::{self, Addend, Named, NewValue, Operand},
    sums::{self, sum},
};
use crate::{
    dml::{
        assign::{assign_scalar, now},
        set::Assignment,
        target::{Place, Target, TargetColumn, marker},
    },
    pg::{
        codec::parse,
        error::{Result, SqlError, SqlState},
        ident::quoted,
        types,
    },
    provider::{self, WantedMaps, decode::Layout},
    view::View,
};
use arrow::array::ArrayRef;
use datafusion::{scalar::ScalarValue, sql::sqlparser::ast::Expr};
use keyspan_catalog::{SqlType, Value};
use keyspan_storage::{Columns, Mutation, Row, RowSet, Scan};
use std::sync::Arc;

/// What is done to a row that is there.
pub(super) struct Change {
    /// Columns by their places, and their new values.
    set: Vec<(usize, New)>,
    old: Old,
}

/// What a statement sets: columns of a table and their new values, which may be made of the row that was to be
/// inserted.
pub(super) struct Set<'a> {
    pub(super) of: &'a Named,
    pub(super) values: Vec<(String, Expr)>,
    pub(super) excluded: bool,
}

/// The columns that are read of a row.
pub(super) struct Old {
    places: Vec<usize>,
    /// None for rows of which only the key is asked.
    layout: Option<(Arc<dyn Layout>, Columns)>,
}

/// A new value of a column.
enum New {
    Given(Operand),
    /// What was to be inserted.
    Excluded,
    /// The sum of a column, by its number among those that are read, and something else.
    Sum {
        of: usize,
        added: Added,
        off: bool,
    },
    /// Cells of an open family, by the operands of the assignment.
    Cells(Assignment, Vec<Operand>),
}

enum Added {
    Operand(Operand),
    /// The column at a place of the row that was to be inserted.
    Excluded(usize),
}

/// The row that is changed, and what its new values are made of.
#[derive(Clone, Copy)]
pub(super) struct Changed<'a> {
    pub(super) target: &'a Target,
    pub(super) view: &'a View,
    pub(super) parameters: &'a [ScalarValue],
    /// The row that was to be inserted; empty for an UPDATE.
    pub(super) excluded: &'a [Value],
    /// Whether the row is returned.
    pub(super) returns: bool,
}

impl Change {
    /// Compiles what columns are set to. `returned` are the places of columns that are asked for.
    pub(super) fn of(
        target: &Target,
        Set { of, values, excluded }: Set<'_>,
        returned: &[usize],
        parameters: &mut Parameters,
        view: &View,
    ) -> Option<Self> {
        let mut read = Vec::new();
        let mut one = |(name, value): (String, Expr)| {
            let at = target.position(&name).ok()?;
            if target.columns[at].is_open() {
                // A map that is returned is read.
                let new = cells(target, (of, at), value, parameters).filter(|_| !returned.contains(&at));
                return Some((at, new?));
            }
            new_value(target, (at, name, of.new_value(&value, excluded)?), &mut read, parameters)
        };
        let set: Vec<(usize, New)> = values.into_iter().map(&mut one).collect::<Option<_>>()?;
        for place in returned {
            if !read.contains(place) && !set.iter().any(|(at, _)| at == place) {
                read.push(*place);
            }
        }
        Some(Self { old: Old::of(target, read, view)?, set })
    }

    /// What is read of the row.
    pub(super) fn old(&self) -> &Old {
        &self.old
    }

    /// The mutations of a row that is there, and the values of its columns afterwards, as far as they are known. `None`
    /// as [`Write::run`](super::write::Write::run) has it.
    ///
    /// # Errors
    /// Those of the values.
    pub(super) fn apply(&self, row: &Row, of: Changed<'_>) -> Result<Option<(Vec<Mutation>, Vec<Value>)>> {
        let Some(old) = self.old.read(row)? else { return Ok(None) };
        let Changed { target, view, parameters, excluded, returns } = of;
        let mut after = if returns { self.old.values(target, &old, view)? } else { Vec::new() };
        let mut mutations = vec![marker()];
        for (at, new) in &self.set {
            let column = &target.columns[*at];
            let assigned =
                |scalar: &ScalarValue| assign_scalar(scalar, &scalar.data_type(), column, view.input.input());
            let value = match new {
                New::Given(operand) => given(operand, column, (view, parameters))?,
                New::Excluded => excluded[*at].clone(),
                New::Sum { of, added, off } => {
                    let old = ScalarValue::try_from_array(&old[*of], 0)?;
                    let sum = match added {
                        Added::Operand(operand) => {
                            sum(&old, operand_value(operand, parameters).ok_or_else(no_value)?, *off)?
                        }
                        Added::Excluded(place) => {
                            let given = types::scalar_of_value(&excluded[*place], target.columns[*place].kind);
                            sum(&old, &given, *off)?
                        }
                    };
                    assigned(&sum)?
                }
                New::Cells(assignment, operands) => {
                    let values =
                        operands.iter().map(|one| operand_value(one, parameters).cloned().ok_or_else(no_value));
                    assignment.change(target, &values.collect::<Result<Vec<_>>>()?, &mut mutations)?;
                    continue;
                }
            };
            // The general way shows the row.
            if returns && value == Value::Null && column.not_null {
                return Ok(None);
            }
            target.check_null(column, &value)?;
            column.set(&value, &mut mutations)?;
            if returns {
                after[*at] = value;
            }
        }
        Ok(Some((mutations, after)))
    }
}

impl Old {
    /// The columns at these places, each once. `None` for what the general way reads.
    pub(super) fn of(target: &Target, places: Vec<usize>, view: &View) -> Option<Self> {
        if places.iter().any(|at| !is_plain(&target.columns[*at])) {
            return None;
        }
        if places.is_empty() {
            return Some(Self { places, layout: None });
        }
        let operator = view.rows.tenant().is_none();
        let all = provider::schema_of(&target.table, operator);
        let indexes =
            places.iter().map(|at| all.index_of(&target.columns[*at].name).ok()).collect::<Option<Vec<_>>>()?;
        let schema = Arc::new(all.project(&indexes).ok()?);
        let layout = provider::row_layout(&target.table, operator, &indexes, schema, &WantedMaps::new());
        Some(Self { places, layout: Some(layout) })
    }

    /// A scan of rows for these columns.
    pub(super) fn scan(&self, rows: RowSet) -> Scan {
        let columns = self.layout.as_ref().map_or_else(|| Columns::Of(Vec::new()), |(_, columns)| columns.clone());
        Scan { columns, keep_empty: true, versions_max: Some(1), ..Scan::of(rows) }
    }

    /// The columns of a row, an array of one value for each; `None` for one that is not shown, for the general way.
    pub(super) fn read(&self, row: &Row) -> Result<Option<Vec<ArrayRef>>> {
        let Some((layout, _)) = &self.layout else { return Ok(Some(Vec::new())) };
        let mut rows = layout.start(1);
        rows.push(row)?;
        let batch = rows.finish()?;
        Ok((batch.num_rows() == 1).then(|| batch.columns().to_vec()))
    }

    /// A value for each column of the table: NULL for those that are not read.
    pub(super) fn values(&self, target: &Target, read: &[ArrayRef], view: &View) -> Result<Vec<Value>> {
        let mut values = vec![Value::Null; target.columns.len()];
        for (at, array) in self.places.iter().zip(read) {
            let scalar = ScalarValue::try_from_array(array, 0)?;
            values[*at] = assign_scalar(&scalar, array.data_type(), &target.columns[*at], view.input.input())?;
        }
        Ok(values)
    }
}

/// A column that is set, and its new value.
fn new_value(
    target: &Target,
    (at, name, value): (usize, String, NewValue),
    read: &mut Vec<usize>,
    parameters: &mut Parameters,
) -> Option<(usize, New)> {
    let column = &target.columns[at];
    if !is_cell(column) || column.identity.is_some() {
        return None;
    }
    let new = match value {
        NewValue::Given(operand) => New::Given(assigned(operand, column.kind, parameters)?),
        NewValue::Excluded(of) => (of == name).then_some(New::Excluded)?,
        NewValue::Sum { of, addend, off } => {
            let source = target.position(&of).ok()?;
            let kind = target.columns[source].kind;
            if !is_cell(&target.columns[source]) || !sums::has(kind) || kind != column.kind {
                return None;
            }
            let added = match addend {
                Addend::Operand(operand) => Added::Operand(sums::operand(operand, kind, parameters)?),
                Addend::Excluded(name) => {
                    let place = target.position(&name).ok()?;
                    (target.columns[place].kind == kind).then_some(Added::Excluded(place))?
                }
            };
            let known = read.iter().position(|known| *known == source);
            let of = known.unwrap_or_else(|| {
                read.push(source);
                read.len() - 1
            });
            New::Sum { of, added, off }
        }
    };
    Some((at, new))
}

/// A change of a map that reads nothing of it.
fn cells(target: &Target, (of, at): (&Named, usize), value: Expr, parameters: &mut Parameters) -> Option<New> {
    let assignment = Assignment::of(target, &quoted(of.name()), at, value).ok()?;
    let operands = assignment.blind_items()?.map(|(item, kind)| {
        let operand = assigned(shape::given(item)?, kind, parameters)?;
        // A key that is NULL is an error of the general way. That a text is no document is said before what is wrong
        // with the map.
        let serves = match (&operand, kind) {
            (Operand::Literal(ScalarValue::Null), SqlType::Text) => false,
            (Operand::Literal(ScalarValue::Utf8(Some(text))), SqlType::Jsonb) => parse::jsonb(text).is_ok(),
            _ => true,
        };
        serves.then_some(operand)
    });
    let operands = operands.collect::<Option<_>>()?;
    Some(New::Cells(assignment, operands))
}

/// Whether it is a cell that a value replaces. What a message holds that its descriptor does not know is read, and
/// kept.
fn is_cell(column: &TargetColumn) -> bool {
    matches!(column.place, Place::Cell { aggregate: None, .. }) && column.message().is_none()
}

/// Whether it is a part of the key, or such a cell.
fn is_plain(column: &TargetColumn) -> bool {
    matches!(column.place, Place::Key(_)) || is_cell(column)
}

/// The value that a column is given.
///
/// # Errors
/// Those of assignment.
pub(super) fn given(
    operand: &Operand,
    column: &TargetColumn,
    (view, parameters): (&View, &[ScalarValue]),
) -> Result<Value> {
    match operand {
        Operand::Now => now(column, view.input.input()),
        Operand::Uuid => Ok(Value::Uuid(uuid::Uuid::new_v4().into_bytes())),
        operand => {
            let scalar = operand_value(operand, parameters).ok_or_else(no_value)?;
            assign_scalar(scalar, &scalar.data_type(), column, view.input.input())
        }
    }
}

/// An operand as it goes to a column of a type, if it does so as on the general way: a parameter of the type, a text or
/// NULL to any, a number to whole numbers, and to others as it is written; the time to a time, a uuid to a uuid.
pub(super) fn assigned(operand: Operand, kind: SqlType, parameters: &mut Parameters) -> Option<Operand> {
    let keeps_digits = matches!(kind, SqlType::Numeric { .. } | SqlType::Exact(_) | SqlType::Float4 | SqlType::Float8);
    match operand {
        Operand::Literal(ScalarValue::Null | ScalarValue::Utf8(_)) => Some(operand),
        Operand::Literal(ScalarValue::Int64(Some(number))) if keeps_digits => {
            Some(Operand::Literal(ScalarValue::Utf8(Some(number.to_string()))))
        }
        Operand::Digits(digits) => keeps_digits.then(|| Operand::Literal(ScalarValue::Utf8(Some(digits)))),
        // A parameter has the type that it is cast to.
        Operand::Cast(inner, to) => {
            let is_text = |kind| matches!(kind, SqlType::Text | SqlType::Varchar(_));
            assigned((to == kind || is_text(to) && is_text(kind)).then_some(*inner)?, to, parameters)
        }
        Operand::Now => matches!(kind, SqlType::Timestamptz(_) | SqlType::Timestamp(_)).then_some(Operand::Now),
        Operand::Uuid => (kind == SqlType::Uuid).then_some(Operand::Uuid),
        Operand::Default => None,
        operand => parameters.given(&operand, kind).map(|()| operand),
    }
}

fn no_value() -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, "a parameter without a value")
}
