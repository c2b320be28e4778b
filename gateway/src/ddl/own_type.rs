//! Types of the tenant's own, enumerated ones and domains: found by name, and of columns.

use crate::{
    lookup::{self, OwnType},
    pg::{
        error::{Result, SqlError, SqlState},
        names::RelationName,
    },
    session::Session,
    sql::ast::definition::{ColumnClause, CreateTable},
};
use keyspan_catalog::{ColumnDomain, EnumType, SqlType, Table};
use std::{borrow::Cow, sync::Arc};

/// The type of a name, along the session's path.
///
/// # Errors
/// 42704; 3F000 for a schema that does not exist.
pub(super) fn found(session: &Session, name: &RelationName) -> Result<OwnType> {
    let snapshot = session.catalog_snapshot();
    let of = lookup::own_type(&snapshot, session.identity.rows.tenant(), &session.search_path(), name);
    of.ok_or_else(|| {
        let no_schema = session.place_of(name).err().filter(|_| name.schema.is_some());
        let missing = || SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type \"{name}\" does not exist"));
        no_schema.unwrap_or_else(missing)
    })
}

/// The enumerated type with an OID.
pub(super) fn enum_type(session: &Session, id: Option<u32>) -> Option<Arc<EnumType>> {
    let snapshot = session.catalog_snapshot();
    snapshot.private_of(session.identity.rows.tenant())?.enum_types.get(&id?).cloned()
}

/// A column with the type that its values have: that under a domain.
///
/// # Errors
/// Those of [`found`].
pub(super) fn with_kind(session: &Session, column: &ColumnClause) -> Result<ColumnClause> {
    let mut column = column.clone();
    if let Some(name) = &column.own_type
        && let OwnType::Domain(domain) = found(session, name)?
    {
        column.kind = domain.kind;
    }
    Ok(column)
}

/// A table with the types that values of its columns have.
///
/// # Errors
/// Those of [`found`].
pub(super) fn with_kinds<'a>(session: &Session, create: &'a CreateTable) -> Result<Cow<'a, CreateTable>> {
    if create.columns.iter().all(|column| column.own_type.is_none()) {
        return Ok(Cow::Borrowed(create));
    }
    let columns = create.columns.iter().map(|column| with_kind(session, column)).collect::<Result<_>>()?;
    Ok(Cow::Owned(CreateTable { columns, ..create.clone() }))
}

/// The own types of columns of a table that is made or gets them.
#[derive(Debug, Default)]
pub(super) struct ColumnTypes(Vec<ColumnType>);

#[derive(Debug)]
struct ColumnType {
    column: String,
    enumerated: Option<Arc<EnumType>>,
    domain: Option<u32>,
}

impl ColumnType {
    fn of(session: &Session, column: &str, own: &OwnType) -> Self {
        let column = column.to_owned();
        match own {
            OwnType::Enum(of) => Self { column, enumerated: Some(Arc::clone(of)), domain: None },
            OwnType::Domain(of) => Self { column, enumerated: enum_type(session, of.enumerated), domain: Some(of.id) },
        }
    }
}

impl ColumnTypes {
    /// # Errors
    /// Those of [`found`].
    pub(super) fn of(session: &Session, columns: &[ColumnClause]) -> Result<Self> {
        let named = columns.iter().filter_map(|column| Some((&column.name, column.own_type.as_ref()?)));
        let one =
            |(column, name): (&String, &RelationName)| Ok(ColumnType::of(session, column, &found(session, name)?));
        Ok(Self(named.map(one).collect::<Result<_>>()?))
    }

    /// The type of one column, and the type of values under it, if it is a domain.
    ///
    /// # Errors
    /// Those of [`found`].
    pub(super) fn of_column(session: &Session, column: &str, name: &RelationName) -> Result<(Self, Option<SqlType>)> {
        let own = found(session, name)?;
        let kind = if let OwnType::Domain(domain) = &own { Some(domain.kind) } else { None };
        Ok((Self(vec![ColumnType::of(session, column, &own)]), kind))
    }

    /// The enumerated type of its first column.
    pub(super) fn enumerated(&self) -> Option<&EnumType> {
        self.0.first()?.enumerated.as_deref()
    }

    /// Whether it has a type.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The table with them.
    pub(super) fn put(&self, mut table: Table) -> Table {
        for of in &self.0 {
            if let Some(column) = table.columns.iter_mut().find(|column| column.name == of.column) {
                column.enumerated.clone_from(&of.enumerated);
                column.domain = of.domain.map(ColumnDomain::new);
            }
        }
        table
    }
}
