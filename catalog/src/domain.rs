//! Domains of a tenant: a type with conditions on its values, a default, or both.
//!
//! A value is stored as one of the base type, and read as one: a domain is asked when a value is made, by a cast or on
//! its way into a column. A column holds the domain's OID ([`Column::domain`](crate::Column::domain)), and who writes
//! the table finds the domain in the snapshot. A change of the domain changes the definitions of the tables that use
//! it, with one edit: so what was planned before meets another table at its commit.

use crate::{
    ErrorKind, Private, Result, SqlType, Table, TableId,
    enum_type::bound_name,
    error::Error,
    table::{ColumnDefault, check_name},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, sync::Arc};

/// Domains of a tenant, at most.
pub const DOMAINS_MAX: usize = 1_000;
/// Domains that are based on each other, at most.
const CHAIN_MAX: usize = 32;
/// The name in a condition that stands for the value.
pub const VALUE: &str = "value";

/// A domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Domain {
    /// The OID, never reused.
    pub id: u32,
    /// The name.
    pub name: String,
    /// The OID of its schema.
    #[serde(default = "crate::schema::public", skip_serializing_if = "crate::schema::is_public")]
    pub schema: u32,
    /// The type of its values.
    pub kind: SqlType,
    /// The OID of the enumerated type of its values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enumerated: Option<u32>,
    /// The OID of the domain that it is based on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<u32>,
    /// Whether NULL is refused.
    #[serde(default)]
    pub not_null: bool,
    /// What a column without a default of its own has; `None` for that of the domain below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<ColumnDefault>,
    /// The conditions, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<DomainCheck>,
    /// The comment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// A condition of a domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainCheck {
    /// The name.
    pub name: String,
    /// The condition as SQL, of [`VALUE`].
    pub sql: String,
    /// Whether all stored values are known to fulfil it (not so after `NOT VALID`).
    pub is_valid: bool,
}

/// The domain of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ColumnDomain {
    /// Its OID.
    pub id: u32,
    /// How often it has changed since the column had it.
    pub changes: u32,
}

/// A change of a domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainChange {
    /// The definition that it must still have.
    pub before: Domain,
    /// The new one.
    pub after: Domain,
    /// The tables whose rows were held against what is new in it: no other may use the domain by now. `None` for a
    /// change that asks nothing of rows.
    pub held: Option<BTreeSet<TableId>>,
}

impl ColumnDomain {
    /// That of a new column.
    pub fn new(id: u32) -> Self {
        Self { id, changes: 0 }
    }
}

impl Domain {
    /// The same with one more condition; one without a name gets the one that PostgreSQL would choose.
    ///
    /// # Errors
    /// [`Duplicate`](ErrorKind::Duplicate) for a name that another condition has.
    pub fn with_check(&self, name: Option<&str>, sql: String, is_valid: bool) -> Result<Self> {
        let is_taken = |name: &str| self.checks.iter().any(|check| check.name == name);
        let name = match name {
            Some(name) if is_taken(name) => {
                let message = format!("constraint \"{name}\" for domain \"{}\" already exists", self.name);
                return Err(Error::new(ErrorKind::Duplicate, message));
            }
            Some(name) => name.to_owned(),
            None => {
                let base = format!("{}_check", self.name);
                let numbered = (1_u32..).map(|number| format!("{base}{number}"));
                let mut names = std::iter::once(base.clone()).chain(numbered);
                names.find(|name| !is_taken(name)).unwrap_or(base)
            }
        };
        let mut changed = self.clone();
        changed.checks.push(DomainCheck { name, sql, is_valid });
        changed.checks.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(changed)
    }

    /// The condition of a name.
    ///
    /// # Errors
    /// [`NoObject`](ErrorKind::NoObject).
    pub fn check_mut(&mut self, name: &str) -> Result<&mut DomainCheck> {
        let message = format!("constraint \"{name}\" of domain \"{}\" does not exist", self.name);
        let found = self.checks.iter_mut().find(|check| check.name == name);
        found.ok_or_else(|| Error::new(ErrorKind::NoObject, message))
    }

    /// The texts of its definition.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        let default = self.default.as_ref().map(|default| default.sql.as_str());
        self.checks.iter().map(|check| check.sql.as_str()).chain(default)
    }

    /// Bytes of its definition.
    pub(crate) fn bytes(&self) -> usize {
        self.name.len() + self.texts().map(str::len).sum::<usize>()
    }

    /// Whether its definition names a type.
    pub(crate) fn names(&self, id: u32) -> bool {
        let name = bound_name(id);
        self.enumerated == Some(id) || self.over == Some(id) || self.texts().any(|sql| sql.contains(&name))
    }
}

