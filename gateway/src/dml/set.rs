//! `SET`: the expressions that give columns their new values, and what these do to a row.
//!
//! A column takes a whole value. The column of an open family may also be changed in part, which reads nothing of it:
//!
//! ```text
//! props['a'] = '7'            one cell is written
//! props || '{"a": 7}'         the cells of the object are written
//! props - 'a'                 the cells of the key, or of the keys, are deleted
//! anything else               a whole map: cells that it lacks are deleted, those that it has are written
//! ```
//!
//! The first three may be nested, as in `(props || $1) - 'b'`; they are told by the syntax tree.

use super::{
    assign::{assign, assign_scalar},
    messages, select,
    target::{Place, Target, TargetColumn},
};
use crate::pg::{
    error::{Result, SqlError, SqlState},
    functions::{json::path, subscript_assignment::ELEMENT},
    ident::fold,
    types::ParameterType,
};
use arrow::array::RecordBatch;
use bytes::Bytes;
use datafusion::{
    scalar::ScalarValue,
    sql::sqlparser::ast::{self, BinaryOperator, DataType, Expr, Ident},
};
use keyspan_catalog::{Encoding, SqlType, Value, open_map};
use keyspan_storage::{FamilyName, Mutation, store::delete_column};
use std::collections::BTreeMap;

/// An assignment of a statement.
#[derive(Debug)]
pub(crate) struct Assignment {
    /// The position of the column in the target.
    pub(crate) position: usize,
    /// What its values are made of, in the SELECT beneath the statement.
    pub(crate) items: Vec<Expr>,
    change: Change,
}

#[derive(Debug)]
enum Change {
    /// The one item is the value.
    Value,
    /// The items are those of the steps, which change the map in this order.
    Map(Vec<Step>),
}

/// A change of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The new map, and the old one.
    Replace,
    /// A key, and its value.
    Member,
    /// A map whose members are written.
    Merge,
    /// A key, or an array of keys, whose cells are deleted.
    Remove,
}

impl Step {
    /// The types of its items.
    fn kinds(self) -> &'static [SqlType] {
        match self {
            Self::Replace => &[SqlType::Jsonb, SqlType::Jsonb],
            Self::Member => &[SqlType::Text, SqlType::Jsonb],
            Self::Merge => &[SqlType::Jsonb],
            Self::Remove => &[SqlType::Text],
        }
    }
}

impl Assignment {
    /// The assignment of an expression to the column at a position. `called` is the name by which the statement calls
    /// the target.
    ///
    /// # Errors
    /// None that a statement can cause.
    pub(crate) fn of(target: &Target, called: &Ident, position: usize, value: Expr) -> Result<Self> {
        let column = &target.columns[position];
        if !column.is_open() {
            return Ok(Self { position, items: vec![value], change: Change::Value });
        }
        let (mut items, mut steps) = (Vec::new(), Vec::new());
        if !take_steps(&value, (called, &column.name), &mut items, &mut steps) {
            items = vec![value, select::column(called, &column.name)];
            steps = vec![Step::Replace];
        }
        let kinds = steps.iter().flat_map(|step| step.kinds());
        for (item, kind) in items.iter_mut().zip(kinds) {
            // A parameter takes its type from here: Arrow has no type for jsonb.
            if *kind == SqlType::Jsonb && select::parameter(item).is_some() {
                *item = select::cast(item.clone(), *kind)?;
            }
        }
        Ok(Self { position, items, change: Change::Map(steps) })
    }

    /// Gives the parameters that are assigned as they are their types.
    pub(crate) fn hint(&self, hints: &mut Vec<Option<ParameterType>>, target: &Target) {
        match &self.change {
            Change::Value => select::hint(hints, &self.items[0], target.columns[self.position].kind),
            Change::Map(steps) => {
                let kinds = steps.iter().flat_map(|step| step.kinds());
                for (item, kind) in self.items.iter().zip(kinds) {
                    // As `of` writes a parameter.
                    let item = if let Expr::Cast { expr, data_type: DataType::JSONB, .. } = item { expr } else { item };
                    select::hint(hints, item, *kind);
                }
            }
        }
    }

    /// The number of items.
    pub(crate) fn width(&self) -> usize {
        match &self.change {
            Change::Value => 1,
            Change::Map(steps) => steps.iter().map(|step| step.kinds().len()).sum(),
        }
    }

    /// The items of a change of a map that reads nothing of it, with their types; `None` for another assignment.
    pub(crate) fn blind_items(&self) -> Option<impl Iterator<Item = (&Expr, SqlType)>> {
        let Change::Map(steps) = &self.change else { return None };
        let kinds = steps.iter().flat_map(|step| step.kinds()).copied();
        (!steps.contains(&Step::Replace)).then(|| self.items.iter().zip(kinds))
    }

