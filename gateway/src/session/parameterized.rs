//! Statements without their values that a session keeps prepared: what
//! [`auto_parameterize`](crate::execute::auto_parameterize) makes and asks for.

use super::{Prepared, Session, statement_cache::Once};
use crate::query::plan_cache::Seen;
use datafusion::{scalar::ScalarValue, sql::sqlparser::ast};
use std::{collections::VecDeque, sync::Arc};

/// Kinds of texts that are kept, at most.
pub(crate) const KEPT_MAX: usize = 32;

/// The kinds.
#[derive(Debug, Default)]
pub(crate) struct Kinds {
    /// The latest first.
    pub(crate) kept: VecDeque<Kind>,
    pub(crate) once: Once,
}

/// A statement without its values.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) statement: ast::Statement,
    pub(crate) seen: Seen,
    /// `None` when its plan may not be kept.
    pub(crate) prepared: Option<Prepared>,
}

/// A statement that runs as another one, with values.
#[derive(Clone, Debug)]
pub(crate) struct Lifted {
    pub(crate) seen: Arc<Seen>,
    pub(crate) prepared: Arc<Prepared>,
    pub(crate) values: Vec<ScalarValue>,
}

impl Lifted {
    /// The statement that runs, and its values; `None` when the catalog or a setting is another one by now.
    pub(crate) fn of(&self, session: &Session) -> Option<(&Prepared, Vec<ScalarValue>)> {
        (*self.seen == session.seen()).then(|| (&*self.prepared, self.values.clone()))
    }
}

impl Kinds {
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// What is kept of a kind that was seen before, if it is of what is seen now.
    pub(crate) fn take(&mut self, statement: &ast::Statement, seen: &Seen) -> Option<Option<Prepared>> {
        let at = self.kept.iter().position(|kind| kind.statement == *statement)?;
        let kind = self.kept.remove(at).filter(|kind| kind.seen == *seen)?;
        let prepared = kind.prepared.clone();
        self.kept.push_front(kind);
        Some(prepared)
    }

    pub(crate) fn keep(&mut self, kind: Kind) {
        self.kept.truncate(KEPT_MAX - 1);
        self.kept.push_front(kind);
    }
}
