//! `pg_catalog`, `information_schema` and `keyspan`: what clients ask PostgreSQL about itself, answered live from the
//! statement's snapshot.
//!
//! [`relation`] makes a relation when a statement names it: its columns stand in [`system_relations`], and [`ROWS`]
//! lists the functions that give its rows: of [`objects`] (tables, columns, keys, types), [`views`], [`comments`],
//! [`cluster`] (databases, roles, settings, sessions), [`shares`] (tenants, their quotas and usage), [`tables`]
//! (families, rules and places of columns), [`store_stats`] (the inside of the store), [`heat`] (which keys are hot)
//! and [`information`] (`information_schema`); [`sizes`] says how large tables and databases are. A relation that
//! PostgreSQL has and that has no rows here is empty. [`extension`] says what
//! `pg_dump` passes over. [`create`] writes the statements that make relations again. [`functions`] and [`acl`] hold
//! the functions that know the session or the catalog; [`rewrite`] and [`system_columns`] turn what DataFusion cannot
//! plan in the queries of psql, of drivers and of tools into what it can.
//!
//! A tenant's session sees its own database, its own role and the roles that share its database, and no other tenant's
//! name.

use crate::{
    context::StatementContext,
    pg::names::{INFORMATION_SCHEMA, KEYSPAN, PG_CATALOG},
    pg_catalog::columns::Row,
    system_relations,
};
use datafusion::{catalog::TableProvider, datasource::MemTable, error::Result};
use std::sync::Arc;

pub mod acl;
pub(crate) mod advice;
mod advisory_locks;
pub mod cluster;
pub mod columns;
pub mod comments;
pub mod create;
mod domains;
mod enum_types;
mod extension;
pub mod functions;
mod heat;
pub mod information;
mod information_functions;
pub mod keywords;
pub(crate) mod named_arguments;
mod notifications;
pub mod objects;
mod oid_casts;
mod operators;
mod options;
mod procs;
mod protobuf;
pub mod rewrite;
pub mod rights;
mod row_function;
pub mod sequences;
mod servers;
pub mod shares;
mod signals;
mod sizes;
mod statistics;
pub mod store_stats;
pub mod system_columns;
pub mod tables;
mod time_zones;
pub mod type_of;
pub mod views;

#[cfg(test)]
mod tests;

/// Gives rows of a relation.
type RowsOf = fn(&StatementContext) -> Vec<Row>;

