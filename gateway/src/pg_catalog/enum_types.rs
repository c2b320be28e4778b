//! Enumerated types: their rows of `pg_type`, `pg_enum`, `pg_description` and `pg_depend`.

use super::{
    columns::{Row, row},
    objects, rights,
};
use crate::context::StatementContext;
use keyspan_catalog::{Column, EnumType, Table};
use std::sync::Arc;

/// Set in the OID of a label, whose lower bits are the type's OID and the label's place.
const LABEL: u32 = 1 << 31;
/// The OIDs of `pg_type` and `pg_enum`, which `pg_description` and `pg_depend` name.
const PG_TYPE: u32 = 1247;

/// The types of the database.
fn all(statement: &StatementContext) -> impl Iterator<Item = &Arc<EnumType>> {
    statement.snapshot.private_of(statement.tenant.as_ref()).into_iter().flat_map(|own| own.enum_types.values())
}

/// The rows of `pg_type`.
pub(super) fn type_rows(statement: &StatementContext) -> Vec<Row> {
    let one = |of: &Arc<EnumType>| {
        row! {
            "oid" => of.id, "typname" => of.name.clone(), "typnamespace" => of.schema,
            "typowner" => rights::owner_of(statement, of.id), "typlen" => 4, "typbyval" => true, "typtype" => "e",
            "typcategory" => "E", "typispreferred" => false, "typisdefined" => true, "typdelim" => ",",
            "typinput" => "enum_in", "typoutput" => "enum_out", "typreceive" => "enum_recv",
            "typsend" => "enum_send", "typalign" => "i", "typstorage" => "p", "typtypmod" => -1,
        }
    };
    all(statement).map(one).collect()
}

/// The rows of `pg_enum`. A label's OID is that of its place, as `enumsortorder` is.
pub(super) fn label_rows(statement: &StatementContext) -> Vec<Row> {
    let of_type = |of: &Arc<EnumType>| {
        let one = |(label, at): (&String, u32)| {
            row! {
                "oid" => LABEL | (of.id << 10) | at, "enumtypid" => of.id, "enumsortorder" => f64::from(at),
                "enumlabel" => label.clone(),
            }
        };
        of.labels.iter().zip(1..).map(one).collect::<Vec<_>>()
    };
    all(statement).flat_map(of_type).collect()
}

/// The rows of `pg_description`.
pub(super) fn descriptions(statement: &StatementContext) -> Vec<Row> {
    let one = |of: &Arc<EnumType>| {
        let text = of.comment.clone()?;
        Some(row! { "objoid" => of.id, "classoid" => PG_TYPE, "objsubid" => 0, "description" => text })
    };
    all(statement).filter_map(one).collect()
}

/// A column depends on its type, of either kind of the tenant's own.
pub(super) fn dependency_rows(statement: &StatementContext) -> Vec<Row> {
    let of_table = |table: &Arc<Table>| {
        let one = |column: &Column| {
            let of = objects::own_type(column, statement)?;
            Some(row! {
                "classid" => 1_259_u32, "objid" => table.id.0, "objsubid" => column.id, "refclassid" => PG_TYPE,
                "refobjid" => of.id(), "refobjsubid" => 0_u16, "deptype" => "n",
            })
        };
        table.columns.iter().filter_map(one).collect::<Vec<_>>()
    };
    statement.tables().flat_map(of_table).collect()
}
