//! Recursive queries of WITH: what PostgreSQL refuses and DataFusion would compute in another way, and the types of
//! numbers and parameters in the first query.

use super::aggregate_calls::calls_aggregate;
use crate::{
    error::{Result, SqlError, SqlState},
    ident::fold,
    plan::materialized::count,
};
use datafusion::sql::sqlparser::ast::{
    CastKind, Cte, DataType, ExactNumberInfo, Expr, Ident, JoinOperator, Query, Select, SelectItem, SetExpr,
    SetOperator, TableFactor, TableWithJoins, Value, With,
};

/// Checks the recursive queries of a WITH, and casts items of their first queries.
///
/// # Errors
/// 42P19 for a query that reads itself where it may not.
pub(super) fn rewrite(query: &mut Query) -> Result<()> {
    let Some(with) = query.with.as_mut().filter(|with| with.recursive) else { return Ok(()) };
    with.cte_tables.iter().try_for_each(check)?;
    typed_items(with);
    Ok(())
}

fn wrong(message: String) -> SqlError {
    SqlError::new(SqlState::INVALID_RECURSION, message)
}

/// PostgreSQL's `checkWellFormedRecursion`, and its `parseCheckAggregates` of recursive terms.
fn check(cte: &Cte) -> Result<()> {
    let name = fold(&cte.alias.name);
    if count(&*cte.query, &name) == 0 {
        return Ok(());
    }
    let within = |place: &str| wrong(format!("recursive reference to query \"{name}\" must not appear within {place}"));
    let SetExpr::SetOperation { op: SetOperator::Union, left, right, .. } = cte.query.body.as_ref() else {
        let form = "does not have the form non-recursive-term UNION [ALL] recursive-term";
        return Err(wrong(format!("recursive query \"{name}\" {form}")));
    };
    // They would wait for the end of a query that has none without them.
    let later = [
        (cte.query.order_by.is_some(), "ORDER BY"),
        (cte.query.limit_clause.is_some() || cte.query.fetch.is_some(), "LIMIT or OFFSET"),
    ];
    if let Some((_, clause)) = later.iter().find(|(is, _)| *is) {
        return Err(SqlError::unsupported(format!("{clause} in a recursive query")));
    }
    if count(left.as_ref(), &name) > 0 {
        return Err(within("its non-recursive term"));
    }
    let mut read = Read { name: &name, times: 0, set: None, outer: false, aggregates: false };
    read.of_body(right);
    match () {
        () if count(right.as_ref(), &name) > read.times => Err(within("a subquery")),
        () if read.times > 1 => {
            Err(wrong(format!("recursive reference to query \"{name}\" must not appear more than once")))
        }
        () if read.aggregates => {
            Err(wrong("aggregate functions are not allowed in a recursive query's recursive term".to_owned()))
        }
        () if read.outer => Err(within("an outer join")),
        () => read.set.map_or(Ok(()), |set| Err(within(set))),
    }
}

/// Where a query reads itself, in FROM and in subqueries of FROM.
struct Read<'a> {
    name: &'a str,
    times: usize,
    set: Option<&'static str>,
    /// Whether a join may make NULLs of it.
    outer: bool,
    /// Whether a select that reads it has aggregates: they would have a row in each round, without end.
    aggregates: bool,
}

impl Read<'_> {
    fn of_body(&mut self, body: &SetExpr) {
        match body {
            SetExpr::Select(select) => {
                self.aggregates |= select.from.iter().any(|from| self.is_read_by(from)) && aggregates(select);
                select.from.iter().for_each(|from| self.of_from(from));
            }
            SetExpr::Query(query) => self.of_body(&query.body),
            SetExpr::SetOperation { op, left, right, .. } => {
                let before = self.times;
                self.of_body(left);
                let of_left = self.times > before;
                self.of_body(right);
                match op {
                    SetOperator::Intersect if self.times > before => self.set = Some("INTERSECT"),
                    SetOperator::Except if self.times > before + usize::from(of_left) => self.set = Some("EXCEPT"),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn of_from(&mut self, from: &TableWithJoins) {
        self.of_factor(&from.relation);
        for join in &from.joins {
            let before = self.times;
            self.of_factor(&join.relation);
            let (left, right) = (before > 0, self.times > before);
            self.outer |= match join.join_operator {
                JoinOperator::Left(_) | JoinOperator::LeftOuter(_) => right,
                JoinOperator::Right(_) | JoinOperator::RightOuter(_) => left,
                JoinOperator::FullOuter(_) => left || right,
                _ => false,
            };
        }
    }

    /// Whether FROM names it, outside of subqueries.
    fn is_read_by(&self, from: &TableWithJoins) -> bool {
        let factors = std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation));
        factors.into_iter().any(|factor| match factor {
            TableFactor::NestedJoin { table_with_joins, .. } => self.is_read_by(table_with_joins),
            TableFactor::Table { name, args: None, .. } => match name.0.as_slice() {
                [part] => part.as_ident().is_some_and(|name| fold(name) == self.name),
                _ => false,
            },
            _ => false,
        })
    }

    fn of_factor(&mut self, factor: &TableFactor) {
        match factor {
            TableFactor::Table { name, args: None, .. } => {
                let [part] = name.0.as_slice() else { return };
                self.times += usize::from(part.as_ident().is_some_and(|name| fold(name) == self.name));
            }
            TableFactor::Derived { subquery, .. } => self.of_body(&subquery.body),
            TableFactor::NestedJoin { table_with_joins, .. } => self.of_from(table_with_joins),
            _ => {}
        }
    }
}

/// Whether a select has aggregates of its own.
fn aggregates(select: &Select) -> bool {
    let items = select.projection.iter().filter_map(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    });
    items.chain(&select.having).any(calls_aggregate)
}

