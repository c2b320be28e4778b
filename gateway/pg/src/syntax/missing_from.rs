//! Names of tables before columns: what is told of one that FROM does not have.
//!
//! DataFusion says of `x.a` that there is no such column, whether there is an `x` or not.

use crate::{
    error::{SqlError, SqlState},
    ident::fold,
};
use datafusion::{
    common::SchemaError,
    error::DataFusionError,
    sql::sqlparser::ast::{Ident, ObjectName, Statement, TableFactor, Visit, Visitor},
};
use std::ops::ControlFlow;

/// The relations of a statement, wherever in it they stand.
#[derive(Debug, Default)]
pub struct Relations {
    /// The names that may stand before a column.
    names: Vec<String>,
    /// Names of tables that have an alias, which hides them, and it.
    hidden: Vec<(String, String)>,
}

impl Relations {
    /// All of a statement.
    pub fn of(statement: &Statement) -> Self {
        let mut relations = Self::default();
        let _: ControlFlow<()> = statement.visit(&mut relations);
        relations
    }

    /// An error of the planner; 42P01 if it is about a column of a relation that the statement does not have.
    ///
    /// One that it has elsewhere, where this column does not see it, is not told apart from one that lacks the column.
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
            Some(name) if !self.names.iter().any(|known| known == name) => {
                DataFusionError::External(Box::new(self.missing(name)))
            }
            _ => error,
        }
    }

    fn missing(&self, name: &str) -> SqlError {
        match self.hidden.iter().find(|(hidden, _)| hidden == name) {
            Some((_, alias)) => {
                let message = format!("invalid reference to FROM-clause entry for table \"{name}\"");
                SqlError::new(SqlState::UNDEFINED_TABLE, message)
                    .with_hint(format!("Perhaps you meant to reference the table alias \"{alias}\"."))
            }
            None => {
                let message = format!("missing FROM-clause entry for table \"{name}\"");
                SqlError::new(SqlState::UNDEFINED_TABLE, message)
            }
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