    /// Whether it sets a part of the key.
    pub(crate) fn is_of_key(&self, target: &Target) -> bool {
        matches!(target.columns[self.position].place, Place::Key(_))
    }

    /// Puts the new value among the parts of the key of a row whose items begin at a column of the batch, if it is one.
    ///
    /// # Errors
    /// Those of assignment.
    pub(crate) fn set_part(
        &self,
        target: &Target,
        (batch, from, row): (&RecordBatch, usize, usize),
        parts: &mut [Value],
    ) -> Result<()> {
        let column = &target.columns[self.position];
        if let Place::Key(part) = column.place {
            parts[part] = assign(batch.column(from), row, column, target.input.input())?;
        }
        Ok(())
    }

    /// Adds the mutations of a row whose items begin at a column of the batch; whether the new value is a message that
    /// keeps what its descriptor does not know ([`messages`]). With `after`, the row's values as they
    /// were, which get the new one; without, a NULL in a column that has none is refused.
    ///
    /// # Errors
    /// Those of assignment; 23502; 22023, 22004 and 54000 for what an open family does not take.
    pub(crate) fn apply(
        &self,
        target: &Target,
        (batch, from, row): (&RecordBatch, usize, usize),
        after: Option<&mut Vec<Value>>,
        mutations: &mut Vec<Mutation>,
    ) -> Result<bool> {
        let column = &target.columns[self.position];
        if let (Change::Map(steps), Place::Open { family, encoding, .. }) = (&self.change, &column.place) {
            let items = (from..from + self.width()).map(|at| ScalarValue::try_from_array(batch.column(at), row));
            let changes = MapChanges::of((target, column), steps, &items.collect::<Result<Vec<_>, _>>()?)?;
            if let Some(after) = after {
                after[self.position] = changes.applied(&after[self.position], encoding)?;
            }
            changes.push(family, mutations);
            return Ok(false);
        }
        let value = assign(batch.column(from), row, column, target.input.input())?;
        if after.is_none() {
            target.check_null(column, &value)?;
        }
        column.set(&value, mutations)?;
        let keeps_unknown = messages::keeps_unknown(column, &value);
        if let Some(after) = after {
            after[self.position] = value;
        }
        Ok(keeps_unknown)
    }

    /// Adds the mutations of a change of a map whose items have these values.
    ///
    /// # Errors
    /// 22023, 22004 and 54000 for what an open family does not take; those of assignment.
    pub(crate) fn change(&self, target: &Target, items: &[ScalarValue], mutations: &mut Vec<Mutation>) -> Result<()> {
        let column = &target.columns[self.position];
        if let (Change::Map(steps), Place::Open { family, .. }) = (&self.change, &column.place) {
            MapChanges::of((target, column), steps, items)?.push(family, mutations);
        }
        Ok(())
    }
}

/// Takes an expression apart into steps from the old map; false if it is none of the forms that change it in part.
fn take_steps(expr: &Expr, of: (&Ident, &str), items: &mut Vec<Expr>, steps: &mut Vec<Step>) -> bool {
    match expr {
        Expr::Nested(inner) => take_steps(inner, of, items, steps),
        Expr::Identifier(name) => fold(name) == of.1,
        Expr::CompoundIdentifier(parts) => {
            matches!(parts.as_slice(), [table, name] if fold(table) == fold(of.0) && fold(name) == of.1)
        }
        Expr::BinaryOp { left, op: BinaryOperator::StringConcat, right } => {
            take_steps(left, of, items, steps) && {
                items.push(right.as_ref().clone());
                steps.push(Step::Merge);
                true
            }
        }
        Expr::BinaryOp { left, op: BinaryOperator::Minus, right } => {
            take_steps(left, of, items, steps) && {
                items.push(right.as_ref().clone());
                steps.push(Step::Remove);
                true
            }
        }
        Expr::Function(function) if function.name.to_string() == ELEMENT => {
            let Some([old, key, value]) = arguments(function) else { return false };
            take_steps(old, of, items, steps) && {
                items.extend([key.clone(), value.clone()]);
                steps.push(Step::Member);
                true
            }
        }
        _ => false,
    }
}

fn arguments(function: &ast::Function) -> Option<[&Expr; 3]> {
    let ast::FunctionArguments::List(list) = &function.args else { return None };
    let all = list.args.iter().map(|argument| match argument {
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    });
    all.collect::<Option<Vec<_>>>()?.try_into().ok()
}

/// What becomes of cells of an open family, by qualifier: a value, or none.
struct MapChanges(BTreeMap<Bytes, Option<Bytes>>);

