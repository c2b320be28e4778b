//! One walk over a syntax tree that applies several lists of rules: DataFusion and sqlparser visit nodes, a [`Walk`] says what happens there.
//!
//! A rule rewrites one node. The rules of a node run in the order of their list; expressions have two lists, for the way down (before
//! their parts are visited) and for the way up. Nodes that a rule puts into the tree on the way down are visited too.

use crate::error::{Result, SqlError};
use datafusion::sql::sqlparser::ast::{Expr, Query, Select, Statement, TableFactor, VisitMut, VisitorMut};
use std::ops::ControlFlow;

/// A rule for nodes of one kind.
#[derive(Debug)]
pub struct Rule<Node: 'static> {
    /// Names the rule in lists and tests.
    pub name: &'static str,
    /// Rewrites a node in its place; an error ends the walk.
    pub run: fn(&mut Node) -> Result<()>,
}

impl<Node> Rule<Node> {
    /// A rule of a list.
    pub const fn new(name: &'static str, run: fn(&mut Node) -> Result<()>) -> Self {
        Self { name, run }
    }
}

/// The rules of one walk, by the kind of node.
#[derive(Debug)]
pub struct Walk {
    /// For queries, on the way down.
    pub queries: &'static [Rule<Query>],
    /// For selects, on the way down.
    pub selects: &'static [Rule<Select>],
    /// For relations in FROM, on the way down.
    pub relations: &'static [Rule<TableFactor>],
    /// For expressions, on the way down.
    pub exprs_down: &'static [Rule<Expr>],
    /// For expressions, on the way up.
    pub exprs_up: &'static [Rule<Expr>],
}

impl Walk {
    /// A walk without rules, which a table completes.
    pub const EMPTY: Self = Self { queries: &[], selects: &[], relations: &[], exprs_down: &[], exprs_up: &[] };

    /// Applies the rules to all nodes of a statement.
    ///
    /// # Errors
    /// That of the first rule that fails.
    pub fn run(&self, statement: &mut Statement) -> Result<()> {
        match statement.visit(&mut Nodes(self)) {
            ControlFlow::Break(error) => Err(*error),
            ControlFlow::Continue(()) => Ok(()),
        }
    }

    /// The names of the rules, with the kind of node, in the order in which they run on a node.
    pub fn names(&self) -> Vec<String> {
        fn of<Node>(kind: &str, rules: &[Rule<Node>]) -> Vec<String> {
            rules.iter().map(|rule| format!("{kind}: {}", rule.name)).collect()
        }
        [
            of("query", self.queries),
            of("select", self.selects),
            of("relation", self.relations),
            of("expr down", self.exprs_down),
            of("expr up", self.exprs_up),
        ]
        .concat()
    }
}

struct Nodes<'a>(&'a Walk);

/// Applies the rules of a list to a node.
fn apply<Node>(rules: &[Rule<Node>], node: &mut Node) -> ControlFlow<Box<SqlError>> {
    for rule in rules {
        if let Err(error) = (rule.run)(node) {
            return ControlFlow::Break(Box::new(error));
        }
    }
    ControlFlow::Continue(())
}

impl VisitorMut for Nodes<'_> {
    type Break = Box<SqlError>;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        apply(self.0.queries, query)
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Self::Break> {
        apply(self.0.selects, select)
    }

    fn pre_visit_table_factor(&mut self, relation: &mut TableFactor) -> ControlFlow<Self::Break> {
        apply(self.0.relations, relation)
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        apply(self.0.exprs_down, expr)
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        apply(self.0.exprs_up, expr)
    }
}