impl Private {
    /// A domain and those that it is based on, the last of them first; none if it is not there.
    pub fn domain_chain(&self, id: u32) -> Vec<&Arc<Domain>> {
        let next = |domain: &&Arc<Domain>| domain.over.and_then(|over| self.domains.get(&over));
        // As many as there are in a catalog that is not damaged.
        let mut chain: Vec<_> = std::iter::successors(self.domains.get(&id), next).take(CHAIN_MAX).collect();
        chain.reverse();
        chain
    }

    /// A domain and those that are based on it.
    pub fn domains_on(&self, id: u32) -> Vec<u32> {
        let is_on = |other: &u32| self.domain_chain(*other).iter().any(|domain| domain.id == id);
        self.domains.keys().copied().filter(is_on).collect()
    }

    /// Checks a new or changed domain against what else there is.
    pub(crate) fn check_domain(&self, domain: &Domain) -> Result<()> {
        check_name("type", &domain.name)?;
        let invalid = |message: String| Err(Error::new(ErrorKind::Invalid, message));
        if let Some(over) = domain.over {
            let chain = self.domain_chain(over);
            if chain.is_empty() {
                return Err(crate::enum_type::missing(over));
            }
            if chain.len() + 1 >= CHAIN_MAX || chain.iter().any(|below| below.id == domain.id) {
                return invalid(format!("at most {CHAIN_MAX} domains are based on each other"));
            }
        }
        match domain.enumerated {
            Some(of) if !self.enum_types.contains_key(&of) => Err(crate::enum_type::missing(of)),
            _ => Ok(()),
        }
    }
}

impl Table {
    /// The table with enumerated types and domains of its columns as the same columns of another have them, if they
    /// are among these.
    #[must_use]
    pub fn with_types_of(&self, other: &Self, ids: &BTreeSet<u32>) -> Self {
        let mut table = self.clone();
        for column in &mut table.columns {
            let Some(now) = other.columns.iter().find(|now| now.id == column.id) else { continue };
            if column.enumerated.as_ref().is_some_and(|of| ids.contains(&of.id)) {
                column.enumerated.clone_from(&now.enumerated);
            }
            if column.domain.is_some_and(|of| ids.contains(&of.id)) {
                column.domain = now.domain;
            }
        }
        table
    }
}

/// The first column of a table that is of one of these domains.
pub fn user<'a>(table: &'a Table, ids: &[u32]) -> Option<&'a str> {
    let is = |of: &Option<ColumnDomain>| of.is_some_and(|of| ids.contains(&of.id));
    table.columns.iter().find(|column| is(&column.domain)).map(|column| column.name.as_str())
}

/// Notes in a table that domains of its columns have changed.
pub(crate) fn note_change(table: &mut Table, ids: &[u32]) {
    let columns = table.columns.iter_mut().filter_map(|column| column.domain.as_mut());
    columns.filter(|of| ids.contains(&of.id)).for_each(|of| of.changes = of.changes.wrapping_add(1));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rights::PUBLIC_SCHEMA;

    fn domain(id: u32, over: Option<u32>) -> Domain {
        Domain {
            id,
            name: format!("d{id}"),
            schema: PUBLIC_SCHEMA,
            kind: SqlType::Int4,
            enumerated: None,
            over,
            not_null: false,
            default: None,
            checks: Vec::new(),
            comment: None,
        }
    }

    #[test]
    fn conditions_have_names_and_their_order() {
        let one = domain(1, None).with_check(None, "value > 0".into(), true).unwrap();
        let two = one.with_check(Some("a"), "value < 9".into(), true).unwrap();
        let three = two.with_check(None, "value <> 5".into(), false).unwrap();
        let names: Vec<_> = three.checks.iter().map(|check| check.name.as_str()).collect();
        assert_eq!(names, ["a", "d1_check", "d1_check1"]);
        let twice = three.with_check(Some("a"), String::new(), true).unwrap_err();
        assert_eq!(twice.to_string(), "constraint \"a\" for domain \"d1\" already exists");
    }

    #[test]
    fn a_chain_begins_with_the_base() {
        let all = [domain(1, None), domain(2, Some(1)), domain(3, Some(2)), domain(4, Some(1))];
        let domains = all.into_iter().map(|domain| (domain.id, Arc::new(domain))).collect();
        let own = Private { domains, ..Private::default() };
        let chain = |id| own.domain_chain(id).iter().map(|domain| domain.id).collect::<Vec<_>>();
        assert_eq!(chain(3), [1, 2, 3]);
        assert_eq!(chain(9), [] as [u32; 0]);
        assert_eq!(own.domains_on(1), [1, 2, 3, 4]);
        assert_eq!(own.domains_on(2), [2, 3]);
        assert!(own.check_domain(&domain(1, Some(3))).is_err(), "a circle");
    }
}
