//! ROLLUP and CUBE with elements of several columns, `ROLLUP ((a, b), c)`, or with one twice, as the GROUPING SETS that
//! they stand for: DataFusion knows elements of one, and refuses what a set has twice.

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
    let sets = match by {
        Expr::Rollup(elements) if !is_plain(elements) => {
            (0..=elements.len()).rev().map(|count| elements[..count].concat()).collect()
        }
        Expr::Cube(elements) if !is_plain(elements) => {
            if elements.len() > CUBE_MAX {
                let message = format!("CUBE is limited to {CUBE_MAX} elements");
                return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
            }
            let chosen = |set: usize| elements.iter().enumerate().filter(move |(at, _)| set >> at & 1 == 1);
            let set = |set: usize| chosen(set).flat_map(|(_, element)| element.clone()).collect();
            (0..1_usize << elements.len()).rev().map(set).collect()
        }
        Expr::GroupingSets(sets) => std::mem::take(sets),
        _ => return Ok(()),
    };
    *by = Expr::GroupingSets(sets.into_iter().map(each_once).collect());
    Ok(())
}

/// Whether each element is of one column, and none is there twice.
fn is_plain(elements: &[Vec<Expr>]) -> bool {
    let is_new = |at: usize| !elements[..at].contains(&elements[at]);
    (0..elements.len()).all(|at| elements[at].len() == 1 && is_new(at))
}

fn each_once(set: Vec<Expr>) -> Vec<Expr> {
    let mut kept = Vec::with_capacity(set.len());
    set.into_iter().for_each(|by| {
        if !kept.contains(&by) {
            kept.push(by);
        }
    });
    kept
}
