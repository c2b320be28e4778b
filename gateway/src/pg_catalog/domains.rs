//! Domains: their rows of `pg_type`, `pg_constraint`, `pg_description`, `pg_depend` and `information_schema`.

use super::{
    columns::{Row, row},
    information,
    objects::{self, layout},
    rights,
};
use crate::{context::StatementContext, lookup::OwnType, pg::types};
use keyspan_catalog::{Column, Domain, DomainCheck, SqlType, Table};
use std::sync::Arc;

/// The OID of `pg_type`, which `pg_description` and `pg_depend` name.
const PG_TYPE: u32 = 1247;

/// The domains of the database.
fn all(statement: &StatementContext) -> impl Iterator<Item = &Arc<Domain>> {
    statement.snapshot.private_of(statement.tenant.as_ref()).into_iter().flat_map(|own| own.domains.values())
}

/// The OID of the type under a domain's values, which is none of a domain.
fn value_oid(domain: &Domain) -> u32 {
    domain.enumerated.unwrap_or_else(|| types::pg_type_of(domain.kind).oid())
}

fn default(domain: &Domain, statement: &StatementContext) -> Option<String> {
    let of = domain.enumerated.and_then(|of| match statement.type_names().of_oid(of) {
        Some(OwnType::Enum(of)) => Some(of),
        _ => None,
    });
    domain.default.as_ref().map(|default| objects::shown_default(default, of.as_ref(), statement))
}

/// The rows of `pg_type`.
pub(super) fn type_rows(statement: &StatementContext) -> Vec<Row> {
    let one = |domain: &Arc<Domain>| {
        let value = value_oid(domain);
        let (length, by_value, align, storage, collation) = layout(value);
        let words = objects::type_lines().find(|words| words[0].parse() == Ok(value));
        let word = |at: usize, other: &'static str| words.as_ref().map_or(other, |words| words[at]);
        let default = default(domain, statement);
        row! {
            "oid" => domain.id, "typname" => domain.name.clone(), "typnamespace" => domain.schema,
            "typowner" => rights::owner_of(statement, domain.id), "typlen" => length, "typbyval" => by_value,
            "typtype" => "d", "typcategory" => word(5, "E"), "typispreferred" => false, "typisdefined" => true,
            "typdelim" => ",", "typinput" => "domain_in", "typoutput" => word(10, "enum_out"),
            "typreceive" => "domain_recv", "typsend" => word(12, "enum_send"), "typalign" => align,
            "typstorage" => storage, "typnotnull" => domain.not_null, "typbasetype" => domain.over.unwrap_or(value),
            "typtypmod" => if domain.over.is_some() { -1 } else { types::type_modifier(domain.kind) },
            "typndims" => i64::from(matches!(domain.kind, SqlType::Array(_))), "typcollation" => collation,
            "typdefaultbin" => default.clone(), "typdefault" => default,
        }
    };
    all(statement).map(one).collect()
}

/// The conditions of domains with their OIDs.
fn checks(statement: &StatementContext) -> impl Iterator<Item = (u32, &Arc<Domain>, &DomainCheck)> {
    all(statement).flat_map(|domain| {
        let numbered = domain.checks.iter().zip(0_u16..);
        numbered.map(move |(check, number)| (objects::constraint_oid(domain.id, number), domain, check))
    })
}

/// The rows of `pg_constraint`.
pub(super) fn constraint_rows(statement: &StatementContext) -> Vec<Row> {
    let one = |(oid, domain, check): (u32, &Arc<Domain>, &DomainCheck)| {
        row! {
            "oid" => oid, "conname" => check.name.clone(), "connamespace" => domain.schema, "contype" => "c",
            "convalidated" => check.is_valid, "contypid" => domain.id, "conislocal" => true,
            "conbin" => statement.type_names().shown(check.sql.clone()),
        }
    };
    checks(statement).map(one).collect()
}

/// The condition with this OID, and whether it is validated.
pub(super) fn check_of_oid(statement: &StatementContext, oid: u32) -> Option<(&str, bool)> {
    checks(statement).find(|(number, ..)| *number == oid).map(|(_, _, check)| (check.sql.as_str(), check.is_valid))
}

