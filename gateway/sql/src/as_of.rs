//! `FOR SYSTEM_TIME AS OF expression`, behind the name of a table in FROM and before its alias.
//!
//! sqlparser reads the clause in other dialects only. So the clauses are cut out of the tokens before sqlparser reads
//! the statement, with their positions, and put into the tree afterwards as the [version](TableVersion) of their
//! tables. A clause without a table at its position is refused.

use crate::tokens::{Cut, TokenReader};
use datafusion::sql::sqlparser::{
    ast::{TableFactor, TableVersion, TableWithJoins, VisitMut, VisitorMut},
    tokenizer::Token,
};
use keyspan_pg::error::{Result, SqlError};
use std::ops::ControlFlow;

/// The clauses that were cut out of a statement.
pub(crate) struct AsOfClauses(Vec<Cut>);

impl AsOfClauses {
    /// Cuts the clauses out of the tokens that are not read yet.
    pub(crate) fn cut(tokens: &mut TokenReader<'_>) -> Result<Self> {
        tokens.cut_expressions("for system_time as of").map(Self)
    }

    /// Puts the clauses into the tree, at their tables.
    ///
    /// # Errors
    /// 42601 for a clause anywhere but behind a table's name; 0A000 behind a function or a subquery.
    pub(crate) fn put<T: VisitMut>(mut self, tree: &mut T) -> Result<()> {
        let _: ControlFlow<()> = tree.visit(&mut self);
        let Some(cut) = self.0.pop() else { return Ok(()) };
        if matches!(cut.before, Some(ref token) if token.token == Token::RParen) {
            return Err(SqlError::unsupported("FOR SYSTEM_TIME AS OF of a function or a subquery")
                .with_hint("Put it directly behind the names of tables."));
        }
        Err(cut.misplaced.with_hint("FOR SYSTEM_TIME AS OF stands directly behind the name of a table in FROM."))
    }
}

impl VisitorMut for AsOfClauses {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, version, args: None, .. } = factor
            && let Some(last) = name.0.last().and_then(|part| part.as_ident())
        {
            let here = |cut: &Cut| cut.before.as_ref().is_some_and(|token| token.span == last.span);
            if let Some(at) = self.0.iter().position(here) {
                *version = Some(TableVersion::ForSystemTimeAsOf(self.0.remove(at).expression));
            }
        }
        ControlFlow::Continue(())
    }
}

/// Refuses the clause on the table that a statement writes: 0A000.
pub(crate) fn refuse_target(target: &TableWithJoins) -> Result<()> {
    match &target.relation {
        TableFactor::Table { version: Some(_), .. } => {
            Err(SqlError::unsupported("FOR SYSTEM_TIME AS OF of the table that is written"))
        }
        _ => Ok(()),
    }
}
