//! The passes over a query's syntax tree, before DataFusion plans it: one table, in order.
//!
//! A pass visits the tree once at most; `EXPAND` and `RESOLVE` are themselves tables of rules for the nodes that one
//! walk meets ([`rewrite`]). The file of a pass says what it is for; here stands what it needs before it, and what it
//! leaves for those after it.

use crate::{
    pg::{
        error::Result,
        plan::materialized,
        syntax::{natural_join, order_by, relation_columns::ColumnsOf, rewrite, unsupported, whole_row},
    },
    pg_catalog,
};
use datafusion::sql::sqlparser::ast::Statement;
use futures::future::BoxFuture;

/// A pass over a statement's syntax tree.
pub(crate) struct Pass {
    /// Names the pass in lists and tests.
    pub(crate) name: &'static str,
    run: Run,
}

/// What a pass takes.
enum Run {
    /// The tree alone.
    Tree(fn(&mut Statement) -> Result<()>),
    /// The tree, and the names of the columns of relations in it, which have to be planned for them.
    Columns(for<'a, 'c> fn(&'a mut Statement, &'a ColumnsOf<'c>) -> BoxFuture<'a, Result<()>>),
}

/// All passes, in the order in which they run.
pub(crate) static PASSES: [Pass; 10] = [
    // Needs WITH as the user wrote it: it counts how often the name of a query stands in the statement.
    // Leaves queries of WITH that are computed once under names that the planner's nodes follow (`plan::materialized`).
    Pass::new("materialized", materialized::mark),
    // Needs calls as the user wrote them.
    // Leaves no argument with a name, but in calls that nobody knows.
    Pass::new("named_arguments", |statement| {
        pg_catalog::named_arguments::rewrite(statement);
        Ok(())
    }),
    // Needs casts and calls as the user wrote them.
    // Leaves no cast to `regclass` and its kin, and no function that stands for a relation of the system.
    Pass::new("catalog_names", |statement| {
        pg_catalog::rewrite::rewrite(statement);
        Ok(())
    }),
    // Needs relations in the place of functions (`catalog_names`), and select items without labels.
    // Leaves no system column of a relation of the system.
    Pass::new("system_columns", |statement| {
        pg_catalog::system_columns::rewrite(statement);
        Ok(())
    }),
    // Needs names that can be planned: each relation of such a join is planned by itself, by all of these passes.
    // Leaves USING for NATURAL, and the list of columns for `*` over a join that merges some.
    Pass { name: "natural_joins", run: Run::Columns(natural_joins) },
    // As `natural_joins`, which writes `*` out.
    // Leaves composite values for names of relations that are values; items that were such names have labels.
    Pass { name: "whole_rows", run: Run::Columns(whole_rows) },
    // Needs labels as the user wrote them. The client's query alone: the others follow in `expand`, which visits them
    // all. Leaves no item that hides a column in ORDER BY.
    Pass::new("hidden_order", |statement| {
        order_by::hidden_of_result(statement);
        Ok(())
    }),
    // Needs `*` of NATURAL joins written out, since it gives names to the items of select lists.
    // Leaves the forms that DataFusion plans, some of them under names of `pg_catalog` and without names of items.
    Pass::new("expand", |statement| rewrite::EXPAND.run(statement)),
    // Needs WITH ORDINALITY written out (`expand`); collations are still there.
    // Leaves nothing that DataFusion would drop without an error.
    Pass::new("unsupported", |statement| unsupported::refuse(statement)),
    // Needs collations checked (`unsupported`), and whatever `expand` writes.
    // Leaves the tree that DataFusion plans.
    Pass::new("resolve", |statement| rewrite::RESOLVE.run(statement)),
];

impl Pass {
    const fn new(name: &'static str, run: fn(&mut Statement) -> Result<()>) -> Self {
        Self { name, run: Run::Tree(run) }
    }

