//! `pg_catalog` and `information_schema`: what clients ask PostgreSQL about itself, answered live from the statement's snapshot.
//!
//! [`relation`] makes a relation when a statement names it: its columns stand in [`system_relations`], its rows come from [`objects`] (tables,
//! columns, keys, types), [`cluster`] (databases, roles, settings, sessions), [`store_stats`] (of the store), [`views`] and [`information`] (`information_schema`). A relation that
//! PostgreSQL has and that has no rows here is empty. [`functions`] and [`acl`] are those that know the session or the catalog; [`rewrite`] and
//! [`system_columns`] turn what DataFusion cannot plan in the queries of psql, of drivers and of tools into what it can.
//!
//! A tenant's session sees its own database, its own role and the roles that share its database, and no other tenant's name.

use crate::{context::StatementContext, system_relations};
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

/// A relation with its rows; `None` for a name that there is not, or not for this session.
///
/// # Errors
/// A fault of ours: rows that do not have the relation's columns.
pub fn relation(schema: &str, name: &str, statement: &Arc<StatementContext>) -> Result<Option<Arc<dyn TableProvider>>> {
    let Some(relation) = system_relations::all().find(|relation| relation.schema == schema && relation.name == name)
    else {
        return Ok(None);
    };
    let mut rows = columns::Rows::new(relation);
    match schema {
        "information_schema" => information::fill(&mut rows, statement),
        _ => {
            objects::fill(&mut rows, statement);
            cluster::fill(&mut rows, statement);
            store_stats::fill(&mut rows, statement);
            comments::fill(&mut rows, statement);
        }
    }
    views::fill(&mut rows, statement);
    let batch = rows.finish()?;
    Ok(Some(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?)))
}
