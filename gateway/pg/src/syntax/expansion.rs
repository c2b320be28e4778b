//! How many relations a query reads once the queries of its WITH are put in the place of their names.
//!
//! DataFusion plans a query of WITH once, and copies the plan to each of its names; optimizer and executor then work on
//! each copy. Thirty queries that each read the one before twice become a thousand million. PostgreSQL computes each
//! once, so that only the text bounds them.

use crate::{
    error::{Result, SqlError, SqlState},
    ident::fold,
};
use datafusion::sql::sqlparser::ast::{ObjectName, Query, Statement, Visit, Visitor};
use std::{collections::HashMap, ops::ControlFlow};

/// Relations that a query may read.
pub const RELATIONS_MAX: u64 = 1_000;

/// Checks a query.
///
/// # Errors
/// 54001 for more than [`RELATIONS_MAX`] relations.
pub fn check(statement: &Statement) -> Result<()> {
    let Statement::Query(query) = statement else { return Ok(()) };
    if weight(query, &HashMap::new()) <= RELATIONS_MAX {
        return Ok(());
    }
    let message =
        format!("a query reads more than {RELATIONS_MAX} relations, each query of WITH counted wherever it is read");
    Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message)
        .with_hint("CREATE TEMPORARY TABLE AS keeps what a query of WITH gives."))
}

/// The relations of a query, one of none too; `named` are those of the queries of WITH around it.
fn weight(query: &Query, named: &HashMap<String, u64>) -> u64 {
    let mut relations = Relations { named: named.clone(), sum: 0, depth: 0 };
    for table in query.with.iter().flat_map(|with| &with.cte_tables) {
        let of_table = weight(&table.query, &relations.named);
        relations.named.insert(fold(&table.alias.name), of_table);
    }
    let _: ControlFlow<()> = query.body.visit(&mut relations);
    let _: ControlFlow<()> = query.order_by.visit(&mut relations);
    relations.sum.max(1)
}

/// Sums up the relations of a query's body. Nested queries are weighed by themselves, with their own WITH.
struct Relations {
    named: HashMap<String, u64>,
    sum: u64,
    depth: usize,
}

impl Visitor for Relations {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        if self.depth == 0 {
            self.sum = self.sum.saturating_add(weight(query, &self.named));
        }
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
        if self.depth == 0 {
            let bare = match name.0.as_slice() {
                [part] => part.as_ident().map(fold),
                _ => None,
            };
            let of_name = bare.and_then(|name| self.named.get(&name).copied()).unwrap_or(1);
            self.sum = self.sum.saturating_add(of_name);
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::parse;

    fn relations(sql: &str) -> u64 {
        let Statement::Query(query) = parse(sql) else { panic!("{sql}") };
        weight(&query, &HashMap::new())
    }

    #[test]
    fn queries_of_with_count_wherever_they_are_read() {
        assert_eq!(relations("SELECT 1"), 1);
        assert_eq!(relations("SELECT * FROM a, b JOIN c ON true WHERE x IN (SELECT y FROM d)"), 4);
        assert_eq!(relations("WITH a AS (SELECT * FROM t, u) SELECT * FROM a, a AS b, public.a"), 5);
        assert_eq!(
            relations("WITH a AS (SELECT * FROM t) SELECT * FROM (WITH a AS (SELECT * FROM t, t) SELECT * FROM a) x"),
            2
        );
        assert_eq!(relations("WITH a AS (SELECT * FROM t) SELECT 1"), 1);
        let doubling = |count: usize| {
            let tables: Vec<_> =
                (1..count).map(|n| format!("a{n} AS (SELECT 1 FROM a{} x, a{} y)", n - 1, n - 1)).collect();
            format!("WITH a0 AS (SELECT 1), {} SELECT * FROM a{}", tables.join(", "), count - 1)
        };
        assert_eq!(relations(&doubling(9)), 256);
        assert_eq!(relations(&doubling(100)), u64::MAX);
        assert_eq!(check(&parse(&doubling(30))).unwrap_err().state, SqlState::STATEMENT_TOO_COMPLEX);
    }
}
