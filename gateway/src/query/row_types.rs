//! `json_populate_record` and its kin in FROM: rows of a document with the columns of a table.
//!
//! ```text
//! jsonb_populate_recordset(NULL::readings, d) AS r → jsonb_to_recordset(d) AS r(device text, at date)
//! ```
//!
//! PostgreSQL's function takes a row whose type has the columns, and whose values stand where a document has none. Here
//! it is NULL, as programs write it. Where an alias names the columns, a subquery keeps their names in the table, by
//! which the document is read.

use crate::{
    context::StatementContext,
    pg::{
        error::{Result, SqlError, SqlState},
        plan::type_planner,
        types,
    },
    provider,
    sql::names::table_name,
};
use datafusion::sql::sqlparser::ast::{
    self, DataType, Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, Query, SetExpr, TableAlias,
    TableAliasColumnDef, TableFactor, Value, VisitMut, VisitorMut,
};
use keyspan_catalog::Relation;
use std::ops::ControlFlow;

/// The functions, each with the one that takes the columns in its alias.
const FUNCTIONS: [(&str, &str); 4] = [
    ("json_populate_record", "json_to_record"),
    ("json_populate_recordset", "json_to_recordset"),
    ("jsonb_populate_record", "jsonb_to_record"),
    ("jsonb_populate_recordset", "jsonb_to_recordset"),
];

/// Writes the calls out.
///
/// # Errors
/// 42704 for a table that there is not; 0A000 for another row than NULL of a table, and for a call that stands in no
/// FROM.
pub(super) fn expand(statement: &StatementContext, query: &mut ast::Statement) -> Result<()> {
    match VisitMut::visit(query, &mut Calls { statement }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(*error),
    }
}

struct Calls<'a> {
    statement: &'a StatementContext,
}

impl VisitorMut for Calls<'_> {
    type Break = Box<SqlError>;

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Box<SqlError>> {
        match self.written_out(factor) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(Box::new(error)),
        }
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Box<SqlError>> {
        match expr {
            Expr::Function(call) if other(&call.name).is_some() => {
                let error = SqlError::unsupported(format!("{} outside of FROM", call.name));
                ControlFlow::Break(Box::new(error.with_hint("SELECT … FROM the function, LATERAL where it has to.")))
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

impl Calls<'_> {
    fn written_out(&self, factor: &mut TableFactor) -> Result<()> {
        let (name, arguments, alias) = match factor {
            TableFactor::Table { name, args: Some(arguments), alias, .. } => (name, &mut arguments.args, alias),
            TableFactor::Function { name, args, alias, .. } => (name, args, alias),
            _ => return Ok(()),
        };
        let Some((called, other)) = other(name) else { return Ok(()) };
        let [FunctionArg::Unnamed(FunctionArgExpr::Expr(row)), _] = arguments.as_slice() else {
            let message = format!("function {called} takes a row and a document");
            return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message));
        };
        let columns = self.columns(row, called)?;
        arguments.remove(0);
        *name = ObjectName::from(vec![Ident::new(other)]);
        let mut named = alias.take();
        if let Some(named) = named.as_mut().filter(|named| !named.columns.is_empty()) {
            // Columns that it does not name keep their names.
            let rest = columns.iter().skip(named.columns.len()).map(|column| column.name.clone());
            named.columns.extend(rest.map(|name| TableAliasColumnDef { name, data_type: None }).collect::<Vec<_>>());
        }
        let own = named.as_ref().map_or_else(|| Ident::new(called), |alias| alias.name.clone());
        *alias = Some(TableAlias { explicit: true, name: own, columns, at: None });
        if let Some(named) = named.filter(|named| !named.columns.is_empty()) {
            let inner = std::mem::replace(factor, of_rows(&named)?);
            put(factor, inner);
        }
        Ok(())
    }

    /// The columns of the table whose row a NULL is cast to.
    fn columns(&self, row: &Expr, called: &str) -> Result<Vec<TableAliasColumnDef>> {
        let missing = |name: &str| SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type \"{name}\" does not exist"));
        let table = match row {
            Expr::Cast { expr, data_type: DataType::Custom(name, _), .. } if is_null(expr) => table_name(name)?,
            _ => {
                return Err(SqlError::unsupported(format!("{called} of another row than NULL of a table's type"))
                    .with_hint(format!("Say {called}(NULL::table, document).")));
            }
        };
        let statement = self.statement;
        let tenant = statement.tenant.as_ref();
        let found = crate::lookup::find(&statement.snapshot, tenant, &statement.path, &table);
        let table = match found {
            Some((_, Relation::Table(table))) => table,
            Some((_, Relation::View(_))) => return Err(SqlError::unsupported(format!("{called} of a view's row"))),
            None => return Err(missing(&table.name)),
        };
        let enumerated = |name: &str| table.columns.iter().find(|column| column.name == name)?.enumerated.as_deref();
        let column = |field: &arrow::datatypes::FieldRef| {
            let data_type = match enumerated(field.name()) {
                Some(of) => type_planner::enumerated(of),
                None => type_planner::written(types::sql_type(field).ok_or_else(|| missing(field.name()))?)?,
            };
            Ok(TableAliasColumnDef { name: Ident::with_quote('"', field.name()), data_type: Some(data_type) })
        };
        provider::schema_of(table, tenant.is_none()).fields().iter().map(column).collect()
    }
}

/// The function by its name, and the one that takes its columns in its alias.
fn other(name: &ObjectName) -> Option<(&'static str, &'static str)> {
    let last = name.0.last()?.as_ident()?;
    FUNCTIONS.into_iter().find(|(of, _)| last.value.eq_ignore_ascii_case(of))
}

fn is_null(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_null(inner),
        Expr::Value(value) => value.value == Value::Null,
        _ => false,
    }
}

/// `LATERAL (SELECT * FROM …) AS alias`, whose relation is to be put there.
fn of_rows(alias: &TableAlias) -> Result<TableFactor> {
    let parsed = crate::pg::syntax::dialect::parse_text("SELECT * FROM t", |parser| parser.parse_query());
    let subquery = parsed.map_err(|error| SqlError::new(SqlState::INTERNAL_ERROR, error.to_string()))?;
    Ok(TableFactor::Derived { lateral: true, subquery, alias: Some(alias.clone()), sample: None })
}

fn put(derived: &mut TableFactor, relation: TableFactor) {
    if let TableFactor::Derived { subquery, .. } = derived
        && let Query { body, .. } = subquery.as_mut()
        && let SetExpr::Select(select) = body.as_mut()
        && let [from] = select.from.as_mut_slice()
    {
        from.relation = relation;
    }
}
