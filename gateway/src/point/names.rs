//! Tables, keys and parameters of a statement in the catalog.

use super::shape::{Comparison, Operand};
use crate::{
    pg::{
        names::RelationName,
        numeric,
        types::{self, ParameterType},
    },
    provider::{self, keys::Keys},
    view::View,
};
use arrow::datatypes::DataType;
use datafusion::{logical_expr::Operator, scalar::ScalarValue};
use keyspan_catalog::{Column, ColumnPlace, Relation, SqlType, Table, Value, table::OnBadKey};
use keyspan_storage::RowSet;
use std::sync::Arc;

/// Parameters of a statement, at most.
const PARAMETERS_MAX: usize = 1 << 16;

/// The types of a statement's parameters as they become known: what the client declared, else that of the column beside
/// it.
pub(super) struct Parameters {
    declared: Vec<Option<ParameterType>>,
    used: Vec<Option<ParameterType>>,
}

impl Parameters {
    pub(super) fn declared(hints: &[Option<ParameterType>]) -> Self {
        Self { declared: hints.to_vec(), used: Vec::new() }
    }

    /// The type of an operand that stands beside a value of type `kind`. `None` where the general way is to decide: a
    /// parameter that stands in two places, or a type that is not plainly the same.
    pub(super) fn beside(&mut self, operand: &Operand, kind: SqlType) -> Option<()> {
        match operand {
            Operand::Literal(literal) => same(kind, &literal.data_type()).then_some(()),
            Operand::Digits(_) | Operand::Default | Operand::Cast(..) | Operand::Now | Operand::Uuid => None,
            Operand::Parameter(number) => {
                let data = self.parameter(*number, ParameterType::of_kind(kind))?;
                same(kind, &data).then_some(())
            }
        }
    }

    /// The same for an operand that goes to a column: numbers without a loss go to numerics, and whole ones to floats.
    pub(super) fn given(&mut self, operand: &Operand, kind: SqlType) -> Option<()> {
        let Operand::Parameter(number) = operand else { return self.beside(operand, kind) };
        let data = self.parameter(*number, ParameterType::of_kind(kind))?;
        let is_whole = matches!(data, DataType::Int16 | DataType::Int32 | DataType::Int64);
        let fits = match kind {
            SqlType::Numeric { .. } | SqlType::Exact(_) => is_whole || numeric::is_exact(&data),
            SqlType::Float8 => is_whole,
            _ => false,
        };
        (fits || same(kind, &data)).then_some(())
    }

    /// The same for an operand that a part of a key is compared with, or that is added to a numeric. Numbers keep all
    /// their digits.
    pub(super) fn compared(&mut self, operand: &Operand, kind: SqlType) -> Option<()> {
        let data = types::data_type(kind);
        match operand {
            Operand::Parameter(number) if numeric::is_numeric(&data) => {
                let data = self.parameter(*number, numeric::EXACT)?;
                numeric::is_exact(&data).then_some(())
            }
            other => self.beside(other, kind),
        }
    }

    /// Whether a cast to a type leaves an operand as it is: a parameter that was declared otherwise may not fit.
    pub(super) fn is_cast_plainly(&self, operand: &Operand, kind: SqlType) -> bool {
        let Operand::Parameter(number) = operand else { return true };
        let declared = self.declared.get(*number).and_then(Option::as_ref);
        declared.is_none_or(|declared| declared.data == types::data_type(kind))
    }

    /// The type of a parameter, which is `else_type` if the client declared none.
    pub(super) fn parameter(&mut self, number: usize, else_type: impl Into<ParameterType>) -> Option<DataType> {
        let known = self.declared.get(number).cloned().flatten().unwrap_or_else(|| else_type.into());
        if number >= PARAMETERS_MAX {
            return None;
        }
        if self.used.len() <= number {
            self.used.resize(number + 1, None);
        }
        let data = known.data.clone();
        self.used[number].replace(known).is_none().then_some(data)
    }

    /// All types; `None` if the type of a parameter is unknown.
    pub(super) fn types(self) -> Option<Vec<ParameterType>> {
        let all: Option<Vec<ParameterType>> = self.used.into_iter().collect();
        all.filter(|all| self.declared.len() <= all.len())
    }
}

/// Whether values of a type of Arrow are compared with a column's, and assigned to it, as they are, or by nothing but
/// their width.
fn same(kind: SqlType, data: &DataType) -> bool {
    let whole = matches!(data, DataType::Int16 | DataType::Int32 | DataType::Int64);
    let text = types::is_text(data);
    match kind {
        SqlType::Int2 | SqlType::Int4 | SqlType::Int8 => whole,
        SqlType::Text | SqlType::Varchar(_) => text,
        // Blanks at the end of what it is compared with mean nothing.
        SqlType::Char(_) => false,
        kind => types::data_type(kind) == *data,
    }
}

/// The table of a name, if nothing is known of it but what this path sees to.
///
/// The fields are all named, so that whoever adds one decides here whether the fast path may pass it over: if not, such
/// a table is not one that this function gives.
pub(super) fn table(view: &View, name: &RelationName) -> Option<Arc<Table>> {
    filled(view, name).filter(|found| !found.has_hidden_key())
}

