//! Types of parameters: what DataFusion infers, and beyond it `$1::type` and `LIMIT $1`.

use crate::error::{Result, SqlError, SqlState};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::{
    common::tree_node::{Transformed, TreeNode},
    logical_expr::{Cast, Expr, LogicalPlan, expr::Placeholder},
};
use std::sync::Arc;

/// Gives parameters the type of the cast that they stand in, and bigint in LIMIT and OFFSET.
///
/// # Errors
/// DataFusion's.
pub(super) fn infer(plan: LogicalPlan) -> datafusion::error::Result<LogicalPlan> {
    let inferred = plan.transform_up_with_subqueries(|plan| {
        let counts = matches!(plan, LogicalPlan::Limit(_));
        plan.map_expressions(|expr| {
            expr.transform_up(|expr| match expr {
                Expr::Placeholder(Placeholder { id, field: None }) if counts => {
                    Ok(Transformed::yes(typed(id, Arc::new(Field::new("", DataType::Int64, true)))))
                }
                Expr::Cast(Cast { expr, field }) => match *expr {
                    Expr::Placeholder(Placeholder { id, field: None }) => {
                        let inner = Box::new(typed(id, field.clone()));
                        Ok(Transformed::yes(Expr::Cast(Cast::new_from_field(inner, field))))
                    }
                    other => Ok(Transformed::no(Expr::Cast(Cast::new_from_field(Box::new(other), field)))),
                },
                other => Ok(Transformed::no(other)),
            })
        })
    })?;
    Ok(inferred.data)
}

fn typed(id: String, field: FieldRef) -> Expr {
    let field = Arc::new(field.as_ref().clone().with_name(&id));
    Expr::Placeholder(Placeholder::new_with_field(id, Some(field)))
}

/// The types of `$1`, `$2`, … of a plan: those that `hints` declare, else those inferred, else text.
///
/// # Errors
/// 42P18 for a number that is left out, 42P02 for a parameter that is no `$n`.
pub fn parameters(plan: &LogicalPlan, hints: &[Option<DataType>]) -> Result<Vec<DataType>> {
    let mut found: Vec<Option<DataType>> = hints.to_vec();
    hint(plan, &mut found)?;
    let typed = found.into_iter().enumerate().map(|(index, found)| {
        found.ok_or_else(|| {
            let message = format!("could not determine data type of parameter ${}", index + 1);
            SqlError::new(SqlState::INDETERMINATE_DATATYPE, message)
        })
    });
    typed.collect()
}

/// Adds the types that a plan has for parameters of which nothing is known yet; text where it does not tell.
///
/// # Errors
/// 42P02 for a parameter that is no `$n`.
pub(crate) fn hint(plan: &LogicalPlan, found: &mut Vec<Option<DataType>>) -> Result<()> {
    for (name, field) in plan.get_parameter_fields()? {
        let number =
            name.strip_prefix('$').and_then(|number| number.parse::<usize>().ok()).filter(|number| *number > 0);
        let number = number
            .ok_or_else(|| SqlError::new(SqlState::UNDEFINED_PARAMETER, format!("there is no parameter {name}")))?;
        if found.len() < number {
            found.resize(number, None);
        }
        if found[number - 1].is_none() {
            let inferred = field.map(|field| field.data_type().clone());
            found[number - 1] = Some(inferred.unwrap_or(DataType::Utf8View));
        }
    }
    Ok(())
}
