//! `pg_catalog` and `information_schema`: what clients ask PostgreSQL about itself, answered live from the statement's snapshot.
//!
//! [`relation`] makes a relation when a statement names it: its columns stand in [`columns`], its rows come from [`objects`] (tables,
//! columns, keys, types), [`cluster`] (databases, roles, settings, sessions), [`store_stats`] (of the store), [`views`] and [`information`] (`information_schema`). A relation that
//! PostgreSQL has and that has no rows here is empty. [`functions`] and [`acl`] are those that know the session or the catalog; [`rewrite`] and
//! [`system_columns`] turn what DataFusion cannot plan in the queries of psql, of drivers and of tools into what it can.
//!
//! A tenant's session sees its own database, its own role and the roles that share its database, and no other tenant's name.

use crate::context::Facts;
use datafusion::{catalog::TableProvider, datasource::MemTable, error::Result};
use std::sync::Arc;

pub mod acl;
pub mod cluster;
pub mod columns;
pub mod comments;
pub mod functions;
pub mod information;
pub mod keywords;
mod notifications;
pub mod objects;
mod procs;
pub mod rewrite;
pub mod store_stats;
pub mod system_columns;
pub mod type_of;
pub mod views;

#[cfg(test)]
mod tests;

/// The relations of a schema.
pub fn names(schema: &str) -> impl Iterator<Item = &'static str> {
    columns::all().filter(move |relation| relation.schema == schema).map(|relation| relation.name)
}

/// A relation with its rows; `None` for a name that there is not, or not for this session.
///
/// # Errors
/// A fault of ours: rows that do not have the relation's columns.
pub fn relation(schema: &str, name: &str, facts: &Arc<Facts>) -> Result<Option<Arc<dyn TableProvider>>> {
    let Some(relation) = columns::all().find(|relation| relation.schema == schema && relation.name == name) else {
        return Ok(None);
    };
    let mut rows = columns::Rows::new(relation);
    match schema {
        "information_schema" => information::fill(&mut rows, facts),
        _ => {
            objects::fill(&mut rows, facts);
            cluster::fill(&mut rows, facts);
            store_stats::fill(&mut rows, facts);
            comments::fill(&mut rows, facts);
        }
    }
    views::fill(&mut rows, facts);
    let batch = rows.finish()?;
    Ok(Some(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?)))
}
