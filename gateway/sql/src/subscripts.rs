//! `SET a[1] = x`, `SET a[2:3] = …`: assignments to parts of a column, rewritten to assignments of the whole column.
//!
//! [`TokenReader`] cuts the subscripts out before sqlparser reads the statement. The new value becomes a call of a
//! function with the column's old value; the calls for several parts of one column are nested. Several subscripts are a
//! path into jsonb.

use crate::tokens::{TokenReader, subscripts::Subscripts};
use datafusion::sql::sqlparser::ast::{AccessExpr, Assignment, AssignmentTarget, Expr, Ident, Subscript};
use keyspan_pg::{
    error::{Result, SqlError, SqlState},
    functions::subscript_assignment::{AT_PATH, ELEMENT, OPEN, SLICE},
    ident::fold,
    syntax::build::{call, parsed_expr},
};

/// The subscripts that were cut out of a statement.
pub(crate) struct AssignedSubscripts(Vec<Subscripts>);

impl AssignedSubscripts {
    /// Cuts the subscripts out of the tokens that are not read yet.
    pub(crate) fn cut(tokens: &mut TokenReader<'_>, is_update: bool) -> Result<Self> {
        tokens.cut_subscripts(is_update).map(Self)
    }

    /// Rewrites the assignments that have subscripts; `table` is the name before the columns whose old values are read.
    ///
    /// # Errors
    /// 0A000 for several dimensions and for `DEFAULT`.
    pub(crate) fn put(&self, assignments: &mut Vec<Assignment>, table: Option<&Ident>) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        let mut whole: Vec<(Assignment, bool)> = Vec::with_capacity(assignments.len());
        for mut assignment in std::mem::take(assignments) {
            let Some((name, subscripts)) = self.of(&assignment) else {
                whole.push((assignment, false));
                continue;
            };
            let earlier = whole.iter_mut().find(|(other, is_part)| *is_part && is_of(other, &name));
            let old = match (&earlier, table) {
                (Some((other, _)), _) => other.value.clone(),
                (None, Some(table)) => Expr::CompoundIdentifier(vec![table.clone(), name.clone()]),
                (None, None) => Expr::Identifier(name.clone()),
            };
            let value = assigned(old, &subscripts.all, assignment.value)?;
            match earlier {
                Some((other, _)) => other.value = value,
                None => {
                    assignment.value = value;
                    whole.push((assignment, true));
                }
            }
        }
        *assignments = whole.into_iter().map(|(assignment, _)| assignment).collect();
        Ok(())
    }

    /// The column of an assignment with its subscripts, if it has any.
    fn of(&self, assignment: &Assignment) -> Option<(Ident, &Subscripts)> {
        let AssignmentTarget::ColumnName(name) = &assignment.target else { return None };
        let name = name.0.first()?.as_ident()?;
        let found = self.0.iter().find(|subscripts| subscripts.column == name.span)?;
        Some((name.clone(), found))
    }
}

fn is_of(assignment: &Assignment, name: &Ident) -> bool {
    match &assignment.target {
        AssignmentTarget::ColumnName(other) => {
            other.0.first().and_then(|part| part.as_ident()).is_some_and(|other| fold(other) == fold(name))
        }
        AssignmentTarget::Tuple(_) => false,
    }
}

fn assigned(old: Expr, subscripts: &[AccessExpr], value: Expr) -> Result<Expr> {
    if let Expr::Identifier(name) = &value
        && name.quote_style.is_none()
        && name.value.eq_ignore_ascii_case("default")
    {
        let message = "cannot set an array element to DEFAULT";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    let bound = |written: &Option<Expr>, open: i64| match written {
        Some(bound) => Ok(bound.clone()),
        None => parsed_expr(&format!("({open})")),
    };
    let [AccessExpr::Subscript(subscript)] = subscripts else {
        // Of jsonb; the function refuses arrays.
        let keys = subscripts.iter().map(|access| match access {
            AccessExpr::Subscript(Subscript::Index { index }) => Ok(index.clone()),
            _ => Err(SqlError::unsupported("an assignment to an item of an array of several dimensions")),
        });
        return Ok(call(AT_PATH, [old, value].into_iter().chain(keys.collect::<Result<Vec<_>>>()?)));
    };
    Ok(match subscript {
        Subscript::Index { index } => call(ELEMENT, [old, index.clone(), value]),
        Subscript::Slice { lower_bound, upper_bound, .. } => {
            call(SLICE, [old, bound(lower_bound, OPEN.0)?, bound(upper_bound, OPEN.1)?, value])
        }
    })
}
