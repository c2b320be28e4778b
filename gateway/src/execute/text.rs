//! From a text to prepared statements, past the plan cache: the one way in for both protocols.
//!
//! ```text
//! text ──▶ statements(): a hit of the cache, or parsed statements ──▶ prepare_parsed(): Prepared, into the cache from the second time on
//! ```

use super::Runs;
use crate::{
    pg::{
        error::{Result, SqlError},
        types::ParameterType,
    },
    query::{plan_cache::CacheKey, planning},
    session::{
        Prepared, Session,
        plan_cache::{Lookup, Text},
    },
    sql::ast::Statement,
};

/// A statement of a text, before it runs.
pub(crate) enum FromText {
    /// From the plan cache.
    Cached(Prepared),
    /// Parsed, to be [prepared](Session::prepare_parsed).
    Parsed(Box<Parsed>),
}

/// A parsed statement.
pub(crate) struct Parsed {
    /// The statement.
    pub(crate) statement: Statement,
    /// Where what is made of it goes in the plan cache; `None` for one that occurs for the first time, or among others.
    cache: Option<(Text, CacheKey)>,
    runs: Runs,
}

impl FromText {
    /// Whether it is, or will be, in the plan cache.
    pub(crate) fn is_cached(&self) -> bool {
        match self {
            Self::Cached(_) => true,
            Self::Parsed(parsed) => parsed.cache.is_some(),
        }
    }

    /// The statement.
    pub(crate) fn statement(&self) -> &Statement {
        match self {
            Self::Cached(prepared) => &prepared.statement,
            Self::Parsed(parsed) => &parsed.statement,
        }
    }
}

/// Parses a text on the threads of planning, if it is long: a caller can stop it there. `None` for a short one.
///
/// # Errors
/// Those of [`Statement::parse_in`].
pub(crate) fn parse_long(sql: &str, database: &str) -> Option<impl Future<Output = Result<Vec<Statement>>> + 'static> {
    (sql.len() > planning::SHORT_TEXT_BYTES).then(|| {
        let (sql, database) = (sql.to_owned(), database.to_owned());
        planning::away(async move { Statement::parse_in(&sql, &database) })
    })
}

impl Session {
    /// The statements of a Query message, without empty ones. `parsed` are those of a [long](parse_long) text.
    ///
    /// # Errors
    /// 42601.
    pub(crate) fn statements(&mut self, sql: &str, parsed: Option<Vec<Statement>>) -> Result<Vec<FromText>> {
        let cache = match self.lookup_text(sql, None) {
            Lookup::Hit(prepared) => return Ok(vec![FromText::Cached(prepared)]),
            Lookup::Again(text, key) => Some((text, key)),
            Lookup::Miss => None,
        };
        let mut statements = match parsed {
            Some(parsed) => parsed,
            None => Statement::parse_in(sql, &self.identity.database)?,
        };
        statements.retain(|statement| *statement != Statement::Empty);
        let mut cache = cache.filter(|_| statements.len() == 1);
        // What goes into the cache runs later, too.
        let runs = if cache.is_some() { Runs::Later } else { Runs::Now };
        let parsed = |statement| FromText::Parsed(Box::new(Parsed { statement, cache: cache.take(), runs }));
        Ok(statements.into_iter().map(parsed).collect())
    }

    /// The statement of a Parse message with the types that it declares; `None` for an empty text. `parsed` are those
    /// of a [long](parse_long) text.
    ///
    /// # Errors
    /// 42601, for several statements too.
    pub(crate) fn statement(
        &mut self,
        sql: &str,
        parsed: Option<Vec<Statement>>,
        types: &[u32],
    ) -> Result<Option<FromText>> {
        let cache = match self.lookup_text(sql, Some(types)) {
            Lookup::Hit(prepared) => return Ok(Some(FromText::Cached(prepared))),
            Lookup::Again(text, key) => Some((text, key)),
            Lookup::Miss => None,
        };
        let mut statements = match parsed {
            Some(parsed) => parsed,
            None => Statement::parse_in(sql, &self.identity.database)?,
        };
        statements.retain(|statement| *statement != Statement::Empty);
        if statements.len() > 1 {
            return Err(SqlError::syntax("cannot insert multiple commands into a prepared statement"));
        }
        let parsed = |statement| FromText::Parsed(Box::new(Parsed { statement, cache, runs: Runs::Later }));
        Ok(statements.pop().map(parsed))
    }

    /// Analyses a statement of a text, and stores it in the plan cache if it belongs there.
    ///
    /// # Errors
    /// Those of [`Session::prepare`].
    pub(crate) async fn prepare_parsed(&mut self, parsed: Parsed, hints: &[Option<ParameterType>]) -> Result<Prepared> {
        let Parsed { statement, cache, runs } = parsed;
        let prepared = match runs {
            Runs::Now => self.prepare_once(statement).await?,
            Runs::Later => self.prepare(statement, hints).await?,
        };
        if let Some((text, key)) = cache {
            self.cache_text(text, key, &prepared);
        }
        Ok(prepared)
    }
}
