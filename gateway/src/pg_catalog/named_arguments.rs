//! `jsonb_path_query(target => t, path => '$.a', silent => true)`: arguments by their names, put in order.
//!
//! What the arguments of PostgreSQL's functions are called, and what those are that may be left out, the list of
//! functions says ([`procs`]). A call whose names fit none of them is left to the planner, which refuses it.

use super::procs;
use crate::pg::{ident::fold, syntax::dialect::parse_text};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArgOperator, FunctionArguments, ObjectName, Statement,
    TableFactor, VisitMut, VisitorMut,
};
use std::ops::ControlFlow;

/// Puts the arguments of all calls in order.
pub(crate) fn rewrite(statement: &mut Statement) {
    let flow = VisitMut::visit(statement, &mut InOrder);
    debug_assert!(flow.is_continue(), "nothing breaks off");
}

struct InOrder;

impl VisitorMut for InOrder {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = expr
            && let FunctionArguments::List(list) = &mut function.args
        {
            put_in_order(&function.name, &mut list.args);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { name, args: Some(list), .. } => put_in_order(name, &mut list.args),
            TableFactor::Function { name, args, .. } => put_in_order(name, args),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// The name and the value of an argument that has one.
fn named(argument: &FunctionArg) -> Option<(String, &FunctionArgExpr)> {
    match argument {
        FunctionArg::Named { name, arg, .. } => Some((fold(name), arg)),
        FunctionArg::ExprNamed { name: Expr::Identifier(name), arg, .. } => Some((fold(name), arg)),
        _ => None,
    }
}

/// `name := value` as `name => value`.
fn assigned(argument: &mut FunctionArg) {
    if let FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::BinaryOp { left, op: BinaryOperator::Assignment, right })) =
        argument
        && let Expr::Identifier(name) = left.as_ref()
    {
        *argument = FunctionArg::Named {
            name: name.clone(),
            arg: FunctionArgExpr::Expr(right.as_ref().clone()),
            operator: FunctionArgOperator::RightArrow,
        };
    }
}

fn put_in_order(name: &ObjectName, arguments: &mut Vec<FunctionArg>) {
    arguments.iter_mut().for_each(assigned);
    if arguments.iter().all(|argument| named(argument).is_none()) {
        return;
    }
    let path: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(fold).collect();
    let function = match path.as_slice() {
        [function] => function,
        [schema, function] if schema == "pg_catalog" => function,
        _ => return,
    };
    if let Some(ordered) = procs::arguments_of(function).find_map(|known| in_order(&known, arguments)) {
        *arguments = ordered;
    }
}

/// The arguments in the order in which a function has them, up to the last that is given; `None` where they do not fit.
fn in_order(known: &[procs::Argument], given: &[FunctionArg]) -> Option<Vec<FunctionArg>> {
    let mut slots: Vec<Option<FunctionArg>> = vec![None; known.len()];
    for (at, argument) in given.iter().enumerate() {
        let (place, argument) = match named(argument) {
            Some((name, value)) => {
                (known.iter().position(|known| known.name == name)?, FunctionArg::Unnamed(value.clone()))
            }
            None => (at, argument.clone()),
        };
        let slot = slots.get_mut(place)?;
        if slot.replace(argument).is_some() {
            return None;
        }
    }
    let last = slots.iter().rposition(Option::is_some)?;
    // Those behind the last have to have defaults, too, though nothing is written for them.
    if known[last + 1..].iter().any(|known| known.default.is_none()) {
        return None;
    }
    slots.truncate(last + 1);
    let filled = slots.into_iter().zip(known).map(|(slot, known)| match slot {
        Some(argument) => Some(argument),
        None => {
            let default = parse_text(known.default?, |parser| parser.parse_expr()).ok()?;
            Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(default)))
        }
    });
    filled.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_have_the_order_of_the_function() {
        let of = |sql: &str| {
            let mut statement = parse_text(sql, |parser| parser.parse_statement()).unwrap();
            rewrite(&mut statement);
            statement.to_string()
        };
        for (sql, expected) in [
            ("SELECT make_interval(days => 10)", "SELECT make_interval(0, 0, 0, 10)"),
            ("SELECT make_interval(1, hours => 2)", "SELECT make_interval(1, 0, 0, 0, 2)"),
            ("SELECT parse_ident(strict => false, str => 'a')", "SELECT parse_ident('a', false)"),
            ("SELECT jsonb_path_exists(path => '$', target => j) FROM t", "SELECT jsonb_path_exists(j, '$') FROM t"),
            // What does not fit is as it was.
            ("SELECT make_interval(nothing => 10)", "SELECT make_interval(nothing => 10)"),
            ("SELECT make_interval(1, years => 10)", "SELECT make_interval(1, years => 10)"),
            ("SELECT parse_ident(strict => false)", "SELECT parse_ident(strict => false)"),
            ("SELECT f(a => 1)", "SELECT f(a => 1)"),
        ] {
            assert_eq!(of(sql), expected);
        }
        let silent = "SELECT jsonb_path_exists(j, '$', silent => true)";
        assert_eq!(of(silent), "SELECT jsonb_path_exists(j, '$', '{}'::JSONB, true)");
    }
}