/// The rows of `pg_description`.
pub(super) fn descriptions(statement: &StatementContext) -> Vec<Row> {
    let one = |domain: &Arc<Domain>| {
        let text = domain.comment.clone()?;
        Some(row! { "objoid" => domain.id, "classoid" => PG_TYPE, "objsubid" => 0, "description" => text })
    };
    all(statement).filter_map(one).collect()
}

/// A domain depends on what it is based on.
pub(super) fn dependency_rows(statement: &StatementContext) -> Vec<Row> {
    let on = |domain: &Arc<Domain>| {
        let below = domain.over.or(domain.enumerated)?;
        Some(row! {
            "classid" => PG_TYPE, "objid" => domain.id, "objsubid" => 0_u16, "refclassid" => PG_TYPE,
            "refobjid" => below, "refobjsubid" => 0_u16, "deptype" => "n",
        })
    };
    all(statement).filter_map(on).collect()
}

/// The name of a domain's schema.
fn schema_name(domain: &Domain, statement: &StatementContext) -> String {
    statement.snapshot.schema_name(statement.tenant.as_ref(), domain.schema).unwrap_or_default().to_owned()
}

/// The rows of `information_schema.domains`.
pub(super) fn standard_domains(statement: &StatementContext) -> Vec<Row> {
    let one = |domain: &Arc<Domain>| {
        let of = domain.over.or(domain.enumerated).and_then(|of| statement.type_names().of_oid(of));
        let mut row = information::of_type(statement, domain.kind, of.as_ref());
        row.extend(row! {
            "domain_catalog" => statement.database.clone(), "domain_schema" => schema_name(domain, statement),
            "domain_name" => domain.name.clone(), "domain_default" => default(domain, statement),
            "dtd_identifier" => "1",
        });
        row
    };
    all(statement).map(one).collect()
}

/// The rows of `information_schema.domain_constraints`: as there, without NOT NULL.
pub(super) fn standard_constraints(statement: &StatementContext) -> Vec<Row> {
    let one = |(_, domain, check): (u32, &Arc<Domain>, &DomainCheck)| {
        let schema = schema_name(domain, statement);
        row! {
            "constraint_catalog" => statement.database.clone(), "constraint_schema" => schema.clone(),
            "constraint_name" => check.name.clone(), "domain_catalog" => statement.database.clone(),
            "domain_schema" => schema, "domain_name" => domain.name.clone(), "is_deferrable" => "NO",
            "initially_deferred" => "NO",
        }
    };
    checks(statement).map(one).collect()
}

/// The rows of `information_schema.check_constraints`.
pub(super) fn standard_checks(statement: &StatementContext) -> Vec<Row> {
    let one = |(_, domain, check): (u32, &Arc<Domain>, &DomainCheck)| {
        let sql = statement.type_names().shown(check.sql.clone());
        row! {
            "constraint_catalog" => statement.database.clone(), "constraint_schema" => schema_name(domain, statement),
            "constraint_name" => check.name.clone(), "check_clause" => format!("(({sql}))"),
        }
    };
    checks(statement).map(one).collect()
}

/// The rows of `information_schema.column_domain_usage`.
pub(super) fn standard_usage(statement: &StatementContext) -> Vec<Row> {
    let of_table = |table: &Arc<Table>| {
        let one = |column: &Column| {
            let Some(OwnType::Domain(domain)) = statement.type_names().of_oid(column.domain?.id) else { return None };
            Some(row! {
                "domain_catalog" => statement.database.clone(), "domain_schema" => schema_name(&domain, statement),
                "domain_name" => domain.name.clone(), "table_catalog" => statement.database.clone(),
                "table_schema" => information::schema_of(table, statement), "table_name" => table.name.clone(),
                "column_name" => column.name.clone(),
            })
        };
        table.columns.iter().filter_map(one).collect::<Vec<_>>()
    };
    statement.tables().flat_map(of_table).collect()
}
