//! ROLLUP and CUBE with elements of several columns, `ROLLUP ((a, b), c)`, as the GROUPING SETS that they stand for:
//! DataFusion knows elements of one.

use crate::error::{Result, SqlError, SqlState};
use datafusion::sql::sqlparser::ast::{Expr, GroupByExpr, Select};

/// Elements of a CUBE, as in PostgreSQL: it stands for two to the power of them.
const CUBE_MAX: usize = 12;

/// Writes out the sets.
///
/// # Errors
/// 54000 for a CUBE of too many elements.
pub(super) fn rewrite(select: &mut Select) -> Result<()> {
    let GroupByExpr::Expressions(groups, _) = &mut select.group_by else { return Ok(()) };
    groups.iter_mut().try_for_each(written_out)
}

fn written_out(by: &mut Expr) -> Result<()> {
    let is_composite = |elements: &[Vec<Expr>]| elements.iter().any(|element| element.len() > 1);
    let sets = match by {
        Expr::Rollup(elements) if is_composite(elements) => {
            (0..=elements.len()).rev().map(|count| elements[..count].concat()).collect()
        }
        Expr::Cube(elements) if is_composite(elements) => {
            if elements.len() > CUBE_MAX {
                let message = format!("CUBE is limited to {CUBE_MAX} elements");
                return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
            }
            let chosen = |set: usize| elements.iter().enumerate().filter(move |(at, _)| set >> at & 1 == 1);
            let set = |set: usize| chosen(set).flat_map(|(_, element)| element.clone()).collect();
            (0..1_usize << elements.len()).rev().map(set).collect()
        }
        _ => return Ok(()),
    };
    *by = Expr::GroupingSets(sets);
    Ok(())
}
