//! `CREATE TABLE … AS` and `SELECT … INTO` in a tenant's database.
//!
//! ```text
//! plan the query → reserve a space → write its rows there, in parts → the edit that makes the table of that space
//! ```
//!
//! The edit makes table and rows visible at once; before it nobody sees either. In a transaction the edit is one of the
//! transaction's. What fails or is given up before it gives the space up, with what was written; a crash leaves a spare
//! space, which the next start deletes. Rows pass through in batches: nothing holds all of them. The query reads at one
//! pin, as any statement.

use crate::{
    ddl::{
        private::{change_in, check_create, check_on_commit, is_there, schema_oid, tenant, without_storage_parameters},
        table::pairs,
    },
    execute::Outcome,
    load::Load,
    pg::{
        error::{Result, SqlError, SqlState},
        names::{RelationName, Schema},
        types,
    },
    query::{Query, parameter_values::ParameterValues},
    session::{Reserved, Session},
    shield::shielded,
    sql::ast::{
        Statement,
        definition::{CreateTableAs, OnCommit},
        session::Modes,
    },
    view::View,
};
use arrow::datatypes::{self, Field};
use datafusion::logical_expr::LogicalPlan;
use futures::TryStreamExt;
use keyspan_catalog::{ColumnDefinition, PrivateEdit, SqlType, Table, TableDefinition, TableId};
use std::sync::Arc;

/// Makes a table with the rows of a query; gives the command tag.
///
/// # Errors
/// What is wrong with the query or its rows; 42P07; the store's. Nothing of the table is left then.
pub(super) async fn create_table_as(
    session: &mut Session,
    create: &CreateTableAs,
    parameters: ParameterValues,
) -> Result<String> {
    if session.identity.operator {
        return Err(SqlError::unsupported("CREATE TABLE AS in the operator's database")
            .with_hint("Create the table, with its key, and INSERT … SELECT into it."));
    }
    let rows = if create.on_commit == Some(OnCommit::DeleteRows) && create.with_data {
        Box::pin(emptied(session, create, parameters)).await?
    } else {
        create_and_fill(session, create, parameters).await?
    };
    Ok(match rows {
        Some(rows) if create.with_data => format!("SELECT {rows}"),
        _ => "CREATE TABLE AS".to_owned(),
    })
}

/// Makes a table whose rows last as long as the transaction: an empty one, and an INSERT, which are one transaction.
async fn emptied(session: &mut Session, create: &CreateTableAs, parameters: ParameterValues) -> Result<Option<u64>> {
    let alone = !session.in_transaction();
    if alone {
        session.begin(Modes::default());
    }
    let made = async {
        let empty = CreateTableAs { with_data: false, ..create.clone() };
        if create_and_fill(session, &empty, parameters.clone()).await?.is_none() {
            return Ok(None);
        }
        let name = RelationName::within(Schema::Temporary, create.name.name.as_str());
        let insert = Statement::insert_of(&name, &create.query)?;
        let prepared = session.prepare(insert, &[]).await?;
        let Outcome::Done(tag) = super::write::execute(session, &prepared, parameters).await? else { return Ok(None) };
        Ok(tag.rsplit(' ').next().and_then(|rows| rows.parse().ok()))
    };
    let made: Result<Option<u64>> = made.await;
    match &made {
        Ok(_) if alone => drop(session.commit().await?),
        Err(_) if alone => session.rollback(),
        _ => {}
    }
    made
}

/// Makes a table with the rows of a query, if it is to have any: their number; `None` when it is there already, and may
/// be.
async fn create_and_fill(
    session: &mut Session,
    create: &CreateTableAs,
    parameters: ParameterValues,
) -> Result<Option<u64>> {
    let owner = tenant(session)?.0;
    let view = session.view().await?;
    let place = session.place_of(&create.name)?;
    check_on_commit(&place, create.on_commit)?;
    if is_there(session, &place, &create.name) {
        if create.if_not_exists {
            session.skipped(&format!("relation \"{}\" already exists", create.name));
            return Ok(None);
        }
        let message = format!("relation \"{}\" already exists", create.name);
        return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
    }
    check_create(session, &place)?;
    let query = session.query(view.clone())?.with_parameters(&parameters);
    let plan = parameters.put(query.plan(&create.query).await?)?;
    let options = without_storage_parameters(session, &create.options);
    let columns = Query::columns(&plan).await;
    let definition = definition(&create.name, &create.columns, &columns)?;
    let definition = TableDefinition { options: pairs(&options), ..definition };
    let (reserved, number) = match place {
        Schema::Temporary => (None, shielded(session.reserve_temporary(1)).await?),
        _ => reserve(session).await?,
    };
    let made = async {
        let mut table = with_types(Table::define_private(TableId(number), &definition)?, &columns);
        table.schema = schema_oid(&view.snapshot, &owner, &place)?;
        let table = Arc::new(table);
        make(session, view, (&place, &table), create.with_data.then_some((query, plan))).await
    };
    let made = Box::pin(made).await;
    if place == Schema::Temporary {
        session.on_commit(&create.name, create.on_commit.filter(|_| made.is_ok()));
        session.temporary_settled();
    }
    settle(reserved, made).await.map(Some)
}

