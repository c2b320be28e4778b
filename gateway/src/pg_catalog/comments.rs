//! What `COMMENT ON` has said, as functions and relations show it.

use super::{cluster, columns::Row, views};
use crate::pg_catalog::columns::row;
use crate::{
    context::StatementContext,
    lookup::OwnType,
    pg::functions::{RowFunction, int_of, text_of},
    pg_catalog::row_function::row_function,
};
use arrow::datatypes::DataType;
use datafusion::scalar::ScalarValue;
use keyspan_catalog::{Comments, TableId, rights::PUBLIC_SCHEMA};

/// The OIDs of `pg_class`, `pg_database` and `pg_namespace`.
const CLASSES: (u32, u32, u32) = (1259, 1262, 2615);
/// The comment of the schema `public` in a new database of PostgreSQL: `pg_dump` leaves out the one that it knows.
const OF_PUBLIC: &str = "standard public schema";

/// The comments of a relation, and by how much its columns are numbered higher than there.
fn of_relation(statement: &StatementContext, oid: u32) -> Option<(&Comments, u16)> {
    let of_table = statement.table_of(TableId(oid)).map(|table| (&table.comments, u16::from(statement.operator)));
    of_table.or_else(|| views::all(statement).find(|view| view.id == oid).map(|view| (&view.comments, 0)))
}

/// The comments of schemas that users created, by OID.
fn of_schemas(statement: &StatementContext) -> impl Iterator<Item = (u32, &str)> {
    let own = statement.snapshot.private_of(statement.tenant.as_ref()).into_iter().flat_map(|own| own.schemas.values());
    own.filter_map(|schema| Some((schema.id, schema.comment.as_deref()?)))
}

fn of_database(statement: &StatementContext, oid: u32) -> Option<&str> {
    let seen = cluster::databases(statement).into_iter().any(|(number, _)| number == oid);
    let tenant = statement.snapshot.tenants.values().find(|tenant| tenant.oid == oid).filter(|_| seen);
    tenant.and_then(|tenant| tenant.comment.as_deref())
}

/// The rows of `pg_description`.
pub fn descriptions(statement: &StatementContext) -> Vec<Row> {
    let tables = statement.tables().map(|table| table.id.0).chain(views::all(statement).map(|view| view.id));
    let schemas = of_schemas(statement).chain([(PUBLIC_SCHEMA, OF_PUBLIC)]).map(|(oid, text)| {
        row! { "objoid" => oid, "classoid" => CLASSES.2, "objsubid" => 0, "description" => text.to_owned() }
    });
    tables.flat_map(|oid| described(statement, oid)).chain(schemas).collect()
}

/// The rows of `pg_shdescription`.
pub fn shared_descriptions(statement: &StatementContext) -> Vec<Row> {
    let one = |(oid, _)| {
        let text = of_database(statement, oid)?.to_owned();
        Some(row! { "objoid" => oid, "classoid" => CLASSES.1, "description" => text })
    };
    cluster::databases(statement).into_iter().filter_map(one).collect()
}

fn described(statement: &StatementContext, oid: u32) -> Vec<Row> {
    let Some((comments, shift)) = of_relation(statement, oid) else { return Vec::new() };
    let whole = comments.relation.iter().map(|text| (0, text));
    let columns = comments.columns.iter().map(|(number, text)| (number + shift, text));
    let one = |(number, text): (u16, &String)| {
        row! {
            "objoid" => oid, "classoid" => CLASSES.0, "objsubid" => number, "description" => text.clone(),
        }
    };
    whole.chain(columns).map(one).collect()
}

/// The functions.
pub fn functions() -> Vec<RowFunction> {
    vec![
        row_function("obj_description", 1..=2, DataType::Utf8View, |values, statement| {
            let catalog = values.get(1).and_then(text_of);
            if catalog.as_deref() == Some("pg_namespace") {
                let mut all = of_schemas(statement).chain([(PUBLIC_SCHEMA, OF_PUBLIC)]);
                return Ok(text_value(all.find(|(number, _)| oid(&values[0]) == Some(*number)).map(|(_, text)| text)));
            }
            if catalog.as_deref() == Some("pg_type") {
                let of = oid(&values[0]).and_then(|oid| statement.type_names().of_oid(oid));
                return Ok(text_value(of.as_ref().and_then(OwnType::comment)));
            }
            // Nothing of another catalog has one.
            let of_class = catalog.is_none_or(|catalog| catalog == "pg_class");
            let found = oid(&values[0]).filter(|_| of_class).and_then(|oid| of_relation(statement, oid));
            Ok(text_value(found.and_then(|(comments, _)| comments.get(None))))
        }),
        row_function("col_description", 2..=2, DataType::Utf8View, |values, statement| {
            let found = oid(&values[0]).and_then(|oid| of_relation(statement, oid));
            let number = int_of(&values[1]).and_then(|number| u16::try_from(number).ok());
            let found = found.zip(number).and_then(|((comments, shift), number)| {
                comments.get(Some(number.checked_sub(shift).filter(|number| *number > 0)?))
            });
            Ok(text_value(found))
        }),
        row_function("shobj_description", 2..=2, DataType::Utf8View, |values, statement| {
            let is_database = text_of(&values[1]).as_deref() == Some("pg_database");
            let found = oid(&values[0]).filter(|_| is_database).and_then(|oid| of_database(statement, oid));
            Ok(text_value(found))
        }),
    ]
}

fn oid(value: &ScalarValue) -> Option<u32> {
    int_of(value).and_then(|value| u32::try_from(value).ok())
}

fn text_value(text: Option<&str>) -> ScalarValue {
    ScalarValue::Utf8View(text.map(str::to_owned))
}