/// Types of items of the first query of a recursive one, which the others have too: numbers with a point are numerics
/// of any digits, a parameter is a text, as what has no type is in PostgreSQL.
fn typed_items(with: &mut With) {
    for cte in &mut with.cte_tables {
        let SetExpr::SetOperation { left, .. } = cte.query.body.as_mut() else { continue };
        let SetExpr::Select(select) = left.as_mut() else { continue };
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item
                && let Some(data_type) = type_of_item(expr)
            {
                let inner = Box::new(std::mem::replace(expr, Expr::Identifier(Ident::new(""))));
                *expr = Expr::Cast { kind: CastKind::Cast, expr: inner, data_type, array: false, format: None };
            }
        }
    }
}

/// The type to which an item is cast; `None` where it has one.
fn type_of_item(item: &Expr) -> Option<DataType> {
    match item {
        Expr::Value(value) if matches!(value.value, Value::Placeholder(_)) => Some(DataType::Text),
        item => (of_literals(item) == Some(true)).then_some(DataType::Numeric(ExactNumberInfo::None)),
    }
}

/// Whether an expression of numbers that are written out has one with a point; `None` for other expressions.
fn of_literals(expr: &Expr) -> Option<bool> {
    match expr {
        Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } => of_literals(inner),
        Expr::BinaryOp { left, right, .. } => Some(of_literals(left)? | of_literals(right)?),
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => Some(digits.contains(['.', 'e', 'E'])),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::parse;
    use datafusion::sql::sqlparser::ast::Statement;

    #[test]
    fn a_query_reads_itself_once_and_by_itself() {
        let check = |sql: &str, expected: &str| {
            let Statement::Query(mut query) = parse(sql) else { panic!("no query: {sql}") };
            let outcome = rewrite(&mut query).map_or_else(|error| error.message, |()| "as it is".to_owned());
            assert_eq!(outcome, expected, "{sql}");
        };
        let of = |term: &str| format!("WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL {term}) SELECT * FROM x");
        check(&of("SELECT n + 1 FROM x WHERE n < 5"), "as it is");
        check(&of("SELECT n + 1 FROM (SELECT * FROM x) y JOIN t ON true"), "as it is");
        let within = |place: &str| format!("recursive reference to query \"x\" must not appear {place}");
        check(&of("SELECT (SELECT max(n) FROM x)"), &within("within a subquery"));
        check(&of("SELECT n FROM x WHERE n IN (SELECT n FROM x)"), &within("within a subquery"));
        check(&of("SELECT a.n FROM x a, x b"), &within("more than once"));
        check(&of("SELECT n FROM t LEFT JOIN x ON true"), &within("within an outer join"));
        check(&of("SELECT n FROM x LEFT JOIN t ON true"), "as it is");
        check(&of("(SELECT 1 EXCEPT SELECT n FROM x)"), &within("within EXCEPT"));
        let first = "WITH RECURSIVE x(n) AS (SELECT n FROM x UNION ALL SELECT 1) SELECT * FROM x";
        check(first, &within("within its non-recursive term"));
        let form = "WITH RECURSIVE x(n) AS (SELECT n FROM x) SELECT * FROM x";
        check(form, "recursive query \"x\" does not have the form non-recursive-term UNION [ALL] recursive-term");
    }
}
