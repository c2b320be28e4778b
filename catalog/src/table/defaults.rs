//! What rows have that are given no value, and what they must fulfil.

use super::{ColumnPlace, Table};
use crate::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

/// What a row has in a column for which it is given no value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnDefault {
    /// The expression, as PostgreSQL would show it.
    pub sql: String,
    /// What it comes to.
    pub value: DefaultValue,
}

/// What a default comes to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DefaultValue {
    /// Always the same: the text of a value of the column's type.
    Constant(String),
    /// The time of the statement.
    Now,
    /// A random uuid for each row.
    Uuid,
    /// The next number of the sequence with this number.
    Next(u32),
    /// One value for each statement: the expression is evaluated.
    Expression,
}

/// Whether values may be given to a column `GENERATED … AS IDENTITY`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Identity {
    /// They may not.
    Always,
    /// They may.
    ByDefault,
}

/// A condition that no row may contradict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Its name.
    pub name: String,
    /// The condition.
    pub sql: String,
    /// The columns that it names.
    pub columns: Vec<String>,
}

impl Table {
    /// The table with another default for a column; `None` for NULL.
    ///
    /// # Errors
    /// [`NoColumn`](ErrorKind::NoColumn).
    pub fn set_default(&self, column: &str, default: Option<ColumnDefault>) -> Result<Self> {
        let at = self.columns.iter().position(|known| known.name == column).ok_or_else(|| self.no_column(column))?;
        let aggregate = match &self.columns[at].place {
            ColumnPlace::Cell { family, .. } => {
                self.family(family.as_str()).is_some_and(|family| family.aggregate.is_some())
            }
            ColumnPlace::Key(_) => false,
        };
        if aggregate && default.is_some() {
            let message = format!("a default of column \"{column}\" of an aggregate family");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let mut table = self.clone();
        table.columns[at].default = default;
        Ok(table)
    }

    /// The table with a column that is, or is no longer, an identity.
    ///
    /// # Errors
    /// [`NoColumn`](ErrorKind::NoColumn).
    pub fn set_identity(&self, column: &str, identity: Option<Identity>) -> Result<Self> {
        let at = self.columns.iter().position(|known| known.name == column).ok_or_else(|| self.no_column(column))?;
        let mut table = self.clone();
        table.columns[at].identity = identity;
        table.columns[at].not_null |= identity.is_some();
        Ok(table)
    }

    /// The table with another condition. One without a name gets PostgreSQL's.
    ///
    /// # Errors
    /// [`RelationExists`](ErrorKind::TableExists) for a name that another has.
    pub fn add_check(&self, name: Option<&str>, sql: String, columns: Vec<String>) -> Result<Self> {
        let taken = |name: &str| self.checks.iter().any(|check| check.name == name);
        let name = match name {
            Some(name) if taken(name) => {
                let message = format!("constraint \"{name}\" for relation \"{}\" already exists", self.name);
                return Err(Error::new(ErrorKind::Duplicate, message));
            }
            Some(name) => name.to_owned(),
            None => {
                let base = match columns.as_slice() {
                    [column] => format!("{}_{column}_check", self.name),
                    _ => format!("{}_check", self.name),
                };
                let numbered = (1_u32..).map(|number| format!("{base}{number}"));
                let mut names = std::iter::once(base.clone()).chain(numbered);
                names.find(|name| !taken(name)).expect("numbers do not run out")
            }
        };
        let mut table = self.clone();
        table.checks.push(Check { name, sql, columns });
        Ok(table)
    }

    /// The table without a condition.
    ///
    /// # Errors
    /// [`NoColumn`](ErrorKind::NoColumn)'s kin for one that is not there.
    pub fn drop_check(&self, name: &str) -> Result<Self> {
        let at = self.checks.iter().position(|check| check.name == name).ok_or_else(|| {
            let message = format!("constraint \"{name}\" of relation \"{}\" does not exist", self.name);
            Error::new(ErrorKind::NoObject, message)
        })?;
        let mut table = self.clone();
        table.checks.remove(at);
        Ok(table)
    }
}
