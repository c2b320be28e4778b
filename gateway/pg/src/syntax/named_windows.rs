//! Windows of the WINDOW clause that others begin with: `OVER (w ROWS 2 PRECEDING)`, `v AS (w ORDER BY a)`.
//!
//! sqlparser reads the name and DataFusion passes over it, so that `sum(a) OVER (w)` would be a sum over all rows: what
//! the named window says is written out here. `OVER w`, without brackets, DataFusion knows.

use crate::{
    error::{Result, SqlError, SqlState},
    ident::fold,
};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, Ident, NamedWindowDefinition, NamedWindowExpr, OrderByKind, Query, Select, SelectItem, SetExpr,
    VisitMut, VisitorMut, WindowSpec, WindowType,
};
use std::ops::ControlFlow;

/// Windows by their names, with what they begin with written out.
type Windows = Vec<(String, WindowSpec)>;

/// Writes out the windows of a select.
///
/// # Errors
/// 42704 for a name of none, 42P20 for a window that contradicts what it begins with.
pub(super) fn rewrite(select: &mut Select) -> Result<()> {
    let windows = windows(&select.named_window)?;
    for NamedWindowDefinition(name, window) in &mut select.named_window {
        let name = fold(name);
        if let NamedWindowExpr::WindowSpec(spec) = window
            && let Some((_, whole)) = windows.iter().find(|(of, _)| *of == name)
        {
            *spec = whole.clone();
        }
    }
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            write_out(expr, &windows)?;
        }
    }
    Ok(())
}

/// Writes out the windows in the ORDER BY of a select.
///
/// # Errors
/// As [`rewrite`].
pub(super) fn order_by(query: &mut Query) -> Result<()> {
    let SetExpr::Select(select) = query.body.as_ref() else { return Ok(()) };
    let Some(order) = &mut query.order_by else { return Ok(()) };
    let OrderByKind::Expressions(orders) = &mut order.kind else { return Ok(()) };
    let windows = windows(&select.named_window)?;
    orders.iter_mut().try_for_each(|order| write_out(&mut order.expr, &windows))
}

fn windows(definitions: &[NamedWindowDefinition]) -> Result<Windows> {
    let mut windows: Windows = Vec::with_capacity(definitions.len());
    for NamedWindowDefinition(name, window) in definitions {
        let mut spec = match window {
            NamedWindowExpr::WindowSpec(spec) => spec.clone(),
            NamedWindowExpr::NamedWindow(of) => named(of, &windows)?.clone(),
        };
        complete(&mut spec, &windows)?;
        windows.push((fold(name), spec));
    }
    Ok(windows)
}

fn named<'a>(name: &Ident, windows: &'a Windows) -> Result<&'a WindowSpec> {
    let name = fold(name);
    let found = windows.iter().find(|(of, _)| *of == name).map(|(_, spec)| spec);
    found.ok_or_else(|| SqlError::new(SqlState::UNDEFINED_OBJECT, format!("window \"{name}\" does not exist")))
}

/// Puts what a window begins with into it.
fn complete(spec: &mut WindowSpec, windows: &Windows) -> Result<()> {
    let Some(name) = spec.window_name.take() else { return Ok(()) };
    let base = named(&name, windows)?;
    let wrong = |message: String| Err(SqlError::new(SqlState::WINDOWING_ERROR, message));
    let name = fold(&name);
    if !spec.partition_by.is_empty() {
        return wrong(format!("cannot override PARTITION BY clause of window \"{name}\""));
    }
    if !spec.order_by.is_empty() && !base.order_by.is_empty() {
        return wrong(format!("cannot override ORDER BY clause of window \"{name}\""));
    }
    if base.window_frame.is_some() {
        return wrong(format!("cannot copy window \"{name}\" because it has a frame clause"));
    }
    spec.partition_by.clone_from(&base.partition_by);
    if spec.order_by.is_empty() {
        spec.order_by.clone_from(&base.order_by);
    }
    Ok(())
}

fn write_out(expr: &mut Expr, windows: &Windows) -> Result<()> {
    match expr.visit(&mut Overs { windows, queries: 0 }) {
        ControlFlow::Break(error) => Err(*error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Overs<'a> {
    windows: &'a Windows,
    /// Subqueries around: these have windows of their own.
    queries: usize,
}

impl VisitorMut for Overs<'_> {
    type Break = Box<SqlError>;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.queries += 1;
        ControlFlow::Continue(())
    }
    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }
    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        match expr {
            Expr::Function(Function { over: Some(WindowType::WindowSpec(spec)), .. }) if self.queries == 0 => {
                complete(spec, self.windows)
                    .map_or_else(|error| ControlFlow::Break(Box::new(error)), ControlFlow::Continue)
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::parse;
    use datafusion::sql::sqlparser::ast::Statement;

    fn written(sql: &str) -> String {
        let Statement::Query(mut query) = parse(sql) else { panic!("no query: {sql}") };
        let result = order_by(&mut query).and_then(|()| match query.body.as_mut() {
            SetExpr::Select(select) => rewrite(select),
            _ => Ok(()),
        });
        result.map_or_else(|error| format!("{} {}", error.state.0, error.message), |()| query.to_string())
    }

    #[test]
    fn what_a_window_begins_with_is_written_out() {
        assert_eq!(
            written("SELECT sum(a) OVER (w) FROM t WINDOW w AS (PARTITION BY b ORDER BY c)"),
            "SELECT sum(a) OVER (PARTITION BY b ORDER BY c) FROM t WINDOW w AS (PARTITION BY b ORDER BY c)"
        );
        assert_eq!(
            written(
                "SELECT 1 FROM t WINDOW w AS (PARTITION BY b), v AS (w ORDER BY c) \
                ORDER BY sum(a) OVER (v ROWS 1 PRECEDING)"
            ),
            "SELECT 1 FROM t WINDOW w AS (PARTITION BY b), v AS (PARTITION BY b ORDER BY c) \
            ORDER BY sum(a) OVER (PARTITION BY b ORDER BY c ROWS 1 PRECEDING)"
        );
        assert_eq!(
            written("SELECT sum(a) OVER w FROM t WINDOW w AS (ORDER BY c)"),
            "SELECT sum(a) OVER w FROM t WINDOW w AS (ORDER BY c)"
        );
    }

    #[test]
    fn what_contradicts_is_refused() {
        let refused =
            |window: &str, of: &str| written(&format!("SELECT sum(a) OVER ({window}) FROM t WINDOW w AS ({of})"));
        assert_eq!(refused("v", "ORDER BY a"), "42704 window \"v\" does not exist");
        assert_eq!(refused("w PARTITION BY b", ""), "42P20 cannot override PARTITION BY clause of window \"w\"");
        assert_eq!(refused("w ORDER BY b", "ORDER BY a"), "42P20 cannot override ORDER BY clause of window \"w\"");
        assert_eq!(
            refused("w ORDER BY b", "ROWS 1 PRECEDING"),
            "42P20 cannot copy window \"w\" because it has a frame clause"
        );
    }
}