/// The same of a table that rows are added to: its key may be a number that no column shows.
pub(super) fn filled(view: &View, name: &RelationName) -> Option<Arc<Table>> {
    let Some((_, Relation::Table(found))) = view.find(name) else { return None };
    let Table {
        id: _,
        name: _,
        schema: _,
        physical: _,
        space: _,
        remote: _,
        families: _,
        columns,
        key: _,
        on_bad_value: _,
        on_bad_key,
        history_micros: _,
        // Writes see to these, defaults and identities themselves.
        checks: _,
        next_column_id: _,
        next_family_id: _,
        retired: _,
        erasing: _,
        comments: _,
    } = found.as_ref();
    for column in columns {
        let Column { id: _, name: _, kind: _, not_null: _, place, default: _, identity: _, enumerated, domain: _ } =
            column;
        // The order of labels is not that of keys.
        if enumerated.is_some() && matches!(place, ColumnPlace::Key(_)) {
            return None;
        }
    }
    (*on_bad_key != OnBadKey::Null).then(|| found.clone())
}

/// Comparisons of parts of a key with values.
#[derive(Debug)]
pub(super) struct KeyComparisons {
    keys: Keys,
    comparisons: Vec<(usize, Operator, Operand)>,
    /// How many leading parts are given by a value.
    fixed: usize,
}

impl KeyComparisons {
    /// Leading parts that equal a value, each once; and at most one lower and one upper bound of the part behind them.
    pub(super) fn of(keys: Keys, comparisons: Vec<Comparison>, parameters: &mut Parameters) -> Option<Self> {
        let number = |name: &str| keys.columns().iter().position(|part| part.name == name);
        let mut found: Vec<(usize, Operator, Operand)> = Vec::with_capacity(comparisons.len());
        for (name, op, operand) in comparisons {
            let part = number(&name)?;
            let kind = keys.columns()[part].kind;
            let operand = match operand {
                Operand::Cast(inner, to) if to == kind && parameters.is_cast_plainly(&inner, kind) => {
                    of_type(*inner, kind)
                }
                Operand::Cast(..) => return None,
                operand => of_type(operand, kind),
            };
            parameters.compared(&operand, kind)?;
            let lower = |op: Operator| matches!(op, Operator::Gt | Operator::GtEq);
            let twice = |(of, with, _): &(usize, Operator, Operand)| {
                *of == part && (*with == Operator::Eq || op == Operator::Eq || lower(*with) == lower(op))
            };
            if found.iter().any(twice) {
                return None;
            }
            found.push((part, op, operand));
        }
        let equal = |part: usize| found.iter().any(|(of, op, _)| *of == part && *op == Operator::Eq);
        let fixed = (0..keys.columns().len()).take_while(|part| equal(*part)).count();
        let beyond = found.iter().any(|(part, ..)| *part > fixed);
        (!beyond && !found.is_empty()).then_some(Self { keys, comparisons: found, fixed })
    }

    /// Whether one key is given.
    pub(super) fn is_point(&self) -> bool {
        self.fixed == self.keys.columns().len()
    }

    /// Whether this part is among the leading parts that are fixed.
    pub(super) fn is_fixed(&self, part: usize) -> bool {
        part < self.fixed
    }

    pub(super) fn keys(&self) -> &Keys {
        &self.keys
    }

    /// The keys, with the values of parameters.
    pub(super) fn rows(&self, parameters: &[ScalarValue]) -> Option<RowSet> {
        let mut compared = Vec::with_capacity(self.comparisons.len());
        for (part, op, operand) in &self.comparisons {
            compared.push((*part, *op, operand_value(operand, parameters)?));
        }
        provider::exact_rows(&self.keys, compared)
    }
}

/// A text in quotes as the value of a column's type, where it is one however the session is set; else as it is, for the
/// general way to decide.
fn of_type(operand: Operand, kind: SqlType) -> Operand {
    let Operand::Literal(ScalarValue::Utf8(Some(text))) = &operand else { return operand };
    let plain = |others: &str| {
        let is_plain = |byte: u8| byte.is_ascii_digit() || others.contains(char::from(byte));
        text.starts_with(|first: char| first.is_ascii_digit()) && text.bytes().all(is_plain)
    };
    let (_, behind_hours) = text.split_once(':').unwrap_or_default();
    let has_zone = behind_hours.ends_with('Z') || behind_hours.contains(['+', '-']);
    let is_certain = match kind {
        SqlType::Timestamptz(_) => has_zone && plain("-: T.+Z"),
        SqlType::Timestamp(_) => !has_zone && plain("-: T."),
        SqlType::Date => plain("-"),
        SqlType::Uuid => true,
        _ => false,
    };
    let value = is_certain.then(|| Value::parse(text, kind).ok()).flatten();
    value.map_or(operand, |value| Operand::Literal(types::scalar_of_value(&value, kind)))
}

/// The value of an operand.
pub(super) fn operand_value<'a>(operand: &'a Operand, parameters: &'a [ScalarValue]) -> Option<&'a ScalarValue> {
    match operand {
        Operand::Literal(literal) => Some(literal),
        Operand::Parameter(number) => parameters.get(*number),
        Operand::Digits(_) | Operand::Default | Operand::Cast(..) | Operand::Now | Operand::Uuid => None,
    }
}