/// The relations that have rows: schema, name, and the functions that give them.
const ROWS: &[(&str, &str, &[RowsOf])] = &[
    (PG_CATALOG, "pg_aggregate", &[procs::aggregates]),
    (PG_CATALOG, "pg_am", &[objects::access_methods]),
    (PG_CATALOG, "pg_attrdef", &[objects::defaults]),
    (PG_CATALOG, "pg_attribute", &[objects::attribute_rows, views::attribute_rows]),
    (PG_CATALOG, "pg_auth_members", &[rights::members]),
    (PG_CATALOG, "pg_authid", &[cluster::authid_rows]),
    (PG_CATALOG, "pg_cast", &[operators::casts]),
    (PG_CATALOG, "pg_class", &[objects::classes, views::classes]),
    (PG_CATALOG, "pg_collation", &[objects::collations]),
    (PG_CATALOG, "pg_constraint", &[objects::constraints, domains::constraint_rows]),
    (PG_CATALOG, "pg_cursors", &[cluster::cursors]),
    (PG_CATALOG, "pg_database", &[cluster::databases_rows]),
    (PG_CATALOG, "pg_db_role_setting", &[cluster::setting_defaults]),
    (PG_CATALOG, "pg_default_acl", &[rights::defaults]),
    (
        PG_CATALOG,
        "pg_depend",
        &[
            objects::dependencies,
            views::dependency_rows,
            extension::dependencies,
            enum_types::dependency_rows,
            domains::dependency_rows,
        ],
    ),
    (PG_CATALOG, "pg_description", &[comments::descriptions, enum_types::descriptions, domains::descriptions]),
    (PG_CATALOG, "pg_enum", &[enum_types::label_rows]),
    (PG_CATALOG, "pg_extension", &[extension::extensions]),
    (PG_CATALOG, "pg_foreign_data_wrapper", &[servers::wrappers]),
    (PG_CATALOG, "pg_foreign_server", &[servers::servers]),
    (PG_CATALOG, "pg_foreign_table", &[servers::tables]),
    (PG_CATALOG, "pg_index", &[objects::indexes]),
    (PG_CATALOG, "pg_indexes", &[objects::index_definitions]),
    (PG_CATALOG, "pg_init_privs", &[extension::initial_privileges]),
    (PG_CATALOG, "pg_language", &[cluster::languages]),
    (PG_CATALOG, "pg_locks", &[advisory_locks::rows]),
    (PG_CATALOG, "pg_matviews", &[views::materialized]),
    (PG_CATALOG, "pg_namespace", &[objects::schemas]),
    (PG_CATALOG, "pg_opclass", &[operators::classes]),
    (PG_CATALOG, "pg_operator", &[operators::operators]),
    (PG_CATALOG, "pg_opfamily", &[operators::families]),
    (PG_CATALOG, "pg_prepared_statements", &[cluster::prepared_statements]),
    (PG_CATALOG, "pg_proc", &[procs::rows]),
    (PG_CATALOG, "pg_rewrite", &[views::rules]),
    (PG_CATALOG, "pg_roles", &[cluster::roles_rows]),
    (PG_CATALOG, "pg_sequence", &[objects::sequence_rows]),
    (PG_CATALOG, "pg_sequences", &[sequences::rows]),
    (PG_CATALOG, "pg_settings", &[cluster::settings]),
    (PG_CATALOG, "pg_shdescription", &[comments::shared_descriptions]),
    (PG_CATALOG, "pg_stat_activity", &[cluster::activities]),
    (PG_CATALOG, "pg_stat_all_indexes", &[statistics::indexes]),
    (PG_CATALOG, "pg_stat_all_tables", &[statistics::tables]),
    (PG_CATALOG, "pg_stat_archiver", &[statistics::archiver]),
    (PG_CATALOG, "pg_stat_bgwriter", &[statistics::background_writer]),
    (PG_CATALOG, "pg_stat_database", &[statistics::databases]),
    (PG_CATALOG, "pg_stat_database_conflicts", &[statistics::conflicts]),
    (PG_CATALOG, "pg_stat_gssapi", &[cluster::gssapi]),
    (PG_CATALOG, "pg_stat_progress_copy", &[statistics::copies]),
    (PG_CATALOG, "pg_stat_statements", &[statistics::statements]),
    (PG_CATALOG, "pg_stat_statements_info", &[statistics::statements_info]),
    (PG_CATALOG, "pg_stat_user_indexes", &[statistics::indexes]),
    (PG_CATALOG, "pg_stat_user_tables", &[statistics::tables]),
    (PG_CATALOG, "pg_statio_all_indexes", &[statistics::index_blocks]),
    (PG_CATALOG, "pg_statio_all_tables", &[statistics::blocks]),
    (PG_CATALOG, "pg_statio_user_indexes", &[statistics::index_blocks]),
    (PG_CATALOG, "pg_statio_user_tables", &[statistics::blocks]),
    (PG_CATALOG, "pg_tables", &[objects::table_names]),
    (PG_CATALOG, "pg_tablespace", &[cluster::tablespaces]),
    (PG_CATALOG, "pg_timezone_abbrevs", &[time_zones::abbreviations]),
    (PG_CATALOG, "pg_timezone_names", &[time_zones::names]),
    (PG_CATALOG, "pg_type", &[objects::type_rows, views::type_rows, enum_types::type_rows, domains::type_rows]),
    (PG_CATALOG, "pg_user", &[cluster::users]),
    (PG_CATALOG, "pg_views", &[views::definitions]),
    (INFORMATION_SCHEMA, "applicable_roles", &[rights::applicable_roles]),
    (INFORMATION_SCHEMA, "character_sets", &[information::character_sets]),
    (INFORMATION_SCHEMA, "check_constraints", &[information::check_constraints, domains::standard_checks]),
    (INFORMATION_SCHEMA, "column_domain_usage", &[domains::standard_usage]),
    (INFORMATION_SCHEMA, "columns", &[information::columns, views::standard_columns]),
    (INFORMATION_SCHEMA, "constraint_column_usage", &[information::constraint_column_usage]),
    (INFORMATION_SCHEMA, "domain_constraints", &[domains::standard_constraints]),
    (INFORMATION_SCHEMA, "domains", &[domains::standard_domains]),
    (INFORMATION_SCHEMA, "enabled_roles", &[rights::enabled_roles]),
    (INFORMATION_SCHEMA, "information_schema_catalog_name", &[information::catalog_name]),
    (INFORMATION_SCHEMA, "key_column_usage", &[information::key_column_usage]),
    (INFORMATION_SCHEMA, "role_table_grants", &[rights::role_table_grants]),
    (INFORMATION_SCHEMA, "schemata", &[information::schemata]),
    (INFORMATION_SCHEMA, "sequences", &[information::sequences]),
    (INFORMATION_SCHEMA, "table_constraints", &[information::table_constraints]),
    (INFORMATION_SCHEMA, "table_privileges", &[rights::table_privileges]),
    (INFORMATION_SCHEMA, "tables", &[information::tables, views::standard_tables]),
    (INFORMATION_SCHEMA, "view_column_usage", &[views::column_usage]),
    (INFORMATION_SCHEMA, "view_table_usage", &[views::table_usage]),
    (INFORMATION_SCHEMA, "views", &[views::standard_views]),
    (KEYSPAN, "advice", &[advice::rows]),
    (KEYSPAN, "clock", &[store_stats::clock]),
    (KEYSPAN, "columns", &[tables::columns]),
    (KEYSPAN, "compactions", &[store_stats::compactions]),
    (KEYSPAN, "drops", &[objects::drops]),
    (KEYSPAN, "erasures", &[objects::erasures]),
    (KEYSPAN, "families", &[tables::families]),
    (KEYSPAN, "heat", &[heat::rows]),
    (KEYSPAN, "memory", &[store_stats::memory]),
    (KEYSPAN, "object_store", &[store_stats::object_store]),
    (KEYSPAN, "proto_messages", &[protobuf::messages]),
    (KEYSPAN, "segments", &[store_stats::segments]),
    (KEYSPAN, "slow_statements", &[statistics::slow]),
    (KEYSPAN, "tables", &[tables::tables]),
    (KEYSPAN, "tablets", &[store_stats::tablets]),
    (KEYSPAN, "tenants", &[shares::tenants]),
    (KEYSPAN, "usage", &[shares::usage]),
];

/// A relation with its rows; `None` for a name that there is not.
///
/// # Errors
/// A fault of ours: rows that do not have the relation's columns.
pub fn relation(schema: &str, name: &str, statement: &Arc<StatementContext>) -> Result<Option<Arc<dyn TableProvider>>> {
    let found = system_relations::find(schema, name);
    let Some(relation) = found.filter(|relation| system_relations::is_visible(relation, statement.operator)) else {
        return Ok(None);
    };
    let listed = ROWS.iter().find(|(of, named, _)| (*of, *named) == (schema, name));
    let rows: Vec<Row> = listed.iter().flat_map(|(_, _, gives)| *gives).flat_map(|gives| gives(statement)).collect();
    let batch = columns::batch(relation, &rows)?;
    Ok(Some(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?)))
}