impl MapChanges {
    /// What steps with these items do.
    fn of((target, column): (&Target, &TargetColumn), steps: &[Step], items: &[ScalarValue]) -> Result<Self> {
        let assigned = |item: &ScalarValue| assign_scalar(item, &item.data_type(), column, target.input.input());
        let (mut changes, mut rest) = (BTreeMap::new(), items);
        for step in steps {
            let (of, behind) = rest.split_at(step.kinds().len());
            rest = behind;
            match (step, of) {
                (Step::Replace, [new, old]) => {
                    let keys = column.members(&assigned(old)?)?;
                    changes.extend(keys.keys().filter_map(|key| Some((open_map::qualifier_of(key)?, None))));
                    changes.extend(column.cells(&assigned(new)?)?.map_values());
                }
                (Step::Merge, [map]) => {
                    let map = assigned(map)?;
                    if map == Value::Null {
                        return Err(null_operand("||", &column.name));
                    }
                    changes.extend(column.cells(&map)?.map_values());
                }
                (Step::Member, [key, value]) => {
                    let key = text(key).ok_or_else(|| {
                        let message = "jsonb subscript in assignment must not be null";
                        SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message)
                    })?;
                    let value = match assigned(value)? {
                        Value::Text(json) => json,
                        // As PostgreSQL assigns NULL to a part of jsonb.
                        _ => "null".to_owned(),
                    };
                    let value = serde_json::from_str(&value).map_err(|error| SqlError::syntax(error.to_string()))?;
                    let (qualifier, value) = column.cell(&key, &value)?;
                    changes.insert(qualifier, Some(value));
                }
                (Step::Remove, [of]) => {
                    for key in keys(of, &column.name)? {
                        let Some(qualifier) = open_map::qualifier_of(&key) else { continue };
                        if column.hides(&qualifier).is_none() {
                            changes.insert(qualifier, None);
                        }
                    }
                }
                _ => return Err(SqlError::new(SqlState::INTERNAL_ERROR, "a step without its items")),
            }
        }
        Ok(Self(changes))
    }

    /// The map after the changes.
    fn applied(&self, old: &Value, encoding: &Encoding) -> Result<Value> {
        let mut members = match old {
            Value::Text(map) => open_map::members(map)?,
            _ => serde_json::Map::new(),
        };
        for (qualifier, value) in &self.0 {
            let key = open_map::key_of(qualifier);
            match value {
                None => drop(members.remove(key.as_ref())),
                Some(value) => {
                    let json = open_map::decode(value, encoding)?;
                    let json = serde_json::from_str(&json).map_err(|error| SqlError::syntax(error.to_string()))?;
                    members.insert(key.into_owned(), json);
                }
            }
        }
        Ok(Value::parse(&serde_json::Value::Object(members).to_string(), SqlType::Jsonb)?)
    }

    fn push(self, family: &FamilyName, mutations: &mut Vec<Mutation>) {
        mutations.extend(self.0.into_iter().map(|(qualifier, value)| match value {
            None => delete_column(family.clone(), qualifier),
            Some(value) => Mutation::SetCell { family: family.clone(), qualifier, timestamp: None, value },
        }));
    }
}

/// Cells of an open family: qualifiers and values.
pub(crate) struct Cells(pub(crate) Vec<(Bytes, Bytes)>);

impl Cells {
    fn map_values(self) -> impl Iterator<Item = (Bytes, Option<Bytes>)> {
        self.0.into_iter().map(|(qualifier, value)| (qualifier, Some(value)))
    }
}

/// The text of a key; `None` for NULL.
fn text(key: &ScalarValue) -> Option<String> {
    if key.data_type().is_integer() {
        // As PostgreSQL subscripts an object: the number is the key's text.
        return (!key.is_null()).then(|| key.to_string());
    }
    key.try_as_str().flatten().map(str::to_owned)
}

/// The keys that are removed: one, or those of an array.
fn keys(of: &ScalarValue, column: &str) -> Result<Vec<String>> {
    if of.is_null() {
        return Err(null_operand("-", column));
    }
    if of.data_type().is_integer() {
        let message = "cannot delete from object using integer index";
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    match of.try_as_str().flatten() {
        Some(key) => Ok(vec![key.to_owned()]),
        None => Ok(path(of)?),
    }
}

/// 22004 for `NULL` beside an operator, where PostgreSQL would make the whole map NULL: all cells would be lost.
fn null_operand(operator: &str, column: &str) -> SqlError {
    let message = format!("the operand of {operator} for open family \"{column}\" must not be null");
    SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message)
        .with_hint(format!("SET {column} = NULL deletes all of its columns; coalesce(…, '{{}}') changes nothing."))
}