    /// Runs the pass.
    ///
    /// # Errors
    /// Those of its file.
    pub(crate) async fn run(&self, statement: &mut Statement, columns_of: &ColumnsOf<'_>) -> Result<()> {
        match self.run {
            Run::Tree(run) => run(statement),
            Run::Columns(run) => run(statement, columns_of).await,
        }
    }
}

/// Runs all passes.
///
/// # Errors
/// That of the first pass that fails.
pub(crate) async fn run(statement: &mut Statement, columns_of: &ColumnsOf<'_>) -> Result<()> {
    for pass in &PASSES {
        tracing::trace!(pass = pass.name, "rewriting");
        pass.run(statement, columns_of).await?;
    }
    Ok(())
}

fn natural_joins<'a>(statement: &'a mut Statement, columns_of: &'a ColumnsOf<'_>) -> BoxFuture<'a, Result<()>> {
    Box::pin(natural_join::resolve(statement, columns_of))
}

fn whole_rows<'a>(statement: &'a mut Statement, columns_of: &'a ColumnsOf<'_>) -> BoxFuture<'a, Result<()>> {
    Box::pin(whole_row::resolve(statement, columns_of))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::{ast::Query, dialect::PostgreSqlDialect, parser::Parser};
    use expect_test::{Expect, expect};

    #[test]
    fn passes_run_in_this_order() {
        let names: Vec<&str> = PASSES.iter().map(|pass| pass.name).collect();
        let expected = [
            "materialized",
            "named_arguments",
            "catalog_names",
            "system_columns",
            "natural_joins",
            "whole_rows",
            "hidden_order",
            "expand",
            "unsupported",
            "resolve",
        ];
        assert_eq!(names, expected);
    }

    /// One pass by itself; each relation has the columns `k` and its own name.
    fn check(name: &str, sql: &str, expected: Expect) {
        let columns_of = |query: Query| -> BoxFuture<'_, Option<Vec<String>>> {
            let relation = query.to_string().rsplit(' ').next().unwrap_or_default().to_owned();
            Box::pin(async move { Some(vec!["k".to_owned(), relation]) })
        };
        let pass = PASSES.iter().find(|pass| pass.name == name).unwrap();
        let mut statement = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap().remove(0);
        let outcome = futures::executor::block_on(pass.run(&mut statement, &columns_of));
        expected
            .assert_eq(&outcome.map_or_else(|error| error.message, |()| statement.to_string()).replace('\u{1}', "~"));
    }

    #[test]
    fn each_pass_does_its_part_alone() {
        check(
            "materialized",
            "WITH x AS (SELECT nextval('s')) SELECT 1 FROM x",
            expect!["WITH x AS (SELECT nextval('s')) SELECT 1 FROM x"],
        );
        check(
            "named_arguments",
            "SELECT make_interval(days => a) FROM t",
            expect!["SELECT make_interval(0, 0, 0, a) FROM t"],
        );
        check(
            "catalog_names",
            "SELECT 't'::regclass::oid = a FROM t",
            expect!["SELECT regclass_oid('t')::oid = a FROM t"],
        );
        check(
            "system_columns",
            "SELECT c.xmin FROM pg_class c",
            expect!["SELECT CASE WHEN c.oid IS NOT NULL THEN CAST(2 AS xid) END AS xmin FROM pg_class c"],
        );
        check(
            "natural_joins",
            "SELECT * FROM a NATURAL JOIN b",
            expect![[r#"SELECT a."k", a."a", b."b" FROM a JOIN b USING("k")"#]],
        );
        check(
            "hidden_order",
            "SELECT lower(t.a) AS a FROM t ORDER BY t.a",
            expect![[r#"SELECT lower(t.a) AS "a~" FROM t ORDER BY t.a"#]],
        );
        check(
            "expand",
            "SELECT count(*), mod(a, 2) FROM t WHERE (a, b) = (1, 2)",
            expect![[r#"SELECT count(*) AS "count", ((a) % (2)) AS "mod" FROM t WHERE (a = 1 AND b = 2)"#]],
        );
        check("unsupported", "SELECT a FROM t FOR UPDATE", expect!["FOR UPDATE is not supported"]);
        check("resolve", "SELECT pg_catalog.lower(a) FROM t", expect![[r#"SELECT lower(a) AS "lower" FROM t"#]]);
    }
}
