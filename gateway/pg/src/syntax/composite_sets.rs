//! ROLLUP and CUBE with elements of several columns, `ROLLUP ((a, b), c)`, with one twice, or within GROUPING SETS, as
//! the GROUPING SETS that they stand for: DataFusion knows elements of one, and refuses what a set has twice. So does
//! the empty set of `GROUP BY ()`, which changes nothing beside others.

use super::column_names::folded;
use crate::error::{Result, SqlError, SqlState};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, ObjectNamePart, Select,
};

/// Elements of a CUBE, as in PostgreSQL: it stands for two to the power of them.
const CUBE_MAX: usize = 12;

/// Sets of GROUPING SETS with others within, as in PostgreSQL.
const SETS_MAX: usize = 4_096;

/// Writes out the sets.
///
/// # Errors
/// 54000 for a CUBE of too many elements.
pub(super) fn rewrite(select: &mut Select) -> Result<()> {
    let GroupByExpr::Expressions(groups, _) = &mut select.group_by else { return Ok(()) };
    let is_empty = |by: &Expr| matches!(by, Expr::Tuple(columns) if columns.is_empty());
    if groups.iter().any(is_empty) {
        groups.retain(|by| !is_empty(by));
        if groups.is_empty() {
            groups.push(Expr::GroupingSets(vec![Vec::new()]));
        }
    }
    groups.iter_mut().try_for_each(written_out)
}

fn written_out(by: &mut Expr) -> Result<()> {
    let sets = match by {
        Expr::Rollup(elements) if !is_plain(elements) => rolled_up(elements),
        Expr::Cube(elements) if !is_plain(elements) => cubed(elements)?,
        Expr::GroupingSets(sets) => {
            let mut all = Vec::with_capacity(sets.len());
            for set in std::mem::take(sets) {
                match within(&set)? {
                    Some(sets) => all.extend(sets),
                    None => all.push(set),
                }
                if all.len() > SETS_MAX {
                    let message = format!("too many grouping sets present (maximum {SETS_MAX})");
                    return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
                }
            }
            all
        }
        _ => return Ok(()),
    };
    *by = Expr::GroupingSets(sets.into_iter().map(each_once).collect());
    Ok(())
}

fn rolled_up(elements: &[Vec<Expr>]) -> Vec<Vec<Expr>> {
    (0..=elements.len()).rev().map(|count| elements[..count].concat()).collect()
}

fn cubed(elements: &[Vec<Expr>]) -> Result<Vec<Vec<Expr>>> {
    if elements.len() > CUBE_MAX {
        let message = format!("CUBE is limited to {CUBE_MAX} elements");
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
    }
    let chosen = |set: usize| elements.iter().enumerate().filter(move |(at, _)| set >> at & 1 == 1);
    let set = |set: usize| chosen(set).flat_map(|(_, element)| element.clone()).collect();
    Ok((0..1_usize << elements.len()).rev().map(set).collect())
}

/// The sets of a ROLLUP or a CUBE within GROUPING SETS, which the parser takes for calls; `None` for other elements.
fn within(set: &[Expr]) -> Result<Option<Vec<Vec<Expr>>>> {
    let [Expr::Function(Function { name, args: FunctionArguments::List(list), .. })] = set else { return Ok(None) };
    let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else { return Ok(None) };
    let element = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Tuple(columns))) => Some(columns.clone()),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(column)) => Some(vec![column.clone()]),
        _ => None,
    };
    let Some(elements) = list.args.iter().map(element).collect::<Option<Vec<_>>>() else { return Ok(None) };
    match folded(name).as_str() {
        "rollup" if name.quote_style.is_none() => Ok(Some(rolled_up(&elements))),
        "cube" if name.quote_style.is_none() => cubed(&elements).map(Some),
        _ => Ok(None),
    }
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