/// Writes the rows of a query, if there is one, and makes the table; gives their number.
async fn make(
    session: &mut Session,
    view: View,
    (place, table): (&Schema, &Arc<Table>),
    source: Option<(Query, LogicalPlan)>,
) -> Result<u64> {
    let rows = match source {
        Some((query, plan)) => fill(session, view, table, (&query, plan)).await?,
        None => 0,
    };
    let edit = || vec![PrivateEdit::CreateTable(Box::new(table.as_ref().clone()))];
    shielded(change_in(session, place, |_| Ok(edit()))).await?;
    Ok(rows)
}

/// Writes the rows of a query into the space of a table that nobody sees yet; gives their number.
///
/// # Errors
/// What is wrong with the query or its rows; the store's.
pub(super) async fn fill(
    session: &mut Session,
    view: View,
    table: &Arc<Table>,
    (query, plan): (&Query, LogicalPlan),
) -> Result<u64> {
    query.statement_context().authorize()?;
    let mut load = Load::filling(session, view, table.clone()).await?;
    let mut batches = query.run(plan).await?;
    let mut rows = 0;
    while let Some(batch) = batches.try_next().await.map_err(SqlError::from)? {
        for row in 0..batch.num_rows() {
            load.add(rows, load.assigned(&batch, row)?)?;
            rows += 1;
            if load.is_full() {
                load.write(session, false).await.map_err(|failed| failed.error)?;
            }
        }
    }
    load.write(session, true).await.map_err(|failed| failed.error)?;
    Ok(rows)
}

/// Reserves a space. A transaction gives up at its end what it has not used.
///
/// # Errors
/// The catalog's.
pub(super) async fn reserve(session: &mut Session) -> Result<(Option<Reserved>, u32)> {
    if session.in_transaction() {
        return Ok((None, shielded(session.reserve(1)).await?));
    }
    let (owner, oid) = tenant(session)?;
    let (reserved, number) = shielded(Reserved::new(session.instance.clone(), (&owner, oid), 1)).await?;
    Ok((Some(reserved), number))
}

/// Keeps a space that was used, or gives it up with what was written there.
///
/// # Errors
/// Those of what was made.
pub(super) async fn settle<T>(reserved: Option<Reserved>, made: Result<T>) -> Result<T> {
    match (reserved, &made) {
        (Some(reserved), Ok(_)) => reserved.used(),
        (Some(reserved), Err(_)) => shielded(reserved.give_up()).await,
        (None, _) => {}
    }
    made
}

/// The table that a query's columns make, with given names for the first of them.
///
/// # Errors
/// 42601 for more names than columns, 42701 for a name twice, 0A000 for a type that no column can have.
pub(super) fn definition(name: &str, given: &[String], columns: &datatypes::Schema) -> Result<TableDefinition> {
    let fields = columns.fields();
    if given.len() > fields.len() {
        return Err(SqlError::syntax("too many column names were specified"));
    }
    let mut definitions: Vec<ColumnDefinition> = Vec::with_capacity(fields.len());
    for (at, field) in fields.iter().enumerate() {
        let name = given.get(at).unwrap_or(field.name()).clone();
        if definitions.iter().any(|other| other.name == name) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        let kind = column_type(field).ok_or_else(|| {
            SqlError::unsupported(format!("a column of type {}", types::pg_type(field).name()))
                .with_detail(format!("Column \"{name}\" has it."))
                .with_hint("Cast it, for example to text.")
        })?;
        definitions.push(ColumnDefinition {
            name,
            kind,
            not_null: false,
            family: None,
            encoding: None,
            qualifier: None,
        });
    }
    Ok(TableDefinition {
        name: name.to_owned(),
        columns: definitions,
        primary_key: Vec::new(),
        families: Vec::new(),
        options: Vec::new(),
        remote: None,
    })
}

/// Gives the columns of a new table the enumerated types of the fields that they are made of.
pub(super) fn with_types(mut table: Table, columns: &datatypes::Schema) -> Table {
    for (column, field) in table.columns.iter_mut().zip(columns.fields()) {
        column.enumerated = types::enums::of(field).map(Arc::new);
    }
    table
}

/// The type of a column for values of a field; text for a field that is only ever NULL.
fn column_type(field: &Field) -> Option<SqlType> {
    if field.data_type().is_null() { Some(SqlType::Text) } else { types::sql_type(field) }
}
