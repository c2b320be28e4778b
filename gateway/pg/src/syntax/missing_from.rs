//! Columns of tables that FROM does not have: the error names the table, as PostgreSQL's does.
//!
//! DataFusion reports that the column `x.a` does not exist, whether a table `x` exists or not.

use crate::{
    error::{SqlError, SqlState, subject::Subject},
    ident::fold,
};
use datafusion::{
    common::SchemaError,
    error::DataFusionError,
    sql::sqlparser::ast::{Ident, ObjectName, Statement, TableFactor, Visit, Visitor},
};
use std::ops::ControlFlow;

/// The relations of a statement and of all its subqueries.
#[derive(Debug, Default)]
pub struct Relations {
    /// Aliases, and names of tables without one.
    names: Vec<String>,
    /// Names of tables that an alias hides, with the alias.
    hidden: Vec<(String, String)>,
}

impl Relations {
    /// Those of a statement.
    pub fn of(statement: &Statement) -> Self {
        let mut relations = Self::default();
        let _: ControlFlow<()> = statement.visit(&mut relations);
        relations
    }

    /// Makes 42P01 of the planner's error about a column whose table the statement does not have; passes on other
    /// errors.
    ///
    /// A table in another scope than the column's, which PostgreSQL reports as missing too, passes for one without the
    /// column.
    pub fn told(&self, error: DataFusionError) -> DataFusionError {
        let name = match error.find_root() {
            DataFusionError::SchemaError(inner, _) => match inner.as_ref() {
                SchemaError::FieldNotFound { field, .. } => field.relation.as_ref().map(|relation| relation.table()),
                _ => None,
            },
            DataFusionError::Plan(message) => message.strip_prefix("Invalid qualifier "),
            _ => None,
        };
        match name {
            Some(name) if !self.names.iter().any(|other| other == name) => {
                DataFusionError::External(Box::new(self.missing(name)))
            }
            _ => error,
        }
    }

    fn missing(&self, name: &str) -> SqlError {
        let error = |problem: &str| {
            let message = format!("{problem} FROM-clause entry for table \"{name}\"");
            SqlError::new(SqlState::UNDEFINED_TABLE, message).with_subject(Subject::Qualifier(name.to_owned()))
        };
        match self.hidden.iter().find(|(hidden, _)| hidden == name) {
            Some((_, alias)) => error("invalid reference to")
                .with_hint(format!("Perhaps you meant to reference the table alias \"{alias}\".")),
            None => error("missing"),
        }
    }

    fn add(&mut self, name: Option<&ObjectName>, alias: Option<&Ident>) {
        let name = name.and_then(|name| name.0.last()?.as_ident()).map(fold);
        match (name, alias.map(fold)) {
            (Some(name), Some(alias)) if name != alias => {
                self.hidden.push((name, alias.clone()));
                self.names.push(alias);
            }
            (Some(name), _) | (None, Some(name)) => self.names.push(name),
            (None, None) => {}
        }
    }
}

impl Visitor for Relations {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { name, alias, .. } | TableFactor::Function { name, alias, .. } => {
                self.add(Some(name), alias.as_ref().map(|alias| &alias.name));
            }
            TableFactor::Derived { alias, .. }
            | TableFactor::TableFunction { alias, .. }
            | TableFactor::UNNEST { alias, .. }
            | TableFactor::NestedJoin { alias, .. } => self.add(None, alias.as_ref().map(|alias| &alias.name)),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
